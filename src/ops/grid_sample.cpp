// grid_sample: images read at places between pixels.
#include "ops/op.h"

namespace pl {
namespace {

void infer(Op& op) {
  check_rank(op, 0, 3, 5);
  const Dims &x = op.in(0).shape, &grid = op.in(1).shape;
  check_rank(op, 1, x.size(), x.size());
  const int spatial = x.size() - 2;
  check(op, grid[0] == x[0] && grid[spatial + 1] == spatial, Code::shape, "grid.shape is ", grid, ", expected (", x[0],
        ", ..., ", spatial, ") for x with shape ", x);
  Dims output{x[0], x[1]};
  for (int i = 0; i < spatial; ++i) output.push_back(grid[1 + i]);
  int64_t pixels = 1, places = x[0];
  for (int i = 0; i < spatial; ++i) {
    pixels *= x[2 + i] > 0;
    places *= grid[1 + i] > 0;
  }
  check(op, pixels > 0 || places == 0, Code::shape, "x.shape is ", x, ", expected pixels to read");
  add_output(op, output);
}

Schema grid_sample() {
  Schema schema(
      "grid_sample", "grid_sample",
      "Images read at places between pixels, which a grid gives.\n\n"
      "y[n, :, p...] = x[n, :, q...] at q = ((grid[n, p..., d] + 1) * size - 1) / 2, or (grid + 1) / 2 * (size - 1) "
      "with align_corners; the last d of the grid is of the first spatial dimension of x.  Between pixels: the "
      "weighted mean of two (linear) or four (cubic, a = -3/4) along each dimension, or the nearest, halves to even.  "
      "Pixels outside of the image are zero, the nearest at the border, or those of the image mirrored there.\n\n"
      "Returns (n, c, *grid.shape[1:-1]) in the dtype of x; sums are kept in f32.\n\n"
      "Source: Jaderberg et al., Spatial transformer networks, 2015; semantics of torch.nn.functional.grid_sample.");
  schema.tensor("x", "(n, c, w), (n, c, h, w) or (n, c, d, h, w); f32, f16 or bf16")
      .of(dtypes::floats)
      .batched()
      .tensor("grid", "(n, w', 1), (n, h', w', 2) or (n, d', h', w', 3), f32: from -1 to 1 across the image")
      .of({DType::f32})
      .batched()
      .attribute("mode", AttributeType::string, std::string("bilinear"),
                 "linear, bilinear and cubic, bicubic are the same for any number of dimensions",
                 {"linear", "bilinear", "nearest", "cubic", "bicubic"})
      .attribute("padding_mode", AttributeType::string, std::string("zeros"), "what lies outside of the image",
                 {"zeros", "border", "reflection"})
      .attribute("align_corners", AttributeType::boolean, false,
                 "-1 and 1 are the middles of the first and last pixels, not their outer sides")
      .result(Result("y").like("x"));
  schema.infer = infer;
  schema.flops = [](const Op& op) {
    const std::string& mode = op.attributes.text("mode");
    double taps = 2;
    for (int i = 2; i < op.in(0).rank(); ++i) taps *= mode == "nearest" ? 1 : mode.find("cubic") == mode.npos ? 2 : 4;
    return taps * double(op.out().elements());
  };
  return schema;
}

PL_REGISTER_OP(grid_sample);

}  // namespace
}  // namespace pl
