// Reductions over any dimensions: sum, mean, amax, ...; argmax and argmin over one.
#include <algorithm>
#include <string_view>

#include "ops/gradient.h"

namespace pl {
namespace {

struct NamedReduction {
  const char* name;
  const char* title;
  const char* note;  // a sentence after the formula, or ""
  const char* formula;
  DTypes takes;
  bool of_nothing;  // has a value for no elements
};

constexpr NamedReduction kReductions[] = {
    {"sum", "Sum", "", "sum of x", dtypes::wide, true},
    {"mean", "Arithmetic mean", "", "sum of x / number of elements", dtypes::floats, true},
    {"amax", "Maximum", "NaN if one is NaN.", "max of x", dtypes::numbers, false},
    {"amin", "Minimum", "NaN if one is NaN.", "min of x", dtypes::numbers, false},
    {"prod", "Product", "", "product of x", dtypes::wide, true},
    {"reduce_l1", "Sum of absolute values", "", "sum of |x|", dtypes::floats, true},
    {"reduce_l2", "Euclidean norm", "", "sqrt(sum of x * x)", dtypes::floats, true},
    {"reduce_sum_square", "Sum of squares", "", "sum of x * x", dtypes::floats, true},
};

const NamedReduction& reduction_of(std::string_view name) {
  for (const NamedReduction& reduction : kReductions)
    if (name == reduction.name) return reduction;
  fail(Code::internal, "reduction ", name, " is not in the list");
}

// The result's shape, with the given dimensions (sorted, non-negative) reduced.
Dims reduced_shape(const Dims& shape, const std::vector<int64_t>& dims, bool keep) {
  Dims result;
  for (int i = 0; i < shape.size(); ++i) {
    const bool reduced = std::binary_search(dims.begin(), dims.end(), int64_t(i));
    if (!reduced)
      result.push_back(shape[i]);
    else if (keep)
      result.push_back(1);
  }
  return result;
}

// Maximum and minimum of nothing do not exist.
void check_elements_along(const Op& op, const std::vector<int64_t>& dims) {
  const Dims& x = op.in(0).shape;
  for (int64_t dim : dims)
    check(op, x[int(dim)] > 0, Code::shape, "x.shape is ", x, ", expected at least one element along dimension ", dim);
}

void infer_reduce(Op& op) {
  const NamedReduction& reduction = reduction_of(op.schema->name);
  const Dims& x = op.in(0).shape;
  std::vector<int64_t> dims;
  if (!op.attributes.is_none(attr::dim_ints)) dims = op.attributes[attr::dim_ints];
  for (int64_t& dim : dims) dim = normalise_dim(op, attr::dim_ints, dim, x.size());
  std::sort(dims.begin(), dims.end());
  for (size_t i = 1; i < dims.size(); ++i)
    check(op, dims[i] != dims[i - 1], Code::invalid_argument, "dim names dimension ", dims[i],
          " twice, expected different dimensions");
  if (dims.empty())
    for (int i = 0; i < x.size(); ++i) dims.push_back(i);
  op.attributes.set(attr::dim_ints, dims);
  const Dims output = reduced_shape(x, dims, op.attributes[attr::keepdim]);
  if (!reduction.of_nothing) check_elements_along(op, dims);
  add_output(op, output);
}

void derive_reduce(Derivation& d) {
  const std::string& name = d.op().attributes[attr::function];
  const Dims& x = d.op().in(0).shape;
  Dims kept = x;
  int64_t count = 1;
  for (int64_t dim : d.op().attributes[attr::dim_ints]) {
    count *= x[int(dim)];
    kept[int(dim)] = 1;
  }
  const Derivation::Value g = d.reshaped(d.gradient(), kept), from = d.input(0);
  const auto result = [&] { return d.reshaped(d.output(), kept); };
  if (name == "sum")
    d.give(0, d.expanded(g, x));
  else if (name == "mean")
    d.give(0, d.expanded(d.pointwise("y0 = x0 * s0", {g}, {1.0 / double(std::max<int64_t>(count, 1))}), x));
  else if (name == "amax" || name == "amin") {  // equal values share the gradient
    const auto found = d.pointwise("y0 = x0 == x1", {from, result()});
    const auto equal = d.summed(found, d.op().attributes[attr::dim_ints], true);
    d.give(0, d.pointwise("y0 = x0 * x1 / x2", {found, g, equal}));
  } else if (name == "reduce_l1")
    d.give(0, d.pointwise("y0 = sign(x0) * x1", {from, g}));
  else if (name == "reduce_l2")
    d.give(0, d.pointwise("y0 = where(x2 == 0, 0, x0 * x1 / x2)", {from, g, result()}));
  else if (name == "reduce_sum_square")
    d.give(0, d.pointwise("y0 = 2 * x0 * x1", {from, g}));
  else {  // prod: of a zero that is the only one, what the others give
    const auto& dims = d.op().attributes[attr::dim_ints];
    const auto zeros = d.summed(d.pointwise("y0 = x0 == 0", {from}), dims, true);
    const auto others = d.make("prod", Attributes{{attr::dim_ints, dims}, {attr::keepdim, true}},
                               {d.pointwise("y0 = where(x0 == 0, 1, x0)", {from})});
    d.give(0, d.pointwise("y0 = x1 * where(x0 == 0, where(x3 == 1, x4, 0), x2 / where(x0 == 0, 1, x0))",
                          {from, g, result(), zeros, others}));
  }
}

Schema reduce(const char* name) {
  const NamedReduction& reduction = reduction_of(name);
  Schema schema(name, "reduce",
                concat(reduction.title, " over the given dimensions.\n\ny = ", reduction.formula,
                       *reduction.note ? "\n\n" : "", reduction.note,
                       "\n\nReturns the shape of x without those dimensions (with keepdim: of size 1), in the dtype of "
                       "x; accumulated in at least f32.\n\nSource: semantics of ",
                       std::string_view(name).substr(0, 7) == "reduce_" ? "ONNX's Reduce operators" : "torch", "."));
  schema.constant(attr::function, std::string(name))
      .tensor("x", !reduction.takes.has(DType::s32)  ? "any shape; f32, f16 or bf16"
                   : !reduction.takes.has(DType::s8) ? "any shape; f32, f16, bf16, s32 or s64"
                                                     : "any shape; any dtype but bool")
      .of(reduction.takes)
      .batched()
      .attribute(attr::dim_ints, None{}, "the dimensions, negative ones counted from the last; None or none given: all")
      .attribute(attr::keepdim, false, "keep reduced dimensions, with size 1")
      .axis(attr::dim_ints)
      .result(Result("y").like("x"));
  schema.other_axes = true;
  schema.infer = infer_reduce;
  schema.gradient = derive_reduce;
  schema.flops = [](const Op& op) { return double(op.in(0).elements()); };
  return schema;
}

void infer_arg(Op& op) {
  const Dims& x = op.in(0).shape;
  std::vector<int64_t> dims;
  if (op.attributes.is_none(attr::dim)) {
    for (int i = 0; i < x.size(); ++i) dims.push_back(i);
  } else {
    dims = {normalise_dim(op, attr::dim, op.attributes[attr::dim], x.size())};
    op.attributes.set(attr::dim, dims[0]);
  }
  const Dims output = reduced_shape(x, dims, op.attributes[attr::keepdim]);
  check_elements_along(op, dims);
  add_output(op, output);
}

Schema arg(const char* name, const char* what) {
  Schema schema(
      name, "arg_reduce",
      concat("Index of the ", what,
             " along one dimension, or in the whole tensor.\n\n"
             "The first index where several elements are equal; NaN counts as the ",
             what,
             ".\n\n"
             "Returns s64, the shape of x without that dimension (with keepdim: of size 1); with dim None the index "
             "into x flattened in the order of its dimensions.\n\nSource: semantics of torch.",
             name, "."));
  schema.constant(attr::function, std::string(name))
      .tensor("x", "any shape; any dtype but bool")
      .of(dtypes::numbers)
      .batched()
      .attribute(attr::dim, None{}, "the dimension, negative counts from the last; None: all")
      .attribute(attr::keepdim, false, "keep reduced dimensions, with size 1")
      .axis(attr::dim)
      .result(Result("y").of(DType::s64));
  schema.other_axes = true;
  schema.infer = infer_arg;
  schema.flops = [](const Op& op) { return double(op.in(0).elements()); };
  return schema;
}

PL_REGISTER_OP([] { return reduce("sum"); });
PL_REGISTER_OP([] { return reduce("mean"); });
PL_REGISTER_OP([] { return reduce("amax"); });
PL_REGISTER_OP([] { return reduce("amin"); });
PL_REGISTER_OP([] { return reduce("prod"); });
PL_REGISTER_OP([] { return reduce("reduce_l1"); });
PL_REGISTER_OP([] { return reduce("reduce_l2"); });
PL_REGISTER_OP([] { return reduce("reduce_sum_square"); });
PL_REGISTER_OP([] { return arg("argmax", "maximum"); });
PL_REGISTER_OP([] { return arg("argmin", "minimum"); });

}  // namespace
}  // namespace pl
