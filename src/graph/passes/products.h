// Products: the ops that weigh their data and add a bias (Schema::weighting) - convolutions, transposed convolutions,
// linear, matmul.  Their common ground, for passes that fold neighbours into them.
#pragma once

#include <optional>
#include <vector>

#include "graph/passes/rewriter.h"

namespace pl {
class Context;
}

namespace pl::passes {

struct Product {
  size_t index = 0;
  int64_t groups = 1;
  bool matrices = false;    // the weight is matrices (..., k, n), which take no factors by channel
  bool transposed = false;  // the weight is (c, oc / groups, ...), else (oc, c / groups, ...)
  int output_axis = 0;      // of the result: 1 for convolutions, the last one else
  int input_axis = 0;       // of the data
  int64_t output_channels = 0;
  int64_t input_channels = 0;
  bool padded = false;  // data outside of x counts as zero
};

inline constexpr size_t kWeight = 1, kBias = 2;  // inputs of all of them

std::optional<Product> product_of(Rewriter& rewriter, size_t index);

// The matrix with its dimensions exchanged: of a constant a view of its data, else what an op before node `before` makes.
ValueId turned_matrix(Rewriter& rewriter, size_t before, ValueId matrix);

// The step that reads one more input of the result's shape, if the product takes one: add(residual).
std::optional<PostOp> free_operand(const Rewriter& rewriter, size_t index, PostOp::Kind kind);

// Whether y -> scale * y + shift of the result, by output channel, can go into weight and bias.  Needs constant
// weights and bias, and no post-ops but sums; a scale other than 1 none at all.
bool takes_output_affine(Rewriter& rewriter, const Product& product, bool scales);
// Whether it has the operands that the post-ops of node `root` read.
bool takes_operands_of(const Rewriter& rewriter, const Product& product, size_t root);
// Rewrites node `root` into the product followed by y -> scale * y + shift and by the post-ops of `root`, whose operands
// it takes.  `scale` may be empty: ones.  `view`: a node between, of which `root` becomes one of that; -1: there is none.
// False where the dtype does not hold the new weight or bias, as halves those of a batch norm with a small variance.
bool fold_output_affine(Rewriter& rewriter, Context& context, const Product& product, size_t root,
                        const std::vector<double>& scale, const std::vector<double>& shift, int view = -1);

// Rewrites the product itself to read x where it read scale * x + shift, by input channel.  False where padding would
// have to be something else than zero, weights are not constant, or the dtype does not hold the new ones or the bias.
bool fold_input_affine(Rewriter& rewriter, Context& context, const Product& product, ValueId x,
                       const std::vector<double>& scale, const std::vector<double>& shift);

}  // namespace pl::passes
