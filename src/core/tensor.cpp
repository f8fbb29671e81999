#include "core/tensor.h"

#include <algorithm>

#include "core/status.h"

namespace pl {

Tensor::Tensor(TensorDesc desc, BufferRef buffer) : desc_(std::move(desc)), buffer_(std::move(buffer)) {
  const size_t bytes = desc_.size_bytes();
  if (bytes > buffer_->bytes() && desc_.elements() != 0)  // not require(): its message would be built every time
    fail(Code::shape, "tensor ", desc_, ": needs ", bytes, " bytes, but its storage has ", buffer_->bytes());
  hash_ = hash_mix(desc_.hash(), reinterpret_cast<uintptr_t>(&buffer_->device()));
}

TensorRef Tensor::allocate(Device& device, const TensorDesc& desc) {
  return std::make_shared<Tensor>(desc, device.allocate(desc.size_bytes()));
}

TensorRef Tensor::find_copy(const TensorDesc& desc, const Device& device) const {
  std::lock_guard<std::mutex> guard(copies_lock_);
  if (copies_version_ != buffer_->version()) return nullptr;
  const auto copy = place_of(desc, device);
  if (copy == copies_.end()) return nullptr;
  copy->found = true;
  return copy->tensor;
}

std::vector<Tensor::Copy>::iterator Tensor::place_of(const TensorDesc& desc, const Device& device) const {
  for (size_t i = copies_.size(); i-- > 0;) {
    if (!copies_[i].is_changed()) continue;
    copies_hash_.fetch_sub(copies_[i].tensor->hash(), std::memory_order_relaxed);
    copies_.erase(copies_.begin() + long(i));
  }
  return std::find_if(copies_.begin(), copies_.end(), [&](const Copy& copy) {
    return &copy.tensor->device() == &device && same_memory(copy.tensor->desc(), desc);
  });
}

bool Tensor::is_outdated(const TensorDesc& desc, const Device& device) const {
  std::lock_guard<std::mutex> guard(copies_lock_);
  if (copies_version_ == buffer_->version()) return false;
  const auto copy = place_of(desc, device);
  return copy != copies_.end() && copy->found;
}

TensorRef Tensor::take_outdated(const TensorDesc& desc, const Device& device) const {
  std::lock_guard<std::mutex> guard(copies_lock_);
  if (copies_version_ == buffer_->version()) return nullptr;
  const auto copy = place_of(desc, device);
  if (copy == copies_.end() || !copy->found) return nullptr;
  note_outdated();
  TensorRef taken = std::move(copy->tensor);
  copies_hash_.fetch_sub(taken->hash(), std::memory_order_relaxed);
  copies_.erase(copy);
  return taken;
}

std::vector<TensorRef> Tensor::copies() const {
  std::lock_guard<std::mutex> guard(copies_lock_);
  if (copies_version_ != buffer_->version()) return {};
  std::vector<TensorRef> valid;
  for (const Copy& copy : copies_)
    if (!copy.is_changed()) valid.push_back(copy.tensor);
  return valid;
}

bool Tensor::keep_only(uint64_t version) const {
  if (buffer_->version() != version) return false;
  if (copies_version_ != version) {
    if (!copies_.empty() || !packed_.empty()) note_outdated();
    copies_.clear();
    packed_.clear();
    copies_hash_ = 0;
    copies_version_ = version;
  }
  return true;
}

void Tensor::note_outdated() const {
  const uint64_t version = buffer_->version();
  if (outdated_by_ == version) return;
  outdated_by_ = version;
  times_outdated_.fetch_add(1, std::memory_order_relaxed);
}

bool Tensor::is_steady() const {
  constexpr int kOften = 64;  // a call asks up to three times; gradients of some batches may be added up in a step
  const uint64_t version = buffer_->version();
  if (asked_version_.exchange(version, std::memory_order_relaxed) != version)
    times_asked_.store(0, std::memory_order_relaxed);
  if (times_asked_.load(std::memory_order_relaxed) > kOften) return true;
  times_asked_.fetch_add(1, std::memory_order_relaxed);
  return false;
}

BufferRef Tensor::find_packed(const std::string& form, const Device& device) const {
  std::lock_guard<std::mutex> guard(copies_lock_);
  if (copies_version_ != buffer_->version()) return nullptr;
  for (const auto& [name, packed] : packed_)
    if (&packed->device() == &device && name == form) return packed;
  return nullptr;
}

void Tensor::add_packed(std::string form, BufferRef packed, uint64_t version) const {
  std::lock_guard<std::mutex> guard(copies_lock_);
  if (!keep_only(version)) return;
  const bool known = std::any_of(packed_.begin(), packed_.end(), [&](const auto& other) {
    return &other.second->device() == &packed->device() && other.first == form;
  });
  if (!known) packed_.emplace_back(std::move(form), std::move(packed));
}

void Tensor::add_copy(TensorRef copy, uint64_t version) const {
  std::lock_guard<std::mutex> guard(copies_lock_);
  if (!keep_only(version)) return;
  if (place_of(copy->desc(), copy->device()) != copies_.end()) return;
  copies_hash_.fetch_add(copy->hash(), std::memory_order_relaxed);  // a sum: the order of arrival is irrelevant
  const uint64_t own = copy->buffer()->version();
  copies_.push_back({std::move(copy), own, false});
}

void Tensor::drop_others(const Device& device, const TensorDesc& copy, const std::string& form, uint64_t season) const {
  std::vector<TensorRef> copies;  // freed without the lock
  std::vector<std::pair<std::string, BufferRef>> packed;
  std::lock_guard<std::mutex> guard(copies_lock_);
  if (season_.load(std::memory_order_relaxed) >= season) return;
  season_.store(season, std::memory_order_relaxed);
  for (size_t i = copies_.size(); i-- > 0;) {
    const TensorRef& each = copies_[i].tensor;
    if (&each->device() != &device || (form.empty() && same_memory(each->desc(), copy))) continue;
    copies_hash_.fetch_sub(each->hash(), std::memory_order_relaxed);
    copies.push_back(std::move(copies_[i].tensor));
    copies_.erase(copies_.begin() + long(i));
  }
  for (size_t i = packed_.size(); i-- > 0;) {
    if (&packed_[i].second->device() != &device || packed_[i].first == form) continue;
    packed.push_back(std::move(packed_[i]));
    packed_.erase(packed_.begin() + long(i));
  }
}

uint64_t Tensor::copies_hash() const {
  const uint64_t hash = copies_hash_.load(std::memory_order_relaxed);
  if (hash == 0) return 0;
  std::lock_guard<std::mutex> guard(copies_lock_);
  return copies_version_ == buffer_->version() ? hash : 0;
}

}  // namespace pl
