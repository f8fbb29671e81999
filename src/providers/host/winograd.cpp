// Candidates of kind conv by Winograd's algorithm (winograd.h): how the work is cut and shared.
//
// Tiles are the m x m pieces of y, counted through all images.  A piece of work is a block of tiles: its windows of x
// are transformed, multiplied by the weights one panel of output channels after the other, and each panel's products
// transformed back at once, so that they never leave the caches.  Two ways to share it between threads:
//   by tiles     each thread has blocks of its own.  The weights are read once for each block.
//   by channels  all threads transform one large block together, then each takes panels of output channels (or parts of
//                the block, where panels are few).  The weights are read once in total: for few tiles and many
//                channels.
//
// Error: relative to the L2 norm of the result, for normally distributed x and weights, F(4,3) gives 0.5e-6 to 1.5e-6
// for 64 to 512 input channels, F(2,3) 0.2e-6 to 0.5e-6, the definition summed in f32 about the same as F(2,3);
// tests/c/test_winograd.cpp holds them to 3e-6 and 1e-6.  Single outputs that are small beside their neighbours have
// larger relative errors, as rounding is relative to the largest value of the tile.  A NaN or an infinity in x makes
// all outputs NaN whose tiles' windows contain it, up to m + 1 pixels further than by the definition; values beyond
// about 1e36 may overflow where the definition does not.
#include "providers/host/winograd.h"

#include <algorithm>
#include <cstring>

#include "core/threads.h"
#include "ops/spatial.h"
#include "providers/host/functions.h"
#include "providers/host/host.h"

namespace pl::host {
namespace {

constexpr int kFilter = 3;
constexpr int64_t kMostPixels = 1 << 30;
constexpr int kMostBlocks = 8;  // of input channels multiplied at once: a panel of 128 x 64 weights is 32 KB, within L1

// Weights of more bytes than this are read once by all threads together rather than once by each.
constexpr size_t kSharedWeights = size_t(2) << 20;
constexpr int64_t kOwnTiles = 32, kSharedTiles = 256;  // in a block

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
// Floats from one point to the next, for so many lines of 16 floats: odd, see winograd.h.
int64_t point_distance(int64_t lines) { return (lines | 1) * kLanes; }

struct Geometry {
  const WinogradKernels* kernels;
  int m;  // outputs of a tile along an axis
  int64_t images, ic, oc;
  int h, w, oh, ow;
  int pad_top, pad_left;
  TensorDesc x, y;
  bool bias, residual;
  Activation activation;
  bool relu;

  int n() const { return m + kFilter - 1; }
  int points() const { return n() * n(); }
  int64_t tiles_h() const { return divide_up(oh, m); }
  int64_t tiles_w() const { return divide_up(ow, m); }
  int64_t tiles() const { return images * tiles_h() * tiles_w(); }
  int64_t ic_blocks() const { return divide_up(ic, kLanes); }
  int64_t oc_blocks() const { return divide_up(oc, kLanes); }
  int64_t panels() const { return divide_up(oc_blocks(), kernels->panel_blocks); }
  int panel_blocks(int64_t panel) const {
    return int(std::min<int64_t>(kernels->panel_blocks, oc_blocks() - panel * kernels->panel_blocks));
  }
  size_t weight_floats() const { return size_t(points()) * size_t(ic_blocks() * oc_blocks()) * kLanes * kLanes; }
  // Where a panel begins within the weights.
  int64_t panel_offset(int64_t panel) const {
    return panel * kernels->panel_blocks * kLanes * points() * ic_blocks() * kLanes;
  }
  int64_t v_point(int64_t tiles) const { return point_distance(ic_blocks() * tiles); }
  int64_t v_floats(int64_t tiles) const { return v_point(tiles) * points(); }
  int64_t m_point(int64_t tiles) const { return point_distance(kernels->panel_blocks * tiles); }
  int64_t m_floats(int64_t tiles) const { return m_point(tiles) * points(); }
};

// ---- weights ----

// One filter in the domain of the transform: G g G^T, in double.
void transform_filter(int m, const float* g, double* out) {
  // Row p of G is (1, p, p^2) / product of (p - q) over the other points; the last row picks the last coefficient.
  static const double g4[6][3] = {
      {1 / (0.390625 * 2.25), 0, 0},
      {1 / (2 * 0.390625 * (0.390625 - 2.25)), 0.625 / (2 * 0.390625 * (0.390625 - 2.25)),
       0.390625 / (2 * 0.390625 * (0.390625 - 2.25))},
      {1 / (2 * 0.390625 * (0.390625 - 2.25)), -0.625 / (2 * 0.390625 * (0.390625 - 2.25)),
       0.390625 / (2 * 0.390625 * (0.390625 - 2.25))},
      {1 / (2 * 2.25 * (2.25 - 0.390625)), 1.5 / (2 * 2.25 * (2.25 - 0.390625)), 2.25 / (2 * 2.25 * (2.25 - 0.390625))},
      {1 / (2 * 2.25 * (2.25 - 0.390625)), -1.5 / (2 * 2.25 * (2.25 - 0.390625)),
       2.25 / (2 * 2.25 * (2.25 - 0.390625))},
      {0, 0, 1}};
  static const double g2[4][3] = {{-1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};
  const auto* rows = m == 4 ? g4 : g2;
  const int n = m + kFilter - 1;
  double half[6][3];  // G g
  for (int i = 0; i < n; ++i)
    for (int c = 0; c < kFilter; ++c)
      half[i][c] = rows[i][0] * double(g[c]) + rows[i][1] * double(g[3 + c]) + rows[i][2] * double(g[6 + c]);
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j)
      out[i * n + j] = half[i][0] * rows[j][0] + half[i][1] * rows[j][1] + half[i][2] * rows[j][2];
}

// From (oc, ic, 3, 3) to u[panel][point][ic][lane].
void pack_weights(const Geometry& geometry, const float* weights, float* u) {
  const int points = geometry.points();
  const int64_t channels = geometry.ic_blocks() * kLanes;
  parallel_for(geometry.oc_blocks(), double(channels * kLanes * points) * 5, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t panel = block / geometry.kernels->panel_blocks;
      const int64_t lanes = int64_t(geometry.panel_blocks(panel)) * kLanes;
      float* first = u + geometry.panel_offset(panel) + block % geometry.kernels->panel_blocks * kLanes;
      for (int64_t i = 0; i < channels; ++i)
        for (int lane = 0; lane < kLanes; ++lane) {
          const int64_t o = block * kLanes + lane;
          double transformed[36] = {};
          if (i < geometry.ic && o < geometry.oc)
            transform_filter(geometry.m, weights + (o * geometry.ic + i) * kFilter * kFilter, transformed);
          for (int point = 0; point < points; ++point)
            first[(point * channels + i) * lanes + lane] = float(transformed[point]);
        }
    }
  });
}

// ---- the run ----

// How the work is cut; fixed when the candidate is listed, as the workspace depends on it.
struct Cut {
  bool by_channels = false;
  int64_t most_tiles = 1;  // in a block
  int threads = 1;         // at most
};

class Body {
 public:
  Body(const Geometry& geometry, const Cut& cut)
      : g_(geometry), cut_(cut), zeros_(size_t(geometry.oc_blocks() * kLanes)) {
    source_.h = g_.h, source_.w = g_.w;
    source_.blocks = int(g_.ic_blocks());
    target_.h = g_.oh, target_.w = g_.ow;
    target_.relu = g_.relu;
    if (!g_.relu) target_.activation = g_.activation.floats;
    target_.alpha = g_.activation.alpha, target_.beta = g_.activation.beta;
    target_.pad = g_.y.layout.is_blocked();
    const auto strides = [](const TensorDesc& desc, auto& image, int64_t& step) {
      const bool blocked = desc.layout.is_blocked();
      image.row = desc.strides[2], image.column = desc.strides[3];
      image.block = blocked ? desc.strides[1] : kLanes;
      step = desc.strides[0];
    };
    strides(g_.x, source_, x_image_);
    strides(g_.y, target_, y_image_);
    const auto lanes = [](int64_t channels) { return int((channels - 1) % kLanes + 1); };
    source_.last_lanes = g_.x.layout.is_blocked() ? kLanes : lanes(g_.ic);
    last_lanes_ = lanes(g_.oc);
  }

  static size_t workspace_floats(const Geometry& g, const Cut& cut) {
    return size_t(cut.by_channels ? g.v_floats(cut.most_tiles) + cut.threads * g.m_floats(cut.most_tiles)
                                  : cut.threads * (g.v_floats(cut.most_tiles) + g.m_floats(cut.most_tiles)));
  }

  void operator()(const KernelArguments& arguments) const {
    Call call;
    call.x = static_cast<const float*>(input(arguments, 0));
    call.u = static_cast<const float*>(input(arguments, 1));
    call.bias = g_.bias ? static_cast<const float*>(input(arguments, 2)) : zeros_.data();
    call.residual = g_.residual ? static_cast<const float*>(input(arguments, 3)) : nullptr;
    call.y = static_cast<float*>(output(arguments));
    call.workspace = static_cast<float*>(arguments.workspace->host());
    // A core does about 100 multiplications a nanosecond.
    const double nanoseconds = double(g_.tiles() * g_.points()) * double(g_.ic * g_.oc) / 100;
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
  };

  void run_by_tiles(const Call& call, int threads) const {
    const int64_t tiles = g_.tiles();
    int64_t blocks = divide_up(tiles, cut_.most_tiles);
    blocks = std::min(divide_up(blocks, threads) * threads, tiles);  // as many for each thread
    threads = int(std::min<int64_t>(threads, blocks));
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
      const int64_t team = omp_get_num_threads(), rank = omp_get_thread_num();
      float* v = call.workspace + rank * (g_.v_floats(cut_.most_tiles) + g_.m_floats(cut_.most_tiles));
      float* products = v + g_.v_floats(cut_.most_tiles);
      for (int64_t block = blocks * rank / team; block < blocks * (rank + 1) / team; ++block) {
        const int64_t first = tiles * block / blocks, count = tiles * (block + 1) / blocks - first;
        transform(call, first, 0, count, count, v);
        for (int64_t panel = 0; panel < g_.panels(); ++panel)
          multiply(call, panel, first, 0, count, count, v, products);
      }
    }
  }

  void run_by_channels(const Call& call, int threads) const {
    const int64_t tiles = g_.tiles(), panels = g_.panels();
    const int64_t blocks = divide_up(tiles, cut_.most_tiles);
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
      const int64_t team = omp_get_num_threads(), rank = omp_get_thread_num();
      float* v = call.workspace;
      float* products = v + g_.v_floats(cut_.most_tiles) + rank * g_.m_floats(cut_.most_tiles);
      for (int64_t block = 0; block < blocks; ++block) {
        const int64_t first = tiles * block / blocks, count = tiles * (block + 1) / blocks - first;
        transform(call, first, count * rank / team, count * (rank + 1) / team, count, v);
#pragma omp barrier
        // Items are parts of panels, those of one panel side by side; as many parts as it takes to occupy all.
        int64_t parts = 1;
        while (panels * parts % team != 0 && panels * parts < 4 * team && parts * 8 < count) ++parts;
        const int64_t items = panels * parts;
        for (int64_t item = items * rank / team; item < items * (rank + 1) / team; ++item) {
          const int64_t part = item % parts;
          multiply(call, item / parts, first, count * part / parts, count * (part + 1) / parts, count, v, products);
        }
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
    return {tile / (across * down), int(tile / across % down) * g_.m, int(tile % across) * g_.m};
  }

  // Windows of the tiles first + [begin, end) of a block of `count` tiles.
  void transform(const Call& call, int64_t first, int64_t begin, int64_t end, int64_t count, float* v) const {
    const auto input = g_.m == 4 ? g_.kernels->input4 : g_.kernels->input2;
    WinogradSource source = source_;
    for (int64_t tile = begin; tile < end;) {
      const Place at = place(first + tile);
      const int run = int(std::min<int64_t>(end - tile, g_.tiles_w() - at.x / g_.m));  // to the end of the row
      source.x = call.x + at.image * x_image_;
      input(source, at.y - g_.pad_top, at.x - g_.pad_left, run, v + tile * kLanes, g_.v_point(count), count * kLanes);
      tile += run;
    }
  }

  // One panel of output channels of the tiles first + [begin, end) of a block of `count` tiles.
  void multiply(const Call& call, int64_t panel, int64_t first, int64_t begin, int64_t end, int64_t count,
                const float* v, float* products) const {
    const int panel_blocks = g_.panel_blocks(panel), rows = int(end - begin);
    const int64_t lanes = int64_t(panel_blocks) * kLanes, ic_blocks = g_.ic_blocks();
    const int64_t v_point = g_.v_point(count), v_block = count * kLanes, m_point = g_.m_point(rows);
    const float* u = call.u + g_.panel_offset(panel);
    for (int point = 0; point < g_.points(); ++point) {
      for (int64_t block = 0; block < ic_blocks; block += kMostBlocks) {
        const int blocks = int(std::min<int64_t>(kMostBlocks, ic_blocks - block));
        g_.kernels->multiply(v + point * v_point + block * v_block + begin * kLanes, v_block, u,
                             products + point * m_point, rows, blocks, panel_blocks, block > 0);
        u += blocks * kLanes * lanes;
      }
    }
    const auto output = g_.m == 4 ? g_.kernels->output4 : g_.kernels->output2;
    WinogradTarget target = target_;
    const int64_t first_block = panel * g_.kernels->panel_blocks;
    target.blocks = panel_blocks;
    target.last_lanes = first_block + panel_blocks == g_.oc_blocks() ? last_lanes_ : kLanes;
    target.bias = call.bias + first_block * kLanes;
    for (int64_t tile = begin; tile < end; ++tile) {
      const Place at = place(first + tile);
      const int64_t offset = at.image * y_image_ + first_block * target.block;
      target.y = call.y + offset;
      target.residual = call.residual ? call.residual + offset : nullptr;
      output(target, at.y, at.x, products + (tile - begin) * lanes, m_point);
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
  if (x.rank() != 4 || weight.shape[2] != kFilter || weight.shape[3] != kFilter) return;  // of no interest here
  std::string reason;
  const Window rows = window_of(op, 0), columns = window_of(op, 1);
  const int64_t groups = op.attributes.integer("groups");
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
  else if (x.shape[1] < kLanes || weight.shape[0] < kLanes)
    reason = concat("x.c is ", x.shape[1], " and weight.oc is ", weight.shape[0], ", expected at least ", kLanes,
                    ": with fewer channels the transforms cost more than they save");
  if (!reason.empty()) {
    out.refuse("host", op.schema->name + ": Winograd: " + reason);
    return;
  }
  for (const Layout& layout : {Layout::channels_last(4), Layout::channels_blocked(4, kLanes)}) {
    for (int m : {4, 2}) {
      Geometry g{};
      g.kernels = &kernels;
      g.m = m;
      g.images = x.shape[0], g.ic = x.shape[1], g.oc = weight.shape[0];
      g.h = int(rows.in), g.w = int(columns.in), g.oh = int(rows.out), g.ow = int(columns.out);
      g.pad_top = int(rows.begin), g.pad_left = int(columns.begin);
      g.x = x.with_layout(layout), g.y = op.out().with_layout(layout);
      g.bias = op.has(2), g.residual = op.has(3);
      g.activation = Activation::of(op);
      g.relu = !op.attributes.is_none("activation") && op.attributes.text("activation") == "relu";
      if (g.tiles() == 0 || x.elements() == 0) continue;
      Cut cut;
      cut.by_channels = g.weight_floats() * sizeof(float) >= kSharedWeights;
      cut.most_tiles = std::min<int64_t>(g.tiles(), cut.by_channels ? kSharedTiles : kOwnTiles);
      cut.threads = available_processors();
      Candidate candidate;
      candidate.provider = "host";
      candidate.implementation = concat("winograd_f", m, ":", kernels.isa);
      for (size_t i = 0; i < op.inputs.size(); ++i)
        candidate.inputs.push_back(i == 0 || i == 3 ? dense_as(op.inputs[i], layout) : dense_plain(op.inputs[i]));
      candidate.outputs = {g.y};
      candidate.workspace_bytes = Body::workspace_floats(g, cut) * sizeof(float);
      candidate.efficiency = 1;
      // The panels' width decides the order of the weights.
      const std::string form = concat("winograd_f", m, ":", kernels.panel_blocks * kLanes);
      candidate.packings.push_back({1, form, g.weight_floats() * sizeof(float), [g](Buffer& source, Buffer& packed) {
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
