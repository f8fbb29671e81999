// What repeated timings of the same thing say.  Whatever disturbs a run makes it longer, never shorter, and on a busy
// machine most runs are disturbed; the least alone would reward a single lucky run.
#pragma once

#include <algorithm>
#include <vector>

#include "core/numbers.h"

namespace pl {

// The second least of up to 15 samples, of more the one that an eighth lie below.  Of one or two the least.
inline double typical(std::vector<double> samples) {
  if (samples.empty()) return kInfinity;
  const auto at = samples.begin() + (samples.size() < 3 ? 0 : std::max<long>(1, long(samples.size() / 8)));
  std::nth_element(samples.begin(), at, samples.end());
  return *at;
}

// The one that a quarter lie below.  There must be one at least.
inline double lower_quartile(std::vector<double> samples) {
  const auto at = samples.begin() + long((samples.size() - 1) / 4);
  std::nth_element(samples.begin(), at, samples.end());
  return *at;
}

inline double least_of(const std::vector<double>& samples) {
  return samples.empty() ? kInfinity : *std::min_element(samples.begin(), samples.end());
}

// Two sums or samples that differ by more than this were taken on a busy machine: there should be more of them.
constexpr double kSteady = 1.08;
inline bool is_steady(const std::vector<double>& samples) { return typical(samples) <= kSteady * least_of(samples); }

constexpr double kHopeless = 1.5;  // slower than the best by this: takes no more turns

}  // namespace pl
