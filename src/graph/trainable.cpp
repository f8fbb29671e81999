#include "graph/trainable.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/numbers.h"
#include "graph/gradients.h"
#include "graph/pass.h"
#include "graph/passes/constants.h"
#include "graph/used.h"
#include "ops/gradient.h"
#include "ops/post_ops.h"

namespace pl {
namespace {

using Operation = Algebra::Operation;

constexpr double kLargestSummand = 9999;  // masks hold -10000 (old networks), -65504, -3.4e38 or minus infinity

// Which constants of a graph are weights.
class Weights {
 public:
  Weights(const Graph& graph, const std::vector<Trained>& kinds)
      : graph_(graph), kinds_(kinds), values_(graph.values().size()), chosen_(values_.size()), tables_(values_.size()) {
    for (size_t i = 0; i < values_.size(); ++i) {
      const Value& value = graph.value(ValueId(i));
      if (value.constant && is_floating(value.desc.dtype) && kind(ValueId(i)) != Trained::never)
        values_[i] = {Is::weight, {ValueId(i)}, true};
    }
    // Pictures may come as bytes; wider integers are indices and positions.
    for (const GraphInput& input : graph.inputs()) {
      const DType dtype = graph.value(input.value).desc.dtype;
      if (input.kept >= 0 || is_floating(dtype) || dtype == DType::s8 || dtype == DType::u8)
        values_[size_t(input.value)].is = Is::data;
    }
    const std::vector<bool> used = used_in(graph).nodes;
    for (size_t i = 0; i < graph.nodes().size(); ++i)
      if (used[i] || graph.outputs().empty()) visit(graph.node(i));  // where there are no outputs yet, all
    for (const GraphOutput& output : graph.outputs())
      for (ValueId id : values_[size_t(output.value)].sources)
        if (kind(id) == Trained::given && elements(id) > 1) choose(id);
  }

  bool operator[](ValueId id) const {
    if (!graph_.is_constant(id)) return false;
    if (kind(id) == Trained::always) return is_floating(graph_.value(id).desc.dtype);
    return chosen_[size_t(id)] && !tables_[size_t(id)];
  }

 private:
  // `number`: what is the same for all data, or counts them.
  enum class Is { number, weight, data };
  struct Known {
    Is is = Is::number;
    std::set<ValueId> sources;  // the constants that a weight is made of
    bool plain = false;         // nothing but their shape has changed
  };

  Trained kind(ValueId id) const { return size_t(id) < kinds_.size() ? kinds_[size_t(id)] : Trained::by_use; }
  int64_t elements(ValueId id) const { return graph_.value(id).desc.elements(); }
  void choose(ValueId id) { chosen_[size_t(id)] = true; }

  static bool is_arithmetic(const Node& node) {
    const Operation is = algebra_of(*node.schema, node.attributes).operation;
    return is == Operation::sum || is == Operation::difference || is == Operation::product || is == Operation::quotient;
  }
  static bool adds(const Node& node) {
    const Operation is = algebra_of(*node.schema, node.attributes).operation;
    return is == Operation::sum || is == Operation::difference;
  }
  bool is_look_up(const Node& node, size_t k) const {
    if (!node.schema->input_parameter(int(k)).trainable) return false;
    bool integers = node.inputs.size() > 1;
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (i != k && node.inputs[i] != kNoValue) integers &= !is_floating(graph_.value(node.inputs[i]).desc.dtype);
    return integers;
  }
  // What a matrix product gives.
  bool is_product(ValueId id) const {
    const Node* node = id == kNoValue ? nullptr : graph_.maker(id);
    return node && bool(node->schema->weighting);
  }
  bool is_mask(ValueId id) const {
    const std::vector<double> numbers = passes::numbers_of(*graph_.value(id).constant);
    return std::any_of(numbers.begin(), numbers.end(),
                       [](double x) { return !std::isfinite(x) || std::abs(x) > kLargestSummand; });
  }
  // One number for each index of one axis.
  bool is_vector(ValueId id) const {
    const Dims& shape = graph_.value(id).desc.shape;
    return std::any_of(shape.begin(), shape.end(), [&](int64_t size) { return size == elements(id); });
  }

  // Whether a node takes the weight `from`, as its input k, for one.
  bool takes(const Node& node, size_t k, ValueId from) const {
    const Parameter& parameter = node.schema->input_parameter(int(k));
    const Trained is = kind(from);
    const ValueId id = node.inputs[k];
    if (parameter.role == Role::constant) return elements(from) > 1 || elements(id) < 2;
    if (parameter.selects || !is_floating(graph_.value(id).desc.dtype)) return false;
    if (elements(from) < 2) {
      const bool in_sum = adds(node) && node.inputs.size() > 1 && is_product(node.inputs[1 - k]);
      return in_sum && elements(id) < 2 && !graph_.value(id).desc.shape.empty();
    }
    if (is_look_up(node, k)) return is != Trained::by_role;
    if (!is_arithmetic(node)) {
      if (is == Trained::by_role && !values_[size_t(id)].plain) return false;
      return is == Trained::given || parameter.trainable;
    }
    if (is == Trained::by_role && !(values_[size_t(id)].plain && is_vector(id))) return false;
    return !adds(node) || !is_mask(from);
  }

  void visit(const Node& node) {
    bool data = false, numbers = false, selected = false;
    Known made;
    made.plain = true;
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const ValueId id = node.inputs[k];
      if (id == kNoValue) continue;
      const Known& known = values_[size_t(id)];
      data |= known.is == Is::data;
      numbers |= known.is == Is::number && elements(id) > 1 && is_floating(graph_.value(id).desc.dtype);
      if (known.is != Is::weight) continue;
      made.is = Is::weight;
      made.sources.insert(known.sources.begin(), known.sources.end());
      made.plain &= known.plain;
    }
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const ValueId id = node.inputs[k];
      if (id == kNoValue || values_[size_t(id)].is != Is::weight) continue;
      if (!node.schema->trained_as.empty() && (k == 1 || k == 2)) continue;  // statistics
      const bool is_role = node.schema->role_of(int(k)) == Role::constant;
      const bool looked_up = is_look_up(node, k);
      selected |= looked_up;
      for (ValueId from : values_[size_t(id)].sources) {
        if ((data || is_role || looked_up) && takes(node, k, from)) choose(from);
        if (!data && !is_role && !looked_up && numbers && node.schema->input_parameter(int(k)).trainable)
          tables_[size_t(from)] = true;
      }
    }
    made.plain &= node.schema->renaming != Renaming::none;
    for (ValueId id : node.outputs) {
      Known& known = values_[size_t(id)];
      // What is compared says which data count: as masks that become floats.
      if (data || selected || graph_.value(id).desc.dtype == DType::boolean)
        known.is = Is::data;
      else
        known = made;
    }
  }

  const Graph& graph_;
  const std::vector<Trained>& kinds_;
  std::vector<Known> values_;  // by value
  std::vector<bool> chosen_, tables_;
};

class Trainer {
 public:
  Trainer(const Graph& graph, double momentum, const std::vector<Trained>& kinds)
      : old_(graph), momentum_(momentum), weights_(graph, kinds), places_(graph.values().size(), kNoValue) {}

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
    auto part = old_.derived().begin();
    for (size_t i = 0; i < old_.nodes().size(); ++i) {
      follow_rules(i);
      if (part != old_.derived().end() && part->first == i) {
        derive(*part);
        i = part++->end - 1;
        continue;
      }
      const Node& node = old_.node(i);
      if (trains(node))
        add_batch_norm(node);
      else
        add(node);
    }
    follow_rules(old_.nodes().size());
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

  SizeExpression renumbered(const SizeExpression& size) {
    return size.renumbered([&](ValueId id) { return place(id); });
  }

  // What holds for the sizes that the graph may be bound to, of the nodes before this one.
  void follow_rules(size_t node) {
    for (; rule_ < old_.rules().size() && old_.rules()[rule_].after <= node; ++rule_) {
      const SizeRule& rule = old_.rules()[rule_];
      std::vector<SizeExpression> sizes;
      for (const SizeExpression& size : rule.sizes) sizes.push_back(renumbered(size));
      if (rule.value == kNoValue) {
        made_.require_sizes(rule.kind, sizes[0], sizes[1]);
        continue;
      }
      const Value& value = old_.value(rule.value);
      places_[size_t(rule.value)] =
          made_.late_constant(value.name, value.desc.dtype, value.constant->device(), rule.kind, std::move(sizes));
    }
  }

  ValueId place(ValueId id) {
    if (id == kNoValue) return kNoValue;
    ValueId& known = places_[size_t(id)];
    if (known == kNoValue) {
      const Value& value = old_.value(id);
      require(value.constant != nullptr, Code::unsupported, "trainable: value \"", value.name,
              "\" lies within gradients, which are derived anew; expected one that is a gradient");
      known = weights_[id] ? made_.keep(value.name, value.constant, true) : made_.constant(value.name, value.constant);
    }
    return known;
  }

  // Of what trains: a batch norm there has other gradients.
  void derive(const DerivedPart& part) {
    place(part.loss);
    for (ValueId id : part.by) place(id);
    derive_again(part, made_, places_);
  }

  void add(const Node& node) {
    std::vector<ValueId> inputs;
    for (ValueId id : node.inputs) inputs.push_back(place(id));
    std::vector<LateAttribute> late = node.late;
    for (LateAttribute& attribute : late)
      for (SizeExpression& size : attribute.sizes) size = renumbered(size);
    const std::vector<ValueId> outputs = made_.add(*node.schema, node.attributes, inputs, node.name, late);
    for (size_t k = 0; k < outputs.size(); ++k) places_[size_t(node.outputs[k])] = outputs[k];
  }

  std::vector<ValueId> add(const char* op, const Attributes& attributes, const std::vector<ValueId>& inputs,
                           const std::string& name) {
    return made_.add(*find_schema(op), attributes, inputs, name);
  }

  // Weight or bias; without one, a constant: a parameter would not be in the model.
  ValueId parameter(const Node& node, size_t k, const char* fill) {
    if (k < node.inputs.size() && node.inputs[k] != kNoValue) return place(node.inputs[k]);
    return add("pointwise", Attributes{{attr::expressions, std::string(fill)}}, {kept(node.inputs[1])}, node.name)[0];
  }

  // A constant that is a weight elsewhere, as ones may be, is another value there.
  ValueId kept(ValueId statistic) {
    ValueId& known = statistics_.try_emplace(statistic, kNoValue).first->second;
    if (known == kNoValue) {
      const std::string& name = old_.value(statistic).name;
      known = made_.keep(weights_[statistic] ? name + "/running" : name, old_.value(statistic).constant, false);
    }
    return known;
  }

  // How many values of a batch each statistic is of: they follow from the sizes that the graph is bound to.
  ValueId values_in_channel(const Node& node) {
    const ValueId x = place(node.inputs[0]);
    std::string text = concat("#", x, ".0");
    for (int i = 2; i < made_.value(x).desc.shape.size(); ++i) text += concat("*#", x, ".", i);
    return made_.late_constant(node.name + "/values", DType::f32, old_.value(node.inputs[1]).constant->device(),
                               SizeRule::Kind::number, {made_.size_expression(text)});
  }

  void add_batch_norm(const Node& node) {
    const Op op = old_.op(node);
    const ValueId mean = kept(node.inputs[1]), variance = kept(node.inputs[2]);
    const std::vector<ValueId> made =
        add(node.schema->trained_as.c_str(), Attributes{{attr::eps, op.attributes[attr::eps]}},
            {place(node.inputs[0]), parameter(node, 3, "y0 = 1"), parameter(node, 4, "y0 = 0")}, node.name);
    const auto follow = [&](ValueId state, std::vector<ValueId> values, const char* expression) {
      const DType dtype = made_.value(state).desc.dtype;  // of the model; what a batch gives is f32
      const Attributes attributes{{attr::expressions, std::string(expression)},
                                  {attr::scalars, std::vector<double>{momentum_}},
                                  {attr::dtype, std::string(pl::name_of(dtype))}};
      values.insert(values.begin(), state);
      made_.update(state, add("pointwise", attributes, values, node.name)[0]);
    };
    follow(mean, {made[1]}, "y0 = x0 + s0 * (x1 - x0)");
    follow(variance, {made[2], values_in_channel(node)}, "y0 = x0 + s0 * (x1 * (x2 / max(x2 - 1, 1)) - x0)");
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
  Weights weights_;
  Graph made_;
  std::vector<ValueId> places_;
  std::map<ValueId, ValueId> statistics_;
  size_t rule_ = 0;  // the next one to follow
};

}  // namespace

Graph trainable(const Graph& graph, double momentum, const std::vector<Trained>& kinds, Context& context) {
  Graph made = Trainer(graph, momentum, kinds).run();
  if (made.axes().empty()) {
    made.forget_rules();
    run_passes(training_passes(), made, context, {});
  }
  return made;
}

}  // namespace pl
