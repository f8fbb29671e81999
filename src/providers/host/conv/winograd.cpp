// Candidates of kinds conv and conv_transpose by Winograd's algorithm (winograd.h): how the work is cut and shared.
//
// A transposed convolution of stride 1 is a convolution with the filters turned round, the channels exchanged, and a
// padding of 2 less its own: the gradient of a convolution by its input.
//
// Tiles are the 4 x 4 pieces of y, counted through all images.  A piece of work is a block of tiles: its windows of x
// are transformed, multiplied by the weights one panel of output channels after the other, and each panel's products
// transformed back at once, so that they never leave the caches.  Two ways to share it between threads:
//   by tiles     each thread has blocks of its own.  The weights are read once for each block.
//   by channels  all threads transform one large block together, then each takes panels of output channels (or parts of
//                the block, where panels are few).  The weights are read once in total: for few tiles and many
//                channels.  Of 1 to 4 tiles each of a few threads transforms all for itself, so that none waits.
// And two forms of the weights:
//   early        transformed when they are packed: 4 times as large as the weights.
//   late         as they are, in panels, and transformed as they are used.  With few tiles a layer's time is that of
//                reading its weights.  With 1 to 4 tiles (7 x 7 at batch 1) products and transformed weights even stay
//                in the first-level cache.
//
// Error: relative to the L2 norm of the result, for normally distributed x and weights, 0.7e-6 for 64 input channels to
// 2.2e-6 for 512, where sums in f32 by the definition have 0.4e-6 to 1.2e-6; tests/c/test_winograd.cpp holds it to
// 3e-6. Single outputs that are small beside their neighbours have larger relative errors, as rounding is relative to
// the largest values of the tile.  A NaN in x makes all outputs NaN whose tiles' windows contain it, up to 4 pixels
// further than by the definition; an infinity makes them NaN or infinite.  Values beyond about 1e36 may overflow where
// the definition does not.  (F(2x2, 3x3) has 0.3e-6 to 0.7e-6, F(6x6, 3x3) with points 0, +-1/2, +-1, +-2 has 3.3e-6
// for 64 channels.  F(2x2) was at best as fast as F(4x4) with late weights; F(6x6) would save a tenth of the products
// at 56 x 56, a sixth at 224 x 224, and nothing at 14 x 14.)
#include "providers/host/conv/winograd.h"

#include <algorithm>
#include <cstring>

#include "core/threads.h"
#include "ops/spatial.h"
#include "providers/host/common/host.h"
#include "providers/host/common/simd.h"
#include "providers/host/pointwise/functions.h"

namespace pl::host {
namespace {

// Of the device's rate, in products and transforms together (`python -m bench.estimates`).
constexpr double kReached = 0.6;
constexpr double kFlopsOfAFilter = 150;  // that transforming one takes
constexpr int kLateBlocks = 2;  // of input channels transformed at once: 36 * 32 * 64 weights are 295 KB, within L2
constexpr int kMostBlocks = 8;  // of input channels multiplied at once: a panel of 128 x 64 weights is 32 KB, within L1

// Weights of more bytes than this are read once by all threads together rather than once by each.
constexpr size_t kSharedWeights = size_t(4) << 20;
// Late weights are offered up to so many tiles; from there on the early ones are always faster.
constexpr int64_t kFewTiles = 64;
// In a block.  From 16 to 128 tiles of its own a thread's speed changes by 3%; the transformed input of 64 shared tiles
// of 512 channels is 4.7 MB, and with 256 tiles the same layers were up to a fifth slower (bench/winograd.py, Zen 5).
constexpr int64_t kOwnTiles = 32, kSharedTiles = 64;
// Up to so many threads transform the few tiles of WinogradKernels::few each for itself.  That costs each what the
// others would have done, a few percent, and saves a wait for the slowest and lines of another core.  On two cores that
// other programs use too, every wait may last for a time slice.
constexpr int kFewThreads = 4;

// Of so many channels, those in their last block.
int last_lanes(int64_t channels) { return int((channels - 1) % kLanes + 1); }

struct Geometry {
  const WinogradKernels* kernels;
  bool transposed;  // weights are (ic, oc, 3, 3), and turned round
  bool late;        // weights are transformed as they are used
  int most_blocks;  // of output channels in a panel
  int64_t images, ic, oc;
  int h, w, oh, ow;
  int pad_top, pad_left;
  TensorDesc x, y;
  bool bias;
  int residual;  // the input that is added; -1: none
  Activation activation;
  bool relu;
  AppliedPostOps rest;  // behind that

  int64_t tiles_h() const { return divide_up(oh, kTile); }
  int64_t tiles_w() const { return divide_up(ow, kTile); }
  int64_t tiles() const { return images * tiles_h() * tiles_w(); }
  int64_t ic_blocks() const { return divide_up(ic, kLanes); }
  int64_t oc_blocks() const { return divide_up(oc, kLanes); }
  int64_t panels() const { return divide_up(oc_blocks(), most_blocks); }
  int panel_blocks(int64_t panel) const {
    return int(std::min<int64_t>(most_blocks, oc_blocks() - panel * most_blocks));
  }
  // Values for each pair of channels, as packed.
  int filter_points() const { return late ? kFilter * kFilter : kPoints; }
  size_t weight_floats() const { return size_t(filter_points()) * size_t(ic_blocks() * oc_blocks()) * kLanes * kLanes; }
  // Where a panel begins within the weights.
  int64_t panel_offset(int64_t panel) const {
    return panel * most_blocks * kLanes * filter_points() * ic_blocks() * kLanes;
  }
  // Late weights with so few tiles that products and transformed weights fit into the first-level cache.
  bool few() const { return late && tiles() <= kFewRows; }
  int64_t v_point(int64_t tiles) const { return point_distance(ic_blocks() * tiles); }
  int64_t v_floats(int64_t tiles) const { return v_point(tiles) * kPoints; }
  int64_t m_point(int64_t tiles) const { return point_distance(most_blocks * tiles); }
  int64_t m_floats(int64_t tiles) const { return m_point(tiles) * kPoints; }
  // Of the products, lanes beyond the last channels included, and where they are late of transforming the weights.
  double flops() const {
    const double pairs = double(ic_blocks() * oc_blocks()) * kLanes * kLanes;
    return pairs * (2.0 * kPoints * double(tiles()) + (late ? kFlopsOfAFilter : 0.0));
  }
  // Transformed weights of a panel, of so many blocks of input channels at once.
  int64_t u_point() const { return point_distance(kLateBlocks * kLanes * most_blocks); }
  int64_t u_floats() const { return late && !few() ? u_point() * kPoints : 0; }
};

// ---- weights ----

// Filters of kLanes output channels in the domain of the transform: G g G^T, in double.  winograd_kernels.h has the
// formulas.  u[point * distance + lane] of g[tap][lane].
PL_VECTORISED void transform_filters(const float* g, float* u, int64_t distance) {
  constexpr double a = 0.625, b = 1.5, a2 = a * a, b2 = b * b;
  constexpr double p = 1 / (2 * a2 * (a2 - b2)), q = 1 / (2 * b2 * (b2 - a2));
  constexpr double rows[kWindow][kFilter] = {{1 / (a2 * b2), 0, 0}, {p, p * a, p * a2},  {p, -p * a, p * a2},
                                             {q, q * b, q * b2},    {q, -q * b, q * b2}, {0, 0, 1}};
  double half[kFilter][kLanes];  // a row of G g
  for (int i = 0; i < kWindow; ++i) {
    for (int c = 0; c < kFilter; ++c)
      for (int lane = 0; lane < kLanes; ++lane)
        half[c][lane] = rows[i][0] * double(g[c * kLanes + lane]) + rows[i][1] * double(g[(3 + c) * kLanes + lane]) +
                        rows[i][2] * double(g[(6 + c) * kLanes + lane]);
    for (int j = 0; j < kWindow; ++j) {
      float* to = u + (i * kWindow + j) * distance;
      for (int lane = 0; lane < kLanes; ++lane)
        to[lane] = float(half[0][lane] * rows[j][0] + half[1][lane] * rows[j][1] + half[2][lane] * rows[j][2]);
    }
  }
}

// From (oc, ic, 3, 3), or transposed, to u[panel][point][ic][lane], or g[panel][ic][3 * 3][lane].
void pack_weights(const Geometry& g, const float* weights, float* packed) {
  constexpr int taps = kFilter * kFilter;
  const int64_t channels = g.ic_blocks() * kLanes;
  // From one output channel to the next, and from one input channel; backwards from the last tap where turned round.
  const int64_t o_step = g.transposed ? taps : g.ic * taps, i_step = g.transposed ? g.oc * taps : taps;
  const int64_t first_tap = g.transposed ? taps - 1 : 0, tap_step = g.transposed ? -1 : 1;
  parallel_for(g.oc_blocks(), double(channels * kLanes * g.filter_points()) * 0.5, [&](int64_t begin, int64_t end) {
    float filters[taps * kLanes];
    for (int64_t block = begin; block < end; ++block) {
      const int64_t panel = block / g.most_blocks, exist = std::min<int64_t>(kLanes, g.oc - block * kLanes);
      const int64_t lanes = int64_t(g.panel_blocks(panel)) * kLanes;
      float* first = packed + g.panel_offset(panel) + block % g.most_blocks * kLanes;
      std::fill(filters, filters + taps * kLanes, 0.0f);
      for (int64_t i = 0; i < channels; ++i) {
        if (i == g.ic) std::fill(filters, filters + taps * kLanes, 0.0f);  // the rest of the last block
        if (i < g.ic)
          for (int64_t lane = 0; lane < exist; ++lane) {
            const float* filter = weights + (block * kLanes + lane) * o_step + i * i_step + first_tap;
            for (int k = 0; k < taps; ++k) filters[k * kLanes + lane] = filter[k * tap_step];
          }
        if (!g.late)
          transform_filters(filters, first + i * lanes, channels * lanes);
        else
          for (int k = 0; k < taps; ++k)
            std::copy(filters + k * kLanes, filters + (k + 1) * kLanes, first + (i * taps + k) * lanes);
      }
    }
  });
}

// ---- the run ----

// How the work is cut; fixed when the candidate is listed, as the workspace depends on it.
struct Cut {
  bool by_channels = false;
  bool own_input = false;  // by channels: each thread transforms the block for itself
  int64_t most_tiles = 1;  // in a block
  int threads = 1;         // at most
};

class Body {
 public:
  Body(const Geometry& geometry, const Cut& cut)
      : g_(geometry), cut_(cut), zeros_(size_t(geometry.oc_blocks() * kLanes)) {
    source_ = source_of(g_.x);
    target_.h = g_.oh, target_.w = g_.ow;
    target_.relu = g_.relu;
    if (!g_.relu) target_.activation = g_.activation.floats;
    target_.alpha = g_.activation.alpha, target_.beta = g_.activation.beta;
    target_.pad = g_.y.layout.is_blocked();
    target_.row = g_.y.strides[2], target_.column = g_.y.strides[3];
    target_.block = target_.pad ? g_.y.strides[1] : kLanes;
    x_image_ = g_.x.strides[0], y_image_ = g_.y.strides[0];
    last_lanes_ = last_lanes(g_.oc);
  }

  static size_t workspace_floats(const Geometry& g, const Cut& cut) {
    const int64_t v = g.v_floats(cut.most_tiles), own = g.m_floats(cut.most_tiles) + g.u_floats();
    return size_t(cut.by_channels && !cut.own_input ? v + cut.threads * own : cut.threads * (v + own));
  }

  void operator()(const KernelArguments& arguments) const {
    Call call;
    call.x = static_cast<const float*>(input(arguments, 0));
    call.u = static_cast<const float*>(input(arguments, 1));
    call.bias = g_.bias ? static_cast<const float*>(input(arguments, 2)) : zeros_.data();
    call.residual = g_.residual >= 0 ? static_cast<const float*>(input(arguments, g_.residual)) : nullptr;
    call.y = static_cast<float*>(output(arguments));
    call.inputs = arguments.inputs;
    call.workspace = static_cast<float*>(arguments.workspace->host());
    // A core does about 100 multiplications a nanosecond.
    const double nanoseconds = double(g_.tiles() * kPoints) * double(g_.ic * g_.oc) / 100;
    const int threads = std::min(threads_for(nanoseconds), cut_.threads);
    if (cut_.by_channels)
      run_by_channels(call, threads);
    else
      run_by_tiles(call, threads);
  }

 private:
  struct Call {
    const float *x, *u, *bias, *residual;
    float *y, *workspace;
    Buffer* const* inputs;  // of the op
  };

  void run_by_tiles(const Call& call, int threads) const {
    const int64_t tiles = g_.tiles();
    int64_t blocks = divide_up(tiles, cut_.most_tiles);
    blocks = std::min(divide_up(blocks, threads) * threads, tiles);  // as many for each thread
    in_shares(threads, blocks, [&](int64_t rank, Shares::Taker take) {
      const int64_t own = g_.v_floats(cut_.most_tiles) + g_.m_floats(cut_.most_tiles) + g_.u_floats();
      float* v = call.workspace + rank * own;
      float* products = v + g_.v_floats(cut_.most_tiles);
      for (int64_t block; (block = take()) >= 0;) {
        const int64_t first = tiles * block / blocks, count = tiles * (block + 1) / blocks - first;
        transform(call, first, 0, count, count, v);
        for (int64_t panel = 0; panel < g_.panels(); ++panel)
          multiply(call, panel, first, 0, count, count, v, products);
      }
    });
  }

  void run_by_channels(const Call& call, int threads) const {
    const int64_t tiles = g_.tiles(), panels = g_.panels();
    const int64_t blocks = divide_up(tiles, cut_.most_tiles);
#pragma omp parallel if (threads > 1)  // of the whole pool, as in_team says; its barriers need all threads
    {
      const int64_t team = std::min(threads, omp_get_num_threads()), rank = omp_get_thread_num();
      const bool takes_part = rank < team;
      const int64_t input = g_.v_floats(cut_.most_tiles), own = g_.m_floats(cut_.most_tiles) + g_.u_floats();
      float* v = call.workspace + (cut_.own_input ? rank * (input + own) : 0);
      float* products = cut_.own_input ? v + input : v + input + rank * own;
      for (int64_t block = 0; block < blocks; ++block) {
        const int64_t first = tiles * block / blocks, count = tiles * (block + 1) / blocks - first;
        if (takes_part && cut_.own_input) transform(call, first, 0, count, count, v);
        if (!cut_.own_input) {
          if (takes_part) transform(call, first, count * rank / team, count * (rank + 1) / team, count, v);
#pragma omp barrier
        }
        // Items are parts of panels, those of one panel side by side; as many parts as it takes to occupy all.
        int64_t parts = 1;
        while (panels * parts % team != 0 && panels * parts < 4 * team && parts * 8 < count) ++parts;
        const int64_t items = takes_part ? panels * parts : 0;
        for (int64_t item = items * rank / team; item < items * (rank + 1) / team; ++item) {
          const int64_t part = item % parts;
          multiply(call, item / parts, first, count * part / parts, count * (part + 1) / parts, count, v, products);
        }
        if (block + 1 == blocks) break;  // the last wait is the parallel region's own
#pragma omp barrier
      }
    }
  }

  struct Place {
    int64_t image;
    int y, x;  // of the tile's first output
  };
  Place place(int64_t tile) const {
    const int64_t across = g_.tiles_w(), down = g_.tiles_h();
    return {tile / (across * down), int(tile / across % down) * kTile, int(tile % across) * kTile};
  }

  // Windows of the tiles first + [begin, end) of a block of `count` tiles.
  void transform(const Call& call, int64_t first, int64_t begin, int64_t end, int64_t count, float* v) const {
    WinogradSource source = source_;
    for (int64_t tile = begin; tile < end;) {
      const Place at = place(first + tile);
      const int run = int(std::min<int64_t>(end - tile, g_.tiles_w() - at.x / kTile));  // to the end of the row
      source.x = call.x + at.image * x_image_;
      g_.kernels->input(source, at.y - g_.pad_top, at.x - g_.pad_left, run, v + tile * kLanes, g_.v_point(count),
                        count * kLanes);
      tile += run;
    }
  }

  // One panel of output channels of the tiles first + [begin, end) of a block of `count` tiles.
  void multiply(const Call& call, int64_t panel, int64_t first, int64_t begin, int64_t end, int64_t count,
                const float* v, float* products) const {
    const int panel_blocks = g_.panel_blocks(panel), rows = int(end - begin);
    const int64_t lanes = int64_t(panel_blocks) * kLanes, ic_blocks = g_.ic_blocks();
    const int64_t v_point = g_.v_point(count), v_block = count * kLanes, m_point = g_.m_point(rows);
    const float* weights = call.u + g_.panel_offset(panel);
    const auto multiply_point = [&](int point, int64_t block, int blocks, const float* u, const float* next,
                                    int stride) {
      g_.kernels->multiply(v + point * v_point + block * v_block + begin * kLanes, v_block, u,
                           products + point * m_point, rows, blocks, panel_blocks, block > 0, next, stride);
    };
    if (g_.few()) {
      g_.kernels->few(v + begin * kLanes, v_point, v_block, weights, products, m_point, rows, int(ic_blocks),
                      panel_blocks);
    } else if (g_.late) {
      float* u = products + g_.m_floats(cut_.most_tiles);
      for (int64_t block = 0; block < ic_blocks; block += kLateBlocks) {
        const int blocks = int(std::min<int64_t>(kLateBlocks, ic_blocks - block));
        g_.kernels->filter(weights, u, g_.u_point(), blocks * kLanes, panel_blocks);
        // The products fetch the filters that follow.
        const int64_t floats = blocks * kLanes * kFilter * kFilter * lanes;
        weights += floats;
        for (int point = 0; point < kPoints; ++point)
          multiply_point(point, block, blocks, u + point * g_.u_point(), weights + floats * point / kPoints, kLanes);
      }
    } else {
      for (int point = 0; point < kPoints; ++point) {
        for (int64_t block = 0; block < ic_blocks; block += kMostBlocks) {
          const int blocks = int(std::min<int64_t>(kMostBlocks, ic_blocks - block));
          const float* u = weights;
          weights += blocks * kLanes * lanes;
          multiply_point(point, block, blocks, u, weights, int(lanes));
        }
      }
    }
    WinogradTarget target = target_;
    const int64_t first_block = panel * g_.most_blocks;
    target.blocks = panel_blocks;
    target.last_lanes = first_block + panel_blocks == g_.oc_blocks() ? last_lanes_ : kLanes;
    target.bias = call.bias + first_block * kLanes;
    for (int64_t tile = begin; tile < end; ++tile) {
      const Place at = place(first + tile);
      const int64_t offset = at.image * y_image_ + first_block * target.block;
      target.y = call.y + offset;
      target.residual = call.residual ? call.residual + offset : nullptr;
      g_.kernels->output(target, at.y, at.x, products + (tile - begin) * lanes, m_point);
      if (!g_.rest.empty()) go_on(call, target, at);
    }
  }

  // The rest of the post-ops, on a panel's outputs of a tile, which were stored just now: channels of one pixel lie
  // side by side, or in blocks those of neighbouring pixels too.
  void go_on(const Call& call, const WinogradTarget& target, const Place& at) const {
    const int rows = std::min(kTile, g_.oh - at.y), columns = std::min(kTile, g_.ow - at.x);
    const auto apply = [&](float* y, int64_t count) {
      g_.rest.apply(y, count, [&](int i) { return static_cast<const float*>(call.inputs[i]->host()) + (y - call.y); });
    };
    for (int row = 0; row < rows; ++row) {
      float* y = target.y + (at.y + row) * target.row + at.x * target.column;
      if (!target.pad) {
        const int64_t channels = int64_t(target.blocks - 1) * kLanes + target.last_lanes;
        for (int column = 0; column < columns; ++column) apply(y + column * target.column, channels);
        continue;
      }
      for (int block = 0; block < target.blocks; ++block, y += target.block) {
        const bool cut = block + 1 == target.blocks && target.last_lanes < kLanes;
        if (!cut) apply(y, columns * kLanes);
        for (int column = 0; cut && column < columns; ++column) apply(y + column * kLanes, target.last_lanes);
      }
    }
  }

  Geometry g_;
  Cut cut_;
  std::vector<float> zeros_;  // stands in for an absent bias
  WinogradSource source_;
  WinogradTarget target_;
  int64_t x_image_ = 0, y_image_ = 0;  // distances between images
  int last_lanes_ = kLanes;
};

// ---- candidates ----

}  // namespace

WinogradSource source_of(const TensorDesc& images) {
  const bool blocked = images.layout.is_blocked();
  const int64_t channels = images.shape[1];
  WinogradSource source;
  source.h = int(images.shape[2]), source.w = int(images.shape[3]);
  source.row = images.strides[2], source.column = images.strides[3];
  source.block = blocked ? images.strides[1] : kLanes;
  source.blocks = int(divide_up(channels, kLanes));
  source.last_lanes = blocked ? kLanes : last_lanes(channels);
  return source;
}

const WinogradIsas& winograd_isas() {
  static const WinogradIsas isas = [] {
    WinogradIsas found{};
    for (const WinogradKernels* kernels : {winograd_avx512(), winograd_avx2(), winograd_generic()})
      if (kernels) found.list[found.count++] = kernels;
    return found;
  }();
  return isas;
}

void list_winograd(const Op& op, const WinogradKernels& kernels, CandidateList& out) {
  const TensorDesc &x = op.in(0), &weight = op.in(1);
  const bool transposed = op.schema->kind == "conv_transpose";
  if (x.rank() != 4 || weight.shape[2] != kFilter || weight.shape[3] != kFilter) return;  // of no interest here
  std::string reason;
  const Window rows = window_of(op, 0), columns = window_of(op, 1);
  const int64_t groups = op.attributes[attr::groups];
  const StoredPostOps post_ops(op);
  if (x.dtype != DType::f32)
    reason = concat("x is ", name_of(x.dtype), ", expected f32");
  else if (rows.stride != 1 || columns.stride != 1)
    reason = concat("stride is [", rows.stride, ", ", columns.stride, "], expected 1");
  else if (rows.dilation != 1 || columns.dilation != 1)
    reason = concat("dilation is [", rows.dilation, ", ", columns.dilation, "], expected 1");
  else if (rows.in > kMostPixels || columns.in > kMostPixels)
    reason = concat("x is larger than ", kMostPixels, " pixels along an axis");
  else if (groups != 1)
    reason = concat("groups is ", groups, ", expected 1");
  else if (transposed && std::max({rows.begin, rows.end, columns.begin, columns.end}) >= kFilter)
    reason = concat("padding reaches ", std::max({rows.begin, rows.end, columns.begin, columns.end}),
                    ", expected less than ", kFilter);
  else if (x.shape[1] < kFewChannels || op.out().shape[1] < kFewChannels)
    reason = concat("x.c is ", x.shape[1], " and weight.oc is ", op.out().shape[1], ", expected at least ",
                    kFewChannels, ": with fewer channels the transforms cost more than they save");
  if (!reason.empty()) {
    out.refuse("host", op.schema->name + ": Winograd: " + reason);
    return;
  }
  for (const Layout& layout : {Layout::channels_last(4), Layout::channels_blocked(4, kLanes)}) {
    for (bool late : {false, true}) {
      Geometry g{};
      g.kernels = &kernels;
      g.transposed = transposed;
      g.late = late;
      g.most_blocks = kernels.panel_blocks;
      g.images = x.shape[0], g.ic = x.shape[1], g.oc = op.out().shape[1];
      g.h = int(rows.in), g.w = int(columns.in), g.oh = int(rows.out), g.ow = int(columns.out);
      g.pad_top = int(transposed ? kFilter - 1 - rows.begin : rows.begin);
      g.pad_left = int(transposed ? kFilter - 1 - columns.begin : columns.begin);
      g.x = strided_view_as(x, layout), g.y = strided_view_as(op.out(), layout);
      if (reads_inputs(post_ops_of(op)) && !g.y.is_dense()) continue;  // they lie as y does
      g.bias = op.has(2), g.residual = post_ops.first.added;
      if (post_ops.first.function) g.activation = Activation::of(*post_ops.first.function);
      g.relu = post_ops.first.is("relu");
      g.rest = post_ops.rest;
      if (g.tiles() == 0 || x.elements() == 0) continue;
      if (late && g.tiles() > kFewTiles) continue;
      Cut cut;
      cut.threads = int(std::min<int64_t>(available_processors(), g.tiles() * g.oc_blocks()));
      if (g.few()) g.most_blocks = std::min(g.most_blocks, 2);
      // Few tiles cannot be shared, so there must be panels for all.
      while (g.most_blocks > 1 && g.tiles() <= kFewTiles && g.panels() < cut.threads) g.most_blocks /= 2;
      cut.by_channels = g.late || g.weight_floats() * sizeof(float) >= kSharedWeights;
      cut.own_input = g.few() && cut.threads <= kFewThreads;
      cut.most_tiles = std::min<int64_t>(g.tiles(), cut.by_channels ? kSharedTiles : kOwnTiles);
      Candidate candidate;
      candidate.provider = "host";
      candidate.implementation = concat(late ? "winograd_late:" : "winograd:", kernels.isa);
      for (size_t i = 0; i < op.inputs.size(); ++i)
        candidate.inputs.push_back(i == 0  ? g.x
                                   : i > 2 ? dense_as(op.inputs[i], layout)  // what post-ops read
                                           : dense_plain(op.inputs[i]));
      candidate.outputs = {g.y};
      candidate.workspace_bytes = Body::workspace_floats(g, cut) * sizeof(float);
      candidate.flops = g.flops();
      candidate.efficiency = kReached;
      if (g.residual >= 0) candidate.in_place = 1u << g.residual;  // added to each output as it is stored
      // The panels' width decides the order of the weights.
      const std::string name =
          concat(late ? "winograd_late:" : "winograd:", g.most_blocks * kLanes, transposed ? ":transposed" : "");
      candidate.packings.push_back({1, name, g.weight_floats() * sizeof(float), [g](Buffer& source, Buffer& packed) {
                                      pack_weights(g, static_cast<const float*>(source.host()),
                                                   static_cast<float*>(packed.host()));
                                    }});
      candidate.prepare = [g, cut]() -> std::unique_ptr<Kernel> {
        return std::make_unique<BodyKernel<Body>>(Body(g, cut));
      };
      out.add(std::move(candidate));
    }
  }
}

}  // namespace pl::host
