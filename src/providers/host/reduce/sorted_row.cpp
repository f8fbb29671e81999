#include "providers/host/reduce/sorted_row.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "providers/host/common/independent.h"
#include "providers/host/common/simd.h"

namespace pl::host {
namespace {

constexpr int64_t kMuch = 8;          // part of a row from which on it is split first, then sorted; below, a heap does
constexpr int64_t kManyDigits = 192;  // elements from which on sorting by digits is faster than by comparing
constexpr int64_t kMostCounted = 1 << 15;  // elements up to which counting for each bit is faster than splitting

PL_VECTORISED int64_t count_below(const uint32_t* keys, int64_t n, uint32_t bound) {
  uint32_t count = 0;  // as wide as the keys
  for (int64_t i = 0; i < n; ++i) count += keys[i] < bound;
  return count;
}
PL_VECTORISED int64_t count_below(const uint64_t* keys, int64_t n, uint64_t bound) {
  uint64_t count = 0;
  for (int64_t i = 0; i < n; ++i) count += keys[i] < bound;
  return int64_t(count);
}

}  // namespace

PL_VECTORISED void sort_keys(const float* row, int64_t n, bool largest, uint32_t* keys) {
  const uint32_t turned = largest ? ~uint32_t(0) : 0;
  PL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    uint32_t bits;
    std::memcpy(&bits, row + i, 4);
    const uint32_t size = bits & 0x7fffffffu;
    const uint32_t number = bits == size ? size | 0x80000000u : 0x80000000u - size;
    keys[i] = (size > 0x7f800000u ? 0xffffffffu : number) ^ turned;
  }
}

PL_VECTORISED void sort_keys(const int64_t* row, int64_t n, bool largest, uint64_t* keys) {
  const uint64_t turned = (largest ? ~uint64_t(0) : 0) ^ (uint64_t(1) << 63);
  PL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) keys[i] = uint64_t(row[i]) ^ turned;
}

// The key, bit by bit: the largest bound with no more than `rank` keys below.  Then that one of those equal to it.
template <class Key>
int64_t SortedRow<Key>::place_of_rank(int64_t rank) const {
  const auto n = int64_t(keys_.size());
  Key key = 0;
  int64_t below = 0;
  for (Key bit = Key(1) << (std::numeric_limits<Key>::digits - 1); bit; bit >>= 1)
    if (const int64_t count = count_below(keys_.data(), n, Key(key | bit)); count <= rank) {
      key |= bit;
      below = count;
    }
  int64_t place = 0;
  for (int64_t left = rank - below;; ++place)
    if (keys_[size_t(place)] == key && left-- == 0) return place;
}

// Sorts elements_, whose places ascend where keys are equal, by eight bits at a time, the lowest first.
template <class Key>
void SortedRow<Key>::by_digits(int64_t count) {
  constexpr int kDigits = int(sizeof(Key));
  std::array<std::array<uint32_t, 256>, kDigits> counts{};
  for (const Element& element : elements_)
    for (int d = 0; d < kDigits; ++d) ++counts[size_t(d)][(element.key >> (8 * d)) & 0xff];
  others_.resize(size_t(count));
  for (int d = 0; d < kDigits; ++d) {
    auto& starts = counts[size_t(d)];
    if (starts[(elements_[0].key >> (8 * d)) & 0xff] == count) continue;  // all alike
    uint32_t before = 0;
    for (uint32_t& start : starts) {
      const uint32_t own = start;
      start = before;
      before += own;
    }
    for (const Element& element : elements_) others_[starts[(element.key >> (8 * d)) & 0xff]++] = element;
    elements_.swap(others_);
  }
}

template <class Key>
void SortedRow<Key>::places(int64_t first, int64_t end, int64_t* found) {
  const auto n = int64_t(keys_.size());
  if (first >= end) return;
  if (end - first == 1 && first > 0 && n <= kMostCounted) {
    found[0] = place_of_rank(first);
    return;
  }
  elements_.resize(size_t(n));
  for (int64_t i = 0; i < n; ++i) elements_[size_t(i)] = {keys_[size_t(i)], uint32_t(i)};
  const auto at = [&](int64_t rank) { return elements_.begin() + rank; };
  if (end * kMuch <= n) {
    std::partial_sort(at(0), at(end), at(n));
  } else if (end - first >= n / 2 && n >= kManyDigits) {
    by_digits(n);
  } else {
    if (first > 0) std::nth_element(at(0), at(first), at(n));
    if (end < n) std::nth_element(at(first), at(end), at(n));
    std::sort(at(first), at(end));
  }
  for (int64_t rank = first; rank < end; ++rank) found[rank - first] = int64_t(elements_[size_t(rank)].place);
}

template class SortedRow<uint32_t>;
template class SortedRow<uint64_t>;

}  // namespace pl::host
