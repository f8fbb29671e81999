// An OpenCL device as a pl::Device: one context and in-order queues with profiling (queues.h), one as long as nobody
// asks for streams.
//
// The context, the queues and the program cache are made when they are first needed, so that listing devices
// costs no driver initialisation; there is one of each for a device in the process.  All members may be called from any
// thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "core/device.h"
#include "providers/opencl/program/kernel_source.h"
#include "providers/opencl/program/program_cache.h"
#include "providers/opencl/runtime/capabilities.h"
#include "providers/opencl/runtime/objects.h"

namespace pl::opencl {

class Submission;
struct Use;  // queues.h

class OpenclDevice : public Device {
 public:
  // A device of ours.
  OpenclDevice(std::string name, const Platform& platform, cl_device_id id);
  // A device over a host framework's context and queue, which are retained.  The queue must be in-order;
  // without CL_QUEUE_PROFILING_ENABLE times are taken by the host's clock.
  static std::shared_ptr<OpenclDevice> share(std::string name, cl_context context, cl_command_queue queue);
  ~OpenclDevice() override;

  std::string fingerprint() const override;
  std::map<std::string, std::string> properties() const override { return capabilities_.properties(); }
  double peak_flops_per_ms() const override;
  int builders() const override;
  bool compiles_behind() const override;
  void read(Buffer& source, size_t offset, void* destination, size_t bytes) override;
  void write(Buffer& destination, size_t offset, const void* source, size_t bytes) override;
  void fill_zero(Buffer& destination, size_t offset, size_t bytes) override;
  void gather_places(Buffer& source, const std::vector<size_t>& offsets, size_t unit, Buffer& destination,
                     size_t destination_offset) override;
  void set_places(Buffer& destination, const std::vector<size_t>& offsets, size_t unit) override;
  void prepare_places() override;
  void synchronize() override;
  void finish() override;
  StreamRef make_stream() override;
  StreamRef stream() override;
  size_t queue_number() override;
  std::unique_ptr<Timing> start_timing() override;
  void copy(Buffer& source, size_t source_offset, Buffer& destination, size_t destination_offset,
            size_t bytes) override;
  // From devices over the same cl_context.
  bool take(Buffer& source, size_t source_offset, Buffer& destination, size_t destination_offset,
            size_t bytes) override;
  BufferRef borrow_handle(void* memory) override;  // a cl_mem of this device's context; retained
  void read_later(Buffer& source, size_t offset, void* destination, size_t bytes) override;
  void write_later(Buffer& destination, size_t offset, const void* source, size_t bytes) override;
  BufferRef allocate_pinned(Device& host, size_t bytes) override;

  // Appended to the options of every program that a Launch builds from now on, after a space.  For tests.
  std::string build_options;
  // Put before the text of every program that a Launch builds from now on; told of each.  For tests.
  std::string build_prelude;
  std::function<void(const KernelSource&)> on_build;
  // Makes kernels be chosen as for a device that says this of itself.  For tests, before the device is used.
  void pretend(const Capabilities& capabilities) {
    capabilities_ = capabilities;
    set_traits(traits_of(capabilities));
  }

  const Capabilities& capabilities() const { return capabilities_; }
  const Api& cl() const { return cl_; }
  cl_device_id id() const { return id_; }
  cl_context context();
  cl_command_queue queue();  // its own; streams have others
  ProgramCache& programs();
  // The source's program, built with PYLAYOUT_OPENCL_OPTIONS, and with the prelude and the options that tests ask for.
  ProgramRef build(const KernelSource& source);
  // The same behind the calls, or here (coming_programs.h).  Of a device that submits_later().
  std::shared_future<ProgramRef> build_behind(const KernelSource& source);
  // Whether build() declares built-in functions itself (kernels/common/builtins.clh), which PoCL then need not.  Ends
  // with the first program that is built without them alone: it calls others.
  bool declares_builtins();

  // At least so many bytes of zeros, which kernels share and only read.
  BufferRef zeros(size_t bytes);

  // The cl_mem of one of this device's buffers, for host frameworks; not retained.
  static cl_mem handle_of(Buffer& buffer) { return static_cast<cl_mem>(buffer.handle()); }

  // True if kernels of this device work on host memory in place, so that it can serve device `cpu`.
  // Found out by trying, once.
  bool shares_host_memory();

  // How often a cl_mem was given back: the same address is the same memory as long as this stays the same.
  uint64_t releases() const;
  // Sets a kernel argument to a buffer of this device or, where shares_host_memory(), of device `cpu`.
  void set_buffer_argument(cl_kernel kernel, cl_uint index, Buffer& buffer);
  // Queues a kernel.  `local` null: the runtime chooses.  `uses`: the memory of its arguments.  What waits in
  // submission() has been settled.
  void enqueue(cl_kernel kernel, cl_uint dimensions, const size_t* global, const size_t* local, const Use* uses,
               size_t used);

  // Launches that wait for the thread that starts them, and whether the calling thread's go there: on GPUs where a
  // processor is left for it, but for those that are timed or on streams.  PYLAYOUT_SUBMIT: `thread` or `caller`.
  Submission& submission();
  bool submits_later();
  void submit(bool later);  // for tests
  // Queues a kernel that waited there.
  void start(cl_kernel kernel, cl_uint dimensions, const size_t* global, const size_t* local);

 private:
  static DeviceTraits traits_of(const Capabilities& capabilities);
  class PlaceKernels;  // of common/gather_places.cl
  PlaceKernels& place_kernels();
  // `source`: the block of `memory`; null: another device's, which has been waited for.
  void copy_from(cl_mem memory, Block* source, size_t source_offset, Buffer& destination, size_t destination_offset,
                 size_t bytes);
  void fill(Buffer& destination, size_t offset, size_t bytes, const void* pattern, size_t pattern_bytes,
            const char* what);
  template <class Start>
  void command(const Use* uses, size_t count, const char* what, Start&& start);
  template <class Start>
  void command_in_line(const Use* uses, size_t count, const char* what, Start&& start);
  template <class Start>
  void command_behind(const Use* uses, size_t count, const char* what, Start&& start);
  template <class Start>
  void command_now(const Use& use, const char* what, Start&& start);
  class EventTiming;
  class WallTiming;
  struct HostView;  // a cl_mem over host memory
  struct Session;   // context, queue, programs

  OpenclDevice(std::string name, const Platform& platform, cl_device_id id, std::shared_ptr<Session> session);
  Session& session();
  cl_mem own(Buffer& buffer, const char* action) const;

  const Api& cl_;
  Platform platform_;
  cl_device_id id_;
  Capabilities capabilities_;
  std::shared_ptr<Session> session_;  // the allocator shares it, so that memory can outlive the device object
  std::mutex zeros_lock_;
  std::weak_ptr<Buffer> zeros_;  // lives as long as a kernel that uses it
  std::mutex places_lock_;
  std::unique_ptr<PlaceKernels> places_;
  std::once_flag probed_;
  bool shares_host_memory_ = false;
};

// The device kernels must be prepared for when ops run on `device`: itself if it is an OpenCL device, null else.
OpenclDevice* as_opencl(Device& device);

}  // namespace pl::opencl
