// Contest: which layout a chain of ops runs fastest in, found by the clock within the program itself.
//
// Op by op the layouts of a short op differ by less than what its neighbours do to it: which core wrote its input, what
// is left in which cache.  So a chain chosen by times taken alone may be several percent slower than the same chain in
// one layout throughout (docs/explanation/choice.md).  A contest lets ways of choosing compete:
//   - greedy: each op by the dispatcher's sum of op, conversions and consumers;
//   - each layout that the costs taken alone do not rule out, throughout the chain, as a forced policy has it.
//
// A chain is the ops that are linked by "the result of one is an input of the other".  Once a chain repeats (each of
// its ops ran kQuietRuns times and no link was new) its contest begins.  Contestants take turns of kTimedRuns
// undisturbed runs of every op, after one or two that prepack weights and are not timed, for as many rounds as it takes
// to tell them apart (dispatch/race.h).  Then the chain is settled: from then on its choices do not move, nothing is
// timed and nothing is packed anew.  A settled chain is opened again only when it has grown to twice its size.
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

// What is known of the chain of an op.
struct ChainReport {
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
  // Increased, before the catalog's epoch, whenever a chain is settled or opened again.
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }
  // The layout that an op has to be chosen in during this turn; nothing: choose greedily.
  std::optional<Layout> layout_of(const Entry& entry, uint32_t turn) const;
  // True once nothing is to be found out about this op any more.
  static bool settled(const Entry& entry) { return entry.settled.load(std::memory_order_acquire); }
  ChainReport report(const Entry& entry) const;
  // True if no chain of kLeastMembers ops or more is waiting for its contest or in the middle of it.
  bool all_settled() const;

  // `consumer` was seen for the first time to use a result of `producer`.
  void link(Entry& producer, Entry& consumer);
  // An op ran within a program, during `turn`.  `key` tells decisions apart.  Only looked at in a contest: ms, with the
  // conversions of its inputs; disturbed: another program took a processor away meanwhile; way: the one it ran in.
  void ran(Entry& entry, uint32_t turn, uint64_t key, double ms, bool disturbed = false, const Way* way = nullptr);
  // Further time that a result's layout cost: a conversion for a view of it, or for its reader.
  void charge(Entry& producer, uint32_t turn, uint64_t key, double ms);
  // Takes an op out of its chain; false where a contest needs it.
  bool leave(Entry& entry);
  // Forgets the outcomes of contests; for when costs are forgotten.
  void forget();
  static double now_ms();

  static constexpr size_t kLeastMembers = 4;  // in a shorter chain conversions are few, and known well enough
  static constexpr uint32_t kQuietRuns = 2, kTimedRuns = 3;

 private:
  struct Trial;
  Chain& chain_of(Entry& entry);
  void restart(Chain& chain, uint32_t needed);
  bool count(Entry& entry);
  void begin(Chain& chain);
  void next_phase();
  void take_round();
  void take_turn();
  void stop();
  void settle(Chain& chain, std::optional<Layout> layout);
  void reopen(Chain& chain);

  Catalog& catalog_;
  mutable std::mutex lock_;
  std::vector<std::unique_ptr<Chain>> chains_;
  std::unique_ptr<Trial> trial_;  // the contest under way
  uint32_t last_turn_ = 0;
  uint64_t last_stamp_ = 0;
  std::atomic<uint32_t> turn_{0};
  std::atomic<uint64_t> generation_{1};
};

}  // namespace pl
