// fuse_addend: the sum of a quantised product and another quantised tensor, or what ReLU leaves of a quantised product,
// is a part of the product.
#include <algorithm>

#include "graph/named_ops.h"
#include "graph/passes/costs.h"
#include "graph/passes/integer_products.h"
#include "graph/passes/passes.h"
#include "graph/passes/patterns.h"
#include "graph/passes/quantization.h"

namespace pl::passes {
namespace {

// What rounds to a quantised tensor and gives the numbers that it then stands for.
PostOps rounding_steps(Rewriter& rewriter, const Quantization& by, DType dtype) {
  const double scale = *rewriter.number(by.scale), zero = by.zero == kNoValue ? 0 : *rewriter.number(by.zero);
  const double low = (dtype == DType::u8 ? 0 : -128) - zero;
  return {PostOp::scale(1 / scale), PostOp::function("round"), PostOp::function("clip", {low, low + 255}),
          PostOp::scale(scale)};
}

// A product of integers whose result, rounded to 8 bits, is read once, by a dequantize_linear with its own parameters.
struct Rounded {
  size_t index;
  IntegerProduct product;
  Quantization by;
};

std::optional<Rounded> rounded_product(Rewriter& rewriter, int dequantizer) {
  if (dequantizer < 0) return std::nullopt;
  const auto rounded = quantized(rewriter, rewriter.node(size_t(dequantizer)).outputs[0]);
  const int index = rounded ? rewriter.sole_maker(rounded->integers) : -1;
  if (index < 0 || !is_integer_product(rewriter.node(size_t(index)))) return std::nullopt;
  const IntegerProduct product = integer_product(rewriter, size_t(index));
  // It rounds as its own parameters say, whatever is made of the integers.
  const Quantization own{product.y_scale, product.y_zero};
  if (!product.rounds() || !rewriter.number(own.scale) || (own.zero != kNoValue && !rewriter.number(own.zero)) ||
      !are_equal(rewriter, own, rounded->by))
    return std::nullopt;
  return Rounded{size_t(index), product, rounded->by};
}

// Makes node `index`, which quantises, the product with these steps behind its rounding, where that costs less.
bool extend(Rewriter& rewriter, size_t index, const Rounded& rounded, const std::vector<PostOps>& more,
            IntegerProduct product, Context& context, Device& device) {
  const auto to = quantization_of(rewriter, rewriter.node(index));
  const double apart =
      cost_of(context, device, op_of(rewriter, rounded.product)) + cost_of(context, device, rewriter.op(index));
  PostOps steps = post_ops_of(product.attributes);
  const PostOps rounding = rounding_steps(rewriter, rounded.by, product.dtype);
  steps.insert(steps.end(), rounding.begin(), rounding.end());
  for (const PostOps& list : more) steps.insert(steps.end(), list.begin(), list.end());
  set_post_ops(product.attributes, steps);
  product.dtype = rewriter.desc(rewriter.node(index).outputs[0]).dtype;
  product.attributes.set(attr::dtype, std::string(name_of(product.dtype)));
  product.y_scale = to->scale, product.y_zero = to->zero;
  if (!(cost_of(context, device, op_of(rewriter, product)) < apart)) return false;
  rewriter.rewrite(index, product.schema(), product.attributes, product.inputs(), rewriter.node(rounded.index).name);
  return true;
}

// quantize(functions(dequantize(product) + dequantize(other))), where nothing else reads what is between.
void fuse_sum_at(Rewriter& rewriter, size_t index, const Functions& functions, Context& context, Device& device) {
  const Node& sum = rewriter.node(size_t(functions.made));
  const PostOps own = rewriter.post_ops(size_t(functions.made));
  if (reads_inputs(own)) return;
  for (size_t k = 0; k < 2; ++k) {
    const auto rounded = rounded_product(rewriter, rewriter.sole_maker(rewriter.input(sum, k)));
    const auto other = quantized(rewriter, rewriter.input(sum, 1 - k));
    if (!rounded || !other || rounded->product.addend != kNoValue) continue;
    IntegerProduct product = rounded->product;
    if (rewriter.desc(other->integers).dtype != rewriter.desc(product.x).dtype) continue;
    const ValueId integers = rewriter.node(rounded->index).outputs[0];
    if (rewriter.shape(other->integers) != rewriter.shape(integers)) continue;
    product.addend = other->integers;
    product.addend_scale = other->by.scale, product.addend_zero = other->by.zero;
    if (extend(rewriter, index, *rounded, {PostOps{PostOp::add("addend")}, own, functions.list}, product, context,
               device))
      return;
  }
}

// quantize(functions(dequantize(product))), the functions of ReLU's kind: of others a table of 256 results costs less.
void fuse_limits_at(Rewriter& rewriter, size_t index, const Functions& functions, Context& context, Device& device) {
  const auto limits = [](const PostOp& function) { return range_of(function).has_value(); };
  if (functions.list.empty() || !std::all_of(functions.list.begin(), functions.list.end(), limits)) return;
  const auto rounded = rounded_product(rewriter, functions.made);
  if (rounded) extend(rewriter, index, *rounded, {functions.list}, rounded->product, context, device);
}

void fuse_at(Rewriter& rewriter, size_t index, Context& context, Device& device) {
  const Node& root = rewriter.node(index);
  if (!is_quantize(root) || !quantization_of(rewriter, root)) return;
  const Functions functions = functions_before(rewriter, rewriter.input(root, 0));
  if (functions.made < 0) return;
  const Node& made = rewriter.node(size_t(functions.made));
  if (operation_of(made) == Operation::sum) fuse_sum_at(rewriter, index, functions, context, device);
  if (is_dequantize(made)) fuse_limits_at(rewriter, index, functions, context, device);
}

}  // namespace

Pass fuse_addend(Device* device) {
  return {
      "fuse_addend",
      "Makes the sum of a product of integers of 8 bits and another quantised tensor, with the functions behind it, or "
      "a ReLU or clip behind the product alone, post-ops of the product, where the device has a kernel that costs "
      "less.  Each rounding to 8 bits is made.",
      [device](Graph& graph, Context& context) {
        if (!device) return 0;
        return sweep(graph, [&](Rewriter& rewriter, size_t index) { fuse_at(rewriter, index, context, *device); });
      }};
}

}  // namespace pl::passes
