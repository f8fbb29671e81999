// reorder: the same logical tensor in another layout or dtype.  The one op whose output layout infer fixes.
#include "ops/op.h"

namespace pl {
namespace {

void infer_reorder(Op& op) {
  const TensorDesc& x = op.in(0);
  // The layout of a scalar has no letters: its text is empty.
  const std::string& text = op.attributes[attr::target];
  const Layout target = text.empty() && x.rank() == 0 ? Layout() : Layout::parse(text);
  check(op, target.rank() == x.rank(), Code::layout, "target is ", op.attributes[attr::target], " of rank ",
        target.rank(), ", expected rank ", x.rank(), " (x has shape ", x.shape, ")");
  const DType dtype = result_dtype(op, 0);
  op.attributes.set(attr::target, target.generic_str());
  op.attributes.set(attr::dtype, std::string(name_of(dtype)));
  op.outputs.push_back(TensorDesc::dense(dtype, x.shape, target));
}

Schema reorder() {
  Schema schema(
      "reorder", "reorder",
      "The same tensor in another layout, another dtype or both.\n\n"
      "y[i...] = x[i...]; elements that pad a blocked dimension are zero.  From floats to integers values are "
      "rounded to the nearest, halves to the even one, and limited to the target's range (NaN gives 0); to "
      "bool, what is not zero is true.\n\n"
      "Returns the shape of x, dense in the target layout.");
  schema.tensor("x", "any shape, any dtype, any layout, strides and offset")
      .required(attr::target, "layout: NCHW, NHWC, nChw16c, aBcd8b, OIhw16i16o, ...")
      .attribute(attr::dtype, None{}, "dtype of the result; None: that of x")
      .result(Result("y").named_by(attr::dtype).like("x").shaped("x"));
  schema.relayouts = true;
  schema.infer = infer_reorder;
  schema.flops = [](const Op&) { return 0.0; };
  return schema;
}

PL_REGISTER_OP(reorder);

}  // namespace
}  // namespace pl
