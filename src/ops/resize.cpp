// interpolate: images resized by nearest or linear interpolation.
#include <cmath>

#include "ops/spatial.h"

namespace pl {
namespace {

constexpr const char* kLinearNames[] = {"linear", "bilinear", "trilinear"};  // by spatial rank - 1

void infer(Op& op) {
  check_rank(op, 0, 3, 5);
  const Dims& x = op.in(0).shape;
  const int spatial = x.size() - 2;
  const std::string mode = op.attributes.text("mode");
  const bool nearest = mode == "nearest", align = op.attributes.flag("align_corners");
  if (nearest)
    check_dtype(op, 0, {DType::f32, DType::f16, DType::bf16, DType::s8, DType::u8});
  else
    check_float(op, 0);
  check(op, nearest || mode == kLinearNames[spatial - 1], Code::invalid_argument, "mode is ", mode,
        ", expected nearest or ", kLinearNames[spatial - 1], " (x has rank ", x.size(), ")");
  check(op, !nearest || !align, Code::invalid_argument,
        "align_corners is true, expected false (it has no meaning with mode nearest)");
  const bool has_size = !op.attributes.is_none("size"), has_factor = !op.attributes.is_none("scale_factor");
  check(op, has_size != has_factor, Code::invalid_argument, "size and scale_factor are ", has_size ? "both" : "neither",
        " given, expected one of them");

  std::vector<int64_t> size;
  std::vector<double> factor;
  if (has_size) {
    size = expand_ints(op, "size", spatial);
    for (int i = 0; i < spatial; ++i)
      check(op, size[size_t(i)] >= 1, Code::invalid_argument, "size along ", spatial_name(spatial, i), " is ",
            size[size_t(i)], ", expected at least 1");
  } else {
    factor = op.attributes.numbers("scale_factor");
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
      scale.push_back(has_factor ? 1.0 / factor[size_t(i)] : double(in) / double(out));
  }
  op.attributes.set("size", size);
  op.attributes.set("scale", scale);
  op.attributes.set("mode", std::string(nearest ? "nearest" : "linear"));
  add_output(op, op.in(0).dtype, output);
}

double flops(const Op& op) {
  const double taps = op.attributes.text("mode") == "nearest" ? 1 : double(2 << (op.in(0).rank() - 2));
  return taps * double(op.out().elements());
}

Schema interpolate() {
  Schema schema(
      "interpolate", "resize",
      "Images resized by nearest or (bi-, tri-) linear interpolation.\n\n"
      "nearest: y[p] = x[min(floor(p * scale), in - 1)]; linear: the weighted mean of the two neighbours of "
      "s = max((p + 1/2) * scale - 1/2, 0), with align_corners s = p * scale, along each spatial dimension.  "
      "scale is 1 / scale_factor, or in / out where size is given; with align_corners (in - 1) / (out - 1).\n\n"
      "Returns (n, c, *size), or sizes floor(in * scale_factor), in the dtype of x.\n\n"
      "Source: semantics of torch.nn.functional.interpolate.");
  schema.tensor("x", "(n, c, w), (n, c, h, w) or (n, c, d, h, w); f32, f16, bf16, and s8 or u8 with mode nearest")
      .attribute("size", AttributeType::integers, None{}, "one size, or one for each spatial dimension")
      .attribute("scale_factor", AttributeType::numbers, None{}, "one factor, or one for each spatial dimension")
      .attribute("mode", AttributeType::string, std::string("nearest"),
                 "linear, bilinear and trilinear are for 1, 2 and 3 spatial dimensions",
                 {"nearest", "linear", "bilinear", "trilinear"})
      .attribute("align_corners", AttributeType::boolean, false,
                 "map the first and last elements onto each other (not with nearest)");
  schema.infer = infer;
  schema.flops = flops;
  return schema;
}

PL_REGISTER_OP(interpolate);

}  // namespace
}  // namespace pl
