// ComingPrograms: programs that other threads build while the calls go on that need them (Building::behind).
//
// A network's first pass meets kernel after kernel, a tenth of a second each to compile: 28 s for a step of training
// MobileNetV2 (H200).  So a call does not wait: its launch stands in line (runtime/submission.h), and who starts the
// launches waits there until its program has come; meanwhile later calls ask for theirs.
//
// What does not compile is found out in the call, which then takes another kernel, as long as nothing of the same file
// has compiled on this device and its compiler is not known to take all files.  What fails after that is told by the
// device's next synchronisation.
#pragma once

#include <atomic>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <string>

#include "core/background.h"
#include "providers/opencl/program/kernel_source.h"
#include "providers/opencl/program/program_cache.h"

namespace pl::opencl {

class ComingPrograms {
 public:
  using Ref = std::shared_future<ProgramRef>;
  ComingPrograms(int threads, bool takes_all);

  // The program that `build` makes of the source: here where it may turn out not to compile, else by another thread.
  Ref ask(const KernelSource& source, std::function<ProgramRef(const KernelSource&)> build);
  // What has come, once it has.  Throws what building it threw.
  static ProgramRef wait(const Ref& coming, const KernelSource& source);
  // Whether some have not come yet.
  bool any() const { return left_ > 0; }

 private:
  bool compiles(const std::string& file);
  void note(const std::string& file, bool compiled);

  std::atomic<int> left_{0};
  const bool takes_all_;
  std::mutex lock_;
  std::map<std::string, bool> compiled_;  // by file, whether the last program did
  Background threads_;                    // the last: its work uses the others
};

}  // namespace pl::opencl
