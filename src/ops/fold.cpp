// fold: windows added up where they overlap (col2im).
#include "ops/gradient.h"
#include "ops/spatial.h"

namespace pl {
namespace {

// The number of elements of a window, and that of windows.
int64_t product_of(const Op& op, const Key<Ints>& attribute) { return Dims(op.attributes[attribute]).product(); }

void infer_fold(Op& op) {
  check_rank(op, 0, 3, 3);
  const auto spatial = int(op.attributes[attr::output_size].size());
  check(op, spatial >= 1 && spatial <= 3, Code::invalid_argument, "output_size has ", spatial,
        " values, expected 1 to 3, one for each spatial dimension");
  const auto sizes = positive_per_axis(op, attr::output_size, spatial);
  const auto kernel = positive_per_axis(op, attr::kernel_size, spatial);
  const auto dilation = positive_per_axis(op, attr::dilation, spatial);
  const auto padding = expand_padding(op, spatial);
  const auto stride = positive_per_axis(op, attr::stride, spatial);
  std::vector<int64_t> windows;
  for (int i = 0; i < spatial; ++i) {
    const size_t s = size_t(i);
    Window window;
    window.in = sizes[s];
    window.kernel = kernel[s];
    window.stride = stride[s];
    window.dilation = dilation[s];
    window.begin = padding[s];
    window.end = padding[s + size_t(spatial)];
    const int64_t padded = window.in + window.begin + window.end;
    check(op, window.reach() <= padded, Code::invalid_argument, "output_size along ", spatial_name(spatial, i), " is ",
          window.in, ", with padding ", padded, ", expected at least ", window.reach(), " (kernel ", window.kernel,
          " with dilation ", window.dilation, ")");
    windows.push_back((padded - window.reach()) / window.stride + 1);
  }
  op.attributes.set(attr::windows, windows);  // along each axis

  const Dims& x = op.in(0).shape;
  const int64_t each = product_of(op, attr::kernel_size), count = product_of(op, attr::windows);
  check(op, x[1] % each == 0, Code::shape, "x.c is ", x[1], ", expected a multiple of ", each,
        " (the elements of a window)");
  check(op, x[2] == count, Code::shape, "x.w is ", x[2], ", expected ", count, " (the windows)");
  Dims output{x[0], x[1] / each};
  for (int64_t size : sizes) output.push_back(size);
  add_output(op, output);
}

// Each window reads its elements of the gradient: one look-up in the padded images.
void derive_fold(Derivation& d) {
  const Op& op = d.op();
  const Dims &x = op.in(0).shape, &y = op.out().shape;
  const auto kernel = op.attributes[attr::kernel_size], stride = op.attributes[attr::stride],
             dilation = op.attributes[attr::dilation], padding = op.attributes[attr::padding],
             windows = op.attributes[attr::windows];
  const size_t spatial = windows.size();
  std::vector<int64_t> pad, places{0};
  int64_t positions = 1;
  for (size_t s = spatial; s-- > 0;) {
    pad.push_back(padding[s]);
    pad.push_back(padding[s + spatial]);
    positions *= y[2 + int(s)] + padding[s] + padding[s + spatial];
  }
  // Of the kernel's elements first, then of the windows; the last axis is innermost in both.
  for (const bool elements : {true, false})
    for (size_t s = 0; s < spatial; ++s) {
      int64_t step = 1;
      for (size_t inner = s + 1; inner < spatial; ++inner)
        step *= y[2 + int(inner)] + padding[inner] + padding[inner + spatial];
      std::vector<int64_t> further;
      for (const int64_t place : places)
        for (int64_t i = 0; i < (elements ? kernel : windows)[s]; ++i)
          further.push_back(place + i * (elements ? dilation : stride)[s] * step);
      places = std::move(further);
    }
  const Derivation::Value padded = d.make("pad", Attributes{{attr::pad, pad}}, {d.gradient()});
  const Derivation::Value flat = d.reshaped(padded, {y[0], y[1], positions});
  const Derivation::Value read =
      d.make("index_select", Attributes{{attr::dim, int64_t(2)}}, {flat, d.integers(places)});
  d.give(0, d.reshaped(read, x));
}

Schema fold() {
  Schema schema("fold", "fold",
                "Windows put back where they were taken from, added up where they overlap: col2im.\n\n"
                "y[n, c, q] = sum over k and p with p * stride - begin + k * dilation = q of x[n, c * K + k, p]\n"
                "where K is the number of elements of a window; k and p count elements and windows with the last "
                "dimension innermost.\n\n"
                "Returns (n, c / K, output_size), sums in f32.\n\n"
                "Source: semantics of torch.nn.functional.fold and of ONNX's Col2Im.");
  schema
      .tensor("x",
              "(n, c * K, windows), f32, f16 or bf16; windows: the product of (size + begin + end - dilation * "
              "(kernel - 1) - 1) / stride + 1, rounded down")
      .of(dtypes::floats)
      .batched()
      .required(attr::output_size, "the sizes of y's 1 to 3 spatial dimensions")
      .required(attr::kernel_size, "1 or as many sizes as output_size has")
      .attribute(attr::dilation, int64_t(1), "distances between the elements of a window")
      .attribute(attr::padding, int64_t(0),
                 "of y before windows were taken: one value, one for each dimension, or begins, then ends")
      .attribute(attr::stride, int64_t(1), "distances between windows")
      .result(Result("y").like("x"));
  schema.infer = infer_fold;
  schema.gradient = derive_fold;
  schema.flops = [](const Op& op) { return double(op.in(0).elements()); };
  return schema;
}

PL_REGISTER_OP(fold);

}  // namespace
}  // namespace pl
