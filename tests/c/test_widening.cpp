// Values of f16 and bf16 held as f32 (graph/half_precision.h): what becomes of each kind of node, and the results.
#include "graph/half_precision.h"

#include <cmath>

#include "graph_testing.h"

using namespace pl;
using namespace pltest;

namespace {

int count(const Graph& graph, const std::string& op, DType result) {
  int found = 0;
  for (const Node& node : graph.nodes())
    found += node.schema->name == op && graph.value(node.outputs[0]).desc.dtype == result;
  return found;
}

const std::vector<DType> kBoth = {DType::f16, DType::bf16};

TEST("products_are_computed_in_f32") {
  for (DType dtype : kBoth) {
    GraphMaker b;
    const ValueId x = b.input({1, 8, 6, 6}, dtype);
    const ValueId y = b.add("conv2d", {x, b.constant({4, 8, 3, 3}, -1, 1, dtype)}, "padding=1");
    const Graph& graph = b.finish({b.add("relu", {y})});
    const Graph wide = widened(graph, context(), kBoth);
    wide.verify();
    CHECK(count(wide, "conv2d", DType::f32) == 1);
    CHECK(count(wide, "relu", DType::f32) == 1);
    CHECK(count(wide, "cast", DType::f32) == 1);  // of the input
    CHECK(count(wide, "cast", dtype) == 1);       // of the output
    CHECK(wide.value(wide.inputs()[0].value).desc.dtype == dtype);
    CHECK(wide.value(wide.outputs()[0].value).desc.dtype == dtype);
    CHECK(widened(graph, context(), {}).nodes().size() == graph.nodes().size());
  }
}

TEST("casts_within_round_no_more") {
  GraphMaker b;
  const ValueId x = b.input({16});
  const ValueId half = b.add("cast", {x}, "dtype=f16");
  const Graph& graph = b.finish({b.add("cast", {half}, "dtype=f32")});
  Graph wide = widened(graph, context(), kBoth);
  CHECK(count(wide, "cast", DType::f16) == 0);
  simplify(wide, context());
  CHECK(wide.nodes().empty());
}

TEST("integers_stay") {
  GraphMaker b;
  const ValueId x = b.input({3, 5}, DType::f16);
  const ValueId index = b.add("argmax", {x}, "dim=1");
  const ValueId sum = b.add("add", {index, b.number(7, DType::s64)});
  const Graph& graph = b.finish({sum, b.add("cast", {sum}, "dtype=f16")});
  const Graph wide = widened(graph, context(), kBoth);
  wide.verify();
  CHECK(count(wide, "add", DType::s64) == 1);
  CHECK(wide.value(wide.outputs()[0].value).desc.dtype == DType::s64);
  CHECK(wide.value(wide.outputs()[1].value).desc.dtype == DType::f16);
}

TEST("ops_that_are_told_a_dtype") {
  GraphMaker b;
  const ValueId x = b.input({4, 4}, DType::f16);
  const Graph& graph = b.finish({b.add("pointwise", {x}, "expressions=\"y0 = x0 * 2\" dtype=f16")});
  const Graph wide = widened(graph, context(), kBoth);
  CHECK(count(wide, "pointwise", DType::f32) == 1);
}

TEST("nothing_overflows_that_f32_holds") {
  GraphMaker b;
  const ValueId x = b.input({1}, DType::f16);
  const ValueId big = b.add("mul", {b.add("mul", {x, x}), b.number(0.0009765625, DType::f16)});
  const Graph& graph = b.finish({big});
  const Graph wide = widened(graph, context(), kBoth);
  CHECK(std::isinf(evaluate(graph, 0, 1024, 1024)[0][0]));
  CHECK(evaluate(wide, 0, 1024, 1024)[0][0] == 1024);
}

TEST("twice_is_as_once") {
  GraphMaker b;
  const ValueId x = b.input({2, 3}, DType::f16);
  const Graph& graph = b.finish({b.add("matmul", {x, b.constant({3, 4}, -1, 1, DType::f16)})});
  Graph once = widened(graph, context(), kBoth);
  Graph twice = widened(once, context(), kBoth);
  simplify(once, context());
  simplify(twice, context());
  CHECK(once.nodes().size() == twice.nodes().size());
}

}  // namespace
