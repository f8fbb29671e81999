// Between the core's descriptions and the public structs.
#pragma once

#include <string>

#include "core/desc.h"
#include "pylayout.h"

namespace pl::abi {

// Copies `text` into a buffer of the public structs, shortened if need be, the rest zero.
void copy_text(char* destination, size_t capacity, const std::string& text);
// Everything of `info` but what only a tensor with storage has (device, is_borrowed).
void describe(const TensorDesc& desc, pl_tensor_info& info);
Dims checked_shape(int32_t rank, const int64_t* shape, const char* function);
// Bytes as elements, for TensorDesc::offset; `what` is the argument's name.
int64_t offset_of_bytes(uint64_t bytes, DType dtype, const char* function, const char* what);

}  // namespace pl::abi
