// Tensor: a description and its storage, with the reordered copies made of it so far.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "core/desc.h"
#include "core/device.h"
#include "core/memory.h"

namespace pl {

class Tensor;
using TensorRef = std::shared_ptr<Tensor>;

class Tensor {
 public:
  // Throws if the buffer is smaller than the description needs.
  Tensor(TensorDesc desc, BufferRef buffer);
  static TensorRef allocate(Device& device, const TensorDesc& desc);  // contents undefined

  const TensorDesc& desc() const { return desc_; }
  const BufferRef& buffer() const { return buffer_; }
  Device& device() const { return buffer_->device(); }
  uint64_t hash() const { return hash_; }  // of desc and device

  // A copy of this tensor, as `desc` on `device`, made earlier and still valid (same storage version), or null.
  TensorRef find_copy(const TensorDesc& desc, const Device& device) const;
  // All valid copies, for the choice of the cheapest source.
  std::vector<TensorRef> copies() const;
  void add_copy(TensorRef copy) const;

  // What made this tensor: an opaque record of dispatch, for what its consumers teach about layouts.
  const std::shared_ptr<void>& origin() const { return origin_; }
  void set_origin(std::shared_ptr<void> origin) { origin_ = std::move(origin); }

 private:
  TensorDesc desc_;
  BufferRef buffer_;
  uint64_t hash_;
  std::shared_ptr<void> origin_;
  mutable std::mutex copies_lock_;
  mutable std::vector<TensorRef> copies_;
  mutable uint64_t copies_version_ = 0;
};

}  // namespace pl
