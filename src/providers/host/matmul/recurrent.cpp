// Kind recurrent: lstm, gru and rnn.
//
// For each direction the products of all steps with the weights of x are done at once; then each step multiplies the
// state with its weights and applies the gates.  Weights are packed into panels (block_product.h) once: columns are
// the gates' rows, each gate padded to whole panels, so that a thread does a range of the hidden units in all gates.
// States are kept twice, as all threads read the old one while the new one is written.
#include <cstring>

#include "providers/host/common/independent.h"
#include "providers/host/matmul/recurrent_layer.h"
#include "providers/host/pointwise/vector_math.h"

namespace pl::host {
namespace {

// Of the processor's peak, beside 0.3 of oneDNN's kernels, which this one outruns by a fifth with vectors of eight floats.
constexpr double kReachOfEight = 0.36;

enum Input { kX, kW, kR, kBias, kLengths, kInitialH, kInitialC, kPeephole };
// The gates of n hidden units of one sequence.  x and r are the products with the input (biases included) and with
// the state, `step` from gate to gate; p the peepholes alike.
PL_VECTORISED void lstm_units(const float* x, const float* r, int64_t step, const float* p, int64_t p_step, float* c,
                              float* h, int64_t n) {
  PL_INDEPENDENT
  for (int64_t j = 0; j < n; ++j) {
    const float input = math::sigmoid(x[j] + r[j] + p[j] * c[j]);
    const float forget = math::sigmoid(x[j + 2 * step] + r[j + 2 * step] + p[j + 2 * p_step] * c[j]);
    const float candidate = math::tanh(x[j + 3 * step] + r[j + 3 * step]);
    const float cell = forget * c[j] + input * candidate;
    const float out = math::sigmoid(x[j + step] + r[j + step] + p[j + p_step] * cell);
    c[j] = cell;
    h[j] = out * math::tanh(cell);
  }
}
PL_VECTORISED void tanh_units(const float* x, const float* r, float* h, int64_t n) {
  PL_INDEPENDENT
  for (int64_t j = 0; j < n; ++j) h[j] = math::tanh(x[j] + r[j]);
}
PL_VECTORISED void relu_units(const float* x, const float* r, float* h, int64_t n) {
  PL_INDEPENDENT
  for (int64_t j = 0; j < n; ++j) h[j] = math::maximum(x[j] + r[j], 0.0f);
}
// With linear_before_reset; b is the bias of the state's part of gate h.
PL_VECTORISED void gru_units(const float* x, const float* r, int64_t step, const float* b, const float* old, float* h,
                             int64_t n) {
  PL_INDEPENDENT
  for (int64_t j = 0; j < n; ++j) {
    const float update = math::sigmoid(x[j] + r[j]);
    const float reset = math::sigmoid(x[j + step] + r[j + step]);
    const float candidate = math::tanh(x[j + 2 * step] + reset * (r[j + 2 * step] + b[j]));
    h[j] = candidate + update * (old[j] - candidate);
  }
}
// Without it, in two parts: z replaces r[j], and the state that gate h sees is the old one times the reset gate.
PL_VECTORISED void gru_resets(const float* x, float* r, int64_t step, const float* old, float* reset_state, int64_t n) {
  PL_INDEPENDENT
  for (int64_t j = 0; j < n; ++j) {
    r[j] = math::sigmoid(x[j] + r[j]);
    reset_state[j] = math::sigmoid(x[j + step] + r[j + step]) * old[j];
  }
}
PL_VECTORISED void gru_candidates(const float* x, const float* r, int64_t step, const float* old, float* h, int64_t n) {
  PL_INDEPENDENT
  for (int64_t j = 0; j < n; ++j) {
    const float candidate = math::tanh(x[j + 2 * step] + r[j + 2 * step]);
    h[j] = candidate + r[j] * (old[j] - candidate);
  }
}

struct RecurrentBody : RecurrentLayer {
  bool packs_here = false;  // weights that no one packs before, as they are no constants, are packed in every run
  std::vector<TensorDesc> inputs;

  explicit RecurrentBody(const Op& op) : RecurrentLayer(op) {}

  // The workspace, in floats.
  struct Room {
    int64_t x, products, state, next, cell, gates, reset, bias, state_bias, peephole, w, r, total;
  };
  Room room() const {
    Room room{};
    Pieces pieces;
    room.x = pieces.take(dtype == DType::f32 ? 0 : steps * batch * features);
    room.products = pieces.take(steps * batch * columns());
    room.state = pieces.take(batch * padded());
    room.next = pieces.take(batch * padded());
    room.cell = pieces.take(batch * padded());
    room.gates = pieces.take(batch * columns());
    room.reset = pieces.take(batch * padded());
    room.bias = pieces.take(columns());
    room.state_bias = pieces.take(padded());
    room.peephole = pieces.take(3 * padded());
    room.w = pieces.take(packs_here ? panels_of_x().floats() : 0);
    room.r = pieces.take(packs_here ? panels_of_state().floats() : 0);
    room.total = pieces.total();
    return room;
  }

  const void* given(const KernelArguments& arguments, int i) const {
    return size_t(i) < inputs.size() && inputs[size_t(i)].present ? input(arguments, i) : nullptr;
  }
  WeightPanels panels_of(int i) const { return i == kW ? panels_of_x() : panels_of_state(); }

  const float* weights(const KernelArguments& arguments, int i, float* space) const {
    if (!packs_here) return static_cast<const float*>(input(arguments, i));
    panels_of(i).pack(input(arguments, i), space);
    return space;
  }

  // products[row, :] = x[row, :] w^T + bias for all steps and sequences, which are rows in the order of x.
  void multiply_inputs(const float* x, const float* panels, const float* bias, float* products) const {
    const int64_t rows = steps * batch, all = columns() / product.width;
    parallel_for(all, double(rows * features * product.width) * kNanosecondsPerProduct,
                 [&](int64_t begin, int64_t end) {
                   const int64_t first = begin * product.width, count = (end - begin) * product.width;
                   for (int64_t i = 0; i < rows; ++i)
                     std::copy(bias + first, bias + first + count, products + i * columns() + first);
                   Product p;
                   p.rows = rows;
                   p.panels = end - begin;
                   p.depth = features;
                   p.a = x;
                   p.a_step = features;
                   p.b = panels + begin * features * product.width;
                   p.b_step = product.width;
                   p.b_panel_step = features * product.width;
                   p.c = products + first;
                   p.c_step = columns();
                   p.accumulate = true;
                   product.run(p);
                 });
  }

  // The product of states with panels [begin, end) of one gate.
  void multiply_state(const float* state, const float* panels, int64_t gate, int64_t begin, int64_t end,
                      float* result) const {
    const int64_t panel = gate * padded() / product.width + begin;
    Product p;
    p.rows = batch;
    p.panels = end - begin;
    p.depth = hidden;
    p.a = state;
    p.a_step = padded();
    p.b = panels + panel * hidden * product.width;
    p.b_step = product.width;
    p.b_panel_step = hidden * product.width;
    p.c = result + panel * product.width;
    p.c_step = columns();
    product.run(p);
  }

  void run_direction(const KernelArguments& arguments, int64_t direction, const std::vector<int64_t>& length,
                     const float* x, const float* w, const float* r, float* space, const Room& room) const {
    const bool reversed = this->reversed(direction);
    float* products = space + room.products;
    float* state = space + room.state;
    float* next = space + room.next;
    float* cells = space + room.cell;
    float* gate_values = space + room.gates;
    float* reset = space + room.reset;
    float* peephole = space + room.peephole;
    const int64_t unit_panels = padded() / product.width, step = padded();
    w += direction * columns() * features;
    r += direction * columns() * hidden;
    read_biases(given(arguments, kBias), direction, space + room.bias, space + room.state_bias);
    read_vectors(given(arguments, kPeephole), direction * 3 * hidden, 3, peephole);
    read_state(given(arguments, kInitialH), direction, state);
    if (cell == Cell::lstm) read_state(given(arguments, kInitialC), direction, cells);
    multiply_inputs(x, w, space + room.bias, products);

    const StoreRun<float> store = float_storer(dtype);
    const double nanoseconds =
        double(batch * product.width * gates) * (double(hidden) * kNanosecondsPerProduct + kNanosecondsPerGate);
    for (int64_t s = 0; s < steps; ++s) {
      const auto time = [&](int64_t n) { return reversed ? length[size_t(n)] - 1 - s : s; };
      const auto row = [&](int64_t n) { return products + row_of(n, time(n)) * columns(); };
      if (cell == Cell::gru && !reset_after)
        parallel_for(unit_panels, nanoseconds * 2 / 3, [&](int64_t begin, int64_t end) {
          const int64_t first = begin * product.width, count = (end - begin) * product.width;
          for (int64_t g = 0; g < 2; ++g) multiply_state(state, r, g, begin, end, gate_values);
          for (int64_t n = 0; n < batch; ++n)
            if (s < length[size_t(n)])
              gru_resets(row(n) + first, gate_values + n * columns() + first, step, state + n * step + first,
                         reset + n * step + first, count);
        });
      parallel_for(unit_panels, nanoseconds, [&](int64_t begin, int64_t end) {
        const int64_t first = begin * product.width, count = (end - begin) * product.width;
        const int64_t units = std::min(count, hidden - first);
        if (cell == Cell::gru && !reset_after)
          multiply_state(reset, r, 2, begin, end, gate_values);
        else
          for (int64_t g = 0; g < gates; ++g) multiply_state(state, r, g, begin, end, gate_values);
        for (int64_t n = 0; n < batch; ++n) {
          const float* old = state + n * step + first;
          float* h = next + n * step + first;
          if (s >= length[size_t(n)]) {
            std::copy(old, old + count, h);
            continue;
          }
          const float* from = row(n) + first;
          const float* product_row = gate_values + n * columns() + first;
          if (cell == Cell::lstm)
            lstm_units(from, product_row, step, peephole + first, step, cells + n * step + first, h, count);
          else if (cell == Cell::rnn)
            (relu ? relu_units : tanh_units)(from, product_row, h, count);
          else if (reset_after)
            gru_units(from, product_row, step, space + room.state_bias + first, old, h, count);
          else
            gru_candidates(from, product_row, step, old, h, count);
          store(h, units, output(arguments), result_offset(direction, n, time(n)) + first, 1);
        }
      });
      std::swap(state, next);
    }
    write_state(output(arguments, 1), direction, state);
    if (cell == Cell::lstm) write_state(output(arguments, 2), direction, cells);
  }

  void operator()(const KernelArguments& arguments) const {
    const void* given_lengths = given(arguments, kLengths);
    const std::vector<int64_t> length = lengths(given_lengths, given_lengths ? inputs[kLengths].dtype : DType::s64);
    const Room room = this->room();
    float* space = static_cast<float*>(arguments.workspace->host());
    const float* x = static_cast<const float*>(input(arguments, kX));
    if (dtype != DType::f32) {
      float_loader(dtype)(input(arguments, kX), 0, 1, steps * batch * features, space + room.x);
      x = space + room.x;
    }
    const float* w = weights(arguments, kW, space + room.w);
    const float* r = weights(arguments, kR, space + room.r);
    // Steps after a sequence's end.
    if (given_lengths && steps * batch > 0)
      std::memset(output(arguments), 0, size_t(steps * directions * batch * hidden) * size_of(dtype));
    for (int64_t direction = 0; direction < directions; ++direction)
      run_direction(arguments, direction, length, x, w, r, space, room);
  }
};

void list_recurrent(const Op& op, CandidateList& out) {
  RecurrentBody body(op);
  for (const TensorDesc& desc : op.inputs) body.inputs.push_back(dense_plain(desc));
  std::vector<TensorDesc> outputs;
  for (const TensorDesc& desc : op.outputs) outputs.push_back(dense_plain(desc));
  const auto inputs = body.inputs;
  for (const bool packs_here : {false, true}) {
    body.packs_here = packs_here;
    const size_t bytes = size_t(std::max<int64_t>(body.room().total, 1)) * sizeof(float);
    add_candidate(out, packs_here ? "recurrent_unpacked" : "recurrent", Quality::fair, inputs, outputs,
                  [body] { return body; });
    Candidate& candidate = out.candidates.back();
    candidate.workspace_bytes = bytes;
    if (body.product.width == 8) candidate.efficiency = kReachOfEight;
    if (packs_here) {
      candidate.efficiency /= 4;  // the weights are read, written and read again: not for those that are constant
      continue;
    }
    for (int i : {kW, kR}) {
      const WeightPanels panels = body.panels_of(i);
      candidate.packings.push_back({i, concat("recurrent_panels", panels.width, "g", panels.gates),
                                    size_t(panels.floats()) * sizeof(float), [panels](Buffer& source, Buffer& packed) {
                                      panels.pack(source.host(), static_cast<float*>(packed.host()));
                                    }});
    }
  }
}
PL_HOST_KIND("recurrent", list_recurrent);

}  // namespace
}  // namespace pl::host
