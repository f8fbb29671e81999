// Products of few rows (kernels/matmul/matmul_skinny.cl): linear, and 1x1 conv of so few positions.
#include "providers/opencl/addressing/quads.h"
#include "providers/opencl/conv/conv_common.h"
#include "providers/opencl/normalise/norm_kernel.h"
#include "providers/opencl/pointwise/pointwise_text.h"
#include "providers/opencl/pointwise/pointwise_together.h"

namespace pl::opencl {
namespace {

constexpr int64_t kMostRows = 64;
constexpr int64_t kWorkItems = 128;   // of a group
constexpr int64_t kMostAbsorbed = 2;  // rows of a product that does its neighbours' work, too

struct SkinnyTile {
  int64_t rows, columns;
};
// The smaller ones for what has few results, the larger read each factor less often.
constexpr SkinnyTile kSkinnyTiles[] = {{1, 1}, {1, 2}, {2, 2}, {2, 1}, {4, 2}, {8, 4}};

// Of so many rows: half of it would be empty, or another one reads factors less often.
bool has_rows_for(const SkinnyTile& tile, int64_t rows) {
  if (tile.rows < 4) return tile.rows == rows;
  return tile.rows == 4 ? rows > 2 : rows > 4;
}

// What is done to two parts of a row of results, side by side in memory, that many elements of each.
struct Behind {
  pointwise::Code code;
  std::vector<double> scalars;
  int64_t results = 0, parts[2] = {0, 0};
  DType dtype = DType::f32;
};

class SkinnyKernel final : public KernelList, public Absorbs {
 public:
  SkinnyKernel(OpenclDevice& device, const Op& op, const ConvTensors& t, const SkinnyTile& tile, int64_t vector,
               int64_t lanes, std::optional<RowNorm> norm = {}, std::optional<Behind> behind = {});
  std::unique_ptr<Kernel> with_before(const Kernel& before, int input) const override;
  std::unique_ptr<Kernel> with_behind(const Kernel& behind) const override;

 private:
  int64_t rows() const { return t_.pixels(); }
  int64_t columns() const { return t_.out_channels(); }

  OpenclDevice& device_;
  const Op op_;
  const ConvTensors t_;
  const SkinnyTile tile_;
  const int64_t vector_, lanes_;
  const std::optional<RowNorm> norm_;
  const std::optional<Behind> behind_;
};

SkinnyKernel::SkinnyKernel(OpenclDevice& device, const Op& op, const ConvTensors& t, const SkinnyTile& tile,
                           int64_t vector, int64_t lanes, std::optional<RowNorm> norm, std::optional<Behind> behind)
    : KernelList(device),
      device_(device),
      op_(op),
      t_(t),
      tile_(tile),
      vector_(vector),
      lanes_(lanes),
      norm_(std::move(norm)),
      behind_(std::move(behind)) {
  KernelSource source("matmul/matmul_skinny.cl");
  t.define(source, op);
  const int64_t tiles = kWorkItems / lanes;
  source.define("TILE_M", tile.rows).define("TILE_N", tile.columns).define("VECTOR", vector);
  source.define("LANES", lanes).define("TILES", tiles);
  source.define("UNROLL", tile.rows < 4 ? 2 : 1);  // larger ones have no registers for more
  if (norm_) source.define("NORMS", 1);
  if (norm_ && norm_->weighted) source.define("WEIGHT_DTYPE", name_of(norm_->weight));
  if (behind_) {
    source.define("OUT_DTYPE", name_of(behind_->dtype));
    define_function(source, "BEHIND", behind_->code, behind_->scalars);
  }
  Launch& launch = add(source, "matmul_skinny").input(0, "SRC").input(1, "WEI").output(0, behind_ ? nullptr : "DST");
  t.epilogue.pass(launch);
  if (norm_ && norm_->weighted) launch.input(int(op.inputs.size()));
  if (norm_) launch.scalar(cl_float(norm_->eps));
  if (behind_) launch.index(behind_->results).index(behind_->parts[0]).index(behind_->parts[1]);
  launch.index(rows()).index(columns()).index(t.channels());
  const int64_t of_tiles = behind_ ? behind_->results : divided_up(columns(), tile.columns);
  launch.global({size_t(lanes), size_t(of_tiles), size_t(divided_up(rows(), tile.rows))});
  launch.local({size_t(lanes), size_t(tiles), 1});
}

// Each work-group normalises the rows that it reads, which is little beside its part of the matrix where these are few.
std::unique_ptr<Kernel> SkinnyKernel::with_before(const Kernel& before, int input) const {
  const auto* kernel = dynamic_cast<const NormKernel*>(&before);
  if (!kernel || !kernel->norm() || input != 0 || norm_ || behind_ || rows() > kMostAbsorbed) return nullptr;
  const RowNorm& norm = *kernel->norm();
  if (norm.terms != t_.channels() || norm.dtype != t_.src.dtype || !has_quads(norm.weight)) return nullptr;
  return std::make_unique<SkinnyKernel>(device_, op_, t_, tile_, vector_, lanes_, norm);
}

// A tile has one column of either part.
std::unique_ptr<Kernel> SkinnyKernel::with_behind(const Kernel& behind) const {
  const auto* kernel = dynamic_cast<const JoinableKernel*>(&behind);
  if (!kernel || behind_ || rows() > kMostAbsorbed) return nullptr;
  const Computation& c = kernel->plan().computation;
  const Iteration& it = kernel->plan().iteration;
  const bool plain = c.program.arithmetic == pointwise::Arithmetic::f32 && !c.rounds && c.parts == 1 && !it.wide &&
                     it.kept_checks.empty() && it.kept.size() == (rows() == 1 ? 1 : 2);
  if (!plain || c.inputs.size() != 2 || c.outputs.size() != 1 || !has_quads(c.outputs[0].dtype)) return nullptr;
  Behind found;
  found.results = it.kept.back().size;
  for (size_t i = 0; i < 3; ++i) {  // the inputs, then the output
    const int64_t width = i < 2 ? columns() : found.results;
    if (it.kept.back().strides[i] != 1 || (rows() > 1 && it.kept[0].strides[i] != width)) return nullptr;
    if (it.offsets[i] < 0 || it.offsets[i] + found.results > width) return nullptr;
    if (i < 2) found.parts[i] = it.offsets[i];
  }
  if (rows() > 1 && it.kept[0].size != rows()) return nullptr;
  found.code = c.program.elements;
  found.scalars = c.scalars;
  found.dtype = c.outputs[0].dtype;
  return std::make_unique<SkinnyKernel>(device_, op_, t_, SkinnyTile{tile_.rows, 2}, vector_, lanes_, norm_,
                                        std::move(found));
}

}  // namespace

void add_skinny(const Op& op, OpenclDevice& device, const Candidate& base, const ConvTensors& t, CandidateList& out) {
  const int64_t terms = t.channels(), vector = size_of(t.src.dtype) == 2 && terms % 8 == 0 ? 8 : 4;
  const int64_t pieces = terms / vector;
  if (t.pixels() > kMostRows || terms % 4 || pieces == 0 || !has_quads(t.src.dtype)) return;
  if (device.capabilities().max_work_group < size_t(kWorkItems)) return;
  const int64_t wanted = 256 * int64_t(device.capabilities().compute_units);  // work-items
  for (const SkinnyTile& tile : kSkinnyTiles) {
    if (!has_rows_for(tile, t.pixels())) continue;
    // A few pieces for each: fewer and their sums take longer than they do, more and too few loads are on their way.
    // Two are best for a row (1 x 2048 x 11264 in f16 18 us on an H200, 20 by four), larger tiles have more sums.
    const int64_t tiles = divided_up(t.out_channels(), tile.columns) * divided_up(t.pixels(), tile.rows);
    int64_t lanes = 8;
    const bool small = tile.rows < 4;
    const int64_t most = small ? kWorkItems : 64, shared = small ? pieces : pieces - 1;
    while (lanes < most && shared >= 4 * lanes) lanes *= 2;
    while (lanes < kWorkItems && pieces > 2 * lanes && tiles * lanes < wanted) lanes *= 2;
    Candidate candidate = base;
    candidate.implementation = concat("matmul_skinny[", tile.rows, "x", tile.columns, ",lanes=", lanes, "]");
    candidate.efficiency = device.capabilities().cpu ? 0.05 : tile.rows < 4 ? 0.85 : 0.5;
    candidate.absorbs = t.pixels() <= kMostAbsorbed;
    candidate.prepare = [&device, op, t, tile, vector, lanes] {
      return std::make_unique<SkinnyKernel>(device, op, t, tile, vector, lanes);
    };
    out.add(std::move(candidate));
  }
}

// Convolutions whose kernel is the whole image, so that the result has one position: channels last, both lie as rows of
// a product.
bool takes_whole_images(const Op& op, const ConvTensors& t) {
  for (int axis = 0; axis < 3; ++axis)
    if (t.window.begin[axis] != 0 || t.src.dims[size_t(2 + axis)] != t.wei.dims[size_t(2 + axis)] ||
        t.dst.dims[size_t(2 + axis)] != 1)
      return false;
  return op.in(0).shape[1] == t.channels();
}

void list_conv_skinny(const Op& op, OpenclDevice& device, CandidateList& out) {
  const int rank = op.in(0).rank();
  if (op.attributes[attr::groups] != 1) return;
  Candidate base = make_candidate(op, "");
  const Layout layout = Layout::channels_last(rank);
  base.inputs[0] = TensorDesc::dense(op.in(0).dtype, op.in(0).shape, layout);
  base.inputs[1] = op.in(1).with_layout(layout);
  base.outputs[0] = TensorDesc::dense(op.out().dtype, op.out().shape, layout);
  complete_conv(op, base);
  ConvTensors t(op, base);
  if (t.out_channels() == 0) return;
  if (t.taps() != 1) {
    if (!takes_whole_images(op, t)) return;
    for (Addressing* a : {&t.src, &t.wei}) {
      a->dims[1] *= t.taps() > 0 ? a->dims[2] * a->dims[3] * a->dims[4] : 0;
      for (size_t d = 2; d < 5; ++d) a->dims[d] = 1;
    }
    return add_skinny(op, device, base, t, out);
  }
  for (int axis = 0; axis < 3; ++axis)  // position by position, or only one
    if (t.window.begin[axis] != 0 || t.src.dims[size_t(2 + axis)] != t.dst.dims[size_t(2 + axis)] ||
        (t.window.stride[axis] != 1 && t.dst.dims[size_t(2 + axis)] != 1))
      return;
  add_skinny(op, device, base, t, out);
}

}  // namespace pl::opencl
