// The weights of an attention: from the product with the values back to the softmax and what it is of.
#pragma once

#include "graph/passes/rewriter.h"

namespace pl::passes {

// Dropout between the softmax and the values.
struct DroppedWeights {
  ValueId seed = kNoValue;
  double p = 0;
};

// The softmax that gives the weights, and the scores in it; rows without any key, which are no numbers, may have been
// made 0.
struct AttentionWeights {
  int softmax = -1;
  ValueId scores = kNoValue;
  bool tested = false;       // the scores, by what finds those rows
  ValueId sinks = kNoValue;  // a column of scores more, (..., l, 1), that broadcasts to it: its weights have no values
};
AttentionWeights attention_weights(Rewriter& rewriter, ValueId weights, DroppedWeights& dropped);

// Whether a reshape from one to the other leaves the last two dimensions alone.
bool same_rows(const Dims& a, const Dims& b);
// What a reshape that is used once shows in other dimensions before the last two; else the value itself.
ValueId before_view_of_heads(Rewriter& rewriter, ValueId id);

}  // namespace pl::passes
