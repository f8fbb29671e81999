// Kind recurrent_backward: the gradients of lstm, gru and rnn.
//
// The states before each step are known, as they are y: so the gates of all steps come from two large products, and
// what is left to go through step by step is, forwards, an LSTM's cell by element, and backwards a product of the
// gates' gradients with the weights of the state.  The gradients of weights and of x are large products again.
// Matrices have a row for each step of each sequence, in the order of x, and the columns of the gates, each padded to
// whole panels.  Sums have one order, whatever the threads.
#include <cstring>

#include "providers/host/common/add_run.h"
#include "providers/host/common/independent.h"
#include "providers/host/matmul/recurrent_layer.h"
#include "providers/host/normalise/row_sums.h"
#include "providers/host/pointwise/vector_math.h"
#include "providers/host/reorder/transpose.h"

namespace pl::host {
namespace {

enum Input { kX, kW, kR, kY, kGrad, kBias, kLengths, kInitialH };
enum Output { kOfX, kOfW, kOfR, kOfBias, kOfInitialH, kOfInitialC, kOfPeephole };

constexpr int64_t kDepth = 512;  // of pieces of a product: a few panels stay in the second cache

// The product on all threads.
void multiply(const BlockProduct& product, const Product& whole) {
  const int64_t blocks = (whole.rows + product.rows - 1) / product.rows;
  const bool by_rows = blocks >= 4 * omp_get_max_threads() || blocks >= whole.panels;
  const int64_t count = by_rows ? blocks : whole.panels;
  const double nanoseconds =
      double(whole.rows * whole.panels * product.width) * double(whole.depth) * kNanosecondsPerProduct;
  parallel_for(count, nanoseconds / double(std::max<int64_t>(1, count)), [&](int64_t begin, int64_t end) {
    Product p = whole;
    if (by_rows) {
      p.rows = std::min(whole.rows, end * product.rows) - begin * product.rows;
      p.a += begin * product.rows * p.a_step;
      p.c += begin * product.rows * p.c_step;
    } else {
      p.panels = end - begin;
      p.b += begin * p.b_panel_step;
      p.c += begin * product.width;
    }
    int64_t done = 0;
    do {
      p.depth = std::min(kDepth, whole.depth - done);
      product.run(p);
      p.a += p.depth;
      p.b += p.depth * p.b_step;
      p.accumulate = true;
      done += p.depth;
    } while (done < whole.depth);
  });
}

// Of n hidden units of one step of one sequence; a holds the gates, `step` apart.  Forwards: a becomes their values.
PL_VECTORISED void lstm_gates(float* a, int64_t step, const float* p, const float* before, float* c, int64_t n) {
  PL_INDEPENDENT
  for (int64_t j = 0; j < n; ++j) {
    const float input = math::sigmoid(a[j] + p[j] * before[j]);
    const float forget = math::sigmoid(a[j + 2 * step] + p[j + 2 * step] * before[j]);
    const float candidate = math::tanh(a[j + 3 * step]);
    const float cell = forget * before[j] + input * candidate;
    a[j + step] = math::sigmoid(a[j + step] + p[j + step] * cell);
    a[j] = input;
    a[j + 2 * step] = forget;
    a[j + 3 * step] = candidate;
    c[j] = cell;
  }
}
// z and r; with linear_before_reset g as well, from the product with the state that is the fourth.
PL_VECTORISED void gru_gates(float* a, int64_t step, bool reset_after, const float* before, float* reset, int64_t n) {
  PL_INDEPENDENT
  for (int64_t j = 0; j < n; ++j) {
    a[j] = math::sigmoid(a[j]);
    a[j + step] = math::sigmoid(a[j + step]);
  }
  if (reset_after) {
    PL_INDEPENDENT
    for (int64_t j = 0; j < n; ++j) a[j + 2 * step] = math::tanh(a[j + 2 * step] + a[j + step] * a[j + 3 * step]);
  } else {
    PL_INDEPENDENT
    for (int64_t j = 0; j < n; ++j) reset[j] = a[j + step] * before[j];
  }
}
PL_VECTORISED void tanh_run(float* a, int64_t n) {
  PL_INDEPENDENT
  for (int64_t j = 0; j < n; ++j) a[j] = math::tanh(a[j]);
}
PL_VECTORISED void relu_run(float* a, int64_t n) {
  PL_INDEPENDENT
  for (int64_t j = 0; j < n; ++j) a[j] = math::maximum(a[j], 0.0f);
}

// Backwards: a becomes the gradients before the gates' functions; dh, the gradient by the step's result, becomes what
// of it goes to the state before without a product.
PL_VECTORISED void lstm_gradients(float* a, int64_t step, const float* p, const float* before, const float* c,
                                  float* dh, float* dc, float* dp, int64_t n) {
  PL_INDEPENDENT
  for (int64_t j = 0; j < n; ++j) {
    const float input = a[j], out = a[j + step], forget = a[j + 2 * step], candidate = a[j + 3 * step];
    const float t = math::tanh(c[j]);
    const float of_out = dh[j] * t * out * (1.0f - out);
    const float of_cell = dc[j] + dh[j] * out * (1.0f - t * t) + of_out * p[j + step];
    const float of_input = of_cell * candidate * input * (1.0f - input);
    const float of_forget = of_cell * before[j] * forget * (1.0f - forget);
    dc[j] = of_cell * forget + of_input * p[j] + of_forget * p[j + 2 * step];
    dp[j] += of_input * before[j];
    dp[j + step] += of_out * c[j];
    dp[j + 2 * step] += of_forget * before[j];
    a[j] = of_input;
    a[j + step] = of_out;
    a[j + 2 * step] = of_forget;
    a[j + 3 * step] = of_cell * input * (1.0f - candidate * candidate);
    dh[j] = 0.0f;
  }
}
PL_VECTORISED void gru_gradients_after(float* a, int64_t step, const float* before, float* dh, int64_t n) {
  PL_INDEPENDENT
  for (int64_t j = 0; j < n; ++j) {
    const float update = a[j], reset = a[j + step], candidate = a[j + 2 * step];
    const float of_candidate = dh[j] * (1.0f - update) * (1.0f - candidate * candidate);
    a[j] = dh[j] * (before[j] - candidate) * update * (1.0f - update);
    a[j + step] = of_candidate * a[j + 3 * step] * reset * (1.0f - reset);
    a[j + 2 * step] = of_candidate;
    a[j + 3 * step] = of_candidate * reset;
    dh[j] *= update;
  }
}
// Without linear_before_reset, in two parts: u is the gradient by the state times the reset gate.
PL_VECTORISED void gru_gradients_first(float* a, int64_t step, const float* before, float* dh, int64_t n) {
  PL_INDEPENDENT
  for (int64_t j = 0; j < n; ++j) {
    const float update = a[j], candidate = a[j + 2 * step];
    a[j + 2 * step] = dh[j] * (1.0f - update) * (1.0f - candidate * candidate);
    a[j] = dh[j] * (before[j] - candidate) * update * (1.0f - update);
    dh[j] *= update;
  }
}
PL_VECTORISED void gru_gradients_second(float* a, int64_t step, const float* before, const float* u, float* dh,
                                        int64_t n) {
  PL_INDEPENDENT
  for (int64_t j = 0; j < n; ++j) {
    const float reset = a[j + step];
    a[j + step] = u[j] * before[j] * reset * (1.0f - reset);
    dh[j] += u[j] * reset;
  }
}
PL_VECTORISED void tanh_gradients(float* a, float* dh, int64_t n) {
  PL_INDEPENDENT
  for (int64_t j = 0; j < n; ++j) {
    a[j] = dh[j] * (1.0f - a[j] * a[j]);
    dh[j] = 0.0f;
  }
}
PL_VECTORISED void relu_gradients(float* a, float* dh, int64_t n) {
  PL_INDEPENDENT
  for (int64_t j = 0; j < n; ++j) {
    a[j] = a[j] > 0.0f ? dh[j] : 0.0f;
    dh[j] = 0.0f;
  }
}

struct Body : RecurrentLayer {
  std::vector<TensorDesc> inputs;
  int initial_c = -1, peephole = -1, grad_h, grad_c = -1;  // inputs; -1: the cell has none

  explicit Body(const Op& op)
      : RecurrentLayer(op),
        initial_c(op.schema->input_index("initial_c")),
        peephole(op.schema->input_index("p")),
        grad_h(op.schema->input_index("grad_h")),
        grad_c(op.schema->input_index("grad_c")) {}

  int64_t rows() const { return steps * batch; }
  bool resets_before() const { return cell == Cell::gru && !reset_after; }
  // A GRU with linear_before_reset has the product with the state apart, which becomes the gradient by it.
  int64_t slots() const { return gates + (reset_after ? 1 : 0); }
  int64_t slot_columns() const { return slots() * padded(); }
  int64_t padded_features() const { return round_up(features, product.width); }
  int64_t transposed_step() const { return round_up(rows(), 16) + 16; }  // no power of two

  // The workspace, in floats.
  struct Room {
    int64_t x, dx, gates, cells, previous, reset, w_panels, r_panels, w, r, transposed, made, now, dh, dc, u, first,
        bias, state_bias, peephole, of_peephole, total;
  };
  Room room() const {
    Room room{};
    Pieces pieces;
    room.x = pieces.take(rows() * padded_features());
    room.dx = pieces.take(rows() * padded_features());
    room.gates = pieces.take(rows() * slot_columns());
    room.cells = pieces.take(cell == Cell::lstm ? rows() * padded() : 0);
    room.previous = pieces.take(rows() * padded());
    room.reset = pieces.take(resets_before() ? rows() * padded() : 0);
    room.w_panels = pieces.take(panels_of_x().floats());
    room.r_panels = pieces.take(panels_of_state().floats());
    room.w = pieces.take(columns() * padded_features());
    room.r = pieces.take(columns() * padded());
    room.transposed = pieces.take(slot_columns() * transposed_step());
    room.made = pieces.take(columns() * std::max(padded(), padded_features()));
    room.now = pieces.take(2 * batch * columns());
    room.dh = pieces.take(batch * padded());
    room.dc = pieces.take(batch * padded());
    room.u = pieces.take(batch * padded());
    room.first = pieces.take(batch * padded());
    room.bias = pieces.take(columns());
    room.state_bias = pieces.take(padded());
    room.peephole = pieces.take(3 * padded());
    room.of_peephole = pieces.take(3 * padded());
    room.total = pieces.total();
    return room;
  }

  const void* given(const KernelArguments& arguments, int i) const {
    return i >= 0 && size_t(i) < inputs.size() && inputs[size_t(i)].present ? input(arguments, i) : nullptr;
  }

  // Rows of `count` elements, each padded with zeros to `step`.
  void read_rows(const void* data, int64_t offset, int64_t number, int64_t count, int64_t step, float* to) const {
    const LoadRun<float> load = float_loader(dtype);
    parallel_for(number, double(step), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        load(data, offset + i * count, 1, count, to + i * step);
        std::fill(to + i * step + count, to + (i + 1) * step, 0.0f);
      }
    });
  }
  // Weights of one direction (gates * hidden, depth) with the rows of each gate padded, too.
  void read_weights(const void* data, int64_t direction, int64_t depth, int64_t step, float* to) const {
    for (int64_t g = 0; g < gates; ++g) {
      read_rows(data, (direction * gates + g) * hidden * depth, hidden, depth, step, to + g * padded() * step);
      std::fill(to + (g * padded() + hidden) * step, to + (g + 1) * padded() * step, 0.0f);
    }
  }
  void write_weights(const float* from, int64_t step, int64_t direction, int64_t depth, void* data) const {
    const StoreRun<float> store = float_storer(dtype);
    parallel_for(gates * hidden, double(depth), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        store(from + (i / hidden * padded() + i % hidden) * step, depth, data, (direction * gates * hidden + i) * depth,
              1);
    });
  }

  // One direction of a call.
  struct Run {
    const Body& body;
    const KernelArguments& arguments;
    const std::vector<int64_t>& length;
    int64_t direction;
    float* space;
    Room room;

    int64_t padded = body.padded(), columns = body.slot_columns(), rows = body.rows();
    float* gates = space + room.gates;
    float* previous = space + room.previous;

    int64_t time(int64_t n, int64_t step) const {
      return body.reversed(direction) ? length[size_t(n)] - 1 - step : step;
    }
    int64_t row(int64_t n, int64_t step) const { return body.row_of(n, time(n, step)); }

    // The state before each step; that of steps that take no part is zero.
    void read_states() const {
      float* first = space + room.first;
      body.read_state(body.given(arguments, kInitialH), direction, first);
      const LoadRun<float> load = float_loader(body.dtype);
      parallel_for(body.batch, double(body.steps * padded), [&](int64_t begin, int64_t end) {
        for (int64_t n = begin; n < end; ++n)
          for (int64_t s = 0; s < body.steps; ++s) {
            const bool takes_part = s < length[size_t(n)];
            float* to = previous + (takes_part ? row(n, s) : body.row_of(n, s)) * padded;
            std::fill(to, to + padded, 0.0f);
            if (takes_part && s == 0)
              std::copy(first + n * padded, first + (n + 1) * padded, to);
            else if (takes_part)
              load(input(arguments, kY), body.result_offset(direction, n, time(n, s - 1)), 1, body.hidden, to);
          }
      });
    }

    // gates[:, column ...] += left times the panels of gates from .. to.
    void multiply_gates(const float* left, int64_t depth, const float* panels, int64_t from, int64_t to, int64_t column,
                        int64_t left_step) const {
      Product p;
      p.rows = rows;
      p.panels = (to - from) * padded / body.product.width;
      p.depth = depth;
      p.a = left;
      p.a_step = left_step;
      p.b = panels + from * padded * depth;
      p.b_step = body.product.width;
      p.b_panel_step = depth * body.product.width;
      p.c = gates + column;
      p.c_step = columns;
      p.accumulate = true;
      multiply(body.product, p);
    }

    // Calls f(row of gates, row number) for all rows.
    template <class F>
    void each_row(F&& f) const {
      parallel_for(rows, double(columns) * kNanosecondsPerGate, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) f(gates + i * columns, i);
      });
    }

    void compute_gates() const {
      const float* bias = space + room.bias;
      const float* state_bias = space + room.state_bias;
      body.read_biases(body.given(arguments, kBias), direction, space + room.bias, space + room.state_bias);
      each_row([&](float* a, int64_t) {
        std::copy(bias, bias + body.columns(), a);
        if (body.reset_after) std::copy(state_bias, state_bias + padded, a + body.columns());
      });
      const float* w = space + room.w_panels + direction * body.columns() * body.features;
      const float* r = space + room.r_panels + direction * body.columns() * body.hidden;
      multiply_gates(space + room.x, body.features, w, 0, body.gates, 0, body.padded_features());
      const bool gru = body.cell == Cell::gru;
      multiply_gates(previous, body.hidden, r, 0, gru ? 2 : body.gates, 0, padded);
      if (body.reset_after) multiply_gates(previous, body.hidden, r, 2, 3, 3 * padded, padded);
      float* reset = space + room.reset;
      if (gru)
        each_row([&](float* a, int64_t i) {
          gru_gates(a, padded, body.reset_after, previous + i * padded, reset + i * padded, padded);
        });
      if (body.resets_before()) {
        multiply_gates(reset, body.hidden, r, 2, 3, 2 * padded, padded);
        each_row([&](float* a, int64_t) { tanh_run(a + 2 * padded, padded); });
      }
      if (body.cell == Cell::rnn) each_row([&](float* a, int64_t) { (body.relu ? relu_run : tanh_run)(a, padded); });
      if (body.cell == Cell::lstm) scan_cells();
    }

    void scan_cells() const {
      const float* p = space + room.peephole;
      const float* first = space + room.first;
      float* cells = space + room.cells;
      body.read_state(body.given(arguments, body.initial_c), direction, space + room.first);
      parallel_for(body.batch * padded / body.product.width,
                   double(body.steps * body.product.width * body.gates) * kNanosecondsPerGate,
                   [&](int64_t begin, int64_t end) {
                     const int64_t panels = padded / body.product.width;
                     for (int64_t part = begin; part < end; ++part) {
                       const int64_t n = part / panels, at = part % panels * body.product.width;
                       const float* before = first + n * padded + at;
                       for (int64_t s = 0; s < length[size_t(n)]; ++s) {
                         float* c = cells + row(n, s) * padded + at;
                         lstm_gates(gates + row(n, s) * columns + at, padded, p + at, before, c, body.product.width);
                         before = c;
                       }
                     }
                   });
    }

    // dh[:, panels] += now[:, gates from .. to] times the weights of the state.
    void multiply_back(const float* now, int64_t from, int64_t to, int64_t begin, int64_t end, float* result,
                       bool accumulate) const {
      Product p;
      p.rows = body.batch;
      p.panels = end - begin;
      p.depth = (to - from) * padded;
      p.a = now + from * padded;
      p.a_step = body.columns();
      p.b = space + room.r + from * padded * padded + begin * body.product.width;
      p.b_step = padded;
      p.b_panel_step = body.product.width;
      p.c = result + begin * body.product.width;
      p.c_step = padded;
      p.accumulate = accumulate;
      body.product.run(p);
    }

    void walk_back() const {
      float* dh = space + room.dh;
      float* dc = space + room.dc;
      float* u = space + room.u;
      const float* first = space + room.first;  // of an LSTM: the first cell state
      const float* cells = space + room.cells;
      const float* p = space + room.peephole;
      float* dp = space + room.of_peephole;
      body.read_state(body.given(arguments, body.grad_h), direction, dh);
      body.read_state(body.given(arguments, body.grad_c), direction, dc);
      std::fill(dp, dp + 3 * padded, 0.0f);
      const LoadRun<float> load = float_loader(body.dtype);
      const bool two = body.resets_before();
      const int64_t multiplied = two ? 2 : body.gates;
      const double nanoseconds = double(body.batch * body.product.width * body.gates) *
                                 (double(padded) * kNanosecondsPerProduct + kNanosecondsPerGate);
      const auto buffer = [&](int64_t s) { return space + room.now + (s & 1) * body.batch * body.columns(); };
      // The units of panels [begin, end) in gates from .. to of a step, for the product that follows.
      const auto hand_over = [&](int64_t s, int64_t n, int64_t first_unit, int64_t count, int64_t from, int64_t to) {
        for (int64_t g = from; g < to; ++g) {
          float* target = buffer(s) + n * body.columns() + g * padded + first_unit;
          if (s >= length[size_t(n)]) {
            std::fill(target, target + count, 0.0f);
            continue;
          }
          const int64_t slot = g == 2 && body.reset_after ? 3 : g;
          const float* source = gates + row(n, s) * columns + slot * padded + first_unit;
          std::copy(source, source + count, target);
        }
      };
      const int64_t panels = padded / body.product.width;
      for (int64_t s = body.steps - 1; s >= 0; --s) {
        parallel_for(panels, nanoseconds, [&](int64_t begin, int64_t end) {
          const int64_t at = begin * body.product.width, count = (end - begin) * body.product.width;
          const int64_t units = std::min(count, body.hidden - at);
          if (s + 1 < body.steps) multiply_back(buffer(s + 1), 0, multiplied, begin, end, dh, true);
          std::vector<float> grad(static_cast<size_t>(units));
          for (int64_t n = 0; n < body.batch; ++n) {
            if (s < length[size_t(n)]) {
              float* of_state = dh + n * padded + at;
              load(input(arguments, kGrad), body.result_offset(direction, n, time(n, s)) + at, 1, units, grad.data());
              add_run(grad.data(), units, of_state);
              const int64_t i = row(n, s);
              float* a = gates + i * columns + at;
              const float* before = previous + i * padded + at;
              if (body.cell == Cell::lstm)
                lstm_gradients(a, padded, p + at, (s > 0 ? cells + row(n, s - 1) * padded : first + n * padded) + at,
                               cells + i * padded + at, of_state, dc + n * padded + at, dp + at, count);
              else if (body.cell == Cell::rnn)
                (body.relu ? relu_gradients : tanh_gradients)(a, of_state, count);
              else
                (two ? gru_gradients_first : gru_gradients_after)(a, padded, before, of_state, count);
            }
            hand_over(s, n, at, count, two ? 2 : 0, body.gates);
          }
        });
        if (two)
          parallel_for(panels, nanoseconds / 2, [&](int64_t begin, int64_t end) {
            const int64_t at = begin * body.product.width, count = (end - begin) * body.product.width;
            multiply_back(buffer(s), 2, 3, begin, end, u, false);
            for (int64_t n = 0; n < body.batch; ++n) {
              if (s < length[size_t(n)]) {
                const int64_t i = row(n, s);
                gru_gradients_second(gates + i * columns + at, padded, previous + i * padded + at, u + n * padded + at,
                                     dh + n * padded + at, count);
              }
              hand_over(s, n, at, count, 0, 2);
            }
          });
      }
      if (body.steps > 0) multiply_back(buffer(0), 0, multiplied, 0, panels, dh, true);
      body.write_state(output(arguments, kOfInitialH), direction, dh);
      if (body.cell != Cell::lstm) return;
      body.write_state(output(arguments, kOfInitialC), direction, dc);
      for (int64_t g = 0; g < 3; ++g)
        float_storer(body.dtype)(dp + g * padded, body.hidden, output(arguments, kOfPeephole),
                                 (direction * 3 + g) * body.hidden, 1);
    }

    // Steps that take no part have no gradients.
    void clear_rest() const {
      for (int64_t n = 0; n < body.batch; ++n)
        for (int64_t t = length[size_t(n)]; t < body.steps; ++t) {
          float* a = gates + body.row_of(n, t) * columns;
          std::fill(a, a + columns, 0.0f);
        }
    }

    void multiply_weights(int64_t slot, int64_t count, const float* right, int64_t step, float* result) const {
      Product p;
      p.rows = count * padded;
      p.panels = step / body.product.width;
      p.depth = rows;
      p.a = space + room.transposed + slot * padded * body.transposed_step();
      p.a_step = body.transposed_step();
      p.b = right;
      p.b_step = step;
      p.b_panel_step = body.product.width;
      p.c = result;
      p.c_step = step;
      multiply(body.product, p);
    }

    void finish() const {
      Product p;  // by x: of both directions
      p.rows = rows;
      p.panels = body.padded_features() / body.product.width;
      p.depth = body.columns();
      p.a = gates;
      p.a_step = columns;
      p.b = space + room.w;
      p.b_step = body.padded_features();
      p.b_panel_step = body.product.width;
      p.c = space + room.dx;
      p.c_step = body.padded_features();
      p.accumulate = direction > 0;
      multiply(body.product, p);

      float* transposed = space + room.transposed;
      const TransposeRun transpose = transposer(sizeof(float));
      const int64_t width = body.product.width, step = body.transposed_step();
      parallel_for(columns / width, double(rows * width), [&](int64_t begin, int64_t end) {
        transpose(gates + begin * width, columns, transposed + begin * width * step, step, rows, (end - begin) * width);
      });
      float* made = space + room.made;
      multiply_weights(0, body.gates, space + room.x, body.padded_features(), made);
      body.write_weights(made, body.padded_features(), direction, body.features, output(arguments, kOfW));
      if (body.cell == Cell::gru) {
        multiply_weights(0, 2, previous, padded, made);
        multiply_weights(body.reset_after ? 3 : 2, 1, body.reset_after ? previous : space + room.reset, padded,
                         made + 2 * padded * padded);
      } else {
        multiply_weights(0, body.gates, previous, padded, made);
      }
      body.write_weights(made, padded, direction, body.hidden, output(arguments, kOfR));

      std::vector<float> sums(static_cast<size_t>(columns));
      parallel_for(columns, double(rows), [&](int64_t begin, int64_t end) {
        for (int64_t j = begin; j < end; ++j) sums[size_t(j)] = float(sum_of(transposed + j * step, rows));
      });
      for (int64_t half = 0; half < 2; ++half)
        for (int64_t g = 0; g < body.gates; ++g) {
          const int64_t slot = half == 1 && g == 2 && body.reset_after ? 3 : g;
          float_storer(body.dtype)(sums.data() + slot * padded, body.hidden, output(arguments, kOfBias),
                                   ((direction * 2 + half) * body.gates + g) * body.hidden, 1);
        }
    }
  };

  void operator()(const KernelArguments& arguments) const {
    const void* given_lengths = given(arguments, kLengths);
    const std::vector<int64_t> length = lengths(given_lengths, given_lengths ? inputs[kLengths].dtype : DType::s64);
    const Room room = this->room();
    float* space = static_cast<float*>(arguments.workspace->host());
    read_rows(input(arguments, kX), 0, rows(), features, padded_features(), space + room.x);
    panels_of_x().pack(input(arguments, kW), space + room.w_panels);
    panels_of_state().pack(input(arguments, kR), space + room.r_panels);
    for (int64_t direction = 0; direction < directions; ++direction) {
      read_weights(input(arguments, kW), direction, features, padded_features(), space + room.w);
      read_weights(input(arguments, kR), direction, hidden, padded(), space + room.r);
      read_vectors(given(arguments, peephole), direction * 3 * hidden, 3, space + room.peephole);
      const Run run{*this, arguments, length, direction, space, room};
      run.read_states();
      run.compute_gates();
      run.walk_back();
      run.clear_rest();
      run.finish();
    }
    const StoreRun<float> store = float_storer(dtype);
    parallel_for(rows(), double(features), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        store(space + room.dx + i * padded_features(), features, output(arguments, kOfX), i * features, 1);
    });
  }
};

void list(const Op& op, CandidateList& out) {
  Body body(op);
  for (const TensorDesc& desc : op.inputs) body.inputs.push_back(dense_plain(desc));
  std::vector<TensorDesc> outputs;
  for (const TensorDesc& desc : op.outputs) outputs.push_back(dense_plain(desc));
  const size_t bytes = size_t(std::max<int64_t>(body.room().total, 1)) * sizeof(float);
  const auto inputs = body.inputs;
  add_candidate(out, "recurrent_backward", Quality::fair, inputs, outputs, [body] { return body; });
  out.candidates.back().workspace_bytes = bytes;
}
PL_HOST_KIND("recurrent_backward", list);

}  // namespace
}  // namespace pl::host
