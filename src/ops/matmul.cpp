// matmul: products of matrices and of stacks of matrices.
#include "ops/gradient.h"
#include "ops/post_ops.h"

namespace pl {
namespace {

// The matrix that the last two dimensions of an input form, a vector taken as one row (a) or one column (b).
struct Matrix {
  int64_t rows = 1, columns = 1;
};

Matrix matrix_of(const Op& op, int input, const Key<bool>& transpose) {
  const Dims& shape = op.in(input).shape;
  const bool transposed = op.attributes[transpose];
  const int rank = shape.size();
  if (rank == 1) {
    check(op, !transposed, Code::shape, transpose, " is true, expected false: ", op.schema->input_parameter(input).name,
          " has rank 1");
    return input == 0 ? Matrix{1, shape[0]} : Matrix{shape[0], 1};
  }
  const Matrix matrix{shape[rank - 2], shape[rank - 1]};
  return transposed ? Matrix{matrix.columns, matrix.rows} : matrix;
}

void infer_matmul(Op& op) {
  for (int i = 0; i < 2; ++i) check_rank(op, i, 1, kMaxRank);
  const Matrix a = matrix_of(op, 0, attr::transpose_a), b = matrix_of(op, 1, attr::transpose_b);
  check(op, a.columns == b.rows, Code::shape, "b has ", b.rows, " rows with the shape ", op.in(1).shape, ", expected ",
        a.columns, " (columns of a, which has the shape ", op.in(0).shape, ")");

  const int a_batch = std::max(0, op.in(0).rank() - 2), b_batch = std::max(0, op.in(1).rank() - 2);
  const int batch = std::max(a_batch, b_batch);
  Dims output = Dims::filled(batch, 1);
  for (int i = 0; i < batch; ++i) {
    const int ia = i - (batch - a_batch), ib = i - (batch - b_batch);
    const int64_t sa = ia < 0 ? 1 : op.in(0).shape[ia], sb = ib < 0 ? 1 : op.in(1).shape[ib];
    check(op, sa == sb || sa == 1 || sb == 1, Code::shape, "b has shape ", op.in(1).shape,
          ", expected batch dimensions that broadcast with those of a, ", op.in(0).shape);
    output[i] = sa == 1 ? sb : sa;
  }
  if (op.in(0).rank() > 1) output.push_back(a.rows);
  if (op.in(1).rank() > 1) output.push_back(b.columns);
  if (op.has(2)) {
    check(op, op.in(1).rank() > 1, Code::shape, "bias is given, expected none: b has rank 1");
    check_shape(op, 2, {b.columns}, "columns of b");
  }
  add_output(op, output);
}

double flops_matmul(const Op& op) {
  const Dims& a = op.in(0).shape;
  const bool transposed = op.attributes[attr::transpose_a];
  return 2.0 * double(op.out().elements()) * double(a[a.size() - (transposed ? 2 : 1)]);
}

// Vectors are taken as matrices of one row or column, which the sums over repeated dimensions then drop.
void derive_matmul(Derivation& d) {
  const Op& op = d.op();
  Dims a = op.in(0).shape, b = op.in(1).shape, y = op.out().shape;
  const bool transposed_a = op.attributes[attr::transpose_a], transposed_b = op.attributes[attr::transpose_b];
  if (b.size() == 1) {
    y.push_back(1);
    b.push_back(1);
  }
  if (a.size() == 1) {
    Dims with_row(y.begin(), size_t(y.size() - 1));
    with_row.push_back(1);
    with_row.push_back(y[y.size() - 1]);
    y = with_row;
    a = Dims{1, a[0]};
  }
  const auto product = [&](Derivation::Value left, Derivation::Value right, bool transpose_a, bool transpose_b) {
    return d.make("matmul", Attributes{{attr::transpose_a, transpose_a}, {attr::transpose_b, transpose_b}},
                  {left, right});
  };
  const auto fitted = [&](Derivation::Value value, const Dims& matrix, int input) {
    return d.reshaped(d.summed_to(value, matrix), op.in(input).shape);
  };
  const Derivation::Value g = d.reshaped(d.gradient(), y);
  const auto left = [&] { return d.reshaped(d.input(0), a); };
  const auto right = [&] { return d.reshaped(d.input(1), b); };
  d.give_if_wanted(0, [&] {
    return fitted(transposed_a ? product(right(), g, transposed_b, true) : product(g, right(), false, !transposed_b), a,
                  0);
  });
  d.give_if_wanted(1, [&] {
    if (b.size() == 2 && a.size() > 2 && !transposed_a) {  // one product over all rows, not a sum of many
      const int64_t k = a[a.size() - 1], n = y[y.size() - 1];
      const auto rows_a = d.reshaped(left(), {a.product() / std::max<int64_t>(k, 1), k});
      const auto rows_g = d.reshaped(g, {y.product() / std::max<int64_t>(n, 1), n});
      return fitted(transposed_b ? product(rows_g, rows_a, true, false) : product(rows_a, rows_g, true, false), b, 1);
    }
    return fitted(transposed_b ? product(g, left(), true, transposed_a) : product(left(), g, !transposed_a, false), b,
                  1);
  });
  d.give_if_wanted(2, [&] { return d.summed_to(d.gradient(), op.in(2).shape); });
}

Schema matmul() {
  Schema schema(
      "matmul", "matmul",
      "Matrix product of the last two dimensions, the leading ones broadcast.\n\n"
      "y[..., m, n] = activation(sum over k of a[..., m, k] * b[..., k, n] + bias[n] + residual[..., m, n])\n\n"
      "A tensor of rank 1 is a vector: as `a` one row, as `b` one column, and that dimension is missing in "
      "the result.  Returns the dtype of a; sums are kept in at least f32.\n\n"
      "Source: semantics of torch.matmul and numpy.matmul.");
  schema.tensor("a", "(..., m, k), or (..., k, m) with transpose_a; f32, f16 or bf16")
      .of(dtypes::floats)
      .batched(Batch::broadcast)
      .trainable()
      .tensor("b", "(..., k, n), or (..., n, k) with transpose_b")
      .like("a")
      .batched(Batch::broadcast)
      .trainable()
      .optional("bias", "(n)", Role::constant)
      .like("a")
      .attribute(attr::transpose_a, false, "swap the last two dimensions of a first")
      .attribute(attr::transpose_b, false, "swap the last two dimensions of b first");
  take_post_ops(schema, {PostOp::add("residual"), PostOp::multiply("gate")}, "a");
  schema.result(Result("y").like("a").over("residual"));
  schema.last_axes = 2;
  schema.keeps_finite = true;
  schema.infer = infer_matmul;
  schema.products = true;
  schema.weighting = {Weighting::Order::matrices, -1};
  schema.quantized_as = "qlinear_matmul";
  schema.gradient = derive_matmul;
  schema.flops = flops_matmul;
  return schema;
}

PL_REGISTER_OP(matmul);

}  // namespace
}  // namespace pl
