// The gradients of look-ups: index_select_backward (of index_select and embedding) and gather_backward.
#include <algorithm>

#include "ops/op.h"

namespace pl {
namespace {

std::pair<int64_t, int64_t> indices_of_size(const Op& op, int input) {
  return {0, input == 1 ? std::max<int64_t>(0, op.attributes[attr::size] - 1) : 0};
}

int64_t check_size(const Op& op) {
  const int64_t size = op.attributes[attr::size];
  check(op, size >= 0 && size < (int64_t(1) << 59), Code::invalid_argument, "size is ", size, ", expected at least 0");
  return size;
}

void infer_slices(Op& op) {
  const Dims &grad = op.in(0).shape, &index = op.in(1).shape;
  const int rank = grad.size() - index.size() + 1;
  check(op, rank >= 1, Code::shape, "grad has rank ", grad.size(), ", expected at least ", index.size(),
        " (the rank of index)");
  const int64_t dim = normalise_dim(op, attr::dim, op.attributes[attr::dim], rank);
  op.attributes.set(attr::dim, dim);
  Dims result;
  for (int i = 0; i < grad.size(); ++i) {
    const bool looked_up = i >= dim && i < dim + index.size();
    check(op, !looked_up || grad[i] == index[i - int(dim)], Code::shape, "grad.shape is ", grad,
          ", expected that of index, ", index, ", from dimension ", dim, " on");
    if (i == dim) result.push_back(check_size(op));
    if (!looked_up) result.push_back(grad[i]);
  }
  if (dim == grad.size()) result.push_back(check_size(op));
  add_output(op, result);
}

void infer_elements(Op& op) {
  check_rank(op, 0, 1, kMaxRank);
  check_shape(op, 1, op.in(0).shape, "grad.shape");
  const int64_t dim = normalise_dim(op, attr::dim, op.attributes[attr::dim], op.in(0).rank());
  op.attributes.set(attr::dim, dim);
  Dims result = op.in(0).shape;
  result[int(dim)] = check_size(op);
  add_output(op, result);
}

Schema backward(const char* name, const char* kind, const char* doc, const char* grad, void (*infer)(Op&)) {
  Schema schema(name, kind, doc);
  schema.tensor("grad", grad)
      .of(dtypes::floats)
      .tensor("index", "s64 or s32; negative counts from the end; what is out of range adds to nothing")
      .of(dtypes::indices)
      .required(attr::dim, "the dimension of the result that was looked up")
      .required(attr::size, "its size")
      .result(Result("dx").like("grad"));
  schema.infer = infer;
  schema.integers = indices_of_size;
  schema.flops = [](const Op& op) { return double(op.in(0).elements()); };
  return schema;
}

PL_REGISTER_OP([] {
  return backward(
      "index_select_backward", "gather_backward",
      "The gradient of index_select and of embedding by their table: slices added up by index.\n\n"
      "dx[i..., r, k...] = sum over j with index[j...] = r of grad[i..., j..., k...] where r stands at dim\n\n"
      "Returns grad.shape with the dimensions of index made one of `size`, in the dtype of grad; sums are kept in "
      "f32, in an order that shapes and indices decide.\n\nSource: the derivative of index_select.",
      "x.shape[:dim] + index.shape + x.shape[dim + 1:]; f32, f16 or bf16", infer_slices);
});
PL_REGISTER_OP([] {
  return backward("gather_backward", "gather_elements_backward",
                  "The gradient of gather by its table: elements added up by index.\n\n"
                  "dx[i, r, k] = sum over j with index[i, j, k] = r of grad[i, j, k] where r stands at dim\n\n"
                  "Returns grad.shape with `size` at dim, in the dtype of grad; sums are kept in f32, in the order of "
                  "index.\n\nSource: the derivative of gather.",
                  "the shape of index; f32, f16 or bf16", infer_elements);
});

}  // namespace
}  // namespace pl
