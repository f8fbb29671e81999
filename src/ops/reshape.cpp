// reshape, flatten, squeeze, unsqueeze: the same elements under another shape.
#include <algorithm>

#include "ops/gradient.h"
#include "ops/view.h"

namespace pl {
namespace {

constexpr const char* kViewOrPlain =
    "A view where the layout of x permits; else x is brought to the plain layout first.";

std::optional<std::vector<TensorDesc>> reshaped_view(const Op& op) {
  const auto desc = view_reshaped(op.in(0), op.out().shape);
  if (!desc) return std::nullopt;
  return std::vector<TensorDesc>{*desc};
}

Schema& as_reshape(Schema& schema, void (*infer)(Op&)) {
  schema.result(Result("y").like("x"));
  schema.renaming = Renaming::shape;
  schema.same_if_alike = true;
  schema.keeps_finite = true;
  schema.zeros = Zeros::where_all;
  schema.infer = infer;
  schema.view = reshaped_view;
  schema.gradient = [](Derivation& d) { d.give(0, d.reshaped(d.gradient(), d.op().in(0).shape)); };
  schema.flops = [](const Op&) { return 0.0; };
  return schema;
}

void infer_reshape(Op& op) {
  const TensorDesc& x = op.in(0);
  std::vector<int64_t> shape = op.attributes[attr::shape];
  const Dims asked(shape);
  int unknown = -1;
  int64_t known = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    check(op, shape[i] >= -1, Code::invalid_argument, "shape is ", asked,
          ", expected sizes of at least 0, or -1 for what is left");
    if (shape[i] == -1) {
      check(op, unknown < 0, Code::invalid_argument, "shape is ", asked, ", expected -1 at most once");
      unknown = int(i);
    } else {
      known = safe_product(op, "the product of shape", {known, shape[i]});
    }
  }
  if (unknown >= 0) {
    check(op, known != 0, Code::shape, "shape is ", asked, ", expected sizes that determine the one that is -1");
    check(op, x.elements() % known == 0, Code::shape, "shape is ", asked, ", expected sizes that divide ", x.elements(),
          " elements (x has shape ", x.shape, ")");
    shape[size_t(unknown)] = x.elements() / known;
  } else {
    check(op, known == x.elements(), Code::shape, "shape is ", asked, " with ", known, " elements, expected ",
          x.elements(), " (x has shape ", x.shape, ")");
  }
  op.attributes.set(attr::shape, shape);
  add_output(op, Dims(shape));
}

Schema make_reshape() {
  Schema schema("reshape", "reshape",
                concat("The elements of x under another shape, in the order of its dimensions.\n\n", kViewOrPlain,
                       "\n\nSource: semantics of torch.reshape and numpy.reshape."));
  schema.tensor("x", "any shape, any dtype")
      .batched()
      .required(attr::shape, "sizes whose product is that of x; one may be -1: what is left")
      .axis(attr::shape, AxisRule::Meaning::sizes);
  return as_reshape(schema, infer_reshape);
}

void infer_flatten(Op& op) {
  const Dims& x = op.in(0).shape;
  const int rank = std::max(1, x.size());
  const int64_t first = normalise_dim(op, attr::start_dim, op.attributes[attr::start_dim], rank);
  const int64_t last = normalise_dim(op, attr::end_dim, op.attributes[attr::end_dim], rank);
  check(op, first <= last, Code::invalid_argument, "start_dim is ", first, ", expected at most ", last, " (end_dim)");
  op.attributes.set(attr::start_dim, first);
  op.attributes.set(attr::end_dim, last);
  Dims shape;
  for (int i = 0; i < first; ++i) shape.push_back(x[i]);
  int64_t product = 1;
  for (int i = int(first); i <= last && i < x.size(); ++i)
    product = safe_product(op, "the product of sizes", {product, x[i]});
  shape.push_back(product);
  for (int i = int(last) + 1; i < x.size(); ++i) shape.push_back(x[i]);
  add_output(op, shape);
}

Schema make_flatten() {
  Schema schema(
      "flatten", "flatten",
      concat("Some consecutive dimensions made one.\n\n", kViewOrPlain, "\n\nSource: semantics of torch.flatten."));
  schema.tensor("x", "any shape, any dtype")
      .batched()
      .attribute(attr::start_dim, int64_t(0), "the first of them; negative counts from the last")
      .attribute(attr::end_dim, int64_t(-1), "the last of them; negative counts from the last");
  return as_reshape(schema, infer_flatten);
}

void infer_squeeze(Op& op) {
  const Dims& x = op.in(0).shape;
  const bool all = op.attributes.is_none(attr::dim_ints);
  std::vector<int64_t> dims;
  if (!all) dims = op.attributes[attr::dim_ints];
  for (int64_t& dim : dims) dim = normalise_dim(op, attr::dim_ints, dim, x.size());
  Dims shape;
  std::vector<int64_t> gone;
  for (int i = 0; i < x.size(); ++i) {
    const bool named = all || std::find(dims.begin(), dims.end(), int64_t(i)) != dims.end();
    if (!named || x[i] != 1)
      shape.push_back(x[i]);
    else
      gone.push_back(i);
  }
  op.attributes.set(attr::dim_ints, gone);
  add_output(op, shape);
}

Schema make_squeeze() {
  Schema schema("squeeze", "squeeze",
                concat("Dimensions of size 1 removed.\n\n", kViewOrPlain, "\n\nSource: semantics of torch.squeeze."));
  schema.tensor("x", "any shape, any dtype")
      .batched()
      .attribute(attr::dim_ints, None{},
                 "which ones, negative ones counted from the last; those of another size stay; None: all of size 1")
      .axis(attr::dim_ints);
  return as_reshape(schema, infer_squeeze);
}

void infer_unsqueeze(Op& op) {
  const Dims& x = op.in(0).shape;
  check_rank(op, 0, 0, kMaxRank - 1);
  const int64_t dim = normalise_dim(op, attr::dim, op.attributes[attr::dim], x.size() + 1);
  op.attributes.set(attr::dim, dim);
  Dims shape;
  for (int i = 0; i <= x.size(); ++i) {
    if (i == dim) shape.push_back(1);
    if (i < x.size()) shape.push_back(x[i]);
  }
  add_output(op, shape);
}

Schema make_unsqueeze() {
  Schema schema("unsqueeze", "unsqueeze",
                concat("A dimension of size 1 added.\n\n", kViewOrPlain, "\n\nSource: semantics of torch.unsqueeze."));
  schema.tensor("x", "rank at most 7, any dtype")
      .batched()
      .required(attr::dim, "its place in the result; negative counts from the last")
      .axis(attr::dim);
  return as_reshape(schema, infer_unsqueeze);
}

PL_REGISTER_OP(make_reshape);
PL_REGISTER_OP(make_flatten);
PL_REGISTER_OP(make_squeeze);
PL_REGISTER_OP(make_unsqueeze);

}  // namespace
}  // namespace pl
