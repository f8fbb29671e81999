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

// Masks that leave some keys in the middle alone, or for some queries none: few queries and many, heads that share one
// of k and v, with `is_causal` and without.
TEST("hidden_keys") {
  struct Case {
    int64_t heads, shared, queries, keys, mask_heads, mask_rows, from, to;
  };
  const Case cases[] = {{8, 4, 1, 600, 1, 1, 0, 37},  {8, 2, 2, 1100, 1, 1, 530, 545},  {4, 4, 8, 70, 4, 8, 16, 33},
                        {6, 2, 3, 40, 1, 3, 39, 40},  {2, 2, 40, 90, 1, 1, 21, 55},     {3, 1, 70, 80, 3, 70, 5, 30},
                        {2, 1, 33, 530, 1, 33, 0, 1}, {4, 1, 1, 17, 1, 1, 0, 0},        {2, 2, 35, 20, 2, 35, 0, 0},
                        {5, 1, 2, 33, 5, 1, 3, 30},   {2, 2, 300, 300, 1, 300, 40, 260}};
  constexpr int64_t kWidth = 20, kValues = 16;
  for (const Case& c : cases)
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const double hide : {0.0, -3e38, -double(INFINITY)})  // 0: a mask of bool
        for (const bool causal : {false, true}) {
          std::vector<Input> inputs{random_input(dtype, {1, c.heads, c.queries, kWidth}),
                                    random_input(dtype, {1, c.shared, c.keys, kWidth}),
                                    random_input(dtype, {1, c.shared, c.keys, kValues})};
          Input mask = random_input(hide != 0 ? dtype : DType::boolean, {1, c.mask_heads, c.mask_rows, c.keys});
          // Other queries see more; the last head's last one only what all see.
          const auto shows = [&](int64_t head, int64_t query, int64_t j) {
            const bool last = head == c.mask_heads - 1 && query == c.mask_rows - 1;
            return j >= c.from - (last ? 0 : query % 3) && j < c.to + (last ? 0 : head % 2);
          };
          for (int64_t at = 0; at < int64_t(mask.values.size()); ++at)
            if (!shows(at / c.keys / c.mask_rows, at / c.keys % c.mask_rows, at % c.keys))
              mask.values[size_t(at)] = rounded(mask.desc.dtype, hide);
            else if (hide == 0)
              mask.values[size_t(at)] = 1;
          inputs.push_back(mask);
          run_all("scaled_dot_product_attention", causal ? "enable_gqa=true is_causal=true" : "enable_gqa=true", inputs,
                  [&](const Op& op, const std::vector<Values>& out, const std::string& what) {
                    const double scale = op.attributes[attr::scale];
                    Values expected;
                    for (int64_t row = 0; row < c.heads * c.queries; ++row) {
                      const int64_t head = row / c.queries, query = row % c.queries,
                                    shared = head / (c.heads / c.shared);
                      Values scores;
                      double largest = -INFINITY, total = 0;
                      for (int64_t j = 0; j < c.keys; ++j) {
                        double score = 0;
                        for (int64_t e = 0; e < kWidth; ++e)
                          score += inputs[0].values[size_t(row * kWidth + e)] *
                                   inputs[1].values[size_t((shared * c.keys + j) * kWidth + e)];
                        const double added =
                            mask.values[size_t((head % c.mask_heads * c.mask_rows + query % c.mask_rows) * c.keys + j)];
                        score = hide == 0 ? (added != 0 ? score * scale : -INFINITY) : score * scale + added;
                        // In f32 the lowest numbers swallow scores: of keys that are all hidden so each counts alike.
                        if (hide == -3e38 && added < -1e38) score = added;
                        if (causal && j > query) score = -INFINITY;
                        scores.push_back(score);
                        largest = std::max(largest, score);
                      }
                      for (double& score : scores) {
                        score = largest == -INFINITY ? 0 : std::exp(score - largest);
                        total += score;
                      }
                      for (int64_t column = 0; column < kValues; ++column) {
                        double sum = 0;
                        for (int64_t j = 0; j < c.keys; ++j)
                          sum += scores[size_t(j)] * inputs[2].values[size_t((shared * c.keys + j) * kValues + column)];
                        expected.push_back(total == 0 ? 0 : sum / total);
                      }
                    }
                    expect(expected, 3, 1e-5)(op, out, what);
                  });
        }
}

}  // namespace
