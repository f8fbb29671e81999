// The graph: building, errors, binding of named axes, the verifier, rewriting, texts.
#include "graph_testing.h"

using namespace pltest;

namespace {

template <class Body>
void expect_error(Code code, const std::string& part, Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    if (error.code() == code && std::string(error.what()).find(part) != std::string::npos) return;
    std::fprintf(stderr, "error %d \"%s\", expected code %d and \"%s\"\n", int(error.code()), error.what(), int(code),
                 part.c_str());
    end_test();
  }
  std::fprintf(stderr, "no error, expected \"%s\"\n", part.c_str());
  end_test();
}

const TensorDesc kImage = TensorDesc::dense(DType::f32, {1, 4, 6, 6});

TEST("building") {
  Graph graph;
  const ValueId x = graph.input("x", kImage, {"n", "", "", ""});
  const ValueId w = graph.constant("w", random_tensor({8, 4, 3, 3}, 1));
  const Schema& conv = *find_schema("conv2d");
  const ValueId y = graph.add(conv, Attributes::parse("padding=1"), {x, w, kNoValue, kNoValue}, "first")[0];
  CHECK(graph.node(0).name == "first");
  CHECK(graph.node(0).inputs.size() == 2);  // absent ones at the end are dropped
  CHECK((graph.value(y).desc.shape == Dims{1, 8, 6, 6}));
  CHECK(graph.maker(y) == &graph.node(0));
  CHECK(graph.maker(x) == nullptr);
  CHECK(graph.maker(w) == nullptr);
  CHECK(graph.maker(kNoValue) == nullptr);
  CHECK(graph.is_constant(w));
  CHECK(!graph.is_constant(x));
  CHECK(!graph.is_constant(kNoValue));
  const std::vector<ValueId> parts =
      graph.add(*find_schema("split"), Attributes::parse("split_size_or_sections=[3,5] dim=1"), {y});
  REQUIRE(parts.size() == 2);
  CHECK(parts[1] == parts[0] + 1);
  CHECK((graph.value(parts[1]).desc.shape == Dims{1, 5, 6, 6}));
  CHECK(graph.value(parts[1]).output == 1);
  // Names stay unique, whoever asked for them.
  const ValueId again = graph.add(conv, Attributes::parse("padding=1"), {x, w}, "first")[0];
  CHECK(graph.value(again).name != graph.value(y).name);
  const ValueId sum = graph.add(*find_schema("add"), {}, {y, y})[0];
  graph.output(sum, "", std::nullopt);
  graph.output(sum, "", Layout::parse("NHWC"));
  graph.output(parts[1], "part", std::nullopt);
  CHECK(graph.outputs()[0].name != graph.outputs()[1].name);
  CHECK(graph.outputs()[2].name == "part");
  graph.verify();
  const std::vector<int32_t> uses = graph.use_counts();
  CHECK(uses[size_t(y)] == 3);
  CHECK(uses[size_t(sum)] == 2);
  CHECK(uses[size_t(parts[0])] == 0);
  CHECK(uses[size_t(w)] == 2);
  const auto consumers = graph.consumers();
  CHECK(consumers[size_t(y)] == std::vector<int32_t>{1, 3, 3});
  CHECK(graph.op(graph.node(0)).attributes[attr::stride] == (std::vector<int64_t>{1, 1}));
}

TEST("errors") {
  Graph graph;
  const ValueId x = graph.input("x", kImage, {"n", "", "", ""});
  const Schema& conv = *find_schema("conv2d");
  expect_error(Code::invalid_argument, "needs a name", [&] { graph.input("", kImage); });
  expect_error(Code::invalid_argument, "\"x\" already", [&] { graph.input("x", kImage); });
  expect_error(Code::invalid_argument, "2 axis names, expected 4", [&] { graph.input("y", kImage, {"n", "c"}); });
  expect_error(Code::shape, "axis \"n\" of input \"y\" has size 2, expected 1", [&] {
    graph.input("y", TensorDesc::dense(DType::f32, {2, 3}), {"n", ""});
  });
  expect_error(Code::shape, "axis \"m\" of input \"y\" has size 3, expected 2", [&] {
    graph.input("y", TensorDesc::dense(DType::f32, {2, 3}), {"m", "m"});
  });
  expect_error(Code::invalid_argument, "has no tensor", [&] { graph.constant("c", nullptr); });
  const ValueId w = graph.constant("w", random_tensor({8, 3, 3, 3}, 1));
  expect_error(Code::shape, "conv2d: weight.ic is 3, expected 4", [&] { graph.add(conv, {}, {x, w}, "layer1"); });
  expect_error(Code::shape, "(node \"layer1\")", [&] { graph.add(conv, {}, {x, w}, "layer1"); });
  expect_error(Code::invalid_argument, "conv2d: input value 77 is not of this graph", [&] {
    graph.add(conv, {}, {x, 77});
  });
  expect_error(Code::invalid_argument, "conv2d", [&] { graph.add(conv, {}, {kNoValue, w}); });
  expect_error(Code::invalid_argument, "conv2d", [&] { graph.add(conv, Attributes::parse("nonsense=1"), {x, w}); });
  CHECK(graph.nodes().empty());  // what failed left nothing behind
  expect_error(Code::invalid_argument, "\"y\" is value 9", [&] { graph.output(9, "y", std::nullopt); });
  expect_error(Code::invalid_argument, "is value -1", [&] { graph.output(kNoValue, "y", std::nullopt); });
  expect_error(Code::layout, "of rank 4 is wanted in layout", [&] { graph.output(x, "y", Layout::parse("NC")); });
}

TEST("binding") {
  GraphMaker b;
  const ValueId x = b.graph.input("x", kImage, {"n", "", "h", ""});
  const ValueId mask = b.graph.input("mask", TensorDesc::dense(DType::f32, {1, 1, 6, 1}), {"n", "", "h", ""}, false);
  const ValueId y = b.add("conv2d", {b.add("mul", {x, mask}), b.constant({4, 4, 3, 3})}, "padding=1");
  b.finish({b.add("flatten", {y}, "start_dim=1")});
  CHECK(b.graph.axes() == std::map<std::string, int64_t>{{"n", 1}, {"h", 6}});
  const Graph larger = b.graph.bound({{"n", 5}, {"h", 9}});
  larger.verify();
  CHECK(larger.value(larger.outputs()[0].value).desc.shape == Dims{5, 4 * 9 * 6});
  CHECK(larger.axes() == std::map<std::string, int64_t>{{"n", 5}, {"h", 9}});
  CHECK(!larger.inputs()[1].pinned);
  CHECK(larger.outputs()[0].name == b.graph.outputs()[0].name);
  CHECK(larger.bound({{"n", 1}}).axes() == std::map<std::string, int64_t>{{"n", 1}, {"h", 9}});
  CHECK(larger.bound({{"n", 1}, {"h", 6}}).str() == b.graph.str());
  evaluate(larger);
  CHECK(b.graph.bound({{"n", 0}}).value(b.graph.outputs()[0].value).desc.shape == Dims{0, 4 * 36});
  expect_error(Code::invalid_argument, "no axis \"m\"; expected one of h, n", [&] { b.graph.bound({{"m", 2}}); });
  expect_error(Code::shape, "axis \"n\" is given size -1", [&] { b.graph.bound({{"n", -1}}); });
  // Sizes that an op does not permit: the message names the node.
  GraphMaker fixed;
  const ValueId z = fixed.graph.input("x", kImage, {"n", "", "", ""});
  fixed.finish({fixed.add("reshape", {z}, "shape=[1,144]")});
  expect_error(Code::shape, "reshape", [&] { fixed.graph.bound({{"n", 2}}); });
  expect_error(Code::shape, "(node \"", [&] { fixed.graph.bound({{"n", 2}}); });
}

TEST("rewriting") {
  GraphMaker b;
  const ValueId x = b.input({2, 3}), y = b.add("neg", {x}), z = b.add("relu", {y}), other = b.add("abs", {y});
  const ValueId unused = b.add("exp", {other}), weight = b.constant({2, 3});
  b.add("add", {unused, weight});
  b.finish({z, other});
  Graph& graph = b.graph;
  CHECK(graph.tidy() == 2);
  CHECK(ops_of(graph) == "neg relu abs");
  CHECK(!graph.is_constant(weight));
  CHECK(graph.value(weight).constant == nullptr);  // its data is gone
  CHECK(graph.tidy() == 0);

  graph.rewrite(1, *find_schema("clip"), Attributes::parse("min=0"), {x}, "renamed");
  CHECK(graph.node(1).name == "renamed");
  CHECK(graph.node(1).inputs == std::vector<ValueId>{x});
  const ValueId inserted = graph.insert(1, *find_schema("square"), {}, {y}, "inserted")[0];
  REQUIRE(graph.maker(inserted) != nullptr);
  CHECK(graph.maker(inserted)->schema->name == "square");
  graph.rewrite(1, *find_schema("clip"), Attributes::parse("min=0"), {inserted});
  graph.redirect(other, z);
  CHECK(graph.resolved(other) == z);
  CHECK(graph.resolved(z) == z);
  CHECK(graph.resolved(kNoValue) == kNoValue);
  expect_error(Code::internal, "redirected to itself", [&] { graph.redirect(z, other); });
  expect_error(Code::internal, "before tidy()", [&] { graph.verify(); });
  CHECK(graph.tidy() == 1);
  CHECK(ops_of(graph) == "neg square clip");
  graph.verify();
  CHECK(graph.outputs()[0].value == z);
  CHECK(graph.outputs()[1].value == z);
  CHECK(graph.maker(z) == &graph.node(2));
  CHECK(graph.maker(inserted) == &graph.node(1));
  CHECK(graph.maker(other) == nullptr);

  // What does not fit is refused, and changes nothing.
  expect_error(Code::internal, "is made after it", [&] { graph.rewrite(0, *find_schema("relu"), {}, {inserted}); });
  expect_error(Code::internal, "turns f32 (2, 3) into f32 (3, 2)",
               [&] { graph.rewrite(1, *find_schema("transpose"), Attributes::parse("dim0=0 dim1=1"), {y}); });
  expect_error(Code::internal, "number of its results",
               [&] { graph.rewrite(1, *find_schema("split"), Attributes::parse("split_size_or_sections=1"), {y}); });
  expect_error(Code::internal, "redirecting", [&] { graph.redirect(z, graph.constant("c", random_tensor({3}, 1))); });
  CHECK(ops_of(graph) == "neg square clip");
  graph.verify();
  // Insertions before the same node keep their order, and may use each other.
  const ValueId first = graph.insert(2, *find_schema("exp"), {}, {y}, "")[0];
  const ValueId second = graph.insert(2, *find_schema("sin"), {}, {first}, "")[0];
  graph.rewrite(2, *find_schema("cos"), {}, {second});
  graph.tidy();
  graph.verify();
  CHECK(ops_of(graph) == "neg exp sin cos");
  // Chains of redirections.
  GraphMaker chain;
  ValueId last = chain.input({2});
  std::vector<ValueId> all = {last};
  for (int i = 0; i < 50; ++i) all.push_back(last = chain.add("identity", {last}));
  chain.finish({last});
  for (size_t i = all.size(); i-- > 1;) chain.graph.redirect(all[i], all[i - 1]);
  CHECK(chain.graph.tidy() == 50);
  chain.graph.verify();
  CHECK(chain.graph.outputs()[0].value == all[0]);
}

TEST("texts") {
  GraphMaker b;
  const ValueId x = b.graph.input("photo \"x\"", kImage, {"n", "", "", ""}, false);
  const ValueId y = b.graph.add(*find_schema("conv2d"), Attributes::parse("padding=1 activation=relu"),
                                {x, b.constant({8, 4, 3, 3})}, "layer")[0];
  b.graph.output(y, "y", Layout::parse("NHWC"));
  const std::string text = b.graph.str();
  for (const char* part :
       {"input photo \"x\": f32 (1, 4, 6, 6) axis 0 = n in any layout\n",
        "layer = conv2d(photo \"x\", c1) padding=1 post_ops=relu: f32 (1, 8, 6, 6)\n", "output y = layer as NHWC\n"})
    CHECK(text.find(part) != std::string::npos);
  const std::string dot = b.graph.dot();
  CHECK(dot.find("digraph") == 0);
  CHECK(dot.find("photo \\\"x\\\"") != std::string::npos);
  CHECK(dot.find("v0 -> n0") != std::string::npos);
  CHECK(dot.find("n0 -> o0") != std::string::npos);
  const std::string json = b.graph.json();
  for (const char* part : {"\"inputs\"", "\"axes\"", "\"n\"", "\"constants\"", "\"conv2d\"", "\"layer\"", "\"NHWC\"",
                           "\"photo \\\"x\\\"\""})
    CHECK(json.find(part) != std::string::npos);
}

}  // namespace
