// What is done to the scores of an attention between its two products: sums and choices become one mask, or the flag
// that says it is causal.
#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "graph/passes/rewriter.h"

namespace pl {
class Context;
}

namespace pl::passes {

// One change of the scores: a floating mask is added to them; where a bool one is False (`inverted`: True), they are
// `hidden`: with -infinity, keys take no part.
struct MaskTerm {
  ValueId mask = kNoValue;
  bool inverted = false;
  double hidden = -std::numeric_limits<double>::infinity();
  Dims scores = {};                                         // the shape of the scores that it is applied to
  double factor = 1;                                        // of what is added
  double least = -std::numeric_limits<double>::infinity();  // what is added counts as at least that
};

// Terms that do the same and say more: choices between 0 and -infinity become bool masks, conjunctions one term each,
// what is repeated is given once, what hides nothing is dropped, and a triangle that hides the keys
// behind each query becomes `causal`.
struct MaskTerms {
  std::vector<MaskTerm> terms;
  bool causal = false;
};
MaskTerms simplified_masks(Rewriter& rewriter, Context& context, const std::vector<MaskTerm>& terms);

// The shape in which a mask of this shape, that broadcasts to `scores`, broadcasts to `fine`, a view of them whose
// dimensions are the same ones or parts of them.
std::optional<Dims> mask_for(const Dims& mask, const Dims& scores, const Dims& fine);

// One mask in the place of all terms, the last of which is applied first, the i-th seen in shapes[i], all of one rank;
// inserted before node `index`.  What is added is of `dtype`.
ValueId joined_mask(Rewriter& rewriter, Context& context, size_t index, DType dtype, const std::vector<MaskTerm>& terms,
                    const std::vector<Dims>& shapes);

}  // namespace pl::passes
