// Launch: one kernel with its arguments and sizes; KernelList: a prepared op made of launches.
//
//   KernelSource source("conv/conv_fwd_direct.cl");
//   source.tensor("SRC", candidate.inputs[0]).tensor("DST", candidate.outputs[0]).define("STRIDE_H", 2);
//   auto kernel = std::make_unique<KernelList>(device);
//   kernel->add(source, "conv_fwd_direct")
//       .input(0, "SRC").output(0, "DST").scalar(cl_int(3))   // in the order of the kernel's parameters
//       .global({width, height, channels}).local({16, 4, 1});
//   return kernel;
#pragma once

#include <atomic>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "providers/building.h"
#include "providers/opencl/program/coming_programs.h"
#include "providers/opencl/program/kernel_source.h"
#include "providers/opencl/runtime/opencl_device.h"
#include "providers/opencl/runtime/queues.h"
#include "providers/provider.h"

namespace pl::opencl {

constexpr double kLaunchMs = 0.003;  // what each launch of a kernel beside the first one adds

class Launch {
 public:
  // Builds the program (or takes it from the cache).  Throws Error(device) with the build log.  Under Building::behind
  // other threads may build it: then who starts the kernel waits for it, and the error is told there.
  Launch(OpenclDevice& device, const KernelSource& source, const std::string& entry);

  // Arguments, in the order of the kernel's parameters.  A tensor that is named is passed as two: the pointer
  // and its tensor_arg, for TENSOR_IN and TENSOR_OUT; without a name as the pointer alone.
  Launch& input(int index, const char* tensor = nullptr);
  Launch& output(int index, const char* tensor = nullptr);
  Launch& workspace(const char* tensor = nullptr);
  Launch& buffer(BufferRef buffer, const char* tensor = nullptr);  // one the kernel owns, and reads
  Launch& local_memory(size_t bytes);
  template <class T>
  Launch& scalar(const T& value) {  // cl_int, cl_float...: the size must be the parameter's
    return bytes(&value, sizeof value);
  }
  // A struct passed by value, as its bytes.
  Launch& raw(const void* data, size_t size) { return bytes(data, size); }
  // A scalar that is an idx_t in the kernel.
  Launch& index(int64_t value);

  // Work-items per dimension, 1 to 3 of them, the first one fastest.  global is rounded up to whole work-groups
  // (the kernel checks its bounds).  Without local, groups along one dimension have 128 work-items; on CPUs, and along
  // several dimensions, the runtime chooses.
  Launch& global(const std::vector<size_t>& sizes);
  Launch& local(const std::vector<size_t>& sizes);

  ~Launch();
  // Queues the kernel, or leaves that to the device's thread (submission.h) where the arguments allow it.  Thread-safe:
  // argument setting and queueing are one step.
  void run(const KernelArguments& arguments);
  // Queues the kernel with these in its slots: what run() left to that thread.
  void start(const cl_mem* memories);

 private:
  enum class Slot { input, output, workspace, buffer };
  struct BufferSlot {
    Slot kind;
    int index;
    cl_uint position;
    BufferRef buffer;
  };
  // A kernel object and the buffers that it was given last.  Where the same ones come again nothing is set: on an H200
  // setting five buffers takes a third of what starting a kernel takes.
  struct Bound {
    KernelHandle kernel;
    std::vector<cl_mem> memories;  // in the order of slots; none: not known
    uint64_t releases = 0;         // of the device, when they were set
    uint64_t last_run = 0;
  };
  struct Value {
    cl_uint position;
    size_t size;
    std::vector<char> data;  // none: local memory
  };
  Launch& slot(Slot kind, int index, BufferRef buffer, const char* tensor);
  Launch& bytes(const void* data, size_t size);
  void set_value(cl_kernel kernel, const Value& value) const;
  // Makes the first kernel object, once the program has come.  lock_ is held, or nobody else has the launch yet.
  void get_ready();
  KernelHandle make_kernel() const;
  // Throws Error(device) where the device runs no such group of this kernel: registers may allow it less than it has.
  void check_group() const;
  Buffer& buffer_of(const BufferSlot& slot, const KernelArguments& arguments) const;
  bool run_later(const KernelArguments& arguments);
  template <class Set>
  Bound& bound_to(bool known, Set&& set);

  OpenclDevice& device_;
  KernelSource source_;
  std::string entry_;
  ProgramRef program_;
  ComingPrograms::Ref coming_;  // valid while it has not come
  Building::Failed failed_;     // to be told if it cannot be built
  std::mutex lock_;             // cl_kernel arguments are state
  std::vector<Bound> bound_;    // at least one from get_ready() on; the first has values set as they are added
  std::vector<Value> values_;
  uint64_t runs_ = 0;
  std::vector<BufferSlot> slots_;
  std::atomic<uint64_t> submitted_{0};  // the number of the last one left to that thread
  std::vector<cl_mem> memories_;        // of a run
  std::vector<Use> uses_;               // of a run
  cl_uint next_argument_ = 0;
  std::vector<size_t> global_, local_, rounded_;
};

// Runs its launches in order.  For device `cpu` it waits for the last one: work there is done when run returns.
class KernelList : public Kernel {
 public:
  explicit KernelList(OpenclDevice& device);
  ~KernelList() override;
  Launch& add(const KernelSource& source, const std::string& entry);
  void run(const KernelArguments& arguments) override;

 private:
  std::shared_ptr<OpenclDevice> device_;
  std::vector<std::unique_ptr<Launch>> launches_;
};

}  // namespace pl::opencl
