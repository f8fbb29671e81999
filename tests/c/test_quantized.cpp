// Products of integers of 8 bits: every candidate of oneDNN and of the host provider gives exactly what integer
// arithmetic gives, with the largest values there are, which implementations without 32-bit sums do not survive.
#include <cmath>

#include "candidates.h"
#include "check.h"
#include "core/threads.h"
#include "providers/host/conv/conv_candidates.h"

using namespace pltest;

namespace {

std::shared_ptr<Device> device;

// Values at both ends of the range, and between.
Argument extremes(DType dtype, const Dims& shape, unsigned seed) {
  Argument argument =
      dtype == DType::u8 ? random_argument(dtype, shape, seed, 0, 255) : random_argument(dtype, shape, seed, -128, 127);
  for (size_t i = 0; i < argument.values.size(); ++i)
    if (i % 3) argument.values[i] = dtype == DType::u8 ? 255 : argument.values[i] < 0 ? -128 : 127;
  return argument;
}
Argument one(DType dtype, double value) { return {TensorDesc::dense(dtype, Dims{}), {value}}; }
double value_of(const Argument& argument, size_t i, double fallback) {
  if (!argument.desc.present) return fallback;
  return argument.values[argument.values.size() == 1 ? 0 : i];
}

void check(const std::string& name, const std::string& attributes, const std::vector<Argument>& arguments,
           const Values& expected, bool onednn) {
  for (const auto& provider : make_providers()) {
    if (provider->name() != "host" && provider->name() != "onednn") continue;
    const Outcome outcome = check_candidates(*provider, *device, name, attributes, arguments, expected, {0, 0});
    // oneDNN may refuse: without VNNI, or with zero points of weights, but one of a matrix.
    if (outcome.candidates == 0 && provider->name() == "host") {
      std::printf("FAILED %s %s: no candidate of the host\n", name.c_str(), attributes.c_str());
      check_count_failure();
    }
    if (outcome.candidates > 0 && provider->name() == "onednn" && !onednn) {
      std::printf("FAILED %s %s: oneDNN ignores the zero point of weights\n", name.c_str(), attributes.c_str());
      check_count_failure();
    }
  }
}

// round(sum * factor) + zero, saturated; no sum lies at a half, where oneDNN may round the other way.
double requantised(double sum, double factor, double zero, DType dtype) {
  const double value = std::nearbyint(sum * factor) + zero;
  return dtype == DType::u8 ? std::min(std::max(value, 0.0), 255.0) : std::min(std::max(value, -128.0), 127.0);
}

struct Case {
  DType x, weight, y;
  int64_t groups;
  bool each, x_zero, weight_zero, y_zero, bias;
};

void check_conv(const Case& c) {
  const Dims x_shape{2, 32, 7, 8}, w_shape{48, 32 / c.groups, 3, 3};
  const Argument x = extremes(c.x, x_shape, 1), w = extremes(c.weight, w_shape, 2);
  const Argument bias = c.bias ? random_argument(DType::s32, {48}, 3, -9000, 9000) : absent();
  const Argument x_zero = c.x_zero ? one(c.x, 100) : absent(), y_zero = c.y_zero ? one(c.y, 7) : absent();
  const Argument w_zero = !c.weight_zero ? absent()
                          : c.each       ? random_argument(c.weight, {48}, 4, 0, 100)
                                         : one(c.weight, -20);
  const Argument x_scale = one(DType::f32, float(0.013)), y_scale = one(DType::f32, float(61.7));
  const Argument w_scale = c.each ? random_argument(DType::f32, {48}, 5, 0.3, 1.7) : one(DType::f32, float(0.71));
  const Dims y_shape{2, 48, 4, 4};  // padding 1, stride 2
  Values sums, with_bias, scaled;
  for_each(y_shape, [&](const Dims& p, size_t) {
    double sum = 0;
    const int64_t ic = 32 / c.groups, group = p[1] / (48 / c.groups);
    for (int64_t i = 0; i < ic; ++i)
      for (int64_t kh = 0; kh < 3; ++kh)
        for (int64_t kw = 0; kw < 3; ++kw) {
          const int64_t h = p[2] * 2 - 1 + kh, wi = p[3] * 2 - 1 + kw;
          if (h < 0 || h >= 7 || wi < 0 || wi >= 8) continue;
          sum += (x.values[at(x_shape, {p[0], group * ic + i, h, wi})] - value_of(x_zero, 0, 0)) *
                 (w.values[at(w_shape, {p[1], i, kh, kw})] - value_of(w_zero, size_t(p[1]), 0));
        }
    sums.push_back(sum);
    const double factor = x_scale.values[0] * value_of(w_scale, size_t(p[1]), 1) / y_scale.values[0];
    scaled.push_back(requantised(sum + value_of(bias, size_t(p[1]), 0), factor, value_of(y_zero, 0, 0), c.y));
  });
  const std::string window = concat("stride=2 padding=1 groups=", c.groups);
  check("qlinear_conv", concat(window, " dtype=", name_of(c.y)),
        {x, w, x_scale, w_scale, y_scale, x_zero, w_zero, y_zero, bias}, scaled, !c.weight_zero);
  check("conv_integer", window, {x, w, x_zero, w_zero}, sums, !c.weight_zero);
}

void check_matmul(const Case& c, const Dims& a_shape, const Dims& b_shape) {
  const Argument a = extremes(c.x, a_shape, 11), b = extremes(c.weight, b_shape, 12);
  const int64_t columns = b_shape[b_shape.size() - 1], depth = a_shape[a_shape.size() - 1];
  const Argument a_zero = c.x_zero ? one(c.x, 90) : absent(), y_zero = c.y_zero ? one(c.y, 7) : absent();
  const Argument b_zero = !c.weight_zero ? absent()
                          : c.each       ? random_argument(c.weight, {columns}, 14, 0, 100)
                                         : one(c.weight, 3);
  const Argument a_scale = one(DType::f32, float(0.013)), y_scale = one(DType::f32, float(61.7));
  const Argument b_scale = c.each ? random_argument(DType::f32, {columns}, 15, 0.3, 1.7) : one(DType::f32, float(0.71));
  const bool onednn = !c.weight_zero || (!c.each && c.weight == DType::s8);
  const Op op = make_op(*find_schema("matmul_integer"), {}, {a.desc, b.desc});
  Values sums, scaled;
  for_each(op.out().shape, [&](const Dims& p, size_t) {
    // The element of a stack at these leading indices, as broadcasting repeats it.
    const auto element = [&](const Dims& shape, int64_t row, int64_t column) {
      Dims index;
      for (int d = 0; d + 2 < shape.size(); ++d) index.push_back(shape[d] == 1 ? 0 : p[p.size() - shape.size() + d]);
      index.push_back(row);
      index.push_back(column);
      return at(shape, index);
    };
    const int64_t row = p[p.size() - 2], column = p[p.size() - 1];
    double sum = 0;
    for (int64_t k = 0; k < depth; ++k)
      sum += (a.values[element(a_shape, row, k)] - value_of(a_zero, 0, 0)) *
             (b.values[element(b_shape, k, column)] - value_of(b_zero, size_t(column), 0));
    sums.push_back(sum);
    const double factor = a_scale.values[0] * value_of(b_scale, size_t(column), 1) / y_scale.values[0];
    scaled.push_back(requantised(sum, factor, value_of(y_zero, 0, 0), c.y));
  });
  check("qlinear_matmul", concat("dtype=", name_of(c.y)), {a, b, a_scale, b_scale, y_scale, a_zero, b_zero, y_zero},
        scaled, onednn);
  check("matmul_integer", "", {a, b, a_zero, b_zero}, sums, onednn);
}

// What a product is rounded to, the numbers that this stands for plus those of another tensor, a function, rounded.
TEST("addend") {
  device = make_cpu_device();
  const Dims x_shape{2, 24, 6, 7};
  for (DType dtype : {DType::u8, DType::s8})
    for (int64_t kernel : {1, 3})
      for (int64_t outputs : {16, 21, 48})
        for (bool zero : {false, true}) {
          const Dims w_shape{outputs, 24, kernel, kernel}, y_shape{2, outputs, 6, 7};
          const Argument x = extremes(dtype, x_shape, 31), w = random_argument(DType::s8, w_shape, 32, -30, 30);
          const Argument q = extremes(dtype, y_shape, 33);
          const Argument x_scale = one(DType::f32, float(0.013)), w_scale = one(DType::f32, float(0.021));
          const Argument y_scale = one(DType::f32, float(0.531)), q_scale = one(DType::f32, float(0.273));
          const double q_zero = zero ? 17 : 0, low = dtype == DType::u8 ? 0 : -128;
          Values expected;
          for_each(y_shape, [&](const Dims& p, size_t i) {
            double sum = 0;
            for (int64_t c = 0; c < 24; ++c)
              for (int64_t kh = 0; kh < kernel; ++kh)
                for (int64_t kw = 0; kw < kernel; ++kw) {
                  const int64_t h = p[2] + kh - kernel / 2, column = p[3] + kw - kernel / 2;
                  if (h < 0 || h >= 6 || column < 0 || column >= 7) continue;
                  sum += x.values[at(x_shape, {p[0], c, h, column})] * w.values[at(w_shape, {p[1], c, kh, kw})];
                }
            const double real = sum * x_scale.values[0] * w_scale.values[0];
            const double rounded = std::min(std::max(std::nearbyint(real * 2), low), low + 255) * 0.5;
            const double total = std::max(rounded + (q.values[i] - q_zero) * q_scale.values[0], 0.0);
            expected.push_back(requantised(total, 1 / y_scale.values[0], 3, dtype));
          });
          check("qlinear_conv",
                concat("padding=", kernel / 2, " post_ops=\"scale(2), round, clip(", low, ", ", low + 255,
                       "), scale(0.5), add(addend), relu\""),
                {x, w, x_scale, w_scale, y_scale, absent(), absent(), one(dtype, 3), absent(), q, q_scale,
                 zero ? one(dtype, q_zero) : absent()},
                expected, true);
        }
}

// Both: some steps of four terms have weights of one sign that reach beyond 128, some not.  Neighbours: of two that lie
// side by side all do, with one of the next two none.
enum class Weights { both, largest, limit, neighbours };

// A convolution of integers by its definition; x outside the image counts as its zero point.  `below`: rows of padding
// there and not above.
void check_geometry(const Dims& x_shape, const Dims& w_shape, int64_t stride, int64_t padding, int64_t dilation,
                    int64_t groups, int64_t below, DType x_dtype, Weights weights) {
  const bool saturated = weights == Weights::largest || weights == Weights::limit;
  Argument x = extremes(x_dtype, x_shape, 21), w = random_argument(DType::s8, w_shape, 22, -100, 100);
  for (size_t i = 0; i < w.values.size(); ++i)  // in a third of the columns
    if (i / size_t(w_shape[1]) % 3) w.values[i] = std::nearbyint(w.values[i] / 2);
  if (weights == Weights::neighbours) {
    const size_t taps = size_t(w_shape.product() / w_shape[0] / w_shape[1]), inputs = size_t(w_shape[1]);
    for (size_t i = 0; i < w.values.size(); ++i)
      w.values[i] = (i / taps % inputs % 4 < 2 ? 1 : -1) * double(65 + i % 60);
  }
  if (saturated) {
    // Every product the largest one there is; or every sum of two, of those that 16 bits hold.
    for (double& value : x.values) value = x_dtype == DType::u8 ? 255 : -128;
    for (size_t i = 0; i < w.values.size(); ++i) w.values[i] = weights == Weights::largest ? -128 : i % 5 ? 64 : -64;
  }
  const double zero = x_dtype == DType::u8 ? 3 : -128;
  const std::string sides =
      below ? concat('[', padding, ',', padding, ',', padding + below, ',', padding, ']') : concat(padding);
  const std::string window = concat("stride=", stride, " padding=", sides, " dilation=", dilation, " groups=", groups);
  const Argument x_zero = saturated ? absent() : one(x_dtype, zero);
  const Op op = make_op(*find_schema("conv_integer"), Attributes::parse(window), {x.desc, w.desc, x_zero.desc});
  const bool flat = x_shape.size() == 3;
  const int64_t height = flat ? 1 : x_shape[2], width = x_shape[x_shape.size() - 1];
  const int64_t kernel_h = flat ? 1 : w_shape[2], kernel_w = w_shape[w_shape.size() - 1];
  const int64_t ic = w_shape[1], each = w_shape[0] / groups;
  Values sums;
  for_each(op.out().shape, [&](const Dims& p, size_t) {
    double sum = 0;
    for (int64_t kh = 0; kh < kernel_h; ++kh)
      for (int64_t kw = 0; kw < kernel_w; ++kw) {
        const int64_t h = flat ? 0 : p[2] * stride - padding + kh * dilation;
        const int64_t column = p[p.size() - 1] * stride - padding + kw * dilation;
        if (h < 0 || h >= height || column < 0 || column >= width) continue;
        for (int64_t i = 0; i < ic; ++i) {
          const int64_t channel = p[1] / each * ic + i;
          sum += (x.values[size_t(((p[0] * x_shape[1] + channel) * height + h) * width + column)] -
                  (saturated ? 0 : zero)) *
                 w.values[size_t(((p[1] * ic + i) * kernel_h + kh) * kernel_w + kw)];
        }
      }
    sums.push_back(sum);
  });
  check("conv_integer", window, {x, w, x_zero}, sums, true);
}

TEST("geometry") {
  device = make_cpu_device();
  host::every_instruction_set() = true;
  for (int threads : {2, 1, 5}) {
    use_threads(threads);
    for (DType dtype : {DType::u8, DType::s8})
      for (Weights weights : {Weights::both, Weights::largest, Weights::limit, Weights::neighbours}) {
        const auto conv = [&](const Dims& x, const Dims& w, int64_t stride, int64_t padding, int64_t dilation = 1,
                              int64_t groups = 1, int64_t below = 0) {
          check_geometry(x, w, stride, padding, dilation, groups, below, dtype, weights);
        };
        // Products: pixels and columns that leave tails, odd channels, strides, padding of a 1x1.
        for (int64_t outputs : {1, 7, 8, 17, 32, 50}) conv({1, 13, 5, 7}, {outputs, 13, 1, 1}, 1, 0);
        for (int64_t inputs : {1, 2, 3, 64}) conv({3, inputs, 4, 5}, {24, inputs, 1, 1}, 1, 0);
        conv({2, 24, 9, 8}, {20, 24, 1, 1}, 2, 0);
        for (int64_t inputs : {16, 20, 36, 130}) conv({1, inputs, 5, 6}, {19, inputs, 1, 1}, 1, 0);
        conv({1, 9, 5, 4}, {16, 9, 1, 1}, 3, 2);
        conv({1, 40, 31, 33}, {33, 40, 1, 1}, 1, 0);
        conv({1, 12, 9, 1}, {16, 12, 1, 1}, 1, 0, 1, 1, 5);  // padded at one end alone
        // Windows.
        conv({1, 3, 19, 18}, {17, 3, 7, 7}, 2, 3);
        conv({2, 5, 7, 9}, {9, 5, 3, 2}, 1, 1);
        conv({1, 5, 9, 9}, {12, 5, 3, 3}, 2, 2, 2);
        conv({1, 3, 3, 2}, {8, 3, 3, 3}, 1, 3);
        conv({1, 30, 23, 40}, {40, 30, 5, 3}, 1, 1);
        conv({2, 6, 21}, {10, 6, 5}, 2, 2);
        // Groups, and one filter for each channel.
        conv({1, 24, 6, 7}, {36, 8, 3, 3}, 1, 1, 1, 3);
        conv({2, 15, 7, 5}, {10, 3, 1, 1}, 2, 0, 1, 5);
        for (int64_t channels : {2, 16, 19, 70}) conv({2, channels, 9, 7}, {channels, 1, 3, 3}, 1, 1, 1, channels);
        conv({1, 33, 11, 12}, {33, 1, 5, 4}, 2, 2, 1, 33);
        conv({1, 18, 9, 9}, {18, 1, 3, 3}, 1, 2, 2, 18);
        // Winograd's algorithm: tiles that are cut off, odd channels, several images and blocks.
        for (int64_t padding : {0, 1, 2}) conv({2, 17, 9, 6}, {20, 17, 3, 3}, 1, padding);
        conv({1, 48, 20, 21}, {33, 48, 3, 3}, 1, 1);
        conv({1, 20, 3, 3}, {64, 20, 3, 3}, 1, 0);
        conv({1, 200, 14, 14}, {40, 200, 3, 3}, 1, 1);
      }
  }
  host::every_instruction_set() = false;
}

TEST("all") {
  device = make_cpu_device();
  const DType u8 = DType::u8, s8 = DType::s8;
  const Case cases[] = {
      {u8, s8, u8, 1, false, false, false, false, false}, {u8, s8, s8, 1, true, true, false, true, true},
      {s8, s8, s8, 1, true, true, false, true, true},     {s8, s8, u8, 1, false, false, false, true, false},
      {u8, s8, u8, 16, true, true, false, true, true},    {u8, s8, u8, 2, true, false, false, true, true},
      {u8, s8, u8, 1, false, true, true, true, true},     {u8, u8, s8, 2, true, true, true, true, true},
  };
  for (const Case& c : cases) {
    check_conv(c);
    check_matmul(c, {37, 50}, {50, 33});
    check_matmul(c, {2, 3, 20, 64}, {64, 5});
    check_matmul(c, {2, 1, 5, 17}, {3, 17, 16});
  }
}

}  // namespace
