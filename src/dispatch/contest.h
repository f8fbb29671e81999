// Contest: which layout linked ops run fastest in, found by the clock within the program itself.
//
// Op by op the layouts of a short op differ by less than what its neighbours do to it: which core wrote its input, what
// is left in which cache.  So linked ops chosen by times taken alone may be several percent slower than the same ops in
// one layout throughout (docs/explanation/choice.md).  In a contest these compete:
//   - greedy: each op by the dispatcher's sum of op, conversions and consumers;
//   - each layout that the costs taken alone do not rule out, throughout, as a forced policy has it.
//
// Two ops are linked where the result of one is an input of the other.  Once linked ops repeat (each ran kQuietRuns
// times and no link was new) their contest begins.  Contestants take turns of kTimedRuns
// undisturbed runs of every op, after one or two that prepack weights and are not timed, for as many rounds as it takes
// to tell them apart (dispatch/race.h).  Then they are settled: from then on their choices stay, nothing is timed
// and nothing is packed anew.  Settled ops have a contest again only when twice as many are linked.
//
// One contest at a time; each is bounded in runs, and given up when its program stops running.  Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/layout.h"
#include "dispatch/catalog.h"

namespace pl {

// What is known of the ops that an op is linked with, itself included.
struct LinkedReport {
  size_t ops = 0;  // distinct ones; 0: the op has not run under the automatic policy
  bool settled = false;
  std::string layout;  // the winner's, once settled; empty: greedy
  std::vector<std::pair<std::string, double>>
      ms;  // of the last contest: each contestant ("greedy", "NHWC") and its time
};

class Contest {
 public:
  explicit Contest(Catalog& catalog);
  ~Contest();

  // Names the contestant that is running now; 0: no contest is under way.  Part of every decision's key meanwhile.
  uint32_t turn() const { return turn_.load(std::memory_order_acquire); }
  // Increased, before the catalog's epoch, whenever linked ops are settled or opened again.
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }
  // The layout that an op has to be chosen in during this turn; nothing: choose greedily.
  std::optional<Layout> layout_of(const Entry& entry, uint32_t turn) const;
  // True once nothing is to be found out about this op any more.
  static bool settled(const Entry& entry) { return entry.settled.load(std::memory_order_acquire); }
  LinkedReport report(const Entry& entry) const;
  // True if no kLeastMembers linked ops or more are waiting for their contest or in the middle of it.
  bool all_settled() const;

  // `consumer` was seen for the first time to use a result of `producer`.
  void link(Entry& producer, Entry& consumer);
  // An op ran within a program, during `turn`.  `key` tells decisions apart.  Only looked at in a contest: ms, with the
  // conversions of its inputs; disturbed: another program took a processor away meanwhile; way: the one it ran in.
  void ran(Entry& entry, uint32_t turn, uint64_t key, double ms, bool disturbed = false, const Way* way = nullptr);
  // Further time that a result's layout cost: a conversion for a view of it, or for its reader.
  void charge(Entry& producer, uint32_t turn, uint64_t key, double ms);
  // Takes an op from those that it is linked with; false where a contest needs it.
  bool leave(Entry& entry);
  // Forgets the outcomes of contests; for when costs are forgotten.
  void forget();

  static constexpr size_t kLeastMembers = 4;  // of fewer linked ops conversions are few, and known well enough
  static constexpr uint32_t kQuietRuns = 2, kTimedRuns = 3;

 private:
  struct Running;
  LinkedOps& linked_ops_of(Entry& entry);
  void restart(LinkedOps& linked, uint32_t needed);
  bool count(Entry& entry);
  void begin(LinkedOps& linked);
  void next_phase();
  void take_round();
  void take_turn();
  void stop();
  void settle(LinkedOps& linked, std::optional<Layout> layout);
  void reopen(LinkedOps& linked);

  Catalog& catalog_;
  mutable std::mutex lock_;
  std::vector<std::unique_ptr<LinkedOps>> linked_;
  std::unique_ptr<Running> running_;  // the contest under way
  uint32_t last_turn_ = 0;
  uint64_t last_stamp_ = 0;
  std::atomic<uint32_t> turn_{0};
  std::atomic<uint64_t> generation_{1};
};

}  // namespace pl
