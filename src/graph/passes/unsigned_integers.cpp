// unsigned_integers: activations that are quantised to signed integers of 8 bits are quantised to unsigned ones.
//
// Products multiply unsigned by signed integers (pmaddubsw, vpdpbusd), and what ReLU leaves, whose zero point is -128, has
// none then.  Where the zero point is 0 the integers stay signed: unsigned ones would have one.
#include <algorithm>
#include <map>

#include "graph/named_ops.h"
#include "graph/passes/constants.h"
#include "graph/passes/passes.h"
#include "graph/passes/quantization.h"

namespace pl::passes {
namespace {

constexpr double kShift = 128;

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
    if (!is_quantize(quantizer) || !has_zero_point(quantizer) || !has_zero_point(node)) return;
    auto it = twins_.find(x);
    if (it == twins_.end()) {
      Attributes attributes = quantizer.attributes;
      attributes.set(attr::dtype, std::string(name_of(DType::u8)));
      const ValueId twin =
          rewriter_.insert(index, quantizer.schema->name, attributes,
                           {rewriter_.input(quantizer, 0), rewriter_.input(quantizer, 1), shifted_zero(quantizer)},
                           quantizer.name + ".unsigned");
      it = twins_.emplace(x, twin).first;
    }
    const ValueId scale = rewriter_.input(node, 1), zero = shifted_zero(node);
    const Attributes attributes = node.attributes;
    const std::string schema = node.schema->name, name = node.name;
    rewriter_.rewrite(index, schema, attributes, {it->second, scale, zero}, name);
  }

 private:
  struct Reader {
    size_t node, input;
  };

  bool has_zero_point(const Node& node) {
    const ValueId zero = rewriter_.input(node, 2);
    if (zero == kNoValue || !rewriter_.is_constant(zero)) return false;
    const std::vector<double> values = numbers_of(rewriter_.constant(zero));
    return std::any_of(values.begin(), values.end(), [](double value) { return value != 0; });
  }

  // None where it is 0 then.
  ValueId shifted_zero(const Node& node) {
    const ValueId zero = rewriter_.input(node, 2);
    std::vector<double> values = numbers_of(rewriter_.constant(zero));
    for (double& value : values) value += kShift;
    if (std::all_of(values.begin(), values.end(), [](double value) { return value == 0; })) return kNoValue;
    return rewriter_.add_constant(node.name + ".zero", tensor_of(context_, DType::u8, rewriter_.shape(zero), values));
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
  std::map<ValueId, ValueId> twins_;  // by the signed integers
};

}  // namespace

Pass unsigned_integers() {
  return {"unsigned_integers",
          "dequantize_linear(quantize_linear(x)) by s8 with a zero point -> the same by u8, with 128 added to zero "
          "points, but for the second operand of a product.  Exact.",
          [](Graph& graph, Context& context) {
            Rewriter rewriter(graph);
            Signed pairs(rewriter, context);
            for (size_t i = 0; i < rewriter.size(); ++i)
              if (rewriter.live(i)) pairs.visit(i);
            return rewriter.changes();
          }};
}

}  // namespace pl::passes
