// Tensor: a description and its storage, with the reordered copies made of it so far.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/desc.h"
#include "core/device.h"
#include "core/memory.h"

namespace pl {

class Tensor;
using TensorRef = std::shared_ptr<Tensor>;

// What made a tensor: dispatch derives it from this, and nobody else looks into it.
class Origin {
 public:
  virtual ~Origin() = default;
};

class Tensor {
 public:
  // Throws if the buffer is smaller than the description needs.
  Tensor(TensorDesc desc, BufferRef buffer);
  static TensorRef allocate(Device& device, const TensorDesc& desc);  // contents undefined

  const TensorDesc& desc() const { return desc_; }
  const BufferRef& buffer() const { return buffer_; }
  Device& device() const { return buffer_->device(); }
  uint64_t hash() const { return hash_; }  // of desc and device

  // A copy of this tensor, as `desc` on `device`, made earlier and still valid (neither storage was changed), or null.
  TensorRef find_copy(const TensorDesc& desc, const Device& device) const;
  // All valid copies, for the choice of the cheapest source.
  std::vector<TensorRef> copies() const;
  // Keeps a copy made when the storage had `version`; dropped if the storage has changed since.
  void add_copy(TensorRef copy, uint64_t version) const;
  // Whether there is such a copy of an older version of the storage, which find_copy has given; take_outdated gives it
  // to the caller, or null.
  bool is_outdated(const TensorDesc& desc, const Device& device) const;
  TensorRef take_outdated(const TensorDesc& desc, const Device& device) const;
  // Packed forms of this tensor (providers/provider.h, Packing) by their names; kept like copies.
  BufferRef find_packed(const std::string& form, const Device& device) const;
  void add_packed(std::string form, BufferRef packed, uint64_t version) const;
  // Drops the copies and packed forms on `device` but for one of them: the form of that name, or the copy like
  // `copy` where the name is empty.  Done once for each `season`, a number that only grows, so that two uses of a
  // tensor in different forms do not take each other's away for ever.
  void drop_others(const Device& device, const TensorDesc& copy, const std::string& form, uint64_t season) const;
  bool dropped_in(uint64_t season) const { return season_.load(std::memory_order_relaxed) >= season; }
  // Whether its storage changes between its uses, as a weight's does in training: what was made of it was outdated
  // twice, and no version since was asked about very often.  Making it again then costs time in each use.
  bool changes() const { return times_outdated_.load(std::memory_order_relaxed) >= 2 && !is_steady(); }
  // Tells sets of copies apart; 0 when there are none.
  uint64_t copies_hash() const;

  // What made this tensor and which of its outputs it is: through this, consumers teach their producers which layout is
  // wanted.
  const std::shared_ptr<Origin>& origin() const { return origin_; }
  int origin_output() const { return origin_output_; }
  void set_origin(std::shared_ptr<Origin> origin, int output) {
    origin_ = std::move(origin);
    origin_output_ = output;
  }

 private:
  // With copies_lock_ held: forgets what was made of another version.  False if the storage is no longer at `version`.
  bool keep_only(uint64_t version) const;
  void note_outdated() const;  // with copies_lock_ held
  bool is_steady() const;
  struct Copy {
    TensorRef tensor;
    uint64_t version;  // of its own storage: whoever was given it may have written to it
    bool found;        // by find_copy
    bool is_changed() const { return tensor->buffer()->version() != version; }
  };
  // With copies_lock_ held.  Forgets what has been changed.
  std::vector<Copy>::iterator place_of(const TensorDesc& desc, const Device& device) const;

  TensorDesc desc_;
  BufferRef buffer_;
  uint64_t hash_;
  std::shared_ptr<Origin> origin_;
  int origin_output_ = 0;
  mutable std::mutex copies_lock_;
  mutable std::vector<Copy> copies_;
  mutable std::vector<std::pair<std::string, BufferRef>> packed_;
  mutable uint64_t copies_version_ = 0;
  mutable uint64_t outdated_by_ = 0;  // the version that was counted last
  mutable std::atomic<int> times_outdated_{0};
  mutable std::atomic<uint64_t> asked_version_{0};  // by is_steady
  mutable std::atomic<int> times_asked_{0};         // about that version
  mutable std::atomic<uint64_t> copies_hash_{0};
  mutable std::atomic<uint64_t> season_{1};
};

}  // namespace pl
