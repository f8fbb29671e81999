// Kind linear_nbits: products with weights of 2, 4 or 8 bits, in f32.
//
// Both fast kernels take 32 bytes of a row of weights at a time as eight words of 32 bits. What is masked out of all
// words at the same place is a plane: eight numbers that lie 32 / bits apart. x is brought into that order first.
//   dots    few rows: each number is made where it is multiplied, and weights are read once.
//   panels  many rows: weights of a few columns become floats, in pieces that stay in the caches, for BlockProduct.
// A reference takes halves, and blocks whose bytes are no multiple of four.
#include <cmath>

#include "ops/linear_nbits.h"
#include "providers/host/common/reference.h"
#include "providers/host/matmul/block_product.h"
#include "providers/host/reorder/transpose.h"

namespace pl::host {
namespace {

enum NbitsInput { kX, kWeight, kScale, kZeroPoint, kBias };

constexpr int kLanes = 8;         // words at a time
constexpr int kVectorBytes = 32;  // of weights

using NbitFloats = float __attribute__((vector_size(32)));
using NbitWords = uint32_t __attribute__((vector_size(32)));
using NbitInts = int32_t __attribute__((vector_size(32)));
using NbitLoose = float __attribute__((vector_size(32), aligned(4), may_alias));

PL_INLINE const NbitLoose& eight(const float* p) { return *reinterpret_cast<const NbitLoose*>(p); }
PL_INLINE NbitLoose& eight(float* p) { return *reinterpret_cast<NbitLoose*>(p); }
// to[l] = from[places[l]]
PL_INLINE void pick(const NbitFloats& from, const int32_t* places, NbitFloats& to) {
#ifdef __clang__
  for (int l = 0; l < kLanes; ++l) to[l] = from[places[l]];
#else
  NbitInts lanes;
  std::memcpy(&lanes, places, sizeof lanes);
  to = __builtin_shuffle(from, lanes);
#endif
}

// A row of weights.
struct NbitsRow {
  const uint8_t* weight;
  const float* scale;
  const uint8_t* zero;  // null: all are `same_zero`
  float same_zero;
};

// How rows are cut.
struct NbitsForm {
  WeightBlocks cut;
  int64_t row_bytes, vectors;  // the last vector may reach beyond the row
  // Of eight blocks, `group` vectors: which block each lane is of.
  int64_t group;
  std::vector<int32_t> places;

  explicit NbitsForm(const Op& op)
      : cut(op),
        row_bytes(cut.blocks * cut.block_bytes()),
        vectors((row_bytes + kVectorBytes - 1) / kVectorBytes),
        group(cut.block_bytes() * 8 / kVectorBytes) {
    for (int64_t word = 0; word < group * kLanes; ++word) places.push_back(int32_t(word * 4 / cut.block_bytes()));
  }
  static bool suits(const Op& op) { return WeightBlocks(op).block_bytes() % 4 == 0; }

  int planes() const { return int(32 / cut.bits); }
  int64_t numbers() const { return vectors * kLanes * planes(); }  // of a row, filled up
  bool has_sums() const { return cut.bits < 8; }
  // Of a row of x for `dots`: with each vector the sums of its lanes.
  int64_t floats_of_dots() const { return vectors * kLanes * (planes() + (has_sums() ? 1 : 0)); }

  // A row of x by planes.
  void order(const float* x, float* to) const {
    const int n = planes();
    for (int64_t v = 0; v < vectors; ++v, to += kLanes * n)
      for (int l = 0; l < kLanes; ++l)
        for (int p = 0; p < n; ++p) {
          const int64_t i = (v * kLanes + l) * n + p;
          to[p * kLanes + l] = i < cut.depth ? x[i] : 0.0f;
        }
  }
  // The same for `dots`, which leaves numbers of the lower planes where they are in their words: 2^(p * bits) times too
  // large.  The last plane is behind them, and then, for zero points, the sums of each lane.
  void order_for_dots(const float* x, float* to) const {
    const int n = planes();
    if (!has_sums()) return order(x, to);
    for (int64_t v = 0; v < vectors; ++v, to += kLanes * (n + 1))
      for (int l = 0; l < kLanes; ++l) {
        float sum = 0;
        for (int p = 0; p < n; ++p) {
          const int64_t i = (v * kLanes + l) * n + p;
          const float value = i < cut.depth ? x[i] : 0.0f;
          sum += value;
          to[p * kLanes + l] = p + 1 < n ? std::ldexp(value, -p * int(cut.bits)) : value;
        }
        to[n * kLanes + l] = sum;
      }
  }
};

// Scales and zero points of eight blocks, of which `count` exist.
PL_INLINE void load_blocks(const NbitsRow& row, int64_t first, int64_t count, NbitFloats& scales, NbitFloats& zeros) {
  zeros = row.same_zero - NbitFloats{};
  if (count >= kLanes) {
    scales = eight(row.scale + first);
    if (row.zero)
      for (int i = 0; i < kLanes; ++i) zeros[i] = float(row.zero[first + i]);
    return;
  }
  scales = NbitFloats{};
  for (int i = 0; i < count; ++i) {
    scales[i] = row.scale[first + i];
    if (row.zero) zeros[i] = float(row.zero[first + i]);
  }
}
// `bytes`: what is left of the row.
PL_INLINE void load_words(const uint8_t* from, int64_t bytes, NbitWords& words) {
  if (bytes >= kVectorBytes) {
    std::memcpy(&words, from, kVectorBytes);
  } else {
    words = NbitWords{};
    std::memcpy(&words, from, size_t(bytes));
  }
}

// y[r] = sum over i of w[i] * x[r, i], of Rows rows.
template <int Bits, int Rows>
PL_INLINE void dot_rows(const NbitsForm& form, const NbitsRow& row, const float* x, int64_t x_row, float* y) {
  constexpr int kPlanes = 32 / Bits;
  constexpr uint32_t kMask = (1u << Bits) - 1;
  constexpr bool kSums = Bits < 8;            // zero points are taken off the sums, not off each number
  constexpr int kChains = Rows == 1 ? 2 : 1;  // of sums, which wait for each other
  constexpr int kStep = kLanes * (kPlanes + kSums);
  NbitFloats total[Rows]{};
  const uint8_t* weight = row.weight;
  int64_t bytes = form.row_bytes;
  const int32_t* places = form.places.data();
  for (int64_t block = 0; block < form.cut.blocks; block += kLanes) {
    NbitFloats scales, zeros;
    load_blocks(row, block, form.cut.blocks - block, scales, zeros);
    for (int64_t v = 0; v < form.group && bytes > 0; ++v, weight += kVectorBytes, bytes -= kVectorBytes, x += kStep) {
      NbitWords words;
      load_words(weight, bytes, words);
      NbitFloats scale, zero;
      pick(scales, places + v * kLanes, scale);
      pick(zeros, places + v * kLanes, zero);
      NbitFloats sums[Rows][kChains]{};
#pragma GCC unroll 16
      for (int p = 0; p < kPlanes; ++p) {
        const NbitWords part = !kSums || p + 1 == kPlanes ? words >> (p * Bits) & kMask : words & kMask << (p * Bits);
        NbitFloats number = __builtin_convertvector(NbitInts(part), NbitFloats);
        if (!kSums) number -= zero;
#pragma GCC unroll 4
        for (int r = 0; r < Rows; ++r) sums[r][p % kChains] += number * eight(x + p * kLanes + r * x_row);
      }
#pragma GCC unroll 4
      for (int r = 0; r < Rows; ++r) {
        NbitFloats sum = sums[r][0];
        if (kChains > 1) sum += sums[r][kChains - 1];
        if (kSums) sum -= zero * eight(x + kPlanes * kLanes + r * x_row);
        total[r] += sum * scale;
      }
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < Rows; ++r) {
    float sum = 0;
    for (int l = 0; l < kLanes; ++l) sum += total[r][l];
    y[r] = sum;
  }
}

constexpr int kDotRows = 4;  // at a time, in registers

template <int Bits>
PL_INLINE void dot_some(const NbitsForm& form, const NbitsRow& row, int rows, const float* x, int64_t x_row, float* y) {
  switch (rows) {
    case 1: return dot_rows<Bits, 1>(form, row, x, x_row, y);
    case 2: return dot_rows<Bits, 2>(form, row, x, x_row, y);
    case 3: return dot_rows<Bits, 3>(form, row, x, x_row, y);
    default: return dot_rows<Bits, 4>(form, row, x, x_row, y);
  }
}
PL_VECTORISED void dot_2(const NbitsForm& form, const NbitsRow& row, int rows, const float* x, int64_t step, float* y) {
  dot_some<2>(form, row, rows, x, step, y);
}
PL_VECTORISED void dot_4(const NbitsForm& form, const NbitsRow& row, int rows, const float* x, int64_t step, float* y) {
  dot_some<4>(form, row, rows, x, step, y);
}
PL_VECTORISED void dot_8(const NbitsForm& form, const NbitsRow& row, int rows, const float* x, int64_t step, float* y) {
  dot_some<8>(form, row, rows, x, step, y);
}

// The floats of vectors [first, last) of a row, by planes.
template <int Bits>
PL_INLINE void unpack_some(const NbitsForm& form, const NbitsRow& row, int64_t first, int64_t last, float* to) {
  constexpr int kPlanes = 32 / Bits;
  constexpr uint32_t kMask = (1u << Bits) - 1;
  NbitFloats scales{}, zeros{};
  int64_t known = -1;  // the group whose scales these are
  for (int64_t v = first; v < last; ++v, to += kLanes * kPlanes) {
    const int64_t group = v / form.group;
    if (group != known) load_blocks(row, group * kLanes, form.cut.blocks - group * kLanes, scales, zeros);
    known = group;
    const int32_t* places = form.places.data() + v % form.group * kLanes;
    NbitFloats scale, zero;
    pick(scales, places, scale);
    pick(zeros, places, zero);
    NbitWords words;
    load_words(row.weight + v * kVectorBytes, form.row_bytes - v * kVectorBytes, words);
#pragma GCC unroll 16
    for (int p = 0; p < kPlanes; ++p) {
      const NbitInts number = NbitInts(words >> (p * Bits) & kMask);
      eight(to + p * kLanes) = (__builtin_convertvector(number, NbitFloats) - zero) * scale;
    }
  }
}
PL_VECTORISED void unpack_2(const NbitsForm& form, const NbitsRow& row, int64_t first, int64_t last, float* to) {
  unpack_some<2>(form, row, first, last, to);
}
PL_VECTORISED void unpack_4(const NbitsForm& form, const NbitsRow& row, int64_t first, int64_t last, float* to) {
  unpack_some<4>(form, row, first, last, to);
}
PL_VECTORISED void unpack_8(const NbitsForm& form, const NbitsRow& row, int64_t first, int64_t last, float* to) {
  unpack_some<8>(form, row, first, last, to);
}

// What both kernels know of a call.
struct NbitsCall {
  NbitsForm form;
  int64_t rows, columns;
  bool has_zero, has_bias;

  explicit NbitsCall(const Op& op)
      : form(op),
        rows(op.in(kX).elements() / std::max<int64_t>(form.cut.depth, 1)),
        columns(op.in(kWeight).shape[0]),
        has_zero(op.has(kZeroPoint)),
        has_bias(op.has(kBias)) {}

  NbitsRow row(const KernelArguments& arguments, int64_t column) const {
    const auto* zero = has_zero ? static_cast<const uint8_t*>(input(arguments, kZeroPoint)) : nullptr;
    return {static_cast<const uint8_t*>(input(arguments, kWeight)) + column * form.row_bytes,
            static_cast<const float*>(input(arguments, kScale)) + column * form.cut.blocks,
            zero ? zero + column * form.cut.blocks : nullptr, float(1 << (form.cut.bits - 1))};
  }
  const float* x(const KernelArguments& arguments) const { return static_cast<const float*>(input(arguments, kX)); }
  const float* bias(const KernelArguments& arguments) const {
    return has_bias ? static_cast<const float*>(input(arguments, kBias)) : nullptr;
  }
  float* workspace(const KernelArguments& arguments) const { return static_cast<float*>(arguments.workspace->host()); }
};

// Nanoseconds of one core for a number of a weight, and for a multiply-add.
constexpr double kNumberNanoseconds = 0.06, kProductNanoseconds = 0.02;

struct DotsBody : NbitsCall {
  explicit DotsBody(const NbitsCall& call) : NbitsCall(call) {}

  void operator()(const KernelArguments& arguments) const {
    const int64_t step = form.floats_of_dots();
    float* ordered = workspace(arguments);
    parallel_for(rows, double(form.numbers()), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) form.order_for_dots(x(arguments) + r * form.cut.depth, ordered + r * step);
    });
    const auto dot = form.cut.bits == 2 ? dot_2 : form.cut.bits == 4 ? dot_4 : dot_8;
    const float* added = bias(arguments);
    float* y = static_cast<float*>(output(arguments));
    const double nanoseconds = double(form.numbers()) * (kNumberNanoseconds + kProductNanoseconds * double(rows));
    parallel_for(columns, nanoseconds, [&](int64_t begin, int64_t end) {
      for (int64_t column = begin; column < end; ++column) {
        const NbitsRow weights = row(arguments, column);
        for (int64_t r = 0; r < rows; r += kDotRows) {
          float sums[kDotRows];
          const int count = int(std::min<int64_t>(kDotRows, rows - r));
          dot(form, weights, count, ordered + r * step, step, sums);
          for (int i = 0; i < count; ++i) y[(r + i) * columns + column] = sums[i] + (added ? added[column] : 0.0f);
        }
      }
    });
  }
  size_t workspace_bytes() const { return size_t(rows * form.floats_of_dots()) * sizeof(float); }
};

// Rows and vectors of weights that a thread does at a time.
constexpr int64_t kPanelRows = 512, kPanelVectors = 8;
constexpr int kPanels = 3;  // that BlockProduct has in registers

struct PanelsBody : NbitsCall {
  BlockProduct product;
  int64_t threads;

  PanelsBody(const NbitsCall& call, const BlockProduct& chosen, int64_t most)
      : NbitsCall(call), product(chosen), threads(std::min(most, tasks())) {}

  int64_t width() const { return int64_t(kPanels) * product.width; }
  int64_t row_parts() const { return (rows + kPanelRows - 1) / kPanelRows; }
  int64_t tasks() const { return row_parts() * ((columns + width() - 1) / width()); }
  int64_t depth() const { return kPanelVectors * kLanes * form.planes(); }  // of a piece

  struct Space {
    int64_t floats, panels, sums;  // where they begin
    int64_t total;
  };
  Space space() const {
    Pieces pieces;
    const int64_t floats = pieces.take(product.width * depth()), panels = pieces.take(width() * depth());
    const int64_t sums = pieces.take(std::min(rows, kPanelRows) * width());
    return {floats, panels, sums, pieces.total()};
  }
  size_t workspace_bytes() const {
    return size_t(round_up(rows * form.numbers(), 16) + threads * space().total) * sizeof(float);
  }

  void operator()(const KernelArguments& arguments) const {
    const int64_t step = form.numbers(), all = tasks();
    float* ordered = workspace(arguments);
    parallel_for(rows, double(step), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) form.order(x(arguments) + r * form.cut.depth, ordered + r * step);
    });
    float* spaces = ordered + round_up(rows * step, 16);
    in_shares(int(threads), all, [&](int64_t rank, Shares::Taker take) {
      for (int64_t task; (task = take()) >= 0;) run(arguments, ordered, task, spaces + rank * space().total);
    });
  }

  // All depth of some rows and columns.
  void run(const KernelArguments& arguments, const float* ordered, int64_t task, float* own) const {
    const auto unpack = form.cut.bits == 2 ? unpack_2 : form.cut.bits == 4 ? unpack_4 : unpack_8;
    static const TransposeRun transpose = transposer(sizeof(float));
    const Space space = this->space();
    float *floats = own + space.floats, *panels = own + space.panels, *sums = own + space.sums;
    const int64_t first_row = task % row_parts() * kPanelRows, first = task / row_parts() * width();
    const int64_t count = std::min(kPanelRows, rows - first_row), some = std::min(width(), columns - first);
    Product job;
    job.rows = count, job.panels = (some + product.width - 1) / product.width;
    job.a_step = form.numbers();
    job.b = panels, job.b_step = product.width;
    job.c = sums, job.c_step = width();
    for (int64_t v = 0; v < form.vectors; v += kPanelVectors) {
      const int64_t last = std::min(v + kPanelVectors, form.vectors);
      job.depth = (last - v) * kLanes * form.planes();
      job.b_panel_step = product.width * job.depth;
      job.a = ordered + first_row * job.a_step + v * kLanes * form.planes();
      job.accumulate = v > 0;
      for (int64_t panel = 0; panel < job.panels; ++panel) {
        const int64_t begin = panel * product.width, here = std::min<int64_t>(product.width, some - begin);
        float* to = panels + panel * job.b_panel_step;
        if (here < product.width) std::fill_n(to, job.b_panel_step, 0.0f);
        for (int64_t c = 0; c < here; ++c)
          unpack(form, row(arguments, first + begin + c), v, last, floats + c * job.depth);
        transpose(floats, job.depth, to, product.width, here, job.depth);
      }
      product.run(job);
    }
    const float* added = bias(arguments);
    for (int64_t r = 0; r < count; ++r) {
      float* y = static_cast<float*>(output(arguments)) + (first_row + r) * columns + first;
      const float* from = sums + r * width();
      for (int64_t c = 0; c < some; ++c) y[c] = from[c] + (added ? added[first + c] : 0.0f);
    }
  }
};

struct NbitsReference {
  std::vector<TensorDesc> inputs;
  TensorDesc y;
  WeightBlocks cut;

  void operator()(const KernelArguments& arguments) const {
    const auto read = [&](size_t i) {
      return PlainDoubles::read(input_desc(inputs, i), input_data(inputs, arguments, i));
    };
    const auto x = read(kX), scale = read(kScale), bias = read(kBias);
    const auto* weight = static_cast<const uint8_t*>(input(arguments, kWeight));
    const auto* zero = static_cast<const uint8_t*>(input_data(inputs, arguments, kZeroPoint));
    const int64_t columns = inputs[kWeight].shape[0], rows = y.elements() / std::max<int64_t>(columns, 1);
    const int64_t mask = (1 << cut.bits) - 1, row_bytes = cut.blocks * cut.block_bytes();
    std::vector<double> result(size_t(y.elements()));
    parallel_for(columns, double(cut.depth * rows), [&](int64_t begin, int64_t end) {
      std::vector<double> numbers(size_t(cut.depth));
      for (int64_t column = begin; column < end; ++column) {
        for (int64_t i = 0; i < cut.depth; ++i) {
          const int64_t bit = i * cut.bits, block = column * cut.blocks + i / cut.block;
          const int64_t number = weight[column * row_bytes + bit / 8] >> (bit % 8) & mask;
          const int64_t point = zero ? int64_t(zero[block]) : int64_t(1) << (cut.bits - 1);
          numbers[size_t(i)] = double(number - point) * scale[size_t(block)];
        }
        for (int64_t r = 0; r < rows; ++r) {
          double sum = bias.empty() ? 0.0 : bias[size_t(column)];
          for (int64_t i = 0; i < cut.depth; ++i) sum += x[size_t(r * cut.depth + i)] * numbers[size_t(i)];
          result[size_t(r * columns + column)] = sum;
        }
      }
    });
    PlainDoubles::write(y, output(arguments), result);
  }
};

// How near the roofline they come, on a core of a Zen 3.
constexpr double kReachOfReading = 0.5, kReachOfDots = 0.32, kReachOfPanels = 0.8;
constexpr int64_t kReadRows = 2, kMostDotRows = 32, kLeastPanelRows = 4;
constexpr double kUnpackingAsRows = 20;  // what it takes to unpack a number, in multiply-adds

template <class Body>
void add_nbits(const char* name, double efficiency, const std::vector<TensorDesc>& inputs, const TensorDesc& y,
               Body body, CandidateList& out) {
  const size_t bytes = body.workspace_bytes();
  add_candidate(out, name, Quality::fast, inputs, {y}, [body = std::move(body)] { return body; });
  out.candidates.back().workspace_bytes = bytes;
  out.candidates.back().efficiency = efficiency;
}

void list_linear_nbits(const Op& op, CandidateList& out) {
  std::vector<TensorDesc> inputs;
  for (const TensorDesc& desc : op.inputs) inputs.push_back(dense_plain(desc));
  const TensorDesc y = dense_plain(op.out());
  if (op.in(kX).dtype == DType::f32 && !op.has_empty_tensor() && NbitsForm::suits(op)) {
    const NbitsCall call(op);
    if (call.rows <= kMostDotRows)
      add_nbits("dots", call.rows <= kReadRows ? kReachOfReading : kReachOfDots, inputs, y, DotsBody(call), out);
    if (call.rows >= kLeastPanelRows)
      add_nbits("panels", kReachOfPanels * double(call.rows) / (double(call.rows) + kUnpackingAsRows), inputs, y,
                PanelsBody(call, block_product(), std::max(1, omp_get_max_threads())), out);
  }
  add_candidate(out, "reference", Quality::reference, inputs, {y},
                [body = NbitsReference{inputs, y, WeightBlocks(op)}] { return body; });
}
PL_HOST_KIND("linear_nbits", list_linear_nbits);

}  // namespace
}  // namespace pl::host
