#include "providers/opencl/runtime/calls_in_turn.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

namespace pl::opencl {
namespace {

// Between an event's questions: of short waits, in which others take the lock, and of those that last so long that what
// a sleep adds, up to 70 us, is little.
constexpr std::chrono::microseconds kGap(5), kSleep(20), kShort(5000);

const Api* driver_api = nullptr;

// Threads that have called and did not end yet.
std::atomic<int> callers{0};
struct Caller {
  Caller() { ++callers; }
  ~Caller() { --callers; }
};

// Whether no other thread has called.  One that does so for the first time later waits for the turn, as all do.
bool is_alone() {
  thread_local const Caller self;
  return callers.load() <= 1;
}

std::mutex& turn() {
  is_alone();                         // counts this thread
  static auto* one = new std::mutex;  // never destroyed: objects are released when the process ends, too
  return *one;
}

template <class F, F Api::*Function>
struct InTurn;
template <class Result, class... A, Result (*Api::*Function)(A...)>
struct InTurn<Result (*)(A...), Function> {
  static Result call(A... arguments) {
    const std::lock_guard<std::mutex> guard(turn());
    return (driver_api->*Function)(arguments...);
  }
};

// Until the event has happened.
cl_int poll(cl_event event) {
  const auto begin = std::chrono::steady_clock::now();
  for (;;) {
    cl_int status = CL_COMPLETE, code = CL_SUCCESS;
    {
      const std::lock_guard<std::mutex> guard(turn());
      code = driver_api->clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr);
    }
    if (code != CL_SUCCESS) return code;
    if (status < 0) return CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
    if (status == CL_COMPLETE) return CL_SUCCESS;
    const auto asked = std::chrono::steady_clock::now();
    if (asked - begin > kShort)
      std::this_thread::sleep_for(kSleep);
    else
      while (std::chrono::steady_clock::now() - asked < kGap) std::this_thread::yield();
  }
}

// start(event) queues a command, in turn, which is waited for.
template <class Start>
cl_int start_and_poll(cl_command_queue queue, cl_event* wanted, Start&& start) {
  cl_event event = nullptr;
  {
    const std::lock_guard<std::mutex> guard(turn());
    cl_int code = start(&event);
    if (code == CL_SUCCESS) code = driver_api->clFlush(queue);
    if (code != CL_SUCCESS) {
      if (event) driver_api->clReleaseEvent(event);
      return code;
    }
  }
  const cl_int code = poll(event);
  if (wanted && code == CL_SUCCESS) {
    *wanted = event;
    return code;
  }
  const std::lock_guard<std::mutex> guard(turn());
  driver_api->clReleaseEvent(event);
  return code;
}

cl_int CL_API_CALL finish(cl_command_queue queue) {
  if (is_alone()) {
    const std::lock_guard<std::mutex> guard(turn());
    return driver_api->clFinish(queue);
  }
  return start_and_poll(queue, nullptr, [&](cl_event* event) {
    return driver_api->clEnqueueMarkerWithWaitList(queue, 0, nullptr, event);
  });
}

cl_int CL_API_CALL wait_for_events(cl_uint count, const cl_event* events) {
  if (is_alone()) {
    const std::lock_guard<std::mutex> guard(turn());
    return driver_api->clWaitForEvents(count, events);
  }
  cl_int result = CL_SUCCESS;
  for (cl_uint i = 0; i < count; ++i) {
    {
      const std::lock_guard<std::mutex> guard(turn());
      cl_command_queue queue = nullptr;
      const cl_int code = driver_api->clGetEventInfo(events[i], CL_EVENT_COMMAND_QUEUE, sizeof queue, &queue, nullptr);
      if (code != CL_SUCCESS) return code;
      if (queue) driver_api->clFlush(queue);  // or the command need never start
    }
    if (const cl_int code = poll(events[i]); code != CL_SUCCESS) result = code;
  }
  return result;
}

// clEnqueueReadBuffer or clEnqueueWriteBuffer, to or from `host`.
template <auto Transfer, class Host>
cl_int CL_API_CALL transfer(cl_command_queue queue, cl_mem memory, cl_bool blocks, size_t offset, size_t bytes,
                            Host host, cl_uint waits, const cl_event* list, cl_event* event) {
  const auto start = [&](cl_event* own) {
    return (driver_api->*Transfer)(queue, memory, CL_FALSE, offset, bytes, host, waits, list, own);
  };
  if (blocks && !is_alone()) return start_and_poll(queue, event, start);
  const std::lock_guard<std::mutex> guard(turn());
  return (driver_api->*Transfer)(queue, memory, blocks, offset, bytes, host, waits, list, event);
}

const Api* made_of(const Api& driver) {
  driver_api = &driver;
  auto* api = new Api(driver);
#define PL_OPENCL_IN_TURN(name) api->name = &InTurn<decltype(api->name), &Api::name>::call;
  PL_OPENCL_REQUIRED(PL_OPENCL_IN_TURN)
#undef PL_OPENCL_IN_TURN
  api->clBuildProgram = driver.clBuildProgram;
  api->clFinish = finish;
  api->clWaitForEvents = wait_for_events;
  api->clEnqueueReadBuffer = transfer<&Api::clEnqueueReadBuffer, void*>;
  api->clEnqueueWriteBuffer = transfer<&Api::clEnqueueWriteBuffer, const void*>;
  return api;
}

}  // namespace

const Api* calls_in_turn(const Api& driver) {
  static const Api* const api = made_of(driver);
  return api;
}

}  // namespace pl::opencl
