// Every candidate of the oneDNN provider against loops in double precision.
// PYLAYOUT_TEST_VERBOSE=1 prints ops, candidates and refusals.
#include "candidates.h"
#include "check.h"
#include "providers/onednn/engine.h"

using namespace pltest;

namespace {

std::unique_ptr<Provider> provider;
std::shared_ptr<Device> device;

Outcome check(const std::string& name, const std::string& attributes, const std::vector<Argument>& arguments,
              const Values& expected, int at_least = 1) {
  const Outcome outcome = check_candidates(*provider, *device, name, attributes, arguments, expected,
                                           tolerance_of(arguments[0].desc.dtype));
  // oneDNN computes in bf16 from AVX-512 on, emulating what the processor lacks.
  if (arguments[0].desc.dtype == DType::bf16 && onednn::instruction_set().find("avx512") == std::string::npos)
    at_least = 0;
  if (outcome.candidates < at_least) {
    std::printf("FAILED %s %s: %d candidates, expected at least %d\n", name.c_str(), attributes.c_str(),
                outcome.candidates, at_least);
    check_count_failure();
  }
  return outcome;
}

double activate(const std::string& f, double x, double a = 0, double b = 0) {
  if (f == "relu") return std::isnan(x) ? x : std::max(x, 0.0);
  if (f == "relu6") return std::min(std::max(x, 0.0), 6.0);
  if (f == "leaky_relu") return x > 0 ? x : a * x;
  if (f == "elu") return x > 0 ? x : a * std::expm1(x);
  if (f == "selu") return 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * std::expm1(x));
  if (f == "gelu" || f == "gelu_erf") return x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
  if (f == "gelu_tanh") return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  if (f == "silu") return x / (1 + std::exp(-x));
  if (f == "hardswish") return x * std::min(std::max(x / 6 + 0.5, 0.0), 1.0);
  if (f == "hardsigmoid") return std::min(std::max(x / 6 + 0.5, 0.0), 1.0);
  if (f == "sigmoid") return 1 / (1 + std::exp(-x));
  if (f == "tanh") return std::tanh(x);
  if (f == "clip") return std::min(std::max(x, a), b);
  if (f == "softplus") return a * x > b ? x : std::log1p(std::exp(a * x)) / a;
  if (f == "mish") return x * std::tanh(x > 30 ? x : std::log1p(std::exp(x)));
  if (f == "abs") return std::fabs(x);
  if (f == "neg") return -x;
  if (f == "exp") return std::exp(x);
  if (f == "log") return std::log(x);
  if (f == "sqrt") return std::sqrt(x);
  if (f == "reciprocal") return 1 / x;
  if (f == "rsqrt") return 1 / std::sqrt(x);
  if (f == "square") return x * x;
  if (f == "round") return std::nearbyint(x);
  return x;
}

// ---- convolution

struct ConvCase {
  int spatial;
  Dims x, weight;
  std::vector<int64_t> stride, padding, dilation;  // padding: begins, then ends
  int64_t groups;
  bool bias, residual;
  const char* activation;
  DType dtype = DType::f32;
  int at_least = 1;
};

std::string list_text(const std::vector<int64_t>& values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) text += (i ? "," : "") + std::to_string(values[i]);
  return text + "]";
}

void check_conv(const ConvCase& c, bool transpose = false) {
  const Argument x = random_argument(c.dtype, c.x, 1), weight = random_argument(c.dtype, c.weight, 2, -0.5, 0.5);
  const int64_t outputs = transpose ? c.weight[1] * c.groups : c.weight[0];
  const Argument bias = c.bias ? random_argument(c.dtype, {outputs}, 3) : absent();
  std::string text = "stride=" + list_text(c.stride) + " padding=" + list_text(c.padding) +
                     " dilation=" + list_text(c.dilation) + " groups=" + std::to_string(c.groups);
  const std::string activation = c.activation ? c.activation : "";
  if (c.activation) text += " activation=" + activation;
  Dims shape{c.x[0], outputs};
  const size_t s = size_t(c.spatial);
  for (size_t i = 0; i < s; ++i) {
    const int64_t in = c.x[2 + int(i)], k = c.weight[2 + int(i)], pads = c.padding[i] + c.padding[s + i];
    shape.push_back(transpose ? (in - 1) * c.stride[i] - pads + c.dilation[i] * (k - 1) + 1
                              : (in + pads - c.dilation[i] * (k - 1) - 1) / c.stride[i] + 1);
  }
  const Argument residual = c.residual ? random_argument(c.dtype, shape, 4) : absent();
  Values y(size_t(shape.product()), 0.0);
  Dims kernel;
  for (size_t i = 0; i < s; ++i) kernel.push_back(c.weight[2 + int(i)]);
  // Over one side's positions and the kernel; the other side's position follows.
  const Dims& from = transpose ? c.x : shape;
  const int64_t in_per_group = c.x[1] / c.groups, out_per_group = outputs / c.groups;
  for_each(from, [&](const Dims& p, size_t) {
    const int64_t group = p[1] / (transpose ? in_per_group : out_per_group);
    for_each(kernel, [&](const Dims& k, size_t) {
      Dims q{p[0], 0};
      for (size_t i = 0; i < s; ++i) {
        q.push_back(p[2 + int(i)] * c.stride[i] - c.padding[i] + k[int(i)] * c.dilation[i]);
        if (q[2 + int(i)] < 0 || q[2 + int(i)] >= (transpose ? shape : c.x)[2 + int(i)]) return;
      }
      for (int64_t j = 0; j < (transpose ? out_per_group : in_per_group); ++j) {
        q[1] = group * (transpose ? out_per_group : in_per_group) + j;
        Dims w{p[1], j};
        for (int64_t v : k) w.push_back(v);
        const double product = weight.values[at(c.weight, w)] * x.values[at(c.x, transpose ? p : q)];
        y[at(shape, transpose ? q : p)] += product;
      }
    });
  });
  for_each(shape, [&](const Dims& p, size_t i) {
    if (c.bias) y[i] += bias.values[size_t(p[1])];
    if (c.residual) y[i] += residual.values[i];
    if (c.activation) y[i] = activate(activation, y[i], 0.01, 1);
  });
  std::vector<Argument> arguments{x, weight, bias};
  if (!transpose) arguments.push_back(residual);
  check((transpose ? "conv_transpose" : "conv") + std::to_string(c.spatial) + "d", text, arguments, y, c.at_least);
}

SETUP() {
  for (auto& made : make_providers())
    if (made->name() == "onednn") provider = std::move(made);
  REQUIRE(provider != nullptr);
  device = make_cpu_device();
  for (const std::string& note : provider->notes()) std::printf("%s\n%s\n", provider->version().c_str(), note.c_str());
}

TEST("conv") {
  using V = std::vector<int64_t>;
  check_conv(
      {2, {1, 3, 17, 19}, {64, 3, 7, 7}, V{2, 2}, V{3, 3, 3, 3}, V{1, 1}, 1, true, false, "relu", DType::f32, 4});
  check_conv({2, {2, 32, 9, 9}, {32, 32, 3, 3}, V{1, 1}, V{1, 1, 1, 1}, V{1, 1}, 1, true, true, "relu", DType::f32, 4});
  check_conv(
      {2, {1, 64, 7, 7}, {40, 64, 1, 1}, V{1, 1}, V{0, 0, 0, 0}, V{1, 1}, 1, false, false, nullptr, DType::f32, 4});
  check_conv({2, {1, 13, 11, 8}, {17, 13, 3, 2}, V{2, 1}, V{0, 1, 2, 0}, V{2, 3}, 1, true, true, "silu"});
  check_conv({2, {1, 1, 5, 5}, {1, 1, 3, 3}, V{1, 1}, V{1, 1, 1, 1}, V{1, 1}, 1, true, false, nullptr});
  check_conv(
      {2, {1, 32, 8, 8}, {32, 1, 3, 3}, V{1, 1}, V{1, 1, 1, 1}, V{1, 1}, 32, true, false, "relu6", DType::f32, 4});
  check_conv({2, {1, 13, 8, 8}, {13, 1, 3, 3}, V{2, 2}, V{1, 1, 1, 1}, V{1, 1}, 13, false, false, "hardswish"});
  check_conv({2, {1, 16, 8, 8}, {32, 1, 3, 3}, V{1, 1}, V{1, 1, 1, 1}, V{1, 1}, 16, true, false, nullptr});
  check_conv({2, {1, 32, 8, 8}, {64, 16, 3, 3}, V{1, 1}, V{1, 1, 1, 1}, V{1, 1}, 2, true, true, "gelu"});
  check_conv({2, {1, 24, 6, 6}, {12, 8, 3, 3}, V{1, 1}, V{1, 1, 1, 1}, V{1, 1}, 3, true, false, "selu"});
  check_conv({2, {1, 16, 6, 6}, {16, 16, 3, 3}, V{1, 1}, V{1, 1, 1, 1}, V{1, 1}, 1, true, true, "relu", DType::bf16});
  check_conv({1, {2, 16, 20}, {24, 16, 5}, V{2}, V{4, 0}, V{1}, 1, true, false, "tanh"});
  check_conv({1, {2, 6, 20}, {6, 1, 5}, V{1}, V{2, 2}, V{2}, 6, true, true, "sigmoid"});
  check_conv(
      {3, {1, 8, 5, 6, 7}, {16, 8, 3, 3, 3}, V{1, 2, 1}, V{1, 1, 1, 1, 0, 1}, V{1, 1, 2}, 1, true, true, "relu"});
  check_conv(
      {3, {1, 4, 5, 5, 5}, {4, 1, 3, 3, 3}, V{1, 1, 1}, V{1, 1, 1, 1, 1, 1}, V{1, 1, 1}, 4, false, false, nullptr});
  for (int64_t channels : {3, 13, 17, 33})
    check_conv({2,
                {1, channels, 6, 5},
                {channels, channels, 3, 3},
                V{1, 1},
                V{1, 1, 1, 1},
                V{1, 1},
                1,
                true,
                true,
                "sigmoid"});
}

// ---- elementwise

TEST("unary") {
  struct Case {
    const char* name;
    const char* attributes;
    double alpha, beta, low, high;
  };
  for (const Case& c : std::vector<Case>{{"leaky_relu", "negative_slope=0.2", 0.2, 0, -3, 3},
                                         {"elu", "alpha=1.5", 1.5, 0, -3, 3},
                                         {"gelu", "", 0, 0, -4, 4},
                                         {"silu", "", 0, 0, -9, 9},
                                         {"hardswish", "", 0, 0, -5, 5},
                                         {"sigmoid", "", 0, 0, -9, 9},
                                         {"tanh", "", 0, 0, -5, 5},
                                         {"softplus", "", 1, 20, -60, 60},
                                         {"softplus", "beta=3", 3, 20, -30, 60},
                                         {"mish", "", 0, 0, -9, 30},
                                         {"abs", "", 0, 0, -3, 3},
                                         {"neg", "", 0, 0, -3, 3},
                                         {"log", "", 0, 0, 0.1, 9},
                                         {"sqrt", "", 0, 0, 0, 9},
                                         {"reciprocal", "", 0, 0, 0.2, 4},
                                         {"rsqrt", "", 0, 0, 0.2, 4},
                                         {"square", "", 0, 0, -3, 3},
                                         {"round", "", 0, 0, -9, 9}}) {
    for (const Dims& shape : {Dims{2, 13, 5, 7}, Dims{1, 17, 3}, Dims{1, 9, 2, 3, 2}, Dims{37}, Dims{}}) {
      const Argument x = random_argument(DType::f32, shape, 7, c.low, c.high);
      Values y = x.values;
      for (double& value : y) value = activate(c.name, value, c.alpha, c.beta);
      check(c.name, c.attributes, {x}, y);
    }
  }
  const Argument x = random_argument(DType::bf16, {1, 24, 5, 5}, 7);
  Values y = x.values;
  for (double& value : y) value = activate("silu", value);
  check("silu", "", {x}, y);
  check("sin", "", {random_argument(DType::f32, {3}, 7)}, {}, 0);
}

double combine(const std::string& f, double x, double y) {
  if (f == "add") return x + y;
  if (f == "sub") return x - y;
  if (f == "mul") return x * y;
  if (f == "div") return x / y;
  if (f == "eq") return x == y;
  if (f == "ne") return x != y;
  if (f == "lt") return x < y;
  if (f == "le") return x <= y;
  if (f == "gt") return x > y;
  return x >= y;
}

TEST("binary") {
  for (const char* name : {"add", "sub", "mul", "div", "eq", "ne", "lt", "le", "gt", "ge"}) {
    const std::vector<std::pair<Dims, Dims>> shapes{{{2, 13, 3, 5}, {2, 13, 3, 5}},
                                                    {{2, 13, 3, 5}, {1, 13, 1, 1}},
                                                    {{2, 13, 3, 5}, {13, 1, 1}},
                                                    {{2, 24, 3, 5}, {}},
                                                    {{2, 13, 3, 5}, {5}},
                                                    {{1, 13, 1, 1}, {2, 13, 3, 5}},
                                                    {{7}, {7}},
                                                    {{2, 3}, {2, 1}}};
    for (const auto& pair : shapes) {
      const Argument x = random_argument(DType::f32, pair.first, 1), y = random_argument(DType::f32, pair.second, 2);
      Argument z = x;
      const Dims shape = pair.first.size() >= pair.second.size() && pair.first.product() >= pair.second.product()
                             ? pair.first
                             : pair.second;
      Values values(size_t(shape.product()));
      const auto pick = [&](const Argument& tensor, const Dims& index) {
        Dims own;
        const int rank = tensor.desc.rank();
        for (int d = 0; d < rank; ++d) own.push_back(tensor.desc.shape[d] == 1 ? 0 : index[index.size() - rank + d]);
        return tensor.values[at(tensor.desc.shape, own)];
      };
      for_each(shape, [&](const Dims& index, size_t i) { values[i] = combine(name, pick(x, index), pick(y, index)); });
      const bool swapped = shape != pair.first && (std::string(name) == "sub" || std::string(name) == "div");
      check(name, "", {x, y}, values, swapped ? 0 : 1);
    }
  }
  const Argument x = random_argument(DType::f32, {1, 16, 4, 4}, 1), y = random_argument(DType::f32, {1, 16, 4, 4}, 2);
  Values sum = x.values;
  for (size_t i = 0; i < sum.size(); ++i) sum[i] = std::max(0.0, sum[i] + y.values[i]);
  check("add", "activation=relu", {x, y}, sum, 3);
}

// ---- pooling

TEST("pool") {
  struct Case {
    int spatial;
    const char* mode;
    Dims x;
    std::vector<int64_t> kernel, stride, padding, dilation;
    bool ceil, count;
  };
  using V = std::vector<int64_t>;
  for (const Case& c :
       std::vector<Case>{{2, "max", {1, 13, 9, 9}, V{3, 3}, V{2, 2}, V{1, 1}, V{1, 1}, false, false},
                         {2, "max", {1, 17, 8, 8}, V{3, 3}, V{2, 2}, V{0, 0}, V{1, 1}, true, false},
                         {2, "max", {1, 16, 9, 10}, V{2, 3}, V{1, 2}, V{0, 1}, V{2, 1}, false, false},
                         {2, "avg", {2, 16, 9, 9}, V{3, 3}, V{2, 2}, V{1, 1}, V{1, 1}, false, true},
                         {2, "avg", {2, 3, 9, 9}, V{3, 3}, V{2, 2}, V{1, 1}, V{1, 1}, false, false},
                         {2, "avg", {2, 16, 8, 8}, V{3, 3}, V{2, 2}, V{1, 1}, V{1, 1}, true, false},
                         {2, "avg", {2, 24, 8, 8}, V{3, 3}, V{4, 4}, V{0, 0}, V{1, 1}, false, true},
                         {1, "max", {2, 13, 20}, V{3}, V{3}, V{1}, V{2}, false, false},
                         {1, "avg", {2, 16, 20}, V{4}, V{4}, V{0}, V{1}, false, true},
                         {3, "max", {1, 9, 5, 6, 7}, V{2, 2, 2}, V{2, 2, 2}, V{0, 0, 0}, V{1, 1, 1}, false, false},
                         {3, "avg", {1, 16, 5, 6, 7}, V{3, 2, 2}, V{1, 2, 2}, V{1, 0, 1}, V{1, 1, 1}, false, true}}) {
    const bool average = std::string(c.mode) == "avg";
    std::string text = "kernel_size=" + list_text(c.kernel) + " stride=" + list_text(c.stride) +
                       " padding=" + list_text(c.padding) + " ceil_mode=" + (c.ceil ? "true" : "false");
    text += average ? std::string(" count_include_pad=") + (c.count ? "true" : "false")
                    : " dilation=" + list_text(c.dilation);
    const std::string name = std::string(c.mode) + "_pool" + std::to_string(c.spatial) + "d";
    const Argument x = random_argument(DType::f32, c.x, 5);
    const Dims shape = make_op(*find_schema(name), Attributes::parse(text), {x.desc}).out().shape;
    Values y(size_t(shape.product()));
    for_each(shape, [&](const Dims& p, size_t i) {
      double sum = 0, best = -HUGE_VAL;
      int64_t count = 0, all = 1;
      for (int64_t k : c.kernel) all *= k;
      for_each(Dims(c.kernel), [&](const Dims& k, size_t) {
        Dims q{p[0], p[1]};
        for (int d = 0; d < c.spatial; ++d) {
          const size_t s = size_t(d);
          q.push_back(p[2 + d] * c.stride[s] - c.padding[s] + k[d] * c.dilation[s]);
          if (q[2 + d] < 0 || q[2 + d] >= c.x[2 + d]) return;
        }
        ++count;
        sum += x.values[at(c.x, q)];
        best = std::max(best, x.values[at(c.x, q)]);
      });
      y[i] = average ? sum / double(c.count ? all : count) : best;
    });
    check(name, text, {x}, y);
  }
  const Argument x = random_argument(DType::f32, {2, 17, 6, 4}, 5);
  for (const char* name : {"global_avg_pool", "global_max_pool"}) {
    Values y(34, 0.0);
    for (size_t i = 0; i < 34; ++i) {
      const auto begin = x.values.begin() + ptrdiff_t(i * 24);
      double sum = 0;
      for (int k = 0; k < 24; ++k) sum += begin[k];
      y[i] = name[7] == 'a' ? sum / 24 : *std::max_element(begin, begin + 24);
    }
    check(name, "", {x}, y);
  }
  check("adaptive_avg_pool2d", "output_size=[4,4]", {x}, {}, 0);
}

// ---- matrix products

TEST("matmul") {
  for (const auto dtype : {DType::f32, DType::bf16})
    for (const Dims& shape : {Dims{1, 64}, Dims{5, 33}, Dims{2, 3, 64}, Dims{64}})
      for (const char* activation : {"", "relu"}) {
        const int64_t in = shape[shape.size() - 1], columns = 47;
        const Argument x = random_argument(dtype, shape, 1), w = random_argument(dtype, {columns, in}, 2, -0.5, 0.5),
                       b = random_argument(dtype, {columns}, 3);
        Dims result = shape;
        result[result.size() - 1] = columns;
        const bool full = *activation != 0;
        const Argument r = full ? random_argument(dtype, result, 4) : absent();
        Values y(size_t(result.product()));
        for (size_t i = 0; i < y.size(); ++i) {
          const size_t row = i / size_t(columns), column = i % size_t(columns);
          y[i] = b.values[column] + (full ? r.values[i] : 0);
          for (size_t k = 0; k < size_t(in); ++k)
            y[i] += x.values[row * size_t(in) + k] * w.values[column * size_t(in) + k];
          if (full) y[i] = std::max(0.0, y[i]);
        }
        check("linear", full ? "activation=relu" : "", {x, w, b, r}, y, 2);
      }
  struct Case {
    Dims a, b;
    bool transpose_a, transpose_b, bias;
  };
  for (const Case& c : std::vector<Case>{{{5, 7}, {7, 9}, false, false, false},
                                         {{7, 5}, {9, 7}, true, true, true},
                                         {{2, 3, 5, 7}, {2, 3, 7, 9}, false, false, false},
                                         {{2, 3, 5, 7}, {3, 9, 7}, false, true, true},
                                         {{2, 1, 5, 7}, {3, 7, 9}, false, false, false},
                                         {{2, 5, 7}, {7, 9}, false, false, true},
                                         {{2, 7, 5}, {7, 9}, true, false, false},
                                         {{7}, {7, 9}, false, false, false},
                                         {{5, 7}, {7}, false, false, false},
                                         {{7}, {7}, false, false, false},
                                         {{2, 5, 7}, {7}, false, false, false}}) {
    const Argument a = random_argument(DType::f32, c.a, 1), b = random_argument(DType::f32, c.b, 2);
    std::string text = std::string("transpose_a=") + (c.transpose_a ? "true" : "false") +
                       " transpose_b=" + (c.transpose_b ? "true" : "false");
    Argument bias = absent();
    if (c.bias) bias = random_argument(DType::f32, {9}, 3);
    const Dims shape =
        make_op(*find_schema("matmul"), Attributes::parse(text), {a.desc, b.desc, bias.desc}).out().shape;
    // Vectors as matrices, then batches by broadcasting.
    Dims sa = c.a, sb = c.b;
    if (sa.size() == 1) sa = {1, c.a[0]};
    if (sb.size() == 1) sb = {c.b[0], 1};
    const int64_t m = sa[sa.size() - (c.transpose_a ? 1 : 2)], n = sb[sb.size() - (c.transpose_b ? 2 : 1)], k = 7;
    const int batch = std::max(sa.size(), sb.size()) - 2;
    Dims batches;
    for (int d = 0; d < batch; ++d) {
      const int da = d - batch + sa.size() - 2, db = d - batch + sb.size() - 2;
      batches.push_back(std::max(da >= 0 ? sa[da] : 1, db >= 0 ? sb[db] : 1));
    }
    Values y;
    for_each(batches, [&](const Dims& index, size_t) {
      const auto matrix = [&](const Dims& s) {
        size_t position = 0;
        for (int d = 0; d < s.size() - 2; ++d) {
          const int64_t i = s[d] == 1 ? 0 : index[batch - (s.size() - 2) + d];
          position = position * size_t(s[d]) + size_t(i);
        }
        return position * size_t(s[s.size() - 2] * s[s.size() - 1]);
      };
      const size_t pa = matrix(sa), pb = matrix(sb);
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          double sum = c.bias ? bias.values[size_t(j)] : 0;
          for (int64_t l = 0; l < k; ++l)
            sum += a.values[pa + size_t(c.transpose_a ? l * m + i : i * k + l)] *
                   b.values[pb + size_t(c.transpose_b ? j * k + l : l * n + j)];
          y.push_back(sum);
        }
    });
    CHECK(int64_t(y.size()) == shape.product());
    check("matmul", text, {a, b, bias}, y);
  }
}

// ---- reorders

TEST("reorder") {
  const char* layouts[] = {"NCHW", "NHWC", "nChw16c", "nChw8c"};
  for (int64_t channels : {3, 16, 17})
    for (const char* from : layouts)
      for (const char* to : layouts) {
        Argument x = random_argument(DType::f32, {2, channels, 5, 3}, 1);
        x.desc = x.desc.with_layout(Layout::parse(from));
        check("reorder", std::string("target=") + to, {x}, x.values);
      }
  for (const char* to : {"OIhw16i16o", "HWIO", "OIhw8i8o", "Ohwi16o"}) {
    const Argument x = random_argument(DType::f32, {17, 20, 3, 3}, 1);
    check("reorder", std::string("target=") + to, {x}, x.values);
  }
  // A window of a larger tensor.
  Argument part = random_argument(DType::f32, {2, 5, 4, 3}, 1);
  part.desc = TensorDesc::strided(DType::f32, part.desc.shape, {1000, 150, 12, 2});
  part.desc.offset = 17;
  for (const char* to : layouts) check("reorder", std::string("target=") + to, {part}, part.values);
  // Halves go to the even neighbour, what does not fit to the nearest end.
  Argument wide = random_argument(DType::f32, {10}, 1);
  wide.values = {0.5, 1.5, 2.5, -0.5, -1.5, 300, -300, 127.4, 1e9, -1e9};
  check("reorder", "target=a dtype=s8", {wide}, {0, 2, 2, -0.0, -2, 127, -128, 127, 127, -128});
  check("reorder", "target=a dtype=u8", {wide}, {0, 2, 2, 0, 0, 255, 0, 127, 255, 0});
  wide.values = {0.5, 1.5, 2.5, -0.5, -1.5, 3e9, -3e9, 127.4, 1e9, -1e9};
  check("reorder", "target=a dtype=s32", {wide}, {0, 2, 2, 0, -2, 2147483647, -2147483648.0, 127, 1e9, -1e9});
  wide.values = {1.00390625, 3.0, 0.1, 1e-30, 1e30, 0, -7, 65504, 2, 4};
  Values rounded = wide.values;
  for (double& value : rounded) value = bfloat16_to_float(float_to_bfloat16(float(value)));
  check("reorder", "target=a dtype=bf16", {wide}, rounded);
}

// Four threads, one kernel, different buffers.
TEST("threads") {
  const TensorDesc desc = TensorDesc::dense(DType::f32, {1, 16, 8, 8});
  CandidateList list;
  provider->list(make_op(*find_schema("abs"), {}, {desc}), *device, list);
  REQUIRE(!list.candidates.empty());
  const auto kernel = list.candidates[0].prepare();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      const Argument x = random_argument(DType::f32, desc.shape, unsigned(t));
      for (int repeat = 0; repeat < 200; ++repeat) {
        const BufferRef in = place(*device, desc, &x.values), out = place(*device, desc, nullptr);
        Buffer *inputs[] = {in.get()}, *outputs[] = {out.get()};
        kernel->run({inputs, outputs, nullptr});
        for (size_t i = 0; i < x.values.size(); ++i)
          CHECK(static_cast<float*>(out->host())[i] == std::fabs(x.values[i]));
      }
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
