#include "dispatch/race.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/numbers.h"
#include "core/samples.h"

namespace pl {
Race::Race(Weights weights) : members_(std::move(weights)) {
  for (const auto& [entry, times] : members_) {
    weights_[entry] = times;
    length_ += times;
  }
}

void Race::add(std::optional<Layout> layout) {
  contestants_.push_back({std::move(layout), false});
  records_.emplace_back();
}

void Race::begin_turn(size_t contestant) { records_[contestant].turn_runs.clear(); }

void Race::add_sample(Samples& samples, size_t place, double ms, bool disturbed) {
  if (samples.clean.size() <= place) samples.clean.resize(place + 1);
  (disturbed ? samples.disturbed : samples.clean[place]).push_back(ms);
  ++samples.count;
}

void Race::ran(size_t contestant, const Entry& entry, uint64_t key, double ms, bool disturbed, const Way* way) {
  Record& record = records_[contestant];
  const size_t place = record.turn_runs[&entry]++ % std::max<size_t>(1, size_t(std::lround(weights_[&entry])));
  for (Taken* taken : {&record.all, &record.lap}) add_sample((*taken)[&entry][key], place, ms, disturbed);
  const Way*& known = record.ways.emplace(&entry, way).first->second;
  record.mixed = record.mixed || !way || known != way;
}

void Race::charge(size_t contestant, const Entry& entry, uint64_t key, double ms) {
  Record& record = records_[contestant];
  for (Taken* taken : {&record.all, &record.lap}) {
    Samples& samples = (*taken)[&entry][~key];
    samples.extra = true;
    add_sample(samples, 0, ms, false);
  }
}

// An op's time in a run; nothing if it was not seen.  Whatever disturbs a run makes it longer, so of the runs at a
// place that were decided alike the lower quartile stands for all; those decided otherwise (another input layout, say)
// have their own.
std::optional<double> Race::time_of(const Taken& taken, const Entry* entry) {
  const auto found = taken.find(entry);
  if (found == taken.end()) return std::nullopt;
  double total = 0, runs = 0;
  for (const auto& [key, samples] : found->second) {
    double sum = 0, places = 0;
    for (const std::vector<double>& place : samples.clean) {
      if (place.empty()) continue;
      sum += lower_quartile(place);
      ++places;
    }
    const double ms = places > 0 ? sum / places : lower_quartile(samples.disturbed);
    total += ms * double(samples.count);
    if (!samples.extra) runs += double(samples.count);
  }
  if (runs == 0) return std::nullopt;
  return total / runs;
}

// Of the members that every contestant still in ran; nothing if those are too few to judge by.
std::vector<double> Race::sums(Taken Record::*taken) const {
  std::vector<double> sums(contestants_.size(), 0);
  size_t judged = 0;
  for (const auto& [entry, times] : members_) {
    std::vector<double> one(contestants_.size(), 0);
    bool seen = true;
    for (size_t i = 0; seen && i < one.size(); ++i) {
      const auto ms = time_of(records_[i].*taken, entry);
      if (ms) one[i] = *ms * times;
      seen = ms || contestants_[i].out;
    }
    if (!seen) continue;
    for (size_t i = 0; i < one.size(); ++i) sums[i] += one[i];
    ++judged;
  }
  if (2 * judged < members_.size()) sums.clear();
  return sums;
}

std::vector<double> Race::totals() const { return sums(&Record::all); }

bool Race::same_ways(size_t a, size_t b) const {
  return !records_[a].mixed && !records_[b].mixed && !records_[a].ways.empty() && records_[a].ways == records_[b].ways;
}

size_t Race::left() const {
  return size_t(std::count_if(contestants_.begin(), contestants_.end(), [](const Contestant& c) { return !c.out; }));
}

bool Race::end_round() {
  const std::vector<double> total = totals(), lap = sums(&Record::lap);
  for (Record& record : records_) record.lap.clear();
  if (total.empty() || lap.empty()) return true;
  rounds_.push_back(lap);
  spent_ms_ += std::accumulate(lap.begin(), lap.end(), 0.0);
  // Greedy choices that are a layout's throughout need no second contestant.
  for (size_t i = 1; i < contestants_.size(); ++i)
    contestants_[0].out = contestants_[0].out || (!contestants_[i].out && same_ways(0, i));
  size_t best = contestants_.size();
  for (size_t i = 0; i < total.size(); ++i)
    if (!contestants_[i].out && (best == total.size() || total[i] < total[best])) best = i;
  double margin = kMargins[std::min(rounds_.size(), size_t(kMostRounds)) - 1];
  if (!contestants_[best].layout) margin = std::max(margin, kClearly);
  for (size_t i = 0; i < contestants_.size(); ++i) {
    if (i == best || contestants_[i].out) continue;
    contestants_[i].out = std::all_of(rounds_.begin(), rounds_.end(), [&](const std::vector<double>& round) {
      return round[i] > (1 + margin) * round[best];
    });
  }
  return left() < 2 || rounds() >= kMostRounds || (rounds() >= 2 && spent_ms_ > kBudgetMs);
}

size_t Race::winner() const {
  const std::vector<double> total = totals();
  if (total.empty()) return 0;
  size_t best = 0;
  double least = kInfinity;
  for (size_t i = 0; i < total.size(); ++i) {
    if (contestants_[i].out) continue;
    const double ms = contestants_[i].layout || left() == 1 ? total[i] : total[i] * (1 + kClearly);
    if (ms < least || (ms == least && !contestants_[best].layout)) {
      best = i;
      least = ms;
    }
  }
  return best;
}

}  // namespace pl
