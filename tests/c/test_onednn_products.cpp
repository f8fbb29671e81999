// oneDNN's convolutions, transposed ones, products of matrices: every candidate against loops in double precision.
#include "onednn_testing.h"

using namespace pltest;

namespace {

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

void check_conv(const ConvCase& c) {
  const Argument x = random_argument(c.dtype, c.x, 1), weight = random_argument(c.dtype, c.weight, 2, -0.5, 0.5);
  const int64_t outputs = c.weight[0];
  const Argument bias = c.bias ? random_argument(c.dtype, {outputs}, 3) : absent();
  std::string text = "stride=" + list_text(c.stride) + " padding=" + list_text(c.padding) +
                     " dilation=" + list_text(c.dilation) + " groups=" + std::to_string(c.groups);
  const std::string activation = c.activation ? c.activation : "";
  if (c.activation) text += " activation=" + activation;
  Dims shape{c.x[0], outputs}, kernel;
  const size_t s = size_t(c.spatial);
  for (size_t i = 0; i < s; ++i) {
    const int64_t in = c.x[2 + int(i)], k = c.weight[2 + int(i)], pads = c.padding[i] + c.padding[s + i];
    shape.push_back((in + pads - c.dilation[i] * (k - 1) - 1) / c.stride[i] + 1);
    kernel.push_back(k);
  }
  const Argument residual = c.residual ? random_argument(c.dtype, shape, 4) : absent();
  Values y(size_t(shape.product()), 0.0);
  const int64_t in_per_group = c.x[1] / c.groups, out_per_group = outputs / c.groups;
  for_each(shape, [&](const Dims& p, size_t i) {
    const int64_t group = p[1] / out_per_group;
    for_each(kernel, [&](const Dims& k, size_t) {
      Dims q{p[0], 0};
      for (size_t d = 0; d < s; ++d) {
        q.push_back(p[2 + int(d)] * c.stride[d] - c.padding[d] + k[int(d)] * c.dilation[d]);
        if (q[2 + int(d)] < 0 || q[2 + int(d)] >= c.x[2 + int(d)]) return;
      }
      for (int64_t j = 0; j < in_per_group; ++j) {
        q[1] = group * in_per_group + j;
        Dims w{p[1], j};
        for (int64_t v : k) w.push_back(v);
        y[i] += weight.values[at(c.weight, w)] * x.values[at(c.x, q)];
      }
    });
    if (c.bias) y[i] += bias.values[size_t(p[1])];
    if (c.residual) y[i] += residual.values[i];
    if (c.activation) y[i] = activate(activation, y[i], 0.01, 1);
  });
  const Outcome outcome =
      check("conv" + std::to_string(c.spatial) + "d", text, {x, weight, bias, residual}, y, c.at_least);
  if (c.residual && c.dtype == DType::f32) CHECK(outcome.over > 0);  // accumulated into the residual
}

SETUP() { find_onednn(); }

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

// Sums that overflow become what functions make of infinities: positions in turn have such, and others.  Not of NaN, of
// which oneDNN's fused functions may make numbers (the known fault onednn-nan-becomes-number).  With AVX-512 relu of
// -infinity is NaN by oneDNN's plain loops alone, which are of use only where there is nothing else.
void check_special_sums(const std::string& op, Dims x_shape, const Dims& weight_shape, const std::string& attributes) {
  const int64_t terms = weight_shape[1];
  const bool last = op == "linear";  // the dimension that is summed up
  Dims shape = x_shape;
  shape[last ? shape.size() - 1 : 1] = weight_shape[0];
  for (const std::string function : {"relu", "relu6", "leaky_relu", "elu", "sigmoid", "tanh", "hardsigmoid", "clip"}) {
    const double least = function == "relu" && onednn::has_avx512() ? -3 : -3e38;
    const auto kind_at = [&](const Dims& index) {
      int64_t place = index[0];
      for (int d = last ? 1 : 2; d < index.size() - (last ? 1 : 0); ++d) place = 3 * place + index[d];
      const double kinds[] = {least, 3e38, -1, 2};
      return kinds[place % 4];
    };
    Argument x{TensorDesc::dense(DType::f32, x_shape), {}}, weight{TensorDesc::dense(DType::f32, weight_shape), {}};
    weight.values.assign(size_t(weight_shape.product()), 1);
    for_each(x_shape, [&](const Dims& index, size_t) { x.values.push_back(double(float(kind_at(index)))); });
    Values y;
    const double alpha = function == "clip" ? -0.5 : function == "leaky_relu" ? 0.01 : 1;
    for_each(shape, [&](const Dims& index, size_t) {
      y.push_back(activate(function, double(float(kind_at(index) * double(terms))), alpha, 1));
    });
    const std::string bounds = function == "clip" ? " activation_alpha=-0.5 activation_beta=1" : "";
    check(op, attributes + " activation=" + function + bounds, {x, weight, absent(), absent()}, y);
  }
}

TEST("special_sums") {
  for (const int64_t channels : {3, 16, 40})
    check_special_sums("conv2d", {1, channels, 9, 7}, {24, channels, 1, 1}, "");
  check_special_sums("linear", {15, 48}, {24, 48}, "");
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

// What is added takes away all but what the sum's last bits say: a sum that were rounded before would leave nothing.
TEST("conv_transpose_rounds_once") {
  const int64_t channels = 32, size = 6;
  const Argument x = random_argument(DType::bf16, {1, channels, size, size}, 1, 1, 2),
                 w = random_argument(DType::bf16, {channels, 1, 2, 2}, 2, 1, 2);
  const Dims shape{1, channels, 2 * size, 2 * size};
  Argument added{TensorDesc::dense(DType::bf16, shape), Values(size_t(shape.product()))};
  Values y(added.values.size());
  for_each(shape, [&](const Dims& p, size_t i) {
    const double sum = x.values[at(x.desc.shape, {0, p[1], p[2] / 2, p[3] / 2})] *
                       w.values[at(w.desc.shape, {p[1], 0, p[2] % 2, p[3] % 2})];
    added.values[i] = -double(bfloat16_to_float(float_to_bfloat16(float(sum))));
    y[i] = sum + added.values[i];
  });
  check_candidates(*provider, *device, "conv_transpose2d",
                   concat("stride=2 groups=", channels, " post_ops=add(residual)"), {x, w, absent(), added}, y,
                   {1e-2, 1e-6});
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

}  // namespace
