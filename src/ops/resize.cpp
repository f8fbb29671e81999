// interpolate: images resized by nearest or linear interpolation; interpolate_backward: its gradient.
#include <cmath>

#include "ops/gradient.h"
#include "ops/spatial.h"

namespace pl {
namespace {

constexpr const char* kLinearNames[] = {"linear", "bilinear", "trilinear"};  // by spatial rank - 1

// Whether torch passes over a scale_factor: it copies what keeps its size, and of images has a function for twice it.
bool goes_by_sizes(bool nearest, int spatial, int64_t in, int64_t out) {
  return nearest ? spatial == 2 && (out == in || out == 2 * in) : out == in;
}

void infer_resize(Op& op) {
  check_rank(op, 0, 3, 5);
  const Dims& x = op.in(0).shape;
  const int spatial = x.size() - 2;
  const std::string mode = op.attributes[attr::mode];
  const bool nearest = mode == "nearest", align = op.attributes[attr::align_corners];
  check(op, nearest || mode == kLinearNames[spatial - 1], Code::invalid_argument, "mode is ", mode,
        ", expected nearest or ", kLinearNames[spatial - 1], " (x has rank ", x.size(), ")");
  check(op, !nearest || !align, Code::invalid_argument,
        "align_corners is true, expected false (it has no meaning with mode nearest)");
  const bool has_size = !op.attributes.is_none(attr::size), has_factor = !op.attributes.is_none(attr::scale_factor);
  check(op, has_size != has_factor, Code::invalid_argument, "size and scale_factor are ", has_size ? "both" : "neither",
        " given, expected one of them");

  std::vector<int64_t> size;
  std::vector<double> factor;
  if (has_size) {
    size = expand_ints(op, attr::size_ints, spatial);
    for (int i = 0; i < spatial; ++i)
      check(op, size[size_t(i)] >= 1, Code::invalid_argument, "size along ", spatial_name(spatial, i), " is ",
            size[size_t(i)], ", expected at least 1");
  } else {
    factor = op.attributes[attr::scale_factor];
    if (factor.size() == 1) factor.resize(size_t(spatial), factor[0]);
    check(op, factor.size() == size_t(spatial), Code::invalid_argument, "scale_factor has ", factor.size(),
          " values, expected 1 or ", spatial);
    for (int i = 0; i < spatial; ++i) {
      const double f = factor[size_t(i)], result = std::floor(double(x[2 + i]) * f);
      check(op, std::isfinite(f) && f > 0, Code::invalid_argument, "scale_factor along ", spatial_name(spatial, i),
            " is ", f, ", expected a finite number above 0");
      check(op, result < 0x1p59, Code::shape, "the output size along ", spatial_name(spatial, i), " is ", result,
            ", expected less than 2^59");
      check(op, result >= 1, Code::shape, "the output size along ", spatial_name(spatial, i), " is 0 (", x[2 + i],
            " * scale_factor ", f, "), expected at least 1");
      size.push_back(int64_t(result));
    }
  }

  Dims output{x[0], x[1]};
  std::vector<double> scale;
  for (int i = 0; i < spatial; ++i) {
    const int64_t in = x[2 + i], out = size[size_t(i)];
    check(op, in >= 1, Code::shape, "x.", spatial_name(spatial, i), " is 0, expected at least 1");
    output.push_back(out);
    if (align)
      scale.push_back(out > 1 ? double(in - 1) / double(out - 1) : 0.0);
    else
      scale.push_back(has_factor && !goes_by_sizes(nearest, spatial, in, out) ? 1.0 / factor[size_t(i)]
                                                                              : double(in) / double(out));
  }
  op.attributes.set(attr::size_ints, size);
  op.attributes.set(attr::scale_floats, scale);
  op.attributes.set(attr::mode, std::string(nearest ? "nearest" : "linear"));
  add_output(op, output);
}

double resize_flops(const Op& op) {
  const double taps = op.attributes[attr::mode] == "nearest" ? 1 : double(2 << (op.in(0).rank() - 2));
  return taps * double(op.out().elements());
}

// The mode as users write it.
std::string mode_of(const Op& op) {
  return op.attributes[attr::mode] == "nearest" ? "nearest" : kLinearNames[op.in(0).rank() - 3];
}

void derive_resize(Derivation& d) {
  const Op& op = d.op();
  const Dims& x = op.in(0).shape;
  Attributes attributes{{attr::input_size, std::vector<int64_t>(x.begin() + 2, x.end())},
                        {attr::mode, mode_of(op)},
                        {attr::align_corners, op.attributes[attr::align_corners]}};
  if (const Floats* factor = op.attributes.find(attr::scale_factor)) attributes.set(attr::scale_factor, *factor);
  d.give(0, d.make("interpolate_backward", attributes, {d.gradient()}));
}

void infer_resize_backward(Op& op) {
  check_rank(op, 0, 3, 5);
  const Dims& grad = op.in(0).shape;
  const int spatial = grad.size() - 2;
  const auto sizes = expand_ints(op, attr::input_size, spatial);
  check_range(op, attr::input_size, sizes, 1, int64_t(1) << 40);
  Dims x{grad[0], grad[1]};
  for (int64_t size : sizes) x.push_back(size);
  Attributes attributes{{attr::mode, op.attributes[attr::mode]},
                        {attr::align_corners, op.attributes[attr::align_corners]}};
  if (const Floats* factor = op.attributes.find(attr::scale_factor))
    attributes.set(attr::scale_factor, *factor);
  else
    attributes.set(attr::size_ints, Ints(grad.begin() + 2, grad.end()));
  const Op forward = make_op(*find_schema("interpolate"), attributes, {TensorDesc::dense(op.in(0).dtype, x)});
  check_shape(op, 0, forward.out().shape, "the shape of the resized images");
  op.attributes.take(forward.attributes, {attr::scale_floats, attr::mode});
  add_output(op, x);
}

Schema interpolate_backward() {
  Schema schema("interpolate_backward", "resize_backward",
                "The gradient of interpolate by its input.\n\n"
                "dx[q] = sum over the positions p that q has a part in of its weight there times grad[p]\n\n"
                "Returns (n, c, *input_size) in the dtype of grad; sums are kept in f32.\n\n"
                "Source: the derivative of interpolate.");
  schema.tensor("grad", "(n, c, ...), the gradient by the resized images; f32, f16 or bf16")
      .of(dtypes::floats)
      .batched()
      .required(attr::input_size, "the spatial sizes of interpolate's input")
      .attribute(attr::scale_factor, None{}, "as for interpolate; None: it was given a size")
      .attribute(attr::mode, std::string("nearest"), "as for interpolate",
                 {"nearest", "linear", "bilinear", "trilinear"})
      .attribute(attr::align_corners, false, "as for interpolate")
      .result(Result("dx").like("grad"));
  schema.infer = infer_resize_backward;
  schema.flops = [](const Op& op) {
    const double taps = op.attributes[attr::mode] == "nearest" ? 1 : double(2 << (op.in(0).rank() - 2));
    return taps * double(op.in(0).elements());
  };
  return schema;
}

Schema interpolate() {
  Schema schema(
      "interpolate", "resize",
      "Images resized by nearest or (bi-, tri-) linear interpolation.\n\n"
      "nearest: y[p] = x[min(floor(p * scale), in - 1)]; linear: the weighted mean of the two neighbours of "
      "s = max((p + 1/2) * scale - 1/2, 0), with align_corners s = p * scale, along each spatial dimension.  "
      "scale is 1 / scale_factor, or in / out where size is given; with align_corners (in - 1) / (out - 1).  By in / "
      "out "
      "torch goes, too, where a scale_factor makes in of in, unless it is nearest along one or three dimensions, or "
      "where nearest makes 2 in of images.\n\n"
      "Returns (n, c, *size), or sizes floor(in * scale_factor), in the dtype of x.\n\n"
      "Source: semantics of torch.nn.functional.interpolate.");
  schema.tensor("x", "(n, c, w), (n, c, h, w) or (n, c, d, h, w); f32, f16, bf16, and s8 or u8 with mode nearest")
      .of({DType::f32, DType::f16, DType::bf16, DType::s8, DType::u8})
      .batched()
      .attribute(attr::size_ints, None{}, "one size, or one for each spatial dimension")
      .attribute(attr::scale_factor, None{}, "one factor, or one for each spatial dimension")
      .attribute(attr::mode, std::string("nearest"),
                 "linear, bilinear and trilinear are for 1, 2 and 3 spatial dimensions",
                 {"nearest", "linear", "bilinear", "trilinear"})
      .attribute(attr::align_corners, false, "map the first and last elements onto each other (not with nearest)")
      .restrict(attr::mode, {std::string("linear"), std::string("bilinear"), std::string("trilinear")}, "x",
                dtypes::floats)
      .result(Result("y").like("x"));
  schema.infer = infer_resize;
  schema.flops = resize_flops;
  schema.gradient = derive_resize;
  return schema;
}

PL_REGISTER_OP(interpolate);
PL_REGISTER_OP(interpolate_backward);

}  // namespace
}  // namespace pl
