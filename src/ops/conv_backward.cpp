// conv1d_backward_weights, 2d, 3d: the gradient of a convolution by its weights.  The one by its input is
// conv_transpose.
#include "ops/spatial.h"

namespace pl {
namespace {

void infer_conv_backward(Op& op) {
  const int spatial = spatial_rank(op);
  for (int i : {0, 1}) check_rank(op, i, spatial + 2, spatial + 2);
  const Dims &x = op.in(0).shape, &grad = op.in(1).shape;
  const int64_t groups = op.attributes[attr::groups];
  check(op, groups >= 1, Code::invalid_argument, "groups is ", groups, ", expected at least 1");
  check(op, x[1] >= 1 && x[1] % groups == 0, Code::shape, "x.c is ", x[1], ", expected a multiple of ", groups,
        " (groups)");
  const auto kernel = positive_per_axis(op, attr::kernel_size, spatial);
  Dims weight{grad[1], x[1] / groups};
  for (int64_t size : kernel) weight.push_back(size);
  // The convolution itself says what fits.
  Attributes attributes;
  attributes.take(op.attributes, {attr::stride, attr::padding, attr::dilation, attr::groups});
  const Op forward = make_op(*find_schema(concat("conv", spatial, "d")), attributes,
                             {op.in(0), TensorDesc::dense(op.in(0).dtype, weight)});
  check_shape(op, 1, forward.out().shape, "the shape of the convolution's result");
  op.attributes.take(forward.attributes, {attr::stride, attr::padding, attr::dilation});
  add_output(op, weight);
}

double conv_backward_flops(const Op& op) {
  double per_output = 2;
  for (int i = 1; i < op.out().rank(); ++i) per_output *= double(op.out().shape[i]);
  return per_output * double(op.in(1).elements());
}

Schema conv_backward_weights(const char* name, int spatial) {
  const std::string sizes = spatial_list(spatial), kernel = spatial_list(spatial, "k");
  Schema schema(name, "conv_backward_weights",
                concat("The gradient of conv", spatial,
                       "d by its weights.\n\n"
                       "dw[o, i, k] = sum over n, p of x[n, g * ic + i, p * stride - begin + k * dilation] * "
                       "grad[n, o, p]\n"
                       "with the names of conv",
                       spatial, "d.  The gradient by x is conv_transpose", spatial,
                       "d of grad and the weights.\n\n"
                       "Returns (oc, c / groups, ",
                       kernel,
                       ") in the dtype of x; sums are kept in at least f32.\n\n"
                       "Source: the derivative of the convolution's formula."));
  schema.constant(attr::spatial, int64_t(spatial))
      .tensor("x", concat("(n, c, ", sizes, "), the convolution's input; f32, f16 or bf16"))
      .of(dtypes::floats)
      .tensor("grad", concat("(n, oc, ", sizes, "), the gradient by its result"))
      .like("x")
      .required(attr::kernel_size, concat("1 or ", spatial, " sizes of the weights"))
      .attribute(attr::stride, int64_t(1), "as for the convolution")
      .attribute(attr::padding, int64_t(0), "as for the convolution", padding_words())
      .attribute(attr::dilation, int64_t(1), "as for the convolution")
      .attribute(attr::groups, int64_t(1), "divides c and oc")
      .result(Result("dw").like("x"));
  schema.infer = infer_conv_backward;
  schema.products = true;
  schema.flops = conv_backward_flops;
  return schema;
}

PL_REGISTER_OP([] { return conv_backward_weights("conv1d_backward_weights", 1); });
PL_REGISTER_OP([] { return conv_backward_weights("conv2d_backward_weights", 2); });
PL_REGISTER_OP([] { return conv_backward_weights("conv3d_backward_weights", 3); });

}  // namespace
}  // namespace pl
