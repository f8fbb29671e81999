#include "providers/host/common/philox.h"

namespace pl::host {
namespace {

constexpr int kLanes = int(PhiloxSeed::kBlock);

// Loops of fewer counters compilers unroll, and then make scalars of them.
PL_VECTORISED void fill_blocks(uint64_t counter, uint64_t key, int64_t blocks, uint32_t* words) {
  for (int64_t block = 0; block < blocks; ++block, counter += kLanes, words += 4 * kLanes) {
    uint32_t c0[kLanes], c1[kLanes], c2[kLanes] = {}, c3[kLanes] = {};
    for (int l = 0; l < kLanes; ++l) {
      c0[l] = uint32_t(counter + uint64_t(l));
      c1[l] = uint32_t((counter + uint64_t(l)) >> 32);
    }
    uint64_t now = key;
    for (int round = 0; round < kPhiloxRounds; ++round, now = next_philox_key(now))
      for (int l = 0; l < kLanes; ++l) philox_round(c0[l], c1[l], c2[l], c3[l], now);
    for (int l = 0; l < kLanes; ++l) {
      words[4 * l] = c0[l];
      words[4 * l + 1] = c1[l];
      words[4 * l + 2] = c2[l];
      words[4 * l + 3] = c3[l];
    }
  }
}

}  // namespace

void PhiloxSeed::fill(uint64_t counter, int64_t n, uint32_t* words) const {
  fill_blocks(first + counter, key, (n + kBlock - 1) / kBlock, words);
}

}  // namespace pl::host
