// The passes that move data about; each alone.
#include <algorithm>

#include "graph/passes/passes.h"
#include "graph_testing.h"

using namespace pltest;

namespace {

TEST("fuse_interleave") {
  const Pass pass = passes::fuse_interleave();
  const auto unit = [&](int groups, const Dims& second, const std::vector<std::pair<int, int>>& ranges, bool whole,
                        const std::string& ops) {
    GraphMaker b;
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
  unit(6, same, {{0, 6}, {6, 12}}, false, "interleave");
  unit(6, same, {}, true, "interleave");
  unit(3, same, {{0, 6}, {6, 12}}, false, "concat channel_shuffle slice slice");
  unit(2, {2, 4, 3, 4}, {{0, 5}, {5, 10}}, false, "concat channel_shuffle slice slice");
}

TEST("skip_repeats") {
  const Pass pass = passes::skip_repeats();
  const auto product = [&](const Dims& a, const Dims& b_shape, const char* to, const std::string& ops) {
    expect_pass(pass, graph_of([&](GraphMaker& b) {
                  return b.add("matmul", {b.input(a), b.add("expand", {b.input(b_shape)}, to)});
                }),
                ops);
  };
  product({5, 2, 4}, {4, 6}, "shape=[5,4,6]", "matmul");
  product({5, 2, 4}, {1, 4, 6}, "shape=[5,4,6]", "matmul");
  product({3, 5, 2, 4}, {5, 4, 6}, "shape=[3,5,4,6]", "matmul");
  product({2, 4}, {4, 6}, "shape=[5,4,6]", "expand matmul");        // nothing else has five of them
  product({5, 2, 4}, {5, 1, 6}, "shape=[5,4,6]", "expand matmul");  // terms of the sums
  product({5, 2, 4}, {5, 4, 1}, "shape=[5,4,6]", "expand matmul");  // columns
  const auto sum = [&](const Dims& a, const Dims& b_shape, const char* to, const std::string& ops) {
    expect_pass(pass, graph_of([&](GraphMaker& b) {
                  return b.add("sub", {b.add("expand", {b.input(b_shape)}, to), b.input(a)});
                }),
                ops);
  };
  sum({2, 3, 4}, {3, 1}, "shape=[2,3,4]", "sub");
  sum({2, 3, 4}, {4}, "shape=[3,4]", "sub");
  sum({3, 1}, {1, 4}, "shape=[3,4]", "sub");
  sum({3, 1}, {3, 1}, "shape=[3,4]", "expand sub");
  sum({4}, {1, 4}, "shape=[3,4]", "expand sub");
  sum({4}, {4}, "shape=[1,4]", "expand sub");  // the result has two dimensions
  // Of two that are repeated alike one stays so.
  expect_pass(pass, graph_of([&](GraphMaker& b) {
                const ValueId x = b.add("expand", {b.input({1, 4})}, "shape=[3,4]");
                return b.add("mul", {x, b.add("expand", {b.input({1, 1})}, "shape=[3,4]")});
              }),
              "expand mul");
  // The weights of a linear layer for rows in another order, as PyTorch writes it, are those of one product.  (Repeats
  // of less than 64 KiB would be made once.)
  const Graph graph = graph_of([](GraphMaker& b) {
    const ValueId rows = b.add("permute", {b.input({2, 5, 64})}, "dims=[1,0,2]");
    return b.add("matmul", {rows, b.add("expand", {b.constant({64, 72})}, "shape=[5,64,72]")});
  });
  Graph after = graph;
  simplify(after, context());
  CHECK(ops_of(after) == "linear permute");
  compare(graph, after, 2e-5, "repeated weights");
}

TEST("merge_views") {
  const Pass pass = passes::merge_views();
  using Views = std::vector<std::pair<const char*, const char*>>;
  const auto chain = [&](const Dims& shape, const Views& views, const std::string& ops) {
    expect_pass(pass, graph_of([&](GraphMaker& b) {
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
  // Dimensions that were apart and are again are not joined on the way.
  chain({2, 3, 5, 4}, {{"reshape", "shape=[6,5,4]"}, {"permute", "dims=[0,2,1]"}, {"reshape", "shape=[2,12,5]"}},
        "permute reshape");
  // A factor broken up: 6 * 4 as 8 * 3.
  chain({6, 4}, {{"permute", "dims=[1,0]"}, {"reshape", "shape=[8,3]"}, {"permute", "dims=[1,0]"}},
        "permute reshape permute");
  chain({6, 4}, {{"reshape", "shape=[8,3]"}, {"reshape", "shape=[2,12]"}, {"reshape", "shape=[3,8]"}}, "reshape");
  chain({0, 4}, {{"reshape", "shape=[4,0]"}, {"permute", "dims=[1,0]"}}, "reshape permute");
  // A value that others need stays.
  GraphMaker b;
  const ValueId x = b.input({2, 3}), y = b.add("reshape", {x}, "shape=[3,2]"), z = b.add("flatten", {y}, "start_dim=0");
  b.finish({y, z});
  Graph after = b.graph;
  CHECK(pass.run(after, context()) == 1);
  CHECK(after.tidy() == 0);
  CHECK(ops_of(after) == "reshape reshape");
  compare(b.graph, after, 0, "shared views");

  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    GraphMaker r;
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
        attributes.set(attr::dims, dims);
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
        attributes.set(attr::shape, sizes);
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

TEST("move_merges") {
  const Pass pass = passes::move_merges();
  // Rows (n, s, heads * e) as stacks of matrices (n * heads, s, e), with the last two exchanged if asked.
  const auto stack = [](GraphMaker& b, bool turned) {
    const ValueId split = b.add("reshape", {b.input({2, 5, 12})}, "shape=[2,5,3,4]");
    return b.add("reshape", {b.add("permute", {split}, turned ? "dims=[0,2,3,1]" : "dims=[0,2,1,3]")},
                 turned ? "shape=[6,4,5]" : "shape=[6,5,4]");
  };
  const std::string views = "reshape permute reshape ";
  const auto moved = [&](auto make, const std::string& ops) {  // other passes leave it so
    const Graph graph = graph_of(make);
    expect_pass(pass, graph, ops);
    Graph after = graph;
    simplify(after, context());
    CHECK(ops_of(after) == ops);
    compare(graph, after, 2e-5, "moved merges");
  };
  const auto alone = [&](const char* op, const char* attributes) {
    return [=](GraphMaker& b) { return b.add(op, {stack(b, false)}, attributes); };
  };
  for (const char* dim : {"dim=-1", "dim=1"}) moved(alone("softmax", dim), "reshape permute softmax reshape");
  for (const char* by_rows : {"normalized_shape=[4]", "normalized_shape=[5,4]"})  // move_views moves its views
    expect_pass(pass, graph_of(alone("layer_norm", by_rows)), views + "layer_norm");
  moved(alone("sum", "dim=[1] keepdim=true"), "reshape permute sum reshape");
  for (const char* other : {"dim=[1]", "dim=[0] keepdim=true", ""})
    expect_pass(pass, graph_of(alone("sum", other)), views + "sum");
  expect_pass(pass, graph_of(alone("softmax", "dim=0")), views + "softmax");
  moved(alone("tanh", ""), "reshape permute tanh reshape");
  // Others are broadcast, or taken apart as well.
  const auto with = [&](const Dims& other) {
    return [=](GraphMaker& b) { return b.add("sub", {stack(b, false), b.input(other)}); };
  };
  for (const Dims& other : {Dims{4}, Dims{5, 1}, Dims{1, 5, 4}, Dims{1, 1, 1}})
    moved(with(other), "reshape permute sub reshape");
  moved(with({6, 5, 4}), "reshape permute reshape sub reshape");
  moved(with({6, 1, 4}), "reshape permute reshape sub reshape");
  expect_pass(pass, graph_of(with({2, 6, 5, 4})), views + "sub");
  // Attention of stacks is one of heads, with a bias by head and text, in three dimensions or four.
  for (const Dims& bias : {Dims{6, 1, 5}, Dims{1, 5, 5}, Dims{6, 5, 5}, Dims{2, 1, 1, 5}})
    for (bool apart : {false, true}) {
      const bool early = bias.size() == 4;  // the bias wants them apart
      if (early && !apart) continue;
      const Graph graph = graph_of([&](GraphMaker& b) {
        ValueId scores = b.add("matmul", {stack(b, false), stack(b, true)});
        if (early) scores = b.add("reshape", {scores}, "shape=[2,3,5,5]");
        scores = b.add("add", {scores, b.input(bias)});
        if (apart && !early) scores = b.add("reshape", {scores}, "shape=[2,3,5,5]");
        ValueId weights = b.add("softmax", {scores}, "dim=-1");
        if (apart) weights = b.add("reshape", {weights}, "shape=[6,5,5]");
        const ValueId y = b.add("reshape", {b.add("matmul", {weights, stack(b, false)})}, "shape=[2,3,5,4]");
        return b.add("reshape", {b.add("permute", {y}, "dims=[0,2,1,3]")}, "shape=[2,5,12]");
      });
      Graph after = graph;
      simplify(after, context());
      const std::string found = ops_of(after);
      CHECK(found.find("scaled_dot_product_attention") != std::string::npos);
      CHECK(found.find("matmul") == std::string::npos && found.find("softmax") == std::string::npos);
      compare(graph, after, 2e-5, "attention of stacks");
    }
  // Heads that are parts of channels, columns first.
  const Graph parts = graph_of([&](GraphMaker& b) {
    const auto heads = [&](const char* shape) { return b.add("reshape", {b.input({2, 12, 5})}, shape); };
    const ValueId scores = b.add("matmul", {heads("shape=[6,4,5]"), heads("shape=[6,4,5]")}, "transpose_a=true");
    const ValueId weights = b.add("softmax", {b.add("reshape", {scores}, "shape=[2,3,5,5]")}, "dim=-1");
    const ValueId y = b.add("matmul", {weights, heads("shape=[2,3,4,5]")}, "transpose_b=true");
    return b.add("reshape", {b.add("permute", {b.add("reshape", {y}, "shape=[6,5,4]")}, "dims=[0,2,1]")},
                 "shape=[2,12,5]");
  });
  Graph of_parts = parts;
  simplify(of_parts, context());
  CHECK(ops_of(of_parts) ==
        "reshape reshape reshape permute permute permute scaled_dot_product_attention permute reshape");
  compare(parts, of_parts, 2e-5, "attention of channels");
  // What mixes the first dimension, or has no more of them, stays; so does a merge that is no copy.
  expect_pass(pass, graph_of([&](GraphMaker& b) {
                return b.add("conv1d", {stack(b, false), b.constant({7, 5, 1})});
              }),
              views + "conv1d");
  expect_pass(pass, graph_of([&](GraphMaker& b) {
                return b.add("tanh", {b.add("reshape", {b.input({2, 3, 5, 4})}, "shape=[6,5,4]")});
              }),
              "reshape tanh");
  expect_pass(pass, graph_of([&](GraphMaker& b) {
                const ValueId x = b.add("permute", {b.input({2, 2, 1, 2, 1, 2, 2, 3})}, "dims=[1,0,2,3,4,5,6,7]");
                return b.add("tanh", {b.add("reshape", {x}, "shape=[4,1,2,1,2,2,1,3]")});
              }),
              "permute reshape tanh");
}

TEST("move_views") {
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
  both(graph_of([](GraphMaker& b) {
         const ValueId x = b.input({2, 4, 3, 5}), rows = b.add("permute", {x}, "dims=[0,2,3,1]");
         const ValueId y = b.add("permute", {b.add("linear", {rows, b.constant({4, 4})})}, "dims=[0,3,1,2]");
         return b.add("add", {b.add("mul", {b.constant({4, 1, 1}), y}), x});
       }),
       "permute linear reshape mul permute add", "permute linear+add(residual) permute");
  // The end of an attention: rows in another order.
  both(graph_of([](GraphMaker& b) {
         const ValueId heads = b.input({2, 3, 5, 4});  // n, heads, l, e
         const ValueId rows = b.add("reshape", {b.add("permute", {heads}, "dims=[2,0,1,3]")}, "shape=[10,12]");
         const ValueId y = b.add("linear", {rows, b.constant({6, 12}), b.constant({6})});
         const ValueId back = b.add("permute", {b.add("reshape", {y}, "shape=[5,2,6]")}, "dims=[1,0,2]");
         return b.add("add", {back, b.input({2, 5, 6})});
       }),
       "permute reshape linear+bias permute reshape reshape permute add", "permute reshape linear+bias+add(residual)");
  both(graph_of([](GraphMaker& b) {
         const ValueId y = b.add("linear", {b.input({10, 6}), b.constant({4, 6})});
         return b.add("relu", {b.add("add", {b.add("reshape", {y}, "shape=[2,5,4]"), b.input({2, 5, 4})})});
       }),
       "linear reshape add reshape relu", "reshape linear+add(residual)+relu reshape");
  // The beginning: one linear for queries, keys and values.
  both(graph_of([](GraphMaker& b) {
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
  // A residual goes along that is the same view, and no other one.
  const auto added = [&](bool viewed) {
    return graph_of([=](GraphMaker& b) {
      const auto turned = [&](ValueId id) { return b.add("permute", {id}, "dims=[1,0,2]"); };
      const ValueId x = turned(b.add("relu", {b.input({2, 5, 6})}));
      const ValueId z = viewed ? turned(b.add("tanh", {b.input({2, 5, 4})})) : b.input({5, 2, 4});
      return b.add("linear", {x, b.constant({4, 6}), b.constant({4}), z}, "post_ops=add(residual)");
    });
  };
  both(added(true), "relu tanh linear+bias+add(residual) permute", "relu tanh linear+bias+add(residual) permute");
  both(added(false), "relu permute linear+bias+add(residual)", "relu permute linear+bias+add(residual)");
  // Products of turned matrices, and turned products, as gradients of parameters that are read turned.
  both(graph_of([](GraphMaker& b) {
         const ValueId x = b.add("permute", {b.input({7, 5})}, "dims=[1,0]");
         return b.add("matmul", {x, b.add("permute", {b.input({3, 7})}, "dims=[1,0]")});
       }),
       "matmul", "matmul");
  both(graph_of([](GraphMaker& b) {
         const ValueId x = b.add("permute", {b.input({2, 7, 5})}, "dims=[0,2,1]");
         return b.add("matmul", {x, b.add("relu", {b.input({2, 7, 3})})});
       }),
       "relu matmul", "relu matmul");
  both(graph_of([](GraphMaker& b) {
         const ValueId x = b.add("relu", {b.input({7, 5})}), y = b.add("abs", {b.input({7, 3})});
         return b.add("permute", {b.add("matmul", {x, y}, "transpose_a=true")}, "dims=[1,0]");
       }),
       "relu abs matmul", "relu abs matmul");
  // Nothing would be gained.
  const auto kept = [&](const std::function<ValueId(GraphMaker&)>& make, const std::string& ops) {
    expect_pass(pass, graph_of(make), ops);
  };
  kept(
      [](GraphMaker& b) {
        return b.add("add", {b.add("permute", {b.input({2, 3})}, "dims=[1,0]"), b.input({3, 2})});
      },
      "permute add");
  kept(
      [](GraphMaker& b) {  // along the rows
        const ValueId y = b.add("linear", {b.input({5, 6}), b.constant({4, 6})});
        return b.add("mul", {b.add("permute", {y}, "dims=[1,0]"), b.constant({5})});
      },
      "linear permute mul");
  kept(
      [](GraphMaker& b) {
        const ValueId y = b.add("linear", {b.input({5, 6}), b.constant({4, 6})}, "activation=relu");
        return b.add("add", {b.add("permute", {y}, "dims=[1,0]"), b.input({4, 5})});
      },
      "linear+relu permute add");
  kept(
      [](GraphMaker& b) {  // the rows keep their order
        const ValueId x = b.add("reshape", {b.input({2, 5, 6})}, "shape=[10,6]");
        return b.add("linear", {x, b.constant({4, 6})});
      },
      "reshape linear");
  // Windows of 2 x 2 of an image of 4 x 6, brought together once and not for queries, keys and values each.
  const auto windows = [&](int64_t columns, const std::string& ops) {
    GraphMaker b;
    const ValueId parted = b.add("reshape", {b.input({2, 4, 6, 6})}, "shape=[2,2,2,3,2,6]");
    const ValueId rows = b.add("reshape", {b.add("permute", {parted}, "dims=[0,1,3,2,4,5]")}, "shape=[12,4,6]");
    b.finish({b.add("linear", {rows, b.constant({columns, 6})})});
    expect_pass(pass, b.graph, ops);
  };
  windows(18, "reshape permute reshape linear");
  windows(6, "reshape linear reshape permute reshape");
  // The same where rows are joined behind the product, or behind a part of it: they are joined before it.
  const auto apart = [&](bool parted, const std::string& joined, const std::string& ops) {
    GraphMaker b;
    const ValueId image = b.add("reshape", {b.input({2, 4, 6, 6})}, "shape=[2,2,2,3,2,6]");
    const ValueId rows = b.add("permute", {image}, "dims=[0,1,3,2,4,5]");
    ValueId y = b.add("linear", {rows, b.constant({18, 6})});
    if (parted) y = b.add("slice", {y}, "axes=5 starts=6 ends=12");
    b.finish({b.add("reshape", {y}, "shape=" + joined)});
    expect_pass(pass, b.graph, ops);
  };
  const std::string before = "reshape permute reshape linear ";
  apart(false, "[12,4,18]", before + "reshape reshape");
  apart(false, "[12,4,3,6]", before + "reshape reshape");
  apart(true, "[12,4,6]", before + "reshape slice reshape");
  apart(false, "[2,2,3,2,2,3,6]", "reshape linear permute reshape");  // no rows are joined
}

TEST("passes leave views of nothing as they are") {
  const auto stays = [](const Graph& graph, const std::string& ops) {
    Graph after = graph;
    simplify(after, context());
    CHECK(ops_of(after) == ops);
    compare(graph, after, 0, "views of nothing");
  };
  // Rows of no columns, in another order.
  stays(graph_of([](GraphMaker& b) {
          const ValueId rows = b.add("permute", {b.input({2, 3, 4, 0})}, "dims=[0,2,1,3]");
          return b.add("reshape", {b.add("linear", {rows, b.constant({6, 0})})}, "shape=[2,12,6]");
        }),
        "permute linear reshape");
  // No heads, of the one that there is.
  stays(graph_of([](GraphMaker& b) {
          const ValueId q = b.input({2, 0, 3, 4}), k = b.input({2, 1, 5, 4}), v = b.input({2, 1, 5, 4});
          return b.add("scaled_dot_product_attention",
                       {q, b.add("expand", {k}, "shape=[2,0,5,4]"), b.add("expand", {v}, "shape=[2,0,5,4]")});
        }),
        "expand expand scaled_dot_product_attention");
  // Scores that are sums of no products.
  stays(graph_of([](GraphMaker& b) {
          const ValueId scores = b.add("matmul", {b.input({2, 3, 0}), b.input({2, 4, 0})}, "transpose_b=true");
          return b.add("matmul", {b.add("softmax", {scores}, "dim=-1"), b.input({2, 4, 5})});
        }),
        "matmul softmax matmul");
}

TEST("split_linear") {
  const Pass pass = passes::split_linear();
  const auto slices = [&](const std::vector<std::string>& ranges, const char* activation, const std::string& ops) {
    GraphMaker b;
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
  GraphMaker whole;
  const ValueId y = whole.add("linear", {whole.input({5, 6}), whole.constant({9, 6})});
  whole.finish(
      {whole.add("slice", {y}, "axes=1 starts=0 ends=4"), whole.add("slice", {y}, "axes=1 starts=4 ends=9"), y});
  expect_pass(pass, whole.graph, "linear slice slice");
}

TEST("gather_rows") {
  const Pass pass = passes::gather_rows();
  const auto roll = [](GraphMaker& b, ValueId x, int dim, int64_t size, int64_t shift) {
    const std::string axis = concat("axes=", dim), at = std::to_string(shift);
    const ValueId first = b.add("slice", {x}, axis + " starts=0 ends=" + at);
    const ValueId second = b.add("slice", {x}, concat(axis, " starts=", at, " ends=", size));
    return b.add("concat", {second, first}, concat("dim=", dim));
  };
  const auto windows = [](GraphMaker& b, ValueId x) {
    const ValueId parted = b.add("reshape", {x}, "shape=[2,2,2,3,2,5]");
    return b.add("reshape", {b.add("permute", {parted}, "dims=[0,1,3,2,4,5]")}, "shape=[12,4,5]");
  };
  {
    // Shifted windows of two images.
    GraphMaker b;
    const ValueId x = b.add("layer_norm", {b.input({2, 4, 6, 5})}, "normalized_shape=5");
    b.finish({b.add("relu", {windows(b, roll(b, roll(b, x, 1, 4, 1), 2, 6, 1))})});
    expect_pass(pass, b.graph, "layer_norm reshape index_select reshape relu");
  }
  {
    // Back again, and an intermediate result that others use too.
    GraphMaker b;
    const ValueId rows = b.add("linear", {b.input({12, 4, 7}), b.constant({5, 7})});
    const ValueId parted = b.add("reshape", {rows}, "shape=[2,2,3,2,2,5]");
    const ValueId image = b.add("reshape", {b.add("transpose", {parted}, "dim0=2 dim1=-3")}, "shape=[2,4,6,5]");
    b.finish({roll(b, roll(b, image, -3, 4, 3), 2, 6, 5), b.add("neg", {image})});
    expect_pass(pass, b.graph, "linear reshape transpose reshape reshape index_select reshape neg");
  }
  {
    // Every second row, some twice.
    GraphMaker b;
    const ValueId x = b.add("layer_norm", {b.input({6, 5})}, "normalized_shape=5");
    const ValueId even = b.add("slice", {x}, "axes=0 starts=0 ends=6 steps=2");
    b.finish({b.add("concat", {even, x, even}, "dim=0")});
    expect_pass(pass, b.graph, "layer_norm reshape index_select reshape");
  }
  // Patch merging: the rows of four neighbours joined.  Of a sum of rows, but not of one of images.
  const auto merged = [](GraphMaker& b, ValueId image) {
    std::vector<ValueId> parts;
    for (const char* starts : {"starts=[0,0]", "starts=[1,0]", "starts=[0,1]", "starts=[1,1]"})
      parts.push_back(b.add("slice", {image}, concat("axes=[1,2] ends=[4,6] steps=[2,2] ", starts)));
    return b.add("reshape", {b.add("concat", parts, "dim=-1")}, "shape=[2,6,20]");
  };
  expect_pass(pass, graph_of([&](GraphMaker& b) {
                const ValueId rows = b.add("add", {b.input({2, 24, 5}), b.input({2, 24, 5})});
                return b.add("relu", {merged(b, b.add("reshape", {rows}, "shape=[2,4,6,5]"))});
              }),
              "add reshape index_select reshape relu");
  expect_pass(pass, graph_of([&](GraphMaker& b) {
                return merged(b, b.add("add", {b.input({2, 4, 6, 5}), b.input({2, 4, 6, 5})}));
              }),
              "add slice slice slice slice concat reshape");
  // The order of joined rows is kept where they are parted again and permuted.
  expect_pass(pass, graph_of([&](GraphMaker& b) {
                const ValueId rows = b.add("layer_norm", {b.input({2, 24, 5})}, "normalized_shape=5");
                const ValueId joined = merged(b, b.add("reshape", {rows}, "shape=[2,4,6,5]"));
                return b.add("relu", {b.add("permute", {joined}, "dims=[1,0,2]")});
              }),
              "layer_norm reshape index_select reshape relu");
  const auto becomes = [&](const std::function<ValueId(GraphMaker&, ValueId)>& what, const char* source,
                           const std::string& ops) {
    GraphMaker b;
    const ValueId x = b.input({2, 4, 6, 5});
    b.finish({what(b, b.add(source, {x}, source == std::string("relu") ? "" : "normalized_shape=5"))});
    expect_pass(pass, b.graph, ops);
  };
  // Windows alone, which need a copy in any case.
  becomes(windows, "layer_norm", "layer_norm reshape index_select reshape");
  // Images in NCHW, whose last dimension is no row; views that need no copy; rows that are cut; rows of two results.
  becomes([&](GraphMaker& b, ValueId x) { return roll(b, x, 1, 4, 1); }, "relu", "relu slice slice concat");
  becomes([](GraphMaker& b,
             ValueId x) { return b.add("reshape", {b.add("permute", {x}, "dims=[0,2,1,3]")}, "shape=[2,6,2,2,5]"); },
          "layer_norm", "layer_norm permute reshape");
  becomes([&](GraphMaker& b, ValueId x) { return roll(b, x, 3, 5, 1); }, "layer_norm", "layer_norm slice slice concat");
  becomes(
      [](GraphMaker& b, ValueId x) {
        return b.add("concat", {x, b.add("layer_norm", {x}, "normalized_shape=5")}, "dim=1");
      },
      "layer_norm", "layer_norm layer_norm concat");
}

TEST("nest_concats") {
  GraphMaker b;
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
  CHECK(inputs(other_dim).size() == 3);
  CHECK(inputs(other_order).size() == 3);
  CHECK(evaluate(graph) == before);
  CHECK(passes::nest_concats().run(graph, context()) == 0);
}

}  // namespace
