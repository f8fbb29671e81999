// Chains: where a graph may be cut, what the parts are, and who runs which nodes.
#include "graph/chains.h"

#include <limits>

#include "graph_testing.h"

using namespace pl;
using namespace pltest;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// relu, a sum with its input, a product with something that is the same for every image, another sum.
Graph diamond() {
  Graph graph;
  const ValueId x = graph.input("x", TensorDesc::dense(DType::f32, {4, 3}));
  const ValueId c = graph.constant("c", random_tensor({1, 3}, 1));
  const auto add = [&](const char* op, const std::vector<ValueId>& inputs) {
    return graph.add(*find_schema(op), Attributes(), inputs)[0];
  };
  const ValueId a = add("relu", {x});      // node 0
  const ValueId b = add("tanh", {a});      // 1
  const ValueId sum = add("add", {a, b});  // 2
  const ValueId same = add("relu", {c});   // 3, of no input
  const ValueId product = add("mul", {sum, same});
  graph.output(product, "y", std::nullopt);
  graph.output(b, "b", std::nullopt);
  return graph;
}

TEST("values_across") {
  const auto across = values_across(diamond(), 2);
  REQUIRE(across.size() == 6);
  CHECK(across[0].empty());
  CHECK(across[5].empty());
  CHECK(across[1] == std::vector<Maker>({{0, 0}}));
  CHECK(across[2] == std::vector<Maker>({{0, 0}, {1, 0}}));
  CHECK(across[3] == std::vector<Maker>({{2, 0}}));
  CHECK(across[4].empty());  // what node 3 makes has no images
  const auto few = values_across(diamond(), 1);
  REQUIRE(few[1].size() == 1);
  CHECK(few[2].empty());
  REQUIRE(few[3].size() == 1);
}

TEST("cut_out") {
  const Graph graph = diamond();
  std::map<Maker, Layout> layouts;
  const CutGraph first = cut_out(graph, 0, 2, layouts);
  first.graph.verify();
  CHECK(first.graph.nodes().size() == 2);
  CHECK(first.inputs == std::vector<Maker>({{-1, 0}}));
  // Output 1 of the whole, then what later nodes use.
  CHECK(first.outputs == std::vector<Maker>({{1, 0}, {0, 0}, {1, 0}}));
  CHECK(first.results == std::vector<int>({1, -1, -1}));
  layouts[{0, 0}] = Layout::parse("ba");
  layouts[{1, 0}] = Layout::parse("ab");
  const CutGraph second = cut_out(graph, 2, 5, layouts);
  second.graph.verify();
  CHECK(second.inputs == std::vector<Maker>({{0, 0}, {1, 0}}));
  CHECK(second.graph.value(second.graph.inputs()[0].value).desc.layout == Layout::parse("ba"));
  CHECK(second.results == std::vector<int>({0}));
  CHECK(second.graph.nodes().size() == 3);
  // What is known of a result's layout is kept to: the rest of a batch lies as its other images do.
  CHECK(!first.graph.outputs()[1].layout);
  CHECK(!first.graph.outputs()[2].layout);
  const CutGraph again = cut_out(graph, 0, 2, layouts);
  CHECK(again.graph.outputs()[1].layout == Layout::parse("ba"));
  CHECK(again.graph.outputs()[2].layout == Layout::parse("ab"));
}

// Against all ways of giving six nodes to three variants.
TEST("cheapest_chains") {
  std::mt19937 generator(3);
  std::uniform_int_distribution<int> cost(0, 20);
  for (int i = 0; i < 300; ++i) {
    constexpr size_t kVariants = 3, kNodes = 6;
    std::vector<std::vector<double>> ms(kVariants, std::vector<double>(kNodes));
    for (auto& row : ms)
      for (double& value : row) value = cost(generator);
    double change[kVariants][kVariants][kNodes];
    for (auto& a : change)
      for (auto& b : a)
        for (double& value : b) value = cost(generator) < 5 ? kInfinity : cost(generator);
    double best = kInfinity;
    for (int code = 0; code < 729; ++code) {
      double sum = 0;
      for (size_t n = 0, rest = size_t(code), before = 0; n < kNodes; ++n, rest /= 3) {
        const size_t v = rest % 3;
        sum += ms[v][n] + (n && v != before ? change[before][v][n] : 0);
        before = v;
      }
      best = std::min(best, sum);
    }
    double found = 0;
    const auto chains = cheapest_chains(
        ms, [&](size_t from, size_t to, size_t place) { return change[from][to][place]; }, found);
    CHECK(found == best);
    double sum = 0;
    size_t end = 0;
    for (size_t i = 0; i < chains.size(); ++i) {
      CHECK(chains[i].first == end);
      CHECK(chains[i].end > end);
      if (i) CHECK(chains[i].variant != chains[i - 1].variant);
      if (i) sum += change[chains[i - 1].variant][chains[i].variant][end];
      end = chains[i].end;
      for (size_t n = chains[i].first; n < end; ++n) sum += ms[chains[i].variant][n];
    }
    CHECK(end == kNodes);
    CHECK(sum == best);
  }
}

}  // namespace
