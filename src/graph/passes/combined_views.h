// CombinedViews: what reshapes and permutations one behind the other do, however many: dimensions are split into
// factors, the factors put into another order, and neighbours joined.
#pragma once

#include <optional>
#include <vector>

#include "graph/passes/patterns.h"

namespace pl::passes {

class CombinedViews {
 public:
  // A part of a dimension of the source; parts of one dimension stand next to each other, the outermost first.
  struct Factor {
    int64_t size = 1;  // never 1
    int dim = 0;       // of the source
  };

  explicit CombinedViews(const Dims& source);
  // The views that end with `id`, up to `most` of them back; sets what it starts from and the number of views.
  static std::optional<CombinedViews> back_from(Rewriter& rewriter, ValueId id, int most, ValueId& source, int& length);

  bool permute(const std::vector<int64_t>& dims);
  bool reshape(const Dims& shape);  // false (and undefined from then on) if factors would have to be broken up

  const std::vector<Factor>& factors() const { return factors_; }      // in the order of the source
  const std::vector<std::vector<int>>& dims() const { return dims_; }  // of the result: factors, outermost first
  Dims shape() const;                                                  // of the result
  // Whether factor f is the outermost of its source dimension; the elements that one step of it spans there.
  bool is_outermost(int f) const { return f == 0 || factors_[size_t(f) - 1].dim != factors_[size_t(f)].dim; }
  int64_t span(int f) const;
  // Whether dimension d, or any, is made of factors that do not follow one another in the source, which no view can do.
  bool is_copied(int d) const;
  bool is_copied() const;
  // The same for a source in which one step `count` of factor f's steps are left.
  CombinedViews with_size(int f, int64_t count) const;
  // From this source to another arrangement of its factors.
  CombinedViews rearranged(std::vector<std::vector<int>> dims) const;

  // The ops that do this: at most reshape, permute, reshape.
  struct Step {
    bool permutes = false;
    std::vector<int64_t> numbers;  // dims or shape
  };
  std::optional<std::vector<Step>> steps() const;  // none if a tensor of too many dimensions would be needed

 private:
  Dims source_;
  std::vector<Factor> factors_;
  std::vector<std::vector<int>> dims_;
};

// Inserts the steps before node `before`; the value at the end.
ValueId insert_steps(Rewriter& rewriter, size_t before, ValueId x, const std::vector<CombinedViews::Step>& steps);
// Makes node `index` the last of the steps, the others inserted before it; with no steps it is redirected to x.
void rewrite_as_steps(Rewriter& rewriter, size_t index, ValueId x, const std::vector<CombinedViews::Step>& steps);

}  // namespace pl::passes
