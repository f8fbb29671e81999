// Plan: a graph with every choice made: implementations, layouts, reorders, memory.  Runs any number of times, from any
// number of threads at once.
//
// Making one: passes simplify the graph, and layouts are assigned by what costs are known or estimated
// (graph/assign.h).  Nothing is measured: others compete with that plan in its runs (graph/live.h).
//
// Where measuring here and now is asked for (tune=full, or seconds), the ways of ops are measured first, as far as the
// time allows; then programs are run: one in each uniform layout and the assigned one, each step timed where it stands.
// Times taken within a program replace those taken alone, layouts are assigned again, and the fastest program by the
// clock is kept, so that a plan is never slower than a uniform layout, or than what measures nothing, would have been.
//
// A large batch may be run in slices of a few images, which keeps activations in the caches, and several slices at the
// same time, each on threads of its own, which saves the threads from waiting for each other.  Images that are left
// over follow at once on all threads.  Parts of the graph may be cut differently (graph/chains.h).  The clock decides.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "dispatch/options.h"
#include "graph/chains.h"
#include "graph/graph.h"
#include "graph/pass.h"
#include "graph/program.h"
#include "graph/recompute.h"

namespace pl {

class Json;
struct PlanChoices;

struct PlanOptions {
  std::string device = "auto";  // auto: a GPU if there is one, else cpu
  std::string layout = "auto";  // or a layout to force: NCHW, NHWC, nChw16c, ...
  int threads = 0;              // of ops on `cpu`; 0: the context's
  // off: known costs and estimates; automatic: the same, then others compete in live runs; full: every way is measured
  // before.
  Tuning tuning = Tuning::automatic;
  // For measuring before the first run; 0: no limit.  Given: automatic measures ways that matter before it, too.
  std::optional<double> seconds;
  // Others compete in live runs on devices too whose kernels are compiled, where else all is measured before.  With
  // automatic tuning alone, and without `seconds`.
  bool live = false;
  bool deterministic = false;  // what was chosen stays: nothing competes in live runs
  int64_t slice = 0;           // images at a time; 0: chosen by measurement
  int streams = 0;             // slices at the same time; 0: chosen by measurement
  // Slices by the node (of the simplified graph) that they begin with, in order, the first of them ""; then `slice` is
  // 0.
  std::vector<std::pair<std::string, int64_t>> chains;
  Math math = Math::fp32;  // what products of f32 may be rounded to; at least the context's
  // Bytes of values between inputs and outputs, of weights and states (graph/memory_limit.cpp); 0: no limit.  To keep
  // it a batch is cut smaller, then ways of ops with less workspace and smaller forms of weights are taken.
  size_t memory_limit = 0;
  std::optional<size_t> program_memory;  // bytes of programs for further sizes (graph/sizes.h)
  bool simplify = true;                  // run the passes
  std::vector<std::string> without;      // passes to leave out
  // Left out as "widen", "strided_views" and "in_place" in `without`.
  bool widen = true;          // dtypes that the processor does not multiply are held as f32 (graph/half_precision.h)
  bool strided_views = true;  // parts of concats may be written, parts of tensors read, with strides
  bool in_place = true;       // results may lie where an input lay that is read for the last time
  // The caller goes on to other work behind a run: a thread of the device's hands its kernels over to the driver.
  bool submit_later = false;
  // Called now and then while the plan is made, in the calling thread: what is done, how far it is (0 to 1).
  std::function<void(const char* stage, double fraction)> progress;

  static PlanOptions parse(const Attributes& attributes);
};

constexpr double kDefaultSeconds = 60;  // for measuring

class Plan {
 public:
  static std::shared_ptr<Plan> compile(std::shared_ptr<Context> context, const Graph& graph,
                                       const PlanOptions& options);
  ~Plan();

  const std::shared_ptr<Context>& context() const { return context_; }
  // Simplified.  The tensors of constants may change: see snapshot().
  const Graph& graph() const { return graph_; }
  Graph snapshot() const;
  Device& home() const { return *home_; }

  // What runs need and give, without the values that the plan keeps.
  std::vector<const GraphInput*> inputs() const;
  std::vector<const GraphOutput*> results() const;

  // Values that are kept between runs, in the order of graph().kept(): a copy of one, and another in its place.  Runs
  // that go on are waited for.  Throw Error(invalid_argument) for a name that there is none of.
  TensorRef state(const std::string& name);
  void set_state(const std::string& name, const TensorRef& value);

  // Inputs in the order of inputs(), of their shapes and dtypes; other layouts and devices are converted.  Where
  // destinations[i] is given, the result is written there; else a new tensor is returned.
  // Of a graph with named axes, tensors of any sizes (graph/sizes.h).  `other`: what at() gave for their sizes, if that
  // is known.
  std::vector<TensorRef> run(const std::vector<TensorRef>& inputs, const std::vector<TensorRef>& destinations = {},
                             Plan* other = nullptr);
  // The plan for other sizes of the named axes, in the order in which inputs name them first, made where there is none;
  // null where they are this one's.  Runs of it are this one's, which has the states.  Throws what a run with tensors
  // of such sizes does.
  std::shared_ptr<Plan> at(const std::vector<int64_t>& sizes);
  // Serves sizes too for which its graph was not made, and that one is: of the same inputs and outputs.
  void extend(Graph other);

  // Writes graph, weights and choices to a file, whole or not at all.  Throws Error(io).
  void save(const std::string& path) const;
  // Reads a plan.  One that was made for other hardware, software or numbers of threads, or that does not fit any more,
  // is refused with Error(unsupported), or compiled anew with `options` if `replan` is set.  Throws Error(io) for a
  // file that cannot be read, Error(invalid_argument) for one that is no plan or damaged.
  static std::shared_ptr<Plan> load(std::shared_ptr<Context> context, const std::string& path, bool replan,
                                    const PlanOptions& options);

  // True once no run changes the choices any more.
  bool settled() const;
  // Ends what competes in live runs: what was chosen so far stays.
  void freeze();

  std::string explain() const;       // for people: each choice, its runner-up, each reorder and what made it necessary
  std::string summary_json() const;  // the whole in figures

 private:
  struct Variant;  // how a batch is cut: its graph, states, assignment and program
  class Compiler;
  struct Cut;
  class Live;
  class LiveAtOnce;
  class LiveQueued;
  class Sizes;
  // What runs; live tuning puts another in its place.
  struct Body {
    std::vector<std::unique_ptr<Variant>> parts;  // most often one
    std::unique_ptr<Chains> chains;               // that runs them
    std::vector<TensorDesc> output_forms;         // in which outputs are given
    std::vector<bool> in_place;                   // by output: the new value of a state is written over the old one
    std::vector<std::vector<int>> may_lie_over;   // by output: inputs that it may be written over
  };
  using BodyRef = std::shared_ptr<const Body>;
  struct Choice;  // of a node: its state and the next best
  // What runs need beside inputs and outputs, what programs share counted once: graph/memory_limit.cpp.
  struct Memory {
    size_t arena_bytes = 0;  // of one run, over all devices
    size_t lower_bound = 0;  // of that
    size_t state_bytes = 0;  // with the new values that are not written over the old
    ConstantBlocks constants;
    size_t bytes() const { return arena_bytes + state_bytes + constants.bytes(); }
    std::string str() const;
  };
  Plan();
  static std::shared_ptr<Plan> make();  // a new one, with nothing in it
  // With context and graph: what making programs needs.  `named`: of any sizes of the graph's axes.
  void begin(bool named);
  void check_count(size_t inputs) const;  // of a run
  // In this thread, without regard to what others run.
  std::vector<TensorRef> run_now(const std::vector<TensorRef>& inputs, const std::vector<TensorRef>& destinations,
                                 Plan* other);
  // Kept values on the device, by their numbers, and where a run writes what is not updated in place: then the two
  // change places, so that a run that fails, or one that another takes the place of, leaves them as they were.
  struct States {
    std::vector<TensorRef> now, next;
  };
  // Of the sizes of the graph, on these states (its own, or those of the plan that it was made for further sizes of),
  // which nobody else uses meanwhile.  A destination that cannot be written
  // straight is left to the caller.
  std::vector<TensorRef> run_on(States& states, const std::vector<TensorRef>& inputs,
                                const std::vector<TensorRef>& destinations);
  // Its steps: the memory of inputs and results, and what comes of states afterwards.
  std::vector<External> place_inputs(const States& states, const std::vector<TensorRef>& inputs,
                                     std::vector<TensorRef>& given) const;
  // `ends`: the run is not left early, so that results may be written over inputs.
  std::vector<External> place_outputs(const Body& body, States& states, const std::vector<TensorRef>& destinations,
                                      const std::vector<External>& in, bool ends,
                                      std::vector<TensorRef>& results) const;
  External place_update(States& states, size_t state, const TensorDesc& form, bool in_place) const;
  void take_updates(States& states) const;
  // Moves results to where they are wanted.
  void deliver(std::vector<TensorRef>& results, const std::vector<TensorRef>& destinations);
  BodyRef body() const;
  void forget_alternatives();  // keeps of all that could be chosen for its nodes what was chosen; nothing competes then
  std::unique_ptr<Program> program_of(const Variant& variant, const Assignment& assignment) const;
  std::vector<Choice> choices(const Variant& variant) const;  // by node; explaining_ must be held
  std::string explain(const Variant& variant) const;          // the same
  std::string explain_rest(const Variant& variant) const;     // where its rest chose otherwise; the same
  void write_choices(Json& json, const Body& body) const;     // as JSON
  std::string why_widened(DType dtype) const;                 // a sentence
  struct Again {
    int ops = 0;
    double ms = 0;  // with reorders for them
  };
  Again made_again_in(const Body& body) const;  // in the backward pass
  // What may be chosen for the nodes of a variant, compiled or loaded.
  // like: as StateOptions::like.
  std::vector<NodeStates> states_of(const Variant& variant, std::vector<const State*> like = {}) const;
  int64_t batch() const;                            // where it is cut
  int64_t slices_of(const Variant& variant) const;  // without those of its rest
  int64_t rest_of(const Variant& variant) const;    // images after them
  double rounds_of(const Variant& variant) const;   // of slices at the same time, in a batch; the rest is part of one
  std::unique_ptr<Variant> variant_of(int64_t slice, int streams, int threads) const;  // with nothing chosen yet
  std::unique_ptr<Variant> rest_for(int64_t images) const;  // the last of the batch, on all threads; the same
  // The choices of a variant for nodes [first, end), lowered by themselves.  `layouts` of what comes from nodes before;
  // those of what it hands to nodes behind are added.
  std::unique_ptr<Variant> part_of(const Variant& variant, size_t first, size_t end,
                                   std::map<Maker, Layout>& layouts) const;
  std::unique_ptr<Chains> chains_of(const std::vector<std::unique_ptr<Variant>>& parts) const;
  BodyRef body_of(std::vector<std::unique_ptr<Variant>> parts) const;
  void adopt(BodyRef body);
  // Outputs in any layout are wanted from here on in those that the body gives, at further sizes too: callers may make
  // memory for them.
  void settle_outputs();
  void release_constants();  // from here on those that the body has packed serve: the last step of making a plan
  // `with_given`: weights stay as the graph has them too, as long as others compete.
  Memory memory_of(const std::vector<std::unique_ptr<Variant>>& parts, const Chains& chains, bool with_given) const;
  Memory memory_now() const;  // while no program is made
  // The same of a program that is not made, without states; each of its streams counts.
  Memory memory_for(const Variant& variant, const Assignment& assignment, bool with_given) const;
  size_t bytes_of_states(const std::vector<std::unique_ptr<Variant>>& parts) const;
  // Whether a program may be made beside what runs.
  bool has_room_for(const Variant& variant, const Assignment& assignment) const;
  std::string environment() const;  // what the choices depend on
  // Choices without measuring (graph/choices.h): what was chosen; making a plan of that, or saying why it does not
  // hold.
  PlanChoices chosen() const;
  std::string take(const PlanChoices& choices);
  // The same from one process to the next: graph/remembered.cpp.
  // Of the file for this graph, as passes have left it; empty: there is none.
  std::string memory_path() const;
  // Whether the time for measuring was enough, and whether the machine was too busy to measure.
  void remember(bool enough, bool disturbed) const;
  void remember_live(bool settled) const;  // what live runs have found so far
  void write_memory(const std::string& spent) const;
  enum class Recalled {
    nothing,    // that holds
    unsettled,  // choices that live runs may improve
    settled,
  };
  // `measured`: choices of live runs are not taken, nor of those that were given less time than this plan is.
  Recalled recall(bool measured);

  void take_states();                          // from the graph
  void place_states();                         // on the device
  TensorRef copy_of_state(size_t kept) const;  // taking_turns_ must be held
  size_t kept_index(const std::string& name) const;

  std::shared_ptr<Context> context_;
  Graph graph_;
  PlanOptions options_;
  Device* home_ = nullptr;
  int threads_ = 1;
  std::shared_ptr<Conversions> conversions_;
  States states_;
  mutable std::mutex taking_turns_;  // of runs, where values are kept
  mutable std::mutex changing_;      // guards the body, the programs that were timed, and the constants of the graph
  BodyRef body_;
  std::shared_ptr<PackedConstants> constants_;  // while programs are made; then null
  std::shared_ptr<SharedArenas> arenas_;        // null: programs have their own
  std::unique_ptr<Live> live_;                  // null: nothing competes
  std::unique_ptr<Sizes> sizes_;                // null: for the sizes of its graph only
  std::vector<PassReport> passes_;
  std::vector<DType> widened_;  // those held as f32 between inputs and outputs
  // What graph_ makes again in the backward pass, in terms of the graph without (graph/recompute.h).
  std::vector<MadeAgain> again_;
  std::string memory_path_;  // memory_path(), once graph_ is no longer as passes have left it
  struct TimedProgram {
    std::string name;  // "auto", "NHWC", "nChw16c in slices of 1, 2 at a time"
    double ms = 0;     // of the whole batch; where some images are left over, as if they took as long as the others
  };
  std::vector<TimedProgram> timed_;
  std::vector<TimedProgram> timed_programs() const;
  int disturbed_before_ = 0;                  // compilations of this graph in a row
  int marked_before_ = 0;                     // the same whose choices rest on marked costs (graph/marked_costs.h)
  bool recalled_ = false;                     // choices and timed programs are those of an earlier compilation
  mutable std::mutex explaining_;             // guards the costs of conversions, which are kept as they are asked for
  double seconds_ = 0;                        // that compiling took
  double listing_ms_ = 0, assigning_ms_ = 0;  // what listing the states of all nodes took, and assigning them
  double measuring_seconds_ = 0, agreement_seconds_ = 0;  // dispatch/measuring_time.h, of compiling
  double packing_seconds_ = 0;  // of these, for bringing constants into the forms that kernels want
};

}  // namespace pl
