// Built OpenCL programs: in memory while they are of use, and as binaries on disk across processes.
#pragma once

#include <cstdint>
#include <deque>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "providers/opencl/program/compiler_processes.h"
#include "providers/opencl/runtime/objects.h"

namespace pl::opencl {

using ProgramRef = std::shared_ptr<const Program>;

// The cache of one device.  Thread-safe: a program that several threads ask for is built once, by one of them.
//
// In memory are the programs that kernels hold, and the last kRecent that were asked for: who tries thousands of
// kernels or sees ever new shapes keeps no more than those.
//
// On disk an entry is one file, named by the hash of its key: device, driver and platform version, source,
// options.  It holds the whole key and checksums, is written whole or not at all, and is rebuilt when it is
// damaged, belongs to another key, or is refused by the driver.  Any number of processes may share it.
class ProgramCache {
 public:
  // `fingerprint` names device, driver and platform version.  `on_disk` is false where binaries do not pay.
  // `compilers` outlives it.
  ProgramCache(const Api* cl, cl_context context, cl_device_id device, std::string fingerprint, bool on_disk,
               CompilerProcesses& compilers);

  // The program built from `source` with `options`.  Throws Error(device) with the build log and the options;
  // `name` says what it is in that message.
  ProgramRef get(const std::string& name, const std::string& source, const std::string& options);

  // Who is about to ask for the programs of a whole plan says so: where none is there yet, the processes that compile
  // are started meanwhile.
  void expect_many();

  static constexpr size_t kRecent = 256;
  struct Statistics {
    uint64_t built = 0;    // compiled from source
    uint64_t loaded = 0;   // from disk
    uint64_t damaged = 0;  // entries on disk that were unusable and have been replaced
    uint64_t held = 0;     // in memory now
  };
  Statistics statistics() const;

 private:
  struct Key {
    uint64_t low = 0, high = 0;
    friend bool operator<(const Key& a, const Key& b) { return a.low != b.low ? a.low < b.low : a.high < b.high; }
  };
  ProgramRef load_or_build(const Key& key, const std::string& name, const std::string& source,
                           const std::string& options);
  Program build(const std::string& name, const std::string& source, const std::string& options);
  Program load(const std::string& path, const std::string& key_text, const std::string& options);
  Program from_binary(std::string_view binary, const std::string& options);
  std::string binary_of(cl_program program);
  void store(const std::string& path, const std::string& key_text, cl_program program);

  const Api* cl_;
  cl_context context_;  // not owned: the device that owns this cache keeps it
  cl_device_id device_;
  std::string fingerprint_;
  bool on_disk_;
  CompilerProcesses& compilers_;
  mutable std::mutex lock_;
  struct Known {
    std::shared_future<ProgramRef> building;  // valid while one thread builds it
    std::weak_ptr<const Program> program;
  };
  void remember(const ProgramRef& program);

  std::map<Key, Known> programs_;
  std::deque<ProgramRef> recent_;  // the last one asked for at the end
  Statistics statistics_;
};

}  // namespace pl::opencl
