// reorder: any layout and dtype to any other (kernels/reorder/).
//
//   reorder_axes   both sides as strides over common axes, by the pointwise generator: one axis where nothing moves
//   reorder_tiled  through local memory, where the sides run along different axes (NCHW <-> NHWC, nChw16c...); on CPUs,
//                  whose caches do the same, it seldom pays
//   reorder_pieces few channels to one block of them, for first layers
//   reorder_any    element by element, for layouts without common axes (nChw16c -> nChw8c, doubly blocked ones)
#include <algorithm>

#include "providers/opencl/opencl_provider.h"
#include "providers/opencl/pointwise_kernel.h"
#include "providers/opencl/reorder_pieces.h"

namespace pl::opencl {
namespace {

constexpr int kTile = 32, kRows = 8;  // the defaults of reorder_tiled.cl

std::unique_ptr<Kernel> prepare_any(OpenclDevice& device, const TensorDesc& src, const TensorDesc& dst) {
  KernelSource source("reorder/reorder_any.cl");
  source.tensor("SRC", src).tensor("DST", dst);
  const int64_t places = source.addressing("DST").places();
  auto kernel = std::make_unique<KernelList>(device);
  kernel->add(source, "reorder_any").input(0, "SRC").output(0, "DST").index(places).global({size_t(places)});
  return kernel;
}

// The axis along which tensor `t` has stride 1, or -1.
int unit_axis(const Iteration& it, size_t t) {
  for (size_t i = it.kept.size(); i-- > 0;)
    if (it.kept[i].strides[t] == 1 && it.kept[i].size > 1) return int(i);
  return -1;
}

std::unique_ptr<Kernel> prepare_tiled(OpenclDevice& device, const Iteration& it, DType src, DType dst) {
  const int a = unit_axis(it, 1), b = unit_axis(it, 0);
  const Axis &axis_a = it.kept[size_t(a)], &axis_b = it.kept[size_t(b)];
  // Part of the checked index that one step along an axis adds.
  std::vector<int64_t> weight(it.kept.size(), 0);
  int64_t limit = 0;
  for (const Check& check : it.kept_checks) {
    if (check.outer >= 0) weight[size_t(check.outer)] = check.block;
    weight[size_t(check.inner)] = 1;
    limit = check.limit;
  }
  std::vector<int64_t> sizes, sources, targets, weights;
  int64_t outer = 1;
  for (size_t i = 0; i < it.kept.size(); ++i) {
    if (int(i) == a || int(i) == b) continue;
    sizes.push_back(it.kept[i].size);
    sources.push_back(it.kept[i].strides[0]);
    targets.push_back(it.kept[i].strides[1]);
    weights.push_back(weight[i]);
    outer *= it.kept[i].size;
  }
  if (sizes.empty()) {
    sizes.push_back(1);
    sources.push_back(0);
    targets.push_back(0);
    weights.push_back(0);
  }
  std::vector<int64_t> argument{axis_a.size,       axis_b.size,   axis_a.strides[0],
                                axis_b.strides[1], it.offsets[0], it.offsets[1]};
  for (const auto* list : {&sizes, &sources, &targets}) argument.insert(argument.end(), list->begin(), list->end());
  argument.insert(argument.end(), {limit, weight[size_t(a)], weight[size_t(b)]});
  argument.insert(argument.end(), weights.begin(), weights.end());

  KernelSource source("reorder/reorder_tiled.cl");
  source.define("SRC_DTYPE", name_of(src)).define("DST_DTYPE", name_of(dst));
  source.define("TILE", kTile).define("ROWS", kRows).define("OUTER", int64_t(sizes.size()));
  if (!it.kept_checks.empty()) source.define("CHECKED", 1).define("CHECK_STORED", int(it.kept_checks[0].stored));
  if (it.wide) source.define("PL_INDEX64", 1);
  auto kernel = std::make_unique<KernelList>(device);
  Launch& launch = kernel->add(source, "reorder_tiled");
  launch.input(0).output(0);
  if (it.wide) {
    launch.raw(argument.data(), argument.size() * 8);
  } else {
    const std::vector<int32_t> narrow(argument.begin(), argument.end());
    launch.raw(narrow.data(), narrow.size() * 4);
  }
  const int64_t groups = (axis_a.size + kTile - 1) / kTile * ((axis_b.size + kTile - 1) / kTile) * outer;
  launch.global({size_t(groups) * kTile * kRows}).local({size_t(kTile * kRows)});
  return kernel;
}

void list_reorder(const Op& op, OpenclDevice& device, CandidateList& out) {
  const TensorDesc &src = op.in(0), &dst = op.out();
  add_reorder_pieces(op, device, src, dst, out);
  Computation computation;
  computation.name = "reorder_axes";
  const bool real = is_floating(src.dtype) || is_floating(dst.dtype);
  computation.program =
      pointwise::parse("reorder", "y0 = x0", "", 1, 0, real ? pointwise::Arithmetic::f32 : pointwise::Arithmetic::s64);
  computation.saturate = true;
  computation.space = src.shape;
  computation.reduced.assign(size_t(src.rank()), false);
  computation.inputs = {{src.dtype, Addressing(src)}};
  computation.outputs = {{dst.dtype, Addressing(dst)}};
  auto plan = std::make_shared<ComputationPlan>();
  std::string reason;
  if (!plan_computation(device, std::move(computation), *plan, reason)) {
    Candidate any = make_candidate(op, "reorder_any");
    any.efficiency = 0.1;
    any.prepare = [&device, src, dst] { return prepare_any(device, src, dst); };
    return out.add(std::move(any));
  }
  const Iteration& it = plan->iteration;
  const int a = unit_axis(it, 1), b = unit_axis(it, 0);
  const bool transposes = a >= 0 && b >= 0 && a != b;
  Candidate axes = make_candidate(op, "reorder_axes");
  // On an H200: 4.1 TB/s where nothing moves; transposed 1.1 by axes, 3.5 by tiles, 2.1 by tiles of which 16 rows are
  // used, 0.4 with 3 rows, of 4.2 for a copy.
  axes.efficiency = transposes ? 0.25 : 0.9;
  axes.prepare = [&device, plan] { return prepare_computation(device, *plan); };
  out.add(std::move(axes));
  if (transposes && it.kept_checks.size() <= 1 && device.capabilities().max_work_group >= size_t(kTile * kRows)) {
    Candidate tiled = make_candidate(op, "reorder_tiled");
    const int64_t rows = std::min(it.kept[size_t(a)].size, it.kept[size_t(b)].size);
    tiled.efficiency = device.capabilities().cpu ? 0.1 : rows >= kTile ? 0.8 : rows >= kTile / 2 ? 0.5 : 0.1;
    tiled.prepare = [&device, plan, from = src.dtype, to = dst.dtype] {
      return prepare_tiled(device, plan->iteration, from, to);
    };
    out.add(std::move(tiled));
  }
}

PL_OPENCL_OP("reorder", list_reorder);

}  // namespace
}  // namespace pl::opencl
