// The gradients of max_pool, avg_pool and the adaptive pools by their input.
#include "ops/pool_backward.h"

#include "ops/spatial.h"

namespace pl {
namespace {

bool is_average(const Op& op) { return op.attributes[attr::mode] == "avg"; }

void infer_pool_backward(Op& op) {
  const int spatial = spatial_rank(op), grad = is_average(op) ? 0 : 1;
  check_rank(op, 0, spatial + 2, spatial + 2);
  check_rank(op, grad, spatial + 2, spatial + 2);
  if (is_average(op)) {
    const auto sizes = expand_ints(op, attr::input_size, spatial);
    check_range(op, attr::input_size, sizes, 1, int64_t(1) << 40);
  }
  const Op forward = forward_of_pool(op);
  check_shape(op, grad, forward.out().shape, "the shape of the pool's result");
  add_output(op, forward.in(0).shape);
}

double pool_backward_flops(const Op& op) {
  double result = double(op.out().elements());
  if (op.attributes.has(attr::kernel_size))
    for (int64_t kernel : op.attributes[attr::kernel_size]) result *= double(kernel);
  return result;
}

Schema pool_backward(int spatial, bool average, bool adaptive) {
  const std::string sizes = spatial_list(spatial);
  const std::string forward = concat(adaptive ? "adaptive_" : "", average ? "avg" : "max", "_pool", spatial, "d");
  Schema schema(forward + "_backward", "pool_backward",
                concat("The gradient of ", forward, " by its input.\n\n",
                       average ? "dx[q] = sum over the windows p that hold q of grad[p] / count[p]"
                               : "dx[q] = sum over the windows p whose maximum is x[q] of grad[p]; of equal values the "
                                 "first one counts, a NaN is larger than any number",
                       "\n\nReturns (n, c, ", sizes,
                       "), the shape of the pool's input, in the dtype of grad; sums are kept "
                       "in at least f32.\n\nSource: the derivative of the pool's formula."));
  schema.constant(attr::spatial, int64_t(spatial))
      .constant(attr::mode, std::string(average ? "avg" : "max"))
      .constant(attr::forward, forward);
  if (!average)
    schema.tensor("x", concat("(n, c, ", sizes, "), the pool's input; f32, f16 or bf16")).of(dtypes::floats).batched();
  schema.tensor("grad", concat("(n, c, ", sizes, "), the gradient by the pool's result")).batched();
  if (average)
    schema.of(dtypes::floats);
  else
    schema.like("x");
  schema.result(Result("dx").like("grad"));
  if (average) schema.required(attr::input_size, concat("the ", spatial, " sizes of the pool's input"));
  if (!adaptive) {
    schema.required(attr::kernel_size, "as for the pool")
        .attribute(attr::stride, None{}, "as for the pool")
        .attribute(attr::padding, int64_t(0), "as for the pool", padding_words());
    if (!average) schema.attribute(attr::dilation, int64_t(1), "as for the pool");
    schema.attribute(attr::ceil_mode, false, "as for the pool");
    if (average) schema.attribute(attr::count_include_pad, true, "as for the pool");
  }
  schema.infer = infer_pool_backward;
  schema.flops = pool_backward_flops;
  return schema;
}

#define PL_REGISTER_POOLS(spatial)                                     \
  PL_REGISTER_OP([] { return pool_backward(spatial, false, false); }); \
  PL_REGISTER_OP([] { return pool_backward(spatial, true, false); });  \
  PL_REGISTER_OP([] { return pool_backward(spatial, false, true); });  \
  PL_REGISTER_OP([] { return pool_backward(spatial, true, true); })
PL_REGISTER_POOLS(1);
PL_REGISTER_POOLS(2);
PL_REGISTER_POOLS(3);

}  // namespace

Op forward_of_pool(const Op& backward) {
  const Schema& schema = *find_schema(backward.attributes[attr::forward]);
  const TensorDesc& grad = backward.inputs.back();
  Attributes attributes;
  attributes.take(backward.attributes, {attr::kernel_size, attr::stride, attr::padding, attr::dilation, attr::ceil_mode,
                                        attr::count_include_pad});
  TensorDesc x = backward.in(0);
  if (is_average(backward)) {
    Dims shape{grad.shape[0], grad.shape[1]};
    for (int64_t size : backward.attributes[attr::input_size]) shape.push_back(size);
    x = TensorDesc::dense(grad.dtype, shape);
  }
  if (schema.kind == "adaptive_pool")
    attributes.set(attr::output_size, std::vector<int64_t>(grad.shape.begin() + 2, grad.shape.end()));
  return make_op(schema, attributes, {x});
}

}  // namespace pl
