// StepTimes: what runs of a program took, each of its steps where it stands.
//
// Whatever disturbs a run makes it longer.  On a busy machine hardly a run of a whole program is undisturbed, but of a
// few runs each step has some that are: so a program is judged by the sum of what its steps typically take.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/samples.h"

namespace pl {

struct StepTimes {
  std::vector<double> totals;                // of whole runs, ms
  std::vector<std::vector<double>> samples;  // by step, where steps are timed

  // A run; `step_ms` is empty where steps are not timed.
  void add(double total, const std::vector<double>& step_ms) {
    totals.push_back(total);
    add_steps(step_ms);
  }
  // The steps of a run that did not get to the end.
  void add_steps(const std::vector<double>& step_ms) {
    if (samples.size() < step_ms.size()) samples.resize(step_ms.size());
    for (size_t i = 0; i < step_ms.size(); ++i) samples[i].push_back(step_ms[i]);
  }
  // The oldest runs, where each went to the end.
  void forget(size_t runs) {
    totals.erase(totals.begin(), totals.begin() + long(std::min(runs, totals.size())));
    for (auto& step : samples) step.erase(step.begin(), step.begin() + long(std::min(runs, step.size())));
  }
  // What a run typically takes: the sum over the steps, or of totals.
  double ms() const {
    if (samples.empty()) return typical(totals);
    double sum = 0;
    for (const auto& step : samples) sum += typical(step);
    return sum;
  }
  // The same if nothing disturbed any step.
  double least() const {
    if (samples.empty()) return least_of(totals);
    double sum = 0;
    for (const auto& step : samples) sum += least_of(step);
    return sum;
  }
  // Of ms(), as its samples tell; ms squared.  Steps are disturbed independently; the second least of a few samples is
  // off by about what it lies above the least.
  double variance() const {
    double sum = 0;
    for (const auto& step : samples) sum += std::pow(typical(step) - least_of(step), 2);
    return sum;
  }
};

// Whether a program's steps take less than another one's, where neither was run often enough, or left alone enough, for
// ms() to say so: by the least of as many runs of each, which other programs disturb less than anything else that is
// known.  False where either did not run.
inline bool seems_faster(const StepTimes& its, const StepTimes& others) {
  const size_t runs = std::min(its.totals.size(), others.totals.size());
  if (!runs) return false;
  const auto first = [runs](const StepTimes& times) {
    StepTimes few;
    for (size_t run = 0; run < runs; ++run) {
      std::vector<double> step_ms;
      for (const auto& step : times.samples) step_ms.push_back(step[run]);
      few.add(times.totals[run], step_ms);
    }
    return few.least();
  };
  return first(its) < first(others);
}

}  // namespace pl
