// What the passes fuse_post_ops and fuse_longer_post_ops share: functions of an op's result, and sums and products of
// it and another tensor, become post-ops of that op.
#pragma once

#include <functional>
#include <vector>

#include "graph/passes/rewriter.h"

namespace pl::passes {

// Node `index` as steps behind those of node `before`, which makes one of its operands.
struct Fused {
  int before = -1;
  PostOps steps;
  std::vector<ValueId> inputs;  // of node `before`, with what the steps read
};

// Whether it may be done.
using Judge = std::function<bool(Rewriter& rewriter, size_t index, const Fused& fused)>;

// The post-ops of node `before` then.
PostOps list_of(const Rewriter& rewriter, const Fused& fused);

// Whether the fast implementations of all providers take the list: an input that is added, then a function that they
// apply to results that they hold in registers.  Others would leave a convolution to a slow implementation.
bool are_fast(const PostOps& list);

// Fuses what may be; returns how often.
int fuse_post_ops(Graph& graph, const Judge& may);

}  // namespace pl::passes
