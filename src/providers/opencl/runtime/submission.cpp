#include "providers/opencl/runtime/submission.h"

#include <chrono>
#include <thread>

#include "core/threads.h"
#include "providers/opencl/runtime/launch.h"

namespace pl::opencl {
namespace {

using Clock = std::chrono::steady_clock;

// Eager PyTorch on an H200's host has an op every 20 to 40 us.
constexpr std::chrono::microseconds kIdle{100};
// From so many on the caller helps, so that it does not run ahead without end.
constexpr uint64_t kMostWaiting = 1024;

}  // namespace

uint64_t Submission::put(Launch* launch, const cl_mem* memories, size_t count, std::function<void()> command) {
  uint64_t number = 0;
  bool wake = false;
  {
    std::lock_guard<std::mutex> guard(lock_);
    if (closed_) return 0;
    waiting_.list.push_back({launch, count});
    if (!launch) waiting_.commands.push_back(std::move(command));
    waiting_.memories.insert(waiting_.memories.end(), memories, memories + count);
    number = added_.load(std::memory_order_relaxed) + 1;
    added_.store(number, std::memory_order_release);
    if (!serving_) {
      serving_ = wake = true;
      if (!thread_) thread_ = std::make_unique<Background>();
    }
  }
  if (wake && !thread_->add([this] { serve(); })) {  // the process ends
    {
      std::lock_guard<std::mutex> guard(lock_);
      serving_ = false;
    }
    start_all();
  } else if (number - started_.load(std::memory_order_relaxed) > kMostWaiting) {
    start_all();
  }
  return number;
}

void Submission::start_all() noexcept {
  if (is_forked_child()) return;  // the locks may be held by threads of the parent's
  std::lock_guard<std::mutex> starting(starting_);
  for (;;) {
    batch_.list.clear();
    batch_.memories.clear();
    batch_.commands.clear();
    {
      std::lock_guard<std::mutex> guard(lock_);
      if (waiting_.list.empty()) return;
      std::swap(batch_, waiting_);
    }
    const cl_mem* memories = batch_.memories.data();
    auto command = batch_.commands.begin();
    for (const Task& task : batch_.list) {
      try {
        task.launch ? task.launch->start(memories) : (*command++)();
      } catch (...) {
        std::lock_guard<std::mutex> guard(lock_);
        if (!error_) error_ = std::current_exception();
        failed_ = true;
      }
      memories += task.count;
      started_.fetch_add(1, std::memory_order_release);
    }
  }
}

void Submission::settle_now() {
  start_all();
  if (!failed_) return;
  std::exception_ptr error;
  {
    std::lock_guard<std::mutex> guard(lock_);
    std::swap(error, error_);
    failed_ = false;
  }
  if (error) std::rethrow_exception(error);
}

void Submission::close() {
  {
    std::lock_guard<std::mutex> guard(lock_);
    closed_ = true;
  }
  start_all();
}

// Of the thread.
void Submission::serve() {
  for (;;) {
    start_all();
    const Clock::time_point end = Clock::now() + kIdle;
    const auto more = [&] { return !passed(added()); };
    while (!more() && !thread_->stopping() && Clock::now() < end) std::this_thread::yield();
    std::lock_guard<std::mutex> guard(lock_);
    if (waiting_.list.empty() || thread_->stopping()) {
      serving_ = false;
      return;
    }
  }
}

}  // namespace pl::opencl
