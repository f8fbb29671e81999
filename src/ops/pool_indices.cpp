// Where the maxima of max_pool and adaptive_max_pool lie.
#include "ops/pool_indices.h"

#include "ops/spatial.h"

namespace pl {
namespace {

void infer_pool_indices(Op& op) {
  const int spatial = spatial_rank(op);
  check_rank(op, 0, spatial + 2, spatial + 2);
  add_output(op, forward_of_indices(op).out().shape);
}

Schema pool_indices(int spatial, bool adaptive) {
  const std::string sizes = spatial_list(spatial);
  const std::string forward = concat(adaptive ? "adaptive_" : "", "max_pool", spatial, "d");
  Schema schema(forward + "_indices", "pool_indices",
                concat("Where the maxima of ", forward,
                       " lie: the place of each in its plane of x, counted row by row.\n\n"
                       "Of equal values the first one counts; a NaN is larger than any number, and of several the last "
                       "one counts.\n\nReturns s64 in the shape of the pool's result.\n\n"
                       "Source: semantics of torch.nn.functional with return_indices."));
  schema.constant(attr::spatial, int64_t(spatial))
      .constant(attr::forward, forward)
      .tensor("x", concat("(n, c, ", sizes, "), the pool's input; f32, f16 or bf16"))
      .of(dtypes::floats)
      .batched();
  if (adaptive)
    schema.required(attr::output_size, "as for the pool");
  else
    schema.required(attr::kernel_size, "as for the pool")
        .attribute(attr::stride, None{}, "as for the pool")
        .attribute(attr::padding, int64_t(0), "as for the pool", padding_words())
        .attribute(attr::dilation, int64_t(1), "as for the pool")
        .attribute(attr::ceil_mode, false, "as for the pool");
  schema.result(Result("indices").of(DType::s64));
  schema.infer = infer_pool_indices;
  schema.flops = [](const Op& op) {
    double result = double(op.out().elements());
    if (op.attributes.has(attr::kernel_size))
      for (int64_t kernel : op.attributes[attr::kernel_size]) result *= double(kernel);
    return result;
  };
  return schema;
}

#define PL_REGISTER_INDICES(spatial)                           \
  PL_REGISTER_OP([] { return pool_indices(spatial, false); }); \
  PL_REGISTER_OP([] { return pool_indices(spatial, true); })
PL_REGISTER_INDICES(1);
PL_REGISTER_INDICES(2);
PL_REGISTER_INDICES(3);

}  // namespace

Op forward_of_indices(const Op& op) {
  Attributes attributes;
  attributes.take(op.attributes,
                  {attr::kernel_size, attr::stride, attr::padding, attr::dilation, attr::ceil_mode, attr::output_size});
  return make_op(*find_schema(op.attributes[attr::forward]), attributes, {op.in(0)});
}

}  // namespace pl
