// What an OpenCL device makes on first use: context, queues, programs.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "providers/opencl/program/coming_programs.h"
#include "providers/opencl/program/compiler_processes.h"
#include "providers/opencl/runtime/opencl_device.h"
#include "providers/opencl/runtime/queues.h"

namespace pl::opencl {

// Everything that is made on first use, shared by the device and its memory pool.
struct OpenclDevice::Session {
  const Api& cl;
  cl_device_id id;
  std::string fingerprint;
  bool binaries;     // whether programs are worth keeping on disk as binaries
  bool eager_pages;  // whether memory must be touched for a failed allocation to show
  bool profiling = true;
  std::atomic<bool> submits_later;
  bool takes_all_files;
  std::atomic<bool> declares_builtins;
  std::atomic<uint64_t> releases{0};
  std::once_flag opened;
  std::atomic<bool> is_open{false};
  Context context;
  Queue lent;  // until it is opened
  std::once_flag mapping_made;
  Queue mapping;
  Queues queues;
  CompilerProcesses compilers;
  std::unique_ptr<ProgramCache> programs;
  std::unique_ptr<ComingPrograms> coming;

  Session(const Platform& platform, cl_device_id id, const Capabilities& capabilities);

  // The session of a device of ours: one for the process, never closed, against the fault kQueueRelease (faults.h); and
  // contexts of one process gain from sharing built programs.  When the process ends, it waits for what is queued.
  static std::shared_ptr<Session> of_process(const Platform& platform, cl_device_id id);

  struct OfProcess;

  void open();

  // Counted before: nobody has the memory any more, and nobody can have got other memory at its address yet.
  void give_back(cl_mem memory);

  // Memory that the runtime takes for transfers, mapped as long as it lives; null: there is none.  On a queue of its
  // own, since mapping waits for what is queued before it.
  struct Pinned {
    std::shared_ptr<Session> session;
    Mem memory;
    void* address = nullptr;
    ~Pinned();
  };
  static std::shared_ptr<Pinned> pinned(const std::shared_ptr<Session>& self, size_t bytes);

  std::unique_ptr<Block> allocate(size_t bytes);
};

}  // namespace pl::opencl
