#include "graph/batch.h"

#include <algorithm>

#include "ops/rules.h"

namespace pl {

std::optional<int64_t> batch_of(const Graph& graph) {
  if (graph.inputs().empty() || !graph.kept().empty()) return std::nullopt;
  const TensorDesc& first = graph.value(graph.inputs()[0].value).desc;
  if (first.rank() == 0) return std::nullopt;
  const int64_t batch = first.shape[0];
  std::vector<bool> batched(graph.values().size(), false);
  const auto outermost = [](const Layout& layout) { return layout.rank() == 0 || layout.order(0) == 0; };
  for (const GraphInput& input : graph.inputs()) {
    const TensorDesc& desc = graph.value(input.value).desc;
    if (desc.rank() == 0 || desc.shape[0] != batch || !outermost(desc.layout)) return std::nullopt;
    batched[size_t(input.value)] = true;
  }
  for (const Node& node : graph.nodes()) {
    const Op op = graph.op(node);
    std::vector<bool> of_inputs;
    for (ValueId id : node.inputs) of_inputs.push_back(id != kNoValue && batched[size_t(id)]);
    if (std::none_of(of_inputs.begin(), of_inputs.end(), [](bool b) { return b; })) continue;
    if (!keeps_images_apart(op, of_inputs)) return std::nullopt;
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      if (op.out(int(k)).rank() == 0 || op.out(int(k)).shape[0] != batch) return std::nullopt;
      batched[size_t(node.outputs[k])] = true;
    }
  }
  for (const GraphOutput& output : graph.outputs())
    if (!batched[size_t(output.value)] || (output.layout && !outermost(*output.layout))) return std::nullopt;
  return batch;
}

Graph with_batch(const Graph& graph, int64_t batch) {
  const int64_t before = graph.value(graph.inputs()[0].value).desc.shape[0];
  Graph result;
  std::vector<ValueId> places(graph.values().size(), kNoValue);
  for (const GraphInput& input : graph.inputs()) {
    const Value& value = graph.value(input.value);
    Dims shape = value.desc.shape;
    shape[0] = batch;
    places[size_t(input.value)] =
        result.input(value.name, TensorDesc::dense(value.desc.dtype, shape, value.desc.layout), {}, input.pinned);
  }
  for (size_t i = 0; i < graph.values().size(); ++i)
    if (graph.values()[i].constant) places[i] = result.constant(graph.values()[i].name, graph.values()[i].constant);
  std::vector<bool> batched(graph.values().size(), false);
  for (const GraphInput& input : graph.inputs()) batched[size_t(input.value)] = true;
  for (const Node& node : graph.nodes()) {
    Attributes attributes = node.attributes;
    bool any = false;
    std::vector<ValueId> inputs;
    for (ValueId id : node.inputs) {
      inputs.push_back(id == kNoValue ? kNoValue : places[size_t(id)]);
      any = any || (id != kNoValue && batched[size_t(id)]);
    }
    for (const AxisRule& rule : node.schema->axes) {
      const AttributeValue* value = attributes.find_value(rule.attribute);
      // Axes that follow from sizes are those that they are now: of one image no squeeze may drop axis 0.
      const bool open = !value || std::holds_alternative<None>(*value);
      if (any && open && rule.meaning == AxisRule::Meaning::along) {
        const Op op = graph.op(node);
        if (const AttributeValue* now = op.attributes.find_value(rule.attribute))
          attributes.set_value(rule.attribute, *now);
      }
      // A shape that spells the batch out.
      if (!any || rule.meaning != AxisRule::Meaning::sizes || !value) continue;
      const auto* shape = std::get_if<std::vector<int64_t>>(value);
      if (!shape || shape->empty() || (*shape)[0] != before) continue;
      std::vector<int64_t> changed = *shape;
      changed[0] = batch;
      attributes.set_value(rule.attribute, changed);
    }
    const std::vector<ValueId> outputs = result.add(*node.schema, attributes, inputs, node.name);
    for (size_t k = 0; k < outputs.size(); ++k) {
      places[size_t(node.outputs[k])] = outputs[k];
      batched[size_t(node.outputs[k])] = any;
    }
  }
  for (const GraphOutput& output : graph.outputs())
    result.output(places[size_t(output.value)], output.name, output.layout);
  return result;
}

}  // namespace pl
