#include "ops/gradient.h"

namespace pl {

Attributes attributes_of(std::initializer_list<std::pair<const char*, AttributeValue>> items) {
  Attributes attributes;
  for (const auto& [key, value] : items) attributes.set(key, value);
  return attributes;
}

Derivation::Value Derivation::make(const std::string& name, const Attributes& attributes,
                                   const std::vector<Value>& inputs) {
  const std::vector<Value> results = add(name, attributes, inputs);
  require(results.size() == 1, Code::internal, name, ": has ", results.size(), " results in the gradient of ",
          op().schema->name, ", expected 1");
  return results[0];
}

Derivation::Value Derivation::pointwise(const std::string& expressions, const std::vector<Value>& inputs,
                                        const std::vector<double>& scalars) {
  Attributes attributes = attributes_of({{"expressions", expressions}});
  if (!scalars.empty()) attributes.set("scalars", scalars);
  return make("pointwise", attributes, inputs);
}

Derivation::Value Derivation::reshaped(Value value, const Dims& shape) {
  if (desc(value).shape == shape) return value;
  return make("reshape", attributes_of({{"shape", shape.vector()}}), {value});
}

Derivation::Value Derivation::summed(Value value, const std::vector<int64_t>& dims, bool keepdim) {
  return make("sum", attributes_of({{"dim", dims}, {"keepdim", keepdim}}), {value});
}

Derivation::Value Derivation::summed_to(Value value, const Dims& shape) {
  const Dims from = desc(value).shape;
  if (from == shape) return value;
  std::vector<int64_t> dims;
  const int more = from.size() - shape.size();
  for (int i = 0; i < from.size(); ++i)
    if (i < more || shape[i - more] != from[i]) dims.push_back(i);
  return reshaped(dims.empty() ? value : summed(value, dims, true), shape);
}

Derivation::Value Derivation::expanded(Value value, const Dims& shape) {
  if (desc(value).shape == shape) return value;
  return make("expand", attributes_of({{"shape", shape.vector()}}), {value});
}

}  // namespace pl
