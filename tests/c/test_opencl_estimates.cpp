// Estimates for convolutions in fp16 against what they took on an H200 (bench/gpu_steps.py, GoogLeNet at batch 16):
// of matrix units within twice, of ordinary arithmetic within four times, and of one op in the right order, so that
// what there was no time to measure is chosen well.
#include <tuple>

#include "dispatch/catalog.h"
#include "dispatch/context.h"
#include "opencl_candidates.h"
#include "providers/opencl/addressing/register_tile.h"

using namespace pl;
using namespace pl::testing;

namespace {

const Rates kRates = {3.1e9, 6.1e10, 0.006, 1e7, 0.02};

// An A100's compiler, since wgmma is there only where it can be built, with an H200's units.
opencl::Capabilities h200_without_wgmma() {
  opencl::Capabilities can;
  can.name = "NVIDIA H200";
  can.vendor = "NVIDIA Corporation";
  can.gpu = can.nvidia = can.fp16 = can.dedicated_local_memory = true;
  can.compute_capability = 80;
  can.compute_units = 132;
  can.max_work_group = 1024;
  can.local_memory = 48 << 10;
  return can;
}

struct Known {
  int64_t channels, side, results, window;
  const char* implementation;
  double ms;
};
const Known kKnown[] = {
    {192, 28, 64, 1, "conv_fwd_mma[64x64,warps=2x2,chunks=8]", 0.0103},
    {832, 7, 384, 1, "conv_fwd_mma[64x32,warps=2x1,chunks=8]", 0.0133},
    {160, 7, 320, 3, "conv_fwd_mma[64x64,warps=2x2,chunks=8]", 0.0169},
    {480, 14, 16, 1, "conv_fwd_local[LOCAL_X=16,LOCAL_Y=16,TILE_X=4,TILE_Y=4,TILE_K=16]", 0.0467},
    {832, 7, 48, 1, "conv_fwd_local[LOCAL_X=16,LOCAL_Y=16,TILE_X=4,TILE_Y=4,TILE_K=16]", 0.0805},
    {832, 7, 192, 1, "conv_fwd_local[LOCAL_X=16,LOCAL_Y=16,TILE_X=4,TILE_Y=4,TILE_K=16]", 0.0822},
    {32, 14, 64, 3, "conv_fwd_local[LOCAL_X=16,LOCAL_Y=16,TILE_X=4,TILE_Y=4,TILE_K=16]", 0.0335},
    {32, 7, 128, 3, "conv_fwd_local[LOCAL_X=16,LOCAL_Y=16,TILE_X=4,TILE_Y=4,TILE_K=16]", 0.0326},
};

Op conv(const Known& known) {
  Attributes attributes;
  const int64_t pad = known.window / 2;
  attributes.set(attr::padding, std::vector<int64_t>{pad, pad, pad, pad});
  const auto half = [](std::initializer_list<int64_t> shape) { return TensorDesc::dense(DType::f16, Dims(shape)); };
  return make_op(*find_schema("conv2d"), attributes,
                 {half({16, known.channels, known.side, known.side}),
                  half({known.results, known.channels, known.window, known.window})});
}

void check_times(Context& context, Device& device) {
  for (const Known& known : kKnown) {
    const EntryRef entry = context.catalog().entry(conv(known), device);
    double estimate = 0, mma = 1e9, local = 1e9;
    for (const Way& way : entry->ways) {
      const double ms = estimate_ms(entry->op, way.candidate, kRates);
      const std::string& name = way.candidate.implementation;
      if (name.rfind("conv_fwd_mma", 0) == 0) mma = std::min(mma, ms);
      if (name.rfind("conv_fwd_local", 0) == 0) local = std::min(local, ms);
      if (name == known.implementation && way.candidate.inputs[0].layout == Layout::channels_last(4)) estimate = ms;
    }
    std::printf("%s: %.4f ms, estimated %.4f; mma %.4f, local %.4f\n", known.implementation, known.ms, estimate, mma,
                local);
    const bool unit = std::string(known.implementation).rfind("conv_fwd_mma", 0) == 0;
    CHECK(estimate > known.ms / 2);
    CHECK(estimate < known.ms * (unit ? 2 : 4));
    CHECK(mma < local / 2);
  }
}

// Over three dimensions as over two: the unit's kernels are expected to be the fastest by far.
void check_planes(Context& context, Device& device) {
  const auto half = [](std::initializer_list<int64_t> shape) { return TensorDesc::dense(DType::f16, Dims(shape)); };
  const TensorDesc x = half({16, 64, 16, 28, 28}), weights = half({64, 64, 3, 3, 3});
  const std::tuple<const char*, const char*, std::vector<TensorDesc>> ops[] = {
      {"conv3d", "padding=1", {x, weights, {}, {}}},
      {"conv_transpose3d", "padding=1", {x, weights, {}}},
      {"conv_transpose3d", "padding=1 stride=2", {x, half({64, 64, 4, 4, 4}), {}}},
      {"conv3d_backward_weights", "padding=1 kernel_size=3", {x, x}},
  };
  for (const auto& [name, attributes, inputs] : ops) {
    const EntryRef entry =
        context.catalog().entry(make_op(*find_schema(name), Attributes::parse(attributes), inputs), device);
    double unit = 1e9, other = 1e9;
    for (const Way& way : entry->ways) {
      if (way.candidate.provider != "opencl") continue;
      double& best = way.candidate.implementation.find("_mma[") != std::string::npos ? unit : other;
      best = std::min(best, estimate_ms(entry->op, way.candidate, kRates));
    }
    std::printf("%s %s: %.4f ms by the unit, %.4f else\n", name, attributes, unit, other);
    CHECK(unit < other / 2);
  }
}

// What a provider says of its units' time counts, but for the launch and for memory.
void check_model(Context& context, Device& device) {
  const EntryRef entry = context.catalog().entry(conv(kKnown[0]), device);
  Candidate candidate = entry->ways.front().candidate;
  const double bytes = bytes_of(entry->op) / kRates.bytes_per_ms;
  candidate.efficiency = 1;
  candidate.busy_ms = 7;
  CHECK(estimate_ms(entry->op, candidate, kRates) == kRates.overhead_ms + 7);
  candidate.busy_ms = 1e-9;
  CHECK(estimate_ms(entry->op, candidate, kRates) == kRates.overhead_ms + bytes);
}

void check_tiles(opencl::OpenclDevice& device) {
  opencl::Capabilities can = h200_without_wgmma();
  can.compute_units = 4;
  device.pretend(can);
  const opencl::RegisterTile tile;  // 64 x 64
  CHECK(tile.used(device, 64, 256, 1) == 1);
  CHECK(tile.used(device, 64, 64, 4) == 1);
  CHECK(tile.used(device, 64, 64, 1) == 0.25);
  CHECK(tile.used(device, 16, 64, 1) == 0.0625);
  CHECK(tile.used(device, 64, 64, 5) == 0.625);
}

TEST("all") {
  Candidates candidates;
  if (candidates.no_devices()) SKIP("no OpenCL device here");
  ContextOptions options;
  options.cache_dir = "/proc/none";
  options.tuning = Tuning::off;
  const auto context = Context::create(options);
  opencl::OpenclDevice* device = nullptr;
  for (const auto& each : context->devices())
    if (!device) device = opencl::as_opencl(*each);
  REQUIRE(device != nullptr);
  const opencl::Capabilities own = device->capabilities();
  device->pretend(h200_without_wgmma());
  check_times(*context, *device);
  check_planes(*context, *device);
  check_model(*context, *device);
  check_tiles(*device);
  device->pretend(own);
}

// On `cpu` a runtime's kernel is started beside the processor's own threads: what is small is not worth that, however
// well it would do.
TEST("on the processor") {
  Candidates candidates;
  if (candidates.no_devices()) SKIP("no OpenCL device here");
  ContextOptions options;
  options.cache_dir = "/proc/none";
  options.tuning = Tuning::off;
  const auto context = Context::create(options);
  Device& cpu = context->device("cpu");
  const TensorDesc small = TensorDesc::dense(DType::f32, {4740, 4}),
                   like = TensorDesc::dense(DType::f32, {1, 32, 8, 8});
  const auto listed = [&](const EntryRef& entry) {
    double ours = 0, theirs = 1e9;
    int found = 0;
    for (const Way& way : entry->ways) {
      const double ms = estimate_ms(entry->op, way.candidate, kRates);
      if (way.candidate.provider != "opencl") {
        ours = std::max(ours, way.candidate.reference ? 0 : ms);
        continue;
      }
      ++found;
      theirs = std::min(theirs, ms);
      CHECK(way.candidate.busy_ms > 0 || way.candidate.start_ms >= 0.05);
    }
    CHECK(!found || theirs > ours);
    return found;
  };
  const int found = listed(context->catalog().entry(make_op(*find_schema("relu"), Attributes(), {like}), cpu)) +
                    listed(context->catalog().reorder(small, small.with_layout(Layout::parse("ba")), cpu));
  if (!found) SKIP("no OpenCL runtime that works on the memory of `cpu`");
}

}  // namespace
