// where: a choice between two tensors, element by element.
#include "ops/gradient.h"

namespace pl {
namespace {

void infer(Op& op) {
  check_dtype(op, 0, {DType::boolean});
  check_same_dtype(op, 2, 1);
  add_output(op, op.in(1).dtype, broadcast_shapes(op, {0, 1, 2}));
}

Schema where() {
  Schema schema("where", "where",
                "Elements of x where a condition holds, of y elsewhere.\n\nout = x if condition else y\n\n"
                "Returns the shape that the three broadcast to by NumPy's rules, in the dtype of x.\n\n"
                "Source: semantics of torch.where and numpy.where.");
  schema.tensor("condition", "any shape, bool")
      .tensor("x", "broadcasts with condition; any dtype")
      .tensor("y", "broadcasts with condition and x; the dtype of x");
  schema.infer = infer;
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
