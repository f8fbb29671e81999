// all_finite: whether tensors hold neither infinities nor NaN.
#include "ops/op.h"

namespace pl {
namespace {

Schema all_finite() {
  Schema schema("all_finite", "all_finite",
                "Whether every element of all tensors is finite: neither infinite nor NaN.\n\n"
                "Returns a scalar, f32: 1 where all are, or there are none, else 0.");
  schema.tensors("tensors", "any shapes, of which each may differ; f32, f16 or bf16")
      .like_or("tensors", dtypes::floats)
      .result(Result("y").of(DType::f32));
  schema.infer = [](Op& op) { add_output(op, Dims{}); };
  schema.flops = [](const Op& op) {
    double elements = 0;
    for (const TensorDesc& tensor : op.inputs) elements += double(tensor.elements());
    return elements;
  };
  return schema;
}

PL_REGISTER_OP(all_finite);

}  // namespace
}  // namespace pl
