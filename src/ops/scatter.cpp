// Elements put to places that indices say: scatter (kind scatter) and scatter_nd (kind scatter_nd).
#include "ops/scatter.h"

#include <algorithm>

namespace pl {
namespace {

constexpr const char* kReduce = "how an element joins what is there: none (the last one stays), sum, prod, amax, amin";
const std::vector<std::string> kCombinations = {"none", "sum", "prod", "amax", "amin"};

// The reductions that join.
std::vector<AttributeValue> joining() {
  std::vector<AttributeValue> found;
  for (const std::string& name : kCombinations)
    if (name != "none") found.push_back(name);
  return found;
}

void infer_scatter(Op& op) {
  check_rank(op, 0, 1, kMaxRank);
  const Dims &x = op.in(0).shape, &index = op.in(1).shape, &src = op.in(2).shape;
  check_rank(op, 1, x.size(), x.size());
  check_rank(op, 2, x.size(), x.size());
  const int64_t dim = normalise_dim(op, attr::dim, op.attributes[attr::dim], x.size());
  op.attributes.set(attr::dim, dim);
  for (int i = 0; i < x.size(); ++i) {
    check(op, index[i] == src[i] || (index[i] == 1 && i != dim), Code::shape, "index.shape is ", index,
          ", expected that of src, ", src, ", or 1 beside dimension ", dim);
    check(op, i == dim || src[i] <= x[i], Code::shape, "src.shape is ", src, ", expected at most ", x,
          " (x.shape) but for dimension ", dim);
  }
  check(op, x[int(dim)] > 0 || op.in(2).elements() == 0, Code::shape, "x.shape is ", x,
        ", expected elements along dimension ", dim, " to put src to");
  add_output(op);
}

void infer_nd(Op& op) {
  check_rank(op, 0, 1, kMaxRank);
  check_rank(op, 1, 1, kMaxRank);
  const Dims &x = op.in(0).shape, &index = op.in(1).shape;
  const int rank = index.size() - 1;
  const int64_t depth = index[rank];
  check(op, depth >= 1 && depth <= x.size(), Code::shape, "index.shape is ", index, ", expected a last size of 1 to ",
        x.size(), " (the rank of x)");
  Dims expected;
  bool places = true;
  for (int i = 0; i < rank; ++i) expected.push_back(index[i]);
  for (int i = 0; i < x.size(); ++i) {
    if (i >= depth)
      expected.push_back(x[i]);
    else
      places = places && x[i] > 0;
  }
  check_shape(op, 2, expected, "index.shape[:-1] + x.shape[index.shape[-1]:]");
  check(op, places || op.in(2).elements() == 0, Code::shape, "x.shape is ", x, ", expected elements to put src to");
  add_output(op);
}

Schema scatter() {
  Schema schema("scatter", "scatter",
                "x with elements of src put to places along one dimension, an index for each.\n\n"
                "y[index[i, j, k], j, k] = src[i, j, k] for dim 0, and so on; with reduce it joins what is there\n\n"
                "Where index has size 1 beside dim it holds for all of src along that dimension.\n\n"
                "Returns x.shape in the dtype of x; src is put in its own order.\n\n"
                "Source: semantics of torch.scatter and of ONNX's ScatterElements.");
  schema.tensor("x", "rank at least 1, any dtype")
      .required(attr::dim, "the dimension; negative counts from the last")
      .tensor("index",
              "the shape of src, or 1 beside dim; s64 or s32; negative counts from the end, out of range is "
              "an error")
      .of(dtypes::indices)
      .tensor("src", "the rank and dtype of x, sizes at most those of x but along dim")
      .like("x")
      .attribute(attr::reduce, std::string("none"), kReduce, kCombinations)
      .restrict(attr::reduce, joining(), "x", dtypes::numbers)
      .result(Result("y").like("x").shaped("x").over("x"));
  schema.infer = infer_scatter;
  schema.gradient = derive_scatter;
  schema.integers = [](const Op& op, int input) {
    const int64_t size = op.in(0).shape[int(op.attributes[attr::dim])];
    return std::pair<int64_t, int64_t>(0, input == 1 ? std::max<int64_t>(0, size - 1) : 0);
  };
  schema.flops = [](const Op& op) { return double(op.in(0).elements() + op.in(2).elements()); };
  return schema;
}

Schema scatter_nd() {
  Schema schema("scatter_nd", "scatter_nd",
                "x with slices of src put to places, by indices into its first dimensions.\n\n"
                "y[index[i..., 0], index[i..., 1], ..., :] = src[i..., :]; with reduce it joins what is there\n\n"
                "Returns x.shape in the dtype of x; src is put in its own order.\n\n"
                "Source: semantics of ONNX's ScatterND.");
  schema.tensor("x", "rank at least 1, any dtype")
      .tensor("index",
              "(..., r) with r from 1 to the rank of x; s64 or s32; negative counts from the end, out of range "
              "is an error")
      .of(dtypes::indices)
      .tensor("src", "index.shape[:-1] + x.shape[r:], the dtype of x")
      .like("x")
      .attribute(attr::reduce, std::string("none"), kReduce, kCombinations)
      .restrict(attr::reduce, joining(), "x", dtypes::numbers)
      .result(Result("y").like("x").shaped("x").over("x"));
  schema.infer = infer_nd;
  schema.gradient = derive_scatter_nd;
  schema.integers = [](const Op& op, int input) {
    int64_t least = INT64_MAX;
    const Dims& index = op.in(1).shape;
    for (int64_t i = 0; i < index[index.size() - 1]; ++i) least = std::min(least, op.in(0).shape[int(i)]);
    return std::pair<int64_t, int64_t>(0, input == 1 ? std::max<int64_t>(0, least - 1) : 0);
  };
  schema.flops = [](const Op& op) { return double(op.in(0).elements() + op.in(2).elements()); };
  return schema;
}

PL_REGISTER_OP(scatter);
PL_REGISTER_OP(scatter_nd);

}  // namespace
}  // namespace pl
