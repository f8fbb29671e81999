// Kind attention: blocks of queries against blocks of keys, with a softmax that is corrected as larger scores appear.
//
// One task is a head, or a part of its queries.  It brings the keys into panels (transposed, as the product of blocks
// wants them), and then for each block of queries: scores of a block of keys, their exponentials relative to the
// largest score so far, and the product of those with the values, added to what earlier blocks gave, scaled down to
// the new largest score.  Scores exist for one block at a time.
//
// Of few queries, as in decoding, keys are read once and where they lie, for all heads that share them.  Keys before
// the first and behind the last one that a mask leaves are not read: the rest of a cache with room for more, padding.
#include <algorithm>
#include <cstring>

#include "providers/head_layouts.h"
#include "providers/host/attention/attention_columns.h"
#include "providers/host/attention/score_rows.h"
#include "providers/host/common/dropout.h"
#include "providers/host/common/host.h"
#include "providers/host/common/independent.h"
#include "providers/host/common/matrices.h"
#include "providers/host/matmul/block_product.h"
#include "providers/host/reorder/transpose.h"

namespace pl::host {
namespace {

constexpr int kMask = 3, kSeed = 4, kSinks = 5;
constexpr int64_t kQueryBlock = 32;  // a multiple of BlockProduct::rows
// Keys of a block: 32 queries' scores fill 64 KB, of the second cache; most models' heads are one block.
constexpr int64_t kKeyBlock = 512;
constexpr int64_t kFewRows = 4;  // for which reading keys where they lie is faster than products of panels
// A key is hidden where a mask adds this or less, if it adds at least that much to another one: the weight is 0 then.
constexpr float kHides = -1e30f, kShows = -1e29f;

struct Keys {
  int64_t from, to;
};
// Queries that are computed together: so many of each head, from the first on.
struct Rows {
  int64_t first_head, first_query, count, of_head;
  int64_t head(int64_t i) const { return first_head + i / of_head; }
  int64_t query(int64_t i) const { return first_query + i % of_head; }
};
// From the first to the last of n keys that are not hidden; all of them where none is.
template <class Hidden>
Keys shown_of(int64_t n, Hidden hidden) {
  Keys keys{0, n};
  while (keys.from < n && hidden(keys.from)) ++keys.from;
  if (keys.from == n) return {0, n};
  while (hidden(keys.to - 1)) --keys.to;
  return keys;
}

PL_VECTORISED void scale_run(float* x, int64_t n, float factor) {
  for (int64_t i = 0; i < n; ++i) x[i] *= factor;
}
PL_VECTORISED void scale_into(const float* x, int64_t n, float factor, float* y) {
  PL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * factor;
}

struct AttentionBody {
  BlockProduct product = block_product();
  DType dtype;
  int64_t queries, keys, width, value_width;  // l, s, e, ev
  Matrices q, k, v, mask, sinks, y;
  int64_t group;                                     // heads of q that share one of k and v
  bool masked, mask_is_bool, mask_in_place, causal;  // in place: f32 whose rows are read where they lie
  bool sinking;
  float scale, softcap;  // softcap: 0 where there is none
  DropoutInput drops;
  LoadRun<float> load, load_mask;
  StoreRun<float> store;
  int64_t parts, slots;  // tasks of a head; pieces of the workspace
  int64_t few;           // heads whose queries, all of them, are a task; 0: not of few queries

  // Whole runs of the functions of rows, which need not end in single elements then.
  int64_t key_block() const { return std::min(kKeyBlock, round_up(keys, kScoreLanes)); }
  int64_t padded_width() const { return round_up(value_width, product.width); }
  // Values are read where they lie if their rows are whole vectors, close together.
  bool values_in_place() const {
    return dtype == DType::f32 && value_width % product.width == 0 && v.row_step == value_width;
  }

  // All queries of a head have one row of the mask, which is brought into floats once a task.
  bool shares_mask_row() const { return masked && !mask_in_place && mask.row_step == 0 && !few; }

  // The workspace of one slot, in floats.
  struct Room {
    int64_t panels, scores, sums, queries, values, row, mask, statistics, total;
  };
  Room room() const {
    Room room{};
    Pieces pieces;
    room.panels =
        pieces.take(few ? dtype == DType::f32 ? 0 : key_block() * width : round_up(keys, product.width) * width);
    room.scores = pieces.take(kQueryBlock * key_block());
    room.sums = pieces.take(kQueryBlock * padded_width());
    room.queries = pieces.take(dtype == DType::f32 && !few ? 0 : kQueryBlock * width);
    room.values = pieces.take(values_in_place() ? 0 : (few ? key_block() : keys) * padded_width());
    room.row = pieces.take(std::max(std::max(width, value_width), key_block()));
    room.mask = pieces.take(shares_mask_row() ? keys : 0);
    room.statistics = pieces.take(2 * kQueryBlock);
    room.total = pieces.total();
    return room;
  }

  // panels[j / width][e][j % width] = k[j, e] for those keys, the first of which begins a panel; zero beyond the last.
  // `head` counts those of k.
  void pack_keys(const void* data, int64_t head, Keys seen, float* row, float* panels) const {
    const int64_t panel = product.width;
    if (seen.to % panel)
      std::memset(panels + seen.to / panel * panel * width, 0, size_t(panel * width) * sizeof(float));
    if (dtype == DType::f32) {
      static const TransposeRun transpose = transposer(sizeof(float));
      const float* first = static_cast<const float*>(data) + k.offsets[size_t(head)];
      for (int64_t j = seen.from; j < seen.to; j += panel)
        transpose(first + j * k.row_step, k.row_step, panels + j * width, panel, std::min(panel, seen.to - j), width);
      return;
    }
    for (int64_t j = seen.from; j < seen.to; ++j) {
      load(data, k.offsets[size_t(head)] + j * k.row_step, 1, width, row);
      float* to = panels + j / panel * panel * width + j % panel;
      for (int64_t e = 0; e < width; ++e) to[e * panel] = row[e];
    }
  }

  // Those keys' values, the first of them at `values`.
  void copy_values(const void* data, int64_t head, Keys seen, float* values) const {
    const int64_t padded = padded_width();
    for (int64_t j = seen.from; j < seen.to; ++j, values += padded) {
      load(data, v.offsets[size_t(head)] + j * v.row_step, 1, value_width, values);
      std::fill(values + value_width, values + padded, 0.0f);
    }
  }

  // The mask of one query for `count` keys from `first` on, as floats.
  const float* mask_of(const KernelArguments& arguments, int64_t head, int64_t query, int64_t first, int64_t count,
                       const Room& room, float* space) const {
    if (shares_mask_row()) return space + room.mask + first;
    const int64_t at = mask.offsets[size_t(head)] + query * mask.row_step + first * mask.column_step;
    if (mask_in_place) return static_cast<const float*>(input(arguments, kMask)) + at;
    load_mask(input(arguments, kMask), at, mask.column_step, count, space + room.row);
    return space + room.row;
  }

  // The keys that a query may see.
  Keys shown(const KernelArguments& arguments, int64_t head, int64_t query) const {
    const int64_t all = causal ? std::min(keys, query + 1) : keys;
    if (!masked) return {0, all};
    const int64_t at = mask.offsets[size_t(head)] + query * mask.row_step, step = mask.column_step;
    if (mask_is_bool) {
      const bool* shows = static_cast<const bool*>(input(arguments, kMask)) + at;
      return shown_of(all, [&](int64_t j) { return !shows[j * step]; });
    }
    if (!mask_in_place) return {0, all};
    const float* added = static_cast<const float*>(input(arguments, kMask)) + at;
    const Keys found = shown_of(all, [&](int64_t j) { return added[j] <= kHides; });
    return added[found.from] >= kShows ? found : Keys{0, all};
  }
  // What any of some rows may see, whole panels from the first on.
  Keys seen_by(const KernelArguments& arguments, const Rows& rows) const {
    Keys all{keys, 0};
    const bool alike = !few && !causal && (!masked || mask.row_step == 0);
    for (int64_t i = 0; i < (alike ? std::min<int64_t>(rows.count, 1) : rows.count); ++i) {
      const Keys one = shown(arguments, rows.head(i), rows.query(i));
      all = {std::min(all.from, one.from), std::max(all.to, one.to)};
    }
    return {all.from / product.width * product.width, all.to};
  }

  // first.c = scores of some queries, a_step apart from first.a on, and the keys from j on.
  void score(const KernelArguments& arguments, int64_t shared, int64_t j, int64_t count, Product& first,
             const Room& room, float* space) const {
    float* panels = space + room.panels;
    if (!few) {
      first.b = panels + j * width;
      first.panels = (count + product.width - 1) / product.width;
      return product.run(first);
    }
    const float* here = panels;
    int64_t step = width;
    const int64_t at = k.offsets[size_t(shared)] + j * k.row_step;
    if (dtype == DType::f32) {
      here = static_cast<const float*>(input(arguments, 1)) + at;
      step = k.row_step;
    } else {
      for (int64_t n = 0; n < count; ++n) load(input(arguments, 1), at + n * k.row_step, 1, width, panels + n * width);
    }
    row_scores({first.a, here, first.a_step, step, first.rows, count, width, first.factor, first.c, first.c_step});
  }

  // `panels`: the keys whose panels, and values, lie in the workspace.
  void block(const KernelArguments& arguments, const Dropout& dropout, const Rows& rows, const Keys& panels,
             const Room& room, float* space) const {
    float* scores = space + room.scores;
    float* sums = space + room.sums;
    float* largest = space + room.statistics;
    float* total = largest + kQueryBlock;
    const int64_t padded = padded_width(), shared = rows.first_head / group;
    const bool direct = values_in_place();
    Product first, second;
    first.rows = second.rows = rows.count;
    first.depth = width;
    first.a = static_cast<const float*>(input(arguments, 0)) + q.offsets[size_t(rows.first_head)] +
              rows.first_query * q.row_step;
    first.a_step = q.row_step;
    if (dtype != DType::f32 || few) {
      for (int64_t i = 0; i < rows.count; ++i)
        load(input(arguments, 0), q.offsets[size_t(rows.head(i))] + rows.query(i) * q.row_step, 1, width,
             space + room.queries + i * width);
      first.a = space + room.queries;
      first.a_step = width;
    }
    first.b_step = product.width;
    first.b_panel_step = product.width * width;
    first.c = scores;
    first.factor = softcap != 0 ? scale / softcap : scale * kPerLn2;
    second.a = scores;
    second.b_step = direct ? v.row_step : padded;
    second.b_panel_step = product.width;
    second.panels = padded / product.width;
    second.c = sums;
    second.c_step = padded;
    std::fill(largest, largest + rows.count, -math::kInfinity);
    std::fill(total, total + rows.count, 0.0f);
    const Keys seen = few ? panels : seen_by(arguments, rows);
    for (int64_t j = seen.from; j < seen.to; j += key_block()) {
      const int64_t count = std::min(key_block(), seen.to - j);
      const int64_t whole = round_up(count, kScoreLanes);
      first.c_step = second.a_step = whole;
      score(arguments, shared, j, count, first, room, space);
      for (int64_t i = 0; i < rows.count; ++i) {
        float* row = scores + i * first.c_step;
        // With `causal` the keys after the query are hidden.
        const int64_t head = rows.head(i), query = rows.query(i);
        const int64_t visible = causal ? std::clamp<int64_t>(query + 1 - j, 0, count) : count;
        if (softcap != 0) cap_run(row, visible, softcap * kPerLn2);
        float now;
        if (masked) {
          const float* here = mask_of(arguments, head, query, j, visible, room, space);
          now = mask_and_largest(mask_is_bool, here, row, visible, largest[i]);
          std::fill(row + visible, row + whole, -math::kInfinity);
        } else {
          std::fill(row + visible, row + whole, -math::kInfinity);
          now = largest_of(row, whole, largest[i]);
        }
        const float shift = now == -math::kInfinity ? 0.0f : now;
        const float sum = exponentials(row, whole, shift);
        dropout.run(uint64_t(((head * queries) + query) * keys + j), row, count);
        if (j > seen.from) {
          const float correction = power_of_two(largest[i] - shift);
          total[i] *= correction;
          scale_run(sums + i * padded, padded, correction);
        }
        total[i] += sum;
        largest[i] = now;
      }
      second.depth = count;
      float* values = space + room.values;
      if (direct) {
        second.b = static_cast<const float*>(input(arguments, 2)) + v.offsets[size_t(shared)] + j * v.row_step;
      } else if (few) {
        copy_values(input(arguments, 2), shared, {j, j + count}, values);
        second.b = values;
      } else {
        second.b = values + (j - panels.from) * padded;
      }
      second.accumulate = j > seen.from;
      product.run(second);
    }
    if (sinking)
      for (int64_t i = 0; i < rows.count; ++i) {
        float sink;
        load(input(arguments, kSinks), sinks.offsets[size_t(rows.head(i))] + rows.query(i) * sinks.row_step, 1, 1,
             &sink);
        sink *= kPerLn2;
        const float now = std::max(largest[i], sink), shift = now == -math::kInfinity ? 0.0f : now;
        const float correction = power_of_two(largest[i] - shift);
        total[i] = total[i] * correction + power_of_two(sink - shift);
        if (seen.to > seen.from) scale_run(sums + i * padded, padded, correction);
      }
    for (int64_t i = 0; i < rows.count; ++i) {
      float* row = sums + i * padded;
      const int64_t target = y.offsets[size_t(rows.head(i))] + rows.query(i) * y.row_step;
      const bool nothing = seen.to <= seen.from || total[i] == 0;
      if (dtype == DType::f32 && !nothing) {
        scale_into(row, value_width, 1.0f / total[i], static_cast<float*>(output(arguments)) + target);
        continue;
      }
      if (nothing)
        std::fill(row, row + value_width, 0.0f);
      else
        scale_run(row, value_width, 1.0f / total[i]);
      store(row, value_width, output(arguments), target, 1);
    }
  }

  void operator()(const KernelArguments& arguments) const {
    const Room room = this->room();
    const int64_t heads = int64_t(q.offsets.size()), tasks = few ? heads / few : heads * parts;
    const double nanoseconds = double(heads) * double(queries) * double(keys) *
                               (double(width + value_width) * 0.01 + (drops.given() ? 1.2 : 0.2)) / double(slots);
    const Dropout dropout = drops.drawn(arguments);
    const int threads = int(std::min<int64_t>(threads_for(nanoseconds * double(slots)), slots));
    in_shares(threads, tasks, [&](int64_t slot, Shares::Taker take) {
      float* space = static_cast<float*>(arguments.workspace->host()) + slot * room.total;
      if (few) {
        for (int64_t task; (task = take()) >= 0;) {
          const Rows rows{task * few, 0, few * queries, queries};
          block(arguments, dropout, rows, seen_by(arguments, rows), room, space);
        }
        return;
      }
      int64_t packed = -1;  // the head of k and v that lies in the workspace
      Keys panels{0, 0};    // its keys there
      for (int64_t task; (task = take()) >= 0;) {
        const int64_t head = task / parts, part = task % parts;
        const int64_t blocks = (queries + kQueryBlock - 1) / kQueryBlock;
        const int64_t first = blocks * part / parts * kQueryBlock;
        const int64_t last = std::min(queries, blocks * (part + 1) / parts * kQueryBlock);
        const int64_t shared = head / group;
        const Keys seen = seen_by(arguments, {head, first, last - first, queries});
        if (shared != packed || seen.from < panels.from) {
          panels = {seen.from, seen.from};
          packed = shared;
        }
        if (seen.to > panels.to) {
          const Keys more{panels.to / product.width * product.width, seen.to};
          pack_keys(input(arguments, 1), shared, more, space + room.row, space + room.panels);
          if (!values_in_place())
            copy_values(input(arguments, 2), shared, more,
                        space + room.values + (more.from - panels.from) * padded_width());
          panels.to = seen.to;
        }
        if (shares_mask_row())
          load_mask(input(arguments, kMask), mask.offsets[size_t(head)], mask.column_step, keys, space + room.mask);
        for (int64_t query = first; query < last; query += kQueryBlock)
          block(arguments, dropout, {head, query, std::min(kQueryBlock, last - query), queries}, panels, room, space);
      }
    });
  }
};

AttentionBody attention_body(const Op& op, const std::vector<TensorDesc>& inputs, const TensorDesc& y) {
  const TensorDesc &q = inputs[0], &k = inputs[1], &v = inputs[2];
  const int rank = q.rank();
  const bool masked = inputs.size() > size_t(kMask) && inputs[kMask].present;
  Dims scores = q.shape;
  scores[rank - 1] = k.shape[rank - 2];
  const TensorDesc none = TensorDesc::dense(DType::f32, Dims{});
  const TensorDesc mask = masked ? inputs[kMask] : none;
  const bool sinking = inputs.size() > size_t(kSinks) && inputs[kSinks].present;
  AttentionBody body{block_product(),
                     q.dtype,
                     q.shape[rank - 2],
                     k.shape[rank - 2],
                     q.shape[rank - 1],
                     v.shape[rank - 1],
                     Matrices(q, q.shape),
                     Matrices(k, k.shape),
                     Matrices(v, v.shape),
                     Matrices(mask, scores),
                     Matrices(sinking ? inputs[kSinks] : none, scores),
                     Matrices(y, y.shape),
                     rank > 2 ? q.shape[rank - 3] / k.shape[rank - 3] : 1,
                     masked,
                     mask.dtype == DType::boolean,
                     false,
                     op.attributes[attr::is_causal],
                     sinking,
                     float(op.attributes[attr::scale]),
                     op.attributes.is_none(attr::softcap) ? 0.0f : float(op.attributes[attr::softcap]),
                     DropoutInput(op, kSeed, attr::dropout_p),
                     float_loader(q.dtype),
                     float_loader(mask.dtype),
                     float_storer(q.dtype),
                     1,
                     1,
                     0};
  body.mask_in_place = masked && mask.dtype == DType::f32 && body.mask.column_step == 1;
  // Four tasks for each thread, so that they end together, as long as the heads can be parted.
  const int64_t threads = std::max(1, omp_get_max_threads()),
                heads = std::max<int64_t>(1, int64_t(body.q.offsets.size()));
  const int64_t blocks = std::max<int64_t>(1, (body.queries + kQueryBlock - 1) / kQueryBlock);
  const int64_t joined = heads / body.group >= threads ? body.group : 1;
  if (joined * body.queries <= kFewRows) body.few = joined;
  if (heads < 4 * threads && !body.few) body.parts = std::min(blocks, (4 * threads + heads - 1) / heads);
  body.slots = std::min(threads, heads * body.parts);
  return body;
}

void list_attention(const Op& op, CandidateList& out) {
  for (const auto& [from, to] : attention_layouts(op.in(0).shape)) {
    std::vector<TensorDesc> inputs;
    for (int i = 0; i < 3; ++i) inputs.push_back(any_rows_as(op.in(i), from));
    const auto stays = [&](int i) { return !op.in(i).is_dense() && inputs[size_t(i)] == op.in(i); };
    if (from != to && stays(0) && stays(1) && stays(2)) continue;  // with each `to` once
    for (int i = kMask; i < int(op.inputs.size()); ++i) inputs.push_back(dense_plain(op.in(i)));
    const TensorDesc y = op.out().with_layout(to);
    if (op.has_empty_tensor()) {
      // No keys: nothing is seen.
      add_candidate(out, "attention_blocked", Quality::fast, inputs, {y}, [y] {
        return [y](const KernelArguments& arguments) {
          if (y.elements()) std::memset(output(arguments), 0, y.size_bytes());
        };
      });
      continue;
    }
    AttentionBody body = attention_body(op, inputs, y);
    const size_t bytes = size_t(body.slots * body.room().total) * sizeof(float);
    add_candidate(out, "attention_blocked", Quality::fast, inputs, {y}, [body = std::move(body)] { return body; });
    out.candidates.back().workspace_bytes = bytes;
  }
  list_attention_columns(op, out);
}
PL_HOST_KIND("attention", list_attention);

}  // namespace
}  // namespace pl::host
