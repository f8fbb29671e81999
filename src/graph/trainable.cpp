#include "graph/trainable.h"

#include "graph/pass.h"
#include "ops/gradient.h"
#include "ops/post_ops.h"

namespace pl {
namespace {

class Trainer {
 public:
  Trainer(const Graph& graph, double momentum)
      : old_(graph), momentum_(momentum), places_(graph.values().size(), kNoValue) {}

  Graph run() {
    for (const GraphInput& input : old_.inputs()) {
      const Value& value = old_.value(input.value);
      if (input.kept >= 0) {
        const KeptValue& kept = old_.kept()[size_t(input.kept)];
        places_[size_t(input.value)] = made_.keep(value.name, kept.initial, kept.parameter);
      } else {
        places_[size_t(input.value)] = made_.input(value.name, value.desc, input.axes, input.pinned);
      }
    }
    for (const Node& node : old_.nodes()) {
      if (trains(node))
        add_batch_norm(node);
      else
        add(node);
    }
    for (const GraphOutput& output : old_.outputs()) {
      if (output.kept >= 0)
        made_.update(place(old_.kept()[size_t(output.kept)].value), place(output.value));
      else
        made_.output(place(output.value), output.name, output.layout);
    }
    return std::move(made_);
  }

 private:
  bool is_statistic(ValueId id) const { return old_.is_constant(id) && is_floating(old_.value(id).desc.dtype); }

  bool trains(const Node& node) const {
    return !node.schema->trained_as.empty() && is_statistic(node.inputs[1]) && is_statistic(node.inputs[2]);
  }

  bool is_weight(const Node& node, size_t k) const {
    const Value& value = old_.value(node.inputs[k]);
    if (!value.constant || !is_floating(value.desc.dtype) || value.desc.elements() < 2) return false;
    return node.schema->input_parameter(int(k)).trainable;
  }

  // A constant is a constant or a parameter wherever it is used: the first use decides.
  ValueId place(ValueId id, bool weight = false) {
    if (id == kNoValue) return kNoValue;
    ValueId& known = places_[size_t(id)];
    if (known == kNoValue) {
      const Value& value = old_.value(id);
      known = weight ? made_.keep(value.name, value.constant, true) : made_.constant(value.name, value.constant);
    }
    return known;
  }

  void add(const Node& node) {
    std::vector<ValueId> inputs;
    for (size_t k = 0; k < node.inputs.size(); ++k)
      inputs.push_back(node.inputs[k] == kNoValue ? kNoValue : place(node.inputs[k], is_weight(node, k)));
    const std::vector<ValueId> outputs = made_.add(*node.schema, node.attributes, inputs, node.name);
    for (size_t k = 0; k < outputs.size(); ++k) places_[size_t(node.outputs[k])] = outputs[k];
  }

  std::vector<ValueId> add(const char* op, const Attributes& attributes, const std::vector<ValueId>& inputs,
                           const std::string& name) {
    return made_.add(*find_schema(op), attributes, inputs, name);
  }

  // Weight or bias; without one, a constant: a parameter would not be in the model.
  ValueId parameter(const Node& node, size_t k, const char* fill) {
    if (k < node.inputs.size() && node.inputs[k] != kNoValue) return place(node.inputs[k], true);
    return add("pointwise", Attributes{{attr::expressions, std::string(fill)}}, {kept(node.inputs[1])}, node.name)[0];
  }

  ValueId kept(ValueId statistic) {
    ValueId& known = places_[size_t(statistic)];
    if (known == kNoValue) known = made_.keep(old_.value(statistic).name, old_.value(statistic).constant, false);
    return known;
  }

  void add_batch_norm(const Node& node) {
    const Op op = old_.op(node);
    const ValueId mean = kept(node.inputs[1]), variance = kept(node.inputs[2]);
    const std::vector<ValueId> made =
        add(node.schema->trained_as.c_str(), Attributes{{attr::eps, op.attributes[attr::eps]}},
            {place(node.inputs[0]), parameter(node, 3, "y0 = 1"), parameter(node, 4, "y0 = 0")}, node.name);
    const double count = double(op.in(0).elements() / op.in(0).shape[1]);
    const auto follow = [&](ValueId state, ValueId value, double scale) {
      const DType dtype = made_.value(state).desc.dtype;  // of the model; what a batch gives is f32
      const Attributes attributes{{attr::expressions, std::string("y0 = x0 + s0 * (s1 * x1 - x0)")},
                                  {attr::scalars, std::vector<double>{momentum_, scale}},
                                  {attr::dtype, std::string(pl::name_of(dtype))}};
      made_.update(state, add("pointwise", attributes, {state, value}, node.name)[0]);
    };
    follow(mean, made[1], 1.0);
    follow(variance, made[2], count / std::max(count - 1, 1.0));
    ValueId y = made[0];
    for (const PostOp& step : post_ops_of(op)) {
      const StepCall call = call_of(step);
      std::vector<ValueId> operands{y};
      if (step.reads_input()) operands.push_back(place(node.inputs[size_t(operand_of(*op.schema, step))]));
      y = add(call.op.c_str(), call.attributes, operands, node.name)[0];
    }
    places_[size_t(node.outputs[0])] = y;
  }

  const Graph& old_;
  double momentum_;
  Graph made_;
  std::vector<ValueId> places_;
};

}  // namespace

Graph trainable(const Graph& graph, double momentum, Context& context) {
  Graph made = Trainer(graph, momentum).run();
  if (made.axes().empty()) run_passes(training_passes(), made, context, {});
  return made;
}

}  // namespace pl
