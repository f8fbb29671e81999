// The products of blocks for each instruction set this processor has, and attention, against loops in double.
#include <cmath>

#include "host_testing.h"
#include "providers/host/matmul/block_product.h"

using namespace pl;
using namespace pl::host_testing;

namespace {

// Every count of rows and panels that ends in another tile; what lies around the result stays as it was.
TEST("block_products") {
  for (const host::BlockProduct& block : host::block_products())
    for (int64_t rows = 1; rows <= 2 * block.rows + 1; ++rows)
      for (int64_t panels = 0; panels <= 8; ++panels)
        for (int64_t depth : {0, 1, 7}) {
          const int64_t columns = panels * block.width, step = columns + 3;
          std::vector<float> a(size_t(rows * (depth + 2))), b(size_t(panels * block.width * (depth + 1))),
              c(size_t(rows * step), 5.0f);
          for (size_t i = 0; i < a.size(); ++i) a[i] = float(i % 13) - 6;
          for (size_t i = 0; i < b.size(); ++i) b[i] = float(i % 11) - 5;
          host::Product product;
          product.rows = rows;
          product.panels = panels;
          product.depth = depth;
          product.a = a.data();
          product.a_step = depth + 2;
          product.b = b.data();
          product.b_step = block.width;
          product.b_panel_step = block.width * (depth + 1);
          product.c = c.data();
          product.c_step = step;
          product.factor = 0.5f;
          for (const bool accumulate : {false, true}) {
            product.accumulate = accumulate;
            block.run(product);
            for (int64_t i = 0; i < rows; ++i)
              for (int64_t j = 0; j < step; ++j) {
                double sum = 0;
                for (int64_t k = 0; k < depth && j < columns; ++k)
                  sum += a[size_t(i * product.a_step + k)] *
                         b[size_t(k * block.width + j / block.width * product.b_panel_step + j % block.width)];
                // Small integers and halves: exact.
                CHECK(c[size_t(i * step + j)] == (j < columns ? (accumulate ? 2 : 1) * 0.5 * sum : 5.0));
              }
          }
        }
}

TEST("attention") {
  struct Case {
    const char* attributes;
    Dims q, k, v, mask, sinks = {};
  };
  const Case cases[] = {{"", {2, 3, 33, 5}, {2, 3, 17, 5}, {2, 3, 17, 16}, {}},
                        {"is_causal=true scale=0.3", {1, 2, 70, 16}, {1, 2, 600, 16}, {1, 2, 600, 3}, {}},
                        {"", {3, 4, 8}, {3, 1, 8}, {3, 1, 33}, {4, 1}},
                        {"", {2, 9, 4}, {2, 530, 4}, {2, 530, 16}, {2, 1, 530}},
                        // Few long queries and keys.
                        {"scale=0.05", {2, 3, 32, 300}, {2, 3, 19, 300}, {2, 3, 19, 270}, {}},
                        {"", {4, 5, 21}, {4, 7, 21}, {4, 7, 3}, {}},
                        {"is_causal=true", {2, 3, 33, 5}, {2, 3, 530, 5}, {2, 3, 530, 16}, {}, {3, 1, 1}},
                        {"", {3, 40, 8}, {3, 17, 8}, {3, 17, 33}, {40, 1}, {3, 40, 1}}};
  for (const Case& c : cases)
    for (DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      std::vector<Input> inputs{random_input(dtype, c.q), random_input(dtype, c.k), random_input(dtype, c.v)};
      const bool masked = c.mask.size() > 0;
      if (masked) inputs.push_back(random_input(dtype, c.mask));
      if (c.sinks.size()) {
        inputs.resize(5);
        inputs.push_back(random_input(dtype, c.sinks));
      }
      run_all("scaled_dot_product_attention", c.attributes, inputs,
              [&](const Op& op, const std::vector<Values>& out, const std::string& what) {
                const int rank = c.q.size();
                const int64_t keys = c.k[rank - 2], width = c.q[rank - 1], values = c.v[rank - 1], rows = c.q[rank - 2];
                const double scale = op.attributes[attr::scale];
                Values expected;
                for (int64_t row = 0; row < op.out().elements() / values; ++row) {
                  const int64_t head = row / rows, query = row % rows;
                  std::vector<double> weights;
                  double total = 0;
                  for (int64_t j = 0; j < keys; ++j) {
                    double score = 0;
                    for (int64_t e = 0; e < width; ++e)
                      score += inputs[0].values[size_t(row * width + e)] *
                               inputs[1].values[size_t((head * keys + j) * width + e)];
                    score *= scale;
                    if (masked) {
                      const int64_t mask_rows = c.mask[c.mask.size() - 2], mask_keys = c.mask[c.mask.size() - 1];
                      const int64_t mask_head = c.mask.size() > 2 ? head : 0;
                      score += inputs[3].values[size_t(
                          (mask_head * mask_rows + (mask_rows > 1 ? query : 0)) * mask_keys + (mask_keys > 1 ? j : 0))];
                    }
                    const bool hidden = op.attributes[attr::is_causal] && j > query;
                    weights.push_back(hidden ? 0 : std::exp(score));  // small enough for double
                    total += weights.back();
                  }
                  if (c.sinks.size()) {
                    const int64_t heads = c.sinks[c.sinks.size() - 3], by_query = c.sinks[c.sinks.size() - 2];
                    total += std::exp(inputs[5].values[size_t(head % heads * by_query + (by_query > 1 ? query : 0))]);
                  }
                  for (int64_t column = 0; column < values; ++column) {
                    double sum = 0;
                    for (int64_t j = 0; j < keys; ++j)
                      sum += weights[size_t(j)] * inputs[2].values[size_t((head * keys + j) * values + column)];
                    expected.push_back(sum / total);
                  }
                }
                expect(expected, 2, 5e-6)(op, out, what);
              });
    }
}

}  // namespace
