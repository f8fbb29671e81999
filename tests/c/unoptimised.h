// Programs that a test builds without optimisation, where their arithmetic is in question and hundreds are built.
#pragma once

#include "providers/opencl/opencl_device.h"

namespace pl::testing {

inline bool is_pocl(const opencl::OpenclDevice& device) {
  return device.capabilities().platform == "Portable Computing Language";
}

// PoCL 3.1 builds a program of test_opencl_conv in 0.41 s of processor time, in 0.08 without optimising.  What users
// run is optimised: so are these tests on Intel's runtime (make test-intel), and on PoCL the Python tests of every op
// in every layout.  Not on PoCL 5 (Ubuntu 24.04): there -cl-opt-disable gives wrong indices, or a crash as it compiles.
inline void unoptimised_on_pocl(opencl::OpenclDevice& device) {
  if (!is_pocl(device) || device.capabilities().platform_version.find("PoCL 5.") != std::string::npos) return;
  device.build_options = " -cl-opt-disable";
}

// On every CPU: for large sources, of which Intel's runtime too takes most of the time to optimise.
inline void unoptimised_on_cpus(opencl::OpenclDevice& device) {
  if (is_pocl(device)) return unoptimised_on_pocl(device);
  if (device.capabilities().cpu) device.build_options = " -cl-opt-disable";
}

}  // namespace pl::testing
