// conv1d, conv2d, conv3d: convolution with bias, residual sum and activation.
#include "ops/activation.h"
#include "ops/spatial.h"

namespace pl {
namespace {

void infer(Op& op) {
  const int spatial = spatial_rank(op);
  check_rank(op, 0, spatial + 2, spatial + 2);
  check_float(op, 0);
  check_rank(op, 1, spatial + 2, spatial + 2);
  check_same_dtype(op, 1);
  const Dims& x = op.in(0).shape;
  const Dims& weight = op.in(1).shape;

  const int64_t groups = op.attributes.integer("groups");
  check(op, groups >= 1, Code::invalid_argument, "groups is ", groups, ", expected at least 1");
  check(op, x[1] >= 1 && x[1] % groups == 0, Code::shape, "x.c is ", x[1], ", expected a multiple of ", groups,
        " (groups)");
  check(op, weight[1] == x[1] / groups, Code::shape, "weight.ic is ", weight[1], ", expected ", x[1] / groups,
        " (x.c / groups)");
  check(op, weight[0] >= 1 && weight[0] % groups == 0, Code::shape, "weight.oc is ", weight[0],
        ", expected a multiple of ", groups, " (groups)");

  const auto stride = positive_per_axis(op, "stride", spatial);
  const auto padding = expand_padding(op, spatial);
  const auto dilation = positive_per_axis(op, "dilation", spatial);
  Dims output{x[0], weight[0]};
  for (int i = 0; i < spatial; ++i) {
    const size_t s = size_t(i);
    Window window;
    window.in = x[2 + i];
    window.kernel = weight[2 + i];
    window.stride = stride[s];
    window.dilation = dilation[s];
    window.begin = padding[s];
    window.end = padding[s + size_t(spatial)];
    output.push_back(sliding_size(op, window, spatial_name(spatial, i)));
  }
  check_same_dtype(op, 2);
  check_shape(op, 2, {weight[0]}, "weight.oc");
  check_same_dtype(op, 3);
  check_shape(op, 3, output, "the output's shape");
  infer_activation(op, op.in(0).dtype);
  add_output(op, op.in(0).dtype, output);
}

double flops(const Op& op) {
  double per_output = 2;
  for (int i = 1; i < op.in(1).rank(); ++i) per_output *= double(op.in(1).shape[i]);
  return per_output * double(op.out().elements());
}

Schema conv(const char* name, int spatial) {
  const std::string sizes = spatial_list(spatial), kernel = spatial_list(spatial, "k");
  Schema schema(name, "conv",
                concat(spatial,
                       "-D convolution, with bias, residual sum and activation in one step.\n\n"
                       "y[n, o, p] = activation(sum over i, k of x[n, g * ic + i, p * stride - begin + k * dilation] * "
                       "weight[o, i, k] + bias[o] + residual[n, o, p])\n"
                       "where p and k run over positions (",
                       sizes,
                       ") of output and kernel, x counts as zero outside its "
                       "bounds, ic = c / groups, and g = o / (oc / groups) is the group of channel o.  groups = c is a "
                       "depthwise convolution, with oc / c filters for each channel.\n\n"
                       "Returns (n, oc, ",
                       sizes,
                       ") with sizes (in + begin + end - dilation * (kernel - 1) - 1) / stride + 1, "
                       "rounded down, in the dtype of x; sums are kept in at least f32.\n\n"
                       "Source: V. Dumoulin, F. Visin, A guide to convolution arithmetic for deep learning, "
                       "arXiv 1603.07285; semantics of torch.nn.functional."));
  schema.constant("spatial", int64_t(spatial))
      .tensor("x", concat("(n, c, ", sizes, "), f32, f16 or bf16"))
      .tensor("weight", concat("(oc, c / groups, ", kernel, ")"), Role::constant)
      .optional("bias", "(oc)", Role::constant)
      .attribute("stride", AttributeType::integers, int64_t(1), concat("1 or ", spatial, " steps, at least 1"))
      .attribute("padding", AttributeType::integers, int64_t(0),
                 concat("zeros around x, in elements: one value, ", spatial, " (", sizes, "), or ", 2 * spatial,
                        " (begins, then ends)"))
      .attribute("dilation", AttributeType::integers, int64_t(1),
                 concat("1 or ", spatial, " distances between kernel elements, at least 1"))
      .attribute("groups", AttributeType::integer, int64_t(1), "divides c and oc");
  add_activation(schema);
  schema.optional("residual", "the shape of the result; added before the activation");
  add_activation_parameters(schema);
  schema.infer = infer;
  schema.flops = flops;
  return schema;
}

PL_REGISTER_OP([] { return conv("conv1d", 1); });
PL_REGISTER_OP([] { return conv("conv2d", 2); });
PL_REGISTER_OP([] { return conv("conv3d", 3); });

}  // namespace
}  // namespace pl
