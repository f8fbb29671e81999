// Kinds quantized_conv and quantized_matmul by the code of integer_kernels.h: one or two spatial dimensions, channels
// last; products by one matrix, each row of the other one a pixel.
//
// The result is cut into blocks of some rows.  For each, what it reads of x is copied, widened to 16 bits, zeros where
// the padding is; then every tap of the filter is a distance in the copy.  With a dilation of 1 the taps of a row of
// the filter lie side by side for all channels, and are one.
#include <cstring>

#include "core/threads.h"
#include "ops/post_ops.h"
#include "providers/host/conv/conv_candidates.h"
#include "providers/host/quantized/integer_products.h"
#include "providers/host/quantized/integer_steps.h"

namespace pl::host {
namespace {

// Of a block's copy, which each vector of columns reads again.  From 8 to 96 KB layers' times differ by a few percent.
constexpr int64_t kCopyBytes = 32 << 10, kDepthwiseCopyBytes = 128 << 10;
constexpr int64_t kFewPixels = 24;  // with fewer of them each weight is used too seldom
// Weights of more bytes than this are divided among threads where one block holds all of x.
constexpr int64_t kOwnWeightBytes = 256 << 10;
// Integers behind the last one of a copy that vectors, pairs and what is gathered from reach into.
constexpr int64_t kCopySlack = 64;
// Multiply-adds a cycle and core, about, as threads are worth it.
constexpr double kIntegerProductsOfNanosecond = 60;
// How much of twice the device's rate in f32 tiles reach (`python -m bench.estimates`), and how many terms what stands
// before and behind a sum's costs.
constexpr double kIntegerReached = 0.8, kEndingTerms = 16, kDepthwiseReached = 0.2;
// With VNNI, of four times that: oneDNN's kernels of VNNI, which are estimated at 0.7, are as fast at most sizes (a
// Sapphire Rapids), and those of AMX faster.
constexpr double kDotsReached = 0.65;

// Rows and columns of the copy, for one dimension.
struct CopiedAxis {
  int64_t in = 1, out = 1, begin = 0, stride = 1;  // of the convolution
  int64_t step = 1;                                // between inputs that are copied
  int64_t next = 1;                                // what neighbouring outputs lie apart in the copy
  int64_t reach = 1;                               // of an output, in the copy
  int64_t kernel = 1, dilation = 1;

  static CopiedAxis of(const Window& window) {
    CopiedAxis axis;
    axis.in = window.in, axis.out = window.out, axis.begin = window.begin, axis.stride = window.stride;
    axis.kernel = window.kernel, axis.dilation = window.dilation;
    // Of what lies between single taps nothing is read.
    axis.step = window.kernel == 1 ? window.stride : 1;
    axis.next = window.stride / axis.step;
    axis.reach = window.reach();
    return axis;
  }
  int64_t copied(int64_t outputs) const { return (outputs - 1) * next + reach; }
};

// Weights as they are packed: IntegerProduct tells what each is, `sums` are those of the narrow steps of a column.
// Where there is one filter for each channel: weights alone, as IntegerDepthwise has them.
struct PackedIntegers {
  int8_t* weights = nullptr;
  int32_t *places = nullptr, *orders = nullptr, *plain_steps = nullptr, *narrow_steps = nullptr, *sums = nullptr;
  size_t bytes = 0;

  // base: null where only the bytes are asked for.
  PackedIntegers(char* base, int64_t weight_bytes, int64_t panels, int64_t steps, int64_t columns) {
    const auto take = [&](size_t count) {
      char* begin = base ? base + bytes : nullptr;
      bytes += (count + 63) / 64 * 64;
      return begin;
    };
    const auto integers = [&](int64_t count) {
      return reinterpret_cast<int32_t*>(take(size_t(count) * sizeof(int32_t)));
    };
    weights = reinterpret_cast<int8_t*>(take(size_t(weight_bytes)));
    places = integers(panels * steps);
    orders = integers(panels * steps);
    plain_steps = integers(panels);
    narrow_steps = integers(panels);
    sums = integers(columns);
  }
};

// x as a block reads it.
struct Copies {
  const uint8_t* narrow;
  const int16_t* wide;  // null: nothing needs it
};

struct IntegerProductBody {
  IntegerProductBody(const IntegerKernels& chosen, IntegerEnding finished)
      : kernels(&chosen), ending(std::move(finished)) {}

  const IntegerKernels* kernels;
  IntegerEnding ending;
  bool signed_x = false, depthwise = false;
  bool joined = true;  // a row of the filter is one tap
  CopiedAxis rows, columns;
  int64_t images = 1, channels = 1, groups = 1, outputs = 1;
  int64_t blocks_of_image = 1, parts = 1, block_rows = 1;
  int64_t depth = 1;  // of a tap
  int64_t vectors = 1;
  double products = 0;
  std::vector<int32_t> offsets, taps;

  int64_t steps() const { return int64_t(taps.size()) * depth / 4; }
  int64_t copy_row() const { return columns.copied(columns.out) * channels; }
  size_t copied_elements() const { return size_t(rows.copied(block_rows) * copy_row() + kCopySlack + 63) / 64 * 64; }
  size_t copy_bytes() const { return copied_elements() * (sizeof(int16_t) + sizeof(uint8_t)); }
  // Whether narrow steps read x where it lies: rows of whole steps, nothing between them, no padding behind them, and
  // what is gathered from is within them.
  bool in_place() const {
    return !signed_x && columns.in == 1 && columns.out == 1 && rows.kernel * columns.kernel == 1 && rows.stride == 1 &&
           rows.in == rows.out && rows.begin == 0 && columns.begin == 0 && images == 1 && groups == 1 &&
           channels % 4 == 0 && channels >= kGatheredBytes;
  }
  int threads() const { return int(std::min<int64_t>(images * blocks_of_image * parts, available_processors())); }
  size_t workspace_bytes() const { return ending.workspace_bytes() + size_t(threads()) * copy_bytes(); }

  PackedIntegers packed_parts(char* base) const {
    const int64_t width = kernels->width;
    if (depthwise) return {base, vectors * 2 * width * int64_t(taps.size() * sizeof(int16_t)), 0, 0, 0};
    const int64_t panels = groups * divided_up(vectors, 2);
    return {base, groups * vectors * width * 4 * steps(), panels, steps(), groups * vectors * width};
  }

  void divide(int64_t weight_bytes) {
    const int64_t processors = available_processors();
    const int64_t row_bytes = copy_row() * int64_t(sizeof(int16_t));
    int64_t fit =
        std::max<int64_t>((depthwise ? kDepthwiseCopyBytes : kCopyBytes) / row_bytes - rows.reach, 0) / rows.next + 1;
    fit = std::max(fit, divided_up(kFewPixels, columns.out));
    blocks_of_image = divided_up(rows.out, std::min(fit, rows.out));
    const int64_t pairs = depthwise || groups > 1 ? 1 : divided_up(vectors, 2);
    if (images * blocks_of_image == 1 && weight_bytes > kOwnWeightBytes && pairs >= processors) {
      parts = processors;
    } else {
      while (images * blocks_of_image % processors != 0 && blocks_of_image < rows.out &&
             images * blocks_of_image < 4 * processors)
        ++blocks_of_image;
      if (images * blocks_of_image < processors)
        parts = std::min(pairs, divided_up(processors, images * blocks_of_image));
    }
    block_rows = divided_up(rows.out, blocks_of_image);
  }

  void place() {
    for (int64_t row = 0; row < block_rows; ++row)
      for (int64_t column = 0; column < columns.out; ++column)
        offsets.push_back(int32_t(row * rows.next * copy_row() + column * columns.next * channels));
    for (int64_t kh = 0; kh < rows.kernel; ++kh)
      for (int64_t kw = 0; kw < (joined ? 1 : columns.kernel); ++kw)
        taps.push_back(int32_t(kh * rows.dilation * copy_row() + kw * columns.dilation * channels));
    if (depthwise && taps.size() % 2) taps.push_back(taps.back());  // with weights of zero
  }

  // What rows [first, last) of the result of an image read; convert(from, to, count) of elements, and `outside`.
  template <class T, class Convert>
  void copy(const char* x, int64_t first, int64_t last, T outside, Convert convert, T* to) const {
    const int64_t width = columns.copied(columns.out), image_row = columns.in * channels;
    // Columns [begin, end) of the copy lie in the image.
    const int64_t begin = std::min(width, divided_up(std::max<int64_t>(columns.begin, 0), columns.step));
    const int64_t end = std::clamp(divided_up(columns.in + columns.begin, columns.step), begin, width);
    int64_t row = first * rows.stride - rows.begin;
    const int64_t count = rows.copied(last - first);
    // What vectors and steps reach behind the last row is multiplied by zeros, or not stored.
    std::fill_n(to + count * copy_row(), kCopySlack, T(0));
    const bool whole = begin == 0 && end == width && columns.step == 1 && width == columns.in && rows.step == 1;
    if (whole && row >= 0 && row + count <= rows.in) return convert(x + row * image_row, to, count * image_row);
    for (int64_t i = 0; i < count; ++i, row += rows.step, to += copy_row()) {
      if (row < 0 || row >= rows.in) {
        std::fill_n(to, copy_row(), outside);
        continue;
      }
      std::fill_n(to, begin * channels, outside);
      std::fill(to + end * channels, to + copy_row(), outside);
      const char* from = x + row * image_row + (begin * columns.step - columns.begin) * channels;
      if (columns.step == 1) {
        convert(from, to + begin * channels, (end - begin) * channels);
      } else {
        for (int64_t k = begin; k < end; ++k, from += columns.step * channels)
          convert(from, to + k * channels, channels);
      }
    }
  }

  void multiply(const Copies& x, const PackedIntegers& packed, const IntegerResult& whole, int64_t first_pixel,
                int64_t pixels, int64_t part) const {
    if (depthwise) {
      IntegerDepthwise job;
      job.x = x.wide, job.offsets = offsets.data(), job.taps = taps.data(), job.tap_count = int64_t(taps.size());
      job.weights = reinterpret_cast<const int16_t*>(packed.weights), job.columns = outputs;
      job.result = ending.at(whole, first_pixel, 0, 0);
      kernels->depthwise(job, 0, pixels);
      return;
    }
    IntegerProduct job;
    job.offsets = offsets.data(), job.steps = steps(), job.columns = outputs / groups;
    const int64_t panels = divided_up(vectors, 2);
    const int64_t first = panels * part / parts * 2, last = std::min(vectors, panels * (part + 1) / parts * 2);
    for (int64_t group = 0; group < groups; ++group) {
      const int64_t channel = group * (channels / groups);
      job.narrow = x.narrow + channel;
      job.wide = x.wide ? x.wide + channel : nullptr;
      job.weights = packed.weights + group * vectors * kernels->width * 4 * job.steps;
      job.places = packed.places + group * panels * job.steps, job.orders = packed.orders + group * panels * job.steps;
      job.plain_steps = packed.plain_steps + group * panels;
      job.narrow_steps = packed.narrow_steps + group * panels;
      job.result = ending.at(whole, first_pixel, group, group * job.columns);
      kernels->product(job, 0, pixels, first, last);
    }
  }

  void operator()(const KernelArguments& arguments) const {
    char* workspace = static_cast<char*>(arguments.workspace->host());
    const char* x = static_cast<const char*>(input(arguments, 0));
    const PackedIntegers packed = packed_parts(static_cast<char*>(input(arguments, 1)));
    const int32_t zero = ending.x_zero(arguments), narrow_zero = zero + (signed_x ? 128 : 0);
    const IntegerResult whole = ending.bind(arguments, workspace, depthwise ? nullptr : packed.sums, narrow_zero);
    workspace += ending.workspace_bytes();
    bool any_wide = depthwise;
    for (int64_t panel = 0; !depthwise && panel < groups * divided_up(vectors, 2); ++panel)
      any_wide = any_wide || packed.narrow_steps[panel] < steps();
    const bool reads_x = in_place();
    const int64_t items = images * blocks_of_image * parts;
    const int team_size = std::min(threads_for(products / kIntegerProductsOfNanosecond, kAwakeNanoseconds), threads());
    in_shares(team_size, items, [&](int64_t rank, Shares::Taker take) {
      char* own = workspace + size_t(rank) * copy_bytes();
      int16_t* wide = reinterpret_cast<int16_t*>(own);
      uint8_t* narrow = reinterpret_cast<uint8_t*>(own + copied_elements() * sizeof(int16_t));
      int64_t held = -1;
      for (int64_t item; (item = take()) >= 0;) {
        const int64_t block = item / parts, image = block / blocks_of_image, k = block % blocks_of_image;
        const int64_t first = rows.out * k / blocks_of_image, last = rows.out * (k + 1) / blocks_of_image;
        const char* of_image = x + image * rows.in * columns.in * channels;
        if (block != held && any_wide)
          copy(
              of_image, first, last, int16_t(0),
              [&](const char* from, int16_t* to, int64_t n) { widen_bytes(from, signed_x, zero, to, n); }, wide);
        if (block != held && !depthwise && !reads_x)
          copy(
              of_image, first, last, uint8_t(narrow_zero),
              [&](const char* from, uint8_t* to, int64_t n) { unsigned_bytes(from, signed_x, to, n); }, narrow);
        held = block;
        const uint8_t* bytes = reads_x ? reinterpret_cast<const uint8_t*>(x) + first * channels : narrow;
        multiply({bytes, any_wide ? wide : nullptr}, packed, whole, (image * rows.out + first) * columns.out,
                 (last - first) * columns.out, item % parts);
      }
    });
  }
};

// Packs weights (oc, ic / groups, kh, kw), or a matrix (k, n).
struct IntegerWeights {
  IntegerProductBody body;  // whose copies the steps' places are of
  bool matrix;

  void operator()(const void* source, char* base) const {
    const int8_t* from = static_cast<const int8_t*>(source);
    const PackedIntegers packed = body.packed_parts(base);
    std::memset(base, 0, packed.bytes);
    if (body.depthwise) return interleave_taps(from, reinterpret_cast<int16_t*>(packed.weights));
    const int64_t panels = body.groups * divided_up(body.vectors, 2);
    parallel_for(panels, double(body.kernels->width * body.steps() * 40), [&](int64_t first, int64_t last) {
      for (int64_t panel = first; panel < last; ++panel) pack_panel(from, panel, packed);
    });
  }

  void pack_panel(const int8_t* from, int64_t panel, const PackedIntegers& packed) const {
    const int64_t width = body.kernels->width, steps = body.steps(), vectors = body.vectors;
    const int64_t panels = divided_up(vectors, 2), group = panel / panels, first_vector = panel % panels * 2;
    const int64_t each = body.outputs / body.groups, begin = first_vector * width;
    const int64_t v = std::min<int64_t>(2, vectors - first_vector), lanes = v * width;
    const int64_t group_inputs = body.channels / body.groups, kernel_w = body.columns.kernel;
    const int64_t kernel = body.rows.kernel * kernel_w;
    IntegerPanel weights(steps * 4, lanes);
    for (int64_t lane = 0; lane < std::min(lanes, each - begin); ++lane) {
      const int64_t o = group * each + begin + lane;
      for (int64_t i = 0; i < group_inputs; ++i)
        for (int64_t tap = 0; tap < kernel; ++tap) {
          const int64_t t = body.joined ? tap / kernel_w : tap;
          const int64_t k = t * body.depth + (body.joined ? tap % kernel_w * group_inputs + i : i);
          weights.at(k, lane) = from[matrix ? i * body.outputs + o : (o * group_inputs + i) * kernel + tap];
        }
    }
    IntegerSteps divided;
    for (int64_t tap = 0; tap < int64_t(body.taps.size()); ++tap)
      for (int64_t k = 0; k < body.depth; k += kGatheredBytes)
        divided.add(weights, {tap * body.depth, body.depth}, k, body.kernels->saturates);
    packed.plain_steps[panel] = int32_t(divided.plain.size());
    packed.narrow_steps[panel] = int32_t(divided.plain.size() + divided.gathered.size());
    int8_t* to = packed.weights + (group * vectors + first_vector) * width * 4 * steps;
    int32_t* sums = packed.sums + (group * vectors + first_vector) * width;
    int64_t i = panel * steps;
    for (const auto* kind : {&divided.plain, &divided.gathered, &divided.wide})
      for (const IntegerSteps::Step& step : *kind) {
        packed.places[i] = body.taps[size_t(step.first / body.depth)] + int32_t(step.first % body.depth);
        for (int64_t k = 0; k < 4; ++k) {
          const int64_t term = step.terms[size_t(k)];
          reinterpret_cast<uint8_t*>(packed.orders + i)[k] = uint8_t(term - step.first);
          for (int64_t lane = 0; lane < lanes; ++lane) {
            const int8_t weight = weights.at(term, lane);
            const bool wide = kind == &divided.wide;
            if (!wide) sums[lane] += weight;
            to[wide ? k / 2 * 2 * lanes + lane * 2 + k % 2 : lane * 4 + k] = weight;
          }
        }
        ++i, to += 4 * lanes;
      }
  }

  // Pairs of taps, interleaved as their inputs are: within 128 bits, the lower channels of each first.
  void interleave_taps(const int8_t* from, int16_t* to) const {
    const int64_t taps = body.rows.kernel * body.columns.kernel, width = body.kernels->width;
    for (int64_t o = 0; o < body.outputs; ++o) {
      const int64_t vector = o / (2 * width), c = o % (2 * width), high = c % 8 / 4;
      for (int64_t tap = 0; tap < taps; ++tap)
        to[(vector * int64_t(body.taps.size()) + tap / 2 * 2 + high) * 2 * width + c / 8 * 8 + c % 4 * 2 + tap % 2] =
            from[o * taps + tap];
    }
  }
};

// Adds the candidate of a body whose geometry is set: channels, outputs, groups, rows and columns.
void add_integer_product(const Op& op, IntegerProductBody body, std::vector<TensorDesc> inputs, TensorDesc y,
                         CandidateList& out) {
  const IntegerKernels& kernels = *body.kernels;
  const int64_t width = kernels.width, groups = body.groups;
  CopiedAxis &rows = body.rows, &columns = body.columns;
  if (rows.kernel * columns.kernel == 1 && rows.stride == 1 && columns.stride == 1 && rows.out == rows.in &&
      columns.out == columns.in) {
    rows.in = rows.out = body.images * rows.in * columns.in;  // pixels in one long column
    columns.in = columns.out = body.images = 1;
  }
  const bool depthwise = body.depthwise;
  body.joined = !depthwise && groups == 1 && columns.dilation == 1;
  body.depth = divided_up(body.channels / groups * (body.joined ? columns.kernel : 1), 4) * 4;
  const int64_t each = body.outputs / groups, taps = rows.kernel * (body.joined ? 1 : columns.kernel);
  body.vectors = depthwise ? divided_up(body.outputs, 2 * width) : divided_up(each, width);
  body.products = op.schema->flops(op) / 2;
  body.divide(depthwise ? 0 : groups * body.vectors * width * taps * body.depth);
  if (rows.copied(body.block_rows) * body.copy_row() > std::numeric_limits<int32_t>::max()) return;
  body.place();

  const IntegerWeights weights{body, op.schema->kind == "quantized_matmul"};
  const size_t workspace = body.workspace_bytes(), packed_bytes = body.packed_parts(nullptr).bytes;
  const double terms = double(body.depth * taps), lanes = double(each) / double(body.vectors * width);
  // Steps lie where they read the copies.
  const std::string form = concat(depthwise     ? "integers_depthwise:"
                                  : body.joined ? "integers_rows_gathered:"
                                                : "integers_gathered:",
                                  width, kernels.saturates ? "" : " dots", " groups=", groups,
                                  " row=", taps > 1 ? rows.dilation * body.copy_row() : 0,
                                  " column=", taps > 1 ? columns.dilation * body.channels : 0,
                                  weights.matrix ? " matrix " : " ", op.in(1).str());
  add_candidate(out, concat(depthwise ? "integer_depthwise:" : "integer:", kernels.isa), Quality::fast,
                std::move(inputs), {std::move(y)}, [body = std::move(body)] { return body; });
  Candidate& candidate = out.candidates.back();
  candidate.workspace_bytes = workspace;
  // An instruction has twice the products of one of f32, four times those where its sums have 32 bits.
  candidate.flops = op.schema->flops(op) / (kernels.saturates || depthwise ? 2 : 4);
  const double reached = kernels.saturates ? kIntegerReached : kDotsReached;
  candidate.efficiency = depthwise ? kDepthwiseReached : reached * lanes * terms / (terms + kEndingTerms);
  candidate.packings.push_back(packing_of(form, packed_bytes, weights));
}

// Nothing, and a refusal, where kernels have not all of the op's post-ops.
std::optional<IntegerProductBody> integer_body(const Op& op, const IntegerKernels& kernels, int64_t groups,
                                               int64_t lanes, CandidateList& out) {
  const auto ending = IntegerEnding::of(op, groups, lanes);
  if (!ending) {
    out.refuse("host", concat(op.schema->name, ": post_ops is ", to_text(post_ops_of(op)), ", expected at most ",
                              IntegerResult::kMostSteps - 1, " scales and functions of f32"));
    return std::nullopt;
  }
  IntegerProductBody body(kernels, *ending);
  body.signed_x = op.in(0).dtype == DType::s8;
  return body;
}

void add_integer_conv(const Op& op, const IntegerKernels& kernels, CandidateList& out) {
  const int rank = op.in(0).rank(), width = kernels.width;
  const int64_t groups = op.attributes[attr::groups], channels = op.in(0).shape[1], outputs = op.out().shape[1];
  const bool depthwise = groups > 1 && groups == channels && outputs == channels;
  auto body = integer_body(op, kernels, depthwise ? 1 : groups, depthwise ? 2 * width : width, out);
  if (!body) return;
  body->depthwise = depthwise;
  body->rows = CopiedAxis::of(rows_of(op)), body->columns = CopiedAxis::of(columns_of(op));
  body->images = op.in(0).shape[0], body->channels = channels, body->groups = groups, body->outputs = outputs;
  const Layout layout = Layout::channels_last(rank);
  std::vector<TensorDesc> inputs;
  for (size_t i = 0; i < op.inputs.size(); ++i)
    inputs.push_back(i == 1 ? dense_plain(op.inputs[i]) : dense_as(op.inputs[i], layout));
  add_integer_product(op, std::move(*body), std::move(inputs), dense_as(op.out(), layout), out);
}

void add_integer_matmul(const Op& op, const IntegerKernels& kernels, CandidateList& out) {
  const Dims &a = op.in(0).shape, &b = op.in(1).shape;
  auto body = integer_body(op, kernels, 1, kernels.width, out);
  if (!body) return;
  body->channels = b[0], body->outputs = b[1];
  body->rows.in = body->rows.out = a.product() / b[0];
  std::vector<TensorDesc> inputs;
  for (const TensorDesc& desc : op.inputs) inputs.push_back(dense_plain(desc));
  add_integer_product(op, std::move(*body), std::move(inputs), dense_plain(op.out()), out);
}

}  // namespace

void list_integer_products(const Op& op, CandidateList& out) {
  const bool conv = op.schema->kind == "quantized_conv";
  const int rank = op.in(conv ? 0 : 1).rank();
  if (op.has_empty_tensor()) return;
  if (conv ? rank != 3 && rank != 4 : rank != 2) {
    out.refuse("host", conv ? "the kernels of integers convolve in one or two dimensions"
                            : "the kernels of integers multiply by one matrix, not by a stack of them");
    return;
  }
  if (QuantizedInputs(op).weight_zero >= 0 || op.in(1).dtype != DType::s8) {
    out.refuse("host", "the kernels of integers take weights of s8 without zero points");
    return;
  }
  for (const IntegerKernels* const* kernels = all_integer_kernels(); *kernels; ++kernels) {
    (conv ? add_integer_conv : add_integer_matmul)(op, **kernels, out);
    if (conv) add_integer_winograd(op, **kernels, out);
    if (!every_instruction_set()) break;  // the best one
  }
}

}  // namespace pl::host
