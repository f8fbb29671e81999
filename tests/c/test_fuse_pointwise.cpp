// The pass fuse_pointwise: every function that has an expression, what is taken in and what is left.
#include <limits>

#include "graph/passes/passes.h"
#include "graph_testing.h"
#include "ops/activation.h"

using namespace pltest;

namespace {

const Pass kPass = passes::fuse_pointwise(nullptr);
constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

// Numbers where functions have their edges.
const std::vector<double> kEdges = {0, -0.0, 1, -1, 0.5, 1.5, 2.5, -2.5, 3, -3, 6, 20, -20, 90, -90, kInf, -kInf, kNan};

TEST("every_function") {
  int found = 0;
  for (const UnaryFunction& function : unary_functions()) {
    if (!function.expression) continue;
    ++found;
    const UnaryCall call = unary_call(function.name, function.alpha, function.beta);
    const Graph graph = graph_of([&](GraphMaker& b) {
      const ValueId x = b.add("mul", {b.input({1}), b.number(0)});  // fused too: numbers are scalars
      const ValueId edges = b.add("add", {b.input({int64_t(kEdges.size())}), b.values({18}, kEdges)});
      const ValueId y = b.graph.add(*find_schema(call.op), call.attributes, {edges})[0];
      const ValueId number = function.is(unary::kBoolean) ? b.add("cast", {y}, "dtype=f32") : y;
      return b.add("add", {number, x});
    });
    expect_pass(kPass, graph, "mul pointwise", 3e-6);
  }
  CHECK(found > 35);
  for (const char* name :
       {"add", "sub", "mul", "div", "maximum", "minimum", "pow", "eq", "ne", "lt", "le", "gt", "ge"}) {
    const bool boolean = std::string(name).size() == 2;
    const Graph graph = graph_of([&](GraphMaker& b) {
      const ValueId y = b.add("neg", {b.input({18, 18})});
      const ValueId some = b.add("maximum", {y, b.values({18, 1}, kEdges)});
      const ValueId z = b.add(name, {some, b.values({18}, kEdges)});
      return boolean ? b.add("cast", {z}, "dtype=f32") : z;
    });
    expect_pass(kPass, graph, "pointwise", 3e-6);
  }
  for (const char* name : {"logical_and", "logical_or", "logical_xor"})
    expect_pass(kPass, graph_of([&](GraphMaker& b) {
                  const ValueId x = b.input({4, 7}), y = b.input({7});
                  return b.add(name, {b.add("gt", {x, b.number(0)}), b.add("lt", {x, y})});
                }),
                "pointwise", 0);
  // Of conditions alone.
  expect_pass(kPass, graph_of([](GraphMaker& b) {
                const ValueId x = b.input({4, 9}, DType::boolean), y = b.input({9}, DType::boolean);
                return b.add("logical_not", {b.add("logical_and", {x, y})});
              }),
              "pointwise", 0);
}

TEST("activations") {
  expect_pass(kPass, graph_of([](GraphMaker& b) {
                const ValueId x = b.input({3, 50}), y = b.input({3, 50});
                const ValueId sum = b.add("add", {x, y}, "activation=leaky_relu activation_alpha=0.25");
                return b.add("mul", {sum, x}, "activation=clip activation_alpha=-0.5 activation_beta=0.75");
              }),
              "pointwise", 1e-6);
  // One that has no expression stands apart.
  expect_pass(kPass, graph_of([](GraphMaker& b) {
                return b.add("neg", {b.add("mul", {b.input({3, 5}), b.input({3, 5})}, "activation=atan")});
              }),
              "mul+atan neg", 0);
}

TEST("what_is_taken_in") {
  // Quick GELU: a value that is used twice, by ops that both end up in one.
  expect_pass(kPass, graph_of([](GraphMaker& b) {
                const ValueId x = b.add("linear", {b.input({5, 8}), b.constant({6, 8})});
                return b.add("mul", {x, b.add("sigmoid", {b.add("mul", {x, b.number(1.702)})})});
              }),
              "linear pointwise", 1e-6);
  // A diamond: t is used by two ops that are taken in first.
  expect_pass(kPass, graph_of([](GraphMaker& b) {
                const ValueId t = b.add("exp", {b.input({2, 3, 4, 5})});
                const ValueId u = b.add("add", {t, b.number(1)}), v = b.add("sub", {t, b.constant({4, 1})});
                return b.add("div", {v, u});
              }),
              "pointwise", 1e-6);
  // The same value as both inputs.
  expect_pass(kPass, graph_of([](GraphMaker& b) {
                const ValueId t = b.add("sin", {b.input({19})});
                return b.add("mul", {t, t});
              }),
              "pointwise", 1e-6);
  // pointwise itself, its scalars beside those of others.
  expect_pass(kPass, graph_of([](GraphMaker& b) {
                const ValueId t = b.add("pointwise", {b.input({4, 6}), b.input({6})},
                                        "expressions=\"y0 = x0 * s0 + x1 * s1\" scalars=[2.0,-3.0]");
                return b.add("pointwise", {b.add("sub", {t, b.number(2)}), t},
                             "expressions=\"y0 = x1 / (s0 + x0 * x0)\" scalars=[1.5]");
              }),
              "pointwise", 1e-6);
  // Layouts of the same elements in f16, through f32.
  expect_pass(kPass, graph_of([](GraphMaker& b) {
                const ValueId x = b.input({2, 33, 3, 3}, DType::f16);
                const ValueId wide = b.add("cast", {x}, "dtype=f32");
                return b.add("cast", {b.add("tanh", {wide})}, "dtype=f16");
              }),
              "pointwise", 1e-3);
  // Masks: conditions are 1 or 0.
  expect_pass(kPass, graph_of([](GraphMaker& b) {
                const ValueId x = b.input({5, 9}), y = b.input({5, 9});
                return b.add("where", {b.add("gt", {x, y}), b.add("neg", {x}), b.number(0.5)});
              }),
              "pointwise", 0);
}

TEST("what_is_left") {
  const auto left = [](const std::function<ValueId(GraphMaker&)>& make, const std::string& ops) {
    expect_pass(kPass, graph_of(make), ops, 0);
  };
  left([](GraphMaker& b) { return b.add("exp", {b.input({4})}); }, "exp");
  // The smaller one would be computed many times.
  left([](GraphMaker& b) { return b.add("mul", {b.input({6, 7}), b.add("exp", {b.input({7})})}); }, "exp mul");
  // f32 does not hold all integers.
  left(
      [](GraphMaker& b) {
        return b.add("neg", {b.add("mul", {b.input({4}, DType::s64), b.input({4}, DType::s64)})});
      },
      "mul neg");
  left([](GraphMaker& b) { return b.add("cast", {b.add("cast", {b.input({4})}, "dtype=s32")}, "dtype=f32"); },
       "cast cast");
  left(
      [](GraphMaker& b) {
        return b.add("neg", {b.add("remainder", {b.input({4}), b.number(0.75)})});
      },
      "remainder neg");
  left(
      [](GraphMaker& b) {
        return b.add("neg", {b.add("div", {b.input({4}), b.number(0.75)}, "rounding_mode=floor")});
      },
      "div neg");
  // A number of more dimensions than the rest.
  left(
      [](GraphMaker& b) {
        return b.add("add", {b.add("mul", {b.input({5}), b.values({1, 1}, {2})}), b.number(1)});
      },
      "mul add");
  // Used elsewhere, or a result.
  GraphMaker b;
  const ValueId x = b.add("exp", {b.input({4})}), y = b.add("neg", {x});
  b.finish({x, y});
  expect_pass(kPass, b.graph, "exp neg", 0);
  // More tensors than one kernel takes.
  left(
      [](GraphMaker& many) {
        ValueId sum = many.input({4, 4});
        for (int i = 0; i < 7; ++i) sum = many.add("add", {sum, many.input({4, 4})});
        return many.add("add", {sum, many.add("mul", {many.input({4, 4}), many.input({4, 4})})});
      },
      "pointwise mul add");
}

}  // namespace
