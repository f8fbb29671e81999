// grid_sample: images read at places between pixels; and its gradients.
#include "ops/gradient.h"

namespace pl {
namespace {

// Of x and the grid, inputs `first` and the next one.
Dims sampled_shape(const Op& op, int first) {
  check_rank(op, first, 3, 5);
  const Dims &x = op.in(first).shape, &grid = op.in(first + 1).shape;
  check_rank(op, first + 1, x.size(), x.size());
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
  return output;
}

double taps(const Op& op) {
  const std::string& mode = op.attributes[attr::mode];
  double product = 1;
  for (int i = 2; i < op.in(0).rank(); ++i) product *= mode == "nearest" ? 1 : mode.find("cubic") == mode.npos ? 2 : 4;
  return product;
}

void add_sampling(Schema& schema) {
  schema
      .attribute(attr::mode, std::string("bilinear"),
                 "linear, bilinear and cubic, bicubic are the same for any number of dimensions",
                 {"linear", "bilinear", "nearest", "cubic", "bicubic"})
      .attribute(attr::padding_mode, std::string("zeros"), "what lies outside of the image",
                 {"zeros", "border", "reflection"})
      .attribute(attr::align_corners, false,
                 "-1 and 1 are the middles of the first and last pixels, not their outer sides");
}

constexpr const char* kGrid = "(n, w', 1), (n, h', w', 2) or (n, d', h', w', 3), f32: from -1 to 1 across the image";

void derive_grid_sample(Derivation& d) {
  const auto made = d.add("grid_sample_backward", d.op().attributes, {d.gradient(), d.input(0), d.input(1)});
  for (int i = 0; i < 2; ++i) d.give_if_wanted(i, [&] { return made[size_t(i)]; });
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
      .tensor("grid", kGrid)
      .of({DType::f32})
      .batched();
  add_sampling(schema);
  schema.result(Result("y").like("x"));
  schema.infer = [](Op& op) { add_output(op, sampled_shape(op, 0)); };
  schema.gradient = derive_grid_sample;
  schema.flops = [](const Op& op) { return 2 * taps(op) * double(op.out().elements()); };
  return schema;
}

Schema grid_sample_backward() {
  Schema schema(
      "grid_sample_backward", "grid_sample_backward",
      "The gradients of grid_sample by x and by the grid.\n\n"
      "dx[n, c, q] = sum over the places p of the weight that pixel q has there * grad[n, c, p], in the order of p\n"
      "dgrid[n, p..., d] = sum over c and q of the slope of that weight along d * x[n, c, q] * grad[n, c, p]\n\n"
      "A place that is held at a border has no slope, nor has the nearest pixel.\n\n"
      "Returns dx, of the shape and dtype of x, and dgrid, of the shape of the grid, f32; sums are kept in f32.\n\n"
      "Source: the derivative of grid_sample.");
  schema.tensor("grad", "(n, c, *grid.shape[1:-1]): the gradient by the result; f32, f16 or bf16")
      .of(dtypes::floats)
      .batched()
      .tensor("x", "the input of grid_sample")
      .like("grad")
      .batched()
      .tensor("grid", kGrid)
      .of({DType::f32})
      .batched();
  add_sampling(schema);
  schema.result(Result("dx").like("grad").shaped("x")).result(Result("dgrid").of(DType::f32).shaped("grid"));
  schema.infer = [](Op& op) {
    check_shape(op, 0, sampled_shape(op, 1), "what grid_sample gives for x and grid");
    for (int k = 0; k < 2; ++k) add_output(op);
  };
  schema.flops = [](const Op& op) { return 6 * taps(op) * double(op.in(0).elements()); };
  return schema;
}

PL_REGISTER_OP(grid_sample);
PL_REGISTER_OP(grid_sample_backward);

}  // namespace
}  // namespace pl
