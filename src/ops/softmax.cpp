// softmax and log_softmax.
#include "ops/gradient.h"

namespace pl {
namespace {

void infer_softmax(Op& op) {
  check_rank(op, 0, 1, kMaxRank);
  op.attributes.set(attr::dim, normalise_dim(op, attr::dim, op.attributes[attr::dim], op.in(0).rank()));
  add_output(op);
}

void derive_softmax(Derivation& d) {
  const std::vector<int64_t> dims{d.op().attributes[attr::dim]};
  const Derivation::Value y = d.output(), g = d.gradient();
  if (d.op().attributes[attr::log]) {
    d.give(0, d.pointwise("y0 = x0 - exp(x1) * x2", {g, y, d.summed(g, dims, true)}));
    return;
  }
  const Derivation::Value products = d.make("mul", {}, {g, y});
  d.give(0, d.pointwise("y0 = x1 * (x0 - x2)", {g, y, d.summed(products, dims, true)}));
}

Schema softmax(const char* name, bool log) {
  Schema schema(
      name, "softmax",
      concat(log ? "Logarithm of the softmax along one dimension.\n\ny = x - max - ln(sum of exp(x - max))"
                 : "Softmax along one dimension.\n\ny = exp(x - max) / sum of exp(x - max)",
             "\nwith maximum and sum along dim.\n\nReturns the shape and dtype of x; sums are kept in at least "
             "f32.\n\nSource: J. Bridle, Probabilistic interpretation of feedforward classification network "
             "outputs, 1990; semantics of torch.nn.functional."));
  schema.constant(attr::log, log)
      .tensor("x", "rank at least 1; f32, f16 or bf16")
      .of(dtypes::floats)
      .batched()
      .required(attr::dim, "the dimension; negative counts from the last")
      .axis(attr::dim)
      .result(Result("y").like("x").shaped("x"));
  schema.other_axes = true;
  schema.infer = infer_softmax;
  schema.gradient = derive_softmax;
  schema.flops = [](const Op& op) { return 5.0 * double(op.in(0).elements()); };
  return schema;
}

PL_REGISTER_OP([] { return softmax("softmax", false); });
PL_REGISTER_OP([] { return softmax("log_softmax", true); });

}  // namespace
}  // namespace pl
