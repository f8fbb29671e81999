// qlinear_conv, conv_integer, qlinear_matmul and matmul_integer.
#include "ops/quantized.h"

#include "ops/spatial.h"

namespace pl {

QuantizedInputs::QuantizedInputs(const Op& op) {
  const bool conv = op.schema->kind == "quantized_conv";
  const auto find = [&](const char* conv_name, const char* matmul_name) {
    const int i = op.schema->input_index(conv ? conv_name : matmul_name);
    return i >= 0 && op.has(i) ? i : -1;
  };
  x_scale = find("x_scale", "a_scale");
  weight_scale = find("weight_scale", "b_scale");
  y_scale = find("y_scale", "y_scale");
  x_zero = find("x_zero_point", "a_zero_point");
  weight_zero = find("weight_zero_point", "b_zero_point");
  y_zero = find("y_zero_point", "y_zero_point");
  bias = find("bias", "bias");
}

namespace {

// One value, or with `columns` one for each output channel or column.
void check_parameter(const Op& op, int input, int64_t columns, const char* why) {
  if (input < 0) return;
  const TensorDesc& desc = op.in(input);
  const bool single = desc.rank() <= 1 && desc.elements() == 1;
  check(op, single || (columns > 0 && desc.shape == Dims{columns}), Code::shape, op.schema->input_parameter(input).name,
        ".shape is ", desc.shape, ", expected one value",
        columns > 0 ? concat(" or ", columns, " (", why, ")") : std::string());
}

// Everything but shapes of x and weight; returns the result's dtype.
DType check_quantization(Op& op, int64_t columns, const char* why) {
  for (int i : {0, 1}) check_dtype(op, i, {DType::u8, DType::s8});
  const QuantizedInputs in(op);
  for (int i : {in.x_scale, in.weight_scale, in.y_scale})
    if (i >= 0) check_dtype(op, i, {DType::f32});
  if (in.x_zero >= 0) check_same_dtype(op, in.x_zero, 0);
  if (in.weight_zero >= 0) check_same_dtype(op, in.weight_zero, 1);
  for (int i : {in.x_scale, in.y_scale, in.x_zero, in.y_zero}) check_parameter(op, i, 0, "");
  for (int i : {in.weight_scale, in.weight_zero}) check_parameter(op, i, columns, why);
  if (!in.scaled()) return DType::s32;
  if (in.y_zero >= 0) check_dtype(op, in.y_zero, {DType::u8, DType::s8});
  DType dtype = in.y_zero >= 0 ? op.in(in.y_zero).dtype : op.in(0).dtype;
  if (!op.attributes.is_none("dtype")) {
    dtype = parse_dtype(op.attributes.text("dtype"));
    check(op, dtype == DType::u8 || dtype == DType::s8, Code::unsupported, "dtype is ", name_of(dtype),
          ", expected u8 or s8");
    check(op, in.y_zero < 0 || op.in(in.y_zero).dtype == dtype, Code::invalid_argument, "y_zero_point.dtype is ",
          in.y_zero < 0 ? "" : name_of(op.in(in.y_zero).dtype), ", expected ", name_of(dtype), " (dtype)");
  }
  op.attributes.set("dtype", std::string(name_of(dtype)));
  return dtype;
}

void infer_conv(Op& op) {
  check_rank(op, 0, 3, 5);
  check_rank(op, 1, op.in(0).rank(), op.in(0).rank());
  const int spatial = op.in(0).rank() - 2;
  op.attributes.set("spatial", int64_t(spatial));
  const Dims output = convolved_shape(op, spatial);
  const DType dtype = check_quantization(op, output[1], "weight.oc");
  const int bias = QuantizedInputs(op).bias;
  if (bias >= 0) {
    check_dtype(op, bias, {DType::s32});
    check_shape(op, bias, {output[1]}, "weight.oc");
  }
  add_output(op, dtype, output);
}

double conv_flops(const Op& op) {
  double per_output = 2;
  for (int i = 1; i < op.in(1).rank(); ++i) per_output *= double(op.in(1).shape[i]);
  return per_output * double(op.out().elements());
}

void infer_matmul(Op& op) {
  for (int i : {0, 1}) check_rank(op, i, 2, kMaxRank);
  const Dims &a = op.in(0).shape, &b = op.in(1).shape;
  const int ra = a.size(), rb = b.size();
  check(op, a[ra - 1] == b[rb - 2], Code::shape, "b has shape ", b, ", expected ", a[ra - 1],
        " rows (columns of a, which has shape ", a, ")");
  Dims output;
  for (int i = 0; i < std::max(ra, rb) - 2; ++i) {
    const int ia = i - (std::max(ra, rb) - ra), ib = i - (std::max(ra, rb) - rb);
    const int64_t sa = ia < 0 ? 1 : a[ia], sb = ib < 0 ? 1 : b[ib];
    check(op, sa == sb || sa == 1 || sb == 1, Code::shape, "b has shape ", b,
          ", expected batch dimensions that broadcast with those of a, ", a);
    output.push_back(sa == 1 ? sb : sa);
  }
  output.push_back(a[ra - 2]);
  output.push_back(b[rb - 1]);
  add_output(op, check_quantization(op, b[rb - 1], "columns of b"), output);
}

double matmul_flops(const Op& op) {
  return 2.0 * double(op.out().elements()) * double(op.in(0).shape[op.in(0).rank() - 1]);
}

Schema& add_window(Schema& schema) {
  return schema.attribute("stride", AttributeType::integers, int64_t(1), "1 step, or one for each spatial dimension")
      .attribute(
          "padding", AttributeType::integers, int64_t(0),
          concat("zeros around x: one value, one for each spatial dimension, or twice as many (begins, then ends)",
                 kPaddingWords),
          padding_words())
      .attribute("dilation", AttributeType::integers, int64_t(1),
                 "distance of kernel elements: one, or one for each spatial dimension")
      .attribute("groups", AttributeType::integer, int64_t(1), "divides c and oc");
}

constexpr const char* kRounding =
    "halves rounded to the even integer (oneDNN rounds after it adds the zero point, so that a half may go the other "
    "way where that is odd)";

Schema qlinear_conv() {
  Schema schema("qlinear_conv", "quantized_conv",
                concat("Convolution of quantised tensors, in 1 to 3 spatial dimensions.\n\n"
                       "y = saturate(round((conv(x - x_zero_point, weight - weight_zero_point) + bias) * x_scale * "
                       "weight_scale / y_scale) + y_zero_point), ",
                       kRounding,
                       "\n\nReturns (n, oc, sizes) as conv2d does; sums are s32.\n\n"
                       "Source: semantics of ONNX's QLinearConv."));
  schema.tensor("x", "(n, c, sizes), u8 or s8")
      .tensor("weight", "(oc, c / groups, kernel sizes), u8 or s8", Role::constant)
      .tensor("x_scale", "one value, f32", Role::constant)
      .tensor("weight_scale", "one value or (oc), f32", Role::constant)
      .tensor("y_scale", "one value, f32", Role::constant)
      .optional("x_zero_point", "one value in the dtype of x", Role::constant)
      .optional("weight_zero_point", "one value or (oc) in the dtype of weight; only without it oneDNN can serve",
                Role::constant)
      .optional("y_zero_point", "one value, u8 or s8", Role::constant)
      .optional("bias", "(oc), s32, in units of x_scale * weight_scale", Role::constant);
  add_window(schema).attribute("dtype", AttributeType::string, None{},
                               "u8 or s8; None: the dtype of y_zero_point, that of x without it");
  schema.infer = infer_conv;
  schema.flops = conv_flops;
  return schema;
}

Schema conv_integer() {
  Schema schema("conv_integer", "quantized_conv",
                "Convolution of integers of 8 bits, in 1 to 3 spatial dimensions.\n\n"
                "y = conv(x - x_zero_point, weight - weight_zero_point)\n\n"
                "Returns (n, oc, sizes) as conv2d does, s32.\n\nSource: semantics of ONNX's ConvInteger.");
  schema.tensor("x", "(n, c, sizes), u8 or s8")
      .tensor("weight", "(oc, c / groups, kernel sizes), u8 or s8", Role::constant)
      .optional("x_zero_point", "one value in the dtype of x", Role::constant)
      .optional("weight_zero_point", "one value or (oc) in the dtype of weight", Role::constant);
  add_window(schema);
  schema.infer = infer_conv;
  schema.flops = conv_flops;
  return schema;
}

Schema qlinear_matmul() {
  Schema schema("qlinear_matmul", "quantized_matmul",
                concat("Matrix product of quantised tensors, leading dimensions broadcast.\n\n"
                       "y = saturate(round(((a - a_zero_point) @ (b - b_zero_point)) * a_scale * b_scale / y_scale) + "
                       "y_zero_point), ",
                       kRounding,
                       "\n\nReturns (..., m, n); sums are s32.\n\n"
                       "Source: semantics of ONNX's QLinearMatMul."));
  schema.tensor("a", "(..., m, k), u8 or s8")
      .tensor("b", "(..., k, n), u8 or s8")
      .tensor("a_scale", "one value, f32", Role::constant)
      .tensor("b_scale", "one value or (n), f32", Role::constant)
      .tensor("y_scale", "one value, f32", Role::constant)
      .optional("a_zero_point", "one value in the dtype of a", Role::constant)
      .optional("b_zero_point", "one value or (n) in the dtype of b; only without it oneDNN can serve", Role::constant)
      .optional("y_zero_point", "one value, u8 or s8", Role::constant)
      .attribute("dtype", AttributeType::string, None{},
                 "u8 or s8; None: the dtype of y_zero_point, that of a without it");
  schema.infer = infer_matmul;
  schema.flops = matmul_flops;
  return schema;
}

Schema matmul_integer() {
  Schema schema("matmul_integer", "quantized_matmul",
                "Matrix product of integers of 8 bits, leading dimensions broadcast.\n\n"
                "y = (a - a_zero_point) @ (b - b_zero_point)\n\n"
                "Returns (..., m, n), s32.\n\nSource: semantics of ONNX's MatMulInteger.");
  schema.tensor("a", "(..., m, k), u8 or s8")
      .tensor("b", "(..., k, n), u8 or s8")
      .optional("a_zero_point", "one value in the dtype of a", Role::constant)
      .optional("b_zero_point", "one value or (n) in the dtype of b", Role::constant);
  schema.infer = infer_matmul;
  schema.flops = matmul_flops;
  return schema;
}

PL_REGISTER_OP(qlinear_conv);
PL_REGISTER_OP(conv_integer);
PL_REGISTER_OP(qlinear_matmul);
PL_REGISTER_OP(matmul_integer);

}  // namespace
}  // namespace pl
