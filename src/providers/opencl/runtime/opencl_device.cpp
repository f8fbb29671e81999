#include "providers/opencl/runtime/opencl_device.h"
#include "providers/opencl/runtime/faults.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>

#include "core/threads.h"
#include "providers/opencl/program/compiler_processes.h"
#include "providers/opencl/program/sources.h"
#include "providers/opencl/runtime/queues.h"
#include "providers/opencl/tuning/plausible.h"

namespace pl::opencl {
namespace {

// Of one launch of common/gather_places.cl: an argument of 512 bytes, half of what every device takes at least.
constexpr size_t kPlaces = 64;

bool chosen_to_submit_later(const Capabilities& capabilities) {
  const char* const wanted = std::getenv("PYLAYOUT_SUBMIT");
  if (wanted && std::string(wanted) == "thread") return true;
  if (wanted && std::string(wanted) == "caller") return false;
  return capabilities.gpu && available_processors() > 2;
}

}  // namespace

// Everything that is made on first use, shared by the device and its memory pool.
struct OpenclDevice::Session {
  const Api& cl;
  cl_device_id id;
  std::string fingerprint;
  bool binaries;     // whether programs are worth keeping on disk as binaries
  bool eager_pages;  // whether memory must be touched for a failed allocation to show
  bool profiling = true;
  std::atomic<bool> submits_later;
  std::atomic<bool> declares_builtins;
  std::atomic<uint64_t> releases{0};
  std::once_flag opened;
  Context context;
  Queue lent;  // until it is opened
  std::once_flag mapping_made;
  Queue mapping;
  Queues queues;
  CompilerProcesses compilers;
  std::unique_ptr<ProgramCache> programs;

  Session(const Platform& platform, cl_device_id id, const Capabilities& capabilities)
      : cl(*platform.cl),
        id(id),
        fingerprint(capabilities.platform + "|" + capabilities.platform_version + "|" + capabilities.name + "|" +
                    capabilities.driver),
        // PoCL keeps compiled kernels itself, and asking it for a binary compiles every kernel of the program.
        binaries(capabilities.platform != "Portable Computing Language"),
        eager_pages(!capabilities.unified_memory),
        submits_later(chosen_to_submit_later(capabilities)),
        declares_builtins(capabilities.platform == "Portable Computing Language"),
        queues(cl),
        compilers(
            {cl.library, platform.name, platform.version, number_of(platform, id)},
            capabilities.nvidia ? CompilerProcesses::useful(available_processors(), capabilities.global_memory) : 0) {}

  static unsigned number_of(const Platform& platform, cl_device_id id) {
    cl_uint count = 0;
    if (platform.cl->clGetDeviceIDs(platform.id, CL_DEVICE_TYPE_ALL, 0, nullptr, &count) != CL_SUCCESS) return 0;
    std::vector<cl_device_id> ids(count);
    if (platform.cl->clGetDeviceIDs(platform.id, CL_DEVICE_TYPE_ALL, count, ids.data(), nullptr) != CL_SUCCESS)
      return 0;
    return unsigned(std::find(ids.begin(), ids.end(), id) - ids.begin());
  }

  // The session of a device of ours: one for the process, never closed, against the fault kQueueRelease (faults.h); and
  // contexts of one process gain from sharing built programs.
  static std::shared_ptr<Session> of_process(const Platform& platform, cl_device_id id) {
    static std::mutex lock;
    static auto* sessions = new std::map<cl_device_id, std::shared_ptr<Session>>();
    std::lock_guard<std::mutex> guard(lock);
    std::shared_ptr<Session>& session = (*sessions)[id];
    if (!session) session = std::make_shared<Session>(platform, id, read_capabilities(platform, id));
    return session;
  }

  void open() {
    std::call_once(opened, [this] {
      cl_int code = CL_SUCCESS;
      if (!context) {
        context = Context(&cl, cl.clCreateContext(nullptr, 1, &id, nullptr, nullptr, &code));
        check_cl(code, "creating an OpenCL context");
      }
      const auto make = [this] {
        cl_int result = CL_SUCCESS;
        Queue made(&cl, cl.clCreateCommandQueue(context.get(), id, CL_QUEUE_PROFILING_ENABLE, &result));
        check_cl(result, "creating an OpenCL command queue");
        return made;
      };
      queues.open(lent ? std::move(lent) : make(), make);
      programs = std::make_unique<ProgramCache>(&cl, context.get(), id, fingerprint, binaries, compilers);
    });
  }

  // Counted before: nobody has the memory any more, and nobody can have got other memory at its address yet.
  void give_back(cl_mem memory) {
    queues.submission().start_all();  // a kernel that is queued keeps its memory
    ++releases;
    cl.clReleaseMemObject(memory);
  }

  // Memory that the runtime takes for transfers, mapped as long as it lives; null: there is none.  On a queue of its
  // own, since mapping waits for what is queued before it.
  struct Pinned {
    std::shared_ptr<Session> session;
    Mem memory;
    void* address = nullptr;
    ~Pinned() {
      if (!address) return;
      session->cl.clEnqueueUnmapMemObject(session->mapping.get(), memory.get(), address, 0, nullptr, nullptr);
      session->cl.clFinish(session->mapping.get());
    }
  };
  static std::shared_ptr<Pinned> pinned(const std::shared_ptr<Session>& self, size_t bytes) {
    self->open();
    const Api& cl = self->cl;
    cl_int code = CL_SUCCESS;
    std::call_once(self->mapping_made, [&] {
      self->mapping = Queue(&cl, cl.clCreateCommandQueue(self->context.get(), self->id, 0, &code));
      check_cl(code, "creating an OpenCL command queue");
    });
    auto made = std::make_shared<Pinned>();
    made->session = self;
    made->memory = Mem(&cl, cl.clCreateBuffer(self->context.get(), CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, bytes,
                                              nullptr, &code));
    if (is_allocation_failure(code)) return nullptr;
    check_cl(code, "allocating pinned memory");
    made->address = cl.clEnqueueMapBuffer(self->mapping.get(), made->memory.get(), CL_TRUE, CL_MAP_READ | CL_MAP_WRITE,
                                          0, bytes, 0, nullptr, nullptr, &code);
    if (code == CL_MAP_FAILURE || code == CL_OUT_OF_RESOURCES || is_allocation_failure(code)) return nullptr;
    check_cl(code, "mapping pinned memory");
    return made;
  }

  std::unique_ptr<Block> allocate(size_t bytes) {
    open();
    cl_int code = CL_SUCCESS;
    Mem memory(&cl, cl.clCreateBuffer(context.get(), CL_MEM_READ_WRITE, bytes, nullptr, &code));
    if (is_allocation_failure(code)) return nullptr;
    check_cl(code, "allocating OpenCL memory");
    auto block = std::make_unique<Block>();
    if (eager_pages) {
      cl_mem id_of = memory.get();
      const Use touched{block.get(), true};
      try {
        queues.command(current_number(queues), &touched, 1, nullptr, "allocating OpenCL memory",
                       [&](cl_command_queue queue, cl_uint waits, const cl_event* list, cl_event* event) {
                         return code = cl.clEnqueueMigrateMemObjects(
                                    queue, 1, &id_of, CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED, waits, list, event);
                       });
      } catch (const Error&) {
        if (code != CL_OUT_OF_RESOURCES && !is_allocation_failure(code)) throw;
        return nullptr;
      }
    }
    block->handle = memory.release();
    block->bytes = bytes;
    return block;
  }
};

// ---- timing ---------------------------------------------------------------------------------------------

// The timings that are running in this thread: each keeps the events of what the thread enqueues.
class OpenclDevice::EventTiming : public Timing {
 public:
  EventTiming(std::shared_ptr<Session> session) : session_(std::move(session)), outer_(innermost()) {
    innermost() = this;
  }
  ~EventTiming() override { stop(); }
  void stop() override {
    for (EventTiming** link = &innermost(); *link; link = &(*link)->outer_) {
      if (*link != this) continue;
      *link = outer_;
      return;
    }
  }
  double milliseconds() override {
    cl_ulong total = 0;  // nanoseconds
    for (EventHandle& event : events_) {
      cl_event id = event.get();
      check_cl(session_->cl.clWaitForEvents(1, &id), "waiting for a timed OpenCL command");
      cl_ulong begin = 0, end = 0;
      check_cl(session_->cl.clGetEventProfilingInfo(id, CL_PROFILING_COMMAND_START, sizeof begin, &begin, nullptr),
               "reading an OpenCL event's time");
      check_cl(session_->cl.clGetEventProfilingInfo(id, CL_PROFILING_COMMAND_END, sizeof end, &end, nullptr),
               "reading an OpenCL event's time");
      if (end > begin) total += end - begin;
    }
    return double(total) * 1e-6;
  }
  bool done() override {
    // The last one is: those before it on an in-order queue are too.
    if (events_.empty()) return true;
    cl_int status = CL_COMPLETE;
    const cl_int code = session_->cl.clGetEventInfo(events_.back().get(), CL_EVENT_COMMAND_EXECUTION_STATUS,
                                                    sizeof status, &status, nullptr);
    return code != CL_SUCCESS || status <= CL_COMPLETE;  // what failed is said where it is read
  }

  static EventTiming*& innermost() {
    thread_local EventTiming* timing = nullptr;
    return timing;
  }
  static bool any_of(const Session& session) {
    for (EventTiming* timing = innermost(); timing; timing = timing->outer_)
      if (timing->session_.get() == &session) return true;
    return false;
  }
  static void record(const Session& session, const EventHandle& event) {
    for (EventTiming* timing = innermost(); timing; timing = timing->outer_)
      if (timing->session_.get() == &session) timing->events_.push_back(EventHandle::retain(&session.cl, event.get()));
  }

 private:
  std::shared_ptr<Session> session_;
  EventTiming* outer_;
  std::vector<EventHandle> events_;
};

// For queues of host frameworks that were made without profiling.
class OpenclDevice::WallTiming : public Timing {
 public:
  explicit WallTiming(std::shared_ptr<Session> session)
      : session_(std::move(session)), queue_(current_number(session_->queues)) {
    session_->queues.finish(queue_);
    start_ = std::chrono::steady_clock::now();
  }
  void stop() override {
    session_->queues.finish(queue_);
    end_ = std::chrono::steady_clock::now();
  }
  double milliseconds() override { return std::chrono::duration<double, std::milli>(end_ - start_).count(); }

 private:
  std::shared_ptr<Session> session_;
  size_t queue_;
  std::chrono::steady_clock::time_point start_, end_;
};

// Queues a command on the calling thread's stream, behind what waits in submission(); its event is kept only while a
// timing runs.
template <class Start>
void OpenclDevice::command(const Use* uses, size_t count, const char* what, Start&& start) {
  submission().settle();
  command_behind(uses, count, what, start);
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

ProgramRef OpenclDevice::build(const KernelSource& source) {
  if (on_build) on_build(source);
  const std::string text = build_prelude + source.text(), options = source.options() + build_options;
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

bool OpenclDevice::declares_builtins() { return session().declares_builtins; }

ProgramCache& OpenclDevice::programs() { return *session().programs; }
// One for each process that compiles.  Where NVIDIA's runtime compiles in this one alone, more threads would only make
// what is needed first wait for what is needed last.
int OpenclDevice::builders() const {
  return capabilities_.nvidia ? std::max(3, session_->compilers.limit() + 1) : Device::builders();
}

std::string OpenclDevice::live_refusal() const {
  return capabilities().nvidia ? kMeasuringBeside.str() : std::string();
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
  if (bytes <= 128 && (bytes & (bytes - 1)) == 0 && offset % bytes == 0)
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
  command(&use, 1, what, [&](cl_command_queue queue, cl_uint waits, const cl_event* list, cl_event* event) {
    return cl_.clEnqueueFillBuffer(queue, memory, pattern, pattern_bytes, offset, bytes, waits, list, event);
  });
}

void OpenclDevice::copy_from(cl_mem memory, Block* source, size_t source_offset, Buffer& destination,
                             size_t destination_offset, size_t bytes) {
  if (bytes == 0) return;
  const cl_mem target = own(destination, "copy");
  const Use uses[] = {{&destination.block(), true}, {source, false}};
  command(uses, source ? 2 : 1, "copying between OpenCL buffers",
          [&](cl_command_queue queue, cl_uint waits, const cl_event* list, cl_event* event) {
            return cl_.clEnqueueCopyBuffer(queue, memory, target, source_offset, destination_offset, bytes, waits, list,
                                           event);
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

class OpenclDevice::PlaceKernels {
 public:
  explicit PlaceKernels(OpenclDevice& device) : device_(device) {
    KernelSource source("common/gather_places.cl");
    source.define("MOST_PLACES", int64_t(kPlaces));
    program_ = device.build(source);
    gather_ = kernel("gather_places");
    set_ = kernel("set_places");
  }
  void gather(Buffer& source, const std::vector<size_t>& offsets, size_t unit, Buffer& destination, size_t at) {
    for (size_t first = 0; first < offsets.size(); first += kPlaces) {
      device_.set_buffer_argument(gather_.get(), 0, source);
      device_.set_buffer_argument(gather_.get(), 1, destination);
      const cl_ulong to = at / unit + first;
      argument(gather_, 5, &to, sizeof to);
      const Use uses[] = {{&destination.block(), true}, {&source.block(), false}};
      start(gather_, 2, offsets, first, unit, uses, 2);
    }
  }
  void set(Buffer& destination, const std::vector<size_t>& offsets, size_t unit) {
    for (size_t first = 0; first < offsets.size(); first += kPlaces) {
      device_.set_buffer_argument(set_.get(), 0, destination);
      const Use use{&destination.block(), true};
      start(set_, 1, offsets, first, unit, &use, 1);
    }
  }

 private:
  struct Places {
    cl_ulong at[kPlaces];
  };

  KernelHandle kernel(const char* entry) {
    cl_int code = CL_SUCCESS;
    KernelHandle made(&device_.cl(), device_.cl().clCreateKernel(program_->get(), entry, &code));
    check_cl(code, std::string("creating the kernel ") + entry);
    return made;
  }
  void argument(KernelHandle& kernel, cl_uint position, const void* value, size_t bytes) {
    check_cl(device_.cl().clSetKernelArg(kernel.get(), position, bytes, value),
             "setting an argument of common/gather_places.cl");
  }
  // The arguments from `position` on, and the launch, for up to kPlaces of the offsets.
  void start(KernelHandle& kernel, cl_uint position, const std::vector<size_t>& offsets, size_t first, size_t unit,
             const Use* uses, size_t used) {
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

  OpenclDevice& device_;
  ProgramRef program_;
  KernelHandle gather_, set_;
};

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
            return cl_.clEnqueueNDRangeKernel(queue, kernel, dimensions, nullptr, global, local, waits, list, event);
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
