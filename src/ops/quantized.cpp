// qlinear_conv, conv_integer, qlinear_matmul and matmul_integer.
#include "ops/quantized.h"

#include "ops/post_ops.h"
#include "ops/spatial.h"

namespace pl {

void restrict_zero_point(Schema& schema, const char* input) {
  for (DType dtype : {DType::u8, DType::s8})
    schema.restrict(attr::dtype, {std::string(name_of(dtype))}, input, {dtype});
}

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
  addend = find("addend", "addend");
  addend_scale = find("addend_scale", "addend_scale");
  addend_zero = find("addend_zero_point", "addend_zero_point");
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

// The shapes of everything but x and weight.
void check_quantization(Op& op, int64_t columns, const char* why) {
  const QuantizedInputs in(op);
  for (int i : {in.x_scale, in.y_scale, in.x_zero, in.y_zero, in.addend_scale, in.addend_zero})
    check_parameter(op, i, 0, "");
  for (int i : {in.weight_scale, in.weight_zero}) check_parameter(op, i, columns, why);
  if (in.bias >= 0) check_shape(op, in.bias, {columns}, why);
  if (!in.scaled()) return;
  check(op, (in.addend >= 0) == (in.addend_scale >= 0), Code::invalid_argument, "addend_scale is ",
        in.addend_scale >= 0 ? "given" : "missing", ", expected ", in.addend >= 0 ? "one value" : "none",
        ", as addend is ", in.addend >= 0 ? "given" : "missing");
  check(op, in.addend >= 0 || in.addend_zero < 0, Code::invalid_argument,
        "addend_zero_point is given, expected none, as addend is missing");
  const DType dtype = result_dtype(op, 0);
  const bool real = dtype == DType::f32;
  check(op, real != in.rounds(), Code::invalid_argument, "y_scale is ", in.rounds() ? "given" : "missing",
        ", expected ", real ? "none" : "one value", ", as y is ", name_of(dtype));
  check(op, !real || in.y_zero < 0, Code::invalid_argument, "y_zero_point is given, expected none, as y is f32");
  op.attributes.set(attr::dtype, std::string(name_of(dtype)));
}

// The dtype of a scaled result: the attribute's, which the zero point of a quantised one has too.
void add_scaled_result(Schema& schema, const char* x) {
  schema.result(Result("y").named_by(attr::dtype, {DType::u8, DType::s8, DType::f32}).like("y_zero_point").like(x));
  restrict_zero_point(schema, "y_zero_point");
}

void infer_quantized_conv(Op& op) {
  check_rank(op, 0, 3, 5);
  check_rank(op, 1, op.in(0).rank(), op.in(0).rank());
  const int spatial = op.in(0).rank() - 2;
  op.attributes.set(attr::spatial, int64_t(spatial));
  const Dims output = convolved_shape(op, spatial);
  check_quantization(op, output[1], "weight.oc");
  add_output(op, output);
}

double conv_flops(const Op& op) {
  double per_output = 2;
  for (int i = 1; i < op.in(1).rank(); ++i) per_output *= double(op.in(1).shape[i]);
  return per_output * double(op.out().elements());
}

void infer_quantized_matmul(Op& op) {
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
  check_quantization(op, b[rb - 1], "columns of b");
  add_output(op, output);
}

double matmul_flops(const Op& op) {
  return 2.0 * double(op.out().elements()) * double(op.in(0).shape[op.in(0).rank() - 1]);
}

void take_real_post_ops(Schema& schema, const char* x) {
  take_post_ops(schema, {PostOp::add("addend")}, x);
  schema.post_ops.of_reals = true;
  schema.optional("addend_scale", "one value, f32; given with addend", Role::constant)
      .of({DType::f32})
      .optional("addend_zero_point", "one value in the dtype of addend", Role::constant)
      .like(x);
}

Schema& add_window(Schema& schema) {
  return schema.attribute(attr::stride, int64_t(1), "1 step, or one for each spatial dimension")
      .attribute(
          attr::padding, int64_t(0),
          concat("zeros around x: one value, one for each spatial dimension, or twice as many (begins, then ends)",
                 kPaddingWords),
          padding_words())
      .attribute(attr::dilation, int64_t(1), "distance of kernel elements: one, or one for each spatial dimension")
      .attribute(attr::groups, int64_t(1), "divides c and oc");
}

constexpr const char* kAddend = "\n\nWhat the post-op add(addend) adds is (addend - addend_zero_point) * addend_scale.";

constexpr const char* kRounding =
    "halves rounded to the even integer (oneDNN rounds after it adds the zero point, so that a half may go the other "
    "way where that is odd)";

Schema qlinear_conv() {
  Schema schema("qlinear_conv", "quantized_conv",
                concat("Convolution of quantised tensors, in 1 to 3 spatial dimensions.\n\n"
                       "r = (conv(x - x_zero_point, weight - weight_zero_point) + bias) * x_scale * weight_scale, with "
                       "a bias of f32: the sums times the scales, plus bias\n"
                       "y = saturate(round(post_ops(r) / y_scale) + y_zero_point), ",
                       kRounding, kAddend,
                       "\n\nReturns (n, oc, sizes) as conv2d does; sums are s32.\n\n"
                       "Source: semantics of ONNX's QLinearConv."));
  schema.tensor("x", "(n, c, sizes), u8 or s8")
      .of(dtypes::bytes)
      .batched()
      .tensor("weight", "(oc, c / groups, kernel sizes), u8 or s8", Role::constant)
      .of(dtypes::bytes)
      .tensor("x_scale", "one value, f32", Role::constant)
      .of({DType::f32})
      .tensor("weight_scale", "one value or (oc), f32", Role::constant)
      .of({DType::f32})
      .optional("y_scale", "one value, f32; missing for y in f32", Role::constant)
      .of({DType::f32})
      .optional("x_zero_point", "one value in the dtype of x", Role::constant)
      .like("x")
      .optional("weight_zero_point", "one value or (oc) in the dtype of weight; only without it oneDNN can serve",
                Role::constant)
      .like("weight")
      .optional("y_zero_point", "one value, u8 or s8", Role::constant)
      .of(dtypes::bytes)
      .optional("bias", "(oc), s32 in units of x_scale * weight_scale, or f32", Role::constant)
      .of({DType::s32, DType::f32});
  add_window(schema).attribute(
      attr::dtype, None{},
      "u8 or s8, or f32 for y = post_ops(r); None: the dtype of y_zero_point, that of x without it");
  take_real_post_ops(schema, "x");
  add_scaled_result(schema, "x");
  schema.infer = infer_quantized_conv;
  schema.flops = conv_flops;
  return schema;
}

Schema conv_integer() {
  Schema schema("conv_integer", "quantized_conv",
                "Convolution of integers of 8 bits, in 1 to 3 spatial dimensions.\n\n"
                "y = conv(x - x_zero_point, weight - weight_zero_point)\n\n"
                "Returns (n, oc, sizes) as conv2d does, s32.\n\nSource: semantics of ONNX's ConvInteger.");
  schema.tensor("x", "(n, c, sizes), u8 or s8")
      .of(dtypes::bytes)
      .batched()
      .tensor("weight", "(oc, c / groups, kernel sizes), u8 or s8", Role::constant)
      .of(dtypes::bytes)
      .optional("x_zero_point", "one value in the dtype of x", Role::constant)
      .like("x")
      .optional("weight_zero_point", "one value or (oc) in the dtype of weight", Role::constant)
      .like("weight")
      .result(Result("y").of(DType::s32));
  add_window(schema);
  schema.infer = infer_quantized_conv;
  schema.flops = conv_flops;
  return schema;
}

Schema qlinear_matmul() {
  Schema schema("qlinear_matmul", "quantized_matmul",
                concat("Matrix product of quantised tensors, leading dimensions broadcast.\n\n"
                       "r = ((a - a_zero_point) @ (b - b_zero_point) + bias) * a_scale * b_scale, with a bias of f32: "
                       "the sums times the scales, plus bias\n"
                       "y = saturate(round(post_ops(r) / y_scale) + y_zero_point), ",
                       kRounding, kAddend,
                       "\n\nReturns (..., m, n); sums are s32.\n\n"
                       "Source: semantics of ONNX's QLinearMatMul."));
  schema.tensor("a", "(..., m, k), u8 or s8")
      .of(dtypes::bytes)
      .tensor("b", "(..., k, n), u8 or s8")
      .of(dtypes::bytes)
      .tensor("a_scale", "one value, f32", Role::constant)
      .of({DType::f32})
      .tensor("b_scale", "one value or (n), f32", Role::constant)
      .of({DType::f32})
      .optional("y_scale", "one value, f32; missing for y in f32", Role::constant)
      .of({DType::f32})
      .optional("a_zero_point", "one value in the dtype of a", Role::constant)
      .like("a")
      .optional("b_zero_point", "one value or (n) in the dtype of b; oneDNN can serve one value", Role::constant)
      .like("b")
      .optional("y_zero_point", "one value, u8 or s8", Role::constant)
      .of(dtypes::bytes)
      .optional("bias", "(n), s32 in units of a_scale * b_scale, or f32", Role::constant)
      .of({DType::s32, DType::f32})
      .attribute(attr::dtype, None{},
                 "u8 or s8, or f32 for y = post_ops(r); None: the dtype of y_zero_point, that of a without it");
  take_real_post_ops(schema, "a");
  add_scaled_result(schema, "a");
  schema.infer = infer_quantized_matmul;
  schema.flops = matmul_flops;
  return schema;
}

Schema matmul_integer() {
  Schema schema("matmul_integer", "quantized_matmul",
                "Matrix product of integers of 8 bits, leading dimensions broadcast.\n\n"
                "y = (a - a_zero_point) @ (b - b_zero_point)\n\n"
                "Returns (..., m, n), s32.\n\nSource: semantics of ONNX's MatMulInteger.");
  schema.tensor("a", "(..., m, k), u8 or s8")
      .of(dtypes::bytes)
      .tensor("b", "(..., k, n), u8 or s8")
      .of(dtypes::bytes)
      .optional("a_zero_point", "one value in the dtype of a", Role::constant)
      .like("a")
      .optional("b_zero_point", "one value or (n) in the dtype of b", Role::constant)
      .like("b")
      .result(Result("y").of(DType::s32));
  schema.infer = infer_quantized_matmul;
  schema.flops = matmul_flops;
  return schema;
}

PL_REGISTER_OP(qlinear_conv);
PL_REGISTER_OP(conv_integer);
PL_REGISTER_OP(qlinear_matmul);
PL_REGISTER_OP(matmul_integer);

}  // namespace
}  // namespace pl
