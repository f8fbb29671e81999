#include "providers/opencl/runtime/opencl_device.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "core/threads.h"
#include "providers/opencl/program/sources.h"
#include "providers/opencl/runtime/opencl_session.h"
#include "providers/opencl/runtime/place_kernels.h"
#include "providers/opencl/runtime/timings.h"
#include "providers/opencl/tuning/plausible.h"

namespace pl::opencl {
namespace {

constexpr size_t kMostPattern = 128;  // bytes, of OpenCL's fills

}  // namespace

// Queues a command on the calling thread's stream, behind what waits in submission(); its event is kept only while a
// timing runs.
template <class Start>
void OpenclDevice::command(const Use* uses, size_t count, const char* what, Start&& start) {
  submission().settle();
  command_behind(uses, count, what, start);
}

// Queues a command that nobody waits for.  Where launches wait it stands in line with them: `start` must keep what it
// needs.
template <class Start>
void OpenclDevice::command_in_line(const Use* uses, size_t count, const char* what, Start&& start) {
  const auto in_line = [session = session_.get(), what, start] {  // one that submits later is never closed
    session->queues.command(0, nullptr, 0, nullptr, what, start);
  };
  if (submission().waits() && submits_later() && submission().add(in_line)) return;
  command(uses, count, what, start);
}

// The same where that was settled.
template <class Start>
void OpenclDevice::command_behind(const Use* uses, size_t count, const char* what, Start&& start) {
  Session& s = session();
  const bool timed = EventTiming::any_of(s);
  EventHandle event;
  s.queues.command(current_number(s.queues), uses, count, timed ? &event : nullptr, what, start);
  if (timed) EventTiming::record(s, event);
}

// The same for one that the host waits for.
template <class Start>
void OpenclDevice::command_now(const Use& use, const char* what, Start&& start) {
  Session& s = session();
  s.queues.submission().settle();
  const bool timed = EventTiming::any_of(s);
  EventHandle event;
  if (s.queues.several()) {  // waiting is no part of what queueing commands locks
    s.queues.command(current_number(s.queues), &use, 1, &event, what,
                     [&](cl_command_queue queue, cl_uint waits, const cl_event* list, cl_event* made) {
                       return start(queue, CL_FALSE, waits, list, made);
                     });
    cl_event id = event.get();
    check_cl(cl_.clWaitForEvents(1, &id), what);
  } else {
    cl_event made = nullptr;
    check_cl(start(s.queues.first(), CL_TRUE, 0, nullptr, timed ? &made : nullptr), what);
    if (timed) event = EventHandle(&cl_, made);
  }
  if (timed) EventTiming::record(s, event);
}

// ---- construction ---------------------------------------------------------------------------------------

OpenclDevice::OpenclDevice(std::string name, const Platform& platform, cl_device_id id)
    : OpenclDevice(std::move(name), platform, id, Session::of_process(platform, id)) {}

OpenclDevice::OpenclDevice(std::string name, const Platform& platform, cl_device_id id,
                           std::shared_ptr<Session> session)
    : Device(
          std::move(name), DeviceTraits(),
          RawMemory{
              [session](size_t bytes) { return session->allocate(bytes); },
              [session](std::unique_ptr<Block> block) { session->give_back(static_cast<cl_mem>(block->handle)); },
              [session](const Block& block) { return session->queues.ready(current_number(session->queues), block); }}),
      cl_(*platform.cl),
      platform_(platform),
      id_(id),
      capabilities_(read_capabilities(platform, id)),
      session_(std::move(session)) {
  set_traits(traits_of(capabilities_));
}

DeviceTraits OpenclDevice::traits_of(const Capabilities& capabilities) {
  DeviceTraits traits;
  traits.queued = traits.compiles = traits.halves = true;
  traits.gpu = capabilities.gpu;
  return traits;
}

OpenclDevice::~OpenclDevice() = default;

std::shared_ptr<OpenclDevice> OpenclDevice::share(std::string name, cl_context context, cl_command_queue queue) {
  require(context && queue, Code::invalid_argument, name, ": cl_context or cl_command_queue is null");
  if (!libraries().platforms.empty()) {
    const cl_platform_id known = libraries().platforms.front().id;
    require(plausible(context, known), Code::invalid_argument, "the cl_context ", static_cast<void*>(context),
            " is none, or was released");
    require(plausible(queue, known), Code::invalid_argument, "the cl_command_queue ", static_cast<void*>(queue),
            " is none, or was released");
  }
  // Any table can be asked through a loader; a runtime's own table serves its own objects only, so the tables
  // are tried in turn until one knows the queue's device.
  for (const Platform& candidate : libraries().platforms) {
    const Api& cl = *candidate.cl;
    cl_device_id id = nullptr;
    cl_platform_id platform = nullptr;
    if (cl.clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof id, &id, nullptr) != CL_SUCCESS) continue;
    if (cl.clGetDeviceInfo(id, CL_DEVICE_PLATFORM, sizeof platform, &platform, nullptr) != CL_SUCCESS) continue;
    if (platform != candidate.id) continue;
    cl_command_queue_properties properties = 0;
    check_cl(cl.clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, sizeof properties, &properties, nullptr),
             name + ": asking for the queue's properties");
    require(!(properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE), Code::device, name,
            ": the command queue is out of order, expected an in-order queue");
    cl_context owner = nullptr;
    check_cl(cl.clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof owner, &owner, nullptr),
             name + ": asking for the queue's context");
    require(owner == context, Code::invalid_argument, name, ": the command queue belongs to another cl_context");
    auto session = std::make_shared<Session>(candidate, id, read_capabilities(candidate, id));
    session->context = Context::retain(&cl, context);
    session->lent = Queue::retain(&cl, queue);
    session->profiling = (properties & CL_QUEUE_PROFILING_ENABLE) != 0;
    session->submits_later = false;  // the framework has commands of its own on the queue
    return std::shared_ptr<OpenclDevice>(new OpenclDevice(std::move(name), candidate, id, std::move(session)));
  }
  fail(Code::device, name, ": no OpenCL library of this process knows the command queue's device");
}

OpenclDevice::Session& OpenclDevice::session() {
  refuse_after_fork();
  session_->open();
  return *session_;
}

cl_context OpenclDevice::context() { return session().context.get(); }
cl_command_queue OpenclDevice::queue() {
  submission().close();  // others may put commands of their own behind ours
  return session().queues.first();
}
Submission& OpenclDevice::submission() { return session_->queues.submission(); }
bool OpenclDevice::submits_later() {
  Session& s = session();
  return s.submits_later && !s.queues.several() && !EventTiming::any_of(s);
}
void OpenclDevice::submit(bool later) { session_->submits_later = later; }

StreamRef OpenclDevice::make_stream() {
  Queues& queues = session().queues;
  return std::make_shared<QueueStream>(std::shared_ptr<Queues>(session_, &queues), queues.lease());
}

StreamRef OpenclDevice::stream() {
  Queues& queues = session().queues;
  for (const StreamRef& current : current_streams())
    if (current->owner() == &queues) return current;
  return std::make_shared<QueueStream>(std::shared_ptr<Queues>(session_, &queues), 0);
}

size_t OpenclDevice::queue_number() { return current_number(session_->queues); }

BufferRef OpenclDevice::zeros(size_t bytes) {
  constexpr size_t kLeast = 4096;
  std::lock_guard<std::mutex> guard(zeros_lock_);
  BufferRef buffer = zeros_.lock();
  if (buffer && buffer->bytes() >= bytes) return buffer;
  buffer = allocate(std::max(bytes, kLeast));
  fill_zero(*buffer, 0, buffer->bytes());
  zeros_ = buffer;
  return buffer;
}

// Read for each program, so that a process may change them.
static std::string options_of_the_user() {
  const char* const given = std::getenv("PYLAYOUT_OPENCL_OPTIONS");
  return given && *given ? std::string(" ") + given : std::string();
}

ProgramRef OpenclDevice::build(const KernelSource& source) {
  if (on_build) on_build(source);
  const std::string text = build_prelude + source.text();
  const std::string of_device = capabilities().cpu ? " -DPL_CPU" : "";
  const std::string options = source.options() + of_device + options_of_the_user() + build_options;
  std::atomic<bool>& declares = session().declares_builtins;
  if (!declares || source.standard() != "CL1.2") return programs().get(source.name(), text, options);
  try {  // the macro is what guards Clang's opencl-c.h, which PoCL includes
    static const std::string* builtins = new std::string(expand_source("common/builtins.clh"));
    return programs().get(source.name(), *builtins + text, options + " -D_OPENCL_H_");
  } catch (const Error& error) {
    if (error.code() != Code::device) throw;
  }
  ProgramRef program = programs().get(source.name(), text, options);
  declares = false;
  return program;
}

std::shared_future<ProgramRef> OpenclDevice::build_behind(const KernelSource& source) {
  const auto self = std::static_pointer_cast<OpenclDevice>(shared_from_this());
  return session().coming->ask(source, [self](const KernelSource& asked) { return self->build(asked); });
}

bool OpenclDevice::compiles_behind() const { return session_->is_open && session_->coming->any(); }

bool OpenclDevice::declares_builtins() { return session().declares_builtins; }

ProgramCache& OpenclDevice::programs() { return *session().programs; }
double OpenclDevice::peak_flops_per_ms() const {
  const Capabilities& has = capabilities_;
  if (!has.gpu) return 0;
  double lanes = 64;  // of a compute unit; AMD's, and of Mali and others about as many
  if (has.nvidia)
    lanes = has.compute_capability >= 86 || has.compute_capability < 60 || has.compute_capability == 61 ? 128 : 64;
  else if (has.vendor.find("Intel") != std::string::npos)
    lanes = 8;
  return 2 * lanes * has.compute_units * has.clock_mhz * 1e3;
}

// One for each process that compiles.  Where NVIDIA's runtime compiles in this one alone, more threads would only make
// what is needed first wait for what is needed last.  Who asks is about to use them: on a machine that never compiled
// anything those processes start while he makes ready what they are to compile.
int OpenclDevice::builders() const {
  if (!capabilities_.nvidia) return Device::builders();
  session_->open();
  session_->programs->expect_many();
  return std::max(3, session_->compilers.limit() + 1);
}

std::string OpenclDevice::fingerprint() const { return "opencl|" + session_->fingerprint; }

// ---- memory ---------------------------------------------------------------------------------------------

cl_mem OpenclDevice::own(Buffer& buffer, const char* action) const {
  require(buffer.handle() != nullptr && &buffer.device() == this, Code::device, action, ": the buffer is on ",
          buffer.device().name(), ", expected ", name());
  return static_cast<cl_mem>(buffer.handle());
}

BufferRef OpenclDevice::borrow_handle(void* handle) {
  auto memory = static_cast<cl_mem>(handle);
  require(memory != nullptr, Code::invalid_argument, name(), ": the cl_mem is null");
  require(plausible(handle, platform_.id), Code::invalid_argument, name(), ": the cl_mem ", handle,
          " is none, or was released");
  Session& s = session();
  cl_context owner = nullptr;
  size_t bytes = 0;
  check_cl(cl_.clGetMemObjectInfo(memory, CL_MEM_CONTEXT, sizeof owner, &owner, nullptr), "borrowing a cl_mem");
  require(owner == s.context.get(), Code::device, name(), ": the cl_mem belongs to another cl_context");
  check_cl(cl_.clGetMemObjectInfo(memory, CL_MEM_SIZE, sizeof bytes, &bytes, nullptr), "borrowing a cl_mem");
  check_cl(cl_.clRetainMemObject(memory), "borrowing a cl_mem");
  auto block = std::make_unique<Block>();
  block->handle = memory;
  block->bytes = bytes;
  block->last_uses = s.queues.uses_of_borrowed(memory);
  return std::make_shared<Buffer>(shared_from_this(), std::move(block),
                                  [session = session_, memory] { session->give_back(memory); });
}

void OpenclDevice::read(Buffer& source, size_t offset, void* destination, size_t bytes) {
  if (bytes == 0) return;
  const cl_mem memory = own(source, "read");
  command_now({&source.block(), false}, "reading from an OpenCL buffer",
              [&](cl_command_queue queue, cl_bool wait, cl_uint waits, const cl_event* list, cl_event* event) {
                return cl_.clEnqueueReadBuffer(queue, memory, wait, offset, bytes, destination, waits, list, event);
              });
}

void OpenclDevice::write(Buffer& destination, size_t offset, const void* source, size_t bytes) {
  if (bytes == 0) return;
  // The pattern of a fill is copied when it is queued: nobody waits for the queue because of a number or two.
  if (bytes <= kMostPattern && (bytes & (bytes - 1)) == 0 && offset % bytes == 0)
    return fill(destination, offset, bytes, source, bytes, "writing to an OpenCL buffer");
  const cl_mem memory = own(destination, "write");
  command_now({&destination.block(), true}, "writing to an OpenCL buffer",
              [&](cl_command_queue queue, cl_bool wait, cl_uint waits, const cl_event* list, cl_event* event) {
                return cl_.clEnqueueWriteBuffer(queue, memory, wait, offset, bytes, source, waits, list, event);
              });
}

void OpenclDevice::read_later(Buffer& source, size_t offset, void* destination, size_t bytes) {
  if (bytes == 0) return;
  const cl_mem memory = own(source, "read");
  const Use use{&source.block(), false};
  command(&use, 1, "reading from an OpenCL buffer",
          [&](cl_command_queue queue, cl_uint waits, const cl_event* list, cl_event* event) {
            return cl_.clEnqueueReadBuffer(queue, memory, CL_FALSE, offset, bytes, destination, waits, list, event);
          });
}

void OpenclDevice::write_later(Buffer& destination, size_t offset, const void* source, size_t bytes) {
  if (bytes == 0) return;
  const cl_mem memory = own(destination, "write");
  const Use use{&destination.block(), true};
  command(&use, 1, "writing to an OpenCL buffer",
          [&](cl_command_queue queue, cl_uint waits, const cl_event* list, cl_event* event) {
            return cl_.clEnqueueWriteBuffer(queue, memory, CL_FALSE, offset, bytes, source, waits, list, event);
          });
}

BufferRef OpenclDevice::allocate_pinned(Device& host, size_t bytes) {
  const std::shared_ptr<Session::Pinned> pinned = Session::pinned(session_, std::max<size_t>(bytes, 1));
  require(pinned != nullptr, Code::out_of_memory, name(), ": no pinned memory for ", bytes, " bytes");
  auto block = std::make_unique<Block>();
  block->host = pinned->address;
  block->bytes = bytes;
  return std::make_shared<Buffer>(host.shared_from_this(), std::move(block), [pinned] {});
}

void OpenclDevice::fill_zero(Buffer& destination, size_t offset, size_t bytes) {
  if (bytes == 0) return;
  const cl_uchar zero = 0;
  fill(destination, offset, bytes, &zero, 1, "filling an OpenCL buffer");
}

void OpenclDevice::fill(Buffer& destination, size_t offset, size_t bytes, const void* pattern, size_t pattern_bytes,
                        const char* what) {
  const cl_mem memory = own(destination, what);
  const Use use{&destination.block(), true};
  std::array<unsigned char, kMostPattern> kept{};
  std::memcpy(kept.data(), pattern, pattern_bytes);
  const Api* const cl = &cl_;
  command_in_line(&use, 1, what, [=](cl_command_queue queue, cl_uint waits, const cl_event* list, cl_event* event) {
    return cl->clEnqueueFillBuffer(queue, memory, kept.data(), pattern_bytes, offset, bytes, waits, list, event);
  });
}

void OpenclDevice::copy_from(cl_mem memory, Block* source, size_t source_offset, Buffer& destination,
                             size_t destination_offset, size_t bytes) {
  if (bytes == 0) return;
  const cl_mem target = own(destination, "copy");
  const Use uses[] = {{&destination.block(), true}, {source, false}};
  const Api* const cl = &cl_;
  command_in_line(uses, source ? 2 : 1, "copying between OpenCL buffers",
                  [=](cl_command_queue queue, cl_uint waits, const cl_event* list, cl_event* event) {
                    return cl->clEnqueueCopyBuffer(queue, memory, target, source_offset, destination_offset, bytes,
                                                   waits, list, event);
                  });
}

void OpenclDevice::copy(Buffer& source, size_t source_offset, Buffer& destination, size_t destination_offset,
                        size_t bytes) {
  copy_from(own(source, "copy"), &source.block(), source_offset, destination, destination_offset, bytes);
}

bool OpenclDevice::take(Buffer& source, size_t source_offset, Buffer& destination, size_t destination_offset,
                        size_t bytes) {
  OpenclDevice* const from = as_opencl(source.device());
  if (!from || from->context() != context()) return false;
  from->synchronize();
  copy_from(from->own(source, "copy"), nullptr, source_offset, destination, destination_offset, bytes);
  finish();  // what that device does next may write where this one reads
  return true;
}

void OpenclDevice::synchronize() { session().queues.finish_all(); }

void OpenclDevice::finish() {
  Queues& queues = session().queues;
  queues.finish(current_number(queues));
}

std::unique_ptr<Timing> OpenclDevice::start_timing() {
  session();
  if (session_->profiling) return std::make_unique<EventTiming>(session_);
  return std::make_unique<WallTiming>(session_);
}

// ---- host memory in place -------------------------------------------------------------------------------

bool OpenclDevice::shares_host_memory() {
  std::call_once(probed_, [this] {
    if (!capabilities_.cpu || !capabilities_.unified_memory) return;
    if (capabilities_.svm_system) {
      shares_host_memory_ = true;
      return;
    }
    // No promise of the specification: try whether writes are seen at once on either side.
    Session& s = session();
    std::unique_ptr<void, decltype(&std::free)> memory(std::aligned_alloc(kHostAlignment, kHostAlignment), &std::free);
    if (!memory) return;
    auto* host = static_cast<unsigned char*>(memory.get());
    std::memset(host, 0, kHostAlignment);
    cl_int code = CL_SUCCESS;
    Mem mem(&cl_,
            cl_.clCreateBuffer(s.context.get(), CL_MEM_USE_HOST_PTR | CL_MEM_READ_WRITE, kHostAlignment, host, &code));
    if (code != CL_SUCCESS) return;
    const unsigned char pattern = 0x5a;
    unsigned char back = 0;
    if (cl_.clEnqueueFillBuffer(s.queues.first(), mem.get(), &pattern, 1, 0, kHostAlignment, 0, nullptr, nullptr) !=
            CL_SUCCESS ||
        cl_.clFinish(s.queues.first()) != CL_SUCCESS)
      return;
    if (host[17] != pattern) return;
    host[17] = 0x33;
    if (cl_.clEnqueueReadBuffer(s.queues.first(), mem.get(), CL_TRUE, 17, 1, &back, 0, nullptr, nullptr) != CL_SUCCESS)
      return;
    shares_host_memory_ = back == 0x33;
  });
  return shares_host_memory_;
}

struct OpenclDevice::HostView {
  std::shared_ptr<Session> session;
  Mem memory;
};

uint64_t OpenclDevice::releases() const { return session_->releases; }

void OpenclDevice::set_buffer_argument(cl_kernel kernel, cl_uint index, Buffer& buffer) {
  if (buffer.handle()) {
    cl_mem memory = own(buffer, "kernel argument");
    check_cl(cl_.clSetKernelArg(kernel, index, sizeof memory, &memory), "setting a kernel's buffer argument");
    return;
  }
  require(buffer.host() != nullptr && shares_host_memory(), Code::internal, name(), ": a kernel argument lies on ",
          buffer.device().name());
  if (capabilities_.svm_system) {
    check_cl(cl_.clSetKernelArgSVMPointer(kernel, index, buffer.host()), "setting a kernel's host memory argument");
    return;
  }
  // A cl_mem over the host memory, kept beside it as long as it lives.
  Block& block = buffer.block();
  cl_mem id = nullptr;
  {
    std::lock_guard<std::mutex> guard(block.companions_lock);
    std::shared_ptr<void>& companion = block.companions[session_.get()];  // the key lives as long as its value
    if (!companion) {
      cl_int code = CL_SUCCESS;
      Mem made(&cl_, cl_.clCreateBuffer(session().context.get(), CL_MEM_USE_HOST_PTR | CL_MEM_READ_WRITE, block.bytes,
                                        block.host, &code));
      check_cl(code, "making host memory an OpenCL buffer");
      companion = std::make_shared<HostView>(HostView{session_, std::move(made)});
    }
    id = static_cast<HostView*>(companion.get())->memory.get();
  }
  check_cl(cl_.clSetKernelArg(kernel, index, sizeof id, &id), "setting a kernel's buffer argument");
}

void OpenclDevice::enqueue(cl_kernel kernel, cl_uint dimensions, const size_t* global, const size_t* local,
                           const Use* uses, size_t used) {
  command_behind(uses, used, "starting an OpenCL kernel",
                 [&](cl_command_queue queue, cl_uint waits, const cl_event* list, cl_event* event) {
                   return cl_.clEnqueueNDRangeKernel(queue, kernel, dimensions, nullptr, global, local, waits, list,
                                                     event);
                 });
}

// Not through command(): a timing of the calling thread's is not meant, and there is one queue.
void OpenclDevice::start(cl_kernel kernel, cl_uint dimensions, const size_t* global, const size_t* local) {
  session_->queues.command(0, nullptr, 0, nullptr, "starting an OpenCL kernel",
                           [&](cl_command_queue queue, cl_uint waits, const cl_event* list, cl_event* event) {
                             return cl_.clEnqueueNDRangeKernel(queue, kernel, dimensions, nullptr, global, local, waits,
                                                               list, event);
                           });
}

OpenclDevice* as_opencl(Device& device) { return dynamic_cast<OpenclDevice*>(&device); }

}  // namespace pl::opencl
