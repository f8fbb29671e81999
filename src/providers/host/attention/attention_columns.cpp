// attention_columns: attention whose queries and keys are few and long, each a column: channels that attend to channels
// over all pixels, as (n, pixels, heads, channels) has them.
//
// One task is a head.  The scores, with a column for each query, are one product of keys and queries as they lie; the
// softmax goes down the columns, vectors of queries at a time; and the result is one product of values and weights,
// row by row of all pixels.  Nothing is transposed.
#include "providers/host/attention/attention_columns.h"

#include <algorithm>

#include "providers/host/attention/score_rows.h"
#include "providers/host/common/host.h"
#include "providers/host/common/matrices.h"
#include "providers/host/matmul/block_product.h"

namespace pl::host {
namespace {

constexpr int64_t kMostColumns = 256;  // their scores fill 256 KB at most
constexpr int64_t kBlock = 256;        // elements of a column that are brought into floats, or summed, at a time

// scores[j * step + i]: of key j and query i, in units of ln 2.  `largest`, `total`: room for `queries` numbers each.
PL_VECTORISED void softmax_down(float* scores, int64_t keys, int64_t queries, int64_t step, float* largest,
                                float* total) {
  for (int64_t i = 0; i < queries; ++i) {
    largest[i] = -math::kInfinity;
    total[i] = 0;
  }
  for (int64_t j = 0; j < keys; ++j)
    for (int64_t i = 0; i < queries; ++i) {
      const float score = scores[j * step + i];
      largest[i] = score > largest[i] ? score : largest[i];
    }
  for (int64_t i = 0; i < queries; ++i) largest[i] = largest[i] == -math::kInfinity ? 0.0f : largest[i];
  for (int64_t j = 0; j < keys; ++j)
    for (int64_t i = 0; i < queries; ++i) {
      const float weight = power_of_two(scores[j * step + i] - largest[i]);
      scores[j * step + i] = weight;
      total[i] += weight;
    }
  for (int64_t i = 0; i < queries; ++i) total[i] = total[i] > 0 ? 1.0f / total[i] : total[i];
  for (int64_t j = 0; j < keys; ++j)
    for (int64_t i = 0; i < queries; ++i) scores[j * step + i] *= total[i];
}

// A matrix of which each column lies side by side, read as floats in blocks of its long dimension.
struct Columns {
  Matrices matrices;
  int64_t count;   // of columns
  int64_t padded;  // columns of a block that is brought into floats
  bool in_place;

  struct Block {
    const float* data;
    int64_t step;
  };
  // Elements `first` to `first + length` of all columns of a head: element n of column i is at data[n * step + i].
  Block block(const void* base, int64_t head, int64_t first, int64_t length, LoadRun<float> load, float* space) const {
    const int64_t at = matrices.offsets[size_t(head)] + first * matrices.column_step;
    if (in_place) return {static_cast<const float*>(base) + at, matrices.column_step};
    for (int64_t n = 0; n < length; ++n) {
      load(base, at + n * matrices.column_step, 1, count, space + n * padded);
      std::fill(space + n * padded + count, space + (n + 1) * padded, 0.0f);
    }
    return {space, padded};
  }
};

struct AttentionColumnsBody {
  BlockProduct product;
  int64_t width, value_width;  // e, ev
  Columns q, k, v, y;
  int64_t group;  // heads of q that share one of k and v
  float scale;
  LoadRun<float> load;
  StoreRun<float> store;
  int64_t slots;

  // The workspace of one slot, in floats.
  struct Room {
    int64_t scores, statistics, first, second, total;
  };
  Room room() const {
    Room room{};
    Pieces pieces;
    room.scores = pieces.take(k.count * q.padded);
    room.statistics = pieces.take(2 * q.padded);
    room.first = pieces.take(q.in_place && y.in_place ? 0 : kBlock * q.padded);
    room.second = pieces.take(k.in_place && v.in_place ? 0 : kBlock * k.padded);
    room.total = pieces.total();
    return room;
  }

  void score(const KernelArguments& arguments, int64_t head, const Room& room, float* space) const {
    Product scores;
    scores.rows = k.count;
    scores.panels = q.padded / product.width;
    scores.a_by_columns = true;
    scores.b_panel_step = product.width;
    scores.c = space + room.scores;
    scores.c_step = q.padded;
    scores.factor = scale * kPerLn2;
    for (int64_t n = 0; n < width; n += kBlock) {
      scores.depth = std::min(kBlock, width - n);
      const auto keys = k.block(input(arguments, 1), head / group, n, scores.depth, load, space + room.second);
      const auto queries = q.block(input(arguments, 0), head, n, scores.depth, load, space + room.first);
      scores.a = keys.data;
      scores.a_step = keys.step;
      scores.b = queries.data;
      scores.b_step = queries.step;
      scores.accumulate = n > 0;
      product.run(scores);
    }
  }

  void weigh(const KernelArguments& arguments, int64_t head, const Room& room, float* space) const {
    Product means;
    means.panels = q.padded / product.width;
    means.depth = k.count;
    means.b = space + room.scores;
    means.b_step = q.padded;
    means.b_panel_step = product.width;
    for (int64_t n = 0; n < value_width; n += kBlock) {
      means.rows = std::min(kBlock, value_width - n);
      const auto values = v.block(input(arguments, 2), head / group, n, means.rows, load, space + room.second);
      const int64_t at = y.matrices.offsets[size_t(head)] + n * y.matrices.column_step;
      means.a = values.data;
      means.a_step = values.step;
      means.c = y.in_place ? static_cast<float*>(output(arguments)) + at : space + room.first;
      means.c_step = y.in_place ? y.matrices.column_step : y.padded;
      product.run(means);
      if (y.in_place) continue;
      for (int64_t i = 0; i < means.rows; ++i)
        store(means.c + i * means.c_step, y.count, output(arguments), at + i * y.matrices.column_step, 1);
    }
  }

  void operator()(const KernelArguments& arguments) const {
    const Room room = this->room();
    const int64_t heads = int64_t(q.matrices.offsets.size());
    const double nanoseconds =
        double(heads) * double(q.padded) * double(k.count) * (double(width + value_width) * 0.01 + 0.5);
    const int threads = int(std::min<int64_t>(threads_for(nanoseconds), slots));
    in_shares(threads, heads, [&](int64_t slot, Shares::Taker take) {
      float* space = static_cast<float*>(arguments.workspace->host()) + slot * room.total;
      for (int64_t head; (head = take()) >= 0;) {
        score(arguments, head, room, space);
        softmax_down(space + room.scores, k.count, q.padded, q.padded, space + room.statistics,
                     space + room.statistics + q.padded);
        weigh(arguments, head, room, space);
      }
    });
  }
};

// Orders in which a head's columns lie side by side: (..., heads, e, l), and (..., e, heads, l) of a linear layer.
std::vector<Layout> column_layouts(int rank) {
  std::vector<int8_t> order;
  for (int d = 0; d < rank; ++d) order.push_back(int8_t(d));
  std::swap(order[size_t(rank) - 1], order[size_t(rank) - 2]);
  std::vector<Layout> layouts{Layout::make(order.data(), rank, nullptr, 0)};
  if (rank > 2) {
    std::swap(order[size_t(rank) - 2], order[size_t(rank) - 3]);
    layouts.push_back(Layout::make(order.data(), rank, nullptr, 0));
  }
  return layouts;
}

}  // namespace

void list_attention_columns(const Op& op, CandidateList& out) {
  const Dims &q = op.in(0).shape, &k = op.in(1).shape;
  const int rank = q.size();
  const int64_t queries = q[rank - 2], keys = k[rank - 2], width = q[rank - 1];
  for (int i = 3; i < int(op.inputs.size()); ++i)
    if (op.has(i)) return;
  if (op.attributes[attr::is_causal] || !op.attributes.is_none(attr::softcap)) return;
  if (op.has_empty_tensor() || std::max(queries, keys) > std::min(kMostColumns, width)) return;
  for (const Layout& layout : column_layouts(rank)) {
    std::vector<TensorDesc> inputs;
    for (int i = 0; i < 3; ++i) inputs.push_back(any_runs_as(op.in(i), layout, rank - 2));
    for (int i = 3; i < int(op.inputs.size()); ++i) inputs.push_back(op.in(i));
    const TensorDesc y = op.out().with_layout(layout);
    const BlockProduct product = block_product();
    // Whole panels of columns are read and written: of queries, which the scores' columns are, not of keys.
    const auto columns = [&](const TensorDesc& desc, bool in_panels) {
      const int64_t count = desc.shape[rank - 2], padded = in_panels ? round_up(count, product.width) : count;
      return Columns{Matrices(desc, desc.shape), count, padded, desc.dtype == DType::f32 && padded == count};
    };
    AttentionColumnsBody body{product,
                              width,
                              op.in(2).shape[rank - 1],
                              columns(inputs[0], true),
                              columns(inputs[1], false),
                              columns(inputs[2], false),
                              columns(y, true),
                              rank > 2 ? q[rank - 3] / k[rank - 3] : 1,
                              float(op.attributes[attr::scale]),
                              float_loader(op.in(0).dtype),
                              float_storer(op.in(0).dtype),
                              1};
    body.slots = std::min<int64_t>(std::max(1, omp_get_max_threads()), int64_t(body.q.matrices.offsets.size()));
    const size_t bytes = size_t(body.slots * body.room().total) * sizeof(float);
    add_candidate(out, "attention_columns", Quality::fast, inputs, {y}, [body = std::move(body)] { return body; });
    out.candidates.back().workspace_bytes = bytes;
  }
}

}  // namespace pl::host
