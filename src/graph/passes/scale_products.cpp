// scale_products: what follows a product of integers, its scale and its bias, is part of it.
#include "graph/named_ops.h"
#include "graph/passes/constants.h"
#include "graph/passes/costs.h"
#include "graph/passes/integer_products.h"
#include "graph/passes/passes.h"
#include "graph/passes/patterns.h"

namespace pl::passes {
namespace {

int axis_of_channels(const IntegerProduct& product, int rank) { return product.conv ? 1 : rank - 1; }

// Whether a value holds one number, or one for each channel of a result of this shape.
bool is_by_channel(const Dims& given, const Dims& shape, int axis) {
  for (int i = 1; i <= given.size(); ++i)
    if (given[given.size() - i] != 1 && (i > shape.size() || shape.size() - i != axis)) return false;
  return true;
}

// cast(sums) * factor, the factor of any op: a product of the real numbers.
void scale_at(Rewriter& rewriter, size_t index, Context& context, Device& device) {
  if (!is_bare(rewriter, index, Operation::product)) return;
  const Node& root = rewriter.node(index);
  for (size_t k = 0; k < 2; ++k) {
    const int cast = sole_maker(rewriter, rewriter.input(root, k), is_cast);
    if (cast < 0 || rewriter.desc(root.outputs[0]).dtype != DType::f32) continue;
    const int made = sole_maker(rewriter, rewriter.input(rewriter.node(size_t(cast)), 0), is_integer_product);
    if (made < 0) continue;
    IntegerProduct product = integer_product(rewriter, size_t(made));
    ValueId factor = rewriter.input(root, 1 - k);
    const Dims &shape = rewriter.shape(root.outputs[0]), &given = rewriter.shape(factor);
    const bool same = shape == rewriter.shape(rewriter.node(size_t(made)).outputs[0]);
    if (product.scaled() || !same || rewriter.desc(factor).dtype != DType::f32 ||
        !is_by_channel(given, shape, axis_of_channels(product, shape.size())))
      continue;
    const bool centred = !device.traits().gpu;  // zero points of weights are taken off next
    const Op sums = op_of(rewriter, product, centred);
    const int64_t count = rewriter.desc(factor).elements();
    const std::string name = rewriter.node(size_t(made)).name;
    product.weight_scale = factor;
    product.x_scale = rewriter.add_constant(name + ".one", tensor_of(context, DType::f32, {}, {1}));
    product.dtype = DType::f32;
    product.attributes.set(attr::dtype, std::string(name_of(product.dtype)));
    if (given.size() > 1) {
      const Attributes vector{{attr::shape, std::vector<int64_t>{count}}};
      product.weight_scale = rewriter.insert(index, "reshape", vector, {factor}, name + ".scale");
    }
    // Where nothing but a reference serves the device, the parts are as good.
    if (!(cost_of(context, device, op_of(rewriter, product, centred)) <
          cost_of(context, device, sums) + cost_of(context, device, rewriter.op(index))))
      return;
    return rewriter.rewrite(index, product.schema(), product.attributes, product.inputs(), name);
  }
}

// A real product + constant, which gives the result no more elements or dimensions.
void add_bias_at(Rewriter& rewriter, size_t index, Context& context) {
  if (!is_bare(rewriter, index, Operation::sum)) return;
  const Node& root = rewriter.node(index);
  for (size_t k = 0; k < 2; ++k) {
    const int made = sole_maker(rewriter, rewriter.input(root, k), is_integer_product);
    if (made < 0) continue;
    IntegerProduct product = integer_product(rewriter, size_t(made));
    const Dims& shape = rewriter.shape(root.outputs[0]);
    if (product.dtype != DType::f32 || product.bias != kNoValue || rewriter.has_post_ops(size_t(made)) ||
        shape != rewriter.shape(rewriter.input(root, k)))
      continue;
    const auto bias = along_axis(rewriter, rewriter.input(root, 1 - k), shape, axis_of_channels(product, shape.size()));
    if (!bias) continue;
    const std::string name = rewriter.node(size_t(made)).name;
    const TensorRef each = tensor_of(context, DType::f32, {int64_t(bias->size())}, *bias);
    product.bias = rewriter.add_constant(name + ".bias", each);
    return rewriter.rewrite(index, product.schema(), product.attributes, product.inputs(), name);
  }
}

// Weights with zero points, or of u8, as kernels take them.
void centre_at(Rewriter& rewriter, size_t index, Context& context, Device& device) {
  if (!is_integer_product(rewriter.node(index))) return;
  IntegerProduct product = integer_product(rewriter, index);
  if (rewriter.desc(product.weight).dtype == DType::s8 && product.weight_zero == kNoValue) return;
  const IntegerProduct before = product;
  if (device.traits().gpu) return;
  centre_weights(rewriter, context, product, index);
  const bool by_sums = zero_point_cost(rewriter, context, device, product).by_sums;
  if (product.weight == before.weight && product.weight_zero == before.weight_zero && !by_sums) return;
  rewrite_as(rewriter, context, index, product, by_sums, rewriter.node(index).name);
}

}  // namespace

Pass scale_products(Device* device) {
  return {"scale_products",
          "Makes the scale and the bias behind a product of integers of 8 bits parts of it, and gives its weights a "
          "form that kernels take: s8, their zero points in the weights or applied to the sums of x.  Sums are exact.",
          [device](Graph& graph, Context& context) {
            if (!device) return 0;
            int changes =
                sweep(graph, [&](Rewriter& rewriter, size_t index) { scale_at(rewriter, index, context, *device); });
            graph.tidy();
            changes += sweep(graph, [&](Rewriter& rewriter, size_t index) { add_bias_at(rewriter, index, context); });
            graph.tidy();
            return changes + sweep(graph, [&](Rewriter& rewriter, size_t index) {
                     centre_at(rewriter, index, context, *device);
                   });
          }};
}

}  // namespace pl::passes
