// cumsum, cumprod and logcumsumexp: what is joined up to each element.
#include "ops/gradient.h"

namespace pl {
namespace {

void infer_cumsum(Op& op) {
  check_rank(op, 0, 1, kMaxRank);
  op.attributes.set(attr::dim, normalise_dim(op, attr::dim, op.attributes[attr::dim], op.in(0).rank()));
  add_output(op);
}

struct Running {
  const char* name;
  const char* function;
  const char* title;
  const char* formula;
  const char* note;
  DTypes takes;
};

Schema running(const Running& what) {
  const bool integers = what.takes.has(DType::s64);
  Schema schema(what.name, "cumsum",
                concat(what.title, " along one dimension.\n\n", what.formula,
                       ", i along dim\n\nReturns the shape and dtype of x; ", what.note,
                       "\n\nSource: semantics of torch.", what.name, "."));
  schema.constant(attr::function, std::string(what.function))
      .tensor("x", concat("rank at least 1; f32, f16", integers ? ", bf16, s32 or s64" : " or bf16"))
      .of(what.takes)
      .batched()
      .required(attr::dim, "the dimension; negative counts from the last")
      .axis(attr::dim)
      .result(Result("y").like("x").shaped("x"));
  schema.other_axes = true;
  schema.infer = infer_cumsum;
  return schema;
}

// Sums from the other end.
Derivation::Value summed_back(Derivation& d, Derivation::Value g) {
  const int64_t dim = d.op().attributes[attr::dim];
  const Derivation::Value sums = d.make("cumsum", Attributes{{attr::dim, dim}}, {g});
  return d.pointwise("y0 = x2 - x1 + x0", {g, sums, d.summed(g, {dim}, true)});
}

Schema cumsum() {
  Schema schema = running({"cumsum", "sum", "Running sums", "y[i] = x[0] + x[1] + ... + x[i]",
                           "sums are kept in at least f32, integers wrap around.", dtypes::wide});
  schema.gradient = [](Derivation& d) { d.give(0, summed_back(d, d.gradient())); };
  return schema;
}

Schema cumprod() {
  Schema schema = running({"cumprod", "prod", "Running products", "y[i] = x[0] * x[1] * ... * x[i]",
                           "products are kept in at least f32, integers wrap around.", dtypes::wide});
  // Behind a row's first zero all products are zero, but for the gradient by that zero, which leaves it out.
  schema.gradient = [](Derivation& d) {
    const Attributes along{{attr::dim, d.op().attributes[attr::dim]}};
    const Derivation::Value x = d.input(0), g = d.gradient();
    const Derivation::Value zeros = d.make("cumsum", along, {d.pointwise("y0 = x0 == 0", {x})});
    const Derivation::Value others =
        d.make("cumprod", along, {d.pointwise("y0 = where(x0 == 0 && x1 == 1, 1, x0)", {x, zeros})});
    const auto sums = [&](Derivation::Value products) {
      return summed_back(d, d.pointwise("y0 = x0 * x1", {g, products}));
    };
    d.give(0, d.pointwise("y0 = where(x0 == 0, where(x1 == 1, x3, 0), x2 / where(x0 == 0, 1, x0))",
                          {x, zeros, sums(d.output()), sums(others)}));
  };
  return schema;
}

Schema logcumsumexp() {
  return running({"logcumsumexp", "logaddexp", "Logarithms of running sums of exponentials",
                  "y[i] = log(exp(x[0]) + exp(x[1]) + ... + exp(x[i]))", "computed in at least f32, without overflow.",
                  dtypes::floats});
}

PL_REGISTER_OP(cumsum);
PL_REGISTER_OP(cumprod);
PL_REGISTER_OP(logcumsumexp);

}  // namespace
}  // namespace pl
