// Nest: a walk over the elements of several tensors at once, whatever their layouts, as plain nested loops.
//
// make_nests() turns an index space (a logical shape) and operands (descriptions, each with an origin) into nests
// of loops with a size and one stride for each operand.  Blocked dimensions become two or more loops, the tail of
// an incomplete block a nest of its own, broadcast dimensions a stride of zero; loops that continue each other are
// merged.  So two dense tensors of the same layout without padding are one loop with strides of 1, and a reorder
// from NCHW to nChw16c three.  Kernels see runs: the innermost loop.
#pragma once

#include <cstdint>
#include <vector>

#include "core/desc.h"
#include "providers/host/common/parallel.h"

namespace pl::host {

constexpr int kMaxOperands = 17;  // a pointwise op: its outputs, which lie alike, and 16 inputs

struct Operand {
  TensorDesc desc;  // of the rank of the index space; a dimension of size 1 is broadcast
  Dims begin;       // index of the element that the origin of the index space falls on; empty: the first
};

struct Loop {
  int64_t size = 1;
  int64_t stride[kMaxOperands] = {};
};

struct Nest {
  int operands = 0;
  std::vector<Loop> loops;          // outermost first, at least one; the last is the run
  int64_t base[kMaxOperands] = {};  // element offsets of the first element

  const Loop& run() const { return loops.back(); }
  int64_t runs() const {
    int64_t count = 1;
    for (size_t i = 0; i + 1 < loops.size(); ++i) count *= loops[i].size;
    return count;
  }
  int64_t elements() const { return runs() * run().size; }
};

// Nests that together visit each index of `shape` once; none if it is empty.  Loops are ordered so that operand
// `order_by` is walked through memory in order.
std::vector<Nest> make_nests(const Dims& shape, const std::vector<Operand>& operands, int order_by = 0);

// The same walks with the longest loop as the run, where runs are too short for vectors: a box's two coordinates, say.
std::vector<Nest> with_long_runs(std::vector<Nest> nests);

// The same tensor with dimensions of size 1 put in front, as broadcasting sees it.
TensorDesc with_rank(const TensorDesc& desc, int rank);
// The same tensor with dimensions of size 1 where `inserted` (of the new rank) is true.
TensorDesc insert_dims(const TensorDesc& desc, const std::vector<bool>& inserted);
// What an index of one dimension adds to an element's offset; offsets of elements are sums of these.
class DimOffset {
 public:
  DimOffset(const TensorDesc& desc, int dim);
  int64_t operator()(int64_t index) const {
    return block_ == 1 ? index * stride_ : index / block_ * stride_ + inside_[size_t(index % block_)];
  }

 private:
  int64_t block_, stride_;
  std::vector<int64_t> inside_;  // a block
};

// Calls f(offsets, n) for runs [begin, end) of the nest in order: `offsets` holds the first element of the run in
// each operand, n its length.
template <class F>
void walk(const Nest& nest, int64_t begin, int64_t end, F&& f) {
  const int outer = int(nest.loops.size()) - 1, operands = nest.operands;
  int64_t offsets[kMaxOperands], index[32];
  for (int k = 0; k < operands; ++k) offsets[k] = nest.base[k];
  int64_t rest = begin;
  for (int i = outer - 1; i >= 0; --i) {
    index[i] = rest % nest.loops[size_t(i)].size;
    rest /= nest.loops[size_t(i)].size;
    for (int k = 0; k < operands; ++k) offsets[k] += index[i] * nest.loops[size_t(i)].stride[k];
  }
  const int64_t n = nest.run().size;
  for (int64_t run = begin; run < end; ++run) {
    f(static_cast<const int64_t*>(offsets), n);
    for (int i = outer - 1; i >= 0; --i) {
      const Loop& loop = nest.loops[size_t(i)];
      for (int k = 0; k < operands; ++k) offsets[k] += loop.stride[k];
      if (++index[i] < loop.size) break;
      for (int k = 0; k < operands; ++k) offsets[k] -= loop.size * loop.stride[k];
      index[i] = 0;
    }
  }
}

// The whole nest on all cores; long runs are split.  `nanoseconds` is the work of one element.
template <class F>
void for_each_run(const Nest& nest, double nanoseconds, F&& f) {
  const int64_t runs = nest.runs(), n = nest.run().size;
  if (runs >= 16 || double(runs * n) * nanoseconds < kSerialNanoseconds) {
    parallel_for(runs, double(n) * nanoseconds, [&](int64_t begin, int64_t end) { walk(nest, begin, end, f); });
    return;
  }
  // Few, long runs: split each at multiples of 64 elements.
  constexpr int64_t kGrain = 64;
  const int64_t grains = (n + kGrain - 1) / kGrain;
  for (int64_t run = 0; run < runs; ++run) {
    parallel_for(grains, kGrain * nanoseconds, [&](int64_t begin, int64_t end) {
      walk(nest, run, run + 1, [&](const int64_t* offsets, int64_t) {
        int64_t moved[kMaxOperands];
        for (int k = 0; k < nest.operands; ++k) moved[k] = offsets[k] + begin * kGrain * nest.run().stride[k];
        f(static_cast<const int64_t*>(moved), std::min(end * kGrain, n) - begin * kGrain);
      });
    });
  }
}

template <class F>
void for_each_run(const std::vector<Nest>& nests, double nanoseconds, F&& f) {
  for (const Nest& nest : nests) for_each_run(nest, nanoseconds, f);
}

// Writes zeros to the padding of a blocked tensor; costs nothing where there is none.
class PaddingZeroer {
 public:
  explicit PaddingZeroer(const TensorDesc& desc);
  void run(void* base) const {
    if (!nests_.empty()) write(base);
  }

 private:
  void write(void* base) const;
  std::vector<Nest> nests_;
  size_t element_bytes_;
};

}  // namespace pl::host
