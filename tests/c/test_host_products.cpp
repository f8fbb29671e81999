// The host provider's convolutions and matrix products, the plain loops that are the library's own reference among
// them, against their definitions written out.
#include <cmath>

#include "host_testing.h"
#include "ops/post_ops.h"
#include "providers/host/conv/conv_candidates.h"

using namespace pl;
using namespace pl::host_testing;

namespace {

double at(const Input& input, const Dims& index) { return input.values[size_t(linear(input.desc.shape, index))]; }
std::vector<int64_t> ints(const Op& op, const Key<Ints>& key) { return op.attributes[key]; }

TEST("conv") {
  struct Case {
    const char* name;
    const char* attributes;
    Dims x, weight;
  };
  const Case cases[] = {
      {"conv2d", "stride=[2,1] padding=[1,0,2,3] dilation=[1,2]", {2, 3, 8, 9}, {17, 3, 3, 2}},
      {"conv2d", "groups=4 padding=1 activation=leaky_relu activation_alpha=0.1", {1, 8, 5, 6}, {12, 2, 3, 3}},
      {"conv2d", "groups=16 padding=1", {1, 16, 5, 6}, {32, 1, 3, 3}},
      {"conv1d", "stride=3 padding=4", {2, 5, 11}, {6, 5, 4}},
      {"conv3d", "padding=1 stride=2", {1, 2, 5, 4, 6}, {3, 2, 3, 2, 3}},
      {"conv2d", "padding=5", {1, 1, 1, 1}, {1, 1, 3, 3}},
  };
  for (const Case& c : cases)
    for (DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      const Input x = random_input(dtype, c.x), weight = random_input(dtype, c.weight);
      const Input bias = random_input(dtype, {c.weight[0]});
      const Dims result = op_of(c.name, c.attributes, {x, weight, bias}).out().shape;
      const Input residual = random_input(dtype, result);
      run_all(c.name, c.attributes, {x, weight, bias, residual},
              [&](const Op& op, const std::vector<Values>& out, const std::string& what) {
                const int spatial = c.x.size() - 2;
                const int64_t groups = op.attributes[attr::groups];
                const auto stride = ints(op, attr::stride), padding = ints(op, attr::padding),
                           dilation = ints(op, attr::dilation);
                Values expected;
                each(result, [&](const Dims& o) {
                  double sum = bias.values[size_t(o[1])] + at(residual, o);
                  Dims kernel{c.weight[1]};
                  for (int d = 0; d < spatial; ++d) kernel.push_back(c.weight[2 + d]);
                  each(kernel, [&](const Dims& k) {
                    Dims source{o[0], o[1] / (c.weight[0] / groups) * c.weight[1] + k[0]}, w{o[1], k[0]};
                    for (int d = 0; d < spatial; ++d) {
                      const int64_t p =
                          o[2 + d] * stride[size_t(d)] - padding[size_t(d)] + k[1 + d] * dilation[size_t(d)];
                      if (p < 0 || p >= c.x[2 + d]) return;
                      source.push_back(p);
                      w.push_back(k[1 + d]);
                    }
                    sum += at(x, source) * at(weight, w);
                  });
                  const bool leaky = sum_then_function(op)->function != nullptr;
                  expected.push_back(leaky && sum < 0 ? sum * 0.1 : sum);
                });
                expect(expected, 1, 4e-6)(op, out, what);  // sums in f32 (host/direct) of 20 terms up to 4
              });
    }
}

TEST("conv_transpose") {
  struct Case {
    const char* name;
    const char* attributes;
    Dims x, weight;
  };
  const Case cases[] = {
      {"conv_transpose2d",
       "stride=[2,3] padding=[1,0,0,1] output_padding=[1,2] dilation=[1,2]",
       {2, 5, 4, 3},
       {5, 7, 3, 2}},
      {"conv_transpose2d", "groups=2 stride=2", {1, 18, 3, 3}, {18, 4, 2, 2}},
      {"conv_transpose1d", "padding=2", {1, 3, 9}, {3, 2, 5}},
      {"conv_transpose3d", "stride=2 padding=1 activation=relu", {1, 3, 2, 3, 2}, {3, 2, 3, 3, 3}},
  };
  for (const Case& c : cases) {
    const Input x = random_input(DType::f32, c.x), weight = random_input(DType::f32, c.weight);
    run_all(
        c.name, c.attributes, {x, weight}, [&](const Op& op, const std::vector<Values>& out, const std::string& what) {
          const int spatial = c.x.size() - 2;
          const int64_t groups = op.attributes[attr::groups], group_oc = c.weight[1];
          const auto stride = ints(op, attr::stride), padding = ints(op, attr::padding),
                     dilation = ints(op, attr::dilation);
          const Dims result = op.out().shape;
          Values expected(size_t(result.product()), 0);
          Dims kernel{group_oc};
          for (int d = 0; d < spatial; ++d) kernel.push_back(c.weight[2 + d]);
          each(c.x, [&](const Dims& p) {
            each(kernel, [&](const Dims& k) {
              Dims target{p[0], p[1] / (c.x[1] / groups) * group_oc + k[0]}, w{p[1], k[0]};
              for (int d = 0; d < spatial; ++d) {
                const int64_t q = p[2 + d] * stride[size_t(d)] - padding[size_t(d)] + k[1 + d] * dilation[size_t(d)];
                if (q < 0 || q >= result[2 + d]) return;
                target.push_back(q);
                w.push_back(k[1 + d]);
              }
              expected[size_t(linear(result, target))] += at(x, p) * at(weight, w);
            });
          });
          if (sum_then_function(op)->function)
            for (double& value : expected) value = std::max(value, 0.0);
          expect(expected)(op, out, what);
        });
  }
}

TEST("matmul") {
  struct Case {
    Dims a, b;
    const char* attributes;
  };
  const Case cases[] = {{{4, 5}, {5, 6}, ""},
                        {{5}, {5}, ""},
                        {{5}, {2, 5, 6}, ""},
                        {{3, 4, 5}, {5}, ""},
                        {{2, 1, 4, 5}, {3, 5, 6}, ""},
                        {{2, 5, 4}, {1, 5, 6}, "transpose_a=true"},
                        {{2, 4, 5}, {6, 5}, "transpose_b=true activation=relu"},
                        {{4, 0}, {0, 3}, ""},
                        {{0, 4}, {4, 3}, ""}};
  for (const Case& c : cases) {
    const Input a = random_input(DType::f32, c.a), b = random_input(DType::f32, c.b);
    run_all("matmul", c.attributes, {a, b}, [&](const Op& op, const std::vector<Values>& out, const std::string& what) {
      const bool ta = op.attributes[attr::transpose_a], tb = op.attributes[attr::transpose_b];
      const int ra = c.a.size(), rb = c.b.size();
      const int64_t depth = ra == 1 ? c.a[0] : c.a[ra - (ta ? 2 : 1)];
      Values expected;
      each(op.out().shape, [&](const Dims& o) {
        const int matrix = (ra > 1) + (rb > 1), batch = o.size() - matrix;
        const int64_t row = ra > 1 ? o[batch] : 0, column = rb > 1 ? o[o.size() - 1] : 0;
        const auto index = [&](const Dims& shape, int64_t i, int64_t j, bool transposed, bool is_a) {
          Dims own;
          const int rank = shape.size();
          if (rank == 1) return Dims{is_a ? j : i};
          for (int d = 0; d < rank - 2; ++d) own.push_back(shape[d] == 1 ? 0 : o[batch - (rank - 2) + d]);
          own.push_back(transposed ? j : i);
          own.push_back(transposed ? i : j);
          return own;
        };
        double sum = 0;
        for (int64_t k = 0; k < depth; ++k)
          sum += at(a, index(c.a, row, k, ta, true)) * at(b, index(c.b, k, column, tb, false));
        expected.push_back(sum_then_function(op)->function ? std::max(sum, 0.0) : sum);
      });
      expect(expected)(op, out, what);
    });
  }
}

// Blocks that are copied first: several along each side and along the depth, none a multiple of a tile.
TEST("matmul by blocks") {
  host::every_instruction_set() = true;
  struct Case {
    Dims a, b;
    const char* attributes;
  };
  const Case cases[] = {{{395, 200}, {200, 67}, ""},
                        {{33, 40}, {40, 803}, ""},
                        {{200, 70}, {200, 50}, "transpose_a=true"},
                        {{70, 401}, {51, 401}, "transpose_b=true"},
                        {{45, 70}, {51, 45}, "transpose_a=true transpose_b=true activation=relu"},
                        {{3, 41, 40}, {40, 33}, ""},
                        {{2, 1, 41, 40}, {3, 40, 33}, ""},
                        {{2, 3, 41, 40}, {2, 3, 33, 40}, "transpose_b=true"}};
  for (const Case& c : cases) {
    const bool ta = Attributes::parse(c.attributes).has(attr::transpose_a),
               tb = Attributes::parse(c.attributes).has(attr::transpose_b);
    const int ra = c.a.size(), rb = c.b.size();
    const int64_t depth = c.a[ra - (ta ? 2 : 1)], columns = c.b[rb - (tb ? 2 : 1)];
    Dims y;
    for (int d = 0; d < std::max(ra, rb) - 2; ++d) {
      const int of_a = d - (std::max(ra, rb) - ra), of_b = d - (std::max(ra, rb) - rb);
      y.push_back(std::max(of_a < 0 ? 1 : c.a[of_a], of_b < 0 ? 1 : c.b[of_b]));
    }
    y.push_back(c.a[ra - (ta ? 1 : 2)]);
    y.push_back(columns);
    const Input a = random_input(DType::f32, c.a), b = random_input(DType::f32, c.b),
                bias = random_input(DType::f32, {columns}), residual = random_input(DType::f32, y);
    run_all("matmul", c.attributes, {a, b, bias, residual},
            [&](const Op& op, const std::vector<Values>& out, const std::string& what) {
              Values expected;
              each(op.out().shape, [&](const Dims& o) {
                const int last = o.size() - 1;
                const auto index = [&](const Dims& shape, int64_t i, int64_t j) {
                  Dims own;
                  for (int d = 0; d < shape.size() - 2; ++d)
                    own.push_back(shape[d] == 1 ? 0 : o[last + 1 - shape.size() + d]);
                  own.push_back(i);
                  own.push_back(j);
                  return own;
                };
                double sum = bias.values[size_t(o[last])] + at(residual, o);
                for (int64_t k = 0; k < depth; ++k)
                  sum += at(a, ta ? index(c.a, k, o[last - 1]) : index(c.a, o[last - 1], k)) *
                         at(b, tb ? index(c.b, o[last], k) : index(c.b, k, o[last]));
                expected.push_back(sum_then_function(op)->function ? std::max(sum, 0.0) : sum);
              });
              expect(expected, 1, 1e-6 * double(depth))(op, out, what);
            });
  }
  host::every_instruction_set() = false;
}

// Small, with tails of every kind, and so large that sums wait in the result while the next inputs come.
TEST("linear") {
  host::every_instruction_set() = true;
  struct Case {
    DType dtype;
    int64_t rows, depth, columns;
  };
  const Case cases[] = {{DType::f32, 3, 7, 5},     {DType::bf16, 3, 7, 5},     {DType::f16, 3, 7, 5},
                        {DType::f32, 1, 300, 515}, {DType::f32, 37, 515, 300}, {DType::f32, 50, 260, 1031},
                        {DType::f32, 90, 1100, 67}};
  for (const Case& c : cases) {
    const Input x = random_input(c.dtype, {2, c.rows, c.depth}), weight = random_input(c.dtype, {c.columns, c.depth}),
                bias = random_input(c.dtype, {c.columns}), residual = random_input(c.dtype, {2, c.rows, c.columns});
    run_all("linear", "activation=relu", {x, weight, bias, residual},
            [&](const Op& op, const std::vector<Values>& out, const std::string& what) {
              Values expected;
              each(op.out().shape, [&](const Dims& o) {
                double sum = bias.values[size_t(o[2])] + at(residual, o);
                for (int64_t k = 0; k < c.depth; ++k) sum += at(x, {o[0], o[1], k}) * at(weight, {o[2], k});
                expected.push_back(std::max(sum, 0.0));
              });
              // Sums in the order of the kernels, beside those in double.
              expect(expected, c.dtype == DType::f32 ? 4 : 1, 1e-6 * double(c.depth))(op, out, what);
            });
  }
  host::every_instruction_set() = false;
}

// Every kind that a schema names and that is no view has a candidate here.
TEST("completeness") {
  for (const Schema* schema : all_schemas()) {
    if (schema->view) continue;
    if (!host::HostTable::instance().find(schema->kind)) {
      std::fprintf(stderr, "op %s: kind %s has no host implementation\n", schema->name.c_str(), schema->kind.c_str());
      end_test();
    }
  }
}

}  // namespace
