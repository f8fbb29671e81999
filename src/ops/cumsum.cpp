// cumsum: running sums.
#include "ops/gradient.h"

namespace pl {
namespace {

void infer(Op& op) {
  check_rank(op, 0, 1, kMaxRank);
  op.attributes.set("dim", normalise_dim(op, "dim", op.attributes.integer("dim"), op.in(0).rank()));
  add_output(op);
}

Schema cumsum() {
  Schema schema("cumsum", "cumsum",
                "Running sums along one dimension.\n\n"
                "y[i] = x[0] + x[1] + ... + x[i], i along dim\n\n"
                "Returns the shape and dtype of x; sums are kept in at least f32, integers wrap around.\n\n"
                "Source: semantics of torch.cumsum.");
  schema.tensor("x", "rank at least 1; f32, f16, bf16, s32 or s64")
      .of(dtypes::wide)
      .batched()
      .required("dim", AttributeType::integer, "the dimension; negative counts from the last")
      .axis("dim")
      .result(Result("y").like("x").shaped("x"));
  schema.other_axes = true;
  schema.infer = infer;
  // Sums from the other end.
  schema.gradient = [](Derivation& d) {
    const int64_t dim = d.op().attributes.integer("dim");
    const Derivation::Value g = d.gradient(), running = d.make("cumsum", attributes_of({{"dim", dim}}), {g});
    d.give(0, d.pointwise("y0 = x2 - x1 + x0", {g, running, d.summed(g, {dim}, true)}));
  };
  return schema;
}

PL_REGISTER_OP(cumsum);

}  // namespace
}  // namespace pl
