#include "graph/half_precision.h"

#include <algorithm>
#include <map>
#include <utility>

#include "dispatch/context.h"
#include "dispatch/runner.h"
#include "graph/joined_constants.h"
#include "graph/named_ops.h"
#include "graph/phases.h"
#include "ops/op.h"
#include "providers/provider.h"

namespace pl {
namespace {

Attributes to_dtype(DType dtype) {
  Attributes attributes;
  attributes.set(attr::dtype, std::string(name_of(dtype)));
  return attributes;
}

// Rebuilds a graph with values of some dtypes held as another between inputs and outputs, which keep theirs.
class Retyper {
 public:
  Retyper(const Graph& graph, Context& context, const char* why)
      : old_(graph),
        context_(context),
        why_(why),
        cast_(*find_schema("cast")),
        appends_(appends(graph)),
        places_(graph.values().size(), kNoValue) {}
  virtual ~Retyper() = default;

  Graph run() {
    for (const GraphInput& input : old_.inputs()) {
      const Value& value = old_.value(input.value);
      places_[size_t(input.value)] = made_.input(value.name, value.desc, input.axes, input.pinned);
    }
    begin();
    for (size_t i = 0; i < old_.nodes().size(); ++i) add(old_.node(i), keeps(i) || appends_[i]);
    for (const GraphOutput& output : old_.outputs())
      made_.output(in_dtype(output.value, old_.value(output.value).desc.dtype), output.name, output.layout);
    made_.adopt_kept(old_, places_);
    return std::move(made_);
  }

 protected:
  // The dtype that values of this one are held as.
  virtual DType held(DType dtype) const = 0;
  // Of a node whose inputs are held so; `from` is what its first input is held as, of casts.
  virtual Attributes attributes_of(const Node& node, DType from) const = 0;
  // Whether a node computes on what it was given.
  virtual bool keeps([[maybe_unused]] size_t node) const { return false; }

  // Before the first node.
  virtual void begin() {}

  bool is_cast(const Node& node) const { return node.schema == &cast_; }
  // The attributes of a node, with the dtype that its results are held as where it is told that of its results.
  Attributes with_held_dtype(const Node& node) const {
    Attributes attributes = node.attributes;
    if (const std::string* name = attributes.find(attr::dtype))
      attributes.set(attr::dtype, name_of(held(parse_dtype(*name))));
    return attributes;
  }
  const Graph& old_;

  // The value of the new graph for one of the old, in this dtype; casts are made once.
  ValueId in_dtype(ValueId id, DType dtype) {
    if (id == kNoValue) return kNoValue;
    const Value& value = old_.value(id);
    ValueId& known = known_[{id, dtype}];
    if (known != 0) return known - 1;
    ValueId made = kNoValue;
    if (value.constant) {
      const TensorRef& tensor = value.constant;
      const TensorDesc wanted = TensorDesc::dense(dtype, tensor->desc().shape, tensor->desc().layout);
      made = made_.constant(value.name, tensor->desc().dtype == dtype ? tensor : converted(tensor, wanted));
    } else {
      made = places_[size_t(id)];
      if (made_.value(made).desc.dtype != dtype)
        made = made_.add(cast_, to_dtype(dtype), {made}, concat(value.name, ".", name_of(dtype)))[0];
    }
    known = made + 1;
    return made;
  }

 private:
  // Kept with the tensor, for other sizes.
  TensorRef converted(const TensorRef& tensor, const TensorDesc& wanted) {
    Device& host = context_.host();
    if (const TensorRef known = tensor->find_copy(wanted, host)) return known;
    const TensorRef source = in_memory(context_, tensor);
    const TensorRef made = context_.runner().convert(source, host, wanted, "weights", why_, source == tensor, true);
    if (source != tensor) tensor->add_copy(made, tensor->buffer()->version());
    return made;
  }
  // By node, whether it makes what is appended to a kept value: in another dtype all that is kept would be cast.
  static std::vector<bool> appends(const Graph& graph) {
    std::vector<bool> found(graph.nodes().size(), false);
    for (const KeptValue& kept : graph.kept()) {
      const int32_t node = kept.appended ? graph.value(kept.update).node : -1;
      if (node >= 0) found[size_t(node)] = true;
    }
    return found;
  }

  // What a value of the old graph is in the new one.
  DType now(ValueId id) const {
    if (id == kNoValue) return DType::f32;
    return old_.is_constant(id) ? old_.value(id).desc.dtype : made_.value(places_[size_t(id)]).desc.dtype;
  }

  // What an input is held as; statistics, which have a dtype of their own, stay as they are.
  DType held_by(const Node& node, size_t input, DType dtype) const {
    const InputDTypes& rule = node.schema->input_parameter(int(input)).dtypes;
    return rule.like.empty() && !rule.of.has(held(dtype)) ? dtype : held(dtype);
  }

  // An input that need not be of the dtype of another one is taken as it is: weights of norms, gradients by steps.
  bool takes_as_it_is(const Node& node, size_t input) const {
    const InputDTypes& rule = node.schema->input_parameter(int(input)).dtypes;
    return !rule.like.empty() && rule.of.has(now(node.inputs[input]));
  }

  void add(const Node& node, bool keeps) {
    std::vector<ValueId> outputs;
    if (is_cast(node) && !keeps) {  // of its input as it is: what was counted, indices say, keeps its 24 bits
      const DType from = now(node.inputs[0]);
      outputs = made_.add(cast_, attributes_of(node, from), {in_dtype(node.inputs[0], from)}, node.name);
    } else {
      const Attributes attributes = attributes_of(node, DType::f32);
      const bool hold = !keeps && may_hold(node, attributes);
      std::vector<ValueId> inputs;
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        const ValueId id = node.inputs[k];
        const DType dtype = id == kNoValue ? DType::f32 : old_.value(id).desc.dtype;
        inputs.push_back(in_dtype(id, takes_as_it_is(node, k) ? now(id) : hold ? held_by(node, k, dtype) : dtype));
      }
      outputs = made_.add(*node.schema, hold ? attributes : node.attributes, inputs, node.name);
    }
    for (size_t k = 0; k < outputs.size(); ++k) places_[size_t(node.outputs[k])] = outputs[k];
  }

  // Whether the schema's rules admit the arguments held so, and give results of their dtypes or of those that they are
  // held as.
  bool may_hold(const Node& node, const Attributes& attributes) const {
    Op op;
    op.schema = node.schema;
    op.attributes = complete_attributes(*node.schema, attributes);
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const ValueId id = node.inputs[k];
      op.inputs.push_back(id == kNoValue ? TensorDesc() : old_.value(id).desc);
      op.inputs.back().dtype = held_by(node, k, op.inputs.back().dtype);
    }
    if (!takes_dtypes(op)) return false;
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      const DType was = old_.value(node.outputs[k]).desc.dtype, is = result_dtype(op, int(k));
      if (is != was && is != held(was)) return false;
    }
    return true;
  }

  Context& context_;
  const char* why_;  // for the profile
  const Schema& cast_;
  const std::vector<bool> appends_;
  Graph made_;
  std::vector<ValueId> places_;                         // by value of the old graph; kNoValue: a constant, or not yet
  std::map<std::pair<ValueId, DType>, ValueId> known_;  // plus 1; 0: not yet
};

constexpr int64_t kFew = 1024;  // elements of a tensor that may as well be f32

bool is_small(const Graph& graph, const Node& node) {
  for (const auto* values : {&node.inputs, &node.outputs})
    for (ValueId id : *values)
      if (id != kNoValue && graph.value(id).desc.elements() > kFew) return false;
  return true;
}

// By node of a program that trains, whether it computes in f32: updates, and what lies between the last product of the
// forward pass and the first one of the backward pass, which are the loss and its gradient.  So do small nodes between
// the backward pass and updates: norms of gradients, their sums of squares.  Views of what the forward pass made in
// half precision, and for products of what it was given, are no part of the loss's gradient.
std::vector<bool> exact_nodes(const Graph& graph) {
  const std::vector<Phase> phases = phases_of(graph);
  std::vector<bool> exact(graph.nodes().size(), false);
  if (phases.empty()) return exact;
  std::vector<bool> leads(graph.values().size(), false);  // to a product of the forward pass
  for (size_t i = graph.nodes().size(); i-- > 0;) {
    const Node& node = graph.node(i);
    if (phases[i] != Phase::forward) continue;
    bool to_product = node.schema->products;
    for (ValueId id : node.outputs) to_product = to_product || leads[size_t(id)];
    exact[i] = !to_product;
    for (ValueId id : node.inputs)
      if (to_product && id != kNoValue) leads[size_t(id)] = true;
  }
  std::vector<bool> before_product(graph.values().size(), false);  // of the backward pass
  for (size_t i = graph.nodes().size(); i-- > 0;) {
    const Node& node = graph.node(i);
    if (phases[i] != Phase::backward) continue;
    bool to_product = node.schema->products;
    for (ValueId id : node.outputs) to_product = to_product || before_product[size_t(id)];
    exact[i] = !to_product && is_small(graph, node);
    for (ValueId id : node.inputs)
      if (to_product && id != kNoValue) before_product[size_t(id)] = true;
  }
  std::vector<bool> follows(graph.values().size(), false);  // from a product of the backward pass
  // Made by the forward pass in half precision, or a view of such.
  std::vector<bool> half(graph.values().size(), false);
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.node(i);
    if (phases[i] == Phase::update) exact[i] = true;
    if (phases[i] == Phase::forward)
      for (ValueId id : node.outputs) half[size_t(id)] = !exact[i];
    if (phases[i] != Phase::backward) continue;
    bool views = false;
    if (node.schema->view) {
      const ValueId x = node.inputs[0];
      views = half[size_t(x)] || (graph.value(x).node < 0 && before_product[size_t(node.outputs[0])]);
    }
    bool from_product = node.schema->products;
    for (ValueId id : node.inputs) from_product = from_product || (id != kNoValue && follows[size_t(id)]);
    exact[i] = exact[i] || !(from_product || views);
    for (ValueId id : node.outputs) follows[size_t(id)] = from_product, half[size_t(id)] = views;
  }
  return exact;
}

class Halver final : public Retyper {
 public:
  Halver(const Graph& graph, Context& context, DType half)
      : Retyper(graph, context, "half precision"), half_(half), exact_(exact_nodes(graph)) {}

 private:
  DType held(DType dtype) const override { return dtype == DType::f32 ? half_ : dtype; }
  bool keeps(size_t node) const override { return exact_[node]; }
  // Casts, and ops told the dtype of their results where they read f32: what is made of integers, and random numbers,
  // keep their 24 bits.
  Attributes attributes_of(const Node& node, DType from) const override {
    const bool reads =
        is_cast(node) ? is_floating(from) : std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) {
          return id != kNoValue && old_.value(id).desc.dtype == DType::f32;
        });
    return reads ? with_held_dtype(node) : node.attributes;
  }
  // Parameters that products read are made narrow side by side, so that few launches do it.
  void begin() override {
    const auto consumers = old_.consumers();
    for (const KeptValue& kept : old_.kept()) {
      const Value& value = old_.value(kept.value);
      if (!kept.parameter || value.desc.dtype != DType::f32) continue;
      bool read = false;
      for (int32_t n : consumers[size_t(kept.value)])
        read = read || (old_.node(size_t(n)).schema->products && !exact_[size_t(n)]);
      if (read) in_dtype(kept.value, half_);
    }
  }

  DType half_;
  std::vector<bool> exact_;
};

class Widener final : public Retyper {
 public:
  Widener(const Graph& graph, Context& context, const std::vector<DType>& dtypes)
      : Retyper(graph, context, "widened to f32"), dtypes_(dtypes) {}

 private:
  DType held(DType dtype) const override {
    return std::find(dtypes_.begin(), dtypes_.end(), dtype) == dtypes_.end() ? dtype : DType::f32;
  }
  // Casts, and the other ops that are told the dtype of their results.  But random numbers are those of their dtype: in
  // f32 they are others, which lie closer to the end of an interval than its rounding lets them.
  Attributes attributes_of(const Node& node, DType) const override {
    return is_random(node) ? node.attributes : with_held_dtype(node);
  }

  const std::vector<DType>& dtypes_;
};

}  // namespace

Graph in_half_precision(const Graph& graph, Context& context, DType half) { return Halver(graph, context, half).run(); }

namespace {
bool multiplies(const Context& context, const Device& device, DType dtype) {
  const auto& providers = context.providers();
  return std::any_of(providers.begin(), providers.end(), [&](const auto& provider) {
    return provider->serves(device) && provider->multiplies(device, dtype);
  });
}
}  // namespace

// Processors that multiply f16 have no gradients of convolutions in it: a step took six times that of f32.
bool gains_by(const Context& context, const Device& device, DType half) {
  return device.traits().halves || (half == DType::bf16 && multiplies(context, device, half));
}

std::vector<DType> dtypes_to_widen(const Graph& graph, const Context& context, const Device& device) {
  std::vector<DType> found;
  for (DType dtype : {DType::f16, DType::bf16}) {
    const auto& values = graph.values();
    const bool occurs =
        std::any_of(values.begin(), values.end(), [&](const Value& value) { return value.desc.dtype == dtype; });
    if (occurs && !device.traits().halves && !multiplies(context, device, dtype)) found.push_back(dtype);
  }
  return found;
}

Graph widened(const Graph& graph, Context& context, const std::vector<DType>& dtypes) {
  return Widener(graph, context, dtypes).run();
}

}  // namespace pl
