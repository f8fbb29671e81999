// Which kernels the calling thread itself hands to the driver.
#pragma once

#include "providers/opencl/runtime/opencl_device.h"
#include "providers/provider.h"

namespace pl::testing {

class LaunchesHere {
 public:
  // From here on, of one OpenCL library; of a further one they do not count.
  explicit LaunchesHere(opencl::OpenclDevice& device) : before_(count) {
    auto& start = const_cast<opencl::Api&>(device.cl()).clEnqueueNDRangeKernel;
    if (real) return;
    real = start;
    start = counted;
  }
  int so_far() const { return count - before_; }

 private:
  using Start = decltype(opencl::Api::clEnqueueNDRangeKernel);
  static cl_int counted(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions, const size_t* offset,
                        const size_t* global, const size_t* local, cl_uint waits, const cl_event* list,
                        cl_event* event) {
    ++count;
    return real(queue, kernel, dimensions, offset, global, local, waits, list, event);
  }
  inline static Start real = nullptr;
  inline static thread_local int count = 0;
  int before_;
};

// Leaves the launches of a kernel to the device's thread, where it has one; how many were not left.
inline int run_later(Device& device, Kernel& kernel, KernelArguments arguments) {
  opencl::OpenclDevice* const own = opencl::as_opencl(device);
  if (!own) {
    kernel.run(arguments);
    return 0;
  }
  arguments.later = true;
  own->submit(true);
  const LaunchesHere here(*own);
  kernel.run(arguments);
  own->submit(false);
  return here.so_far();
}

}  // namespace pl::testing
