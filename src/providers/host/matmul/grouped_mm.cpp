// Kinds grouped_mm and grouped_mm_backward_weights: products of groups of rows, each by a matrix of its own.
//
// grouped_mm in f32 takes weights that are packed once, as linear does (`rows`); both kinds in every floating dtype
// also by blocks that are copied first (`blocks`), as matmul does.  Groups without rows cost nothing: their weights are
// not read.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "providers/host/conv/conv_candidates.h"
#include "providers/host/conv/pointwise_product.h"
#include "providers/host/matmul/packed_product.h"
#include "providers/host/matmul/row_groups.h"

namespace pl::host {
namespace {

void zero_rows(void* y, DType dtype, int64_t first, int64_t rows, int64_t columns) {
  if (first < rows)
    std::memset(at(y, first * columns, size_of(dtype)), 0, size_t((rows - first) * columns) * size_of(dtype));
}
int64_t end_of(const std::vector<RowGroup>& groups) { return groups.empty() ? 0 : groups.back().end; }

// Rows that one thread does at a time: those of large groups are shared.
constexpr int64_t kPieceRows = 256;

struct RowsBody {
  const ConvKernels* kernels;
  RowGroups offsets;
  Pointwise job;  // of all rows, without what depends on their number
  int64_t vectors;

  // Rows of one group, with all vectors of the result.
  struct Piece {
    RowGroup group;
    int tile;              // vectors at a time
    double begin, cycles;  // where it begins among the cycles of all pieces; of each vector

    // The vectors that begin before so many cycles.
    int64_t vectors_before(double at, int64_t vectors) const {
      return int64_t(std::clamp(std::ceil((at - begin) / cycles), 0.0, double(vectors)));
    }
  };

  void operator()(const KernelArguments& arguments) const {
    const std::vector<RowGroup> groups = offsets.read(arguments);
    double all = 0;
    std::vector<Piece> pieces;
    for (const RowGroup& group : groups)
      for (int64_t row = group.begin; row < group.end; row += kPieceRows) {
        const RowGroup part{group.matrix, row, std::min(row + kPieceRows, group.end)};
        const PointwiseTiles tiles = best_tiles(*kernels, job.inputs, part.rows(), vectors);
        const double cycles = tiles.cycles + far_cycles(*kernels, job.inputs, part.rows(), vectors);
        pieces.push_back({part, tiles.vectors, all, cycles / double(vectors)});
        all += cycles;
      }
    Pointwise call = job;
    call.x = static_cast<const float*>(input(arguments, 0));
    bind(call.result, arguments);
    zero_rows(call.result.y, DType::f32, end_of(groups), offsets.rows, job.result.channels);
    const float* weights = static_cast<const float*>(input(arguments, 1));
    const int64_t threads = threads_for(nanoseconds_of(all), kAwakeNanoseconds);
    parallel_for(threads, 1e9, [&](int64_t begin, int64_t end) {
      const double low = all * double(begin) / double(threads), high = all * double(end) / double(threads);
      for (const Piece& piece : pieces) {
        const int64_t first = begin == 0 ? 0 : piece.vectors_before(low, vectors);
        const int64_t last = end == threads ? vectors : piece.vectors_before(high, vectors);
        if (first >= last) continue;
        Pointwise own = call;
        own.weights = weights + piece.group.matrix * vectors * kernels->width * job.inputs;
        set_blocks(*kernels, piece.group.rows(), piece.group.rows(), last - first, piece.tile, own);
        kernels->pointwise(own, piece.group.begin, piece.group.end, first, last, piece.tile);
      }
    });
  }
};

// Outputs of a group in vectors, for each input of it: aBc16b, or aCb16c of matrices (k, n).
Layout packed_layout(bool transposed, int width) {
  return Layout::parse(transposed ? concat("aBc", width, "b") : concat("aCb", width, "c"));
}

// How near the roofline they come, on two cores of a Zen 5.
constexpr double kGroupedRowsReach = 0.8, kGroupedBlocksReach = 0.75;

void list_grouped_rows(const Op& op, CandidateList& out) {
  const int64_t depth = op.in(0).shape[1], columns = op.out().shape[1];
  if (op.in(0).dtype != DType::f32 || op.has_empty_tensor() || depth < 4 || columns < 4) return;
  for (const ConvKernels* const* kernels = all_conv_kernels(); *kernels; ++kernels) {
    const int width = (*kernels)->width;
    Pointwise job;
    job.inputs = job.chunk = job.x_pixel = depth;
    job.images = job.rows = 1, job.columns = op.in(0).shape[0];
    job.result.channels = job.result.pixel = columns;
    job.result.vector = width;
    const TensorDesc weight = op.in(1).with_layout(packed_layout(op.attributes[attr::transpose_weight], width));
    RowsBody body{*kernels, RowGroups(op, 2, op.in(0).shape[0]), job, (columns + width - 1) / width};
    add_candidate(out, concat("rows:", (*kernels)->isa), Quality::fast,
                  {dense_plain(op.in(0)), weight, dense_plain(op.in(2))}, {dense_plain(op.out())},
                  [body = std::move(body)] { return body; });
    out.candidates.back().efficiency = kGroupedRowsReach;
    if (!every_instruction_set()) break;  // the best one
  }
}

// Products of one kind by blocks, one for each group: some of its sizes are those of the group.
struct BlocksBody {
  const BlockProduct* small;
  RowGroups offsets;
  DType dtype;
  bool of_weights;          // x^T grad, else x times weight
  int64_t depth, columns;   // of x and of the result
  int64_t threads, floats;  // of the workspace of each
  bool transposed = false;  // the weight

  struct Task {
    PackedProduct product;
    int64_t a, b, y;  // where its matrices begin
  };

  PackedProduct product_of(const RowGroup& group) const {
    if (of_weights)
      return PackedProduct(*small, depth, columns, group.rows(), {1, depth}, {columns, 1}, offsets.groups, threads,
                           dtype);
    const Strided weight = transposed ? Strided{1, depth} : Strided{columns, 1};
    return PackedProduct(*small, group.rows(), columns, depth, {depth, 1}, weight, offsets.groups, threads, dtype);
  }

  void operator()(const KernelArguments& arguments) const {
    const std::vector<RowGroup> groups = offsets.read(arguments);
    const StoreRun<float> store = float_storer(dtype);
    std::vector<Task> tasks;
    std::vector<int64_t> first{0};  // blocks of the tasks before
    for (const RowGroup& group : groups) {
      if (!of_weights && group.rows() == 0) continue;
      const int64_t matrix = group.matrix * depth * columns;
      tasks.push_back({product_of(group), group.begin * depth, of_weights ? group.begin * columns : matrix,
                       of_weights ? matrix : group.begin * columns});
      first.push_back(first.back() + tasks.back().product.blocks());
    }
    void* y = output(arguments);
    if (!of_weights) zero_rows(y, dtype, end_of(groups), offsets.rows, columns);
    float* workspace = static_cast<float*>(arguments.workspace->host());
    in_shares(int(threads), first.back(), [&](int64_t rank, Shares::Taker take) {
      float* space = workspace + rank * floats;
      for (int64_t i; (i = take()) >= 0;) {
        const size_t number = size_t(std::upper_bound(first.begin(), first.end(), i) - first.begin()) - 1;
        const Task& task = tasks[number];
        const PackedProduct::Block block = task.product.block(i - first[number]);
        const size_t size = size_of(dtype);
        const float* sums = task.product.run(block, at(input(arguments, 0), task.a, size),
                                             at(input(arguments, 1), task.b, size), space);
        for (int64_t r = 0; r < block.rows; ++r)
          store(sums + r * task.product.result_step(), block.columns, y,
                task.y + (block.row + r) * columns + block.column, 1);
      }
    });
  }
};

void list_grouped_blocks(const Op& op, bool of_weights, CandidateList& out) {
  const TensorDesc &x = op.in(0), &y = op.out();
  const int64_t rows = x.shape[0], depth = x.shape[1], columns = y.shape[y.rank() - 1], groups = op.in(2).elements();
  const double nanoseconds = op.schema->flops(op) / 50 + double(x.elements() + y.elements());
  for (const BlockProduct& small : block_products()) {
    BlocksBody body{&small, RowGroups(op, 2, rows), x.dtype, of_weights, depth, columns, 1, 0};
    body.transposed = !of_weights && op.attributes[attr::transpose_weight];
    body.threads = threads_for(nanoseconds);
    const int64_t most = std::max<int64_t>(of_weights ? depth : rows, 1);
    body.floats = PackedProduct::most_floats(small, most, std::max<int64_t>(columns, 1),
                                             of_weights ? Strided{1, depth} : Strided{depth, 1});
    std::vector<TensorDesc> inputs;
    for (const TensorDesc& desc : op.inputs) inputs.push_back(dense_plain(desc));
    const size_t bytes = size_t(body.threads * body.floats) * sizeof(float);
    add_candidate(out, concat("blocks:", small.width * 4 * 8), Quality::fast, inputs, {dense_plain(y)},
                  [body = std::move(body)] { return body; });
    Candidate& made = out.candidates.back();
    made.workspace_bytes = bytes;
    made.efficiency = kGroupedBlocksReach;
    // Weights are copied for every block of rows, in a cache.
    if (!of_weights) made.more_bytes = double(groups * depth * columns) * sizeof(float);
    if (!every_instruction_set()) break;  // the best one
  }
}

void list_products(const Op& op, CandidateList& out) {
  list_grouped_rows(op, out);
  list_grouped_blocks(op, false, out);
}
PL_HOST_KIND("grouped_mm", list_products);

void list_weights(const Op& op, CandidateList& out) { list_grouped_blocks(op, true, out); }
PL_HOST_KIND("grouped_mm_backward_weights", list_weights);

}  // namespace
}  // namespace pl::host
