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

  // Throws Interrupted where the check says so; asks at most every 20 ms, as the answer may cost a thread switch.
  void poll() {
    using Clock = std::chrono::steady_clock;
    if (!armed_) return;
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
  std::mutex lock_;
  std::function<bool()> check_;
  std::atomic<bool> armed_{false};
};

}  // namespace pl
