#include "dispatch/descriptions.h"

#include <algorithm>

namespace pl {
namespace {

std::string describe(const TensorDesc& desc) {
  if (!desc.present) return "-";
  std::string text{name_of(desc.dtype)};
  for (int i = 0; i < desc.rank(); ++i) text += (i ? 'x' : ':') + std::to_string(desc.shape[i]);
  if (!desc.layout.is_plain()) text += ":" + desc.layout.generic_str();
  if (!desc.is_dense()) {
    text += ":";
    for (int64_t stride : desc.strides) text += "s" + std::to_string(stride);
    text += "o" + std::to_string(desc.offset);
  }
  return text;
}

bool writes_strided_views(const Op& op) { return std::any_of(op.outputs.begin(), op.outputs.end(), is_strided_view); }

}  // namespace

bool is_strided_view(const TensorDesc& desc) { return desc.present && !desc.is_dense(); }

TensorDesc standardised(const TensorDesc& desc) {
  if (!desc.present) return desc;
  const Layout& layout = desc.layout;
  const int rank = desc.rank();
  const bool family = layout == Layout::channels_last(rank) || layout == Layout::channels_blocked(rank, 16) ||
                      layout == Layout::channels_blocked(rank, 8);
  return TensorDesc::dense(desc.dtype, desc.shape, family ? Layout::plain(rank) : layout);
}

// A reorder reads any tensor, so only its result counts.
bool has_strided_views(const Op& op) {
  return writes_strided_views(op) ||
         (!op.schema->relayouts && std::any_of(op.inputs.begin(), op.inputs.end(), is_strided_view));
}

bool suits_strided_views(const Op& op, const Candidate& candidate) {
  const auto suit = [](const std::vector<TensorDesc>& asked, const std::vector<TensorDesc>& given) {
    for (size_t i = 0; i < asked.size(); ++i)
      if (is_strided_view(asked[i]) ? !same_memory(asked[i], given[i]) : is_strided_view(given[i])) return false;
    return true;
  };
  return !candidate.reference && suit(op.inputs, candidate.inputs) && suit(op.outputs, candidate.outputs);
}

std::string describe(const Op& op) {
  std::string text = op.schema->name;
  for (const TensorDesc& desc : op.inputs) text += ' ' + describe(desc);
  if (writes_strided_views(op))
    for (const TensorDesc& desc : op.outputs) text += " >" + describe(desc);
  if (op.schema->products && op.math != Math::fp32) text += " math=tf32";
  return op.attributes.empty() ? text : text + " " + op.attributes.str();
}

}  // namespace pl
