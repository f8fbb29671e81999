// join_parts: a sum of tensors with zeros around them, whose own elements lie side by side, is their concat.
#include <algorithm>

#include "graph/passes/passes.h"
#include "graph/passes/patterns.h"

namespace pl::passes {
namespace {

// What `pad` puts zeros around, along one dimension.
struct PaddedPart {
  ValueId value = kNoValue;
  int dim = 0;
  int64_t begin = 0, end = 0;  // its own positions in the padded tensor
};

std::optional<PaddedPart> padded_part_of(Rewriter& rewriter, ValueId id) {
  const auto border = border_of(rewriter, id);
  if (!border || border->value != 0) return std::nullopt;
  PaddedPart part;
  part.value = border->x;
  part.dim = -1;
  for (size_t d = 0; d < border->begins.size(); ++d) {
    const int64_t begin = border->begins[d], end = border->ends[d];
    if (begin == 0 && end == 0) continue;
    if (begin < 0 || end < 0 || part.dim >= 0) return std::nullopt;
    part.dim = int(d);
    part.begin = begin;
    part.end = begin + rewriter.shape(part.value)[part.dim];
  }
  if (part.dim < 0) return std::nullopt;
  return part;
}

bool is_plain_sum(Rewriter& rewriter, size_t index) {
  if (!is_bare(rewriter, index, Operation::sum)) return false;
  const Op op = rewriter.op(index);
  return op.inputs.size() >= 2 && op.in(0).shape == op.out().shape && op.in(1).shape == op.out().shape &&
         op.in(0).dtype == op.out().dtype && op.in(1).dtype == op.out().dtype && !op.has(2);
}

// The sum that makes a value and that nothing else uses; -1: it is a term.
int inner_sum(Rewriter& rewriter, ValueId id) {
  const int maker = rewriter.sole_maker(id);
  return maker >= 0 && is_plain_sum(rewriter, size_t(maker)) ? maker : -1;
}

void collect(Rewriter& rewriter, size_t sum, std::vector<ValueId>& terms) {
  for (size_t k = 0; k < 2; ++k) {
    const ValueId id = rewriter.input(rewriter.node(sum), k);
    const int inner = inner_sum(rewriter, id);
    if (inner < 0)
      terms.push_back(id);
    else
      collect(rewriter, size_t(inner), terms);
  }
}

ValueId joined(Rewriter& rewriter, size_t index, const std::vector<PaddedPart>& parts, const Dims& whole) {
  const std::string name = rewriter.node(index).name;
  const int dim = parts[0].dim;
  std::vector<ValueId> values;
  for (const PaddedPart& part : parts) values.push_back(part.value);
  Attributes attributes;
  attributes.set(attr::dim, int64_t(dim));
  const ValueId made = rewriter.insert(index, "concat", attributes, values, name);
  const int64_t before = parts.front().begin, after = whole[dim] - parts.back().end;
  if (before == 0 && after == 0) return made;
  std::vector<int64_t> pad(size_t(2 * (whole.size() - dim)), 0);
  pad[pad.size() - 2] = before;
  pad.back() = after;
  Attributes around;
  around.set(attr::pad, pad);
  return rewriter.insert(index, "pad", around, {made}, name);
}

void join(Rewriter& rewriter, size_t index) {
  const Node& node = rewriter.node(index);
  std::vector<ValueId> terms;
  collect(rewriter, index, terms);
  std::vector<ValueId> others;
  std::vector<std::pair<PaddedPart, ValueId>> parts;  // and the padded tensor
  for (ValueId term : terms) {
    if (const auto part = padded_part_of(rewriter, term))
      parts.emplace_back(*part, term);
    else
      others.push_back(term);
  }
  std::sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first.dim, a.first.begin) < std::pair(b.first.dim, b.first.begin);
  });
  const Dims whole = rewriter.shape(node.outputs[0]);
  for (size_t i = 0; i < parts.size();) {
    std::vector<PaddedPart> run{parts[i].first};
    size_t next = i + 1;
    for (; next < parts.size() && parts[next].first.dim == run[0].dim && parts[next].first.begin == run.back().end;
         ++next)
      run.push_back(parts[next].first);
    others.push_back(run.size() > 1 ? joined(rewriter, index, run, whole) : parts[i].second);
    i = next;
  }
  if (others.size() == terms.size()) return;
  ValueId sum = others[0];
  for (size_t i = 1; i + 1 < others.size(); ++i) sum = rewriter.insert(index, "add", {}, {sum, others[i]}, node.name);
  if (others.size() == 1) return rewriter.redirect(node.outputs[0], sum);
  const Attributes attributes = node.attributes;
  rewriter.rewrite(index, "add", attributes, {sum, others.back()});
}

int run_join_parts(Graph& graph, Context&) {
  std::vector<bool> is_inner;
  return sweep(graph, [&](Rewriter& rewriter, size_t index) {
    if (is_inner.empty()) {
      is_inner.resize(rewriter.size(), false);
      for (size_t i = 0; i < rewriter.size(); ++i) {
        if (!is_plain_sum(rewriter, i)) continue;
        for (size_t k = 0; k < 2; ++k)
          if (const int inner = inner_sum(rewriter, rewriter.input(rewriter.node(i), k)); inner >= 0)
            is_inner[size_t(inner)] = true;
      }
    }
    if (!is_inner[index] && is_plain_sum(rewriter, index)) join(rewriter, index);
  });
}

}  // namespace

Pass join_parts() {
  return {
      "join_parts",
      "Makes a sum of tensors with borders of zeros, whose own elements lie side by side, their concat: gradients of "
      "slices of one tensor.  Exact.",
      run_join_parts};
}

}  // namespace pl::passes
