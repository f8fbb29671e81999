#include "ops/gradient.h"

namespace pl {

Builder::Value Builder::make(const std::string& name, const Attributes& attributes, const std::vector<Value>& inputs) {
  const std::vector<Value> results = add(name, attributes, inputs);
  require(results.size() == 1, Code::internal, name, ": has ", results.size(), " results, expected 1");
  return results[0];
}

Builder::Value Builder::pointwise(const std::string& expressions, const std::vector<Value>& inputs,
                                  const std::vector<double>& scalars) {
  Attributes attributes{{attr::expressions, expressions}};
  if (!scalars.empty()) attributes.set(attr::scalars, scalars);
  return make("pointwise", attributes, inputs);
}

Builder::Value Builder::reshaped(Value value, const Dims& shape) {
  if (desc(value).shape == shape) return value;
  return make("reshape", Attributes{{attr::shape, shape.vector()}}, {value});
}

Builder::Value Builder::summed(Value value, const std::vector<int64_t>& dims, bool keepdim) {
  return make("sum", Attributes{{attr::dim_ints, dims}, {attr::keepdim, keepdim}}, {value});
}

Builder::Value Builder::summed_to(Value value, const Dims& shape) {
  const Dims from = desc(value).shape;
  if (from == shape) return value;
  std::vector<int64_t> dims;
  const int more = from.size() - shape.size();
  for (int i = 0; i < from.size(); ++i)
    if (i < more || shape[i - more] != from[i]) dims.push_back(i);
  return reshaped(dims.empty() ? value : summed(value, dims, true), shape);
}

Builder::Value Builder::expanded(Value value, const Dims& shape) {
  if (desc(value).shape == shape) return value;
  return make("expand", Attributes{{attr::shape, shape.vector()}}, {value});
}

}  // namespace pl
