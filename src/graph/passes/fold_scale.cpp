// fold_scale: factors and terms by channel go into the weights and bias of the product before or after them.
#include <algorithm>

#include "graph/passes/constants.h"
#include "graph/passes/passes.h"
#include "graph/passes/patterns.h"
#include "graph/passes/products.h"

namespace pl::passes {
namespace {

struct OperandAffine {
  ValueId x = kNoValue;
  std::vector<double> scale, shift;
};

// What c does to the other operand: as a factor and a term.  `first`: c is the first of the two.
std::pair<double, double> affine_by(Operation operation, double c, bool first) {
  switch (operation) {
    case Operation::product: return {c, 0.0};
    case Operation::quotient: return {1 / c, 0.0};
    case Operation::difference: return first ? std::pair(-1.0, c) : std::pair(1.0, -c);
    default: return {1.0, c};  // sum
  }
}

// What an arithmetic node without activation does to its one operand that is not constant, along `axis` of its result.
// Division by a constant only: c / x is not affine.
std::optional<OperandAffine> affine_of_scale(Rewriter& rewriter, size_t index, int axis) {
  const Node& node = rewriter.node(index);
  const Operation operation = operation_of(node);
  const bool scales = operation == Operation::product || operation == Operation::quotient;
  if (!scales && operation != Operation::sum && operation != Operation::difference) return std::nullopt;
  const Dims& shape = rewriter.shape(node.outputs[0]);
  for (size_t k = 0; k < 2; ++k) {
    const ValueId x = rewriter.input(node, k), constant = rewriter.input(node, 1 - k);
    if (rewriter.is_constant(x) || !rewriter.is_constant(constant) || rewriter.shape(x) != shape) continue;
    if (k == 1 && operation == Operation::quotient) return std::nullopt;
    auto values = along_axis(rewriter, constant, shape, axis);
    if (!values) return std::nullopt;
    OperandAffine affine;
    affine.x = x;
    for (double c : *values) {
      const auto [scale, shift] = affine_by(operation, c, k == 1);
      affine.scale.push_back(scale);
      affine.shift.push_back(shift);
    }
    return affine;
  }
  return std::nullopt;
}

// The operand of an arithmetic node that is not constant.
ValueId variable_operand(Rewriter& rewriter, const Node& node) {
  for (size_t k = 0; k < 2; ++k)
    if (rewriter.is_constant(rewriter.input(node, 1 - k))) return rewriter.input(node, k);
  return kNoValue;
}

// Into the product before.
void fold_scale_into_product_before(Rewriter& rewriter, Context& context, size_t index) {
  const Node& node = rewriter.node(index);
  const ValueId y = variable_operand(rewriter, node);
  const int before = rewriter.maker(y);
  if (before < 0 || rewriter.uses(y) != 1) return;
  const auto product = product_of(rewriter, size_t(before));
  if (!product) return;
  const auto affine = affine_of_scale(rewriter, index, product->output_axis);
  if (!affine) return;
  const bool scales = std::any_of(affine->scale.begin(), affine->scale.end(), [](double s) { return s != 1; });
  if (!takes_output_affine(rewriter, *product, scales)) return;
  fold_output_affine(rewriter, context, *product, index, affine->scale, affine->shift);
}

// Into the product after: `index` is that product.
void fold_scale_into_product_behind(Rewriter& rewriter, Context& context, size_t index) {
  const auto product = product_of(rewriter, index);
  if (!product) return;
  const int before = rewriter.sole_maker(rewriter.input(rewriter.node(index), 0));
  if (before < 0 || rewriter.has_post_ops(size_t(before))) return;
  if (const auto affine = affine_of_scale(rewriter, size_t(before), product->input_axis))
    fold_input_affine(rewriter, context, *product, affine->x, affine->scale, affine->shift);
}

int run_fold_scale(Graph& graph, Context& context) {
  return sweep(graph, [&](Rewriter& rewriter, size_t index) {
    if (operation_of(rewriter.node(index)) != Operation::none)
      fold_scale_into_product_before(rewriter, context, index);
    else
      fold_scale_into_product_behind(rewriter, context, index);
  });
}

}  // namespace

Pass fold_scale() {
  return {"fold_scale",
          "Folds products, quotients, sums and differences with constants by channel into weights and bias of the "
          "convolution or linear op before, or of the one after it (terms only if that has no padding).  A result "
          "changes by roundings of its dtype relative to the sum of the magnitudes; intermediate overflow may vanish.",
          run_fold_scale};
}

}  // namespace pl::passes
