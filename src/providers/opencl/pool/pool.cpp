// pool and adaptive_pool (kernels/pool/, kernels/adaptive_pool/).
#include <algorithm>

#include "providers/opencl/addressing/places.h"
#include "providers/opencl/addressing/quads.h"
#include "providers/opencl/addressing/window.h"
#include "providers/opencl/pool/global_pool.h"
#include "providers/opencl/pool/pool_pieces.h"
#include "providers/opencl/reduce/reduce_vectors.h"
#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {
namespace {

KernelSource pool_source(const char* file, const Op& op, const Addressing& src, const Addressing& dst) {
  KernelSource source(file);
  source.tensor("SRC", src).tensor("DST", dst).define("POOL_MAX", op.attributes[attr::mode] == "max" ? 1 : 0);
  return source;
}

std::unique_ptr<Kernel> prepare_pool(OpenclDevice& device, const Op& op, const Addressing& src, const Addressing& dst) {
  KernelSource source = pool_source("pool/pool_direct.cl", op, src, dst);
  source.define("COUNT_PAD", op.attributes[attr::count_include_pad] ? 1 : 0);
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

// ---- channels innermost or in blocks, in vectors: on CPUs ----

constexpr int64_t kQuadTile = 2;  // columns a work-item of pool_quad computes

// Positions of a work-item from which parts, and so a second launch, are worth it.
constexpr int64_t kLeastOfLane = 32;

bool in_quads(const TensorDesc& x) {
  return x.rank() >= 3 && has_quads(x.dtype) && x.shape[1] % 4 == 0 && x.elements() > 0;
}

std::unique_ptr<Kernel> prepare_pool_quads(OpenclDevice& device, const Op& op, const Addressing& src,
                                           const Addressing& dst, int vector) {
  KernelSource source = pool_source("pool/pool_quad.cl", op, src, dst);
  const WindowArgument window = window_argument(op);
  const int spatial = spatial_rank(op);
  source.define("COUNT_PAD", op.attributes[attr::count_include_pad] ? 1 : 0).define("TILE_W", kQuadTile);
  source.define("VECTOR", vector);
  source.define("KERNEL_H", window.size[1]).define("KERNEL_W", window.size[2]);
  source.define("STRIDE_W", window.stride[2]).define("DILATION_W", window.dilation[2]);
  const auto vectors = size_t(dst.padded(1) / vector), tiles = size_t((dst.dims[4] + kQuadTile - 1) / kQuadTile);
  const std::vector<size_t> global{vectors, tiles, size_t(dst.dims[0] * dst.dims[3])};
  auto kernel = std::make_unique<KernelList>(device);
  kernel->add(source, "pool_quad")
      .input(0, "SRC")
      .output(0, "DST")
      .scalar(window)
      .scalar(cl_int(spatial == 2 ? window_of(op, 0).end : 0))
      .scalar(cl_int(window_of(op, spatial - 1).end))
      .global(global)
      .local(group_of_vectors(device, global));
  return kernel;
}

void list_pool_quads(const Op& op, OpenclDevice& device, CandidateList& out) {
  const TensorDesc& x = op.in(0);
  if (!device.capabilities().cpu) return;
  if (x.rank() < 3 || x.rank() > 4 || !has_quads(x.dtype) || op.out().elements() == 0) return;
  if (x.elements() == 0) return;
  const WindowArgument window = window_argument(op);
  // What a row of windows reaches stays in registers.
  if (window.size[1] > 7 || window.size[2] > 7 || window.stride[2] > 4) return;
  if ((window.size[2] - 1) * window.dilation[2] > 8) return;
  for (const Layout& layout : layouts_to_try(op, x)) {
    Candidate candidate = make_candidate(op, "pool_quad");
    candidate.inputs[0] = TensorDesc::dense(x.dtype, x.shape, layout);
    candidate.outputs[0] = TensorDesc::dense(op.out().dtype, op.out().shape, layout);
    const Addressing src = with_three_spatial(candidate.inputs[0]), dst = with_three_spatial(candidate.outputs[0]);
    const auto [dim, block] = src.unit();
    if (dim != 1 || src.inner.size() > 1) continue;
    const int vector = vector_of_channels(device, block ? block : x.shape[1]);
    if (!vector) continue;
    candidate.efficiency = 0.4;
    candidate.prepare = [&device, op, src, dst, vector] { return prepare_pool_quads(device, op, src, dst, vector); };
    out.add(std::move(candidate));
  }
}

std::unique_ptr<Kernel> prepare_global(OpenclDevice& device, const GlobalPool& pool) {
  const double scale = pool.maximum ? 1.0 : 1.0 / double(pool.positions);
  auto kernel = std::make_unique<KernelList>(device);
  pool.add(*kernel, true, pool.parts == 1, scale);
  if (pool.parts > 1) pool.add(*kernel, false, true, scale);
  return kernel;
}

// Global pools, on GPUs: in blocks as channels last, a block an image of its own.
void list_global_blocks(const Op& op, OpenclDevice& device, CandidateList& out) {
  const TensorDesc& x = op.in(0);
  if (device.capabilities().cpu || x.rank() < 3 || !has_quads(x.dtype) || x.elements() == 0) return;
  for (int dim = 2; dim < x.rank(); ++dim)
    if (op.out().shape[dim] != 1) return;
  const bool maximum = op.attributes[attr::mode] == "max";
  for (const Layout& layout : layouts_to_try(op, x)) {
    Candidate candidate = make_candidate(op, "global_pool_quad");
    candidate.inputs[0] = TensorDesc::dense(x.dtype, x.shape, layout);
    candidate.outputs[0] = TensorDesc::dense(op.out().dtype, op.out().shape, layout);
    Slabs slabs;
    if (layout == Layout::channels_last(x.rank()) || !slabs_of(candidate.inputs[0], slabs)) continue;
    if (!narrow(Addressing(candidate.inputs[0]))) continue;
    if (slabs.run > 1) {
      if (slabs.run % 4) continue;
      Dims shape = x.shape;
      shape[0] = slabs.outer, shape[1] = slabs.run;
      const GlobalPool pool(device, TensorDesc::dense(x.dtype, shape), maximum, kLeastOfLane);
      candidate.workspace_bytes = pool.workspace_bytes();
      candidate.efficiency = efficiency_of_quads(device);
      candidate.prepare = [&device, pool] { return prepare_global(device, pool); };
    } else {
      candidate.implementation = "global_pool_planes";
      const int64_t positions = slabs.positions();
      const int piece = piece_of(positions, int64_t(size_of(x.dtype)));
      candidate.efficiency = piece * int64_t(size_of(x.dtype)) >= 8 ? 0.8 : 0.5;
      candidate.prepare = [&device, dtype = x.dtype, maximum, planes = slabs.outer, positions, piece] {
        int64_t lanes = 8;
        while (lanes < 128 && lanes * 4 < positions / piece) lanes *= 2;
        const int64_t lines = 128 / lanes;
        KernelSource source("adaptive_pool/global_pool_planes.cl");
        source.define("SRC_DTYPE", name_of(dtype)).define("DST_DTYPE", name_of(dtype)).define("PIECE", piece);
        source.define("POOL_MAX", maximum ? 1 : 0).define("LANES", lanes).define("PLANES", lines);
        auto kernel = std::make_unique<KernelList>(device);
        kernel->add(source, "global_pool_planes")
            .input(0)
            .output(0)
            .scalar(cl_int(planes))
            .scalar(cl_int(positions / piece))
            .scalar(cl_float(maximum ? 1.0 : 1.0 / double(positions)))
            .global({size_t((planes + lines - 1) / lines * lanes), size_t(lines)})
            .local({size_t(lanes), size_t(lines)});
        return kernel;
      };
    }
    out.add(std::move(candidate));
  }
}

void list_global_quads(const Op& op, OpenclDevice& device, CandidateList& out) {
  const TensorDesc& x = op.in(0);
  if (!in_quads(x)) return;
  for (int dim = 2; dim < x.rank(); ++dim)
    if (op.out().shape[dim] != 1) return;
  const GlobalPool pool(device, x, op.attributes[attr::mode] == "max", kLeastOfLane);
  Candidate candidate = make_candidate(op, "global_pool_quad");
  candidate.inputs[0] = TensorDesc::dense(x.dtype, x.shape, Layout::channels_last(x.rank()));
  candidate.outputs[0] = TensorDesc::dense(op.out().dtype, op.out().shape, Layout::channels_last(x.rank()));
  candidate.workspace_bytes = pool.workspace_bytes();
  candidate.efficiency = efficiency_of_quads(device);
  candidate.prepare = [&device, pool] { return prepare_global(device, pool); };
  out.add(std::move(candidate));
}

// Global pools as reductions, on CPUs.
void list_global_vectors(const Op& op, OpenclDevice& device, CandidateList& out) {
  std::vector<int> dims;
  for (int dim = 2; dim < op.in(0).rank(); ++dim) {
    if (op.out().shape[dim] != 1) return;
    dims.push_back(dim);
  }
  add_reduce_vectors(op, device, op.attributes[attr::mode] == "max" ? "amax" : "mean", dims, true, out);
}

void list_pool(const Op& op, OpenclDevice& device, CandidateList& out) {
  if (const auto reason = window_refusal(op)) return out.refuse("opencl", *reason);
  list_pool_quads(op, device, out);
  list_pool_columns(op, device, out);
  list_pool_pieces(op, device, out);
  add_per_layout(op, "pool_direct", out, [&](Candidate& candidate) {
    candidate.efficiency = 0.2;
    candidate.prepare = [&device, op, src = with_three_spatial(candidate.inputs[0]),
                         dst = with_three_spatial(candidate.outputs[0])] { return prepare_pool(device, op, src, dst); };
    return true;
  });
}

void list_adaptive_pool(const Op& op, OpenclDevice& device, CandidateList& out) {
  list_global_quads(op, device, out);
  list_global_blocks(op, device, out);
  list_global_vectors(op, device, out);
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
