// Programs that a test builds without optimisation, where their arithmetic is in question and hundreds are built.
#pragma once

#include <string>

#include "providers/opencl/runtime/opencl_device.h"

namespace pl::testing {

// By the fingerprint, for tests make devices pretend to be others.
inline bool is_pocl(const opencl::OpenclDevice& device) {
  return device.fingerprint().find("|Portable Computing Language|") != std::string::npos;
}
// Ubuntu 24.04's.
inline bool is_pocl_5(const opencl::OpenclDevice& device) {
  return is_pocl(device) && device.fingerprint().find("PoCL 5.") != std::string::npos;
}

// PoCL 5.0 gives wrong sums in tiles for matrix units, optimised and not, where 3.1, Intel's runtime and Oclgrind
// give right ones.  CPUs are never offered these kernels; only tests have them emulated.
inline bool is_miscompiled(const opencl::OpenclDevice& device, const std::string& implementation) {
  const auto is = [&](const char* part) { return implementation.find(part) != std::string::npos; };
  return is_pocl_5(device) && (is("_mma") || is("_stream"));
}

// PoCL 3.1 builds a program of test_opencl_conv in 0.41 s of processor time, in 0.08 without optimising.  What users
// run is optimised: so are these tests on Intel's runtime (make test-intel), and on PoCL the Python tests of every op
// in every layout where kernels changed (make test-optimised).  Not on PoCL 5 (Ubuntu 24.04): there -cl-opt-disable
// gives wrong indices, or a crash as it compiles.
inline void unoptimised_on_pocl(opencl::OpenclDevice& device) {
  if (!is_pocl(device) || is_pocl_5(device)) return;
  device.build_options = " -cl-opt-disable";
}

// On every CPU: for large sources, of which Intel's runtime too takes most of the time to optimise.
inline void unoptimised_on_cpus(opencl::OpenclDevice& device) {
  if (is_pocl(device)) return unoptimised_on_pocl(device);
  if (device.capabilities().cpu) device.build_options = " -cl-opt-disable";
}

}  // namespace pl::testing
