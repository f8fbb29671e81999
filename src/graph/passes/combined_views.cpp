#include "graph/passes/combined_views.h"

#include <algorithm>
#include <numeric>

namespace pl::passes {

CombinedViews::CombinedViews(const Dims& source) : source_(source) {
  for (int d = 0; d < source.size(); ++d) {
    dims_.emplace_back();
    if (source[d] == 1) continue;
    dims_.back().push_back(int(factors_.size()));
    factors_.push_back({source[d], d});
  }
}

std::optional<CombinedViews> CombinedViews::back_from(Rewriter& rewriter, ValueId id, int most, ValueId& source,
                                                      int& length) {
  std::vector<size_t> nodes;
  source = id;
  while (int(nodes.size()) < most) {
    const int index = rewriter.maker(source);
    if (index < 0) break;
    const Node& node = rewriter.node(size_t(index));
    if (!is_reshape(node) && !is_permute(node)) break;
    nodes.push_back(size_t(index));
    source = rewriter.input(node, 0);
  }
  length = int(nodes.size());
  if (rewriter.desc(source).elements() == 0) return std::nullopt;  // sizes of 0 are no multiples of others
  CombinedViews combined(rewriter.shape(source));
  for (size_t i = nodes.size(); i-- > 0;) {
    const Node& node = rewriter.node(nodes[i]);
    const bool done = is_permute(node) ? combined.permute(rewriter.op(nodes[i]).attributes[attr::dims])
                                       : combined.reshape(rewriter.shape(node.outputs[0]));
    if (!done) return std::nullopt;
  }
  return combined;
}

bool CombinedViews::permute(const std::vector<int64_t>& dims) {
  std::vector<std::vector<int>> permuted;
  for (int64_t dim : dims) permuted.push_back(dims_[size_t(dim)]);
  dims_ = std::move(permuted);
  return true;
}

bool CombinedViews::reshape(const Dims& shape) {
  std::vector<int> rest;  // factors not yet given to a dimension, the next one last
  for (size_t d = dims_.size(); d-- > 0;) rest.insert(rest.end(), dims_[d].rbegin(), dims_[d].rend());
  std::vector<std::vector<int>> dims;
  for (int64_t size : shape) {
    dims.emplace_back();
    for (int64_t left = size; left != 1;) {
      if (rest.empty() || left == 0) return false;
      const int f = rest.back();
      rest.pop_back();
      const int64_t have = factors_[size_t(f)].size;
      if (have == 0) return false;
      if (left % have == 0) {
        dims.back().push_back(f);
        left /= have;
        continue;
      }
      if (have % left != 0) return false;
      // Split: the outer part here, the inner one to the next dimension.  Numbers above f move up by one.
      factors_[size_t(f)].size = left;
      factors_.insert(factors_.begin() + f + 1, {have / left, factors_[size_t(f)].dim});
      const auto renumber = [f](std::vector<int>& list) {
        for (int& other : list) other += other > f;
      };
      renumber(rest);
      for (std::vector<int>& list : dims) renumber(list);
      dims.back().push_back(f);
      rest.push_back(f + 1);
      left = 1;
    }
  }
  if (!rest.empty()) return false;
  dims_ = std::move(dims);
  return true;
}

Dims CombinedViews::shape() const {
  Dims shape;
  for (const std::vector<int>& list : dims_) {
    int64_t size = 1;
    for (int f : list) size *= factors_[size_t(f)].size;
    shape.push_back(size);
  }
  return shape;
}

bool CombinedViews::is_copied(int d) const {
  const std::vector<int>& dim = dims_[size_t(d)];
  for (size_t i = 1; i < dim.size(); ++i)
    if (dim[i] != dim[i - 1] + 1) return true;
  return false;
}

bool CombinedViews::is_copied() const {
  for (size_t d = 0; d < dims_.size(); ++d)
    if (is_copied(int(d))) return true;
  return false;
}

int64_t CombinedViews::span(int f) const {
  int64_t elements = 1;
  for (size_t i = size_t(f) + 1; i < factors_.size() && factors_[i].dim == factors_[size_t(f)].dim; ++i)
    elements *= factors_[i].size;
  return elements;
}

CombinedViews CombinedViews::with_size(int f, int64_t count) const {
  CombinedViews changed = *this;
  const int dim = factors_[size_t(f)].dim;
  changed.source_[dim] = source_[dim] / factors_[size_t(f)].size * count;
  changed.factors_[size_t(f)].size = count;
  if (count != 1) return changed;
  changed.factors_.erase(changed.factors_.begin() + f);
  for (std::vector<int>& list : changed.dims_) {
    list.erase(std::remove(list.begin(), list.end(), f), list.end());
    for (int& other : list) other -= other > f;
  }
  return changed;
}

CombinedViews CombinedViews::rearranged(std::vector<std::vector<int>> dims) const {
  CombinedViews changed = *this;
  changed.dims_ = std::move(dims);
  return changed;
}

std::optional<std::vector<CombinedViews::Step>> CombinedViews::steps() const {
  const Dims result = shape();
  std::vector<int> order;  // of factors in the result
  for (const std::vector<int>& list : dims_) order.insert(order.end(), list.begin(), list.end());
  std::vector<Step> steps;
  const auto add_reshape = [&](const Dims& shape) { steps.push_back({false, shape.vector()}); };
  if (std::is_sorted(order.begin(), order.end())) {
    if (result != source_) add_reshape(result);
    return steps;
  }
  // Factors that follow each other in both are one: block[f] is its number, in the order of the source.  Those of
  // different dimensions of the source and of the result are not, as joining them would be a copy in some layouts, and
  // where the permute can have the last word, as a view, no others of different dimensions of the result are.
  std::vector<int> place(factors_.size()), dim_of(factors_.size());
  for (size_t i = 0; i < order.size(); ++i) place[size_t(order[i])] = int(i);
  for (size_t d = 0; d < dims_.size(); ++d)
    for (int f : dims_[d]) dim_of[size_t(f)] = int(d);
  const bool copied = is_copied();
  std::vector<int> block(factors_.size(), 0);
  std::vector<int64_t> sizes;
  for (size_t f = 0; f < factors_.size(); ++f) {
    const bool in_source = f > 0 && factors_[f].dim == factors_[f - 1].dim,
               in_result = f > 0 && dim_of[f] == dim_of[f - 1];
    const bool joined = f > 0 && place[f] == place[f - 1] + 1 && (in_result || (in_source && copied));
    if (!joined) sizes.push_back(1);
    block[f] = int(sizes.size()) - 1;
    sizes.back() *= factors_[f].size;
  }
  std::vector<int64_t> permutation;  // of blocks
  for (int f : order)
    if (permutation.empty() || permutation.back() != block[size_t(f)]) permutation.push_back(block[size_t(f)]);

  // The shape before the permute: the source itself if its dimensions are those blocks and ones.
  const auto without_ones = [](const Dims& shape) {
    std::vector<int64_t> sizes;
    for (int64_t size : shape)
      if (size != 1) sizes.push_back(size);
    return sizes;
  };
  std::vector<int64_t> permuted_sizes;
  for (int64_t b : permutation) permuted_sizes.push_back(sizes[size_t(b)]);
  const bool reshape_after = without_ones(result) != permuted_sizes;
  const int ones = int(result.size()) - int(without_ones(result).size());
  const int source_ones = int(source_.size()) - int(without_ones(source_).size());
  Dims before = source_;
  if (without_ones(source_) != sizes || (!reshape_after && source_ones != ones)) {
    const int needed = reshape_after ? 0 : ones;
    if (int(sizes.size()) + needed > kMaxRank) return std::nullopt;
    before = Dims::filled(needed, 1);
    for (int64_t size : sizes) before.push_back(size);
    if (before != source_) add_reshape(before);
  }
  // The permute: ones where the result has them, else at the front.
  std::vector<int64_t> one_places, block_places, dims;
  for (int d = 0; d < before.size(); ++d) (before[d] == 1 ? one_places : block_places).push_back(d);
  size_t next_one = 0, next_block = 0;
  if (reshape_after) {
    dims = one_places;
    for (int64_t b : permutation) dims.push_back(block_places[size_t(b)]);
  } else {
    for (int64_t size : result)
      dims.push_back(size == 1 ? one_places[next_one++] : block_places[size_t(permutation[next_block++])]);
  }
  steps.push_back({true, dims});
  if (reshape_after) add_reshape(result);
  return steps;
}

namespace {

Attributes attributes_of(const CombinedViews::Step& step) {
  Attributes attributes;
  attributes.set(step.permutes ? attr::dims : attr::shape, step.numbers);
  return attributes;
}

const char* op_of(const CombinedViews::Step& step) { return step.permutes ? "permute" : "reshape"; }

}  // namespace

ValueId insert_steps(Rewriter& rewriter, size_t before, ValueId x, const std::vector<CombinedViews::Step>& steps) {
  for (const CombinedViews::Step& step : steps) x = rewriter.insert(before, op_of(step), attributes_of(step), {x}, "");
  return x;
}

void rewrite_as_steps(Rewriter& rewriter, size_t index, ValueId x, const std::vector<CombinedViews::Step>& steps) {
  if (steps.empty()) return rewriter.redirect(rewriter.node(index).outputs[0], x);
  const std::vector<CombinedViews::Step> first(steps.begin(), steps.end() - 1);
  x = insert_steps(rewriter, index, x, first);
  rewriter.rewrite(index, op_of(steps.back()), attributes_of(steps.back()), {x});
}

}  // namespace pl::passes
