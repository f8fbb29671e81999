// LiveQueued: others compete with a plan in its own runs, on devices that queue work and compile kernels.
//
// A plan made by estimates runs at once.  From its second run on one thread of the plan's own does what nobody has to
// wait for (core/background.h):
//   1. Of each op it has the kernels compiled that promise most, on further threads, and times those against each other
//      on sample values, a sample at a time between the work of the plan's runs, which also holds their results against
//      each other.  Equal layers are one op.  The op that takes most of the plan's time comes first; first two ways of
//      each, then kSome, then all that may be the fastest.
//   2. Whenever that promises to gain, layouts are assigned again.  What comes out challenges the plan as a program: it
//      has some of the plan's runs, in turns with the plan's own, and takes its place if it is faster by kGain.
//   3. In such runs steps are timed by the device's clock, which is read later: no run waits for it.  An event costs
//      time, so that a run has some of its steps timed, another one the others.  Programs are judged by the sum of what
//      their steps typically take.  A program may differ in many steps at once; what each of them took is known
//      afterwards, whichever program wins, and layouts are assigned again by it (graph/lessons.h).
//   4. At the end ways that were measured nearly as fast as those chosen are tried where they stand, a different one in
//      each of equal layers, then uniform layouts, and then what the plan began with, so that no plan ends slower.
//
// Two of three runs are the plan's own and are not timed.  Timed samples beside runs, events, and what challengers take
// longer are spent; where that is too much, the thread waits.  What would take longer alone than kMostOfARun of the
// plan's run is not tried.  The thread ends where nothing is left to try, where the plan is frozen, and with the plan.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/background.h"
#include "dispatch/beside_runs.h"
#include "graph/compiler.h"
#include "graph/lessons.h"
#include "graph/live.h"

namespace pl {

class Plan::LiveQueued : public Plan::Live {
 public:
  explicit LiveQueued(Plan& plan);  // the plan has its body
  ~LiveQueued() override;

  void run(const Go& go) override;
  void freeze() override;

 private:
  // A program some of whose runs are timed.
  struct Contestant {
    BodyRef body;
    StepTimes times;    // steps alone
    size_t next = 0;    // the step from which on the next run is timed
    bool warm = false;  // it has run once, which touches memory
    bool failed = false;
    int runs = 0;  // that were timed, or are queued to be
    size_t fewest() const;
    double ms() const;     // what it typically takes, with what starting its steps does
    double least() const;  // the same if nothing disturbed any
  };
  using ContestantRef = std::shared_ptr<Contestant>;
  struct Challenger {
    std::string name;
    Assignment assignment;
    ContestantRef its, own;  // runs of the plan's program meanwhile
    bool first = false;      // it is what the plan began with
  };
  enum class Verdict { open, won, lost };
  struct Pending {  // a run whose steps' times are to be read
    ContestantRef contestant;
    StepTimings timings;
  };
  struct Stopped {};  // thrown in the background where all is to end
  // Ways of one op that are measured together.
  struct Batch {
    EntryRef entry;
    double weight = 0;  // ms of the plan's run that are in question
    std::vector<size_t> ways;
  };

  // In runs, with lock_.
  void harvest();
  ContestantRef next_contestant(std::vector<bool>& wanted);
  Verdict judge() const;
  // In the background.
  void search();
  void check() const;
  template <class Done>
  void wait_until(const Done& done);  // which is asked with lock_
  void afford(double ms);
  void spend(double ms);
  double usual_ms();
  std::vector<Batch> batches(size_t most);
  void measure(size_t most);
  void apply_costs();
  bool improve(const std::string& name);
  bool challenge(const std::string& name, Assignment assignment, bool first = false);
  bool prepare(const Assignment& assignment);
  bool compared(const EntryRef& entry, Way& way);
  BodyRef body_for(const Assignment& assignment);
  bool conclude();
  Assignment siblings_of_own();
  void end(End how);
  void stop();

  std::mutex lock_;  // guards what follows
  std::condition_variable changed_;
  ContestantRef own_;  // until its steps are known, and again after another took its place
  std::unique_ptr<Challenger> challenger_;
  std::deque<Pending> pending_;
  bool taken_ = false;  // a thread is in a run that takes part
  bool waits_ = false;  // the background, for what runs do
  int runs_ = 0, undisturbed_ = 0;
  double host_ms_ = 0;   // the last run's, until it had been queued
  double usual_ms_ = 0;  // of the plan's run by the device's clock; 0: not known yet

  std::atomic<bool> ending_{false};

  // Of the background alone.
  std::unique_ptr<Variant> variant_;  // with the states of nodes and what they cost by now
  Lessons lessons_;
  Assignment chosen_, first_;
  std::set<std::vector<int>> tried_states_;
  std::set<const Way*> tried_siblings_;
  std::unique_ptr<BesideRuns> beside_;
  double improved_at_ms_ = 0;
  bool won_ = false;

  Background background_;  // the last: its work uses all of the others
};

}  // namespace pl
