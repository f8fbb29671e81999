// Philox4x32-10: random words as a function of a counter and a key (J. Salmon et al., Parallel random numbers: as easy
// as 1, 2, 3, 2011).  kernels/common/philox.clh gives the same words.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/desc.h"

namespace pl::host {

struct PhiloxWords {
  uint32_t word[4];
};

// The counter has 128 bits: `low` and `high`.
inline PhiloxWords philox(uint64_t low, uint64_t high, uint64_t key) {
  uint32_t c[4] = {uint32_t(low), uint32_t(low >> 32), uint32_t(high), uint32_t(high >> 32)};
  uint32_t k[2] = {uint32_t(key), uint32_t(key >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t first = uint64_t(0xD2511F53u) * c[0], second = uint64_t(0xCD9E8D57u) * c[2];
    const uint32_t next[4] = {uint32_t(second >> 32) ^ c[1] ^ k[0], uint32_t(second),
                              uint32_t(first >> 32) ^ c[3] ^ k[1], uint32_t(first)};
    std::copy(next, next + 4, c);
    k[0] += 0x9E3779B9u;
    k[1] += 0xBB67AE85u;
  }
  return {{c[0], c[1], c[2], c[3]}};
}

// What an op's input `seed` holds: the key, and the first counter where it has two elements.
struct PhiloxSeed {
  uint64_t key = 0, first = 0;
  PhiloxSeed() = default;
  PhiloxSeed(const void* seed, int64_t elements)
      : key(uint64_t(static_cast<const int64_t*>(seed)[0])),
        first(elements > 1 ? uint64_t(static_cast<const int64_t*>(seed)[1]) : 0) {}

  // Counters that are computed at a time; `fill` writes whole blocks of them.
  static constexpr int64_t kBlock = 64;
  // words[4 * i + k] = word k of counter `first` + counter + i, for i from 0 to n - 1, n rounded up to kBlock.
  void fill(uint64_t counter, int64_t n, uint32_t* words) const;
};

// random_dropout: what an element becomes follows from its number.
class Dropout {
 public:
  Dropout() = default;  // drops nothing
  Dropout(const PhiloxSeed& seed, double p);
  // Of elements [number, number + n), which lie at x.
  void run(uint64_t number, float* x, int64_t n) const;

 private:
  PhiloxSeed seed_;
  uint32_t highest_ = 0;  // an element whose word is not above it is dropped
  float scale_ = 1;
  bool drops_ = false;
};

}  // namespace pl::host
