// conv_transpose1d, 2d, 3d: the transpose of a convolution, as used to grow images.
#include "ops/gradient.h"
#include "ops/post_ops.h"
#include "ops/spatial.h"

namespace pl {
namespace {

void infer_conv_transpose(Op& op) {
  const int spatial = spatial_rank(op);
  check_rank(op, 0, spatial + 2, spatial + 2);
  check_rank(op, 1, spatial + 2, spatial + 2);
  const Dims& x = op.in(0).shape;
  const Dims& weight = op.in(1).shape;

  const int64_t groups = op.attributes[attr::groups];
  check(op, groups >= 1, Code::invalid_argument, "groups is ", groups, ", expected at least 1");
  check(op, weight[0] == x[1], Code::shape, "weight.ic is ", weight[0], ", expected ", x[1], " (x.c)");
  check(op, x[1] >= 1 && x[1] % groups == 0, Code::shape, "x.c is ", x[1], ", expected a multiple of ", groups,
        " (groups)");
  check(op, weight[1] >= 1, Code::shape, "weight.oc is 0, expected at least 1");

  const auto stride = positive_per_axis(op, attr::stride, spatial);
  const auto padding = expand_padding(op, spatial);
  const auto dilation = positive_per_axis(op, attr::dilation, spatial);
  const auto extra = expand_ints(op, attr::output_padding, spatial);
  Dims output{x[0], safe_product(op, "weight.oc * groups", {weight[1], groups})};
  for (int i = 0; i < spatial; ++i) {
    const size_t s = size_t(i);
    const char* name = spatial_name(spatial, i);
    check(op, x[2 + i] >= 1, Code::shape, "x.", name, " is 0, expected at least 1");
    const int64_t limit = std::max(stride[s], dilation[s]);
    check(op, extra[s] >= 0 && extra[s] < limit, Code::invalid_argument, "output_padding along ", name, " is ",
          extra[s], ", expected 0 to ", limit - 1, " (less than stride or dilation)");
    check(op, weight[2 + i] >= 1, Code::shape, "kernel size along ", name, " is ", weight[2 + i],
          ", expected at least 1");
    const int64_t spread = safe_product(op, "the output size", {x[2 + i] - 1, stride[s]});
    const int64_t reach = safe_product(op, "the kernel's reach", {weight[2 + i] - 1, dilation[s]});
    int64_t size;
    const bool overflow =
        __builtin_add_overflow(spread, reach, &size) || __builtin_add_overflow(size, extra[s] + 1, &size);
    check(op, !overflow, Code::shape, "the output size along ", name, " overflows 64 bits");
    size -= padding[s] + padding[s + size_t(spatial)];
    check(op, size >= 1, Code::shape, "the output size along ", name, " is ", size,
          ", expected at least 1: padding is too large");
    output.push_back(size);
  }
  check_shape(op, 2, {output[1]}, "weight.oc * groups");
  add_output(op, output);
}

double conv_transpose_flops(const Op& op) {
  double per_input = 2;
  for (int i = 1; i < op.in(1).rank(); ++i) per_input *= double(op.in(1).shape[i]);
  return per_input * double(op.in(0).elements());
}

// By x: a convolution of the gradient; by the weights: that of a convolution whose input is the gradient.  With output
// padding of a whole stride that convolution goes on behind the positions of x.
void derive_conv_transpose(Derivation& d) {
  Op op = d.op();
  const int spatial = spatial_rank(op);
  Attributes window;
  window.take(op.attributes, {attr::stride, attr::padding, attr::dilation, attr::groups});
  const auto stride = positive_per_axis(op, attr::stride, spatial);
  const auto extra = expand_ints(op, attr::output_padding, spatial);
  const auto longer = [&](Derivation::Value value, int64_t sign) {  // by those positions; -1: shorter
    std::vector<int64_t> pad;                                       // the last dimension first
    bool any = false;
    for (size_t i = size_t(spatial); i-- > 0;) {
      const int64_t beyond = extra[i] / stride[i];
      pad.push_back(0);
      pad.push_back(sign * beyond);
      any = any || beyond;
    }
    return any ? d.make("pad", Attributes{{attr::pad, pad}}, {value}) : value;
  };
  d.give_if_wanted(0, [&] {
    return longer(d.make(concat("conv", spatial, "d"), window, {d.gradient(), d.input(1)}), -1);
  });
  d.give_if_wanted(1, [&] {
    Attributes attributes = window;
    const Dims& weight = op.in(1).shape;
    attributes.set(attr::kernel_size, std::vector<int64_t>(weight.begin() + 2, weight.end()));
    return d.make(concat("conv", spatial, "d_backward_weights"), attributes, {d.gradient(), longer(d.input(0), 1)});
  });
  d.give_if_wanted(2, [&] {
    std::vector<int64_t> dims{0};
    for (int i = 0; i < spatial; ++i) dims.push_back(2 + i);
    return d.summed(d.gradient(), dims, false);
  });
}

Schema conv_transpose(const char* name, int spatial) {
  const std::string sizes = spatial_list(spatial), kernel = spatial_list(spatial, "k");
  Schema schema(
      name, "conv_transpose",
      concat(spatial,
             "-D transposed convolution, with bias, residual sum and activation: what the gradient of a "
             "convolution does to images.\n\n"
             "y[n, o, q] = activation(sum over i, p, k with q = p * stride - begin + k * dilation of x[n, i, p] * "
             "weight[i, o, k] + bias[o] + residual[n, o, q])\n"
             "within each of the groups, which split c and oc evenly.\n\n"
             "Returns (n, oc, ",
             sizes,
             ") with sizes (in - 1) * stride - begin - end + dilation * (kernel - 1) + "
             "output_padding + 1, in the dtype of x; sums are kept in at least f32.\n\n"
             "Source: V. Dumoulin, F. Visin, A guide to convolution arithmetic for deep learning, "
             "arXiv 1603.07285, chapter 4; semantics of torch.nn.functional."));
  schema.constant(attr::spatial, int64_t(spatial))
      .tensor("x", concat("(n, c, ", sizes, "), f32, f16 or bf16"))
      .of(dtypes::floats)
      .batched()
      .tensor("weight", concat("(c, oc / groups, ", kernel, ")"), Role::constant)
      .like("x")
      .optional("bias", "(oc)", Role::constant)
      .like("x")
      .attribute(attr::stride, int64_t(1), concat("1 or ", spatial, " steps, at least 1"))
      .attribute(attr::padding, int64_t(0),
                 concat("cut from the result's borders, in elements: one value, ", spatial, " (", sizes, "), or ",
                        2 * spatial, " (begins, then ends)"))
      .attribute(attr::output_padding, int64_t(0),
                 concat("1 or ", spatial, " sizes added to the end of the result, less than stride or dilation"))
      .attribute(attr::groups, int64_t(1), "divides c and oc")
      .attribute(attr::dilation, int64_t(1),
                 concat("1 or ", spatial, " distances between kernel elements, at least 1"));
  take_post_ops(schema, {PostOp::add("residual")}, "x");
  schema.result(Result("y").like("x").over("residual"));
  schema.products = true;
  schema.weighting = {Weighting::Order::inputs_first, 1};
  schema.infer = infer_conv_transpose;
  schema.flops = conv_transpose_flops;
  schema.gradient = derive_conv_transpose;
  return schema;
}

PL_REGISTER_OP([] { return conv_transpose("conv_transpose1d", 1); });
PL_REGISTER_OP([] { return conv_transpose("conv_transpose2d", 2); });
PL_REGISTER_OP([] { return conv_transpose("conv_transpose3d", 3); });

}  // namespace
}  // namespace pl
