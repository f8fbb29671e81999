// PeriodicNest: makes long runs where a parameter for each channel repeats every few elements.
//
// In nChw16c (or NHWC with few channels) a run over a per-channel parameter is as short as the block, though the
// tensor itself goes on.  There the innermost loop and the one around it become one run of the tensor, over which
// the parameter, repeated in a small buffer, is a vector like any other.
#pragma once

#include "providers/host/common/elements.h"
#include "providers/host/common/nest.h"

namespace pl::host {

struct PeriodicNest {
  Nest nest;           // as it was, or without its innermost loop; then a run counts periods
  int64_t period = 0;  // elements after which the parameter repeats; 0: not periodic

  // Operands other than `parameter` must go on from one period to the next; only then is the result periodic.
  PeriodicNest(Nest original, int parameter) : nest(std::move(original)) {
    if (nest.loops.size() < 2) return;
    const Loop& inner = nest.run();
    const Loop& outer = nest.loops[nest.loops.size() - 2];
    bool fits =
        inner.size > 1 && inner.size <= kChunk / 8 && inner.stride[parameter] == 1 && outer.stride[parameter] == 0;
    for (int k = 0; k < nest.operands; ++k)
      fits &= k == parameter || (inner.stride[k] == 1 && outer.stride[k] == inner.size);
    if (!fits) return;
    period = inner.size;
    nest.loops.pop_back();
  }

  int64_t chunk() const { return period ? kChunk / period * period : kChunk; }  // a whole number of periods
};

// Repeats the first `period` values up to `count`.
template <class T>
void repeat(T* values, int64_t period, int64_t count) {
  for (int64_t i = period; i < count; ++i) values[i] = values[i - period];
}

}  // namespace pl::host
