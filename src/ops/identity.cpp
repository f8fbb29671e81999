// identity, and dropout, which is the same where nothing is trained.
#include "ops/gradient.h"

namespace pl {
namespace {

Schema& as_itself(Schema& schema, void (*infer)(Op&)) {
  schema.result(Result("y").like("x").shaped("x"));
  schema.renaming = Renaming::shape;
  schema.same_if_alike = true;
  schema.keeps_finite = true;
  schema.zeros = Zeros::where_all;
  schema.infer = infer;
  schema.view = [](const Op& op) -> std::optional<std::vector<TensorDesc>> {
    return std::vector<TensorDesc>{op.in(0)};
  };
  schema.flops = [](const Op&) { return 0.0; };
  schema.gradient = [](Derivation& d) { d.give(0, d.gradient()); };
  return schema;
}

Schema make_identity() {
  Schema schema("identity", "identity", "The tensor itself, as a view.\n\ny = x");
  schema.tensor("x", "any shape, any dtype").batched();
  return as_itself(schema, [](Op& op) { add_output(op); });
}

void infer_dropout(Op& op) {
  const double p = op.attributes[attr::p];
  check(op, p >= 0 && p <= 1, Code::invalid_argument, "p is ", p, ", expected 0 to 1");
  check(op, !op.attributes[attr::training], Code::unsupported,
        "training is true, expected false: only inference is implemented");
  add_output(op);
}

Schema make_dropout() {
  Schema schema(
      "dropout", "identity",
      "Dropout in inference: the tensor itself, as a view.\n\ny = x\n\n"
      "Source: N. Srivastava et al., Dropout: a simple way to prevent neural networks from overfitting, 2014.");
  schema.tensor("x", "any shape, any dtype")
      .batched()
      .attribute(attr::p, 0.5, "share of elements that training would drop, 0 to 1")
      .attribute(attr::training, false, "must be false");
  return as_itself(schema, infer_dropout);
}

PL_REGISTER_OP(make_identity);
PL_REGISTER_OP(make_dropout);

}  // namespace
}  // namespace pl
