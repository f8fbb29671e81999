#include "providers/opencl/runtime/place_kernels.h"

#include <algorithm>

#include "providers/opencl/runtime/submission.h"

namespace pl::opencl {
namespace {

// Of one launch of common/gather_places.cl: an argument of 512 bytes, half of what every device takes at least.
constexpr size_t kPlaces = 64;

struct Places {
  cl_ulong at[kPlaces];
};

}  // namespace

OpenclDevice::PlaceKernels::PlaceKernels(OpenclDevice& device) : device_(device) {
  KernelSource source("common/gather_places.cl");
  source.define("MOST_PLACES", int64_t(kPlaces));
  program_ = device.build(source);
  gather_ = kernel("gather_places");
  set_ = kernel("set_places");
}

void OpenclDevice::PlaceKernels::gather(Buffer& source, const std::vector<size_t>& offsets, size_t unit,
                                        Buffer& destination, size_t at) {
  for (size_t first = 0; first < offsets.size(); first += kPlaces) {
    device_.set_buffer_argument(gather_.get(), 0, source);
    device_.set_buffer_argument(gather_.get(), 1, destination);
    const cl_ulong to = at / unit + first;
    argument(gather_, 5, &to, sizeof to);
    const Use uses[] = {{&destination.block(), true}, {&source.block(), false}};
    start(gather_, 2, offsets, first, unit, uses, 2);
  }
}

void OpenclDevice::PlaceKernels::set(Buffer& destination, const std::vector<size_t>& offsets, size_t unit) {
  for (size_t first = 0; first < offsets.size(); first += kPlaces) {
    device_.set_buffer_argument(set_.get(), 0, destination);
    const Use use{&destination.block(), true};
    start(set_, 1, offsets, first, unit, &use, 1);
  }
}

KernelHandle OpenclDevice::PlaceKernels::kernel(const char* entry) {
  cl_int code = CL_SUCCESS;
  KernelHandle made(&device_.cl(), device_.cl().clCreateKernel(program_->get(), entry, &code));
  check_cl(code, std::string("creating the kernel ") + entry);
  return made;
}

void OpenclDevice::PlaceKernels::argument(KernelHandle& kernel, cl_uint position, const void* value, size_t bytes) {
  check_cl(device_.cl().clSetKernelArg(kernel.get(), position, bytes, value),
           "setting an argument of common/gather_places.cl");
}

void OpenclDevice::PlaceKernels::start(KernelHandle& kernel, cl_uint position, const std::vector<size_t>& offsets,
                                       size_t first, size_t unit, const Use* uses, size_t used) {
  Places places = {};
  const size_t count = std::min(offsets.size() - first, kPlaces);
  for (size_t i = 0; i < count; ++i) places.at[i] = offsets[first + i] / unit;
  const auto number = cl_int(count), size = cl_int(unit);
  argument(kernel, position, &places, sizeof places);
  argument(kernel, position + 1, &number, sizeof number);
  argument(kernel, position + 2, &size, sizeof size);
  const size_t global = kPlaces;
  device_.enqueue(kernel.get(), 1, &global, nullptr, uses, used);
}

// The caller holds places_lock_: arguments are the kernels' state.
OpenclDevice::PlaceKernels& OpenclDevice::place_kernels() {
  if (!places_) places_ = std::make_unique<PlaceKernels>(*this);
  return *places_;
}

void OpenclDevice::gather_places(Buffer& source, const std::vector<size_t>& offsets, size_t unit, Buffer& destination,
                                 size_t destination_offset) {
  submission().settle();
  std::lock_guard<std::mutex> guard(places_lock_);
  place_kernels().gather(source, offsets, unit, destination, destination_offset);
}

void OpenclDevice::set_places(Buffer& destination, const std::vector<size_t>& offsets, size_t unit) {
  submission().settle();
  std::lock_guard<std::mutex> guard(places_lock_);
  place_kernels().set(destination, offsets, unit);
}

void OpenclDevice::prepare_places() {
  std::lock_guard<std::mutex> guard(places_lock_);
  place_kernels();
}

}  // namespace pl::opencl
