// conv1d, conv2d, conv3d: convolution with bias, residual sum and activation.
#include "ops/gradient.h"
#include "ops/post_ops.h"
#include "ops/spatial.h"

namespace pl {
namespace {

void infer_conv(Op& op) {
  const int spatial = spatial_rank(op);
  check_rank(op, 0, spatial + 2, spatial + 2);
  check_rank(op, 1, spatial + 2, spatial + 2);
  const Dims output = convolved_shape(op, spatial);
  check_shape(op, 2, {output[1]}, "weight.oc");
  add_output(op, output);
}

double flops_conv(const Op& op) {
  double per_output = 2;
  for (int i = 1; i < op.in(1).rank(); ++i) per_output *= double(op.in(1).shape[i]);
  return per_output * double(op.out().elements());
}

// By x: a transposed convolution, which grows by what the stride left over.
void derive_conv(Derivation& d) {
  const Op& op = d.op();
  const int spatial = spatial_rank(op);
  Attributes window;
  window.take(op.attributes, {attr::stride, attr::padding, attr::dilation, attr::groups});
  d.give_if_wanted(0, [&] {
    Attributes attributes = window;
    std::vector<int64_t> rest;
    for (int i = 0; i < spatial; ++i) {
      const Window w = window_of(op, i);
      rest.push_back(w.in + w.begin + w.end - w.reach() - (w.out - 1) * w.stride);
    }
    attributes.set(attr::output_padding, rest);
    return d.make(concat("conv_transpose", spatial, "d"), attributes, {d.gradient(), d.input(1)});
  });
  d.give_if_wanted(1, [&] {
    Attributes attributes = window;
    const Dims& weight = op.in(1).shape;
    attributes.set(attr::kernel_size, std::vector<int64_t>(weight.begin() + 2, weight.end()));
    return d.make(concat("conv", spatial, "d_backward_weights"), attributes, {d.input(0), d.gradient()});
  });
  d.give_if_wanted(2, [&] {
    std::vector<int64_t> dims{0};
    for (int i = 0; i < spatial; ++i) dims.push_back(2 + i);
    return d.summed(d.gradient(), dims, false);
  });
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
  schema.constant(attr::spatial, int64_t(spatial))
      .tensor("x", concat("(n, c, ", sizes, "), f32, f16 or bf16"))
      .of(dtypes::floats)
      .batched()
      .tensor("weight", concat("(oc, c / groups, ", kernel, ")"), Role::constant)
      .like("x")
      .optional("bias", "(oc)", Role::constant)
      .like("x")
      .attribute(attr::stride, int64_t(1), concat("1 or ", spatial, " steps, at least 1"))
      .attribute(attr::padding, int64_t(0),
                 concat("zeros around x, in elements: one value, ", spatial, " (", sizes, "), or ", 2 * spatial,
                        " (begins, then ends)", kPaddingWords),
                 padding_words())
      .attribute(attr::dilation, int64_t(1), concat("1 or ", spatial, " distances between kernel elements, at least 1"))
      .attribute(attr::groups, int64_t(1), "divides c and oc");
  take_post_ops(schema, {PostOp::add("residual"), PostOp::multiply("gate")}, "x");
  schema.result(Result("y").like("x").over("residual"));
  schema.infer = infer_conv;
  schema.products = true;
  schema.weighting = {Weighting::Order::outputs_first, 1};
  schema.quantized_as = "qlinear_conv";
  schema.padding = Padding::zeros;
  schema.flops = flops_conv;
  schema.gradient = derive_conv;
  return schema;
}

PL_REGISTER_OP([] { return conv("conv1d", 1); });
PL_REGISTER_OP([] { return conv("conv2d", 2); });
PL_REGISTER_OP([] { return conv("conv3d", 3); });

}  // namespace
}  // namespace pl
