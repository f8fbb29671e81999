// recognise_activation: activations that are spelled out in arithmetic become one op.
#include <algorithm>
#include <cmath>

#include "graph/passes/passes.h"
#include "graph/passes/patterns.h"

namespace pl::passes {
namespace {

constexpr double kHalfSqrt2 = 0.70710678118654752;  // 1 / sqrt(2)
constexpr double kSqrt2OverPi = 0.79788456080286536;
constexpr double kGeluCubic = 0.044715;
constexpr int kMostNestedProducts = 6;  // of products in products; the longest pattern has three

// Constants arrive rounded to f32, or were multiplied in f32.
bool is_close(double value, double expected) { return std::fabs(value - expected) <= 1e-5 * std::fabs(expected); }

// What a number stands for: one that is a constant of the patterns, rounded to half precision by whoever made the model
// of that, for the constant.
double meant(double number) {
  for (double constant : {kHalfSqrt2, 1 / kHalfSqrt2, kSqrt2OverPi, kGeluCubic, 1.0 / 6}) {
    const float narrow = float(constant);
    if (number == half_to_float(float_to_half(narrow)) || number == bfloat16_to_float(float_to_bfloat16(narrow)))
      return constant;
  }
  return number;
}

// A product as coefficient times values that are not constant numbers.
struct Factors {
  double coefficient = 1;
  std::vector<ValueId> values;
};

class Matcher {
 public:
  explicit Matcher(Rewriter& rewriter) : rewriter_(rewriter) {}

  // Of a node that is a mul or a div by a number; else nothing.
  std::optional<Factors> factors_of(size_t index) {
    Factors factors;
    if (!multiply(index, factors)) return std::nullopt;
    return factors;
  }

  // x if the value is coefficient * x.
  ValueId scaled(ValueId id, double coefficient) {
    Factors factors;
    append(id, factors);
    return factors.values.size() == 1 && is_close(factors.coefficient, coefficient) ? factors.values[0] : kNoValue;
  }

  // x if the value is function(x), used only here.
  ValueId argument(ValueId id, std::string_view function) {
    const int index = sole_maker(rewriter_, id, function);
    return index < 0 ? kNoValue : rewriter_.input(rewriter_.node(size_t(index)), 0);
  }

  // The other operand if the value is `number` + other, of the same shape, used only here.
  ValueId sum_with(ValueId id, double number) {
    const int index = sole_maker(rewriter_, id, Operation::sum);
    if (index < 0) return kNoValue;
    const Node& node = rewriter_.node(size_t(index));
    for (size_t k = 0; k < 2; ++k) {
      const ValueId other = rewriter_.input(node, 1 - k);
      if (rewriter_.is_number(rewriter_.input(node, k), number) && rewriter_.shape(other) == rewriter_.shape(id))
        return other;
    }
    return kNoValue;
  }

  // Whether the value is min(max(x + 3, 0), 6); x.
  ValueId clipped_sum(ValueId id) {
    const int index = sole_maker(rewriter_, id, applies_function);
    if (index < 0) return kNoValue;
    const auto range = range_of(function_of(rewriter_.op(size_t(index))));
    if (!range || range->first != 0 || range->second != 6) return kNoValue;
    return sum_with(rewriter_.input(rewriter_.node(size_t(index)), 0), 3);
  }

  // The exponent if the value is a power of x, else 0.
  int exponent(ValueId id, ValueId x) {
    if (id == x) return 1;
    const int index = rewriter_.sole_maker(id);
    if (index < 0) return 0;
    const Node& node = rewriter_.node(size_t(index));
    if (rewriter_.input(node, 0) != x) return 0;
    if (computes(rewriter_, size_t(index), "square")) return 2;
    if (!is_bare(rewriter_, size_t(index), Operation::power)) return 0;
    for (int n : {2, 3})
      if (rewriter_.is_number(rewriter_.input(node, 1), n)) return n;
    return 0;
  }

  // Whether the value is coefficient * x^n.
  bool is_power(ValueId id, ValueId x, double coefficient, int n) {
    Factors factors;
    append(id, factors);
    int total = 0;
    for (ValueId factor : factors.values) {
      const int one = exponent(factor, x);
      if (one == 0) return false;
      total += one;
    }
    return total == n && is_close(factors.coefficient, coefficient);
  }

  // Whether the value is sqrt(2 / pi) * (x + 0.044715 * x^3), in any of its spellings.
  bool is_gelu_polynomial(ValueId id, ValueId x) {
    Factors factors;
    append(id, factors);
    if (!is_close(factors.coefficient, kSqrt2OverPi)) return false;
    if (factors.values.size() == 1) {
      const int index = sole_maker(rewriter_, factors.values[0], Operation::sum);
      if (index < 0) return false;
      const ValueId a = rewriter_.input(rewriter_.node(size_t(index)), 0);
      const ValueId b = rewriter_.input(rewriter_.node(size_t(index)), 1);
      return (a == x && is_power(b, x, kGeluCubic, 3)) || (b == x && is_power(a, x, kGeluCubic, 3));
    }
    if (factors.values.size() != 2) return false;
    for (size_t k = 0; k < 2; ++k) {
      const ValueId rest = sum_with(factors.values[1 - k], 1);
      if (factors.values[k] == x && rest != kNoValue && is_power(rest, x, kGeluCubic, 2)) return true;
    }
    return false;
  }

 private:
  bool multiply(size_t index, Factors& factors) {
    const Node& node = rewriter_.node(index);
    const bool divides = is_bare(rewriter_, index, Operation::quotient);
    if (!divides && !is_bare(rewriter_, index, Operation::product)) return false;
    if (!is_floating(rewriter_.desc(node.outputs[0]).dtype)) return false;
    const ValueId a = rewriter_.input(node, 0), b = rewriter_.input(node, 1);
    const Dims& shape = rewriter_.shape(node.outputs[0]);
    const auto number = rewriter_.number(b);
    if (number && rewriter_.shape(a) == shape) {
      factors.coefficient *= divides ? 1 / meant(*number) : meant(*number);
      append(a, factors);
      return true;
    }
    if (divides) return false;
    const auto other = rewriter_.number(a);
    if (other && rewriter_.shape(b) == shape) {
      factors.coefficient *= meant(*other);
      append(b, factors);
      return true;
    }
    if (rewriter_.shape(a) != shape || rewriter_.shape(b) != shape) return false;
    append(a, factors);
    append(b, factors);
    return true;
  }

  // A value that is itself such a product, used only here, is taken apart.
  void append(ValueId id, Factors& factors) {
    const int index = rewriter_.sole_maker(id);
    ++depth_;
    const bool taken = index >= 0 && depth_ <= kMostNestedProducts && multiply(size_t(index), factors);
    --depth_;
    if (taken) return;
    factors.values.push_back(id);
  }

  Rewriter& rewriter_;
  int depth_ = 0;
};

// What the product `factors` is of x, if it is an activation.
std::optional<PostOp> function_of_product(Matcher& matcher, const Factors& factors, ValueId x, ValueId other) {
  const double c = factors.coefficient;
  if (other == kNoValue) return std::nullopt;
  if (is_close(c, 1)) {
    if (matcher.argument(other, "sigmoid") == x) return PostOp::function("silu");
    if (matcher.argument(other, "hardsigmoid") == x) return PostOp::function("hardswish");
    const ValueId inner = matcher.argument(other, "tanh");
    if (inner != kNoValue && matcher.argument(inner, "softplus") == x) return PostOp::function("mish");
  }
  if (is_close(c, 1.0 / 6) && matcher.clipped_sum(other) == x) return PostOp::function("hardswish");
  if (is_close(c, 0.5)) {
    const ValueId function = matcher.sum_with(other, 1);
    if (function == kNoValue) return std::nullopt;
    const ValueId erf = matcher.argument(function, "erf"), tanh = matcher.argument(function, "tanh");
    if (erf != kNoValue && matcher.scaled(erf, kHalfSqrt2) == x) return PostOp::function("gelu_erf");
    if (tanh != kNoValue && matcher.is_gelu_polynomial(tanh, x)) return PostOp::function("gelu_tanh");
  }
  return std::nullopt;
}

void from_product(Rewriter& rewriter, size_t index) {
  Matcher matcher(rewriter);
  const auto factors = matcher.factors_of(index);
  if (!factors) return;
  const auto& values = factors->values;
  if (values.size() == 1 && is_close(factors->coefficient, 1.0 / 6)) {
    const ValueId x = matcher.clipped_sum(values[0]);
    if (x != kNoValue) rewrite_as_step(rewriter, index, PostOp::function("hardsigmoid"), x);
  } else if (values.size() == 2) {
    if (values[0] == values[1] && factors->coefficient == 1)
      return rewrite_as_step(rewriter, index, PostOp::function("square"), values[0]);
    for (size_t k = 0; k < 2; ++k)
      if (const auto function = function_of_product(matcher, *factors, values[k], values[1 - k]))
        return rewrite_as_step(rewriter, index, *function, values[k]);
  }
}

void rewrite_as_range(Rewriter& rewriter, size_t index, double low, double high, ValueId x) {
  if (low == 0 && high == kInfinity) return rewrite_as_step(rewriter, index, PostOp::function("relu"), x);
  if (low == 0 && high == 6) return rewrite_as_step(rewriter, index, PostOp::function("relu6"), x);
  rewrite_as_step(rewriter, index, PostOp::function("clip", {low, high}), x);
}

// maximum(x, number) and minimum(x, number) are clips; pow(x, 2) is square.
void from_binary(Rewriter& rewriter, size_t index) {
  const Node& node = rewriter.node(index);
  const Operation operation = operation_of(node);
  if (operation == Operation::product || operation == Operation::quotient) return from_product(rewriter, index);
  const bool maximum = operation == Operation::larger, power = operation == Operation::power;
  if ((!maximum && operation != Operation::smaller && !power) || rewriter.has_post_ops(index)) return;
  if (!is_floating(rewriter.desc(node.outputs[0]).dtype)) return;
  for (size_t k = 0; k < 2; ++k) {
    const auto number = rewriter.number(rewriter.input(node, 1 - k));
    const ValueId x = rewriter.input(node, k);
    if (!number || std::isnan(*number) || rewriter.shape(x) != rewriter.shape(node.outputs[0])) continue;
    if (!power)
      return rewrite_as_range(rewriter, index, maximum ? *number : -kInfinity, maximum ? kInfinity : *number, x);
    if (k == 0 && *number == 2) return rewrite_as_step(rewriter, index, PostOp::function("square"), x);
  }
}

// A clip of a clip is one clip; clip(x, 0, 6) is relu6.
void from_range(Rewriter& rewriter, size_t index) {
  if (!applies_function(rewriter.node(index))) return;
  const PostOp function = function_of(rewriter.op(index));
  const auto range = range_of(function);
  if (!range || range->first > range->second) return;
  const ValueId x = rewriter.input(rewriter.node(index), 0);
  const int before = sole_maker(rewriter, x, applies_function);
  const auto inner = before < 0 ? std::nullopt : range_of(function_of(rewriter.op(size_t(before))));
  if (inner && inner->first <= inner->second) {
    const auto limit = [&](double value) { return std::min(std::max(value, range->first), range->second); };
    rewrite_as_range(rewriter, index, limit(inner->first), limit(inner->second),
                     rewriter.input(rewriter.node(size_t(before)), 0));
  } else if (!function.parameters.empty() && range->first == 0 && (range->second == kInfinity || range->second == 6)) {
    // A clip: the others have no parameters.
    rewrite_as_range(rewriter, index, range->first, range->second, x);
  }
}

int run_recognise_activation(Graph& graph, Context&) {
  return sweep(graph, [](Rewriter& rewriter, size_t index) {
    from_binary(rewriter, index);
    from_range(rewriter, index);
  });
}

}  // namespace

Pass recognise_activation() {
  return {"recognise_activation",
          "Recognises activations spelled in arithmetic: x * sigmoid(x), x * hardsigmoid(x), both spellings of gelu, "
          "mish, hardswish and hardsigmoid by min(max(x + 3, 0), 6), maximum and minimum with a number, clips of "
          "clips.  A result changes by roundings of its dtype.",
          run_recognise_activation};
}

}  // namespace pl::passes
