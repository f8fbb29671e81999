// permute and transpose: dimensions in another order.  Always views.
#include "ops/gradient.h"
#include "ops/view.h"

namespace pl {
namespace {

Schema& as_permutation(Schema& schema, void (*infer)(Op&)) {
  schema.axis(attr::dims, AxisRule::Meaning::order).result(Result("y").like("x"));
  schema.renaming = Renaming::order;
  schema.keeps_finite = true;
  schema.zeros = Zeros::where_all;
  schema.infer = infer;
  schema.view = [](const Op& op) -> std::optional<std::vector<TensorDesc>> {
    return std::vector<TensorDesc>{view_permuted(op.in(0), Dims(op.attributes[attr::dims]))};
  };
  schema.flops = [](const Op&) { return 0.0; };
  schema.gradient = [](Derivation& d) {
    const std::vector<int64_t>& dims = d.op().attributes[attr::dims];
    std::vector<int64_t> back(dims.size());
    for (size_t i = 0; i < dims.size(); ++i) back[size_t(dims[i])] = int64_t(i);
    d.give(0, d.make("permute", Attributes{{attr::dims, back}}, {d.gradient()}));
  };
  return schema;
}

void finish(Op& op, const std::vector<int64_t>& dims) {
  op.attributes.set(attr::dims, dims);
  Dims shape;
  for (int64_t dim : dims) shape.push_back(op.in(0).shape[int(dim)]);
  add_output(op, shape);
}

void infer_permute(Op& op) {
  const int rank = op.in(0).rank();
  std::vector<int64_t> dims = op.attributes[attr::dims];
  check(op, dims.size() == size_t(rank), Code::invalid_argument, "dims has ", dims.size(), " values, expected ", rank,
        " (the rank of x)");
  bool seen[kMaxRank] = {};
  for (int64_t& dim : dims) {
    dim = normalise_dim(op, attr::dims, dim, rank);
    check(op, !seen[dim], Code::invalid_argument, "dims names dimension ", dim, " twice, expected each once");
    seen[dim] = true;
  }
  finish(op, dims);
}

Schema make_permute() {
  Schema schema("permute", "permute",
                "Dimensions in another order, as a view.\n\ny.shape[i] = x.shape[dims[i]]\n\n"
                "Source: semantics of torch.permute and numpy.transpose.");
  schema.tensor("x", "any shape, any dtype")
      .batched()
      .required(attr::dims, "each dimension of x once; negative counts from the last");
  return as_permutation(schema, infer_permute);
}

void infer_transpose(Op& op) {
  const int rank = op.in(0).rank();
  const int64_t a = normalise_dim(op, attr::dim0, op.attributes[attr::dim0], rank);
  const int64_t b = normalise_dim(op, attr::dim1, op.attributes[attr::dim1], rank);
  op.attributes.set(attr::dim0, a);
  op.attributes.set(attr::dim1, b);
  std::vector<int64_t> dims;
  for (int i = 0; i < rank; ++i) dims.push_back(i == a ? b : i == b ? a : i);
  finish(op, dims);
}

Schema make_transpose() {
  Schema schema("transpose", "transpose",
                "Two dimensions swapped, as a view.\n\nSource: semantics of torch.transpose.");
  schema.tensor("x", "rank at least 1, any dtype")
      .batched()
      .required(attr::dim0, "one dimension; negative counts from the last")
      .required(attr::dim1, "the other one");
  return as_permutation(schema, infer_transpose);
}

PL_REGISTER_OP(make_permute);
PL_REGISTER_OP(make_transpose);

}  // namespace
}  // namespace pl
