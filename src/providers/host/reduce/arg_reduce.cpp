// Kind arg_reduce: argmax and argmin.  The first index on ties; NaN counts as the largest (or smallest).
#include <limits>
#include <type_traits>

#include "providers/host/common/host.h"
#include "providers/host/common/split_walk.h"
#include "providers/host/reduce/reduction_functions.h"

namespace pl::host {
namespace {

constexpr double kArgReduceNanoseconds = 1;  // work of one element on one core

// Whether `a` comes before `b`, an earlier element.
template <bool Largest, class C>
PL_INLINE bool beats(C a, C b) {
  if (b != b) return false;
  return a != a || (Largest ? a > b : a < b);
}

// The best piece first, then the place in it.
template <bool Largest, class C>
int64_t best_of_row(const C* row, int64_t n) {
  using Best = std::conditional_t<Largest, Maximum<C>, Minimum<C>>;
  int64_t first = 0;
  C best = reduce_run<Best, C>(row, std::min(kChunk, n));
  for (int64_t i = kChunk; i < n; i += kChunk) {
    const C of_piece = reduce_run<Best, C>(row + i, std::min(kChunk, n - i));
    if (!beats<Largest>(of_piece, best)) continue;
    best = of_piece;
    first = i;
  }
  int64_t at = first;
  while (at + 1 < n && !(row[at] == best || row[at] != row[at])) ++at;
  return at;
}

// Element `index` of each of n rows that lie side by side.
template <bool Largest, class C>
PL_VECTORISED void take_better(const C* values, int64_t index, C* best, int64_t* best_index, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const bool better = beats<Largest>(values[i], best[i]);
    best[i] = better ? values[i] : best[i];
    best_index[i] = better ? index : best_index[i];
  }
}

template <class C>
struct ArgBody {
  bool largest;
  SplitWalk split;  // over x, out
  LoadRun<C> load;
  PaddingZeroer zeroer;

  // n <= kChunk results, whose first elements lie x_step apart.
  void side_by_side(const void* x, int64_t* out, const int64_t* kept, int64_t x_step, int64_t out_step,
                    int64_t n) const {
    C best[kChunk], values[kChunk];
    int64_t best_index[kChunk] = {}, index = 0;
    for (const Nest& nest : split.along)
      walk(nest, 0, nest.runs(), [&](const int64_t* offsets, int64_t count) {
        for (int64_t i = 0; i < count; ++i, ++index) {
          load(x, kept[0] + offsets[0] + i * nest.run().stride[0], x_step, n, index ? values : best);
          if (index) (largest ? take_better<true, C> : take_better<false, C>)(values, index, best, best_index, n);
        }
      });
    for (int64_t i = 0; i < n; ++i) out[kept[1] + i * out_step] = best_index[i];
  }

  void operator()(const KernelArguments& arguments) const {
    const void* x = input(arguments, 0);
    int64_t* out = static_cast<int64_t*>(output(arguments));
    const double work = kArgReduceNanoseconds * double(split.along_elements) + 10;
    for (const Nest& nest : split.kept) {
      const int64_t* stride = nest.run().stride;
      for_each_run(nest, work, [&](const int64_t* offsets, int64_t n) {
        if (split.side_by_side(nest) || split.many_short(nest)) {
          for (int64_t i = 0; i < n; i += kChunk) {
            const int64_t kept[2] = {offsets[0] + i * stride[0], offsets[1] + i * stride[1]};
            side_by_side(x, out, kept, stride[0], stride[1], std::min(kChunk, n - i));
          }
          return;
        }
        std::vector<C> row(size_t(split.along_elements));
        for (int64_t i = 0; i < n; ++i) {
          gather_row(split, 0, load, x, offsets[0] + i * stride[0], row.data());
          out[offsets[1] + i * stride[1]] =
              (largest ? best_of_row<true, C> : best_of_row<false, C>)(row.data(), split.along_elements);
        }
      });
    }
    zeroer.run(out);
  }
};

template <class C>
void add_arg_reduce(const Op& op, CandidateList& out, LoadRun<C> load) {
  const bool all = op.attributes.is_none(attr::dim);
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    // The index into the flattened tensor follows its logical order: only the plain layout is walked so.
    if (all && !layout.is_plain()) continue;
    const TensorDesc x = op.in(0).with_layout(layout);
    const TensorDesc y = op.out().rank() == layout.rank() ? op.out().with_layout(layout) : dense_plain(op.out());
    std::vector<bool> reduced(size_t(layout.rank()), all);
    if (!all) reduced[size_t(op.attributes[attr::dim])] = true;
    add_candidate(out, "arg_reduce", Quality::fast, {x}, {y}, [=, largest = op.attributes[attr::function] == "argmax"] {
      const TensorDesc lifted = y.rank() == x.rank() ? y : insert_dims(y, reduced);
      return ArgBody<C>{largest, SplitWalk(x.shape, reduced, {{x, {}}, {lifted, {}}}), load, PaddingZeroer(y)};
    });
  }
}

void list_arg_reduce(const Op& op, CandidateList& out) {
  const DType dtype = op.in(0).dtype;
  if (is_floating(dtype))
    add_arg_reduce<float>(op, out, float_loader(dtype));
  else
    add_arg_reduce<int64_t>(op, out, integer_loader(dtype));
}
PL_HOST_KIND("arg_reduce", list_arg_reduce);

}  // namespace
}  // namespace pl::host
