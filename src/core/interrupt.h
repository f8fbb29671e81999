// Interrupt: how a caller ends a call that takes long because it measures, searches or compiles.
//
// Such work calls poll() where stopping leaves everything whole: between samples, kernels, stages.  Interrupted is no
// Error, so that what records failures of candidates does not take it for one.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <mutex>

#include "core/end_of_process.h"

namespace pl {

class Interrupted : public std::exception {
 public:
  const char* what() const noexcept override { return "the call was interrupted, as its caller asked"; }
};

class Interrupt {
 public:
  // `check` is asked by poll() in the thread that polls; true: stop.  Empty: nobody is asked.
  void set(std::function<bool()> check) {
    std::lock_guard<std::mutex> guard(lock_);
    armed_ = bool(check);
    check_ = std::move(check);
  }

  // As long as it lives, poll() asks nobody in the thread that made it: for threads of our own, whose work no caller
  // waits for.
  class Unasked {
   public:
    Unasked() { ++depth(); }
    ~Unasked() { --depth(); }
    Unasked(const Unasked&) = delete;
    Unasked& operator=(const Unasked&) = delete;
  };

  // Throws Interrupted where the check says so, or the process ends meanwhile; asks at most every 20 ms, as the answer
  // may cost a thread switch.
  void poll() {
    using Clock = std::chrono::steady_clock;
    if (InLibrary::is_to_end()) throw Interrupted();
    if (!armed_ || depth()) return;
    thread_local Clock::time_point asked{};
    const Clock::time_point now = Clock::now();
    if (now - asked < std::chrono::milliseconds(20)) return;
    asked = now;
    std::function<bool()> check;
    {
      std::lock_guard<std::mutex> guard(lock_);
      check = check_;
    }
    if (check && check()) throw Interrupted();
  }

 private:
  static int& depth() {
    thread_local int unasked = 0;
    return unasked;
  }

  std::mutex lock_;
  std::function<bool()> check_;
  std::atomic<bool> armed_{false};
};

}  // namespace pl
