// StridedReaders: whether those that read a value would take it as a strided view on a device.
#pragma once

#include <vector>

#include "dispatch/context.h"
#include "graph/passes/rewriter.h"

namespace pl::passes {

class StridedReaders {
 public:
  StridedReaders(Rewriter& rewriter, Context& context, Device& device);

  // Whether a kernel of this device's takes the op's inputs as they lie.
  bool has_ways(const Op& op);
  // As an op is given it: where memory has addresses it begins where the view does.
  TensorDesc as_given(TensorDesc desc) const;
  // Whether all that read the value, `views` views behind it at most, take it as it lies here.
  bool take(ValueId value, const TensorDesc& view, int views);

 private:
  Rewriter& rewriter_;
  Context& context_;
  Device& device_;
  std::vector<std::vector<int32_t>> consumers_;
  std::vector<ValueId> outputs_;
};

}  // namespace pl::passes
