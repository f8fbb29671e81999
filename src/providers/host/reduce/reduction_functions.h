// Reductions as loops over runs: the kind `reduce` and the reductions of `pointwise`.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "providers/host/common/simd.h"

namespace pl::host {

// What values of type C are accumulated in across runs.
template <class C>
using Accumulator = std::conditional_t<std::is_same_v<C, float>, double, int64_t>;

// Each function: where accumulation starts, what an element contributes, how contributions join, and what becomes
// of the whole.
template <class T>
struct Sum {
  static constexpr int kLanes = 16;
  static constexpr T start() { return T(0); }
  static PL_INLINE T of(T x) { return x; }
  static PL_INLINE T join(T a, T b) { return T(a + b); }
};
template <>
struct Sum<int64_t> {
  static constexpr int kLanes = 16;
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
  static constexpr int kLanes = 16;
  static constexpr T start() { return T(1); }
  static PL_INLINE T of(T x) { return x; }
  static PL_INLINE T join(T a, T b) { return a * b; }
};
template <>
struct Product<int64_t> {
  static constexpr int kLanes = 16;
  static constexpr int64_t start() { return 1; }
  static PL_INLINE int64_t of(int64_t x) { return x; }
  static PL_INLINE int64_t join(int64_t a, int64_t b) { return int64_t(uint64_t(a) * uint64_t(b)); }
};
// Written so that NaN wins and then stays; integers have none.  Without branches, and in so many lanes that the compiler
// does not unroll the loop over them, it makes vectors of the loop.
template <class T>
struct Maximum {
  static constexpr int kLanes = 64;
  static constexpr T start() {
    return std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::min();
  }
  static PL_INLINE T of(T x) { return x; }
  static PL_INLINE T join(T a, T b) { return ((a != a) | (a >= b)) ? a : b; }
};
template <class T>
struct Minimum {
  static constexpr int kLanes = 64;
  static constexpr T start() {
    return std::numeric_limits<T>::has_infinity ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
  }
  static PL_INLINE T of(T x) { return x; }
  static PL_INLINE T join(T a, T b) { return ((a != a) | (a <= b)) ? a : b; }
};

// The contributions of n neighbours, n at most kChunk, in lanes.
template <class F, class C>
PL_VECTORISED C reduce_run(const C* x, int64_t n) {
  constexpr int kLanes = F::kLanes;
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

template <class C>
struct ReductionRuns {
  using A = Accumulator<C>;
  A start;
  C (*run)(const C* x, int64_t n);                       // of at most kChunk neighbours
  A (*join)(A, A);                                       // two partial results
  void (*rows)(const C* x, A* accumulators, int64_t n);  // n results side by side, one contribution to each
};
template <template <class> class F, class C>
ReductionRuns<C> reduction_runs() {
  using A = Accumulator<C>;
  return {F<A>::start(), reduce_run<F<C>, C>, [](A a, A b) { return F<A>::join(a, b); }, reduce_rows<F<A>, C, A>};
}

}  // namespace pl::host
