// Reductions as loops over runs: the kind `reduce` and the reductions of `pointwise`.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "providers/host/common/independent.h"
#include "providers/host/common/simd.h"

namespace pl::host {

// What values of type C are accumulated in across runs.
template <class C>
using Accumulator = std::conditional_t<std::is_same_v<C, float>, double, int64_t>;

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
// NaN wins and then stays; integers have none.  Written so that compilers make two blends of it, and no branch.
template <class T>
struct Maximum {
  static constexpr T start() {
    return std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::min();
  }
  static PL_INLINE T of(T x) { return x; }
  static PL_INLINE T join(T a, T b) {
    const T larger = a < b ? b : a;
    return b == b ? larger : b;
  }
};
template <class T>
struct Minimum {
  static constexpr T start() {
    return std::numeric_limits<T>::has_infinity ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
  }
  static PL_INLINE T of(T x) { return x; }
  static PL_INLINE T join(T a, T b) {
    const T smaller = b < a ? b : a;
    return b == b ? smaller : b;
  }
};

// The contributions of n neighbours, n at most kChunk: in 64 lanes, so that a join does not wait for the one before, then
// in 16, then one by one.  Lanes begin with their first contributions: to fill them before took longer than a
// row of 64.
template <class F, class C>
PL_VECTORISED C reduce_run(const C* x, int64_t n) {
  constexpr int kMany = 64, kFew = 16;
  C result = F::start();
  int64_t i = 0;
  if (n >= kFew) {
    C few[kFew];
    if (n >= kMany) {
      C many[kMany];
      for (int l = 0; l < kMany; ++l) many[l] = F::join(F::start(), F::of(x[l]));
      for (i = kMany; i + kMany <= n; i += kMany)
        for (int l = 0; l < kMany; ++l) many[l] = F::join(many[l], F::of(x[i + l]));
      for (int l = 0; l < kFew; ++l) few[l] = F::join(many[l], many[l + kFew]);
      for (int part = 2 * kFew; part < kMany; part += kFew) {
        PL_ROLLED
        for (int l = 0; l < kFew; ++l) few[l] = F::join(few[l], many[l + part]);
      }
    } else {
      for (int l = 0; l < kFew; ++l) few[l] = F::join(F::start(), F::of(x[l]));
      i = kFew;
    }
    for (; i + kFew <= n; i += kFew) {
      PL_ROLLED
      for (int l = 0; l < kFew; ++l) few[l] = F::join(few[l], F::of(x[i + l]));
    }
    for (int half = kFew / 2; half > 2; half /= 2)
      for (int l = 0; l < half; ++l) few[l] = F::join(few[l], few[l + half]);
    result = F::join(F::join(few[0], few[1]), F::join(few[2], few[3]));
  }
  for (; i < n; ++i) result = F::join(result, F::of(x[i]));
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
