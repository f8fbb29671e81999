// Each pass alone: what it rewrites, what it must leave, and that results stay.
#include <algorithm>
#include <functional>

#include "graph/passes/passes.h"
#include "graph_testing.h"

using namespace pltest;

namespace {

TEST("remove_identity") {
  const Pass pass = passes::remove_identity();
  const auto gone = [&](const char* op, const std::string& attributes, const Dims& shape) {
    expect_pass(pass, graph_of([&](GraphMaker& b) { return b.add(op, {b.input(shape)}, attributes); }), "", 0);
  };
  const auto kept = [&](const char* op, const std::string& attributes, const Dims& shape) {
    expect_pass(pass, graph_of([&](GraphMaker& b) { return b.add(op, {b.input(shape)}, attributes); }), op, 0);
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
    expect_pass(pass, graph_of([&](GraphMaker& b) {
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

  expect_pass(pass, graph_of([](GraphMaker& b) { return b.add("relu", {b.add("relu", {b.input({9})})}); }), "relu", 0);
  expect_pass(pass, graph_of([](GraphMaker& b) { return b.add("neg", {b.add("neg", {b.input({9})})}); }), "neg neg", 0);
  // The name of an output that became an input's stays what it was.
  GraphMaker direct;
  direct.finish({direct.add("identity", {direct.input({2})})});
  const std::string name = direct.graph.outputs()[0].name;
  pass.run(direct.graph, context());
  direct.graph.tidy();
  CHECK(direct.graph.outputs()[0].name == name);
  CHECK(direct.graph.nodes().empty());
}

TEST("fold_constants") {
  const Pass pass = passes::fold_constants();
  expect_pass(pass, graph_of([](GraphMaker& b) {
                const ValueId c = b.add("add", {b.constant({3, 1}), b.constant({1, 4})});
                return b.add("mul", {b.input({3, 4}),
                                     b.add("transpose", {b.add("exp", {b.add("transpose", {c}, "dim0=0 dim1=1")})},
                                           "dim0=0 dim1=1")});
              }),
              "mul", 1e-6);
  expect_pass(pass, graph_of([](GraphMaker& b) {  // several results, an absent input, integers
                const auto parts = b.all("split", {b.constant({4, 3}, -9, 9, DType::s64)}, "split_size_or_sections=2");
                const ValueId sum = b.add("add", {parts[0], parts[1]});
                return b.add("linear", {b.constant({2, 3}),
                                        b.add("cast", {b.add("reshape", {sum}, "shape=[2,3]")}, "dtype=f32")});
              }),
              "", 1e-6);
  // Larger than its inputs.
  expect_pass(pass, graph_of([](GraphMaker& b) {
                return b.add("add", {b.input({300, 200}), b.add("tile", {b.constant({1, 200})}, "dims=[300,1]")});
              }),
              "tile add", 0);
  expect_pass(pass, graph_of([](GraphMaker& b) {
                return b.add("add", {b.input({30, 20}), b.add("tile", {b.constant({1, 20})}, "dims=[30,1]")});
              }),
              "add", 0);
  expect_pass(pass, graph_of([](GraphMaker& b) { return b.add("add", {b.input({3}), b.constant({3})}); }), "add", 0);
  // As many elements in a wider dtype: weights that are dequantised.
  expect_pass(
      pass, graph_of([](GraphMaker& b) {
        const ValueId weight = b.add("dequantize_linear", {b.constant({300, 200}, -9, 9, DType::s8), b.number(0.5)});
        return b.add("add", {b.input({300, 200}), weight});
      }),
      "add", 0);
  // A sum of s64 numbers that a double does not hold.
  GraphMaker b;
  const TensorRef large = passes::tensor_of(context(), DType::s64, {1}, {0});
  *static_cast<int64_t*>(large->buffer()->host()) = (int64_t(1) << 53) + 1;
  const ValueId constant = b.graph.constant("large", large);
  b.finish({b.add("reshape", {b.add("add", {constant, constant})}, "shape=[1,1]")});
  pass.run(b.graph, context());
  b.graph.tidy();
  const TensorRef sum = b.graph.value(b.graph.outputs()[0].value).constant;
  REQUIRE(sum);
  CHECK(*static_cast<const int64_t*>(sum->buffer()->host()) == (int64_t(1) << 54) + 2);
}

TEST("fold_batch_norm") {
  const Pass pass = passes::fold_batch_norm();
  const auto after = [&](const char* op, const Dims& x, const Dims& weight, const std::string& attributes, bool bias,
                         int64_t channels, const std::string& ops) {
    for (bool affine : {true, false})
      expect_pass(pass, graph_of([&](GraphMaker& b) {
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

  expect_pass(pass, graph_of([](GraphMaker& b) {  // the activation moves along
                const ValueId y = b.add("conv2d", {b.input({1, 3, 5, 5}), b.constant({4, 3, 1, 1})});
                return batch_norm(b, y, 4, "activation=leaky_relu activation_alpha=0.3");
              }),
              "conv2d+bias+leaky_relu");
  const auto behind_rows = [&](const std::string& shape, const std::string& ops) {  // of a linear layer, as in LeViT
    expect_pass(pass, graph_of([&](GraphMaker& b) {
                  const ValueId y = b.add("linear", {b.input({3, 4, 6}), b.constant({8, 6}), b.constant({8})});
                  return batch_norm(b, b.add("reshape", {y}, "shape=" + shape), 8);
                }),
                ops);
  };
  behind_rows("[12,8]", "linear+bias reshape");
  behind_rows("[-1,8]", "linear+bias reshape");
  behind_rows("[3,8,4]", "linear+bias reshape batch_norm");
  behind_rows("[12,8,1]", "linear+bias reshape batch_norm");
  expect_pass(pass, graph_of([](GraphMaker& b) {  // a residual would be scaled too
                const ValueId y =
                    b.add("conv2d", {b.input({1, 3, 5, 5}), b.constant({4, 3, 1, 1}), kNoValue, b.input({1, 4, 5, 5})});
                return batch_norm(b, y, 4);
              }),
              "conv2d+add(residual) batch_norm");
  expect_pass(pass, graph_of([](GraphMaker& b) {  // weights that are no constant
                return batch_norm(b, b.add("conv2d", {b.input({1, 3, 5, 5}), b.input({4, 3, 1, 1})}), 4);
              }),
              "conv2d batch_norm");
  GraphMaker shared;  // the convolution's result is used twice
  const ValueId y = shared.add("conv2d", {shared.input({1, 3, 5, 5}), shared.constant({4, 3, 1, 1})});
  shared.finish({batch_norm(shared, y, 4), shared.add("tanh", {y})});
  expect_pass(pass, shared.graph, "conv2d batch_norm tanh");

  // Into the convolution that follows.
  const auto before = [&](const char* op, const Dims& x, const Dims& weight, const std::string& attributes,
                          const std::string& norm, const std::string& ops) {
    expect_pass(pass, graph_of([&](GraphMaker& b) {
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
  GraphMaker half;
  const ValueId h =
      half.add("conv2d", {half.input({1, 8, 5, 5}, DType::bf16), half.constant({4, 8, 3, 3}, -1, 1, DType::bf16)});
  std::vector<ValueId> inputs = {h};
  for (int k = 0; k < 4; ++k) inputs.push_back(half.constant({4}, k == 1 ? 0.5 : -1, 1, DType::bf16));
  half.finish({half.add("batch_norm", inputs)});
  expect_pass(pass, half.graph, "conv2d+bias", 2e-2);
}

TEST("fuse_bias") {
  const Pass pass = passes::fuse_bias();
  const auto matmul = [&](const Dims& a, const Dims& matrix, const std::string& attributes, const std::string& ops) {
    expect_pass(pass, graph_of([&](GraphMaker& b) {
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
    expect_pass(pass, graph_of([&](GraphMaker& b) {
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

  expect_pass(pass, graph_of([](GraphMaker& b) {  // both at once
                return b.add("add", {b.add("matmul", {b.input({2, 5, 6}), b.constant({6, 8})}), b.constant({8})});
              }),
              "linear+bias");
  expect_pass(pass, graph_of([](GraphMaker& b) {
                const ValueId y = b.add("matmul", {b.input({2, 5, 6}), b.input({2, 6, 8})});
                return b.add("add", {b.constant({1, 8}), y});
              }),
              "matmul+bias");
  expect_pass(pass, graph_of([](GraphMaker& b) {  // the bias is added before the activation only
                const ValueId y = b.add("linear", {b.input({5, 6}), b.constant({8, 6})}, "activation=relu");
                return b.add("add", {y, b.constant({8})});
              }),
              "linear+relu add");
}

TEST("recognise_activation") {
  const Pass pass = passes::recognise_activation();
  const auto spelled = [&](const std::function<ValueId(GraphMaker&, ValueId)>& make, const std::string& ops,
                           double tolerance = 1e-5) {
    expect_pass(pass, graph_of([&](GraphMaker& b) { return make(b, b.input({50, 11})); }), ops, tolerance);
  };
  const auto add = [](GraphMaker& b, ValueId x, double n) { return b.add("add", {x, b.number(n)}); };
  const auto mul = [](GraphMaker& b, ValueId x, double n) { return b.add("mul", {b.number(n), x}); };
  const auto div = [](GraphMaker& b, ValueId x, double n) { return b.add("div", {x, b.number(n)}); };
  spelled([](GraphMaker& b, ValueId x) { return b.add("mul", {x, b.add("sigmoid", {x})}); }, "silu");
  spelled([](GraphMaker& b, ValueId x) { return b.add("mul", {b.add("sigmoid", {x}), x}); }, "silu");
  spelled(
      [](GraphMaker& b, ValueId x) {
        return b.add("mul", {b.add("neg", {x}), b.add("sigmoid", {x})});
      },
      "neg sigmoid mul");
  spelled([](GraphMaker& b, ValueId x) { return b.add("mul", {x, b.add("hardsigmoid", {x})}); }, "hardswish");
  spelled([](GraphMaker& b, ValueId x) { return b.add("mul", {x, b.add("tanh", {b.add("softplus", {x})})}); }, "mish");
  spelled([&](GraphMaker& b, ValueId x) { return div(b, b.add("clip", {add(b, x, 3)}, "min=0 max=6"), 6); },
          "hardsigmoid");
  spelled(
      [&](GraphMaker& b, ValueId x) {
        return b.add("mul", {x, div(b, b.add("relu6", {add(b, x, 3)}), 6)});
      },
      "hardswish");
  spelled(
      [&](GraphMaker& b, ValueId x) {
        return div(b, b.add("mul", {x, b.add("relu6", {add(b, x, 3)})}), 6);
      },
      "hardswish");
  spelled(
      [&](GraphMaker& b, ValueId x) {
        return div(b, b.add("mul", {x, b.add("relu6", {add(b, x, 2)})}), 6);
      },
      "add relu6 mul div");
  spelled(
      [&](GraphMaker& b, ValueId x) {
        return div(b, b.add("mul", {x, b.add("relu6", {add(b, x, 3)})}), 5);
      },
      "add relu6 mul div");
  // gelu: orders of the factors, and how the argument is scaled.
  const double root = std::sqrt(2.0);
  spelled(
      [&](GraphMaker& b, ValueId x) {
        return mul(b, b.add("mul", {x, add(b, b.add("erf", {div(b, x, root)}), 1)}), 0.5);
      },
      "gelu");
  spelled(
      [&](GraphMaker& b, ValueId x) {
        return b.add("mul", {mul(b, x, 0.5), add(b, b.add("erf", {mul(b, x, 1 / root)}), 1)});
      },
      "gelu");
  spelled(
      [&](GraphMaker& b, ValueId x) {
        return b.add("mul", {x, mul(b, add(b, b.add("erf", {div(b, x, root)}), 1), 0.5)});
      },
      "gelu");
  spelled(
      [&](GraphMaker& b, ValueId x) {
        return b.add("mul", {x, div(b, add(b, b.add("erf", {div(b, x, 1.5)}), 1), 2)});
      },
      "div erf add div mul");
  const auto tanh_of = [&](GraphMaker& b, ValueId x, ValueId inner) {
    return mul(b, b.add("mul", {x, add(b, b.add("tanh", {inner}), 1)}), 0.5);
  };
  const double scale = std::sqrt(2 / M_PI);
  spelled(
      [&](GraphMaker& b, ValueId x) {
        const ValueId cube = b.add("pow", {x, b.number(3)});
        return tanh_of(b, x, mul(b, b.add("add", {x, mul(b, cube, 0.044715)}), scale));
      },
      "gelu");
  spelled(
      [&](GraphMaker& b, ValueId x) {
        const ValueId cube = b.add("mul", {b.add("mul", {x, x}), x});
        return tanh_of(b, x, mul(b, b.add("add", {mul(b, cube, 0.044715), x}), scale));
      },
      "gelu");
  spelled(
      [&](GraphMaker& b, ValueId x) {
        const ValueId polynomial = add(b, mul(b, b.add("mul", {x, x}), 0.044715), 1);
        return tanh_of(b, x, b.add("mul", {mul(b, x, scale), polynomial}));
      },
      "gelu");
  spelled(
      [&](GraphMaker& b, ValueId x) {
        const ValueId cube = b.add("pow", {x, b.number(3)});
        return tanh_of(b, x, mul(b, b.add("add", {x, mul(b, cube, 0.05)}), scale));
      },
      "pow mul add mul tanh add mul mul");
  // Constants that were rounded to f16 or bf16 before they came to a graph of f32; 1.4165 is neither.
  for (double rounded : {1.4140625, 1.4165})
    spelled(
        [&](GraphMaker& b, ValueId x) {
          return mul(b, b.add("mul", {x, add(b, b.add("erf", {div(b, x, rounded)}), 1)}), 0.5);
        },
        rounded == 1.4140625 ? "gelu" : "div erf add mul mul", 1e-3);
  spelled(
      [&](GraphMaker& b, ValueId x) {
        const ValueId cube = b.add("mul", {b.add("mul", {x, x}), x});
        return tanh_of(b, x, mul(b, b.add("add", {mul(b, cube, 0.044677734375), x}), 0.796875));
      },
      "gelu", 1e-2);
  // Ranges.
  spelled([&](GraphMaker& b, ValueId x) { return b.add("maximum", {b.number(0), x}); }, "relu", 0);
  spelled(
      [&](GraphMaker& b, ValueId x) {
        return b.add("minimum", {b.add("maximum", {x, b.number(0)}), b.number(6)});
      },
      "relu6", 0);
  spelled([&](GraphMaker& b, ValueId x) { return b.add("clip", {b.add("relu", {x})}, "max=1"); }, "clip", 0);
  spelled([&](GraphMaker& b, ValueId x) { return b.add("relu", {b.add("clip", {x}, "min=-2 max=-1")}); }, "clip", 0);
  spelled([&](GraphMaker& b, ValueId x) { return b.add("clip", {x}, "min=0"); }, "relu", 0);
  spelled([&](GraphMaker& b, ValueId x) { return b.add("maximum", {x, b.constant({11})}); }, "maximum", 0);
  spelled([&](GraphMaker& b, ValueId x) { return b.add("mul", {x, x}); }, "square", 0);
  spelled([&](GraphMaker& b, ValueId x) { return b.add("pow", {x, b.number(2)}); }, "square", 1e-6);
  // An intermediate that others use stays, and so does the pattern.
  GraphMaker shared;
  const ValueId x = shared.input({7}), gate = shared.add("sigmoid", {x});
  shared.finish({shared.add("mul", {x, gate}), gate});
  expect_pass(pass, shared.graph, "sigmoid mul");
}

TEST("fold_pad") {
  const Pass pass = passes::fold_pad();
  const auto padded = [&](const char* op, const std::string& pad, const std::string& attributes, const std::string& ops,
                          const Dims& weight = {}) {
    expect_pass(pass, graph_of([&](GraphMaker& b) {
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

TEST("fold_scale") {
  const Pass pass = passes::fold_scale();
  const auto after = [&](const char* op, const Dims& x, const Dims& weight, const std::string& arithmetic,
                         const Dims& constant, bool first, const std::string& ops, const std::string& attributes = "") {
    expect_pass(pass, graph_of([&](GraphMaker& b) {
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
    expect_pass(pass, graph_of([&](GraphMaker& b) {
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

  // Two in a row round as they stand, which sines of large arguments show.
  for (const char* op : {"mul", "add"}) {
    const Graph graph = graph_of([&](GraphMaker& b) {
      return b.add(op, {b.constant({5}), b.add(op, {b.add("tanh", {b.input({4, 5})}), b.constant({})})});
    });
    Graph after = graph;
    simplify(after, context());
    compare(graph, after, 0, op);
  }
}

TEST("merge_equal") {
  const Pass pass = passes::merge_equal();
  GraphMaker b;
  const ValueId x = b.input({4, 4}), one = b.values({4}, {1, 2, 3, 4}), same = b.values({4}, {1, 2, 3, 4}),
                other = b.values({4}, {1, 2, 3, 5}), row = b.values({1, 4}, {1, 2, 3, 4});
  const ValueId first = b.add("add", {x, one}), second = b.add("add", {x, same}), third = b.add("add", {x, other});
  const ValueId parts = b.all("split", {first}, "split_size_or_sections=2")[1];
  const ValueId again = b.all("split", {second}, "split_size_or_sections=2")[1];
  b.finish({parts, again, third, b.add("add", {one, x}), b.add("add", {x, row}), b.add("relu", {second}),
            b.add("clip", {third}, "max=1"), b.add("clip", {third}, "max=1.5")});
  expect_pass(pass, b.graph, "add add split add add relu clip clip", 0);
  GraphMaker nothing;
  nothing.finish({nothing.add("relu", {nothing.input({3})}), nothing.add("relu", {nothing.input({3})})});
  expect_pass(pass, nothing.graph, "relu relu", 0);
}

TEST("join_parts") {
  const auto check = [](const std::vector<std::string>& around, bool also_whole, bool read_again,
                        const std::string& ops) {
    GraphMaker b;
    const Dims parts[] = {{2, 3, 4}, {2, 2, 4}, {2, 5, 4}};
    ValueId sum = also_whole ? b.input({2, 10, 4}) : kNoValue, first = kNoValue;
    for (size_t i = 0; i < around.size(); ++i) {
      if (around[i].empty()) continue;
      const ValueId padded = b.add("pad", {b.input(parts[i])}, around[i]);
      if (first == kNoValue) first = padded;
      sum = sum == kNoValue ? padded : b.add("add", {sum, padded});
    }
    std::vector<ValueId> results{sum};
    if (read_again) results.push_back(b.add("relu", {first}));
    expect_pass(passes::join_parts(), b.finish(results), ops);
  };
  const std::string a = "pad=[0,0,0,7]", b = "pad=[0,0,3,5]", c = "pad=[0,0,5,0]";
  check({a, b, c}, false, false, "concat");
  check({a, "", c}, false, false, "pad pad add");  // they do not touch
  check({a, b, ""}, false, false, "concat pad");
  check({a, b, c}, true, false, "concat add");
  check({a, b, ""}, false, true, "pad pad add relu");
  check({a + " value=1.0", b, ""}, false, false, "pad pad add");
  check({"pad=[0,0,0,2] mode=reflect", "pad=[0,0,3,0]", ""}, false, false, "pad pad add");
  check({"pad=[1,1,0,2]", "pad=[0,2,3,0]", ""}, false, false, "pad pad add");
}

TEST("move_concats") {
  const Pass pass = passes::move_concats();
  const auto convolution = [](GraphMaker& b, ValueId x, int64_t channels, const std::string& attributes = "") {
    return b.add("conv2d", {x, b.constant({channels, 3, 1, 1})}, attributes);
  };
  const auto check = [&](const std::string& ops, const std::function<ValueId(GraphMaker&, ValueId)>& behind,
                         const std::string& dim = "dim=1", const std::string& attributes = "") {
    expect_pass(pass, graph_of([&](GraphMaker& b) {
                  const ValueId x = b.input({2, 3, 5, 4});
                  const int64_t other = dim == "dim=2" ? 4 : 2;
                  return behind(b, b.add("concat", {convolution(b, x, 4), convolution(b, x, other, attributes)}, dim));
                }),
                ops);
  };
  const auto norm = [](bool affine) {
    return [affine](GraphMaker& b, ValueId y) { return batch_norm(b, y, 6, "eps=0.01", affine); };
  };
  const auto apply = [](const char* function) {
    return [function](GraphMaker& b, ValueId y) { return b.add(function, {y}); };
  };
  const std::string cut = "slice slice ";
  check("conv2d conv2d " + cut + cut + "batch_norm " + cut + cut + "batch_norm concat", norm(true));
  check("conv2d conv2d " + cut + "batch_norm " + cut + "batch_norm concat", norm(false), "dim=-3");
  check("conv2d conv2d silu silu concat", apply("silu"));
  check("conv2d conv2d relu relu concat", apply("relu"), "dim=2");
  check("conv2d conv2d+relu concat batch_norm", norm(true), "dim=1", "activation=relu");  // which could not be folded
  check(
      "conv2d conv2d concat batch_norm", [](GraphMaker& b, ValueId y) { return batch_norm(b, y, 4, "eps=0.01"); },
      "dim=2");
  expect_pass(pass, graph_of([&](GraphMaker& b) {  // a part that is no product
                const ValueId x = b.input({2, 3, 5, 4});
                return b.add("relu", {b.add("concat", {convolution(b, x, 4), x}, "dim=1")});
              }),
              "conv2d concat relu");
  GraphMaker shared;  // a part, and in the other graph the concat, is read by others
  const ValueId x = shared.input({2, 3, 5, 4}), y = convolution(shared, x, 4);
  shared.finish({shared.add("relu", {shared.add("concat", {y, convolution(shared, x, 2)}, "dim=1")}), y});
  expect_pass(pass, shared.graph, "conv2d conv2d concat relu");
  GraphMaker whole;
  const ValueId z = whole.input({2, 3, 5, 4});
  const ValueId joined = whole.add("concat", {convolution(whole, z, 4), convolution(whole, z, 2)}, "dim=1");
  whole.finish({whole.add("relu", {joined}), joined});
  expect_pass(pass, whole.graph, "conv2d conv2d concat relu");
}

TEST("fuse_norm_slope") {
  const auto check = [](const std::string& rectifier, const std::string& attributes, const std::string& slope,
                        bool by_result, const std::string& ops, bool read_again = false,
                        const Dims& repeated = {3, 4, 5, 2}) {
    GraphMaker b;
    const Dims shape{3, 4, 5, 2};
    const ValueId x = b.input(shape), grad = b.input(repeated), weight = b.input({4}), bias = b.input({4});
    const auto norm = b.all("batch_norm_training", {x, weight, bias}, "eps=0.01");
    const ValueId y = b.add(rectifier.c_str(), {norm[0]}, attributes);
    const ValueId passed = b.add("pointwise", {by_result ? y : norm[0], grad}, "expressions=\"" + slope);
    auto made = b.all("batch_norm_backward", {x, passed, norm[1], norm[2], weight}, "eps=0.01");
    made.push_back(read_again ? b.add("add", {y, norm[0]}) : y);
    Graph before = b.finish(made);
    passes::fuse_post_ops().run(before, context());  // it comes first
    before.tidy();
    expect_pass(passes::fuse_norm_slope(), before, ops);
  };
  const auto fused = [](const std::string& rectifier) {
    return "batch_norm_training+" + rectifier + " batch_norm_backward";
  };
  const auto left = [](const std::string& rectifier) {
    return "batch_norm_training" + rectifier + " pointwise batch_norm_backward";
  };
  const std::string relu = "y0 = where(x0 > 0, x1, 0)\" scalars=[0.0,0.0]";
  const std::string clip = "y0 = where(x0 >= s0 && x0 <= s1, x1, 0)\" scalars=[-0.5,0.75]";
  const std::string silu = "t = sigmoid(x0); y0 = x1 * t * (1 + x0 * (1 - t))\" scalars=[0.0,0.0]";
  const std::string leaky = "y0 = where(x0 > 0, x1, s0 * x1)\" scalars=[0.25,0.0]";
  check("relu", "", relu, true, fused("relu"));
  check("relu", "", relu, false, fused("relu"));
  check("relu6", "", "y0 = where(x0 > 0 && x0 < 6, x1, 0)\" scalars=[0.0,0.0]", true, fused("relu6"));
  check("clip", "min=-0.5 max=0.75", clip, false, fused("clip"));
  check("clip", "min=-0.5 max=0.5", clip, false, left(" clip"));
  check("relu", "", clip, true, left("+relu"));
  check("tanh", "", relu, true, left("+tanh"));
  check("tanh", "", "y0 = x1 * (1 - x0 * x0)\" scalars=[0.0,0.0]", true, fused("tanh"));
  check("silu", "", silu, false, fused("silu"));
  check("silu", "", silu, true, left("+silu"));  // the slope is that of the argument
  check("silu", "", silu, false, left(" silu") + " add", true);
  check("leaky_relu", "negative_slope=0.25", leaky, true, fused("leaky_relu"));
  check("leaky_relu", "negative_slope=0.5", leaky, true, left("+leaky_relu"));
  check("relu", "", relu, true, left(" relu") + " add", true);
  check("relu", "", relu, true, left("+relu"), false, {3, 4, 1, 1});  // a gradient that repeats, as behind a mean
}

TEST("fuse_squeeze_excite") {
  const Pass pass = passes::fuse_squeeze_excite(false);
  struct Block {
    Dims shape{2, 8, 3, 5};
    int64_t squeezed = 3, gates = 0;  // of channels; 0: of all
    const char* pool = "global_avg_pool";
    std::string pooling, first = "activation=silu", second = "activation=sigmoid", product;
    bool bias = true, gate_first = true, other = false;
  };
  const auto check = [&](const Block& block, const std::string& ops) {
    expect_pass(pass, graph_of([&](GraphMaker& b) {
                  const ValueId x = b.add("relu", {b.input(block.shape)});
                  const int64_t c = block.shape[1], s = block.squeezed, gates = block.gates ? block.gates : c;
                  const ValueId mean = b.add(block.pool, {block.other ? b.input(block.shape) : x}, block.pooling);
                  std::vector<ValueId> one{mean, b.constant({s, c, 1, 1})};
                  if (block.bias) one.push_back(b.constant({s}));
                  const ValueId hidden = b.add("conv2d", one, block.first);
                  const ValueId gate =
                      b.add("conv2d", {hidden, b.constant({gates, s, 1, 1}), b.constant({gates})}, block.second);
                  return b.add("mul", block.gate_first ? std::vector<ValueId>{gate, x} : std::vector<ValueId>{x, gate},
                               block.product);
                }),
                ops);
  };
  const std::string fused = "relu squeeze_excite";
  check({}, fused);
  Block block;
  block.gate_first = false;
  block.first = "activation=relu";
  block.second = "activation=hardsigmoid";
  block.pool = "adaptive_avg_pool2d";
  block.pooling = "output_size=1";
  check(block, fused);
  const auto left = [&](const std::function<void(Block&)>& change, const std::string& ops) {
    Block changed;
    change(changed);
    check(changed, ops);
  };
  const std::string rest = " conv2d+bias+silu conv2d+bias+sigmoid mul";
  left([](Block& b) { b.shape = {2, 6, 3, 5}; }, "relu global_avg_pool" + rest);
  left([](Block& b) { b.gates = 1; }, "relu global_avg_pool" + rest);  // one for all channels
  left([](Block& b) { b.other = true; }, "relu global_avg_pool" + rest);
  left([](Block& b) { b.bias = false; }, "relu global_avg_pool conv2d+silu conv2d+bias+sigmoid mul");
  left([](Block& b) { b.second = "activation=tanh"; }, "relu global_avg_pool conv2d+bias+silu conv2d+bias+tanh mul");
  left([](Block& b) { b.first = ""; }, "relu global_avg_pool conv2d+bias conv2d+bias+sigmoid mul");
  left([](Block& b) { b.product = "activation=relu"; },
       "relu global_avg_pool conv2d+bias+silu conv2d+bias+sigmoid mul+relu");
  left([](Block& b) { b.pool = "global_max_pool"; }, "relu global_max_pool" + rest);
  left(
      [](Block& b) {
        b.shape = {1, 512, 1, 2};
        b.squeezed = 129;
      },
      "relu global_avg_pool" + rest);

  // Of parameters, before gradients are taken: functions are nodes.
  const auto check_trained = [&](int64_t squeezed, bool read_again, const std::string& ops) {
    expect_pass(passes::fuse_squeeze_excite(true), graph_of([&](GraphMaker& b) {
                  const ValueId x = b.add("relu", {b.input({2, 512, 3, 5})});
                  const auto layer = [&](ValueId of, int64_t from, int64_t to, const char* function) {
                    return b.add(function, {b.add("conv2d", {of, b.input({to, from, 1, 1}), b.input({to})})});
                  };
                  const ValueId hidden = layer(b.add("global_avg_pool", {x}), 512, squeezed, "silu");
                  const ValueId made = b.add("mul", {x, layer(hidden, squeezed, 512, "sigmoid")});
                  return read_again ? b.add("add", {made, b.add("sum", {hidden})}) : made;
                }),
                ops, 1e-4);
  };
  check_trained(129, false, fused);
  check_trained(129, true, "relu global_avg_pool conv2d+bias silu conv2d+bias sigmoid mul sum add");
  check_trained(1025, false, "relu global_avg_pool conv2d+bias silu conv2d+bias sigmoid mul");
}

TEST("expand_squeeze_excite") {
  GraphMaker b;
  const Dims x{2, 8, 3, 5};
  const std::vector<ValueId> weights{b.input({3, 8, 1, 1}), b.input({3}), b.input({8, 3, 1, 1}), b.input({8})};
  std::vector<ValueId> inputs{b.input(x)};
  inputs.insert(inputs.end(), weights.begin(), weights.end());
  std::vector<ValueId> outputs{b.add("squeeze_excite", inputs, "hidden=silu")};
  inputs.insert(inputs.begin() + 1, b.input(x));
  for (ValueId made : b.all("squeeze_excite_backward", inputs, "hidden=silu")) outputs.push_back(made);
  const Graph graph = b.finish(outputs);
  const std::string layers = "reshape reshape global_avg_pool reshape linear+bias silu linear+bias sigmoid reshape ";
  expect_pass(passes::expand_squeeze_excite(nullptr), graph,
              layers + "mul " + layers +
                  "mul sum pointwise matmul pointwise matmul reshape pointwise matmul reshape sum matmul reshape sum");
  expect_pass(passes::expand_squeeze_excite(&context().host()), graph,
              layers + "mul " + layers +
                  "mul sum pointwise matmul pointwise matmul reshape pointwise matmul reshape sum matmul reshape sum");
}

}  // namespace
