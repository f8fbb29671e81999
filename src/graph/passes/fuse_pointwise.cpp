// fuse_pointwise: elementwise ops that follow each other become one `pointwise` op.
//
// An op takes in the maker of an input where nothing else uses that value, or it is a dequantised tensor, both have one
// shape, and both say what they compute (Schema::expression); and so on, until it finds no more.
#include <algorithm>
#include <cmath>

#include "core/device.h"
#include "graph/named_ops.h"
#include "graph/passes/passes.h"
#include "graph/passes/quantization.h"
#include "graph/passes/rewriter.h"
#include "ops/gradient.h"
#include "ops/pointwise.h"
#include "ops/pointwise_text.h"

namespace pl::passes {
namespace {

// Beyond these a kernel has no registers for all of it at once.
constexpr size_t kMostInputs = 8;
constexpr size_t kMostFusedNodes = 64;

struct Element {
  pointwise::Program program;
  std::vector<double> scalars;
  std::vector<ValueId> inputs;
};

// What a node computes for each element of its one result, in f32.
std::optional<Element> element_of(Rewriter& rewriter, size_t index) {
  const Node& node = rewriter.node(index);
  if (node.outputs.size() != 1 || !node.schema->expression) return std::nullopt;
  ElementExpression expression = node.schema->expression(rewriter.op(index));
  if (expression.text.empty()) return std::nullopt;
  const auto is_real = [&](ValueId id) {  // f32 does not hold all integers
    const DType dtype = rewriter.desc(id).dtype;
    return is_floating(dtype) || dtype == DType::boolean || expression.of_integers;
  };
  Element element;
  element.inputs = rewriter.inputs(node);
  while (!element.inputs.empty() && element.inputs.back() == kNoValue) element.inputs.pop_back();
  if (!is_real(node.outputs[0])) return std::nullopt;
  for (ValueId id : element.inputs)
    if (id == kNoValue || !is_real(id)) return std::nullopt;
  element.program = pointwise::parse(node.schema->name, expression.text, "", int(element.inputs.size()),
                                     int(expression.scalars.size()), pointwise::Arithmetic::f32);
  element.scalars = std::move(expression.scalars);
  return element;
}

// An expression that grows by programs.
class Joined {
 public:
  explicit Joined(Rewriter& rewriter) : rewriter_(rewriter) {}

  // `given`: by input, the name of what stands for it; empty: the value itself.
  std::string add(const Element& element, const std::vector<std::string>& given) {
    const auto leaf = [&](const pointwise::Node& node) {
      if (node.function == pointwise::Function::scalar) return scalar(element.scalars[size_t(node.index)]);
      const std::string& name = given[size_t(node.index)];
      return name.empty() ? input(element.inputs[size_t(node.index)]) : name;
    };
    nodes_ += element.program.elements.nodes.size();
    const auto called = pointwise::write(element.program.elements, leaf, statements_);
    return called[size_t(element.program.elements.results[0])];
  }

  // Whether one op can compute it, with a result like this.
  bool fits(const TensorDesc& result) const {
    // Where all were numbers no input is left: fold_constants computes those.
    if (inputs_.empty() || inputs_.size() > kMostInputs || nodes_ > kMostFusedNodes) return false;
    std::vector<bool> reached(size_t(result.rank()), false);
    int rank = 0;
    for (ValueId id : inputs_) {
      const Dims& shape = rewriter_.shape(id);
      rank = std::max(rank, shape.size());
      for (int d = 0; d < shape.size(); ++d) {
        const int at = result.rank() - shape.size() + d;
        if (shape[d] == result.shape[at]) reached[size_t(at)] = true;
      }
    }
    // Numbers are no inputs any more, and their dimensions of size 1 are gone.
    return rank == result.rank() && std::find(reached.begin(), reached.end(), false) == reached.end();
  }
  const std::vector<ValueId>& inputs() const { return inputs_; }
  Attributes attributes(const std::string& result, DType dtype) {
    statements_.result(0, result);
    Attributes attributes{
        {attr::expressions, statements_.text()}, {attr::scalars, scalars_}, {attr::dtype, std::string(name_of(dtype))}};
    const auto is_float = [&](ValueId id) { return is_floating(rewriter_.desc(id).dtype); };
    if (!is_floating(dtype) && std::none_of(inputs_.begin(), inputs_.end(), is_float))
      attributes.set(attr::arithmetic, std::string("f32"));
    return attributes;
  }

 private:
  std::string input(ValueId id) {
    // Numbers are scalars, so that equal expressions have one kernel.
    if (const auto number = rewriter_.number(id)) return scalar(*number);
    const size_t place = size_t(std::find(inputs_.begin(), inputs_.end(), id) - inputs_.begin());
    if (place == inputs_.size()) inputs_.push_back(id);
    return concat("x", place);
  }
  std::string scalar(double value) {
    const auto same = [&](double other) { return other == value && std::signbit(other) == std::signbit(value); };
    const size_t place = size_t(std::find_if(scalars_.begin(), scalars_.end(), same) - scalars_.begin());
    if (place == scalars_.size()) scalars_.push_back(value);
    return concat("s", place);
  }

  Rewriter& rewriter_;
  pointwise::Statements statements_;
  std::vector<ValueId> inputs_;
  std::vector<double> scalars_;
  size_t nodes_ = 0;
};

// Whether a value is rounded because that was asked for: a cast to a narrower dtype.
bool is_rounded(Rewriter& rewriter, const Node& maker, ValueId id) {
  const auto size = [&](ValueId value) {
    const DType dtype = rewriter.desc(value).dtype;
    return is_floating(dtype) ? size_of(dtype) : 0;
  };
  const std::vector<ValueId> inputs = rewriter.inputs(maker);
  return size(id) > 0 && std::any_of(inputs.begin(), inputs.end(),
                                     [&](ValueId input) { return input != kNoValue && size(input) > size(id); });
}

// Whether it takes longer to compute than to look up.
bool is_slow(pointwise::Function function) {
  using pointwise::Function;
  const bool root = function == Function::sqrt || function == Function::rsqrt;
  return (function >= Function::exp && function <= Function::cos && !root) || function == Function::power;
}

bool is_slow(const Element& element) {
  const auto& nodes = element.program.elements.nodes;
  return std::any_of(nodes.begin(), nodes.end(), [](const auto& node) { return is_slow(node.function); });
}

// Whether a node computes a function of one tensor of 8 bits.
bool is_of_bytes(Rewriter& rewriter, const Element& element) {
  ValueId bytes = kNoValue;
  for (ValueId id : element.inputs) {
    if (rewriter.number(id)) continue;
    if (!is_byte(rewriter.desc(id).dtype) || (bytes != kNoValue && bytes != id)) return false;
    bytes = id;
  }
  return bytes != kNoValue;
}

// Whether a kernel looks the node's results up, which it would have to compute with what makes the bytes it reads.
bool stays_table(Rewriter& rewriter, const Element& element, const Element& before) {
  return is_slow(element) && is_of_bytes(rewriter, element) && !is_of_bytes(rewriter, before);
}

// Whether the node may take in the maker of one of its inputs.
bool may_take(Rewriter& rewriter, const Node& node, ValueId id) {
  const int maker = rewriter.maker(id);
  if (maker < 0 || rewriter.shape(id) != rewriter.shape(node.outputs[0])) return false;
  if (is_rounded(rewriter, rewriter.node(size_t(maker)), id)) return false;
  const Schema& schema = *rewriter.node(size_t(maker)).schema;
  if (!schema.expression) return false;
  // What others read as well is computed again where its integers are a quarter of what is read else.
  if (is_dequantize(rewriter.node(size_t(maker)))) return true;
  const std::vector<ValueId> inputs = rewriter.inputs(node);
  return rewriter.uses(id) == std::count(inputs.begin(), inputs.end(), id);
}

// One step: the node takes in the makers of those of its inputs that it may.  `tables`: kernels have some.
bool take_in(Rewriter& rewriter, size_t index, bool tables) {
  const Node& node = rewriter.node(index);
  if (!node.schema->expression) return false;
  const std::vector<ValueId> inputs = rewriter.inputs(node);
  std::vector<bool> taken;
  for (ValueId id : inputs) taken.push_back(id != kNoValue && may_take(rewriter, node, id));
  if (std::find(taken.begin(), taken.end(), true) == taken.end()) return false;
  const std::optional<Element> element = element_of(rewriter, index);
  if (!element) return false;
  const TensorDesc result = rewriter.desc(node.outputs[0]);
  Joined joined(rewriter);
  std::vector<std::string> given(inputs.size());
  bool found = false;
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (!taken[k] || !given[k].empty()) continue;
    const std::optional<Element> before = element_of(rewriter, size_t(rewriter.maker(inputs[k])));
    if (!before || (tables && stays_table(rewriter, *element, *before))) continue;
    const std::string name = joined.add(*before, std::vector<std::string>(before->inputs.size()));
    for (size_t j = k; j < inputs.size(); ++j)
      if (inputs[j] == inputs[k]) given[j] = name;
    found = true;
  }
  if (!found) return false;
  const std::string value = joined.add(*element, given);
  if (!joined.fits(result)) return false;
  const Attributes attributes = joined.attributes(value, result.dtype);
  const std::string name = node.name;
  rewriter.rewrite(index, "pointwise", attributes, joined.inputs(), name);
  return true;
}

}  // namespace

Pass fuse_pointwise(Device* device) {
  const bool tables = device && device->traits().threads;
  return {
      "fuse_pointwise",
      "Joins elementwise ops that follow each other into one `pointwise` op, if nothing else uses what is between "
      "them, or that is a dequantised tensor, and all have one shape.  Exact in f32 but for the functions' own "
      "rounding; in narrower dtypes one "
      "rounding less for each op that is taken in.  A cast to a narrower dtype is not taken in: it rounds.  On the "
      "CPU, a slow function of one tensor of 8 bits does not take in what makes that: it is a table of 256 results.",
      [tables](Graph& graph, Context&) {
        const auto run = [&](bool slow_ones) {
          return sweep(graph, [&](Rewriter& rewriter, size_t index) {
            if (slow_ones) {
              const auto element = element_of(rewriter, index);
              if (!element || !is_slow(*element)) return;
            }
            while (take_in(rewriter, index, tables)) {
            }
          });
        };
        // Slow functions of dequantised tensors are tables before those take in what makes the bytes.
        const int first = tables ? run(true) : 0;
        if (first > 0) graph.tidy();
        return first + run(false);
      }};
}

}  // namespace pl::passes
