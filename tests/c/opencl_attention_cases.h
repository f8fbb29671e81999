// For tests of attention on OpenCL: the op in double precision, and the check of all candidates of one case.
#pragma once

#include "opencl_candidates.h"
#include "providers/opencl/attention/attention_few.h"
#include "providers/opencl/attention/attention_mma.h"

namespace pl::testing {

struct AttentionCase {
  Dims q, k, v, mask;
  const char* attributes = "";
  // Infinities and NaN in q, k and v, and queries that no key is left for: by what rows of keys they are seen is
  // decided by the reference.
  bool special = false;
  Dims sinks = {};
};

// Of a query without keys zeros; keys whose score is -infinity take no part.
inline Array attended(const Op& op, const std::vector<Array>& inputs) {
  const Dims &q = inputs[0].shape, &v = inputs[2].shape;
  const int rank = q.size();
  const int64_t rows = q[rank - 2], width = q[rank - 1], keys = v[rank - 2], columns = v[rank - 1];
  const int64_t group = rank > 2 ? q[rank - 3] / v[rank - 3] : 1;
  const double scale = op.attributes[attr::scale];
  const double softcap = op.attributes.is_none(attr::softcap) ? 0 : double(op.attributes[attr::softcap]);
  const Array* mask = inputs.size() > 3 && inputs[3].given() ? &inputs[3] : nullptr;
  const Array* sinks = inputs.size() > 5 ? &inputs[5] : nullptr;
  Array y(op.out().shape);
  Dims heads = q;
  heads[rank - 1] = 1;
  for_each_index(heads, [&](const Dims& index, size_t row) {
    const size_t head = row / size_t(rows), shared = head / size_t(group);  // of q, of k and v
    const auto query = int64_t(row % size_t(rows));
    std::vector<double> scores;
    double largest = -INFINITY, sink = -INFINITY;
    if (sinks) {
      size_t place = 0;
      const int leading = rank - sinks->shape.size();
      for (int d = 0; d < sinks->shape.size(); ++d)
        place = place * size_t(sinks->shape[d]) + size_t(sinks->shape[d] == 1 ? 0 : index[d + leading]);
      largest = sink = sinks->values[place];
    }
    for (int64_t key = 0; key < keys; ++key) {
      double score = 0;
      for (int64_t e = 0; e < width; ++e)
        score += inputs[0].values[row * size_t(width) + size_t(e)] *
                 inputs[1].values[(shared * size_t(keys) + size_t(key)) * size_t(width) + size_t(e)];
      score *= scale;
      if (softcap > 0) score = softcap * std::tanh(score / softcap);
      if (mask) {
        size_t place = 0;
        const int leading = rank - mask->shape.size();
        for (int d = 0; d < mask->shape.size(); ++d) {
          const int64_t at = d + leading == rank - 1 ? key : index[d + leading];
          place = place * size_t(mask->shape[d]) + size_t(mask->shape[d] == 1 ? 0 : at);
        }
        score += mask->values[place];
      }
      if (op.attributes[attr::is_causal] && key > query) score = -INFINITY;
      scores.push_back(score);
      largest = std::max(largest, score);
    }
    for (int64_t column = 0; column < columns; ++column) {
      double sum = 0, total = sink == -INFINITY ? 0 : std::exp(sink - largest);
      for (int64_t key = 0; key < keys; ++key) {
        if (scores[size_t(key)] == -INFINITY) continue;
        const double weight = std::exp(scores[size_t(key)] - largest);
        total += weight;
        sum += weight * inputs[2].values[(shared * size_t(keys) + size_t(key)) * size_t(columns) + size_t(column)];
      }
      y.values[row * size_t(columns) + size_t(column)] = total == 0 ? 0 : sum / total;
    }
  });
  return y;
}

inline void check(Candidates& candidates, const AttentionCase& c, DType dtype) {
  static unsigned seed = 300;
  std::vector<Array> inputs{random_array(c.q, dtype, seed++), random_array(c.k, dtype, seed++),
                            random_array(c.v, dtype, seed++)};
  for (double& value : inputs[0].values) value *= 4;  // weights that differ
  if (c.mask.size()) inputs.push_back(random_array(c.mask, dtype, seed++));
  if (c.sinks.size()) {
    inputs.resize(5);
    inputs.push_back(random_array(c.sinks, dtype, seed++));
    for (double& value : inputs.back().values) value *= 4;
  }
  if (c.special) {
    const size_t width = size_t(c.q[c.q.size() - 1]), columns = size_t(c.v[c.v.size() - 1]);
    inputs[0].values[2 * width + 1] = INFINITY;
    inputs[0].values[3 * width] = NAN;
    inputs[2].values[columns + 1] = -INFINITY;
    inputs[2].values[4 * columns] = NAN;
    inputs[2].values[inputs[2].values.size() - 1] = INFINITY;
    if (c.mask.size()) {
      const size_t keys = size_t(c.mask[c.mask.size() - 1]);
      for (size_t key = 0; key < keys; ++key) inputs[3].values[key] = -INFINITY;
      for (size_t key = 1; key < keys; key += 2) inputs[3].values[keys + key] = -INFINITY;
    }
  }
  candidates.more = {opencl::list_attention_mma, opencl::list_attention_few};
  candidates.check("scaled_dot_product_attention", Attributes::parse(c.attributes), dtype, inputs,
                   [&](const Op& op) { return attended(op, inputs); });
}

}  // namespace pl::testing
