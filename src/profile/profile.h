// Profile: what ran, where, how long.  Off, it costs one relaxed load for each op.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/device.h"

namespace pl {

struct ProfileEvent {
  std::string kind;  // op, reorder, transfer
  std::string op;    // conv2d; of a reorder the op that caused it is `cause`
  std::string provider, implementation, device;
  std::vector<std::string> inputs, outputs;  // descriptions
  double bytes = 0, flops = 0;
  std::string role;     // of reorders and transfers: activation, weights, output
  std::string cause;    // the op and argument that needed it: "conv2d: weight"
  double start_ms = 0;  // host clock, since the recording began: when the work was queued
  double ms = 0;
  uint64_t thread = 0;
  std::unique_ptr<Timing> timing;
};

class Profile {
 public:
  bool active() const { return active_.load(std::memory_order_relaxed); }
  void start();  // throws Error(invalid_argument) if a recording is under way
  // Waits for the work of every event.
  std::vector<ProfileEvent> stop();
  double now_ms() const;
  void add(ProfileEvent event);

 private:
  std::atomic<bool> active_{false};
  mutable std::mutex lock_;
  std::chrono::steady_clock::time_point began_;
  std::vector<ProfileEvent> events_;
};

std::string to_json(const std::vector<ProfileEvent>& events);

}  // namespace pl
