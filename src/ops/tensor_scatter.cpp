// A run of places written at an offset that is known when it runs: tensor_scatter, as a cache of keys and values grows.
#include <algorithm>

#include "ops/op.h"

namespace pl {
namespace {

void infer_tensor_scatter(Op& op) {
  check_rank(op, 0, 1, kMaxRank);
  const Dims &x = op.in(0).shape, &at = op.in(2).shape;
  const int64_t dim = normalise_dim(op, attr::dim, op.attributes[attr::dim], x.size());
  op.attributes.set(attr::dim, dim);
  check_rank(op, 1, x.size(), x.size());
  const Dims& update = op.in(1).shape;
  for (int i = 0; i < x.size(); ++i)
    check(op, i == dim ? update[i] <= x[i] : update[i] == x[i], Code::shape, "update.shape is ", update, ", expected ",
          x, " (x.shape), or less along dimension ", dim);
  check_rank(op, 2, 0, 1);
  check(op, at.size() == 0 || (at[0] == x[0] && dim != 0), Code::shape, "at.shape is ", at,
        ", expected (), or one number for each of x.shape[0] = ", x[0], " where dim is not 0");
  add_output(op);
}

Schema tensor_scatter() {
  Schema schema("tensor_scatter", "tensor_scatter",
                "x with update written over a run of places along one dimension, from an offset on that is known when "
                "it runs.\n\n"
                "y[n, ..., at[n] + j, ...] = update[n, ..., j, ...] with j along dim; all else is as in x.  With "
                "circular, (at[n] + j) % x.shape[dim].\n\n"
                "Returns x.shape in the dtype of x.  On the host a run beyond the end is an error; elsewhere what is "
                "beyond it is left out.\n\n"
                "Source: semantics of ONNX's TensorScatter.");
  schema.tensor("x", "rank at least 1, any dtype: a cache with room for more than it holds")
      .tensor("update", "the shape of x but along dim, where it is at most as long; the dtype of x")
      .like("x")
      .tensor("at", "() or (n), n being x.shape[0]; s64 or s32; at least 0: where the run begins")
      .of(dtypes::indices)
      .attribute(attr::dim, int64_t(-2), "the dimension; negative counts from the last")
      .attribute(attr::circular, false, "go on at the beginning behind the end")
      .result(Result("y").like("x").shaped("x").over("x"));
  schema.infer = infer_tensor_scatter;
  schema.integers = [](const Op& op, int) {
    const int dim = int(op.attributes[attr::dim]);
    const int64_t size = op.in(0).shape[dim], count = op.in(1).shape[dim];
    return std::pair<int64_t, int64_t>(0, std::max<int64_t>(0, size - count));
  };
  schema.flops = [](const Op& op) { return double(op.in(1).elements()); };
  return schema;
}

PL_REGISTER_OP(tensor_scatter);

}  // namespace
}  // namespace pl
