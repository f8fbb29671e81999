#include "graph/passes/attention_mask.h"

#include <algorithm>
#include <cmath>

#include "graph/passes/constants.h"
#include "graph/passes/patterns.h"

namespace pl::passes {
namespace {

constexpr int64_t kLargestMask = int64_t(4) << 20;  // elements of a mask that is looked at or put together here
constexpr size_t kMostConjuncts = 16;               // of conjunctions
constexpr int kMostMaskOps = 16;                    // of ops that make a constant mask

bool is_bool(const Rewriter& rewriter, ValueId id) { return rewriter.desc(id).dtype == DType::boolean; }

// A choice between two numbers, 0 and -infinity: the condition becomes the mask.
bool take_condition(Rewriter& rewriter, MaskTerm& term) {
  const Node* choice = made_by(rewriter, term.mask, is_choice);
  if (!choice || is_bool(rewriter, term.mask)) return false;
  const Node& node = *choice;
  const auto chosen = rewriter.number(rewriter.input(node, 1)), other = rewriter.number(rewriter.input(node, 2));
  if (!chosen || !other) return false;
  const bool inverted = *chosen == -kInfinity && *other == 0;
  if (!inverted && !(*chosen == 0 && *other == -kInfinity)) return false;
  term.mask = rewriter.input(node, 0);
  term.inverted = inverted;
  return true;
}

// Splits off what a bool mask is a conjunction, or a negation, of.
bool take_apart(Rewriter& rewriter, MaskTerm& term, std::vector<MaskTerm>& more) {
  const int index = rewriter.maker(term.mask);
  if (index < 0 || !is_bool(rewriter, term.mask) || rewriter.has_post_ops(size_t(index))) return false;
  const Node& node = rewriter.node(size_t(index));
  const Operation operation = operation_of(node);
  const bool negates = computes(rewriter, size_t(index), "logical_not");
  if (!negates && operation != Operation::conjunction && operation != Operation::disjunction) return false;
  for (size_t k = 0; k < node.inputs.size(); ++k)
    if (!is_bool(rewriter, rewriter.input(node, k))) return false;
  if (negates) {
    term.mask = rewriter.input(node, 0);
    term.inverted = !term.inverted;
    return true;
  }
  if (term.hidden != -kInfinity) return false;                               // would be added twice
  if ((operation == Operation::disjunction) != term.inverted) return false;  // not (a or b) = not a and not b
  more.push_back({rewriter.input(node, 1), term.inverted, term.hidden, term.scores});
  term.mask = rewriter.input(node, 0);
  return true;
}

enum class Pattern { other, nothing, causal };

// What a mask does to the keys of each query, if that is known.
Pattern pattern_of(Rewriter& rewriter, Context& context, const MaskTerm& term) {
  const Dims& shape = rewriter.shape(term.mask);
  const int64_t count = shape.product();
  if (count > kLargestMask || count == 0) return Pattern::other;
  const TensorRef known = evaluated(rewriter, context, term.mask, kMostMaskOps, kLargestMask);
  if (!known) return Pattern::other;
  const bool boolean = is_bool(rewriter, term.mask);
  const std::vector<double> values = numbers_of(*known);
  const auto shows = [&](double value) { return boolean ? (value != 0) != term.inverted : value == 0; };
  if (std::all_of(values.begin(), values.end(), shows)) return Pattern::nothing;
  const int rank = shape.size();
  if (rank < 2) return Pattern::other;
  const int64_t rows = shape[rank - 1];
  const Dims& scores = term.scores;
  if (shape[rank - 2] != rows) return Pattern::other;
  if (scores[scores.size() - 1] != rows || scores[scores.size() - 2] != rows) return Pattern::other;
  for (int64_t at = 0; at < count; ++at) {  // of every image and head
    const int64_t i = at / rows % rows, j = at % rows;
    const double value = values[size_t(at)];
    if (shows(value) != (j <= i) || (j > i && (boolean ? term.hidden : value) != -kInfinity)) return Pattern::other;
  }
  return Pattern::causal;
}

// Calls visit(position, in a, in b) for each element of `shape`, to which both broadcast; all of one rank.
template <class Visit>
void walk_together(const Dims& shape, const Dims& a, const Dims& b, Visit&& visit) {
  const int64_t count = shape.product();
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, in_a = 0, in_b = 0, step_a = 1, step_b = 1;
    for (int d = shape.size() - 1; d >= 0; --d) {
      const int64_t at = rest % shape[d];
      rest /= shape[d];
      in_a += a[d] == 1 ? 0 : at * step_a;
      in_b += b[d] == 1 ? 0 : at * step_b;
      step_a *= a[d];
      step_b *= b[d];
    }
    visit(size_t(i), size_t(in_a), size_t(in_b));
  }
}

// What masks do together: `inner` to the scores, and then `outer`, which is added, hides keys or, where it is bool and
// `hidden` a number, makes that the score of those.
ValueId both(Rewriter& rewriter, Context& context, size_t index, ValueId inner, ValueId outer, double hidden) {
  const bool replaces = is_bool(rewriter, outer);
  if (!replaces && is_bool(rewriter, inner)) return both(rewriter, context, index, outer, inner, -kInfinity);
  const bool only_hides = is_bool(rewriter, inner) && replaces && hidden == -kInfinity;
  const Dims one = rewriter.shape(inner), other = rewriter.shape(outer);
  Dims shape = one;
  for (int d = 0; d < shape.size(); ++d) shape[d] = std::max(one[d], other[d]);
  const DType dtype = rewriter.desc(inner).dtype;
  if (rewriter.is_constant(inner) && rewriter.is_constant(outer) && shape.product() <= kLargestMask) {
    const std::vector<double> x = numbers_of(rewriter.constant(inner)), y = numbers_of(rewriter.constant(outer));
    std::vector<double> values(size_t(shape.product()));
    walk_together(shape, one, other, [&](size_t i, size_t in_x, size_t in_y) {
      values[i] = only_hides ? double(x[in_x] != 0 && y[in_y] != 0)
                  : replaces ? (y[in_y] != 0 ? x[in_x] : hidden)
                             : x[in_x] + y[in_y];
    });
    return rewriter.add_constant("mask", tensor_of(context, dtype, shape, values));
  }
  if (!replaces) return rewriter.insert(index, "add", Attributes(), {inner, outer}, "");
  if (only_hides) return rewriter.insert(index, "logical_and", Attributes(), {inner, outer}, "");
  const ValueId number = rewriter.add_constant("hidden", tensor_of(context, dtype, {}, {hidden}));
  return rewriter.insert(index, "where", Attributes(), {outer, inner, number}, "");
}

}  // namespace

MaskTerms simplified_masks(Rewriter& rewriter, Context& context, const std::vector<MaskTerm>& terms) {
  MaskTerms result;
  std::vector<MaskTerm> rest(terms.rbegin(), terms.rend());  // the next one last
  while (!rest.empty()) {
    MaskTerm term = rest.back();
    rest.pop_back();
    do term.mask = without_repeats(rewriter, term.mask);
    while (take_condition(rewriter, term) ||
           (result.terms.size() + rest.size() < kMostConjuncts && take_apart(rewriter, term, rest)));
    const Pattern pattern = pattern_of(rewriter, context, term);
    // A number that replaces scores afterwards shows hidden keys again.
    const bool replaced = std::any_of(result.terms.begin(), result.terms.end(),
                                      [](const MaskTerm& after) { return after.hidden != -kInfinity; });
    if (pattern == Pattern::causal && !replaced)
      result.causal = true;
    else if (pattern != Pattern::nothing)
      result.terms.push_back(term);
  }
  return result;
}

std::optional<Dims> mask_for(const Dims& mask, const Dims& scores, const Dims& fine) {
  Dims result;
  int next = 0;
  const int rank = scores.size(), fine_rank = fine.size();
  for (int d = 0; d < rank; ++d) {
    const int at = d - (rank - mask.size());
    const bool broadcast = at < 0 || mask[at] == 1;
    int64_t product = 1;
    while (next < fine_rank && (product < scores[d] || (d == rank - 1 && next < fine_rank))) {
      product *= fine[next];
      result.push_back(broadcast ? 1 : fine[next]);
      ++next;
    }
    if (product != scores[d]) return std::nullopt;
  }
  if (next != fine_rank) return std::nullopt;
  return result;
}

ValueId joined_mask(Rewriter& rewriter, Context& context, size_t index, DType dtype, const std::vector<MaskTerm>& terms,
                    const std::vector<Dims>& shapes) {
  ValueId joined = kNoValue;
  const auto number = [&](const Dims& shape, double value) {
    return rewriter.add_constant("mask", tensor_of(context, dtype, shape, {value}));
  };
  for (size_t i = terms.size(); i-- > 0;) {  // from the first product on
    ValueId mask = terms[i].mask;
    if (rewriter.shape(mask) != shapes[i]) {
      if (rewriter.is_constant(mask)) {
        mask = rewriter.add_constant(
            "mask", tensor_of(context, rewriter.desc(mask).dtype, shapes[i], numbers_of(rewriter.constant(mask))));
      } else {
        Attributes attributes;
        attributes.set(attr::shape, shapes[i].vector());
        mask = rewriter.insert(index, "reshape", attributes, {mask}, "");
      }
    }
    const double hidden = is_bool(rewriter, mask) ? terms[i].hidden : -kInfinity;
    if (terms[i].inverted) mask = rewriter.insert(index, "logical_not", Attributes(), {mask}, "");
    // A number stands beside others: 0, or -infinity where keys are hidden so far.
    if (hidden != -kInfinity && joined == kNoValue)
      joined = number(Dims::filled(shapes[i].size(), 1), 0);
    else if (hidden != -kInfinity && is_bool(rewriter, joined))
      joined = rewriter.insert(index, "where", Attributes(), {joined, number({}, 0), number({}, -kInfinity)}, "");
    joined = joined == kNoValue ? mask : both(rewriter, context, index, joined, mask, hidden);
  }
  return joined;
}

}  // namespace pl::passes
