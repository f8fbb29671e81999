// CompilerProcesses: several OpenCL programs compiled at once where the driver compiles one at a time in a process.
//
// NVIDIA's runtime (driver 580) takes turns within a process, whatever the threads and contexts: eight of conv_fwd_mma
// took 1.93 s one after another, 1.49 s by eight threads, 0.26 s by eight processes.  So helper processes
// (src/compiler/main.c) compile, and their results come through the driver's own cache on disk: this process then
// compiles the same source in milliseconds.  A helper that cannot be started, fails or hangs costs time, never a
// result: the program is compiled here.  Helpers end after five seconds without work; one that has is waited for when
// the next program is compiled.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/background.h"

namespace pl::opencl {

class CompilerProcesses {
 public:
  // What pylayout-compiler is told of the device.
  struct Target {
    std::string library;            // that OpenCL was opened with
    std::string platform, version;  // names of the platform
    unsigned device = 0;            // its number on the platform, of all types
  };
  enum class Kind { source, binary };

  // `limit`: processes at a time; 0: everything is compiled here.  `path`: of pylayout-compiler.
  CompilerProcesses(Target target, int limit, std::string path = beside_this_library());
  ~CompilerProcesses();  // ends them
  CompilerProcesses(const CompilerProcesses&) = delete;
  CompilerProcesses& operator=(const CompilerProcesses&) = delete;

  // While it lives, this process compiles, and others prefer a helper.
  class Here {
   public:
    Here() = default;
    explicit Here(CompilerProcesses* owner) : owner_(owner) {}
    Here(Here&& other) noexcept : owner_(other.owner_) { other.owner_ = nullptr; }
    Here& operator=(Here&&) = delete;
    ~Here() {
      if (owner_) owner_->leave();
    }

   private:
    CompilerProcesses* owner_ = nullptr;
  };
  // Returns when it is this thread's turn to compile the program: at once where no other thread of the process does and
  // no helper runs, so that a single program starts none; else after a helper has compiled it.
  Here ahead(Kind kind, std::string_view program, const std::string& options);

  // Begins to start those that are not there, at once and without waiting: they take a second, in which who knows that
  // many programs will have to be compiled does something else.
  void prepare();

  // How many of a machine's processes are of use for a device with so much memory: each holds a context there.
  static std::string beside_this_library();  // "" where it is not there
  static int useful(int processors, size_t device_memory);
  int limit() const;
  uint64_t compiled() const;        // programs, by helpers
  std::vector<pid_t> idle() const;  // helpers without work

 private:
  struct Helper {
    pid_t pid = -1;
    int socket = -1;
  };
  void leave();
  bool start(Helper& helper) const;
  static bool ask(const Helper& helper, Kind kind, std::string_view program, const std::string& options, bool& built);
  static void end(Helper& helper);
  void drop_ended();

  Target target_;
  int limit_;
  std::string path_;  // of pylayout-compiler, "" where there is none
  mutable std::mutex lock_;
  std::condition_variable changed_;
  std::vector<Helper> idle_;
  int helpers_ = 0;  // idle, busy and starting
  int ready_ = 0;    // idle and busy
  int here_ = 0;     // threads that compile in this process
  uint64_t compiled_ = 0;
  Background starting_;  // the last: its work uses the others
};

}  // namespace pl::opencl
