#include "providers/provider.h"

#include <algorithm>

namespace pl {
namespace {

std::map<std::string, ProviderFactory>& factories() {
  static std::map<std::string, ProviderFactory> table;
  return table;
}

}  // namespace

void register_provider(std::string name, ProviderFactory factory) {
  require(factories().emplace(name, std::move(factory)).second, Code::internal, "provider ", name,
          ": registered twice");
}

std::vector<std::string> provider_names() {
  std::vector<std::string> names;
  for (const auto& entry : factories()) names.push_back(entry.first);
  return names;
}

std::vector<std::unique_ptr<Provider>> make_providers(const std::set<std::string>& without) {
  std::vector<std::unique_ptr<Provider>> providers;
  for (const auto& entry : factories())
    if (!without.count(entry.first)) providers.push_back(entry.second());
  return providers;
}

const Packing* Candidate::packing_of(int input) const {
  for (const Packing& packing : packings)
    if (packing.input == input) return &packing;
  return nullptr;
}

std::vector<BufferRef> pack_inputs(Device& device, const Candidate& candidate, std::vector<Buffer*>& inputs) {
  std::vector<BufferRef> owners;
  for (const Packing& packing : candidate.packings) {
    Buffer*& input = inputs[size_t(packing.input)];
    if (!input) continue;
    owners.push_back(device.allocate(packing.bytes));
    packing.pack(*input, *owners.back());
    input = owners.back().get();
  }
  return owners;
}

std::string Candidate::key() const {
  const auto describe = [](const TensorDesc& desc) {
    if (!desc.present) return std::string("-");
    std::string text = desc.layout.generic_str();
    if (!desc.is_dense())
      for (int64_t stride : desc.strides) text += "s" + std::to_string(stride);
    return text;
  };
  std::string text = provider + "/" + implementation + "/";
  for (size_t i = 0; i < inputs.size(); ++i) text += (i ? "," : "") + describe(inputs[i]);
  text += ">";
  for (size_t i = 0; i < outputs.size(); ++i) text += (i ? "," : "") + describe(outputs[i]);
  return text;
}

std::vector<Layout> layouts_to_try(const Op& op, const TensorDesc& activation) {
  std::vector<Layout> layouts;
  const int rank = activation.rank();
  const auto add = [&](const Layout& layout) {
    if (std::find(layouts.begin(), layouts.end(), layout) == layouts.end()) layouts.push_back(layout);
  };
  add(Layout::plain(rank));
  if (rank >= 3) {
    add(Layout::channels_last(rank));
    for (int block : {16, 8})
      if (activation.shape[1] * 2 >= block) add(Layout::channels_blocked(rank, block));
  }
  for (const TensorDesc& input : op.inputs)
    if (input.present && input.rank() == rank) add(input.layout);
  return layouts;
}

}  // namespace pl
