// max_pool and avg_pool in one to three dimensions.
#include "ops/gradient.h"
#include "ops/spatial.h"

namespace pl {
namespace {

void infer_pool(Op& op) {
  const int spatial = spatial_rank(op);
  const bool average = op.attributes[attr::mode] == "avg";
  check_rank(op, 0, spatial + 2, spatial + 2);
  const Dims& x = op.in(0).shape;

  const auto kernel = positive_per_axis(op, attr::kernel_size, spatial);
  if (op.attributes.is_none(attr::stride)) op.attributes.set(attr::stride, kernel);
  const auto stride = positive_per_axis(op, attr::stride, spatial);
  if (average) op.attributes.set(attr::dilation, std::vector<int64_t>(size_t(spatial), 1));
  const auto dilation = positive_per_axis(op, attr::dilation, spatial);
  spell_padding(op, kernel, stride, dilation);
  const auto padding = expand_padding(op, spatial);
  if (!average) op.attributes.set(attr::count_include_pad, false);

  Dims output{x[0], x[1]};
  for (int i = 0; i < spatial; ++i) {
    const size_t s = size_t(i);
    const char* name = spatial_name(spatial, i);
    Window window;
    window.in = x[2 + i];
    window.kernel = kernel[s];
    window.stride = stride[s];
    window.dilation = dilation[s];
    window.begin = padding[s];
    window.end = padding[s + size_t(spatial)];
    check(op, window.in >= 1, Code::shape, "x.", name, " is 0, expected at least 1");
    // Otherwise a window could lie in the padding altogether; now its elements can only where dilation exceeds the input.
    check(op, window.begin <= window.reach() / 2 && window.end <= window.reach() / 2, Code::invalid_argument,
          "padding along ", name, " is ", std::max(window.begin, window.end), ", expected at most ", window.reach() / 2,
          " (half the kernel's reach)");
    int64_t size;
    if (op.attributes[attr::ceil_mode]) {
      const int64_t rest = window.in + window.begin + window.end - window.reach();
      check(op, rest + window.stride - 1 >= 0, Code::shape, "x.", name, " is ", window.in, ", with padding ",
            rest + window.reach(), ", expected at least ", window.reach() - window.stride + 1, " (kernel ",
            window.kernel, " with dilation ", window.dilation, ", stride ", window.stride, ", ceil_mode)");
      size = (rest + window.stride - 1) / window.stride + 1;
      // The last window must begin inside the input or the padding before it.
      if ((size - 1) * window.stride >= window.in + window.begin) --size;
    } else {
      size = sliding_size(op, window, name);
    }
    output.push_back(size);
  }
  add_output(op, output);
}

double pool_flops(const Op& op) {
  double result = double(op.out().elements());
  for (int64_t kernel : op.attributes[attr::kernel_size]) result *= double(kernel);
  return result;
}

void derive_pool(Derivation& d) {
  const Op& op = d.op();
  const bool average = op.attributes[attr::mode] == "avg";
  Attributes attributes;
  attributes.take(op.attributes, {attr::kernel_size, attr::stride, attr::padding, attr::ceil_mode});
  attributes.take(op.attributes, {average ? AttributeName(attr::count_include_pad) : AttributeName(attr::dilation)});
  if (average) attributes.set(attr::input_size, std::vector<int64_t>(op.in(0).shape.begin() + 2, op.in(0).shape.end()));
  const std::string name = op.schema->name + "_backward";
  d.give(0, average ? d.make(name, attributes, {d.gradient()}) : d.make(name, attributes, {d.input(0), d.gradient()}));
}

Schema pool(const char* name, int spatial, bool average) {
  const std::string sizes = spatial_list(spatial), per_axis = concat("1 or ", spatial, " sizes");
  Schema schema(
      name, "pool",
      concat(spatial, average ? "-D average pooling.\n\n" : "-D maximum pooling.\n\n",
             average ? "y[n, c, p] = (sum over k of x[n, c, p * stride - begin + k]) / count\n"
                       "where count is the number of elements of the window: those in the input, or with "
                       "count_include_pad those in the input and its padding (never beyond, as ceil_mode could reach)."
                     : "y[n, c, p] = max over k of x[n, c, p * stride - begin + k * dilation]\n"
                       "over the positions inside the input; a NaN in the window gives NaN, except that oneDNN passes "
                       "over it.",
             "\n\nReturns (n, c, ", sizes,
             ") with sizes (in + begin + end - dilation * (kernel - 1) - 1) / stride + 1, rounded down; with ceil_mode "
             "rounded up, where the last window still begins in the input or before it.\n\n"
             "Source: semantics of torch.nn.functional."));
  schema.constant(attr::spatial, int64_t(spatial))
      .constant(attr::mode, std::string(average ? "avg" : "max"))
      .tensor("x", concat("(n, c, ", sizes, average ? "), f32, f16 or bf16" : "), any dtype but bool"))
      .of(average ? dtypes::floats : dtypes::numbers)
      .batched()
      .required(attr::kernel_size, per_axis)
      .attribute(attr::stride, None{}, per_axis + "; None: kernel_size")
      .attribute(attr::padding, int64_t(0),
                 concat("in elements: one value, ", spatial, " (", sizes, "), or ", 2 * spatial,
                        " (begins, then ends), at most half the kernel's reach", kPaddingWords),
                 padding_words());
  if (average)
    schema.attribute(attr::ceil_mode, false, "round output sizes up")
        .attribute(attr::count_include_pad, true, "divide by the window's size, padding included");
  else
    schema
        .attribute(attr::dilation, int64_t(1),
                   concat("1 or ", spatial, " distances between the elements of a window, at least 1"))
        .attribute(attr::ceil_mode, false, "round output sizes up");
  schema.result(Result("y").like("x"));
  schema.padding = average ? Padding::zeros : Padding::lowest;
  schema.same_if_alike = true;
  schema.same_only_if = {{attr::kernel_size, 1}, {attr::padding, 0}};
  schema.infer = infer_pool;
  schema.flops = pool_flops;
  schema.gradient = derive_pool;
  return schema;
}

PL_REGISTER_OP([] { return pool("max_pool1d", 1, false); });
PL_REGISTER_OP([] { return pool("max_pool2d", 2, false); });
PL_REGISTER_OP([] { return pool("max_pool3d", 3, false); });
PL_REGISTER_OP([] { return pool("avg_pool1d", 1, true); });
PL_REGISTER_OP([] { return pool("avg_pool2d", 2, true); });
PL_REGISTER_OP([] { return pool("avg_pool3d", 3, true); });

}  // namespace
}  // namespace pl
