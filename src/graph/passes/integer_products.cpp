#include "graph/passes/integer_products.h"

#include <algorithm>
#include <limits>

#include "graph/passes/constants.h"
#include "graph/passes/costs.h"
#include "ops/quantized.h"

namespace pl::passes {
namespace {

std::string text_of(DType dtype) { return std::string(name_of(dtype)); }

// Weights less their zero points, where those are in the range of s8.
std::optional<std::vector<double>> centred(const IntegerProduct& product, const Dims& shape, std::vector<double> values,
                                           const std::vector<double>& zeros) {
  const size_t count = zeros.size();
  // The channel of an element: the first index of a convolution's weight, the last one of a matrix.
  const size_t inner = count > 1 && product.conv ? values.size() / size_t(shape[0]) : 1;
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] -= zeros[count > 1 ? i / inner % count : 0];
    if (values[i] < -128 || values[i] > 127) return std::nullopt;
  }
  return values;
}

// u8 as s8, the least number the least one.
ValueId as_signed(Rewriter& rewriter, Context& context, ValueId id, size_t before, const std::string& name) {
  if (rewriter.is_constant(id)) {
    std::vector<double> values = numbers_of(rewriter.constant(id));
    for (double& value : values) value -= 128;
    return rewriter.add_constant(name, tensor_of(context, DType::s8, rewriter.shape(id), values));
  }
  const Attributes attributes{{attr::expressions, std::string("y0 = x0 - s0")},
                              {attr::scalars, std::vector<double>{128}},
                              {attr::dtype, text_of(DType::s8)}};
  return rewriter.insert(before, "pointwise", attributes, {id}, name);
}

// Whether no kernel takes the zero point of the weights, and it can be applied to the sums of x instead.
bool needs_sums_of_x(const Rewriter& rewriter, const IntegerProduct& product) {
  if (product.weight_zero == kNoValue) return false;
  if (!product.conv) return rewriter.desc(product.weight_zero).elements() != 1;
  // Sums of a group of channels fit the group's results: all, or one for each.
  const int64_t channels = rewriter.shape(product.weight)[0], groups = product.groups;
  return groups == 1 || groups == channels;
}

}  // namespace

std::string IntegerProduct::schema() const {
  return conv ? scaled() ? "qlinear_conv" : "conv_integer" : scaled() ? "qlinear_matmul" : "matmul_integer";
}

std::vector<ValueId> IntegerProduct::inputs() const {
  if (!scaled()) return {x, weight, x_zero, weight_zero};
  return {x,           weight, x_scale, weight_scale, y_scale,      x_zero,
          weight_zero, y_zero, bias,    addend,       addend_scale, addend_zero};
}

IntegerProduct integer_product(Rewriter& rewriter, size_t index) {
  const Node& node = rewriter.node(index);
  const QuantizedInputs in(rewriter.op(index));
  const auto at = [&](int i) { return i < 0 ? kNoValue : rewriter.input(node, size_t(i)); };
  IntegerProduct product;
  product.conv = takes_attribute(*node.schema, attr::groups);
  product.attributes = node.attributes;
  if (product.conv) product.groups = rewriter.op(index).attributes[attr::groups];
  product.dtype = rewriter.desc(node.outputs[0]).dtype;
  product.x = at(0), product.weight = at(1);
  product.x_scale = at(in.x_scale), product.weight_scale = at(in.weight_scale), product.y_scale = at(in.y_scale);
  product.x_zero = at(in.x_zero), product.weight_zero = at(in.weight_zero), product.y_zero = at(in.y_zero);
  product.bias = at(in.bias);
  product.addend = at(in.addend), product.addend_scale = at(in.addend_scale), product.addend_zero = at(in.addend_zero);
  return product;
}

Op op_of(const Rewriter& rewriter, const IntegerProduct& product, bool centred) {
  std::vector<TensorDesc> descs = rewriter.plain_descs(product.inputs());
  const size_t zero = product.scaled() ? 6 : 3;
  if (descs[1].dtype == DType::u8) {
    descs[1] = TensorDesc::dense(DType::s8, descs[1].shape);
    descs[zero] = TensorDesc::dense(DType::s8, descs[zero].present ? descs[zero].shape : Dims());
  }
  if (centred) descs[zero] = TensorDesc();
  return make_op(schema_of(product.schema()), product.attributes, descs);
}

void centre_weights(Rewriter& rewriter, Context& context, IntegerProduct& product, size_t before) {
  const DType dtype = rewriter.desc(product.weight).dtype;
  const ValueId zero = product.weight_zero;
  const std::string name = rewriter.graph().value(product.weight).name;
  if (rewriter.is_constant(product.weight) && (zero == kNoValue || rewriter.is_constant(zero))) {
    const std::vector<double> zeros = zero == kNoValue ? std::vector<double>{0} : numbers_of(rewriter.constant(zero));
    const bool none = std::all_of(zeros.begin(), zeros.end(), [](double value) { return value == 0; });
    if (none && dtype == DType::s8) {
      product.weight_zero = kNoValue;
      return;
    }
    const Dims& shape = rewriter.shape(product.weight);
    if (const auto values = centred(product, shape, numbers_of(rewriter.constant(product.weight)), zeros)) {
      product.weight = rewriter.add_constant(name + ".centred", tensor_of(context, DType::s8, shape, *values));
      product.weight_zero = kNoValue;
      return;
    }
  }
  if (dtype == DType::s8) return;
  product.weight = as_signed(rewriter, context, product.weight, before, name + ".signed");
  product.weight_zero = zero == kNoValue
                            ? rewriter.add_constant(name + ".zero", tensor_of(context, DType::s8, {}, {-128}))
                            : as_signed(rewriter, context, zero, before, name + ".zero");
}

IntegerProduct without_weight_zero(const IntegerProduct& product) {
  IntegerProduct made = product;
  made.weight_zero = made.y_scale = made.y_zero = kNoValue;
  made.addend = made.addend_scale = made.addend_zero = kNoValue;
  set_post_ops(made.attributes, {});
  if (made.scaled()) made.attributes.set(attr::dtype, text_of(made.dtype = DType::f32));
  return made;
}

IntegerProduct sums_of_x(Rewriter& rewriter, Context& context, const IntegerProduct& product) {
  IntegerProduct made = without_weight_zero(product);
  made.bias = kNoValue;
  const std::string name = rewriter.graph().value(product.weight).name;
  if (made.scaled()) made.weight_scale = rewriter.add_constant(name + ".one", tensor_of(context, DType::f32, {}, {1}));
  Dims shape = rewriter.shape(product.weight);
  if (product.conv)
    shape[0] = product.groups;
  else
    shape = {shape[shape.size() - 2], 1};
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  made.weight = rewriter.add_constant(name + ".ones",
                                      tensor_of(context, DType::s8, shape, std::vector<double>(size_t(count), 1)));
  return made;
}

ZeroPointCost zero_point_cost(Rewriter& rewriter, Context& context, Device& device, const IntegerProduct& product) {
  const bool possible = product.weight_zero != kNoValue && product.addend == kNoValue;
  const bool needed = possible && needs_sums_of_x(rewriter, product);
  const double whole =
      needed ? std::numeric_limits<double>::infinity() : cost_of(context, device, op_of(rewriter, product));
  if (!possible || (product.conv && !needed)) return {false, whole};
  // The real result is written, read and corrected, by one op with what follows as far as that is elementwise.  With
  // the cost of one pass MobileNetV3-large with u8 weights took 10.4 ms, with two 7.5; EfficientNet-B0 15 and 13.4.
  const IntegerProduct parts[] = {without_weight_zero(product), sums_of_x(rewriter, context, product)};
  const TensorDesc real = TensorDesc::dense(DType::f32, op_of(rewriter, parts[0]).out().shape);
  double apart = 2 * cost_of(context, device, make_op(schema_of("mul"), {}, {real, real}));
  for (const IntegerProduct& each : parts) apart += cost_of(context, device, op_of(rewriter, each));
  return apart < whole ? ZeroPointCost{true, apart} : ZeroPointCost{false, whole};
}

void rewrite_as(Rewriter& rewriter, Context& context, size_t index, const IntegerProduct& product, bool by_sums,
                const std::string& name) {
  if (!by_sums) {
    rewriter.rewrite(index, product.schema(), product.attributes, product.inputs(), name);
    return;
  }
  const auto inserted = [&](const char* op, const Attributes& attributes, const std::vector<ValueId>& inputs,
                            const char* suffix) {
    return rewriter.insert(index, op, attributes, inputs, name + suffix);
  };
  const DType dtype = product.scaled() ? DType::f32 : DType::s32;
  const auto insert_product = [&](const IntegerProduct& each, const char* suffix) {
    return rewriter.insert(index, each.schema(), each.attributes, each.inputs(), name + suffix);
  };
  const ValueId y = insert_product(without_weight_zero(product), "");
  const ValueId sums = insert_product(sums_of_x(rewriter, context, product), ".sums");
  const Attributes cast{{attr::dtype, text_of(dtype)}};
  ValueId factor = inserted("cast", cast, {product.weight_zero}, ".zero");
  if (product.scaled()) factor = inserted("mul", {}, {factor, product.weight_scale}, ".zero");
  const int64_t channels = rewriter.desc(factor).elements();
  if (product.conv && channels > 1) {
    std::vector<int64_t> shape(size_t(rewriter.shape(product.weight).size() - 1), 1);
    shape[0] = channels;
    factor = inserted("reshape", Attributes{{attr::shape, shape}}, {factor}, ".zero");
  }
  const ValueId correction = inserted("mul", {}, {sums, factor}, ".correction");
  const PostOps& steps = post_ops_of(product.attributes);
  if (steps.empty() && !product.rounds()) {
    rewriter.rewrite(index, "sub", {}, {y, correction}, name);
    return;
  }
  ValueId real = inserted("sub", {}, {y, correction}, ".real");
  for (size_t k = 0; k < steps.size(); ++k) {
    if (k + 1 == steps.size() && !product.rounds()) return rewrite_as_step(rewriter, index, steps[k], real);
    const StepCall call = call_of(steps[k]);
    real = inserted(call.op.c_str(), call.attributes, {real}, ".real");
  }
  const Attributes rounded{{attr::dtype, text_of(product.dtype)}};
  rewriter.rewrite(index, "quantize_linear", rounded, {real, product.y_scale, product.y_zero}, name);
}

}  // namespace pl::passes
