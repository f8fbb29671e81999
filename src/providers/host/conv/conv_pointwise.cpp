// 1x1 convolution as a product of pixels and filters: f32, any stride, channels last or blocked by a vector.
#include "providers/host/conv/pointwise_product.h"

#include "providers/host/conv/conv_candidates.h"

namespace pl::host {
namespace {

// Cycles of a core, as the choice of tiles and of how to divide the work counts them.  The constants are of a Zen 5
// (bench/layers.py); on other processors they order the choices no worse.
struct PointwiseCycles {
  static constexpr double kPerNanosecond = 4;
  static constexpr double kFarBytes = 8;  // a cycle, from the third-level cache or another core's

  // All tiles of so many pixels and vectors, `group` vectors at a time.
  static double tiles(const ConvKernels& kernels, double inputs, int64_t pixels, int64_t vectors, int group) {
    const int64_t groups = (vectors + group - 1) / group;
    const int64_t v = (vectors + groups - 1) / groups, most = kernels.tile_pixels[v];
    const int64_t pieces = (pixels + most - 1) / most, p = (pixels + pieces - 1) / pieces;
    // Two multiply-adds or two loads at once; eight sums at least hide the latency.
    const double step = std::max({double(p * v) / 2, double(p + v) / 2, 4.0});
    return double(groups * pieces) * (inputs * step + 40 + 2 * double(p * v));
  }
};

// Of the weights that all pixels of a block meet before the next ones come: what the first-level cache holds beside x.
constexpr int64_t kDepthBytes = 32 << 10;
// With fewer tiles of pixels the weights are read too seldom for that.
constexpr int64_t kFewTiles = 4;
// How much of x and y is gone through for one set of weights before the next: what stays in the second-level cache
// beside weights that stay there, too, ...
constexpr int64_t kBlockBytes = 256 << 10;
// ... and how much of the smaller of x and y where weights are larger than this: these are read once a block.
constexpr int64_t kFarWeights = 512 << 10;
constexpr int64_t kLeastBlock = 64;
// Where all vectors of a piece meet some channels before the next ones come, a piece of fewer groups reads x too often:
// 3072 -> 768 of 128 rows took 1.2 times as long in pieces of 8 groups (two cores of a Zen 3).
constexpr int64_t kFewestGroups = 16;

}  // namespace

PointwiseTiles best_tiles(const ConvKernels& kernels, int64_t inputs, int64_t pixels, int64_t vectors) {
  PointwiseTiles best;
  for (int group = 1; group <= kernels.tile_vectors; ++group) {
    const double cycles = PointwiseCycles::tiles(kernels, double(inputs), pixels, vectors, group);
    if (group == 1 || cycles < best.cycles) best = {group, cycles};
  }
  return best;
}

double far_cycles(const ConvKernels& kernels, int64_t inputs, int64_t pixels, int64_t vectors) {
  return 4 * double(inputs) * double(pixels + vectors * kernels.width) / PointwiseCycles::kFarBytes;
}

double nanoseconds_of(double cycles) { return cycles / PointwiseCycles::kPerNanosecond; }

void set_blocks(const ConvKernels& kernels, int64_t pixels, int64_t own_pixels, int64_t own_vectors, int group,
                Pointwise& job) {
  const int64_t inputs = job.inputs, outputs = job.result.channels, width = kernels.width;
  const int64_t own_outputs = own_vectors * width;
  job.far_weights = 4 * inputs * own_outputs > kFarWeights;
  // Weights go by once, beside the part of x or of y that is used again and again.
  job.channels_first = inputs > own_outputs;
  job.block = std::max(kLeastBlock, kBlockBytes / (4 * (inputs + own_outputs)));
  if (job.far_weights) job.block = std::max(job.block, kFarWeights / (4 * std::min(inputs, own_outputs)));
  job.depth = inputs;
  job.far_input = outputs > width && 4 * inputs * pixels > kFarFrom;
  job.far_result = 4 * outputs * pixels > kFarFrom;
  // Into equal parts, each a whole number of vectors.
  const int64_t most = kDepthBytes / (4 * width * group), tiles = own_pixels / kernels.tile_pixels[group];
  if (tiles >= kFewTiles && inputs > most + most / 2) {
    const int64_t parts = (inputs + most - 1) / most;
    job.depth = ((inputs + parts - 1) / parts + width - 1) / width * width;
  }
}

PointwiseProduct::PointwiseProduct(const ConvKernels& chosen, const Pointwise& described)
    : kernels(&chosen), job(described) {
  pixels = job.images * job.rows * job.columns;
  vectors = (job.result.channels + kernels->width - 1) / kernels->width;
  const double cycles = PointwiseCycles::tiles(*kernels, double(job.inputs), pixels, vectors, 1) +
                        far_cycles(*kernels, job.inputs, pixels, vectors);
  const double own_cycles = divide(threads_for(nanoseconds_of(cycles), kAwakeNanoseconds));
  const int64_t own_pixels = pixels / by_pixels, own_vectors = vectors / by_vectors;
  set_blocks(*kernels, pixels, own_pixels, own_vectors, group, job);
  if (by_pixels * by_vectors == 1) return;
  // Whole blocks of pixels, as far as there are any, and whole groups of vectors.
  const int64_t pieces = pieces_of_thread(nanoseconds_of(own_cycles));
  pixel_pieces = std::clamp<int64_t>(own_pixels / job.block, 1, pieces);
  const int64_t groups = own_vectors / group, few = job.channels_first ? kFewestGroups : 1;
  vector_pieces = std::clamp<int64_t>(pieces / pixel_pieces, 1, std::max<int64_t>(1, groups / few));
}

// How so many threads divide the work; the cycles of each.
double PointwiseProduct::divide(int threads) {
  double least = std::numeric_limits<double>::infinity();
  for (int tp = 1; tp <= threads; ++tp) {
    const int tv = threads / tp;
    if (tp > pixels || tv > vectors) continue;
    const int64_t own_pixels = (pixels + tp - 1) / tp, own_vectors = (vectors + tv - 1) / tv;
    const PointwiseTiles tiles = best_tiles(*kernels, job.inputs, own_pixels, own_vectors);
    const double cycles = tiles.cycles + far_cycles(*kernels, job.inputs, own_pixels, own_vectors);
    if (cycles < least) least = cycles, by_pixels = tp, by_vectors = tv, group = tiles.vectors;
  }
  return least;
}

void PointwiseProduct::operator()(const KernelArguments& arguments) const {
  Pointwise call = job;
  call.x = static_cast<const float*>(input(arguments, 0));
  call.weights = static_cast<const float*>(input(arguments, 1));
  bind(call.result, arguments);
  const int threads = by_pixels * by_vectors;
  if (threads == 1) return kernels->pointwise(call, 0, pixels, 0, vectors, group);
  const int64_t of_thread = pixel_pieces * vector_pieces;
  const auto part = [](int64_t begin, int64_t end, int64_t i, int64_t n) { return begin + (end - begin) * i / n; };
  in_shares(threads, threads * of_thread, [&](int64_t, Shares::Taker take) {
    for (int64_t piece; (piece = take()) >= 0;) {
      const int64_t thread = piece / of_thread, own = piece % of_thread;
      const int64_t tp = thread % by_pixels, tv = thread / by_pixels;
      const int64_t p = own / vector_pieces, v = own % vector_pieces;
      const int64_t first_pixel = part(0, pixels, tp, by_pixels), last_pixel = part(0, pixels, tp + 1, by_pixels);
      const int64_t first_vector = part(0, vectors, tv, by_vectors), last_vector = part(0, vectors, tv + 1, by_vectors);
      // Ends of pieces of vectors are ends of groups.
      const int64_t groups = (last_vector - first_vector + group - 1) / group;
      kernels->pointwise(call, part(first_pixel, last_pixel, p, pixel_pieces),
                         part(first_pixel, last_pixel, p + 1, pixel_pieces),
                         part(first_vector, last_vector, groups * v / vector_pieces, groups),
                         part(first_vector, last_vector, groups * (v + 1) / vector_pieces, groups), group);
    }
  });
}

void list_pointwise(const Op& op, CandidateList& out) {
  if (!suits_conv_kernels(op) || op.attributes[attr::groups] != 1) return;
  const Window rows = rows_of(op), columns = columns_of(op);
  for (const Window& window : {rows, columns})
    if (window.kernel != 1 || window.begin || window.end) return;
  const int64_t inputs = op.in(0).shape[1], outputs = op.out().shape[1];
  if (inputs < 4 || outputs < 4) return;
  const auto all = [](const ConvKernels&) { return true; };
  add_conv_candidates(
      op, "pointwise", Efficiencies{0.85, 0.86, 0.87, 0.81}, out, all,
      [&](const ConvKernels& kernels, const TensorDesc& x, const TensorDesc& y) {
        Pointwise job;
        job.inputs = inputs;
        const bool blocked = y.layout.is_blocked();
        const Strides strides = Strides::of(x, kernels.width);
        job.chunk = blocked ? kernels.width : inputs;
        job.x_chunk = strides.vector;
        job.images = x.shape[0], job.rows = rows.out, job.columns = columns.out;
        job.x_image = strides.image;
        job.x_row = strides.row * rows.stride;
        job.x_pixel = strides.pixel * columns.stride;
        job.result = result_of(op, y, kernels.width);
        // Rows, and images, that continue each other in x and in y are one long row.
        const auto continues = [&](int64_t in, int64_t in_pixel, int64_t out) {
          return in == job.columns * in_pixel && out == job.columns * job.result.pixel;
        };
        if (columns.stride == 1 && rows.stride == 1 && continues(job.x_row, job.x_pixel, job.result.row)) {
          job.columns *= job.rows;
          job.rows = 1;
          if (!blocked && continues(job.x_image, job.x_pixel, job.result.image)) {
            job.columns *= job.images;
            job.images = 1;
          }
        }
        return PointwiseProduct(kernels, job);
      });
}

}  // namespace pl::host
