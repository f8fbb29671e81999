// Kinds matmul and linear, as references: exact sums in double; matmul in f32 also by blocks that are copied first,
// linear as a product of rows and packed weights, which are fetched while the ones before them are multiplied.
#include "providers/head_layouts.h"
#include "providers/host/common/matrices.h"
#include "providers/host/common/reference.h"
#include "providers/host/conv/conv_candidates.h"
#include "providers/host/conv/pointwise_product.h"
#include "providers/host/matmul/packed_product.h"

namespace pl::host {
namespace {

// The matrices of a tensor for each index of the batch shape, as broadcasting repeats them; of a vector as a row, or a
// column.
Matrices matrices_of(const TensorDesc& desc, bool transposed, bool vector_is_row, Dims batch) {
  const int rank = desc.rank();
  if (rank == 1) {
    const int64_t size = desc.shape[0];
    const Dims shape = vector_is_row ? Dims{1, size} : Dims{size, 1};
    const TensorDesc matrix = TensorDesc::dense(desc.dtype, shape);
    for (int64_t side : shape) batch.push_back(side);
    return Matrices(matrix, batch);
  }
  batch.push_back(desc.shape[rank - 2]);
  batch.push_back(desc.shape[rank - 1]);
  Matrices matrices(desc, batch);
  if (transposed) std::swap(matrices.row_step, matrices.column_step);
  return matrices;
}

struct MatmulBody {
  std::vector<TensorDesc> inputs;  // a, b, bias, operands of post-ops
  TensorDesc y;
  Matrices a, b;
  int64_t rows, columns, depth;
  AppliedPostOps post_ops;

  void operator()(const KernelArguments& arguments) const {
    const auto read = [&](size_t i) {
      return PlainDoubles::read(input_desc(inputs, i), input_data(inputs, arguments, i));
    };
    const auto left = read(0), right = read(1), bias = read(2);
    std::vector<std::vector<double>> operands;
    for (size_t i = 3; i < inputs.size(); ++i) operands.push_back(read(i));
    std::vector<double> result(size_t(y.elements()));
    const int64_t items = int64_t(a.offsets.size()) * rows;
    parallel_for(items, double(depth * columns), [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item) {
        const size_t batch = size_t(item / rows);
        const double* row = left.data() + a.offsets[batch] + item % rows * a.row_step;
        const double* matrix = right.data() + b.offsets[batch];
        double* out = result.data() + item * columns;
        for (int64_t j = 0; j < columns; ++j) out[j] = bias.empty() ? 0.0 : bias[size_t(j)];
        for (int64_t k = 0; k < depth; ++k)
          add_scaled(row[k * a.column_step], matrix + k * b.row_step, b.column_step, out, 1, columns);
        post_ops.apply(out, columns, [&](int input) { return operands[size_t(input) - 3].data() + item * columns; });
      }
    });
    PlainDoubles::write(y, output(arguments), result);
  }
};

void add(const Op& op, CandidateList& out, Matrices a, Matrices b, int64_t rows, int64_t columns, int64_t depth) {
  MatmulBody body{{}, dense_plain(op.out()), std::move(a), std::move(b), rows, columns, depth, AppliedPostOps(op)};
  for (const TensorDesc& desc : op.inputs) body.inputs.push_back(dense_plain(desc));
  const auto inputs = body.inputs;
  const TensorDesc y = body.y;
  add_candidate(out, "reference", Quality::reference, inputs, {y}, [body = std::move(body)] { return body; });
}

// The matrices of a stack one after the other, each by blocks; every thread takes a range of all of them.
struct BlockedBody {
  PackedProduct product;
  std::vector<int64_t> a_offsets, b_offsets;
  int64_t threads;
  bool has_bias;
  int residual;  // the input that is added; -1: none
  Activation activation;
  AppliedPostOps rest;  // behind that

  int64_t tasks() const { return product.blocks() * int64_t(a_offsets.size()); }

  void operator()(const KernelArguments& arguments) const {
    const auto floats = [&](int i) { return static_cast<const float*>(input(arguments, i)); };
    const float* bias = has_bias ? floats(2) : nullptr;
    const float* added = residual >= 0 ? floats(residual) : nullptr;
    float* y = static_cast<float*>(output(arguments));
    float* workspace = static_cast<float*>(arguments.workspace->host());
    const int64_t all = tasks(), columns = product.columns;
    in_shares(int(threads), all, [&](int64_t rank, Shares::Taker take) {
      float* space = workspace + rank * product.floats();
      for (int64_t task; (task = take()) >= 0;) {
        const int64_t matrix = task / product.blocks();
        const PackedProduct::Block block = product.block(task % product.blocks());
        const float* sums =
            product.run(block, floats(0) + a_offsets[size_t(matrix)], floats(1) + b_offsets[size_t(matrix)], space);
        for (int64_t i = 0; i < block.rows; ++i) {
          const int64_t at = (matrix * product.rows + block.row + i) * columns + block.column;
          finish(sums + i * product.result_step(), bias ? bias + block.column : nullptr, added ? added + at : nullptr,
                 block.columns, y + at);
          activation.apply(y + at, block.columns);
          if (!rest.empty()) rest.apply(y + at, block.columns, [&](int i) { return floats(i) + at; });
        }
      }
    });
  }

 private:
  PL_VECTORISED static void finish(const float* sums, const float* bias, const float* residual, int64_t n, float* y) {
    if (!bias && !residual) {
      std::copy(sums, sums + n, y);
    } else if (!residual) {
      for (int64_t i = 0; i < n; ++i) y[i] = sums[i] + bias[i];
    } else if (!bias) {
      for (int64_t i = 0; i < n; ++i) y[i] = sums[i] + residual[i];
    } else {
      for (int64_t i = 0; i < n; ++i) y[i] = sums[i] + bias[i] + residual[i];
    }
  }
};

// How near the roofline it comes, on two cores of a Xeon; copying by rows is cheaper than transposing.
constexpr double kReachOfBlocks = 0.8, kOfColumnsOfA = 0.96, kOfColumnsOfB = 0.97;
constexpr int64_t kLeastBlock = 32;

// Dense in `layout`, or a strided view in it whose rows or columns have unit steps.
TensorDesc strided_rows_as(const TensorDesc& desc, const Layout& layout) {
  const TensorDesc view = strided_view_as(desc, layout);
  const int rank = desc.rank();
  const bool unit = view.strides[rank - 1] == 1 || (rank > 1 && view.strides[rank - 2] == 1);
  return unit ? view : dense_as(desc, layout);
}

void list_blocks(const Op& op, const std::vector<TensorDesc>& inputs, Matrices a, Matrices b, int64_t rows,
                 int64_t columns, int64_t depth, CandidateList& out) {
  const int64_t step = rows * a.row_step;
  bool one_after_another = a.column_step == 1;
  for (size_t i = 0; i < a.offsets.size(); ++i) one_after_another &= a.offsets[i] == int64_t(i) * step;
  if (one_after_another && std::all_of(b.offsets.begin(), b.offsets.end(), [](int64_t o) { return o == 0; })) {
    rows *= int64_t(a.offsets.size());  // one matrix for all: they are its rows
    a.offsets = b.offsets = {0};
  }
  if (rows < kLeastBlock || columns < kLeastBlock || depth < kLeastBlock) return;
  const StoredPostOps post_ops(op);
  const int64_t most = std::max(1, omp_get_max_threads());
  for (const BlockProduct& small : block_products()) {
    const PackedProduct product(small, rows, columns, depth, {a.row_step, a.column_step}, {b.row_step, b.column_step},
                                int64_t(a.offsets.size()), most);
    BlockedBody body{product, a.offsets, b.offsets, 0, op.has(2), post_ops.first.added, {}, post_ops.rest};
    if (post_ops.first.function) body.activation = Activation::of(*post_ops.first.function);
    body.threads = std::min(most, body.tasks());
    const size_t bytes = size_t(body.threads * product.floats()) * sizeof(float);
    add_candidate(out, concat("blocks:", small.width * 4 * 8), Quality::fast, inputs, {dense_plain(op.out())},
                  [body = std::move(body)] { return body; });
    Candidate& made = out.candidates.back();
    made.workspace_bytes = bytes;
    made.efficiency =
        kReachOfBlocks * (a.column_step == 1 ? 1 : kOfColumnsOfA) * (b.column_step == 1 ? 1 : kOfColumnsOfB);
    if (post_ops.first.added >= 0) made.in_place = 1u << post_ops.first.added;
    // The first one is the best.
    if (!every_instruction_set()) break;
  }
}

void list_matmul(const Op& op, CandidateList& out) {
  const bool ta = op.attributes[attr::transpose_a], tb = op.attributes[attr::transpose_b];
  const Dims &a = op.in(0).shape, &b = op.in(1).shape;
  const int ra = a.size(), rb = b.size();
  const int64_t rows = ra == 1 ? 1 : a[ra - (ta ? 1 : 2)], depth = a[ra - (ra > 1 && ta ? 2 : 1)];
  const int64_t columns = rb == 1 ? 1 : b[rb - (tb ? 2 : 1)];
  Dims batch;
  const int batch_rank = std::max(0, std::max(ra, rb) - 2);
  for (int i = 0; i < batch_rank; ++i) {
    const int ia = i - (batch_rank - std::max(0, ra - 2)), ib = i - (batch_rank - std::max(0, rb - 2));
    const int64_t sa = ia < 0 ? 1 : a[ia], sb = ib < 0 ? 1 : b[ib];
    batch.push_back(sa == 1 ? sb : sa);
  }
  const auto of_a = [&](const TensorDesc& desc) { return matrices_of(desc, ta, true, batch); };
  const auto of_b = [&](const TensorDesc& desc) { return matrices_of(desc, tb, false, batch); };
  if (op.in(0).dtype == DType::f32 && !op.has_empty_tensor())
    for (const Layout& layout_a : head_layouts(ra))
      for (const Layout& layout_b : head_layouts(rb)) {
        std::vector<TensorDesc> inputs;
        for (const TensorDesc& desc : op.inputs) inputs.push_back(dense_plain(desc));
        inputs[0] = strided_rows_as(op.in(0), layout_a), inputs[1] = strided_rows_as(op.in(1), layout_b);
        list_blocks(op, inputs, of_a(inputs[0]), of_b(inputs[1]), rows, columns, depth, out);
      }
  add(op, out, of_a(dense_plain(op.in(0))), of_b(dense_plain(op.in(1))), rows, columns, depth);
}
PL_HOST_KIND("matmul", list_matmul);

// How near the roofline `rows` comes, as `python -m bench.estimates` finds it.  With few rows most of the time goes
// into reading weights, which others do not overlap with products.
constexpr int64_t kFewRows = 100;
constexpr double kReachOfFew = 0.95, kReachOfMany = 0.84, kReachOfManyNarrow = 0.9;  // narrow: vectors of 8 floats

void list_rows(const Op& op, int64_t rows, CandidateList& out) {
  const int64_t depth = op.in(1).shape[1], columns = op.in(1).shape[0];
  if (op.in(0).dtype != DType::f32 || op.has_empty_tensor() || depth < 4 || columns < 4) return;
  const auto ending = Ending::of(op);
  if (!ending) return refuse_ending(op, out);
  for (const ConvKernels* const* kernels = all_conv_kernels(); *kernels; ++kernels) {
    std::vector<TensorDesc> inputs;
    for (const TensorDesc& desc : op.inputs) inputs.push_back(dense_plain(desc));
    inputs[1] = op.in(1).with_layout(filter_layout(2, (*kernels)->width));
    Pointwise job;
    job.inputs = job.chunk = job.x_pixel = depth;
    job.images = job.rows = 1, job.columns = rows;
    job.result.channels = job.result.pixel = columns;
    job.result.vector = (*kernels)->width;
    job.result.has_bias = op.has(2);
    job.result.ending = *ending;
    add_candidate(out, concat("rows:", (*kernels)->isa), Quality::fast, inputs, {dense_plain(op.out())},
                  [body = PointwiseProduct(**kernels, job)] { return body; });
    const double of_many = (*kernels)->width < 16 ? kReachOfManyNarrow : kReachOfMany;
    out.candidates.back().efficiency = rows <= kFewRows ? kReachOfFew : of_many;
    if (ending->added >= 0) out.candidates.back().in_place = 1u << ending->added;  // tiles start from it
    // The first one is the best.
    if (!every_instruction_set()) break;
  }
}

void list_linear(const Op& op, CandidateList& out) {
  const Dims &x = op.in(0).shape, &weight = op.in(1).shape;
  const int64_t depth = weight[1];
  int64_t rows = 1;
  for (int i = 0; i + 1 < x.size(); ++i) rows *= x[i];
  list_rows(op, rows, out);
  const TensorDesc all = TensorDesc::dense(op.in(0).dtype, {rows, depth});
  add(op, out, Matrices(all, all.shape), matrices_of(dense_plain(op.in(1)), true, false, {}), rows, weight[0], depth);
}
PL_HOST_KIND("linear", list_linear);

}  // namespace
}  // namespace pl::host
