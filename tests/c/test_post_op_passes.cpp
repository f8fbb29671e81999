// fuse_post_ops and fuse_longer_post_ops: what becomes a post-op of the op before, what stays apart, and that results
// stay.
#include <functional>
#include <limits>

#include "dispatch/catalog.h"
#include "graph/passes/passes.h"
#include "graph_testing.h"

using namespace pltest;

namespace {

TEST("fuse_post_ops_functions") {
  const Pass pass = passes::fuse_post_ops();
  const Dims shape{1, 4, 3, 3};
  for (const char* name : {"relu", "relu6", "silu", "hardswish", "hardsigmoid", "sigmoid", "tanh", "mish", "abs"})
    expect_pass(pass, graph_of([&](GraphMaker& b) { return b.add(name, {conv(b, b.input(shape))}); }),
                std::string("conv2d+") + name);
  const auto with = [&](const char* op, const char* attributes, const char* ops) {
    expect_pass(pass, graph_of([&](GraphMaker& b) { return b.add(op, {conv(b, b.input(shape))}, attributes); }), ops);
  };
  with("leaky_relu", "negative_slope=0.2", "conv2d+leaky_relu");
  with("elu", "alpha=0.7", "conv2d+elu");
  with("clip", "min=-0.1 max=0.3", "conv2d+clip");
  with("clip", "max=0.3", "conv2d+clip");
  with("gelu", "", "conv2d+gelu_erf");
  with("gelu", "approximate=tanh", "conv2d+gelu_tanh");
  with("softplus", "beta=2 threshold=3", "conv2d+softplus");
  with("sin", "", "conv2d sin");
  const auto after = [&](const std::function<ValueId(GraphMaker&)>& make, const char* ops) {
    expect_pass(pass, graph_of([&](GraphMaker& b) { return b.add("relu", {make(b)}); }), ops);
  };
  after([&](GraphMaker& b) { return b.add("add", {b.input(shape), b.input(shape)}); }, "add+relu");
  after([&](GraphMaker& b) { return b.add("mul", {b.input(shape), b.input({4, 1, 1})}); }, "mul+relu");
  after([&](GraphMaker& b) { return b.add("linear", {b.input({5, 6}), b.constant({8, 6})}); }, "linear+relu");
  after([&](GraphMaker& b) { return b.add("matmul", {b.input({5, 6}), b.input({6, 6})}); }, "matmul+relu");
  after([&](GraphMaker& b) { return batch_norm(b, b.input(shape), 4); }, "batch_norm+relu");
  after(
      [&](GraphMaker& b) {
        return b.add("conv_transpose2d", {b.input(shape), b.constant({4, 2, 2, 2})});
      },
      "conv_transpose2d+relu");
  after([&](GraphMaker& b) { return conv(b, b.input(shape), "activation=sigmoid"); }, "conv2d+sigmoid relu");
  after([&](GraphMaker& b) { return b.add("softmax", {b.input(shape)}, "dim=1"); }, "softmax relu");
  after([&](GraphMaker& b) { return b.add("max_pool2d", {b.input(shape)}, "kernel_size=2"); }, "max_pool2d relu");
  GraphMaker shared;
  const ValueId y = conv(shared, shared.input(shape));
  shared.finish({shared.add("relu", {y}), y});
  expect_pass(pass, shared.graph, "conv2d relu");
}

TEST("fuse_post_ops_sums") {
  const Pass pass = passes::fuse_post_ops();
  const Dims shape{2, 4, 3, 3};
  const auto sum = [&](const std::function<ValueId(GraphMaker&)>& make, const Dims& other, const std::string& ops) {
    for (bool first : {true, false})
      expect_pass(
          pass, graph_of([&](GraphMaker& b) {
            const ValueId z = b.input(other), y = make(b);
            return b.add("add", first ? std::vector<ValueId>{y, z} : std::vector<ValueId>{z, y}, "activation=relu");
          }),
          ops);
  };
  sum([&](GraphMaker& b) { return conv(b, b.input(shape)); }, shape, "conv2d+add(residual)+relu");
  sum(
      [&](GraphMaker& b) {
        return b.add("linear", {b.input({5, 6}), b.constant({8, 6}), b.constant({8})});
      },
      {5, 8}, "linear+bias+add(residual)+relu");
  sum(
      [&](GraphMaker& b) {
        return b.add("matmul", {b.input({5, 6}), b.input({6, 8})});
      },
      {5, 8}, "matmul+add(residual)+relu");
  sum([&](GraphMaker& b) { return conv(b, b.input(shape)); }, {4, 3, 3}, "conv2d add+relu");
  sum([&](GraphMaker& b) { return conv(b, b.input(shape), "activation=relu"); }, shape, "conv2d+relu add+relu");
  sum(
      [&](GraphMaker& b) {
        return b.add("conv_transpose2d", {b.input(shape), b.constant({4, 2, 1, 1})});
      },
      {2, 2, 3, 3}, "conv_transpose2d+add(residual)+relu");
  // Of two, the later one.
  expect_pass(pass, graph_of([&](GraphMaker& b) {
                const ValueId x = b.input(shape), y = conv(b, x, "groups=1"), z = conv(b, x);
                return b.add("add", {y, z});
              }),
              "conv2d conv2d+add(residual)");
  // A function behind the sum, of whichever op makes it.
  expect_pass(pass, graph_of([&](GraphMaker& b) {
                const ValueId x = b.input(shape);
                return b.add("relu", {b.add("add", {conv(b, x), x})});
              }),
              "conv2d+add(residual)+relu");
  // Three: the first sum becomes a residual, the second needs another op.
  expect_pass(pass, graph_of([&](GraphMaker& b) {
                const ValueId x = b.input(shape);
                return b.add("add", {b.add("add", {conv(b, x), b.input(shape)}), b.input(shape)});
              }),
              "conv2d+add(residual) add");
  GraphMaker twice;
  const ValueId y = conv(twice, twice.input(shape));
  twice.finish({twice.add("add", {y, y})});
  expect_pass(pass, twice.graph, "conv2d add");
}

// Of a norm in training, which has several results, the first one; it stays where it is.
TEST("fuse_post_ops_of_norms_in_training") {
  const Pass pass = passes::fuse_post_ops();
  const Dims shape{2, 4, 3, 3};
  const auto norm = [&](GraphMaker& b, ValueId x) {
    return b.all("batch_norm_training", {x, b.constant({4}), b.constant({4})});
  };
  GraphMaker b;
  const ValueId x = b.input(shape), z = b.input(shape);
  const auto first = norm(b, x), second = norm(b, z);
  const ValueId y = b.add("relu", {b.add("add", {first[0], second[0]})});
  b.finish({b.add("relu6", {y}), first[1], first[2], second[1], second[2], y});
  expect_pass(pass, b.graph, "batch_norm_training batch_norm_training+add(residual)+relu relu6");
  // What is added later than the norm is made, statistics, and results that others read stay apart.
  GraphMaker late;
  const ValueId u = late.input(shape);
  const auto made = norm(late, u);
  const ValueId other = late.add("softmax", {u}, "dim=1"), sum = late.add("add", {made[0], other});
  late.finish({sum, late.add("relu", {made[1]})});
  expect_pass(pass, late.graph, "batch_norm_training softmax add relu");
  GraphMaker shared;
  const auto read = norm(shared, shared.input(shape));
  shared.finish({shared.add("relu", {read[0]}), read[0]});
  expect_pass(pass, shared.graph, "batch_norm_training relu");
}

// What the fastest way of an op costs on the host, estimated.
double estimate(const Op& op) {
  Catalog& catalog = context().catalog();
  const EntryRef entry = catalog.entry(op, context().host());
  catalog.measure(*entry, Tuning::off);
  return catalog.best_ms(*entry).value_or(std::numeric_limits<double>::infinity());
}

double estimate(const Graph& graph) {
  double sum = 0;
  for (const Node& node : graph.nodes()) sum += estimate(graph.op(node));
  return sum;
}

// One run of fuse_longer_post_ops: the ops then, which are estimated to cost less than those before, and as many fewer.
void expect_longer(const Graph& before, const std::string& ops, int fused) {
  const Pass pass = passes::fuse_longer_post_ops(&context().host());
  expect_pass(pass, before, ops);
  Graph after = before;
  CHECK(pass.run(after, context()) == fused);
  after.tidy();
  CHECK(after.nodes().size() + size_t(fused) == before.nodes().size());
  if (fused) CHECK(estimate(after) < estimate(before));
}

TEST("fuse_longer_post_ops") {
  const Dims shape{2, 32, 6, 5};
  const auto conv_of = [](GraphMaker& b, ValueId x, const std::string& attributes = "") {
    return b.add("conv2d", {x, b.constant({32, 32, 1, 1})}, attributes);
  };
  // A sum behind an activation, and what is behind that sum.
  for (bool first : {true, false})
    expect_longer(
        graph_of([&](GraphMaker& b) {
          const ValueId x = b.input(shape), y = conv_of(b, x, "activation=silu");
          return b.add("add", first ? std::vector<ValueId>{y, x} : std::vector<ValueId>{x, y}, "activation=relu");
        }),
        "conv2d+silu+add(residual)+relu", 1);
  // Several, one after the other.
  expect_longer(graph_of([&](GraphMaker& b) {
                  const ValueId x = b.input(shape), y = conv_of(b, x, "activation=hardswish");
                  return b.add("tanh", {b.add("relu6", {b.add("add", {y, x})})});
                }),
                "conv2d+hardswish+add(residual)+relu6+tanh", 3);
  // The gate of a gated layer, on either side; of two products the later one takes it.
  for (bool first : {true, false})
    expect_longer(graph_of([&](GraphMaker& b) {
                    const ValueId x = b.input({9, 32});
                    const ValueId gate = b.add("linear", {x, b.constant({48, 32})}, "activation=silu");
                    const ValueId up = b.add("linear", {x, b.constant({48, 32}), b.constant({48})});
                    return b.add("mul", first ? std::vector<ValueId>{gate, up} : std::vector<ValueId>{up, gate});
                  }),
                  "linear+silu linear+bias+multiply(gate)", 1);
  expect_longer(graph_of([&](GraphMaker& b) {
                  const ValueId x = b.input({2, 9, 32});
                  return b.add("mul", {b.add("matmul", {x, b.input({32, 32})}), x}, "activation=tanh");
                }),
                "matmul+multiply(gate)+tanh", 1);
}

TEST("fuse_longer_post_ops_leaves") {
  const Dims shape{2, 4, 3, 3};
  const auto left = [&](const std::function<ValueId(GraphMaker&)>& make, const std::string& ops) {
    expect_longer(graph_of(make), ops, 0);
  };
  // What fuse_post_ops and fuse_pointwise fuse.
  left([&](GraphMaker& b) { return b.add("relu", {conv(b, b.input(shape))}); }, "conv2d relu");
  left(
      [&](GraphMaker& b) {
        return b.add("tanh", {b.add("mul", {b.input(shape), b.input(shape)}, "activation=relu")});
      },
      "mul+relu tanh");
  left([&](GraphMaker& b) { return b.add("sin", {batch_norm(b, b.input(shape), 4)}); }, "batch_norm sin");
  // Other shapes, a second residual, what others read.
  left(
      [&](GraphMaker& b) {
        return b.add("add", {conv(b, b.input(shape), "activation=relu"), b.input({4, 1, 1})});
      },
      "conv2d+relu add");
  left([&](GraphMaker& b) { return b.add("mul", {conv(b, b.input(shape)), b.input({4, 1, 1})}); }, "conv2d mul");
  left(
      [&](GraphMaker& b) {
        const ValueId x = b.input(shape);
        const ValueId y = b.add("conv2d", {x, b.constant({4, 4, 1, 1}), kNoValue, x}, "activation=relu");
        return b.add("add", {y, x});
      },
      "conv2d+add(residual)+relu add");
  left(
      [&](GraphMaker& b) {
        const ValueId y = conv(b, b.input(shape), "activation=relu");
        return b.add("mul", {y, y});
      },
      "conv2d+relu mul");
  GraphMaker shared;
  const ValueId y = conv(shared, shared.input(shape), "activation=relu");
  shared.finish({shared.add("tanh", {y}), y});
  expect_longer(shared.graph, "conv2d+relu tanh", 0);
  // For its name alone.
  Graph graph = graph_of([&](GraphMaker& b) { return b.add("tanh", {conv(b, b.input(shape), "activation=relu")}); });
  CHECK(passes::fuse_longer_post_ops(nullptr).run(graph, context()) == 0);
  // Where only the reference has the list, which costs more than the ops apart: few rows, and a function that no fast
  // product has.
  const auto product = [](bool fused) {
    return graph_of([&](GraphMaker& b) {
      const ValueId a = b.input({24, 512}), w = b.input({512, 24});
      const ValueId made = b.add("matmul", {a, w}, fused ? "post_ops=\"relu, sin\"" : "activation=relu");
      return fused ? made : b.add("sin", {made});
    });
  };
  CHECK(estimate(product(true)) > estimate(product(false)));
  expect_longer(product(false), "matmul+relu sin", 0);
}

}  // namespace
