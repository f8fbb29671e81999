// oneDNN's norms and softmax: every candidate against loops in double precision.
#include "onednn_testing.h"

using namespace pltest;

namespace {

SETUP() { find_onednn(); }

TEST("batch_norm") {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const Dims& shape : {Dims{2, 13, 4, 5}, Dims{1, 32, 3, 3}, Dims{2, 17, 6}, Dims{1, 9, 2, 3, 4}, Dims{4, 5}})
      for (int form = 0; form < 4; ++form)
        for (const char* activation : {"", "relu"}) {
          const int64_t c = shape[1];
          const Argument x = random_argument(dtype, shape, 1), mean = random_argument(dtype, {c}, 2),
                         var = random_argument(dtype, {c}, 3, 0.1, 2);
          const Argument weight = form & 1 ? random_argument(dtype, {c}, 4) : absent(),
                         bias = form & 2 ? random_argument(dtype, {c}, 5) : absent();
          Values y = x.values;
          for_each(shape, [&](const Dims& p, size_t i) {
            const size_t k = size_t(p[1]);
            y[i] = (y[i] - mean.values[k]) / std::sqrt(var.values[k] + 1e-3);
            if (form & 1) y[i] *= weight.values[k];
            if (form & 2) y[i] += bias.values[k];
            if (*activation) y[i] = std::max(y[i], 0.0);
          });
          check("batch_norm", std::string("eps=0.001") + (*activation ? " activation=relu" : ""),
                {x, mean, var, weight, bias}, y);
        }
}

TEST("layer_norm") {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const Dims& shape : {Dims{3, 5, 20}, Dims{2, 64}, Dims{37}})
      for (int dims = 1; dims <= std::min(2, shape.size()); ++dims)
        for (int form = 0; form < 4; ++form) {
          Dims normalized;
          for (int i = shape.size() - dims; i < shape.size(); ++i) normalized.push_back(shape[i]);
          const size_t columns = size_t(normalized.product());
          const Argument x = random_argument(dtype, shape, 1);
          const Argument weight = form & 1 ? random_argument(dtype, normalized, 4) : absent(),
                         bias = form & 2 ? random_argument(dtype, normalized, 5) : absent();
          Values y = x.values;
          for (size_t row = 0; row < y.size() / columns; ++row) {
            double mean = 0, var = 0;
            for (size_t k = 0; k < columns; ++k) mean += x.values[row * columns + k] / double(columns);
            for (size_t k = 0; k < columns; ++k)
              var += std::pow(x.values[row * columns + k] - mean, 2) / double(columns);
            for (size_t k = 0; k < columns; ++k) {
              double& value = y[row * columns + k];
              value = (value - mean) / std::sqrt(var + 1e-5);
              if (form & 1) value *= weight.values[k];
              if (form & 2) value += bias.values[k];
            }
          }
          check("layer_norm", "eps=1e-05 normalized_shape=" + list_text(normalized.vector()), {x, weight, bias}, y);
        }
}

// The lines of a tensor along one dimension: f(indices of the line's elements).
void for_each_line(const Dims& shape, int dim, const std::function<void(const std::vector<size_t>&)>& f) {
  Dims others = shape;
  others[dim] = 1;
  for_each(others, [&](const Dims& index, size_t) {
    std::vector<size_t> line;
    Dims i = index;
    for (i[dim] = 0; i[dim] < shape[dim]; ++i[dim]) line.push_back(at(shape, i));
    f(line);
  });
}

TEST("softmax_and_lrn") {
  for (const Dims& shape : {Dims{2, 13, 3, 5}, Dims{2, 32, 3, 3}, Dims{4, 100}, Dims{7}, Dims{2, 3, 17}})
    for (int dim = 0; dim < shape.size(); ++dim)
      for (const bool log : {false, true}) {
        const Argument x = random_argument(DType::f32, shape, 1, -4, 4);
        Values y = x.values;
        for_each_line(shape, dim, [&](const std::vector<size_t>& line) {
          double sum = 0;
          for (size_t i : line) sum += std::exp(x.values[i]);
          for (size_t i : line) y[i] = log ? x.values[i] - std::log(sum) : std::exp(x.values[i]) / sum;
        });
        check(log ? "log_softmax" : "softmax", "dim=" + std::to_string(dim - shape.size()), {x}, y);
      }
  for (const Dims& shape : {Dims{2, 13, 3, 5}, Dims{1, 32, 4, 4}}) {
    const Argument x = random_argument(DType::f32, shape, 1, -4, 4);
    Values y = x.values;
    for_each_line(shape, 1, [&](const std::vector<size_t>& line) {
      for (int c = 0; c < int(line.size()); ++c) {
        double sum = 0;
        for (int j = std::max(0, c - 2); j <= std::min(int(line.size()) - 1, c + 2); ++j)
          sum += std::pow(x.values[line[size_t(j)]], 2);
        y[line[size_t(c)]] = x.values[line[size_t(c)]] / std::pow(2 + 0.3 / 5 * sum, 0.75);
      }
    });
    check("local_response_norm", "size=5 alpha=0.3 beta=0.75 k=2.0", {x}, y);
    check("local_response_norm", "size=4", {x}, y, 0);
  }
}

}  // namespace
