// Launches that wait for a thread of the device's own (providers/opencl/runtime/submission.h): their order, what must
// not overtake them, what they need until they are started, and how their errors are told.
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "dispatch/context.h"
#include "graph/plan.h"
#include "providers/opencl/runtime/launch.h"
#include "providers/opencl/runtime/opencl_provider.h"
#include "providers/opencl/runtime/submission.h"

using namespace pl;
using namespace pl::opencl;

namespace {

// x = 3 x + by: the result tells the order.
std::unique_ptr<Launch> step(OpenclDevice& device, unsigned by, const std::vector<size_t>& local = {1}) {
  auto launch =
      std::make_unique<Launch>(device,
                               KernelSource::generated("times_3",
                                                       "__kernel void times_3(__global uint* x, const uint by) {\n"
                                                       "x[0] = 3 * x[0] + by; }\n"),
                               "times_3");
  launch->output(0).scalar(cl_uint(by)).global({1}).local(local);
  return launch;
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
    const auto one = step(device, 1), wrong = step(device, 2, {size_t(1) << 30});
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
