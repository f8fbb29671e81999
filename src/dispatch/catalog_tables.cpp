// Catalog: cost tables of this machine's class, as a source between what was measured here and estimates.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>

#include "core/files.h"
#include "core/json.h"
#include "dispatch/builders.h"
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
// Where the device's own clock tells: most ops of ResNet-50 take 6 to 20 us on an H100, of which none would be left.
constexpr double kShortestQueuedMs = 0.005;
constexpr int kQueuedRounds = 4;  // and fewer runs tell
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
// Where kernels have to be compiled, a probe costs two of them, of which a plan needs one anyway: three, of which two
// must agree.
constexpr size_t kCompiledProbes = 3;
constexpr std::chrono::seconds kProbeCompiles{10};
// Of one class, that are tried until one is believed: another processor's with the same instructions, or one of other
// numbers of threads.
constexpr size_t kMostTables = 3;
// Under which the database keeps the answer, and that of a busy machine, which is asked again when it is quiet.
constexpr const char *kBelievedKey = "believed", *kBusyBelievedKey = "busy believed";

bool is_candidate(const std::string& key) {
  const auto begins = [&](std::string_view head) { return key.compare(0, head.size(), head) == 0; };
  return key.find('/') != std::string::npos && !begins("wrong ") && !begins("busy ");
}

}  // namespace

// With the entry's lock; its ways have estimates.
void Catalog::apply_table(Entry& entry) {
  Belief belief;
  {
    std::lock_guard<std::mutex> guard(tables_lock_);
    const auto known = beliefs_.find({entry.device, entry.threads});
    if (known != beliefs_.end()) belief = known->second;
  }
  if (!belief.table) return;
  const CostTable::Costs costs = belief.table->find(entry.text);
  const auto tabled = [](const Way& way) { return bool(way.tabled); };
  if (costs.ratios.empty() || std::any_of(entry.ways.begin(), entry.ways.end(), tabled)) return;
  // What the fastest takes here: by those that were measured here, else by the table and how fast this machine is.
  double log_sum = 0;
  int count = 0;
  for (const Way& way : entry.ways) {
    const double ratio = costs.ratio_of(way.key);
    if (!way.usable || !way.measured || !ratio || !(way.ms > 0)) continue;
    log_sum += std::log(way.ms / ratio);
    ++count;
  }
  const double least = count ? std::exp(log_sum / count) : belief.speed * costs.ms;
  for (Way& way : entry.ways) {
    if (way.measured || way.within || !way.usable || std::isinf(way.ms)) continue;
    const double ratio = costs.ratio_of(way.key);
    way.ms = ratio ? least * ratio : std::max(double(way.ms), kUnlisted * least);
    way.tabled = true;
  }
}

// How many times as long as the table says this machine takes, by probes most of which agree with it; 0: they do not;
// nothing where there are too few, or other programs disturb them.
std::optional<double> Catalog::probe(const CostTable& table, const std::vector<EntryRef>& entries, Builders* builders,
                                     const Ready& ready) {
  struct Probe {
    EntryRef entry;
    size_t fast = 0, slow = 0;
    double apart = 0;             // by the table
    double ms = 0, table_ms = 0;  // of the fast one: by estimate, by the table
  };
  std::vector<Probe> probes;
  for (const EntryRef& entry : entries) {
    const CostTable::Costs costs = table.find(entry->text);
    if (costs.ratios.empty()) continue;
    std::lock_guard<std::mutex> guard(entry->lock);
    std::vector<double> ratios;  // 0: not to be looked at
    for (const Way& way : entry->ways) {
      const bool ready = !entry->device->traits().queued && !way.compiles;
      ratios.push_back(way.usable && (ready || builders || way.measured) ? costs.ratio_of(way.key) : 0);
    }
    Probe best;
    best.entry = entry;
    for (size_t a = 0; a < ratios.size(); ++a)
      for (size_t b = 0; b < ratios.size(); ++b) {
        if (!ratios[a] || !ratios[b]) continue;
        const double apart = ratios[b] / ratios[a];
        if (apart < kLeastApart || apart > kMostApart || apart <= best.apart) continue;
        best.fast = a, best.slow = b, best.apart = apart;
        best.ms = entry->ways[a].ms, best.table_ms = costs.ms * ratios[a];
      }
    const double shortest = entry->device->traits().queued ? kShortestQueuedMs : kShortestMs;
    if (best.apart && best.ms >= shortest && best.ms <= kLongestMs) probes.push_back(best);
  }
  // The shortest ones first, each op once.
  std::stable_sort(probes.begin(), probes.end(), [](const Probe& a, const Probe& b) { return a.ms < b.ms; });
  if (probes.size() < kLeastProbes) return std::nullopt;
  const size_t most = builders ? kCompiledProbes : kProbes;
  if (probes.size() > most) {  // evenly over short and long ones
    std::vector<Probe> some;
    for (size_t i = 0; i < most; ++i) some.push_back(probes[i * (probes.size() - 1) / (most - 1)]);
    probes = std::move(some);
  }
  const auto to_measure = [](const Probe& probe) {
    std::vector<size_t> ways;
    for (size_t way : {probe.fast, probe.slow})
      if (!probe.entry->ways[way].measured) ways.push_back(way);
    return ways;
  };
  if (builders)
    for (const Probe& probe : probes)
      for (size_t way : to_measure(probe)) builders->add(probe.entry, way);
  size_t differ = 0, disturbed = 0;
  std::vector<double> speeds;  // by those that agree
  for (const Probe& probe : probes) {
    MeasureOptions options;
    options.seconds = kProbeSeconds;
    options.give_up_ratio = INFINITY;
    if (probe.entry->device->traits().queued) options.rounds = kQueuedRounds, options.final_rounds = 1;
    const std::vector<size_t> ways = to_measure(probe);
    if (!ways.empty() && ready && !ready(probe.entry, ways)) continue;
    const auto since = Load::Clock::now();
    if (!ways.empty()) measure(*probe.entry, {probe.fast, probe.slow}, options);
    const Way &fast = probe.entry->ways[probe.fast], &slow = probe.entry->ways[probe.slow];
    if (!fast.measured || !slow.measured) continue;
    const double apart = slow.ms / fast.ms;
    if (apart >= kOrdered && apart <= kOff * probe.apart && apart >= probe.apart / kOff) {
      speeds.push_back(fast.ms / probe.table_ms);
    } else if (!ways.empty() && was_disturbed(*probe.entry->device, probe.entry->threads, since)) {
      ++disturbed;  // other programs rarely make two times agree, but often differ
    } else {
      ++differ;
    }
  }
  const double taken = double(speeds.size() + differ + disturbed);
  if (taken < kLeastProbes) return std::nullopt;
  if (double(speeds.size()) >= kBelieved * taken) {
    const auto middle = speeds.begin() + long(speeds.size() / 2);
    std::nth_element(speeds.begin(), middle, speeds.end());
    return *middle;
  }
  if (double(differ) > (1 - kBelieved) * taken) return 0;
  return std::nullopt;
}

std::string Catalog::belief_key(const CostTable& table) const {
  std::string versions;
  for (const auto& provider : machine_.providers()) versions += provider->name() + " " + provider->version() + "|";
  return "cost table " + table.identity() + " " + hex(checksum(versions));
}

// The speed that was found for it; 0: it is not believed; nothing where it was not checked.
std::optional<double> Catalog::belief_in(const CostTable& table, const Device& device, int threads) const {
  const std::string place = environment(device, "tables", threads), key = belief_key(table);
  const std::optional<double> known = costs_.find(place, key, kBelievedKey);
  return known ? known : costs_.find(place, key, kBusyBelievedKey);
}

void Catalog::check_tables(const std::vector<EntryRef>& entries, Builders* builders, const Ready& ready) {
  if (!machine_.options().cost_tables) return;
  std::map<std::pair<const Device*, int>, std::vector<EntryRef>> groups;
  for (const EntryRef& entry : entries) groups[{entry->device, entry->threads}].push_back(entry);
  for (const auto& [key, group] : groups) {
    Builders* const compiling = key.first->traits().compiles ? builders : nullptr;
    const auto compiled = [&](const EntryRef& entry, const std::vector<size_t>& ways) {
      return compiling->wait(entry, ways, std::chrono::steady_clock::now() + kProbeCompiles);
    };
    std::vector<CostTableRef> tables;
    {
      std::lock_guard<std::mutex> guard(tables_lock_);
      if (beliefs_[key].decided) continue;
      tables = tables_.of(cost_class(*key.first, key.second));
    }
    if (tables.size() > kMostTables) tables.resize(kMostTables);
    const std::string place = environment(*key.first, "tables", key.second);
    Belief belief;
    belief.decided = true;
    for (const CostTableRef& table : tables) {
      std::optional<double> speed = belief_in(*table, *key.first, key.second);
      if (!speed || (!costs_.find(place, belief_key(*table), kBelievedKey) && is_quiet(*key.first, key.second))) {
        const auto since = Load::Clock::now();
        speed = probe(*table, group, compiling, ready || !compiling ? ready : compiled);
        const bool disturbed = was_disturbed(*key.first, key.second, since);
        if (speed) costs_.record(place, belief_key(*table), disturbed ? kBusyBelievedKey : kBelievedKey, *speed);
      }
      belief.decided = belief.decided && speed;
      if (!speed || !(*speed > 0)) continue;
      belief.decided = true;
      belief.table = table;
      belief.speed = *speed;
      break;
    }
    {
      std::lock_guard<std::mutex> guard(tables_lock_);
      beliefs_[key] = belief;
    }
    if (!belief.table) continue;
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

namespace {

// What an op's candidates take within programs, where some ran there: of the others what they took alone, times what
// those took more within.
std::map<std::string, double> within_programs(std::map<std::string, double> alone,
                                              const std::map<std::string, double>& within) {
  double log_ratio = 0;
  int count = 0;
  for (const auto& [candidate, ms] : within)
    if (const auto known = alone.find(candidate); known != alone.end()) {
      log_ratio += std::log(ms / known->second);
      ++count;
    }
  const double more = count ? std::max(1.0, std::exp(log_ratio / count)) : 1;
  for (auto& [candidate, ms] : alone) ms *= more;
  for (const auto& [candidate, ms] : within) alone[candidate] = ms;
  return alone;
}

}  // namespace

std::string Catalog::cost_table(const Device& device, int threads) const {
  std::map<std::string, std::map<std::string, double>> alone, within;  // by op and candidate
  const std::string mark = "within ";
  std::string versions;
  for (const Provider* provider : machine_.providers_of(device)) {
    bool any = false;
    for (const CostDatabase::Record& record : costs_.records(environment(device, provider->name(), threads), "")) {
      if (!is_candidate(record.candidate) || !(record.ms > 0)) continue;
      any = true;
      if (record.candidate.compare(0, mark.size(), mark) == 0)
        within[record.op][record.candidate.substr(mark.size())] = record.ms;
      else
        alone[record.op][record.candidate] = record.ms;
    }
    if (any) versions += (versions.empty() ? "" : ", ") + provider->name() + " " + provider->version();
  }
  std::map<std::string, std::map<std::string, double>> times;
  for (auto* each : {&alone, &within})
    for (const auto& [op, candidates] : *each)
      if (!times.count(op)) times[op] = within_programs(alone[op], within[op]);
  char day[16];
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  std::strftime(day, sizeof day, "%Y-%m-%d", gmtime_r(&now, &utc));
  return CostTable::write(cost_class(device, threads),
                          {{"machine", device.fingerprint()}, {"versions", versions}, {"day", day}}, times);
}

void Catalog::describe_tables(Json& json) {
  json.list();
  std::lock_guard<std::mutex> guard(tables_lock_);
  for (const CostTables::File& file : tables_.files()) {
    json.object().field("path", file.path).field("class", file.device_class.str()).field("imported", file.imported);
    json.key("devices").list();
    for (const auto& device : machine_.devices()) {
      const int threads = device->traits().threads ? int(machine_.options().threads) : 1;
      const CostClass own = cost_class(*device, threads);
      if (!std::isfinite(file.device_class.distance(own))) continue;
      for (const CostTableRef& table : tables_.of(own)) {
        if (table->path() != file.path) continue;
        const auto speed = belief_in(*table, *device, threads);
        json.object().field("device", device->name()).field("ops", table->ops());
        json.field("candidates", table->candidates());
        json.field("found", !speed ? "not checked" : *speed > 0 ? "believed" : "refused");
        if (speed && *speed > 0) json.field("speed", *speed);
        json.key("about").object();
        for (const auto& [what, text] : table->about()) json.field(what, text);
        json.end().end();
      }
    }
    json.end().end();
  }
  json.end();
}

}  // namespace pl
