// The OpenCL provider: its table of op kinds, filled by the files that implement them.
//
// A file kernels/<kind>/... holds the kernels and src/providers/opencl/<kind>.cpp lists the candidates:
//
//   void list_relu(const Op& op, OpenclDevice& device, CandidateList& out) { ... out.add(...); }
//   PL_OPENCL_OP("relu", list_relu);
#pragma once

#include "providers/opencl/program/kernel_source.h"
#include "providers/opencl/runtime/launch.h"
#include "providers/opencl/runtime/opencl_device.h"
#include "providers/provider.h"

namespace pl::opencl {

// Adds candidates that run `op` with kernels of `device`, or refusals.  `device` may be serving host memory.
struct OpenclTable;  // names the table of this provider
using OpenclList = void (*)(const Op& op, OpenclDevice& device, CandidateList& out);

#define PL_OPENCL_OP(kind, list)                                  \
  static const bool PL_JOIN(registered_opencl_op_, __COUNTER__) = \
      ::pl::OpTable<::pl::opencl::OpenclTable, ::pl::opencl::OpenclList>::instance().add(kind, list)

// A candidate of this provider, its descriptions copied from the op for the caller to give layouts.
Candidate make_candidate(const Op& op, std::string implementation);

// Every op that takes an activation in any layout may use this: one candidate for each layout worth trying,
// input 0 and all outputs of its rank in that layout; `finish` completes or drops (returns false) each.
void add_per_layout(const Op& op, const std::string& implementation, CandidateList& out,
                    const std::function<bool(Candidate&)>& finish);

}  // namespace pl::opencl
