#include "dispatch/contest.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "dispatch/race.h"

namespace pl {
namespace {

// A layout does not compete if by times taken alone ops of half the program's time or more are this much slower in it
// than in their best way.  Sums would not do: one time that was taken on a busy machine may be off by a time slice, a
// hundred times an op.
constexpr double kUnpromising = 2;
constexpr double kShortMs = 20;      // a program shorter than this has not filled the caches again after one run
constexpr int kMostContests = 4;     // of linked ops that grow in number while they are under way
constexpr uint64_t kStall = 64;      // times the linked ops: runs after which one that did not run is not waited for
constexpr double kPatience = 8;      // programs' lengths: after as many runs a turn goes on with what it has
constexpr uint64_t kForeign = 4096;  // runs of other ops without one of these: the program has gone

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
struct LinkedOps {
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

// The race of linked ops, and whose turn it is.
struct Contest::Running {
  LinkedOps* linked;
  Race race;
  std::vector<uint32_t> turns;  // of each contestant: its last one, by name
  std::vector<size_t> order;    // of the present round
  size_t place = 0;             // in it
  uint32_t untimed_runs = 1;    // that a turn begins with
  bool timed = false;           // the current turn has come to its timed runs
  uint64_t foreign = 0;         // runs of other linked ops since the last one of this

  size_t current() const { return order[place]; }
};

Contest::Contest(Catalog& catalog) : catalog_(catalog) {}
Contest::~Contest() = default;

std::optional<Layout> Contest::layout_of(const Entry& entry, uint32_t turn) const {
  std::lock_guard<std::mutex> guard(lock_);
  if (!entry.linked) return std::nullopt;
  if (running_ && running_->linked == entry.linked) {
    for (size_t i = 0; i < running_->turns.size(); ++i)
      if (running_->turns[i] == turn) return running_->race.contestants()[i].layout;
    return std::nullopt;
  }
  return entry.linked->settled ? entry.linked->layout : std::nullopt;
}

LinkedReport Contest::report(const Entry& entry) const {
  std::lock_guard<std::mutex> guard(lock_);
  const LinkedOps* linked = entry.linked;
  if (!linked) return {};
  return {linked->members.size(), linked->settled, linked->layout ? linked->layout->str() : std::string(), linked->ms};
}

bool Contest::all_settled() const {
  std::lock_guard<std::mutex> guard(lock_);
  return !running_ && std::all_of(linked_.begin(), linked_.end(), [](const std::unique_ptr<LinkedOps>& linked) {
    return linked->settled || linked->members.size() < kLeastMembers;
  });
}

LinkedOps& Contest::linked_ops_of(Entry& entry) {
  if (!entry.linked) {
    linked_.push_back(std::make_unique<LinkedOps>());
    entry.linked = linked_.back().get();
    entry.linked->members.push_back(&entry);
    restart(*entry.linked, kQuietRuns);
  }
  return *entry.linked;
}

void Contest::restart(LinkedOps& linked, uint32_t needed) {
  linked.stamp = ++last_stamp_;
  linked.needed = needed;
  linked.waiting = running_ && running_->linked == &linked ? running_->race.members() : linked.members.size();
  linked.runs = 0;
}

void Contest::link(Entry& producer, Entry& consumer) {
  std::lock_guard<std::mutex> guard(lock_);
  LinkedOps* large = &linked_ops_of(producer);
  LinkedOps* small = &linked_ops_of(consumer);
  if (large != small) {
    if (running_ && (running_->linked == large || running_->linked == small)) stop();  // begun too early
    if (small->members.size() > large->members.size()) std::swap(large, small);
    for (Entry* member : small->members) {
      member->linked = large;
      large->members.push_back(member);
    }
    if (small->settled && small->settled_size > large->settled_size) {
      large->settled_size = small->settled_size;
      large->layout = small->layout;
    }
    large->settled = large->settled || small->settled;
    large->contests = std::max(large->contests, small->contests);
    linked_.erase(
        std::find_if(linked_.begin(), linked_.end(), [&](const auto& linked) { return linked.get() == small; }));
  } else if (running_ && running_->linked == large) {
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
  LinkedOps& linked = *entry.linked;
  if (entry.linked_stamp != linked.stamp) {
    entry.linked_stamp = linked.stamp;
    entry.linked_runs = 0;
  }
  ++linked.runs;
  return ++entry.linked_runs == linked.needed && --linked.waiting == 0;
}

void Contest::ran(Entry& entry, uint32_t turn, uint64_t key, double ms, bool disturbed, const Way* way) {
  std::lock_guard<std::mutex> guard(lock_);
  if (running_ && entry.linked != running_->linked && ++running_->foreign > kForeign)
    settle(*running_->linked, std::nullopt);
  LinkedOps& linked = linked_ops_of(entry);
  if (linked.settled) return;
  if (!running_ || running_->linked != &linked) {
    // A member that does not run any more, of another program perhaps, is not waited for.
    const bool quiet = count(entry) || (linked.runs >= kStall * linked.members.size());
    if (!quiet) return;
    if (linked.members.size() < kLeastMembers || linked.contests >= kMostContests) {
      settle(linked, std::nullopt);
    } else if (!running_) {
      begin(linked);
    }
    return;
  }
  running_->foreign = 0;
  if (running_->turns[running_->current()] != turn) return;  // begun before this turn
  if (!running_->race.has(entry)) return;
  if (running_->timed) running_->race.ran(running_->current(), entry, key, ms, disturbed, way);
  // A disturbed run is made up for by another, within reason.
  bool done = false;
  if (disturbed && running_->timed) {
    ++linked.runs;
  } else {
    done = count(entry);
  }
  if (done || double(linked.runs) > kPatience * running_->race.length()) next_phase();
}

void Contest::charge(Entry& producer, uint32_t turn, uint64_t key, double ms) {
  std::lock_guard<std::mutex> guard(lock_);
  if (!running_ || running_->linked != producer.linked || !running_->timed) return;
  if (running_->turns[running_->current()] == turn) running_->race.charge(running_->current(), producer, key, ms);
}

void Contest::begin(LinkedOps& linked) {
  Race::Weights weights;
  for (Entry* member : linked.members)
    if (member->linked_stamp == linked.stamp) weights.emplace_back(member, double(member->linked_runs));
  double least = std::numeric_limits<double>::infinity();  // of an op that runs once, where there is one
  for (const auto& [member, times] : weights) least = std::min(least, times);
  for (auto& [member, times] : weights) times /= least;
  auto running = std::make_unique<Running>(Running{&linked, Race(weights), {}, {}});
  running->race.add(std::nullopt);
  const bool blocks = std::any_of(weights.begin(), weights.end(),
                                  [](const auto& member) { return member.first->op.outputs[0].rank() >= 3; });
  double program_ms = 0;  // by each op's best time alone
  for (const char* name : kUniformLayouts) {
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
    if (blocks && met && slow < program_ms / 2) running->race.add(layout);
  }
  const size_t contestants = running->race.contestants().size();
  if (contestants < 2) {
    settle(linked, std::nullopt);
    return;
  }
  running->turns.resize(contestants);
  running->untimed_runs = program_ms < kShortMs ? 2 : 1;
  ++linked.contests;
  running_ = std::move(running);
  take_round();
}

void Contest::stop() {
  running_ = nullptr;
  turn_.store(0, std::memory_order_release);
}

// Every other round is in reverse, so that a machine that gets slower bit by bit slows all alike.
void Contest::take_round() {
  running_->order.clear();
  const auto& contestants = running_->race.contestants();
  for (size_t i = 0; i < contestants.size(); ++i)
    if (!contestants[i].out) running_->order.push_back(i);
  if (running_->race.rounds() % 2) std::reverse(running_->order.begin(), running_->order.end());
  running_->place = 0;
  take_turn();
}

// The first runs of every op in a turn prepare kernels and pack weights, or find the caches full of others' weights.
void Contest::take_turn() {
  running_->timed = false;
  running_->turns[running_->current()] = ++last_turn_;
  restart(*running_->linked, running_->untimed_runs);
  turn_.store(last_turn_, std::memory_order_release);
}

void Contest::next_phase() {
  Running& running = *running_;
  if (!running.timed) {
    running.timed = true;
    running.race.begin_turn(running.current());
    restart(*running.linked, kTimedRuns);
    return;
  }
  if (++running.place < running.order.size()) return take_turn();
  if (!running.race.end_round()) return take_round();
  const std::vector<double> totals = running.race.totals();
  running.linked->ms.clear();
  for (size_t i = 0; i < totals.size(); ++i)
    running.linked->ms.emplace_back(running.race.contestants()[i].name(), totals[i]);
  settle(*running.linked, running.race.contestants()[running.race.winner()].layout);
}

void Contest::settle(LinkedOps& linked, std::optional<Layout> layout) {
  if (running_ && running_->linked == &linked) stop();
  linked.settled = true;
  linked.settled_size = linked.members.size();
  linked.layout = std::move(layout);
  for (Entry* member : linked.members) member->settled.store(true, std::memory_order_release);
  if (linked.members.size() < kLeastMembers) return;  // had no contest
  generation_.fetch_add(1, std::memory_order_acq_rel);
  catalog_.bump_epoch();
}

void Contest::reopen(LinkedOps& linked) {
  linked.settled = false;
  linked.layout = std::nullopt;
  for (Entry* member : linked.members) member->settled.store(false, std::memory_order_release);
  restart(linked, kQuietRuns);
  generation_.fetch_add(1, std::memory_order_acq_rel);
  catalog_.bump_epoch();
}

bool Contest::leave(Entry& entry) {
  std::lock_guard<std::mutex> guard(lock_);
  LinkedOps* linked = entry.linked;
  if (!linked) return true;
  if (running_ && running_->linked == linked) return false;
  auto& members = linked->members;
  members.erase(std::find(members.begin(), members.end(), &entry));
  entry.linked = nullptr;
  if (members.empty()) {
    linked_.erase(std::find_if(linked_.begin(), linked_.end(), [&](const auto& each) { return each.get() == linked; }));
  } else if (!linked->settled) {
    restart(*linked, linked->needed);
  }
  return true;
}

void Contest::forget() {
  std::lock_guard<std::mutex> guard(lock_);
  if (running_) stop();
  for (auto& linked : linked_) {
    linked->settled_size = 0;
    linked->contests = 0;
    reopen(*linked);
  }
}

}  // namespace pl
