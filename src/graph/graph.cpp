#include "graph/graph.h"

#include <algorithm>
#include <set>

#include "core/json.h"
#include "graph/gradients.h"
#include "graph/used.h"
#include "ops/post_ops.h"

namespace pl {
namespace {

// What the value contributes to the op that uses it: its type, in plain layout unless it is a constant (whose strides
// a view may need to know) or an input pinned to a layout.
TensorDesc desc_for_use(const Value& value) { return value.constant ? value.constant->desc() : value.desc; }

// A string of Graphviz's language.
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (c == '\n')
      result += "\\n";
    else
      result += c;
  }
  return result + '"';
}

std::string type_text(const TensorDesc& desc) {
  std::string text = concat(name_of(desc.dtype), ' ', desc.shape);
  if (!desc.layout.is_plain()) text += ' ' + desc.layout.str();
  return text;
}

template <class Body>
void naming_node(const std::string& name, Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    if (name.empty()) throw;
    fail(error.code(), error.what(), " (node \"", name, "\")");
  }
}

// Says of an error for which sizes it is, and for which there was none: `done`, which was done then.
template <class Body>
void naming_sizes(const char* done, const Graph& made_for, const Graph& bound, Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    std::string before, now;
    const std::map<std::string, int64_t> sizes = bound.axes();
    for (const auto& [axis, size] : made_for.axes()) {
      if (sizes.at(axis) == size) continue;
      before += concat(before.empty() ? "" : ", ", axis, " = ", size);
      now += concat(now.empty() ? "" : ", ", axis, " = ", sizes.at(axis));
    }
    if (now.empty()) throw;
    fail(error.code(), error.what(), "; ", done, " where ", before, " and cannot be where ", now,
         ": expected other sizes, or a graph made for these");
  }
}

}  // namespace

Value::Value() = default;
Value::~Value() = default;
Value::Value(const Value& other) = default;
Value::Value(Value&& other) noexcept = default;
Value& Value::operator=(const Value& other) = default;
Value& Value::operator=(Value&& other) noexcept = default;

Node::Node() = default;
Node::~Node() = default;
Node::Node(const Node& other) = default;
Node::Node(Node&& other) noexcept = default;
Node& Node::operator=(const Node& other) = default;
Node& Node::operator=(Node&& other) noexcept = default;

Graph::Graph() = default;
Graph::~Graph() = default;
Graph::Graph(const Graph& other) = default;
Graph::Graph(Graph&& other) noexcept = default;
Graph& Graph::operator=(const Graph& other) = default;
Graph& Graph::operator=(Graph&& other) noexcept = default;

std::string Graph::unique_name(const std::string& wanted) {
  const std::string base = wanted.empty() ? "v" : wanted;
  std::string name = base;
  for (auto [it, added] = names_.try_emplace(name, 0); !added; std::tie(it, added) = names_.try_emplace(name, 0)) {
    name = base + "." + std::to_string(++names_[base]);
  }
  return name;
}

ValueId Graph::add_value(const std::string& name, const TensorDesc& desc, int32_t node, int32_t output) {
  require(values_.size() < size_t(INT32_MAX), Code::unsupported, "graph: more than 2^31 values");
  Value value;
  value.name = unique_name(name);
  value.desc = desc;
  value.node = node;
  value.output = output;
  values_.push_back(std::move(value));
  return ValueId(values_.size() - 1);
}

ValueId Graph::input(const std::string& name, const TensorDesc& desc, const std::vector<std::string>& axes,
                     bool pinned) {
  require(!name.empty(), Code::invalid_argument, "graph: an input needs a name");
  require(names_.find(name) == names_.end(), Code::invalid_argument, "graph: there is a value named \"", name,
          "\" already, expected another name");
  require(axes.empty() || axes.size() == size_t(desc.rank()), Code::invalid_argument, "graph: input \"", name,
          "\" has ", axes.size(), " axis names, expected ", desc.rank(), " or none");
  std::map<std::string, int64_t> known = this->axes();
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].empty()) continue;
    const int64_t size = desc.shape[int(i)], expected = known.emplace(axes[i], size).first->second;
    require(size == expected, Code::shape, "graph: axis \"", axes[i], "\" of input \"", name, "\" has size ", size,
            ", expected ", expected, " as elsewhere");
  }
  const ValueId id = add_value(name, desc, -1, 0);
  inputs_.push_back({id, axes, pinned, -1});
  return id;
}

ValueId Graph::constant(const std::string& name, TensorRef tensor) {
  require(tensor != nullptr, Code::invalid_argument, "graph: constant \"", name, "\" has no tensor");
  const ValueId id = add_value(name.empty() ? "constant" : name, tensor->desc(), -1, 0);
  values_.back().constant = std::move(tensor);
  return id;
}

Node Graph::make_node(const Schema& schema, const Attributes& attributes, const std::vector<ValueId>& inputs,
                      const std::string& name, int32_t index) {
  Node node;
  node.name = name.empty() ? schema.name : name;
  node.schema = &schema;
  node.attributes = attributes;
  node.inputs = inputs;
  while (!node.inputs.empty() && node.inputs.back() == kNoValue) node.inputs.pop_back();
  for (ValueId id : node.inputs)
    require(id == kNoValue || (id >= 0 && size_t(id) < values_.size()), Code::invalid_argument, schema.name,
            ": input value ", id, " is not of this graph, which has ", values_.size());
  naming_node(name, [&] {
    const Op made = op(node);
    node.attributes = with_listed_post_ops(attributes, made);
    for (size_t i = 0; i < made.outputs.size(); ++i)
      node.outputs.push_back(add_value(made.outputs.size() == 1 ? node.name : concat(node.name, ':', i),
                                       made.outputs[i], index, int32_t(i)));
  });
  if (name.empty() && node.outputs.size() == 1) node.name = value(node.outputs[0]).name;
  return node;
}

std::vector<ValueId> Graph::add(const Schema& schema, const Attributes& attributes, const std::vector<ValueId>& inputs,
                                const std::string& name, const std::vector<LateAttribute>& late) {
  Attributes complete = attributes;
  if (!late.empty()) naming_node(name, [&] { complete = with_late(attributes, late); });
  nodes_.push_back(make_node(schema, complete, inputs, name, int32_t(nodes_.size())));
  nodes_.back().late = late;
  for (LateAttribute& attribute : nodes_.back().late)
    for (SizeExpression& size : attribute.sizes) size = settled(size);
  return nodes_.back().outputs;
}

void Graph::output(ValueId id, const std::string& name, std::optional<Layout> layout) {
  require(id >= 0 && size_t(id) < values_.size(), Code::invalid_argument, "graph: output \"", name, "\" is value ", id,
          ", which is not of this graph");
  const TensorDesc& desc = value(id).desc;
  if (layout)
    require(layout->rank() == desc.rank(), Code::layout, "graph: output \"", name, "\" of rank ", desc.rank(),
            " is wanted in layout ", layout->str(), " of rank ", layout->rank());
  std::string unique = name.empty() ? value(id).name : name;
  for (int i = 1; std::any_of(outputs_.begin(), outputs_.end(), [&](const auto& o) { return o.name == unique; }); ++i)
    unique = (name.empty() ? value(id).name : name) + "." + std::to_string(i);
  outputs_.push_back({id, unique, layout, -1});
}

int32_t Graph::find_kept(const std::string& name) const {
  for (size_t i = 0; i < kept_.size(); ++i)
    if (value(kept_[i].value).name == name) return int32_t(i);
  return -1;
}

ValueId Graph::keep(const std::string& name, TensorRef initial, bool parameter) {
  require(initial != nullptr, Code::invalid_argument, "graph: state \"", name, "\" has no tensor");
  const TensorDesc desc = TensorDesc::dense(initial->desc().dtype, initial->desc().shape);
  const ValueId id = input(name, desc);
  inputs_.back().kept = int32_t(kept_.size());
  kept_.push_back({id, kNoValue, std::move(initial), parameter});
  return id;
}

void Graph::update(ValueId state, ValueId update) {
  const auto found = std::find_if(kept_.begin(), kept_.end(), [&](const KeptValue& k) { return k.value == state; });
  const bool known = state >= 0 && size_t(state) < values_.size();
  require(found != kept_.end(), Code::invalid_argument, "graph: value ", state,
          known ? " (" + value(state).name + ")" : std::string(),
          " is updated, expected a parameter or a state of this graph");
  require(update >= 0 && size_t(update) < values_.size(), Code::invalid_argument, "graph: state \"", value(state).name,
          "\" is updated to value ", update, ", which is not of this graph");
  const TensorDesc &before = value(state).desc, &after = value(update).desc;
  require(before.shape == after.shape && before.dtype == after.dtype, Code::shape, "graph: state \"", value(state).name,
          "\" is updated to ", type_text(after), ", expected ", type_text(before));
  const int32_t index = int32_t(found - kept_.begin());
  found->update = update;
  for (GraphOutput& output : outputs_)
    if (output.kept == index) {
      output.value = update;
      return;
    }
  outputs_.push_back({update, value(state).name + "/update", Layout::plain(before.rank()), index});
}

void Graph::adopt_kept(const Graph& other, const std::vector<ValueId>& places) {
  kept_.clear();
  for (const KeptValue& kept : other.kept_) {
    const auto index = int32_t(kept_.size());
    kept_.push_back({places[size_t(kept.value)], kNoValue, kept.initial, kept.parameter, kept.appended});
    for (GraphInput& input : inputs_)
      if (input.value == kept_.back().value) input.kept = index;
  }
  require(outputs_.size() == other.outputs_.size(), Code::internal, "graph: kept values of a graph with ",
          other.outputs_.size(), " outputs, expected ", outputs_.size());
  for (size_t k = 0; k < outputs_.size(); ++k) {
    const int32_t index = outputs_[k].kept = other.outputs_[k].kept;
    if (index >= 0) kept_[size_t(index)].update = outputs_[k].value;
  }
}

const Node* Graph::maker(ValueId id) const {
  if (id == kNoValue) return nullptr;
  const int32_t node = value(id).node;
  if (node >= 0) return &nodes_[size_t(node)];
  return node <= kInserted ? &inserted_[size_t(kInserted - node)].node : nullptr;
}

std::vector<int32_t> Graph::use_counts() const {
  std::vector<int32_t> counts(values_.size(), 0);
  for (const Node& node : nodes_)
    for (ValueId id : node.inputs)
      if (id != kNoValue) ++counts[size_t(id)];
  for (const GraphOutput& output : outputs_) ++counts[size_t(output.value)];
  return counts;
}

std::vector<std::vector<int32_t>> Graph::consumers() const {
  std::vector<std::vector<int32_t>> lists(values_.size());
  for (size_t i = 0; i < nodes_.size(); ++i)
    for (ValueId id : nodes_[i].inputs)
      if (id != kNoValue) lists[size_t(id)].push_back(int32_t(i));
  return lists;
}

Op Graph::op(const Node& node) const {
  std::vector<TensorDesc> inputs;
  for (ValueId id : node.inputs) inputs.push_back(id == kNoValue ? TensorDesc() : desc_for_use(value(id)));
  return make_op(*node.schema, node.attributes, inputs);
}

void Graph::verify() const {
  const auto expect = [](bool condition, const Node& node, const auto&... parts) {
    require(condition, Code::internal, "graph: node \"", node.name, "\": ", parts...);
  };
  require(inserted_.empty() && forward_.empty(), Code::internal, "graph: verify() before tidy()");
  std::vector<bool> known(values_.size(), false);
  for (const GraphInput& input : inputs_) known[size_t(input.value)] = true;
  for (size_t i = 0; i < values_.size(); ++i)
    if (values_[i].constant) known[i] = true;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    expect(node.schema != nullptr, node, "has no op");
    for (ValueId id : node.inputs)
      expect(id == kNoValue || (size_t(id) < values_.size() && known[size_t(id)]), node, "uses value ", id,
             " before it is made");
    const Op made = op(node);
    expect(made.outputs.size() == node.outputs.size(), node, "has ", node.outputs.size(), " results, its op ",
           made.outputs.size());
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      const Value& result = value(node.outputs[k]);
      expect(!known[size_t(node.outputs[k])], node, "makes value ", result.name, " a second time");
      expect(result.node == int32_t(i) && result.output == int32_t(k), node, "its result ", k, " names another maker");
      expect(result.desc.shape == made.outputs[k].shape && result.desc.dtype == made.outputs[k].dtype, node,
             "its result is ", type_text(result.desc), ", its op gives ", type_text(made.outputs[k]));
      known[size_t(node.outputs[k])] = true;
    }
  }
  for (const GraphOutput& output : outputs_)
    require(known[size_t(output.value)], Code::internal, "graph: output \"", output.name, "\" is never made");
}

std::map<std::string, int64_t> Graph::axes() const {
  std::map<std::string, int64_t> sizes;
  for (const GraphInput& input : inputs_)
    for (size_t i = 0; i < input.axes.size(); ++i)
      if (!input.axes[i].empty()) sizes[input.axes[i]] = value(input.value).desc.shape[int(i)];
  return sizes;
}

Graph Graph::bound(const std::map<std::string, int64_t>& sizes) const {
  const std::map<std::string, int64_t> known = axes();
  for (const auto& [name, size] : sizes) {
    std::string names;
    for (const auto& [axis, ignored] : known) names += (names.empty() ? "" : ", ") + axis;
    require(known.count(name) == 1, Code::invalid_argument, "graph: there is no axis \"", name, "\"; expected one of ",
            names.empty() ? "(none)" : names);
    require(size >= 0, Code::shape, "graph: axis \"", name, "\" is given size ", size, ", expected 0 or more");
  }
  const auto is_late = [](const Node& node) { return !node.late.empty(); };
  require(!rewritten_ || (!fixed_ && rules_.empty() && std::none_of(nodes_.begin(), nodes_.end(), is_late)),
          Code::unsupported,
          "graph: passes have simplified it for its present sizes, which its ops follow; expected to be bound before");
  Graph result;
  std::vector<ValueId> places(values_.size(), kNoValue);
  for (const GraphInput& input : inputs_) {
    const Value& old = value(input.value);
    Dims shape = old.desc.shape;
    for (size_t i = 0; i < input.axes.size(); ++i)
      if (const auto it = sizes.find(input.axes[i]); it != sizes.end()) shape[int(i)] = it->second;
    const TensorDesc desc = TensorDesc::dense(old.desc.dtype, shape, old.desc.layout);
    places[size_t(input.value)] = result.input(old.name, desc, {}, input.pinned);
    result.inputs_.back().axes = input.axes;
  }
  std::vector<bool> is_made_again(values_.size(), false);
  for (const SizeRule& rule : rules_)
    if (rule.value != kNoValue) is_made_again[size_t(rule.value)] = true;
  for (const DerivedPart& part : derived_)
    std::fill(is_made_again.begin() + part.first_value, is_made_again.begin() + part.end_value, true);
  for (size_t i = 0; i < values_.size(); ++i)
    if (values_[i].constant && !is_made_again[i]) places[i] = result.constant(values_[i].name, values_[i].constant);
  const auto place_of = [&](ValueId id) {
    if (id == kNoValue) return kNoValue;
    require(places[size_t(id)] != kNoValue, Code::unsupported, "graph: value \"", value(id).name,
            "\" lies within gradients, which are derived anew for other sizes; expected one that is a gradient");
    return places[size_t(id)];
  };
  auto rule = rules_.begin();
  const auto follow_rules = [&](size_t after) {
    for (; rule != rules_.end() && rule->after <= after; ++rule)
      result.follow(*rule, rule->value == kNoValue ? Value() : value(rule->value), places);
  };
  auto part = derived_.begin();
  for (size_t i = 0; i < nodes_.size(); ++i) {
    follow_rules(i);
    if (part != derived_.end() && part->first == i) {
      naming_sizes("gradients were taken", *this, result, [&] { derive_again(*part, result, places); });
      i = part++->end - 1;
      continue;
    }
    const Node& node = nodes_[i];
    std::vector<ValueId> inputs;
    for (ValueId id : node.inputs) inputs.push_back(place_of(id));
    std::vector<LateAttribute> late = node.late;
    for (LateAttribute& attribute : late)
      for (SizeExpression& size : attribute.sizes) size = size.renumbered(place_of);
    const std::vector<ValueId> outputs = result.add(*node.schema, node.attributes, inputs, node.name, late);
    require(outputs.size() == node.outputs.size(), Code::shape, node.schema->name, ": has ", outputs.size(),
            " results for these sizes, expected ", node.outputs.size(), " (node \"", node.name, "\")");
    for (size_t k = 0; k < outputs.size(); ++k) {
      // What follows is written for one rank; squeeze leaves another one where a size is 1.
      const int rank = result.value(outputs[k]).desc.rank(), before = value(node.outputs[k]).desc.rank();
      naming_sizes("the graph was made", *this, result, [&] {
        require(rank == before, Code::shape, node.schema->name, ": its result has rank ", rank, ", expected ", before,
                ", whatever the sizes (node \"", node.name, "\")");
      });
      places[size_t(node.outputs[k])] = outputs[k];
    }
  }
  follow_rules(nodes_.size());
  for (const GraphOutput& output : outputs_) result.output(place_of(output.value), output.name, output.layout);
  result.adopt_kept(*this, places);
  return result;
}

// ---- texts ----

std::string Graph::str() const {
  std::string text;
  for (const GraphInput& input : inputs_) {
    text += (input.kept < 0                        ? "input "
             : kept_[size_t(input.kept)].parameter ? "parameter "
                                                   : "state ") +
            value(input.value).name + ": " + type_text(value(input.value).desc);
    for (size_t i = 0; i < input.axes.size(); ++i)
      if (!input.axes[i].empty()) text += concat(" axis ", i, " = ", input.axes[i]);
    text += input.pinned ? "\n" : " in any layout\n";
  }
  for (const Node& node : nodes_) {
    for (size_t k = 0; k < node.outputs.size(); ++k) text += (k ? ", " : "") + value(node.outputs[k]).name;
    text += " = " + node.schema->name + "(";
    for (size_t k = 0; k < node.inputs.size(); ++k)
      text += (k ? ", " : "") + (node.inputs[k] == kNoValue ? std::string("-") : value(node.inputs[k]).name);
    text += ")";
    if (!node.attributes.empty()) text += " " + node.attributes.str();
    if (!node.late.empty()) text += " late " + late_text(node.late);
    text += ":";
    for (ValueId id : node.outputs) text += " " + type_text(value(id).desc);
    text += "\n";
  }
  for (const GraphOutput& output : outputs_)
    text += "output " + output.name + " = " + value(output.value).name +
            (output.layout ? " as " + output.layout->str() : std::string(" in any layout")) + "\n";
  return text;
}

std::string Graph::dot() const {
  std::string text = "digraph pylayout {\n  node [shape=box, fontname=\"sans-serif\", fontsize=10];\n";
  const auto place = [&](ValueId id) {
    const Value& v = value(id);
    return v.node >= 0 ? concat("n", v.node) : concat("v", id);
  };
  for (const GraphInput& input : inputs_)
    text += "  " + place(input.value) +
            " [shape=oval, label=" + quoted(value(input.value).name + "\n" + type_text(value(input.value).desc)) +
            "];\n";
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    text += concat("  n", i, " [label=", quoted(node.schema->name),
                   ", tooltip=", quoted(node.name + " " + node.attributes.str()), "];\n");
    for (ValueId id : node.inputs)
      if (id != kNoValue && !is_constant(id))
        text +=
            concat("  ", place(id), " -> n", i, " [label=", quoted(concat(value(id).desc.shape)), ", fontsize=8];\n");
  }
  for (size_t i = 0; i < outputs_.size(); ++i)
    text += concat("  o", i, " [shape=oval, label=", quoted(outputs_[i].name), "];\n  ", place(outputs_[i].value),
                   " -> o", i, ";\n");
  return text + "}\n";
}

std::string Graph::json() const {
  Json json;
  const auto describe = [&](const Value& v) {
    json.field("id", int64_t(&v - values_.data()));
    json.field("name", v.name).field("dtype", std::string(name_of(v.desc.dtype))).field("shape", v.desc.shape.vector());
    json.field("layout", v.desc.layout.str());
  };
  const auto names = [&](const std::vector<ValueId>& ids) {
    json.list();
    for (ValueId id : ids) {
      if (id == kNoValue)
        json.null();
      else
        json.value(value(id).name);
    }
    json.end();
  };
  json.object().key("inputs").list();
  for (const GraphInput& input : inputs_) {
    if (input.kept >= 0) continue;
    json.object();
    describe(value(input.value));
    json.field("axes", input.axes).field("pinned", input.pinned).end();
  }
  json.end().key("states").list();
  for (const KeptValue& kept : kept_) {
    json.object();
    describe(value(kept.value));
    json.field("parameter", kept.parameter);
    if (kept.update == kNoValue)
      json.key("update").null();
    else
      json.field("update", value(kept.update).name);
    json.end();
  }
  json.end().key("constants").list();
  const std::vector<int32_t> uses = use_counts();
  for (size_t i = 0; i < values_.size(); ++i) {
    if (!values_[i].constant || !uses[i]) continue;
    json.object();
    describe(values_[i]);
    json.end();
  }
  json.end().key("nodes").list();
  for (const Node& node : nodes_) {
    json.object().field("name", node.name).field("op", node.schema->name);
    json.field("text", node.attributes.str()).key("attributes").object();  // the text has infinities and NaN, too
    for (const auto& [key, attribute] : node.attributes) json.field(key.text(), attribute);
    json.end().key("inputs");
    names(node.inputs);
    json.key("outputs").list();
    for (ValueId id : node.outputs) {
      json.object();
      describe(value(id));
      json.end();
    }
    json.end().end();
  }
  json.end().key("outputs").list();
  for (const GraphOutput& output : outputs_) {
    if (output.kept >= 0) continue;
    json.object().field("name", output.name).field("id", output.value).field("value", value(output.value).name);
    json.field("layout", output.layout ? output.layout->str() : std::string("any")).end();
  }
  json.end().end();
  return json.str();
}

// ---- rewriting ----

void Graph::rewrite(size_t index, const Schema& schema, const Attributes& attributes,
                    const std::vector<ValueId>& inputs, const std::string& name) {
  Node& node = nodes_[index];
  Node changed = node;
  changed.late.clear();
  note_rewritten();
  if (!name.empty()) changed.name = name;
  changed.schema = &schema;
  changed.attributes = attributes;
  changed.inputs = inputs;
  while (!changed.inputs.empty() && changed.inputs.back() == kNoValue) changed.inputs.pop_back();
  for (ValueId id : changed.inputs)
    require(id == kNoValue || value(id).node < int32_t(index), Code::internal, "graph: rewriting node \"", node.name,
            "\": input ", id == kNoValue ? "" : value(id).name, " is made after it");
  const Op made = op(changed);
  require(made.outputs.size() == node.outputs.size(), Code::internal, "graph: rewriting node \"", node.name,
          "\" changes the number of its results");
  for (size_t k = 0; k < made.outputs.size(); ++k) {
    const TensorDesc& before = value(node.outputs[k]).desc;
    require(made.outputs[k].shape == before.shape && made.outputs[k].dtype == before.dtype, Code::internal,
            "graph: rewriting node \"", node.name, "\" turns ", type_text(before), " into ",
            type_text(made.outputs[k]));
  }
  changed.attributes = with_listed_post_ops(attributes, made);
  node = std::move(changed);
}

ValueId Graph::resolved(ValueId id) {
  if (forward_.empty() || id == kNoValue) return id;
  ValueId end = id;
  while (size_t(end) < forward_.size() && forward_[size_t(end)] != kNoValue) end = forward_[size_t(end)];
  while (id != end) {
    const ValueId next = forward_[size_t(id)];
    forward_[size_t(id)] = end;
    id = next;
  }
  return end;
}

void Graph::redirect(ValueId from, ValueId to) {
  const TensorDesc &a = value(from).desc, &b = value(to).desc;
  require(a.shape == b.shape && a.dtype == b.dtype, Code::internal, "graph: redirecting ", value(from).name, " (",
          type_text(a), ") to ", value(to).name, " (", type_text(b), ")");
  if (forward_.size() < values_.size()) forward_.resize(values_.size(), kNoValue);
  to = resolved(to);
  require(to != from, Code::internal, "graph: ", value(from).name, " is redirected to itself");
  forward_[size_t(from)] = to;
}

std::vector<ValueId> Graph::insert(size_t before, const Schema& schema, const Attributes& attributes,
                                   const std::vector<ValueId>& inputs, const std::string& name) {
  inserted_.push_back({before, make_node(schema, attributes, inputs, name, kInserted - int32_t(inserted_.size()))});
  return inserted_.back().node.outputs;
}

// Nodes are no longer where they were.
void Graph::note_rewritten() {
  rewritten_ = true;
  fixed_ = fixed_ || !derived_.empty();
  derived_.clear();
}

size_t Graph::tidy() {
  note_rewritten();
  // Insertions: before the same node in the order in which they were asked for.
  std::vector<Node> merged;
  merged.reserve(nodes_.size() + inserted_.size());
  std::stable_sort(inserted_.begin(), inserted_.end(),
                   [](const Inserted& a, const Inserted& b) { return a.before < b.before; });
  size_t next = 0;
  for (size_t i = 0; i <= nodes_.size(); ++i) {
    for (; next < inserted_.size() && (inserted_[next].before <= i || i == nodes_.size()); ++next)
      merged.push_back(std::move(inserted_[next].node));
    if (i < nodes_.size()) merged.push_back(std::move(nodes_[i]));
  }
  inserted_.clear();
  for (Node& node : merged)
    for (ValueId& id : node.inputs) id = resolved(id);
  for (GraphOutput& output : outputs_) {
    output.value = resolved(output.value);
    if (output.kept >= 0) kept_[size_t(output.kept)].update = output.value;
  }
  forward_.clear();

  const Used used = used_for(outputs_, merged, values_.size());
  nodes_.clear();
  for (size_t i = 0; i < merged.size(); ++i) {
    if (used.nodes[i]) {
      for (ValueId id : merged[i].outputs) values_[size_t(id)].node = int32_t(nodes_.size());
      nodes_.push_back(std::move(merged[i]));
    } else {
      for (ValueId id : merged[i].outputs) values_[size_t(id)].node = -1;
    }
  }
  for (size_t i = 0; i < values_.size(); ++i)
    if (values_[i].constant && !used.values[i]) values_[i].constant = nullptr;
  return merged.size() - nodes_.size();
}

}  // namespace pl
