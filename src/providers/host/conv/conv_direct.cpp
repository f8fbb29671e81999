// Convolution of one group by its definition: f32, any kernel, stride and dilation, channels last or blocked by a
// vector.
//
// The result is cut into tiles of some rows and columns.  For each, what it reads of x is copied into planes, one for
// each channel, with zeros where the padding is.  For a stride of s the columns of a plane lie in s runs, column c in
// run c % s.  Then neighbouring pixels of y read neighbouring floats for every tap of the filter, whatever the layout
// of x, the stride and the dilation; no channel of x is filled up to a vector, and no tap lies beside the image.  The
// copy is read kernel_h * kernel_w * oc / width times.
//
// A vector holds channels of y, or columns of it: of few channels (one to four at the end of a network that makes
// images or sound) most lanes would hold none.  Then y is plain.
#include "core/threads.h"
#include "providers/host/conv/conv_candidates.h"
#include "providers/host/reorder/transpose.h"

namespace pl::host {
namespace {

// Of a tile's planes: half of the smallest second-level caches, beside the filters.
constexpr int64_t kPlaneBytes = 128 << 10;
// Fewer columns than this make the copies of what neighbouring tiles share a burden.
constexpr int64_t kFewColumns = 64;
// So many tiles for each thread even out threads that are disturbed, without more rows copied twice than need be.
constexpr int64_t kTilesOfThread = 4;
constexpr int64_t kMostChannels = std::size(ConvKernels{}.column_vectors) - 1;  // of a tile of columns
constexpr double kCyclesOfNanosecond = 4;                                       // as conv_pointwise.cpp counts them

// The multiply-adds of all tiles and what they cost besides, in cycles of a core with two vector units.
struct DirectCycles {
  double products = 0, all = 0;

  // Of `count` tiles of so many vectors for each of so many single values, which take `loads` for each tap.
  static DirectCycles tiles(double count, int64_t taps, int64_t values, int64_t vectors, int64_t loads) {
    const double sums = double(values * vectors), step = std::max({sums / 2, double(loads) / 2, 4.0});
    return {count * double(taps) * sums / 2, count * (double(taps) * step + 40 + 2 * sums)};
  }
  static DirectCycles of_channels(const ConvKernels& kernels, int64_t taps, double rows, int64_t columns,
                                  int64_t channels) {
    const int64_t vectors = divided_up(channels, kernels.width);
    const int64_t groups = divided_up(vectors, kernels.tile_vectors), v = divided_up(vectors, groups);
    const int64_t pieces = divided_up(columns, kernels.tile_pixels[v]), p = divided_up(columns, pieces);
    return tiles(rows * double(pieces * groups), taps, p, v, p + v + 1);
  }
  // Most vectors of columns lie across two lines of the cache, which takes two loads.
  static DirectCycles of_columns(const ConvKernels& kernels, int64_t taps, double rows, int64_t columns,
                                 int64_t channels) {
    const int64_t groups = divided_up(channels, kMostChannels), p = divided_up(channels, groups);
    const int64_t vectors = divided_up(columns, kernels.width);
    const int64_t pieces = divided_up(vectors, kernels.column_vectors[p]), v = divided_up(vectors, pieces);
    return tiles(rows * double(pieces * groups), taps, p, v, p + 2 * v + 1);
  }
};

struct DirectBody {
  const ConvKernels* kernels;
  bool by_columns = false;  // what vectors hold
  Direct job;               // of a tile as large as possible
  Window rows, columns;
  int64_t images = 1, channels = 1;
  int64_t outputs = 1;  // that threads may divide: vectors of channels, or channels
  int64_t x_image = 0, x_row = 0, x_pixel = 0, x_channel = 0;  // strides of x within a block of channels
  int64_t block = 1, x_block = 0;                              // channels of a block, and the stride of blocks
  int64_t row_tiles = 1, column_tiles = 1, output_parts = 1;
  int64_t run = 1, plane_row = 1, plane = 1;  // floats of the copy: a run of columns, a row, a plane
  int threads = 1;                            // at most
  DirectCycles cycles;
  std::vector<int32_t> taps;

  // A thread's copy; what is read behind the last row belongs to it.
  int64_t copied_floats() const { return plane * channels + kernels->width; }
  int64_t most_rows() const { return divided_up(rows.out, row_tiles); }
  int64_t most_columns() const { return divided_up(columns.out, column_tiles); }
  static int64_t reached(const Window& window, int64_t out) { return (out - 1) * window.stride + window.reach(); }

  // How the result is cut.
  void divide(int processors) {
    // As many columns as make the least of what neighbouring tiles both copy.
    const auto most_fit = [&](int64_t tiles) {
      const int64_t row_bytes = 4 * channels * reached(columns, divided_up(columns.out, tiles));
      const int64_t fit = std::max<int64_t>(kPlaneBytes / row_bytes - rows.reach(), 0) / rows.stride + 1;
      return std::min(fit, rows.out);
    };
    double least = std::numeric_limits<double>::infinity();
    for (int64_t tiles = 1; tiles == 1 || columns.out / tiles >= kFewColumns; ++tiles) {
      const int64_t down = divided_up(rows.out, most_fit(tiles)), height = divided_up(rows.out, down);
      const int64_t width = divided_up(columns.out, tiles);
      const double copied = double(down * reached(rows, height)) * double(tiles * reached(columns, width));
      if (copied < least) least = copied, row_tiles = down, column_tiles = tiles;
    }
    // As many for each thread.
    const auto count = [&] { return images * row_tiles * column_tiles; };
    const auto uneven = [&] { return count() < processors * kTilesOfThread && count() % processors != 0; };
    while (uneven() && row_tiles < rows.out) ++row_tiles;
    while (uneven() && columns.out / (column_tiles + 1) >= kFewColumns) ++column_tiles;
    if (count() < processors) output_parts = std::min(outputs, divided_up(processors, count()));
    threads = int(std::min<int64_t>(processors, count() * output_parts));
  }

  void place_taps() {
    run = divided_up(reached(columns, most_columns()), columns.stride);
    plane_row = divided_up(run * columns.stride, 16) * 16;
    // An odd number of lines: the planes would otherwise compete for the same sets of the first-level cache.
    plane = (plane_row * reached(rows, most_rows()) / 16 | 1) * 16;
    for (int64_t i = 0; i < channels; ++i)
      for (int64_t kh = 0; kh < rows.kernel; ++kh)
        for (int64_t kw = 0; kw < columns.kernel; ++kw) {
          const int64_t column = kw * columns.dilation;
          taps.push_back(int32_t(i * plane + kh * rows.dilation * plane_row + column % columns.stride * run +
                                 column / columns.stride));
        }
  }

  // Copies `count` channels of one row of x, from `from` on, into planes: of columns [first, first + width) those that
  // exist; zeros elsewhere.
  void copy_row(const float* from, float* to, int64_t count, int64_t first, int64_t width) const {
    static const TransposeRun transpose = transposer(4);
    for (int64_t phase = 0; phase < columns.stride; ++phase, to += run) {
      // Places [begin, end) of the run lie in the image.
      const int64_t places = divided_up(width - phase, columns.stride), start = first + phase;
      const int64_t begin = std::clamp<int64_t>(divided_up(std::max<int64_t>(-start, 0), columns.stride), 0, places);
      const int64_t end =
          std::clamp<int64_t>(divided_up(std::max<int64_t>(columns.in - start, 0), columns.stride), begin, places);
      for (int64_t i = 0; i < count; ++i) {
        std::fill(to + i * plane, to + i * plane + begin, 0.0f);
        std::fill(to + i * plane + end, to + i * plane + places, 0.0f);
      }
      if (begin == end) continue;
      const float* source = from + (start + begin * columns.stride) * x_pixel;
      const int64_t step = columns.stride * x_pixel;
      if (x_channel == 1 && count > 1) {
        transpose(source, step, to + begin, plane, end - begin, count);
      } else {
        for (int64_t i = 0; i < count; ++i) {
          const float* values = source + i * x_channel;
          float* target = to + i * plane + begin;
          if (step == 1)
            std::copy(values, values + (end - begin), target);
          else
            for (int64_t place = 0; place < end - begin; ++place) target[place] = values[place * step];
        }
      }
    }
  }

  void copy(const float* x, float* to, int64_t first_row, int64_t height, int64_t first_column, int64_t width) const {
    for (int64_t i = 0; i < channels; i += block) {
      const int64_t count = std::min(block, channels - i);
      for (int64_t row = 0; row < height; ++row) {
        float* target = to + i * plane + row * plane_row;
        const int64_t from = first_row + row;
        if (from >= 0 && from < rows.in)
          copy_row(x + i / block * x_block + from * x_row, target, count, first_column, width);
        else
          for (int64_t k = 0; k < count; ++k) std::fill(target + k * plane, target + k * plane + plane_row, 0.0f);
      }
    }
  }

  void operator()(const KernelArguments& arguments) const {
    const float* x = static_cast<const float*>(input(arguments, 0));
    Direct whole = job;
    whole.weights = static_cast<const float*>(input(arguments, 1));
    whole.taps = taps.data();
    bind(whole.result, arguments);
    float* workspace = static_cast<float*>(arguments.workspace->host());
    const int64_t items = images * row_tiles * column_tiles * output_parts;
    const int team_size = std::min(threads_for(cycles.all / kCyclesOfNanosecond, kAwakeNanoseconds), threads);
    in_shares(team_size, items, [&](int64_t rank, Shares::Taker take) {
      float* planes = workspace + rank * copied_floats();
      for (int64_t item; (item = take()) >= 0;) {
        const int64_t part = item % output_parts, tile = item / output_parts;
        const int64_t across = tile % column_tiles, line = tile / column_tiles;
        const int64_t image = line / row_tiles, down = line % row_tiles;
        const int64_t row = rows.out * down / row_tiles, column = columns.out * across / column_tiles;
        Direct call = whole;
        call.rows = rows.out * (down + 1) / row_tiles - row;
        call.columns = columns.out * (across + 1) / column_tiles - column;
        copy(x + image * x_image, planes, row * rows.stride - rows.begin, reached(rows, call.rows),
             column * columns.stride - columns.begin, reached(columns, call.columns));
        call.x = planes;
        const int64_t column_step = by_columns ? 1 : call.result.pixel;
        const int64_t offset = image * call.result.image + row * call.result.row + column * column_step;
        call.result.y += offset;
        if (call.result.residual) call.result.residual += offset;
        if (call.result.later) call.result.later += offset;
        const int64_t first = outputs * part / output_parts, last = outputs * (part + 1) / output_parts;
        if (by_columns)
          kernels->direct_columns(call, first, last);
        else
          kernels->direct(call, first, last, kernels->tile_vectors);
      }
    });
  }
};

DirectBody direct_body(const Op& op, const ConvKernels& kernels, const TensorDesc& x, const TensorDesc& y) {
  DirectBody body;
  body.kernels = &kernels;
  body.by_columns = y.layout.is_plain();
  body.rows = rows_of(op), body.columns = columns_of(op);
  const Window &rows = body.rows, &columns = body.columns;
  const int64_t outputs = y.shape[1];
  body.images = x.shape[0], body.channels = x.shape[1];
  body.outputs = body.by_columns ? outputs : divided_up(outputs, kernels.width);
  const Strides strides = Strides::of(x, kernels.width);
  body.x_image = strides.image, body.x_row = strides.row, body.x_pixel = strides.pixel;
  body.block = x.layout.is_blocked() ? kernels.width : body.channels;
  body.x_block = strides.vector;
  body.x_channel = x.layout.is_plain() && body.channels > 1 ? x.strides[1] : 1;

  Direct& job = body.job;
  job.inputs = body.channels * rows.kernel * columns.kernel;
  job.result = result_of(op, y, kernels.width);
  if (body.by_columns) job.result.pixel = y.strides[1], job.result.vector = kernels.width;
  job.far_result = 4 * outputs * body.images * rows.out * columns.out > kFarFrom;
  const auto cycles_of = body.by_columns ? DirectCycles::of_columns : DirectCycles::of_channels;
  body.cycles = cycles_of(kernels, job.inputs, double(body.images * rows.out), columns.out, outputs);
  body.divide(available_processors());
  body.place_taps();
  job.x_row = rows.stride * body.plane_row;
  return body;
}

}  // namespace

void list_direct(const Op& op, CandidateList& out) {
  if (!suits_conv_kernels(op) || op.attributes[attr::groups] != 1) return;
  const Window rows = rows_of(op), columns = columns_of(op);
  if (rows.kernel * columns.kernel == 1) return;  // a product of x as it lies
  const int rank = op.in(0).rank();
  const int64_t inputs = op.in(0).shape[1], outputs = op.out().shape[1];
  for (const ConvKernels* const* kernels = all_conv_kernels(); *kernels; ++kernels) {
    const int width = (*kernels)->width;
    std::vector<std::pair<Layout, Layout>> layouts;  // of x and y
    const Layout last = Layout::channels_last(rank), blocked = Layout::channels_blocked(rank, width);
    const Layout plain = Layout::plain(rank);
    const bool fill_x = 2 * inputs >= width, fill_y = 2 * outputs >= width;
    layouts.emplace_back(last, last);
    if (fill_x && fill_y) layouts.emplace_back(blocked, blocked);
    if (inputs <= 4) {  // the first convolution of a network
      layouts.emplace_back(plain, last);
      if (fill_y) layouts.emplace_back(plain, blocked);
    }
    if (!fill_y) {  // the last one
      layouts.emplace_back(plain, plain);
      layouts.emplace_back(last, plain);
      if (fill_x) layouts.emplace_back(blocked, plain);
    }
    for (const auto& [x_layout, y_layout] : layouts) {
      const Layout weights = y_layout.is_plain() ? plain : filter_layout(rank, width);
      std::vector<TensorDesc> descs;
      for (size_t i = 0; i < op.inputs.size(); ++i)
        descs.push_back(i == 1   ? op.inputs[i].with_layout(weights)
                        : i == 2 ? dense_plain(op.inputs[i])
                        : i == 0 ? strided_view_as(op.inputs[i], x_layout)
                                 : dense_as(op.inputs[i], y_layout));
      const TensorDesc y = strided_view_as(op.out(), y_layout);
      const Ending ending = *Ending::of(op);
      if (ending.reads_inputs() && !y.is_dense()) continue;  // what is added lies as y does
      if (y_layout.is_plain() && y.shape[rank - 1] > 1 && y.strides[rank - 1] != 1) continue;
      DirectBody body = direct_body(op, **kernels, descs[0], y);
      if (body.copied_floats() > std::numeric_limits<int32_t>::max()) continue;
      const size_t workspace = size_t(body.threads * body.copied_floats()) * sizeof(float);
      // What the lanes beyond the last channel, or column, and the ends of tiles leave.
      const int64_t lanes = body.by_columns ? columns.out : outputs;
      const double efficiency =
          0.85 * body.cycles.products / body.cycles.all * double(lanes) / double(divided_up(lanes, width) * width);
      add_candidate(out, concat(body.by_columns ? "direct_columns:" : "direct:", (*kernels)->isa), Quality::fast, descs,
                    {y}, [body = std::move(body)] { return body; });
      Candidate& candidate = out.candidates.back();
      candidate.efficiency = efficiency;
      candidate.workspace_bytes = workspace;
      if (ending.added >= 0) candidate.in_place = 1u << ending.added;  // tiles start from the residual
    }
    if (!every_instruction_set()) break;  // the best one
  }
}

}  // namespace pl::host
