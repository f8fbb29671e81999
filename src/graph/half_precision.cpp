#include "graph/half_precision.h"

#include <map>
#include <utility>

#include "dispatch/context.h"
#include "dispatch/runner.h"
#include "ops/op.h"

namespace pl {
namespace {

class Halver {
 public:
  Halver(const Graph& graph, Context& context)
      : old_(graph), context_(context), cast_(*find_schema("cast")), places_(graph.values().size(), kNoValue) {}

  Graph run() {
    for (const GraphInput& input : old_.inputs()) {
      const Value& value = old_.value(input.value);
      places_[size_t(input.value)] = made_.input(value.name, value.desc, input.axes, input.pinned);
    }
    for (const Node& node : old_.nodes()) add(node);
    for (const GraphOutput& output : old_.outputs())
      made_.output(in_dtype(output.value, old_.value(output.value).desc.dtype), output.name, output.layout);
    return std::move(made_);
  }

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
      made = made_.constant(value.name, tensor->desc().dtype == dtype
                                            ? tensor
                                            : context_.runner().convert(tensor, context_.device("cpu"), wanted,
                                                                        "weights", "half precision", true, true));
    } else {
      made = places_[size_t(id)];
      if (made_.value(made).desc.dtype != dtype)
        made = made_.add(cast_, attributes_of(dtype), {made}, concat(value.name, ".", name_of(dtype)))[0];
    }
    known = made + 1;
    return made;
  }

  static Attributes attributes_of(DType dtype) {
    Attributes attributes;
    attributes.set("dtype", std::string(name_of(dtype)));
    return attributes;
  }

  // The node's inputs, those of dtype f32 as `floats`.
  std::vector<ValueId> inputs_of(const Node& node, DType floats) {
    std::vector<ValueId> inputs;
    for (ValueId id : node.inputs) {
      const DType dtype = id == kNoValue ? DType::f32 : old_.value(id).desc.dtype;
      inputs.push_back(in_dtype(id, dtype == DType::f32 ? floats : dtype));
    }
    return inputs;
  }

  void add(const Node& node) {
    std::vector<ValueId> outputs;
    if (node.schema == &cast_) {
      // Numbers that were counted, indices say, keep their 24 bits.
      const ValueId from = node.inputs[0];
      const bool constant = old_.is_constant(from);
      const DType is = constant ? old_.value(from).desc.dtype : made_.value(places_[size_t(from)]).desc.dtype;
      const bool halve = is_floating(is) && old_.value(node.outputs[0]).desc.dtype == DType::f32;
      outputs = made_.add(cast_, halve ? attributes_of(DType::f16) : node.attributes, {in_dtype(from, is)}, node.name);
    } else if (!add_half(node, outputs)) {
      outputs = made_.add(*node.schema, node.attributes, inputs_of(node, DType::f32), node.name);
    }
    for (size_t k = 0; k < outputs.size(); ++k) places_[size_t(node.outputs[k])] = outputs[k];
  }

  // False where one of the arguments cannot be f16, or where a result that was no f32 would become another dtype.
  bool add_half(const Node& node, std::vector<ValueId>& outputs) {
    try {
      outputs = made_.add(*node.schema, node.attributes, inputs_of(node, DType::f16), node.name);
    } catch (const Error&) {
      return false;
    }
    for (size_t k = 0; k < outputs.size(); ++k) {
      const DType was = old_.value(node.outputs[k]).desc.dtype, is = made_.value(outputs[k]).desc.dtype;
      if (is != was && !(was == DType::f32 && is == DType::f16)) return false;
    }
    return true;
  }

  const Graph& old_;
  Context& context_;
  const Schema& cast_;
  Graph made_;
  std::vector<ValueId> places_;                         // by value of the old graph; kNoValue: a constant, or not yet
  std::map<std::pair<ValueId, DType>, ValueId> known_;  // plus 1; 0: not yet
};

}  // namespace

Graph in_half_precision(const Graph& graph, Context& context) {
  Graph made = Halver(graph, context).run();
  made.tidy();  // what was tried and not kept
  return made;
}

}  // namespace pl
