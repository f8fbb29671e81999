// fuse_addend: the sum of a quantised product and another quantised tensor is a part of the product.
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

// quantize(functions(dequantize(product) + dequantize(other))), where nothing else reads what is between.
void fuse_addend_at(Rewriter& rewriter, size_t index, Context& context, Device& device) {
  const Node& root = rewriter.node(index);
  if (!is_quantize(root)) return;
  const auto to = quantization_of(rewriter, root);
  if (!to) return;
  PostOps functions;
  ValueId y = rewriter.input(root, 0);
  int made = rewriter.sole_maker(y);
  for (; made >= 0 && applies_function(rewriter.node(size_t(made))) && !rewriter.has_post_ops(size_t(made));
       made = rewriter.sole_maker(y)) {
    functions.insert(functions.begin(), function_of(rewriter.op(size_t(made))));
    y = rewriter.input(rewriter.node(size_t(made)), 0);
  }
  if (made < 0 || operation_of(rewriter.node(size_t(made))) != Operation::sum) return;
  const Node& sum = rewriter.node(size_t(made));
  if (reads_inputs(rewriter.post_ops(size_t(made)))) return;
  const PostOps& own = rewriter.post_ops(size_t(made));
  functions.insert(functions.begin(), own.begin(), own.end());
  for (size_t k = 0; k < 2; ++k) {
    const auto rounded = quantized(rewriter, rewriter.input(sum, k));
    const auto other = quantized(rewriter, rewriter.input(sum, 1 - k));
    const int back = rewriter.sole_maker(rewriter.input(sum, k));
    const int product_index = rounded && other && back >= 0 ? rewriter.sole_maker(rounded->integers) : -1;
    if (product_index < 0 || !is_integer_product(rewriter.node(size_t(product_index)))) continue;
    IntegerProduct product = integer_product(rewriter, size_t(product_index));
    const DType dtype = rewriter.desc(other->integers).dtype;
    if (!product.rounds() || product.addend != kNoValue || dtype != rewriter.desc(product.x).dtype) continue;
    if (rewriter.shape(other->integers) != rewriter.shape(rounded->integers)) continue;
    // The product rounds as its own parameters say, whatever is made of the integers.
    const Quantization of_product{product.y_scale, product.y_zero};
    if (!rewriter.number(of_product.scale) || (of_product.zero != kNoValue && !rewriter.number(of_product.zero)))
      continue;
    if (!are_equal(rewriter, of_product, rounded->by)) continue;

    double apart = cost_of(context, device, op_of(rewriter, product)) + cost_of(context, device, rewriter.op(index));
    PostOps steps = post_ops_of(product.attributes);
    for (const PostOps& list :
         {rounding_steps(rewriter, rounded->by, product.dtype), PostOps{PostOp::add("addend")}, functions})
      steps.insert(steps.end(), list.begin(), list.end());
    set_post_ops(product.attributes, steps);
    product.dtype = rewriter.desc(root.outputs[0]).dtype;
    product.attributes.set(attr::dtype, std::string(name_of(product.dtype)));
    product.y_scale = to->scale, product.y_zero = to->zero;
    product.addend = other->integers;
    product.addend_scale = other->by.scale, product.addend_zero = other->by.zero;
    if (!(cost_of(context, device, op_of(rewriter, product)) < apart)) continue;
    return rewriter.rewrite(index, product.schema(), product.attributes, product.inputs(),
                            rewriter.node(size_t(product_index)).name);
  }
}

}  // namespace

Pass fuse_addend(Device* device) {
  return {
      "fuse_addend",
      "Makes the sum of a product of integers of 8 bits and another quantised tensor, with the functions behind it, "
      "post-ops of the product, where the device has a kernel that costs less.  Each rounding to 8 bits is made.",
      [device](Graph& graph, Context& context) {
        if (!device) return 0;
        return sweep(graph,
                     [&](Rewriter& rewriter, size_t index) { fuse_addend_at(rewriter, index, context, *device); });
      }};
}

}  // namespace pl::passes
