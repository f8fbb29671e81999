// What an OpenCL device can do, read once.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "providers/opencl/runtime/loader.h"

namespace pl::opencl {

struct Capabilities {
  std::string name, vendor, driver, version;  // of the device; version is "OpenCL 3.0 ..."
  std::string platform, platform_version;
  std::string extensions;  // separated and surrounded by spaces
  bool cpu = false, gpu = false;
  unsigned compute_units = 1;
  unsigned clock_mhz = 0;
  size_t max_work_group = 1;                     // work-items
  size_t max_work_items[3] = {1, 1, 1};          // per dimension of a work-group
  size_t local_memory = 0;                       // bytes
  bool dedicated_local_memory = false;           // false: local memory is ordinary memory (CPUs)
  size_t global_memory = 0, max_allocation = 0;  // bytes
  size_t max_parameters = 0;                     // bytes of kernel arguments
  int native_vector_float = 1;                   // floats in a native vector
  bool fp16 = false, fp64 = false;               // arithmetic; half storage is always possible
  bool unified_memory = false;                   // shares the host's memory
  bool svm_system = false;                       // kernels may use any host pointer
  bool waiting_works = false;                    // a CPU's: the thread that waits for a kernel takes part in it
  bool subgroups = false;                        // cl_khr_subgroups or OpenCL C 3.0's feature
  bool intel_subgroups = false;
  int least_subgroup = 0;      // work-items of the smallest that a kernel may ask for; 0: not said (Intel's say)
  bool nvidia = false;         // NVIDIA's compiler: inline PTX works
  int compute_capability = 0;  // NVIDIA: 10 * major + minor

  bool has_extension(const char* extension) const {
    return extensions.find(std::string(" ") + extension + " ") != std::string::npos;
  }
  std::map<std::string, std::string> properties() const;
};

Capabilities read_capabilities(const Platform& platform, cl_device_id device);

}  // namespace pl::opencl
