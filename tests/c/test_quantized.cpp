// Products of integers of 8 bits: every candidate of oneDNN and of the host provider gives exactly what integer
// arithmetic gives, with the largest values there are, which implementations without 32-bit sums do not survive.
#include <cmath>

#include "candidates.h"
#include "check.h"

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
