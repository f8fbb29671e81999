// batch_norm_training, and the gradients of batch_norm_training, layer_norm, rms_norm and group_norm.
#include "ops/gradient.h"
#include "ops/normalization.h"
#include "ops/post_ops.h"

namespace pl {
namespace {

constexpr double kOperations = 8;  // an element

double norm_backward_flops(const Op& op) { return kOperations * double(op.in(0).elements()); }

void check_channels(const Op& op, int input) { check_shape(op, input, {op.in(0).shape[1]}, "x.c"); }

// ---- batch norm ----

void infer_training(Op& op) {
  check_rank(op, 0, 2, kMaxRank);
  const Dims& x = op.in(0).shape;
  check(op, x.product() == 0 || x.product() / x[1] >= 2, Code::shape, "x has shape ", x,
        ", expected at least two values in a channel");
  for (int i : {1, 2}) check_channels(op, i);
  check_eps(op);
  add_output(op);
  for (int k = 0; k < 2; ++k) add_output(op, {x[1]});
}

void derive_training(Derivation& d) {
  const Op& op = d.op();
  const auto made = d.add("batch_norm_backward", Attributes{{attr::eps, op.attributes[attr::eps]}},
                          {d.input(0), d.gradient(), d.output(1), d.output(2), d.input(1)});
  for (int i = 0; i < 3; ++i) d.give_if_wanted(i, [&] { return made[size_t(i)]; });
}

Schema batch_norm_training() {
  Schema schema(
      "batch_norm_training", "batch_norm_training",
      "Batch normalisation by the statistics of the batch itself, with residual sum and activation.\n\n"
      "y[n, c, ...] = activation((x[n, c, ...] - mean[c]) / sqrt(variance[c] + eps) * weight[c] + bias[c] + "
      "residual[n, c, ...])\n"
      "with mean and (biased) variance over images and positions.\n\n"
      "Returns y, of the shape and dtype of x, and mean and variance, (c), in f32.  Running statistics are for the "
      "caller to keep: running + momentum * (new - running), with the "
      "variance times m / (m - 1) for m values in a channel.  Gradients by mean and variance are left out.\n\n"
      "Source: S. Ioffe, C. Szegedy, arXiv 1502.03167.");
  schema.tensor("x", "(n, c, ...), f32, f16 or bf16")
      .of(dtypes::floats)
      .tensor("weight", "(c), f32 or of the dtype of x")
      .like_or("x", {DType::f32})
      .trainable()
      .tensor("bias", "(c), f32 or of the dtype of x")
      .like_or("x", {DType::f32})
      .trainable()
      .attribute(attr::eps, 1e-5, "added to the variance, at least 0")
      .attribute(attr::low, None{}, "short for post_ops with clip: the least y; None: no limit")
      .attribute(attr::high, None{}, "short for post_ops with clip: the largest y, at least low; None: no limit");
  take_post_ops(schema, {PostOp::add("residual"), PostOp::multiply("gate")}, "x");
  schema.result(Result("y").like("x").shaped("x").over("residual"))
      .result(Result("mean").of(DType::f32))
      .result(Result("variance").of(DType::f32));
  schema.infer = infer_training;
  schema.flops = norm_backward_flops;
  schema.gradient = derive_training;
  return schema;
}

void infer_batch(Op& op) {
  check_rank(op, 0, 2, kMaxRank);
  check_shape(op, 1, op.in(0).shape, "x.shape");
  for (int i : {2, 3, 4}) check_channels(op, i);
  check_eps(op);
  if (op.has(5)) check_channels(op, 5);
  const std::optional<PostOp> function = activation_of(op);
  check(op, op.has(5) || !function, Code::invalid_argument, "bias is None, expected (c): activation is ",
        function ? function->str() : "", ", whose slope is taken at h * weight + bias");
  add_output(op);
  for (int k = 0; k < 2; ++k) add_output(op, {op.in(0).shape[1]});
}

Schema batch_norm_backward() {
  Schema schema(
      "batch_norm_backward", "batch_norm_backward",
      "The gradients of batch_norm_training.\n\n"
      "With h = (x - mean) / sqrt(variance + eps), and means over images and positions of a channel:\n"
      "dx = weight / sqrt(variance + eps) * (grad - mean(grad) - h * mean(grad * h)), dweight = sum(grad * h), "
      "dbias = sum(grad)\n"
      "with grad times the slope of activation at h * weight + bias in the place of grad.\n\n"
      "Returns dx, of the shape and dtype of x, dweight and dbias, (c), in the dtype of weight; sums are kept in at "
      "least f32.\n\n"
      "Source: the derivative of the formula.");
  schema.tensor("x", "(n, c, ...), the input of batch_norm_training; f32, f16 or bf16")
      .of(dtypes::floats)
      .tensor("grad", "the shape of x: the gradient by y")
      .like("x")
      .tensor("mean", "(c), f32: its second result")
      .of({DType::f32})
      .tensor("variance", "(c), f32: its third result")
      .of({DType::f32})
      .tensor("weight", "(c), f32 or of the dtype of x")
      .like_or("x", {DType::f32})
      .optional("bias", "(c), f32 or of the dtype of x; needed with activation")
      .like_or("x", {DType::f32})
      .attribute(attr::eps, 1e-5, "as for batch_norm_training")
      .attribute(attr::inverted, false, "variance is given as 1 / sqrt(variance + eps), as PyTorch keeps it");
  take_activation(schema,
                  "the function that batch_norm_training applied to its result, the name of a unary op; gelu is "
                  "gelu_erf; None: none");
  schema.result(Result("dx").like("x").shaped("x"))
      .result(Result("dweight").like("weight"))
      .result(Result("dbias").like("weight"));
  schema.infer = infer_batch;
  schema.flops = norm_backward_flops;
  return schema;
}

// ---- layer norm ----

void infer_layer(Op& op) {
  check_rank(op, 0, 1, kMaxRank);
  const Dims &x = op.in(0).shape, normalized = checked_normalized_shape(op);
  check_shape(op, 1, x, "x.shape");
  check_shape(op, 2, normalized, "normalized_shape");
  check_eps(op);
  add_output(op);
  for (int k = 0; k < (op.attributes[attr::centred] ? 2 : 1); ++k) add_output(op, normalized);
}

Schema layer_norm_backward(bool centred) {
  Schema schema(centred ? "layer_norm_backward" : "rms_norm_backward", "layer_norm_backward",
                concat("The gradients of ", centred ? "layer_norm" : "rms_norm", ".\n\n",
                       centred ? "With h = (x - mean) / sqrt(var + eps) and g = grad * weight, means over a row:\n"
                                 "dx = (g - mean(g) - h * mean(g * h)) / sqrt(var + eps), "
                               : "With h = x / sqrt(mean(x^2) + eps) and g = grad * weight, means over a row:\n"
                                 "dx = (g - h * mean(g * h)) / sqrt(mean(x^2) + eps), ",
                       "dweight = sum over rows of grad * h", centred ? ", dbias = sum over rows of grad" : "",
                       "\n\nReturns dx, of the shape of x, dweight", centred ? " and dbias" : "",
                       ", of normalized_shape, in the dtype of x; sums are kept in at least f32.\n\n"
                       "Source: the derivative of the formula."));
  schema.constant(attr::centred, centred)
      .tensor("x", "(..., *normalized_shape), f32, f16 or bf16")
      .of(dtypes::floats)
      .tensor("grad", "the shape of x")
      .like("x")
      .required(attr::normalized_shape, "the sizes of the last dimensions of x")
      .optional("weight", "normalized_shape; None: ones")
      .like("x")
      .attribute(attr::eps, centred ? 1e-5 : 1e-6, "as for the norm")
      .result(Result("dx").like("x").shaped("x"))
      .result(Result("dweight").like("x"));
  if (centred) schema.result(Result("dbias").like("x"));
  schema.infer = infer_layer;
  schema.flops = norm_backward_flops;
  return schema;
}

// ---- group norm ----

void infer_group(Op& op) {
  check_rank(op, 0, 2, kMaxRank);
  const int64_t channels = op.in(0).shape[1], groups = op.attributes[attr::num_groups];
  check(op, channels >= 1 && groups >= 1 && channels % groups == 0, Code::shape, "x.c is ", channels,
        ", expected a multiple of ", groups, " (num_groups)");
  check_shape(op, 1, op.in(0).shape, "x.shape");
  check_channels(op, 2);
  check_eps(op);
  add_output(op);
  for (int k = 0; k < 2; ++k) add_output(op, {channels});
}

Schema group_norm_backward() {
  Schema schema(
      "group_norm_backward", "group_norm_backward",
      "The gradients of group_norm, and of instance_norm with a group for each channel.\n\n"
      "With h = (x - mean) / sqrt(var + eps) and g = grad * weight, means over a group of an image:\n"
      "dx = (g - mean(g) - h * mean(g * h)) / sqrt(var + eps), dweight = sum(grad * h), dbias = sum(grad) over "
      "images and positions\n\n"
      "Returns dx, of the shape of x, dweight and dbias, (c), in the dtype of x; sums are kept in at least f32.\n\n"
      "Source: the derivative of the formula.");
  schema.tensor("x", "(n, c, ...), f32, f16 or bf16")
      .of(dtypes::floats)
      .tensor("grad", "the shape of x")
      .like("x")
      .required(attr::num_groups, "divides c")
      .optional("weight", "(c); None: ones")
      .like("x")
      .attribute(attr::eps, 1e-5, "as for the norm")
      .result(Result("dx").like("x").shaped("x"))
      .result(Result("dweight").like("x"))
      .result(Result("dbias").like("x"));
  schema.infer = infer_group;
  schema.flops = norm_backward_flops;
  return schema;
}

PL_REGISTER_OP(batch_norm_training);
PL_REGISTER_OP(batch_norm_backward);
PL_REGISTER_OP([] { return layer_norm_backward(true); });
PL_REGISTER_OP([] { return layer_norm_backward(false); });
PL_REGISTER_OP(group_norm_backward);

}  // namespace
}  // namespace pl
