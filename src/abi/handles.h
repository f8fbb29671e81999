// Handles: what C holds instead of pointers to C++ objects.
//
// A handle's value is not an address.  It encodes the type, a slot of a table and the slot's generation, which
// changes when the slot is released; slots live as long as the process.  So a handle that was released, forged
// or is of another type is detected, also while other threads release and use it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/tensor.h"
#include "dispatch/candidate_runs.h"
#include "dispatch/context.h"
#include "graph/plan.h"
#include "pylayout.h"

namespace pl::abi {

static_assert(sizeof(void*) == 8, "handles encode a slot and a generation in the 64 bits of a pointer");

// Held for the few instructions that copy or move a slot's references, never while anything is destroyed.
class SlotLock {
 public:
  void lock() noexcept {
    while (taken_.exchange(true, std::memory_order_acquire)) wait();
  }
  void unlock() noexcept { taken_.store(false, std::memory_order_release); }

 private:
  void wait() noexcept;  // until it looks free; yields, since the holder may have been preempted
  std::atomic<bool> taken_{false};
};

// Handles of one type.  T holds references (cheap to copy); an empty T{} stands for a released one.
template <class T>
class HandleTable {
 public:
  // `tag` (1 to 15) is part of every handle; `type` names it in messages.
  HandleTable(uint64_t tag, const char* type) : tag_(tag), type_(type) {}
  HandleTable(const HandleTable&) = delete;
  HandleTable& operator=(const HandleTable&) = delete;
  ~HandleTable() {
    for (const auto& chunk : chunks_) delete[] chunk.load(std::memory_order_acquire);
  }

  uintptr_t add(T value) {
    uint32_t index;
    {
      std::lock_guard<std::mutex> guard(free_lock_);
      if (free_.empty()) {
        index = used_;
        require(index < kMaxSlots, Code::out_of_memory, type_, ": too many live handles");
        const auto [chunk, place] = locate(index);
        if (place == 0) {
          free_.reserve(index + chunk_size(chunk));  // so that release never needs memory
          chunks_[size_t(chunk)].store(new Slot[chunk_size(chunk)], std::memory_order_release);
        }
        ++used_;
      } else {
        index = free_.back();
        free_.pop_back();
      }
    }
    Slot& slot = at(index);
    std::lock_guard<SlotLock> guard(slot.lock);
    slot.value = std::move(value);
    slot.live = true;
    return encode(index, slot.generation);
  }

  // What `see(const T&)` returns, which must be a copy; T may be gone right after.
  template <class See>
  auto read(uintptr_t handle, const char* function, const char* argument, See&& see) const {
    Slot* slot = find(handle);
    if (slot) {
      std::lock_guard<SlotLock> guard(slot->lock);
      if (slot->live && slot->generation == generation_of(handle)) return see(static_cast<const T&>(slot->value));
    }
    refuse(handle, function, argument);
  }

  // Replaces the value behind a live handle by `change(const T&)`'s result.
  template <class Change>
  void update(uintptr_t handle, const char* function, const char* argument, Change&& change) {
    // `change` may throw and take long, so it works on a copy; two updates at once are the caller's to order.
    T next = change(read(handle, function, argument, [](const T& value) { return value; }));
    Slot* slot = find(handle);
    {
      std::lock_guard<SlotLock> guard(slot->lock);
      if (slot->live && slot->generation == generation_of(handle)) {
        std::swap(slot->value, next);
        return;
      }
    }
    refuse(handle, function, argument);
  }

  // The value is destroyed by the caller's thread, outside of every lock.
  T remove(uintptr_t handle, const char* function, const char* argument) {
    Slot* slot = find(handle);
    T value{};
    bool removed = false, reusable = false;
    if (slot) {
      std::lock_guard<SlotLock> guard(slot->lock);
      if (slot->live && slot->generation == generation_of(handle)) {
        std::swap(value, slot->value);
        slot->live = false;
        reusable = ++slot->generation != 0;  // after 2^32 uses a slot rests, so that no old handle fits again
        removed = true;
      }
    }
    if (!removed) refuse(handle, function, argument);
    if (reusable) {
      std::lock_guard<std::mutex> guard(free_lock_);
      free_.push_back(index_of(handle));
    }
    return value;
  }

 private:
  struct Slot {
    SlotLock lock;
    bool live = false;
    uint32_t generation = 0;
    T value{};
  };
  // tag: bits 60 to 63; generation: 28 to 59; slot: 0 to 27.
  static constexpr int kSlotBits = 28;
  static constexpr uint32_t kMaxSlots = 1u << kSlotBits;
  // Chunk k holds 64 << k slots; chunks never move and are never returned.
  static constexpr uint32_t kFirstChunk = 64;
  static constexpr int kChunks = 23;

  static std::pair<int, uint32_t> locate(uint32_t index) {
    const uint32_t position = index / kFirstChunk + 1;
    const int chunk = 31 - __builtin_clz(position);
    return {chunk, index - kFirstChunk * ((1u << chunk) - 1)};
  }
  static uint32_t chunk_size(int chunk) { return kFirstChunk << chunk; }
  static uint32_t index_of(uintptr_t handle) { return uint32_t(handle & (kMaxSlots - 1)); }
  static uint32_t generation_of(uintptr_t handle) { return uint32_t(handle >> kSlotBits); }
  uintptr_t encode(uint32_t index, uint32_t generation) const {
    return uintptr_t(tag_) << 60 | uintptr_t(generation) << kSlotBits | index;
  }
  Slot& at(uint32_t index) const {
    const auto [chunk, place] = locate(index);
    return chunks_[size_t(chunk)].load(std::memory_order_acquire)[place];
  }
  Slot* find(uintptr_t handle) const {
    if (handle >> 60 != tag_) return nullptr;
    const auto [chunk, place] = locate(index_of(handle));
    Slot* slots = chunks_[size_t(chunk)].load(std::memory_order_acquire);
    return slots ? slots + place : nullptr;
  }
  [[noreturn]] void refuse(uintptr_t handle, const char* function, const char* argument) const {
    require(handle != 0, Code::invalid_argument, function, ": ", argument, " is NULL, expected a ", type_);
    fail(Code::invalid_argument, function, ": ", argument, " was released or never was a ", type_);
  }

  const uint64_t tag_;
  const char* const type_;
  std::array<std::atomic<Slot*>, kChunks> chunks_{};
  mutable std::mutex free_lock_;
  std::vector<uint32_t> free_;  // the slot released last is used first, while it is in the cache
  uint32_t used_ = 0;
};

using ContextRef = std::shared_ptr<Context>;

// A tensor keeps its context: its device, pools and prepared kernels live as long as it does.
struct TensorEntry {
  TensorRef tensor;
  ContextRef context;
};

// Attributes are parsed when they are set, not when they are used; the parsed form never changes.
struct AttributesEntry {
  std::shared_ptr<const Attributes> text;
  CallRef call;
};

// A graph under construction; the lock makes calls from several threads take turns.
struct GraphState {
  std::mutex lock;
  Graph graph;
};
struct GraphEntry {
  std::shared_ptr<GraphState> state;
  ContextRef context;
};

using PlanRef = std::shared_ptr<Plan>;

// Candidates of one call; the lock makes runs from several threads take turns.
struct CandidatesState {
  CandidatesState(ContextRef owner, CandidateRuns made) : context(std::move(owner)), runs(std::move(made)) {}
  ContextRef context;
  std::mutex lock;
  CandidateRuns runs;
};
using CandidatesRef = std::shared_ptr<CandidatesState>;

// Streams and events keep their context too.
struct StreamEntry {
  StreamRef stream;
  ContextRef context;
};
struct EventEntry {
  EventRef event;
  ContextRef context;
};

HandleTable<ContextRef>& contexts();
HandleTable<TensorEntry>& tensors();
HandleTable<AttributesEntry>& attribute_sets();
HandleTable<GraphEntry>& graphs();
HandleTable<PlanRef>& plans();
HandleTable<CandidatesRef>& candidate_sets();
HandleTable<StreamEntry>& streams();
HandleTable<EventEntry>& events();

inline uintptr_t value_of(const void* handle) { return reinterpret_cast<uintptr_t>(handle); }

inline ContextRef context_of(pl_context handle, const char* function) {
  return contexts().read(value_of(handle), function, "context", [](const ContextRef& context) { return context; });
}
inline TensorEntry tensor_of(pl_tensor handle, const char* function, const char* argument = "tensor") {
  return tensors().read(value_of(handle), function, argument, [](const TensorEntry& entry) { return entry; });
}
// The tensors of handles, null where a handle is; `what` begins the message about one of another context.
std::vector<TensorRef> tensors_of(const Context& context, const std::string& what, const pl_tensor* handles,
                                  size_t count, const char* function, const char* argument);
inline GraphEntry graph_of(pl_graph handle, const char* function) {
  return graphs().read(value_of(handle), function, "graph", [](const GraphEntry& entry) { return entry; });
}
// A graph as text, dot or json (null: text).
std::string graph_text(const Graph& graph, const char* format, const char* function);
inline PlanRef plan_of(pl_plan handle, const char* function) {
  return plans().read(value_of(handle), function, "plan", [](const PlanRef& plan) { return plan; });
}
inline CandidatesRef candidates_of(pl_candidates handle, const char* function) {
  return candidate_sets().read(value_of(handle), function, "candidates",
                               [](const CandidatesRef& candidates) { return candidates; });
}
inline StreamEntry stream_of(pl_stream handle, const char* function) {
  return streams().read(value_of(handle), function, "stream", [](const StreamEntry& entry) { return entry; });
}
inline EventRef event_of(pl_event handle, const char* function, const char* argument = "event") {
  return events().read(value_of(handle), function, argument, [](const EventEntry& entry) { return entry.event; });
}
inline pl_tensor new_handle(TensorEntry entry) { return reinterpret_cast<pl_tensor>(tensors().add(std::move(entry))); }

}  // namespace pl::abi
