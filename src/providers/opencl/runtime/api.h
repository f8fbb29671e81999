// The OpenCL entry points this provider uses, as a table filled at run time.
//
// Nothing links against an OpenCL library: each library that is opened (an ICD loader, or a runtime that no
// loader knows) fills a table of its own, and every handle remembers the table it came through.
#pragma once

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 300
#endif
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>

#include <string>

// Entry points of OpenCL 1.2, present in every library.
#define PL_OPENCL_REQUIRED(F)    \
  F(clGetPlatformIDs)            \
  F(clGetPlatformInfo)           \
  F(clGetDeviceIDs)              \
  F(clGetDeviceInfo)             \
  F(clCreateContext)             \
  F(clRetainContext)             \
  F(clReleaseContext)            \
  F(clGetContextInfo)            \
  F(clCreateCommandQueue)        \
  F(clRetainCommandQueue)        \
  F(clReleaseCommandQueue)       \
  F(clGetCommandQueueInfo)       \
  F(clCreateBuffer)              \
  F(clRetainMemObject)           \
  F(clReleaseMemObject)          \
  F(clGetMemObjectInfo)          \
  F(clCreateProgramWithSource)   \
  F(clCreateProgramWithBinary)   \
  F(clRetainProgram)             \
  F(clReleaseProgram)            \
  F(clBuildProgram)              \
  F(clGetProgramInfo)            \
  F(clGetProgramBuildInfo)       \
  F(clCreateKernel)              \
  F(clRetainKernel)              \
  F(clReleaseKernel)             \
  F(clSetKernelArg)              \
  F(clGetKernelWorkGroupInfo)    \
  F(clRetainEvent)               \
  F(clReleaseEvent)              \
  F(clWaitForEvents)             \
  F(clGetEventInfo)              \
  F(clGetEventProfilingInfo)     \
  F(clEnqueueReadBuffer)         \
  F(clEnqueueWriteBuffer)        \
  F(clEnqueueFillBuffer)         \
  F(clEnqueueCopyBuffer)         \
  F(clEnqueueMigrateMemObjects)  \
  F(clEnqueueMarkerWithWaitList) \
  F(clEnqueueNDRangeKernel)      \
  F(clFlush)                     \
  F(clFinish)                    \
  F(clEnqueueMapBuffer)          \
  F(clEnqueueUnmapMemObject)

// Entry points of later versions: null where a library has none.
#define PL_OPENCL_OPTIONAL(F) F(clSetKernelArgSVMPointer)

namespace pl::opencl {

struct Api {
#define PL_OPENCL_MEMBER(name) decltype(&::name) name = nullptr;
  PL_OPENCL_REQUIRED(PL_OPENCL_MEMBER)
  PL_OPENCL_OPTIONAL(PL_OPENCL_MEMBER)
#undef PL_OPENCL_MEMBER
  std::string library;  // path or soname it was opened by
};

}  // namespace pl::opencl
