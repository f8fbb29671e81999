// PTX, the form in which NVIDIA's OpenCL hands out programs and takes them back.
#pragma once

#include <string>

namespace pl::opencl {

// Instructions of the target sm_90a (wgmma), which the compiler takes for no target that OpenCL has: a kernel writes
// them as comments that begin with this, SM_90A in kernels/common/mma.clh, and so they reach the PTX of the program.
constexpr const char* kSm90aMark = "//sm_90a ";
// In the text of a program that is of no use unless such instructions are in it.
constexpr const char* kNeedsSm90a = "// needs sm_90a";

// A program's binary with these instructions in force; empty where it has none, or is not PTX for compute
// capability 9.0.
std::string with_sm_90a(const std::string& binary);

}  // namespace pl::opencl
