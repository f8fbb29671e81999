// where: a choice between two tensors, element by element.
#include "ops/gradient.h"

namespace pl {
namespace {

Schema where() {
  Schema schema("where", "where",
                "Elements of x where a condition holds, of y elsewhere.\n\nout = x if condition else y\n\n"
                "Returns the shape that the three broadcast to by NumPy's rules, in the dtype of x.\n\n"
                "Source: semantics of torch.where and numpy.where.");
  schema.tensor("condition", "any shape, bool")
      .of({DType::boolean})
      .selects()
      .tensor("x", "broadcasts with condition; any dtype")
      .tensor("y", "broadcasts with condition and x; the dtype of x")
      .like("x")
      .result(Result("out").like("x").broadcast().over("x").over("y"))
      .by_element();
  schema.keeps_finite = true;
  schema.zeros = Zeros::where_all;
  schema.infer = [](Op& op) { add_output(op); };
  schema.expression = [](const Op&) { return ElementExpression{"y0 = where(x0 != 0, x1, x2)", {}}; };
  schema.gradient = [](Derivation& d) {
    const Derivation::Value g = d.gradient(), condition = d.input(0);
    for (int i : {1, 2})
      d.give_if_wanted(i, [&] {
        return d.summed_to(
            d.pointwise(i == 1 ? "y0 = where(x1 != 0, x0, 0)" : "y0 = where(x1 != 0, 0, x0)", {g, condition}),
            d.op().in(i).shape);
      });
  };
  return schema;
}

PL_REGISTER_OP(where);

}  // namespace
}  // namespace pl
