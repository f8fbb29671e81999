// Memory of the caller, lent to the library: when to say that it is no longer used.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "core/tensor.h"

namespace pl::abi {

// Ends with the last reference, calling `ended`, but only if it has begun: a call that fails half-way leaves the
// memory with the caller and must not call back.
class Lease {
 public:
  explicit Lease(std::function<void()> ended) : ended_(std::move(ended)) {}
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() {
    if (begun_) ended_();
  }
  void begin() noexcept { begun_ = true; }

 private:
  std::function<void()> ended_;
  bool begun_ = false;
};

// A tensor over host memory that `lease` (may be null) stands for.
inline TensorRef borrow_host(Device& cpu, const TensorDesc& desc, void* data, size_t bytes,
                             const std::shared_ptr<Lease>& lease) {
  auto block = std::make_unique<Block>();
  block->host = data;
  block->bytes = bytes;
  std::function<void()> keep;
  if (lease) keep = [lease] {};  // the copy inside the buffer is the reference that counts
  return std::make_shared<Tensor>(desc, std::make_shared<Buffer>(cpu.shared_from_this(), std::move(block), keep));
}

}  // namespace pl::abi
