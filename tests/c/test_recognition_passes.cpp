// The passes that recognise what is spelled in views and small ops; each alone.
#include "graph/passes/passes.h"
#include "graph_testing.h"

using namespace pltest;

namespace {

TEST("recognise_channel_shuffle") {
  const Pass pass = passes::recognise_channel_shuffle();
  const auto shuffle = [&](const char* split, const char* dims, const char* back, const std::string& ops) {
    expect_pass(pass, graph_of([&](GraphMaker& b) {
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

TEST("recognise_norm") {
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
    expect_pass(pass, graph_of([&](GraphMaker& b) {
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
  expect_pass(pass, graph_of([](GraphMaker& b) {
                const ValueId x = b.input({6, 6});
                const ValueId d = b.add("sub", {x, b.add("mean", {x}, "dim=1")});
                const ValueId v = b.add("mean", {b.add("square", {d})}, "dim=1");
                return b.add("div", {d, b.add("sqrt", {b.add("add", {v, b.number(1e-3)})})});
              }),
              "mean sub square mean add sqrt div");
  expect_pass(pass, graph_of([](GraphMaker& b) {
                const ValueId x = b.input({6, 6});
                const ValueId d = b.add("sub", {x, b.add("mean", {x}, "dim=1 keepdim=true")});
                const ValueId v = b.add("mean", {b.add("square", {x})}, "dim=1 keepdim=true");
                return b.add("div", {d, b.add("sqrt", {b.add("add", {v, b.number(1e-3)})})});
              }),
              "mean sub square mean add sqrt div");
  expect_pass(pass, graph_of([](GraphMaker& b) {
                const ValueId y = b.add("layer_norm", {b.input({5, 6})}, "normalized_shape=6");
                return b.add("mul", {b.add("add", {y, b.constant({6})}), b.constant({1, 6})});
              }),
              "layer_norm+bias mul");
  // Half precision: as PyTorch spells it, with statistics of f32; with a weight of f32 it stays.
  const auto halves = [](bool wide_weight) {
    return graph_of([&](GraphMaker& b) {
      const ValueId given = b.input({5, 6}, DType::f16), x = b.add("cast", {given}, "dtype=f32");
      const ValueId mean = b.add("mean", {b.add("square", {x})}, "dim=1 keepdim=true");
      ValueId y = b.add("mul", {x, b.add("rsqrt", {b.add("add", {mean, b.number(1e-3)})})});
      if (wide_weight) y = b.add("mul", {y, b.constant({6})});
      y = b.add("cast", {y}, "dtype=f16");
      return wide_weight ? y : b.add("mul", {b.constant({6}, -1, 1, DType::f16), y});
    });
  };
  expect_pass(pass, halves(false), "rms_norm", 2e-3);
  expect_pass(pass, halves(true), "cast rms_norm cast", 2e-3);
}

// Windows of a Swin transformer: n images of w windows, h heads, l rows each; a bias by head and a mask by window.
TEST("recognise_attention_of_windows") {
  const Pass pass = passes::recognise_attention();
  const auto windows = [](int64_t n, bool constant, const char* inner, const char* outer) {
    return graph_of([=](GraphMaker& b) {
      const auto term = [&](const Dims& shape) { return constant ? b.constant(shape) : b.input(shape); };
      const Dims shape{n * 3, 2, 4, 5};
      const ValueId q = b.input(shape), k = b.input(shape), v = b.input(shape);
      const ValueId scores = b.add("matmul", {b.add("mul", {q, b.number(0.4)}), k}, "transpose_b=true");
      const ValueId seen = b.add("reshape", {b.add("add", {scores, term({1, 2, 4, 4})})}, inner);
      const ValueId masked = b.add("reshape", {b.add("add", {seen, term({3, 1, 4, 4})})}, outer);
      return b.add("matmul", {b.add("softmax", {masked}, "dim=-1"), v});
    });
  };
  const char *one = "shape=[1,3,2,4,4]", *two = "shape=[2,3,2,4,4]";
  expect_pass(pass, windows(1, true, one, "shape=[3,2,4,4]"),
              "reshape reshape reshape scaled_dot_product_attention reshape");
  expect_pass(pass, windows(2, true, two, "shape=[6,2,4,4]"),
              "reshape reshape reshape scaled_dot_product_attention reshape");
  // Masks that are given: seen alike, and added to each other instead of to the scores.
  expect_pass(pass, windows(2, false, two, "shape=[6,2,4,4]"),
              "reshape reshape add reshape reshape reshape scaled_dot_product_attention reshape");
  // The softmax sees the heads in one dimension, and so does attention.
  GraphMaker b;
  const ValueId q = b.input({6, 2, 4, 5}), v = b.input({12, 4, 5});
  const ValueId scores = b.add("matmul", {q, b.input({6, 2, 4, 5})}, "transpose_b=true");
  const ValueId other = b.add("softmax", {b.add("reshape", {scores}, "shape=[12,4,4]")}, "dim=-1");
  b.finish({b.add("matmul", {other, v})});
  expect_pass(pass, b.graph, "reshape reshape scaled_dot_product_attention");
  // Rows and columns are mixed.
  expect_pass(pass, graph_of([](GraphMaker& b) {
                const ValueId x = b.input({2, 4, 5});
                ValueId y = b.add("matmul", {x, b.input({2, 4, 5})}, "transpose_b=true");
                y = b.add("reshape", {b.add("add", {b.add("reshape", {y}, "shape=[2,2,8]"), b.constant({8})})},
                          "shape=[2,4,4]");
                return b.add("matmul", {b.add("softmax", {y}, "dim=-1"), b.input({2, 4, 5})});
              }),
              "matmul reshape add reshape softmax matmul");
  // Several terms in one view.
  expect_pass(pass, graph_of([](GraphMaker& b) {
                const ValueId scores = b.add("matmul", {b.input({2, 4, 5}), b.input({2, 3, 5})}, "transpose_b=true");
                const ValueId sum = b.add("add", {b.constant({3}), b.add("add", {scores, b.constant({2, 4, 1})})});
                return b.add("matmul", {b.add("softmax", {sum}, "dim=-1"), b.input({2, 3, 5})});
              }),
              "scaled_dot_product_attention");
}

TEST("recognise_attention") {
  const Pass pass = passes::recognise_attention();
  const Dims q{2, 3, 5, 4}, k{2, 3, 7, 4}, v{2, 3, 7, 6};
  // Half of the scale on each side, keys transposed by the exporter.
  expect_pass(pass, graph_of([&](GraphMaker& b) {
                const ValueId keys = b.add("permute", {b.input(k)}, "dims=[0,1,3,2]");
                const ValueId scores =
                    b.add("matmul", {b.add("mul", {b.input(q), b.number(0.7)}), b.add("mul", {keys, b.number(0.7)})});
                return b.add("matmul", {b.add("softmax", {scores}, "dim=-1"), b.input(v)});
              }),
              "permute permute scaled_dot_product_attention");
  expect_pass(pass, graph_of([&](GraphMaker& b) {
                const ValueId scores = b.add("matmul", {b.input(q), b.input(k)}, "transpose_b=true");
                const ValueId masked = b.add("add", {b.input({5, 7}), b.add("div", {scores, b.number(2)})});
                return b.add("matmul", {b.add("softmax", {masked}, "dim=3"), b.input(v)});
              }),
              "scaled_dot_product_attention");
  const auto kept = [&](const Dims& values, const char* product, const char* softmax, bool shared, const char* ops) {
    GraphMaker b;
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
  // Heads whose columns come first, as those of convolutions in NCW (SqueezeBERT).
  expect_pass(
      pass, graph_of([&](GraphMaker& b) {
        const ValueId scores = b.add("matmul", {b.input({2, 3, 4, 5}), b.input({2, 3, 4, 7})}, "transpose_a=true");
        return b.add("matmul", {b.add("softmax", {scores}, "dim=3"), b.input({2, 3, 6, 7})}, "transpose_b=true");
      }),
      "permute permute permute scaled_dot_product_attention");
}

}  // namespace
