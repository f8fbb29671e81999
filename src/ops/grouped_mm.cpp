// grouped_mm: rows times matrices, each group of rows by a matrix of its own, as in mixtures of experts.
#include <algorithm>

#include "ops/gradient.h"

namespace pl {
namespace {

constexpr const char* kOffsets =
    "(groups), s32 or s64: where the rows of each group end, ascending, at most rows; others are an error on the host";

// Where groups end.
std::pair<int64_t, int64_t> any_row(const Op& op, int) { return {0, op.in(0).shape[0]}; }

Schema& add_offsets(Schema& schema) {
  schema.integers = any_row;
  return schema.tensor("offsets", kOffsets).of(dtypes::indices).ascending();
}

double grouped_mm_flops(double rows, const Op& op, int matrices) {
  const Dims& shape = matrices < 0 ? op.out().shape : op.in(matrices).shape;
  return 2 * rows * double(shape[1]) * double(shape[2]);
}

void infer_grouped_mm(Op& op) {
  check_rank(op, 0, 2, 2);
  check_rank(op, 1, 3, 3);
  check_rank(op, 2, 1, 1);
  const Dims &x = op.in(0).shape, &weight = op.in(1).shape;
  const bool transposed = op.attributes[attr::transpose_weight];
  const int in = transposed ? 2 : 1;
  check(op, weight[in] == x[1], Code::shape, "weight.shape is ", weight, ", expected ", x[1],
        " (columns of x) at dimension ", in);
  check_shape(op, 2, {weight[0]}, "weight.groups");
  add_output(op, {x[0], weight[3 - in]});
}

void derive_grouped_mm(Derivation& d) {
  const bool transposed = d.op().attributes[attr::transpose_weight];
  d.give_if_wanted(0, [&] {
    return d.make("grouped_mm", Attributes{{attr::transpose_weight, !transposed}},
                  {d.gradient(), d.input(1), d.input(2)});
  });
  d.give_if_wanted(1, [&] {
    const auto x = d.input(0), grad = d.gradient();
    return d.make("grouped_mm_backward_weights", {}, {transposed ? grad : x, transposed ? x : grad, d.input(2)});
  });
}

Schema grouped_mm() {
  Schema schema("grouped_mm", "grouped_mm",
                "Rows times matrices, each group of rows by its own: what the experts of a mixture compute.\n\n"
                "y[r] = x[r] @ weight[g] for offsets[g - 1] <= r < offsets[g], where offsets[-1] is 0; rows from the "
                "last offset on are zero\n\n"
                "Returns (rows, n) in the dtype of x; sums are kept in at least f32.\n\n"
                "Source: semantics of torch.nn.functional.grouped_mm of two and three dimensions.");
  schema.tensor("x", "(rows, k), sorted by group; f32, f16 or bf16")
      .of(dtypes::floats)
      .tensor("weight", "(groups, k, n), or (groups, n, k) with transpose_weight", Role::constant)
      .like("x");
  add_offsets(schema)
      .attribute(attr::transpose_weight, false, "swap the last two dimensions of weight first")
      .result(Result("y").like("x"));
  schema.last_axes = 2;
  schema.keeps_finite = true;
  schema.infer = infer_grouped_mm;
  schema.products = true;
  schema.gradient = derive_grouped_mm;
  schema.flops = [](const Op& op) { return grouped_mm_flops(double(op.in(0).shape[0]), op, 1); };
  return schema;
}

void infer_weights(Op& op) {
  for (int i : {0, 1}) check_rank(op, i, 2, 2);
  check_rank(op, 2, 1, 1);
  const Dims &x = op.in(0).shape, &grad = op.in(1).shape;
  check(op, grad[0] == x[0], Code::shape, "grad.rows is ", grad[0], ", expected ", x[0], " (rows of x)");
  add_output(op, {op.in(2).shape[0], x[1], grad[1]});
}

void derive_weights(Derivation& d) {
  for (int i : {0, 1})
    d.give_if_wanted(i, [&] {
      return d.make("grouped_mm", Attributes{{attr::transpose_weight, i == 0}},
                    {d.input(1 - i), d.gradient(), d.input(2)});
    });
}

Schema grouped_mm_backward_weights() {
  Schema schema("grouped_mm_backward_weights", "grouped_mm_backward_weights",
                "The gradient of grouped_mm by its weights: a product for each group of rows.\n\n"
                "dw[g] = x[offsets[g - 1]:offsets[g]]^T @ grad[offsets[g - 1]:offsets[g]] where offsets[-1] is 0; zero "
                "for a group without rows\n\n"
                "Returns (groups, k, n) in the dtype of x; sums are kept in at least f32.  With x and grad swapped it "
                "is the gradient of a transposed weight.\n\n"
                "Source: semantics of torch.nn.functional.grouped_mm of two matrices.");
  schema.tensor("x", "(rows, k), sorted by group; f32, f16 or bf16")
      .of(dtypes::floats)
      .tensor("grad", "(rows, n), the gradient by the result of grouped_mm")
      .like("x");
  add_offsets(schema).result(Result("dw").like("x"));
  schema.last_axes = 2;
  schema.keeps_finite = true;
  schema.infer = infer_weights;
  schema.products = true;
  schema.gradient = derive_weights;
  schema.flops = [](const Op& op) { return grouped_mm_flops(double(op.in(0).shape[0]), op, -1); };
  return schema;
}

PL_REGISTER_OP(grouped_mm);
PL_REGISTER_OP(grouped_mm_backward_weights);

}  // namespace
}  // namespace pl
