// Kind reduce: sum, mean, amax, amin, prod, reduce_l1, reduce_l2, reduce_sum_square over any dimensions.
//
// Floats: a run of up to kChunk neighbours is summed in f32 in 16 lanes, the runs in double.  Integers in 64 bits,
// wrapping around.  When neighbours in memory belong to different results, those are accumulated side by side.
#include <cmath>
#include <limits>

#include "providers/host/common/host.h"
#include "providers/host/common/split_walk.h"
#include "providers/host/reduce/reduction_functions.h"

namespace pl::host {
namespace {

constexpr double kReduceNanoseconds = 0.3;  // work of one element on one core
constexpr int64_t kRowElements = 8;         // rows of fewer neighbours are faster side by side

enum class Finish { none, divide, root };

template <class C>
struct ReduceBody {
  using A = Accumulator<C>;

  SplitWalk split;  // over x, out
  DType from;
  bool direct;  // x holds C itself
  Finish finish;
  ReductionRuns<C> function;
  LoadRun<C> load;
  StoreRun<A> store;
  PaddingZeroer zeroer;

  A finished(A value) const {
    if (finish == Finish::divide) return A(double(value) / double(split.along_elements));
    if (finish == Finish::root) return A(std::sqrt(double(value)));
    return value;
  }

  A reduce_from(const Nest& nest, const void* x, int64_t offset, int64_t begin, int64_t end) const {
    A total = function.start;
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
        total = function.join(total, A(function.run(values, count)));
      }
    });
    return total;
  }

  // One result for all of x: its parts on all cores, in an order that does not depend on the number of threads.
  A reduce_everything(const void* x, int64_t offset) const {
    A total = function.start;
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
      std::vector<A> partial(size_t(std::min<int64_t>(runs, 64)), function.start);
      const int64_t parts = int64_t(partial.size());
      parallel_for(parts, kReduceNanoseconds * double(pieces.elements()) / double(parts),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t p = begin; p < end; ++p)
                       partial[size_t(p)] = reduce_from(pieces, x, offset, runs * p / parts, runs * (p + 1) / parts);
                   });
      for (A value : partial) total = function.join(total, value);
      if (pieces.loops.size() != nest.loops.size() && n % (16 * kChunk)) {
        Nest rest = nest;
        rest.base[0] += n / (16 * kChunk) * 16 * kChunk * nest.run().stride[0];
        rest.loops[0].size = n % (16 * kChunk);
        total = function.join(total, reduce_from(rest, x, offset, 0, 1));
      }
    }
    return total;
  }

  // n <= kChunk results, whose first elements lie x_step apart.
  void reduce_side_by_side(const void* x, void* out, const int64_t* kept, int64_t n, int64_t x_step,
                           int64_t out_step) const {
    A accumulators[kChunk];
    C buffer[kChunk];
    std::fill(accumulators, accumulators + n, function.start);
    for (const Nest& nest : split.along) {
      const int64_t step = nest.run().stride[0];
      walk(nest, 0, nest.runs(), [&](const int64_t* offsets, int64_t count) {
        for (int64_t i = 0; i < count; ++i) {
          const int64_t first = kept[0] + offsets[0] + i * step;
          const C* values = static_cast<const C*>(x) + first;
          if (!direct || x_step != 1) {
            load(x, first, x_step, n, buffer);
            values = buffer;
          }
          function.rows(values, accumulators, n);
        }
      });
    }
    for (int64_t i = 0; i < n; ++i) accumulators[i] = finished(accumulators[i]);
    store(accumulators, n, out, kept[1], out_step);
  }

  // n results of one run each; what has to be converted is so for as many at once as lie side by side and fit.
  void reduce_runs(const void* x, int64_t first, int64_t n, int64_t x_step, A* values) const {
    C buffer[kChunk];
    const int64_t length = split.along_elements, step = direct ? x_step : length;
    const int64_t most = direct ? n : x_step == length ? kChunk / length : 1;
    for (int64_t i = 0; i < n; i += most) {
      const int64_t count = std::min(most, n - i);
      const C* rows = buffer;
      if (direct)
        rows = static_cast<const C*>(x) + first + i * x_step;
      else
        load(x, first + i * x_step, 1, count * length, buffer);
      for (int64_t r = 0; r < count; ++r) values[i + r] = finished(A(function.run(rows + r * step, length)));
    }
  }

  // The same, each from all of its elements.
  void reduce_one_by_one(const void* x, void* out, const int64_t* kept, int64_t n, int64_t x_step,
                         int64_t out_step) const {
    A values[kChunk];
    if (split.contiguous(0) && split.along_elements <= kChunk) {
      reduce_runs(x, kept[0] + split.along[0].base[0], n, x_step, values);
      return store(values, n, out, kept[1], out_step);
    }
    for (int64_t i = 0; i < n; ++i) {
      A value = function.start;
      for (const Nest& along : split.along)
        value = function.join(value, reduce_from(along, x, kept[0] + i * x_step, 0, along.runs()));
      values[i] = finished(value);
    }
    store(values, n, out, kept[1], out_step);
  }

  void operator()(const KernelArguments& arguments) const {
    const void* x = input(arguments, 0);
    void* out = output(arguments);
    const double work = kReduceNanoseconds * double(split.along_elements) + 10;
    const bool rows = split.contiguous(0) && split.along_elements >= kRowElements;
    for (const Nest& nest : split.kept) {
      const Loop& kept = nest.run();
      if (nest.elements() == 1) {
        const A value = finished(reduce_everything(x, nest.base[0]));
        store(&value, 1, out, nest.base[1], 1);
      } else if (split.side_by_side(nest) || (split.many_short(nest) && !rows)) {
        for_each_run(nest, work, [&](const int64_t* offsets, int64_t n) {
          for (int64_t i = 0; i < n; i += kChunk) {
            const int64_t first[2] = {offsets[0] + i * kept.stride[0], offsets[1] + i * kept.stride[1]};
            reduce_side_by_side(x, out, first, std::min(kChunk, n - i), kept.stride[0], kept.stride[1]);
          }
        });
      } else {
        for_each_run(nest, work, [&](const int64_t* offsets, int64_t n) {
          for (int64_t i = 0; i < n; i += kChunk) {
            const int64_t first[2] = {offsets[0] + i * kept.stride[0], offsets[1] + i * kept.stride[1]};
            reduce_one_by_one(x, out, first, std::min(kChunk, n - i), kept.stride[0], kept.stride[1]);
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
void add_reduction(CandidateList& out, const Shapes& shapes, Finish finish, StoreRun<typename ReduceBody<C>::A> store,
                   LoadRun<C> load) {
  add_candidate(out, "reduce", Quality::fast, {shapes.x}, {shapes.y}, [=] {
    const TensorDesc &x = shapes.x, &y = shapes.y;
    // The result with the reduced dimensions put back, at size 1.
    const TensorDesc lifted = y.rank() == x.rank() ? y : insert_dims(y, shapes.reduced);
    const bool direct = x.dtype == (std::is_same_v<C, float> ? DType::f32 : DType::s64);
    return ReduceBody<C>{SplitWalk(x.shape, shapes.reduced, {{x, {}}, {lifted, {}}}),
                         x.dtype,
                         direct,
                         finish,
                         reduction_runs<F, C>(),
                         load,
                         store,
                         PaddingZeroer(y)};
  });
}

template <template <class> class F>
void add_for_dtype(CandidateList& out, const Shapes& shapes, Finish finish) {
  const DType dtype = shapes.x.dtype;
  if (is_floating(dtype))
    add_reduction<F, float>(out, shapes, finish, double_storer(dtype), float_loader(dtype));
  else
    add_reduction<F, int64_t>(out, shapes, finish, integer_storer(dtype), integer_loader(dtype));
}

void list_reduce(const Op& op, CandidateList& out) {
  const std::string& name = op.attributes[attr::function];
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    Shapes shapes{op.in(0).with_layout(layout), dense_as(op.out(), layout), {}};
    if (op.out().rank() != layout.rank()) shapes.y = dense_plain(op.out());
    shapes.reduced.assign(size_t(layout.rank()), false);
    for (int64_t dim : op.attributes[attr::dim_ints]) shapes.reduced[size_t(dim)] = true;
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
PL_HOST_KIND("reduce", list_reduce);

}  // namespace
}  // namespace pl::host
