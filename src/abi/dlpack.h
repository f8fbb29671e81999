// The structures of DLPack 0.8, an open in-memory tensor exchange format: https://dmlc.github.io/dlpack/latest/
// Written from its specification; field order and widths are what both sides agree on.
#pragma once

#include <cstdint>

namespace pl::dlpack {

enum DeviceType : int32_t { kCPU = 1, kOpenCL = 4 };
enum TypeCode : uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kBool = 6 };

struct Device {
  int32_t device_type;
  int32_t device_id;
};

struct DataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;  // 1: scalars
};

struct Tensor {
  void* data;  // host pointer, or cl_mem
  Device device;
  int32_t ndim;
  DataType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null: row-major and dense
  uint64_t byte_offset;
};

struct ManagedTensor {
  Tensor tensor;
  void* manager_context;
  void (*deleter)(ManagedTensor* self);  // frees everything; may be null
};

static_assert(sizeof(Tensor) == 48 && sizeof(ManagedTensor) == 64, "the layout that DLPack's C header has");

}  // namespace pl::dlpack
