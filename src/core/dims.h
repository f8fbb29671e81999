// Dims: a short list of 64-bit sizes with inline storage: shapes, strides, paddings.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "core/status.h"

namespace pl {

// The largest rank of a tensor.  Weights of a grouped 3-D convolution have six dimensions.
constexpr int kMaxRank = 8;

inline int64_t divided_up(int64_t value, int64_t by) { return (value + by - 1) / by; }

class Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<int64_t> values) { assign(values.begin(), values.size()); }
  explicit Dims(const std::vector<int64_t>& values) { assign(values.data(), values.size()); }
  Dims(const int64_t* values, size_t count) { assign(values, count); }
  static Dims filled(int rank, int64_t value) {
    Dims dims;
    for (int i = 0; i < rank; ++i) dims.push_back(value);
    return dims;
  }

  int size() const { return rank_; }
  bool empty() const { return rank_ == 0; }
  int64_t& operator[](int i) { return values_[i]; }
  int64_t operator[](int i) const { return values_[i]; }
  const int64_t* begin() const { return values_.data(); }
  const int64_t* end() const { return values_.data() + rank_; }
  const int64_t* data() const { return values_.data(); }
  void push_back(int64_t value) {
    if (rank_ >= kMaxRank) refuse_rank(size_t(rank_) + 1);
    values_[rank_++] = value;
  }
  std::vector<int64_t> vector() const { return {begin(), end()}; }

  // The product; shapes are checked against overflow when a TensorDesc is made.
  int64_t product() const {
    int64_t p = 1;
    for (int64_t v : *this) p *= v;
    return p;
  }

  friend bool operator==(const Dims& a, const Dims& b) {
    return a.rank_ == b.rank_ && std::equal(a.begin(), a.end(), b.begin());
  }
  friend bool operator!=(const Dims& a, const Dims& b) { return !(a == b); }
  std::string str() const;  // (1, 64, 56, 56)

 private:
  void assign(const int64_t* values, size_t count) {
    if (count > size_t(kMaxRank)) refuse_rank(count);
    std::copy(values, values + count, values_.begin());
    rank_ = int(count);
  }

  [[noreturn]] static void refuse_rank(size_t rank);

  std::array<int64_t, kMaxRank> values_{};  // unused places stay zero, so that whole-object hashing works
  int rank_ = 0;
};

// Mixes `value` into `seed` (splitmix64's finaliser).
inline uint64_t hash_mix(uint64_t seed, uint64_t value) {
  uint64_t x = seed + 0x9e3779b97f4a7c15ull + value;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

}  // namespace pl
