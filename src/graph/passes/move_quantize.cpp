// move_quantize: what only moves elements of quantised tensors, or takes the largest of some, does so as integers.
#include <algorithm>

#include "graph/named_ops.h"
#include "graph/passes/passes.h"
#include "graph/passes/patterns.h"
#include "graph/passes/quantization.h"
#include "ops/rules.h"

namespace pl::passes {
namespace {

// The node that moves the elements of a value, for one reader alone; -1: none.
int mover_of(Rewriter& rewriter, ValueId id) {
  const int before = rewriter.sole_maker(id);
  if (before < 0) return -1;
  const Node& node = rewriter.node(size_t(before));
  return keeps_elements(*node.schema) && node.outputs.size() == 1 ? before : -1;
}

// Whether a value is a dequantised tensor, or elements of such that were only moved since.
bool comes_from_integers(Rewriter& rewriter, ValueId id) {
  if (id == kNoValue) return false;
  if (quantized(rewriter, id)) return true;
  const int mover = mover_of(rewriter, id);
  if (mover < 0) return false;
  const std::vector<ValueId> inputs = rewriter.inputs(rewriter.node(size_t(mover)));
  return std::all_of(inputs.begin(), inputs.end(), [&](ValueId input) { return comes_from_integers(rewriter, input); });
}

void move_quantize_at(Rewriter& rewriter, size_t index) {
  const Node& root = rewriter.node(index);
  if (!is_quantize(root)) return;
  const auto by = quantization_of(rewriter, root);
  if (!by) return;
  const ValueId x = rewriter.input(root, 0);
  const DType dtype = rewriter.desc(root.outputs[0]).dtype;
  if (const auto from = quantized(rewriter, x)) {
    if (rewriter.desc(from->integers).dtype == dtype && are_equal(rewriter, *by, from->by))
      rewriter.redirect(root.outputs[0], from->integers);
    return;
  }
  const int before = mover_of(rewriter, x);
  if (before < 0 || !comes_from_integers(rewriter, x)) return;
  const Node& mover = rewriter.node(size_t(before));
  const std::vector<ValueId> inputs = rewriter.inputs(mover);
  Op moved = rewriter.op(size_t(before));
  for (size_t k = 0; k < inputs.size(); ++k) moved.inputs[k] = TensorDesc::dense(dtype, rewriter.shape(inputs[k]));
  if (!takes_dtypes(moved)) return;
  const Attributes quantize = root.attributes, attributes = mover.attributes;
  const std::string quantizer = root.schema->name, schema = mover.schema->name, name = mover.name;
  std::vector<ValueId> integers;
  for (ValueId input : inputs)
    integers.push_back(rewriter.insert(index, quantizer, quantize, {input, by->scale, by->zero}, name + ".quantized"));
  rewriter.rewrite(index, schema, attributes, integers, name);
}

int run_move_quantize(Graph& graph, Context&) { return sweep(graph, move_quantize_at); }

}  // namespace

Pass move_quantize() {
  return {"move_quantize",
          "Puts a quantize_linear behind views, concats and maximum pools of dequantised tensors before them, so that "
          "these move integers, and removes one that gives the integers that a tensor was made of.  Exact.",
          run_move_quantize};
}

}  // namespace pl::passes
