// Post-ops: their text, what a call's list becomes, what is refused, the canonical form of nodes, values and gradients.
#include "ops/post_ops.h"

#include <cmath>
#include <limits>

#include "graph/gradients.h"
#include "graph_testing.h"

using namespace pltest;

namespace {

const double kInfinity = std::numeric_limits<double>::infinity();

template <class Function>
std::string message_of(Function function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// A 1x1 convolution of four channels, with a residual where one is wanted.
Op conv_op(const std::string& attributes, bool residual = false) {
  const TensorDesc x = TensorDesc::dense(DType::f32, {1, 4, 3, 3});
  std::vector<TensorDesc> inputs{x, TensorDesc::dense(DType::f32, {4, 4, 1, 1})};
  if (residual) inputs.insert(inputs.end(), {TensorDesc(), x});
  return make_op(*find_schema("conv2d"), Attributes::parse(attributes), inputs);
}

Op add_op(const std::string& attributes, DType dtype = DType::f32) {
  const TensorDesc x = TensorDesc::dense(dtype, {4});
  return make_op(*find_schema("add"), Attributes::parse(attributes), {x, x});
}

std::string list_of(const Op& op) { return to_text(post_ops_of(op)); }

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST("text_reads_back") {
  const PostOps list{PostOp::add("residual"), PostOp::function("clip", {-kInfinity, 0.1}), PostOp::scale(-0.5),
                     PostOp::multiply("gate"), PostOp::function("relu")};
  const std::string text = "add(residual), clip(-inf, 0.1), scale(-0.5), multiply(gate), relu";
  CHECK(to_text(list) == text);
  CHECK(parse_post_ops(text) == list);
  CHECK(parse_post_ops(" add( residual ),clip(-inf,0.1) ,scale(-5e-1),multiply(gate),relu") == list);
  CHECK(parse_post_ops("").empty() && parse_post_ops("none").empty() && to_text(PostOps()) == "none");
  // As an attribute, whose text is what equality and hash go by.
  Attributes a;
  a.set(attr::post_ops, list);
  CHECK(a.str() == "post_ops=\"" + text + "\"");
  CHECK(Attributes::parse("post_ops=relu").str() == "post_ops=relu");
  Attributes zero, minus;
  zero.set(attr::post_ops, PostOps{PostOp::scale(0.0)});
  minus.set(attr::post_ops, PostOps{PostOp::scale(-0.0)});
  CHECK(!(zero == minus) && zero.hash() != minus.hash() && zero.str() != minus.str());
  for (const char* bad : {"relu,", "clip(", "clip(1", "clip(a)", "scale", "add", "add()", "relu relu", "3,", "clip()"})
    CHECK(contains(message_of([&] { parse_post_ops(bad); }), "at position"));
}

TEST("lists_are_complete") {
  CHECK(list_of(conv_op("")) == "none");
  CHECK(list_of(conv_op("post_ops=none")) == "none" && list_of(conv_op("post_ops=[]")) == "none");
  CHECK(list_of(conv_op("post_ops=\"gelu, leaky_relu, clip(-1), softplus\"")) ==
        "gelu_erf, leaky_relu(0.01), clip(-1.0, inf), softplus(1.0, 20.0)");
  // Short forms: what is added, then the activation with as many parameters as it has.
  CHECK(list_of(conv_op("activation=relu")) == "relu");
  CHECK(list_of(conv_op("activation=relu activation_alpha=3")) == "relu");
  CHECK(list_of(conv_op("activation=clip activation_beta=6", true)) == "add(residual), clip(-inf, 6.0)");
  CHECK(list_of(conv_op("", true)) == "add(residual)");
  CHECK(list_of(conv_op("post_ops=\"relu, add(residual)\"", true)) == "relu, add(residual)");
  CHECK(!conv_op("activation=relu").attributes.has(attr::activation));
  CHECK(conv_op("activation=relu").str() == conv_op("post_ops=relu").str());
  CHECK(list_of(add_op("activation=relu", DType::s32)) == "relu");
}

TEST("bad_lists_are_refused") {
  const auto refused = [](const std::string& attributes, const std::string& expected, bool residual = false) {
    const std::string message = message_of([&] { conv_op(attributes, residual); });
    if (!contains(message, expected) || message.compare(0, 8, "conv2d: ") != 0) {
      std::fprintf(stderr, "%s: \"%s\"\nexpected \"%s\"\n", attributes.c_str(), message.c_str(), expected.c_str());
      end_test();
    }
  };
  refused("post_ops=rleu", "post_ops has rleu, expected add(residual), multiply(gate), scale(number), relu, relu6");
  refused("post_ops=isnan", "post_ops has isnan, expected add(residual)");
  refused("post_ops=\"relu(1)\"", "post_ops has relu(1.0), expected no numbers behind relu");
  refused("post_ops=\"clip(1, 2, 3)\"", "expected at most 2 numbers behind clip");
  refused("post_ops=\"elu(nan)\"", "post_ops has elu(nan), expected numbers");
  refused("post_ops=\"softplus(0)\"", "expected a finite number other than 0");
  refused("post_ops=\"scale(inf)\"", "expected scale of one finite number");
  refused("post_ops=\"add(residual)\"", "residual is missing, expected a tensor: post_ops has add(residual)");
  refused("post_ops=\"multiply(gate)\"", "gate is missing, expected a tensor: post_ops has multiply(gate)");
  refused("post_ops=\"add(bias)\"", "post_ops has add(bias), expected add(residual)");
  refused("post_ops=\"multiply(residual)\"", "post_ops has multiply(residual), expected add(residual)", true);
  refused("post_ops=relu", "residual is given, expected post_ops with add(residual)", true);
  refused("post_ops=\"add(residual), add(residual)\"", "add(residual) 2 times, expected once", true);
  refused("post_ops=relu activation=relu", "activation is given, expected None");
  refused("post_ops=\"relu,\"", "post_ops is \"relu,\": expected a function, scale, add or multiply at position 5");
  refused("post_ops=3", "post_ops is 3 (int), expected a value of type post-ops");
  refused("activation=elu activation_alpha=nan", "activation_alpha is nan, expected a number");
  const std::string shape = message_of([] {
    const TensorDesc x = TensorDesc::dense(DType::f32, {1, 4, 3, 3});
    make_op(
        *find_schema("conv2d"), {},
        {x, TensorDesc::dense(DType::f32, {4, 4, 1, 1}), TensorDesc(), TensorDesc::dense(DType::f32, {1, 4, 3, 2})});
  });
  CHECK(contains(shape, "conv2d: residual.shape is (1, 4, 3, 2), expected (1, 4, 3, 3) (the output's shape)"));
  CHECK(contains(message_of([] { add_op("post_ops=exp", DType::s32); }),
                 "add: x has dtype s32, expected one of f32, f16, bf16 with post_ops=exp"));
  CHECK(contains(message_of([] { add_op("post_ops=\"scale(2)\"", DType::s32); }), "with post_ops=scale(2.0)"));
  CHECK(contains(message_of([] { add_op("post_ops=\"add(residual)\""); }), "add: post_ops has add(residual)"));
  const std::string gate = message_of([] {
    const TensorDesc x = TensorDesc::dense(DType::f32, {2, 4}), w = TensorDesc::dense(DType::f32, {4, 4});
    make_op(*find_schema("linear"), Attributes::parse("activation=relu"), {x, w, TensorDesc(), TensorDesc(), x});
  });
  CHECK(contains(gate, "linear: gate is given, expected post_ops with multiply(gate)"));
  const TensorDesc x = TensorDesc::dense(DType::f32, {4});
  CHECK(contains(message_of([&] { make_op(*find_schema("relu"), Attributes::parse("post_ops=relu"), {x}); }),
                 "there is no parameter \"post_ops\""));
}

TEST("nodes_keep_one_form") {
  GraphMaker b;
  const ValueId x = b.input({1, 4, 3, 3}), w = b.constant({4, 4, 1, 1});
  b.add("conv2d", {x, w, kNoValue, x}, "activation=leaky_relu activation_alpha=0.5");
  b.add("conv2d", {x, w, kNoValue, x}, "post_ops=\"add(residual), leaky_relu(0.5)\"");
  b.add("conv2d", {x, w}, "post_ops=none activation=none");
  CHECK(b.graph.node(0).attributes.str() == "post_ops=\"add(residual), leaky_relu(0.5)\"");
  CHECK(b.graph.node(0).attributes == b.graph.node(1).attributes);
  CHECK(b.graph.node(2).attributes.str() == "");
}

TEST("what_kernels_ask") {
  const Op both = conv_op("activation=relu6", true), other = conv_op("post_ops=\"relu, add(residual)\"", true);
  const auto form = sum_then_function(both);
  CHECK(form && form->added == 3 && form->is("relu6") && !form->is("relu"));
  CHECK(!sum_then_function(other) && !sum_then_function(conv_op("post_ops=\"relu, tanh\"")) &&
        !sum_then_function(conv_op("post_ops=\"scale(2)\"")));
  CHECK(sum_then_function(conv_op(""))->added == -1 && !sum_then_function(conv_op(""))->function);
  CHECK(contains(other_post_ops(other), "post_ops is relu, add(residual), expected"));
  CHECK(only_sums(post_ops_of(conv_op("", true))) && !only_sums(post_ops_of(both)) && only_sums({}));
  CHECK(keep_finite(post_ops_of(both)) && !keep_finite(post_ops_of(conv_op("post_ops=exp"))));
  CHECK(with_post_ops(add_op("post_ops=\"clip(0, 1), scale(3), tanh\""), "x0 + x1").scalars == (Floats{0, 1, 3}));
}

// The list of an op gives what its steps give one by one, also by the expression, and so do its gradients.
TEST("values_and_gradients") {
  for (const char* steps :
       {"relu, add(residual)", "add(residual), tanh, scale(0.5)", "scale(2), sigmoid, add(residual)",
        "silu, scale(-1.5), clip(-1, 1)", "gelu, tanh", "add(residual), silu, relu", "multiply(gate)",
        "silu, multiply(gate), tanh", "add(residual), sigmoid, multiply(gate)"}) {
    const PostOps list = parse_post_ops(steps);
    const bool reads = reads_inputs(list);
    for (const char* op : {"conv2d", "matmul", "linear", "mul"}) {
      if (reads && std::string(op) == "mul") continue;
      const auto make = [&](bool fused) {
        GraphMaker b;
        const Dims shape = std::string(op) == "conv2d" ? Dims{2, 4, 3, 5} : Dims{4, 4};
        const ValueId x = b.input(shape), w = b.input(std::string(op) == "conv2d" ? Dims{4, 4, 1, 1} : shape);
        const Schema& schema = *find_schema(op);
        std::vector<ValueId> inputs{x, w}, by{x, w};
        for (const PostOp& step : list) {
          if (!step.reads_input()) continue;
          const auto place = size_t(operand_of(schema, step));
          inputs.resize(std::max(inputs.size(), place + 1), kNoValue);
          by.push_back(inputs[place] = b.input(shape));
        }
        const std::string attributes = concat("post_ops=\"", steps, "\"");
        std::vector<TensorDesc> descs;
        for (ValueId id : inputs) descs.push_back(id == kNoValue ? TensorDesc() : b.graph.value(id).desc);
        const std::vector<PostOp> complete = post_ops_of(make_op(schema, Attributes::parse(attributes), descs));
        ValueId y = b.add(op, fused ? inputs : std::vector<ValueId>{x, w}, fused ? attributes : "");
        for (const PostOp& step : fused ? PostOps() : complete) {
          const StepCall call = call_of(step);
          std::vector<ValueId> operands{y};
          if (step.reads_input()) operands.push_back(inputs[size_t(operand_of(schema, step))]);
          y = b.graph.add(*find_schema(call.op), call.attributes, operands).at(0);
        }
        const ValueId loss = b.add("sum", {b.add("mul", {y, y})});
        std::vector<ValueId> outputs = gradients(b.graph, loss, by, context().host());
        outputs.push_back(y);
        return b.finish(outputs);
      };
      compare(make(true), make(false), 2e-5, steps);
    }
  }
}
