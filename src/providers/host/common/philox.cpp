#include "providers/host/common/philox.h"

#include <cmath>

#include "providers/host/common/independent.h"
#include "providers/host/common/simd.h"

namespace pl::host {
namespace {

constexpr int kLanes = int(PhiloxSeed::kBlock);
constexpr int64_t kRun = 512;  // elements, whose words stay in the nearest cache

// Loops of fewer counters compilers unroll, and then make scalars of them.
PL_VECTORISED void fill_blocks(uint64_t counter, uint64_t key, int64_t blocks, uint32_t* words) {
  for (int64_t block = 0; block < blocks; ++block, counter += kLanes, words += 4 * kLanes) {
    uint32_t c0[kLanes], c1[kLanes], c2[kLanes] = {}, c3[kLanes] = {};
    for (int l = 0; l < kLanes; ++l) {
      c0[l] = uint32_t(counter + uint64_t(l));
      c1[l] = uint32_t((counter + uint64_t(l)) >> 32);
    }
    uint32_t k0 = uint32_t(key), k1 = uint32_t(key >> 32);
    for (int round = 0; round < 10; ++round) {
      for (int l = 0; l < kLanes; ++l) {
        const uint64_t first = uint64_t(0xD2511F53u) * c0[l], second = uint64_t(0xCD9E8D57u) * c2[l];
        c0[l] = uint32_t(second >> 32) ^ c1[l] ^ k0;
        c1[l] = uint32_t(second);
        c2[l] = uint32_t(first >> 32) ^ c3[l] ^ k1;
        c3[l] = uint32_t(first);
      }
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    for (int l = 0; l < kLanes; ++l) {
      words[4 * l] = c0[l];
      words[4 * l + 1] = c1[l];
      words[4 * l + 2] = c2[l];
      words[4 * l + 3] = c3[l];
    }
  }
}

PL_VECTORISED void drop(const uint32_t* words, uint32_t highest, float scale, float* x, int64_t n) {
  PL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) x[i] = words[i] <= highest ? 0.0f : x[i] * scale;
}

}  // namespace

void PhiloxSeed::fill(uint64_t counter, int64_t n, uint32_t* words) const {
  fill_blocks(first + counter, key, (n + kBlock - 1) / kBlock, words);
}

Dropout::Dropout(const PhiloxSeed& seed, double p) : seed_(seed), scale_(float(1 / (1 - p))), drops_(p > 0) {
  if (drops_) highest_ = uint32_t(std::ceil(p * 0x1p32) - 1);
}

void Dropout::run(uint64_t number, float* x, int64_t n) const {
  if (!drops_) return;
  uint32_t words[kRun + 4 * PhiloxSeed::kBlock];
  for (int64_t done = 0; done < n;) {
    const auto before = int64_t((number + uint64_t(done)) % 4);  // words of the counter that other elements have
    const int64_t count = std::min(kRun - before, n - done);
    seed_.fill((number + uint64_t(done)) / 4, (before + count + 3) / 4, words);
    drop(words + before, highest_, scale_, x + done, count);
    done += count;
  }
}

}  // namespace pl::host
