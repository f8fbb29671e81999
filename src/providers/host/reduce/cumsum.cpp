// Kind cumsum: running sums and products, in double or of 64 bits.
//
// When neighbours in memory belong to different rows, up to kChunk rows run side by side.  Otherwise kTogether rows of
// doubles take turns, kChunk elements of each at a time, since a row's next sum waits for the one before.  Integers wait
// less, so their rows run one by one, without buffers where s64 lie side by side.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "providers/host/common/host.h"
#include "providers/host/common/split_walk.h"

namespace pl::host {
namespace {

template <class T>
using Modular = std::conditional_t<std::is_same_v<T, int64_t>, uint64_t, T>;  // wraps around

template <class T>
struct RunningSum {
  static constexpr T start() { return T(0); }
  static PL_INLINE T join(T a, T b) { return T(Modular<T>(a) + Modular<T>(b)); }
};
template <class T>
struct RunningProduct {
  static constexpr T start() { return T(1); }
  static PL_INLINE T join(T a, T b) { return T(Modular<T>(a) * Modular<T>(b)); }
};
// log(exp(a) + exp(b)).
template <class T>
struct RunningLogOfExponents {
  static constexpr T start() { return -std::numeric_limits<T>::infinity(); }
  static PL_INLINE T join(T a, T b) {
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
    const T larger = std::max(a, b), smaller = std::min(a, b);
    return std::isinf(larger) ? larger : larger + std::log1p(std::exp(smaller - larger));
  }
};

constexpr int kTogether = 4;

// values[r][i], for kTogether rows, becomes what totals[r] and the row's values up to i give; totals[r] becomes the last
// of them.
template <class F, class T>
PL_VECTORISED void run_together(T* totals, T (*values)[kChunk], int64_t n) {
  T sums[kTogether];
  std::copy_n(totals, kTogether, sums);
  for (int64_t i = 0; i < n; ++i)
#pragma GCC unroll 8
    for (int r = 0; r < kTogether; ++r) values[r][i] = sums[r] = F::join(sums[r], values[r][i]);
  std::copy_n(sums, kTogether, totals);
}
// The same of one row, from x to y, which may be one place.
template <class F, class T>
PL_VECTORISED void run_along(T* total, const T* x, T* y, int64_t n) {
  T sum = *total;
  for (int64_t i = 0; i < n; ++i) y[i] = sum = F::join(sum, x[i]);
  *total = sum;
}
template <class F, class T>
PL_VECTORISED void run_across(T* totals, const T* values, int64_t n) {
  for (int64_t i = 0; i < n; ++i) totals[i] = F::join(totals[i], values[i]);
}

template <class T>
struct Cumulation {
  T start;
  void (*along)(T* total, const T* x, T* y, int64_t n);
  void (*together)(T* totals, T (*values)[kChunk], int64_t n);
  void (*across)(T* totals, const T* values, int64_t n);
};
template <template <class> class Function, class T>
Cumulation<T> cumulation() {
  return {Function<T>::start(), run_along<Function<T>, T>, run_together<Function<T>, T>, run_across<Function<T>, T>};
}

constexpr double kCumsumNanoseconds = 1.5;  // work of one element on one core

template <class T>
struct CumsumBody {
  SplitWalk split;  // operand 0: y, 1: x
  bool direct;      // x and y hold T
  Cumulation<T> function;
  LoadRun<T> load;
  StoreRun<T> store;
  PaddingZeroer zeroer;

  // n <= kChunk rows, whose first elements lie y_step and x_step apart.
  void rows_side_by_side(const void* x, void* y, const int64_t* kept, int64_t n, int64_t y_step, int64_t x_step) const {
    T totals[kChunk], values[kChunk];
    std::fill(totals, totals + n, function.start);
    for (const Nest& nest : split.along) {
      const Loop& run = nest.run();
      walk(nest, 0, nest.runs(), [&](const int64_t* offsets, int64_t count) {
        for (int64_t i = 0; i < count; ++i) {
          load(x, kept[1] + offsets[1] + i * run.stride[1], x_step, n, values);
          function.across(totals, values, n);
          store(totals, n, y, kept[0] + offsets[0] + i * run.stride[0], y_step);
        }
      });
    }
  }

  void one_row(const void* x, void* y, const int64_t* first) const {
    T total = function.start, values[kChunk];
    for (const Nest& nest : split.along) {
      const Loop& run = nest.run();
      walk(nest, 0, nest.runs(), [&](const int64_t* offsets, int64_t n) {
        const int64_t y_at = first[0] + offsets[0], x_at = first[1] + offsets[1];
        if (direct && run.stride[0] == 1 && run.stride[1] == 1)
          return function.along(&total, static_cast<const T*>(x) + x_at, static_cast<T*>(y) + y_at, n);
        for (int64_t i = 0; i < n; i += kChunk) {
          const int64_t count = std::min(kChunk, n - i);
          load(x, x_at + i * run.stride[1], run.stride[1], count, values);
          function.along(&total, values, values, count);
          store(values, count, y, y_at + i * run.stride[0], run.stride[0]);
        }
      });
    }
  }

  // kTogether rows, which begin y_step and x_step apart.
  void rows_together(const void* x, void* y, const int64_t* first, int64_t y_step, int64_t x_step) const {
    T totals[kTogether], values[kTogether][kChunk];
    std::fill_n(totals, kTogether, function.start);
    for (const Nest& nest : split.along) {
      const Loop& run = nest.run();
      walk(nest, 0, nest.runs(), [&](const int64_t* offsets, int64_t n) {
        for (int64_t i = 0; i < n; i += kChunk) {
          const int64_t count = std::min(kChunk, n - i);
          const int64_t y_at = first[0] + offsets[0] + i * run.stride[0];
          const int64_t x_at = first[1] + offsets[1] + i * run.stride[1];
          for (int r = 0; r < kTogether; ++r) load(x, x_at + r * x_step, run.stride[1], count, values[r]);
          function.together(totals, values, count);
          for (int r = 0; r < kTogether; ++r) store(values[r], count, y, y_at + r * y_step, run.stride[0]);
        }
      });
    }
  }

  void operator()(const KernelArguments& arguments) const {
    const void* x = input(arguments, 0);
    void* y = output(arguments);
    constexpr bool waits = std::is_same_v<T, double>;
    const double work = kCumsumNanoseconds * double(split.along_elements) + 10;
    for (const Nest& nest : split.kept) {
      const Loop& kept = nest.run();
      const bool across = split.side_by_side(nest) || split.many_short(nest);
      for_each_run(nest, work, [&](const int64_t* offsets, int64_t n) {
        for (int64_t i = 0, rows; i < n; i += rows) {
          rows = across ? std::min(kChunk, n - i) : waits && n - i >= kTogether ? kTogether : 1;
          const int64_t first[2] = {offsets[0] + i * kept.stride[0], offsets[1] + i * kept.stride[1]};
          if (across)
            rows_side_by_side(x, y, first, rows, kept.stride[0], kept.stride[1]);
          else if (rows == kTogether)
            rows_together(x, y, first, kept.stride[0], kept.stride[1]);
          else
            one_row(x, y, first);
        }
      });
    }
    zeroer.run(y);
  }
};

template <class T>
void add_cumulation(const Op& op, CandidateList& out, const Cumulation<T>& function, LoadRun<T> load,
                    StoreRun<T> store) {
  std::vector<bool> along(size_t(op.in(0).rank()), false);
  along[size_t(op.attributes[attr::dim])] = true;
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    const TensorDesc x = op.in(0).with_layout(layout), y = op.out().with_layout(layout);
    add_candidate(out, op.schema->name, Quality::fair, {x}, {y}, [=] {
      return CumsumBody<T>{SplitWalk(x.shape, along, {{y, {}}, {x, {}}}),
                           std::is_same_v<T, int64_t> && x.dtype == DType::s64 && y.dtype == DType::s64,
                           function,
                           load,
                           store,
                           PaddingZeroer(y)};
    });
  }
}

void list_cumsum(const Op& op, CandidateList& out) {
  const DType dtype = op.in(0).dtype;
  const std::string& name = op.attributes[attr::function];
  if (is_floating(dtype)) {
    const Cumulation<double> function = name == "sum"    ? cumulation<RunningSum, double>()
                                        : name == "prod" ? cumulation<RunningProduct, double>()
                                                         : cumulation<RunningLogOfExponents, double>();
    return add_cumulation(op, out, function, double_loader(dtype), double_storer(dtype));
  }
  const Cumulation<int64_t> function =
      name == "sum" ? cumulation<RunningSum, int64_t>() : cumulation<RunningProduct, int64_t>();
  add_cumulation(op, out, function, integer_loader(dtype), integer_storer(dtype));
}
PL_HOST_KIND("cumsum", list_cumsum);

}  // namespace
}  // namespace pl::host
