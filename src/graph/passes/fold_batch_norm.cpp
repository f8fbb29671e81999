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

// Into the op before.
bool fold_norm_into_product_before(Rewriter& rewriter, Context& context, size_t index) {
  const Node& node = rewriter.node(index);
  const ValueId x = rewriter.input(node, 0);
  const int before = rewriter.maker(x);
  if (before < 0 || rewriter.uses(x) != 1) return false;
  const auto product = product_of(rewriter, size_t(before));
  if (!product || product->output_axis != 1 || !takes_output_affine(rewriter, *product, true)) return false;
  if (!takes_operands_of(rewriter, *product, index)) return false;
  const auto affine = affine_of_norm(rewriter, index);
  if (!affine) return false;
  fold_output_affine(rewriter, context, *product, index, affine->scale, affine->shift);
  return true;
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
          "or of the one after it if that has no padding.  Weights are computed in double and rounded once, so a "
          "result changes by some roundings of its dtype relative to the sum of the products' magnitudes.",
          run_fold_batch_norm};
}

}  // namespace pl::passes
