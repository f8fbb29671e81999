// Kind quantized_conv by Winograd's F(2x2, 3x3), on integers: 3x3, stride 1, one group, channels last.
//
// With G' = 2 G everything is an integer: windows of 4 x 4 values of at most 255 become at most 1020, filters of at
// most 128 at most 1152, both within 16 bits, and the result is four times the sum of the
// definition.  Sums wrap around at 32 bits, which does no harm where four times the result does not; channels are
// limited to that.  So results are those of the definition, bit by bit, with 16 products where that has 36.
#include <cstring>

#include "core/threads.h"
#include "ops/post_ops.h"
#include "providers/host/common/independent.h"
#include "providers/host/conv/conv_candidates.h"
#include "providers/host/quantized/integer_products.h"

namespace pl::host {
namespace {

constexpr int64_t kElements = 16;  // of a transformed window
// Of the transformed windows of a block: within second-level caches, and fewer tiles than this use each weight too
// seldom.
constexpr int64_t kWindowBytes = 192 << 10, kFewWindows = 18;
// As in integer_products.cpp; transforms count as part of the products.
constexpr double kTilesOfNanosecond = 60, kTilesReached = 0.66, kTileTerms = 14;

// y[i] of a window, i = 4 * row + column, for each channel: B^T (x - zero) B.
template <class T>
PL_INLINE void transform_channels(const void* const (&x)[16], int16_t zero, int16_t* y, int64_t step,
                                  int64_t channels) {
  PL_INDEPENDENT
  for (int64_t c = 0; c < channels; ++c) {
    int16_t d[16], e[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) d[i] = int16_t(static_cast<const T*>(x[i])[c] - zero);
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      e[j] = int16_t(d[j] - d[8 + j]);
      e[4 + j] = int16_t(d[4 + j] + d[8 + j]);
      e[8 + j] = int16_t(d[8 + j] - d[4 + j]);
      e[12 + j] = int16_t(d[4 + j] - d[12 + j]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4) {
      y[(i + 0) * step + c] = int16_t(e[i] - e[i + 2]);
      y[(i + 1) * step + c] = int16_t(e[i + 1] + e[i + 2]);
      y[(i + 2) * step + c] = int16_t(e[i + 2] - e[i + 1]);
      y[(i + 3) * step + c] = int16_t(e[i + 1] - e[i + 3]);
    }
  }
}
PL_VECTORISED void transform_unsigned(const void* const (&x)[16], int16_t zero, int16_t* y, int64_t step,
                                      int64_t channels) {
  transform_channels<uint8_t>(x, zero, y, step, channels);
}
PL_VECTORISED void transform_signed(const void* const (&x)[16], int16_t zero, int16_t* y, int64_t step,
                                    int64_t channels) {
  transform_channels<int8_t>(x, zero, y, step, channels);
}

// Filters (oc, ic, 3, 3), transformed: for each two vectors of outputs 16 matrices as WideProduct takes them, one
// behind the other, as they are read.
struct IntegerFilters {
  int64_t outputs = 0, inputs = 0, vectors = 0, width = 0, depth = 0;

  size_t bytes() const { return size_t(kElements * vectors * width * depth) * sizeof(int16_t); }
  int64_t end_of_pair(int64_t first_vector) const { return std::min(vectors, first_vector + 2); }
  // Of matrix i of the vectors [first_vector, end_of_pair(first_vector)).
  int64_t begin_of(int64_t first_vector, int64_t i) const {
    return (first_vector * kElements + (end_of_pair(first_vector) - first_vector) * i) * width * depth;
  }
  void operator()(const void* from, void* packed) const {
    int16_t* to = static_cast<int16_t*>(packed);
    std::memset(to, 0, bytes());
    parallel_for(outputs, double(inputs) * 30, [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o)
        for (int64_t i = 0; i < inputs; ++i) {
          int g[3][3], rows[4][3];
          for (int k = 0; k < 9; ++k) {
            const int64_t at = (o * inputs + i) * 9 + k;
            g[k / 3][k % 3] = static_cast<const int8_t*>(from)[at];
          }
          for (int k = 0; k < 3; ++k) {
            rows[0][k] = 2 * g[0][k];
            rows[1][k] = g[0][k] + g[1][k] + g[2][k];
            rows[2][k] = g[0][k] - g[1][k] + g[2][k];
            rows[3][k] = 2 * g[2][k];
          }
          const int64_t pair = o / width / 2 * 2, lanes = (end_of_pair(pair) - pair) * width;
          int16_t* base = to + begin_of(pair, 0) + i / 2 * 2 * lanes + (o - pair * width) * 2 + i % 2;
          const int64_t matrix = begin_of(pair, 1) - begin_of(pair, 0);
          for (int r = 0; r < 4; ++r) {
            const int* k = rows[r];
            base[(4 * r + 0) * matrix] = int16_t(2 * k[0]);
            base[(4 * r + 1) * matrix] = int16_t(k[0] + k[1] + k[2]);
            base[(4 * r + 2) * matrix] = int16_t(k[0] - k[1] + k[2]);
            base[(4 * r + 3) * matrix] = int16_t(2 * k[2]);
          }
        }
    });
  }
};

struct IntegerWinogradBody {
  IntegerWinogradBody(const IntegerKernels& chosen, IntegerEnding finished)
      : kernels(&chosen), ending(std::move(finished)) {}

  const IntegerKernels* kernels;
  IntegerEnding ending;
  bool signed_x = false;
  int64_t images = 1, channels = 1, outputs = 1;
  Window rows, columns;
  int64_t depth = 1, vectors = 1;
  int64_t blocks = 1, parts = 1;
  double products = 0;
  std::vector<int32_t> offsets;

  IntegerFilters filters() const { return {outputs, channels, vectors, kernels->width, depth}; }
  int64_t tiles_down() const { return divided_up(rows.out, 2); }
  int64_t tiles_across() const { return divided_up(columns.out, 2); }
  int64_t tiles() const { return images * tiles_down() * tiles_across(); }
  int64_t block_tiles() const { return divided_up(tiles(), blocks); }
  int64_t pitch() const { return 2 * kernels->width; }
  static size_t whole_lines(int64_t bytes) { return size_t(bytes + 63) / 64 * 64; }
  size_t window_bytes() const { return whole_lines(kElements * block_tiles() * depth * int64_t(sizeof(int16_t))); }
  size_t product_bytes() const { return whole_lines(kElements * block_tiles() * pitch() * int64_t(sizeof(int32_t))); }
  size_t place_bytes() const { return whole_lines(block_tiles() * int64_t(sizeof(IntegerTiles::Place))); }
  size_t thread_bytes() const { return window_bytes() + product_bytes() + place_bytes() + whole_lines(channels); }
  int threads() const { return int(std::min<int64_t>(blocks * parts, available_processors())); }
  size_t workspace_bytes() const { return ending.workspace_bytes() + size_t(threads()) * thread_bytes(); }

  void divide() {
    const int64_t processors = available_processors(), pairs = divided_up(vectors, 2);
    const int64_t fit = std::max(kWindowBytes / (kElements * depth * int64_t(sizeof(int16_t))), kFewWindows);
    blocks = divided_up(tiles(), fit);
    if (blocks % processors != 0) {
      const int64_t even = divided_up(blocks, processors) * processors;
      if (tiles() / even >= kFewWindows / 2)
        blocks = even;
      else if (blocks < processors)
        parts = std::min(pairs, divided_up(processors, blocks));
    }
    for (int64_t t = 0; t < block_tiles(); ++t) offsets.push_back(int32_t(t * depth));
  }

  // Transforms the windows of tiles [first, last), and says where their results lie.
  void transform(const char* x, int32_t zero, int64_t first, int64_t last, const char* zeros, int16_t* to,
                 IntegerTiles::Place* places) const {
    for (int64_t tile = first; tile < last; ++tile, to += depth) {
      const int64_t across = tile % tiles_across(), line = tile / tiles_across();
      const int64_t down = line % tiles_down(), image = line / tiles_down();
      const int64_t row = 2 * down - rows.begin, column = 2 * across - columns.begin;
      const void* windows[16];
      for (int64_t i = 0; i < 4; ++i)
        for (int64_t j = 0; j < 4; ++j) {
          const int64_t h = row + i, w = column + j;
          const bool inside = h >= 0 && h < rows.in && w >= 0 && w < columns.in;
          windows[i * 4 + j] = inside ? x + ((image * rows.in + h) * columns.in + w) * channels : zeros;
        }
      const int64_t step = (last - first) * depth;
      (signed_x ? transform_signed : transform_unsigned)(windows, int16_t(zero), to, step, channels);
      if (channels < depth)
        for (int64_t i = 0; i < kElements; ++i) to[i * step + channels] = 0;
      *places++ = {(image * rows.out + 2 * down) * columns.out + 2 * across,
                   int(std::min<int64_t>(2, rows.out - 2 * down)), int(std::min<int64_t>(2, columns.out - 2 * across))};
    }
  }

  void operator()(const KernelArguments& arguments) const {
    char* workspace = static_cast<char*>(arguments.workspace->host());
    const char* x = static_cast<const char*>(input(arguments, 0));
    const int16_t* weights = static_cast<const int16_t*>(input(arguments, 1));
    const IntegerResult whole = ending.bind(arguments, workspace);
    const int32_t zero = ending.x_zero(arguments);
    workspace += ending.workspace_bytes();
    const int64_t items = blocks * parts, pairs = divided_up(vectors, 2);
    const IntegerFilters packed = filters();
    const int team_size = std::min(threads_for(products / kTilesOfNanosecond, kAwakeNanoseconds), threads());
    in_shares(team_size, items, [&](int64_t rank, Shares::Taker take) {
      char* own = workspace + size_t(rank) * thread_bytes();
      int16_t* windows = reinterpret_cast<int16_t*>(own);
      int32_t* made = reinterpret_cast<int32_t*>(own + window_bytes());
      auto* places = reinterpret_cast<IntegerTiles::Place*>(own + window_bytes() + product_bytes());
      char* zeros = own + window_bytes() + product_bytes() + place_bytes();
      std::memset(zeros, zero, size_t(channels));
      int64_t held = -1;
      for (int64_t item; (item = take()) >= 0;) {
        const int64_t block = item / parts, part = item % parts;
        const int64_t first = tiles() * block / blocks, last = tiles() * (block + 1) / blocks, count = last - first;
        if (block != held) transform(x, zero, first, last, zeros, windows, places);
        held = block;
        for (int64_t pair = pairs * part / parts; pair < pairs * (part + 1) / parts; ++pair) {
          const int64_t first_vector = 2 * pair, last_vector = packed.end_of_pair(first_vector);
          WideProduct job;
          job.offsets = offsets.data(), job.depth = depth;
          job.columns = vectors * kernels->width;
          job.result.pixel = pitch();
          for (int64_t i = 0; i < kElements; ++i) {
            job.x = windows + i * count * depth;
            job.weights = weights + packed.begin_of(first_vector, i);
            job.result.y = made + i * count * pitch() - first_vector * kernels->width;
            kernels->wide_product(job, 0, count, first_vector, last_vector);
          }
          IntegerTiles tiles;
          tiles.products = made, tiles.tiles = count, tiles.pitch = pitch();
          tiles.places = places, tiles.row = columns.out, tiles.columns = outputs;
          tiles.result = whole;
          kernels->tiles(tiles, first_vector, last_vector);
        }
      }
    });
  }
};

}  // namespace

void add_integer_winograd(const Op& op, const IntegerKernels& kernels, CandidateList& out) {
  if (op.in(0).rank() != 4 || int64_t(op.attributes[attr::groups]) != 1) return;
  const Window rows = window_of(op, 0), columns = window_of(op, 1);
  for (const Window& window : {rows, columns})
    if (window.kernel != 3 || window.stride != 1 || window.dilation != 1) return;
  const int64_t channels = op.in(0).shape[1], outputs = op.out().shape[1], width = kernels.width;
  // Four times the largest sum.
  const int64_t largest = 4 * 9 * channels * 255 * 128;
  if (channels < 16 || outputs < width || largest > std::numeric_limits<int32_t>::max()) return;
  const auto ending = IntegerEnding::of(op, 1, width);
  if (!ending) return;
  IntegerWinogradBody body(kernels, *ending);
  body.signed_x = op.in(0).dtype == DType::s8;
  body.images = op.in(0).shape[0], body.channels = channels, body.outputs = outputs;
  body.rows = rows, body.columns = columns;
  body.depth = divided_up(channels, 2) * 2;
  body.vectors = divided_up(outputs, width);
  const IntegerFilters filters = body.filters();
  // Of whole tiles and vectors.
  const double multiplied = double(kElements * body.tiles() * body.depth * body.vectors * width);
  body.products = multiplied;
  body.divide();
  const size_t workspace = body.workspace_bytes();
  const Layout layout = Layout::channels_last(4);
  std::vector<TensorDesc> inputs;
  for (size_t i = 0; i < op.inputs.size(); ++i)
    inputs.push_back(i == 1 ? dense_plain(op.inputs[i]) : dense_as(op.inputs[i], layout));
  add_candidate(out, concat("integer_winograd_f2:", kernels.isa), Quality::fast, std::move(inputs),
                {dense_as(op.out(), layout)}, [body = std::move(body)] { return body; });
  Candidate& candidate = out.candidates.back();
  candidate.workspace_bytes = workspace;
  candidate.flops = multiplied;  // an instruction has twice the products of one of f32
  candidate.efficiency = kTilesReached * double(channels) / (double(channels) + kTileTerms);
  const std::string form = concat("integers_winograd_f2_pairs:", width, ' ', op.in(1).str());
  candidate.packings.push_back(packing_of(form, filters.bytes(), filters));
}

}  // namespace pl::host
