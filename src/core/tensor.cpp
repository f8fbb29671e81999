#include "core/tensor.h"

#include <algorithm>

#include "core/status.h"

namespace pl {

Tensor::Tensor(TensorDesc desc, BufferRef buffer) : desc_(std::move(desc)), buffer_(std::move(buffer)) {
  require(desc_.size_bytes() <= buffer_->bytes() || desc_.elements() == 0, Code::shape, "tensor ", desc_.str(),
          ": needs ", desc_.size_bytes(), " bytes, but its storage has ", buffer_->bytes());
  hash_ = hash_mix(desc_.hash(), reinterpret_cast<uintptr_t>(&buffer_->device()));
}

TensorRef Tensor::allocate(Device& device, const TensorDesc& desc) {
  return std::make_shared<Tensor>(desc, device.allocate(desc.size_bytes()));
}

TensorRef Tensor::find_copy(const TensorDesc& desc, const Device& device) const {
  std::lock_guard<std::mutex> guard(copies_lock_);
  if (copies_version_ != buffer_->version()) return nullptr;
  for (const TensorRef& copy : copies_)
    if (&copy->device() == &device && same_memory(copy->desc(), desc)) return copy;
  return nullptr;
}

std::vector<TensorRef> Tensor::copies() const {
  std::lock_guard<std::mutex> guard(copies_lock_);
  if (copies_version_ != buffer_->version()) return {};
  return copies_;
}

void Tensor::add_copy(TensorRef copy) const {
  std::lock_guard<std::mutex> guard(copies_lock_);
  const uint64_t version = buffer_->version();
  if (copies_version_ != version) {
    copies_.clear();
    copies_version_ = version;
  }
  const bool known = std::any_of(copies_.begin(), copies_.end(), [&](const TensorRef& other) {
    return &other->device() == &copy->device() && same_memory(other->desc(), copy->desc());
  });
  if (!known) copies_.push_back(std::move(copy));
}

}  // namespace pl
