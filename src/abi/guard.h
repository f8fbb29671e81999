// The boundary: the one place where an exception becomes a status and this thread's last error.
//
//   pl_status pl_something(...) {
//     return guarded([&] { ...may throw... });
//   }
#pragma once

#include <cstddef>

#include "core/dtype.h"
#include "core/end_of_process.h"
#include "core/status.h"
#include "core/threads.h"
#include "pylayout.h"

namespace pl::abi {

// Called while an exception is handled: keeps its message for pl_last_error and names its status.
pl_status keep_current_exception() noexcept;
const char* last_error() noexcept;

template <class Body>
pl_status guarded(Body&& body) noexcept {
  const InLibrary inside;
  const CallersThreads threads;
  try {
    body();
    return PL_OK;
  } catch (...) {
    return keep_current_exception();
  }
}

// For pointers that a function cannot do without.
inline void require_pointer(const void* pointer, const char* function, const char* argument) {
  require(pointer != nullptr, Code::invalid_argument, function, ": ", argument, " is NULL, expected a pointer");
}

// A dtype as it comes from C, where an enum may hold any integer.  By reference, since merely reading such a value
// as an enum is undefined in C++.
DType checked_dtype(const pl_dtype& dtype, const char* function);
// A copy that the caller frees with pl_string_free.
char* copied_string(const char* text, size_t length);

// The public enums and the core's are the same numbers.
static_assert(int(Code::ok) == PL_OK);
static_assert(int(Code::invalid_argument) == PL_ERROR_INVALID_ARGUMENT);
static_assert(int(Code::shape) == PL_ERROR_SHAPE);
static_assert(int(Code::layout) == PL_ERROR_LAYOUT);
static_assert(int(Code::device) == PL_ERROR_DEVICE);
static_assert(int(Code::unsupported) == PL_ERROR_UNSUPPORTED);
static_assert(int(Code::out_of_memory) == PL_ERROR_OUT_OF_MEMORY);
static_assert(int(Code::io) == PL_ERROR_IO);
static_assert(int(Code::internal) == PL_ERROR_INTERNAL);
static_assert(int(DType::f32) == PL_F32 && int(DType::f16) == PL_F16 && int(DType::bf16) == PL_BF16);
static_assert(int(DType::s8) == PL_S8 && int(DType::u8) == PL_U8 && int(DType::s32) == PL_S32);
static_assert(int(DType::s64) == PL_S64 && int(DType::boolean) == PL_BOOL && kDTypeCount == PL_BOOL + 1);

}  // namespace pl::abi
