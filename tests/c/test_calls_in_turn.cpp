// Calls that threads make in turn: the same results and errors as a driver's own, of one thread and of several.
#include <atomic>
#include <chrono>
#include <thread>

#include "check.h"
#include "providers/opencl/runtime/calls_in_turn.h"
#include "providers/opencl/runtime/loader.h"

using namespace pl;
using namespace pl::opencl;

namespace {

constexpr size_t kBytes = 4096;
constexpr int kRounds = 50;

// A driver that knows how many threads are in it.
const Api* driver = nullptr;
std::atomic<int> inside{0}, most_inside{0};

template <class F, F Api::*Function>
struct Counted;
template <class Result, class... A, Result (*Api::*Function)(A...)>
struct Counted<Result (*)(A...), Function> {
  static Result call(A... arguments) {
    const int now = ++inside;
    for (int most = most_inside; now > most && !most_inside.compare_exchange_weak(most, now);) continue;
    const Result result = (driver->*Function)(arguments...);
    --inside;
    return result;
  }
};

const Api* counted(const Api& real) {
  static const Api* const made = [&] {
    driver = &real;
    auto* api = new Api(real);
#define PL_COUNTED(name) api->name = &Counted<decltype(api->name), &Api::name>::call;
    PL_OPENCL_REQUIRED(PL_COUNTED)
#undef PL_COUNTED
    return api;
  }();
  return made;
}

struct Fixture {
  const Api& cl;
  cl_context context = nullptr;
  cl_command_queue queue = nullptr;

  explicit Fixture(const Platform& platform) : cl(*calls_in_turn(*counted(*platform.cl))) {
    cl_device_id device = nullptr;
    CHECK(cl.clGetDeviceIDs(platform.id, CL_DEVICE_TYPE_ALL, 1, &device, nullptr) == CL_SUCCESS);
    cl_int code = CL_SUCCESS;
    context = cl.clCreateContext(nullptr, 1, &device, nullptr, nullptr, &code);
    CHECK(code == CL_SUCCESS);
    queue = cl.clCreateCommandQueue(context, device, 0, &code);
    CHECK(code == CL_SUCCESS);
  }
  ~Fixture() {
    cl.clReleaseCommandQueue(queue);
    cl.clReleaseContext(context);
  }
  cl_mem make() const {
    cl_int code = CL_SUCCESS;
    cl_mem memory = cl.clCreateBuffer(context, CL_MEM_READ_WRITE, kBytes, nullptr, &code);
    CHECK(code == CL_SUCCESS);
    return memory;
  }

  // Writes, fills and reads back, by every kind of wait.
  bool round(cl_mem memory, unsigned char number) const {
    std::vector<unsigned char> given(kBytes, number), got(kBytes, 0);
    bool right = cl.clEnqueueWriteBuffer(queue, memory, CL_TRUE, 0, kBytes, given.data(), 0, nullptr, nullptr) == 0;
    const auto next = static_cast<unsigned char>(number + 1);
    right = cl.clEnqueueFillBuffer(queue, memory, &next, 1, 0, kBytes / 2, 0, nullptr, nullptr) == 0 && right;
    right = cl.clFinish(queue) == 0 && right;
    cl_event event = nullptr;
    right = cl.clEnqueueReadBuffer(queue, memory, CL_FALSE, 0, kBytes, got.data(), 0, nullptr, &event) == 0 && right;
    right = cl.clWaitForEvents(1, &event) == 0 && cl.clReleaseEvent(event) == 0 && right;
    right = right && got.front() == next && got.back() == number;
    std::fill(got.begin(), got.end(), 0);
    right = cl.clEnqueueReadBuffer(queue, memory, CL_TRUE, 0, kBytes, got.data(), 0, nullptr, &event) == 0 && right;
    cl_int status = CL_QUEUED;
    right = cl.clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr) == 0 && right;
    right = status == CL_COMPLETE && cl.clReleaseEvent(event) == 0 && right;
    return right && got.front() == next && got.back() == number;
  }
  // A thread's rounds; how many went wrong.
  int rounds(int first) const {
    int wrong = 0;
    cl_mem memory = make();
    for (int i = 0; i < kRounds; ++i) wrong += !round(memory, static_cast<unsigned char>(first + i));
    cl.clReleaseMemObject(memory);
    return wrong;
  }
  void errors() const {
    cl_mem memory = make();
    unsigned char byte = 0;
    cl_event event = nullptr;
    CHECK(cl.clEnqueueReadBuffer(queue, memory, CL_TRUE, kBytes, 1, &byte, 0, nullptr, &event) == CL_INVALID_VALUE);
    CHECK(cl.clEnqueueWriteBuffer(queue, memory, CL_TRUE, kBytes, 1, &byte, 0, nullptr, nullptr) == CL_INVALID_VALUE);
    CHECK(cl.clFinish(nullptr) == CL_INVALID_COMMAND_QUEUE);
    CHECK(event == nullptr);
    cl.clReleaseMemObject(memory);
  }
};

TEST("one_thread_and_several") {
  const Libraries& all = libraries();
  if (all.platforms.empty()) return;
  const Fixture f(all.platforms.front());
  for (int pass = 0; pass < 2; ++pass) {
    CHECK(f.rounds(1) == 0);
    f.errors();
    std::atomic<int> wrong{0};
    std::vector<std::thread> list;
    for (int first : {1, 100, 180})
      list.emplace_back([&, first] {
        wrong += f.rounds(first);
        f.errors();
      });
    for (std::thread& thread : list) thread.join();
    CHECK(wrong == 0);
  }
  // NVIDIA's is called in turn already: by a table that was made of the driver itself.
  CHECK(most_inside == (all.platforms.front().name.find("NVIDIA") == 0 ? 0 : 1));
}

TEST("one_table") {
  const Libraries& all = libraries();
  for (const Platform& platform : all.platforms)
    CHECK(calls_in_turn(*platform.cl) == calls_in_turn(*all.platforms[0].cl));
}

}  // namespace
