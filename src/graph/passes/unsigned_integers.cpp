// unsigned_integers: activations that are quantised to signed integers of 8 bits are quantised to unsigned ones.
//
// Products multiply unsigned by signed integers (pmaddubsw, vpdpbusd).  With a zero point that becomes 128 more, which
// is none for what ReLU leaves.  Without one (symmetric scales) those that ReLU leaves are the same integers, from 0 to
// 127; others would get a zero point, and stay signed.
#include <algorithm>
#include <map>

#include "graph/named_ops.h"
#include "graph/passes/constants.h"
#include "graph/passes/passes.h"
#include "graph/passes/patterns.h"
#include "graph/passes/quantization.h"

namespace pl::passes {
namespace {

constexpr double kShift = 128, kLargest = 127;

class Signed {
 public:
  Signed(Rewriter& rewriter, Context& context) : rewriter_(rewriter), context_(context) {
    for (size_t i = 0; i < rewriter.size(); ++i) {
      if (!rewriter.live(i)) continue;
      const std::vector<ValueId> inputs = rewriter.inputs(rewriter.node(i));
      for (size_t k = 0; k < inputs.size(); ++k)
        if (inputs[k] != kNoValue) readers_[inputs[k]].push_back({i, k});
    }
  }

  // Of a node that is dequantize_linear: has it read what an unsigned twin of its quantize_linear makes.
  void visit(size_t index) {
    const Node& node = rewriter_.node(index);
    if (!is_dequantize(node)) return;
    const ValueId x = rewriter_.input(node, 0);
    const int maker = rewriter_.maker(x);
    if (maker < 0 || rewriter_.desc(x).dtype != DType::s8 || is_weight(node.outputs[0])) return;
    const Node& quantizer = rewriter_.node(size_t(maker));
    const auto zeros = zeros_of(node), from = zeros_of(quantizer);
    if (!is_quantize(quantizer) || !zeros || !from || is_zero(*zeros) != is_zero(*from)) return;
    auto it = twins_.find(x);
    if (it == twins_.end()) {
      ValueId floats = rewriter_.input(quantizer, 0), zero = kNoValue;
      if (!is_zero(*from))
        zero = shifted(quantizer, *from);
      else if ((floats = bounded(index, quantizer)) == kNoValue)
        return;
      Attributes attributes = quantizer.attributes;
      attributes.set(attr::dtype, std::string(name_of(DType::u8)));
      const ValueId twin =
          rewriter_.insert(index, quantizer.schema->name, attributes, {floats, rewriter_.input(quantizer, 1), zero},
                           quantizer.name + ".unsigned");
      it = twins_.emplace(x, twin).first;
    }
    const ValueId scale = rewriter_.input(node, 1), zero = is_zero(*zeros) ? kNoValue : shifted(node, *zeros);
    if (const auto number = rewriter_.number(scale); number && is_zero(*zeros))
      bounded_.emplace(node.outputs[0], *number);
    const Attributes attributes = node.attributes;
    const std::string schema = node.schema->name, name = node.name;
    rewriter_.rewrite(index, schema, attributes, {it->second, scale, zero}, name);
  }

 private:
  struct Reader {
    size_t node, input;
  };

  // Of quantize_linear and dequantize_linear; nothing where they are not known.
  std::optional<std::vector<double>> zeros_of(const Node& node) {
    const ValueId zero = rewriter_.input(node, 2);
    if (zero == kNoValue) return std::vector<double>{0};
    if (!rewriter_.is_constant(zero)) return std::nullopt;
    return numbers_of(rewriter_.constant(zero));
  }
  static bool is_zero(const std::vector<double>& zeros) {
    return std::all_of(zeros.begin(), zeros.end(), [](double value) { return value == 0; });
  }

  // The node's zero points as those of unsigned integers; none where they are 0 then.
  ValueId shifted(const Node& node, std::vector<double> zeros) {
    for (double& value : zeros) value += kShift;
    if (is_zero(zeros)) return kNoValue;
    const Dims& shape = rewriter_.shape(rewriter_.input(node, 2));
    return rewriter_.add_constant(node.name + ".zero", tensor_of(context_, DType::u8, shape, zeros));
  }

  // What the quantizer, without a zero point, takes, if none of it is below zero, and no more than 127 scales; made
  // before node `index` where it may be more.
  ValueId bounded(size_t index, const Node& quantizer) {
    const auto by = quantization_of(rewriter_, quantizer);
    const ValueId x = rewriter_.input(quantizer, 0);
    if (!by) return kNoValue;
    const double scale = *rewriter_.number(by->scale);
    if (moves_bounded(x, scale)) return x;
    const int maker = rewriter_.maker(x);
    if (maker < 0 || !applies_function(rewriter_.node(size_t(maker))) || rewriter_.has_post_ops(size_t(maker)))
      return kNoValue;
    const auto quantizes = [&](const Reader& reader) { return is_quantize(rewriter_.node(reader.node)); };
    if (!std::all_of(readers_[x].begin(), readers_[x].end(), quantizes)) return kNoValue;  // so that the function goes
    const auto range = range_of(function_of(rewriter_.op(size_t(maker))));
    if (!range || range->first < 0 || range->first > kLargest * scale) return kNoValue;
    const StepCall clip = call_of(PostOp::function("clip", {range->first, std::min(range->second, kLargest * scale)}));
    return rewriter_.insert(index, clip.op, clip.attributes, {rewriter_.input(rewriter_.node(size_t(maker)), 0)},
                            quantizer.name + ".bounded");
  }

  // Whether it is elements of bounded tensors with this scale that were only moved since.
  bool moves_bounded(ValueId id, double scale) {
    const auto it = bounded_.find(id);
    if (it != bounded_.end()) return it->second == scale;
    const int maker = rewriter_.maker(id);
    if (maker < 0) return false;
    const Node& mover = rewriter_.node(size_t(maker));
    if (!keeps_elements(*mover.schema)) return false;
    const std::vector<ValueId> inputs = rewriter_.inputs(mover);
    return std::all_of(inputs.begin(), inputs.end(), [&](ValueId input) { return moves_bounded(input, scale); });
  }

  // Whether a product reads it, or a view of it, as its signed operand.
  bool is_weight(ValueId id) const {
    const auto it = readers_.find(id);
    return it != readers_.end() && std::any_of(it->second.begin(), it->second.end(), [&](const Reader& reader) {
             const Node& node = rewriter_.node(reader.node);
             if (!node.schema->quantized_as.empty()) return reader.input == 1;
             return node.schema->view && std::any_of(node.outputs.begin(), node.outputs.end(),
                                                     [&](ValueId output) { return is_weight(output); });
           });
  }

  Rewriter& rewriter_;
  Context& context_;
  std::map<ValueId, std::vector<Reader>> readers_;
  std::map<ValueId, ValueId> twins_;   // by the signed integers
  std::map<ValueId, double> bounded_;  // floats of twins without zero points: their scale
};

}  // namespace

Pass unsigned_integers() {
  return {
      "unsigned_integers",
      "dequantize_linear(quantize_linear(x)) by s8 -> the same by u8, but for the second operand of a product: with "
      "128 added to zero points, or without one, x clipped, where x is of a ReLU.  Exact.",
      [](Graph& graph, Context& context) {
        Rewriter rewriter(graph);
        Signed pairs(rewriter, context);
        for (size_t i = 0; i < rewriter.size(); ++i)
          if (rewriter.live(i)) pairs.visit(i);
        return rewriter.changes();
      }};
}

}  // namespace pl::passes
