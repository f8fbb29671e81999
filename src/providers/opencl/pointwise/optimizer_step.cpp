// optimizer_step: sgd_step, adam_step and adamw_step as expressions; each element of all tensors is read and written
// once.
#include <cmath>

#include "providers/opencl/pointwise/expressions.h"

namespace pl::opencl {
namespace {

// The gradient as it is given, and what keeps a result as it was: "x" numbers the scale where there is one.
struct Scaled {
  std::string gradient = "x1";
  int scale = -1;
  Scaled(const Op& op, int x) {
    if (!op.has(op.schema->input_index("grad_scale"))) return;
    scale = x;
    gradient = concat("(x1 * x", x, ")");
  }
  std::string kept(const std::string& before, const std::string& after) const {
    return scale < 0 ? after : concat("where(x", scale, " == 0, ", before, ", ", after, ")");
  }
};

// x0 weight, x1 grad, x2 lr, x3 velocity; the last one the scale of the gradient.
Expressions sgd(const Op& op) {
  const Attributes& a = op.attributes;
  Expressions what;
  what.scalars = {a[attr::momentum], 1 - a[attr::dampening], a[attr::weight_decay]};
  const Scaled scaled(op, op.has(3) ? 4 : 3);
  const std::string gradient = concat("g = ", scaled.gradient, a[attr::weight_decay] == 0 ? "" : " + s2 * x0");
  if (!op.has(3))
    what.elements = concat(gradient, "; y0 = ", scaled.kept("x0", "x0 - x2 * g"));
  else
    what.elements =
        concat(gradient, "; v = s0 * x3 + s1 * g; y1 = ", scaled.kept("x3", "v"),
               "; y0 = ", scaled.kept("x0", concat("x0 - x2 * ", a[attr::nesterov] ? "(g + s0 * v)" : "v")));
  return what;
}

// x0 weight, x1 grad, x2 lr, x3 mean, x4 square, x5 step, x6 the scale of the gradient.  1 - beta^step by expm1: near 0
// where beta is near 1.
Expressions adam(const Op& op) {
  const Attributes& a = op.attributes;
  const double beta1 = a[attr::beta1], beta2 = a[attr::beta2];
  const bool decays = a[attr::weight_decay] != 0, decoupled = a[attr::decoupled];
  Expressions what;
  what.scalars = {beta1,        1 - beta1,       beta2,           1 - beta2,
                  a[attr::eps], std::log(beta1), std::log(beta2), a[attr::weight_decay]};
  const Scaled scaled(op, 6);
  what.elements = concat(
      "g = ", scaled.gradient, decays && !decoupled ? " + s7 * x0" : "",
      "; m = s0 * x3 + s1 * g; v = s2 * x4 + s3 * g * g; y1 = ", scaled.kept("x3", "m"),
      "; y2 = ", scaled.kept("x4", "v"), "; rate = x2 / (-expm1(x5 * s5)); root = sqrt(-expm1(x5 * s6)); y0 = ",
      scaled.kept("x0",
                  concat(decays && decoupled ? "x0 * (1 - x2 * s7)" : "x0", " - rate * m / (sqrt(v) / root + s4)")));
  return what;
}

void list_optimizer_step(const Op& op, OpenclDevice& device, CandidateList& out) {
  Expressions what = op.attributes[attr::function] == "sgd" ? sgd(op) : adam(op);
  what.over = Expressions::Over::scalars_beside;
  list_expressions(op, device, out, what);
}

PL_OPENCL_OP("optimizer_step", list_optimizer_step);

}  // namespace
}  // namespace pl::opencl
