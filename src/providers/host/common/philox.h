// Philox4x32-10: random words as a function of a counter and a key (J. Salmon et al., Parallel random numbers: as easy
// as 1, 2, 3, 2011).  kernels/common/philox.clh gives the same words.
#pragma once

#include <cstdint>

#include "providers/host/common/simd.h"

namespace pl::host {

// Ten rounds change the four words of a counter; after each the key changes.
constexpr int kPhiloxRounds = 10;
PL_INLINE void philox_round(uint32_t& c0, uint32_t& c1, uint32_t& c2, uint32_t& c3, uint64_t key) {
  const uint64_t first = uint64_t(0xD2511F53u) * c0, second = uint64_t(0xCD9E8D57u) * c2;
  c0 = uint32_t(second >> 32) ^ c1 ^ uint32_t(key);
  c1 = uint32_t(second);
  c2 = uint32_t(first >> 32) ^ c3 ^ uint32_t(key >> 32);
  c3 = uint32_t(first);
}
inline uint64_t next_philox_key(uint64_t key) {
  return uint64_t(uint32_t(key) + 0x9E3779B9u) | uint64_t(uint32_t(key >> 32) + 0xBB67AE85u) << 32;
}

struct PhiloxWords {
  uint32_t word[4];
};

// The counter has 128 bits: `low` and `high`.
inline PhiloxWords philox(uint64_t low, uint64_t high, uint64_t key) {
  PhiloxWords c{{uint32_t(low), uint32_t(low >> 32), uint32_t(high), uint32_t(high >> 32)}};
  for (int round = 0; round < kPhiloxRounds; ++round, key = next_philox_key(key))
    philox_round(c.word[0], c.word[1], c.word[2], c.word[3], key);
  return c;
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

}  // namespace pl::host
