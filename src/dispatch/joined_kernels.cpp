#include "dispatch/joined_kernels.h"

#include "core/status.h"

namespace pl {
namespace {

constexpr size_t kMost = 1024;  // a step of an optimizer has few

}  // namespace

std::shared_ptr<Kernel> JoinedKernels::of(const std::vector<std::shared_ptr<Kernel>>& kernels, const Sharing& shared) {
  std::lock_guard<std::mutex> guard(lock_);
  const auto found = made_.find({kernels, shared});
  if (found != made_.end()) return found->second;
  std::vector<const Together*> parts;
  for (const auto& kernel : kernels) {
    parts.push_back(dynamic_cast<const Together*>(kernel.get()));
    require(parts.back() != nullptr, Code::internal, "a kernel that runs alone is to run with others");
  }
  if (made_.size() >= kMost) made_.clear();
  std::shared_ptr<Kernel> made = parts[0]->together(parts, shared);
  made_[{kernels, shared}] = made;
  return made;
}

void JoinedKernels::forget() {
  decltype(made_) gone;
  std::lock_guard<std::mutex> guard(lock_);
  gone.swap(made_);
}

}  // namespace pl
