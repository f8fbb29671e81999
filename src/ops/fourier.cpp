// fft, rfft and irfft: discrete Fourier transforms along the last dimension; complex numbers are pairs of real ones.
#include "ops/gradient.h"

#include <cmath>

namespace pl {
namespace {

constexpr const char* kTransforms = "Source: semantics of torch.fft without normalisation, times scale.";

double transform_flops(int64_t n, double lines) { return 5 * lines * double(n) * std::log2(double(n) + 1); }

void check_pairs(const Op& op) {
  const Dims& x = op.in(0).shape;
  check_rank(op, 0, 2, kMaxRank);
  check(op, x[x.size() - 1] == 2, Code::shape, "x.shape is ", x, ", expected pairs in the last dimension");
}

void derive_fft(Derivation& d) {
  const Attributes& own = d.op().attributes;
  d.give(0, d.make("fft", Attributes{{attr::inverse, !own[attr::inverse]}, {attr::scale, double(own[attr::scale])}},
                   {d.gradient()}));
}

Schema fft() {
  Schema schema("fft", "fourier",
                concat("The discrete Fourier transform of complex numbers.\n\n"
                       "y[..., k] = scale * sum over j of x[..., j] * exp(-2 pi i j k / n), exp(2 pi i j k / n) with "
                       "inverse\n\nReturns the shape of x, f32.\n\n",
                       kTransforms));
  schema.tensor("x", "(..., n, 2), f32: real and imaginary parts")
      .of({DType::f32})
      .batched()
      .attribute(attr::inverse, false, "the exponent is positive")
      .attribute(attr::scale, 1.0, "a factor")
      .result(Result("y").like("x").shaped("x"));
  schema.last_axes = 2;
  schema.infer = [](Op& op) {
    check_pairs(op);
    add_output(op);
  };
  schema.gradient = derive_fft;
  schema.flops = [](const Op& op) {
    const Dims& x = op.in(0).shape;
    const int64_t n = x[x.size() - 2];
    return n ? transform_flops(n, double(op.in(0).elements()) / double(2 * n)) : 0.0;
  };
  return schema;
}

// By how much each of the numbers of half a transform counts: those inside stand for their conjugates, too.
Builder::Value counts(Derivation& d, int64_t n) {
  const int64_t half = n / 2 + 1;
  std::vector<int64_t> numbers(size_t(half), 2);
  numbers[0] = 1;
  if (n % 2 == 0) numbers[size_t(half - 1)] = 1;
  const auto made = d.make("cast", Attributes{{attr::dtype, std::string(name_of(DType::f32))}}, {d.integers(numbers)});
  return d.reshaped(made, {half, 1});
}

// Real lines: all of the last dimension of x, or windows of it that begin `hop` apart.
struct RealLines {
  int64_t n, hop, length, windows;

  explicit RealLines(const Op& op) : n(op.attributes[attr::size]), hop(op.attributes[attr::hop]) {
    const Dims& x = op.in(0).shape;
    length = x[x.size() - 1];
    n = hop ? n : length;
    windows = hop ? (length - n) / hop + 1 : 1;
  }
};

void infer_rfft(Op& op) {
  check_rank(op, 0, 1, kMaxRank - 1);
  const Dims& x = op.in(0).shape;
  const int64_t hop = op.attributes[attr::hop], size = op.attributes[attr::size], length = x[x.size() - 1];
  check(op, hop >= 0, Code::invalid_argument, "hop is ", hop, ", expected 0 or more");
  check(op, hop > 0 ? size > 0 && size <= length : size == 0 || size == length, Code::invalid_argument, "size is ",
        size, ", expected ", hop ? "1 to " : "", length, " (the last size of x)");
  check(op, length > 0, Code::shape, "x.shape is ", x, ", expected elements in the last dimension");
  const RealLines lines(op);
  if (op.has(1)) check_shape(op, 1, {lines.n}, "the numbers of a line");
  Dims shape(x.data(), size_t(x.size() - 1));
  if (hop) shape.push_back(lines.windows);
  shape.push_back(lines.n / 2 + 1);
  shape.push_back(2);
  add_output(op, shape);
}

// What lies where a window of x does, of (..., windows, n), added up.
Builder::Value added_up(Derivation& d, Builder::Value lines, const RealLines& how) {
  const Dims& x = d.op().in(0).shape;
  const int64_t outer = how.length ? x.product() / how.length : 0;
  const auto flat = d.reshaped(lines, {outer, how.windows, how.n});
  const auto columns = d.make("permute", Attributes{{attr::dims, Ints{0, 2, 1}}}, {flat});
  const auto made = d.make("fold",
                           Attributes{{attr::output_size, Ints{how.length, 1}},
                                      {attr::kernel_size, Ints{how.n, 1}},
                                      {attr::stride, Ints{how.hop, 1}}},
                           {columns});
  return d.reshaped(made, x);
}

void derive_rfft(Derivation& d) {
  const Op& op = d.op();
  const RealLines how(op);
  const auto once = d.pointwise("y0 = x0 / x1", {d.gradient(), counts(d, how.n)});
  const auto lines =
      d.make("irfft", Attributes{{attr::size, how.n}, {attr::scale, double(op.attributes[attr::scale])}}, {once});
  d.give_if_wanted(0, [&] {
    const auto weighted = op.has(1) ? d.pointwise("y0 = x0 * x1", {lines, d.input(1)}) : lines;
    return how.hop ? added_up(d, weighted, how) : weighted;
  });
  d.give_if_wanted(1, [&] {
    auto x = d.input(0);
    if (how.hop) {
      std::vector<int64_t> places;
      for (int64_t i = 0; i < how.windows; ++i)
        for (int64_t j = 0; j < how.n; ++j) places.push_back(i * how.hop + j);
      const auto index = d.reshaped(d.integers(places), {how.windows, how.n});
      x = d.make("index_select", Attributes{{attr::dim, int64_t(op.in(0).rank() - 1)}}, {x, index});
    }
    return d.summed_to(d.pointwise("y0 = x0 * x1", {lines, x}), op.in(1).shape);
  });
}

Schema rfft() {
  Schema schema("rfft", "fourier",
                concat("The discrete Fourier transform of real numbers: its first half, of which the rest are the "
                       "conjugates.\n\n"
                       "y[..., k] = scale * sum over j of window[j] * x[..., j] * exp(-2 pi i j k / n) for k up to n / "
                       "2; with hop of windows of n = size numbers: y[..., t, k] of x[..., t * hop + j]\n\n"
                       "Returns (..., n / 2 + 1, 2), or (..., windows, n / 2 + 1, 2), f32: real and imaginary "
                       "parts.\n\n",
                       kTransforms));
  schema.tensor("x", "(..., n), with hop (..., length); f32")
      .of({DType::f32})
      .batched()
      .optional("window", "(n), f32: factors")
      .of({DType::f32})
      .attribute(attr::scale, 1.0, "a factor")
      .attribute(attr::size, int64_t(0), "n of windows; 0: the last size of x, without hop")
      .attribute(attr::hop, int64_t(0), "from one window of x to the next; 0: x is not cut into windows")
      .result(Result("y").like("x"));
  schema.last_axes = 1;
  schema.infer = infer_rfft;
  schema.gradient = derive_rfft;
  schema.flops = [](const Op& op) {
    const RealLines how(op);
    return transform_flops(how.n, 0.5 * double(op.out().elements()) / double(2 * (how.n / 2 + 1)));
  };
  return schema;
}

Schema irfft() {
  Schema schema("irfft", "fourier",
                concat("What rfft made half a transform of, without its scale.\n\n"
                       "y[..., j] = scale * sum over k of x[..., k] * exp(2 pi i j k / size), where x[size - k] is the "
                       "conjugate of x[k]; imaginary parts of x[0], and of x[size / 2] where size is even, count for "
                       "nothing\n\nReturns (..., size), f32.\n\n",
                       kTransforms));
  schema.tensor("x", "(..., size / 2 + 1, 2), f32: real and imaginary parts")
      .of({DType::f32})
      .batched()
      .required(attr::size, "how many real numbers")
      .attribute(attr::scale, 1.0, "a factor")
      .result(Result("y").like("x"));
  schema.last_axes = 2;
  schema.infer = [](Op& op) {
    check_pairs(op);
    const Dims& shape = op.in(0).shape;
    const int64_t size = op.attributes[attr::size], half = shape[shape.size() - 2];
    check(op, size > 0 && half == size / 2 + 1, Code::shape, "size is ", size, ", expected ", 2 * half - 2, " or ",
          2 * half - 1, " for x with shape ", shape);
    Dims made(shape.data(), size_t(shape.size() - 2));
    made.push_back(size);
    add_output(op, made);
  };
  schema.gradient = [](Derivation& d) {
    const int64_t n = d.op().attributes[attr::size];
    const auto made = d.make("rfft", Attributes{{attr::scale, double(d.op().attributes[attr::scale])}}, {d.gradient()});
    d.give(0, d.pointwise("y0 = x0 * x1", {made, counts(d, n)}));
  };
  schema.flops = [](const Op& op) {
    const int64_t n = op.attributes[attr::size];
    return transform_flops(n, 0.5 * double(op.out().elements()) / double(n));
  };
  return schema;
}

PL_REGISTER_OP(fft);
PL_REGISTER_OP(rfft);
PL_REGISTER_OP(irfft);

}  // namespace
}  // namespace pl
