// The OpenCL provider's runtime layer on every device here: memory, timing, host memory in place, errors, and a
// kernel that addresses tensors of any layout.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "device_places.h"
#include "providers/opencl/program/embedded_kernels.h"
#include "providers/opencl/runtime/loader.h"
#include "providers/opencl/runtime/opencl_provider.h"
#include "unoptimised.h"

using namespace pl;
using namespace pl::opencl;

namespace {

std::vector<float> ramp(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = float(i % 1009) * 0.25f - 100.f;
  return values;
}

// All indices of a shape, in row-major order.
template <class Visit>
void for_each_index(const Dims& shape, Visit visit) {
  const int64_t count = shape.product();
  for (int64_t linear = 0; linear < count; ++linear) {
    Dims index = Dims::filled(shape.size(), 0);
    int64_t rest = linear;
    for (int d = shape.size() - 1; d >= 0; --d) {
      index[d] = rest % shape[d];
      rest /= shape[d];
    }
    visit(index, linear);
  }
}

void test_memory(OpenclDevice& device) {
  const std::vector<float> values = ramp(1000);
  BufferRef a = device.allocate(4000), b = device.allocate(4000);
  device.write(*a, 0, values.data(), 4000);
  device.copy(*a, 0, *b, 0, 4000);
  device.fill_zero(*b, 400, 400);
  std::vector<float> back(1000);
  device.read(*b, 0, back.data(), 4000);
  for (size_t i = 0; i < 1000; ++i) CHECK(back[i] == (i >= 100 && i < 200 ? 0.f : values[i]));
  CHECK(device.memory().in_use >= 8000);

  BufferRef borrowed = device.borrow_handle(OpenclDevice::handle_of(*a));
  device.read(*borrowed, 40, back.data(), 4);
  CHECK(back[0] == values[10]);

  device.set_memory_limit(1 << 20);
  bool refused = false;
  try {
    device.allocate(1 << 21);
  } catch (const Error& error) {
    refused = error.code() == Code::out_of_memory;
  }
  CHECK(refused);
  device.set_memory_limit(0);
}

void run_reorder(OpenclDevice& device, Device& where, const TensorDesc& from, const TensorDesc& to) {
  const Schema* schema = find_schema("reorder");
  REQUIRE(schema != nullptr);
  Attributes attributes;
  attributes.set(attr::target, to.layout.generic_str());
  const Op op = make_op(*schema, attributes, {from});
  const OpenclList list = OpTable<OpenclTable, OpenclList>::instance().find("reorder");
  REQUIRE(list != nullptr);
  CandidateList candidates;
  list(op, device, candidates);
  REQUIRE(!candidates.candidates.empty());
  const std::vector<float> values = ramp(from.extent());
  for (Candidate& candidate : candidates.candidates) {
    BufferRef src = where.allocate(from.size_bytes()), dst = where.allocate(to.size_bytes() + 64);
    const std::vector<float> poison(to.size_bytes() / 4 + 16, NAN);
    where.write(*src, 0, values.data(), from.size_bytes());
    where.write(*dst, 0, poison.data(), to.size_bytes() + 64);
    Buffer* in = src.get();
    Buffer* out = dst.get();
    std::unique_ptr<Kernel> kernel = candidate.prepare();
    std::unique_ptr<Timing> timing = where.start_timing();
    kernel->run({&in, &out, nullptr});
    timing->stop();
    CHECK(timing->milliseconds() > 0);
    std::vector<float> result(poison.size());
    where.read(*dst, 0, result.data(), to.size_bytes() + 64);
    std::vector<bool> written(result.size());
    for_each_index(from.shape, [&](const Dims& index, int64_t) {
      const size_t place = size_t(to.offset_of(index));
      written[place] = true;
      if (result[place] != values[size_t(from.offset_of(index))]) {
        std::fprintf(stderr, "%s: %s -> %s\n", candidate.implementation.c_str(), from.str().c_str(), to.str().c_str());
        REQUIRE(false);
      }
    });
    for (size_t i = 0; i < result.size(); ++i) {
      if (written[i]) continue;
      if (i < size_t(to.extent()))
        CHECK(result[i] == 0);  // padding
      else
        CHECK(std::isnan(result[i]));  // nothing behind the tensor
    }
  }
}

void test_layouts(OpenclDevice& device, Device& where) {
  const Dims shape{2, 19, 5, 7};
  for (const char* a : {"NCHW", "NHWC", "nChw16c", "nChw8c", "ABcd16b16a", "dcba"})
    for (const char* b : {"NCHW", "NHWC", "nChw16c", "nChw8c", "ABcd4b16a4b", "abcd3c"})
      run_reorder(device, where, TensorDesc::dense(DType::f32, shape, Layout::parse(a)),
                  TensorDesc::dense(DType::f32, shape, Layout::parse(b)));
  // Larger than a tile, and a matrix, for the paths through local memory.
  const Dims large{2, 70, 6, 9};
  for (const char* a : {"NCHW", "NHWC", "nChw16c"})
    for (const char* b : {"NCHW", "NHWC", "nChw16c"})
      run_reorder(device, where, TensorDesc::dense(DType::f32, large, Layout::parse(a)),
                  TensorDesc::dense(DType::f32, large, Layout::parse(b)));
  run_reorder(device, where, TensorDesc::dense(DType::f32, Dims{100, 90}, Layout::parse("ab")),
              TensorDesc::dense(DType::f32, Dims{100, 90}, Layout::parse("ba")));
  TensorDesc strided = TensorDesc::strided(DType::f32, Dims{3, 4}, Dims{1, 10});
  strided.offset = 5;
  run_reorder(device, where, strided, TensorDesc::dense(DType::f32, Dims{3, 4}));
}

void test_build_error(OpenclDevice& device) {
  std::string message;
  try {
    KernelSource source = KernelSource::generated("broken", "__kernel void k() { int a = nonsense; }\n");
    source.option("-DEXTRA=1");
    Launch launch(device, source, "k");
  } catch (const Error& error) {
    message = error.what();
  }
  CHECK(message.find("broken") != std::string::npos);
  CHECK(message.find("CL_BUILD_PROGRAM_FAILURE") != std::string::npos);
  CHECK(message.find("nonsense") != std::string::npos);
  CHECK(message.find("-DEXTRA=1") != std::string::npos);
}

// Each file of a kernel compiles by itself, with its defaults, and holds an entry of its own name.  What kernels call is
// declared in kernels/common/builtins.clh; what is not is found all the same.
void test_files(OpenclDevice& device) {
  const bool declares = device.declares_builtins();
  for (size_t i = 0; i < embedded_file_count; ++i) {
    const std::string path = embedded_files[i].path;
    if (path.compare(path.size() - 3, 3, ".cl") != 0) continue;
    const size_t name = path.rfind('/') + 1;
    Launch launch(device, KernelSource(path), path.substr(name, path.size() - 3 - name));
    if (device.declares_builtins() != declares)
      std::fprintf(stderr, "%s calls what kernels/common/builtins.clh does not declare\n", path.c_str());
    CHECK(device.declares_builtins() == declares);
  }
  if (!declares) return;
  device.build(KernelSource::generated(
      "other", "__kernel void other(__global float* x) { x[0] = hypot(x[0], vload3(0, x).s2); }\n"));
  CHECK(!device.declares_builtins());
}

void test_threads(OpenclDevice& device) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&device, t] {
      for (int i = 0; i < 5; ++i)
        run_reorder(device, device, TensorDesc::dense(DType::f32, Dims{1, 5 + t, 3, 4}, Layout::parse("NHWC")),
                    TensorDesc::dense(DType::f32, Dims{1, 5 + t, 3, 4}, Layout::parse("nChw8c")));
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(device.memory().in_use == 0);
}

void test_lend(Provider& provider, OpenclDevice& device) {
  std::shared_ptr<Device> lent = provider.lend(device.context(), device.queue());
  REQUIRE(lent != nullptr);
  CHECK(lent == provider.lend(device.context(), device.queue()));
  BufferRef mine = device.allocate(64);
  const int value = 77;
  device.write(*mine, 0, &value, 4);
  BufferRef theirs = lent->borrow_handle(OpenclDevice::handle_of(*mine));
  int back = 0;
  lent->read(*theirs, 0, &back, 4);
  CHECK(back == 77);
}

// Steps that share a launch have kernel objects of their own, up to a number, whose buffers are set once; memory that
// is given back and made again at the same address is set again.
TEST("buffers_of_launches") {
  for (auto& provider : make_providers()) {
    if (provider->name() != "opencl") continue;
    for (auto& device : provider->devices()) {
      OpenclDevice& opencl = *as_opencl(*device);
      Capabilities gpu = opencl.capabilities();
      gpu.cpu = false;
      opencl.pretend(gpu);
      Launch launch(opencl,
                    KernelSource::generated("shift",
                                            "__kernel void shift(__global const float* x, const float by, "
                                            "__local float* part, __global float* y) {\n"
                                            "part[0] = x[0] + by; y[0] = part[0]; }\n"),
                    "shift");
      launch.input(0).scalar(cl_float(2.5f)).local_memory(sizeof(float)).output(0).global({1}).local({1});
      const auto run = [&](const BufferRef& x, const BufferRef& y, float value) {
        opencl.write(*x, 0, &value, sizeof value);
        Buffer *in = x.get(), *out = y.get();
        launch.run({&in, &out, nullptr});
        float result = 0;
        opencl.read(*y, 0, &result, sizeof result);
        return result == value + 2.5f;
      };
      std::vector<BufferRef> buffers;
      for (int i = 0; i < 40; ++i) buffers.push_back(opencl.allocate(64));
      for (const int steps : {1, 3, 16, 17, 39, 3})  // fewer and more than there are kernel objects
        for (int round = 0; round < 3; ++round)
          for (int i = 0; i < steps; ++i) CHECK(run(buffers[size_t(i)], buffers[size_t(i + 1)], float(7 * round + i)));
      for (int i = 0; i < 50; ++i) {
        cl_int code = CL_SUCCESS;
        Mem made(&opencl.cl(), opencl.cl().clCreateBuffer(opencl.context(), CL_MEM_READ_WRITE, 4096, nullptr, &code));
        check_cl(code, "making a buffer");
        CHECK(run(opencl.borrow_handle(made.get()), buffers[0], float(i)));
        CHECK(run(buffers[1], opencl.borrow_handle(made.get()), float(i)));
      }
    }
  }
}

// Programs that no kernel holds stay for a while, and no more of them than that.
TEST("programs_are_let_go") {
  for (auto& provider : make_providers()) {
    if (provider->name() != "opencl") continue;
    for (auto& device : provider->devices()) {
      OpenclDevice& opencl = *as_opencl(*device);
      const auto program = [&](size_t i) {
        return KernelSource::generated(
            "empty", "__kernel void empty(__global float* x) { x[0] = " + std::to_string(i) + ".0f; }\n");
      };
      const ProgramRef first = opencl.build(program(0));
      const uint64_t before = opencl.programs().statistics().held;
      for (size_t i = 1; i <= ProgramCache::kRecent + 10; ++i) opencl.build(program(i));
      const ProgramCache::Statistics after = opencl.programs().statistics();
      CHECK(after.held <= before + ProgramCache::kRecent);
      CHECK(after.held >= ProgramCache::kRecent);
      CHECK(opencl.build(program(0)) == first);  // held here
      CHECK(opencl.programs().statistics().built == after.built);
      CHECK(opencl.build(program(ProgramCache::kRecent)) != nullptr);  // one of the last
      CHECK(opencl.programs().statistics().built == after.built);
      CHECK(opencl.build(program(1)) != nullptr);  // let go, and made again
      CHECK(opencl.programs().statistics().built + opencl.programs().statistics().loaded ==
            after.built + after.loaded + 1);
    }
  }
}

TEST("all") {
  for (const std::string& note : libraries().notes) std::printf("%s\n", note.c_str());
  std::shared_ptr<Device> cpu = make_cpu_device();
  for (auto& provider : make_providers()) {
    if (provider->name() != "opencl") continue;
    for (auto& device : provider->devices()) {
      OpenclDevice& opencl = *as_opencl(*device);
      std::printf("%s: %s\n", device->name().c_str(), device->fingerprint().c_str());
      testing::unoptimised_on_pocl(opencl);  // a kernel for each pair of layouts
      test_memory(opencl);
      pltest::check_places(opencl);
      test_layouts(opencl, opencl);
      if (opencl.shares_host_memory()) {
        std::printf("%s shares the host's memory\n", device->name().c_str());
        test_layouts(opencl, *cpu);
      }
      test_build_error(opencl);
      test_lend(*provider, opencl);
      test_threads(opencl);
      test_files(opencl);
    }
  }
}

}  // namespace
