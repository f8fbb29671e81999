// Lowering: from an assignment to the steps of a program and the storages they work on.
#pragma once

#include <map>
#include <tuple>

#include "graph/program.h"

namespace pl {

class Together;

// Of all tensors of a step that runs with others and whose results are not outputs: larger ones would be kept in memory
// until the last of those that run with it, and starting it takes little beside its work.  A layer's weights mostly fit:
// a step of training makes all of them narrow, and turns them for gradients.
constexpr size_t kMostJoinedBytes = size_t(16) << 20;
// The same of a step that adds up parts, and of all such steps that run as one: what lies there at the same time.
constexpr size_t kMostSummedBytes = size_t(4) << 20, kMostSummedAtOnce = size_t(32) << 20;

// Fills the steps, storages, inputs and outputs of a program that is being made; memory is planned afterwards.
class Lowering {
 public:
  // Without `constants` nothing is packed or prepared: the program is made for its memory alone.
  Lowering(Program& program, Context& context, const Graph& graph, const std::vector<NodeStates>& nodes,
           const Assignment& assignment, Conversions& conversions, PackedConstants* constants);
  void lower(bool in_place);

 private:
  using Place = Program::Place;
  using Step = Program::Step;
  using Storage = Program::Storage;

  struct Form {  // a value as it lies somewhere
    TensorDesc desc;
    Device* device = nullptr;
    Place place;
  };
  struct Slice {  // where a concat in place wants a value
    ValueId whole = kNoValue;
    size_t shift = 0;
  };

  const State& state_of(size_t node) const { return nodes_[node].states[size_t(assignment_.states[node])]; }
  bool concat_in_place(size_t node) const;
  void place_parts();    // decides which values are made where a concat wants them
  void place_outputs();  // decides which values are made in the caller's memory
  void make_in_output(ValueId value, int output);
  // What the value is a view of, all of it and in the same order of memory, where an op makes that; else kNoValue.
  // `wanted`: how the value is to lie.
  ValueId seen_whole(ValueId value, TensorDesc wanted) const;
  void lower_node(size_t node);
  // An op whose end adds up parts: as two steps, so that ends may run as one.  False: it is to be emitted whole.
  bool emit_in_parts(Step& step);
  void lower_outputs();
  // Moves small steps that need nothing of the run to its beginning, and what reads sums of parts to where it is needed;
  // then has kernels that may run as one do so, where no step between them needs or changes what they work on:
  // graph/joined_steps.cpp.
  void prepare_first();
  void postpone_readers_of_sums();
  void join_steps(bool in_place);
  void join(const std::vector<int>& steps, bool in_place);
  uintptr_t expected_memory(const Place& place, bool in_place) const;
  void find_lives();
  const Together* joinable(const Step& step) const;
  struct Use {
    int step;
    bool writes;
  };
  // Has steps do the work of those before or behind them where they can: graph/absorbed_steps.cpp.
  void absorb_steps();
  bool absorb_before(int n, const std::vector<std::vector<Use>>& uses);
  bool absorb_behind(int n, const std::vector<std::vector<Use>>& uses);
  // The step that makes, or reads, all of what is between two steps, and nobody else uses; -1: there is none.
  int other_user(const Place& place, int n, const std::vector<std::vector<Use>>& uses) const;
  // Whether step `later` finds there what step `earlier` reads, and does not write there itself.
  bool reads_alike(int earlier, int later, const std::vector<std::vector<Use>>& uses) const;
  void run_elsewhere(Step& step);              // from here on as a part of another one
  std::vector<std::vector<Use>> uses() const;  // by storage, in the order of steps
  // Calls visit(step) for those behind step n that read what it writes or write what it uses.
  template <class Visit>
  void each_that_waits(const std::vector<std::vector<Use>>& uses, int n, Visit&& visit) const;
  // Lets results lie where an input lay that is read for the last time, where the kernel allows it.
  void share_storages();
  // Finds the outputs that may be written over inputs; then, of these, the new values of kept ones.
  void find_overwritable();
  bool may_lie_over(const Step& step, int made, int old) const;
  void update_in_place();
  Place place_of_result(ValueId value, const TensorDesc& desc, Device& device);
  Place argument(size_t node, size_t input);
  // What is no constant, packed for the op; once in a run for all ops that want the same form.
  Place packed(size_t node, const Packing& packing, const std::string& cause);
  // The value in this description on this device, converted if need be, into `target` if that is given.
  Place obtain(ValueId value, const TensorDesc& wanted, Device& device, int node, const std::string& cause,
               const Place* target);
  void load_constant(ValueId value, const TensorDesc& wanted, Device& device, const std::string& cause);
  Place new_storage(Storage::Kind kind, int index, Device& device, size_t bytes);
  void emit_conversion(const Form& from, const TensorDesc& wanted, Device& device, int node, const std::string& cause,
                       const Place& target);
  // Makes the step the fastest reorder of the entry; if not alone, one that may run with others where that pays.
  void set_reorder(Step& step, const EntryRef& entry, bool alone = false);
  void emit_copy(const Form& from, const Place& target, int node, const std::string& cause);
  void emit(Step step);
  void note_uses(const Step& step, int number);
  std::string name_of_argument(size_t node, size_t input) const;

  Program& program_;
  Context& context_;
  const Graph& graph_;
  const std::vector<NodeStates>& nodes_;
  const Assignment& assignment_;
  Conversions& conversions_;
  PackedConstants* constants_;
  std::vector<std::vector<Form>> forms_;  // by value; the first is the one it is made in
  std::vector<Slice> slices_;             // by value
  std::vector<int> output_of_;            // by value: the output whose memory it is made in, -1: none
  std::vector<bool> made_in_place_;       // by output: whether a value is made in its memory
  std::vector<Place> reserved_;           // by value: its place, given before it is made
  // Packed forms of values by value, provider and form, and device.
  std::map<std::tuple<ValueId, std::string, Device*>, Place> packed_;
};

}  // namespace pl
