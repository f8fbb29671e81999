// Elements brought together from many places of a buffer, and set at many places: kernels of common/gather_places.cl.
#pragma once

#include <string>
#include <vector>

#include "providers/opencl/runtime/opencl_device.h"
#include "providers/opencl/runtime/queues.h"

namespace pl::opencl {

class OpenclDevice::PlaceKernels {
 public:
  explicit PlaceKernels(OpenclDevice& device);
  void gather(Buffer& source, const std::vector<size_t>& offsets, size_t unit, Buffer& destination, size_t at);
  void set(Buffer& destination, const std::vector<size_t>& offsets, size_t unit);

 private:
  KernelHandle kernel(const char* entry);
  void argument(KernelHandle& kernel, cl_uint position, const void* value, size_t bytes);
  // The arguments from `position` on, and the launch, for up to kPlaces of the offsets.
  void start(KernelHandle& kernel, cl_uint position, const std::vector<size_t>& offsets, size_t first, size_t unit,
             const Use* uses, size_t used);

  OpenclDevice& device_;
  ProgramRef program_;
  KernelHandle gather_, set_;
};

}  // namespace pl::opencl
