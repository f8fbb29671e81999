// All passes together: on the blocks of known networks, on random graphs, on very long ones.

#include <ctime>

#include "graph_testing.h"

using namespace pltest;

namespace {

TEST("all_together") {
  // The blocks of ResNet, MobileNet v3 and a transformer's MLP, as exporters write them.
  GraphMaker b;
  const ValueId x = b.input({2, 4, 6, 6});
  const auto unit = [&](ValueId in, const std::string& attributes = "padding=1") {
    return batch_norm(b, b.add("conv2d", {in, b.constant({4, 4, 3, 3})}, attributes), 4);
  };
  const ValueId first = b.add("relu", {unit(x)});
  const ValueId block = b.add("relu", {b.add("add", {unit(b.add("relu", {unit(first)})), first})});
  const ValueId swish = unit(block);
  const ValueId gated = b.add(
      "div", {b.add("mul", {swish, b.add("clip", {b.add("add", {swish, b.number(3)})}, "min=0 max=6")}), b.number(6)});
  const ValueId tokens = b.add("permute", {b.add("flatten", {gated}, "start_dim=2")}, "dims=[0,2,1]");
  const ValueId hidden = b.add("add", {b.constant({9}), b.add("matmul", {tokens, b.constant({4, 9})})});
  const ValueId gelu = b.add(
      "mul",
      {b.add("mul",
             {hidden, b.add("add", {b.add("erf", {b.add("div", {hidden, b.number(std::sqrt(2.0))})}), b.number(1)})}),
       b.number(0.5)});
  const ValueId mlp = b.add("add", {b.add("matmul", {b.add("dropout", {gelu}), b.constant({9, 4})}), b.constant({4})});
  b.finish({b.add("add", {tokens, mlp})});
  Graph after = b.graph;
  const auto reports = simplify(after, context());
  after.verify();
  CHECK(ops_of(after) ==
        "conv2d+bias+relu conv2d+bias+relu conv2d+bias+add(residual)+relu conv2d+bias+hardswish flatten permute "
        "linear+bias+gelu_erf linear+bias+add(residual)");
  compare(b.graph, after, 2e-5, "all together");
  REQUIRE(reports.size() == standard_passes().size());
  for (const PassReport& report : reports)
    if (report.name == "fold_batch_norm") CHECK(report.rewrites == 4);
  // A second run finds nothing.
  for (const PassReport& report : simplify(after, context())) CHECK(report.rewrites == 0);
  // Without a pass.
  Graph partly = b.graph;
  simplify(partly, context(), {"fold_batch_norm"});
  CHECK(ops_of(partly).find("batch_norm+relu") != std::string::npos);
  compare(b.graph, partly, 2e-5, "without fold_batch_norm");
  try {
    simplify(partly, context(), {"nonsense"});
    CHECK(!"an unknown pass is accepted");
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find("nonsense") != std::string::npos);
  }
}

// Graphs of random ops of the kinds that passes look at.
TEST("random_graphs") {
  for (unsigned seed = 0; seed < 150; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](size_t n) { return size_t(random() % n); };
    GraphMaker b;
    std::vector<ValueId> pool = {b.input({2, 4, 4, 4}), b.input({2, 4, 4, 4})};
    const size_t length = 4 + below(20);
    for (size_t i = 0; i < length; ++i) {
      // Mostly the newest value, so that chains form.
      const ValueId x = below(3) ? pool.back() : pool[below(pool.size())], y = pool[below(pool.size())];
      ValueId made = kNoValue;
      switch (below(14)) {
        case 0: made = conv(b, x); break;
        case 1: made = b.add("conv2d", {x, b.constant({4, 1, 3, 3}), b.constant({4})}, "padding=1 groups=4"); break;
        case 2: made = batch_norm(b, x, 4); break;
        case 3: made = b.add("relu", {x}); break;
        case 4: made = b.add("add", {x, y}); break;
        case 5: made = b.add("mul", {x, b.add("sigmoid", {x})}); break;
        case 6: made = b.add("add", {x, b.constant({4, 1, 1})}); break;
        case 7: made = b.add("matmul", {x, b.constant({4, 4})}); break;
        case 8: made = b.add("permute", {x}, "dims=[0,1,3,2]"); break;
        case 9: made = b.add("reshape", {b.add("reshape", {x}, "shape=[8,16]")}, "shape=[2,4,4,4]"); break;
        case 10: made = b.add("mul", {x, b.constant({4, 1, 1}, 0.5, 1)}); break;
        case 11: made = b.add("clip", {b.add("maximum", {x, b.number(-0.5)})}, "max=2"); break;
        case 12: made = b.add("dropout", {x}); break;
        default: made = b.add("sub", {x, b.add("add", {b.constant({4}), b.number(1)})}); break;
      }
      pool.push_back(made);
    }
    std::vector<ValueId> outputs = {pool.back()};
    if (below(2)) outputs.push_back(pool[below(pool.size())]);
    b.finish(outputs);
    Graph after = b.graph;
    simplify(after, context());
    after.verify();
    compare(b.graph, after, 1e-4, ("random graph " + std::to_string(seed)).c_str());
    for (const PassReport& report : simplify(after, context())) CHECK(report.rewrites == 0);
  }
}

// Time grows with the number of nodes, not faster.
TEST("long_chains") {
  const auto seconds = [](size_t length, const char* op, const char* attributes, const char* other) {
    Graph graph;
    ValueId x = graph.input("x", TensorDesc::dense(DType::f32, {2, 3}));
    const Schema &first = *find_schema(op), &second = *find_schema(other);
    const Attributes parsed = Attributes::parse(attributes);
    for (size_t i = 0; i < length; ++i) x = i % 2 ? graph.add(second, {}, {x})[0] : graph.add(first, parsed, {x})[0];
    graph.output(x, "y", std::nullopt);
    const std::clock_t start = std::clock();  // of the processor: others on the machine do not matter
    simplify(graph, context());
    return double(std::clock() - start) / CLOCKS_PER_SEC;
  };
  const double identities = seconds(1000000, "identity", "", "dropout");
  const double views = seconds(100000, "reshape", "shape=[3,2]", "flatten");
  const double rest = seconds(100000, "identity", "", "neg");
  std::printf("1,000,000 identities: %.2f s; 100,000 reshapes: %.2f s; 100,000 of identity and neg: %.2f s\n",
              identities, views, rest);
  CHECK(identities < 30);
  CHECK(views < 30);
  CHECK(rest < 30);
}

}  // namespace
