#include "providers/provider.h"

#include <algorithm>
#include <mutex>

namespace pl {
namespace {

std::map<std::string, ProviderFactory>& factories() {
  static std::map<std::string, ProviderFactory> table;
  return table;
}

std::string layout_of(const TensorDesc& desc, bool strides) {
  if (!desc.present) return "-";
  std::string text = desc.layout.generic_str();
  if (strides && !desc.is_dense())
    for (int64_t stride : desc.strides) text += "s" + std::to_string(stride);
  return text;
}

std::string key_of(const Candidate& candidate, bool strides) {
  std::string text = candidate.provider + "/" + candidate.implementation + "/";
  const auto add = [&](const std::vector<TensorDesc>& tensors) {
    for (size_t i = 0; i < tensors.size(); ++i) text += (i ? "," : "") + layout_of(tensors[i], strides);
  };
  add(candidate.inputs);
  text += ">";
  add(candidate.outputs);
  return text;
}

}  // namespace

Candidate::Candidate() = default;
Candidate::~Candidate() = default;
Candidate::Candidate(const Candidate& other) = default;
Candidate::Candidate(Candidate&& other) noexcept = default;
Candidate& Candidate::operator=(const Candidate& other) = default;
Candidate& Candidate::operator=(Candidate&& other) noexcept = default;

CandidateList::CandidateList() = default;
CandidateList::~CandidateList() = default;
CandidateList::CandidateList(CandidateList&& other) noexcept = default;
CandidateList& CandidateList::operator=(CandidateList&& other) noexcept = default;
void CandidateList::add(Candidate candidate) { candidates.push_back(std::move(candidate)); }
void CandidateList::refuse(std::string provider, std::string reason) {
  refusals.push_back({std::move(provider), std::move(reason)});
}

bool FunctionTable::add(const char* name, Any function) { return entries_.emplace(name, function).second; }
FunctionTable::Any FunctionTable::find(const std::string& name) const {
  const auto it = entries_.find(name);
  return it == entries_.end() ? nullptr : it->second;
}

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

std::function<void(Buffer&, Buffer&)> packed_by(std::function<std::unique_ptr<Kernel>()> make) {
  struct Kept {
    std::mutex lock;
    std::shared_ptr<Kernel> kernel;
  };
  return [make = std::move(make), kept = std::make_shared<Kept>()](Buffer& source, Buffer& packed) {
    std::shared_ptr<Kernel> kernel;
    {
      std::lock_guard<std::mutex> guard(kept->lock);
      if (!kept->kernel) kept->kernel = make();
      kernel = kept->kernel;
    }
    Buffer* const inputs[] = {&source};
    Buffer* const outputs[] = {&packed};
    kernel->run({inputs, outputs, nullptr, true});
  };
}

std::string Candidate::key() const { return key_of(*this, true); }
std::string Candidate::dense_key() const { return key_of(*this, false); }

Wanted::Wanted(std::string key) : key_(std::move(key)) {
  const size_t first = key_.find('/'), last = key_.rfind('/'), results = key_.find('>', last);
  require(first < last && results != std::string::npos, Code::internal, "no key of a candidate: ", key_);
  provider_ = key_.substr(0, first);
  implementation_ = key_.substr(first + 1, last - first - 1);
  const auto split = [this](size_t begin, size_t end, std::vector<std::string>& list) {
    while (begin < end) {
      const size_t comma = std::min(key_.find(',', begin), end);
      list.push_back(key_.substr(begin, comma - begin));
      begin = comma + 1;
    }
  };
  split(last + 1, results, inputs_);
  split(results + 1, key_.size(), outputs_);
}

bool Wanted::takes(size_t input, const TensorDesc& desc) const {
  return input < inputs_.size() && inputs_[input] == layout_of(desc, false);
}

bool Wanted::gives(size_t output, const TensorDesc& desc) const {
  return output < outputs_.size() && outputs_[output] == layout_of(desc, false);
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
