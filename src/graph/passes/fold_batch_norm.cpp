// fold_batch_norm: batch normalisation of inference is a scale and a shift by channel, which the op before it, or the
// one after it, takes into its weights and bias.
#include <cmath>

#include "graph/passes/constants.h"
#include "graph/passes/passes.h"
#include "graph/passes/patterns.h"
#include "graph/passes/products.h"

namespace pl::passes {
namespace {

struct NormAffine {
  std::vector<double> scale, shift;
};

std::optional<NormAffine> affine_of_norm(Rewriter& rewriter, size_t index) {
  const Node& node = rewriter.node(index);
  std::vector<double> parts[4];  // mean, variance, weight, bias
  for (size_t k = 0; k < 4; ++k) {
    const ValueId id = rewriter.input(node, k + 1);
    if (id == kNoValue) continue;
    if (!rewriter.is_constant(id)) return std::nullopt;
    parts[k] = numbers_of(rewriter.constant(id));
  }
  const double eps = rewriter.op(index).attributes[attr::eps];
  NormAffine affine;
  for (size_t c = 0; c < parts[0].size(); ++c) {
    const double scale = (parts[2].empty() ? 1 : parts[2][c]) / std::sqrt(parts[1][c] + eps);
    affine.scale.push_back(scale);
    affine.shift.push_back((parts[3].empty() ? 0 : parts[3][c]) - parts[0][c] * scale);
  }
  return affine;
}

// The node that makes rows of what is normalised, (rows, c), of a tensor (..., c), as LeViT does behind linear layers;
// or -1.
int rows_made_before(Rewriter& rewriter, ValueId x) {
  const int view = sole_maker(rewriter, x, is_reshape);
  if (view < 0 || rewriter.shape(x).size() != 2) return -1;
  const Dims& shape = rewriter.shape(rewriter.input(rewriter.node(size_t(view)), 0));
  return shape.size() > 0 && shape[shape.size() - 1] == rewriter.shape(x)[1] ? view : -1;
}

// Into the op before.
bool fold_norm_into_product_before(Rewriter& rewriter, Context& context, size_t index) {
  const ValueId x = rewriter.input(rewriter.node(index), 0);
  const int view = rewriter.has_post_ops(index) ? -1 : rows_made_before(rewriter, x);
  const ValueId y = view < 0 ? x : rewriter.input(rewriter.node(size_t(view)), 0);
  const int before = rewriter.sole_maker(y);
  if (before < 0) return false;
  const auto product = product_of(rewriter, size_t(before));
  if (!product || !takes_output_affine(rewriter, *product, true)) return false;
  if (product->output_axis != (view < 0 ? 1 : rewriter.desc(y).rank() - 1)) return false;
  if (!takes_operands_of(rewriter, *product, index)) return false;
  const auto affine = affine_of_norm(rewriter, index);
  if (!affine) return false;
  return fold_output_affine(rewriter, context, *product, index, affine->scale, affine->shift, view);
}

// Into the op after: `index` is that op.
void fold_norm_into_product_behind(Rewriter& rewriter, Context& context, size_t index) {
  const auto product = product_of(rewriter, index);
  if (!product || product->input_axis != 1) return;
  const int before = sole_maker(rewriter, rewriter.input(rewriter.node(index), 0), is_batch_norm);
  if (before < 0 || rewriter.has_post_ops(size_t(before))) return;
  const ValueId x = rewriter.input(rewriter.node(size_t(before)), 0);
  if (const auto affine = affine_of_norm(rewriter, size_t(before)))
    fold_input_affine(rewriter, context, *product, x, affine->scale, affine->shift);
}

int run_fold_batch_norm(Graph& graph, Context& context) {
  return sweep(graph, [&](Rewriter& rewriter, size_t index) {
    if (is_batch_norm(rewriter.node(index))) {
      fold_norm_into_product_before(rewriter, context, index);
    } else {
      fold_norm_into_product_behind(rewriter, context, index);
    }
  });
}

}  // namespace

Pass fold_batch_norm() {
  return {"fold_batch_norm",
          "Folds batch_norm with constant statistics into weights and bias of the convolution or linear op before it, "
          "or of the one after it if that has no padding; a view as rows may stand between.  Weights are computed in "
          "double and rounded once, so a "
          "result changes by some roundings of its dtype relative to the sum of the products' magnitudes.",
          run_fold_batch_norm};
}

}  // namespace pl::passes
