#include "providers/host/matmul/recurrent_layer.h"

namespace pl::host {

void WeightPanels::pack(const void* source, float* target) const {
  const LoadRun<float> load = float_loader(dtype);
  parallel_for(directions * gates * panels(), double(depth * width), [&](int64_t begin, int64_t end) {
    std::vector<float> row(static_cast<size_t>(depth));
    for (int64_t panel = begin; panel < end; ++panel) {
      float* to = target + panel * depth * width;
      for (int64_t l = 0; l < width; ++l) {
        const int64_t unit = panel % panels() * width + l;
        if (unit < hidden)
          load(source, (panel / panels() * hidden + unit) * depth, 1, depth, row.data());
        else
          std::fill(row.begin(), row.end(), 0.0f);
        for (int64_t k = 0; k < depth; ++k) to[k * width + l] = row[size_t(k)];
      }
    }
  });
}

RecurrentLayer::RecurrentLayer(const Op& op)
    : name(op.schema->name),
      product(block_product()),
      batch_first(op.attributes[attr::batch_first]),
      first_reversed(op.attributes[attr::direction] == "reverse"),
      gates(op.attributes[attr::gates]),
      features(op.in(0).shape[2]),
      hidden(op.in(2).shape[2]),
      directions(op.in(2).shape[0]),
      dtype(op.in(0).dtype) {
  const std::string& of = op.attributes[attr::cell];
  cell = of == "lstm" ? Cell::lstm : of == "gru" ? Cell::gru : Cell::rnn;
  reset_after = cell == Cell::gru && op.attributes[attr::linear_before_reset];
  relu = cell == Cell::rnn && op.attributes[attr::nonlinearity] == "relu";
  const Dims& x = op.in(0).shape;
  steps = x[batch_first ? 1 : 0];
  batch = x[batch_first ? 0 : 1];
}

std::vector<int64_t> RecurrentLayer::lengths(const void* data, DType dtype_of_lengths) const {
  std::vector<int64_t> result(size_t(batch), steps);
  if (!data || batch == 0) return result;
  integer_loader(dtype_of_lengths)(data, 0, 1, batch, result.data());
  for (int64_t n = 0; n < batch; ++n)
    require(result[size_t(n)] >= 0 && result[size_t(n)] <= steps, Code::invalid_argument, name, ": sequence_lens is ",
            result[size_t(n)], " at element ", n, ", expected 0 to ", steps);
  return result;
}

void RecurrentLayer::read_state(const void* data, int64_t direction, float* state) const {
  std::fill(state, state + batch * padded(), 0.0f);
  if (!data) return;
  for (int64_t n = 0; n < batch; ++n)
    float_loader(dtype)(data, state_offset(direction, n), 1, hidden, state + n * padded());
}

void RecurrentLayer::write_state(void* data, int64_t direction, const float* state) const {
  for (int64_t n = 0; n < batch; ++n)
    float_storer(dtype)(state + n * padded(), hidden, data, state_offset(direction, n), 1);
}

void RecurrentLayer::read_vectors(const void* data, int64_t offset, int64_t count, float* to) const {
  for (int64_t g = 0; g < count; ++g) {
    std::fill(to + g * padded(), to + (g + 1) * padded(), 0.0f);
    if (data) float_loader(dtype)(data, offset + g * hidden, 1, hidden, to + g * padded());
  }
}

void RecurrentLayer::read_biases(const void* data, int64_t direction, float* bias, float* state_bias) const {
  const int64_t first = direction * 2 * gates * hidden;
  std::vector<float> second(static_cast<size_t>(columns()));
  read_vectors(data, first, gates, bias);
  read_vectors(data, first + gates * hidden, gates, second.data());
  // The reset gate acts on one of them with the product: it cannot be added before.
  const int64_t added = reset_after ? 2 : gates;
  for (int64_t j = 0; j < added * padded(); ++j) bias[j] += second[size_t(j)];
  std::fill(state_bias, state_bias + padded(), 0.0f);
  if (added < gates) std::copy(second.begin() + added * padded(), second.end(), state_bias);
}

}  // namespace pl::host
