#include "graph/passes/strided_readers.h"

#include <algorithm>

#include "dispatch/catalog.h"

namespace pl::passes {

StridedReaders::StridedReaders(Rewriter& rewriter, Context& context, Device& device)
    : rewriter_(rewriter), context_(context), device_(device), consumers_(rewriter.graph().consumers()) {
  for (const GraphOutput& output : rewriter.graph().outputs()) outputs_.push_back(output.value);
}

bool StridedReaders::has_ways(const Op& op) {
  const EntryRef entry = context_.catalog().strided(op, device_, 0);
  return std::any_of(entry->ways.begin(), entry->ways.end(), [](const Way& way) { return way.usable; });
}

TensorDesc StridedReaders::as_given(TensorDesc desc) const {
  if (device_.traits().host_addressable) desc.offset = 0;
  return desc;
}

bool StridedReaders::take(ValueId value, const TensorDesc& view, int views) {
  if (std::find(outputs_.begin(), outputs_.end(), value) != outputs_.end()) return false;
  const bool dense = as_given(view).is_dense();
  for (int32_t user : consumers_[size_t(value)]) {
    if (!rewriter_.live(size_t(user))) continue;
    const Node& node = rewriter_.node(size_t(user));
    Op op = rewriter_.op(size_t(user));
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      if (rewriter_.input(node, k) != value) continue;
      if (op.schema->view) {
        op.inputs[0] = view;
        const auto seen = op.schema->view(op);
        if (!seen || views == 0 || node.outputs.size() != 1 || !take(node.outputs[0], (*seen)[0], views - 1))
          return false;
      } else {
        op.inputs[k] = as_given(view);
        if (!dense && !has_ways(op)) return false;
        op.inputs[k] = rewriter_.desc(value);
      }
    }
  }
  return true;
}

}  // namespace pl::passes
