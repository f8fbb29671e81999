// batch_norm (inference), layer_norm, rms_norm, l2_normalize, group_norm and instance_norm.
#include "ops/normalization.h"

#include "core/numbers.h"
#include "ops/gradient.h"
#include "ops/post_ops.h"

namespace pl {

void check_eps(const Op& op) {
  check_finite(op, attr::eps);
  const double eps = op.attributes[attr::eps];
  check(op, eps >= 0, Code::invalid_argument, "eps is ", eps, ", expected at least 0");
}

std::optional<Limits> Limits::of(const PostOp& function) {
  if (function.name == "relu") return Limits{0, kInfinity};
  if (function.name == "relu6") return Limits{0, 6};
  if (function.name == "clip" && function.alpha() <= function.beta()) return Limits{function.alpha(), function.beta()};
  return std::nullopt;
}

Dims checked_normalized_shape(const Op& op) {
  const Dims& x = op.in(0).shape;
  const Dims normalized(op.attributes[attr::normalized_shape]);
  const int skipped = x.size() - normalized.size();
  bool fits = !normalized.empty() && skipped >= 0;
  for (int i = 0; fits && i < normalized.size(); ++i) fits = x[skipped + i] == normalized[i];
  check(op, fits, Code::shape, "normalized_shape is ", normalized, ", expected the last sizes of x, which has shape ",
        x);
  return normalized;
}

namespace {

// About six operations an element: subtract, scale, shift, and two passes of statistics.
double flops_with_statistics(const Op& op) { return 6.0 * double(op.in(0).elements()); }

void infer_batch_norm(Op& op) {
  check_rank(op, 0, 2, kMaxRank);
  for (int i = 1; i <= 4; ++i) check_shape(op, i, {op.in(0).shape[1]}, "x.c");
  check_eps(op);
  add_output(op);
}

// A parameter of the channels, as it broadcasts with x.
Derivation::Value along_channels(Derivation& d, Derivation::Value value, int rank) {
  Dims shape = Dims::filled(rank, 1);
  shape[1] = d.desc(value).shape[0];
  return d.reshaped(value, shape);
}

void derive_batch_norm(Derivation& d) {
  const Op& op = d.op();
  const int rank = op.in(0).rank();
  const std::vector<double> eps{op.attributes[attr::eps]};
  const auto parameter = [&](int i) { return along_channels(d, d.input(i), rank); };
  const Derivation::Value g = d.gradient(), scale = d.pointwise("y0 = rsqrt(x0 + s0)", {parameter(2)}, eps);
  std::vector<int64_t> others{0};
  for (int i = 2; i < rank; ++i) others.push_back(i);
  d.give_if_wanted(0, [&] {
    return op.has(3) ? d.pointwise("y0 = x0 * x1 * x2", {g, scale, parameter(3)})
                     : d.pointwise("y0 = x0 * x1", {g, scale});
  });
  d.give_if_wanted(3, [&] {
    return d.summed(d.pointwise("y0 = x0 * (x1 - x2) * x3", {g, d.input(0), parameter(1), scale}), others, false);
  });
  d.give_if_wanted(4, [&] { return d.summed(g, others, false); });
}

// The three results of an op for the gradients by x, weight and bias.
void give_three(Derivation& d, const std::vector<Derivation::Value>& made, int weight, int bias) {
  const int inputs[] = {0, weight, bias};
  for (int k = 0; k < 3; ++k) d.give_if_wanted(inputs[k], [&] { return made[size_t(k)]; });
}

void derive_layer_norm(Derivation& d) {
  const Op& op = d.op();
  Attributes attributes;
  attributes.take(op.attributes, {attr::normalized_shape, attr::eps});
  std::vector<Derivation::Value> inputs{d.input(0), d.gradient()};
  if (op.has(1)) inputs.push_back(d.input(1));
  const auto made = d.add(op.schema->name + "_backward", attributes, inputs);
  d.give_if_wanted(0, [&] { return made[0]; });
  d.give_if_wanted(1, [&] { return made[1]; });
  if (op.schema->name == "layer_norm") d.give_if_wanted(2, [&] { return made[2]; });
}

// y = x / length: what changes the length alone has no part.
void derive_l2_normalize(Derivation& d) {
  const Op& op = d.op();
  std::vector<int64_t> dims;
  const int rank = op.in(0).rank();
  for (int i = rank - int(op.attributes[attr::normalized_shape].size()); i < rank; ++i) dims.push_back(i);
  const Derivation::Value g = d.gradient(), y = d.output();
  const auto length = d.make("reduce_l2", Attributes{{attr::dim_ints, dims}, {attr::keepdim, true}}, {d.input(0)});
  const auto along = d.summed(d.make("mul", {}, {g, y}), dims, true);
  d.give(0, d.pointwise("y0 = where(x3 > s0, (x0 - x1 * x2) / x3, x0 / s0)", {g, y, along, length},
                        {op.attributes[attr::eps]}));
}

void derive_group_norm(Derivation& d) {
  const Op& op = d.op();
  Attributes attributes;
  attributes.take(op.attributes, {attr::num_groups, attr::eps});
  std::vector<Derivation::Value> inputs{d.input(0), d.gradient()};
  if (op.has(1)) inputs.push_back(d.input(1));
  give_three(d, d.add("group_norm_backward", attributes, inputs), 1, 2);
}

Schema batch_norm() {
  Schema schema("batch_norm", "batch_norm",
                "Batch normalisation with given statistics (inference), with residual sum and activation.\n\n"
                "y[n, c, ...] = activation((x[n, c, ...] - running_mean[c]) / sqrt(running_var[c] + eps) * weight[c] + "
                "bias[c] + residual[n, c, ...])\n\nReturns the shape and dtype of x.\n\n"
                "Source: S. Ioffe, C. Szegedy, arXiv 1502.03167.");
  schema.tensor("x", "(n, c, ...), f32, f16 or bf16")
      .of(dtypes::floats)
      .batched()
      .tensor("running_mean", "(c)", Role::constant)
      .like("x")
      .tensor("running_var", "(c)", Role::constant)
      .like("x")
      .optional("weight", "(c); None: ones", Role::constant)
      .like("x")
      .optional("bias", "(c); None: zeros", Role::constant)
      .like("x")
      .attribute(attr::eps, 1e-5, "added to the variance, at least 0");
  take_post_ops(schema, {PostOp::add("residual"), PostOp::multiply("gate")}, "x");
  schema.result(Result("y").like("x").shaped("x").over("x").over("residual"));
  schema.trained_as = "batch_norm_training";
  schema.infer = infer_batch_norm;
  schema.gradient = derive_batch_norm;
  schema.flops = [](const Op& op) { return 2.0 * double(op.in(0).elements()); };  // folded to a scale and a shift
  return schema;
}

void infer_layer_norm(Op& op) {
  check_rank(op, 0, 1, kMaxRank);
  const Dims normalized = checked_normalized_shape(op);
  for (size_t i = 1; i < op.inputs.size(); ++i) check_shape(op, int(i), normalized, "normalized_shape");
  check_eps(op);
  add_output(op);
}

Schema layer_norm() {
  Schema schema("layer_norm", "layer_norm",
                "Layer normalisation over the last dimensions.\n\n"
                "y = (x - mean) / sqrt(var + eps) * weight + bias\n"
                "with mean and (biased) variance over the last len(normalized_shape) dimensions.\n\n"
                "Returns the shape and dtype of x; statistics are kept in at least f32.\n\n"
                "Source: J. Ba et al., arXiv 1607.06450.");
  schema.constant(attr::centred, true)
      .constant(attr::limited, false)
      .tensor("x", "(..., *normalized_shape), f32, f16 or bf16")
      .of(dtypes::floats)
      .batched()
      .required(attr::normalized_shape, "the sizes of the last dimensions of x")
      .optional("weight", "normalized_shape; None: ones", Role::constant)
      .like("x")
      .optional("bias", "normalized_shape; None: zeros", Role::constant)
      .like("x")
      .attribute(attr::eps, 1e-5, "added to the variance, at least 0");
  schema.axis(attr::normalized_shape, AxisRule::Meaning::last).result(Result("y").like("x").shaped("x"));
  schema.other_axes = true;
  schema.by_rows = true;
  schema.infer = infer_layer_norm;
  schema.gradient = derive_layer_norm;
  schema.flops = flops_with_statistics;
  return schema;
}

Schema rms_norm() {
  Schema schema("rms_norm", "layer_norm",
                "Normalisation by the root mean square over the last dimensions; the mean stays.\n\n"
                "y = x / sqrt(mean(x^2) + eps) * weight\n"
                "with the mean over the last len(normalized_shape) dimensions.\n\n"
                "Returns the shape and dtype of x; statistics are kept in at least f32.\n\n"
                "Source: B. Zhang, R. Sennrich, arXiv 1910.07467.");
  schema.constant(attr::centred, false)
      .constant(attr::limited, false)
      .tensor("x", "(..., *normalized_shape), f32, f16 or bf16")
      .of(dtypes::floats)
      .batched()
      .required(attr::normalized_shape, "the sizes of the last dimensions of x")
      .optional("weight", "normalized_shape; None: ones", Role::constant)
      .like("x")
      .attribute(attr::eps, 1e-6, "added to the mean square, at least 0");
  schema.axis(attr::normalized_shape, AxisRule::Meaning::last).result(Result("y").like("x").shaped("x"));
  schema.other_axes = true;
  schema.by_rows = true;
  schema.infer = infer_layer_norm;
  schema.gradient = derive_layer_norm;
  schema.flops = [](const Op& op) { return 4.0 * double(op.in(0).elements()); };
  return schema;
}

Schema l2_normalize() {
  Schema schema("l2_normalize", "layer_norm",
                "Rows, of the last dimensions, brought to length 1.\n\n"
                "y = x / max(sqrt(sum(x^2)), eps)\n"
                "with the sum over the last len(normalized_shape) dimensions.\n\n"
                "Returns the shape and dtype of x; sums are kept in at least f32.\n\n"
                "Source: semantics of torch.nn.functional.normalize with p=2.");
  schema.constant(attr::centred, false)
      .constant(attr::limited, true)
      .tensor("x", "(..., *normalized_shape), f32, f16 or bf16")
      .of(dtypes::floats)
      .batched()
      .required(attr::normalized_shape, "the sizes of the last dimensions of x")
      .attribute(attr::eps, 1e-12, "the least length that x is divided by, at least 0");
  schema.axis(attr::normalized_shape, AxisRule::Meaning::last).result(Result("y").like("x").shaped("x"));
  schema.other_axes = true;
  schema.by_rows = true;
  schema.infer = infer_layer_norm;
  schema.gradient = derive_l2_normalize;
  schema.flops = [](const Op& op) { return 3.0 * double(op.in(0).elements()); };
  return schema;
}

void infer_group_norm(Op& op) {
  const bool instance = op.schema->name == "instance_norm";
  check_rank(op, 0, instance ? 3 : 2, kMaxRank);
  const int64_t channels = op.in(0).shape[1];
  check(op, channels >= 1, Code::shape, "x.c is 0, expected at least 1");
  if (instance) op.attributes.set(attr::num_groups, channels);
  const int64_t groups = op.attributes[attr::num_groups];
  check(op, groups >= 1, Code::invalid_argument, "num_groups is ", groups, ", expected at least 1");
  check(op, channels % groups == 0, Code::shape, "x.c is ", channels, ", expected a multiple of ", groups,
        " (num_groups)");
  for (int i = 1; i <= 2; ++i) check_shape(op, i, {channels}, "x.c");
  check_eps(op);
  add_output(op);
}

Schema group_norm() {
  Schema schema("group_norm", "group_norm",
                "Normalisation over groups of channels and all positions.\n\n"
                "y[n, c, ...] = (x[n, c, ...] - mean[n, g]) / sqrt(var[n, g] + eps) * weight[c] + bias[c]\n"
                "with mean and (biased) variance over the group g = c / (C / num_groups) and all positions.\n\n"
                "Returns the shape and dtype of x; statistics are kept in at least f32.\n\n"
                "Source: Y. Wu, K. He, arXiv 1803.08494.");
  schema.tensor("x", "(n, c, ...), f32, f16 or bf16")
      .of(dtypes::floats)
      .batched()
      .required(attr::num_groups, "divides c")
      .optional("weight", "(c); None: ones", Role::constant)
      .like("x")
      .optional("bias", "(c); None: zeros", Role::constant)
      .like("x")
      .attribute(attr::eps, 1e-5, "added to the variance, at least 0");
  schema.result(Result("y").like("x").shaped("x"));
  schema.infer = infer_group_norm;
  schema.gradient = derive_group_norm;
  schema.flops = flops_with_statistics;
  return schema;
}

Schema instance_norm() {
  Schema schema("instance_norm", "group_norm",
                "Normalisation of each channel of each image: group_norm with a group for every channel.\n\n"
                "y[n, c, ...] = (x[n, c, ...] - mean[n, c]) / sqrt(var[n, c] + eps) * weight[c] + bias[c]\n"
                "with mean and (biased) variance over all positions.\n\n"
                "Returns the shape and dtype of x; statistics are kept in at least f32.\n\n"
                "Source: D. Ulyanov et al., arXiv 1607.08022.");
  schema.tensor("x", "(n, c, ...), rank at least 3; f32, f16 or bf16")
      .of(dtypes::floats)
      .batched()
      .optional("weight", "(c); None: ones", Role::constant)
      .like("x")
      .optional("bias", "(c); None: zeros", Role::constant)
      .like("x")
      .attribute(attr::eps, 1e-5, "added to the variance, at least 0");
  schema.result(Result("y").like("x").shaped("x"));
  schema.infer = infer_group_norm;
  schema.gradient = derive_group_norm;
  schema.flops = flops_with_statistics;
  return schema;
}

PL_REGISTER_OP(batch_norm);
PL_REGISTER_OP(layer_norm);
PL_REGISTER_OP(rms_norm);
PL_REGISTER_OP(l2_normalize);
PL_REGISTER_OP(group_norm);
PL_REGISTER_OP(instance_norm);

}  // namespace
}  // namespace pl
