// The loop of functions of two arguments.
#pragma once

#include <cstdint>

#include "providers/host/common/independent.h"
#include "providers/host/common/simd.h"

namespace pl::host {

// out[i] = F::of(a[i * a_step], b[i * b_step]) with steps of 0 or 1; out may be a or b.
template <class F, class T>
PL_VECTORISED void run_binary(const T* a, int64_t a_step, const T* b, int64_t b_step, T* out, int64_t n) {
  if (a_step && b_step) {
    PL_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) out[i] = F::of(a[i], b[i]);
  } else if (a_step) {
    const T second = *b;
    PL_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) out[i] = F::of(a[i], second);
  } else {
    const T first = *a;
    if (b_step) {
      PL_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) out[i] = F::of(first, b[i]);
    } else {
      const T value = F::of(first, *b);
      for (int64_t i = 0; i < n; ++i) out[i] = value;
    }
  }
}

}  // namespace pl::host
