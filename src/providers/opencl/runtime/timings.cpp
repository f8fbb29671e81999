#include "providers/opencl/runtime/timings.h"

namespace pl::opencl {

OpenclDevice::EventTiming::EventTiming(std::shared_ptr<Session> session)
    : session_(std::move(session)), outer_(innermost()) {
  innermost() = this;
}

void OpenclDevice::EventTiming::stop() {
  for (EventTiming** link = &innermost(); *link; link = &(*link)->outer_) {
    if (*link != this) continue;
    *link = outer_;
    return;
  }
}

double OpenclDevice::EventTiming::milliseconds() {
  cl_ulong total = 0;  // nanoseconds
  for (EventHandle& event : events_) {
    cl_event id = event.get();
    check_cl(session_->cl.clWaitForEvents(1, &id), "waiting for a timed OpenCL command");
    cl_ulong begin = 0, end = 0;
    check_cl(session_->cl.clGetEventProfilingInfo(id, CL_PROFILING_COMMAND_START, sizeof begin, &begin, nullptr),
             "reading an OpenCL event's time");
    check_cl(session_->cl.clGetEventProfilingInfo(id, CL_PROFILING_COMMAND_END, sizeof end, &end, nullptr),
             "reading an OpenCL event's time");
    if (end > begin) total += end - begin;
  }
  return double(total) * 1e-6;
}

bool OpenclDevice::EventTiming::done() {
  // The last one is: those before it on an in-order queue are too.
  if (events_.empty()) return true;
  cl_int status = CL_COMPLETE;
  const cl_int code = session_->cl.clGetEventInfo(events_.back().get(), CL_EVENT_COMMAND_EXECUTION_STATUS,
                                                  sizeof status, &status, nullptr);
  return code != CL_SUCCESS || status <= CL_COMPLETE;  // what failed is said where it is read
}

OpenclDevice::EventTiming*& OpenclDevice::EventTiming::innermost() {
  thread_local EventTiming* timing = nullptr;
  return timing;
}

bool OpenclDevice::EventTiming::any_of(const Session& session) {
  for (EventTiming* timing = innermost(); timing; timing = timing->outer_)
    if (timing->session_.get() == &session) return true;
  return false;
}

void OpenclDevice::EventTiming::record(const Session& session, const EventHandle& event) {
  for (EventTiming* timing = innermost(); timing; timing = timing->outer_)
    if (timing->session_.get() == &session) timing->events_.push_back(EventHandle::retain(&session.cl, event.get()));
}

OpenclDevice::WallTiming::WallTiming(std::shared_ptr<Session> session)
    : session_(std::move(session)), queue_(current_number(session_->queues)) {
  session_->queues.finish(queue_);
  start_ = std::chrono::steady_clock::now();
}

void OpenclDevice::WallTiming::stop() {
  session_->queues.finish(queue_);
  end_ = std::chrono::steady_clock::now();
}

double OpenclDevice::WallTiming::milliseconds() {
  return std::chrono::duration<double, std::milli>(end_ - start_).count();
}

}  // namespace pl::opencl
