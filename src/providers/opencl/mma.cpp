#include "providers/opencl/mma.h"

#include <algorithm>

namespace pl::opencl {
namespace {

// The fastest of about 25 shapes for the products of ResNet-50 at batches 16 and 64 and a product of 4096, on an H200.
constexpr MmaTile kTiles[] = {
    {128, 128, 2, 2, 4, 3, 2}, {128, 64, 4, 1, 4, 3, 2}, {128, 64, 4, 2, 4, 3, 2},
    {64, 128, 2, 2, 4, 3, 2},  {128, 64, 2, 2, 8, 2, 1}, {64, 64, 2, 2, 8, 3, 1},
    {64, 64, 2, 2, 4, 3, 2},   {128, 32, 4, 1, 4, 3, 2}, {64, 32, 2, 1, 8, 3, 2},
};
constexpr size_t kPlans = 6;        // to measure
constexpr int64_t kLeastSteps = 8;  // of a part: fewer do not hide how long the first copies take

int64_t divided_up(int64_t value, int64_t by) { return (value + by - 1) / by; }

}  // namespace

int64_t MmaProblem::steps(const MmaTile& tile) const {
  return gathered ? divided_up(runs, tile.chunks) : runs * divided_up(run, tile.chunks * chunk_elements());
}

std::string MmaPlan::name(const char* kernel, DType dtype) const {
  std::string text = concat(kernel, "[", tile.rows, "x", tile.columns, ",warps=", tile.warps_down, "x",
                            tile.warps_across, ",chunks=", tile.chunks);
  if (parts > 1) text += concat(",parts=", parts);
  if (products == 1 && dtype == DType::f32) text += ",tf32";
  return text + "]";
}

size_t MmaPlan::parts_bytes(const MmaProblem& problem) const {
  if (parts == 1) return 0;
  return size_t(parts) * size_t(problem.rows) * size_t(problem.columns) * size_t(problem.products) * sizeof(float);
}

void MmaPlan::define(KernelSource& source, const MmaProblem& problem, const OpenclDevice& device) const {
  source.define("TILE_M", tile.rows).define("TILE_N", tile.columns);
  source.define("WARPS_M", tile.warps_down).define("WARPS_N", tile.warps_across);
  source.define("CHUNKS", tile.chunks).define("STAGES", tile.stages).define("PROMOTE", tile.promote);
  source.define("MATRIX_DTYPE", name_of(problem.dtype)).define("PRODUCTS", products).define("PARTS", parts > 1 ? 1 : 0);
  source.define("POSITIONS", problem.gathered ? 1 : 0);
  source.define("WHOLE_STEPS", problem.run % (tile.chunks * problem.chunk_elements()) == 0 ? 1 : 0);
  source.define("NVIDIA_PTX", has_mma(device) ? 1 : 0);
}

void MmaPlan::size(Launch& launch, const MmaProblem& problem) const {
  const int64_t tiles = divided_up(problem.rows, tile.rows) * divided_up(problem.columns, tile.columns);
  const auto items = size_t(tile.work_items());
  launch.global({size_t(tiles) * items, size_t(problem.products), size_t(parts)}).local({items, 1, 1});
}

void add_sum_of_parts(KernelList& kernel, const Op& op, const Addressing& dst, const Epilogue& epilogue,
                      const MmaProblem& problem, int64_t parts) {
  const int64_t columns = problem.columns * problem.products, elements = problem.rows * columns;
  KernelSource source("common/sum_of_parts.cl");
  source.tensor("DST", dst);
  epilogue.define(source, op);
  source.define("QUADS", columns % 4 == 0 ? 1 : 0);
  Launch& launch = kernel.add(source, "sum_of_parts").workspace().output(0, "DST");
  epilogue.pass(launch);
  launch.index(elements).index(columns).scalar(cl_int(parts));
  launch.global({size_t(columns % 4 == 0 ? elements / 4 : elements)}).local({128});
}

bool has_mma(const OpenclDevice& device) {
  return device.capabilities().nvidia && device.capabilities().compute_capability >= 80;
}

std::vector<MmaPlan> mma_plans(const OpenclDevice& device, const MmaProblem& problem, Math math) {
  std::vector<MmaPlan> plans;
  const Capabilities& can = device.capabilities();
  if (problem.run % problem.chunk_elements()) return plans;
  const auto units = int64_t(can.compute_units);
  for (const MmaTile& tile : kTiles) {
    if (tile.local_bytes() > can.local_memory || size_t(tile.work_items()) > can.max_work_group) continue;
    if (tile.columns > 32 && problem.columns <= tile.columns / 2) continue;  // more than half would be empty
    const int64_t tiles =
        divided_up(problem.rows, tile.rows) * divided_up(problem.columns, tile.columns) * problem.products;
    const int64_t steps = problem.steps(tile);
    const auto add = [&](int64_t parts) {
      MmaPlan plan;
      plan.tile = tile;
      plan.products = problem.dtype == DType::f32 && math == Math::fp32 ? 3 : 1;
      plan.steps_per_part = divided_up(steps, parts);
      plan.parts = divided_up(steps, plan.steps_per_part);
      if (parts > 1 && plan.parts == 1) return;
      // Work that is wanted, over what the busiest unit does times the units.  A unit with one group alone waits for
      // copies about half of the time, and so does one of the smallest groups.
      const int64_t groups = tiles * plan.parts, rounds = divided_up(groups, units);
      const double work =
          double(problem.rows) * double(problem.columns) * double(problem.products) * double(plan.parts);
      plan.efficiency = 0.9 * work / (double(rounds) * double(units) * tile.rows * tile.columns);
      if (rounds == 1) plan.efficiency *= 0.6;
      if (tile.rows * tile.columns < 64 * 64) plan.efficiency *= 0.8;
      if (plan.parts > 1) plan.efficiency *= 0.85;  // sums are written and read again
      plans.push_back(plan);
    };
    add(1);
    // Enough parts for two groups a unit, or for three.
    int64_t last = 1;
    for (int64_t groups : {2 * units, 3 * units}) {
      const int64_t parts = std::min(groups / std::max<int64_t>(tiles, 1), steps / kLeastSteps);
      if (parts > last) add(last = parts);
    }
  }
  std::stable_sort(plans.begin(), plans.end(),
                   [](const MmaPlan& a, const MmaPlan& b) { return a.efficiency > b.efficiency; });
  if (plans.size() > kPlans) plans.resize(kPlans);
  return plans;
}

}  // namespace pl::opencl
