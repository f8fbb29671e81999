// SplitWalk: for ops that work along some dimensions and repeat that over the others (reductions, softmax, norms).
//
// Offsets of elements are sums over dimensions, so an element lies at the sum of its offsets in two walks: one over
// the dimensions that are kept, one over those worked along.
#pragma once

#include <vector>

#include "providers/host/common/elements.h"
#include "providers/host/common/nest.h"

namespace pl::host {

struct SplitWalk {
  std::vector<Nest> kept;   // the dimensions worked along stand at 0
  std::vector<Nest> along;  // the kept ones stand at 0
  int64_t kept_elements = 0, along_elements = 0;

  // Walks are over `shape`; operand 0 decides the order.
  SplitWalk(const Dims& shape, const std::vector<bool>& worked_along, const std::vector<Operand>& operands);

  // True when neighbours in memory belong to different results: then results are made side by side, many at a time.
  bool side_by_side(const Nest& kept_nest) const {
    return kept_nest.run().stride[0] == 1 && kept_nest.run().size > 1 &&
           (along.empty() || along[0].run().size == 1 || along[0].run().stride[0] != 1);
  }
  // True when there are many results of few elements each: kernels that load them by strides make them side by side
  // too.
  bool many_short(const Nest& kept_nest) const { return along_elements < 64 && kept_nest.run().size >= 32; }
  // True when a result's elements are one run of neighbours, in operand k.
  bool contiguous(int k) const {
    return along.size() == 1 && along[0].loops.size() == 1 && along[0].run().stride[k] == 1;
  }
};

// Gathers what lies along the worked dimensions in operand k from `offset` on, in the order of the walk.
template <class C>
void gather_row(const SplitWalk& walk, int k, LoadRun<C> load, const void* base, int64_t offset, C* row) {
  for (const Nest& nest : walk.along)
    pl::host::walk(nest, 0, nest.runs(), [&](const int64_t* offsets, int64_t n) {
      load(base, offset + offsets[k], nest.run().stride[k], n, row);
      row += n;
    });
}
template <class C>
void scatter_row(const SplitWalk& walk, int k, StoreRun<C> store, void* base, int64_t offset, const C* row) {
  for (const Nest& nest : walk.along)
    pl::host::walk(nest, 0, nest.runs(), [&](const int64_t* offsets, int64_t n) {
      store(row, n, base, offset + offsets[k], nest.run().stride[k]);
      row += n;
    });
}

// n floats side by side from `offset` on: where they lie if they do, else loaded into `values`.
inline const float* floats_at(DType dtype, LoadRun<float> load, const void* x, int64_t offset, int64_t n,
                              float* values) {
  if (dtype == DType::f32) return static_cast<const float*>(x) + offset;
  load(x, offset, 1, n, values);
  return values;
}

// Calls f(offset) for each element along the worked dimensions of the result at `first`, where the walk's first two
// operands lie alike.
template <class F>
void for_each_along(const SplitWalk& split, int64_t first, F&& f) {
  for (const Nest& nest : split.along)
    walk(nest, 0, nest.runs(), [&](const int64_t* offsets, int64_t n) {
      for (int64_t i = 0; i < n; ++i) f(first + offsets[0] + i * nest.run().stride[0]);
    });
}

}  // namespace pl::host
