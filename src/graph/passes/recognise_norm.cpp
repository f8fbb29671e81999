// recognise_norm: layer and RMS normalisation spelled in arithmetic become one op: ONNX has the first from opset 17 on,
// the second from 23 on.
#include <algorithm>
#include <cmath>

#include "graph/named_ops.h"
#include "graph/passes/passes.h"
#include "graph/passes/patterns.h"

namespace pl::passes {
namespace {

// The number of last dimensions that a reduction goes over, keeping them; 0 if it goes over others.
int last_dimensions(Rewriter& rewriter, size_t index) {
  const Op op = rewriter.op(index);
  if (!op.attributes[attr::keepdim]) return 0;
  const std::vector<int64_t>& dims = op.attributes[attr::dim_ints];  // sorted
  const int rank = op.in(0).rank();
  for (size_t i = 0; i < dims.size(); ++i)
    if (dims[i] != rank - int64_t(dims.size()) + int64_t(i)) return 0;
  return int(dims.size());
}

// The same of a mean of `x`; 0 if the value is no such mean.
int mean_over_last(Rewriter& rewriter, ValueId id, ValueId x) {
  const Node* mean = made_by(rewriter, id, is_mean);
  return mean && rewriter.input(*mean, 0) == x ? last_dimensions(rewriter, size_t(rewriter.maker(id))) : 0;
}

// d if the value is d squared.
ValueId base_of_square(Rewriter& rewriter, ValueId id) {
  if (const Node* square = made_by(rewriter, id, "square")) return rewriter.input(*square, 0);
  if (const Node* pow = made_by(rewriter, id, Operation::power))
    if (rewriter.is_number(rewriter.input(*pow, 1), 2)) return rewriter.input(*pow, 0);
  if (const Node* mul = made_by(rewriter, id, Operation::product))
    if (rewriter.input(*mul, 0) == rewriter.input(*mul, 1)) return rewriter.input(*mul, 0);
  return kNoValue;
}

// The variance plus eps if the value is its square root: of div, or of mul with `inverse`.
ValueId under_root(Rewriter& rewriter, ValueId id, bool inverse) {
  if (inverse) {
    if (const Node* power = made_by(rewriter, id, Operation::power))
      return rewriter.is_number(rewriter.input(*power, 1), -0.5) ? rewriter.input(*power, 0) : kNoValue;
    if (const Node* rsqrt = made_by(rewriter, id, "rsqrt")) return rewriter.input(*rsqrt, 0);
    const Node* reciprocal = made_by(rewriter, id, "reciprocal");
    const Node* quotient = made_by(rewriter, id, Operation::quotient);
    if (quotient && !rewriter.is_number(rewriter.input(*quotient, 0), 1)) return kNoValue;
    if (!reciprocal && !quotient) return kNoValue;
    id = reciprocal ? rewriter.input(*reciprocal, 0) : rewriter.input(*quotient, 1);
  }
  const Node* sqrt = made_by(rewriter, id, "sqrt");
  return sqrt ? rewriter.input(*sqrt, 0) : kNoValue;
}

// The number that a value is, if a norm can have it as eps.
std::optional<double> eps_of(const Rewriter& rewriter, ValueId id) {
  const auto number = rewriter.number(id);
  return number && std::isfinite(*number) && *number >= 0 ? number : std::nullopt;
}

struct Normalised {
  ValueId x = kNoValue;
  int dims = 0;
  double eps = 0;
};

// d / sqrt(mean(d * d) + eps) with d = x - mean(x).
std::optional<Normalised> normalised(Rewriter& rewriter, ValueId d, ValueId root, bool inverse) {
  const Node* difference = made_by(rewriter, d, Operation::difference);
  const ValueId under = difference ? under_root(rewriter, root, inverse) : kNoValue;
  const Node* sum = under == kNoValue ? nullptr : made_by(rewriter, under, Operation::sum);
  if (!sum) return std::nullopt;
  Normalised found;
  found.x = rewriter.input(*difference, 0);
  found.dims = mean_over_last(rewriter, rewriter.input(*difference, 1), found.x);
  if (found.dims == 0) return std::nullopt;
  for (size_t k = 0; k < 2; ++k) {
    const auto eps = eps_of(rewriter, rewriter.input(*sum, 1 - k));
    const int index = rewriter.maker(rewriter.input(*sum, k));
    if (!eps || index < 0) continue;
    const ValueId square = rewriter.input(rewriter.node(size_t(index)), 0);
    const ValueId base = square == kNoValue ? kNoValue : base_of_square(rewriter, square);
    // The difference may have been computed twice.
    const Node* again = base == kNoValue ? nullptr : made_by(rewriter, base, Operation::difference);
    const bool same = again && rewriter.input(*again, 0) == found.x &&
                      mean_over_last(rewriter, rewriter.input(*again, 1), found.x) == found.dims;
    if (!same || mean_over_last(rewriter, rewriter.input(*sum, k), square) != found.dims) continue;
    found.eps = *eps;
    return found;
  }
  return std::nullopt;
}

// x / sqrt(mean(x * x) + eps).
std::optional<Normalised> normalised_by_root_mean_square(Rewriter& rewriter, ValueId x, ValueId root, bool inverse) {
  const ValueId under = under_root(rewriter, root, inverse);
  const Node* sum = under == kNoValue ? nullptr : made_by(rewriter, under, Operation::sum);
  if (!sum) return std::nullopt;
  for (size_t k = 0; k < 2; ++k) {
    const auto eps = eps_of(rewriter, rewriter.input(*sum, 1 - k));
    const Node* mean = eps ? made_by(rewriter, rewriter.input(*sum, k), is_mean) : nullptr;
    if (!mean) continue;
    const ValueId square = rewriter.input(*mean, 0);
    if (base_of_square(rewriter, square) != x) continue;
    const int dims = mean_over_last(rewriter, rewriter.input(*sum, k), square);
    if (dims > 0) return Normalised{x, dims, *eps};
  }
  return std::nullopt;
}

// x / max(sqrt(sum(x * x)), eps), the divisor repeated or not.
std::optional<Normalised> normalised_by_length(Rewriter& rewriter, ValueId x, ValueId divisor) {
  divisor = without_repeats(rewriter, divisor);
  Normalised found{x, 0, 0};
  ValueId length = kNoValue;
  if (const Node* clip = made_by(rewriter, divisor, "clip")) {
    const PostOp limits = function_of(rewriter.op(size_t(rewriter.maker(divisor))));
    if (!(limits.alpha() >= 0) || std::isinf(limits.alpha()) || limits.beta() != kInfinity) return std::nullopt;
    length = rewriter.input(*clip, 0);
    found.eps = limits.alpha();
  } else if (const Node* most = made_by(rewriter, divisor, Operation::larger)) {
    for (size_t k = 0; k < 2; ++k) {
      const auto eps = eps_of(rewriter, rewriter.input(*most, k));
      if (!eps) continue;
      length = rewriter.input(*most, 1 - k);
      found.eps = *eps;
    }
  }
  const Node* norm = length == kNoValue ? nullptr : made_by(rewriter, length, is_root_of_squares);
  if (!norm || rewriter.input(*norm, 0) != x) return std::nullopt;
  found.dims = last_dimensions(rewriter, size_t(rewriter.maker(length)));
  if (found.dims == 0) return std::nullopt;
  return found;
}

void recognise_norm_at(Rewriter& rewriter, size_t index) {
  const Node& node = rewriter.node(index);
  const bool divides = is_bare(rewriter, index, Operation::quotient);
  if (!divides && !is_bare(rewriter, index, Operation::product)) return;
  for (size_t k = 0; k < (divides ? 1 : 2); ++k) {
    auto found = normalised(rewriter, rewriter.input(node, k), rewriter.input(node, 1 - k), !divides);
    const char* schema = "layer_norm";
    if (!found && divides) {
      schema = "l2_normalize";
      found = normalised_by_length(rewriter, rewriter.input(node, k), rewriter.input(node, 1 - k));
    }
    if (!found) {
      schema = "rms_norm";
      found = normalised_by_root_mean_square(rewriter, rewriter.input(node, k), rewriter.input(node, 1 - k), !divides);
    }
    if (!found) continue;
    const Dims& shape = rewriter.shape(found->x);
    if (shape != rewriter.shape(node.outputs[0])) continue;  // a number on the way has a higher rank
    std::vector<int64_t> last(shape.end() - found->dims, shape.end());
    Attributes attributes;
    attributes.set(attr::normalized_shape, last);
    attributes.set(attr::eps, found->eps);
    return rewriter.rewrite(index, schema, attributes, {found->x});
  }
}

// layer_norm * weight, layer_norm + bias, rms_norm * weight, with constants or parameters of the normalised shape.
void take_constant(Rewriter& rewriter, Context&, size_t index) {
  const Node& node = rewriter.node(index);
  const bool adds = is_bare(rewriter, index, Operation::sum);
  if (!adds && !is_bare(rewriter, index, Operation::product)) return;
  for (size_t k = 0; k < 2; ++k) {
    const ValueId constant = rewriter.input(node, 1 - k);
    const int before = sole_maker(rewriter, rewriter.input(node, k), normalises_rows);
    if (before < 0 || !rewriter.is_given(constant)) continue;
    const Node& norm = rewriter.node(size_t(before));
    std::vector<ValueId> inputs = rewriter.inputs(norm);
    if (!takes_input(*norm.schema, "weight")) continue;
    const bool takes_bias = takes_input(*norm.schema, "bias");
    inputs.resize(takes_bias ? 3 : 2, kNoValue);
    if (adds ? !takes_bias || inputs[2] != kNoValue : inputs[1] != kNoValue || (takes_bias && inputs[2] != kNoValue))
      continue;
    const Op op = rewriter.op(size_t(before));
    if (rewriter.shape(constant) != Dims(op.attributes[attr::normalized_shape])) continue;
    inputs[adds ? 2 : 1] = constant;
    const Attributes attributes = norm.attributes;
    const std::string name = norm.name, schema = norm.schema->name;
    return rewriter.rewrite(index, schema, attributes, inputs, name);
  }
}

// What a value of f32 was cast from, of that dtype; kNoValue if it was not.
ValueId narrow_source(Rewriter& rewriter, ValueId id, DType dtype) {
  const Node* cast = id == kNoValue ? nullptr : made_by(rewriter, id, is_cast);
  const ValueId source = cast ? rewriter.input(*cast, 0) : kNoValue;
  return source != kNoValue && rewriter.desc(source).dtype == dtype ? source : kNoValue;
}

// A norm of f32 between casts from a narrow dtype and back: the op's sums are of f32 in any case.
void without_casts(Rewriter& rewriter, size_t index) {
  const Node& node = rewriter.node(index);
  if (!is_cast(node)) return;
  const DType dtype = rewriter.desc(node.outputs[0]).dtype;
  const int before = sole_maker(rewriter, rewriter.input(node, 0), normalises_rows);
  if (before < 0 || !is_floating(dtype) || dtype == DType::f32) return;
  const Node& norm = rewriter.node(size_t(before));
  std::vector<ValueId> inputs = rewriter.inputs(norm);
  for (ValueId& input : inputs) {
    if (input == kNoValue) continue;
    input = narrow_source(rewriter, input, dtype);
    if (input == kNoValue) return;
  }
  const Attributes attributes = norm.attributes;
  const std::string name = norm.name, schema = norm.schema->name;
  rewriter.rewrite(index, schema, attributes, inputs, name);
}

int run_recognise_norm(Graph& graph, Context& context) {
  return sweep(graph, [&](Rewriter& rewriter, size_t index) {
    recognise_norm_at(rewriter, index);
    without_casts(rewriter, index);
    take_constant(rewriter, context, index);
  });
}

}  // namespace

Pass recognise_norm() {
  return {
      "recognise_norm",
      "Recognises (x - mean) / sqrt(mean((x - mean)^2) + eps) over the last dimensions, with a weight and a bias, "
      "as layer_norm, x / sqrt(mean(x^2) + eps), with a weight, as rms_norm, x / max(sqrt(sum(x^2)), eps) as "
      "l2_normalize.  One of f32 between casts from a narrower dtype and back is one of that dtype.  A result changes "
      "by roundings of its dtype.",
      run_recognise_norm};
}

}  // namespace pl::passes
