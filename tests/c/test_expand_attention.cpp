// expand_attention: attention and its gradients by products and a softmax compute the same in every form of them.
#include "graph/named_ops.h"
#include "graph/passes/node_builder.h"
#include "graph/passes/passes.h"
#include "graph_testing.h"
#include "ops/attention.h"

using namespace pltest;

namespace {

TEST("forward") {
  // Wide heads, as of a kernel that takes a work-item a query: the parts compute the same in every form of attention.
  const auto forward = [](bool masked, const std::string& attributes, DType dtype, bool drops = false,
                          const Dims& sinks = {}) {
    GraphMaker b;
    std::vector<ValueId> inputs;
    for (const Dims& shape : {Dims{2, 4, 5, 3}, Dims{2, 2, 6, 3}, Dims{2, 2, 6, 7}}) inputs.push_back(b.input(shape));
    if (masked) inputs.push_back(b.input({5, 6}));
    for (ValueId& input : inputs)
      if (dtype != DType::f32) input = b.add("cast", {input}, concat("dtype=", name_of(dtype)));
    if (drops) inputs.push_back(b.constant({2}, 0, 1000, DType::s64));
    if (sinks.size()) {
      inputs.resize(5, kNoValue);
      inputs.push_back(b.input(sinks));
      if (dtype != DType::f32) inputs.back() = b.add("cast", {inputs.back()}, concat("dtype=", name_of(dtype)));
    }
    const ValueId y = b.add("scaled_dot_product_attention", inputs, "enable_gqa=true " + attributes);
    b.finish({dtype == DType::f32 ? y : b.add("cast", {y}, "dtype=f32")});
    GraphMaker parts = b;
    int index = 0;
    while (!is_attention(parts.graph.node(size_t(index)))) ++index;
    passes::Rewriter rewriter(parts.graph);
    passes::NodeBuilder builder(rewriter, size_t(index));
    inputs.resize(6, kNoValue);
    const Op op = rewriter.op(size_t(index));
    const AttentionInputs given{inputs[0], inputs[1], inputs[2], inputs[3], inputs[4], inputs[5]};
    rewriter.redirect(rewriter.node(size_t(index)).outputs[0], attention_by_parts(builder, op, given));
    parts.graph.tidy();
    parts.graph.verify();
    compare(b.graph, parts.graph, dtype == DType::f32 ? 1e-5 : 4e-3, attributes.c_str());
  };
  for (const DType dtype : {DType::f32, DType::f16})
    for (const bool masked : {false, true})
      for (const char* attributes : {"", "softcap=2.0", "scale=0.3"}) forward(masked, attributes, dtype);
  forward(false, "is_causal=true", DType::f32);
  forward(true, "dropout_p=0.4", DType::f32, true);
  for (const DType dtype : {DType::f32, DType::f16})
    for (const bool masked : {false, true}) forward(masked, "", dtype, false, {4, 1, 1});
  forward(false, "is_causal=true softcap=2.0", DType::f32, false, {2, 1, 5, 1});
  forward(true, "dropout_p=0.4", DType::f32, true, {1});
}

TEST("backward") {
  const auto check = [](bool masked, const std::string& attributes, const std::string& ops, bool drops = false) {
    GraphMaker b;
    std::vector<ValueId> inputs;
    for (const Dims& shape : {Dims{2, 4, 5, 3}, Dims{2, 2, 6, 3}, Dims{2, 2, 6, 7}, Dims{2, 4, 5, 7}})
      inputs.push_back(b.input(shape));
    if (masked) inputs.push_back(b.input({5, 6}));
    if (drops) inputs.push_back(b.constant({1}, 0, 1000, DType::s64));
    const auto made = b.all("scaled_dot_product_attention_backward", inputs, "enable_gqa=true " + attributes);
    const Graph& graph = b.finish(made);
    expect_pass(passes::expand_attention(nullptr), graph, ops);
    // A device that has a kernel for it.
    expect_pass(passes::expand_attention(&context().host()), graph, "scaled_dot_product_attention_backward", 0);
  };
  const std::string repeated = "reshape expand reshape ", summed = "matmul reshape sum ";
  const std::string gradients = "matmul mul sum pointwise pointwise matmul " + summed + "matmul reshape sum";
  check(false, "", repeated + repeated + "matmul pointwise softmax " + gradients);
  check(false, "softcap=2.0", repeated + repeated + "matmul pointwise softmax " + gradients);
  check(true, "", repeated + repeated + "matmul pointwise pointwise softmax pointwise " + gradients);
  check(false, "is_causal=true",
        repeated + repeated + "matmul pointwise pointwise cumsum cumsum pointwise softmax " + gradients);
  check(true, "dropout_p=0.4",
        repeated + repeated +
            "matmul pointwise pointwise softmax pointwise matmul random_dropout mul sum pointwise pointwise matmul " +
            summed + "random_dropout matmul reshape sum",
        true);
}

}  // namespace
