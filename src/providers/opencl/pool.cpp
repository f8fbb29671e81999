// pool and adaptive_pool (kernels/pool/, kernels/adaptive_pool/).
#include <algorithm>

#include "providers/opencl/opencl_provider.h"
#include "providers/opencl/quads.h"
#include "providers/opencl/window.h"

namespace pl::opencl {
namespace {

KernelSource pool_source(const char* file, const Op& op, const Addressing& src, const Addressing& dst) {
  KernelSource source(file);
  source.tensor("SRC", src).tensor("DST", dst).define("POOL_MAX", op.attributes.text("mode") == "max" ? 1 : 0);
  return source;
}

std::unique_ptr<Kernel> prepare_pool(OpenclDevice& device, const Op& op, const Addressing& src, const Addressing& dst) {
  KernelSource source = pool_source("pool/pool_direct.cl", op, src, dst);
  source.define("COUNT_PAD", op.attributes.flag("count_include_pad") ? 1 : 0);
  const int spatial = spatial_rank(op);
  cl_int end[3] = {0, 0, 0};
  for (int axis = 0; axis < spatial; ++axis) end[3 - spatial + axis] = cl_int(window_of(op, axis).end);
  auto kernel = std::make_unique<KernelList>(device);
  kernel->add(source, "pool_direct")
      .input(0, "SRC")
      .output(0, "DST")
      .scalar(window_argument(op))
      .scalar(end[0])
      .scalar(end[1])
      .scalar(end[2])
      .index(dst.places())
      .global({size_t(dst.places())})
      .local({64});
  return kernel;
}

std::unique_ptr<Kernel> prepare_adaptive(OpenclDevice& device, const Op& op, const Addressing& src,
                                         const Addressing& dst) {
  auto kernel = std::make_unique<KernelList>(device);
  kernel->add(pool_source("adaptive_pool/adaptive_pool_direct.cl", op, src, dst), "adaptive_pool_direct")
      .input(0, "SRC")
      .output(0, "DST")
      .index(dst.places())
      .global({size_t(dst.places())})
      .local({64});
  return kernel;
}

// ---- channels innermost, in fours ----

constexpr int64_t kQuadTile = 2;     // columns a work-item of pool_quad computes
constexpr int64_t kLanes = 16;       // work-items that share a quad's positions in global_pool_quad
constexpr int64_t kMostOfLane = 64;  // positions of a work-item there: so long is a sum in f32 whose order is plain

bool in_quads(const TensorDesc& x) {
  return x.rank() >= 3 && has_quads(x.dtype) && x.shape[1] % 4 == 0 && x.elements() > 0;
}

std::unique_ptr<Kernel> prepare_pool_quads(OpenclDevice& device, const Op& op, const Addressing& src,
                                           const Addressing& dst) {
  KernelSource source = pool_source("pool/pool_quad.cl", op, src, dst);
  const WindowArgument window = window_argument(op);
  const int spatial = spatial_rank(op);
  source.define("COUNT_PAD", op.attributes.flag("count_include_pad") ? 1 : 0).define("TILE_W", kQuadTile);
  source.define("KERNEL_H", window.size[1]).define("KERNEL_W", window.size[2]);
  source.define("STRIDE_W", window.stride[2]).define("DILATION_W", window.dilation[2]);
  const auto quads = size_t(dst.dims[1] / 4), tiles = size_t((dst.dims[4] + kQuadTile - 1) / kQuadTile);
  auto kernel = std::make_unique<KernelList>(device);
  kernel->add(source, "pool_quad")
      .input(0, "SRC")
      .output(0, "DST")
      .scalar(window)
      .scalar(cl_int(spatial == 2 ? window_of(op, 0).end : 0))
      .scalar(cl_int(window_of(op, spatial - 1).end))
      .global({quads, tiles, size_t(dst.dims[0] * dst.dims[3])})
      .local(group_of_quads(quads));
  return kernel;
}

void list_pool_quads(const Op& op, OpenclDevice& device, CandidateList& out) {
  const TensorDesc& x = op.in(0);
  if (!in_quads(x) || x.rank() > 4 || op.out().elements() == 0) return;
  const WindowArgument window = window_argument(op);
  // What a row of windows reaches stays in registers.
  if (window.size[1] > 7 || window.size[2] > 7 || window.stride[2] > 4) return;
  if ((window.size[2] - 1) * window.dilation[2] > 8) return;
  Candidate candidate = make_candidate(op, "pool_quad");
  candidate.inputs[0] = TensorDesc::dense(x.dtype, x.shape, Layout::channels_last(x.rank()));
  candidate.outputs[0] = TensorDesc::dense(op.out().dtype, op.out().shape, Layout::channels_last(x.rank()));
  candidate.efficiency = efficiency_of_quads(device);
  candidate.prepare = [&device, op, src = with_three_spatial(candidate.inputs[0]),
                       dst = with_three_spatial(candidate.outputs[0])] {
    return prepare_pool_quads(device, op, src, dst);
  };
  out.add(std::move(candidate));
}

// How the positions of a global pool are shared out.
struct GlobalPool {
  DType dtype = DType::f32;
  bool maximum = false;
  int64_t batch = 0, channels = 0, positions = 0;
  int64_t quads = 0;  // of a work-group
  int64_t parts = 1, positions_of_part = 0;

  GlobalPool(const OpenclDevice& device, const Op& op)
      : dtype(op.in(0).dtype),
        maximum(op.attributes.text("mode") == "max"),
        batch(op.in(0).shape[0]),
        channels(op.in(0).shape[1]),
        positions(op.in(0).elements() / (batch * channels)) {
    quads = 1;
    while (quads < 8 && quads < channels / 4) quads *= 2;
    // Parts so that the device is filled, if they are worth a second launch, and that sums are not long.
    const int64_t groups = batch * ((channels / 4 + quads - 1) / quads);
    const int64_t wanted = 4 * int64_t(device.capabilities().compute_units) / std::max<int64_t>(1, groups);
    const int64_t least = (positions + kLanes * kMostOfLane - 1) / (kLanes * kMostOfLane);
    const int64_t most = (positions + 8 * kLanes - 1) / (8 * kLanes);
    parts = std::max(least, std::min(wanted, most));
    positions_of_part = (positions + parts - 1) / parts;
    parts = (positions + positions_of_part - 1) / positions_of_part;
  }
  size_t workspace_bytes() const { return parts > 1 ? size_t(batch * parts * channels) * sizeof(float) : 0; }
};

std::unique_ptr<Kernel> prepare_global(OpenclDevice& device, const GlobalPool& pool) {
  auto kernel = std::make_unique<KernelList>(device);
  const auto add = [&](bool first, bool last, int64_t positions, int64_t parts, int64_t of_part) {
    KernelSource source("adaptive_pool/global_pool_quad.cl");
    source.define("SRC_DTYPE", name_of(first ? pool.dtype : DType::f32));
    source.define("DST_DTYPE", name_of(last ? pool.dtype : DType::f32));
    source.define("POOL_MAX", pool.maximum ? 1 : 0).define("QUADS", pool.quads).define("LANES", kLanes);
    if (pool.batch * pool.positions * pool.channels >= int64_t(1) << 30) source.define("PL_INDEX64", 1);
    Launch& launch = kernel->add(source, "global_pool_quad");
    first ? launch.input(0) : launch.workspace();
    last ? launch.output(0) : launch.workspace();
    const double scale = last && !pool.maximum ? 1.0 / double(pool.positions) : 1.0;
    const bool wide = pool.batch * pool.positions * pool.channels >= int64_t(1) << 30;
    for (int64_t number : {pool.channels, positions, of_part})
      wide ? launch.scalar(cl_long(number)) : launch.scalar(cl_int(number));
    launch.scalar(cl_float(scale));
    const auto groups = size_t((pool.channels / 4 + pool.quads - 1) / pool.quads);
    launch.global({groups * size_t(pool.quads), size_t(parts * kLanes), size_t(pool.batch)});
    launch.local({size_t(pool.quads), size_t(kLanes), 1});
  };
  add(true, pool.parts == 1, pool.positions, pool.parts, pool.positions_of_part);
  if (pool.parts > 1) add(false, true, pool.parts, 1, pool.parts);
  return kernel;
}

void list_global_quads(const Op& op, OpenclDevice& device, CandidateList& out) {
  const TensorDesc& x = op.in(0);
  if (!in_quads(x)) return;
  for (int dim = 2; dim < x.rank(); ++dim)
    if (op.out().shape[dim] != 1) return;
  const GlobalPool pool(device, op);
  Candidate candidate = make_candidate(op, "global_pool_quad");
  candidate.inputs[0] = TensorDesc::dense(x.dtype, x.shape, Layout::channels_last(x.rank()));
  candidate.outputs[0] = TensorDesc::dense(op.out().dtype, op.out().shape, Layout::channels_last(x.rank()));
  candidate.workspace_bytes = pool.workspace_bytes();
  candidate.efficiency = efficiency_of_quads(device);
  candidate.prepare = [&device, pool] { return prepare_global(device, pool); };
  out.add(std::move(candidate));
}

void list_pool(const Op& op, OpenclDevice& device, CandidateList& out) {
  if (const auto reason = window_refusal(op)) return out.refuse("opencl", *reason);
  list_pool_quads(op, device, out);
  add_per_layout(op, "pool_direct", out, [&](Candidate& candidate) {
    candidate.efficiency = 0.2;
    candidate.prepare = [&device, op, src = with_three_spatial(candidate.inputs[0]),
                         dst = with_three_spatial(candidate.outputs[0])] { return prepare_pool(device, op, src, dst); };
    return true;
  });
}

void list_adaptive_pool(const Op& op, OpenclDevice& device, CandidateList& out) {
  list_global_quads(op, device, out);
  add_per_layout(op, "adaptive_pool_direct", out, [&](Candidate& candidate) {
    candidate.efficiency = 0.1;
    candidate.prepare = [&device, op, src = with_three_spatial(candidate.inputs[0]),
                         dst = with_three_spatial(candidate.outputs[0])] {
      return prepare_adaptive(device, op, src, dst);
    };
    return true;
  });
}

PL_OPENCL_OP("pool", list_pool);
PL_OPENCL_OP("adaptive_pool", list_adaptive_pool);

}  // namespace
}  // namespace pl::opencl
