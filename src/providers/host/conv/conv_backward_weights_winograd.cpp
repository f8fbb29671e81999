// Candidates of kind conv_backward_weights by Winograd's algorithm: the gradient of a 3x3 convolution of stride 1 by
// its weights.
//
// A tile of 4 x 4 outputs y is A^T [(G g G^T) * (B^T d B)] A (winograd.h).  The same three matrices, each in another
// place, give what the tile adds to the gradient by the filter g, where y now holds the gradient by the outputs:
//     G^T [ sum over tiles (A y A^T) * (B^T d B) ] G
// For each of the 36 points the sum over tiles is a product of matrices, channels of x times tiles times channels of y:
// a quarter of the multiplications of the definition.
//
// A block of tiles of x and y is transformed by all threads together.  Then each takes pieces of the sums, some
// channels of x by a panel of y's, for all points, and after the last block it transforms them back.  Where there is
// one block, a piece's sums stay in the second-level cache.  All is summed in the same order whatever the number of
// threads.
//
// Error, relative to the L2 norm of the result, for normally distributed data: 0.5e-6 to 1.5e-6
// (tests/c/test_winograd.cpp).  A NaN or an infinity in x or y reaches every weight of its channel.
#include <algorithm>

#include "core/threads.h"
#include "ops/spatial.h"
#include "providers/host/common/host.h"
#include "providers/host/conv/winograd.h"
#include "providers/host/reorder/transpose.h"

namespace pl::host {
namespace {

constexpr double kReached = 0.6;  // of the device's rate
constexpr int64_t kTiles = 64;    // in a block; with 64 channels a piece reads 0.6 MB of gradients, within L2
constexpr int64_t kBlocks = 2;    // of channels of x, in a piece of the sums: 295 KB with a panel of 64 lanes
constexpr int kTaps = kFilter * kFilter;

// Images of x or of the gradient.
struct Images {
  WinogradSource source;  // without an address
  int64_t step = 0;       // from one image to the next
  int64_t v_block = 0, v_point = 0;

  Images() = default;
  Images(const TensorDesc& desc, int64_t tiles) : source(source_of(desc)), step(desc.strides[0]) {
    v_block = point_distance(tiles);
    v_point = point_distance(source.blocks * v_block / kLanes);
  }
  int64_t v_floats() const { return v_point * kPoints; }
};

class WinogradWeightsBody {
 public:
  WinogradWeightsBody(const Op& op, const WinogradKernels& kernels, const TensorDesc& x, const TensorDesc& gradient)
      : kernels_(kernels), ic_(x.shape[1]), oc_(gradient.shape[1]), images_(x.shape[0]) {
    pad_top_ = int(op.attributes[attr::padding][0]), pad_left_ = int(op.attributes[attr::padding][1]);
    down_ = divide_up(gradient.shape[2], kTile), across_ = divide_up(gradient.shape[3], kTile);
    most_tiles_ = std::min(tiles(), kTiles);
    x_ = Images(x, most_tiles_), gradient_ = Images(gradient, most_tiles_);
    lanes_ = int64_t(kernels.panel_blocks) * kLanes;
    sums_point_ = point_distance(kBlocks * lanes_);
  }

  size_t workspace_bytes() const {
    const int64_t sums = blocks() > 1 ? pieces() : threads();
    const int64_t own = kBlocks * kLanes * kTaps * lanes_;  // weights of a piece
    return size_t(x_.v_floats() + gradient_.v_floats() + sums * sums_point_ * kPoints + threads() * own) *
           sizeof(float);
  }
  double flops() const {
    return 2.0 * kPoints * double(tiles()) * double(x_.source.blocks) * double(gradient_.source.blocks) * kLanes *
           kLanes;
  }

  void operator()(const KernelArguments& arguments) const {
    const auto* x = static_cast<const float*>(input(arguments, 0));
    const auto* gradient = static_cast<const float*>(input(arguments, 1));
    auto* weights = static_cast<float*>(output(arguments));
    auto* v = static_cast<float*>(arguments.workspace->host());
    float* g = v + x_.v_floats();
    float* sums = g + gradient_.v_floats();
    const int64_t of_piece = sums_point_ * kPoints;
    float* made = sums + (blocks() > 1 ? pieces() : threads()) * of_piece;
    const int threads = std::min(threads_for(flops() / 200), this->threads());  // a core does 200 in a nanosecond
#pragma omp parallel if (threads > 1)  // of the whole pool, as in_team says; its barriers need all threads
    {
      const int64_t team = std::min(threads, omp_get_num_threads()), rank = omp_get_thread_num();
      const bool takes_part = rank < team;
      for (int64_t block = 0; block < blocks(); ++block) {
        const int64_t first = tiles() * block / blocks(), count = tiles() * (block + 1) / blocks() - first;
        if (takes_part) {
          const int64_t begin = first + count * rank / team, end = first + count * (rank + 1) / team;
          transform(x_, kernels_.input, x, pad_top_, pad_left_, begin, end, v + (begin - first) * kLanes);
          transform(gradient_, kernels_.gradient, gradient, 0, 0, begin, end, g + (begin - first) * kLanes);
        }
#pragma omp barrier
        const int64_t items = takes_part ? pieces() : 0;
        for (int64_t piece = items * rank / team; piece < items * (rank + 1) / team; ++piece) {
          float* own = sums + (blocks() > 1 ? piece : rank) * of_piece;
          add(piece, v, g, own, int(count), block > 0);
          if (block + 1 == blocks()) finish(piece, own, made + rank * kBlocks * kLanes * kTaps * lanes_, weights);
        }
        if (block + 1 == blocks()) break;  // the last wait is the parallel region's own
#pragma omp barrier
      }
    }
  }

 private:
  int64_t tiles() const { return images_ * down_ * across_; }
  int64_t blocks() const { return divide_up(tiles(), most_tiles_); }
  int64_t panels() const { return divide_up(gradient_.source.blocks, kernels_.panel_blocks); }
  int64_t groups() const { return divide_up(x_.source.blocks, kBlocks); }  // of blocks of x
  int64_t pieces() const { return panels() * groups(); }
  int threads() const { return int(std::min<int64_t>(available_processors(), pieces())); }

  // Tiles [begin, end), counted through all images; `to` is where the first one goes.
  void transform(const Images& images, WinogradKernels::Input kernel, const float* from, int pad_top, int pad_left,
                 int64_t begin, int64_t end, float* to) const {
    WinogradSource source = images.source;
    for (int64_t tile = begin; tile < end;) {
      const int64_t image = tile / (across_ * down_), column = tile % across_;
      const int y = int(tile / across_ % down_) * kTile, run = int(std::min(end - tile, across_ - column));
      source.x = from + image * images.step;
      kernel(source, y - pad_top, int(column) * kTile - pad_left, run, to + (tile - begin) * kLanes, images.v_point,
             images.v_block);
      tile += run;
    }
  }

  int panel_blocks(int64_t panel) const {
    return int(std::min<int64_t>(kernels_.panel_blocks, gradient_.source.blocks - panel * kernels_.panel_blocks));
  }

  void add(int64_t piece, const float* v, const float* g, float* sums, int count, bool accumulate) const {
    const int64_t panel = piece / groups(), group = piece % groups();
    const int64_t first = group * kBlocks, end = std::min<int64_t>(first + kBlocks, x_.source.blocks);
    const int in_panel = panel_blocks(panel);
    for (int point = 0; point < kPoints; ++point)
      for (int64_t block = first; block < end; ++block)
        kernels_.gather(v + point * x_.v_point + block * x_.v_block,
                        g + point * gradient_.v_point + panel * kernels_.panel_blocks * gradient_.v_block,
                        gradient_.v_block, sums + point * sums_point_ + (block - first) * kLanes * in_panel * kLanes,
                        count, in_panel, accumulate);
  }

  void finish(int64_t piece, const float* sums, float* made, float* weights) const {
    const int64_t panel = piece / groups(), from = piece % groups() * kBlocks * kLanes;
    const int64_t channels = std::min<int64_t>(kBlocks * kLanes, ic_ - from), lanes = panel_blocks(panel) * kLanes;
    const int64_t first = panel * lanes_, exist = std::min<int64_t>(lanes, oc_ - first);
    kernels_.weights(sums, sums_point_, made, int(channels), int(lanes));
    transposer(sizeof(float))(made, lanes, weights + (first * ic_ + from) * kTaps, ic_ * kTaps, channels * kTaps,
                              exist);
  }

  WinogradKernels kernels_;
  int64_t ic_, oc_, images_;
  int pad_top_ = 0, pad_left_ = 0;
  int64_t down_ = 0, across_ = 0;  // tiles of an image
  int64_t most_tiles_ = 1;         // in a block
  int64_t lanes_ = 0;              // of a panel
  int64_t sums_point_ = 0;
  Images x_, gradient_;
};

}  // namespace

void list_winograd_weights(const Op& op, const WinogradKernels& kernels, CandidateList& out) {
  const TensorDesc &x = op.in(0), &gradient = op.in(1), &weights = op.out();
  if (op.attributes[attr::spatial] != 2 || weights.shape[2] != kFilter || weights.shape[3] != kFilter) return;
  const auto all_one = [&](const Key<Ints>& key) {
    const Ints values = op.attributes[key];
    return std::all_of(values.begin(), values.end(), [](int64_t value) { return value == 1; });
  };
  if (x.dtype != DType::f32 || gradient.dtype != DType::f32 || weights.dtype != DType::f32) return;
  if (!all_one(attr::stride) || !all_one(attr::dilation) || op.attributes[attr::groups] != 1) return;
  if (x.shape[1] < kFewChannels || gradient.shape[1] < kFewChannels) return;
  if (std::max({x.shape[2], x.shape[3], gradient.shape[2], gradient.shape[3]}) > kMostPixels) return;
  if (x.elements() == 0 || gradient.elements() == 0) return;
  for (const Layout& layout : {Layout::channels_last(4), Layout::channels_blocked(4, kLanes)}) {
    const TensorDesc from = strided_view_as(x, layout), given = strided_view_as(gradient, layout);
    const WinogradWeightsBody body(op, kernels, from, given);
    Candidate candidate;
    candidate.provider = "host";
    candidate.implementation = concat("winograd:", kernels.isa);
    candidate.inputs = {from, given};
    candidate.outputs = {dense_plain(weights)};
    candidate.workspace_bytes = body.workspace_bytes();
    candidate.flops = body.flops();
    candidate.efficiency = kReached;
    candidate.prepare = [body]() -> std::unique_ptr<Kernel> {
      return std::make_unique<BodyKernel<WinogradWeightsBody>>(body);
    };
    out.add(std::move(candidate));
  }
}

}  // namespace pl::host
