#include "dispatch/weight_copies.h"

#include <algorithm>

#include "dispatch/runner.h"
#include "dispatch/waiting_kernels.h"
#include "profile/profile.h"

namespace pl {

TensorRef WeightCopies::of(const TensorRef& tensor, const TensorDesc& wanted, const std::string& why) {
  if (TensorRef copy = tensor->find_copy(wanted, tensor->device())) return copy;
  {
    std::lock_guard<std::mutex> guard(lock_);
    if (tensor->is_outdated(wanted, tensor->device())) renew(tensor->device());
    if (TensorRef copy = tensor->find_copy(wanted, tensor->device())) return copy;  // made here or by another thread
  }
  TensorRef copy = runner_.convert(tensor, tensor->device(), wanted, "weights", why, true);
  if (!same_memory(tensor->desc(), wanted)) add(tensor, wanted, why);
  return copy;
}

void WeightCopies::add(const TensorRef& tensor, const TensorDesc& wanted, const std::string& why) {
  std::lock_guard<std::mutex> guard(lock_);
  drop_expired();
  for (const Kept& each : kept_)
    if (each.tensor.lock() == tensor && same_memory(each.wanted, wanted)) return;
  kept_.push_back({tensor, wanted, why, nullptr, nullptr, nullptr});
}

void WeightCopies::drop_expired() {
  kept_.erase(std::remove_if(kept_.begin(), kept_.end(), [](const Kept& each) { return each.tensor.expired(); }),
              kept_.end());
}

bool WeightCopies::can_join(Kept& kept, const TensorRef& tensor) {
  if (!kept.entry) {
    kept.entry = catalog_.reorder(tensor->desc(), kept.wanted, tensor->device());
    kept.way = &runner_.way_beside_others(*kept.entry);
    if (kept.way->candidate.together) kept.kernel = catalog_.kernel(*kept.entry, *kept.way);
  }
  return dynamic_cast<const Together*>(kept.kernel.get()) != nullptr;
}

void WeightCopies::renew(const Device& device) {
  drop_expired();
  WaitingKernels waiting(runner_, joined_);
  struct Made {
    TensorRef tensor, copy;
    uint64_t version;
  };
  std::vector<Made> made;
  for (Kept& each : kept_) {
    const TensorRef tensor = each.tensor.lock();
    if (!tensor || &tensor->device() != &device || !tensor->is_outdated(each.wanted, device)) continue;
    if (!can_join(each, tensor)) continue;
    const uint64_t version = tensor->buffer()->version();
    TensorRef copy = tensor->take_outdated(each.wanted, device);
    if (!copy) continue;
    // Nobody else holds it: it is written again where it lies.
    if (copy.use_count() > 1 || copy->buffer().use_count() > 1) copy = Tensor::allocate(tensor->device(), each.wanted);
    waiting.add({each.entry,
                 each.way,
                 each.kernel,
                 dynamic_cast<const Together*>(each.kernel.get()),
                 {tensor->buffer()},
                 {copy->buffer()},
                 "reorder",
                 "weights",
                 profile_.active() ? each.why : std::string()});
    catalog_.touch(*each.entry);
    made.push_back({tensor, std::move(copy), version});
  }
  waiting.start();
  for (Made& each : made) each.tensor->add_copy(std::move(each.copy), each.version);
}

void WeightCopies::forget() {
  std::vector<Kept> gone;
  std::lock_guard<std::mutex> guard(lock_);
  gone.swap(kept_);
}

}  // namespace pl
