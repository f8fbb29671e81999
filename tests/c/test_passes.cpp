// Each pass alone: what it rewrites, what it must leave, and that results stay.
#include <algorithm>
#include <chrono>
#include <functional>

#include "graph/passes/passes.h"
#include "graph_testing.h"

using namespace pltest;

// A graph made by `make`, with its result as the output.
static Graph graph_of(const std::function<ValueId(Builder&)>& make) {
  Builder b;
  const ValueId result = make(b);
  return b.finish({result});
}

static void test_remove_identity() {
  const Pass pass = passes::remove_identity();
  const auto gone = [&](const char* op, const std::string& attributes, const Dims& shape) {
    expect_pass(pass, graph_of([&](Builder& b) { return b.add(op, {b.input(shape)}, attributes); }), "", 0);
  };
  const auto kept = [&](const char* op, const std::string& attributes, const Dims& shape) {
    expect_pass(pass, graph_of([&](Builder& b) { return b.add(op, {b.input(shape)}, attributes); }), op, 0);
  };
  gone("identity", "", {2, 3});
  gone("dropout", "p=0.3", {2, 3});
  gone("cast", "dtype=f32", {2, 3});
  kept("cast", "dtype=f16", {2, 3});
  gone("reshape", "shape=[2,-1]", {2, 3});
  kept("reshape", "shape=[3,2]", {2, 3});
  gone("flatten", "start_dim=1", {2, 3});
  kept("flatten", "start_dim=1", {2, 3, 4});
  gone("squeeze", "", {2, 3});
  gone("permute", "dims=[0,1,2]", {2, 3, 4});
  gone("permute", "dims=[1,0,2]", {1, 1, 4});
  kept("permute", "dims=[0,2,1]", {2, 3, 3});
  gone("transpose", "dim0=1 dim1=1", {2, 3});
  kept("transpose", "dim0=0 dim1=1", {3, 3});
  gone("slice", "starts=[0] ends=[9]", {2, 3});
  kept("slice", "starts=[1] ends=[2]", {2, 3});
  gone("split", "split_size_or_sections=2", {2, 3});
  gone("pad", "pad=[0,0,0,0]", {2, 3});
  kept("pad", "pad=[1,-1]", {2, 3});  // the same shape, other values
  gone("expand", "shape=[2,3]", {2, 3});
  kept("expand", "shape=[2,3]", {1, 3});
  gone("tile", "dims=[1,1]", {2, 3});
  gone("avg_pool2d", "kernel_size=1 stride=1", {1, 2, 5, 5});
  gone("max_pool2d", "kernel_size=1", {1, 2, 5, 5});
  kept("avg_pool2d", "kernel_size=3 stride=1 padding=1", {1, 2, 5, 5});
  kept("max_pool2d", "kernel_size=1 stride=2", {1, 2, 5, 5});
  gone("adaptive_avg_pool2d", "output_size=[5,5]", {1, 2, 5, 5});
  kept("adaptive_avg_pool2d", "output_size=[1,5]", {1, 2, 5, 5});
  gone("concat", "dim=1", {2, 3});

  const auto binary = [&](const char* op, double number, bool swapped, const Dims& shape, const std::string& ops,
                          const char* attributes = "") {
    expect_pass(pass, graph_of([&](Builder& b) {
                  const ValueId x = b.input(shape), n = b.values({1}, {number});
                  return b.add(op, swapped ? std::vector<ValueId>{n, x} : std::vector<ValueId>{x, n}, attributes);
                }),
                ops, 0);
  };
  binary("mul", 1, false, {2, 3}, "");
  binary("mul", 1, true, {2, 3}, "");
  binary("mul", 1.5, false, {2, 3}, "mul");
  binary("mul", 1, false, {}, "mul");  // broadcasts to rank 1
  binary("mul", 1, false, {2, 3}, "mul+relu", "activation=relu");
  binary("div", 1, false, {2, 3}, "");
  binary("div", 1, true, {2, 3}, "div");
  binary("sub", 0, false, {2, 3}, "");
  binary("sub", 0, true, {2, 3}, "sub");
  binary("add", -0.0, false, {2, 3}, "");
  binary("add", 0, false, {2, 3}, "add");  // -0 + 0 is 0
  binary("pow", 1, false, {2, 3}, "");

  expect_pass(pass, graph_of([](Builder& b) { return b.add("relu", {b.add("relu", {b.input({9})})}); }), "relu", 0);
  expect_pass(pass, graph_of([](Builder& b) { return b.add("neg", {b.add("neg", {b.input({9})})}); }), "neg neg", 0);
  // The name of an output that became an input's stays what it was.
  Builder direct;
  direct.finish({direct.add("identity", {direct.input({2})})});
  const std::string name = direct.graph.outputs()[0].name;
  pass.run(direct.graph, context());
  direct.graph.tidy();
  CHECK(direct.graph.outputs()[0].name == name && direct.graph.nodes().empty());
}

static void test_fold_constants() {
  const Pass pass = passes::fold_constants();
  expect_pass(pass, graph_of([](Builder& b) {
                const ValueId c = b.add("add", {b.constant({3, 1}), b.constant({1, 4})});
                return b.add("mul", {b.input({3, 4}),
                                     b.add("transpose", {b.add("exp", {b.add("transpose", {c}, "dim0=0 dim1=1")})},
                                           "dim0=0 dim1=1")});
              }),
              "mul", 1e-6);
  expect_pass(pass, graph_of([](Builder& b) {  // several results, an absent input, integers
                const auto parts = b.all("split", {b.constant({4, 3}, -9, 9, DType::s64)}, "split_size_or_sections=2");
                const ValueId sum = b.add("add", {parts[0], parts[1]});
                return b.add("linear", {b.constant({2, 3}),
                                        b.add("cast", {b.add("reshape", {sum}, "shape=[2,3]")}, "dtype=f32")});
              }),
              "", 1e-6);
  // Larger than its inputs.
  expect_pass(pass, graph_of([](Builder& b) {
                return b.add("add", {b.input({300, 200}), b.add("tile", {b.constant({1, 200})}, "dims=[300,1]")});
              }),
              "tile add", 0);
  expect_pass(pass, graph_of([](Builder& b) {
                return b.add("add", {b.input({30, 20}), b.add("tile", {b.constant({1, 20})}, "dims=[30,1]")});
              }),
              "add", 0);
  expect_pass(pass, graph_of([](Builder& b) { return b.add("add", {b.input({3}), b.constant({3})}); }), "add", 0);
  // As many elements in a wider dtype: weights that are dequantised.
  expect_pass(
      pass, graph_of([](Builder& b) {
        const ValueId weight = b.add("dequantize_linear", {b.constant({300, 200}, -9, 9, DType::s8), b.number(0.5)});
        return b.add("add", {b.input({300, 200}), weight});
      }),
      "add", 0);
  // A sum of s64 numbers that a double does not hold.
  Builder b;
  const TensorRef large = passes::tensor_of(context(), DType::s64, {1}, {0});
  *static_cast<int64_t*>(large->buffer()->host()) = (int64_t(1) << 53) + 1;
  const ValueId constant = b.graph.constant("large", large);
  b.finish({b.add("reshape", {b.add("add", {constant, constant})}, "shape=[1,1]")});
  pass.run(b.graph, context());
  b.graph.tidy();
  const TensorRef sum = b.graph.value(b.graph.outputs()[0].value).constant;
  CHECK(sum && *static_cast<const int64_t*>(sum->buffer()->host()) == (int64_t(1) << 54) + 2);
}

static ValueId batch_norm(Builder& b, ValueId x, int64_t channels, const char* attributes = "", bool affine = true) {
  std::vector<ValueId> inputs = {x, b.constant({channels}), b.constant({channels}, 0.2, 2)};
  if (affine) inputs.insert(inputs.end(), {b.constant({channels}), b.constant({channels})});
  return b.add("batch_norm", inputs, attributes);
}

static void test_fold_batch_norm() {
  const Pass pass = passes::fold_batch_norm();
  const auto after = [&](const char* op, const Dims& x, const Dims& weight, const std::string& attributes, bool bias,
                         int64_t channels, const std::string& ops) {
    for (bool affine : {true, false})
      expect_pass(pass, graph_of([&](Builder& b) {
                    std::vector<ValueId> inputs = {b.input(x), b.constant(weight)};
                    if (bias) inputs.push_back(b.constant({channels}));
                    return batch_norm(b, b.add(op, inputs, attributes), channels, "eps=0.001", affine);
                  }),
                  ops);
  };
  after("conv2d", {2, 6, 7, 7}, {8, 6, 3, 3}, "padding=1", false, 8, "conv2d+bias");
  after("conv2d", {2, 6, 7, 7}, {9, 2, 3, 3}, "groups=3 stride=2", true, 9, "conv2d+bias");
  after("conv1d", {2, 6, 7}, {6, 1, 3}, "groups=6", true, 6, "conv1d+bias");
  after("conv3d", {1, 3, 5, 5, 5}, {4, 3, 2, 2, 2}, "", false, 4, "conv3d+bias");
  after("conv_transpose2d", {2, 6, 5, 5}, {6, 4, 3, 3}, "stride=2", true, 4, "conv_transpose2d+bias");
  after("conv_transpose2d", {2, 6, 5, 5}, {6, 4, 3, 3}, "groups=3 padding=1", false, 12, "conv_transpose2d+bias");
  after("linear", {5, 6}, {8, 6}, "", true, 8, "linear+bias");
  after("linear", {5, 8, 6}, {8, 6}, "", true, 8, "linear+bias batch_norm");  // other channels
  after("conv2d", {2, 6, 7, 7}, {8, 6, 3, 3}, "activation=relu", false, 8, "conv2d+relu batch_norm");

  expect_pass(pass, graph_of([](Builder& b) {  // the activation moves along
                const ValueId y = b.add("conv2d", {b.input({1, 3, 5, 5}), b.constant({4, 3, 1, 1})});
                return batch_norm(b, y, 4, "activation=leaky_relu activation_alpha=0.3");
              }),
              "conv2d+bias+leaky_relu");
  expect_pass(pass, graph_of([](Builder& b) {  // a residual would be scaled too
                const ValueId y =
                    b.add("conv2d", {b.input({1, 3, 5, 5}), b.constant({4, 3, 1, 1}), kNoValue, b.input({1, 4, 5, 5})});
                return batch_norm(b, y, 4);
              }),
              "conv2d+residual batch_norm");
  expect_pass(pass, graph_of([](Builder& b) {  // weights that are no constant
                return batch_norm(b, b.add("conv2d", {b.input({1, 3, 5, 5}), b.input({4, 3, 1, 1})}), 4);
              }),
              "conv2d batch_norm");
  Builder shared;  // the convolution's result is used twice
  const ValueId y = shared.add("conv2d", {shared.input({1, 3, 5, 5}), shared.constant({4, 3, 1, 1})});
  shared.finish({batch_norm(shared, y, 4), shared.add("tanh", {y})});
  expect_pass(pass, shared.graph, "conv2d batch_norm tanh");

  // Into the convolution that follows.
  const auto before = [&](const char* op, const Dims& x, const Dims& weight, const std::string& attributes,
                          const std::string& norm, const std::string& ops) {
    expect_pass(pass, graph_of([&](Builder& b) {
                  const ValueId z = batch_norm(b, b.input(x), x[1], norm.c_str());
                  return b.add(op, {z, b.constant(weight)}, attributes);
                }),
                ops, 2e-5);
  };
  before("conv2d", {2, 6, 7, 7}, {9, 2, 3, 3}, "groups=3 activation=relu", "", "conv2d+bias+relu");
  before("conv2d", {2, 6, 7, 7}, {9, 6, 1, 1}, "stride=2", "", "conv2d+bias");
  before("conv2d", {2, 6, 7, 7}, {9, 6, 3, 3}, "padding=1", "", "batch_norm conv2d");
  before("conv2d", {2, 6, 7, 7}, {9, 6, 1, 1}, "", "activation=relu", "batch_norm+relu conv2d");
  before("linear", {5, 6}, {8, 6}, "", "", "linear+bias");
  before("linear", {5, 6, 6}, {8, 6}, "", "", "batch_norm linear");
  before("conv_transpose2d", {2, 6, 7, 7}, {6, 2, 3, 3}, "", "", "batch_norm conv_transpose2d");

  // In half precision: weights are computed in double and rounded once.
  Builder half;
  const ValueId h =
      half.add("conv2d", {half.input({1, 8, 5, 5}, DType::bf16), half.constant({4, 8, 3, 3}, -1, 1, DType::bf16)});
  std::vector<ValueId> inputs = {h};
  for (int k = 0; k < 4; ++k) inputs.push_back(half.constant({4}, k == 1 ? 0.5 : -1, 1, DType::bf16));
  half.finish({half.add("batch_norm", inputs)});
  expect_pass(pass, half.graph, "conv2d+bias", 2e-2);
}

static void test_fuse_bias() {
  const Pass pass = passes::fuse_bias();
  const auto matmul = [&](const Dims& a, const Dims& matrix, const std::string& attributes, const std::string& ops) {
    expect_pass(pass, graph_of([&](Builder& b) {
                  return b.add("matmul", {b.input(a), b.constant(matrix)}, attributes);
                }),
                ops);
  };
  matmul({5, 6}, {6, 8}, "activation=relu", "linear+relu");
  matmul({2, 3, 5, 6}, {8, 6}, "transpose_b=true", "linear");
  matmul({6}, {6, 8}, "", "linear");
  matmul({6, 5}, {6, 8}, "transpose_a=true", "matmul");
  matmul({2, 5, 6}, {2, 6, 8}, "", "matmul");
  matmul({5, 6}, {6}, "", "matmul");

  const auto added = [&](const char* sum, const Dims& constant, bool first, const std::string& ops) {
    expect_pass(pass, graph_of([&](Builder& b) {
                  const ValueId y = b.add("conv2d", {b.input({2, 3, 4, 4}), b.constant({4, 3, 1, 1}), b.constant({4})});
                  const ValueId c = b.constant(constant);
                  return b.add(sum, first ? std::vector<ValueId>{c, y} : std::vector<ValueId>{y, c}, "activation=relu");
                }),
                ops);
  };
  added("add", {1, 4, 1, 1}, false, "conv2d+bias+relu");
  added("add", {4, 1, 1}, true, "conv2d+bias+relu");
  added("add", {}, true, "conv2d+bias+relu");
  added("sub", {4, 1, 1}, false, "conv2d+bias+relu");
  added("sub", {4, 1, 1}, true, "conv2d+bias sub+relu");
  added("add", {4}, false, "conv2d+bias add+relu");  // along w
  added("add", {2, 4, 4, 4}, false, "conv2d+bias add+relu");
  added("add", {1, 1, 1, 1, 1}, false, "conv2d+bias add+relu");  // makes the rank 5
  added("mul", {4, 1, 1}, false, "conv2d+bias mul+relu");

  expect_pass(pass, graph_of([](Builder& b) {  // both at once
                return b.add("add", {b.add("matmul", {b.input({2, 5, 6}), b.constant({6, 8})}), b.constant({8})});
              }),
              "linear+bias");
  expect_pass(pass, graph_of([](Builder& b) {
                const ValueId y = b.add("matmul", {b.input({2, 5, 6}), b.input({2, 6, 8})});
                return b.add("add", {b.constant({1, 8}), y});
              }),
              "matmul+bias");
  expect_pass(pass, graph_of([](Builder& b) {  // the bias is added before the activation only
                const ValueId y = b.add("linear", {b.input({5, 6}), b.constant({8, 6})}, "activation=relu");
                return b.add("add", {y, b.constant({8})});
              }),
              "linear+relu add");
}

static ValueId conv(Builder& b, ValueId x, const std::string& attributes = "") {
  return b.add("conv2d", {x, b.constant({4, 4, 1, 1})}, attributes);
}

static void test_fuse_activation() {
  const Pass pass = passes::fuse_activation();
  const Dims shape{1, 4, 3, 3};
  for (const char* name : {"relu", "relu6", "silu", "hardswish", "hardsigmoid", "sigmoid", "tanh", "mish", "abs"})
    expect_pass(pass, graph_of([&](Builder& b) { return b.add(name, {conv(b, b.input(shape))}); }),
                std::string("conv2d+") + name);
  const auto with = [&](const char* op, const char* attributes, const char* ops) {
    expect_pass(pass, graph_of([&](Builder& b) { return b.add(op, {conv(b, b.input(shape))}, attributes); }), ops);
  };
  with("leaky_relu", "negative_slope=0.2", "conv2d+leaky_relu");
  with("elu", "alpha=0.7", "conv2d+elu");
  with("clip", "min=-0.1 max=0.3", "conv2d+clip");
  with("clip", "max=0.3", "conv2d+clip");
  with("gelu", "", "conv2d+gelu_erf");
  with("gelu", "approximate=tanh", "conv2d+gelu_tanh");
  with("softplus", "beta=2 threshold=3", "conv2d+softplus");
  with("sin", "", "conv2d sin");
  const auto after = [&](const std::function<ValueId(Builder&)>& make, const char* ops) {
    expect_pass(pass, graph_of([&](Builder& b) { return b.add("relu", {make(b)}); }), ops);
  };
  after([&](Builder& b) { return b.add("add", {b.input(shape), b.input(shape)}); }, "add+relu");
  after([&](Builder& b) { return b.add("mul", {b.input(shape), b.input({4, 1, 1})}); }, "mul+relu");
  after([&](Builder& b) { return b.add("linear", {b.input({5, 6}), b.constant({8, 6})}); }, "linear+relu");
  after([&](Builder& b) { return b.add("matmul", {b.input({5, 6}), b.input({6, 6})}); }, "matmul+relu");
  after([&](Builder& b) { return batch_norm(b, b.input(shape), 4); }, "batch_norm+relu");
  after(
      [&](Builder& b) {
        return b.add("conv_transpose2d", {b.input(shape), b.constant({4, 2, 2, 2})});
      },
      "conv_transpose2d+relu");
  after([&](Builder& b) { return conv(b, b.input(shape), "activation=sigmoid"); }, "conv2d+sigmoid relu");
  after([&](Builder& b) { return b.add("softmax", {b.input(shape)}, "dim=1"); }, "softmax relu");
  after([&](Builder& b) { return b.add("max_pool2d", {b.input(shape)}, "kernel_size=2"); }, "max_pool2d relu");
  Builder shared;
  const ValueId y = conv(shared, shared.input(shape));
  shared.finish({shared.add("relu", {y}), y});
  expect_pass(pass, shared.graph, "conv2d relu");
}

static void test_recognise_activation() {
  const Pass pass = passes::recognise_activation();
  const auto spelled = [&](const std::function<ValueId(Builder&, ValueId)>& make, const std::string& ops,
                           double tolerance = 1e-5) {
    expect_pass(pass, graph_of([&](Builder& b) { return make(b, b.input({50, 11})); }), ops, tolerance);
  };
  const auto add = [](Builder& b, ValueId x, double n) { return b.add("add", {x, b.number(n)}); };
  const auto mul = [](Builder& b, ValueId x, double n) { return b.add("mul", {b.number(n), x}); };
  const auto div = [](Builder& b, ValueId x, double n) { return b.add("div", {x, b.number(n)}); };
  spelled([](Builder& b, ValueId x) { return b.add("mul", {x, b.add("sigmoid", {x})}); }, "silu");
  spelled([](Builder& b, ValueId x) { return b.add("mul", {b.add("sigmoid", {x}), x}); }, "silu");
  spelled(
      [](Builder& b, ValueId x) {
        return b.add("mul", {b.add("neg", {x}), b.add("sigmoid", {x})});
      },
      "neg sigmoid mul");
  spelled([](Builder& b, ValueId x) { return b.add("mul", {x, b.add("hardsigmoid", {x})}); }, "hardswish");
  spelled([](Builder& b, ValueId x) { return b.add("mul", {x, b.add("tanh", {b.add("softplus", {x})})}); }, "mish");
  spelled([&](Builder& b, ValueId x) { return div(b, b.add("clip", {add(b, x, 3)}, "min=0 max=6"), 6); },
          "hardsigmoid");
  spelled(
      [&](Builder& b, ValueId x) {
        return b.add("mul", {x, div(b, b.add("relu6", {add(b, x, 3)}), 6)});
      },
      "hardswish");
  spelled(
      [&](Builder& b, ValueId x) {
        return div(b, b.add("mul", {x, b.add("relu6", {add(b, x, 3)})}), 6);
      },
      "hardswish");
  spelled(
      [&](Builder& b, ValueId x) {
        return div(b, b.add("mul", {x, b.add("relu6", {add(b, x, 2)})}), 6);
      },
      "add relu6 mul div");
  spelled(
      [&](Builder& b, ValueId x) {
        return div(b, b.add("mul", {x, b.add("relu6", {add(b, x, 3)})}), 5);
      },
      "add relu6 mul div");
  // gelu: orders of the factors, and how the argument is scaled.
  const double root = std::sqrt(2.0);
  spelled(
      [&](Builder& b, ValueId x) {
        return mul(b, b.add("mul", {x, add(b, b.add("erf", {div(b, x, root)}), 1)}), 0.5);
      },
      "gelu");
  spelled(
      [&](Builder& b, ValueId x) {
        return b.add("mul", {mul(b, x, 0.5), add(b, b.add("erf", {mul(b, x, 1 / root)}), 1)});
      },
      "gelu");
  spelled(
      [&](Builder& b, ValueId x) {
        return b.add("mul", {x, mul(b, add(b, b.add("erf", {div(b, x, root)}), 1), 0.5)});
      },
      "gelu");
  spelled(
      [&](Builder& b, ValueId x) {
        return b.add("mul", {x, div(b, add(b, b.add("erf", {div(b, x, 1.5)}), 1), 2)});
      },
      "div erf add div mul");
  const auto tanh_of = [&](Builder& b, ValueId x, ValueId inner) {
    return mul(b, b.add("mul", {x, add(b, b.add("tanh", {inner}), 1)}), 0.5);
  };
  const double scale = std::sqrt(2 / M_PI);
  spelled(
      [&](Builder& b, ValueId x) {
        const ValueId cube = b.add("pow", {x, b.number(3)});
        return tanh_of(b, x, mul(b, b.add("add", {x, mul(b, cube, 0.044715)}), scale));
      },
      "gelu");
  spelled(
      [&](Builder& b, ValueId x) {
        const ValueId cube = b.add("mul", {b.add("mul", {x, x}), x});
        return tanh_of(b, x, mul(b, b.add("add", {mul(b, cube, 0.044715), x}), scale));
      },
      "gelu");
  spelled(
      [&](Builder& b, ValueId x) {
        const ValueId polynomial = add(b, mul(b, b.add("mul", {x, x}), 0.044715), 1);
        return tanh_of(b, x, b.add("mul", {mul(b, x, scale), polynomial}));
      },
      "gelu");
  spelled(
      [&](Builder& b, ValueId x) {
        const ValueId cube = b.add("pow", {x, b.number(3)});
        return tanh_of(b, x, mul(b, b.add("add", {x, mul(b, cube, 0.05)}), scale));
      },
      "pow mul add mul tanh add mul mul");
  // Ranges.
  spelled([&](Builder& b, ValueId x) { return b.add("maximum", {b.number(0), x}); }, "relu", 0);
  spelled(
      [&](Builder& b, ValueId x) {
        return b.add("minimum", {b.add("maximum", {x, b.number(0)}), b.number(6)});
      },
      "relu6", 0);
  spelled([&](Builder& b, ValueId x) { return b.add("clip", {b.add("relu", {x})}, "max=1"); }, "clip", 0);
  spelled([&](Builder& b, ValueId x) { return b.add("relu", {b.add("clip", {x}, "min=-2 max=-1")}); }, "clip", 0);
  spelled([&](Builder& b, ValueId x) { return b.add("clip", {x}, "min=0"); }, "relu", 0);
  spelled([&](Builder& b, ValueId x) { return b.add("maximum", {x, b.constant({11})}); }, "maximum", 0);
  spelled([&](Builder& b, ValueId x) { return b.add("mul", {x, x}); }, "square", 0);
  spelled([&](Builder& b, ValueId x) { return b.add("pow", {x, b.number(2)}); }, "square", 1e-6);
  // An intermediate that others use stays, and so does the pattern.
  Builder shared;
  const ValueId x = shared.input({7}), gate = shared.add("sigmoid", {x});
  shared.finish({shared.add("mul", {x, gate}), gate});
  expect_pass(pass, shared.graph, "sigmoid mul");
}

static void test_fuse_residual() {
  const Pass pass = passes::fuse_residual();
  const Dims shape{2, 4, 3, 3};
  const auto sum = [&](const std::function<ValueId(Builder&)>& make, const Dims& other, const std::string& ops) {
    for (bool first : {true, false})
      expect_pass(
          pass, graph_of([&](Builder& b) {
            const ValueId z = b.input(other), y = make(b);
            return b.add("add", first ? std::vector<ValueId>{y, z} : std::vector<ValueId>{z, y}, "activation=relu");
          }),
          ops);
  };
  sum([&](Builder& b) { return conv(b, b.input(shape)); }, shape, "conv2d+residual+relu");
  sum(
      [&](Builder& b) {
        return b.add("linear", {b.input({5, 6}), b.constant({8, 6}), b.constant({8})});
      },
      {5, 8}, "linear+bias+residual+relu");
  sum([&](Builder& b) { return b.add("matmul", {b.input({5, 6}), b.input({6, 8})}); }, {5, 8}, "matmul+residual+relu");
  sum([&](Builder& b) { return conv(b, b.input(shape)); }, {4, 3, 3}, "conv2d add+relu");
  sum([&](Builder& b) { return conv(b, b.input(shape), "activation=relu"); }, shape, "conv2d+relu add+relu");
  sum(
      [&](Builder& b) {
        return b.add("conv_transpose2d", {b.input(shape), b.constant({4, 2, 1, 1})});
      },
      {2, 2, 3, 3}, "conv_transpose2d add+relu");
  // Of two, the later one.
  expect_pass(pass, graph_of([&](Builder& b) {
                const ValueId x = b.input(shape), y = conv(b, x, "groups=1"), z = conv(b, x);
                return b.add("add", {y, z});
              }),
              "conv2d conv2d+residual");
  // Three: the first sum becomes a residual, the second needs another op.
  expect_pass(pass, graph_of([&](Builder& b) {
                const ValueId x = b.input(shape);
                return b.add("add", {b.add("add", {conv(b, x), b.input(shape)}), b.input(shape)});
              }),
              "conv2d+residual add");
  Builder twice;
  const ValueId y = conv(twice, twice.input(shape));
  twice.finish({twice.add("add", {y, y})});
  expect_pass(pass, twice.graph, "conv2d add");
}

static void test_recognise_channel_shuffle() {
  const Pass pass = passes::recognise_channel_shuffle();
  const auto shuffle = [&](const char* split, const char* dims, const char* back, const std::string& ops) {
    expect_pass(pass, graph_of([&](Builder& b) {
                  const ValueId x = b.add("reshape", {b.input({2, 12, 3, 4})}, split);
                  return b.add("reshape", {b.add("permute", {x}, dims)}, back);
                }),
                ops, 0);
  };
  shuffle("shape=[2,3,4,3,4]", "dims=[0,2,1,3,4]", "shape=[2,12,3,4]", "channel_shuffle");
  shuffle("shape=[2,3,4,12]", "dims=[0,2,1,3]", "shape=[2,-1,3,4]", "channel_shuffle");
  shuffle("shape=[2,3,4,3,4]", "dims=[0,2,1,3,4]", "shape=[2,4,9,4]", "reshape permute reshape");
  shuffle("shape=[2,3,4,3,4]", "dims=[0,1,2,4,3]", "shape=[2,12,3,4]", "reshape permute reshape");
  shuffle("shape=[2,6,6,4]", "dims=[0,2,1,3]", "shape=[2,12,3,4]", "reshape permute reshape");
  shuffle("shape=[3,2,4,3,4]", "dims=[0,2,1,3,4]", "shape=[2,12,3,4]", "reshape permute reshape");
}

static void test_fuse_interleave() {
  const Pass pass = passes::fuse_interleave();
  const auto unit = [&](int groups, const Dims& second, const std::vector<std::pair<int, int>>& ranges, bool whole,
                        const std::string& ops) {
    Builder b;
    const ValueId joined = b.add("concat", {b.input({2, 6, 3, 4}), b.input(second)}, "dim=1");
    const ValueId z = b.add("channel_shuffle", {joined}, "groups=" + std::to_string(groups));
    std::vector<ValueId> parts;
    for (const auto& [start, end] : ranges)
      parts.push_back(b.add("slice", {z}, "axes=1 starts=" + std::to_string(start) + " ends=" + std::to_string(end)));
    if (whole) parts.push_back(z);
    b.finish(parts);
    expect_pass(pass, b.graph, ops, 0);
  };
  const Dims same{2, 6, 3, 4};
  unit(2, same, {{0, 6}, {6, 12}}, false, "interleave");
  unit(2, same, {{5, 12}, {0, 5}}, false, "interleave");
  unit(2, same, {}, true, "interleave");
  unit(2, same, {{0, 6}, {6, 12}}, true, "interleave slice slice");
  unit(2, same, {{0, 6}, {5, 12}}, false, "interleave slice slice");
  unit(2, same, {{0, 6}}, false, "interleave slice");
  unit(3, same, {{0, 6}, {6, 12}}, false, "concat channel_shuffle slice slice");
  unit(2, {2, 4, 3, 4}, {{0, 5}, {5, 10}}, false, "concat channel_shuffle slice slice");
}

static void test_recognise_norm() {
  const Pass pass = passes::recognise_norm();
  struct Spelling {
    const char *square, *dims;
    bool inverse;
    const char* ops;
  };
  for (const Spelling& spelling :
       {Spelling{"pow", "dim=-1", false, "layer_norm+bias"}, Spelling{"mul", "dim=[1,2]", false, "layer_norm+bias"},
        Spelling{"square", "dim=2", true, "layer_norm+bias"},
        Spelling{"pow", "dim=1", false, "mean sub pow mean add sqrt div mul add"}}) {
    expect_pass(pass, graph_of([&](Builder& b) {
                  const std::string dims = std::string(spelling.dims) + " keepdim=true";
                  const ValueId x = b.input({3, 4, 6});
                  const ValueId d = b.add("sub", {x, b.add("mean", {x}, dims)});
                  const std::string square = spelling.square;
                  const ValueId power = square == "pow"   ? b.add("pow", {d, b.number(2)})
                                        : square == "mul" ? b.add("mul", {d, d})
                                                          : b.add("square", {d});
                  const ValueId sum = b.add("add", {b.add("mean", {power}, dims), b.number(1e-3)});
                  const ValueId y = spelling.inverse ? b.add("mul", {b.add("rsqrt", {sum}), d})
                                                     : b.add("div", {d, b.add("sqrt", {sum})});
                  const Dims shape = std::string(spelling.dims) == "dim=[1,2]" ? Dims{4, 6} : Dims{6};
                  return b.add("add", {b.add("mul", {y, b.constant(shape)}), b.constant(shape)});
                }),
                spelling.ops);
  }
  // Near misses: the mean of something else, keepdim missing on a square shape, a weight of another shape.
  expect_pass(pass, graph_of([](Builder& b) {
                const ValueId x = b.input({6, 6});
                const ValueId d = b.add("sub", {x, b.add("mean", {x}, "dim=1")});
                const ValueId v = b.add("mean", {b.add("square", {d})}, "dim=1");
                return b.add("div", {d, b.add("sqrt", {b.add("add", {v, b.number(1e-3)})})});
              }),
              "mean sub square mean add sqrt div");
  expect_pass(pass, graph_of([](Builder& b) {
                const ValueId x = b.input({6, 6});
                const ValueId d = b.add("sub", {x, b.add("mean", {x}, "dim=1 keepdim=true")});
                const ValueId v = b.add("mean", {b.add("square", {x})}, "dim=1 keepdim=true");
                return b.add("div", {d, b.add("sqrt", {b.add("add", {v, b.number(1e-3)})})});
              }),
              "mean sub square mean add sqrt div");
  expect_pass(pass, graph_of([](Builder& b) {
                const ValueId y = b.add("layer_norm", {b.input({5, 6})}, "normalized_shape=6");
                return b.add("mul", {b.add("add", {y, b.constant({6})}), b.constant({1, 6})});
              }),
              "layer_norm+bias mul");
}

static void test_recognise_attention() {
  const Pass pass = passes::recognise_attention();
  const Dims q{2, 3, 5, 4}, k{2, 3, 7, 4}, v{2, 3, 7, 6};
  // Half of the scale on each side, keys transposed by the exporter.
  expect_pass(pass, graph_of([&](Builder& b) {
                const ValueId keys = b.add("permute", {b.input(k)}, "dims=[0,1,3,2]");
                const ValueId scores =
                    b.add("matmul", {b.add("mul", {b.input(q), b.number(0.7)}), b.add("mul", {keys, b.number(0.7)})});
                return b.add("matmul", {b.add("softmax", {scores}, "dim=-1"), b.input(v)});
              }),
              "permute permute scaled_dot_product_attention");
  expect_pass(pass, graph_of([&](Builder& b) {
                const ValueId scores = b.add("matmul", {b.input(q), b.input(k)}, "transpose_b=true");
                const ValueId masked = b.add("add", {b.input({5, 7}), b.add("div", {scores, b.number(2)})});
                return b.add("matmul", {b.add("softmax", {masked}, "dim=3"), b.input(v)});
              }),
              "scaled_dot_product_attention");
  const auto kept = [&](const Dims& values, const char* product, const char* softmax, bool shared, const char* ops) {
    Builder b;
    const ValueId scores = b.add("matmul", {b.input({2, 3, 5, 4}), b.input({2, 3, 5, 4})}, product);
    const ValueId weights = b.add("softmax", {scores}, softmax);
    std::vector<ValueId> outputs = {b.add("matmul", {weights, b.input(values)})};
    if (shared) outputs.push_back(weights);
    b.finish(outputs);
    expect_pass(pass, b.graph, ops);
  };
  kept({2, 3, 5, 6}, "transpose_b=true", "dim=3", false, "scaled_dot_product_attention");
  kept({3, 5, 6}, "transpose_b=true", "dim=3", false, "matmul softmax matmul");  // broadcasts
  kept({2, 3, 5, 6}, "transpose_b=true", "dim=2", false, "matmul softmax matmul");
  kept({2, 3, 5, 6}, "transpose_b=true", "dim=3", true, "matmul softmax matmul");
  kept({2, 3, 5, 6}, "transpose_b=true activation=relu", "dim=3", false, "matmul+relu softmax matmul");
}

static void test_fold_pad() {
  const Pass pass = passes::fold_pad();
  const auto padded = [&](const char* op, const std::string& pad, const std::string& attributes, const std::string& ops,
                          const Dims& weight = {}) {
    expect_pass(pass, graph_of([&](Builder& b) {
                  std::vector<ValueId> inputs = {b.add("pad", {b.input({2, 4, 7, 8})}, pad)};
                  if (!weight.empty()) inputs.push_back(b.constant(weight));
                  return b.add(op, inputs, attributes);
                }),
                ops);
  };
  padded("conv2d", "pad=[1,2,0,1]", "padding=[1,0]", "conv2d", {4, 4, 3, 3});
  padded("conv2d", "pad=[1,2,0,1] value=1", "", "pad conv2d", {4, 4, 3, 3});
  padded("conv2d", "pad=[1,2,0,1] mode=replicate", "", "pad conv2d", {4, 4, 3, 3});
  padded("conv2d", "pad=[1,-1,0,1]", "", "pad conv2d", {4, 4, 3, 3});
  padded("conv2d", "pad=[1,1,1,1,1,1]", "", "pad conv2d", {4, 6, 3, 3});
  padded("avg_pool2d", "pad=[1,1,0,1]", "kernel_size=3 stride=2 count_include_pad=false", "avg_pool2d");
  padded("avg_pool2d", "pad=[1,1,0,1]", "kernel_size=4 padding=1 count_include_pad=true", "avg_pool2d");
  padded("avg_pool2d", "pad=[1,1,0,1]", "kernel_size=4 padding=1 count_include_pad=false", "pad avg_pool2d");
  padded("avg_pool2d", "pad=[2,2,0,1]", "kernel_size=3", "pad avg_pool2d");
  padded("avg_pool2d", "pad=[1,1,0,1]", "kernel_size=3 ceil_mode=true", "pad avg_pool2d");
  padded("max_pool2d", "pad=[1,1,0,1] value=-inf", "kernel_size=3", "max_pool2d");
  padded("max_pool2d", "pad=[1,1,0,1]", "kernel_size=3", "pad max_pool2d");
}

static void test_fold_scale() {
  const Pass pass = passes::fold_scale();
  const auto after = [&](const char* op, const Dims& x, const Dims& weight, const std::string& arithmetic,
                         const Dims& constant, bool first, const std::string& ops, const std::string& attributes = "") {
    expect_pass(pass, graph_of([&](Builder& b) {
                  const ValueId y = b.add(op, {b.input(x), b.constant(weight)}, attributes);
                  const ValueId c = b.constant(constant, 0.5, 2);
                  return b.add(arithmetic.c_str(), first ? std::vector<ValueId>{c, y} : std::vector<ValueId>{y, c},
                               "activation=tanh");
                }),
                ops);
  };
  const Dims x{2, 6, 5, 5}, w{4, 6, 3, 3};
  after("conv2d", x, w, "mul", {4, 1, 1}, false, "conv2d+tanh");
  after("conv2d", x, w, "mul", {4, 1, 1}, true, "conv2d+tanh");
  after("conv2d", x, w, "div", {4, 1, 1}, false, "conv2d+tanh");
  after("conv2d", x, w, "div", {4, 1, 1}, true, "conv2d div+tanh");
  after("conv2d", x, w, "add", {}, true, "conv2d+bias+tanh");
  after("conv2d", x, w, "sub", {1}, true, "conv2d+bias+tanh");
  after("conv2d", x, w, "sub", {4, 1, 1}, false, "conv2d+bias+tanh");
  after("conv2d", x, w, "mul", {4, 3, 3}, false, "conv2d mul+tanh");
  after("conv2d", x, w, "mul", {2, 1, 1, 1}, false, "conv2d mul+tanh");
  after("conv2d", x, w, "mul", {4, 1, 1}, false, "conv2d+relu mul+tanh", "activation=relu");
  after("conv_transpose2d", {2, 6, 5, 5}, {6, 4, 3, 3}, "mul", {8, 1, 1}, false, "conv_transpose2d+tanh", "groups=2");
  after("linear", {2, 7, 6}, {5, 6}, "mul", {5}, false, "linear+tanh");
  after("linear", {2, 7, 6}, {5, 6}, "mul", {7, 1}, false, "linear mul+tanh");

  const auto before = [&](const char* op, const Dims& in, const Dims& weight, const char* arithmetic,
                          const Dims& constant, const std::string& ops, const std::string& attributes = "") {
    expect_pass(pass, graph_of([&](Builder& b) {
                  const ValueId y = b.add(arithmetic, {b.input(in), b.constant(constant, 0.5, 2)});
                  return b.add(op, {y, b.constant(weight)}, attributes);
                }),
                ops, 2e-5);
  };
  before("conv2d", x, w, "mul", {6, 1, 1}, "conv2d", "padding=1");
  before("conv2d", x, w, "div", {}, "conv2d", "padding=1");
  before("conv2d", x, w, "add", {6, 1, 1}, "conv2d+bias");
  before("conv2d", x, w, "sub", {6, 1, 1}, "sub conv2d", "padding=1");
  before("conv2d", x, {4, 3, 3, 3}, "sub", {6, 1, 1}, "sub conv2d", "groups=2 padding=[0,1]");
  before("conv2d", x, {6, 2, 3, 3}, "sub", {6, 1, 1}, "conv2d+bias", "groups=3");
  before("conv2d", x, {6, 2, 3, 3}, "mul", {6, 1, 1}, "conv2d", "groups=3");
  before("conv2d", x, w, "mul", {5, 1}, "mul conv2d");
  before("conv_transpose2d", x, {6, 2, 3, 3}, "mul", {6, 1, 1}, "conv_transpose2d", "groups=2");
  before("linear", {2, 7, 6}, {5, 6}, "sub", {6}, "linear+bias");
  before("linear", {2, 7, 6}, {5, 6}, "mul", {6}, "linear");

  // Two in a row; what they become is computed by fold_constants.
  const auto merged = [](const char* op, const Dims& first, const Dims& second, const std::string& ops) {
    const Graph graph = graph_of([&](Builder& b) {
      return b.add(op, {b.constant(second), b.add(op, {b.add("tanh", {b.input({4, 5})}), b.constant(first)})});
    });
    Graph after = graph;
    simplify(after, context());
    CHECK(ops_of(after) == ops);
    compare(graph, after, 1e-6, "two in a row");
  };
  merged("mul", {}, {5}, "tanh mul");
  merged("add", {4, 1}, {4, 5}, "tanh add");
  merged("add", {4, 1}, {5}, "tanh add add");  // the sum would be larger than both
  merged("sub", {5}, {5}, "tanh sub sub");
  Builder chain;
  ValueId sum = chain.input({4, 5});
  for (int i = 0; i < 6; ++i) sum = chain.add("add", {sum, chain.constant({5})});
  chain.finish({sum});
  Graph shorter = chain.graph;
  simplify(shorter, context());
  CHECK(ops_of(shorter) == "add");
  compare(chain.graph, shorter, 1e-6, "a chain of sums");
}

static void test_nest_concats() {
  Builder b;
  const ValueId x = b.input({2, 3, 4, 4}), y = b.add("relu", {x}), z = b.add("neg", {x}), w = b.add("abs", {x});
  const ValueId two = b.add("concat", {x, y}, "dim=1"), three = b.add("concat", {x, y, z}, "dim=-3");
  const ValueId four = b.add("concat", {x, y, z, w}, "dim=1"), other_dim = b.add("concat", {x, y, z}, "dim=2");
  const ValueId other_order = b.add("concat", {y, x, z}, "dim=1"), twice = b.add("concat", {x, y, x, y}, "dim=1");
  Graph& graph = b.finish({two, three, four, other_dim, other_order, twice});
  const auto before = evaluate(graph);
  CHECK(passes::nest_concats().run(graph, context()) == 3);
  graph.tidy();
  graph.verify();
  const auto inputs = [&](ValueId id) { return graph.maker(id)->inputs; };
  CHECK(inputs(three) == (std::vector<ValueId>{two, z}));
  CHECK(inputs(four) == (std::vector<ValueId>{three, w}));  // the longest
  CHECK(inputs(twice) == (std::vector<ValueId>{two, x, y}));
  CHECK(inputs(other_dim).size() == 3 && inputs(other_order).size() == 3);
  CHECK(evaluate(graph) == before);
  CHECK(passes::nest_concats().run(graph, context()) == 0);
}

static void test_merge_equal() {
  const Pass pass = passes::merge_equal();
  Builder b;
  const ValueId x = b.input({4, 4}), one = b.values({4}, {1, 2, 3, 4}), same = b.values({4}, {1, 2, 3, 4}),
                other = b.values({4}, {1, 2, 3, 5}), row = b.values({1, 4}, {1, 2, 3, 4});
  const ValueId first = b.add("add", {x, one}), second = b.add("add", {x, same}), third = b.add("add", {x, other});
  const ValueId parts = b.all("split", {first}, "split_size_or_sections=2")[1];
  const ValueId again = b.all("split", {second}, "split_size_or_sections=2")[1];
  b.finish({parts, again, third, b.add("add", {one, x}), b.add("add", {x, row}), b.add("relu", {second}),
            b.add("clip", {third}, "max=1"), b.add("clip", {third}, "max=1.5")});
  expect_pass(pass, b.graph, "add add split add add relu clip clip", 0);
  Builder nothing;
  nothing.finish({nothing.add("relu", {nothing.input({3})}), nothing.add("relu", {nothing.input({3})})});
  expect_pass(pass, nothing.graph, "relu relu", 0);
}

static void test_merge_views() {
  const Pass pass = passes::merge_views();
  using Views = std::vector<std::pair<const char*, const char*>>;
  const auto chain = [&](const Dims& shape, const Views& views, const std::string& ops) {
    expect_pass(pass, graph_of([&](Builder& b) {
                  ValueId x = b.input(shape);
                  for (const auto& [op, attributes] : views) x = b.add(op, {x}, attributes);
                  return x;
                }),
                ops, 0);
  };
  const Dims shape{2, 3, 4, 5};
  chain(shape, {{"permute", "dims=[0,2,3,1]"}, {"permute", "dims=[0,3,1,2]"}}, "");
  chain(shape, {{"permute", "dims=[1,2,3,0]"}, {"transpose", "dim0=0 dim1=1"}, {"transpose", "dim0=1 dim1=3"}},
        "permute");
  chain(shape, {{"reshape", "shape=[6,20]"}, {"flatten", ""}, {"unsqueeze", "dim=0"}}, "reshape");
  chain(shape, {{"reshape", "shape=[6,20]"}, {"unsqueeze", "dim=1"}, {"squeeze", ""}, {"reshape", "shape=[2,3,4,5]"}},
        "");
  chain(shape, {{"reshape", "shape=[6,20]"}, {"permute", "dims=[1,0]"}, {"reshape", "shape=[-1]"}},
        "reshape permute reshape");
  // Splitting, swapping and joining again.
  chain(shape,
        {{"reshape", "shape=[6,20]"},
         {"permute", "dims=[1,0]"},
         {"reshape", "shape=[20,2,3]"},
         {"permute", "dims=[1,2,0]"}},
        "reshape");
  chain(shape, {{"unsqueeze", "dim=0"}, {"permute", "dims=[3,0,1,4,2]"}, {"squeeze", ""}}, "permute");
  // Dimensions of one element make a permute a reshape.
  chain({1, 7, 3}, {{"permute", "dims=[1,0,2]"}, {"reshape", "shape=[7,3]"}}, "reshape");
  chain({1, 7, 3}, {{"permute", "dims=[1,0,2]"}, {"permute", "dims=[1,2,0]"}}, "permute");
  chain({7, 3}, {{"reshape", "shape=[7,1,3]"}, {"permute", "dims=[1,0,2]"}}, "reshape");
  chain({2, 6, 4}, {{"reshape", "shape=[2,3,2,4]"}, {"permute", "dims=[0,2,1,3]"}}, "reshape permute");  // no shorter
  // A factor broken up: 6 * 4 as 8 * 3.
  chain({6, 4}, {{"permute", "dims=[1,0]"}, {"reshape", "shape=[8,3]"}, {"permute", "dims=[1,0]"}},
        "permute reshape permute");
  chain({6, 4}, {{"reshape", "shape=[8,3]"}, {"reshape", "shape=[2,12]"}, {"reshape", "shape=[3,8]"}}, "reshape");
  chain({0, 4}, {{"reshape", "shape=[4,0]"}, {"permute", "dims=[1,0]"}}, "reshape permute");
  // A value that others need stays.
  Builder b;
  const ValueId x = b.input({2, 3}), y = b.add("reshape", {x}, "shape=[3,2]"), z = b.add("flatten", {y}, "start_dim=0");
  b.finish({y, z});
  Graph after = b.graph;
  CHECK(pass.run(after, context()) == 1 && after.tidy() == 0 && ops_of(after) == "reshape reshape");
  compare(b.graph, after, 0, "shared views");

  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    Builder r;
    const std::vector<Dims> shapes = {{2, 3, 4, 5}, {1, 6, 4, 1}, {4, 6}, {12}, {2, 1, 2, 2, 3}, {8, 9}};
    ValueId v = r.input(shapes[random() % shapes.size()]);
    const size_t length = 2 + random() % 6;
    for (size_t i = 0; i < length; ++i) {
      const Dims now = r.graph.value(v).desc.shape;
      Attributes attributes;
      if (random() % 2 && now.size() > 1) {
        std::vector<int64_t> dims;
        for (int d = 0; d < now.size(); ++d) dims.push_back(d);
        std::shuffle(dims.begin(), dims.end(), random);
        attributes.set("dims", dims);
        v = r.graph.add(*find_schema("permute"), attributes, {v})[0];
      } else {  // prime factors in their order, joined at random, with ones
        std::vector<int64_t> sizes = {1};
        int64_t left = now.product();
        for (int64_t prime = 2; left > 1;) {
          if (left % prime) {
            ++prime;
            continue;
          }
          left /= prime;
          if (random() % 2 && sizes.size() < 6)
            sizes.push_back(prime);
          else
            sizes.back() *= prime;
        }
        if (random() % 3) std::shuffle(sizes.begin(), sizes.end(), random);
        attributes.set("shape", sizes);
        v = r.graph.add(*find_schema("reshape"), attributes, {v})[0];
      }
    }
    r.finish({v});
    Graph merged = r.graph;
    pass.run(merged, context());
    merged.tidy();
    merged.verify();
    CHECK(merged.nodes().size() <= r.graph.nodes().size());
    compare(r.graph, merged, 0, ("views " + std::to_string(seed)).c_str());
  }
}

static void test_move_views() {
  const Pass pass = passes::move_views();
  const auto both = [&](const Graph& graph, const std::string& moved, const std::string& all) {
    expect_pass(pass, graph, moved);
    Graph after = graph;
    simplify(after, context());
    if (ops_of(after) != all) std::fprintf(stderr, "%s\nexpected %s\n", ops_of(after).c_str(), all.c_str());
    CHECK(ops_of(after) == all);
    compare(graph, after, 2e-5, "moved views");
  };
  // The end of ConvNeXt's block: linear in NHWC, a scale by channel and a residual in NCHW.
  both(graph_of([](Builder& b) {
         const ValueId x = b.input({2, 4, 3, 5}), rows = b.add("permute", {x}, "dims=[0,2,3,1]");
         const ValueId y = b.add("permute", {b.add("linear", {rows, b.constant({4, 4})})}, "dims=[0,3,1,2]");
         return b.add("add", {b.add("mul", {b.constant({4, 1, 1}), y}), x});
       }),
       "permute linear reshape mul permute add", "permute linear+residual permute");
  // The end of an attention: rows in another order.
  both(graph_of([](Builder& b) {
         const ValueId heads = b.input({2, 3, 5, 4});  // n, heads, l, e
         const ValueId rows = b.add("reshape", {b.add("permute", {heads}, "dims=[2,0,1,3]")}, "shape=[10,12]");
         const ValueId y = b.add("linear", {rows, b.constant({6, 12}), b.constant({6})});
         const ValueId back = b.add("permute", {b.add("reshape", {y}, "shape=[5,2,6]")}, "dims=[1,0,2]");
         return b.add("add", {back, b.input({2, 5, 6})});
       }),
       "permute reshape linear+bias permute reshape reshape permute add", "permute reshape linear+bias+residual");
  both(graph_of([](Builder& b) {
         const ValueId y = b.add("linear", {b.input({10, 6}), b.constant({4, 6})});
         return b.add("relu", {b.add("add", {b.add("reshape", {y}, "shape=[2,5,4]"), b.input({2, 5, 4})})});
       }),
       "linear reshape add reshape relu", "reshape linear+residual+relu reshape");
  // The beginning: one linear for queries, keys and values.
  both(graph_of([](Builder& b) {
         const ValueId x =
             b.add("permute", {b.add("layer_norm", {b.input({2, 5, 6})}, "normalized_shape=6")}, "dims=[1,0,2]");
         const ValueId all = b.add("linear", {x, b.constant({18, 6}), b.constant({18})});
         const ValueId split = b.add("permute", {b.add("reshape", {all}, "shape=[5,2,3,6]")}, "dims=[2,0,1,3]");
         std::vector<ValueId> parts;
         for (int k = 0; k < 3; ++k) {
           const std::string range = "axes=0 starts=" + std::to_string(k) + " ends=" + std::to_string(k + 1);
           const ValueId part = b.add("reshape", {b.add("slice", {split}, range)}, "shape=[5,6,2]");
           parts.push_back(b.add("reshape", {b.add("permute", {part}, "dims=[1,0,2]")}, "shape=[2,3,5,2]"));
         }
         return b.add("scaled_dot_product_attention", parts);
       }),
       "layer_norm linear+bias permute reshape permute slice reshape permute reshape slice reshape permute reshape "
       "slice "
       "reshape permute reshape scaled_dot_product_attention",
       "layer_norm linear+bias reshape permute linear+bias reshape permute linear+bias reshape permute "
       "scaled_dot_product_attention");
  // Nothing would be gained.
  const auto kept = [&](const std::function<ValueId(Builder&)>& make, const std::string& ops) {
    expect_pass(pass, graph_of(make), ops);
  };
  kept(
      [](Builder& b) {
        return b.add("add", {b.add("permute", {b.input({2, 3})}, "dims=[1,0]"), b.input({3, 2})});
      },
      "permute add");
  kept(
      [](Builder& b) {  // along the rows
        const ValueId y = b.add("linear", {b.input({5, 6}), b.constant({4, 6})});
        return b.add("mul", {b.add("permute", {y}, "dims=[1,0]"), b.constant({5})});
      },
      "linear permute mul");
  kept(
      [](Builder& b) {
        const ValueId y = b.add("linear", {b.input({5, 6}), b.constant({4, 6})}, "activation=relu");
        return b.add("add", {b.add("permute", {y}, "dims=[1,0]"), b.input({4, 5})});
      },
      "linear+relu permute add");
  kept(
      [](Builder& b) {  // the rows keep their order
        const ValueId x = b.add("reshape", {b.input({2, 5, 6})}, "shape=[10,6]");
        return b.add("linear", {x, b.constant({4, 6})});
      },
      "reshape linear");
}

static void test_split_linear() {
  const Pass pass = passes::split_linear();
  const auto slices = [&](const std::vector<std::string>& ranges, const char* activation, const std::string& ops) {
    Builder b;
    const ValueId y = b.add("linear", {b.input({2, 5, 6}), b.constant({9, 6}), b.constant({9})}, activation);
    std::vector<ValueId> parts;
    for (const std::string& range : ranges) parts.push_back(b.add("slice", {y}, range));
    b.finish(parts);
    expect_pass(pass, b.graph, ops);
  };
  slices({"axes=2 starts=0 ends=4", "axes=-1 starts=4 ends=9"}, "activation=relu", "linear+bias+relu linear+bias+relu");
  slices({"axes=2 starts=6 ends=9", "axes=2 starts=1 ends=2"}, "", "linear+bias linear+bias");
  slices({"axes=2 starts=0 ends=6", "axes=2 starts=4 ends=9"}, "", "linear+bias slice slice");  // overlap
  slices({"axes=2 starts=0 ends=4", "axes=1 starts=0 ends=2"}, "", "linear+bias slice slice");
  slices({"axes=2 starts=0 ends=4 steps=2", "axes=2 starts=4 ends=9"}, "", "linear+bias slice slice");
  slices({"axes=2 starts=0 ends=4"}, "", "linear+bias slice");
  Builder whole;
  const ValueId y = whole.add("linear", {whole.input({5, 6}), whole.constant({9, 6})});
  whole.finish(
      {whole.add("slice", {y}, "axes=1 starts=0 ends=4"), whole.add("slice", {y}, "axes=1 starts=4 ends=9"), y});
  expect_pass(pass, whole.graph, "linear slice slice");
}

static void test_all_together() {
  // The blocks of ResNet, MobileNet v3 and a transformer's MLP, as exporters write them.
  Builder b;
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
        "conv2d+bias+relu conv2d+bias+relu conv2d+bias+residual+relu conv2d+bias+hardswish flatten permute "
        "linear+bias+gelu_erf linear+bias+residual");
  compare(b.graph, after, 2e-5, "all together");
  CHECK(reports.size() == standard_passes().size());
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
static void test_random_graphs() {
  for (unsigned seed = 0; seed < 150; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](size_t n) { return size_t(random() % n); };
    Builder b;
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
static void test_long_chains() {
  const auto seconds = [](size_t length, const char* op, const char* attributes, const char* other) {
    Graph graph;
    ValueId x = graph.input("x", TensorDesc::dense(DType::f32, {2, 3}));
    const Schema &first = *find_schema(op), &second = *find_schema(other);
    const Attributes parsed = Attributes::parse(attributes);
    for (size_t i = 0; i < length; ++i) x = i % 2 ? graph.add(second, {}, {x})[0] : graph.add(first, parsed, {x})[0];
    graph.output(x, "y", std::nullopt);
    const auto start = std::chrono::steady_clock::now();
    simplify(graph, context());
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  const double identities = seconds(1000000, "identity", "", "dropout");
  const double views = seconds(100000, "reshape", "shape=[3,2]", "flatten");
  const double rest = seconds(100000, "identity", "", "neg");
  std::printf("1,000,000 identities: %.2f s; 100,000 reshapes: %.2f s; 100,000 of identity and neg: %.2f s\n",
              identities, views, rest);
  CHECK(identities < 30 && views < 30 && rest < 30);
}

int main() {
  test_remove_identity();
  test_fold_constants();
  test_fold_batch_norm();
  test_fuse_bias();
  test_fuse_activation();
  test_recognise_activation();
  test_fuse_residual();
  test_recognise_channel_shuffle();
  test_fuse_interleave();
  test_recognise_norm();
  test_recognise_attention();
  test_fold_pad();
  test_fold_scale();
  test_nest_concats();
  test_merge_equal();
  test_merge_views();
  test_move_views();
  test_split_linear();
  test_all_together();
  test_random_graphs();
  test_long_chains();
  return 0;
}
