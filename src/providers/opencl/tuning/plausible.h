// Whether a pointer that a program hands over may be an OpenCL object: a guard against garbage and freed memory.
#pragma once

#include "providers/opencl/runtime/api.h"

namespace pl::opencl {

// An OpenCL library follows a handle without a look, and crashes on one that is none.  By the extension cl_khr_icd an
// object begins with the address of its runtime's table of functions, in the order of cl_icd.h.  So this asks whether
// the memory may be read at all, and whether the entries for cl_context lie in code.  What it cannot tell: an object of
// another kind, or one that was released and whose memory still looks as before.  `known`: a platform; where that does
// not begin with such a table the convention does not hold here, and everything but null is plausible.
bool plausible(const void* object, cl_platform_id known);

}  // namespace pl::opencl
