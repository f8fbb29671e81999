// Winograd's minimal filtering for 3x3 convolutions of stride 1, F(4x4, 3x3): 4 x 4 outputs from a window of 6 x 6
// inputs, with 36 multiplications for each pair of channels in place of 144:
//     Y = A^T [ sum over channels (G g G^T) * (B^T d B) ] A
// with d a window of x, g a filter, * elementwise.  For each of the 36 points of the transformed domain the sum over
// channels is a matrix product, tiles x channels times channels x output channels.
// Source: A. Lavin, S. Gray, Fast Algorithms for Convolutional Neural Networks, arXiv 1509.09308.
//
// B^T, G and A^T follow from a choice of five points to interpolate at (and infinity), which decides the rounding
// error. Here they are 0, +-5/8 and +-3/2, whose error is less than half of that of the usual 0, +-1, +-2; both are
// dyadic, so that the constants of B^T and A^T are exact in f32.  See winograd.cpp for the error itself.
//
// Three kinds of memory (floats; lanes are 16 channels, those beyond the last channel hold zero):
//     weights  u[panel][point][ic][lane of the panel]    a panel is some blocks of 16 output channels
//     input    v[point][ic / 16][tile][16]
//     product  m[point][tile][lane of the panel]
// The distance between points is padded to an odd number of 64-byte lines: the 36 values of a tile would otherwise
// fall into the same set of the first-level cache.
#pragma once

#include <cstdint>

namespace pl {
struct Op;
struct TensorDesc;
class CandidateList;
}  // namespace pl

namespace pl::host {

constexpr int kFilter = 3, kTile = 4, kWindow = kTile + kFilter - 1, kPoints = kWindow * kWindow;
constexpr int kLanes = 16;  // channels that are handled together, whatever the width of the vectors

constexpr int kFewRows = 4;  // tiles of WinogradKernels::few

constexpr int64_t kMostPixels = 1 << 30;  // along an axis of x
constexpr int kFewChannels = kLanes / 2;  // with fewer the transforms cost more than they save

inline int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
// Floats from one point to the next, for so many lines of 16 floats.
inline int64_t point_distance(int64_t lines) { return (lines | 1) * kLanes; }

// One image of x in NHWC or nChw16c, in floats.
struct WinogradSource {
  const float* x = nullptr;
  int64_t row = 0, column = 0, block = 0;  // distances of neighbours in h, in w, and of blocks of 16 channels
  int h = 0, w = 0;
  int blocks = 0;           // of 16 channels
  int last_lanes = kLanes;  // that may be read in the last block
};
WinogradSource source_of(const TensorDesc& images);  // without an address

// One image of y, and of the residual where there is one.
struct WinogradTarget {
  float* y = nullptr;
  const float* residual = nullptr;
  const float* bias = nullptr;  // for the first channel written; as many as lanes are written
  int64_t row = 0, column = 0, block = 0;
  int h = 0, w = 0;
  int blocks = 0;           // of 16 channels, from the one that y points at
  int last_lanes = kLanes;  // that hold channels in the last block
  bool pad = false;         // the other lanes of the last block exist, and are to be zero
  bool relu = false;
  // Any other activation, in place; null: none.
  void (*activation)(const float* x, float* y, int64_t n, double alpha, double beta) = nullptr;
  double alpha = 0, beta = 0;
};

// The inner loops for one instruction set.
struct WinogradKernels {
  const char* isa;
  int panel_blocks;  // blocks of 16 output channels in a panel of weights, at most

  // Transforms the windows of tiles that lie side by side, for all blocks of channels.  The first window begins at (y0,
  // x0) of the image, perhaps outside it.  v[point * v_point + block * v_block + tile * 16 + lane].
  using Input = void (*)(const WinogradSource& source, int y0, int x0, int tiles, float* v, int64_t v_point,
                         int64_t v_block);
  // Transforms the filters g[ic][3 * 3][lane] of some input channels of a panel: u[point * u_point + ic * lanes +
  // lane].
  using Filter = void (*)(const float* g, float* u, int64_t u_point, int channels, int panel);
  // m[tile][lane] (+)= sum over channels of v[block][tile][16] u[channel][lane], for `blocks` blocks of channels;
  // `panel` is the number of blocks of the panel.  Meanwhile it brings `next` into the second-level cache: as many
  // lines as the panel has blocks for each channel, `stride` floats further for each: what will be needed next from far
  // away.
  using Multiply = void (*)(const float* v, int64_t v_block, const float* u, float* m, int tiles, int blocks, int panel,
                            bool accumulate, const float* next, int stride);
  // Filter and Multiply in one, for all blocks of input channels and at most kFewRows tiles; a panel of one or two
  // blocks. m[point * m_point + tile * lanes + lane] = ...
  using Few = void (*)(const float* v, int64_t v_point, int64_t v_block, const float* g, float* m, int64_t m_point,
                       int tiles, int blocks, int panel);
  // Transforms back one tile, whose outputs begin at (y0, x0), and finishes it: bias, residual, activation.
  using Output = void (*)(const WinogradTarget& target, int y0, int x0, const float* m, int64_t m_point);
  // Of the gradient by the weights (conv_backward_weights_winograd.cpp).
  // sums[channel][lane] (+)= sum over tiles of v[tile][16] g[block][tile][16], for the 16 channels of a block of x and
  // the lanes of a panel of the gradient.
  using Gather = void (*)(const float* v, const float* g, int64_t g_block, float* sums, int tiles, int panel,
                          bool accumulate);
  // Transforms sums back for some channels of x: weights[channel][3 * 3][lane].
  using Weights = void (*)(const float* sums, int64_t sums_point, float* weights, int channels, int lanes);

  Input input;
  Filter filter;
  Multiply multiply;
  Few few;
  Output output;
  Input gradient;  // transforms tiles of a gradient, which begin at (y0, x0), in the place of windows
  Gather gather;
  Weights weights;
};

// Those that this processor can run, the best one first.
struct WinogradIsas {
  const WinogradKernels* list[3];
  int count;
};
const WinogradIsas& winograd_isas();

// Adds the candidates for a convolution, or a refusal where it is one of 3x3 that does not qualify.
void list_winograd(const Op& op, const WinogradKernels& kernels, CandidateList& out);
// The same of the kind `conv_backward_weights`.
void list_winograd_weights(const Op& op, const WinogradKernels& kernels, CandidateList& out);

// Defined in winograd_<isa>.cpp; null where the processor or the compiler lacks the instruction set.
const WinogradKernels* winograd_avx512();
const WinogradKernels* winograd_avx2();
const WinogradKernels* winograd_generic();

}  // namespace pl::host
