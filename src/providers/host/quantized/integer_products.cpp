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

namespace pl::host {
namespace {

// Of a block's copy, which each vector of columns reads again.  From 8 to 96 KB layers' times differ by a few percent.
constexpr int64_t kCopyBytes = 32 << 10, kDepthwiseCopyBytes = 128 << 10;
constexpr int64_t kFewPixels = 24;  // with fewer of them each weight is used too seldom
// Weights of more bytes than this are divided among threads where one block holds all of x.
constexpr int64_t kOwnWeightBytes = 256 << 10;
// Integers behind the last one of a copy that vectors and pairs reach into.
constexpr int64_t kCopySlack = 64;
// Multiply-adds a cycle and core, about, as threads are worth it.
constexpr double kIntegerProductsOfNanosecond = 60;
// How much of twice the device's rate in f32 tiles reach (`python -m bench.estimates`), and how many terms what stands
// before and behind a sum's costs.
constexpr double kIntegerReached = 0.77, kEndingTerms = 16, kDepthwiseReached = 0.2;

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

  int64_t copy_row() const { return columns.copied(columns.out) * channels; }
  size_t copy_bytes() const {
    return size_t(rows.copied(block_rows) * copy_row() + kCopySlack + 31) / 32 * 32 * sizeof(int16_t);
  }
  int threads() const { return int(std::min<int64_t>(images * blocks_of_image * parts, available_processors())); }
  size_t workspace_bytes() const { return ending.workspace_bytes() + size_t(threads()) * copy_bytes(); }

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

  // Rows [first, last) of the result of an image.
  void copy(const char* x, int32_t zero, int64_t first, int64_t last, int16_t* to) const {
    const int64_t width = columns.copied(columns.out), image_row = columns.in * channels;
    // Columns [begin, end) of the copy lie in the image.
    const int64_t begin = std::min(width, divided_up(std::max<int64_t>(columns.begin, 0), columns.step));
    const int64_t end = std::clamp(divided_up(columns.in + columns.begin, columns.step), begin, width);
    int64_t row = first * rows.stride - rows.begin;
    const int64_t count = rows.copied(last - first);
    const bool whole = begin == 0 && end == width && columns.step == 1 && width == columns.in && rows.step == 1;
    if (whole && row >= 0 && row + count <= rows.in) {
      widen_bytes(x + row * image_row, signed_x, zero, to, count * image_row);
      return;
    }
    for (int64_t i = 0; i < count; ++i, row += rows.step, to += copy_row()) {
      if (row < 0 || row >= rows.in) {
        std::fill_n(to, copy_row(), int16_t(0));
        continue;
      }
      std::fill_n(to, begin * channels, int16_t(0));
      std::fill(to + end * channels, to + copy_row(), int16_t(0));
      const char* from = x + row * image_row + (begin * columns.step - columns.begin) * channels;
      if (columns.step == 1) {
        widen_bytes(from, signed_x, zero, to + begin * channels, (end - begin) * channels);
      } else {
        for (int64_t k = begin; k < end; ++k, from += columns.step * channels)
          widen_bytes(from, signed_x, zero, to + k * channels, channels);
      }
    }
  }

  void multiply(const int16_t* x, const char* weights, const IntegerResult& whole, int64_t first_pixel, int64_t pixels,
                int64_t part) const {
    if (depthwise) {
      IntegerDepthwise job;
      job.x = x, job.offsets = offsets.data(), job.taps = taps.data(), job.tap_count = int64_t(taps.size());
      job.weights = reinterpret_cast<const int16_t*>(weights), job.columns = outputs;
      job.result = ending.at(whole, first_pixel, 0, 0);
      kernels->depthwise(job, 0, pixels);
      return;
    }
    IntegerProduct job;
    job.offsets = offsets.data(), job.taps = taps.data(), job.tap_count = int64_t(taps.size());
    job.depth = depth, job.columns = outputs / groups;
    const int64_t pairs = divided_up(vectors, 2);
    const int64_t first = pairs * part / parts * 2, last = std::min(vectors, pairs * (part + 1) / parts * 2);
    for (int64_t group = 0; group < groups; ++group) {
      job.x = x + group * (channels / groups);
      job.weights = weights + group * vectors * kernels->width * job.tap_count * depth;
      job.result = ending.at(whole, first_pixel, group, group * job.columns);
      kernels->product(job, 0, pixels, first, last);
    }
  }

  void operator()(const KernelArguments& arguments) const {
    char* workspace = static_cast<char*>(arguments.workspace->host());
    const char* x = static_cast<const char*>(input(arguments, 0));
    const char* weights = static_cast<const char*>(input(arguments, 1));
    const IntegerResult whole = ending.bind(arguments, workspace);
    const int32_t zero = ending.x_zero(arguments);
    workspace += ending.workspace_bytes();
    const int64_t items = images * blocks_of_image * parts;
    const int team_size = std::min(threads_for(products / kIntegerProductsOfNanosecond, kAwakeNanoseconds), threads());
    in_team(team_size, [&](int64_t rank, int64_t team) {
      int16_t* copied = reinterpret_cast<int16_t*>(workspace + size_t(rank) * copy_bytes());
      int64_t held = -1;
      for (int64_t item = items * rank / team; item < items * (rank + 1) / team; ++item) {
        const int64_t block = item / parts, image = block / blocks_of_image, k = block % blocks_of_image;
        const int64_t first = rows.out * k / blocks_of_image, last = rows.out * (k + 1) / blocks_of_image;
        if (block != held) {
          copy(x + image * rows.in * columns.in * channels, zero, first, last, copied);
          // What pairs and vectors reach behind the last row is multiplied by zeros, or not stored.
          std::fill_n(copied + rows.copied(last - first) * copy_row(), kCopySlack, int16_t(0));
          held = block;
        }
        multiply(copied, weights, whole, (image * rows.out + first) * columns.out, (last - first) * columns.out,
                 item % parts);
      }
    });
  }
};

// Weights (oc, ic / groups, kh, kw) as IntegerProduct and, of 16 bits, IntegerDepthwise take them.
struct IntegerWeights {
  bool depthwise, joined;
  bool matrix;  // (k, n)
  int64_t outputs, group_inputs, kernel_h, kernel_w, groups;
  int64_t vectors, width, depth, tap_count;

  size_t bytes() const {
    return depthwise ? size_t(vectors * 2 * width * tap_count) * sizeof(int16_t)
                     : size_t(groups * vectors * width * tap_count * depth);
  }
  void operator()(const void* source, void* packed) const {
    const int8_t* from = static_cast<const int8_t*>(source);
    std::memset(packed, 0, bytes());
    parallel_for(depthwise ? 1 : groups * vectors, double(width * tap_count * depth), [&](int64_t first, int64_t last) {
      if (depthwise) return interleave_taps(from, static_cast<int16_t*>(packed));
      for (int64_t vector = first; vector < last; ++vector) pack_vector(from, vector, static_cast<int8_t*>(packed));
    });
  }
  void pack_vector(const int8_t* from, int64_t vector, int8_t* to) const {
    const int64_t each = outputs / groups, taps = kernel_h * kernel_w, begin = vector % vectors * width;
    int8_t* base = to + vector * width * tap_count * depth;
    for (int64_t lane = 0; lane < std::min(width, each - begin); ++lane) {
      const int64_t o = vector / vectors * each + begin + lane;
      for (int64_t i = 0; i < group_inputs; ++i)
        for (int64_t tap = 0; tap < taps; ++tap) {
          const int64_t t = joined ? tap / kernel_w : tap;
          const int64_t k = joined ? tap % kernel_w * group_inputs + i : i;
          base[(t * depth + k / 2 * 2) * width + lane * 2 + k % 2] =
              from[matrix ? i * outputs + o : (o * group_inputs + i) * taps + tap];
        }
    }
  }
  // Pairs of taps, interleaved as their inputs are: within 128 bits, the lower channels of each first.
  void interleave_taps(const int8_t* from, int16_t* to) const {
    const int64_t taps = kernel_h * kernel_w;
    for (int64_t o = 0; o < outputs; ++o) {
      const int64_t vector = o / (2 * width), c = o % (2 * width), high = c % 8 / 4;
      for (int64_t tap = 0; tap < taps; ++tap)
        to[(vector * tap_count + tap / 2 * 2 + high) * 2 * width + c / 8 * 8 + c % 4 * 2 + tap % 2] =
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
  body.depth = divided_up(body.channels / groups * (body.joined ? columns.kernel : 1), 2) * 2;

  IntegerWeights weights;
  weights.depthwise = depthwise, weights.joined = body.joined;
  weights.matrix = op.schema->kind == "quantized_matmul";
  weights.outputs = body.outputs, weights.group_inputs = body.channels / groups;
  weights.kernel_h = rows.kernel, weights.kernel_w = columns.kernel, weights.groups = groups;
  const int64_t taps = rows.kernel * (body.joined ? 1 : columns.kernel), each = body.outputs / groups;
  weights.width = width, weights.depth = body.depth;
  weights.tap_count = depthwise ? divided_up(taps, 2) * 2 : taps;
  weights.vectors = body.vectors = depthwise ? divided_up(body.outputs, 2 * width) : divided_up(each, width);

  body.products = op.schema->flops(op) / 2;
  body.divide(int64_t(weights.bytes()));
  if (rows.copied(body.block_rows) * body.copy_row() > std::numeric_limits<int32_t>::max()) return;
  body.place();
  const size_t workspace = body.workspace_bytes();
  const double terms = double(body.depth * taps), lanes = double(each) / double(body.vectors * width);
  add_candidate(out, concat(depthwise ? "integer_depthwise:" : "integer:", kernels.isa), Quality::fast,
                std::move(inputs), {std::move(y)}, [body = std::move(body)] { return body; });
  Candidate& candidate = out.candidates.back();
  candidate.workspace_bytes = workspace;
  candidate.flops = op.schema->flops(op) / 2;  // an instruction has twice the products of one of f32
  candidate.efficiency = depthwise ? kDepthwiseReached : kIntegerReached * lanes * terms / (terms + kEndingTerms);
  const std::string form = concat(depthwise        ? "integers_depthwise:"
                                  : weights.joined ? "integers_rows:"
                                                   : "integers:",
                                  width, " groups=", groups, weights.matrix ? " matrix " : " ", op.in(1).str());
  const auto pack = [weights](Buffer& source, Buffer& packed) { weights(source.host(), packed.host()); };
  candidate.packings.push_back({1, form, weights.bytes(), pack, [weights] {
                                  const auto body = [weights](const KernelArguments& arguments) {
                                    weights(input(arguments, 0), output(arguments));
                                  };
                                  return std::make_unique<BodyKernel<decltype(body)>>(body);
                                }});
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
