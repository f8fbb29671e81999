// fuse_squeeze_excite: the mean of each channel, two 1x1 convolutions of it and the product with the channels are one
// op.
#include <optional>
#include <string>

#include "graph/passes/passes.h"
#include "graph/passes/patterns.h"
#include "graph/passes/products.h"

namespace pl::passes {
namespace {

// Elements of a weight: each image's work-group reads both weights, which takes longer than two launches beyond that, and
// than some twelve where there are gradients.
constexpr int64_t kMostWeights = 65536, kMostTrainedWeights = 8 * kMostWeights;

// A 1x1 convolution and the function behind it.
struct Layer {
  size_t index;
  std::string function;
};

// The 1x1 convolution that alone makes `value`, of one position, if it has a bias and ends with one of these functions:
// its post-op, or in graphs that are to be trained a node.
std::optional<Layer> layer(Rewriter& rewriter, ValueId value, const std::vector<std::string>& functions, bool trained) {
  int index = rewriter.sole_maker(value);
  if (index < 0) return std::nullopt;
  PostOps post_ops;
  if (trained && applies_function(rewriter.node(size_t(index)))) {
    post_ops = {function_of(rewriter.op(size_t(index)))};
    index = rewriter.sole_maker(rewriter.input(rewriter.node(size_t(index)), 0));
    if (index < 0 || !rewriter.post_ops(size_t(index)).empty()) return std::nullopt;
  } else {
    post_ops = rewriter.post_ops(size_t(index));
  }
  const auto product = product_of(rewriter, size_t(index));
  const Node& node = rewriter.node(size_t(index));
  if (!product || product->output_axis != 1 || product->groups != 1 || product->padded) return std::nullopt;
  if (post_ops.size() != 1 || post_ops[0].kind != PostOp::Kind::function) return std::nullopt;
  const ValueId weight = rewriter.input(node, kWeight), bias = rewriter.input(node, kBias);
  if (bias == kNoValue) return std::nullopt;
  if (!trained && (!rewriter.is_constant(weight) || !rewriter.is_constant(bias))) return std::nullopt;
  const Dims &of_weight = rewriter.shape(weight), &of_x = rewriter.shape(rewriter.input(node, 0));
  for (int d = 2; d < of_weight.size(); ++d)
    if (of_weight[d] != 1 || of_x[d] != 1) return std::nullopt;
  if (of_weight[0] * of_weight[1] > (trained ? kMostTrainedWeights : kMostWeights)) return std::nullopt;
  for (const std::string& known : functions)
    if (post_ops[0].name == known) return Layer{size_t(index), known};
  return std::nullopt;
}

bool fuse_squeeze_excite_at(Rewriter& rewriter, size_t index, size_t k, bool trained) {
  const Node& node = rewriter.node(index);
  const ValueId x = rewriter.input(node, 1 - k), gates = rewriter.input(node, k);
  const Dims& shape = rewriter.shape(x);
  if (shape.size() < 3 || shape[1] % 4 || rewriter.shape(node.outputs[0]) != shape) return false;
  const auto second = layer(rewriter, gates, {"sigmoid", "hardsigmoid"}, trained);
  if (!second || rewriter.shape(gates).size() != shape.size() || rewriter.shape(gates)[1] != shape[1]) return false;
  const auto first =
      layer(rewriter, rewriter.input(rewriter.node(second->index), 0), {"relu", "silu", "hardswish"}, trained);
  if (!first) return false;
  const int pool = sole_maker(rewriter, rewriter.input(rewriter.node(first->index), 0), is_adaptive_pool);
  if (pool < 0) return false;
  const Op pooling = rewriter.op(size_t(pool));
  if (pooling.attributes[attr::mode] != "avg" || rewriter.input(rewriter.node(size_t(pool)), 0) != x) return false;
  const Node &one = rewriter.node(first->index), &two = rewriter.node(second->index);
  Attributes attributes;
  attributes.set(attr::hidden, first->function);
  attributes.set(attr::gate, second->function);
  rewriter.rewrite(index, "squeeze_excite", attributes,
                   {x, rewriter.input(one, kWeight), rewriter.input(one, kBias), rewriter.input(two, kWeight),
                    rewriter.input(two, kBias)});
  return true;
}

int run_fuse_squeeze_excite(Graph& graph, bool trained) {
  return sweep(graph, [trained](Rewriter& rewriter, size_t index) {
    if (!is_bare(rewriter, index, Operation::product)) return;
    if (!fuse_squeeze_excite_at(rewriter, index, 0, trained)) fuse_squeeze_excite_at(rewriter, index, 1, trained);
  });
}

}  // namespace

Pass fuse_squeeze_excite(bool trained) {
  return {
      "fuse_squeeze_excite",
      "Makes the global average of a tensor, two 1x1 convolutions with bias and activation and the product with the "
      "tensor one squeeze_excite, if the channels are a multiple of 4 and the weights at most 65536 numbers; of graphs "
      "that are trained 524288.  Sums "
      "between the layers are not rounded to narrower dtypes; exact in f32 but for the order of additions.",
      [trained](Graph& graph, Context&) { return run_fuse_squeeze_excite(graph, trained); }};
}

}  // namespace pl::passes
