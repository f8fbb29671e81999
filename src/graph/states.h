// States: what may be chosen for each node of a graph, with what it costs.
//
// An op's states are its ways (dispatch/catalog.h).  A view's are the descriptions of its input that it can rename
// without moving anything.  A concat has, besides its ways, states in which its parts lie in the result from the
// start, so that nothing is left to do.
//
// A part of a tensor that is not dense, with pixels or images further apart than its own, is a strided view.  Ops have
// states that read or write strided views where a concat or a view makes some and a provider has ways for them.  In a
// nest of concats strided views are those of the outermost one.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "dispatch/catalog.h"
#include "dispatch/context.h"
#include "graph/graph.h"

namespace pl {

struct State {
  State();
  ~State();
  State(const State& other);
  State(State&& other) noexcept;
  State& operator=(const State& other);
  State& operator=(State&& other) noexcept;

  Way* way = nullptr;               // null: a view, or a concat in place
  EntryRef entry;                   // of the way: the node's, or that of its op with strided views
  Way* dense = nullptr;             // of a way with strided views: the same one without
  std::vector<TensorDesc> inputs;   // what it wants, without offsets; absent ones are not present
  std::vector<TensorDesc> outputs;  // what it gives
  // Of a view: where each output starts in the input.  Of a concat in place: where each input lies in the output.
  // Bytes.
  std::vector<size_t> shifts;
  double ms = 0;          // of the way, and what is packed for it in every run
  double packing_ms = 0;  // the latter: of inputs that are no constants
  double saved_ms = 0;    // of the way: by launches that run with those of others, or that it does the work of
};

struct NodeStates {
  NodeStates();
  ~NodeStates();
  NodeStates(const NodeStates& other);
  NodeStates(NodeStates&& other) noexcept;
  NodeStates& operator=(const NodeStates& other);
  NodeStates& operator=(NodeStates&& other) noexcept;

  enum class Kind { op, view, nothing };  // nothing: the results have no elements
  Kind kind = Kind::op;
  EntryRef entry;            // of an op
  EntryRef refused;          // of one that its providers refuse on the plan's device; it runs on `cpu` then
  Device* device = nullptr;  // where it runs and its results lie
  std::vector<State> states;
};

struct StateOptions {
  Device* device = nullptr;   // where to run what can run there; the rest goes to `cpu`
  int threads = 1;            // of ops on `cpu`
  Math math = Math::fp32;     // of products
  bool strided_views = true;  // states that read or write strided views are listed
  bool share_cpu = true;      // providers that bring threads of their own may be used on `cpu`
  // Not empty: for each node the state that a graph like this one, of other sizes, took.  Of a node whose way is to be
  // had here no other is listed, which saves most of the time: but on devices that compile kernels, where another may
  // be compiled already.
  std::vector<const State*> like;
};

// Throws Error(unsupported), naming the node, where nothing can run one.  Measures nothing: ways have the costs that
// are known, else estimates.
std::vector<NodeStates> list_states(const Graph& graph, Context& context, const StateOptions& options);
// Whether two states have the same way, of whatever sizes, and the same tensors as strided views.
bool is_same_choice(const State& a, const State& b);
// What the way of a state costs as far as it is known; one with strided views is taken for as dear as without until it
// is measured.
double cost_of(const State& state);
// The ops of all states, each once.
std::vector<EntryRef> entries_of(const std::vector<NodeStates>& nodes);
// Takes the costs of ways as they are now, and leaves out those that were found to fail or to be wrong, where a node
// has others.
void refresh_states(std::vector<NodeStates>& nodes);

// The states of each node that come nearest to having every activation in `layout` (a family: NCHW, NHWC, nChw16c).
std::vector<NodeStates> restricted_to(const std::vector<NodeStates>& nodes, const Layout& layout);
// The same for a contest: a node that would take several times as long so also has its states that take less, reorders
// or not.  An image's gradient by the first weights has no fast kernel with 3 channels innermost.
std::vector<NodeStates> mostly_in(const std::vector<NodeStates>& nodes, const Layout& layout);

}  // namespace pl
