// quantize_linear and dequantize_linear: floats as small integers, with a scale and a zero point, and back.
#include "ops/quantized.h"

namespace pl {
namespace {

// Scale and zero point: one of each, or one for each index of the dimension `axis`.
void check_parameters(Op& op) {
  const TensorDesc &x = op.in(0), &scale = op.in(1);
  const bool single = scale.rank() <= 1 && scale.elements() == 1;
  // The axis has no meaning for a single scale; ONNX's default of 1 is beyond a vector then.
  op.attributes.set(attr::axis,
                    single ? int64_t(0) : normalise_dim(op, attr::axis, op.attributes[attr::axis], x.rank()));
  if (!single) check_shape(op, 1, {x.shape[int(op.attributes[attr::axis])]}, "x along axis, or a single one");
  if (op.has(2))
    check(op, op.in(2).elements() == scale.elements() && op.in(2).rank() <= 1, Code::shape, "zero_point.shape is ",
          op.in(2).shape, ", expected ", scale.shape, " (scale.shape)");
}

void infer_quantize(Op& op) {
  check_parameters(op);
  op.attributes.set(attr::dtype, std::string(name_of(result_dtype(op, 0))));
  add_output(op);
}

void infer_dequantize(Op& op) {
  check_parameters(op);
  add_output(op);
}

// Scales for each index of a dimension do not lie as the op `pointwise` broadcasts.
ElementExpression quantize_expression(const Op& op) {
  const bool single = op.in(1).elements() == 1 && op.in(1).dtype == DType::f32;
  if (!single || op.in(0).dtype == DType::s32) return {};
  return {quantizing_expression(op), {}, true};
}

Schema quantize_linear() {
  Schema schema("quantize_linear", "quantize_linear",
                "Floats as integers of 8 bits.\n\n"
                "y = saturate(round(x / scale) + zero_point), halves rounded to the even integer\n\n"
                "Returns the shape of x, in the dtype of zero_point.\n\nSource: semantics of ONNX's QuantizeLinear.");
  schema.tensor("x", "any shape; f32, f16, bf16 or s32")
      .of({DType::f32, DType::f16, DType::bf16, DType::s32})
      .tensor("scale", "one value, or one for each index of x along axis; f32, f16 or bf16", Role::constant)
      .of(dtypes::floats)
      .optional("zero_point", "as many as scales, u8 or s8; zero without it", Role::constant)
      .of(dtypes::bytes)
      .attribute(attr::axis, int64_t(1), "the dimension that scales are given for")
      .attribute(attr::dtype, None{}, "u8 or s8; None: the dtype of zero_point, u8 without it")
      .result(Result("y").named_by(attr::dtype, dtypes::bytes).like("zero_point").of(DType::u8).shaped("x"));
  restrict_zero_point(schema, "zero_point");
  schema.infer = infer_quantize;
  schema.expression = quantize_expression;
  return schema;
}

Schema dequantize_linear() {
  Schema schema("dequantize_linear", "dequantize_linear",
                "Integers as the floats they stand for.\n\n"
                "y = (x - zero_point) * scale\n\n"
                "Returns the shape of x, in the dtype of scale.\n\nSource: semantics of ONNX's DequantizeLinear.");
  schema.tensor("x", "any shape; u8, s8 or s32")
      .of({DType::u8, DType::s8, DType::s32})
      .tensor("scale", "one value, or one for each index of x along axis; f32, f16 or bf16", Role::constant)
      .of(dtypes::floats)
      .optional("zero_point", "as many as scales, in the dtype of x; zero without it", Role::constant)
      .like("x")
      .attribute(attr::axis, int64_t(1), "the dimension that scales are given for")
      .result(Result("y").like("scale").shaped("x"));
  schema.infer = infer_dequantize;
  schema.expression = quantize_expression;
  return schema;
}

PL_REGISTER_OP(quantize_linear);
PL_REGISTER_OP(dequantize_linear);

}  // namespace

std::string quantizing_expression(const Op& op) {
  if (op.schema->kind == "dequantize_linear") return op.has(2) ? "y0 = (x0 - x2) * x1" : "y0 = x0 * x1";
  const char* limits = op.out().dtype == DType::u8 ? ", 0, 255)" : ", -128, 127)";
  return concat("y0 = clip(round(x0 / x1)", op.has(2) ? " + x2" : "", limits);
}

}  // namespace pl
