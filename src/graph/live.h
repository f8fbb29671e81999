// Live: others compete with a plan in its own runs, within bounded regret, so that its first result need not wait for
// measuring.
//
// How depends on the device.  Where work is done when it was started, runs and steps are timed by the host's clock, and
// a challenger's run that takes too long is left (graph/live_at_once.h).  Where work is queued, steps are timed by
// the device's clock, which is read when they are done, and what has to be compiled is compiled on other threads
// (graph/live_queued.h).
//
// Of both is true: a challenger's kernels were held against others on sample values before a caller gets their result;
// what is spent is at most kShare of the time that the plan has run, or of kAdvanceMs where that is more, since what is
// found early serves all runs that follow; and once all has settled, or was frozen, runs are as those of any plan.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <string>

#include "graph/plan.h"

namespace pl {

class Plan::Live {
 public:
  // Runs a body on the inputs of the present call.  False if that was left early.
  using Go = std::function<bool(const Body& body, const RunTimes& times)>;

  virtual ~Live() = default;
  virtual void run(const Go& go) = 0;
  virtual void freeze() = 0;  // what was chosen so far stays; waits for what other threads have begun
  bool settled() const { return settled_.load(std::memory_order_acquire); }
  std::string state() const { return !settled() ? "live" : pinned_ ? "pinned" : "settled"; }
  int64_t tried() const { return tried_.load(); }
  double spent_ms() const { return spent_ms_.load(); }

  static constexpr double kShare = 0.05;      // of the time that the plan has run
  static constexpr double kAdvanceMs = 10e3;  // counts as run from the beginning
  static constexpr double kGain = 0.01;       // that a challenger must be faster by

 protected:
  explicit Live(Plan& plan) : plan_(plan) {}
  double credit() const { return kShare * std::max(ran_ms_.load(), kAdvanceMs) - spent_ms_; }
  enum class End {
    found,   // all was tried: kept on disk as the outcome
    failed,  // of an error, no memory say: kept as what was found so far, from where later compilations go on
    pinned,  // somebody froze it
    none,    // nothing is known to compete
  };
  void settle(End how);

  Plan& plan_;
  std::atomic<double> ran_ms_{0}, spent_ms_{0};
  std::atomic<int64_t> tried_{0};

 private:
  std::atomic<bool> settled_{false}, pinned_{false};
};

}  // namespace pl
