#include "graph/gradients.h"

#include "core/device.h"
#include "ops/activation.h"
#include "ops/gradient.h"
#include "ops/post_ops.h"

namespace pl {
namespace {

class Backward {
 public:
  Backward(Graph& graph, ValueId loss, const std::vector<ValueId>& by, Device& cpu)
      : graph_(graph), cpu_(cpu), depends_(graph.values().size(), false), parts_(graph.values().size()) {
    for (ValueId id : by) depends_[size_t(id)] = true;
    for (const Node& node : graph.nodes()) {
      bool any = false;
      for (ValueId id : node.inputs) any = any || (id != kNoValue && depends_[size_t(id)]);
      for (ValueId id : node.outputs)
        depends_[size_t(id)] = depends_[size_t(id)] || (any && is_floating(graph.value(id).desc.dtype));
    }
    const size_t count = graph.nodes().size();
    if (depends_[size_t(loss)]) parts_[size_t(loss)] = {filled(loss, "y0 = 1")};
    for (size_t i = count; i-- > 0;) derive(i);
  }

  // Zeros where nothing arrived.
  ValueId gradient_of(ValueId id) {
    std::vector<ValueId>& parts = parts_[size_t(id)];
    if (parts.empty()) parts = {filled(id, "y0 = 0")};
    ValueId sum = parts[0];
    for (size_t i = 1; i < parts.size(); ++i) sum = add("add", {}, {sum, parts[i]})[0];
    parts = {sum};
    return sum;
  }

 private:
  class NodeDerivation;

  std::vector<ValueId> add(const std::string& op, const Attributes& attributes, const std::vector<ValueId>& inputs) {
    const Schema* schema = find_schema(op);
    require(schema != nullptr, Code::internal, "gradients: there is no op \"", op, "\"");
    return graph_.add(*schema, attributes, inputs, name_);
  }

  ValueId integers(const std::vector<int64_t>& values) {
    const TensorRef tensor = Tensor::allocate(cpu_, TensorDesc::dense(DType::s64, Dims{int64_t(values.size())}));
    if (!values.empty()) cpu_.write(*tensor->buffer(), 0, values.data(), values.size() * sizeof values[0]);
    return graph_.constant(name_, tensor);
  }

  ValueId filled(ValueId like, const char* expression) {
    Attributes attributes;
    attributes.set(attr::expressions, std::string(expression));
    return add("pointwise", attributes, {like})[0];
  }

  void derive(size_t index);

  Graph& graph_;
  Device& cpu_;
  std::string name_ = "gradient";            // of the nodes that are added
  std::vector<bool> depends_;                // by value, of those before: on one of those that are derived by
  std::vector<std::vector<ValueId>> parts_;  // by value: what its uses contribute
};

class Backward::NodeDerivation final : public Derivation {
 public:
  NodeDerivation(Backward& backward, const Node& node, Op op)
      : backward_(backward),
        node_(node),
        op_(std::move(op)),
        given_(op_.inputs.size(), false),
        again_(post_ops_of(op_).size(), kNone) {}

  const Op& op() const override { return op_; }
  Value input(int i) const override { return size_t(i) < node_.inputs.size() ? node_.inputs[size_t(i)] : kNone; }
  Value output(int i) const override { return node_.outputs[size_t(i)]; }
  Value gradient(int output) override {
    if (output == 0 && before_post_ops_ != kNone) return before_post_ops_;
    return backward_.gradient_of(node_.outputs[size_t(output)]);
  }
  bool wanted(int i) const override {
    const Value id = input(i);
    return id != kNone && backward_.depends_[size_t(id)];
  }
  const TensorDesc& desc(Value value) const override { return backward_.graph_.value(value).desc; }
  std::vector<Value> add(const std::string& op, const Attributes& attributes,
                         const std::vector<Value>& inputs) override {
    return backward_.add(op, attributes, inputs);
  }
  Value integers(const std::vector<int64_t>& values) override { return backward_.integers(values); }
  void give(int i, Value gradient) override {
    const TensorDesc &wanted_desc = op_.in(i), &made = desc(gradient);
    require(!given_[size_t(i)] && wanted_desc.shape == made.shape && wanted_desc.dtype == made.dtype, Code::internal,
            op_.schema->name, ": its gradient gives ", name_of(made.dtype), " ", made.shape, " for input ", i,
            ", expected ", name_of(wanted_desc.dtype), " ", wanted_desc.shape, ", once");
    given_[size_t(i)] = true;
    if (wanted(i)) backward_.parts_[size_t(input(i))].push_back(gradient);
  }

  void run() {
    derive_post_ops();
    if (!complete()) {
      require(op_.schema->gradient != nullptr, Code::unsupported, "gradients: op \"", op_.schema->name,
              "\" has no gradient (node \"", node_.name, "\")");
      op_.schema->gradient(*this);
    }
    for (size_t i = 0; i < given_.size(); ++i)
      require(given_[i] || !wanted(int(i)), Code::unsupported, "gradients: op \"", op_.schema->name,
              "\" has no gradient by its input ", op_.schema->input_parameter(int(i)).name, " (node \"", node_.name,
              "\")");
  }

 private:
  bool complete() const {
    for (size_t i = 0; i < given_.size(); ++i)
      if (!given_[i] && wanted(int(i))) return false;
    return true;
  }

  // The gradient before the post-ops, from the last one to the first.
  void derive_post_ops() {
    const PostOps& list = post_ops_of(op_);
    if (list.empty()) return;
    Value after = backward_.gradient_of(node_.outputs[0]);
    for (size_t i = list.size(); i-- > 0;) {
      const PostOp& step = list[i];
      const int operand = step.reads_input() ? operand_of(*op_.schema, step) : -1;
      switch (step.kind) {
        case PostOp::Kind::add:
          if (wanted(operand)) give(operand, after);
          break;
        case PostOp::Kind::multiply:
          if (wanted(operand)) give(operand, pointwise("y0 = x0 * x1", {after, value_after(i)}));
          after = pointwise("y0 = x0 * x1", {after, input(operand)});
          break;
        case PostOp::Kind::scale: after = pointwise("y0 = x0 * s0", {after}, {step.alpha()}); break;
        case PostOp::Kind::function: after = before_function(step, i, after); break;
      }
    }
    before_post_ops_ = after;
  }

  // By the function's result where the derivative can be told from it, else by its argument.
  Value before_function(const PostOp& step, size_t i, Value after) {
    const std::string of_result = slope_by_result(step.name, step.alpha()), of_argument = slope_by_argument(step.name);
    const bool by_result = !of_result.empty();
    require(by_result || !of_argument.empty(), Code::unsupported, "gradients: post-op \"", step.name, "\" of op \"",
            op_.schema->name, "\" has no gradient (node \"", node_.name, "\")");
    const Value point = value_after(by_result ? i + 1 : i);
    return pointwise(by_result ? of_result : of_argument, {point, after}, {step.alpha(), step.beta()});
  }

  // What the op gives after so many post-ops: its result, or the op with these alone, which is computed again.
  Value value_after(size_t count) {
    const PostOps& list = post_ops_of(op_);
    if (count == list.size()) return node_.outputs[0];
    Value& made = again_[count];
    if (made != kNone) return made;
    Attributes attributes = node_.attributes;
    set_post_ops(attributes, PostOps(list.begin(), list.begin() + ptrdiff_t(count)));
    std::vector<Value> inputs = node_.inputs;
    for (size_t i = count; i < list.size(); ++i)
      if (list[i].reads_input()) inputs[size_t(operand_of(*op_.schema, list[i]))] = kNone;
    return made = add(op_.schema->name, attributes, inputs)[0];
  }

  Backward& backward_;
  const Node& node_;
  Op op_;
  std::vector<bool> given_;
  std::vector<Value> again_;  // by the number of post-ops: what is computed again
  Value before_post_ops_ = kNone;
};

void Backward::derive(size_t index) {
  const Node node = graph_.node(index);  // a copy: nodes are appended meanwhile
  bool reached = false, wanted = false;
  for (ValueId id : node.outputs) reached = reached || !parts_[size_t(id)].empty();
  for (ValueId id : node.inputs) wanted = wanted || (id != kNoValue && depends_[size_t(id)]);
  if (!reached || !wanted) return;
  name_ = node.name + "/gradient";
  NodeDerivation(*this, node, graph_.op(node)).run();
}

}  // namespace

std::vector<ValueId> gradients(Graph& graph, ValueId loss, const std::vector<ValueId>& by, Device& cpu) {
  const auto check_value = [&](ValueId id, const char* what) {
    require(id >= 0 && size_t(id) < graph.values().size(), Code::invalid_argument, "gradients: ", what, " is value ",
            id, ", which is not of this graph");
    const Value& value = graph.value(id);
    require(is_floating(value.desc.dtype), Code::invalid_argument, "gradients: ", what, " \"", value.name, "\" is ",
            name_of(value.desc.dtype), ", expected f32, f16 or bf16");
  };
  check_value(loss, "the loss");
  for (ValueId id : by) check_value(id, "a value to derive by,");
  require(graph.value(loss).desc.elements() == 1, Code::shape, "gradients: the loss \"", graph.value(loss).name,
          "\" has shape ", graph.value(loss).desc.shape, ", expected one element");
  DerivedPart part;
  part.first = graph.nodes().size();
  part.first_value = ValueId(graph.values().size());
  part.loss = loss;
  part.by = by;
  part.cpu = &cpu;
  Backward backward(graph, loss, by, cpu);
  for (ValueId id : by) part.gradients.push_back(backward.gradient_of(id));
  part.end = graph.nodes().size();
  part.end_value = ValueId(graph.values().size());
  if (part.end > part.first) graph.note_derived(part);
  return part.gradients;
}

void derive_again(const DerivedPart& part, Graph& graph, std::vector<ValueId>& places) {
  std::vector<ValueId> by;
  for (ValueId id : part.by) by.push_back(places[size_t(id)]);
  const std::vector<ValueId> made = gradients(graph, places[size_t(part.loss)], by, *part.cpu);
  for (size_t i = 0; i < made.size(); ++i) places[size_t(part.gradients[i])] = made[i];
}

ScaledGradients scaled_gradients(Graph& graph, ValueId loss, const std::vector<ValueId>& by, const LossScale& scale,
                                 Device& cpu) {
  constexpr double kLeast = 1.0 / (1 << 24), kMost = 1 << 24;
  require(!by.empty(), Code::invalid_argument, "scaled gradients: there is no value to derive by");
  require(scale.initial >= kLeast && scale.initial <= kMost, Code::invalid_argument, "scaled gradients: the scale is ",
          scale.initial, ", expected 2^-24 to 2^24");
  require(scale.interval >= 1 && scale.interval <= kMost, Code::invalid_argument, "scaled gradients: the interval is ",
          scale.interval, " steps, expected 1 to 2^24");
  require(loss >= 0 && size_t(loss) < graph.values().size(), Code::invalid_argument,
          "scaled gradients: the loss is value ", loss, ", which is not of this graph");
  const std::string name = "loss_scale";
  const auto state = [&](const std::string& called, float value) {
    const TensorRef tensor = Tensor::allocate(cpu, TensorDesc::dense(DType::f32, Dims{}));
    cpu.write(*tensor->buffer(), 0, &value, sizeof value);
    return graph.keep(called, tensor, false);
  };
  const auto add = [&](const char* op, const Attributes& attributes, const std::vector<ValueId>& inputs) {
    return graph.add(*find_schema(op), attributes, inputs, name);
  };
  const ValueId factor = state(name, float(scale.initial)), good = state(name + "/good_steps", 0);
  const auto pointwise = [&](const char* expressions, const std::vector<double>& scalars, DType dtype,
                             const std::vector<ValueId>& inputs) {
    return add("pointwise",
               Attributes{{attr::expressions, std::string(expressions)},
                          {attr::scalars, scalars},
                          {attr::dtype, std::string(name_of(dtype))}},
               inputs);
  };
  const ValueId scaled = pointwise("y0 = x0 * x1", {}, graph.value(loss).desc.dtype, {loss, factor})[0];
  ScaledGradients result;
  result.values = gradients(graph, scaled, by, cpu);
  const ValueId finite = add("all_finite", {}, result.values)[0];
  const std::vector<ValueId> made = pointwise(
      "grown = x2 + 1 >= s0; y0 = where(x0 > 0, 1 / x1, 0); "
      "y1 = where(x0 > 0, where(grown, min(2 * x1, s2), x1), max(x1 / 2, s1)); "
      "y2 = where(x0 > 0 && !grown, x2 + 1, 0)",
      {double(scale.interval), kLeast, kMost}, DType::f32, {finite, factor, good});
  result.factor = made[0];
  const ValueId holds = add("cast", Attributes{{attr::dtype, std::string(name_of(DType::boolean))}}, {finite})[0];
  for (size_t k = 0; k < graph.kept().size(); ++k) {
    const KeptValue kept = graph.kept()[k];
    if (kept.update != kNoValue) graph.update(kept.value, add("where", {}, {holds, kept.update, kept.value})[0]);
  }
  graph.update(factor, made[1]);
  graph.update(good, made[2]);
  return result;
}

}  // namespace pl
