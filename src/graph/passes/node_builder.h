// What passes need that put other ops in the place of one that a device has no kernel for.
#pragma once

#include <string>
#include <vector>

#include "dispatch/catalog.h"
#include "dispatch/context.h"
#include "graph/passes/rewriter.h"
#include "ops/gradient.h"

namespace pl::passes {

// Builds ops before a node, under its name.
class NodeBuilder final : public Builder {
 public:
  NodeBuilder(Rewriter& rewriter, size_t before)
      : rewriter_(rewriter), before_(before), name_(rewriter.node(before).name) {}
  const TensorDesc& desc(Value value) const override { return rewriter_.desc(value); }
  std::vector<Value> add(const std::string& op, const Attributes& attributes,
                         const std::vector<Value>& inputs) override {
    return rewriter_.insert_all(before_, op, attributes, inputs, name_);
  }

 private:
  Rewriter& rewriter_;
  size_t before_;
  std::string name_;
};

inline bool has_kernel(Context& context, Device& device, const Op& op) {
  return !context.catalog().entry(op, device)->ways.empty();
}

}  // namespace pl::passes
