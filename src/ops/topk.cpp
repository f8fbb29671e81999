// topk: the largest or smallest elements along one dimension, and where they were.
#include "ops/gradient.h"

namespace pl {
namespace {

void infer_topk(Op& op) {
  check_rank(op, 0, 1, kMaxRank);
  Dims shape = op.in(0).shape;
  const int64_t dim = normalise_dim(op, attr::dim, op.attributes[attr::dim], shape.size());
  op.attributes.set(attr::dim, dim);
  const int64_t k = op.attributes[attr::k];
  check(op, k >= 0 && k <= shape[int(dim)], Code::invalid_argument, "k is ", k, ", expected 0 to ", shape[int(dim)],
        " (the size of x along dimension ", dim, ")");
  const int64_t skip = op.attributes[attr::skip];
  check(op, skip >= 0 && skip <= k, Code::invalid_argument, "skip is ", skip, ", expected 0 to ", k, " (k)");
  shape[int(dim)] = k - skip;
  for (int k = 0; k < 2; ++k) add_output(op, shape);
}

Schema topk() {
  Schema schema("topk", "topk",
                "The k largest or smallest elements along one dimension, and their indices.\n\n"
                "values[j] = x[indices[j]], the (skip + j)-th of x in descending (largest) or ascending order\n\n"
                "Of equal elements the one of lower index comes first; NaN counts as larger than any number.\n\n"
                "Returns values and indices (s64), both of the shape of x with k - skip elements along dim.\n\n"
                "Source: semantics of torch.topk; order of equal elements: ONNX TopK.");
  schema.tensor("x", "rank at least 1; any dtype but bool")
      .of(dtypes::numbers)
      .batched()
      .required(attr::k, "how many, up to the size of x along dim")
      .attribute(attr::dim, int64_t(-1), "the dimension; negative counts from the last")
      .attribute(attr::largest, true, "the largest, else the smallest")
      .attribute(attr::sorted, true, "in order; False permits any order, which is the same here")
      .attribute(attr::skip, int64_t(0), "how many of the first ones are left out; a median skips those before it")
      .axis(attr::dim)
      .result(Result("values").like("x"))
      .result(Result("indices").of(DType::s64));
  schema.other_axes = true;
  schema.gradient = [](Derivation& d) {
    const Op& op = d.op();
    d.give(0, d.make("gather_backward",
                     Attributes{{attr::dim, op.attributes[attr::dim]},
                                {attr::size, op.in(0).shape[int(op.attributes[attr::dim])]}},
                     {d.gradient(), d.output(1)}));
  };
  schema.infer = infer_topk;
  schema.flops = [](const Op& op) { return double(op.in(0).elements()); };
  return schema;
}

PL_REGISTER_OP(topk);

}  // namespace
}  // namespace pl
