#include "providers/opencl/matrix_units/mma.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <numeric>

#include "providers/opencl/matrix_units/matrix_unit.h"
#include "providers/opencl/pointwise/joinable_copy.h"
#include "providers/opencl/program/ptx.h"
#include "providers/opencl/tuning/tuned_table.h"

namespace pl::opencl {

size_t most_mma_plans = 6;
bool wgmma_tiles_in_plain = false;

namespace {

struct Warps {
  int down, across;
};
struct Steps {
  int chunks, stages;
};

constexpr MmaTile mma(int rows, int columns, Warps warps, Steps steps, int promote) {
  return {rows, columns, warps.down, warps.across, steps.chunks, steps.stages, promote};
}
constexpr MmaTile wgmma(int rows, int columns, Warps warps, Steps steps, double rate) {
  MmaTile tile = mma(rows, columns, warps, steps, 1);
  tile.wgmma = true;
  tile.rate = rate;
  return tile;
}

// The fastest of about 25 shapes for the products of ResNet-50 at batches 16 and 64 and a product of 4096, on an H200.
constexpr MmaTile kTiles[] = {
    mma(128, 128, Warps{2, 2}, Steps{4, 3}, 2), mma(128, 64, Warps{4, 1}, Steps{4, 3}, 2),
    mma(128, 64, Warps{4, 2}, Steps{4, 3}, 2),  mma(64, 128, Warps{2, 2}, Steps{4, 3}, 2),
    mma(128, 64, Warps{2, 2}, Steps{8, 2}, 1),  mma(64, 64, Warps{2, 2}, Steps{8, 3}, 1),
    mma(64, 64, Warps{2, 2}, Steps{4, 3}, 2),   mma(128, 32, Warps{4, 1}, Steps{4, 3}, 2),
    mma(64, 32, Warps{2, 1}, Steps{8, 3}, 2),
};
// For factors with their terms outermost, whose tiles take more local memory: the largest has two stages.  Not measured
// against others; rates are those of VGG-16's gradients in f16 on an H100, batch 64.
constexpr MmaTile rated(MmaTile tile, double rate) {
  tile.rate = rate;
  return tile;
}
constexpr MmaTile kTurnedTiles[] = {
    rated(mma(128, 128, Warps{2, 2}, Steps{4, 2}, 2), 0.32), rated(mma(128, 64, Warps{4, 1}, Steps{4, 3}, 2), 0.28),
    rated(mma(64, 128, Warps{2, 2}, Steps{4, 3}, 2), 0.28),  rated(mma(64, 64, Warps{2, 2}, Steps{8, 2}, 1), 0.2),
    rated(mma(64, 64, Warps{2, 2}, Steps{4, 3}, 2), 0.22),   rated(mma(128, 32, Warps{4, 1}, Steps{4, 3}, 2), 0.15),
    rated(mma(64, 32, Warps{2, 1}, Steps{8, 3}, 2), 0.14),
};
// The same for wgmma: each is among the fastest for some of 85 shapes of convolutions and products.  The larger ones
// win large products, 64 rows most others: a unit has room for three such work-groups, and one multiplies while another
// waits.
constexpr MmaTile kWgmmaTiles[] = {
    wgmma(128, 256, Warps{8, 1}, Steps{8, 4}, 1.0).lagging(),
    wgmma(128, 128, Warps{4, 1}, Steps{8, 3}, 0.92),
    wgmma(128, 128, Warps{8, 1}, Steps{8, 3}, 0.92).lagging(),
    wgmma(128, 128, Warps{4, 1}, Steps{4, 3}, 0.85),
    wgmma(64, 128, Warps{4, 1}, Steps{8, 3}, 0.9),
    wgmma(128, 64, Warps{4, 1}, Steps{8, 3}, 0.9),
    wgmma(64, 64, Warps{4, 1}, Steps{8, 3}, 0.9),
    wgmma(128, 32, Warps{4, 1}, Steps{8, 3}, 0.9),
    wgmma(128, 160, Warps{8, 1}, Steps{8, 4}, 0.95).lagging(),
    wgmma(128, 192, Warps{8, 1}, Steps{8, 4}, 0.97).lagging(),
    wgmma(128, 208, Warps{8, 1}, Steps{8, 4}, 0.98).lagging(),
    wgmma(128, 224, Warps{8, 1}, Steps{8, 4}, 0.98).lagging(),
    wgmma(192, 128, Warps{12, 1}, Steps{8, 4}, 0.95).lagging(),
    wgmma(192, 160, Warps{12, 1}, Steps{8, 4}, 0.97).lagging(),
    wgmma(192, 224, Warps{12, 1}, Steps{8, 4}, 0.97).lagging(),
    wgmma(128, 96, Warps{4, 1}, Steps{8, 3}, 0.9),
    wgmma(64, 96, Warps{4, 1}, Steps{8, 3}, 0.9),
    wgmma(64, 192, Warps{4, 1}, Steps{8, 3}, 0.9),
    // One more step on its way, where the unit has no room for a second work-group anyway; not measured.
    wgmma(128, 160, Warps{8, 1}, Steps{8, 5}, 0.95).lagging(),
    wgmma(128, 192, Warps{8, 1}, Steps{8, 5}, 0.9).lagging(),
    wgmma(192, 128, Warps{12, 1}, Steps{8, 5}, 0.9).lagging(),
};
// Those of factors of 16 bits with their terms outermost: whole rows of 64 elements.
constexpr MmaTile kTurnedWgmmaTiles[] = {
    wgmma(128, 256, Warps{8, 1}, Steps{8, 4}, 0.9).lagging(),
    wgmma(128, 128, Warps{8, 1}, Steps{8, 3}, 0.85).lagging(),
    wgmma(128, 128, Warps{4, 1}, Steps{8, 3}, 0.85),
    wgmma(128, 192, Warps{8, 1}, Steps{8, 4}, 0.88).lagging(),
    wgmma(192, 128, Warps{12, 1}, Steps{8, 4}, 0.85).lagging(),
    wgmma(64, 192, Warps{4, 1}, Steps{8, 3}, 0.8),
    wgmma(64, 128, Warps{4, 1}, Steps{8, 3}, 0.8),
    wgmma(128, 64, Warps{4, 1}, Steps{8, 3}, 0.8),
    wgmma(64, 64, Warps{4, 1}, Steps{8, 3}, 0.8),
};
// For the units of AMD and Intel, by reasoning; none of them was measured.  A work-item has at most 64 sums, of 128
// registers (Intel) to 256 (AMD): there is room for both factors and for the pieces that wait.  clang 19 spills none of
// them on gfx908 to gfx942.  Two stages of the largest tile take 32 KB, so that two work-groups fit into 64 KB.
constexpr MmaTile with_lanes(int lanes, int rows, int columns, Warps warps, double rate) {
  MmaTile tile{rows, columns, warps.down, warps.across, 4, 2};
  tile.lanes = lanes;
  tile.rate = rate;
  return tile;
}
constexpr MmaTile kMfmaTiles[] = {
    with_lanes(64, 128, 128, Warps{2, 2}, 0.9), with_lanes(64, 128, 64, Warps{2, 2}, 0.8),
    with_lanes(64, 64, 128, Warps{2, 2}, 0.8),  with_lanes(64, 64, 64, Warps{2, 2}, 0.65),
    with_lanes(64, 128, 32, Warps{2, 1}, 0.6),  with_lanes(64, 64, 32, Warps{2, 1}, 0.5),
};
constexpr MmaTile kWmmaTiles[] = {
    with_lanes(32, 128, 128, Warps{4, 2}, 0.9), with_lanes(32, 128, 64, Warps{4, 2}, 0.8),
    with_lanes(32, 64, 128, Warps{2, 4}, 0.8),  with_lanes(32, 64, 64, Warps{2, 2}, 0.65),
    with_lanes(32, 128, 32, Warps{4, 1}, 0.6),  with_lanes(32, 64, 32, Warps{2, 1}, 0.5),
};
constexpr MmaTile kIntel16Tiles[] = {
    with_lanes(16, 128, 128, Warps{4, 4}, 0.9), with_lanes(16, 128, 64, Warps{4, 2}, 0.8),
    with_lanes(16, 64, 128, Warps{2, 4}, 0.8),  with_lanes(16, 64, 64, Warps{2, 2}, 0.65),
    with_lanes(16, 128, 32, Warps{4, 1}, 0.6),  with_lanes(16, 64, 32, Warps{2, 1}, 0.5),
};
constexpr MmaTile kIntel8Tiles[] = {
    with_lanes(8, 128, 128, Warps{4, 8}, 0.9), with_lanes(8, 128, 64, Warps{4, 4}, 0.8),
    with_lanes(8, 64, 128, Warps{2, 8}, 0.8),  with_lanes(8, 64, 64, Warps{4, 2}, 0.65),
    with_lanes(8, 128, 32, Warps{4, 2}, 0.6),  with_lanes(8, 64, 32, Warps{4, 1}, 0.5),
};
constexpr size_t kWgmmaLocalBytes = 6 * (8 * (128 + 160) + 1) * 16;  // the most that tiles take: conv_fwd_stream's
constexpr int64_t kLeastSteps = 8;  // of a part: fewer do not hide how long the first copies take
constexpr int kMostPlaces = 16;     // of rows in the left factors' tensor that a work-item keeps: four registers each

}  // namespace

int MmaProblem::left_bytes() const {
  const int64_t side_by_side = (turned ? std::gcd(rows, groups * columns) : run) * int64_t(size_of(dtype));
  int bytes = 16;
  while (side_by_side % bytes) bytes /= 2;
  return bytes;
}

int64_t MmaProblem::steps(const MmaTile& tile) const {
  return gathered ? divided_up(runs, tile.chunks) : runs * divided_up(run, tile.chunks * chunk_elements());
}

int64_t MmaProblem::groups_of(const MmaTile& tile) const {
  const int64_t group_rows = rows / groups, copy = left_bytes() / int64_t(size_of(dtype));
  const int64_t least = std::lcm(copy / std::gcd(copy, group_rows), copy / std::gcd(copy, columns));
  const int64_t most = std::max<int64_t>(1, std::min({tile.rows / group_rows, tile.columns / columns, groups}));
  return most / least * least;
}

int64_t MmaProblem::tiles(const MmaTile& tile) const {
  if (row_groups > 0)  // the most that any groups need, and those of rows of none
    return (rows / tile.rows + row_groups + 1) * divided_up(columns, tile.columns);
  const int64_t spanned = groups == 1 ? 1 : groups_of(tile);
  return divided_up(spanned * rows / groups, tile.rows) * divided_up(spanned * columns, tile.columns) *
         divided_up(groups, spanned);
}

std::string MmaPlan::name(const char* kernel) const {
  std::string text = concat(kernel, "[", tile.rows, "x", tile.columns, ",warps=", tile.warps_down, "x",
                            tile.warps_across, ",chunks=", tile.chunks);
  if (tile.stages > 4) text += concat(",stages=", tile.stages);
  if (left_bytes < 16) text += concat(",bytes=", left_bytes);
  if (parts > 1) text += concat(",parts=", parts);
  if (tf32) text += ",tf32";
  if (tile.wgmma) text += ",wgmma";
  if (tf32 && !right_rounded) text += ",cut";
  return text + "]";
}

size_t MmaPlan::parts_bytes(const MmaProblem& problem) const {
  if (parts == 1) return 0;
  return size_t(parts) * size_t(problem.rows) * size_t(problem.columns) * size_t(problem.products) * sizeof(float);
}

void MmaPlan::define(KernelSource& source, const MmaProblem& problem, const OpenclDevice& device) const {
  source.define("TILE_M", tile.rows).define("TILE_N", tile.columns);
  source.define("WARPS_M", tile.warps_down).define("WARPS_N", tile.warps_across);
  // Stages that a short sum does not fill would keep another work-group from the unit.
  const bool one_step = steps_per_part == 1;
  const int64_t stages = one_step ? 1 : std::min<int64_t>(tile.stages, steps_per_part + 1);
  source.define("CHUNKS", tile.chunks).define("STAGES", stages).define("PROMOTE", tile.promote);
  source.define("MATRIX_DTYPE", name_of(problem.dtype)).define("PRODUCTS", products).define("PARTS", parts > 1 ? 1 : 0);
  source.define("RIGHT_ROUNDED", right_rounded ? 1 : 0);
  source.define("STACKED", problem.stacked ? 1 : 0);
  source.define("LEFT_BYTES", left_bytes).define("ROWS_IN_ORDER", rows_in_order(problem) ? 1 : 0);
  source.define("FINISHED", problem.columns % 4 == 0 ? 4 : problem.columns % 2 == 0 ? 2 : 1);
  source.define("POSITIONS", problem.gathered ? 1 : 0);
  source.define("WHOLE_STEPS", problem.run % (tile.chunks * problem.chunk_elements()) == 0 ? 1 : 0);
  const MatrixUnit unit = matrix_unit(device.capabilities());
  source.define("NVIDIA_PTX", tile.wgmma && device.capabilities().nvidia ? 2
                              : unit.kind == MatrixUnit::Kind::nvidia    ? 1
                                                                         : 0);
  if (unit.kind == MatrixUnit::Kind::amd) {
    source.define("AMD_MATRIX", unit.amd_matrix).define("TF32", tf32 ? 1 : 0);
  } else if (unit.kind == MatrixUnit::Kind::intel) {
    source.define("INTEL_MATRIX", unit.intel_matrix).define("LOCAL_BLOCK_READS", unit.block_reads ? 1 : 0);
    source.standard("CL3.0");  // has subgroups' functions
  }
  source.define("LAG", tile.lag && problem.dtype != DType::f32 && !one_step ? 1 : 0);
}

void MmaPlan::size(Launch& launch, const MmaProblem& problem) const {
  const int64_t tiles = problem.tiles(tile);
  const auto items = size_t(tile.work_items());
  launch.global({size_t(tiles) * items, size_t(problem.products), size_t(parts)}).local({items, 1, 1});
}

void add_sum_of_parts(KernelList& kernel, const Op& op, const Addressing& dst, const Epilogue& epilogue,
                      const MmaProblem& problem, int64_t parts, bool scattered) {
  const int64_t elements = problem.rows * problem.columns * problem.products;
  const int64_t columns = problem.stacked ? problem.columns : problem.columns * problem.products;
  KernelSource source("common/sum_of_parts.cl");
  source.tensor("DST", dst);
  epilogue.define(source, op);
  source.define("QUADS", columns % 4 == 0 ? 1 : 0).define("SCATTERED", scattered ? 1 : 0);
  source.define("DEPTH", scattered && dst.dims[2] > 1 ? 1 : 0);
  Launch& launch = kernel.add(source, "sum_of_parts").workspace().output(0, "DST");
  epilogue.pass(launch);
  launch.index(elements).index(columns).scalar(cl_int(parts));
  launch.global({size_t(columns % 4 == 0 ? elements / 4 : elements)}).local({128});
}

Packing pack_tf32(OpenclDevice& device, const TensorDesc& desc, int input) {
  Packing packing;
  packing.input = input;
  packing.form = "tf32:" + desc.layout.generic_str();
  packing.bytes = desc.size_bytes();
  const TensorDesc flat = TensorDesc::dense(DType::f32, {int64_t(packing.bytes / sizeof(float))});
  if (const auto plan = plan_joinable_copy(device, flat.shape, DType::f32, Addressing(flat), Addressing(flat), true))
    packing.prepare = [&device, plan = *plan] { return prepare_computation(device, plan); };
  packing.pack = packed_by([&device, count = desc.size_bytes() / sizeof(float)] {
    auto kernel = std::make_unique<KernelList>(device);
    Launch& launch = kernel->add(KernelSource("common/round_to_tf32.cl"), "round_to_tf32").input(0).output(0);
    launch.scalar(cl_ulong(count)).scalar(cl_ulong(0)).global({count}).local({128});
    return kernel;
  });
  return packing;
}

namespace {

// Whether a program that names the unit's instructions can be built; tried once for each device.
bool builds(OpenclDevice& device, const KernelSource& source) {
  static std::mutex lock;
  static std::map<std::string, bool> known;  // by fingerprint and program
  std::lock_guard<std::mutex> guard(lock);
  const std::string key = concat(device.fingerprint(), "\n", source.name());
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  bool can = true;
  try {
    device.build(source);
  } catch (const Error&) {
    can = false;
  }
  return known[key] = can;
}

}  // namespace

std::string mma_refusal(OpenclDevice& device, DType dtype, Math math) {
  const MatrixUnit unit = matrix_unit(device.capabilities());
  std::string reason = unit.refusal(dtype, math);
  if (!reason.empty() || unit.kind != MatrixUnit::Kind::amd) return reason;
  const KernelSource probe = KernelSource::generated(
      concat("mma/probe_amd_", unit.amd_matrix),
      concat(
          "#define AMD_MATRIX ", unit.amd_matrix,
          "\n#define MATRIX_DTYPE f16\n#include \"common/tensor.clh\"\n#include \"common/mma.clh\"\n"
          "__kernel __attribute__((reqd_work_group_size(MMA_GROUP, 1, 1))) void probe(__global float* x) {\n"
          "    __local uint4 tiles[MMA_LOCAL_SLOTS];\n    MMA_ACCUMULATORS(acc);\n"
          "    for (int i = 0; i < MMA_ROWS; ++i)\n        for (int j = 0; j < MMA_COLUMNS; ++j) MMA_ZERO(acc, i, j);\n"
          "    tiles[get_local_id(0)] = (uint4)(0);\n    barrier(CLK_LOCAL_MEM_FENCE);\n"
          "    MULTIPLY_TILES(tiles, 0, 0, acc);\n    x[get_local_id(0)] = acc[0][0].s0;\n}\n"));
  if (builds(device, probe)) return {};
  return concat("the compiler of ", device.capabilities().name, " does not take the builtins for ", unit.name);
}

void beside_matrix_unit(CandidateList& out, size_t first) {
  // All 160 convolutions of DenseNet-161 in fp16 and tf32 took the matrix unit once they were measured (H200,
  // bench/gpu_steps.py), most at 60 to 370 TFLOP/s; conv_fwd_local, taken unmeasured elsewhere, reached 3.
  constexpr double kOfMatrixUnit = 0.15;
  for (size_t i = first; i < out.candidates.size(); ++i) out.candidates[i].efficiency *= kOfMatrixUnit;
}

bool mma_suits(const Op& op, OpenclDevice& device, CandidateList& out) {
  const std::string reason = mma_refusal(device, op.in(0).dtype, op.math);
  if (!reason.empty() && device.capabilities().gpu) out.refuse("opencl", "conv_fwd_mma: " + reason);
  return reason.empty();
}

bool has_wgmma(OpenclDevice& device) {
  if (!device.capabilities().nvidia || device.capabilities().compute_capability != 90) return false;
  const KernelSource source = KernelSource::generated(
      "mma/probe",
      concat(kNeedsSm90a, "\n__kernel void probe(__global float* x, const int n) {\n    __local float tiles[",
             kWgmmaLocalBytes / sizeof(float), "];\n    for (int i = 0; i < n; ++i) tiles[i] = x[i];\n",
             "    barrier(CLK_LOCAL_MEM_FENCE);\n    asm volatile(\"", kSm90aMark,
             "wgmma.fence.sync.aligned;\" ::: \"memory\");\n    x[0] = tiles[n / 2];\n}\n"));
  return builds(device, source);
}

namespace {

// Its space is the tiles listed above for the device's unit, with each FILL that makes a difference.
const Family& family() {
  static const Family family("conv_fwd_mma", {{"TILE_M", {64, 128, 192}},
                                              {"TILE_N", {32, 64, 96, 128, 160, 192, 208, 224, 256}},
                                              {"WARPS_M", {2, 4, 8, 12}},
                                              {"WARPS_N", {1, 2, 4, 8}},
                                              {"CHUNKS", {4, 8}},
                                              {"STAGES", {2, 3, 4, 5}},
                                              {"PROMOTE", {1, 2}},
                                              {"LAG", {0, 1}},
                                              {"WGMMA", {0, 1}},             // the instructions: NVIDIA_PTX 2
                                              {"FILL", {0, 2, 3, 6, 12}}});  // MmaPlan::fill
  return family;
}
PL_TUNING_FAMILY(family);

Point point_of(const MmaTile& tile, int fill) {
  return {{"TILE_M", tile.rows},        {"TILE_N", tile.columns},
          {"WARPS_M", tile.warps_down}, {"WARPS_N", tile.warps_across},
          {"CHUNKS", tile.chunks},      {"STAGES", tile.stages},
          {"PROMOTE", tile.promote},    {"LAG", tile.lag},
          {"WGMMA", tile.wgmma},        {"FILL", fill}};
}

// The kind is "window" (convolution), "product" (matrices) or "first" (a first layer, few channels), with an "s" where
// there are several groups or matrices, and for f32 with the math: "windows-tf32".
ShapeClass shape_class(const MmaProblem& problem, bool tf32) {
  std::string kind = problem.gathered ? "first" : problem.runs > 1 ? "window" : "product";
  if (problem.products > 1) kind += "s";
  if (problem.dtype == DType::f32) kind += tf32 ? "-tf32" : "-fp32";
  return {problem.dtype, kind, problem.rows, problem.columns, problem.run * problem.runs};
}

constexpr double kBlock = 128 * 256;  // results of the largest tile
// Part of wgmma's rate that a product of 4096 reaches: estimates of other implementations are relative to that.
constexpr double kReached = 0.7;

// Microseconds in which a unit of an H200 multiplies a block by eight pieces.
double block_us(DType dtype, bool wgmma) {
  if (wgmma) return dtype == DType::f32 ? 0.8 : 0.6;
  return dtype == DType::f32 ? 1.0 : 0.75;
}

// What a plan of efficiency 1 takes.
double whole_ms(const MmaPlan& plan, const MmaProblem& problem, int64_t steps, const OpenclDevice& device) {
  const double blocks = double(problem.rows * problem.columns * problem.products) / kBlock;
  const double us = blocks * double(steps * plan.tile.chunks) / 8 * block_us(problem.dtype, plan.tile.wgmma) /
                    std::max(1, int(device.capabilities().compute_units));
  return 1e-3 * us / (plan.tile.wgmma ? kReached : 1);
}

// Part of the units' rate that a plan of `steps` steps and `tiles` tiles reaches with wgmma, fitted to 400 times of
// products of transformers and ConvNeXt in fp16 and tf32 on an H200: the fastest plan of each is among the first six.
// In microseconds, but for what a launch takes.
double wgmma_efficiency(const MmaPlan& plan, const MmaProblem& problem, int64_t steps, int64_t tiles,
                        const OpenclDevice& device) {
  constexpr double kCopy = 0.3;    // a step's pieces of the largest tile, for one unit of all
  constexpr double kFirst = 2.7;   // until a work-group's first copies are there
  constexpr double kFinish = 4.0;  // to finish the results of a block
  constexpr double kPart = 2.8;    // to write and read again a block of one part's sums
  constexpr double kLaunch = 5.8;  // of the kernel that adds them
  constexpr double kUnitRegisters = 65536, kUnitLocalBytes = 227 * 1024, kUnitItems = 2048;
  constexpr double kOtherRegisters = 64;  // of a work-item, beside its sums
  const MmaTile& tile = plan.tile;
  const bool f32 = problem.dtype == DType::f32;
  const double wait = f32 ? 0.16 : 0.13;  // of a step: for barriers
  const double results = double(tile.rows) * tile.columns, items = tile.work_items();
  const double multiplying = block_us(problem.dtype, true) * results * tile.chunks / (8 * kBlock) / tile.rate;
  const double copying = kCopy * double(tile.rows + tile.columns) * tile.chunks / (8 * (128 + 256));
  // Work-groups that share a unit: one multiplies while another waits or finishes.
  const double registers = kUnitRegisters / (items * std::min(255.0, results / items + kOtherRegisters));
  const auto stages = std::min<int64_t>(tile.stages, plan.steps_per_part + 1);
  const double local = kUnitLocalBytes * tile.stages / double(stages) / double(tile.local_bytes());
  const auto resident = int64_t(std::max(1.0, std::floor(std::min({registers, local, kUnitItems / items}))));
  // Four warps hide less of the end when each has 128 rows, twelve have no second work-group beside them.
  const int warps = tile.warps_down * tile.warps_across;
  const double finish = tile.rows * 4 / tile.warps_down == 128 ? 2.5 : warps == 12 ? 1.4 : warps == 4 ? 0.75 : 1;
  const auto together = [&](int64_t groups) {
    if (!groups) return 0.0;
    return double(plan.steps_per_part) * (std::max(multiplying, copying) * double(groups) + wait) + kFirst +
           finish * kFinish * double(groups) * results / kBlock;
  };
  const auto units = int64_t(std::max(1, int(device.capabilities().compute_units)));
  const int64_t rounds = divided_up(tiles * plan.parts, units);
  double busy = double(rounds / resident) * together(resident) + together(rounds % resident);
  const double wanted = double(problem.rows * problem.columns * problem.products);
  if (plan.parts > 1) busy += kPart * double(plan.parts) * wanted / kBlock / double(units) + kLaunch;
  return multiplying * tile.rate * wanted / results * double(steps) / double(units) / busy / kReached;
}

// The same of mma.sync with one product: what it multiplies, over what the busiest unit does, in microseconds.
double sync_efficiency(const MmaPlan& plan, const MmaProblem& problem, int64_t steps, int64_t tiles,
                       const OpenclDevice& device) {
  constexpr double kFirst = 2.0;   // until a work-group's first copies are there
  constexpr double kFinish = 2.0;  // to finish the results of a block
  constexpr double kPart = 11.0;   // to write and read again a block of one part's sums
  constexpr double kLaunch = 2.5;  // of the kernel that adds them
  constexpr double kSharing = 2;   // work-groups that local memory has room for
  const MmaTile& tile = plan.tile;
  const double pace = block_us(problem.dtype, false);
  const auto units = double(device.capabilities().compute_units);
  // Work-groups that share a unit: one multiplies while another waits or finishes.
  const double registers = 65536.0 / (tile.work_items() * 200.0);
  const double results = double(tile.rows) * tile.columns, pieces = results * tile.chunks / (8 * kBlock);
  const double groups = double(tiles * plan.parts), rounds = std::ceil(groups / units);
  const double resident = std::clamp(std::floor(std::min(registers, kSharing)), 1.0, rounds);
  const double multiplying = pace * double(plan.steps_per_part) * pieces / tile.rate;
  const double finishing = kFirst + kFinish * results / kBlock;
  double busy = rounds * multiplying + finishing * std::ceil(rounds / resident);
  if (plan.parts > 1) {
    const double blocks = double(problem.rows * problem.columns * problem.products) / kBlock;
    busy += kPart * double(plan.parts) * blocks / units + kLaunch;
  }
  const double wanted = double(problem.rows * problem.columns * problem.products) / results;
  return pace * wanted * double(steps) * pieces / units / busy;
}

// The same where multiplying takes nearly all the time, as with three products, and for other vendors' units, of which
// no times are known: results that are wanted, over those that the busiest unit computes times the units.  A unit with
// one group alone waits for copies about half of the time, and so does one of the smallest groups.
double filled_efficiency(const MmaPlan& plan, const MmaProblem& problem, int64_t tiles, bool vendors,
                         const OpenclDevice& device) {
  constexpr double kTurnedRate = 0.9;  // of those with their terms outermost, whose tiles' rates are of one product
  const MmaTile& tile = plan.tile;
  const auto units = int64_t(std::max(1, int(device.capabilities().compute_units)));
  const int64_t rounds = divided_up(tiles * plan.parts, units);
  const double wanted = double(problem.rows) * double(problem.columns) * double(problem.products) * double(plan.parts);
  const double rate = problem.turned ? kTurnedRate : tile.rate;
  double efficiency = rate * wanted / (double(rounds) * double(units) * tile.rows * tile.columns);
  if (rounds == 1) efficiency *= 0.6;
  if (!vendors && tile.rows * tile.columns < 64 * 64) efficiency *= 0.8;
  return plan.parts > 1 ? 0.85 * efficiency : efficiency;  // sums are written and read again
}

std::vector<MmaTile> tiles_for(const MatrixUnit& unit, bool wgmma, bool turned) {
  std::vector<MmaTile> all;
  const auto take = [&](const auto& tiles) { all.insert(all.end(), std::begin(tiles), std::end(tiles)); };
  if (turned) {
    if (wgmma) take(kTurnedWgmmaTiles);
    take(kTurnedTiles);
    return all;
  }
  if (wgmma) take(kWgmmaTiles);
  if (unit.kind == MatrixUnit::Kind::amd) {
    unit.wmma ? take(kWmmaTiles) : take(kMfmaTiles);
  } else if (unit.kind == MatrixUnit::Kind::intel) {
    unit.lanes == 16 ? take(kIntel16Tiles) : take(kIntel8Tiles);
  } else {
    take(kTiles);  // also for the kernel in plain OpenCL C, in tests
    return all;
  }
  // Longer steps meet at half as many barriers, with twice the pieces that wait in registers.
  for (size_t i = 0, count = all.size(); i < count; ++i) {
    MmaTile tile = all[i];
    tile.chunks = 8;
    tile.rate *= 0.9;
    // Of the rows that a work-item copies each must lie as the first does: MMA_SLOT_ROWS of the vendor's header.
    const int slot_rows = unit.kind == MatrixUnit::Kind::amd ? 16 : 8;
    if (tile.work_items() / tile.chunks % slot_rows == 0) all.push_back(tile);
  }
  return all;
}

}  // namespace

std::vector<MmaPlan> mma_plans(OpenclDevice& device, const MmaProblem& problem, Math math, bool whole_space) {
  std::vector<MmaPlan> plans;
  const Capabilities& can = device.capabilities();
  const int left_bytes = problem.left_bytes();
  if (left_bytes < 4) return plans;
  const MatrixUnit unit = matrix_unit(can);
  const bool vendors = unit.kind == MatrixUnit::Kind::amd || unit.kind == MatrixUnit::Kind::intel;
  const bool f32 = problem.dtype == DType::f32;
  const bool tf32 = f32 && math != Math::fp32 && (!vendors || unit.tf32);
  const int products = f32 && !tf32 && !vendors ? 3 : 1;
  if (problem.turned && vendors) return plans;
  const bool wgmma =
      products == 1 && !(problem.turned && f32) && (has_wgmma(device) || (wgmma_tiles_in_plain && !unit));
  const bool timed = unit && !vendors && products == 1;  // what parts take is known: efficiencies are of times
  const ShapeClass shapes = shape_class(problem, tf32);
  for (const MmaTile& tile : tiles_for(unit, wgmma, problem.turned)) {
    const size_t local_memory = tile.wgmma ? kWgmmaLocalBytes : can.local_memory;
    if ((problem.turned && !tile.wgmma ? tile.local_bytes_turned() : tile.local_bytes()) > local_memory ||
        size_t(tile.work_items()) > can.max_work_group)
      continue;
    const int64_t spanned = problem.groups == 1 ? 1 : problem.groups_of(tile);
    if (spanned == 0) continue;
    if (tile.columns > 32 && spanned * problem.columns <= tile.columns / 2) continue;  // more than half would be empty
    const int64_t tiles = problem.tiles(tile) * problem.products;
    const int64_t steps = problem.steps(tile);
    if (left_bytes < 16 && !problem.in_order &&
        std::max(tile.rows, problem.turned ? tile.columns : 0) * tile.chunks * (16 / left_bytes) >
            kMostPlaces * tile.work_items())
      continue;
    const auto add = [&](int fill, int64_t parts) {
      MmaPlan plan;
      plan.tile = tile;
      plan.fill = fill;
      plan.products = products;
      plan.left_bytes = left_bytes;
      plan.tf32 = tf32;
      plan.steps_per_part = divided_up(steps, parts);
      plan.parts = divided_up(steps, plan.steps_per_part);
      if (parts > 1 && plan.parts == 1) return;
      if (timed) {
        plan.efficiency = (tile.wgmma ? wgmma_efficiency : sync_efficiency)(plan, problem, steps, tiles, device);
        plan.whole_ms = whole_ms(plan, problem, steps, device);
      } else {
        plan.efficiency = filled_efficiency(plan, problem, tiles, vendors, device);
      }
      if (wgmma && !tile.wgmma) plan.efficiency *= 0.6;
      if (left_bytes < 16) plan.efficiency *= left_bytes == 8 ? 0.9 : 0.8;  // more copies
      plan.tuning = {family().name(), shapes.text(), point_of(tile, fill).text(), false};
      plans.push_back(plan);
    };
    add(0, 1);
    // Enough parts for two groups a unit, or for three; for more where units would wait for the last groups otherwise.
    int64_t last = 1;
    for (int fill : {2, 3, 6, 12}) {
      if (fill > 3 && !timed) break;
      const int64_t parts =
          std::min(fill * int64_t(can.compute_units) / std::max<int64_t>(tiles, 1), steps / kLeastSteps);
      if (parts > last) add(fill, last = parts);
    }
  }
  std::stable_sort(plans.begin(), plans.end(),
                   [](const MmaPlan& a, const MmaPlan& b) { return a.efficiency > b.efficiency; });
  if (const auto tuned = tuned_point(family(), device, shapes)) {
    // Known to be better than what an estimate finds.  Where the sum cannot have as many parts: with fewer.
    for (int fill = (*tuned)["FILL"]; fill >= 0; --fill) {
      const auto found = std::find_if(plans.begin(), plans.end(), [&](const MmaPlan& plan) {
        return plan.fill == fill && point_of(plan.tile, (*tuned)["FILL"]) == *tuned;
      });
      if (found == plans.end()) continue;
      found->efficiency = std::max(found->efficiency, 1.02 * plans.front().efficiency);
      std::rotate(plans.begin(), found, found + 1);
      break;
    }
  }
  if (plans.size() > most_mma_plans && !whole_space) plans.resize(most_mma_plans);
  for (size_t i = 0; i < plans.size() && i < most_mma_plans; ++i) plans[i].tuning.start = true;
  return plans;
}

}  // namespace pl::opencl
