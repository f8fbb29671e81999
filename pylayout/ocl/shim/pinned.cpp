// Pinned memory: host memory that the device transfers while the host goes on, and when it may be given out again.
#include <algorithm>
#include <map>

#include "shim.h"

namespace ocl {
namespace {

constexpr size_t kPinnedPage = 4096;
constexpr size_t kMostKept = size_t(256) << 20;  // bytes that nobody has, for those who ask next

// A point in a stream after which the memory is not used any more by what was queued there.
struct Use {
  c10::DeviceIndex device;
  int64_t stream;
  pl_event event;
};

struct Pinned {
  Handle memory;
  void* address;
  size_t bytes;  // rounded
  std::vector<Use> uses;

  Pinned(Handle made, size_t size) : memory(std::move(made)), address(nullptr), bytes(size) {
    check(pl_tensor_data(memory.get(), &address));
  }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  ~Pinned() {
    if (is_forked()) return;
    for (const Use& use : uses) {
      pl_event_synchronize(use.event);
      pl_event_release(use.event);
    }
  }
  // Whether nothing that was queued uses it any more.
  bool is_done() {
    uses.erase(std::remove_if(uses.begin(), uses.end(),
                              [](const Use& use) {
                                int32_t done = 0;
                                if (pl_event_done(use.event, &done) != PL_OK || !done) return false;
                                pl_event_release(use.event);
                                return true;
                              }),
               uses.end());
    return uses.empty();
  }
};

using PinnedRef = std::unique_ptr<Pinned>;

// All of it: what storages have, by address, and what none has, by size.
class Store {
 public:
  Pinned* take(size_t bytes, c10::DeviceIndex device) {
    const size_t size = (std::max<size_t>(bytes, 1) + kPinnedPage - 1) / kPinnedPage * kPinnedPage;
    std::lock_guard<std::mutex> guard(lock_);
    PinnedRef found;
    for (auto at = spare_.lower_bound(size); at != spare_.end() && at->first <= size + size / 8 && !found; ++at)
      if (at->second->is_done()) {
        found = std::move(at->second);
        kept_ -= at->first;
        spare_.erase(at);
        break;
      }
    if (!found) found = std::make_unique<Pinned>(allocated(size, device), size);
    Pinned* made = found.get();
    taken_[uintptr_t(made->address)] = std::move(found);
    return made;
  }
  void give(Pinned* pinned) {
    PinnedRef own;
    std::vector<PinnedRef> gone;
    {
      std::lock_guard<std::mutex> guard(lock_);
      const auto found = taken_.find(uintptr_t(pinned->address));
      own = std::move(found->second);
      taken_.erase(found);
      kept_ += own->bytes;
      spare_.emplace(own->bytes, std::move(own));
      if (kept_ > kMostKept) gone = done_locked();
    }
  }
  void release() {
    std::vector<PinnedRef> gone;
    std::lock_guard<std::mutex> guard(lock_);
    gone = done_locked();
  }
  bool has(const void* address) {
    std::lock_guard<std::mutex> guard(lock_);
    return find(address) != nullptr;
  }
  void note_use(const void* address, c10::DeviceIndex device) {
    const int64_t stream = current_stream_of(device);
    pl_event event = record_event(device);
    std::lock_guard<std::mutex> guard(lock_);
    Pinned* pinned = find(address);
    if (!pinned) {  // a tensor that goes meanwhile: whoever has it may not let go of it before the call ends
      pl_event_release(event);
      TORCH_CHECK(false, "ocl: there is no pinned memory at this address any more");
    }
    for (Use& use : pinned->uses)
      if (use.device == device && use.stream == stream) {
        pl_event_release(std::exchange(use.event, event));
        return;
      }
    pinned->uses.push_back({device, stream, event});
  }

 private:
  static Handle allocated(size_t bytes, c10::DeviceIndex device) {
    pl_tensor made = nullptr;
    check(pl_tensor_allocate_pinned(context(), device_name(device), bytes, &made));
    return Handle(made);
  }
  Pinned* find(const void* address) {
    auto after = taken_.upper_bound(uintptr_t(address));
    if (after == taken_.begin()) return nullptr;
    const auto& [start, pinned] = *std::prev(after);
    return uintptr_t(address) < start + pinned->bytes ? pinned.get() : nullptr;
  }
  // Of what is spare that which nothing uses.
  std::vector<PinnedRef> done_locked() {
    std::vector<PinnedRef> done;
    for (auto at = spare_.begin(); at != spare_.end();) {
      if (!at->second->is_done()) {
        ++at;
        continue;
      }
      kept_ -= at->first;
      done.push_back(std::move(at->second));
      at = spare_.erase(at);
    }
    return done;
  }

  std::mutex lock_;
  std::map<uintptr_t, PinnedRef> taken_;
  std::multimap<size_t, PinnedRef> spare_;
  size_t kept_ = 0;
};

Store& store() {
  static auto* self = new Store;  // never destroyed: tensors may outlive static objects
  return *self;
}

struct PinnedAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    Pinned* made = store().take(bytes, current_device());
    return {made->address, made, &remove, c10::Device(c10::DeviceType::CPU)};
  }
  static void remove(void* pinned) {
    if (!is_forked()) store().give(static_cast<Pinned*>(pinned));
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
};

}  // namespace

c10::Allocator* pinned_allocator() {
  static auto* self = new PinnedAllocator;
  return self;
}

bool is_pinned(const void* address) { return !is_forked() && store().has(address); }

void note_use_of_pinned(const void* address, c10::DeviceIndex device) { store().note_use(address, device); }

void release_pinned() { store().release(); }

}  // namespace ocl
