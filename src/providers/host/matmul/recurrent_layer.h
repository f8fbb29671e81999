// What recurrent layers and their gradients share: the call in numbers, where its elements lie, and weights and vectors
// as the products of blocks want them.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "providers/host/common/host.h"
#include "providers/host/matmul/block_product.h"

namespace pl::host {

enum class Cell { lstm, gru, rnn };

// Of one hidden unit and gate: a product's step, about 0.02 ns each on one core.
constexpr double kNanosecondsPerProduct = 0.02, kNanosecondsPerGate = 2;

// Weights (directions, gates * hidden, depth) as panels [direction][gate][hidden / width][depth][width].
struct WeightPanels {
  int64_t directions, gates, hidden, depth, width;
  DType dtype;

  int64_t panels() const { return round_up(hidden, width) / width; }
  int64_t floats() const { return directions * gates * panels() * depth * width; }
  void pack(const void* source, float* target) const;
};

// A call of lstm, gru or rnn.  Gates are padded to whole panels: each has padded() columns.
struct RecurrentLayer {
  std::string name;
  BlockProduct product;
  Cell cell;
  bool batch_first, reset_after, relu, first_reversed;
  int64_t gates, steps, batch, features, hidden, directions;
  DType dtype;

  explicit RecurrentLayer(const Op& op);

  int64_t padded() const { return round_up(hidden, product.width); }
  int64_t columns() const { return gates * padded(); }  // of all gates
  bool reversed(int64_t direction) const { return direction == 1 || first_reversed; }
  WeightPanels panels_of_x() const { return {directions, gates, hidden, features, product.width, dtype}; }
  WeightPanels panels_of_state() const { return {directions, gates, hidden, hidden, product.width, dtype}; }

  // Elements: of x and of matrices with a row for each step of each sequence, of a state, of y.
  int64_t row_of(int64_t n, int64_t time) const { return batch_first ? n * steps + time : time * batch + n; }
  int64_t state_offset(int64_t direction, int64_t n) const {
    return (batch_first ? n * directions + direction : direction * batch + n) * hidden;
  }
  int64_t result_offset(int64_t direction, int64_t n, int64_t time) const {
    const int64_t place =
        batch_first ? (n * steps + time) * directions + direction : (time * directions + direction) * batch + n;
    return place * hidden;
  }

  // The steps of each sequence; `data` is null where all have all of them.
  std::vector<int64_t> lengths(const void* data, DType dtype_of_lengths) const;
  // A state of one direction, (batch, padded); zeros where `data` is null.
  void read_state(const void* data, int64_t direction, float* state) const;
  void write_state(void* data, int64_t direction, const float* state) const;
  // `count` vectors of the hidden units, each padded with zeros; zeros where `data` is null.
  void read_vectors(const void* data, int64_t offset, int64_t count, float* to) const;
  // (columns) and (padded): what is added to the gates, and to the product of the state with gate h that a reset gate
  // acts on.
  void read_biases(const void* data, int64_t direction, float* bias, float* state_bias) const;
};

}  // namespace pl::host
