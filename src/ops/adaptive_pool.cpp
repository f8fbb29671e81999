// adaptive_avg_pool, adaptive_max_pool: pooling to a given size; global_avg_pool, global_max_pool: to size one.
#include "ops/gradient.h"
#include "ops/spatial.h"

namespace pl {
namespace {

constexpr int64_t kKeep = -1;  // in output_size: the input's size

void infer_sizes(Op& op, int spatial, std::vector<int64_t> sizes) {
  const Dims& x = op.in(0).shape;
  Dims output{x[0], x[1]};
  for (int i = 0; i < spatial; ++i) {
    check(op, x[2 + i] >= 1, Code::shape, "x.", spatial_name(spatial, i), " is 0, expected at least 1");
    int64_t& size = sizes[size_t(i)];
    check(op, size >= 0 || size == kKeep, Code::invalid_argument, "output_size along ", spatial_name(spatial, i),
          " is ", size, ", expected at least 0, or -1 for the input's size");
    if (size == kKeep) size = x[2 + i];
    output.push_back(size);
  }
  op.attributes.set(attr::output_size, sizes);
  add_output(op, output);
}

void infer_adaptive(Op& op) {
  const int spatial = spatial_rank(op);
  check_rank(op, 0, spatial + 2, spatial + 2);
  infer_sizes(op, spatial, expand_ints(op, attr::output_size, spatial));
}

void infer_global(Op& op) {
  check_rank(op, 0, 3, 5);
  const int spatial = op.in(0).rank() - 2;
  op.attributes.set(attr::spatial, int64_t(spatial));
  infer_sizes(op, spatial, std::vector<int64_t>(size_t(spatial), 1));
}

double adaptive_pool_flops(const Op& op) { return double(std::max(op.in(0).elements(), op.out().elements())); }

void derive_adaptive_pool(Derivation& d) {
  const Op& op = d.op();
  const Dims &x = op.in(0).shape, &y = op.out().shape;
  const int spatial = x.size() - 2;
  const std::vector<int64_t> sizes(x.begin() + 2, x.end());
  if (op.attributes[attr::mode] != "avg") {
    d.give(0, d.make(concat("adaptive_max_pool", spatial, "d_backward"), {}, {d.input(0), d.gradient()}));
  } else if (y.product() == x[0] * x[1]) {  // one mean for all positions
    const double share = 1.0 / double(std::max<int64_t>(1, Dims(sizes).product()));
    d.give(0, d.expanded(d.pointwise("y0 = x0 * s0", {d.gradient()}, {share}), x));
  } else {
    d.give(0, d.make(concat("adaptive_avg_pool", spatial, "d_backward"), Attributes{{attr::input_size, sizes}},
                     {d.gradient()}));
  }
}

Schema adaptive(const char* name, int spatial, bool average) {
  const std::string sizes = spatial_list(spatial);
  Schema schema(name, "adaptive_pool",
                concat(spatial, "-D ", average ? "average" : "maximum",
                       " pooling to a given size.\n\n"
                       "y[n, c, p] = ",
                       average ? "mean" : "max",
                       " over floor(p * in / out) <= q < ceil((p + 1) * in / out) of "
                       "x[n, c, q]\n\nReturns (n, c, ",
                       sizes,
                       ") with the sizes output_size.\n\n"
                       "Source: semantics of torch.nn.functional."));
  schema.constant(attr::spatial, int64_t(spatial))
      .constant(attr::mode, std::string(average ? "avg" : "max"))
      .tensor("x", concat("(n, c, ", sizes, average ? "), f32, f16 or bf16" : "), any dtype but bool"))
      .of(average ? dtypes::floats : dtypes::numbers)
      .batched()
      .required(attr::output_size, concat("1 or ", spatial, " sizes; -1 keeps the input's"))
      .result(Result("y").like("x"));
  schema.same_if_alike = true;  // every window is one element
  schema.infer = infer_adaptive;
  schema.gradient = derive_adaptive_pool;
  schema.flops = adaptive_pool_flops;
  return schema;
}

Schema global(const char* name, bool average) {
  Schema schema(name, "adaptive_pool",
                concat(average ? "Mean" : "Maximum",
                       " of each channel over all spatial positions.\n\ny[n, c] = ", average ? "mean" : "max",
                       " over p of x[n, c, p]\n\nReturns (n, c, 1...) of the rank of x.\n\n"
                       "Source: semantics of ONNX's Global",
                       average ? "Average" : "Max",
                       "Pool; Lin et al., Network in "
                       "network, arXiv 1312.4400."));
  schema.constant(attr::mode, std::string(average ? "avg" : "max"))
      .tensor("x", concat("(n, c, w), (n, c, h, w) or (n, c, d, h, w), ",
                          average ? "f32, f16 or bf16" : "any dtype but bool"))
      .of(average ? dtypes::floats : dtypes::numbers)
      .batched()
      .result(Result("y").like("x"));
  schema.same_if_alike = true;  // every window is one element
  schema.infer = infer_global;
  schema.gradient = derive_adaptive_pool;
  schema.flops = adaptive_pool_flops;
  return schema;
}

PL_REGISTER_OP([] { return adaptive("adaptive_avg_pool1d", 1, true); });
PL_REGISTER_OP([] { return adaptive("adaptive_avg_pool2d", 2, true); });
PL_REGISTER_OP([] { return adaptive("adaptive_avg_pool3d", 3, true); });
PL_REGISTER_OP([] { return adaptive("adaptive_max_pool1d", 1, false); });
PL_REGISTER_OP([] { return adaptive("adaptive_max_pool2d", 2, false); });
PL_REGISTER_OP([] { return adaptive("adaptive_max_pool3d", 3, false); });
PL_REGISTER_OP([] { return global("global_avg_pool", true); });
PL_REGISTER_OP([] { return global("global_max_pool", false); });

}  // namespace
}  // namespace pl
