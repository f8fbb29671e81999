// The oneDNN provider's transposed convolutions, normalisations, reductions, concat, resize: every candidate against
// loops in double precision.  PYLAYOUT_TEST_VERBOSE=1 prints ops, candidates and refusals.
#include "candidates.h"
#include "check.h"
#include "providers/onednn/engine.h"

using namespace pltest;

namespace {

std::unique_ptr<Provider> provider;
std::shared_ptr<Device> device;

void check(const std::string& name, const std::string& attributes, const std::vector<Argument>& arguments,
           const Values& expected, int at_least = 1) {
  const bool impossible = at_least == 0;
  const Outcome outcome = check_candidates(*provider, *device, name, attributes, arguments, expected,
                                           tolerance_of(arguments[0].desc.dtype));
  // oneDNN computes in bf16 from AVX-512 on, emulating what the processor lacks.
  if (arguments[0].desc.dtype == DType::bf16 && onednn::instruction_set().find("avx512") == std::string::npos)
    at_least = 0;
  if (outcome.candidates < at_least || (impossible && outcome.candidates > 0)) {
    std::printf("FAILED %s %s: %d candidates, expected at least %d\n", name.c_str(), attributes.c_str(),
                outcome.candidates, at_least);
    check_count_failure();
  }
}

std::string list_text(const std::vector<int64_t>& values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) text += (i ? "," : "") + std::to_string(values[i]);
  return text + "]";
}

// ---- transposed convolution

struct DeconvCase {
  Dims x, weight;
  std::vector<int64_t> stride, padding, extra, dilation;
  int64_t groups;
  bool bias;
  const char* activation;
};

void check_conv_transpose(const DeconvCase& c) {
  const int spatial = c.x.size() - 2;
  const size_t s = size_t(spatial);
  const Argument x = random_argument(DType::f32, c.x, 1), w = random_argument(DType::f32, c.weight, 2, -0.5, 0.5);
  const int64_t per_group = c.weight[1], outputs = per_group * c.groups;
  const Argument bias = c.bias ? random_argument(DType::f32, {outputs}, 3) : absent();
  Dims shape{c.x[0], outputs}, kernel;
  for (size_t i = 0; i < s; ++i) {
    kernel.push_back(c.weight[2 + int(i)]);
    shape.push_back((c.x[2 + int(i)] - 1) * c.stride[i] - c.padding[i] - c.padding[s + i] +
                    c.dilation[i] * (kernel[int(i)] - 1) + c.extra[i] + 1);
  }
  Values y(size_t(shape.product()), 0.0);
  for_each(c.x, [&](const Dims& p, size_t from) {
    for_each(kernel, [&](const Dims& k, size_t) {
      Dims q{p[0], 0};
      for (size_t i = 0; i < s; ++i) {
        q.push_back(p[2 + int(i)] * c.stride[i] - c.padding[i] + k[int(i)] * c.dilation[i]);
        if (q[2 + int(i)] < 0 || q[2 + int(i)] >= shape[2 + int(i)]) return;
      }
      for (int64_t j = 0; j < per_group; ++j) {
        q[1] = p[1] / (c.x[1] / c.groups) * per_group + j;
        Dims at_weight{p[1], j};
        for (int64_t v : k) at_weight.push_back(v);
        y[at(shape, q)] += x.values[from] * w.values[at(c.weight, at_weight)];
      }
    });
  });
  for_each(shape, [&](const Dims& p, size_t i) {
    if (c.bias) y[i] += bias.values[size_t(p[1])];
    if (c.activation) y[i] = std::max(y[i], 0.0);
  });
  std::string text = "stride=" + list_text(c.stride) + " padding=" + list_text(c.padding) +
                     " output_padding=" + list_text(c.extra) + " dilation=" + list_text(c.dilation) +
                     " groups=" + std::to_string(c.groups);
  if (c.activation) text += std::string(" activation=") + c.activation;
  check("conv_transpose" + std::to_string(spatial) + "d", text, {x, w, bias}, y);
}

SETUP() {
  for (auto& made : make_providers())
    if (made->name() == "onednn") provider = std::move(made);
  REQUIRE(provider != nullptr);
  device = make_cpu_device();
}

TEST("conv_transpose") {
  using V = std::vector<int64_t>;
  check_conv_transpose({{1, 16, 5, 6}, {16, 24, 3, 3}, V{2, 2}, V{1, 1, 1, 1}, V{1, 1}, V{1, 1}, 1, true, "relu"});
  check_conv_transpose({{1, 64, 7, 7}, {64, 32, 2, 2}, V{2, 2}, V{0, 0, 0, 0}, V{0, 0}, V{1, 1}, 1, true, nullptr});
  check_conv_transpose({{2, 13, 5, 4}, {13, 17, 3, 2}, V{1, 3}, V{0, 1, 1, 0}, V{0, 2}, V{2, 1}, 1, false, nullptr});
  check_conv_transpose({{1, 32, 5, 5}, {32, 16, 3, 3}, V{2, 2}, V{1, 1, 1, 1}, V{0, 1}, V{1, 1}, 2, true, nullptr});
  check_conv_transpose({{1, 16, 5, 5}, {16, 1, 4, 4}, V{2, 2}, V{1, 1, 1, 1}, V{0, 0}, V{1, 1}, 16, true, "relu"});
  check_conv_transpose({{1, 9, 5, 5}, {9, 5, 3, 3}, V{1, 1}, V{1, 1, 1, 1}, V{0, 0}, V{1, 1}, 3, true, nullptr});
  check_conv_transpose({{2, 8, 9}, {8, 16, 4}, V{2}, V{1, 1}, V{1}, V{1}, 1, true, nullptr});
  check_conv_transpose(
      {{1, 8, 3, 4, 3}, {8, 8, 2, 3, 2}, V{2, 1, 2}, V{0, 1, 0, 0, 1, 0}, V{0, 0, 1}, V{1, 1, 1}, 1, false, nullptr});
}

// ---- normalisation

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

// ---- the rest

TEST("prelu") {
  for (const Dims& shape : {Dims{2, 13, 3, 5}, Dims{1, 32, 4, 4}, Dims{2, 9, 5}, Dims{3, 6}})
    for (const int64_t slopes : {int64_t(1), shape[1]}) {
      const Argument x = random_argument(DType::f32, shape, 1), w = random_argument(DType::f32, {slopes}, 2);
      Values y = x.values;
      for_each(shape, [&](const Dims& p, size_t i) {
        if (y[i] <= 0) y[i] *= w.values[slopes == 1 ? 0 : size_t(p[1])];
      });
      check("prelu", "", {x, w}, y);
    }
}

TEST("reduce") {
  for (const char* name : {"sum", "mean", "prod", "reduce_l1", "reduce_l2", "reduce_sum_square"})
    for (const std::vector<int64_t>& dims : std::vector<std::vector<int64_t>>{{2, 3}, {1}, {3}, {0, 1, 2, 3}, {0, 2}})
      for (const bool keepdim : {false, true})
        for (const Dims& shape : {Dims{2, 13, 3, 5}, Dims{1, 32, 2, 4}}) {
          const std::string f = name;
          // Kept near 1 for the product's sake.
          const Argument x =
              f == "prod" ? random_argument(DType::f32, shape, 1, 0.9, 1.1) : random_argument(DType::f32, shape, 1);
          Dims kept = shape;
          for (int64_t dim : dims) kept[int(dim)] = 1;
          const double count = double(shape.product() / kept.product());
          Values y(size_t(kept.product()), f == "prod" ? 1 : 0);
          for_each(shape, [&](const Dims& p, size_t i) {
            Dims q = p;
            for (int64_t dim : dims) q[int(dim)] = 0;
            double& value = y[at(kept, q)];
            const double v = x.values[i];
            if (f == "sum") value += v;
            if (f == "mean") value += v / count;
            if (f == "prod") value *= v;
            if (f == "reduce_l1") value += std::fabs(v);
            if (f == "reduce_l2" || f == "reduce_sum_square") value += v * v;
          });
          if (f == "reduce_l2")
            for (double& value : y) value = std::sqrt(value);
          check(name, "dim=" + list_text(dims) + " keepdim=" + (keepdim ? "true" : "false"), {x}, y);
        }
}

TEST("concat") {
  for (const DType dtype : {DType::f32, DType::bf16, DType::u8})
    for (const std::vector<int64_t>& channels : std::vector<std::vector<int64_t>>{{16, 32}, {3, 13, 17}, {8, 24, 9}})
      for (int dim : {0, 1, 2}) {
        std::vector<Argument> parts;
        Dims shape{2, channels[0], 4, 3};
        shape[dim] = 0;
        for (size_t k = 0; k < channels.size(); ++k) {
          Dims part{2, channels[0], 4, 3};
          part[dim] = dim == 1 ? channels[k] : int64_t(k) + 1;
          shape[dim] += part[dim];
          parts.push_back(random_argument(dtype, part, unsigned(k), 0, 9));
        }
        Values y(size_t(shape.product()));
        int64_t start = 0;
        for (const Argument& part : parts) {
          for_each(part.desc.shape, [&](const Dims& p, size_t i) {
            Dims q = p;
            q[dim] += start;
            y[at(shape, q)] = part.values[i];
          });
          start += part.desc.shape[dim];
        }
        check("concat", "dim=" + std::to_string(dim), parts, y);
      }
}

TEST("resize") {
  struct Case {
    Dims x;
    std::vector<int64_t> size;
    const char* mode;
    bool possible;
  };
  using V = std::vector<int64_t>;
  for (const Case& c : std::vector<Case>{{{2, 13, 4, 5}, V{8, 10}, "nearest", true},
                                         {{1, 16, 4, 5}, V{12, 5}, "nearest", true},
                                         {{1, 16, 4, 5}, V{7, 9}, "nearest", false},
                                         {{2, 13, 4, 5}, V{8, 10}, "bilinear", true},
                                         {{1, 32, 7, 5}, V{3, 11}, "bilinear", true},
                                         {{2, 17, 9}, V{18}, "linear", true},
                                         {{1, 9, 3, 4, 5}, V{6, 8, 10}, "trilinear", true}}) {
    const int spatial = c.x.size() - 2;
    const Argument x = random_argument(DType::f32, c.x, 1);
    Dims shape{c.x[0], c.x[1]};
    for (int64_t size : c.size) shape.push_back(size);
    Values y(size_t(shape.product()), 0.0);
    for_each(shape, [&](const Dims& p, size_t i) {
      for (int corner = 0; corner < 1 << spatial; ++corner) {
        Dims q{p[0], p[1]};
        double weight = 1;
        for (int d = 0; d < spatial; ++d) {
          const double in = double(c.x[2 + d]), scale = in / double(shape[2 + d]);
          if (c.mode[0] == 'n') {
            q.push_back(int64_t(std::floor(double(p[2 + d]) * scale)));
            if (corner) weight = 0;
            continue;
          }
          const double source = std::max((double(p[2 + d]) + 0.5) * scale - 0.5, 0.0), low = std::floor(source);
          const bool upper = corner >> d & 1;
          weight *= upper ? source - low : 1 - (source - low);
          q.push_back(std::min(int64_t(low) + upper, c.x[2 + d] - 1));
        }
        y[i] += weight * x.values[at(c.x, q)];
      }
    });
    check("interpolate", "size=" + list_text(c.size) + " mode=" + c.mode, {x}, y, c.possible);
  }
  check("interpolate", "size=[7,9] mode=bilinear align_corners=true", {random_argument(DType::f32, {1, 3, 4, 5}, 1)},
        {}, 0);
  check("interpolate", "scale_factor=1.3 mode=bilinear", {random_argument(DType::f32, {1, 3, 4, 5}, 1)}, {}, 0);
}

// NaN goes through, infinities and overflow are right; what cannot promise that is refused.
TEST("special_values") {
  const double nan = NAN, inf = HUGE_VAL;
  const auto repeated = [](const Values& values) {
    Values all;
    while (all.size() < 70) all.insert(all.end(), values.begin(), values.end());  // whole vectors and a tail
    return Argument{TensorDesc::dense(DType::f32, {int64_t(all.size())}), all};
  };
  struct Case {
    const char* name;
    Values x, y;
  };
  for (const Case& c : std::vector<Case>{{"leaky_relu", {nan, inf, -inf, -1}, {nan, inf, -inf, -0.01}},
                                         {"elu", {nan, inf, -inf, -100}, {nan, inf, -1, -1}},
                                         {"log", {nan, inf, 0, -1}, {nan, inf, -inf, nan}},
                                         {"sqrt", {nan, inf, 0, -1}, {nan, inf, 0, nan}},
                                         {"rsqrt", {nan, inf, 0, -1}, {nan, 0, inf, nan}},
                                         {"reciprocal", {nan, inf, 0, -inf}, {nan, 0, inf, 0}},
                                         {"sigmoid", {nan, inf, -inf, 100, -100}, {nan, 1, 0, 1, 0}},
                                         {"tanh", {nan, inf, -inf, 100, -100}, {nan, 1, -1, 1, -1}},
                                         {"silu", {nan, inf, 100, -100}, {nan, inf, 100, 0}},
                                         {"gelu", {nan, 100, -100}, {nan, 100, 0}},
                                         {"softplus", {nan, inf, -inf, 1000, -1000}, {nan, inf, 0, 1000, 0}},
                                         {"mish", {nan, 1000, -100, 50}, {nan, 1000, 0, 50}},
                                         {"hardswish", {nan, inf, -100}, {nan, inf, 0}},
                                         {"round", {nan, inf, -inf, 2.5, 1e9}, {nan, inf, -inf, 2, 1e9}},
                                         {"square", {nan, inf, 1e30}, {nan, inf, inf}},
                                         {"abs", {nan, inf, -inf}, {nan, inf, inf}},
                                         {"neg", {nan, inf, -inf}, {nan, -inf, inf}}})
    check(c.name, "", {repeated(c.x)}, repeated(c.y).values);
  for (const char* name : {"relu", "relu6", "clip", "exp", "hardsigmoid", "amax", "amin"})
    check(name, "", {repeated({nan})}, {}, 0);
  const Argument x = repeated({nan, 1, 1, inf, 3}), y = repeated({nan, nan, 2, inf, 2});
  for (const char* name : {"maximum", "minimum"}) check(name, "", {x, y}, {}, 0);
  check("eq", "", {x, y}, repeated({0, 0, 0, 1, 0}).values);
  check("ne", "", {x, y}, repeated({1, 1, 1, 0, 1}).values);
  check("lt", "", {x, y}, repeated({0, 0, 1, 0, 0}).values);
  check("le", "", {x, y}, repeated({0, 0, 1, 1, 0}).values);
  check("gt", "", {x, y}, repeated({0, 0, 0, 0, 1}).values);
  check("ge", "", {x, y}, repeated({0, 0, 0, 1, 1}).values);
  check("div", "", {repeated({1, 0, -1, nan}), repeated({0, 0, 0, 1})}, repeated({inf, nan, -inf, nan}).values);
  const Argument large{TensorDesc::dense(DType::f32, {2, 16}), Values(32, 1000.0)};
  check("softmax", "dim=1", {large}, Values(32, 1.0 / 16));
  check("log_softmax", "dim=1", {large}, Values(32, -std::log(16.0)));
}

}  // namespace
