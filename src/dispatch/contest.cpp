#include "dispatch/contest.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

namespace pl {
namespace {

// A layout throughout that by times taken alone is this much slower than the best of every op does not compete.
constexpr double kPromising = 1.5;
constexpr double kBehind = 1.05;  // after the first turn: no second one
// Greedy choices mix layouts only where it pays, so they are kept unless another is faster by more than the noise.
constexpr double kClearlyFaster = 0.99;
constexpr int kMostContests = 4;  // of a chain that keeps growing while they are under way
constexpr uint64_t kStall = 64;   // times the ops of a chain: runs after which one that did not run is not waited for
constexpr double kPatience = 8;   // programs' lengths: after as many runs a turn goes on with what it has
constexpr uint64_t kForeign = 4096;  // runs of other ops without one of the chain: the program has gone

double wall_clock_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool is_of(const TensorDesc& desc, const Layout& layout) {
  const auto family = family_layout(layout, desc);
  return family && same_memory(desc, desc.with_layout(*family));
}

// The best time by what was measured alone; in a layout if one is given and there is a way in it.
double best_alone(const Entry& entry, const std::optional<Layout>& layout) {
  double best = std::numeric_limits<double>::infinity(), within = best;
  for (const Way& way : entry.ways) {
    if (!way.usable || std::isinf(way.ms)) continue;
    best = std::min<double>(best, way.ms);
    if (layout && is_of(way.candidate.outputs[0], *layout)) within = std::min<double>(within, way.ms);
  }
  if (std::isinf(within)) within = best;
  return std::isinf(within) ? 0 : within;
}

}  // namespace

// Ops that are linked by results.  Everything here, and the parts of Entry that say so, is guarded by Contest::lock_.
struct Chain {
  std::vector<Entry*> members;
  // Counting runs: each member's since `stamp` was given out, how many members have not reached `needed`.
  uint64_t stamp = 0;
  uint32_t needed = 0;
  size_t waiting = 0;
  uint64_t runs = 0;

  int contests = 0;  // begun so far
  bool settled = false;
  size_t settled_size = 0;                         // members by whose runs it was settled; later ones follow
  std::optional<Layout> layout;                    // once settled; nothing: greedy
  std::vector<std::pair<std::string, double>> ms;  // of the last contest, for reports
};

struct Contest::Race {
  struct Samples {
    std::vector<double> clean, disturbed;
    bool extra = false;  // time of conversions, not of runs
  };
  struct Contestant {
    std::optional<Layout> layout;  // nothing: greedy
    uint32_t turn = 0;
    bool out = false;
    std::unordered_map<Entry*, std::unordered_map<uint64_t, Samples>> samples;

    // An op's time in a run; nothing if it was not seen.  Whatever disturbs a run makes it longer, so of the runs that
    // were decided alike the lower quartile stands for all; those decided otherwise (another input layout, say) have
    // their own.
    std::optional<double> ms(Entry* entry) const {
      auto found = samples.find(entry);
      if (found == samples.end()) return std::nullopt;
      double total = 0, runs = 0;
      for (const auto& [key, taken] : found->second) {
        std::vector<double> sorted = taken.clean.empty() ? taken.disturbed : taken.clean;
        const auto at = sorted.begin() + long((sorted.size() - 1) / 4);
        std::nth_element(sorted.begin(), at, sorted.end());
        const auto taken_runs = double(taken.clean.size() + taken.disturbed.size());
        total += *at * taken_runs;
        if (!taken.extra) runs += taken_runs;
      }
      if (runs == 0) return std::nullopt;
      return total / runs;
    }
  };

  Chain* chain = nullptr;
  std::unordered_map<Entry*, double> weight;  // how often each member runs in the program
  double length = 0;                          // of the program, in runs of ops
  std::vector<Contestant> contestants;
  size_t current = 0;
  bool timed = false;  // the current turn has reached its timed runs
  int round = 0;
  uint64_t foreign = 0;  // runs of other chains since the last one of this

  // Times of all members that every contestant ran; nothing if those are too few to judge by.
  std::vector<double> totals() const {
    std::vector<double> sums(contestants.size(), 0);
    size_t judged = 0;
    for (const auto& [entry, times] : weight) {
      std::vector<double> one;
      for (const Contestant& contestant : contestants)
        if (const auto ms = contestant.ms(entry)) one.push_back(*ms * times);
      if (one.size() != contestants.size()) continue;
      for (size_t i = 0; i < one.size(); ++i) sums[i] += one[i];
      ++judged;
    }
    if (2 * judged < weight.size()) sums.clear();
    return sums;
  }
};

Contest::Contest(Catalog& catalog) : catalog_(catalog), clock_(wall_clock_ms) {}
Contest::~Contest() = default;

std::optional<Layout> Contest::layout_of(const Entry& entry, uint32_t turn) const {
  std::lock_guard<std::mutex> guard(lock_);
  if (!entry.chain) return std::nullopt;
  if (race_ && race_->chain == entry.chain) {
    for (const Race::Contestant& contestant : race_->contestants)
      if (contestant.turn == turn) return contestant.layout;
    return std::nullopt;
  }
  return entry.chain->settled ? entry.chain->layout : std::nullopt;
}

ChainReport Contest::report(const Entry& entry) const {
  std::lock_guard<std::mutex> guard(lock_);
  const Chain* chain = entry.chain;
  if (!chain) return {};
  return {chain->members.size(), chain->settled, chain->layout ? chain->layout->str() : std::string(), chain->ms};
}

bool Contest::all_settled() const {
  std::lock_guard<std::mutex> guard(lock_);
  return !race_ && std::all_of(chains_.begin(), chains_.end(), [](const std::unique_ptr<Chain>& chain) {
    return chain->settled || chain->members.size() < kLeastMembers;
  });
}

Chain& Contest::chain_of(Entry& entry) {
  if (!entry.chain) {
    chains_.push_back(std::make_unique<Chain>());
    entry.chain = chains_.back().get();
    entry.chain->members.push_back(&entry);
    restart(*entry.chain, kQuietRuns);
  }
  return *entry.chain;
}

void Contest::restart(Chain& chain, uint32_t needed) {
  chain.stamp = ++last_stamp_;
  chain.needed = needed;
  chain.waiting = race_ && race_->chain == &chain ? race_->weight.size() : chain.members.size();
  chain.runs = 0;
}

void Contest::link(Entry& producer, Entry& consumer) {
  std::lock_guard<std::mutex> guard(lock_);
  Chain* large = &chain_of(producer);
  Chain* small = &chain_of(consumer);
  if (large != small) {
    if (race_ && (race_->chain == large || race_->chain == small)) stop();  // begun too early
    if (small->members.size() > large->members.size()) std::swap(large, small);
    for (Entry* member : small->members) {
      member->chain = large;
      large->members.push_back(member);
    }
    if (small->settled && small->settled_size > large->settled_size) {
      large->settled_size = small->settled_size;
      large->layout = small->layout;
    }
    large->settled = large->settled || small->settled;
    large->contests = std::max(large->contests, small->contests);
    chains_.erase(
        std::find_if(chains_.begin(), chains_.end(), [&](const auto& chain) { return chain.get() == small; }));
  } else if (race_ && race_->chain == large) {
    return;  // a link between members: the contest goes on
  }
  if (large->settled) {
    const bool grown = large->members.size() >= std::max(kLeastMembers, 2 * large->settled_size);
    if (grown) {
      reopen(*large);
    } else {
      for (Entry* member : large->members) member->settled.store(true, std::memory_order_release);
    }
    return;
  }
  restart(*large, kQuietRuns);
}

// Counts a run; true if that was the last one that was waited for.
bool Contest::count(Entry& entry) {
  Chain& chain = *entry.chain;
  if (entry.chain_stamp != chain.stamp) {
    entry.chain_stamp = chain.stamp;
    entry.chain_runs = 0;
  }
  ++chain.runs;
  return ++entry.chain_runs == chain.needed && --chain.waiting == 0;
}

void Contest::ran(Entry& entry, uint32_t turn, uint64_t key, double ms, bool disturbed) {
  std::lock_guard<std::mutex> guard(lock_);
  if (race_ && entry.chain != race_->chain && ++race_->foreign > kForeign) settle(*race_->chain, std::nullopt);
  Chain& chain = chain_of(entry);
  if (chain.settled) return;
  if (!race_ || race_->chain != &chain) {
    // A member that does not run any more, of another program perhaps, is not waited for.
    const bool quiet = count(entry) || (chain.runs >= kStall * chain.members.size());
    if (!quiet) return;
    if (chain.members.size() < kLeastMembers || chain.contests >= kMostContests) {
      settle(chain, std::nullopt);
    } else if (!race_) {
      begin(chain);
    }
    return;
  }
  race_->foreign = 0;
  Race::Contestant& contestant = race_->contestants[race_->current];
  if (contestant.turn != turn) return;  // begun before this turn
  if (!race_->weight.count(&entry)) return;
  if (race_->timed) {
    Race::Samples& samples = contestant.samples[&entry][key];
    (disturbed ? samples.disturbed : samples.clean).push_back(ms);
  }
  // A disturbed run is made up for by another, within reason.
  bool done = false;
  if (disturbed && race_->timed) {
    ++chain.runs;
  } else {
    done = count(entry);
  }
  if (done || double(chain.runs) > kPatience * race_->length) next_phase();
}

void Contest::charge(Entry& producer, uint32_t turn, uint64_t key, double ms) {
  std::lock_guard<std::mutex> guard(lock_);
  if (!race_ || race_->chain != producer.chain || !race_->timed) return;
  Race::Contestant& contestant = race_->contestants[race_->current];
  if (contestant.turn != turn) return;
  Race::Samples& samples = contestant.samples[&producer][~key];
  samples.extra = true;
  samples.clean.push_back(ms);
}

void Contest::begin(Chain& chain) {
  auto race = std::make_unique<Race>();
  race->chain = &chain;
  for (Entry* member : chain.members)
    if (member->chain_stamp == chain.stamp) race->weight[member] = double(member->chain_runs);
  double least = std::numeric_limits<double>::infinity();  // of an op that runs once, where there is one
  for (const auto& [member, times] : race->weight) least = std::min(least, times);
  for (auto& [member, times] : race->weight) race->length += times /= least;
  const auto alone = [&](const std::optional<Layout>& layout) {
    double sum = 0;
    for (const auto& [member, times] : race->weight) sum += times * best_alone(*member, layout);
    return sum;
  };
  const double bound = alone(std::nullopt) * kPromising;
  race->contestants.emplace_back();  // greedy
  const bool blocks = std::any_of(race->weight.begin(), race->weight.end(),
                                  [](const auto& member) { return member.first->op.outputs[0].rank() >= 3; });
  for (const char* name : {"NCHW", "NHWC", "nChw16c", "nChw8c"}) {
    const Layout layout = Layout::parse(name);
    const bool met = std::any_of(race->weight.begin(), race->weight.end(), [&](const auto& member) {
      return std::any_of(member.first->ways.begin(), member.first->ways.end(),
                         [&](const Way& way) { return way.usable && is_of(way.candidate.outputs[0], layout); });
    });
    if (!blocks || !met || alone(layout) > bound) continue;
    race->contestants.emplace_back();
    race->contestants.back().layout = layout;
  }
  if (race->contestants.size() < 2) {
    settle(chain, std::nullopt);
    return;
  }
  ++chain.contests;
  race_ = std::move(race);
  take_turn(0);
}

void Contest::stop() {
  race_ = nullptr;
  turn_.store(0, std::memory_order_release);
}

// The first run of every op in a turn prepares kernels and packs weights, or finds the caches full of others' weights.
void Contest::take_turn(size_t contestant) {
  race_->current = contestant;
  race_->timed = false;
  race_->contestants[contestant].turn = ++last_turn_;
  restart(*race_->chain, 1);
  turn_.store(last_turn_, std::memory_order_release);
}

void Contest::next_phase() {
  Race& race = *race_;
  if (!race.timed) {
    race.timed = true;
    restart(*race.chain, kTimedRuns);
    return;
  }
  const auto following = [&](size_t from) {
    while (from < race.contestants.size() && race.contestants[from].out) ++from;
    return from;
  };
  size_t next = following(race.current + 1);
  if (next < race.contestants.size()) return take_turn(next);
  const std::vector<double> totals = race.totals();
  if (totals.empty()) return settle(*race.chain, std::nullopt);
  const auto best = size_t(std::min_element(totals.begin(), totals.end()) - totals.begin());
  if (race.round++ == 0) {
    size_t left = 0;
    for (size_t i = 0; i < totals.size(); ++i) {
      race.contestants[i].out = totals[i] > kBehind * totals[best];
      left += !race.contestants[i].out;
    }
    if (left > 1) return take_turn(following(0));
  }
  race.chain->ms.clear();
  for (size_t i = 0; i < totals.size(); ++i)
    race.chain->ms.emplace_back(race.contestants[i].layout ? race.contestants[i].layout->str() : "greedy", totals[i]);
  settle(*race.chain, totals[best] < kClearlyFaster * totals[0] ? race.contestants[best].layout : std::nullopt);
}

void Contest::settle(Chain& chain, std::optional<Layout> layout) {
  if (race_ && race_->chain == &chain) stop();
  chain.settled = true;
  chain.settled_size = chain.members.size();
  chain.layout = std::move(layout);
  for (Entry* member : chain.members) member->settled.store(true, std::memory_order_release);
  if (chain.members.size() < kLeastMembers) return;  // was never on trial
  generation_.fetch_add(1, std::memory_order_acq_rel);
  catalog_.bump_epoch();
}

void Contest::reopen(Chain& chain) {
  chain.settled = false;
  chain.layout = std::nullopt;
  for (Entry* member : chain.members) member->settled.store(false, std::memory_order_release);
  restart(chain, kQuietRuns);
  generation_.fetch_add(1, std::memory_order_acq_rel);
  catalog_.bump_epoch();
}

void Contest::forget() {
  std::lock_guard<std::mutex> guard(lock_);
  if (race_) stop();
  for (auto& chain : chains_) {
    chain->settled_size = 0;
    chain->contests = 0;
    reopen(*chain);
  }
}

}  // namespace pl
