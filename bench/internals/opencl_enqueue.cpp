// What a launch costs on an OpenCL device, for the host and for the device, as this library makes them.
//
//   build/bench/opencl_enqueue [words of the device's name]
//
// A chain of kernels that do next to nothing, in an in-order queue: microseconds of the host for each enqueue, and
// until the device is done with all of them.  In a queue with profiling and in one without; with one kernel object
// whose arguments stay, with its buffers set before each launch, and with kernel objects in turns as a plan has them.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "providers/opencl/loader.h"
#include "providers/opencl/objects.h"

using namespace pl;
using namespace pl::opencl;

namespace {

constexpr const char* kSource = R"(
typedef struct { int offset, dim[8], stride[8]; } tensor_arg;
__kernel void plus_one(__global const float* restrict a, const tensor_arg a_arg, __global float* restrict b,
                   const tensor_arg b_arg, const int count) {
  const int i = get_global_id(0);
  if (i < count) b[i + b_arg.offset] = a[i + a_arg.offset] + 1.0f;
}
)";
constexpr int kLaunches = 300, kRounds = 30, kItems = 4096;

struct Tensor {
  cl_int offset = 0, dim[8] = {}, stride[8] = {};
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void run(const Platform& platform, cl_device_id id, bool profiling) {
  const Api& cl = *platform.cl;
  cl_int code = CL_SUCCESS;
  Context context(&cl, cl.clCreateContext(nullptr, 1, &id, nullptr, nullptr, &code));
  check_cl(code, "creating a context");
  Queue queue(&cl, cl.clCreateCommandQueue(context.get(), id, profiling ? CL_QUEUE_PROFILING_ENABLE : 0, &code));
  check_cl(code, "creating a queue");
  const char* text = kSource;
  Program program(&cl, cl.clCreateProgramWithSource(context.get(), 1, &text, nullptr, &code));
  check_cl(code, "creating a program");
  check_cl(cl.clBuildProgram(program.get(), 1, &id, "", nullptr, nullptr), "building");
  std::vector<Mem> buffers;
  for (int i = 0; i < 2; ++i)
    buffers.emplace_back(&cl, cl.clCreateBuffer(context.get(), 0, 4 * kItems, nullptr, &code));
  const Tensor tensor;
  const cl_int count = kItems;
  const auto set_buffers = [&](cl_kernel kernel, int flip) {
    for (int k = 0; k < 2; ++k) {
      cl_mem memory = buffers[size_t(k ^ flip)].get();
      check_cl(cl.clSetKernelArg(kernel, cl_uint(2 * k), sizeof memory, &memory), "setting a buffer");
    }
  };
  std::vector<KernelHandle> kernels;
  for (int i = 0; i < kLaunches; ++i) {
    kernels.emplace_back(&cl, cl.clCreateKernel(program.get(), "plus_one", &code));
    check_cl(code, "creating a kernel");
    cl_kernel kernel = kernels.back().get();
    set_buffers(kernel, i % 2);
    cl.clSetKernelArg(kernel, 1, sizeof tensor, &tensor);
    cl.clSetKernelArg(kernel, 3, sizeof tensor, &tensor);
    cl.clSetKernelArg(kernel, 4, sizeof count, &count);
  }
  struct Way {
    const char* name;
    bool many, set, flush;
  };
  for (const Way& way :
       {Way{"one kernel object, arguments stay", false, false, false},
        Way{"one, buffers set each time", false, true, false}, Way{"many, arguments stay", true, false, false},
        Way{"many, buffers set each time", true, true, false},
        Way{"many, arguments stay, flush each", true, false, true}}) {
    std::vector<double> host, all;
    const size_t global = kItems, local = 128;
    for (int round = 0; round < kRounds; ++round) {
      cl.clFinish(queue.get());
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < kLaunches; ++i) {
        cl_kernel kernel = kernels[way.many ? size_t(i) : 0].get();
        if (way.set) set_buffers(kernel, i % 2);
        check_cl(cl.clEnqueueNDRangeKernel(queue.get(), kernel, 1, nullptr, &global, &local, 0, nullptr, nullptr),
                 "enqueueing");
        if (way.flush) cl.clFlush(queue.get());
      }
      host.push_back(seconds_since(start));
      cl.clFinish(queue.get());
      all.push_back(seconds_since(start));
    }
    std::sort(host.begin(), host.end());
    std::sort(all.begin(), all.end());
    std::printf("%-10s %-36s host %6.2f us, all %6.2f us a launch\n", profiling ? "profiling" : "plain", way.name,
                host[kRounds / 2] * 1e6 / kLaunches, all[kRounds / 2] * 1e6 / kLaunches);
  }
  // A single one, from the call until the device is done.
  std::vector<double> single;
  const size_t global = kItems, local = 128;
  for (int round = 0; round < 200; ++round) {
    const auto start = std::chrono::steady_clock::now();
    cl.clEnqueueNDRangeKernel(queue.get(), kernels[0].get(), 1, nullptr, &global, &local, 0, nullptr, nullptr);
    cl.clFinish(queue.get());
    single.push_back(seconds_since(start));
  }
  std::sort(single.begin(), single.end());
  std::printf("%-10s %-36s %6.2f us\n", profiling ? "profiling" : "plain", "one launch and a wait", single[100] * 1e6);
}

}  // namespace

int main(int argc, char** argv) {
  for (const Platform& platform : libraries().platforms) {
    cl_uint count = 0;
    if (platform.cl->clGetDeviceIDs(platform.id, CL_DEVICE_TYPE_ALL, 0, nullptr, &count) != CL_SUCCESS) continue;
    std::vector<cl_device_id> ids(count);
    platform.cl->clGetDeviceIDs(platform.id, CL_DEVICE_TYPE_ALL, count, ids.data(), nullptr);
    for (cl_device_id id : ids) {
      char name[256] = "", extensions[8192] = "";
      platform.cl->clGetDeviceInfo(id, CL_DEVICE_NAME, sizeof name, name, nullptr);
      platform.cl->clGetDeviceInfo(id, CL_DEVICE_EXTENSIONS, sizeof extensions, extensions, nullptr);
      bool wanted = true;
      for (int i = 1; i < argc; ++i) wanted = wanted && std::string(name).find(argv[i]) != std::string::npos;
      if (!wanted) continue;
      std::printf("%s: %s\n", platform.name.c_str(), name);
      if (std::string(extensions).find("cl_khr_command_buffer") != std::string::npos)
        std::printf("has cl_khr_command_buffer\n");
      for (bool profiling : {true, false}) run(platform, id, profiling);
    }
  }
  return 0;
}
