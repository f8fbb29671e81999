// How long the kernels of an OpenCL device take: by events, or by the clock where queues give none.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "providers/opencl/runtime/opencl_session.h"

namespace pl::opencl {

// The timings that are running in this thread: each keeps the events of what the thread enqueues.
class OpenclDevice::EventTiming : public Timing {
 public:
  explicit EventTiming(std::shared_ptr<Session> session);
  ~EventTiming() override { stop(); }
  void stop() override;
  double milliseconds() override;
  bool done() override;

  static bool any_of(const Session& session);
  static void record(const Session& session, const EventHandle& event);

 private:
  static EventTiming*& innermost();

  std::shared_ptr<Session> session_;
  EventTiming* outer_;
  std::vector<EventHandle> events_;
};

// For queues of host frameworks that were made without profiling.
class OpenclDevice::WallTiming : public Timing {
 public:
  explicit WallTiming(std::shared_ptr<Session> session);
  void stop() override;
  double milliseconds() override;

 private:
  std::shared_ptr<Session> session_;
  size_t queue_;
  std::chrono::steady_clock::time_point start_, end_;
};

}  // namespace pl::opencl
