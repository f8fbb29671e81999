// Look-ups by index: index_select, embedding (kind gather) and gather (kind gather_elements).
//
// Negative indices count from the end.  An index out of range is an error where the host can check it cheaply;
// elsewhere the elements it would have fetched are zero.
#include <algorithm>

#include "ops/gradient.h"

namespace pl {
namespace {

constexpr const char* kIndices =
    "s64 or s32; negative counts from the end; out of range is an error on the host, "
    "elsewhere zero is written";

// The shape of `table` with dimension `dim` replaced by the shape of `index`.
Dims gathered(const Dims& table, const Dims& index, int dim) {
  Dims output;
  for (int i = 0; i < dim; ++i) output.push_back(table[i]);
  for (int64_t size : index) output.push_back(size);
  for (int i = dim + 1; i < table.size(); ++i) output.push_back(table[i]);
  return output;
}

void check_something_to_choose(const Op& op, int table, int dim, int index) {
  check(op, op.in(table).shape[dim] > 0 || op.in(index).elements() == 0, Code::shape,
        op.schema->input_parameter(table).name, ".shape is ", op.in(table).shape,
        ", expected elements along dimension ", dim, " to choose from");
}

// Every element of the dimension that is looked up.
std::pair<int64_t, int64_t> indices_of_table(const Op& op, int input) {
  if (op.schema->input_parameter(input).name != "index") return {0, 0};
  const TensorDesc& table = op.in(1 - input);
  return {0, std::max<int64_t>(0, table.shape[int(op.attributes[attr::dim])] - 1)};
}

void infer_index_select(Op& op) {
  check_rank(op, 0, 1, kMaxRank);
  const int64_t dim = normalise_dim(op, attr::dim, op.attributes[attr::dim], op.in(0).rank());
  op.attributes.set(attr::dim, dim);
  check_something_to_choose(op, 0, int(dim), 1);
  add_output(op, gathered(op.in(0).shape, op.in(1).shape, int(dim)));
}

void derive_slices(Derivation& d) {
  const bool swapped = d.op().attributes[attr::swapped];
  const int table = swapped ? 1 : 0;
  const int64_t dim = d.op().attributes[attr::dim];
  d.give_if_wanted(table, [&] {
    return d.make("index_select_backward", Attributes{{attr::dim, dim}, {attr::size, d.op().in(table).shape[int(dim)]}},
                  {d.gradient(), d.input(1 - table)});
  });
}

void derive_elements(Derivation& d) {
  const Op& op = d.op();
  const int64_t dim = op.attributes[attr::dim];
  d.give_if_wanted(0, [&] {
    const Dims& x = op.in(0).shape;
    Derivation::Value made =
        d.make("gather_backward", Attributes{{attr::dim, dim}, {attr::size, x[int(dim)]}}, {d.gradient(), d.input(1)});
    std::vector<int64_t> pad;  // what no index reaches
    for (int i = x.size(); i-- > 0;) {
      pad.push_back(0);
      pad.push_back(x[i] - d.desc(made).shape[i]);
    }
    return d.desc(made).shape == x ? made : d.make("pad", Attributes{{attr::pad, pad}}, {made});
  });
}

Schema index_select() {
  Schema schema("index_select", "gather",
                "Slices of x along one dimension, chosen by index.\n\n"
                "y[i..., j..., k...] = x[i..., index[j...], k...] where the index stands at dim\n\n"
                "Returns x.shape[:dim] + index.shape + x.shape[dim + 1:] in the dtype of x.\n\n"
                "Source: semantics of torch.index_select, with index of any rank as in ONNX's Gather.");
  schema.constant(attr::swapped, false)
      .tensor("x", "rank at least 1, any dtype")
      .trainable()  // of a model: a table, as embeddings are
      .required(attr::dim, "the dimension; negative counts from the last")
      .tensor("index", concat("any shape, ", kIndices))
      .of(dtypes::indices)
      .result(Result("y").like("x"));
  schema.infer = infer_index_select;
  schema.gradient = derive_slices;
  schema.integers = indices_of_table;
  return schema;
}

void infer_embedding(Op& op) {
  check_rank(op, 1, 2, 2);
  check_something_to_choose(op, 1, 0, 0);
  op.attributes.set(attr::dim, int64_t(0));
  add_output(op, gathered(op.in(1).shape, op.in(0).shape, 0));
}

Schema embedding() {
  Schema schema("embedding", "gather",
                "Rows of a table, chosen by index.\n\ny[j...] = weight[index[j...]]\n\n"
                "Returns index.shape + (features,) in the dtype of weight.\n\n"
                "Source: semantics of torch.nn.functional.embedding.");
  schema.constant(attr::swapped, true)
      .tensor("index", concat("any shape, ", kIndices))
      .of(dtypes::indices)
      .tensor("weight", "(rows, features), any dtype", Role::constant)
      .result(Result("y").like("weight"));
  schema.infer = infer_embedding;
  schema.gradient = derive_slices;
  schema.integers = indices_of_table;
  return schema;
}

void infer_gather(Op& op) {
  check_rank(op, 0, 1, kMaxRank);
  const Dims &x = op.in(0).shape, &index = op.in(1).shape;
  check_rank(op, 1, x.size(), x.size());
  const int64_t dim = normalise_dim(op, attr::dim, op.attributes[attr::dim], x.size());
  op.attributes.set(attr::dim, dim);
  for (int i = 0; i < x.size(); ++i)
    check(op, i == dim || index[i] <= x[i], Code::shape, "index.shape is ", index, ", expected at most ", x,
          " (x.shape) but for dimension ", dim);
  check_something_to_choose(op, 0, int(dim), 1);
  add_output(op);
}

Schema gather() {
  Schema schema("gather", "gather_elements",
                "Elements of x along one dimension, an index for each.\n\n"
                "y[i, j, k] = x[index[i, j, k], j, k] for dim 0, and so on for other dimensions and ranks\n\n"
                "Returns index.shape in the dtype of x.\n\n"
                "Source: semantics of torch.gather and of ONNX's GatherElements.");
  schema.tensor("x", "rank at least 1, any dtype")
      .required(attr::dim, "the dimension; negative counts from the last")
      .tensor("index", concat("the rank of x, sizes at most those of x but along dim; ", kIndices))
      .of(dtypes::indices)
      .result(Result("y").like("x").shaped("index"));
  schema.infer = infer_gather;
  schema.gradient = derive_elements;
  schema.integers = indices_of_table;
  return schema;
}

PL_REGISTER_OP(index_select);
PL_REGISTER_OP(embedding);
PL_REGISTER_OP(gather);

}  // namespace
}  // namespace pl
