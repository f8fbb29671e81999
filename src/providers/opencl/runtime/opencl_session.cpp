#include "providers/opencl/runtime/opencl_session.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

#include "core/end_of_process.h"
#include "core/threads.h"
#include "providers/opencl/program/program_cache.h"
#include "providers/opencl/runtime/submission.h"

namespace pl::opencl {
namespace {

bool chosen_to_submit_later(const Capabilities& capabilities) {
  const char* const wanted = std::getenv("PYLAYOUT_SUBMIT");
  if (wanted && std::string(wanted) == "thread") return true;
  if (wanted && std::string(wanted) == "caller") return false;
  return capabilities.gpu && available_processors() > 2;
}

// NVIDIA's compiler is the same for all its devices; all kernels were run on an H100 and an H200 with driver 580.
bool is_tested_compiler(const Capabilities& capabilities) {
  return capabilities.nvidia && std::atoi(capabilities.driver.c_str()) >= 580;
}

unsigned number_of(const Platform& platform, cl_device_id id) {
  cl_uint count = 0;
  if (platform.cl->clGetDeviceIDs(platform.id, CL_DEVICE_TYPE_ALL, 0, nullptr, &count) != CL_SUCCESS) return 0;
  std::vector<cl_device_id> ids(count);
  if (platform.cl->clGetDeviceIDs(platform.id, CL_DEVICE_TYPE_ALL, count, ids.data(), nullptr) != CL_SUCCESS) return 0;
  return unsigned(std::find(ids.begin(), ids.end(), id) - ids.begin());
}

}  // namespace

OpenclDevice::Session::Session(const Platform& platform, cl_device_id id, const Capabilities& capabilities)
    : cl(*platform.cl),
      id(id),
      fingerprint(capabilities.platform + "|" + capabilities.platform_version + "|" + capabilities.name + "|" +
                  capabilities.driver),
      // PoCL keeps compiled kernels itself, and asking it for a binary compiles every kernel of the program.
      binaries(capabilities.platform != "Portable Computing Language"),
      eager_pages(!capabilities.unified_memory),
      submits_later(chosen_to_submit_later(capabilities)),
      takes_all_files(is_tested_compiler(capabilities)),
      declares_builtins(capabilities.platform == "Portable Computing Language"),
      queues(cl),
      compilers(
          {cl.library, platform.name, platform.version, number_of(platform, id)},
          capabilities.nvidia ? CompilerProcesses::useful(available_processors(), capabilities.global_memory) : 0) {}

struct OpenclDevice::Session::OfProcess {
  std::mutex lock;
  std::map<cl_device_id, std::shared_ptr<Session>> sessions;
  std::atomic<pid_t> opened_by{0};  // a forked child has not its threads

  static OfProcess& all() {
    static auto* one = new OfProcess();
    return *one;
  }

  // Runtimes work in threads of their own: PoCL's compiles a kernel when its command is due.
  static void finish() {
    if (all().opened_by != getpid()) return;
    std::vector<std::shared_ptr<Session>> open;
    {
      std::lock_guard<std::mutex> guard(all().lock);
      for (const auto& [id, session] : all().sessions)
        if (session->is_open) open.push_back(session);
    }
    for (const auto& session : open) {
      try {
        session->queues.finish_all();
      } catch (const std::exception&) {  // nobody is there to be told
      }
    }
  }
};

std::shared_ptr<OpenclDevice::Session> OpenclDevice::Session::of_process(const Platform& platform, cl_device_id id) {
  std::lock_guard<std::mutex> guard(OfProcess::all().lock);
  std::shared_ptr<Session>& session = OfProcess::all().sessions[id];
  if (!session) session = std::make_shared<Session>(platform, id, read_capabilities(platform, id));
  return session;
}

void OpenclDevice::Session::open() {
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
    const int helpers = compilers.limit();
    coming = std::make_unique<ComingPrograms>(helpers ? helpers + 1 : std::clamp(available_processors() - 1, 1, 4),
                                              takes_all_files);
    is_open = true;
    OfProcess::all().opened_by = getpid();
    [[maybe_unused]] static const bool added = (add_end_of_process(OfProcess::finish), true);
  });
}

void OpenclDevice::Session::give_back(cl_mem memory) {
  queues.submission().start_all();  // a kernel that is queued keeps its memory
  ++releases;
  cl.clReleaseMemObject(memory);
}

OpenclDevice::Session::Pinned::~Pinned() {
  if (!address) return;
  session->cl.clEnqueueUnmapMemObject(session->mapping.get(), memory.get(), address, 0, nullptr, nullptr);
  session->cl.clFinish(session->mapping.get());
}

std::shared_ptr<OpenclDevice::Session::Pinned> OpenclDevice::Session::pinned(const std::shared_ptr<Session>& self,
                                                                             size_t bytes) {
  self->open();
  const Api& cl = self->cl;
  cl_int code = CL_SUCCESS;
  std::call_once(self->mapping_made, [&] {
    self->mapping = Queue(&cl, cl.clCreateCommandQueue(self->context.get(), self->id, 0, &code));
    check_cl(code, "creating an OpenCL command queue");
  });
  auto made = std::make_shared<Pinned>();
  made->session = self;
  made->memory = Mem(
      &cl, cl.clCreateBuffer(self->context.get(), CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, bytes, nullptr, &code));
  if (is_allocation_failure(code)) return nullptr;
  check_cl(code, "allocating pinned memory");
  made->address = cl.clEnqueueMapBuffer(self->mapping.get(), made->memory.get(), CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0,
                                        bytes, 0, nullptr, nullptr, &code);
  if (code == CL_MAP_FAILURE || code == CL_OUT_OF_RESOURCES || is_allocation_failure(code)) return nullptr;
  check_cl(code, "mapping pinned memory");
  return made;
}

std::unique_ptr<Block> OpenclDevice::Session::allocate(size_t bytes) {
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

}  // namespace pl::opencl
