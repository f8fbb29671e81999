// Catalog: what ways cost, what measuring says of them, and which of them can be used.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>

#include "core/threads.h"
#include "dispatch/catalog.h"
#include "dispatch/cost_database.h"
#include "dispatch/machine.h"
#include "dispatch/measure.h"
#include "providers/building.h"

namespace pl {
namespace {

// A way whose kernel cannot be made.  False: that was known.  The entry's lock is held.
bool refuse(Entry& entry, Way& way, const std::string& problem) {
  if (!way.usable) return false;
  way.usable = false;
  entry.refusals.push_back({way.candidate.provider, way.candidate.implementation + ": " + problem});
  return true;
}

// The database keeps what was found wrong beside the times, under the candidate's key with this before it, and so what
// was measured while other programs had the processors.
constexpr const char *kWrong = "wrong ", *kBusy = "busy ";

// Processors that others take, from which on a measurement is marked, and up to which it is worth being made again:
// what a system does by itself stays below the latter, one busy program is above the former.
constexpr double kDisturbed = 0.3, kQuiet = 0.15;

// What is measured where it matters: ways whose cost is within this of the least.  A machine of the same class says
// more than an estimate does.
constexpr double kReachOfEstimates = 2, kReachOfTabled = 1.25;

// What a prepared kernel holds in memory: the primitive of a convolution (oneDNN 3.2).
constexpr size_t kKernelBytes = size_t(48) << 10;

std::string within_key(const Way& way) { return "within " + way.key; }

}  // namespace

void Catalog::record_within(const Entry& entry, const Way& way, double ms) {
  costs_.record(way.environment, entry.text, within_key(way), ms);
}

// Fills in what is known: measured costs from the database, or else what was seen within programs, estimates for the
// rest.
void Catalog::price(Entry& entry) {
  bool all = true;
  std::map<std::string, std::string> environments;  // by provider
  for (Way& way : entry.ways) {
    std::string& known_environment = environments[way.candidate.provider];
    if (known_environment.empty())
      known_environment = environment(*entry.device, way.candidate.provider, entry.threads);
    way.environment = known_environment;
    const auto error = costs_.find(way.environment, entry.text, kWrong + way.key);
    if (error && way.usable) refuse_wrong(way, *error);
    if (!error && way.wrong > 0) way.wrong = 0, way.usable = true;  // the database was cleared
    auto known = costs_.find(way.environment, entry.text, way.key);
    way.within = way.tabled = way.busy = false;
    if (!known && (known = costs_.find(way.environment, entry.text, kBusy + way.key))) {
      all = false;
      way.busy = true;
    }
    way.measured = known.has_value();
    if (known) {
      way.ms = *known;
    } else if (const auto within = costs_.find(way.environment, entry.text, within_key(way))) {
      all = false;
      way.within = true;
      way.ms = *within;
    } else {
      all = false;
      // The rates themselves are measured through entries of a few ops, which must not ask for rates.
      way.ms = std::numeric_limits<double>::infinity();
    }
  }
  entry.all_measured = all;
}

std::vector<size_t> Catalog::to_measure(Entry& entry, Tuning tuning, bool without_compiling) {
  std::unique_lock<std::mutex> guard(entry.lock);
  if (entry.all_measured) return {};
  const bool priced = std::all_of(entry.ways.begin(), entry.ways.end(),
                                  [](const Way& way) { return !std::isinf(way.ms) || !way.usable; });
  if (!priced) {
    guard.unlock();
    const Rates known = rates(*entry.device);
    guard.lock();
    for (Way& way : entry.ways)
      if (!way.measured && std::isinf(way.ms)) way.ms = estimate_ms(entry.op, way.candidate, known);
    apply_table(entry);
  }
  std::vector<size_t> chosen;
  if (tuning == Tuning::off) return chosen;
  const bool again = may_measure_again(entry);
  double best = std::numeric_limits<double>::infinity();
  for (const Way& way : entry.ways)
    if (way.usable) best = std::min(best, double(way.ms));
  for (size_t i = 0; i < entry.ways.size(); ++i) {
    const Way& way = entry.ways[i];
    if (without_compiling && way.compiles) continue;
    const double reach = way.tabled ? kReachOfTabled : kReachOfEstimates;
    if (way.usable && (!way.measured || (way.busy && again)) && (tuning == Tuning::full || way.ms <= reach * best))
      chosen.push_back(i);
  }
  // In case the time runs out: what is ready at once, then what promises most.
  std::stable_sort(chosen.begin(), chosen.end(), [&](size_t a, size_t b) {
    const Way &one = entry.ways[a], &other = entry.ways[b];
    return one.compiles != other.compiles ? other.compiles : double(one.ms) < double(other.ms);
  });
  return chosen;
}

void Catalog::measure(Entry& entry, Tuning tuning, const MeasureLimits& limits) {
  MeasureOptions options;
  if (tuning == Tuning::full) {
    options.rounds = 15;
    options.seconds = 1.0;
  }
  options.seconds = std::min(options.seconds, limits.op_seconds);
  const auto began = std::chrono::steady_clock::now();
  const auto left = [&] {
    return limits.seconds - std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  };
  if (!limits.these.empty()) {
    std::vector<size_t> chosen;
    {
      std::lock_guard<std::mutex> guard(entry.lock);
      const bool again = may_measure_again(entry);
      for (size_t i : limits.these) {
        const Way& way = entry.ways[i];
        if (way.usable && (!way.measured || (way.busy && again))) chosen.push_back(i);
      }
    }
    if (!chosen.empty() && tuning != Tuning::off) measure_if_it_fits(entry, chosen, options, left());
    return;
  }
  // What measuring shows may bring others within reach of the best, so until no way that matters is unmeasured.
  for (;;) {
    std::vector<size_t> chosen = to_measure(entry, tuning, limits.without_compiling);
    if (chosen.empty() || left() <= 0 || entry.left_alone) break;
    const bool some = chosen.size() > limits.ways;
    if (some) chosen.resize(limits.ways);
    measure_if_it_fits(entry, chosen, options, left());
    if (some) break;
  }
  if (tuning == Tuning::off) return;
  std::lock_guard<std::mutex> guard(entry.lock);
  entry.all_measured = std::all_of(entry.ways.begin(), entry.ways.end(),
                                   [](const Way& way) { return (way.measured && !way.busy) || !way.usable; });
}

// Sample values need as much memory as a call's own, which need not be there twice.
void Catalog::measure_if_it_fits(Entry& entry, const std::vector<size_t>& chosen, const MeasureOptions& options,
                                 double prepare_seconds) {
  try {
    measure(entry, chosen, options, prepare_seconds);
  } catch (const Error& error) {
    if (error.code() != Code::out_of_memory) throw;
    entry.left_alone = true;
  }
}

double Catalog::beyond_the_spare(double others, const Device& device, int threads) {
  const int all = available_processors(), own = device.traits().threads && threads ? std::min(threads, all) : all;
  return std::max(0.0, others - (all - own));
}

bool Catalog::was_disturbed(const Device& device, int threads, Load::Clock::time_point since) {
  if (device.traits().gpu) return false;
  const std::optional<double> others = machine_.load().of_others(since);
  return others && beyond_the_spare(*others, device, threads) > kDisturbed;
}

// With the entry's lock: whether it has ways to be measured again, and now is the time.
bool Catalog::may_measure_again(const Entry& entry) {
  const auto busy = [](const Way& way) { return way.usable && way.busy; };
  if (std::none_of(entry.ways.begin(), entry.ways.end(), busy)) return false;
  return is_quiet(*entry.device, entry.threads);
}

bool Catalog::is_quiet(const Device& device, int threads) {
  if (device.traits().gpu) return true;
  const std::optional<double> others = machine_.load().of_others_lately();
  return others && beyond_the_spare(*others, device, threads) <= kQuiet;
}

namespace {

// How far estimates are off: the geometric mean of what was measured over what was estimated.
struct ModelError {
  double log_sum = 0;
  int count = 0;

  void add(double ratio) { log_sum += std::log(ratio), ++count; }
  double factor() const { return std::exp(log_sum / count); }
};

}  // namespace

void Catalog::correct_estimates(const std::vector<EntryRef>& entries) {
  const auto op_of = [](const Entry& entry) {
    const DType dtype = entry.op.outputs.empty() ? DType::f32 : entry.op.out().dtype;
    return entry.device->name() + " " + std::string(entry.op.schema->name) + " " + name_of(dtype);
  };
  const auto family_of = [&](const Entry& entry, const Way& way) {
    const std::string& implementation = way.candidate.implementation;  // jit:avx512_core, conv_fwd_mma[128x64,...]
    return op_of(entry) + " " + way.candidate.provider + "/" +
           implementation.substr(0, implementation.find_first_of(":["));
  };
  std::map<std::string, ModelError> errors;  // by op and by family
  for (const EntryRef& entry : entries) {
    const Rates known = rates(*entry->device);
    std::lock_guard<std::mutex> guard(entry->lock);
    for (const Way& way : entry->ways) {
      if (!(way.measured || way.within) || !way.usable) continue;
      const double ratio = way.ms / estimate_ms(entry->op, way.candidate, known);
      if (!(ratio > 0)) continue;
      errors[op_of(*entry)].add(ratio);
      errors[family_of(*entry, way)].add(ratio);
    }
  }
  for (const EntryRef& entry : entries) {
    const Rates known = rates(*entry->device);
    std::lock_guard<std::mutex> guard(entry->lock);
    for (Way& way : entry->ways) {
      if (way.measured || way.within || way.tabled || !way.usable) continue;
      auto error = errors.find(family_of(*entry, way));
      if (error == errors.end()) error = errors.find(op_of(*entry));
      const double factor = error == errors.end() ? 1 : std::max(1.0, error->second.factor());
      way.ms = factor * estimate_ms(entry->op, way.candidate, known);
    }
  }
  bump_epoch();
}

void Catalog::measure(Entry& entry, const std::vector<size_t>& chosen, const MeasureOptions& options,
                      double prepare_seconds) {
  measure_unannounced(entry, chosen, options, prepare_seconds);
  bump_epoch();
}

// Kernels are prepared and run outside the entry's lock; other threads may use the entry meanwhile.
void Catalog::measure_unannounced(Entry& entry, const std::vector<size_t>& chosen, const MeasureOptions& given,
                                  double prepare_seconds) {
  std::vector<TimedCandidate> timed;
  std::vector<std::shared_ptr<Kernel>> kernels;
  std::vector<size_t> places;
  const auto began = std::chrono::steady_clock::now();
  const Building wish(Building::wish() == Building::behind ? Building::freely : Building::wish());
  for (size_t i : chosen) {
    machine_.interrupt().poll();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    if (!timed.empty() && took.count() > prepare_seconds) break;
    if (auto prepared = kernel(entry, entry.ways[i])) {
      timed.push_back({&entry.ways[i].candidate, prepared.get()});
      kernels.push_back(prepared);
      places.push_back(i);
    }
  }
  if (timed.empty()) return;
  MeasureOptions options = given;
  options.interrupt = &machine_.interrupt();
  for (size_t i = 0; i < entry.op.inputs.size(); ++i)
    options.constants.push_back(entry.op.schema->role_of(int(i)) == Role::constant);
  options.witnesses = [&] { return witnesses(entry); };
  bool overturned = false, disturbed = false;
  {
    std::lock_guard<std::mutex> one(measuring_);
    if (entry.device->traits().threads) use_threads(entry.threads);
    AgreedResult agreed = entry.agreed;  // written here alone, one at a time
    options.agreed = &agreed;
    const auto since = Load::Clock::now();
    pl::measure(*entry.device, entry.op, timed, options);
    disturbed = was_disturbed(*entry.device, entry.threads, since);
    const std::vector<double>& before = entry.agreed.values;
    overturned = !before.empty() && difference(before, agreed.values) > agreement_bound(entry.op);
    std::lock_guard<std::mutex> guard(entry.lock);
    entry.agreed = std::move(agreed);
  }
  std::lock_guard<std::mutex> guard(entry.lock);
  if (overturned)  // what was measured before agreed on another result
    for (Way& way : entry.ways)
      if (way.agrees) {
        way.agrees = false;
        refuse_wrong(way, 1);
        costs_.record(way.environment, entry.text, kWrong + way.key, way.wrong);
      }
  for (size_t i = 0; i < places.size(); ++i) {
    Way& way = entry.ways[places[i]];
    if (timed[i].failed) {
      way.usable = false;
      entry.refusals.push_back({way.candidate.provider, way.candidate.implementation + ": failed when it was run"});
      continue;
    }
    if (timed[i].wrong) {
      refuse_wrong(way, timed[i].error);
      costs_.record(way.environment, entry.text, kWrong + way.key, way.wrong);
      continue;
    }
    way.agrees = timed[i].agrees;
    if (options.untimed) continue;
    way.ms = timed[i].ms;
    way.measured = true;
    // What was hardly ever left alone is the best that is known, for this process, and for others until all is quiet.
    way.busy = false;
    costs_.record(way.environment, entry.text, disturbed || timed[i].doubtful ? kBusy + way.key : way.key, way.ms);
  }
}

bool Catalog::compare(Entry& entry, Way& way) {
  {
    std::lock_guard<std::mutex> guard(entry.lock);
    if (!way.usable || way.agrees) return way.usable;
  }
  MeasureOptions options;
  options.untimed = true;
  measure(entry, {size_t(&way - entry.ways.data())}, options);
  return way.usable;
}

// With the entry's lock, or before others see the entry.
void Catalog::refuse_wrong(Way& way, double error) {
  way.usable = false;
  way.wrong = std::isfinite(error) ? std::max(error, 1e-9) : 1e9;  // the database keeps finite numbers
}

// Ways that are not measured, and plain loops where they take no more than a second or so.
std::vector<Witness> Catalog::witnesses(Entry& entry) {
  constexpr size_t kMost = 3;
  constexpr double kReferenceFlops = 1e9;
  std::vector<Witness> found;
  const auto add = [&](const Candidate& candidate) {
    try {
      found.push_back({candidate, candidate.prepare()});
    } catch (const Error&) {  // one that cannot be prepared is none
    }
  };
  if (entry.op.schema->flops(entry.op) <= kReferenceFlops) {
    CandidateList list;
    for (Provider* provider : machine_.providers_of(*entry.device)) provider->list(entry.op, *entry.device, list);
    for (const Candidate& candidate : list.candidates)
      if (candidate.reference && found.empty()) add(candidate);
  }
  const auto has_kernel = [&](const Way& way) {
    std::lock_guard<std::mutex> guard(entry.lock);
    return way.kernel != nullptr;
  };
  for (const Way& way : entry.ways)
    if (found.size() < kMost && way.usable && !way.measured && !has_kernel(way)) add(way.candidate);
  return found;
}

std::vector<CostDatabase::Record> Catalog::found_wrong(const Device& device, const std::string& provider) const {
  std::vector<CostDatabase::Record> found;
  const std::string mark = kWrong;
  for (CostDatabase::Record& record : costs_.records(environment(device, provider), "")) {
    if (record.candidate.compare(0, mark.size(), mark) != 0) continue;
    record.candidate.erase(0, mark.size());
    found.push_back(std::move(record));
  }
  return found;
}

std::shared_ptr<Kernel> Catalog::kernel(Entry& entry, Way& way) {
  {
    std::lock_guard<std::mutex> guard(entry.lock);
    if (way.kernel || !way.usable) return way.kernel;
  }
  refuse_after_fork();
  std::shared_ptr<Kernel> made;
  std::string problem;
  try {
    if (entry.device->traits().threads) use_threads(entry.threads);
    std::optional<Building> behind;
    if (Building::wish() == Building::behind)
      behind.emplace(Building::behind, [known = entry.weak_from_this(), &way, epoch = epoch_](const std::string& why) {
        const EntryRef alive = known.lock();
        if (!alive) return;
        std::lock_guard<std::mutex> guard(alive->lock);
        if (refuse(*alive, way, why)) epoch->fetch_add(1, std::memory_order_acq_rel);
      });
    made = way.candidate.prepare();
  } catch (const NotBuilt&) {
    return nullptr;
  } catch (const Error& error) {
    if (error.code() == Code::out_of_memory) throw;
    problem = error.what();
  }
  std::lock_guard<std::mutex> guard(entry.lock);
  if (made) {
    if (!way.kernel) {
      way.kernel = std::move(made);
      if (entry.bytes) entry.bytes += kKernelBytes, bytes_ += kKernelBytes;  // else it is not among the entries
    }
  } else if (refuse(entry, way, problem)) {
    bump_epoch();
  }
  return way.kernel;
}

std::vector<Refusal> Catalog::refusals(Entry& entry) {
  std::vector<Refusal> found = disagreements(entry);
  std::lock_guard<std::mutex> guard(entry.lock);
  found.insert(found.begin(), entry.refusals.begin(), entry.refusals.end());
  return found;
}

std::vector<Refusal> Catalog::disagreements(Entry& entry) {
  std::vector<Refusal> found;
  std::lock_guard<std::mutex> guard(entry.lock);
  for (const Way& way : entry.ways) {
    if (way.wrong == 0) continue;
    char text[64];
    std::snprintf(text, sizeof text, "%.1e, bound %.1e", way.wrong, agreement_bound(entry.op));
    found.push_back(
        {way.candidate.provider,
         concat(way.candidate.implementation, " ", way.candidate.outputs[0].layout.str(),
                ": wrong: its result stands against the other candidates' (relative difference ", text, ")")});
  }
  return found;
}

std::string Catalog::why_nothing_runs(Entry& entry, const std::string& where) {
  std::string text = concat(entry.op.schema->name, ": nothing on ", entry.device->name(), " can run ", entry.op.str());
  if (!where.empty()) text += " (" + where + ")";
  const std::vector<Refusal> list = refusals(entry);
  if (!list.empty()) text += "; the providers say:";
  for (const Refusal& refusal : list) text += "\n  " + refusal.provider + ": " + refusal.reason;
  return text;
}

std::string Catalog::refusals_in_a_line(Entry& entry) {
  std::string text;
  for (const Refusal& refusal : refusals(entry))
    text += (text.empty() ? "" : "; ") + refusal.provider + ": " + refusal.reason.substr(0, refusal.reason.find('\n'));
  return text.empty() ? "no provider has it on " + entry.device->name() : text;
}

std::optional<double> Catalog::best_ms(Entry& entry) {
  std::lock_guard<std::mutex> guard(entry.lock);
  std::optional<double> best;
  for (const Way& way : entry.ways)
    if (way.usable && (!best || way.ms < *best)) best = way.ms;
  return best;
}

void Catalog::forget_costs() {
  {
    std::lock_guard<std::mutex> guard(rates_lock_);
    rates_.clear();
  }
  std::lock_guard<std::mutex> guard(lock_);
  for (auto& [key, entry] : entries_) {
    std::lock_guard<std::mutex> inner(entry->lock);
    price(*entry);
  }
  bump_epoch();
}

}  // namespace pl
