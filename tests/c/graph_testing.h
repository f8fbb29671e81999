// Graphs for tests: built from short texts, evaluated op by op through eager calls, compared before and after a pass.
#pragma once

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "check.h"
#include "dispatch/context.h"
#include "graph/graph.h"
#include "graph/pass.h"
#include "graph/passes/constants.h"
#include "ops/post_ops.h"

namespace pltest {

using namespace pl;

inline Context& context() {
  static const auto made = [] {
    ContextOptions options;
    options.tuning = Tuning::off;
    options.without = {"opencl"};
    options.threads = 1;
    return Context::create(options);
  }();
  return *made;
}

// Uniform values, rounded to the dtype.
inline TensorRef random_tensor(const Dims& shape, unsigned seed, double low = -1, double high = 1,
                               DType dtype = DType::f32) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> uniform(low, high);
  std::vector<double> values(size_t(shape.product()));
  for (double& value : values) value = uniform(generator);
  return passes::tensor_of(context(), dtype, shape, values);
}

// A graph under construction: constants and inputs are random, the seed counts up.
class GraphMaker {
 public:
  Graph graph;

  ValueId input(const Dims& shape, DType dtype = DType::f32) {
    return graph.input("x" + std::to_string(graph.inputs().size()), TensorDesc::dense(dtype, shape));
  }
  ValueId constant(const Dims& shape, double low = -1, double high = 1, DType dtype = DType::f32) {
    ++seed_;
    return graph.constant("c" + std::to_string(seed_), random_tensor(shape, seed_, low, high, dtype));
  }
  ValueId number(double value, DType dtype = DType::f32) {
    return graph.constant("number", passes::tensor_of(context(), dtype, {}, {value}));
  }
  ValueId values(const Dims& shape, const std::vector<double>& list, DType dtype = DType::f32) {
    return graph.constant("list", passes::tensor_of(context(), dtype, shape, list));
  }
  std::vector<ValueId> all(const char* op, const std::vector<ValueId>& inputs, const std::string& attributes = "") {
    const Schema* schema = find_schema(op);
    require(schema != nullptr, Code::internal, "no op ", op);
    return graph.add(*schema, Attributes::parse(attributes), inputs);
  }
  ValueId add(const char* op, const std::vector<ValueId>& inputs, const std::string& attributes = "") {
    return all(op, inputs, attributes).at(0);
  }
  Graph& finish(const std::vector<ValueId>& outputs) {
    for (ValueId id : outputs) graph.output(id, "", std::nullopt);
    graph.verify();
    return graph;
  }

 private:
  unsigned seed_ = 0;
};

// A graph made by `make`, with its result as the output.
inline Graph graph_of(const std::function<ValueId(GraphMaker&)>& make) {
  GraphMaker b;
  const ValueId result = make(b);
  return b.finish({result});
}

// With random statistics.
inline ValueId batch_norm(GraphMaker& b, ValueId x, int64_t channels, const char* attributes = "", bool affine = true) {
  std::vector<ValueId> inputs = {x, b.constant({channels}), b.constant({channels}, 0.2, 2)};
  if (affine) inputs.insert(inputs.end(), {b.constant({channels}), b.constant({channels})});
  return b.add("batch_norm", inputs, attributes);
}

// 1x1, four channels to four.
inline ValueId conv(GraphMaker& b, ValueId x, const std::string& attributes = "") {
  return b.add("conv2d", {x, b.constant({4, 4, 1, 1})}, attributes);
}

// The values of the outputs, each op run by itself.  The inputs are random, the same for the same seed.
inline std::vector<std::vector<double>> evaluate(const Graph& graph, unsigned seed = 1000, double low = -2,
                                                 double high = 2) {
  std::vector<TensorRef> known(graph.values().size());
  for (size_t i = 0; i < known.size(); ++i) known[i] = graph.values()[i].constant;
  for (const GraphInput& input : graph.inputs()) {
    const TensorDesc& desc = graph.value(input.value).desc;
    known[size_t(input.value)] = random_tensor(desc.shape, ++seed, low, high, desc.dtype);
  }
  for (const Node& node : graph.nodes()) {
    std::vector<TensorRef> inputs;
    for (ValueId id : node.inputs) inputs.push_back(id == kNoValue ? nullptr : known[size_t(id)]);
    Attributes attributes = node.attributes;
    attributes.set(call_option::layout, std::string("NCHW"));
    const auto results = context().run(*node.schema, CallAttributes::parse(attributes), inputs);
    for (size_t k = 0; k < results.size(); ++k) known[size_t(node.outputs[k])] = results[k];
  }
  std::vector<std::vector<double>> values;
  for (const GraphOutput& output : graph.outputs()) values.push_back(passes::numbers_of(*known[size_t(output.value)]));
  return values;
}

// The ops in order, with what matters of them: "conv2d+bias+add(residual)+relu relu".  Of functions the name.
inline std::string ops_of(const Graph& graph) {
  std::string text;
  for (const Node& node : graph.nodes()) {
    text += (text.empty() ? "" : " ") + node.schema->name;
    const bool norms = node.schema->kind.rfind("batch_norm", 0) == 0;  // has one in any case
    const int bias = norms ? -1 : node.schema->input_index("bias");
    if (bias >= 0 && size_t(bias) < node.inputs.size() && node.inputs[size_t(bias)] != kNoValue) text += "+bias";
    for (const PostOp& step : post_ops_of(node.attributes)) text += "+" + (step.reads_input() ? step.str() : step.name);
  }
  return text;
}

// The largest difference of two results relative to the largest magnitude.
inline double difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return INFINITY;
  double most = 0, scale = 1e-30;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) != std::isnan(b[i])) return INFINITY;
    if (std::isfinite(a[i])) scale = std::max(scale, std::fabs(a[i]));
    if (std::isnan(a[i]) || a[i] == b[i]) continue;
    most = std::max(most, std::fabs(a[i] - b[i]));
  }
  return most / scale;
}

inline void compare(const Graph& before, const Graph& after, double tolerance, const char* what) {
  const auto expected = evaluate(before), actual = evaluate(after);
  REQUIRE(expected.size() == actual.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const double found = difference(expected[i], actual[i]);
    if (found <= tolerance) continue;
    std::fprintf(stderr, "%s: output %zu differs by %g, allowed %g\nbefore:\n%safter:\n%s", what, i, found, tolerance,
                 before.str().c_str(), after.str().c_str());
    end_test();
  }
}

// Runs one pass once: the ops must then be `ops`, and the results as before within the tolerance.
inline void expect_pass(const Pass& pass, const Graph& before, const std::string& ops, double tolerance = 1e-5) {
  Graph after = before;
  const int rewrites = pass.run(after, context());
  after.tidy();
  after.verify();
  if (ops_of(after) != ops || (rewrites == 0) != (ops_of(before) == ops)) {
    std::fprintf(stderr, "%s: %d rewrites gave\n  %s\nexpected\n  %s\nfrom\n%s", pass.name, rewrites,
                 ops_of(after).c_str(), ops.c_str(), before.str().c_str());
    end_test();
  }
  compare(before, after, tolerance, pass.name);
}

}  // namespace pltest
