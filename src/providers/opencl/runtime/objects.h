// OpenCL errors and handles.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/status.h"
#include "providers/opencl/runtime/api.h"

namespace pl::opencl {

const char* error_name(cl_int code);  // "CL_OUT_OF_RESOURCES"; "unknown OpenCL error" for codes of no name

// Throws an Error unless code is CL_SUCCESS: out_of_memory for failed allocations, device otherwise.
// The message is "<what>: CL_NAME (-5)".
[[noreturn]] void fail_cl(cl_int code, const std::string& what);
inline void check_cl(cl_int code, const char* what) {
  if (__builtin_expect(code != CL_SUCCESS, 0)) fail_cl(code, what);
}
inline void check_cl(cl_int code, const std::string& what) {
  if (__builtin_expect(code != CL_SUCCESS, 0)) fail_cl(code, what);
}
bool is_allocation_failure(cl_int code);

// Owns one reference to an OpenCL object.
template <class Id, cl_int (CL_API_CALL* Api::*Retain)(Id), cl_int (CL_API_CALL* Api::*Release)(Id)>
class Handle {
 public:
  Handle() = default;
  Handle(const Api* cl, Id id) : cl_(cl), id_(id) {}  // takes over one reference
  static Handle retain(const Api* cl, Id id) {        // adds a reference
    check_cl((cl->*Retain)(id), "retaining an OpenCL object");
    return Handle(cl, id);
  }
  Handle(Handle&& other) noexcept : cl_(other.cl_), id_(std::exchange(other.id_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(cl_, other.cl_);
    std::swap(id_, other.id_);
    return *this;
  }
  ~Handle() {
    if (id_) (cl_->*Release)(id_);
  }
  Id get() const { return id_; }
  explicit operator bool() const { return id_ != nullptr; }
  Id release() { return std::exchange(id_, nullptr); }

 private:
  const Api* cl_ = nullptr;
  Id id_ = nullptr;
};

using Context = Handle<cl_context, &Api::clRetainContext, &Api::clReleaseContext>;
using Queue = Handle<cl_command_queue, &Api::clRetainCommandQueue, &Api::clReleaseCommandQueue>;
using Mem = Handle<cl_mem, &Api::clRetainMemObject, &Api::clReleaseMemObject>;
using Program = Handle<cl_program, &Api::clRetainProgram, &Api::clReleaseProgram>;
using KernelHandle = Handle<cl_kernel, &Api::clRetainKernel, &Api::clReleaseKernel>;
using EventHandle = Handle<cl_event, &Api::clRetainEvent, &Api::clReleaseEvent>;

}  // namespace pl::opencl
