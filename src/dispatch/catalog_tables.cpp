// Catalog: cost tables of this machine's class, as a source between what was measured here and estimates.
#include <algorithm>
#include <cmath>

#include "core/files.h"
#include "dispatch/catalog.h"
#include "dispatch/cost_database.h"
#include "dispatch/machine.h"
#include "dispatch/measure.h"

namespace pl {
namespace {

// Ops of a table by which it is checked, its probes.  No measurement chose these numbers; they follow from what is said
// of each.  tests/test_cost_tables.py holds the answers: an agreeing table is believed, one with ratios turned around
// is not.
//
// Five, of at most 20 ms each: a tenth of a second beside the 0.7 s that a compilation without measuring takes for
// ResNet-50 (docs/notes/2026-11-21-planning-and-layers.md).  One that agrees by chance must not decide.
constexpr size_t kProbes = 5, kLeastProbes = 2;
constexpr double kProbeSeconds = 0.02;
// By estimate.  A guess: below, a launch and the clock's noise are a part of the time; above, 20 ms hold too few runs.
constexpr double kShortestMs = 0.02, kLongestMs = 5;
// Ratios of the two candidates that are compared.  A guess: less apart, noise turns their order around; further apart
// are vector code and plain loops, whose order every machine has.
constexpr double kLeastApart = 1.5, kMostApart = 8;
// The slower one must take so many times as long here.  Neighbouring turns on one machine differ by some percent
// (docs/explanation/choice.md, "Contests").
constexpr double kOrdered = 1.1;
// How far the ratio here may be from the table's.  Two runs of the same choices on a busy machine differed by a factor
// of 2 (docs/howto/measure.md, "A control").
constexpr double kOff = 2;
// Of the probes must agree: three of five, so that two may be disturbed.  A guess.
constexpr double kBelieved = 0.6;
// Candidates that the table lacks were not worth measuring there: their estimate was over twice the least one, so they
// are taken to be behind, but not so far that a measurement here could not put them first.  A guess.
constexpr double kUnlisted = 1.2;
// Slower candidates are never chosen, and plain loops would be half of a table.  A guess, as kMostApart.
constexpr double kMostExported = 8;

bool is_candidate(const std::string& key) {
  return key.find('/') != std::string::npos && key.compare(0, 6, "wrong ") != 0;
}

}  // namespace

Catalog::Belief& Catalog::belief_of(const Device& device, int threads) {
  const auto [place, fresh] = beliefs_.try_emplace({&device, threads});
  Belief& belief = place->second;
  if (fresh) belief.table = tables_.of(cost_class(device, threads));
  return belief;
}

// With the entry's lock; its ways have estimates.
void Catalog::apply_table(Entry& entry) {
  CostTableRef table;
  {
    std::lock_guard<std::mutex> guard(tables_lock_);
    const Belief& belief = belief_of(*entry.device, entry.threads);
    if (belief.believed) table = belief.table;
  }
  if (!table) return;
  const auto known = table->ratios.find(entry.text);
  if (known == table->ratios.end()) return;
  const auto ratio_of = [&](const Way& way) {
    const auto found = known->second.find(way.key);
    return found == known->second.end() ? 0 : found->second;
  };
  const auto tabled = [](const Way& way) { return bool(way.tabled); };
  if (std::any_of(entry.ways.begin(), entry.ways.end(), tabled)) return;
  // What the fastest takes here: by those that were measured here, else by all estimates.
  double log_sum = 0;
  int count = 0;
  for (const bool measured : {true, false}) {
    for (const Way& way : entry.ways) {
      const double ratio = ratio_of(way);
      if (count && !measured) break;
      if (!way.usable || !ratio || (measured && !way.measured) || !(way.ms > 0) || std::isinf(way.ms)) continue;
      log_sum += std::log(way.ms / ratio);
      ++count;
    }
    if (count) break;
  }
  if (!count) return;
  const double least = std::exp(log_sum / count);
  for (Way& way : entry.ways) {
    if (way.measured || way.within || !way.usable || std::isinf(way.ms)) continue;
    const double ratio = ratio_of(way);
    way.ms = ratio ? least * ratio : std::max(double(way.ms), kUnlisted * least);
    way.tabled = true;
  }
}

// Whether most probes agree with the table; nothing where there are too few.
std::optional<bool> Catalog::probe(const CostTable& table, const std::vector<EntryRef>& entries) {
  struct Probe {
    EntryRef entry;
    size_t fast = 0, slow = 0;
    double apart = 0;  // by the table
    double ms = 0;     // of the fast one, by estimate
  };
  std::vector<Probe> probes;
  for (const EntryRef& entry : entries) {
    const auto known = table.ratios.find(entry->text);
    if (known == table.ratios.end()) continue;
    std::lock_guard<std::mutex> guard(entry->lock);
    Probe best;
    best.entry = entry;
    for (size_t a = 0; a < entry->ways.size(); ++a)
      for (size_t b = 0; b < entry->ways.size(); ++b) {
        const Way &fast = entry->ways[a], &slow = entry->ways[b];
        const auto one = known->second.find(fast.key), other = known->second.find(slow.key);
        if (one == known->second.end() || other == known->second.end() || !fast.usable || !slow.usable) continue;
        const bool ready = !entry->device->traits().queued && !fast.compiles && !slow.compiles;
        if (!ready && !(fast.measured && slow.measured)) continue;
        const double apart = other->second / one->second;
        if (apart < kLeastApart || apart > kMostApart || apart <= best.apart) continue;
        best.fast = a, best.slow = b, best.apart = apart, best.ms = fast.ms;
      }
    if (best.apart && best.ms >= kShortestMs && best.ms <= kLongestMs) probes.push_back(best);
  }
  // The shortest ones first, each op once.
  std::stable_sort(probes.begin(), probes.end(), [](const Probe& a, const Probe& b) { return a.ms < b.ms; });
  if (probes.size() < kLeastProbes) return std::nullopt;
  if (probes.size() > kProbes) {  // evenly over short and long ones
    std::vector<Probe> some;
    for (size_t i = 0; i < kProbes; ++i) some.push_back(probes[i * (probes.size() - 1) / (kProbes - 1)]);
    probes = std::move(some);
  }
  size_t taken = 0, agree = 0;
  for (const Probe& probe : probes) {
    MeasureOptions options;
    options.seconds = kProbeSeconds;
    options.give_up_ratio = INFINITY;
    std::vector<size_t> ways;
    for (size_t way : {probe.fast, probe.slow})
      if (!probe.entry->ways[way].measured) ways.push_back(way);
    if (!ways.empty()) measure(*probe.entry, {probe.fast, probe.slow}, options);
    const Way &fast = probe.entry->ways[probe.fast], &slow = probe.entry->ways[probe.slow];
    if (!fast.measured || !slow.measured) continue;
    const double apart = slow.ms / fast.ms;
    ++taken;
    agree += apart >= kOrdered && apart <= kOff * probe.apart && apart >= probe.apart / kOff;
  }
  if (taken < kLeastProbes) return std::nullopt;
  return double(agree) >= kBelieved * double(taken);
}

void Catalog::check_tables(const std::vector<EntryRef>& entries) {
  std::map<std::pair<const Device*, int>, std::vector<EntryRef>> groups;
  for (const EntryRef& entry : entries) groups[{entry->device, entry->threads}].push_back(entry);
  for (const auto& [key, group] : groups) {
    CostTableRef table;
    {
      std::lock_guard<std::mutex> guard(tables_lock_);
      const Belief& belief = belief_of(*key.first, key.second);
      if (!belief.decided) table = belief.table;
    }
    if (!table) continue;
    std::string versions;
    for (const auto& provider : machine_.providers()) versions += provider->name() + " " + provider->version() + "|";
    const std::string place = environment(*key.first, "tables", key.second);
    const std::string name = "cost table " + table->identity + " " + hex(checksum(versions));
    const std::optional<double> before = costs_.find(place, name, "believed");
    const std::optional<bool> believed = before ? std::optional<bool>(*before > 0) : probe(*table, group);
    if (!believed) continue;
    if (!before) costs_.record(place, name, "believed", *believed ? 1 : 0);
    {
      std::lock_guard<std::mutex> guard(tables_lock_);
      Belief& belief = belief_of(*key.first, key.second);
      belief.decided = true;
      belief.believed = *believed;
    }
    if (!*believed) continue;
    for (const EntryRef& entry : group) {
      std::lock_guard<std::mutex> guard(entry->lock);
      apply_table(*entry);
    }
    bump_epoch();
  }
}

void Catalog::forget_tables() {
  std::lock_guard<std::mutex> guard(tables_lock_);
  beliefs_.clear();
  tables_.forget();
}

CostTable Catalog::cost_table(const Device& device, int threads) const {
  CostTable table;
  table.device_class = cost_class(device, threads);
  const std::string within = "within ";
  for (const Provider* provider : machine_.providers_of(device))
    for (const CostDatabase::Record& record : costs_.records(environment(device, provider->name(), threads), "")) {
      if (!is_candidate(record.candidate) || !(record.ms > 0)) continue;
      const bool inside = record.candidate.compare(0, within.size(), within) == 0;
      auto& candidates = table.ratios[record.op];
      if (inside)
        candidates.emplace(record.candidate.substr(within.size()), record.ms);
      else
        candidates[record.candidate] = record.ms;
    }
  for (auto op = table.ratios.begin(); op != table.ratios.end();) {
    auto& candidates = op->second;
    double least = INFINITY;
    for (const auto& [candidate, ms] : candidates) least = std::min(least, ms);
    for (auto it = candidates.begin(); it != candidates.end();) {
      it->second /= least;
      it = it->second > kMostExported ? candidates.erase(it) : std::next(it);
    }
    op = candidates.size() < 2 ? table.ratios.erase(op) : std::next(op);
  }
  return table;
}

}  // namespace pl
