// concat: tensors joined along a dimension.
#include "ops/gradient.h"

namespace pl {
namespace {

void infer_concat(Op& op) {
  check_rank(op, 0, 1, kMaxRank);
  const int64_t dim = normalise_dim(op, attr::dim, op.attributes[attr::dim], op.in(0).rank());
  op.attributes.set(attr::dim, dim);
  Dims output = op.in(0).shape;
  for (size_t i = 1; i < op.inputs.size(); ++i) {
    const TensorDesc& desc = op.inputs[i];
    check(op, desc.rank() == output.size(), Code::shape, "tensors[", i, "] has rank ", desc.rank(), " with the shape ",
          desc.shape, ", expected ", output.size(), " (the rank of tensors[0])");
    for (int d = 0; d < output.size(); ++d)
      check(op, d == dim || desc.shape[d] == output[d], Code::shape, "tensors[", i, "].shape is ", desc.shape,
            ", expected that of tensors[0], ", op.in(0).shape, ", but for dimension ", dim);
    check(op, !__builtin_add_overflow(output[int(dim)], desc.shape[int(dim)], &output[int(dim)]), Code::shape,
          "the output size along dimension ", dim, " overflows 64 bits");
  }
  add_output(op, output);
}

void derive_concat(Derivation& d) {
  const int64_t dim = d.op().attributes[attr::dim];
  int64_t start = 0;
  for (size_t i = 0; i < d.op().inputs.size(); ++i) {
    const int64_t end = start + d.op().in(int(i)).shape[int(dim)];
    d.give_if_wanted(int(i), [&] {
      return d.make("slice",
                    Attributes{{attr::starts, std::vector<int64_t>{start}},
                               {attr::ends, std::vector<int64_t>{end}},
                               {attr::axes, std::vector<int64_t>{dim}}},
                    {d.gradient()});
    });
    start = end;
  }
}

Schema concat_op() {
  Schema schema("concat", "concat",
                "Tensors joined along one dimension.\n\n"
                "Shapes are equal but along dim, where the result's size is the sum of theirs.\n\n"
                "Source: semantics of torch.concat; unlike there, an empty tensor of rank 1 is no exception.");
  schema.tensors("tensors", "rank at least 1, any dtype, the same for all")
      .like("tensors")
      .batched()
      .attribute(attr::dim, int64_t(0), "the dimension; negative counts from the last")
      .axis(attr::dim)
      .result(Result("y").like("tensors"));
  schema.joins = true;
  schema.infer = infer_concat;
  schema.gradient = derive_concat;
  return schema;
}

PL_REGISTER_OP(concat_op);

}  // namespace
}  // namespace pl
