#include "providers/host/pointwise/joined_loops.h"

#include <algorithm>
#include <optional>

#include "ops/activation.h"
#include "providers/host/common/independent.h"
#include "providers/host/common/simd.h"

namespace pl::host {
namespace {

using pointwise::Code;
using pointwise::Function;
using pointwise::Node;

class Finder {
 public:
  explicit Finder(const Code& code) : code_(code), uses_(code.nodes.size(), 0) {
    for (const Node& node : code.nodes)
      for (int argument : node.arguments)
        if (argument >= 0) ++uses_[size_t(argument)];
    for (int result : code.results) ++uses_[size_t(result)];
  }

  std::optional<JoinedLoop> dequantize(int node) const {
    const int* at = arguments(node);
    if (function(node) != Function::multiply || !is_inner(at[0], Function::subtract) || !is_number(at[1]) ||
        !is_number(arguments(at[0])[1]))
      return std::nullopt;
    JoinedLoop loop = of(JoinedLoop::Kind::dequantize, node);
    loop.scale = at[1];
    loop.zero = arguments(at[0])[1];
    loop.x = arguments(at[0])[0];
    loop.inner = {at[0]};
    return loop;
  }

  std::optional<JoinedLoop> quantize(int node) const {
    const int* at = arguments(node);
    if (function(node) != Function::clip || !is_number(at[1]) || !is_number(at[2])) return std::nullopt;
    JoinedLoop loop = of(JoinedLoop::Kind::quantize, node);
    loop.low = at[1];
    loop.high = at[2];
    int rounded = at[0];
    if (is_inner(rounded, Function::add) && is_number(arguments(rounded)[1])) {
      loop.zero = arguments(rounded)[1];
      loop.inner.push_back(rounded);
      rounded = arguments(rounded)[0];
    }
    if (!is_inner(rounded, Function::round)) return std::nullopt;
    const int quotient = arguments(rounded)[0];
    if (!is_inner(quotient, Function::divide) || !is_number(arguments(quotient)[1])) return std::nullopt;
    loop.scale = arguments(quotient)[1];
    loop.x = arguments(quotient)[0];
    loop.inner.insert(loop.inner.end(), {rounded, quotient});
    return loop;
  }

  // `pattern`: one expression of x0, from its node `root` on.
  std::optional<JoinedLoop> expression(int node, const Code& pattern, int root, UnaryRun<float> run) const {
    std::vector<int> found(pattern.nodes.size(), -1);  // by node of the pattern: that of the code
    if (!matches(node, pattern, root, found)) return std::nullopt;
    JoinedLoop loop = of(JoinedLoop::Kind::function, node);
    loop.function = run;
    std::vector<int> uses(code_.nodes.size(), 0);  // by nodes of the expression
    for (size_t p = 0; p < found.size(); ++p) {
      if (found[p] < 0) continue;
      if (pattern.nodes[p].function == Function::input) loop.x = found[p];
      if (pointwise::is_leaf(pattern.nodes[p].function)) continue;
      if (found[p] != node) loop.inner.push_back(found[p]);
      for (int argument : code_.nodes[size_t(found[p])].arguments)
        if (argument >= 0) ++uses[size_t(argument)];
    }
    for (int inner : loop.inner)
      if (uses[size_t(inner)] != uses_[size_t(inner)]) return std::nullopt;
    return loop;
  }

  bool is_number(int node) const { return function(node) == Function::constant || function(node) == Function::scalar; }

 private:
  const int* arguments(int node) const { return code_.nodes[size_t(node)].arguments; }
  Function function(int node) const { return code_.nodes[size_t(node)].function; }
  bool is_inner(int node, Function wanted) const { return function(node) == wanted && uses_[size_t(node)] == 1; }
  static JoinedLoop of(JoinedLoop::Kind kind, int node) {
    JoinedLoop loop;
    loop.kind = kind;
    loop.node = node;
    return loop;
  }

  bool matches(int node, const Code& pattern, int at, std::vector<int>& found) const {
    if (found[size_t(at)] >= 0) return found[size_t(at)] == node;
    const Node &wanted = pattern.nodes[size_t(at)], &given = code_.nodes[size_t(node)];
    found[size_t(at)] = node;
    if (wanted.function == Function::input) return true;
    if (wanted.function != given.function || wanted.constant != given.constant) return false;
    for (int k = 0; k < 3; ++k) {
      if ((wanted.arguments[k] < 0) != (given.arguments[k] < 0)) return false;
      if (wanted.arguments[k] >= 0 && !matches(given.arguments[k], pattern, wanted.arguments[k], found)) return false;
    }
    return true;
  }

  const Code& code_;
  std::vector<int> uses_;
};

// The derivative of gelu_erf as ops/activation_slopes.cpp has it: x1, the gradient, times an expression of x0 alone.
const Code& gelu_gradient() {
  static const Code code = slope_of(PostOp::function("gelu_erf")).elements;
  return code;
}
// sign, but 0 of NaN.
const Code& sign_or_zero() {
  static const Code code =
      pointwise::parse("sign", "y0 = (x0 > 0) - (x0 < 0)", "", 1, 0, pointwise::Arithmetic::f32).elements;
  return code;
}
PL_VECTORISED void sign_or_zero_run(const float* x, float* y, int64_t n, double, double) {
  PL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] > 0.0f ? 1.0f : 0.0f) - (x[i] < 0.0f ? 1.0f : 0.0f);
}

}  // namespace

std::vector<JoinedLoop> joined_loops(const Code& code) {
  const Finder finder(code);
  const int slope = gelu_gradient().nodes[size_t(gelu_gradient().results[0])].arguments[1];
  std::vector<JoinedLoop> loops;
  // The last nodes first, so that the largest group is found.
  std::vector<bool> taken(code.nodes.size(), false);
  for (int node = int(code.nodes.size()) - 1; node >= 0; --node) {
    if (taken[size_t(node)]) continue;
    std::optional<JoinedLoop> loop = finder.dequantize(node);
    if (!loop) loop = finder.quantize(node);
    if (!loop) loop = finder.expression(node, gelu_gradient(), slope, gelu_erf_slope());
    if (!loop) loop = finder.expression(node, sign_or_zero(), sign_or_zero().results[0], sign_or_zero_run);
    if (!loop || finder.is_number(loop->x)) continue;
    for (int inner : loop->inner) taken[size_t(inner)] = true;
    loops.push_back(*loop);
  }
  return loops;
}

}  // namespace pl::host
