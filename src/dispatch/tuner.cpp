#include "dispatch/tuner.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>

#include "core/json.h"
#include "core/threads.h"
#include "dispatch/builders.h"
#include "dispatch/cost_database.h"

namespace pl {
namespace {

using TunerClock = std::chrono::steady_clock;

// A family and layouts whose starting point is slower than the best way by this are not searched.
constexpr double kSearchRatio = 2;
// Ways without tunables are measured if their estimate is within this of the best one.
constexpr double kEstimateRatio = 4;
// A point slower than the best known by this in its first run is not run again.
constexpr double kAbandonRatio = 1.4;
constexpr size_t kChunk = 24;  // points measured in turns
// The database's key for the fastest point of a family and class: "tuned <family> <shapes>".
constexpr const char* kTuned = "tuned ";

// One op being tuned.
struct Search {
  EntryRef met, space;
  bool planned = false;         // starting points are measured, and so is known what else is worth it
  std::vector<size_t> pending;  // points to measure, the most promising first
  TuneOutcome outcome;

  double best_ms() const {
    double best = INFINITY;
    for (const Way& way : space->ways)
      if (way.usable && way.measured) best = std::min(best, double(way.ms));
    return best;
  }
  const Way* best() const {
    const Way* best = nullptr;
    for (const Way& way : space->ways)
      if (way.usable && way.measured && (!best || way.ms < best->ms)) best = &way;
    return best;
  }
};

// Family and layouts: what a starting point speaks for.
std::string branch_of(const Way& way) {
  const size_t at = way.key.find('[');
  const size_t end = way.key.find(']');
  if (at == std::string::npos || end == std::string::npos) return way.key;
  return way.key.substr(0, at) + way.key.substr(end + 1);
}

// The points of one op that are still to be measured, families and layouts in turns, without hopeless ones.
std::vector<size_t> plan_points(const Search& search) {
  std::map<std::string, double> start;
  const double best = search.best_ms();
  for (const Way& way : search.space->ways) {
    if (!way.usable || !way.measured) continue;
    double& ms = start.emplace(branch_of(way), INFINITY).first->second;
    ms = std::min(ms, double(way.ms));
  }
  std::map<std::string, std::vector<size_t>> branches;
  for (size_t i = 0; i < search.space->ways.size(); ++i) {
    const Way& way = search.space->ways[i];
    if (way.candidate.tuning.start || way.measured || !way.usable) continue;
    const auto known = start.find(branch_of(way));
    if (known != start.end() && known->second > kSearchRatio * best) continue;
    branches[branch_of(way)].push_back(i);
  }
  std::vector<size_t> order;
  for (size_t place = 0, added = 1; added > 0; ++place) {
    added = 0;
    for (const auto& [branch, ways] : branches)
      if (place < ways.size()) order.push_back(ways[place]), ++added;
  }
  return order;
}

// Keeps the fastest point of each family and class that was searched: others say nothing that the provider does not
// know by itself.
void record_points(Search& search, CostDatabase& costs) {
  struct Found {
    const Way* fastest = nullptr;
    bool searched = false;
  };
  std::map<std::string, Found> found;  // by family and class
  for (const Way& way : search.space->ways) {
    const TuningPoint& point = way.candidate.tuning;
    if (point.family.empty() || !way.usable || !way.measured) continue;
    Found& here = found[point.family + " " + point.shapes];
    here.searched |= !point.start;
    if (!here.fastest || way.ms < here.fastest->ms) here.fastest = &way;
  }
  for (const auto& [where, here] : found) {
    if (!here.searched) continue;
    const TuningPoint& point = here.fastest->candidate.tuning;
    search.outcome.found.push_back(point);
    search.outcome.found_ms.push_back(here.fastest->ms);
    costs.record(here.fastest->environment, kTuned + point.family + "|" + point.shapes,
                 search.space->text + "|" + point.values, here.fastest->ms);
  }
}

}  // namespace

std::vector<TuneOutcome> tune(Catalog& catalog, CostDatabase& costs, std::vector<EntryRef> entries,
                              const TuneOptions& options) {
  const auto began = TunerClock::now();
  const auto until =
      began + std::chrono::duration_cast<TunerClock::duration>(std::chrono::duration<double>(options.seconds));
  const auto left = [&] { return std::chrono::duration<double>(until - TunerClock::now()).count(); };
  std::vector<TuneOutcome> outcomes;
  bool stopped = false;
  const auto report = [&](const std::string& what, double done) {
    if (options.progress && !options.progress(what, std::min(done, 1.0))) stopped = true;
    return !stopped;
  };
  const auto measured = [&](Entry& space, const std::vector<size_t>& ways, const MeasureOptions& how) {
    try {
      if (!ways.empty()) catalog.measure(space, ways, how);
    } catch (const Interrupted&) {
      stopped = true;
    }
    return !stopped;
  };

  // The dearest first, by what is known or estimated before anything is run.
  std::vector<Search> searches;
  for (const EntryRef& entry : entries) {
    catalog.measure(*entry, Tuning::off);
    if (!catalog.best_ms(*entry)) continue;
    searches.emplace_back();
    searches.back().met = entry;
  }
  std::stable_sort(searches.begin(), searches.end(), [&](const Search& a, const Search& b) {
    return catalog.best_ms(*a.met).value_or(0) > catalog.best_ms(*b.met).value_or(0);
  });
  int threads = 1;
  for (const Search& search : searches) threads = std::max(threads, search.met->device->builders());
  Builders builders(catalog, options.interrupt, threads);
  const auto built = [&](const EntryRef& space, const std::vector<size_t>& ways) {
    try {
      return builders.wait(space, ways, until);
    } catch (const Interrupted&) {
      stopped = true;
      return false;
    }
  };
  // On the host's own processor compilers and measurements would disturb each other.
  const auto separate = [](const Device& device) { return device.traits().gpu; };

  const double total = double(std::max<size_t>(searches.size(), 1));
  // First what programs would use as it is: known times decide which points are worth compiling.
  for (size_t i = 0; i < searches.size() && left() > 0; ++i) {
    Search& search = searches[i];
    search.space = catalog.whole_space(*search.met);
    if (!report("starting points: " + search.space->text, 0.2 * double(i) / total)) break;
    Entry& space = *search.space;
    catalog.measure(space, Tuning::off);  // estimates
    std::vector<size_t> starts, unknown;
    double estimate = INFINITY;
    for (const Way& way : space.ways)
      if (way.candidate.tuning.start && way.usable) estimate = std::min(estimate, double(way.ms));
    for (size_t w = 0; w < space.ways.size(); ++w) {
      const Way& way = space.ways[w];
      if (!way.candidate.tuning.start || !way.usable) continue;
      starts.push_back(w);
      if (!way.measured && (!way.candidate.tuning.family.empty() || way.ms <= kEstimateRatio * estimate))
        unknown.push_back(w);
    }
    for (size_t w : unknown) builders.add(search.space, w);
    if (!built(search.space, unknown)) break;
    MeasureOptions measuring;
    measuring.seconds = std::min(0.5, std::max(0.02, left() / 4));
    measuring.best_ms = search.best_ms();
    measuring.abandon_ratio = kSearchRatio;
    measuring.final_rounds = 4;
    if (!measured(space, unknown, measuring)) break;
    // What measured slower than estimated may bring others within reach, which nothing must leave to their estimates.
    std::vector<size_t> reachable;
    for (size_t w : starts)
      if (space.ways[w].usable && !space.ways[w].measured && space.ways[w].ms < search.best_ms())
        reachable.push_back(w);
    if (!measured(space, reachable, measuring)) break;
    double before = INFINITY;  // what a program takes that knows nothing of the search
    for (size_t w : starts) {
      const Way& way = space.ways[w];
      if (!way.usable || !way.measured || way.ms >= before) continue;
      before = way.ms;
      search.outcome.before_ms = before;
      search.outcome.before = way.key;
    }
    search.pending = plan_points(search);
    search.planned = true;
    if (separate(*space.device))
      for (size_t w : search.pending) builders.add(search.space, w);
  }

  double work = 0, done = 0;  // points to measure
  for (const Search& search : searches) work += double(search.pending.size());
  for (Search& search : searches) {
    if (!search.space) continue;
    Entry& space = *search.space;
    const bool ahead = separate(*space.device);
    size_t at = 0;
    bool interrupted = stopped || left() <= 0;
    while (at < search.pending.size() && !interrupted) {
      const std::vector<size_t> chunk(search.pending.begin() + long(at),
                                      search.pending.begin() + long(std::min(at + kChunk, search.pending.size())));
      const double fraction = 0.2 + 0.8 * std::max(done / work, 1 - left() / options.seconds);
      if (!report(concat(at, " of ", search.pending.size(), " points: ", space.text), fraction)) break;
      if (!ahead)
        for (size_t w : chunk) builders.add(search.space, w);
      if (!built(search.space, chunk)) break;
      MeasureOptions measuring;
      measuring.seconds = std::min(1.0, std::max(0.02, left() / 4));
      measuring.rounds = 7;
      measuring.final_rounds = 0;
      measuring.give_up_ratio = 1.1;
      measuring.abandon_ratio = kAbandonRatio;
      measuring.best_ms = search.best_ms();
      if (!measured(space, chunk, measuring)) break;
      for (size_t w : chunk) {
        std::lock_guard<std::mutex> guard(space.lock);
        space.ways[w].kernel.reset();  // hundreds of programs are not worth their memory
      }
      at += chunk.size();
      done += double(chunk.size());
      interrupted = left() <= 0;
    }
    TuneOutcome& outcome = search.outcome;
    outcome.op = space.text;
    outcome.finished = search.planned && at >= search.pending.size();
    for (const Way& way : space.ways) {
      outcome.points += !way.candidate.tuning.family.empty() && way.usable;
      outcome.measured += !way.candidate.tuning.family.empty() && way.usable && way.measured;
    }
    if (outcome.finished) {
      // The fastest few once more, side by side and longer: the best of many single measurements is a lucky one.
      std::vector<size_t> finalists;
      const double limit = 1.08 * search.best_ms();
      for (size_t w = 0; w < space.ways.size(); ++w)
        if (space.ways[w].usable && space.ways[w].measured && space.ways[w].ms <= limit) finalists.push_back(w);
      std::sort(finalists.begin(), finalists.end(),
                [&](size_t a, size_t b) { return space.ways[a].ms < space.ways[b].ms; });
      if (finalists.size() > 6) finalists.resize(6);
      if (!search.pending.empty() && finalists.size() > 1) {
        MeasureOptions measuring;
        measuring.seconds = std::min(0.5, std::max(0.02, left()));
        measuring.rounds = 15;
        measured(space, finalists, measuring);
      }
    }
    if (const Way* best = search.best()) {
      outcome.after_ms = best->ms;
      outcome.after = best->key;
    }
    record_points(search, costs);
    // Whatever was measured serves from now on, finished or not.
    std::set<std::string> environments;
    for (const Way& way : space.ways)
      if (!way.candidate.tuning.family.empty()) environments.insert(way.environment);
    for (const std::string& environment : environments)
      costs.record(environment, space.text, Catalog::kSearched, outcome.finished ? 1 : 0);
    catalog.renew(search.met, space);
    outcomes.push_back(outcome);
    search.space.reset();
  }
  builders.clear();
  catalog.bump_epoch();
  report("done", 1);
  return outcomes;
}

std::string tuned_points_json(const Catalog& catalog, const CostDatabase& costs,
                              const std::vector<std::string>& providers, const Device& device) {
  Json json;
  json.list();
  for (const std::string& provider : providers) {
    for (const CostDatabase::Record& record : costs.records(catalog.environment(device, provider), kTuned)) {
      const size_t bar = record.op.find('|'), last = record.candidate.rfind('|');
      if (bar == std::string::npos || last == std::string::npos) continue;
      const size_t prefix = std::string(kTuned).size();
      json.object()
          .field("family", record.op.substr(prefix, bar - prefix))
          .field("shapes", record.op.substr(bar + 1))
          .field("values", record.candidate.substr(last + 1))
          .field("op", record.candidate.substr(0, last))
          .field("ms", record.ms)
          .end();
    }
  }
  json.end();
  return json.str();
}

}  // namespace pl
