// recognise_scan: Mamba's loop over steps, as exporters unroll it, becomes selective_scan.
//
// Step t of the loop is h[t] = decay[:, :, t] * h[t - 1] + taken[:, :, t] and y[t] = h[t] @ c[:, t], with
// decay = exp(delta * a) and taken = delta * b * u of shape (n, d, steps, states), and h[-1] = 0; a concat joins all
// y[t].
#include <algorithm>

#include "graph/passes/combined_views.h"
#include "graph/passes/constants.h"
#include "graph/passes/passes.h"
#include "graph/passes/patterns.h"

namespace pl::passes {
namespace {

// What lies at place `t` of axis `axis` of `source`, whatever the shape that shows it.
struct Selected {
  ValueId source = kNoValue;
  int axis = 0;
  int64_t place = 0;
};

// What reshapes show, each of which is used once.
ValueId before_reshapes(Rewriter& rewriter, ValueId id) {
  for (int index = rewriter.maker(id); index >= 0 && rewriter.uses(id) == 1; index = rewriter.maker(id)) {
    if (!is_reshape(rewriter.node(size_t(index)))) break;
    id = rewriter.input(rewriter.node(size_t(index)), 0);
  }
  return id;
}

std::optional<Selected> selected(Rewriter& rewriter, ValueId id) {
  const int index = sole_maker(rewriter, before_reshapes(rewriter, id), is_slice);
  if (index < 0) return std::nullopt;
  const Op op = rewriter.op(size_t(index));
  const Dims &from = op.in(0).shape, &to = op.out().shape;
  Selected found;
  int axes = 0;
  for (int d = 0; d < from.size(); ++d) {
    if (from[d] == to[d]) continue;
    if (to[d] != 1) return std::nullopt;
    found.axis = d;
    ++axes;
  }
  if (axes != 1) return std::nullopt;
  found.source = rewriter.input(rewriter.node(size_t(index)), 0);
  found.place = op.attributes[attr::starts][size_t(found.axis)];
  return found;
}

bool is_zero(Rewriter& rewriter, ValueId id) {
  if (!rewriter.is_constant(id) || rewriter.desc(id).dtype != DType::f32) return false;
  const std::vector<double> numbers = numbers_of(rewriter.constant(id));
  return std::all_of(numbers.begin(), numbers.end(), [](double number) { return number == 0; });
}

// The inputs of the operation that makes a value.
std::optional<std::pair<ValueId, ValueId>> operands(Rewriter& rewriter, ValueId id, Operation operation) {
  const Node* node = made_by(rewriter, id, operation);
  if (!node) return std::nullopt;
  return std::make_pair(rewriter.input(*node, 0), rewriter.input(*node, 1));
}

struct Loop {
  ValueId decay = kNoValue, taken = kNoValue, c = kNoValue;
};

// The tensor that all steps select from, each its own place along `axis`.
bool agrees(ValueId& all, const std::optional<Selected>& part, int axis, int64_t step) {
  if (!part || part->axis != axis || part->place != step) return false;
  if (all == kNoValue) all = part->source;
  return all == part->source;
}

// h[t] = decay * h[t - 1] + taken; the state before it.
std::optional<ValueId> previous(Rewriter& rewriter, ValueId state, int64_t step, Loop& loop) {
  const auto sum = operands(rewriter, state, Operation::sum);
  if (!sum) return std::nullopt;
  for (const auto& [kept, taken] : {*sum, std::make_pair(sum->second, sum->first)}) {
    if (rewriter.uses(kept) != 1) continue;
    const auto product = operands(rewriter, kept, Operation::product);
    if (!product) continue;
    for (const auto& [decay, before] : {*product, std::make_pair(product->second, product->first)}) {
      Loop tried = loop;
      if (!agrees(tried.decay, selected(rewriter, decay), 2, step)) continue;
      if (!agrees(tried.taken, selected(rewriter, taken), 2, step)) continue;
      loop = tried;
      return before;
    }
  }
  return std::nullopt;
}

std::optional<Loop> loop_of(Rewriter& rewriter, const std::vector<ValueId>& results) {
  Loop loop;
  ValueId state = kNoValue;  // that the step after uses
  for (int64_t t = int64_t(results.size()) - 1; t >= 0; --t) {
    const int product = sole_maker(rewriter, before_reshapes(rewriter, results[size_t(t)]), is_matrix_product);
    if (product < 0) return std::nullopt;
    const Node& node = rewriter.node(size_t(product));
    const Op op = rewriter.op(size_t(product));
    if (node.inputs.size() != 2 || rewriter.has_post_ops(size_t(product)) || op.attributes[attr::transpose_a] ||
        op.attributes[attr::transpose_b])
      return std::nullopt;
    const ValueId own = rewriter.input(node, 0);
    const bool last = state == kNoValue;
    if ((!last && own != state) || rewriter.uses(own) != (last ? 1 : 2)) return std::nullopt;
    if (!agrees(loop.c, selected(rewriter, rewriter.input(node, 1)), 1, t)) return std::nullopt;
    const auto before = previous(rewriter, own, t, loop);
    if (!before) return std::nullopt;
    state = *before;
  }
  if (!is_zero(rewriter, state)) return std::nullopt;
  return loop;
}

// The factors of a product of any association.
void factors_of(Rewriter& rewriter, ValueId id, std::vector<ValueId>& factors) {
  constexpr size_t kMost = 3;
  const auto product = operands(rewriter, id, Operation::product);
  if (!product || factors.size() + 2 > kMost) {
    factors.push_back(id);
    return;
  }
  factors_of(rewriter, product->first, factors);
  factors_of(rewriter, product->second, factors);
}

void recognise_scan_at(Rewriter& rewriter, size_t index) {
  const Node& node = rewriter.node(index);
  if (!is_concat(node) || node.inputs.size() < 2) return;
  const Dims joined = rewriter.shape(node.outputs[0]);
  const std::vector<ValueId> results = rewriter.inputs(node);
  if (joined.size() != 3 || joined[2] != int64_t(results.size()) || rewriter.op(index).attributes[attr::dim] != 2)
    return;
  const auto loop = loop_of(rewriter, results);
  if (!loop) return;
  const Dims whole = rewriter.shape(loop->decay);
  if (whole.size() != 4 || rewriter.shape(loop->taken) != whole || rewriter.desc(loop->decay).dtype != DType::f32)
    return;
  const int64_t n = whole[0], d = whole[1], steps = whole[2], states = whole[3];
  if (joined != Dims{n, d, steps} || rewriter.shape(loop->c) != Dims{n, steps, states}) return;
  const Dims by_step{n, d, steps, 1}, by_state{n, 1, steps, states}, rates{1, d, 1, states};
  // decay = exp(delta * a)
  const Node* exponential = made_by(rewriter, loop->decay, "exp");
  if (!exponential) return;
  const auto exponent = operands(rewriter, rewriter.input(*exponential, 0), Operation::product);
  if (!exponent) return;
  ValueId delta = exponent->first, a = exponent->second;
  if (rewriter.shape(delta) != by_step) std::swap(delta, a);
  if (rewriter.shape(delta) != by_step || rewriter.shape(a) != rates) return;
  // taken = delta * b * u
  std::vector<ValueId> factors;
  factors_of(rewriter, loop->taken, factors);
  const auto own = std::find(factors.begin(), factors.end(), delta);
  if (factors.size() != 3 || own == factors.end()) return;
  factors.erase(own);
  ValueId b = factors[0], u = factors[1];
  if (rewriter.shape(b) != by_state) std::swap(b, u);
  if (rewriter.shape(b) != by_state || rewriter.shape(u) != by_step) return;
  const auto seen = [&](ValueId id, const Dims& shape) {
    Attributes reshape;
    reshape.set(attr::shape, shape.vector());
    return rewriter.insert(index, "reshape", reshape, {id}, "");
  };
  const std::vector<ValueId> inputs{seen(u, {n, d, steps}), seen(delta, {n, d, steps}), seen(a, {d, states}),
                                    seen(b, {n, steps, states}), loop->c};
  rewriter.rewrite(index, "selective_scan", {}, inputs);
}

}  // namespace

Pass recognise_scan() {
  return {
      "recognise_scan",
      "Makes Mamba's unrolled loop over steps one op: selective_scan.  Its states, and the tensors of all states of "
      "all steps, are gone.  A result changes by roundings of its dtype.",
      [](Graph& graph, Context&) { return sweep(graph, recognise_scan_at); }};
}

}  // namespace pl::passes
