// LiveAtOnce: others compete with a plan in its own runs, on devices whose work is done when it was started.
//
// A plan that was made without measuring runs at once.  From then on each step of its runs is timed where it stands,
// which costs nothing, and layouts are assigned again by those times (graph/lessons.h).  What comes out, each uniform
// layout, programs with other implementations of the same layouts, and other ways of cutting a batch challenge the
// plan, one after the other: a challenger has every third run, until one is clearly faster, or its turns are over.  The
// plan's program stays unless the challenger was faster by kGain.  When nothing is left to try, the program that the
// plan began with challenges once more, so that no plan ends slower than it began.
//
// Before a challenger runs, the result of each kernel that is new with it is held against the others' on sample values
// (dispatch/agreement.h): one that stands against them is not used, and the challenger is given up.
//
// What is spent is bounded.  Preparing kernels, comparing, packing weights and assigning layouts is cut into chores,
// done between the end of every third run and its return; the time of these, and what runs of challengers take longer
// than the plan's own, is at most kShare of the time that the plan has run, or of kAdvanceMs where that is more: what
// is found early serves all runs that follow.  A chore that would take about as long as a run is not begun.  A
// challenger's run that will take over twice the plan's time is left, and the plan's program runs instead.
//
// Of several threads that run the plan at the same time one takes part; the others run the plan's present program.
// What was found is kept on disk whenever the program changes, and each step's time in the cost database.
#pragma once

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "graph/compiler.h"
#include "graph/lessons.h"
#include "graph/live.h"

namespace pl {

class Plan::LiveAtOnce : public Plan::Live {
 public:
  // The plan has its body.  `others`: ways of cutting its batch that may compete.
  LiveAtOnce(Plan& plan, std::vector<Cut> others);
  ~LiveAtOnce() override;

  void run(const Go& go) override;
  void freeze() override;

 private:
  // Programs that cut the batch alike, over the same nodes.
  struct Field {
    std::unique_ptr<Variant> variant;  // with the states of nodes and what they cost by now
    Lessons lessons;
    std::vector<std::vector<int>> tried;  // states of assignments
  };
  struct Challenger {
    Field* field = nullptr;
    std::string name;
    Assignment assignment;
    BodyRef body;               // null: chores are left to do
    StepTimes times, rival;     // its runs, and the plan's own meanwhile
    std::vector<double> share;  // after each step: the part of the plan's work that is done; empty: not known
    bool warm = false;          // it has run once, which touches memory
    int left = 0;               // runs that were left early
    bool first = false;         // it is what the plan began with
  };
  // What may be tried next.
  struct Idea {
    enum class Kind { assign, more_reorders, uniform, siblings, cut, first };
    Kind kind = Kind::assign;
    size_t field = 0;
    std::string layout;  // uniform
    Cut cut;
  };
  // A piece of work between runs.
  struct Chore {
    double expected_ms = 0;
    std::function<void()> work;
    double* learned_ms = nullptr;  // what such chores take; corrected by what this one took
    double scale = 1;              // expected_ms in units of that
  };

  const Program& program_of(const Body& body) const { return *body.parts[0]->program; }
  double usual_ms() const;  // of the plan's own run
  void run_own(const Go& go, const Body& own);
  void run_challenger(const Go& go, const Body& own);
  double expected_regret(const Challenger& challenger) const;
  void judge();
  void conclude(bool won);
  void work();
  bool do_chore(double& left_ms);
  void add_chore(double* learned_ms, double scale, std::function<void()> work);
  bool next_idea();  // false: there is none
  void pursue(const Idea& idea);
  void learn();  // what the plan's own runs showed
  bool challenge(Field& field, const std::string& name, Assignment assignment);
  void add_chores(const Variant& variant, const Assignment& assignment);
  void build_challenger();
  Assignment siblings_of(const Field& field, const Assignment& of) const;
  void open_cut(const Cut& cut);
  void note_costs(const Program& program, const StepTimes& times);
  void give_up();  // the challenger
  void finish(End how);
  // Work behind a run, whose caller has its results: neither its errors nor an interrupt by the caller end the run.
  template <class Work>
  void behind_run(const Work& work);

  std::mutex lock_;  // guards all below
  std::vector<std::unique_ptr<Field>> fields_;
  size_t own_field_ = 0;
  Assignment own_, first_;  // of the plan's program: now, in the beginning (of fields_[0])
  StepTimes own_times_;
  std::unique_ptr<Challenger> challenger_;
  int undisturbed_ = 0;  // runs of the plan's program alone since the last other
  std::deque<Idea> ideas_;
  std::deque<Chore> chores_;
  int assigned_ = 0, siblings_ = 0;        // how often that was tried
  std::map<const Way*, double> recorded_;  // times within programs, as the cost database has them
  int64_t runs_ = 0, won_ = 0;
  // What chores take.
  double kernel_ms_ = 1, compare_ms_ = 0.5, pack_ms_ = 1, build_ms_ = 2, assign_ms_ = 2, list_ms_ = 50, record_ms_ = 1;
};

}  // namespace pl
