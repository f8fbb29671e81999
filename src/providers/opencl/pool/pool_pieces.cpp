#include "providers/opencl/pool/pool_pieces.h"

#include <algorithm>

#include "core/dtype.h"
#include "ops/pool_backward.h"
#include "providers/opencl/addressing/places.h"
#include "providers/opencl/addressing/quads.h"
#include "providers/opencl/addressing/window.h"
#include "providers/opencl/runtime/opencl_provider.h"
#include "providers/opencl/tuning/tuning.h"

namespace pl::opencl {
namespace {

const Family& columns_family() {
  static const Family family("pool_columns", {{"TILE_H", {1, 2, 4}}, {"TILE_W", {1, 2, 4, 8}}});
  return family;
}
PL_TUNING_FAMILY(columns_family);

const Family& pieces_family() {
  static const Family family("pool_pieces", {{"TILE_H", {1, 2, 4}}, {"TILE_W", {1, 2, 4}}});
  return family;
}
PL_TUNING_FAMILY(pieces_family);

Point point(int height, int width) { return {{"TILE_H", height}, {"TILE_W", width}}; }

// A pool over two spatial dimensions, the first of size 1 where the op has one.
struct PlanePool {
  bool maximum, count_pad;
  DType dtype;
  int64_t in[2], out[2], kernel[2], stride[2], dilation[2], begin[2], end[2];  // along h and w

  explicit PlanePool(const Op& op)
      : maximum(op.attributes[attr::mode] == "max"),
        count_pad(op.attributes[attr::count_include_pad]),
        dtype(op.in(0).dtype) {
    const WindowArgument window = window_argument(op);
    const int spatial = spatial_rank(op);
    for (int axis = 0; axis < 2; ++axis) {
      const int of_op = axis - (2 - spatial), dim = 2 + of_op;
      in[axis] = of_op < 0 ? 1 : op.in(0).shape[dim];
      out[axis] = of_op < 0 ? 1 : op.out().shape[dim];
      end[axis] = of_op < 0 ? 0 : window_of(op, of_op).end;
      kernel[axis] = window.size[1 + axis];
      stride[axis] = window.stride[1 + axis];
      dilation[axis] = window.dilation[1 + axis];
      begin[axis] = window.begin[1 + axis];
    }
  }

  int64_t span(int axis, int64_t tile) const {
    return (tile - 1) * stride[axis] + (kernel[axis] - 1) * dilation[axis] + 1;
  }
  // Every window of an average counts as many positions.
  bool whole() const {
    for (int axis = 0; axis < 2; ++axis) {
      const int64_t last = (out[axis] - 1) * stride[axis] - begin[axis] + span(axis, 1);
      if (last > in[axis] + (count_pad ? end[axis] : 0) || (begin[axis] > 0 && !count_pad)) return false;
    }
    return true;
  }
  // Both kernels unroll windows; 16 columns of padding are more than any has.
  bool suits() const {
    return kernel[0] <= 7 && kernel[1] <= 7 && stride[1] <= 4 && begin[0] >= 0 && begin[1] >= 0 && begin[1] <= 16 &&
           (kernel[1] - 1) * dilation[1] <= 8;
  }
  // The rows of a tile, whose windows share rows of the source.
  bool suits_rows(int64_t tile) const {
    return tile == 1 || (stride[0] <= 4 && (kernel[0] - 1) * dilation[0] <= 8 && out[0] > tile / 2);
  }
  // Neighbouring windows share all rows but one.
  bool shares_rows() const { return stride[0] == 1 && kernel[0] > 1 && dilation[0] == 1; }
  ShapeClass shapes(const Op& op) const {
    return ShapeClass(dtype, maximum ? "maximum" : "average", op.in(0).shape[0] * out[0] * out[1], op.in(0).shape[1],
                      kernel[0] * kernel[1]);
  }
  void define(KernelSource& source, const OpenclDevice& device) const {
    source.define("SRC_DTYPE", name_of(dtype)).define("DST_DTYPE", name_of(dtype));
    source.define("POOL_MAX", maximum ? 1 : 0).define("COUNT_PAD", count_pad ? 1 : 0);
    source.define("WHOLE", !maximum && whole() ? 1 : 0);
    source.define("MAX_NAN", device.capabilities().compute_capability >= 80 ? 1 : 0);
    source.define("KERNEL_H", kernel[0]).define("KERNEL_W", kernel[1]);
    source.define("STRIDE_H", stride[0]).define("STRIDE_W", stride[1]);
    source.define("DILATION_H", dilation[0]).define("DILATION_W", dilation[1]);
  }
};

bool suits_pieces(const Op& op, const OpenclDevice& device) {
  const TensorDesc& x = op.in(0);
  return !device.capabilities().cpu && x.rank() >= 3 && x.rank() <= 4 && has_quads(x.dtype) && x.elements() > 0 &&
         op.out().elements() > 0;
}

int64_t tiles_of(int64_t size, int64_t tile) { return (size + tile - 1) / tile; }

// ---- channels first

struct ColumnsArgument {  // pool_arg of pool_columns
  cl_int in_h, in_w, out_h, out_w, begin_h, end_h, end_w;
};

// Columns of the source an access.
int access_of(const PlanePool& pool, int64_t tile_w) {
  const auto bytes = int64_t(size_of(pool.dtype));
  return std::min(piece_of(pool.in[1], bytes), piece_of(tile_w * pool.stride[1], bytes));
}

std::unique_ptr<Kernel> prepare_columns(OpenclDevice& device, const Op& op, const PlanePool& pool, const Point& tile) {
  KernelSource source("pool/pool_columns.cl");
  pool.define(source, device);
  source.define("BEGIN_W", pool.begin[1]).define("ACCESS", access_of(pool, tile["TILE_W"]));
  tile.define(source);
  ColumnsArgument argument;
  argument.in_h = cl_int(pool.in[0]), argument.in_w = cl_int(pool.in[1]);
  argument.out_h = cl_int(pool.out[0]), argument.out_w = cl_int(pool.out[1]);
  argument.begin_h = cl_int(pool.begin[0]);
  argument.end_h = cl_int(pool.end[0]), argument.end_w = cl_int(pool.end[1]);
  const int64_t pieces = pool.out[1] / tile["TILE_W"], tiles = tiles_of(pool.out[0], tile["TILE_H"]);
  const int64_t all = pieces * tiles * op.in(0).shape[0] * op.in(0).shape[1];
  auto kernel = std::make_unique<KernelList>(device);
  kernel->add(source, "pool_columns")
      .input(0)
      .output(0)
      .scalar(argument)
      .scalar(Divisor(pieces))
      .scalar(Divisor(tiles))
      .scalar(cl_int(all))
      .global({size_t(all)})
      .local({128});
  return kernel;
}

// ---- channels last, in blocks

struct PiecesArgument {  // pool_arg of pool_pieces
  cl_int in_h, in_w, out_h, out_w, run, channels, begin_h, begin_w, end_h, end_w;
};

std::unique_ptr<Kernel> prepare_pieces(OpenclDevice& device, const Op& op, const PlanePool& pool, const Slabs& src,
                                       bool wide, const Point& tile) {
  const int64_t channels = op.in(0).shape[1];
  const int piece = piece_of(src.run, int64_t(size_of(pool.dtype)));
  KernelSource source("pool/pool_pieces.cl");
  pool.define(source, device);
  source.define("PIECE", piece).define("PADDED", channels % src.run ? 1 : 0);
  source.wide_indices(wide);
  tile.define(source);
  PiecesArgument argument;
  argument.in_h = cl_int(pool.in[0]), argument.in_w = cl_int(pool.in[1]);
  argument.out_h = cl_int(pool.out[0]), argument.out_w = cl_int(pool.out[1]);
  argument.run = cl_int(src.run), argument.channels = cl_int(channels);
  argument.begin_h = cl_int(pool.begin[0]), argument.begin_w = cl_int(pool.begin[1]);
  argument.end_h = cl_int(pool.end[0]), argument.end_w = cl_int(pool.end[1]);
  const int64_t across = tiles_of(pool.out[1], tile["TILE_W"]), down = tiles_of(pool.out[0], tile["TILE_H"]);
  const int64_t pieces = src.run / piece, all = pieces * across * down * src.outer;
  auto kernel = std::make_unique<KernelList>(device);
  kernel->add(source, "pool_pieces")
      .input(0)
      .output(0)
      .scalar(argument)
      .scalar(Divisor(pieces))
      .scalar(Divisor(across))
      .scalar(Divisor(down))
      .scalar(Divisor(tiles_of(channels, src.run)))
      .scalar(cl_int(all))
      .global({size_t(all)})
      .local({128});
  return kernel;
}

// ---- the gradient of a maximum, channels last, in blocks

struct BackwardArgument {  // pool_arg of pool_backward_pieces
  cl_int in_h, in_w, out_h, out_w, run, begin_h, begin_w;
};

std::unique_ptr<Kernel> prepare_backward(OpenclDevice& device, const PlanePool& pool, const Slabs& src, bool wide) {
  const int piece = piece_of(src.run, int64_t(size_of(pool.dtype)));
  KernelSource source("pool/pool_backward_pieces.cl");
  source.define("SRC_DTYPE", name_of(pool.dtype)).define("GRAD_DTYPE", name_of(pool.dtype));
  source.define("DST_DTYPE", name_of(pool.dtype)).define("PIECE", piece);
  source.define("KERNEL_H", pool.kernel[0]).define("KERNEL_W", pool.kernel[1]);
  source.define("STRIDE_H", pool.stride[0]).define("STRIDE_W", pool.stride[1]);
  source.define("DILATION_H", pool.dilation[0]).define("DILATION_W", pool.dilation[1]);
  source.wide_indices(wide);
  const BackwardArgument argument = {cl_int(pool.in[0]),   cl_int(pool.in[1]), cl_int(pool.out[0]),
                                     cl_int(pool.out[1]),  cl_int(src.run),    cl_int(pool.begin[0]),
                                     cl_int(pool.begin[1])};
  const auto over = [&](Launch& launch, const int64_t(&sizes)[2]) {
    const int64_t pieces = src.run / piece, all = pieces * sizes[0] * sizes[1] * src.outer;
    launch.scalar(argument).scalar(Divisor(pieces)).scalar(Divisor(sizes[1])).scalar(Divisor(sizes[0]));
    launch.scalar(cl_int(all)).global({size_t(all)}).local({128});
  };
  auto kernel = std::make_unique<KernelList>(device);
  over(kernel->add(source, "pool_backward_taps").input(0).workspace(), pool.out);
  over(kernel->add(source, "pool_backward_pieces").workspace().input(1).output(0), pool.in);
  return kernel;
}

}  // namespace

void list_pool_columns(const Op& op, OpenclDevice& device, CandidateList& out) {
  if (!suits_pieces(op, device)) return;
  const PlanePool pool(op);
  if (!pool.suits()) return;
  Candidate base = make_candidate(op, "");
  const Layout plain = Layout::plain(op.in(0).rank());
  base.inputs[0] = TensorDesc::dense(pool.dtype, op.in(0).shape, plain);
  base.outputs[0] = TensorDesc::dense(pool.dtype, op.out().shape, plain);
  if (!narrow(Addressing(base.inputs[0])) || !narrow(Addressing(base.outputs[0]))) return;
  const auto bytes = int64_t(size_of(pool.dtype));
  constexpr int64_t kRegisters = 96;  // of four bytes, that the source may take
  const auto suits = [&](const Point& tile) {
    const int64_t height = tile["TILE_H"], width = tile["TILE_W"];
    const int64_t source = pool.span(0, height) * (pool.span(1, width) + access_of(pool, width)) * bytes / 4;
    return pool.suits_rows(height) && pool.out[1] % width == 0 && width * bytes <= 16 &&
           (source <= kRegisters || width * height == 1);
  };
  // As many columns as an access of the source brings.
  int width = 1;
  while (width * 2 * pool.stride[1] * bytes <= 16 && pool.out[1] % (width * 2) == 0) width *= 2;
  // Rows where windows share most of theirs, or where a row's results are too few for an access of memory; else one has
  // the most work-items on their way.  So it was on an H200.
  const bool taller = pool.shares_rows() || width * bytes < 8;
  std::vector<Point> starts;
  for (int height : taller ? std::vector<int>{4, 2, 1} : std::vector<int>{1, 2})
    if (starts.size() < 2 && suits(point(height, width))) starts.push_back(point(height, width));
  if (starts.empty()) starts.push_back(point(1, 1));
  const auto choices = columns_family().choices(device, pool.shapes(op), starts, suits, out.whole_space);
  columns_family().add(base, pool.shapes(op), choices, out, [&](Candidate& candidate, const Point& tile) {
    candidate.efficiency = 0.6;
    candidate.prepare = [&device, op, pool, tile] { return prepare_columns(device, op, pool, tile); };
    return true;
  });
}

void list_pool_pieces(const Op& op, OpenclDevice& device, CandidateList& out) {
  if (!suits_pieces(op, device)) return;
  const PlanePool pool(op);
  if (!pool.suits()) return;
  const auto suits = [&](const Point& tile) {
    const int64_t height = tile["TILE_H"], width = tile["TILE_W"];
    return pool.suits_rows(height) && (width == 1 || pool.out[1] > width / 2);
  };
  std::vector<Point> starts;
  // What was fastest on an H200 for windows 3x3 of stride 1, 3x3 of stride 2, 2x2 of stride 2.
  const bool overlap = pool.kernel[0] > pool.stride[0];
  for (const Point& start : pool.shares_rows() ? std::vector<Point>{point(4, 2), point(2, 2), point(1, 2), point(1, 1)}
                            : overlap          ? std::vector<Point>{point(2, 1), point(1, 1)}
                                               : std::vector<Point>{point(1, 1), point(2, 1)})
    if (starts.size() < 2 && suits(start)) starts.push_back(start);
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    Candidate base = make_candidate(op, "");
    base.inputs[0] = TensorDesc::dense(pool.dtype, op.in(0).shape, layout);
    base.outputs[0] = TensorDesc::dense(pool.dtype, op.out().shape, layout);
    Slabs src;
    if (layout == Layout::plain(op.in(0).rank()) || !slabs_of(base.inputs[0], src)) continue;
    const Addressing from(base.inputs[0]), to(base.outputs[0]);
    const bool wide = !narrow(from) || !narrow(to);
    constexpr int64_t kMost = int64_t(1) << 31;  // work-items, whose ids are 31 bits
    if (to.extent() / piece_of(src.run, int64_t(size_of(pool.dtype))) >= kMost / 2) continue;
    const auto choices = pieces_family().choices(device, pool.shapes(op), starts, suits, out.whole_space);
    pieces_family().add(base, pool.shapes(op), choices, out, [&](Candidate& candidate, const Point& tile) {
      candidate.efficiency = 0.8;
      candidate.prepare = [&device, op, pool, src, wide, tile] {
        return prepare_pieces(device, op, pool, src, wide, tile);
      };
      return true;
    });
  }
}

void list_pool_backward_pieces(const Op& op, const Op& forward, OpenclDevice& device, CandidateList& out) {
  if (op.attributes[attr::mode] != "max" || forward.schema->kind == "adaptive_pool") return;
  if (!suits_pieces(forward, device)) return;
  const PlanePool pool(forward);
  if (!pool.suits()) return;
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    Candidate candidate = make_candidate(op, "pool_backward_pieces");
    for (auto* tensors : {&candidate.inputs, &candidate.outputs})
      for (TensorDesc& desc : *tensors) desc = TensorDesc::dense(pool.dtype, desc.shape, layout);
    Slabs src;
    if (layout == Layout::plain(op.in(0).rank()) || !slabs_of(candidate.inputs[0], src)) continue;
    const Addressing from(candidate.inputs[0]), grad(candidate.inputs[1]);
    const bool wide = !narrow(from) || !narrow(grad);
    constexpr int64_t kMost = int64_t(1) << 31;  // work-items, whose ids are 31 bits
    const int64_t most = std::max(from.extent(), grad.extent());
    if (most / piece_of(src.run, int64_t(size_of(pool.dtype))) >= kMost / 2) continue;
    candidate.workspace_bytes = size_t(grad.extent());
    candidate.efficiency = 0.6;
    candidate.prepare = [&device, pool, src, wide] { return prepare_backward(device, pool, src, wide); };
    out.add(std::move(candidate));
  }
}

}  // namespace pl::opencl
