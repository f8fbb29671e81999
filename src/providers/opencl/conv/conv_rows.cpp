// conv on CPUs: register tiles along rows (kernels/conv/conv_fwd_rows.cl).  Where windows leave the source by more than
// the outermost position of a row, over a copy with a border.  Channels last, or in blocks; one group.
#include <algorithm>
#include <cmath>
#include <optional>

#include "providers/opencl/conv/conv_common.h"

namespace pl::opencl {
namespace {

const Family& conv_rows_family() {
  static const Family family(
      "conv_fwd_rows",
      {{"VECTOR", {4, 8, 16}}, {"TILE_VECTORS", {1, 2, 3, 4}}, {"TILE_PIXELS", {1, 2, 4, 5, 6, 7, 8, 10, 12, 14, 16}}});
  return family;
}
PL_TUNING_FAMILY(conv_rows_family);

constexpr int64_t kFewChannels = 4;                    // of first layers: unrolled
constexpr int64_t kMostWith32Bits = int64_t(1) << 31;  // offsets are 32 bits wide here

// As kernels/conv/conv_pad_rows.cl has it.
struct BorderArgument {
  cl_int run, rows, columns, top, left, padded_rows, padded_columns, outer;
};

// As kernels/conv/conv_fwd_rows.cl has it.
struct RowsArgument {
  cl_int ic, oc, padded_oc, kernel_h, kernel_w, tap_h, tap_w, row, block, image, origin, rows, columns, dst_blocks;
  cl_int height, width, stride_h, stride_w, dilation_h, dilation_w, begin_h, begin_w;
  cl_int tiles, units, chunk, channels_first;
};

// A convolution as the kernel sees it.
struct Rows {
  bool bordered = false, edges = false;  // how windows that leave the source are met; neither: there are none
  BorderArgument border{};
  RowsArgument rows{};
  int64_t run = 1, dst_run = 1, step = 1;  // RUN, DST_RUN, STEP
  int64_t images = 1;                      // of positions: one where all positions are one row

  size_t border_elements() const {
    return size_t(border.outer) * size_t(border.padded_rows) * size_t(border.padded_columns) * size_t(border.run);
  }
};

// Channels that lie side by side in a dense tensor (outer, rows, columns, run); 0 where it is none.
int64_t channel_run(const Addressing& tensor) {
  if (tensor.inner.size() > 1) return 0;
  const auto [dim, block] = tensor.unit();
  const int64_t run = block ? block : tensor.dims[1];
  if (dim != 1) return 0;
  const int64_t row = tensor.dims[4] * run, plane = tensor.dims[3] * row, blocks = tensor.padded(1) / run;
  const auto lies = [&](int d, int64_t stride) {
    return tensor.dims[size_t(d)] == 1 || tensor.strides[size_t(d)] == stride;
  };
  const bool rows = lies(4, run) && lies(3, row) && lies(0, blocks * plane);
  return rows && (blocks == 1 || tensor.strides[1] == plane) ? run : 0;
}

std::optional<Rows> rows_of(const ConvTensors& t) {
  const Addressing &src = t.src, &dst = t.dst;
  if (t.groups != 1 || src.dims[2] != 1 || dst.dims[2] != 1 || t.wei.dims[2] != 1) return std::nullopt;
  if (!pads_channels_only(src) || !pads_channels_only(dst)) return std::nullopt;
  Rows r;
  r.run = channel_run(src);
  r.dst_run = channel_run(dst);
  if (!r.run || !r.dst_run || src.extent() >= kMostWith32Bits || dst.extent() >= kMostWith32Bits) return std::nullopt;
  const WindowArgument& w = t.window;
  const int64_t n = src.dims[0], blocks = src.padded(1) / r.run;
  const auto last = [&](int axis) {  // of the source, that some window reads
    return (dst.dims[size_t(2 + axis)] - 1) * w.stride[axis] + (w.size[axis] - 1) * int64_t(w.dilation[axis]);
  };
  int64_t height = src.dims[3], width = src.dims[4];
  if (w.begin[1] < 0 || w.begin[2] < 0) return std::nullopt;
  const bool leaves =
      w.begin[1] > 0 || w.begin[2] > 0 || last(1) - w.begin[1] >= height || last(2) - w.begin[2] >= width;
  // Of a row of positions only the first and the last leave the source, those next to them do not.
  r.edges = leaves && dst.dims[4] >= 2 && w.begin[2] <= w.stride[2] && last(2) - w.begin[2] - w.stride[2] < width;
  r.bordered = leaves && !r.edges;
  if (r.bordered) {
    r.border = {cl_int(r.run), cl_int(height), cl_int(width), w.begin[1], w.begin[2], 0, 0, cl_int(n * blocks)};
    height = std::max(height + w.begin[1], last(1) + 1);
    width = std::max(width + w.begin[2], last(2) + 1);
    r.border.padded_rows = cl_int(height);
    r.border.padded_columns = cl_int(width);
    if (int64_t(r.border_elements()) >= kMostWith32Bits) return std::nullopt;
  }
  const int64_t row = width * r.run, block = height * row;
  r.step = w.stride[2] * r.run;
  r.images = n;
  r.rows = {cl_int(t.channels()),
            cl_int(t.out_channels()),
            cl_int(t.wei.padded(0)),
            w.size[1],
            w.size[2],
            cl_int(w.dilation[1] * row),
            cl_int(w.dilation[2] * r.run),
            cl_int(w.stride[1] * row),
            cl_int(block),
            cl_int(blocks * block),
            r.edges ? cl_int(-(w.begin[1] * row + w.begin[2] * r.run)) : 0,
            cl_int(dst.dims[3]),
            cl_int(dst.dims[4]),
            cl_int(dst.padded(1) / r.dst_run),
            cl_int(height),
            cl_int(width),
            w.stride[1],
            w.stride[2],
            w.dilation[1],
            w.dilation[2],
            w.begin[1],
            w.begin[2],
            0,
            0,
            0,
            0};
  if (t.taps() == 1 && w.stride[1] == 1 && w.stride[2] == 1 && !leaves && height == dst.dims[3] &&
      width == dst.dims[4]) {
    r.rows.columns *= r.rows.rows;
    r.rows.rows = 1;
    if (blocks == 1 && dst.padded(1) == r.dst_run && int64_t(r.rows.columns) * n < kMostWith32Bits) {
      r.rows.columns *= cl_int(n);
      r.images = 1;
    }
  }
  return r;
}

Point conv_rows_point(int vector, int vectors, int pixels) {
  return {{"VECTOR", vector}, {"TILE_VECTORS", vectors}, {"TILE_PIXELS", pixels}};
}

// Registers of the vector unit: 32 of AVX-512 (and of most that have vectors of 16), else 16.
int conv_rows_registers(const OpenclDevice& device) {
  return device.capabilities().native_vector_float >= 16 ? 32 : 16;
}

// Half cycles that a tile takes for one input channel at one kernel position, where two loads and two products are done
// a cycle: products, or loads if they are more.  A value of the source is loaded once if there is a register for it,
// else with each product.  Ten products hide how long one takes.  Weights come from the second cache in the long run.
double steps_of(const OpenclDevice& device, int vectors, int pixels) {
  const int products = vectors * pixels,
            loads = vectors + (products + vectors < conv_rows_registers(device) ? pixels : products);
  return std::max({products, loads, 10}) + 0.5 * vectors;
}

bool suits_conv_rows(const OpenclDevice& device, const ConvTensors& t, const Rows& r, const Point& point) {
  const int vector = point["VECTOR"], vectors = point["TILE_VECTORS"], pixels = point["TILE_PIXELS"];
  const int native = std::clamp(device.capabilities().native_vector_float, 4, 16);
  if (vector > native || vector < std::min(native, 8) || pixels > r.rows.columns) return false;
  if (r.dst_run < t.out_channels() && r.dst_run % vector) return false;
  if (vectors > 1 && t.out_channels() <= int64_t(vector) * (vectors - 1)) return false;
  if (r.edges && pixels < 2) return false;
  // Sums that fill half of the registers at least, where the row is long enough.
  const int64_t sums = int64_t(vectors) * pixels,
                least = std::min<int64_t>(conv_rows_registers(device) / 2, r.rows.columns);
  return sums + vectors <= conv_rows_registers(device) && sums >= least;
}

// The tile that takes the fewest cycles for what is wanted of it.
Point conv_rows_start(const OpenclDevice& device, const ConvTensors& t, const Rows& r) {
  const int native = std::clamp(device.capabilities().native_vector_float, 4, 16);
  int vector = native;
  while (vector > 4 && (vector / 2 >= t.out_channels() || (r.dst_run < t.out_channels() && r.dst_run % vector)))
    vector /= 2;
  const int64_t columns = r.rows.columns, needed = (t.out_channels() + vector - 1) / vector;
  Point best = conv_rows_point(vector, 1, 1);
  double best_steps = INFINITY;
  for (const int vectors : {1, 2, 3, 4})
    for (const int pixels : conv_rows_family().tunables()[2].values) {
      // First layers write much and multiply little: the 3->64 at 224x224 takes 1.0 ms by one vector, 1.4 by two.
      if (vectors > 1 && t.channels() <= kFewChannels) continue;
      if (pixels > columns || vectors > needed || vectors * pixels + vectors > conv_rows_registers(device)) continue;
      if (r.edges && pixels < 2) continue;
      const int64_t tiles = (columns + pixels - 1) / pixels, across = (needed + vectors - 1) / vectors;
      const double steps = double(tiles * across) * (steps_of(device, vectors, pixels) + 0.1 * pixels);
      if (steps >= best_steps) continue;
      best_steps = steps;
      best = conv_rows_point(vector, vectors, pixels);
    }
  return best;
}

// Divides the work: units a work-item, and which id varies faster.  A work-group costs up to a microsecond to start, so
// that it should take some; but each processor should have several, for they may be slowed down by others.
void divide_conv_rows(const OpenclDevice& device, const ConvTensors& t, const Point& point, Rows& r, int64_t across) {
  constexpr double kEnoughProducts = 4e6;  // some 20 us of a fast processor
  constexpr int64_t kGroups = 8;           // a processor
  const int pixels = point["TILE_PIXELS"];
  const int64_t tiles = (r.rows.columns + pixels - 1) / pixels, units = r.images * r.rows.rows * tiles;
  const double products =
      double(pixels) * point["VECTOR"] * point["TILE_VECTORS"] * double(t.channels()) * double(t.taps());
  const int64_t processors = std::max<int64_t>(1, device.capabilities().compute_units);
  const auto chunk_of = [&](int64_t groups) { return std::max<int64_t>(1, units * across / groups); };
  // As many as are enough, but for small ops: of those every processor gets some.
  const int64_t enough = std::max<int64_t>(1, int64_t(kEnoughProducts / products));
  const int64_t chunk = std::min(std::max(chunk_of(processors * kGroups * 8), enough), chunk_of(processors * kGroups));
  r.rows.tiles = cl_int(tiles);
  r.rows.units = cl_int(units);
  r.rows.chunk = cl_int(std::min(chunk, units));
  // What is larger is read from memory once: the source, by all channels' work-items in turn, or the weights.
  r.rows.channels_first = t.src.extent() > t.wei.extent();
}

std::unique_ptr<Kernel> prepare_conv_rows(OpenclDevice& device, const Op& op, const ConvTensors& t, Rows r,
                                          const Point& point) {
  auto kernel = std::make_unique<KernelList>(device);
  Addressing src = t.src;
  if (r.bordered) {
    KernelSource border("conv/conv_pad_rows.cl");
    border.define("ELEMENT", size_of(t.src.dtype) == 4 ? "uint" : "ushort");
    kernel->add(border, "conv_pad_rows")
        .input(0)
        .workspace()
        .scalar(cl_int(t.src.offset))
        .scalar(r.border)
        .global({size_t(r.border.padded_rows), size_t(r.border.outer)})
        .local({1, 1});
    src.offset = 0;
  }
  const int64_t channels = int64_t(point["VECTOR"]) * point["TILE_VECTORS"];
  const int64_t across = (r.rows.dst_blocks * r.dst_run + channels - 1) / channels;
  divide_conv_rows(device, t, point, r, across);
  KernelSource source("conv/conv_fwd_rows.cl");
  source.tensor("SRC", src).tensor("WEI", t.wei).tensor("DST", t.dst);
  t.epilogue.define(source, op);
  point.define(source);
  source.define("RUN", r.run).define("DST_RUN", r.dst_run).define("STEP", r.step);
  if (t.channels() <= kFewChannels && t.channels() <= r.run) source.define("CHANNELS", t.channels());
  source.define("EDGES", int64_t(r.edges)).define("SHORT_EPILOGUE", int64_t(short_epilogue(op)));
  Launch& launch = kernel->add(source, "conv_fwd_rows");
  r.bordered ? launch.workspace("SRC") : launch.input(0, "SRC");
  launch.input(1, "WEI").output(0, "DST");
  t.epilogue.pass(launch);
  if (r.edges) launch.buffer(device.zeros(size_t(r.run) * size_of(t.src.dtype)));
  launch.scalar(r.rows);
  size_t parts = size_t((r.rows.units + r.rows.chunk - 1) / r.rows.chunk), tiles = size_t(across);
  if (r.rows.channels_first) std::swap(parts, tiles);
  launch.global({parts, tiles});
  launch.local({1, 1});
  return kernel;
}

}  // namespace

void list_conv_rows(const Op& op, OpenclDevice& device, CandidateList& out) {
  for (Candidate& base : packed_candidates(op)) {
    const ConvTensors t(op, base);
    const auto r = rows_of(t);
    if (!r) continue;
    base.efficiency = 0.6;
    if (r->bordered) base.workspace_bytes = r->border_elements() * size_of(op.in(0).dtype);
    const ShapeClass shapes = shape_class(t);
    const auto choices = conv_rows_family().choices(
        device, shapes, conv_rows_start(device, t, *r),
        [&](const Point& point) { return suits_conv_rows(device, t, *r, point); }, out.whole_space);
    conv_rows_family().add(base, shapes, choices, out, [&](Candidate& candidate, const Point& point) {
      candidate.prepare = [&device, op, t, r = *r, point] { return prepare_conv_rows(device, op, t, r, point); };
      return true;
    });
  }
}

}  // namespace pl::opencl
