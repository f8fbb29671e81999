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

#include <cstdint>
#include <functional>
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
bool is_forked() noexcept;
// Throws PyTorch's error for a status that is not PL_OK, with the library's message.
void check(pl_status status);

// ---- memory.cpp: storages ----

// Device memory behind a storage, and the views of it that were used last, with which reordered copies are kept.
class Block {
 public:
  Block(c10::DeviceIndex device, size_t bytes);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  void* address() const { return address_; }
  size_t bytes() const { return bytes_; }
  c10::DeviceIndex device() const { return device_; }
  pl_tensor memory() const { return memory_; }
  // A handle of the caller's.
  pl_tensor view(pl_dtype dtype, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset);

 private:
  struct View {
    std::vector<int64_t> key;
    pl_tensor tensor;
  };
  c10::DeviceIndex device_;
  size_t bytes_;
  void* address_;
  pl_tensor memory_ = nullptr;
  std::mutex lock_;
  std::vector<View> views_;
};

c10::Allocator* allocator();

// A byte of a block. As views are asked for, offsets count from it.
struct Place {
  Block* block = nullptr;  // null: no memory of the device
  int64_t bytes = 0;
  pl_tensor view(pl_dtype dtype, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset) const;
};
Place place_at(const void* address);
// Where the storage of a tensor begins; throws where it has no memory of the device.
Place place_of(const at::Tensor& tensor);
std::optional<pl_dtype> dtype_of(at::ScalarType type);

// A pl_tensor that is released at the end.
class Handle {
 public:
  Handle() = default;
  explicit Handle(pl_tensor tensor) : tensor_(tensor) {}
  Handle(Handle&& other) noexcept : tensor_(std::exchange(other.tensor_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(tensor_, other.tensor_);
    return *this;
  }
  ~Handle() {
    if (tensor_) pl_tensor_release(tensor_);
  }
  pl_tensor get() const { return tensor_; }

 private:
  pl_tensor tensor_ = nullptr;
};

// The library's view of a tensor of the device, whose dtype must be one that the library has.
Handle view_of(const at::Tensor& tensor);

// ---- tensors.cpp: making, copying and resizing ----

at::Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides, at::ScalarType type,
                         c10::DeviceIndex device);
void resize_storage(const c10::Storage& storage, size_t bytes);

// ---- generator.cpp ----

at::Generator default_generator(c10::DeviceIndex index);
at::Generator new_generator(c10::DeviceIndex index);
// The generator of the host that draws for one of the device.
at::Generator host_generator(const at::Generator& generator);

// ---- programs.cpp: ops by the table of pylayout.torch ----

struct Step {
  std::string op;
  pl_attributes attributes;
  std::vector<int> inputs;  // slots; -1: an optional one that is absent
  int first;                // the slot of the first result
  int count;
};

struct Output {
  int slot;      // -1: it has no elements; -2: no tensor, for nobody asked for it
  int argument;  // the tensor among the arguments into which it is written; -1: a new one
  at::ScalarType type;
  std::vector<int64_t> sizes, strides;
};

// What stands for an op with given arguments: calls of the library's ops. Slots are the tensors among the arguments,
// then constants, then the results of steps.
struct Program {
  std::string refusal;  // why PyTorch's kernel of the CPU runs instead; "" where it does not
  std::vector<pl_tensor> constants;
  std::vector<Step> steps;
  std::vector<Output> outputs;
  size_t slots = 0;
  ~Program();
};

// Asks Python for a program: name of the op, its arguments as a Python expression. 0, or the error's message is kept.
using Maker = int (*)(const char* op, const char* arguments, int device, Program* program);
void set_maker(Maker maker);
void forget_programs();
void register_op(const char* name);  // this op by its program, though PyTorch has a kernel made of other ops

// ---- fallback.cpp ----

enum class FallbackMode { warn, silent, error };
void set_fallback_mode(FallbackMode mode);
// Ops that ran on the CPU: a line for each, "count op: reason".
std::string fallbacks();
void clear_fallbacks();

}  // namespace ocl
