// Kind reduce: sum, mean, amax, amin, prod, reduce_l1, reduce_l2, reduce_sum_square over any dimensions.
//
// Floats: a run of up to kChunk neighbours is summed in f32 in 16 lanes, the runs in double.  Integers in 64 bits,
// wrapping around.  When neighbours in memory belong to different results, those are accumulated side by side.
#include <cmath>
#include <limits>

#include "providers/host/host.h"
#include "providers/host/split_walk.h"
#include "providers/host/vector_math.h"

namespace pl::host {
namespace {

constexpr double kNanoseconds = 0.3;  // work of one element on one core

// Each function: where accumulation starts, what an element contributes, how contributions join, and what becomes
// of the whole.
template <class T>
struct Sum {
  static constexpr T start() { return T(0); }
  static PL_INLINE T of(T x) { return x; }
  static PL_INLINE T join(T a, T b) { return T(a + b); }
};
template <>
struct Sum<int64_t> {
  static constexpr int64_t start() { return 0; }
  static PL_INLINE int64_t of(int64_t x) { return x; }
  static PL_INLINE int64_t join(int64_t a, int64_t b) { return int64_t(uint64_t(a) + uint64_t(b)); }
};
template <class T>
struct SumAbsolute : Sum<T> {
  static PL_INLINE T of(T x) { return x < T(0) ? -x : x; }
};
template <class T>
struct SumSquare : Sum<T> {
  static PL_INLINE T of(T x) { return x * x; }
};
template <class T>
struct Product {
  static constexpr T start() { return T(1); }
  static PL_INLINE T of(T x) { return x; }
  static PL_INLINE T join(T a, T b) { return a * b; }
};
template <>
struct Product<int64_t> {
  static constexpr int64_t start() { return 1; }
  static PL_INLINE int64_t of(int64_t x) { return x; }
  static PL_INLINE int64_t join(int64_t a, int64_t b) { return int64_t(uint64_t(a) * uint64_t(b)); }
};
// Written so that NaN wins and then stays; integers have none.
template <class T>
struct Maximum {
  static constexpr T start() {
    return std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::min();
  }
  static PL_INLINE T of(T x) { return x; }
  static PL_INLINE T join(T a, T b) { return a != a ? a : (a < b || b != b ? b : a); }
};
template <class T>
struct Minimum {
  static constexpr T start() {
    return std::numeric_limits<T>::has_infinity ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
  }
  static PL_INLINE T of(T x) { return x; }
  static PL_INLINE T join(T a, T b) { return a != a ? a : (a > b || b != b ? b : a); }
};

// The contributions of n neighbours, n at most kChunk, in 16 lanes.
template <class F, class C>
PL_VECTORISED C reduce_run(const C* x, int64_t n) {
  constexpr int kLanes = 16;
  C lanes[kLanes];
  for (int l = 0; l < kLanes; ++l) lanes[l] = F::start();
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int l = 0; l < kLanes; ++l) lanes[l] = F::join(lanes[l], F::of(x[i + l]));
  C result = F::start();
  for (; i < n; ++i) result = F::join(result, F::of(x[i]));
  for (int l = 0; l < kLanes; ++l) result = F::join(result, lanes[l]);
  return result;
}

// Accumulators are double for float, int64 for int64.
template <class FA, class C, class A>
PL_VECTORISED void reduce_rows(const C* x, A* accumulators, int64_t n) {
  for (int64_t i = 0; i < n; ++i) accumulators[i] = FA::join(accumulators[i], FA::of(A(x[i])));
}

enum class Finish { none, divide, root };

template <class C>
struct ReduceBody {
  using A = std::conditional_t<std::is_same_v<C, float>, double, int64_t>;

  SplitWalk split;  // over x, out
  DType from;
  bool direct;  // x holds C itself
  Finish finish;
  A start;
  C (*run)(const C*, int64_t);
  A (*join)(A, A);
  void (*rows)(const C*, A*, int64_t);
  LoadRun<C> load;
  StoreRun<A> store;
  PaddingZeroer zeroer;

  A finished(A value) const {
    if (finish == Finish::divide) return A(double(value) / double(split.along_elements));
    if (finish == Finish::root) return A(std::sqrt(double(value)));
    return value;
  }

  A reduce_from(const Nest& nest, const void* x, int64_t offset, int64_t begin, int64_t end) const {
    A total = start;
    const int64_t step = nest.run().stride[0];
    C buffer[kChunk];
    walk(nest, begin, end, [&](const int64_t* offsets, int64_t n) {
      const int64_t first = offset + offsets[0];
      for (int64_t i = 0; i < n; i += kChunk) {
        const int64_t count = std::min(kChunk, n - i);
        const C* values = static_cast<const C*>(x) + first + i;
        if (!direct || step != 1) {
          load(x, first + i * step, step, count, buffer);
          values = buffer;
        }
        total = join(total, A(run(values, count)));
      }
    });
    return total;
  }

  // One result for all of x: its parts on all cores, in an order that does not depend on the number of threads.
  A reduce_everything(const void* x, int64_t offset) const {
    A total = start;
    for (const Nest& nest : split.along) {
      Nest pieces = nest;
      const int64_t n = nest.run().size;
      if (nest.loops.size() == 1 && n >= 16 * kChunk) {  // one long run: cut it
        pieces.loops[0].size = n / (16 * kChunk);
        for (int64_t& stride : pieces.loops[0].stride) stride *= 16 * kChunk;
        pieces.loops.push_back(nest.run());
        pieces.loops.back().size = 16 * kChunk;
      }
      const int64_t runs = pieces.runs();
      std::vector<A> partial(size_t(std::min<int64_t>(runs, 64)), start);
      const int64_t parts = int64_t(partial.size());
      parallel_for(parts, kNanoseconds * double(pieces.elements()) / double(parts), [&](int64_t begin, int64_t end) {
        for (int64_t p = begin; p < end; ++p)
          partial[size_t(p)] = reduce_from(pieces, x, offset, runs * p / parts, runs * (p + 1) / parts);
      });
      for (A value : partial) total = join(total, value);
      if (pieces.loops.size() != nest.loops.size() && n % (16 * kChunk)) {
        Nest rest = nest;
        rest.base[0] += n / (16 * kChunk) * 16 * kChunk * nest.run().stride[0];
        rest.loops[0].size = n % (16 * kChunk);
        total = join(total, reduce_from(rest, x, offset, 0, 1));
      }
    }
    return total;
  }

  // n <= kChunk results whose elements are neighbours in x.
  void reduce_side_by_side(const void* x, void* out, const int64_t* kept, int64_t n, int64_t out_step) const {
    A accumulators[kChunk];
    C buffer[kChunk];
    std::fill(accumulators, accumulators + n, start);
    for (const Nest& nest : split.along) {
      const int64_t step = nest.run().stride[0];
      walk(nest, 0, nest.runs(), [&](const int64_t* offsets, int64_t count) {
        for (int64_t i = 0; i < count; ++i) {
          const int64_t first = kept[0] + offsets[0] + i * step;
          const C* values = static_cast<const C*>(x) + first;
          if (!direct) {
            load(x, first, 1, n, buffer);
            values = buffer;
          }
          rows(values, accumulators, n);
        }
      });
    }
    for (int64_t i = 0; i < n; ++i) accumulators[i] = finished(accumulators[i]);
    store(accumulators, n, out, kept[1], out_step);
  }

  void operator()(const KernelArguments& arguments) const {
    const void* x = input(arguments, 0);
    void* out = output(arguments);
    const double work = kNanoseconds * double(split.along_elements) + 10;
    for (const Nest& nest : split.kept) {
      const Loop& kept = nest.run();
      if (nest.elements() == 1) {
        const A value = finished(reduce_everything(x, nest.base[0]));
        store(&value, 1, out, nest.base[1], 1);
      } else if (split.side_by_side(nest)) {
        for_each_run(nest, work, [&](const int64_t* offsets, int64_t n) {
          for (int64_t i = 0; i < n; i += kChunk) {
            const int64_t first[2] = {offsets[0] + i, offsets[1] + i * kept.stride[1]};
            reduce_side_by_side(x, out, first, std::min(kChunk, n - i), kept.stride[1]);
          }
        });
      } else {
        for_each_run(nest, work, [&](const int64_t* offsets, int64_t n) {
          for (int64_t i = 0; i < n; ++i) {
            A value = start;
            for (const Nest& along : split.along)
              value = join(value, reduce_from(along, x, offsets[0] + i * kept.stride[0], 0, along.runs()));
            value = finished(value);
            store(&value, 1, out, offsets[1] + i * kept.stride[1], 1);
          }
        });
      }
    }
    zeroer.run(out);
  }
};

struct Shapes {
  TensorDesc x, y;
  std::vector<bool> reduced;
};

template <template <class> class F, class C>
void add(CandidateList& out, const Shapes& shapes, Finish finish, StoreRun<typename ReduceBody<C>::A> store,
         LoadRun<C> load) {
  using A = typename ReduceBody<C>::A;
  add_candidate(out, "reduce", Quality::fast, {shapes.x}, {shapes.y}, [=] {
    const TensorDesc &x = shapes.x, &y = shapes.y;
    // The result with the reduced dimensions put back, at size 1.
    const TensorDesc lifted = y.rank() == x.rank() ? y : insert_dims(y, shapes.reduced);
    const bool direct = x.dtype == (std::is_same_v<C, float> ? DType::f32 : DType::s64);
    return ReduceBody<C>{SplitWalk(x.shape, shapes.reduced, {{x, {}}, {lifted, {}}}),
                         x.dtype,
                         direct,
                         finish,
                         F<A>::start(),
                         reduce_run<F<C>, C>,
                         [](A a, A b) { return F<A>::join(a, b); },
                         reduce_rows<F<A>, C, A>,
                         load,
                         store,
                         PaddingZeroer(y)};
  });
}

template <template <class> class F>
void add_for_dtype(CandidateList& out, const Shapes& shapes, Finish finish) {
  const DType dtype = shapes.x.dtype;
  if (is_floating(dtype))
    add<F, float>(out, shapes, finish, double_storer(dtype), float_loader(dtype));
  else
    add<F, int64_t>(out, shapes, finish, integer_storer(dtype), integer_loader(dtype));
}

void list(const Op& op, CandidateList& out) {
  const std::string& name = op.attributes.text("function");
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    Shapes shapes{op.in(0).with_layout(layout), dense_as(op.out(), layout), {}};
    if (op.out().rank() != layout.rank()) shapes.y = dense_plain(op.out());
    shapes.reduced.assign(size_t(layout.rank()), false);
    for (int64_t dim : op.attributes.integers("dim")) shapes.reduced[size_t(dim)] = true;
    if (name == "sum") add_for_dtype<Sum>(out, shapes, Finish::none);
    if (name == "mean") add_for_dtype<Sum>(out, shapes, Finish::divide);
    if (name == "amax") add_for_dtype<Maximum>(out, shapes, Finish::none);
    if (name == "amin") add_for_dtype<Minimum>(out, shapes, Finish::none);
    if (name == "prod") add_for_dtype<Product>(out, shapes, Finish::none);
    if (name == "reduce_l1") add_for_dtype<SumAbsolute>(out, shapes, Finish::none);
    if (name == "reduce_l2") add_for_dtype<SumSquare>(out, shapes, Finish::root);
    if (name == "reduce_sum_square") add_for_dtype<SumSquare>(out, shapes, Finish::none);
  }
  if (out.candidates.empty()) out.refuse("host", "reduce: function " + name + " is not known");
}
PL_HOST_KIND("reduce", list);

}  // namespace
}  // namespace pl::host
