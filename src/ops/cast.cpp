// cast: the same values in another dtype, as programming languages convert them.
#include "ops/gradient.h"

namespace pl {
namespace {

void infer_cast(Op& op) {
  const DType from = op.in(0).dtype, to = result_dtype(op, 0);
  op.attributes.set(attr::dtype, std::string(name_of(to)));
  // What is done before the element is stored in the other dtype.
  const bool cuts = is_floating(from) && !is_floating(to) && to != DType::boolean;
  op.attributes.set(attr::function, std::string(cuts ? "trunc" : "identity"));
  add_output(op);
}

Schema cast() {
  Schema schema("cast", "cast",
                "The same values in another dtype.\n\n"
                "y[i...] = x[i...]; between floats rounded to the nearest, halves to even; from floats to integers "
                "rounded toward zero and limited to the target's range (NaN gives 0), unless limited is false; between "
                "integers the low bits; to bool, what is not zero is true.\n\n"
                "Returns the shape of x.  (`reorder` rounds floats to the nearest integer instead.)\n\n"
                "Source: semantics of torch.Tensor.to and of ONNX's Cast, with saturation where these leave the result "
                "open.");
  schema.tensor("x", "any shape, any dtype")
      .required(attr::dtype, "dtype of the result: f32, f16, bf16, s8, u8, s32, s64 or bool")
      .attribute(attr::limited, true,
                 "floats that the integer cannot hold become the end of its range that is nearer, NaN 0; else all of "
                 "them the least s64 where that is the result, or the least s32, of which s8 and u8 are the low bits "
                 "(as processors of x86 convert)")
      .result(Result("y").named_by(attr::dtype).shaped("x").over("x"))
      .by_element();
  schema.same_if_alike = true;
  schema.keeps_finite = true;
  schema.zeros = Zeros::where_all;
  schema.infer = infer_cast;
  schema.expression = [](const Op& op) -> ElementExpression {
    if (op.out().dtype == DType::boolean) return {"y0 = x0 != 0", {}};
    return is_floating(op.out().dtype) ? ElementExpression{"y0 = x0", {}, true} : ElementExpression{};
  };
  schema.gradient = [](Derivation& d) {
    d.give(0, d.make("cast", Attributes{{attr::dtype, std::string(name_of(d.op().in(0).dtype))}}, {d.gradient()}));
  };
  return schema;
}

PL_REGISTER_OP(cast);

}  // namespace
}  // namespace pl
