// Kind searchsorted: searches by halves, of several values at once.
#include <algorithm>
#include <cmath>

#include "providers/host/common/host.h"
#include "providers/host/common/simd.h"

namespace pl::host {
namespace {

constexpr int64_t kLanes = 8;  // values that are searched for at once: none waits for what another one reads

// Of each value the first element of a row of n for which `right ? x > value : x >= value` holds, as far as halves find
// it.
template <bool kRight, class T>
void find_places(const T* row, int64_t n, const T* values, int64_t count, int64_t* out) {
  int64_t begin[kLanes] = {}, size[kLanes];
  decltype(value_of(T())) wanted[kLanes];
  for (int64_t i = 0; i < kLanes; ++i) {
    size[i] = n;
    wanted[i] = value_of(values[i < count ? i : 0]);
  }
  for (int64_t left = n; left > 0; left >>= 1)
    for (int64_t i = 0; i < kLanes; ++i) {
      const int64_t half = size[i] >> 1, middle = begin[i] + half;
      const auto found = value_of(row[middle - (middle == n)]);
      const bool is_before = kRight ? !(found > wanted[i]) : !(found >= wanted[i]);  // so is NaN
      const int64_t all = -int64_t(is_before & (size[i] > 0));  // by masks, as no branch foretells where a value is
      begin[i] += (half + 1) & all;
      size[i] = (half & ~all) | ((size[i] - half - 1) & all);
    }
  for (int64_t i = 0; i < std::min(kLanes, count); ++i) out[i] = begin[i];
}

template <class T>
struct SearchBody {
  bool right;
  int64_t rows, n, count;  // `count` values of each row

  void operator()(const KernelArguments& arguments) const {
    if (right)
      search<true>(arguments);
    else
      search<false>(arguments);
  }

  template <bool kRight>
  void search(const KernelArguments& arguments) const {
    const T* sequence = static_cast<const T*>(input(arguments, 0));
    const T* values = static_cast<const T*>(input(arguments, 1));
    int64_t* out = static_cast<int64_t*>(output(arguments));
    constexpr double kStep = 0.6;                          // nanoseconds of a half
    const int64_t groups = (count + kLanes - 1) / kLanes;  // of a row
    parallel_for(rows * groups, kLanes * kStep * std::log2(2.0 + double(n)), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = i / groups, first = i % groups * kLanes, from = row * count + first;
        find_places<kRight>(sequence + row * n, n, values + from, count - first, out + from);
      }
    });
  }
};

template <class T>
void add_search(const Op& op, CandidateList& out) {
  const TensorDesc sequence = dense_plain(op.in(0)), values = dense_plain(op.in(1));
  const int64_t n = sequence.shape[sequence.rank() - 1];
  int64_t rows = 1;
  for (int d = 0; d < sequence.rank() - 1; ++d) rows *= sequence.shape[d];
  const int64_t count = rows ? values.elements() / rows : 0;
  add_candidate(out, "searchsorted", Quality::fast, {sequence, values}, {dense_plain(op.out())},
                [=, right = bool(op.attributes[attr::right])] {
                  return SearchBody<T>{right, rows, n, count};
                });
}

void list_searchsorted(const Op& op, CandidateList& out) {
  switch (op.in(0).dtype) {
    case DType::f32: return add_search<float>(op, out);
    case DType::f16: return add_search<Half>(op, out);
    case DType::bf16: return add_search<BFloat16>(op, out);
    case DType::s8: return add_search<int8_t>(op, out);
    case DType::u8: return add_search<uint8_t>(op, out);
    case DType::s32: return add_search<int32_t>(op, out);
    default: return add_search<int64_t>(op, out);
  }
}
PL_HOST_KIND("searchsorted", list_searchsorted);

}  // namespace
}  // namespace pl::host
