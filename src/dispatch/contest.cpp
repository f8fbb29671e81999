#include "dispatch/contest.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "dispatch/race.h"

namespace pl {
namespace {

// A layout does not compete if by times taken alone ops of half the program's time or more are this much slower in it
// than in their best way.  Sums would not do: one time that was taken on a busy machine may be off by a time slice, a
// hundred times an op.
constexpr double kUnpromising = 2;
constexpr double kShortMs = 20;   // a program shorter than this has not filled the caches again after one run
constexpr int kMostContests = 4;  // of a chain that keeps growing while they are under way
constexpr uint64_t kStall = 64;   // times the ops of a chain: runs after which one that did not run is not waited for
constexpr double kPatience = 8;   // programs' lengths: after as many runs a turn goes on with what it has
constexpr uint64_t kForeign = 4096;  // runs of other ops without one of the chain: the program has gone

bool is_of(const TensorDesc& desc, const Layout& layout) {
  const auto family = family_layout(layout, desc);
  return family && same_memory(desc, desc.with_layout(*family));
}

// The best time by what was measured alone: of all ways, of those in a layout (infinite if there is none).
struct Alone {
  double best = std::numeric_limits<double>::infinity(), within = best;
};

Alone times_alone(const Entry& entry, const Layout& layout) {
  Alone times;
  for (const Way& way : entry.ways) {
    if (!way.usable || std::isinf(way.ms)) continue;
    times.best = std::min<double>(times.best, way.ms);
    if (is_of(way.candidate.outputs[0], layout)) times.within = std::min<double>(times.within, way.ms);
  }
  return times;
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

// The race of a chain, and whose turn it is.
struct Contest::Trial {
  Chain* chain;
  Race race;
  std::vector<uint32_t> turns;  // of each contestant: its last one, by name
  std::vector<size_t> order;    // of the present round
  size_t place = 0;             // in it
  uint32_t untimed_runs = 1;    // that a turn begins with
  bool timed = false;           // the current turn has come to its timed runs
  uint64_t foreign = 0;         // runs of other chains since the last one of this

  size_t current() const { return order[place]; }
};

Contest::Contest(Catalog& catalog) : catalog_(catalog) {}
Contest::~Contest() = default;

double Contest::now_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::optional<Layout> Contest::layout_of(const Entry& entry, uint32_t turn) const {
  std::lock_guard<std::mutex> guard(lock_);
  if (!entry.chain) return std::nullopt;
  if (trial_ && trial_->chain == entry.chain) {
    for (size_t i = 0; i < trial_->turns.size(); ++i)
      if (trial_->turns[i] == turn) return trial_->race.contestants()[i].layout;
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
  return !trial_ && std::all_of(chains_.begin(), chains_.end(), [](const std::unique_ptr<Chain>& chain) {
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
  chain.waiting = trial_ && trial_->chain == &chain ? trial_->race.members() : chain.members.size();
  chain.runs = 0;
}

void Contest::link(Entry& producer, Entry& consumer) {
  std::lock_guard<std::mutex> guard(lock_);
  Chain* large = &chain_of(producer);
  Chain* small = &chain_of(consumer);
  if (large != small) {
    if (trial_ && (trial_->chain == large || trial_->chain == small)) stop();  // begun too early
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
  } else if (trial_ && trial_->chain == large) {
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

void Contest::ran(Entry& entry, uint32_t turn, uint64_t key, double ms, bool disturbed, const Way* way) {
  std::lock_guard<std::mutex> guard(lock_);
  if (trial_ && entry.chain != trial_->chain && ++trial_->foreign > kForeign) settle(*trial_->chain, std::nullopt);
  Chain& chain = chain_of(entry);
  if (chain.settled) return;
  if (!trial_ || trial_->chain != &chain) {
    // A member that does not run any more, of another program perhaps, is not waited for.
    const bool quiet = count(entry) || (chain.runs >= kStall * chain.members.size());
    if (!quiet) return;
    if (chain.members.size() < kLeastMembers || chain.contests >= kMostContests) {
      settle(chain, std::nullopt);
    } else if (!trial_) {
      begin(chain);
    }
    return;
  }
  trial_->foreign = 0;
  if (trial_->turns[trial_->current()] != turn) return;  // begun before this turn
  if (!trial_->race.has(entry)) return;
  if (trial_->timed) trial_->race.ran(trial_->current(), entry, key, ms, disturbed, way);
  // A disturbed run is made up for by another, within reason.
  bool done = false;
  if (disturbed && trial_->timed) {
    ++chain.runs;
  } else {
    done = count(entry);
  }
  if (done || double(chain.runs) > kPatience * trial_->race.length()) next_phase();
}

void Contest::charge(Entry& producer, uint32_t turn, uint64_t key, double ms) {
  std::lock_guard<std::mutex> guard(lock_);
  if (!trial_ || trial_->chain != producer.chain || !trial_->timed) return;
  if (trial_->turns[trial_->current()] == turn) trial_->race.charge(trial_->current(), producer, key, ms);
}

void Contest::begin(Chain& chain) {
  Race::Weights weights;
  for (Entry* member : chain.members)
    if (member->chain_stamp == chain.stamp) weights.emplace_back(member, double(member->chain_runs));
  double least = std::numeric_limits<double>::infinity();  // of an op that runs once, where there is one
  for (const auto& [member, times] : weights) least = std::min(least, times);
  for (auto& [member, times] : weights) times /= least;
  auto trial = std::make_unique<Trial>(Trial{&chain, Race(weights), {}, {}});
  trial->race.add(std::nullopt);
  const bool blocks = std::any_of(weights.begin(), weights.end(),
                                  [](const auto& member) { return member.first->op.outputs[0].rank() >= 3; });
  double program_ms = 0;  // by each op's best time alone
  for (const char* name : {"NCHW", "NHWC", "nChw16c", "nChw8c"}) {
    const Layout layout = Layout::parse(name);
    bool met = false;
    double slow = 0;  // of the program's time, in ops that have ways in this layout and are slow in it
    program_ms = 0;
    for (const auto& [member, times] : weights) {
      const Alone alone = times_alone(*member, layout);
      if (std::isinf(alone.best)) continue;
      program_ms += times * alone.best;
      met = met || !std::isinf(alone.within);
      if (!std::isinf(alone.within) && alone.within > kUnpromising * alone.best) slow += times * alone.best;
    }
    if (blocks && met && slow < program_ms / 2) trial->race.add(layout);
  }
  const size_t contestants = trial->race.contestants().size();
  if (contestants < 2) {
    settle(chain, std::nullopt);
    return;
  }
  trial->turns.resize(contestants);
  trial->untimed_runs = program_ms < kShortMs ? 2 : 1;
  ++chain.contests;
  trial_ = std::move(trial);
  take_round();
}

void Contest::stop() {
  trial_ = nullptr;
  turn_.store(0, std::memory_order_release);
}

// Every other round is in reverse, so that a machine that gets slower bit by bit slows all alike.
void Contest::take_round() {
  trial_->order.clear();
  const auto& contestants = trial_->race.contestants();
  for (size_t i = 0; i < contestants.size(); ++i)
    if (!contestants[i].out) trial_->order.push_back(i);
  if (trial_->race.rounds() % 2) std::reverse(trial_->order.begin(), trial_->order.end());
  trial_->place = 0;
  take_turn();
}

// The first runs of every op in a turn prepare kernels and pack weights, or find the caches full of others' weights.
void Contest::take_turn() {
  trial_->timed = false;
  trial_->turns[trial_->current()] = ++last_turn_;
  restart(*trial_->chain, trial_->untimed_runs);
  turn_.store(last_turn_, std::memory_order_release);
}

void Contest::next_phase() {
  Trial& trial = *trial_;
  if (!trial.timed) {
    trial.timed = true;
    trial.race.begin_turn(trial.current());
    restart(*trial.chain, kTimedRuns);
    return;
  }
  if (++trial.place < trial.order.size()) return take_turn();
  if (!trial.race.end_round()) return take_round();
  const std::vector<double> totals = trial.race.totals();
  trial.chain->ms.clear();
  for (size_t i = 0; i < totals.size(); ++i)
    trial.chain->ms.emplace_back(trial.race.contestants()[i].name(), totals[i]);
  settle(*trial.chain, trial.race.contestants()[trial.race.winner()].layout);
}

void Contest::settle(Chain& chain, std::optional<Layout> layout) {
  if (trial_ && trial_->chain == &chain) stop();
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

bool Contest::leave(Entry& entry) {
  std::lock_guard<std::mutex> guard(lock_);
  Chain* chain = entry.chain;
  if (!chain) return true;
  if (trial_ && trial_->chain == chain) return false;
  auto& members = chain->members;
  members.erase(std::find(members.begin(), members.end(), &entry));
  entry.chain = nullptr;
  if (members.empty()) {
    chains_.erase(std::find_if(chains_.begin(), chains_.end(), [&](const auto& each) { return each.get() == chain; }));
  } else if (!chain->settled) {
    restart(*chain, chain->needed);
  }
  return true;
}

void Contest::forget() {
  std::lock_guard<std::mutex> guard(lock_);
  if (trial_) stop();
  for (auto& chain : chains_) {
    chain->settled_size = 0;
    chain->contests = 0;
    reopen(*chain);
  }
}

}  // namespace pl
