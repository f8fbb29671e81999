// The gradient of `pointwise`: its program is derived backwards, node by node, and printed as expressions again.
//
// With e_k what is computed for each element, r_k what it is reduced to and y_k the results, three kinds of calls:
// the r_k once more (where more than sums is reduced), the gradients by r_k, and those by the tensors.
#include <array>
#include <cmath>
#include <functional>

#include "ops/gradient.h"
#include "ops/pointwise.h"
#include "ops/pointwise_text.h"

namespace pl::pointwise {
namespace {

// How leaves are written.
struct Names {
  int first_reduced = 0;  // reduced k is tensor first_reduced + k
  int64_t count = 1;      // what `count` stands for

  std::string operator()(const Node& node) const {
    switch (node.function) {
      case Function::scalar: return concat("s", node.index);
      case Function::reduced: return concat("x", first_reduced + node.index);
      case Function::count: return text_of(double(count));
      default: return concat("x", node.index);
    }
  }
};

// The derivative of lgamma: below 1/2 by reflection; terms are added until the argument is large enough for the series.
std::string digamma(const std::string& a) {
  const std::string shifted = "where(" + a + " < 0.5, 1 - " + a + ", " + a + ")";
  std::string terms;
  for (int k = 0; k < 8; ++k) terms += concat(" - 1 / (", shifted, " + ", k, ")");
  const std::string z = "(" + shifted + " + 8)", inverse = concat("(1 / (", z, " * ", z, "))");
  return concat("(log(", z, ") - 0.5 / ", z, " - ", inverse, " * (1 / 12 - ", inverse, " * (1 / 120 - ", inverse,
                " / 252))", terms, " - where(", a, " < 0.5, pi * cos(pi * ", a, ") / sin(pi * ", a, "), 0))");
}

// What a node contributes to the gradient by each of its arguments; "" is zero.  a, b, c: the arguments, r: the node,
// g: its gradient.
std::array<std::string, 3> slopes_of(Function function, const std::string& a, const std::string& b,
                                     const std::string& c, const std::string& r, const std::string& g) {
  const auto where = [](const std::string& condition, const std::string& yes, const std::string& no) {
    return "where(" + condition + ", " + yes + ", " + no + ")";
  };
  switch (function) {
    case Function::negate: return {"-" + g};
    case Function::exp: return {g + " * " + r};
    case Function::expm1: return {g + " * (" + r + " + 1)"};
    case Function::log: return {g + " / " + a};
    case Function::log1p: return {g + " / (1 + " + a + ")"};
    case Function::sqrt: return {"0.5 * " + g + " / " + r};
    case Function::rsqrt: return {"-0.5 * " + g + " * " + r + " * " + r + " * " + r};
    case Function::tanh: return {g + " * (1 - " + r + " * " + r + ")"};
    case Function::sigmoid: return {g + " * " + r + " * (1 - " + r + ")"};
    case Function::erf: return {g + " * 1.1283791670955126 * exp(-" + a + " * " + a + ")"};
    case Function::erfc: return {"-" + g + " * 1.1283791670955126 * exp(-" + a + " * " + a + ")"};
    case Function::erfinv: return {g + " * 0.886226925452758 * exp(" + r + " * " + r + ")"};
    case Function::lgamma: return {g + " * " + digamma(a)};
    case Function::sin: return {g + " * cos(" + a + ")"};
    case Function::cos: return {"-" + g + " * sin(" + a + ")"};
    case Function::abs: return {g + " * sign(" + a + ")"};
    case Function::add: return {g, g};
    case Function::subtract: return {g, "-" + g};
    case Function::multiply: return {g + " * " + b, g + " * " + a};
    case Function::divide: return {g + " / " + b, "-" + g + " * " + r + " / " + b};
    // Equal values share the gradient.
    case Function::maximum:
    case Function::minimum: {
      const char* before = function == Function::maximum ? " > " : " < ";
      const std::string half = where(a + " == " + b, "0.5", "0");
      return {g + " * " + where(a + before + b, "1", half), g + " * " + where(b + before + a, "1", half)};
    }
    case Function::power:
      return {where(b + " == 0", "0", g + " * " + b + " * pow(" + a + ", " + b + " - 1)"),
              where(a + " == 0", "0", g + " * " + r + " * log(" + a + ")")};
    case Function::fmod: {
      const std::string quotient = a + " / " + b;
      return {g, "-" + g + " * " + where(quotient + " < 0", "ceil(" + quotient + ")", "floor(" + quotient + ")")};
    }
    case Function::atan2: {
      const std::string over = " / (" + a + " * " + a + " + " + b + " * " + b + ")";
      return {g + " * " + b + over, "-" + g + " * " + a + over};
    }
    case Function::copysign: return {g + " * " + where(a + " == 0", "0", r + " / " + a), ""};
    case Function::where: return {"", where(a, g, "0"), where(a, "0", g)};
    case Function::clip:
      return {where(a + " >= " + b + " && " + a + " <= " + c, g, "0"), where(a + " < " + b, g, "0"),
              where(a + " > " + c, g, "0")};
    default: return {};  // steps: floor, comparisons, ...
  }
}

// The gradient by each node from those by the results; "" where it is zero.  `reaches` says which nodes depend on
// something that is derived by.
std::vector<std::string> derive_code(const Code& code, const std::vector<std::string>& called,
                                     const std::vector<bool>& reaches, const std::vector<std::string>& by_results,
                                     Statements& out) {
  std::vector<std::string> gradients(code.nodes.size());
  const auto add = [&](int node, const std::string& part) {
    std::string& sum = gradients[size_t(node)];
    sum = sum.empty() ? out.define(part) : out.define(sum + " + " + part);
  };
  for (size_t k = 0; k < code.results.size(); ++k)
    if (!by_results[k].empty() && reaches[size_t(code.results[k])]) add(code.results[k], by_results[k]);
  for (size_t i = code.nodes.size(); i-- > 0;) {
    const Node& node = code.nodes[i];
    if (gradients[i].empty() || is_leaf(node.function)) continue;
    const auto name = [&](int k) { return node.arguments[k] < 0 ? std::string() : called[size_t(node.arguments[k])]; };
    const auto parts = slopes_of(node.function, name(0), name(1), name(2), called[i], gradients[i]);
    for (int k = 0; k < arity_of(node.function); ++k)
      if (!parts[size_t(k)].empty() && reaches[size_t(node.arguments[k])]) add(node.arguments[k], parts[size_t(k)]);
  }
  return gradients;
}

std::vector<bool> reaching(const Code& code, const std::function<bool(const Node&)>& leaf) {
  std::vector<bool> reaches;
  for (const Node& node : code.nodes) {
    bool any = is_leaf(node.function) && leaf(node);
    for (int k = 0; k < arity_of(node.function); ++k) any = any || reaches[size_t(node.arguments[k])];
    reaches.push_back(any);
  }
  return reaches;
}

class Derived {
 public:
  explicit Derived(Derivation& d) : d_(d), op_(d.op()), program_(program_of(op_)) {
    for (size_t i = 0; i < op_.inputs.size(); ++i) tensors_.push_back(d.input(int(i)));
    scalars_ = op_.attributes[attr::scalars];
  }

  void run() {
    check(op_, program_.arithmetic == Arithmetic::f32, pl::Code::unsupported, "has no gradient in integers");
    std::vector<Derivation::Value> by_results;
    for (int k = 0; k < program_.outputs; ++k) by_results.push_back(d_.gradient(k));
    if (program_.reduces()) by_results = by_elements(std::move(by_results));
    for (size_t i = 0; i < tensors_.size(); ++i)
      d_.give_if_wanted(int(i), [&] { return by_tensor(int(i), by_results); });
  }

 private:
  // From the gradients by the results of reductions to those by what is reduced, which broadcast to its shape.
  std::vector<Derivation::Value> by_elements(std::vector<Derivation::Value> by_results) {
    std::vector<int> all;
    for (size_t i = 0; i < op_.inputs.size(); ++i) all.push_back(int(i));
    Dims kept = broadcast_shapes(op_, all);
    for (int64_t dim : op_.attributes[attr::dim_ints]) {
      names_.count *= kept[int(dim)];
      kept[int(dim)] = 1;
    }
    for (auto& value : by_results) value = d_.reshaped(value, kept);
    bool plain = true;  // sums, given as they are
    for (size_t k = 0; k < program_.reductions.size(); ++k) {
      const Node& result = program_.finish.nodes[size_t(program_.finish.results[k])];
      plain = plain && program_.reductions[k] == Reduction::sum && result.function == Function::reduced &&
              result.index == int(k);
    }
    if (plain) return by_results;
    const auto reduced = reduce_again();
    // Through the expressions after the reductions.
    Statements out;
    names_.first_reduced = 0;
    std::vector<Derivation::Value> inputs = reduced;
    std::vector<std::string> given;
    for (auto value : by_results) {
      given.push_back(concat("x", inputs.size()));
      inputs.push_back(value);
    }
    const auto called = write(program_.finish, names_, out);
    const auto reaches = reaching(program_.finish, [](const Node& node) { return node.function == Function::reduced; });
    const auto gradients = derive_code(program_.finish, called, reaches, given, out);
    for (size_t k = 0; k < reduced.size(); ++k) {
      std::string found = "0";
      for (size_t i = 0; i < gradients.size(); ++i)
        if (program_.finish.nodes[i].function == Function::reduced && program_.finish.nodes[i].index == int(k) &&
            !gradients[i].empty())
          found = gradients[i];
      out.result(int(k), found);
    }
    by_results = d_.add("pointwise", attributes(out.text()), inputs);
    for (size_t k = 0; k < reduced.size(); ++k) {
      const Reduction reduction = program_.reductions[k];
      if (reduction == Reduction::sum) continue;
      extremes_.resize(reduced.size());
      extremes_[k] = reduced[k];
      // Equal values share the gradient.
      if (reduction == Reduction::product)
        by_results[k] = d_.pointwise("y0 = x0 * x1", {by_results[k], reduced[k]});
      else
        by_results[k] = d_.pointwise("y0 = x0 / x1", {by_results[k], count_equal(k, reduced[k])});
    }
    return by_results;
  }

  Attributes attributes(const std::string& expressions) const {
    Attributes result{{attr::expressions, expressions}, {attr::scalars, scalars_}};
    result.take(op_.attributes, {attr::dtype});
    return result;
  }

  Attributes reducing(const std::string& expressions, const std::string& reductions) const {
    Attributes result = attributes(expressions);
    result.set(attr::reductions, reductions);
    result.set(attr::dim_ints, op_.attributes[attr::dim_ints]);
    result.set(attr::keepdim, true);
    return result;
  }

  std::vector<Derivation::Value> reduce_again() {
    Statements out;
    const auto called = write(program_.elements, names_, out);
    std::string reductions;
    for (size_t k = 0; k < program_.elements.results.size(); ++k) {
      out.result(int(k), called[size_t(program_.elements.results[k])]);
      reductions += concat("reduce_y", k, " ", name_of(program_.reductions[k]), " y", k, "; ");
    }
    return d_.add("pointwise", reducing(out.text(), reductions), tensors_);
  }

  Derivation::Value count_equal(size_t k, Derivation::Value reduced) {
    Statements out;
    const auto called = write(program_.elements, names_, out);
    out.result(0, concat(called[size_t(program_.elements.results[k])], " == x", tensors_.size()));
    std::vector<Derivation::Value> inputs = tensors_;
    inputs.push_back(reduced);
    return d_.make("pointwise", reducing(out.text(), "reduce_y0 += y0"), inputs);
  }

  Derivation::Value by_tensor(int tensor, const std::vector<Derivation::Value>& by_results) {
    Statements out;
    const Code& code = program_.elements;
    const auto called = write(code, names_, out);
    const auto reaches =
        reaching(code, [&](const Node& node) { return node.function == Function::input && node.index == tensor; });
    std::vector<Derivation::Value> inputs = tensors_;
    std::vector<std::string> given;
    for (size_t k = 0; k < by_results.size(); ++k) {
      std::string part;
      if (reaches[size_t(code.results[k])]) {
        part = concat("x", inputs.size());
        inputs.push_back(by_results[k]);
        const std::string& element = called[size_t(code.results[k])];
        if (program_.reduces() && program_.reductions[k] == Reduction::product) {
          part = out.define(part + " / " + element);
        } else if (program_.reduces() && program_.reductions[k] != Reduction::sum) {
          part = out.define(concat("where(", element, " == x", inputs.size(), ", ", part, ", 0)"));
          inputs.push_back(extremes_[k]);
        }
      }
      given.push_back(part);
    }
    const auto gradients = derive_code(code, called, reaches, given, out);
    std::string found = "0";
    for (size_t i = 0; i < gradients.size(); ++i)
      if (code.nodes[i].function == Function::input && code.nodes[i].index == tensor && !gradients[i].empty())
        found = gradients[i];
    out.result(0, found);
    Attributes attributes = this->attributes(out.text());
    attributes.set(attr::dtype, std::string(pl::name_of(op_.in(tensor).dtype)));
    return d_.summed_to(d_.make("pointwise", attributes, inputs), op_.in(tensor).shape);
  }

  Derivation& d_;
  const Op& op_;
  Program program_;
  Names names_;
  std::vector<Derivation::Value> tensors_;
  std::vector<Derivation::Value> extremes_;  // of results that are maxima, minima or products
  std::vector<double> scalars_;
};

}  // namespace

void derive(Derivation& d) { Derived(d).run(); }

}  // namespace pl::pointwise
