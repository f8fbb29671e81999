// Kind attention_backward: blocks of queries against all keys of a head, whose scores exist for one block at a time.
//
// One task is a head of keys, or a part of the queries that see it.  For each block of queries: the scores and their
// softmax once more, the gradient by the weights, that by the scores, and from it what the block adds to the gradients
// of keys and values, and its own rows of that of the queries.  Parts of one head have sums of their own, which are
// added up afterwards; their number does not depend on the threads, so that sums have one order.
#include <algorithm>

#include "providers/head_layouts.h"
#include "providers/host/attention/score_rows.h"
#include "providers/host/common/dropout.h"
#include "providers/host/common/host.h"
#include "providers/host/common/independent.h"
#include "providers/host/common/matrices.h"
#include "providers/host/matmul/block_product.h"
#include "providers/host/reorder/transpose.h"

namespace pl::host {
namespace {

enum Input { kQ, kK, kV, kGrad, kMask, kSeed };

constexpr int64_t kTasks = 16;               // heads are taken in parts where they are fewer
constexpr int64_t kScoresOfBlock = 1 << 15;  // floats, 128 KB: three such matrices stay in the second cache
constexpr int64_t kLeastRows = 32, kMostRows = 64;

// The weights p and their gradients g, which become those by the scores, of one query; `slopes` of a limit of scores
// may be null.
PL_VECTORISED void score_gradients(float* p, float* g, const float* slopes, float inverse, float scale, int64_t n) {
  float lanes[kScoreLanes] = {};
  for (int64_t i = 0; i < n; i += kScoreLanes)
    for (int l = 0; l < kScoreLanes; ++l) {
      p[i + l] *= inverse;
      lanes[l] += p[i + l] * g[i + l];
    }
  float sum = 0;
  for (float lane : lanes) sum += lane;
  PL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) g[i] = p[i] * (g[i] - sum) * scale;
  if (slopes)
    for (int64_t i = 0; i < n; ++i) g[i] *= slopes[i];
}
PL_VECTORISED void multiply(const float* by, float* x, int64_t n) {
  PL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) x[i] *= by[i];
}
// Of limit * tanh: from its results.
PL_VECTORISED void cap_slopes(const float* x, float per_limit, float* slopes, int64_t n) {
  PL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) slopes[i] = 1.0f - x[i] * per_limit * x[i] * per_limit;
}

struct Body {
  BlockProduct product = block_product();
  DType dtype;
  int64_t queries, keys, width, value_width;  // l, s, e, ev
  Matrices q, k, v, grad, mask, dq, dk, dv;
  int64_t group;  // heads of q that share one of k and v
  bool masked, mask_is_bool, causal;
  float scale, softcap;  // softcap: 0 where there is none
  DropoutInput drops;
  LoadRun<float> load, load_mask;
  StoreRun<float> store;

  int64_t heads() const { return int64_t(k.offsets.size()); }
  int64_t whole_keys() const { return round_up(keys, kScoreLanes); }
  int64_t key_columns() const { return round_up(width, product.width); }
  int64_t value_columns() const { return round_up(value_width, product.width); }
  int64_t block_rows() const {
    return std::clamp(kScoresOfBlock / whole_keys() / product.rows * product.rows, kLeastRows, kMostRows);
  }
  int64_t blocks_of_query_head() const { return (queries + block_rows() - 1) / block_rows(); }
  int64_t parts() const {
    return heads() >= kTasks ? 1 : std::min(group * blocks_of_query_head(), (kTasks + heads() - 1) / heads());
  }
  int64_t slots() const { return std::min<int64_t>(std::max(1, omp_get_max_threads()), heads() * parts()); }
  int64_t sum_floats() const { return whole_keys() * (key_columns() + value_columns()); }

  // The workspace of one slot, in floats.
  struct Room {
    int64_t key_panels, value_panels, key_rows, value_rows, weights, gradients, slopes, factors, transposed, query_rows,
        grad_rows, of_queries, mask, sums, total;
  };
  Room room() const {
    const int64_t rows = block_rows();
    Room room{};
    Pieces pieces;
    room.key_panels = pieces.take(whole_keys() * width);
    room.value_panels = pieces.take(whole_keys() * value_width);
    room.key_rows = pieces.take(whole_keys() * key_columns());
    room.value_rows = pieces.take(whole_keys() * value_columns());
    room.weights = pieces.take(rows * whole_keys());
    room.gradients = pieces.take(rows * whole_keys());
    room.slopes = pieces.take(softcap != 0 ? rows * whole_keys() : 0);
    room.factors = pieces.take(drops.given() ? whole_keys() : 0);
    room.transposed = pieces.take(whole_keys() * rows);
    room.query_rows = pieces.take(rows * key_columns());
    room.grad_rows = pieces.take(rows * value_columns());
    room.of_queries = pieces.take(rows * key_columns());
    room.mask = pieces.take(whole_keys());
    room.sums = pieces.take(parts() > 1 ? 0 : sum_floats());
    room.total = pieces.total();
    return room;
  }
  // All slots, then the sums of all parts where there are several.
  int64_t floats() const { return slots() * room().total + (parts() > 1 ? heads() * parts() * sum_floats() : 0); }

  // Rows of `count` elements, padded with zeros to `step`, and rows of zeros after them.
  void read_rows(const void* data, int64_t offset, int64_t row_step, int64_t number, int64_t whole, int64_t count,
                 int64_t step, float* to) const {
    for (int64_t i = 0; i < number; ++i) {
      load(data, offset + i * row_step, 1, count, to + i * step);
      std::fill(to + i * step + count, to + (i + 1) * step, 0.0f);
    }
    std::fill(to + number * step, to + whole * step, 0.0f);
  }
  void write_rows(const float* from, int64_t step, int64_t number, int64_t count, void* data, int64_t offset,
                  int64_t row_step) const {
    for (int64_t i = 0; i < number; ++i) store(from + i * step, count, data, offset + i * row_step, 1);
  }
  // panels[j / panel][e][j % panel] = rows[j, e]
  void pack(const float* rows, int64_t step, int64_t depth, float* panels) const {
    static const TransposeRun transpose = transposer(sizeof(float));
    for (int64_t j = 0; j < whole_keys(); j += product.width)
      transpose(rows + j * step, step, panels + j * depth, product.width, product.width, depth);
  }

  // One part of a head at work.
  struct Task {
    const Body& body;
    const KernelArguments& arguments;
    const Dropout& dropout;
    const Room& room;
    float* space;
    float* of_keys;  // sums
    float* of_values;

    // Weights times weights' panels: (rows, keys).
    void scores(const float* rows_of, int64_t step, int64_t depth, const float* panels, int64_t rows, int64_t whole,
                float* result) const {
      Product p;
      p.rows = rows;
      p.panels = whole / body.product.width;
      p.depth = depth;
      p.a = rows_of;
      p.a_step = step;
      p.b = panels;
      p.b_step = body.product.width;
      p.b_panel_step = body.product.width * depth;
      p.c = result;
      p.c_step = body.whole_keys();
      body.product.run(p);
    }
    // result += left's transpose times right, by key.
    void add_by_key(const float* left, int64_t rows, int64_t end, const float* right, int64_t step,
                    float* result) const {
      static const TransposeRun transpose = transposer(sizeof(float));
      float* transposed = space + room.transposed;
      transpose(left, body.whole_keys(), transposed, body.block_rows(), rows, end);
      Product p;
      p.rows = end;
      p.panels = step / body.product.width;
      p.depth = rows;
      p.a = transposed;
      p.a_step = body.block_rows();
      p.b = right;
      p.b_step = step;
      p.b_panel_step = body.product.width;
      p.c = result;
      p.c_step = step;
      p.accumulate = true;
      body.product.run(p);
    }

    void add_mask(int64_t head, int64_t query, float* row, int64_t seen) const {
      float* mask = space + room.mask;
      body.load_mask(input(arguments, kMask), body.mask.offsets[size_t(head)] + query * body.mask.row_step,
                     body.mask.column_step, seen, mask);
      mask_and_largest(body.mask_is_bool, mask, row, seen, 0.0f);
    }

    // Queries [query, query + rows) of head `head` of q.
    void block(int64_t head, int64_t query, int64_t rows) const {
      const int64_t end = body.causal ? std::min(body.keys, query + rows) : body.keys;
      const int64_t whole = round_up(end, kScoreLanes), step = body.whole_keys();
      float* weights = space + room.weights;
      float* gradients = space + room.gradients;
      float* query_rows = space + room.query_rows;
      float* grad_rows = space + room.grad_rows;
      body.read_rows(input(arguments, kQ), body.q.offsets[size_t(head)] + query * body.q.row_step, body.q.row_step,
                     rows, rows, body.width, body.key_columns(), query_rows);
      body.read_rows(input(arguments, kGrad), body.grad.offsets[size_t(head)] + query * body.grad.row_step,
                     body.grad.row_step, rows, rows, body.value_width, body.value_columns(), grad_rows);
      scores(query_rows, body.key_columns(), body.width, space + room.key_panels, rows, whole, weights);
      scores(grad_rows, body.value_columns(), body.value_width, space + room.value_panels, rows, whole, gradients);
      const float factor = body.softcap != 0 ? body.scale / body.softcap : body.scale * kPerLn2;
      for (int64_t i = 0; i < rows; ++i) {
        float* row = weights + i * step;
        const int64_t seen = body.causal ? std::min(query + i + 1, end) : end;
        for (int64_t j = 0; j < seen; ++j) row[j] *= factor;
        float* slopes = body.softcap != 0 ? space + room.slopes + i * step : nullptr;
        if (slopes) {
          cap_run(row, seen, body.softcap * kPerLn2);
          cap_slopes(row, 1.0f / (body.softcap * kPerLn2), slopes, seen);
          std::fill(slopes + seen, slopes + whole, 0.0f);
        }
        if (body.masked) add_mask(head, query + i, row, seen);
        std::fill(row + seen, row + whole, -math::kInfinity);
        const float largest = largest_of(row, whole, -math::kInfinity);
        const float sum = exponentials(row, whole, largest == -math::kInfinity ? 0.0f : largest);
        float* factors = body.drops.given() ? space + room.factors : nullptr;  // of weights that are kept or dropped
        if (factors) {
          std::fill(factors, factors + whole, 1.0f);
          dropout.run(uint64_t((head * body.queries + query + i) * body.keys), factors, end);
          multiply(factors, gradients + i * step, whole);
        }
        // A query that sees no key has no weights.
        score_gradients(row, gradients + i * step, slopes, sum == 0 ? 0.0f : 1.0f / sum, body.scale, whole);
        if (factors) multiply(factors, row, whole);
      }
      Product p;  // by the queries
      p.rows = rows;
      p.panels = body.key_columns() / body.product.width;
      p.depth = end;
      p.a = gradients;
      p.a_step = step;
      p.b = space + room.key_rows;
      p.b_step = body.key_columns();
      p.b_panel_step = body.product.width;
      p.c = space + room.of_queries;
      p.c_step = body.key_columns();
      body.product.run(p);
      body.write_rows(p.c, body.key_columns(), rows, body.width, output(arguments, 0),
                      body.dq.offsets[size_t(head)] + query * body.dq.row_step, body.dq.row_step);
      add_by_key(weights, rows, end, grad_rows, body.value_columns(), of_values);
      add_by_key(gradients, rows, end, query_rows, body.key_columns(), of_keys);
    }
  };

  void write_sums(const KernelArguments& arguments, int64_t head, const float* of_keys, const float* of_values) const {
    write_rows(of_keys, key_columns(), keys, width, output(arguments, 1), dk.offsets[size_t(head)], dk.row_step);
    write_rows(of_values, value_columns(), keys, value_width, output(arguments, 2), dv.offsets[size_t(head)],
               dv.row_step);
  }

  void operator()(const KernelArguments& arguments) const {
    const Room room = this->room();
    const int64_t parts = this->parts(), slots = this->slots(), tasks = heads() * parts, rows = block_rows();
    float* workspace = static_cast<float*>(arguments.workspace->host());
    float* sums = workspace + slots * room.total;
    const double nanoseconds = double(group * heads()) * double(queries) * double(keys) *
                               (double(3 * width + 2 * value_width) * 0.01 + (drops.given() ? 1.5 : 0.5));
    const Dropout dropout = drops.drawn(arguments);
    parallel_for(slots, nanoseconds / double(slots), [&](int64_t begin, int64_t end) {
      for (int64_t slot = begin; slot < end; ++slot) {
        float* space = workspace + slot * room.total;
        int64_t packed = -1;  // the head whose keys and values lie in the workspace
        for (int64_t task = slot * tasks / slots; task < (slot + 1) * tasks / slots; ++task) {
          const int64_t head = task / parts, part = task % parts;
          float* own = parts > 1 ? sums + task * sum_floats() : space + room.sums;
          std::fill(own, own + sum_floats(), 0.0f);
          if (head != packed) {
            read_rows(input(arguments, kK), k.offsets[size_t(head)], k.row_step, keys, whole_keys(), width,
                      key_columns(), space + room.key_rows);
            read_rows(input(arguments, kV), v.offsets[size_t(head)], v.row_step, keys, whole_keys(), value_width,
                      value_columns(), space + room.value_rows);
            pack(space + room.key_rows, key_columns(), width, space + room.key_panels);
            pack(space + room.value_rows, value_columns(), value_width, space + room.value_panels);
            packed = head;
          }
          const Task run{*this, arguments, dropout, room, space, own, own + whole_keys() * key_columns()};
          const int64_t each = blocks_of_query_head(), blocks = group * each;
          for (int64_t number = blocks * part / parts; number < blocks * (part + 1) / parts; ++number) {
            const int64_t query = number % each * rows;
            run.block(head * group + number / each, query, std::min(rows, queries - query));
          }
          if (parts == 1) write_sums(arguments, head, run.of_keys, run.of_values);
        }
      }
    });
    if (parts == 1) return;
    parallel_for(heads(), double(parts * sum_floats()), [&](int64_t begin, int64_t end) {
      for (int64_t head = begin; head < end; ++head) {
        float* first = sums + head * parts * sum_floats();
        for (int64_t part = 1; part < parts; ++part)
          for (int64_t i = 0; i < sum_floats(); ++i) first[i] += first[part * sum_floats() + i];
        write_sums(arguments, head, first, first + whole_keys() * key_columns());
      }
    });
  }
};

void list(const Op& op, CandidateList& out) {
  const int rank = op.in(kQ).rank();
  for (const auto& [layout, of_grad] : attention_layouts(op.in(kQ).shape)) {
    std::vector<TensorDesc> inputs, outputs;
    for (int i : {kQ, kK, kV}) inputs.push_back(op.in(i).with_layout(layout));
    inputs.push_back(op.in(kGrad).with_layout(of_grad));
    for (int i = kMask; i < int(op.inputs.size()); ++i) inputs.push_back(dense_plain(op.in(i)));
    for (int i : {0, 1, 2}) outputs.push_back(op.out(i).with_layout(layout));
    if (op.has_empty_tensor()) {
      add_candidate(out, "attention_backward", Quality::fast, inputs, outputs, [outputs] {
        return [outputs](const KernelArguments& arguments) {
          for (int i = 0; i < 3; ++i)
            if (outputs[size_t(i)].elements())
              std::fill_n(static_cast<char*>(output(arguments, i)), outputs[size_t(i)].size_bytes(), '\0');
        };
      });
      continue;
    }
    const TensorDesc &q = inputs[kQ], &k = inputs[kK], &v = inputs[kV];
    Dims scores = q.shape;
    scores[rank - 1] = k.shape[rank - 2];
    const bool masked = op.has(kMask);
    const TensorDesc mask = masked ? inputs[kMask] : TensorDesc::dense(DType::f32, Dims{});
    const Body body{block_product(),
                    q.dtype,
                    q.shape[rank - 2],
                    k.shape[rank - 2],
                    q.shape[rank - 1],
                    v.shape[rank - 1],
                    Matrices(q, q.shape),
                    Matrices(k, k.shape),
                    Matrices(v, v.shape),
                    Matrices(inputs[kGrad], inputs[kGrad].shape),
                    Matrices(mask, scores),
                    Matrices(outputs[0], q.shape),
                    Matrices(outputs[1], k.shape),
                    Matrices(outputs[2], v.shape),
                    rank > 2 ? q.shape[rank - 3] / k.shape[rank - 3] : 1,
                    masked,
                    mask.dtype == DType::boolean,
                    op.attributes[attr::is_causal],
                    float(op.attributes[attr::scale]),
                    op.attributes.is_none(attr::softcap) ? 0.0f : float(op.attributes[attr::softcap]),
                    DropoutInput(op, kSeed, attr::dropout_p),
                    float_loader(q.dtype),
                    float_loader(mask.dtype),
                    float_storer(q.dtype)};
    const size_t bytes = size_t(body.floats()) * sizeof(float);
    add_candidate(out, "attention_backward", Quality::fast, inputs, outputs, [body] { return body; });
    out.candidates.back().workspace_bytes = bytes;
  }
}
PL_HOST_KIND("attention_backward", list);

}  // namespace
}  // namespace pl::host
