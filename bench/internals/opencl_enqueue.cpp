// What a launch costs on an OpenCL device, for the host and for the device, as this library makes them.
//
//   build/bench/opencl_enqueue [words of the device's name]
//
// A chain of kernels that do next to nothing, in an in-order queue: microseconds of the host for each enqueue, and
// until the device is done with all of them, divided by their number.  In a queue with profiling, as the library's, and
// in one without; kernels of one program and of many, with few and with many arguments, buffers and local memory.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "providers/opencl/runtime/loader.h"
#include "providers/opencl/runtime/objects.h"

using namespace pl;
using namespace pl::opencl;

namespace {

constexpr int kLaunches = 300, kRounds = 9, kPrograms = 40, kBuffers = 200;
constexpr cl_int kCount = 4096;  // elements of a buffer

double now() {  // us
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + long(values.size() / 2), values.end());
  return values[values.size() / 2];
}

struct TensorArgument {
  cl_int offset = 0, dim[8] = {}, stride[8] = {};
};

// What kernels are made of.
struct Kind {
  int programs = 1, tensors = 2, buffers = 2;
  int arguments = 2;  // that are buffers
  bool local_memory = false;
  cl_int work = 0;  // sines of each work-item
};

struct How {
  bool set = false;     // buffers before each launch
  bool events = false;  // one for each launch
  size_t items = kCount;
};

class Bench {
 public:
  Bench(const Platform& platform, cl_device_id id, bool profiling) : cl_(*platform.cl), id_(id), profiling_(profiling) {
    cl_int code = CL_SUCCESS;
    context_ = Context(&cl_, cl_.clCreateContext(nullptr, 1, &id, nullptr, nullptr, &code));
    check_cl(code, "creating a context");
    const cl_command_queue_properties properties = profiling ? CL_QUEUE_PROFILING_ENABLE : 0;
    queue_ = Queue(&cl_, cl_.clCreateCommandQueue(context_.get(), id, properties, &code));
    check_cl(code, "creating a queue");
    for (int i = 0; i < kBuffers; ++i) buffers_.push_back(buffer(sizeof(cl_float) * size_t(kCount)));
  }

  void run() {
    measure("one program", {}, {});
    measure("one program, buffers set each time", {}, {true});
    Kind kind;
    kind.programs = kPrograms;
    measure("40 programs", kind, {});
    kind.buffers = kBuffers;
    measure("40 programs, 200 buffers", kind, {});
    Kind fat = kind;
    fat.tensors = 6;
    measure("6 structs of 68 bytes in place of 2", fat, {});
    fat.tensors = 40;
    measure("40 structs", fat, {});
    Kind wide = kind;
    for (int arguments : {8, 16, 32}) {
      wide.arguments = arguments;
      measure(concat(arguments, " buffer arguments in place of 2").c_str(), wide, {});
    }
    Kind local = kind;
    local.local_memory = true;
    measure("24 KB of local memory", local, {});
    Kind long_ones = kind;
    long_ones.work = gpu() ? 100 : 1;
    measure("longer ones", long_ones, {});
    How many;
    many.items = size_t(1) << 18;
    measure("262144 work-items", kind, many);
    How events;
    events.events = true;
    measure("an event each", kind, events);
    std::vector<Mem> idle;
    for (int i = 0; i < 1500; ++i) idle.push_back(buffer(size_t(1) << 18));
    measure("beside 1500 buffers of 256 KB", kind, {});
    single(kind);
  }

 private:
  bool gpu() const {
    cl_device_type type = 0;
    check_cl(cl_.clGetDeviceInfo(id_, CL_DEVICE_TYPE, sizeof type, &type, nullptr), "asking for the device's type");
    return (type & CL_DEVICE_TYPE_GPU) != 0;
  }

  Mem buffer(size_t bytes) {
    cl_int code = CL_SUCCESS;
    Mem made(&cl_, cl_.clCreateBuffer(context_.get(), CL_MEM_READ_WRITE, bytes, nullptr, &code));
    check_cl(code, "allocating");
    return made;
  }

  Program build(const Kind& kind, int salt) {
    std::string text = "typedef struct { int offset, dim[8], stride[8]; } tensor_arg;\n";
    text += "__kernel void plus(__global float* a, __global const float* b, const int count, const int work";
    for (int i = 0; i < kind.tensors; ++i) text += concat(", const tensor_arg t", i);
    for (int i = 2; i < kind.arguments; ++i) text += concat(", __global const float* b", i);
    text += ") {\n  const int i = get_global_id(0);\n";
    if (kind.local_memory)
      text +=
          "  __local float l[6000];\n  l[get_local_id(0)] = i;\n  barrier(CLK_LOCAL_MEM_FENCE);\n"
          "  if (i < 0) a[0] = l[count];\n";
    text += concat("  float x = b[i % count] + ", salt, ";\n  for (int k = 0; k < work; ++k) x = sin(x);\n");
    text += "  if (i < count) a[i] = x";
    for (int i = 0; i < kind.tensors; ++i) text += concat(" + t", i, ".offset");
    for (int i = 2; i < kind.arguments; ++i) text += concat(" + b", i, "[i]");
    text += ";\n}\n";
    const char* start = text.c_str();
    cl_int code = CL_SUCCESS;
    Program program(&cl_, cl_.clCreateProgramWithSource(context_.get(), 1, &start, nullptr, &code));
    check_cl(code, "creating a program");
    check_cl(cl_.clBuildProgram(program.get(), 1, &id_, "", nullptr, nullptr), "building a program");
    return program;
  }

  void set(cl_kernel kernel, int index, int buffers) {
    for (int k = 0; k < 2; ++k) {
      cl_mem memory = buffers_[size_t((index + k) % buffers)].get();
      check_cl(cl_.clSetKernelArg(kernel, cl_uint(k), sizeof memory, &memory), "setting a buffer");
    }
  }

  std::vector<KernelHandle> kernels(const Kind& kind) {
    std::vector<Program> programs;
    for (int i = 0; i < kind.programs; ++i) programs.push_back(build(kind, i));
    std::vector<KernelHandle> made;
    const TensorArgument tensor;
    for (int i = 0; i < kLaunches; ++i) {
      cl_int code = CL_SUCCESS;
      made.emplace_back(&cl_, cl_.clCreateKernel(programs[size_t(i) % programs.size()].get(), "plus", &code));
      check_cl(code, "creating a kernel");
      cl_kernel kernel = made.back().get();
      set(kernel, i, kind.buffers);
      check_cl(cl_.clSetKernelArg(kernel, 2, sizeof kCount, &kCount), "setting an argument");
      check_cl(cl_.clSetKernelArg(kernel, 3, sizeof kind.work, &kind.work), "setting an argument");
      for (int t = 0; t < kind.tensors; ++t)
        check_cl(cl_.clSetKernelArg(kernel, cl_uint(4 + t), sizeof tensor, &tensor), "setting an argument");
      for (int k = 2; k < kind.arguments; ++k) {
        cl_mem memory = buffers_[size_t(k % kBuffers)].get();
        const auto position = cl_uint(4 + kind.tensors + k - 2);
        check_cl(cl_.clSetKernelArg(kernel, position, sizeof memory, &memory), "setting a buffer");
      }
    }
    return made;  // kernels keep their programs
  }

  void enqueue(cl_kernel kernel, size_t items, cl_event* event) {
    const size_t group = 128;
    check_cl(cl_.clEnqueueNDRangeKernel(queue_.get(), kernel, 1, nullptr, &items, &group, 0, nullptr, event),
             "starting a kernel");
  }

  void measure(const char* name, const Kind& kind, const How& how) {
    const std::vector<KernelHandle> made = kernels(kind);
    std::vector<double> host, all;
    for (int round = 0; round < kRounds; ++round) {
      std::vector<EventHandle> events;
      cl_.clFinish(queue_.get());
      const double start = now();
      for (int i = 0; i < kLaunches; ++i) {
        if (how.set) set(made[size_t(i)].get(), i, kind.buffers);
        cl_event event = nullptr;
        enqueue(made[size_t(i)].get(), how.items, how.events ? &event : nullptr);
        if (how.events) events.emplace_back(&cl_, event);
      }
      host.push_back(now() - start);
      cl_.clFinish(queue_.get());
      all.push_back(now() - start);
    }
    std::printf("%-10s %-36s host %6.2f us, all %6.2f us a launch\n", profiling_ ? "profiling" : "plain", name,
                median(host) / kLaunches, median(all) / kLaunches);
  }

  // From the call until the device is done.
  void single(const Kind& kind) {
    const std::vector<KernelHandle> made = kernels(kind);
    std::vector<double> times;
    for (int round = 0; round < 200; ++round) {
      const double start = now();
      enqueue(made[0].get(), kCount, nullptr);
      cl_.clFinish(queue_.get());
      times.push_back(now() - start);
    }
    std::printf("%-10s %-36s %6.2f us\n", profiling_ ? "profiling" : "plain", "one launch and a wait", median(times));
  }

  const Api& cl_;
  cl_device_id id_;
  bool profiling_;
  Context context_;
  Queue queue_;
  std::vector<Mem> buffers_;
};

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  for (const Platform& platform : libraries().platforms) {
    cl_uint count = 0;
    if (platform.cl->clGetDeviceIDs(platform.id, CL_DEVICE_TYPE_ALL, 0, nullptr, &count) != CL_SUCCESS) continue;
    std::vector<cl_device_id> ids(count);
    platform.cl->clGetDeviceIDs(platform.id, CL_DEVICE_TYPE_ALL, count, ids.data(), nullptr);
    for (cl_device_id id : ids) {
      char name[256] = "";
      platform.cl->clGetDeviceInfo(id, CL_DEVICE_NAME, sizeof name, name, nullptr);
      bool wanted = true;
      for (int i = 1; i < argc; ++i) wanted = wanted && std::string(name).find(argv[i]) != std::string::npos;
      if (!wanted) continue;
      std::printf("%s: %s\n", platform.name.c_str(), name);
      for (bool profiling : {true, false}) Bench(platform, id, profiling).run();
    }
  }
  return 0;
}
