// The host provider's reductions, softmax, normalisations, pooling and pointwise programs, in every layout and dtype,
// against loops in double.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "host_testing.h"
#include "ops/pointwise.h"

using namespace pl;
using namespace pl::host_testing;

namespace {

const DType kFloats[] = {DType::f32, DType::f16, DType::bf16};
const double kNaN = std::numeric_limits<double>::quiet_NaN();

double at(const Input& input, const Dims& index) { return input.values[size_t(linear(input.desc.shape, index))]; }

// Calls f(kept index at the reduced dims 0, element index) for each element.
Values reduced(const Op& op, const Input& x, const std::vector<int64_t>& dims, double start,
               const std::function<double(double, double)>& join) {
  Dims shape = x.desc.shape;
  for (int64_t d : dims) shape[int(d)] = 1;
  Values result(size_t(shape.product()), start);
  each(x.desc.shape, [&](const Dims& index) {
    Dims own = index;
    for (int64_t d : dims) own[int(d)] = 0;
    double& value = result[size_t(linear(shape, own))];
    value = join(value, at(x, index));
  });
  CHECK(op.out().shape.product() == int64_t(result.size()));
  return result;
}

TEST("reduce") {
  const char* attributes[] = {"",
                              "dim=[1]",
                              "dim=[2,3] keepdim=true",
                              "dim=[0,2,3]",
                              "dim=[3]",
                              "dim=[0] keepdim=true",
                              "dim=[1,2]",
                              "dim=[0,1,2,3] keepdim=true"};
  const double infinity = std::numeric_limits<double>::infinity();
  for (const Schema* schema : all_schemas()) {
    if (schema->kind != "reduce") continue;
    const std::string& name = schema->name;
    for (DType dtype : {DType::f32, DType::f16, DType::bf16, DType::s8, DType::u8, DType::s32, DType::s64})
      for (const Dims& shape : {Dims{2, 17, 3, 5}, Dims{3, 40, 7, 6}, Dims{1, 3, 33, 20}})
        for (const char* text : attributes) {
          const bool selects = name == "amax" || name == "amin";
          if (!is_floating(dtype) && !selects && !(name == "sum" && size_of(dtype) >= 4)) continue;
          const bool product = name == "prod";
          const Input x = product ? random_input(dtype, shape, 0.97, 1.03) : random_input(dtype, shape);
          run_all(name.c_str(), text, {x}, [&](const Op& op, const std::vector<Values>& out, const std::string& what) {
            const auto& dims = op.attributes[attr::dim_ints];
            const double start = product ? 1 : name == "amax" ? -infinity : name == "amin" ? infinity : 0;
            Values expected = reduced(op, x, dims, start, [&](double a, double b) {
              if (product) return a * b;
              if (name == "amax") return std::max(a, b);
              if (name == "amin") return std::min(a, b);
              if (name == "reduce_l1") return a + std::fabs(b);
              if (name == "reduce_l2" || name == "reduce_sum_square") return a + b * b;
              return a + b;
            });
            const double count = double(x.values.size()) / double(expected.size());
            for (double& value : expected) {
              if (name == "mean") value /= count;
              if (name == "reduce_l2") value = std::sqrt(value);
            }
            // Sums cancel: errors are relative to what was added, at most 3 a piece.
            expect(expected, 2, is_floating(dtype) && !selects ? count * 3 * 6e-8 : 0)(op, out, what);
          });
        }
  }
  // Nothing to reduce, NaN, long runs on several threads.
  const Input nothing{TensorDesc::dense(DType::f32, {3, 0}), {}};
  run_all("sum", "dim=[1]", {nothing}, expect({0, 0, 0}));
  run_all("mean", "dim=[1]", {nothing}, expect({kNaN, kNaN, kNaN}));
  Input poisoned = random_input(DType::f32, {2, 40});
  poisoned.values[57] = kNaN;
  for (const char* name : {"amax", "amin", "sum"}) run_all(name, "", {poisoned}, expect({kNaN}));
  const Input many = random_input(DType::f32, {300007});
  double sum = 0;
  for (double v : many.values) sum += v;
  run_all("sum", "", {many}, expect({sum}, 1, 1e-3));
  // Rows of every number of vectors and what is left over.
  for (const DType dtype : {DType::f32, DType::f16, DType::s64})
    for (const int64_t length : {8, 15, 16, 17, 31, 63, 64, 65, 79, 80, 127, 128, 145, 511, 512, 513, 1030}) {
      const Input rows = random_input(dtype, {3, length});
      Values sums, largest;
      for (int64_t i = 0; i < 3; ++i) {
        const auto row = rows.values.begin() + i * length;
        sums.push_back(std::accumulate(row, row + length, 0.0));
        largest.push_back(*std::max_element(row, row + length));
      }
      run_all("sum", "dim=[1]", {rows}, expect(sums, 2, double(length) * 3 * 6e-8));
      run_all("amax", "dim=[1]", {rows}, expect(largest));
    }
  const Input overflow{TensorDesc::dense(DType::s32, {2}), {2147483647.0, 1}};
  run_all("sum", "", {overflow}, expect({-2147483648.0}));
}

TEST("arg_reduce") {
  for (const char* name : {"argmax", "argmin"})
    for (DType dtype : {DType::f32, DType::f16, DType::bf16, DType::s8, DType::u8, DType::s32, DType::s64})
      for (const char* text : {"", "dim=0", "dim=1", "dim=1 keepdim=true", "dim=2", "dim=3"}) {
        Input x = random_input(dtype, {3, 19, 4, 5}, -2, 2);  // many equal integers
        if (dtype == DType::f32) x.values[77] = x.values[200] = kNaN;
        run_all(name, text, {x}, [&](const Op& op, const std::vector<Values>& out, const std::string& what) {
          const bool all = op.attributes.is_none(attr::dim), largest = std::string(name) == "argmax";
          const int dim = all ? 0 : int(op.attributes[attr::dim]);
          const auto beats = [&](double a, double b) {
            if (std::isnan(b)) return false;
            return std::isnan(a) || (largest ? a > b : a < b);
          };
          Dims shape = x.desc.shape;
          if (!all) shape[dim] = 1;
          Values best(all ? 1 : size_t(shape.product()), 0), expected(best.size(), -1);
          each(x.desc.shape, [&](const Dims& index) {
            Dims own = index;
            own[dim] = 0;
            const size_t slot = all ? 0 : size_t(linear(shape, own));
            const double value = at(x, index);
            if (expected[slot] >= 0 && !beats(value, best[slot])) return;
            best[slot] = value;
            expected[slot] = double(all ? linear(x.desc.shape, index) : index[dim]);
          });
          expect(expected)(op, out, what);
        });
      }
}

TEST("softmax") {
  for (const char* name : {"softmax", "log_softmax"})
    for (DType dtype : kFloats)
      for (const Dims& shape :
           {Dims{2, 17, 3, 5}, Dims{4, 1000}, Dims{1, 3, 600}, Dims{3, 32, 2, 2, 2}, Dims{5}, Dims{0, 4, 2}})
        for (int dim = 0; dim < shape.size(); ++dim) {
          const Input x = random_input(dtype, shape, -20, 20);
          run_all(name, ("dim=" + std::to_string(dim)).c_str(), {x},
                  [&](const Op& op, const std::vector<Values>& out, const std::string& what) {
                    Dims row = shape;
                    row[dim] = 1;
                    Values largest(size_t(row.product()), -1e300), sum(largest.size(), 0);
                    const auto slot = [&](Dims index) {
                      index[dim] = 0;
                      return size_t(linear(row, index));
                    };
                    each(shape, [&](const Dims& i) { largest[slot(i)] = std::max(largest[slot(i)], at(x, i)); });
                    each(shape, [&](const Dims& i) { sum[slot(i)] += std::exp(at(x, i) - largest[slot(i)]); });
                    Values expected;
                    each(shape, [&](const Dims& i) {
                      const double shifted = at(x, i) - largest[slot(i)];
                      expected.push_back(std::string(name) == "softmax" ? std::exp(shifted) / sum[slot(i)]
                                                                        : shifted - std::log(sum[slot(i)]));
                    });
                    // Differences of f32 values around 40 enter the exponent.
                    expect(expected, 8, 1e-6)(op, out, what);
                  });
        }
}

TEST("norms") {
  for (DType dtype : kFloats)
    for (const Dims& shape : {Dims{2, 24, 3, 5}, Dims{3, 6, 7}, Dims{1, 36, 2, 3, 4}, Dims{2, 12, 40, 30}}) {
      const int64_t c = shape[1];
      Input x = random_input(dtype, shape);
      const Input weight = random_input(dtype, {c}), bias = random_input(dtype, {c}), mean = random_input(dtype, {c});
      const Input variance = random_input(dtype, {c}, 0.1, 2);
      const std::string batch = "batch_norm";
      run_all("batch_norm", "eps=0.001 activation=relu", {x, mean, variance, weight, bias},
              [&](const Op& op, const std::vector<Values>& out, const std::string& what) {
                Values expected;
                each(shape, [&](const Dims& i) {
                  const size_t k = size_t(i[1]);
                  const double y =
                      (at(x, i) - mean.values[k]) / std::sqrt(variance.values[k] + 0.001) * weight.values[k] +
                      bias.values[k];
                  expected.push_back(std::max(y, 0.0));
                });
                expect(expected, 2, 1e-5)(op, out, what);
              });
      for (int64_t groups : {int64_t(1), int64_t(3), c}) {
        for (bool parameters : {true, false}) {
          std::vector<Input> inputs = {x};
          if (parameters) inputs.insert(inputs.end(), {weight, bias});
          const bool instance = groups == c && shape.size() >= 3;
          const std::string attributes = instance ? "" : "num_groups=" + std::to_string(groups);
          run_all(instance ? "instance_norm" : "group_norm", attributes.c_str(), inputs,
                  [&](const Op& op, const std::vector<Values>& out, const std::string& what) {
                    const auto slot = [&](const Dims& i) { return size_t(i[0] * groups + i[1] / (c / groups)); };
                    Values sum(size_t(shape[0] * groups), 0), square(sum), count(sum);
                    each(shape, [&](const Dims& i) { sum[slot(i)] += at(x, i), count[slot(i)] += 1; });
                    each(shape, [&](const Dims& i) {
                      const double d = at(x, i) - sum[slot(i)] / count[slot(i)];
                      square[slot(i)] += d * d;
                    });
                    Values expected;
                    each(shape, [&](const Dims& i) {
                      const size_t s = slot(i), k = size_t(i[1]);
                      const double y = (at(x, i) - sum[s] / count[s]) / std::sqrt(square[s] / count[s] + 1e-5);
                      expected.push_back(parameters ? y * weight.values[k] + bias.values[k] : y);
                    });
                    expect(expected, 2, 1e-5)(op, out, what);
                  });
        }
      }
      for (int last : {1, 2}) {
        Dims normalized;
        std::string text = "normalized_shape=[";
        for (int d = shape.size() - last; d < shape.size(); ++d) {
          normalized.push_back(shape[d]);
          text += (normalized.size() > 1 ? "," : "") + std::to_string(shape[d]);
        }
        const Input w = random_input(dtype, normalized), b = random_input(dtype, normalized);
        run_all("layer_norm", (text + "]").c_str(), {x, w, b},
                [&](const Op& op, const std::vector<Values>& out, const std::string& what) {
                  const int64_t length = normalized.product();
                  Values expected;
                  for (size_t row = 0; row < x.values.size(); row += size_t(length)) {
                    double mean_value = 0, square = 0;
                    for (int64_t i = 0; i < length; ++i) mean_value += x.values[row + size_t(i)] / double(length);
                    for (int64_t i = 0; i < length; ++i)
                      square += std::pow(x.values[row + size_t(i)] - mean_value, 2) / double(length);
                    for (int64_t i = 0; i < length; ++i)
                      expected.push_back((x.values[row + size_t(i)] - mean_value) / std::sqrt(square + 1e-5) *
                                             w.values[size_t(i)] +
                                         b.values[size_t(i)]);
                  }
                  expect(expected, 2, 1e-5)(op, out, what);
                });
      }
      run_all("prelu", "", {x, weight}, [&](const Op& op, const std::vector<Values>& out, const std::string& what) {
        Values expected;
        each(shape, [&](const Dims& i) {
          expected.push_back(at(x, i) > 0 ? at(x, i) : at(x, i) * weight.values[size_t(i[1])]);
        });
        expect(expected)(op, out, what);
      });
      run_all("local_response_norm", "size=4 alpha=0.5 beta=0.75 k=2.0", {x},
              [&](const Op& op, const std::vector<Values>& out, const std::string& what) {
                Values expected;
                each(shape, [&](const Dims& i) {
                  double sum = 0;
                  for (int64_t j = std::max<int64_t>(0, i[1] - 2); j <= std::min(c - 1, i[1] + 1); ++j) {
                    Dims other = i;
                    other[1] = j;
                    sum += at(x, other) * at(x, other);
                  }
                  expected.push_back(at(x, i) / std::pow(2 + 0.5 / 4 * sum, 0.75));
                });
                expect(expected)(op, out, what);
              });
    }
}

TEST("pool") {
  struct Case {
    const char* name;
    const char* attributes;
    Dims shape;
  };
  const Case cases[] = {
      {"max_pool2d", "kernel_size=3 stride=2 padding=1", {2, 17, 9, 8}},
      {"max_pool2d", "kernel_size=[2,3] stride=[1,2] padding=[0,1] dilation=[2,1] ceil_mode=true", {1, 24, 9, 8}},
      {"avg_pool2d", "kernel_size=3 stride=2 padding=1 count_include_pad=true", {2, 17, 9, 8}},
      {"avg_pool2d", "kernel_size=3 stride=2 padding=1 count_include_pad=false ceil_mode=true", {2, 5, 8, 8}},
      {"avg_pool2d", "kernel_size=3 stride=2 padding=1 count_include_pad=true ceil_mode=true", {2, 5, 8, 8}},
      {"max_pool1d", "kernel_size=20 stride=3", {2, 6, 50}},
      {"avg_pool3d", "kernel_size=2 padding=1", {1, 18, 4, 5, 3}},
      {"adaptive_avg_pool2d", "output_size=[3,5]", {2, 19, 7, 9}},
      {"adaptive_max_pool2d", "output_size=[7,2]", {2, 19, 5, 9}},
      {"adaptive_avg_pool1d", "output_size=4", {2, 3, 11}},
      {"global_avg_pool", "", {2, 33, 7, 7}},
      {"global_max_pool", "", {2, 33, 7, 6, 3}},
  };
  for (const Case& c : cases)
    for (DType dtype : {DType::f32, DType::f16, DType::bf16, DType::s8, DType::s64}) {
      const bool maximum = std::string(c.name).find("max") != std::string::npos;
      if (!is_floating(dtype) && !maximum) continue;
      const Input x = random_input(dtype, c.shape);
      run_all(c.name, c.attributes, {x}, [&](const Op& op, const std::vector<Values>& out, const std::string& what) {
        const int spatial = c.shape.size() - 2;
        const bool adaptive = op.schema->kind == "adaptive_pool";
        Values expected;
        each(op.out().shape, [&](const Dims& o) {
          double value = maximum ? -1e300 : 0, inside = 0, full = 1;
          Dims first = o, size = Dims::filled(spatial, 1), step = Dims::filled(spatial, 1);
          for (int d = 0; d < spatial; ++d) {
            const int64_t in = c.shape[2 + d];
            if (adaptive) {
              const int64_t count = op.out().shape[2 + d];
              first[2 + d] = o[2 + d] * in / count;
              size[d] = ((o[2 + d] + 1) * in + count - 1) / count - first[2 + d];
            } else {
              first[2 + d] =
                  o[2 + d] * op.attributes[attr::stride][size_t(d)] - op.attributes[attr::padding][size_t(d)];
              size[d] = op.attributes[attr::kernel_size][size_t(d)];
              step[d] = op.attributes[attr::dilation][size_t(d)];
              const int64_t end = in + op.attributes[attr::padding][size_t(spatial + d)];
              full *= double(std::min(first[2 + d] + size[d], end) - first[2 + d]);
            }
          }
          each(size, [&](const Dims& k) {
            Dims source = o;
            for (int d = 0; d < spatial; ++d) {
              source[2 + d] = first[2 + d] + k[d] * step[d];
              if (source[2 + d] < 0 || source[2 + d] >= c.shape[2 + d]) return;
            }
            inside += 1;
            value = maximum ? std::max(value, at(x, source)) : value + at(x, source);
          });
          const bool padded = !adaptive && op.attributes[attr::count_include_pad];
          expected.push_back(maximum ? value : value / (padded ? full : inside));
        });
        expect(expected, 2, 2e-6)(op, out, what);
      });
    }
  Input poisoned = random_input(DType::f32, {1, 20, 4, 4});
  for (size_t i = 0; i < 16; ++i) poisoned.values[i] = i == 5 ? kNaN : 1;
  run_all("global_max_pool", "", {poisoned}, [](const Op&, const std::vector<Values>& out, const std::string&) {
    CHECK(std::isnan(out[0][0]));
    CHECK(!std::isnan(out[0][1]));
  });
}

TEST("pointwise") {
  const Dims shape{2, 19, 3, 40};
  for (DType dtype : kFloats) {
    const Input a = random_input(dtype, shape), b = random_input(dtype, {1, 19, 1, 1}), c = random_input(dtype, {40});
    run_all("pointwise",
            "expressions=\"t = exp(-abs(x0)) * s0; y0 = t + x1 * x2; y1 = where(x0 > x1, clip(x2, -1, 1), x0); y2 = "
            "7\" scalars=[0.5]",
            {a, b, c}, [&](const Op& op, const std::vector<Values>& out, const std::string& what) {
              Values first, second;
              each(shape, [&](const Dims& i) {
                const double x0 = at(a, i), x1 = b.values[size_t(i[1])], x2 = c.values[size_t(i[3])];
                first.push_back(std::exp(-std::fabs(x0)) * 0.5 + x1 * x2);
                second.push_back(x0 > x1 ? std::min(std::max(x2, -1.0), 1.0) : x0);
              });
              REQUIRE(out.size() == 3);
              expect(first, 2, 2e-6)(op, out, what);
              expect(second, 1)(op, {out[1]}, what);
              compare(out[2], Values(first.size(), 7), 0, 0, what);
            });
    for (const char* dims : {"", " dim=[1]", " dim=[2,3] keepdim=true", " dim=[0,3]"})
      run_all("pointwise",
              (std::string("expressions=\"y0 = x0 * x1; y1 = x0; y2 = x0 * x0\" reductions=\"reduce_y0 += y0; "
                           "reduce_y1 max= y1; reduce_y2 += y2; y2 = sqrt(reduce_y2 / count)\"") +
               dims)
                  .c_str(),
              {a, b}, [&](const Op& op, const std::vector<Values>& out, const std::string& what) {
                const auto& reduced_dims = op.attributes[attr::dim_ints];
                Input product = a, square = a;
                int64_t i = 0;
                each(shape, [&](const Dims& index) {
                  product.values[size_t(i)] *= b.values[size_t(index[1])];
                  square.values[size_t(i)] *= a.values[size_t(i)];
                  ++i;
                });
                const auto add = [](double p, double q) { return p + q; };
                const Values sum = reduced(op, product, reduced_dims, 0, add);
                Values root = reduced(op, square, reduced_dims, 0, add);
                const double count = double(a.values.size()) / double(root.size());
                for (double& value : root) value = std::sqrt(value / count);
                expect(sum, 2, count * 9 * 6e-8)(op, out, what);
                expect(reduced(op, a, reduced_dims, -1e300, [](double p, double q) { return std::max(p, q); }))(
                    op, {out[1]}, what);
                expect(root, 2)(op, {out[2]}, what);
              });
  }
  const Input i = random_input(DType::s32, {70}, -50, 50), j = random_input(DType::s32, {1}, 3, 9);
  run_all("pointwise", "expressions=\"y0 = x0 / x1 * 2 - (x0 == 3); y1 = x0 / 0\"", {i, j},
          [&](const Op& op, const std::vector<Values>& out, const std::string& what) {
            Values expected;
            for (double v : i.values) expected.push_back(std::trunc(v / j.values[0]) * 2 - (v == 3));
            expect(expected)(op, out, what);
            compare(out[1], Values(70, 0), 0, 0, what);
          });
  run_all("pointwise", "expressions=\"y0 = x0 * 0.5\" dtype=f32", {i},
          [&](const Op& op, const std::vector<Values>& out, const std::string& what) {
            Values expected;
            for (double v : i.values) expected.push_back(v * 0.5);
            expect(expected)(op, out, what);
          });
}

// What the parser refuses, and where it says the fault is.
TEST("pointwise_errors") {
  const auto message = [](const char* expressions, const char* reductions, int scalars = 1) -> std::string {
    try {
      pointwise::parse("pointwise", expressions, reductions, 2, scalars, pointwise::Arithmetic::f32);
    } catch (const Error& error) {
      CHECK(error.code() == Code::invalid_argument);
      return error.what();
    }
    return "";
  };
  const auto has = [](const std::string& text, const char* part) {
    if (text.find(part) == std::string::npos) std::fprintf(stderr, "message \"%s\" lacks \"%s\"\n", text.c_str(), part);
    return text.find(part) != std::string::npos;
  };
  CHECK(message("y0 = x0; y1 = x0*x0", "").empty());
  CHECK(message("y0 = x0", "reduce_y0 = max(reduce_y0, y0)").empty());
  CHECK(has(message("y0 = x2", ""), "position 5: x2 does not exist, 2 tensors"));
  CHECK(has(message("y0 = s1", ""), "s1 does not exist, 1 scalars"));
  CHECK(has(message("y0 = x0 +", ""), "position 9: expected a value, found the end"));
  CHECK(has(message("y0 = (x0", ""), "expected \")\""));
  CHECK(has(message("y1 = x0", ""), "without gaps"));
  CHECK(has(message("y0 = x0 $ 2", ""), "position 8: unexpected character '$'"));
  CHECK(has(message("y0 = x0; y0 = x1", ""), "defined twice"));
  CHECK(has(message("exp = x0", ""), "cannot be assigned"));
  CHECK(has(message("y0 = max(x0)", ""), "max has 1 argument, expected 2"));
  CHECK(has(message("y0 = a", ""), "\"a\" is not known"));
  CHECK(has(message("", ""), "no output"));
  CHECK(has(message("y0 = x0; y1 = x1", "reduce_y0 += y0"), "one for each output"));
  CHECK(has(message("y0 = x0", "reduce_y0 -= y0"), "expected +=, *=, max= or min="));
  CHECK(has(message("y0 = x0", "reduce_y0 += y0; y0 = x0"), "not known after a reduction"));
  std::string deep = "y0 = ";
  for (int k = 0; k < 5000; ++k) deep += "(";
  CHECK(has(message(deep.c_str(), ""), "nested too deeply"));
  deep = "y0 = ";
  for (int k = 0; k < 5000; ++k) deep += "-";
  CHECK(has(message(deep.c_str(), ""), "nested too deeply"));
}

}  // namespace
