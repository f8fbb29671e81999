// Patterns: what a node is, asked of the rules that its schema states (ops/rules.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/numbers.h"
#include "graph/named_ops.h"
#include "graph/passes/rewriter.h"

namespace pl::passes {

using Operation = Algebra::Operation;
using Is = bool (*)(const Node& node);  // what a pattern asks of a node

// What an elementwise node of two inputs is to algebra, before its post-ops.
const Algebra& algebra_of(const Node& node);
inline Operation operation_of(const Node& node) { return algebra_of(node).operation; }

bool applies_function(const Node& node);  // of one argument
bool is_concat(const Node& node);
bool is_slice(const Node& node);
bool is_split(const Node& node);
bool is_repeat(const Node& node);   // expand
bool is_reshape(const Node& node);  // elements keep their order
bool is_permute(const Node& node);
bool is_matrix_product(const Node& node);  // of two tensors: matmul
bool is_linear(const Node& node);          // rows by one matrix of weights
bool normalises_rows(const Node& node);

// Whether a node computes this function of one argument: "relu".
bool computes(const Rewriter& rewriter, size_t index, std::string_view function);

// Whether a node is this operation and nothing was fused into it.
bool is_bare(const Rewriter& rewriter, size_t index, Operation operation);

// The node that makes a value, if it is this operation and nothing was fused into it, computes this function of one
// argument, or is what is asked for; else null.
const Node* made_by(const Rewriter& rewriter, ValueId id, Operation operation);
const Node* made_by(const Rewriter& rewriter, ValueId id, std::string_view function);
const Node* made_by(const Rewriter& rewriter, ValueId id, Is is);

// What `id` repeats, if it is an expand of something.
ValueId without_repeats(Rewriter& rewriter, ValueId id);

// The same where the value is used once only; the node's index, or -1.
int sole_maker(const Rewriter& rewriter, ValueId id, Operation operation);
int sole_maker(const Rewriter& rewriter, ValueId id, std::string_view function);
int sole_maker(const Rewriter& rewriter, ValueId id, Is is);

// Functions of one argument that a value is made by, the last one behind, and the node `made` before them, whose result
// nothing else reads; -1: none.
struct Functions {
  PostOps list;
  int made = -1;
};
Functions functions_before(Rewriter& rewriter, ValueId id);

// The range that a function limits its argument to, if it does only that.
std::optional<std::pair<double, double>> range_of(const PostOp& function);

// A border of one value around a tensor, used once only.
struct Border {
  ValueId x = kNoValue;
  std::vector<int64_t> begins, ends;  // by dimension; negative ones cut
  double value = 0;
};
std::optional<Border> border_of(Rewriter& rewriter, ValueId id);

}  // namespace pl::passes
