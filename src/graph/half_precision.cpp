#include "graph/half_precision.h"

#include <algorithm>
#include <map>
#include <utility>

#include "dispatch/context.h"
#include "dispatch/runner.h"
#include "ops/op.h"
#include "providers/provider.h"

namespace pl {
namespace {

Attributes to_dtype(DType dtype) {
  Attributes attributes;
  attributes.set("dtype", std::string(name_of(dtype)));
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
        places_(graph.values().size(), kNoValue) {}
  virtual ~Retyper() = default;

  Graph run() {
    for (const GraphInput& input : old_.inputs()) {
      const Value& value = old_.value(input.value);
      places_[size_t(input.value)] = made_.input(value.name, value.desc, input.axes, input.pinned);
    }
    for (const Node& node : old_.nodes()) add(node);
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

  bool is_cast(const Node& node) const { return node.schema == &cast_; }
  const Graph& old_;

 private:
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
      made = made_.constant(
          value.name, tensor->desc().dtype == dtype
                          ? tensor
                          : context_.runner().convert(tensor, context_.host(), wanted, "weights", why_, true, true));
    } else {
      made = places_[size_t(id)];
      if (made_.value(made).desc.dtype != dtype)
        made = made_.add(cast_, to_dtype(dtype), {made}, concat(value.name, ".", name_of(dtype)))[0];
    }
    known = made + 1;
    return made;
  }

  // What a value of the old graph is in the new one.
  DType now(ValueId id) const {
    if (id == kNoValue) return DType::f32;
    return old_.is_constant(id) ? old_.value(id).desc.dtype : made_.value(places_[size_t(id)]).desc.dtype;
  }

  void add(const Node& node) {
    std::vector<ValueId> outputs;
    if (is_cast(node)) {  // of its input as it is: what was counted, indices say, keeps its 24 bits
      const DType from = now(node.inputs[0]);
      outputs = made_.add(cast_, attributes_of(node, from), {in_dtype(node.inputs[0], from)}, node.name);
    } else {
      const Attributes attributes = attributes_of(node, DType::f32);
      const bool hold = may_hold(node, attributes);
      std::vector<ValueId> inputs;
      for (ValueId id : node.inputs) {
        const DType dtype = id == kNoValue ? DType::f32 : old_.value(id).desc.dtype;
        inputs.push_back(in_dtype(id, hold ? held(dtype) : dtype));
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
    for (ValueId id : node.inputs) {
      op.inputs.push_back(id == kNoValue ? TensorDesc() : old_.value(id).desc);
      op.inputs.back().dtype = held(op.inputs.back().dtype);
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
  Graph made_;
  std::vector<ValueId> places_;                         // by value of the old graph; kNoValue: a constant, or not yet
  std::map<std::pair<ValueId, DType>, ValueId> known_;  // plus 1; 0: not yet
};

class Halver final : public Retyper {
 public:
  Halver(const Graph& graph, Context& context) : Retyper(graph, context, "half precision") {}

 private:
  DType held(DType dtype) const override { return dtype == DType::f32 ? DType::f16 : dtype; }
  Attributes attributes_of(const Node& node, DType from) const override {
    const bool halve = is_cast(node) && is_floating(from) && old_.value(node.outputs[0]).desc.dtype == DType::f32;
    return halve ? to_dtype(DType::f16) : node.attributes;
  }
};

class Widener final : public Retyper {
 public:
  Widener(const Graph& graph, Context& context, const std::vector<DType>& dtypes)
      : Retyper(graph, context, "widened to f32"), dtypes_(dtypes) {}

 private:
  DType held(DType dtype) const override {
    return std::find(dtypes_.begin(), dtypes_.end(), dtype) == dtypes_.end() ? dtype : DType::f32;
  }
  // Casts, and the other ops that are told the dtype of their results.
  Attributes attributes_of(const Node& node, DType) const override {
    Attributes attributes = node.attributes;
    const AttributeValue* dtype = attributes.find("dtype");
    const auto* name = dtype ? std::get_if<std::string>(dtype) : nullptr;
    if (name) attributes.set("dtype", std::string(name_of(held(parse_dtype(*name)))));
    return attributes;
  }

  const std::vector<DType>& dtypes_;
};

}  // namespace

Graph in_half_precision(const Graph& graph, Context& context) { return Halver(graph, context).run(); }

std::vector<DType> dtypes_to_widen(const Graph& graph, const Context& context, const Device& device) {
  std::vector<DType> found;
  if (device.traits().halves) return found;
  const auto& providers = context.providers();
  for (DType dtype : {DType::f16, DType::bf16}) {
    const auto& values = graph.values();
    const bool occurs =
        std::any_of(values.begin(), values.end(), [&](const Value& value) { return value.desc.dtype == dtype; });
    const bool multiplied = std::any_of(providers.begin(), providers.end(), [&](const auto& provider) {
      return provider->serves(device) && provider->multiplies(device, dtype);
    });
    if (occurs && !multiplied) found.push_back(dtype);
  }
  return found;
}

Graph widened(const Graph& graph, Context& context, const std::vector<DType>& dtypes) {
  return Widener(graph, context, dtypes).run();
}

}  // namespace pl
