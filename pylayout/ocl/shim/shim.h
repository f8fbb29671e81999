// What the files of the shim share: PyTorch's device `ocl` over the C interface of pylayout.
//
// PyTorch knows the device as PrivateUse1, renamed `ocl`. A storage of it is a Block: device memory of the library, of
// which tensors are views. Python (pylayout/ocl) opens the shim with ctypes: the C functions of exports.cpp are all
// that it calls, so that one build serves every version of Python.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Storage.h>
#include <c10/util/SmallVector.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "pylayout.h"

namespace ocl {

constexpr c10::DeviceType kDevice = c10::DeviceType::PrivateUse1;

// ---- runtime.cpp: the library's context and its devices ----

// The context; asks Python for it when it is needed first. Throws in a forked child.
pl_context context();
int device_count() noexcept;
const char* device_name(c10::DeviceIndex index);  // "opencl:0"; throws for an index that there is not
c10::DeviceIndex current_device();
void set_current_device(c10::DeviceIndex index);  // throws for an index that there is not
// The calling thread's stream on a device, by PyTorch's number of it.
int64_t current_stream_of(c10::DeviceIndex index);
void set_current_stream(c10::DeviceIndex index, int64_t id);
// A point in the calling thread's stream on a device: the caller's.
pl_event record_event(c10::DeviceIndex index);
bool is_started() noexcept;
bool is_forked() noexcept;
// Throws PyTorch's error for a status that is not PL_OK, with the library's message.
void check(pl_status status);

// ---- memory.cpp: storages ----

// A reference to a pl_tensor, which is released with the last one.
class Handle {
 public:
  Handle() = default;
  explicit Handle(pl_tensor tensor) : held_(std::make_shared<Held>(tensor)) {}
  pl_tensor get() const { return held_ ? held_->tensor : nullptr; }

 private:
  struct Held {
    explicit Held(pl_tensor owned) : tensor(owned) {}
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    ~Held() {
      if (!is_forked()) pl_tensor_release(tensor);
    }
    pl_tensor tensor;
  };
  std::shared_ptr<const Held> held_;
};

// Tensors that one tensor of bytes carries, one behind another.
struct PartForm {
  pl_dtype dtype;
  std::vector<int64_t> sizes, strides;
  int64_t bytes;   // that its elements take
  int64_t offset;  // of its first byte
  bool operator==(const PartForm& other) const = default;
};
using PartForms = std::vector<PartForm>;
struct EarlyNumber;  // early.h
// Sets offsets; the bytes of all together.
int64_t place_parts(PartForms& forms);

// Device memory behind a storage, and the views of it that were used last, with which reordered copies are kept.
//
// What an op of the library gave as the whole of a storage may lie in any layout, that of the op's kernel: such a block
// is `free`. It has that tensor in the place of memory until it is seen in another way than the op's result, and memory
// with the elements where PyTorch's strides say from then on.
class Block {
 public:
  enum class Memory { now, free };
  Block(c10::DeviceIndex device, size_t bytes, Memory memory);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  void* address() const { return address_; }
  size_t bytes() const { return bytes_; }
  c10::DeviceIndex device() const { return device_; }
  bool is_free() const { return free_; }
  // `placed`: over memory that the block keeps, also where what an op gave is wanted as that (place()).
  Handle view(pl_dtype dtype, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset, bool placed = false);
  // Of a free block that was made for one tensor: what an op gave as that tensor.
  void adopt(Handle given, pl_dtype dtype, c10::IntArrayRef sizes, c10::IntArrayRef strides);
  // Of a free block that was made for a tensor of bytes: the tensors that it carries, memory of their own.
  void adopt(std::vector<Handle> parts, std::shared_ptr<const PartForms> forms);
  // Those tensors; none where the block has memory with their elements, as somebody saw it as bytes, or never had any.
  std::vector<Handle> parts(const PartForms& forms);
  // Elements lie where strides say, and stay there; the copy, if there is one, may wait (later.h).
  void place();
  // Whether others than the shim may know the memory: nothing that uses it waits.
  bool is_shared() const { return shared_.load(std::memory_order_relaxed); }
  void share() { shared_.store(true, std::memory_order_relaxed); }
  // What is known of the number that the memory holds (early.h): until the next view of it, by which it may change.
  void keep(std::shared_ptr<EarlyNumber> number);
  std::shared_ptr<EarlyNumber> number();
  // Of a free block that no storage has any more.
  void clear();

 private:
  friend class Later;
  struct View {
    c10::SmallVector<int64_t, 12> key;  // dtype, offset, sizes, strides
    Handle tensor;
    bool is(pl_dtype dtype, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset) const;
  };
  static View view_as(pl_dtype dtype, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset);
  const View& made(View view);  // over the memory
  void place_locked();

  c10::DeviceIndex device_;
  size_t bytes_;
  const bool free_;
  void* address_;
  Handle memory_;  // null: of a free block, which has none yet
  std::mutex lock_;
  View given_;                 // of a free block without memory: all of its elements, if there are any
  std::vector<Handle> parts_;  // the same, by parts of it
  std::shared_ptr<const PartForms> part_forms_;
  std::vector<View> views_;  // the last one used is the last
  std::shared_ptr<EarlyNumber> number_;
  std::atomic<bool> shared_{false};
  mutable std::atomic<uint64_t> read_later_{0}, written_later_{0};  // the last rounds of Later with the block
};

c10::Allocator* allocator();
// A storage for what an op is to give, by a free block.
c10::Storage free_storage(c10::DeviceIndex device, size_t bytes);
// Small blocks that no storage has are kept for the next ones: bytes of them, and giving them back to the library.
size_t spare_bytes(c10::DeviceIndex device);
void release_spare();

// A byte of a block. As views are asked for, offsets count from it.
struct Place {
  Block* block = nullptr;  // null: no memory of the device
  int64_t bytes = 0;
  // A view for who reads or writes now: what waits and uses the memory is started.
  Handle view(pl_dtype dtype, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset) const;
  Handle view_of_memory(pl_dtype dtype, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset,
                        bool placed = false) const;
};
Place place_at(const void* address);
// Where the storage of a tensor begins; throws where it has no memory of the device.
Place place_of(const at::Tensor& tensor);
std::optional<pl_dtype> dtype_of(at::ScalarType type);

// The library's view of a tensor of the device, whose dtype must be one that the library has. In whatever layout its
// elements are, where the tensor is what an op gave. What waits and uses its memory is started.
Handle view_of(const at::Tensor& tensor);
// The same over memory that the storage keeps, for who keeps the view: nothing that uses this memory waits from now on.
Handle placed_view_of(const at::Tensor& tensor);

// ---- pinned.cpp: host memory that the device transfers while the host goes on ----

c10::Allocator* pinned_allocator();
bool is_pinned(const void* address);
// What was queued so far on the thread's stream uses the pinned memory at the address: it is given to nobody else
// before that is done, also if its tensor goes.
void note_use_of_pinned(const void* address, c10::DeviceIndex device);
void release_pinned();  // what nobody has

// ---- tensors.cpp: making, copying and resizing ----

// Queued, into pinned memory. False: nothing was done, as other memory may not be there when the copy is made.
bool to_host_later(const at::Tensor& source, const at::Tensor& target);
at::Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides, at::ScalarType type,
                         c10::DeviceIndex device);
// A tensor for what an op is to give, in a layout that the op may choose, and giving it that.
at::Tensor empty_free(c10::IntArrayRef sizes, c10::IntArrayRef strides, at::ScalarType type, c10::DeviceIndex device);
void adopt(const at::Tensor& target, const Handle& given);
void resize_storage(const c10::Storage& storage, size_t bytes);

// ---- generator.cpp ----

at::Generator default_generator(c10::DeviceIndex index);
at::Generator new_generator(c10::DeviceIndex index);
void seed_generators(uint64_t seed);  // the default ones of all devices
// Where numbers begin: what the library's ops random_* take as their input `seed`.
struct RandomSeed {
  uint64_t seed, first;  // the first counter
};
// The next counters of a generator of the device, of its default one where none is given.
RandomSeed take_counters(const std::optional<at::Generator>& generator, c10::DeviceIndex index, uint64_t counters);
// A generator of the host that draws what the device has no op for, made of the next counter of one of the device.
at::Generator host_generator(const at::Generator& generator);

// ---- fallback.cpp ----

enum class FallbackMode { warn, silent, error };
void set_fallback_mode(FallbackMode mode);
// Ops that ran on the CPU: a line for each, "count op: reason".
std::string fallbacks();
void clear_fallbacks();

}  // namespace ocl
