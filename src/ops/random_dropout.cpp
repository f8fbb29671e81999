// random_dropout: dropout in training, by random numbers that depend on a seed and on nothing else.
#include "ops/gradient.h"

namespace pl {
namespace {

void infer_random_dropout(Op& op) {
  check_seed(op, 1);
  const double p = op.attributes[attr::p];
  check(op, p >= 0 && p < 1, Code::invalid_argument, "p is ", p, ", expected 0 to less than 1");
  add_output(op);
}

// The same elements are kept: the numbers are made again.
void derive_random_dropout(Derivation& d) {
  d.give(0, d.make("random_dropout", Attributes{{attr::p, d.op().attributes[attr::p]}}, {d.gradient(), d.input(1)}));
}

Schema random_dropout() {
  Schema schema(
      "random_dropout", "random_dropout",
      "Dropout in training: elements set to zero by chance, the others scaled so that the mean stays.\n\n"
      "y[i] = u[i] < p ? 0 : x[i] / (1 - p)\n"
      "where u[i] is word i mod 4 of Philox4x32-10 with counter c + i / 4 and key k, divided by 2^32, k is the first "
      "element of seed, c the second (0 where there is none), and i numbers the elements in the order of their "
      "dimensions, so that layout, device and threads change nothing.\n\n"
      "Returns the shape and dtype of x.\n\n"
      "Source: N. Srivastava et al., Dropout, 2014; J. Salmon et al., Parallel random numbers: as easy as 1, 2, 3, "
      "2011.");
  schema.tensor("x", "any shape; f32, f16 or bf16")
      .of(dtypes::floats)
      .tensor("seed", "one or two elements, s64: the seed, and the first counter")
      .of({DType::s64})
      .attribute(attr::p, 0.5, "share of elements that are dropped, 0 to less than 1")
      .result(Result("y").like("x").shaped("x"));
  schema.infer = infer_random_dropout;
  schema.gradient = derive_random_dropout;
  schema.flops = [](const Op& op) { return 20.0 * double(op.in(0).elements()); };
  return schema;
}

PL_REGISTER_OP(random_dropout);

}  // namespace
}  // namespace pl
