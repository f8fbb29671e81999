// Launches that wait for a thread of the device's own (providers/opencl/runtime/submission.h): their order, what must
// not overtake them, what they need until they are started, and how their errors are told.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "dispatch/catalog.h"
#include "dispatch/context.h"
#include "graph/plan.h"
#include "providers/building.h"
#include "providers/opencl/runtime/launch.h"
#include "providers/opencl/runtime/opencl_provider.h"
#include "providers/opencl/runtime/submission.h"

using namespace pl;
using namespace pl::opencl;

namespace {

// x = 3 x + by: the result tells the order.
std::unique_ptr<Launch> step(OpenclDevice& device, unsigned by, size_t local = 1, const std::string& attribute = "") {
  const std::string text =
      "__kernel " + attribute + " void times_3(__global uint* x, const uint by) {\n" + "x[0] = 3 * x[0] + by; }\n";
  auto launch = std::make_unique<Launch>(device, KernelSource::generated("times_3", text), "times_3");
  launch->output(0).scalar(cl_uint(by)).global({1}).local({local});
  return launch;
}

// One that only its start shows to be wrong.
std::unique_ptr<Launch> wrong_step(OpenclDevice& device) {
  return step(device, 2, 1, "__attribute__((reqd_work_group_size(2, 1, 1)))");
}

void run(Launch& launch, const BufferRef& x, bool later = true) {
  Buffer* out = x.get();
  launch.run({nullptr, &out, nullptr, later});
}

unsigned value_of(OpenclDevice& device, const BufferRef& x) {
  unsigned value = 0;
  device.read(*x, 0, &value, sizeof value);
  return value;
}

BufferRef zero(OpenclDevice& device) {
  BufferRef x = device.allocate(64);
  device.fill_zero(*x, 0, 64);
  return x;
}

void on_each_device(const std::function<void(OpenclDevice&)>& test) {
  for (auto& provider : make_providers()) {
    if (provider->name() != "opencl") continue;
    for (auto& device : provider->devices()) {
      OpenclDevice& opencl = *as_opencl(*device);
      opencl.submit(true);
      CHECK(opencl.submits_later());
      test(opencl);
      opencl.finish();
      opencl.submit(false);
    }
  }
}

TEST("order") {
  on_each_device([](OpenclDevice& device) {
    const auto one = step(device, 1), two = step(device, 2);
    const BufferRef x = zero(device);
    unsigned expected = 0;
    for (int round = 0; round < 40; ++round) {
      for (int i = 0; i < 7 * round; ++i) {  // more than may wait, in the end
        run(i % 3 ? *one : *two, x);
        expected = 3 * expected + (i % 3 ? 1 : 2);
      }
      if (round % 5 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // the thread sleeps again
      CHECK(value_of(device, x) == expected);
    }
  });
}

// Copies, fills and launches that the caller starts itself, as plans do, come after what waits.
TEST("nothing_overtakes") {
  on_each_device([](OpenclDevice& device) {
    const auto one = step(device, 1), two = step(device, 2);
    for (int round = 0; round < 50; ++round) {
      const BufferRef x = zero(device), y = device.allocate(64);
      run(*one, x);
      run(*two, x);  // 5
      device.copy(*x, 0, *y, 0, 64);
      run(*one, x);         // 16
      run(*two, x, false);  // 50
      run(*one, x);         // 151
      const unsigned seven = 7;
      CHECK(value_of(device, y) == 5);
      CHECK(value_of(device, x) == 151);
      run(*two, x);
      device.write(*x, 0, &seven, sizeof seven);
      run(*one, x);
      CHECK(value_of(device, x) == 22);
      // Transfers that nobody waits for.
      unsigned read[2] = {0, 0};
      run(*two, x);  // 68
      device.read_later(*x, 0, &read[0], sizeof seven);
      run(*one, x);
      device.write_later(*x, 0, &seven, sizeof seven);
      run(*two, x);  // 23
      device.read_later(*x, 0, &read[1], sizeof seven);
      device.finish();
      CHECK(read[0] == 68);
      CHECK(read[1] == 23);
    }
  });
}

TEST("launches_and_memory_may_go_at_once") {
  on_each_device([](OpenclDevice& device) {
    for (unsigned round = 0; round < 50; ++round) {
      const BufferRef x = zero(device);
      {
        const BufferRef gone = device.allocate((1 << 20) + 64 * round);
        const auto one = step(device, round);
        for (int i = 0; i < 5; ++i) run(*one, gone);
        run(*one, x);
      }
      device.release_cache();
      CHECK(value_of(device, x) == round);
    }
  });
}

TEST("errors_are_told_later_and_once") {
  on_each_device([](OpenclDevice& device) {
    const auto one = step(device, 1), wrong = wrong_step(device);
    const BufferRef x = zero(device);
    run(*one, x);
    run(*wrong, x);
    run(*wrong, x);
    run(*one, x);  // those that are valid are started all the same
    std::string message;
    try {
      device.finish();
    } catch (const Error& error) {
      message = error.what();
      CHECK(error.code() == Code::device);
    }
    CHECK(message.find("starting an OpenCL kernel") != std::string::npos);
    device.finish();
    CHECK(value_of(device, x) == 4);
  });
}

// So that another kernel can be taken.
TEST("a_group_that_is_too_large_is_refused_before_it_runs") {
  on_each_device([](OpenclDevice& device) {
    std::string message;
    try {
      step(device, 1, size_t(1) << 30);
    } catch (const Error& error) {
      message = error.what();
      CHECK(error.code() == Code::device);
    }
    CHECK(message.find("work-items of this kernel") != std::string::npos);
  });
}

TEST("threads") {
  on_each_device([](OpenclDevice& device) {
    const auto shared = step(device, 1);
    std::vector<std::thread> threads;
    std::vector<BufferRef> results(4);
    for (BufferRef& result : results) result = zero(device);
    for (const BufferRef& result : results)
      threads.emplace_back([&device, &shared, &result] {
        const auto own = step(device, 2);
        for (int i = 0; i < 300; ++i) {
          run(i % 2 ? *own : *shared, result);
          if (i % 50 == 0) device.finish();
        }
      });
    for (std::thread& thread : threads) thread.join();
    unsigned expected = 0;
    for (int i = 0; i < 300; ++i) expected = 3 * expected + (i % 2 ? 2 : 1);
    for (const BufferRef& result : results) CHECK(value_of(device, result) == expected);
  });
}

// A plan's kernels wait as it was told, between those of eager calls; what it reads and writes may go behind the run.
TEST("plans") {
  ContextOptions options;
  options.cache_dir = "/proc/none";
  const auto context = pl::Context::create(options);
  for (const auto& each : context->devices()) {
    OpenclDevice* device = as_opencl(*each);
    if (!device) continue;
    device->submit(true);
    const TensorDesc desc = TensorDesc::dense(DType::f32, {4, 24});
    Graph graph;
    ValueId y = graph.input("x", desc);
    for (const char* name : {"first", "second"})
      y = graph.add(*find_schema("softmax"), Attributes::parse("dim=1"), {y}, name)[0];
    graph.output(y, "y", std::nullopt);
    PlanOptions how;
    how.device = device->name();
    how.tuning = Tuning::off;
    const auto direct = Plan::compile(context, graph, how);
    how.submit_later = true;
    const auto later = Plan::compile(context, graph, how);
    const size_t bytes = desc.size_bytes();
    std::vector<float> in(bytes / sizeof(float)), expected(in.size()), out(in.size());
    for (int round = 0; round < 20; ++round) {
      for (size_t i = 0; i < in.size(); ++i) in[i] = float((i * 7 + size_t(round)) % 13) - 6;
      TensorRef given = Tensor::allocate(*device, desc);
      device->write(*given->buffer(), 0, in.data(), bytes);
      const uint64_t before = device->submission().added();
      const TensorRef wanted = direct->run({given})[0];
      CHECK(device->submission().added() == before);
      TensorRef made = later->run({given})[0];
      CHECK(device->submission().added() > before);
      given.reset();
      made = later->run({made})[0];
      device->read(*direct->run({wanted})[0]->buffer(), 0, expected.data(), bytes);
      device->read(*made->buffer(), 0, out.data(), bytes);
      CHECK(out == expected);
    }
    device->finish();
    device->submit(false);
  }
}

// A gate that builds of some programs wait at.
struct Gate {
  std::mutex lock;
  std::condition_variable changed;
  bool is_open = false;
  std::atomic<int> waiting{0};

  void pass() {
    ++waiting;
    std::unique_lock<std::mutex> guard(lock);
    changed.wait_for(guard, std::chrono::seconds(60), [this] { return is_open; });
  }
  void open() {
    std::lock_guard<std::mutex> guard(lock);
    is_open = true;
    changed.notify_all();
  }
};

// The message of the device's error that it throws; empty: it throws none.
std::string problem_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    CHECK(error.code() == Code::device);
    return error.what();
  }
  return {};
}

bool mentions(const KernelSource& source, const std::string& word) {
  return source.text().find(word) != std::string::npos;
}

// x = 3 x + by, compiled for `by`.
std::unique_ptr<Launch> compiled_step(OpenclDevice& device, const std::string& by, const std::string& file) {
  auto launch = std::make_unique<Launch>(
      device,
      KernelSource::generated(
          file, "__kernel void times_3(__global uint* x, uint more) { x[0] = 3 * x[0] + " + by + " + more; }\n"),
      "times_3");
  launch->output(0).scalar(cl_uint(1)).global({1}).local({1});
  return launch;
}

// The first program of a file is built in the call, later ones by another thread: what was queued waits for them.
TEST("programs_come_behind_calls") {
  on_each_device([](OpenclDevice& device) {
    Gate gate;
    const std::thread::id here = std::this_thread::get_id();
    std::atomic<int> built_here{0};
    device.on_build = [&](const KernelSource& source) {
      built_here += std::this_thread::get_id() == here;
      if (mentions(source, "+ 20u")) gate.pass();
    };
    std::vector<std::string> told;
    const Building wish(Building::behind, [&](const std::string& why) { told.push_back(why); });
    const BufferRef x = zero(device);
    const auto first = compiled_step(device, "10u", "programs_come");
    CHECK(built_here == 1);
    const auto second = compiled_step(device, "20u", "programs_come"), third = step(device, 5);
    run(*first, x);   // 11
    run(*second, x);  // 33 + 21
    run(*third, x);   // 162 + 5
    run(*second, x);  // 501 + 21
    CHECK(!device.submission().passed(device.submission().added()));
    while (gate.waiting == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    CHECK(device.compiles_behind());
    std::thread opens([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      gate.open();
    });
    CHECK(value_of(device, x) == 522);
    opens.join();
    CHECK(!device.compiles_behind());
    run(*second, x, false);  // as a plan would
    CHECK(value_of(device, x) == 3 * 522 + 21);
    CHECK(told.empty());
    device.on_build = nullptr;
  });
}

// Of a file that nothing of has been built the call tells it, later ones the next synchronisation: once, whatever runs.
TEST("programs_that_do_not_build") {
  on_each_device([](OpenclDevice& device) {
    std::atomic<int> told{0};
    const Building wish(Building::behind,
                        [&](const std::string& why) { told += why.find("broken") != std::string::npos; });
    const std::string file = "programs_that_fail";
    const auto says_so = [&](const std::function<void()>& action) {
      return problem_of(action).find("building the OpenCL program " + file) != std::string::npos;
    };
    CHECK(says_so([&] { compiled_step(device, "broken", file); }));
    CHECK(told == 0);
    const BufferRef x = zero(device);
    const auto one = compiled_step(device, "1u", file), bad = compiled_step(device, "broken", file);
    run(*one, x);
    run(*bad, x);
    run(*one, x);
    CHECK(says_so([&] { device.finish(); }));
    CHECK(told == 1);
    device.finish();
    CHECK(value_of(device, x) == 3 * 2 + 2);
    CHECK(says_so([&] { compiled_step(device, "broken + 1u", file); }));  // it is not trusted any more
  });
}

// An op whose kernel could not be compiled behind the call fails once and takes another kernel then.
TEST("ops_whose_kernel_does_not_build") {
  ContextOptions options;
  options.cache_dir = "/proc/none";
  options.tuning = Tuning::off;
  const auto context = pl::Context::create(options);
  for (const auto& each : context->devices()) {
    OpenclDevice* device = as_opencl(*each);
    if (!device) continue;
    device->submit(true);
    const auto run = [&](int64_t width) {
      const TensorDesc desc = TensorDesc::dense(DType::f32, {1, 8, 9, width});
      const TensorDesc weights = TensorDesc::dense(DType::f32, {8, 8, 3, 3});
      const TensorRef x = Tensor::allocate(*device, desc), w = Tensor::allocate(*device, weights);
      const std::vector<float> ones(size_t(std::max(desc.elements(), weights.elements())), 1.0f);
      context->write(x, ones.data(), desc.size_bytes());
      context->write(w, ones.data(), weights.size_bytes());
      const TensorRef y = context->run(*find_schema("conv2d"), CallAttributes::parse({}), {x, w, nullptr})[0];
      std::vector<float> out(size_t(y->desc().elements()));
      context->read(y, out.data(), out.size() * sizeof(float));
      return std::all_of(out.begin(), out.end(), [](float value) { return value == 72; });
    };
    CHECK(run(11));
    const std::thread::id here = std::this_thread::get_id();
    device->on_build = [here](const KernelSource& source) {
      if (std::this_thread::get_id() != here) fail(Code::device, "refused: ", source.name());
    };
    CHECK(problem_of([&] { run(13); }).find("refused: ") != std::string::npos);
    int tries = 1;
    while (!problem_of([&] { CHECK(run(13)); }).empty())
      REQUIRE(++tries < 9);  // until a kernel is compiled in the call
    size_t refused = 0;
    for (const EntryRef& entry : context->catalog().met(*device))
      for (const Way& way : entry->ways) refused += !way.usable;
    CHECK(refused >= 1);
    device->on_build = nullptr;
    device->submit(false);
  }
}

// From the first stream on commands have events, which know what each waits for: callers start their launches. The last
// case, as that stays so in this process.
TEST("streams_end_it") {
  on_each_device([](OpenclDevice& device) {
    const auto one = step(device, 1);
    const BufferRef x = zero(device);
    for (int i = 0; i < 20; ++i) run(*one, x);
    const StreamRef stream = device.make_stream();
    CHECK(!device.submits_later());
    run(*one, x);
    unsigned expected = 0;
    for (int i = 0; i < 21; ++i) expected = 3 * expected + 1;
    CHECK(value_of(device, x) == expected);
  });
}

}  // namespace
