// Submission: launches that wait for a thread of their own to start them.
//
// Starting a kernel takes NVIDIA's driver 5 to 10 us, a third of what a step of eager training costs the host.  That
// thread does it while the caller goes on to the next op: a training step of ResNet-18 from 13.0 to 9.6 ms, CUDA's
// eager mode 10.7 (an H100's host, `PYLAYOUT_SUBMIT=thread python -m bench.ocl_eager --network resnet18`).  A plan has
// no other work between its launches, and starts them itself unless its caller has: PyTorch under torch.compile.  Who
// needs the device in order, because it reads a result or waits, calls settle(): it starts what is left itself.  Fills
// and copies that come while launches wait stand in line with them.
//
// Launches start in the order of add(). The thread runs on for kIdle after the last of them, for waking it takes as
// long as starting a kernel; then it sleeps. What fails is told by the next settle(), as the caller has gone on.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/background.h"
#include "providers/opencl/runtime/api.h"

namespace pl::opencl {

class Launch;

class Submission {
 public:
  // The number of the launch, to ask passed() about; 0: it was not taken, the caller is to start it. Launch and memory
  // must stay until it has passed.
  uint64_t add(Launch& launch, const cl_mem* memories, size_t count) { return put(&launch, memories, count, {}); }
  // The same for another command, which `start` queues; true: it was taken.
  bool add(std::function<void()> start) { return put(nullptr, nullptr, 0, std::move(start)) != 0; }
  bool waits() const { return !passed(added()); }
  // All that was added before has been started. Throws the first error of starting since the last call.
  void settle() {
    if (waits() || failed_) settle_now();
  }
  // The same without throwing: the error stays for settle().
  void start_all() noexcept;
  uint64_t added() const { return added_.load(std::memory_order_acquire); }  // launches so far
  bool passed(uint64_t number) const { return started_.load(std::memory_order_acquire) >= number; }
  // Nothing more is taken.
  void close();

 private:
  struct Task {
    Launch* launch;  // null: the next one of the commands
    size_t count;    // of its memories, which follow those of the task before
  };
  struct Tasks {
    std::vector<Task> list;
    std::vector<cl_mem> memories;
    std::vector<std::function<void()>> commands;
  };
  uint64_t put(Launch* launch, const cl_mem* memories, size_t count, std::function<void()> command);
  void settle_now();
  void serve();

  std::atomic<uint64_t> added_{0}, started_{0};
  std::atomic<bool> failed_{false};
  std::mutex lock_;  // guards these four
  Tasks waiting_;
  std::exception_ptr error_;
  bool serving_ = false, closed_ = false;
  std::mutex starting_;  // held by who starts launches; taken before lock_
  Tasks batch_;
  std::unique_ptr<Background> thread_;  // from the first launch on
};

}  // namespace pl::opencl
