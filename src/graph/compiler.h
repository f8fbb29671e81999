// Making a plan: measuring, assigning, and the contest of programs by the clock.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dispatch/builders.h"
#include "graph/chains.h"
#include "graph/plan.h"
#include "graph/recompute.h"
#include "graph/step_times.h"

namespace pl {

// How a batch may be cut: slices of so many images, as many at the same time, each on so many threads.
struct Plan::Cut {
  int64_t slice = 0;
  int streams = 1, threads = 1;
};

// How a batch is cut, with everything chosen for one slice of it; or a part of that, for some of the nodes.
struct Plan::Variant {
  Variant();
  ~Variant();
  Variant(Variant&& other) noexcept;
  Variant& operator=(Variant&& other) noexcept;

  int64_t slice = 0;  // images at a time; 0: the graph as it is
  int64_t from = 0;   // the image that it begins with: of rests, which are one slice, not zero
  int streams = 1;    // slices at the same time
  int threads = 1;    // of each
  size_t first = 0;   // of a part: the number that its first node has in the whole graph
  Graph graph;        // of one slice
  std::vector<NodeStates> nodes;
  Assignment assignment;
  std::unique_ptr<ConversionCosts> costs;
  std::unique_ptr<Program> program;
  std::vector<double> node_ms;         // that each node took within the program, for the whole batch; empty: not known
  std::vector<Maker> inputs, outputs;  // as in CutGraph
  std::vector<int> results;
  std::shared_ptr<Variant> rest;  // for the images after the last whole round of `streams` slices; null: there are none
};

// Leaves out candidates that have to be compiled and were not measured.  To choose one by its estimate alone would mean
// to compile its kernel when the program is made.
void leave_out_uncompiled(std::vector<NodeStates>& nodes);

// Up to which costs of ops are known (graph/assign.h): what samples of one thing may differ by and count as steady.
constexpr double kNoise = kSteady - 1;

// Has the kernel of a state's way, if it is compiled, prepared on another thread.
void queue_build(Builders& builders, const State& state);

class Plan::Compiler {
 public:
  // `further`: the plan is for further sizes of one that exists (graph/sizes.h): nothing is measured, remembered or
  // taken from the disk.  `guide`, if there is one, is for sizes like these; `beside` the plan that stays in memory.
  Compiler(Plan& plan, const PlanOptions& options, bool further = false, const Plan* guide = nullptr,
           const Plan* beside = nullptr);
  void compile();
  // The passes, and what the options do to the plan's graph beside them; the plan has its device.
  void simplify_graph();

 private:
  // A program in the contest.
  struct Contestant : StepTimes {
    std::string name;
    Assignment assignment;
    std::unique_ptr<Program> program;
    int rounds = 0;              // of those run at present
    bool uniform = false;        // one layout throughout
    bool untuned = false;        // by estimates: what there would be if nothing had been measured
    bool steady() const;         // its times agree
    bool reliable() const;       // enough and undisturbed enough to be judged by
    size_t conversions() const;  // how many steps are no ops
  };

  // A contestant of the last contest, a whole plan: one variant, or parts of several.
  struct Finalist {
    Finalist();
    ~Finalist();
    Finalist(Finalist&& other) noexcept;
    Finalist& operator=(Finalist&& other) noexcept;

    std::string name;
    std::vector<std::unique_ptr<Variant>> parts;
    std::unique_ptr<Chains> chains;
    std::vector<MadeAgain> again;  // not empty: its graph is the plan's with these
    std::vector<double> totals;    // ms
  };

  void finish(bool live, std::vector<Cut> others);  // the plan has its body; `others` may compete with it
  void report(const char* stage, double fraction) const;
  double elapsed() const;
  double remaining() const;  // seconds of the budget
  Device& choose_home() const;
  bool answers_first() const;
  std::vector<std::unique_ptr<Variant>> variants();
  // Gives each variant that leaves some images over a rest to run them, all of them at once: shared by those that leave
  // as many.  Returns the rests.
  std::vector<std::shared_ptr<Variant>> add_rests(std::vector<std::unique_ptr<Variant>>& list) const;
  // graph/memory_limit.cpp.  Where nothing keeps within the limit: the same ways of cutting the batch, by ways of ops
  // that need less workspace and smaller forms of weights.
  void add_lighter(std::vector<Finalist>& list);
  std::unique_ptr<Variant> lighter(const Finalist& than, size_t most);
  // The same of a program that trains, for the finalists from `first` on: values made again in the backward pass.
  void add_recomputed(std::vector<Finalist>& list, size_t first);
  Finalist recomputed(const Finalist& finalist);
  void keep_within_memory(std::vector<Finalist>& list);
  Memory memory_of(const Finalist& finalist) const;
  Memory with_others(Memory memory) const;
  std::string name_of(const Variant& variant) const;
  // For each node of the variant the state that the guide chose; nothing where its graph is another one.
  std::vector<const State*> chosen_by_guide(const Variant& variant);
  // What the guide chose, where that is offered here, and forms of constants that are there already.  False: that
  // cannot be prepared.
  bool choose_like_others(Variant& variant, const std::vector<const State*>& like);
  // Whether what the state wants of the node's constants is packed already.
  bool has_constants(const Graph& graph, const Node& node, const NodeStates& of, const State& state) const;
  // Everything for one way of cutting the batch.
  void prepare(Variant& variant, double seconds);
  std::vector<std::pair<double, EntryRef>> dearest_first(const std::map<EntryRef, int>& counts,
                                                         const std::set<EntryRef>& strided) const;
  std::map<EntryRef, std::vector<size_t>> likely_ways(Variant& variant);
  void measure_ops(Variant& variant, double seconds);
  void ask_tables(std::vector<NodeStates>& nodes);
  void correct_estimates(std::vector<NodeStates>& nodes);
  // Has the kernels of an assignment's ops built on other threads meanwhile.
  void build_ahead(const Variant& variant, const Assignment& assignment);
  Assignment settle(Variant& variant, const std::vector<NodeStates>& nodes, bool measure, double noise = 0);
  // The contest: graph/program_contest.cpp.
  void contest(Variant& variant, std::optional<Assignment> untuned);
  bool add_contestant(Variant& variant, std::vector<Contestant>& list, const std::string& name, Assignment assignment);
  void add_uniform(Variant& variant, std::vector<Contestant>& list, const char* layout);
  void add_siblings(Variant& variant, std::vector<Contestant>& list, const Assignment& of);
  void run_rounds(Variant& variant, std::vector<Contestant>& list);
  void note_costs(const std::vector<Contestant>& list) const;
  void learn(Variant& variant, const std::vector<Contestant>& list);
  size_t winner_of(const std::vector<Contestant>& list) const;
  void note_times(Variant& variant, const Contestant& winner) const;
  void measure_again(Variant& variant, const Contestant& winner);
  size_t last_contest(std::vector<Finalist>& finalists);
  double run_once(Variant& variant, Program& program, std::vector<double>* step_ms);
  // Memory for the whole batch, for an input or output that this describes for one of a variant's slices.
  void provide(std::vector<External>& list, size_t index, const TensorDesc& desc, const Variant& variant, bool fill);
  // Chains: graph/compose.cpp.
  std::vector<Chain> given_chains(const std::vector<std::unique_ptr<Variant>>& list) const;
  std::vector<Chain> best_chains(const std::vector<std::unique_ptr<Variant>>& list) const;
  std::optional<Finalist> composed(const std::vector<std::unique_ptr<Variant>>& list, const std::vector<Chain>& chains);
  double run_finalist(Finalist& finalist);

  Plan& plan_;
  const PlanOptions& options_;
  Context& context_;
  Tuning tuning_;  // what is measured here and now; off where live runs do it (graph/live.h)
  bool further_;
  const Plan *guide_, *beside_;
  BodyRef guides_;  // what the guide has: another program may take its place meanwhile
  PackedConstants& constants_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  // elapsed() after which nothing more is begun for the present variant, and after which it runs no more than it must.
  double stop_ = 1e9, end_ = 1e9;
  double build_seconds_ = 0;     // the longest that making a program of it took
  bool disturbed_ = false;       // the machine was too busy to tell programs apart
  bool short_of_time_ = false;   // something was left out or cut short
  bool measured_ = false;        // costs of ops were not all known before: what was measured may be wrong
  std::vector<BufferRef> data_;  // inputs and outputs for timing, of the whole batch
  std::vector<External> inputs_, outputs_;
  std::unique_ptr<Builders> builders_;  // of devices whose kernels are compiled as they are met
};

}  // namespace pl
