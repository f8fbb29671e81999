// What a program of one layout throughout may take at each node: graph/states.h, restricted_to and mostly_in.
#include "graph/states.h"

#include "graph_testing.h"

using namespace pl;
using namespace pltest;

namespace {

bool gives(const State& state, const Layout& layout) { return state.outputs[0].layout == layout; }

TEST("one layout throughout") {
  const Graph graph = graph_of([](GraphMaker& b) {
    return b.add("conv2d", {b.input({2, 32, 9, 7}), b.constant({48, 32, 3, 3})}, "padding=[1,1]");
  });
  StateOptions options;
  options.device = &context().device("cpu");
  const Layout channels_last = Layout::channels_last(4);
  std::vector<NodeStates> nodes = list_states(graph, context(), options);
  size_t last = 0, others = 0;
  // Of what gives channels last, this takes so many times the others' time; but one of the others takes as long.
  const auto with_costs = [&](double times) {
    last = others = 0;
    for (State& state : nodes[0].states) {
      const bool slow = gives(state, channels_last) || others == 0;
      ++(gives(state, channels_last) ? last : others);
      state.ms = slow ? times : 1;
    }
  };
  const auto count = [&](const std::vector<NodeStates>& only, bool wanted) {
    size_t found = 0;
    for (const State& state : only[0].states) found += gives(state, channels_last) == wanted;
    return found;
  };
  with_costs(2);
  REQUIRE(last > 0 && others > 2);
  for (const auto& only : {restricted_to(nodes, channels_last), mostly_in(nodes, channels_last)}) {
    CHECK(count(only, true) > 0);
    CHECK(count(only, false) == 0);
  }
  with_costs(4);
  const auto strictly = restricted_to(nodes, channels_last), mostly = mostly_in(nodes, channels_last);
  CHECK(count(strictly, false) == 0);
  CHECK(count(mostly, true) == count(strictly, true));
  CHECK(count(mostly, false) == others - 1);  // but the one that takes as long
}

}  // namespace
