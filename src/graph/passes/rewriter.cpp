#include "graph/passes/rewriter.h"

#include <algorithm>

#include "graph/passes/constants.h"

namespace pl::passes {

Rewriter::Rewriter(Graph& graph) : graph_(graph), uses_(graph.use_counts()), live_(graph.nodes().size(), true) {}

ValueId Rewriter::input(const Node& node, size_t k) {
  return k < node.inputs.size() ? graph_.resolved(node.inputs[k]) : kNoValue;
}

std::vector<ValueId> Rewriter::inputs(const Node& node) {
  std::vector<ValueId> ids;
  for (size_t k = 0; k < node.inputs.size(); ++k) ids.push_back(input(node, k));
  return ids;
}

std::vector<TensorDesc> Rewriter::plain_descs(const std::vector<ValueId>& ids) const {
  std::vector<TensorDesc> descs;
  for (ValueId id : ids) descs.push_back(id == kNoValue ? TensorDesc() : TensorDesc::dense(desc(id).dtype, shape(id)));
  return descs;
}

std::optional<double> Rewriter::number(ValueId id) const {
  if (!is_constant(id) || constant(id).desc().elements() != 1) return std::nullopt;
  return numbers_of(constant(id))[0];
}

int Rewriter::maker(ValueId id) const {
  if (id == kNoValue) return -1;
  const int32_t node = graph_.value(id).node;
  return node >= 0 ? node : -1;
}

bool Rewriter::is_given(ValueId id) const { return id != kNoValue && graph_.value(id).node == -1; }

bool Rewriter::is_parameter(ValueId id) const {
  const auto& kept = graph_.kept();
  return std::any_of(kept.begin(), kept.end(), [&](const KeptValue& one) { return one.parameter && one.value == id; });
}

int Rewriter::sole_maker(ValueId id) const { return id != kNoValue && uses(id) == 1 ? maker(id) : -1; }

void Rewriter::use(ValueId id) {
  if (id == kNoValue) return;
  if (uses_.size() < graph_.values().size()) uses_.resize(graph_.values().size(), 0);
  ++uses_[size_t(id)];
}

void Rewriter::release(ValueId id) {
  if (id == kNoValue) return;
  released_.push_back(id);
  while (!released_.empty()) {
    const ValueId next = released_.back();
    released_.pop_back();
    if (--uses_[size_t(next)] > 0) continue;
    const int index = maker(next);
    if (index < 0 || size_t(index) >= live_.size() || !live_[size_t(index)]) continue;
    const Node& dead = node(size_t(index));
    if (std::any_of(dead.outputs.begin(), dead.outputs.end(), [&](ValueId out) { return uses(out) > 0; })) continue;
    live_[size_t(index)] = false;
    for (size_t k = 0; k < dead.inputs.size(); ++k)
      if (const ValueId input = graph_.resolved(dead.inputs[k]); input != kNoValue) released_.push_back(input);
  }
}

void Rewriter::rewrite(size_t index, std::string_view schema, const Attributes& attributes,
                       const std::vector<ValueId>& inputs, const std::string& name) {
  const std::vector<ValueId> before = this->inputs(node(index));
  graph_.rewrite(index, schema_of(schema), attributes, inputs, name);
  for (ValueId id : inputs) use(id);
  for (ValueId id : before) release(id);
  ++changes_;
}

void Rewriter::redirect(ValueId from, ValueId to) {
  graph_.redirect(from, to);
  const int32_t moved = uses(from);
  for (int32_t i = 0; i < moved; ++i) use(to);
  uses_[size_t(from)] = 1;
  release(from);
  ++changes_;
}

std::vector<ValueId> Rewriter::insert_all(size_t before, std::string_view schema, const Attributes& attributes,
                                          const std::vector<ValueId>& inputs, const std::string& name) {
  const std::vector<ValueId> results = graph_.insert(before, schema_of(schema), attributes, inputs, name);
  for (ValueId id : inputs) use(id);
  if (uses_.size() < graph_.values().size()) uses_.resize(graph_.values().size(), 0);
  return results;
}

ValueId Rewriter::insert(size_t before, std::string_view schema, const Attributes& attributes,
                         const std::vector<ValueId>& inputs, const std::string& name) {
  return insert_all(before, schema, attributes, inputs, name).at(0);
}

ValueId Rewriter::add_constant(const std::string& name, TensorRef tensor) {
  const ValueId id = graph_.constant(name, std::move(tensor));
  if (uses_.size() < graph_.values().size()) uses_.resize(graph_.values().size(), 0);
  return id;
}

const Schema& schema_of(std::string_view name) {
  const Schema* schema = find_schema(name);
  require(schema != nullptr, Code::internal, "passes: there is no op ", name);
  return *schema;
}

bool takes_attribute(const Schema& schema, const AttributeName& name) {
  return std::any_of(schema.parameters.begin(), schema.parameters.end(), [&](const Parameter& parameter) {
    return parameter.kind == Parameter::Kind::attribute && parameter.attribute == name;
  });
}

bool takes_input(const Schema& schema, std::string_view name) { return schema.input_index(name) >= 0; }

void append_post_ops(Attributes& attributes, const PostOps& list) {
  PostOps all = post_ops_of(attributes);
  all.insert(all.end(), list.begin(), list.end());
  set_post_ops(attributes, std::move(all));
}

void rewrite_as_step(Rewriter& rewriter, size_t index, const PostOp& step, ValueId x) {
  const StepCall call = call_of(step);
  rewriter.rewrite(index, call.op, call.attributes, {x});
}

}  // namespace pl::passes
