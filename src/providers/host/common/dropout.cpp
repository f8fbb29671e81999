#include "providers/host/common/dropout.h"

#include <algorithm>

#include "ops/random_words.h"
#include "providers/host/common/independent.h"

namespace pl::host {
namespace {

constexpr int64_t kRun = 512;  // elements, whose words stay in the nearest cache
static_assert(kRun % (4 * PhiloxSeed::kBlock) == 0);

PL_VECTORISED void drop(const uint32_t* words, uint32_t highest, float scale, float* x, int64_t n) {
  PL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) x[i] = words[i] <= highest ? 0.0f : x[i] * scale;
}

}  // namespace

Dropout::Dropout(const PhiloxSeed& seed, double p) : seed_(seed), scale_(float(1 / (1 - p))), drops_(p > 0) {
  if (drops_) highest_ = uint32_t(words_below(p) - 1);
}

void Dropout::run(uint64_t number, float* x, int64_t n) const {
  if (!drops_) return;
  uint32_t words[kRun];
  for (int64_t done = 0; done < n;) {
    const auto before = int64_t((number + uint64_t(done)) % 4);  // words of the counter that other elements have
    const int64_t count = std::min(kRun - before, n - done);
    seed_.fill((number + uint64_t(done)) / 4, (before + count + 3) / 4, words);
    drop(words + before, highest_, scale_, x + done, count);
    done += count;
  }
}

}  // namespace pl::host
