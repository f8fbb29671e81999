// The table of known faults: each entry is complete, and has a test here that its effect does not come out.
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <regex>
#include <string>
#include <thread>

#include "candidates.h"
#include "check.h"
#include "onednn_faults_by_name.h"
#include "providers/known_faults.h"
#include "providers/onednn/engine.h"
#include "providers/onednn/faults.h"
#include "providers/opencl/runtime/calls_in_turn.h"
#include "providers/opencl/runtime/faults.h"
#include "providers/opencl/runtime/loader.h"
#include "providers/opencl/runtime/opencl_device.h"

using namespace pl;
using namespace pltest::by_name;

namespace {

struct Fixture {
  std::shared_ptr<Device> device = make_cpu_device();
  std::unique_ptr<Provider> onednn;
  Fixture() {
    for (auto& provider : make_providers())
      if (provider->name() == "onednn") onednn = std::move(provider);
  }
};

// conv_transpose of a rank, in double precision.
pltest::Values transposed(const pltest::Argument& x, const pltest::Argument& w, const pltest::Argument& bias,
                          const Dims& out, int64_t stride, int64_t padding, bool relu) {
  pltest::Values y(size_t(out.product()), 0);
  const int spatial = out.size() - 2;
  const Dims taps(w.desc.shape.begin() + 2, size_t(spatial)), places(x.desc.shape.begin() + 2, size_t(spatial));
  const int64_t ic = x.desc.shape[1], oc = out[1], area = places.product(), window = taps.product();
  for (int64_t n = 0; n < out[0]; ++n)
    pltest::for_each(places, [&](const Dims& place, size_t p) {
      pltest::for_each(taps, [&](const Dims& tap, size_t t) {
        Dims to{n, 0};
        for (int d = 0; d < spatial; ++d) {
          to.push_back(place[d] * stride + tap[d] - padding);
          if (to[d + 2] < 0 || to[d + 2] >= out[d + 2]) return;
        }
        const size_t base = pltest::at(out, to), step = size_t(out.product() / out[0] / oc);
        for (int64_t i = 0; i < ic; ++i) {
          const double value = x.values[size_t((n * ic + i) * area) + p];
          for (int64_t o = 0; o < oc; ++o)
            y[base + size_t(o) * step] += value * w.values[size_t((i * oc + o) * window) + t];
        }
      });
    });
  pltest::for_each(out, [&](const Dims& index, size_t i) {
    if (bias.desc.present) y[i] += bias.values[size_t(index[1])];
    if (relu) y[i] = std::max(y[i], 0.0);
  });
  return y;
}

// The sizes at which oneDNN walks one row of taps at a time, and others; with and without bias and activation, in the
// types that have such implementations.
void check_strided_post_ops() {
  struct Case {
    int spatial;
    int64_t ic, oc, size, kernel, stride, padding;
  };
  Fixture f;
  for (const Case& c : {Case{2, 1024, 16, 4, 4, 2, 1}, Case{2, 512, 24, 5, 4, 2, 1}, Case{2, 1024, 16, 3, 2, 2, 0},
                        Case{2, 768, 17, 4, 5, 3, 1}, Case{3, 512, 16, 2, 4, 2, 1}, Case{2, 1024, 64, 8, 4, 4, 0}})
    for (DType dtype : {DType::f32, DType::bf16, DType::f16})
      for (bool biased : {false, true})
        for (bool relu : {false, true}) {
          if (dtype != DType::f32 && !(biased && relu)) continue;  // of the other types one case
          Dims x_shape{1, c.ic}, w_shape{c.ic, c.oc};
          for (int d = 0; d < c.spatial; ++d) x_shape.push_back(c.size), w_shape.push_back(c.kernel);
          const auto x = pltest::random_argument(dtype, x_shape, 1, -1, 1);
          const auto w = pltest::random_argument(dtype, w_shape, 2, -0.1, 0.1);
          const auto bias = biased ? pltest::random_argument(dtype, {c.oc}, 3, 1, 2) : pltest::absent();
          const std::string name = "conv_transpose" + std::to_string(c.spatial) + "d";
          const std::string attributes =
              concat("stride=", c.stride, " padding=", c.padding, relu ? " activation=relu" : "");
          const Op op = make_op(*find_schema(name), Attributes::parse(attributes), {x.desc, w.desc, bias.desc});
          const auto expected = transposed(x, w, bias, op.out().shape, c.stride, c.padding, relu);
          pltest::Tolerance tolerance = pltest::tolerance_of(dtype);
          if (dtype == DType::f32) tolerance.absolute = 1e-4;  // sums of some thousand terms
          if (dtype != DType::f32) tolerance.absolute *= 4;
          const auto outcome =
              pltest::check_candidates(*f.onednn, *f.device, name, attributes, {x, w, bias}, expected, tolerance);
          bool apart = false;
          const auto has = [](const std::string& key, const char* text) { return key.find(text) != std::string::npos; };
          for (const std::string& key : outcome.keys) {
            apart = apart || has(key, "then_post_ops:brg_conv");
            // Not a fault: those would loop over an activation.
            if (has(key, "conv:any+") && !has(key, "+ref")) CHECK(has(key, "then_post_ops:") == relu);
          }
          const bool strikes = dtype == DType::f32 && (biased || relu) && c.stride > 1;
          if (apart) {
            REQUIRE(strikes);
            CHECK(onednn::has(onednn::kStridedPostOps));
          }
        }
  // By name, whatever this processor has.
  const auto op_of = [](const char* attributes, const Dims& kernel) {
    const TensorDesc x = TensorDesc::dense(DType::f32, {1, 8, 6, 6});
    return make_op(*find_schema("conv_transpose2d"), Attributes::parse(attributes),
                   {x, TensorDesc::dense(DType::f32, {8, 8, kernel[0], kernel[1]}), TensorDesc()});
  };
  const char* strided = "brg_conv:avx2+brgconv_strided:avx2";
  const bool here = onednn::has(onednn::kStridedPostOps);
  CHECK((onednn::fault_of(op_of("stride=2", {4, 4}), strided, true) != nullptr) == here);
  CHECK(!onednn::fault_of(op_of("stride=2", {4, 4}), strided, false));
  CHECK((onednn::fault_of(op_of("stride=2", {2, 4}), strided, true) != nullptr) == here);
  CHECK(!onednn::fault_of(op_of("stride=2", {1, 4}), strided, true));
  CHECK(!onednn::fault_of(op_of("stride=2", {2, 2}), strided, true));
  CHECK((onednn::fault_of(op_of("stride=[2,1]", {2, 2}), strided, true) != nullptr) == here);
  CHECK(!onednn::fault_of(op_of("stride=2 dilation=2", {4, 4}), strided, true));
  CHECK(!onednn::fault_of(op_of("stride=[1,2]", {4, 4}), strided, true));
  CHECK(!onednn::fault_of(op_of("stride=2", {4, 4}), "conv:any+brgconv_strided:avx512_core", true));
}

void check_odd_channels() {
  Fixture f;
  const auto x = pltest::random_argument(DType::bf16, {1, 255, 6, 2, 3}, 1, -1, 1);
  const auto w = pltest::random_argument(DType::bf16, {255, 2, 7, 7, 7}, 2, -0.1, 0.1);
  const char* attributes = "stride=1 padding=3";
  const Op op =
      make_op(*find_schema("conv_transpose3d"), Attributes::parse(attributes), {x.desc, w.desc, TensorDesc()});
  const auto y = transposed(x, w, pltest::absent(), op.out().shape, 1, 3, false);
  pltest::check_candidates(*f.onednn, *f.device, "conv_transpose3d", attributes, {x, w, pltest::absent()}, y,
                           {3e-2, 6e-2});
}

// The same forward: conv3d without padding, whose result is one position.
void check_odd_channels_forward() {
  Fixture f;
  const auto x = pltest::random_argument(DType::bf16, {1, 533, 3, 3, 3}, 1, -1, 1);
  const auto w = pltest::random_argument(DType::bf16, {24, 533, 3, 3, 3}, 2, -0.1, 0.1);
  pltest::Values y(24, 0);
  const size_t terms = x.values.size();
  for (size_t o = 0; o < 24; ++o)
    for (size_t k = 0; k < terms; ++k) y[o] += x.values[k] * w.values[o * terms + k];
  pltest::check_candidates(*f.onednn, *f.device, "conv3d", "", {x, w, pltest::absent()}, y, {3e-2, 6e-2});
}

// conv_integer with zero points, of channels that blocks do not divide.
// In one dimension: every result, the ones whose windows reach the last pixel among them.
void check_odd_channels_of_a_line() {
  Fixture f;
  for (int64_t ic : {1023, 2047}) {
    const auto x = pltest::random_argument(DType::bf16, {2, ic, 27}, 1, -1, 1);
    const auto w = pltest::random_argument(DType::bf16, {40, ic, 4}, 2, -0.1, 0.1);
    pltest::Values y(2 * 40 * 26, 0);
    for (int64_t n = 0; n < 2; ++n)
      for (int64_t o = 0; o < 40; ++o)
        for (int64_t p = 0; p < 26; ++p)
          for (int64_t k = std::max<int64_t>(0, 1 - p); k < std::min<int64_t>(4, 28 - p); ++k)
            for (int64_t i = 0; i < ic; ++i)
              y[size_t((n * 40 + o) * 26 + p)] +=
                  x.values[size_t((n * ic + i) * 27 + p + k - 1)] * w.values[size_t((o * ic + i) * 4 + k)];
    pltest::check_candidates(*f.onednn, *f.device, "conv1d", "padding=1", {x, w, pltest::absent()}, y, {3e-2, 2e-1});
  }
}
void check_padded_zero_point() {
  Fixture f;
  const int64_t ic = 48, oc = 112, taps = 7, size = 46;
  for (int64_t begin : {3, 5}) {
    const int64_t end = 5, out = size + begin + end - taps + 1;
    const auto x = pltest::random_argument(DType::u8, {1, ic, size}, 1, 0, 255);
    const auto w = pltest::random_argument(DType::s8, {oc, ic, taps}, 2, -127, 127);
    const auto zero = pltest::random_argument(DType::u8, {}, 3, 90, 200);
    pltest::Values y(size_t(oc * out), 0);
    for (int64_t o = 0; o < oc; ++o)
      for (int64_t p = 0; p < out; ++p)
        for (int64_t k = 0; k < taps; ++k)
          for (int64_t i = 0; i < ic; ++i) {
            const int64_t at = p + k - begin;
            if (at >= 0 && at < size)
              y[size_t(o * out + p)] +=
                  (x.values[size_t(i * size + at)] - zero.values[0]) * w.values[size_t((o * ic + i) * taps + k)];
          }
    pltest::check_candidates(*f.onednn, *f.device, "conv_integer", concat("padding=[", begin, ",", end, "]").c_str(),
                             {x, w, zero, pltest::absent()}, y, {0, 0});
  }
}

// A convolution of x, with a zero point, by its definition.
void check_zero_point(Fixture& f, const Dims& x_shape, const Dims& w_shape, int64_t height, int64_t width,
                      int64_t dilation) {
  const auto x = pltest::random_argument(DType::u8, x_shape, 1, 0, 255);
  const auto w = pltest::random_argument(DType::s8, w_shape, 2, -127, 127);
  const auto zero = pltest::random_argument(DType::u8, {}, 3, 90, 200);
  const std::string window = concat("padding=[", height, ",", width, "] dilation=", dilation);
  const Op op = make_op(*find_schema("conv_integer"), Attributes::parse(window), {x.desc, w.desc, zero.desc});
  pltest::Values y;
  pltest::for_each(op.out().shape, [&](const Dims& p, size_t) {
    double sum = 0;
    for (int64_t i = 0; i < x_shape[1]; ++i)
      for (int64_t kh = 0; kh < w_shape[2]; ++kh)
        for (int64_t kw = 0; kw < w_shape[3]; ++kw) {
          const int64_t h = p[2] + kh * dilation - height, column = p[3] + kw * dilation - width;
          if (h < 0 || h >= x_shape[2] || column < 0 || column >= x_shape[3]) continue;
          sum += (x.values[pltest::at(x_shape, {0, i, h, column})] - zero.values[0]) *
                 w.values[pltest::at(w_shape, {p[1], i, kh, kw})];
        }
    y.push_back(sum);
  });
  pltest::check_candidates(*f.onednn, *f.device, "conv_integer", window.c_str(), {x, w, zero, pltest::absent()}, y,
                           {0, 0});
}

// Two that ended the process, and two that were wrong.
void check_amx_padding() {
  Fixture f;
  for (int64_t size : {3, 9}) check_zero_point(f, {1, 320, size, 3}, {128, 320, 7, 4}, 6, 2, 1);
  check_zero_point(f, {1, 32, 7, 7}, {64, 32, 5, 5}, 4, 4, 2);
  check_zero_point(f, {1, 32, 9, 29}, {64, 32, 5, 5}, 6, 6, 3);
}

// A tap of each row in the padding before x, and one in that behind it.
void check_idle_zero_point() {
  Fixture f;
  check_zero_point(f, {1, 40, 4, 2}, {512, 40, 2, 2}, 1, 1, 3);
}

void check_far_edge_zero_point() {
  Fixture f;
  check_zero_point(f, {1, 16, 6, 6}, {64, 16, 1, 9}, 0, 4, 1);
}

void check_product_zero_point() {
  Fixture f;
  for (const auto& [m, k, n] : {std::array<int64_t, 3>{1, 128, 2}, {128, 243, 3584}}) {
    const auto a = pltest::random_argument(DType::u8, {m, k}, 1, 0, 255);
    const auto b = pltest::random_argument(DType::s8, {k, n}, 2, -127, 127);
    const auto a_zero = pltest::random_argument(DType::u8, {}, 3, 90, 200);
    const auto b_zero = pltest::random_argument(DType::s8, {}, 4, -20, 20);
    pltest::Values y;
    for (int64_t row = 0; row < m; ++row)
      for (int64_t column = 0; column < n; ++column) {
        double sum = 0;
        for (int64_t i = 0; i < k; ++i)
          sum += (a.values[size_t(row * k + i)] - a_zero.values[0]) *
                 (b.values[size_t(i * n + column)] - b_zero.values[0]);
        y.push_back(sum);
      }
    pltest::check_candidates(*f.onednn, *f.device, "matmul_integer", "", {a, b, a_zero, b_zero}, y, {0, 0});
  }
}

void check_gemm_zero_point() {
  Fixture f;
  for (int64_t oc : {53, 129, 128}) {
    const auto x = pltest::random_argument(DType::u8, {1, 128, 10, 15}, 1, 0, 255);
    const auto w = pltest::random_argument(DType::s8, {oc, 128, 1, 1}, 2, -127, 127);
    const auto zero = pltest::random_argument(DType::u8, {}, 3, 90, 200);
    pltest::Values y(size_t(oc) * 150, 0);
    for (size_t o = 0; o < size_t(oc); ++o)
      for (size_t p = 0; p < 150; ++p)
        for (size_t i = 0; i < 128; ++i)
          y[o * 150 + p] += (x.values[i * 150 + p] - zero.values[0]) * w.values[o * 128 + i];
    pltest::check_candidates(*f.onednn, *f.device, "conv_integer", "", {x, w, zero, pltest::absent()}, y, {0, 0});
  }
}

// The largest value of a row stands far above the others, so that its result is small.
void check_logarithm() {
  Fixture f;
  pltest::Argument x = pltest::random_argument(DType::f32, {64, 48}, 1, -3, 3);
  pltest::Values y;
  for (size_t row = 0; row < 64; ++row) {
    x.values[row * 48 + row % 48] = 6;
    double sum = 0;
    for (size_t i = 0; i < 48; ++i) sum += std::exp(x.values[row * 48 + i]);
    for (size_t i = 0; i < 48; ++i) y.push_back(x.values[row * 48 + i] - std::log(sum));
  }
  pltest::check_candidates(*f.onednn, *f.device, "log_softmax", "dim=1", {x}, y, {2e-7, 1.5e-6});
  const pltest::Argument near_one = pltest::random_argument(DType::f32, {1, 64, 8, 8}, 2, 0.9, 1.1);
  y.clear();
  for (double value : near_one.values) y.push_back(std::log(value));
  pltest::check_candidates(*f.onednn, *f.device, "log", "", {near_one}, y, {1e-6, 2e-7});
}

// Taps before and behind an input of two pixels, that one window reads.
void check_taps_on_padding() {
  Fixture f;
  const int64_t n = 3, ic = 65, oc = 48, size = 2, taps = 7, begin = 3;
  const auto x = pltest::random_argument(DType::bf16, {n, ic, 1, size}, 1, -1, 1);
  const auto grad = pltest::random_argument(DType::bf16, {n, oc, 1, 1}, 2, -1, 1);
  pltest::Values y(size_t(oc * ic * taps), 0);
  for (int64_t o = 0; o < oc; ++o)
    for (int64_t i = 0; i < ic; ++i)
      for (int64_t k = begin; k < begin + size; ++k)
        for (int64_t image = 0; image < n; ++image)
          y[size_t((o * ic + i) * taps + k)] +=
              x.values[size_t((image * ic + i) * size + k - begin)] * grad.values[size_t(image * oc + o)];
  pltest::check_candidates(*f.onednn, *f.device, "conv2d_backward_weights", "kernel_size=[1,7] stride=3 padding=[0,3]",
                           {x, grad}, y, {3e-2, 3e-2});
}

void check_few_channels_apart() {
  Fixture f;
  const int64_t n = 2, ic = 3, oc = 64, size = 112, half = size / 2;
  for (DType dtype : {DType::f32, DType::bf16}) {
    const auto x = pltest::random_argument(dtype, {n, ic, size, size}, 1, -1, 1);
    const auto grad = pltest::random_argument(dtype, {n, oc, half, half}, 2, -1, 1);
    pltest::Values y(size_t(oc * ic), 0);
    for (int64_t image = 0; image < n; ++image)
      for (int64_t o = 0; o < oc; ++o)
        for (int64_t i = 0; i < ic; ++i)
          for (int64_t at = 0; at < half * half; ++at)
            y[size_t(o * ic + i)] +=
                x.values[size_t(((image * ic + i) * size + at / half * 2) * size + at % half * 2)] *
                grad.values[size_t((image * oc + o) * half * half + at)];
    const double tolerance = dtype == DType::f32 ? 1e-4 : 3e-1;
    pltest::check_candidates(*f.onednn, *f.device, "conv2d_backward_weights", "kernel_size=1 stride=2", {x, grad}, y,
                             {tolerance, tolerance});
  }
}

void check_softplus() {
  Fixture f;
  const auto a = pltest::random_argument(DType::f32, {1, 32, 8, 8}, 1, -12, -6);
  const auto b = pltest::random_argument(DType::f32, {1, 32, 8, 8}, 2, 0.9, 1.1);
  // Of eight channels, whose sums are as small.
  const auto x = pltest::random_argument(DType::f32, {5, 8}, 3, 0.9, 1.1);
  const auto image = pltest::random_argument(DType::f32, {1, 8, 5, 1}, 3, 0.9, 1.1);
  const auto w = pltest::random_argument(DType::f32, {16, 8}, 4, -1.5, -0.75);
  const auto filter = pltest::random_argument(DType::f32, {16, 8, 1, 1}, 4, -1.5, -0.75);
  const auto turned = pltest::random_argument(DType::f32, {8, 16}, 5, -1.5, -0.75);
  pltest::Values products, of_linear, of_matmul, of_conv(80);
  for (size_t i = 0; i < a.values.size(); ++i) products.push_back(a.values[i] * b.values[i]);
  for (size_t n = 0; n < 5; ++n)
    for (size_t m = 0; m < 16; ++m) {
      double linear = 0, matmul = 0;
      for (size_t k = 0; k < 8; ++k) {
        linear += x.values[8 * n + k] * w.values[8 * m + k];
        matmul += x.values[8 * n + k] * turned.values[16 * k + m];
        of_conv[5 * m + n] += image.values[5 * k + n] * filter.values[8 * m + k];
      }
      of_linear.push_back(linear);
      of_matmul.push_back(matmul);
    }
  for (const std::string name : {"softplus", "mish"}) {
    const auto check = [&](const char* op, const std::vector<pltest::Argument>& arguments, pltest::Values sums,
                           const std::string& attributes) {
      for (double& y : sums) {
        const double plus = std::log1p(std::exp(y));
        y = name == "softplus" ? plus : y * std::tanh(plus);
      }
      pltest::check_candidates(*f.onednn, *f.device, op, attributes, arguments, sums, {1e-5, 1e-10});
    };
    const std::string step = "activation=" + name;
    check("mul", {a, b}, products, step);
    check("linear", {x, w}, of_linear, step);
    check("matmul", {x, turned}, of_matmul, step);
    check("conv2d", {image, filter}, of_conv, step);
    check(name.c_str(), {a}, a.values, "");
  }
}

void check_nan_stays() {
  Fixture f;
  for (const char* name : {"relu", "relu6", "exp", "tanh", "gelu", "hardswish"}) {
    pltest::Argument x = pltest::random_argument(DType::f32, {1, 16, 4, 5}, 5);
    x.values[7] = std::numeric_limits<double>::quiet_NaN();
    const Op op = make_op(*find_schema(name), {}, {x.desc});
    CandidateList list;
    f.onednn->list(op, *f.device, list);
    for (const Candidate& candidate : list.candidates) {
      BufferRef in = pltest::place(*f.device, candidate.inputs[0], &x.values);
      BufferRef out = pltest::place(*f.device, candidate.outputs[0], nullptr);
      std::memset(out->host(), 0, candidate.outputs[0].size_bytes());
      BufferRef workspace = candidate.workspace_bytes ? f.device->allocate(candidate.workspace_bytes) : nullptr;
      Buffer *inputs[] = {in.get()}, *outputs[] = {out.get()};
      candidate.prepare()->run({inputs, outputs, workspace.get()});
      CHECK(std::isnan(static_cast<float*>(out->host())[candidate.outputs[0].offset_of({0, 0, 1, 2})]));
    }
  }
}

// Every implementation of a product, prepared in one process one after the other, twice: each is what it was asked for.
void check_primitive_cache() {
  Fixture f;
  const auto x = pltest::random_argument(DType::f32, {3, 1, 40}, 1),
             w = pltest::random_argument(DType::f32, {24, 40}, 2);
  pltest::Values y(3 * 24, 0);
  for (size_t i = 0; i < 3; ++i)
    for (size_t o = 0; o < 24; ++o)
      for (size_t k = 0; k < 40; ++k) y[i * 24 + o] += x.values[i * 40 + k] * w.values[o * 40 + k];
  for (int pass = 0; pass < 2; ++pass)
    CHECK(pltest::check_candidates(*f.onednn, *f.device, "linear", "", {x, w, pltest::absent()}, y, {1e-4, 1e-4})
              .candidates > 1);
}

// Threads that use the queue and end, contexts that come and go: nothing waits for ever (the test has a time limit).
void check_queue_release() {
  for (int pass = 0; pass < 2; ++pass)
    for (auto& provider : make_providers())
      for (auto& device : provider->devices()) {
        std::thread([device = device.get()] {
          const BufferRef buffer = device->allocate(4096);
          device->fill_zero(*buffer, 0, 4096);
          device->synchronize();
        }).join();
      }
}

// That calls take turns is test_calls_in_turn's; here, whose do.
void check_several_threads() {
  const auto& platforms = opencl::libraries().platforms;
  for (const opencl::Platform& platform : platforms) {
    const bool nvidia = platform.name.find("NVIDIA") == 0;
    CHECK((platform.cl == opencl::calls_in_turn(*platform.cl)) == nvidia);
  }
}

void check_no_sub_buffers() {
  for (auto& provider : make_providers())
    for (auto& device : provider->devices()) {
      if (device->traits().host_addressable) continue;
      const BufferRef buffer = device->allocate(4096);
      bool refused = false;
      try {
        device->part(buffer, 0, 64);
      } catch (const Error&) {
        refused = true;
      }
      CHECK(refused);
    }
}

void check_no_matrix_units_on_processors() {
  const TensorDesc matrix = TensorDesc::dense(DType::f32, {256, 256});
  const Op op = make_op(*find_schema("matmul"), {}, {matrix, matrix});
  const auto check = [&](Provider& provider, Device& device) {
    CandidateList list;
    provider.list(op, device, list);
    for (const Candidate& candidate : list.candidates)
      CHECK(candidate.provider != "opencl" || candidate.implementation.find("_mma") == std::string::npos);
  };
  for (auto& provider : make_providers()) {
    const std::shared_ptr<Device> cpu = make_cpu_device();
    if (provider->serves(*cpu)) check(*provider, *cpu);
    for (auto& device : provider->devices())
      if (!device->traits().gpu) check(*provider, *device);
  }
}

// In all kernels: a signed variable that takes a local id, and is divided or reduced by a number.
void check_no_signed_division_of_local_ids() {
  const std::regex taken(R"((?:const\s+)?(?:int|long)\s+(\w+)\s*=\s*(?:\((?:int|long)\)\s*)?get_local_id\()");
  for (const auto& file : std::filesystem::recursive_directory_iterator(PYLAYOUT_SOURCE_DIR "/kernels")) {
    if (file.path().extension() != ".cl" && file.path().extension() != ".clh") continue;
    std::ifstream stream(file.path());
    const std::string text((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
    for (std::sregex_iterator match(text.begin(), text.end(), taken), end; match != end; ++match) {
      const std::regex divided("\\b" + (*match)[1].str() + "\\s*[/%]\\s*[0-9]");
      CHECK(!std::regex_search(text.begin() + match->position(), text.end(), divided));
    }
  }
}

// An older library is refused as a whole, and this one is not.
void check_old_onednn_is_refused() {
  CHECK(onednn::kTooOld.concerns("3.1.1"));
  CHECK(!onednn::kTooOld.concerns("3.2.0"));
  Fixture f;
  CandidateList list;
  f.onednn->list(make_op(*find_schema("tanh"), {}, {TensorDesc::dense(DType::f32, {2, 16})}), *f.device, list);
  CHECK(list.candidates.empty() == onednn::has(onednn::kTooOld));
}

// A runtime whose compiler refuses every kernel: what cannot be prepared says so, and nothing crashes.
void check_kernels_that_do_not_compile() {
  const Op op = make_op(*find_schema("tanh"), {}, {TensorDesc::dense(DType::f32, {2, 1021})});
  for (auto& provider : make_providers())
    for (auto& device : provider->devices()) {
      auto& target = dynamic_cast<opencl::OpenclDevice&>(*device);
      target.build_prelude = "#error \"unknown target CPU\"\n";
      CandidateList list;
      provider->list(op, target, list);
      for (const Candidate& candidate : list.candidates) {
        bool refused = false;
        try {
          candidate.prepare();
        } catch (const Error&) {
          refused = true;
        }
        CHECK(refused);
      }
    }
}

void check_no_linker() {
  const char* path = std::getenv("PATH");
  const std::string debian =
      opencl::pocl_version("OpenCL 3.0 PoCL 3.1+debian  Linux, Release, RELOC, SPIR, LLVM 14.0.6, SLEEF, POCL_DEBUG");
  CHECK(debian.find("3.1+debian") == 0);
  CHECK(opencl::lacks_linker(debian, "/nonexistent:/proc"));
  CHECK(!opencl::lacks_linker(debian, concat("/nonexistent:", path ? path : "")));
  CHECK(!opencl::lacks_linker("5.0  Linux, Release, RELOC, SPIR-V, LLVM 16.0.6, SLEEF, POCL_DEBUG", "/nonexistent"));
  CHECK(opencl::pocl_version("OpenCL 3.0 CUDA 13.0.97").empty());
  // Where `ld` is, no version has the fault: nothing is left out, and nobody is told so.
  for (const char* version : {debian.c_str(), "5.0+debian  Linux", "6.0", ""})
    CHECK(opencl::kPoclLinker.applies(version) == opencl::lacks_linker(version, path ? path : ""));
}

// Rows of ten halves: vectors of eight, at multiples of four bytes.
void check_half_vectors() {
  const Dims shape{2, 64, 10, 10};
  const auto x = pltest::random_argument(DType::f16, shape, 1, -1, 1);
  pltest::Values y;
  for (size_t row = 0; row < x.values.size(); row += 10)
    y.push_back(double(std::max_element(x.values.begin() + long(row), x.values.begin() + long(row) + 10) -
                       (x.values.begin() + long(row))));
  const std::shared_ptr<Device> cpu = make_cpu_device();
  for (auto& provider : make_providers())
    if (provider->name() == "opencl" && provider->serves(*cpu))
      pltest::check_candidates(*provider, *cpu, "argmax", "dim=3", {x}, y, {0, 0});
}

TEST("all") {
  const std::map<std::string, std::function<void()>> tests{
      {"nvidia-queue-release", check_queue_release},
      {"nvidia-sub-buffers", check_no_sub_buffers},
      {"nvidia-several-threads", check_several_threads},
      {"pocl5-matrix-units", check_no_matrix_units_on_processors},
      {"pocl5-signed-division", check_no_signed_division_of_local_ids},
      {"pocl3-targets", check_kernels_that_do_not_compile},
      {"pocl-linker", check_no_linker},
      {"pocl-half-vectors", check_half_vectors},
      {"onednn-too-old", check_old_onednn_is_refused},
      {"onednn-strided-post-ops", check_strided_post_ops},
      {"onednn-odd-channels-bf16",
       [] {
         check_odd_channels(), check_odd_channels_forward(), check_odd_channels_of_a_line();
         check_channels_of_volumes();
       }},
      {"onednn-gemm-zero-point", check_gemm_zero_point},
      {"onednn-logarithm", check_logarithm},
      {"onednn-amx-padding", check_amx_padding},
      {"onednn-padded-zero-point", check_padded_zero_point},
      {"onednn-idle-zero-point", check_idle_zero_point},
      {"onednn-product-zero-point", check_product_zero_point},
      {"onednn-taps-on-padding", check_taps_on_padding},
      {"onednn-few-channels-apart", check_few_channels_apart},
      {"onednn-far-edge-zero-point", check_far_edge_zero_point},
      {"onednn-shared-tails-int8", check_shared_tails},
      {"onednn-few-channels-amx", check_few_channels_amx},
      {"onednn-tails-of-weights-bf16", check_tails_of_weights},
      {"onednn-shallow-input", check_shallow_input},
      {"onednn-dilated-idle-taps", check_dilated_idle_taps},
      {"onednn-one-pixel-amx", check_one_pixel},
      {"onednn-patches-amx", check_patches},
      {"onednn-one-channel-amx", check_one_channel},
      {"onednn-1x1-amx", check_amx_1x1},
      {"onednn-1x1-tails-bf16", check_tails_1x1},
      {"onednn-even-depthwise-int8", check_even_depthwise},
      {"onednn-softplus", check_softplus},
      {"onednn-nan-becomes-number", check_nan_stays},
      {"onednn-primitive-cache", check_primitive_cache},
  };
  std::map<std::string, int> seen;
  for (const KnownFault* fault : known_faults()) {
    for (const char* text : {fault->id, fault->library, fault->condition, fault->effect, fault->seen, fault->instead})
      CHECK(*text);
    CHECK(++seen[fault->id] == 1);
    CHECK(tests.count(fault->id));  // each has a test
  }
  for (const auto& [id, test] : tests) CHECK(seen.count(id));
  CHECK(versions_here("oneDNN") == std::vector<std::string>{onednn::library_version()});
  CHECK(versions_here("none").empty());
  KnownFault fault{"", "", "3.1", "3.3", "", "", "", ""};
  CHECK(fault.concerns("3.1"));
  CHECK(fault.concerns("3.2.0"));
  CHECK(fault.concerns("oneDNN 3.2.1 (commit 12)"));
  CHECK(!fault.concerns("3.0.9"));
  CHECK(!fault.concerns("3.3.0"));
  CHECK(!fault.concerns("4.0"));
  CHECK(fault.applies("3.1") && !fault.applies("4.0"));
  fault.met = [](const std::string& version) { return version == "3.2"; };
  CHECK(fault.applies("3.2") && !fault.applies("3.1"));
  for (const auto& [id, test] : tests) test();
}

}  // namespace
