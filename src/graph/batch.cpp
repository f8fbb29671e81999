#include "graph/batch.h"

#include <algorithm>
#include <functional>
#include <map>

namespace pl {
namespace {

// Whether an op with these inputs batched along axis 0 is batched in its results, and works on each image alone.
// Inputs that are not batched are the same for all images.
using Rule = std::function<bool(const Op& op, const std::vector<bool>& batched)>;

int64_t positive(int64_t dim, int rank) { return dim < 0 ? dim + rank : dim; }

bool only_first(const Op&, const std::vector<bool>& batched) {
  return batched[0] && std::none_of(batched.begin() + 1, batched.end(), [](bool b) { return b; });
}

// Of inputs [from, end) a residual, which has the shape of the result, must be batched; nothing else may be.
bool only_residual(const Op& op, const std::vector<bool>& batched, size_t from) {
  const int residual = op.schema->input_index("residual");
  for (size_t i = from; i < batched.size(); ++i)
    if (batched[i] != (int(i) == residual && op.has(residual))) return false;
  return true;
}

// Convolution and its like: x, and perhaps a residual.
bool first_and_residual(const Op& op, const std::vector<bool>& batched) {
  return batched[0] && only_residual(op, batched, 1);
}

// NumPy broadcasting: batched inputs reach up to axis 0 of the result, the others do not, or have size one there.
bool broadcasting(const Op& op, const std::vector<bool>& batched) {
  const int rank = op.out().rank();
  for (size_t i = 0; i < batched.size(); ++i) {
    if (!op.has(int(i))) continue;
    const TensorDesc& in = op.in(int(i));
    if (batched[i] ? in.rank() != rank : in.rank() == rank && in.shape[0] != 1) return false;
  }
  return true;
}

bool all_batched(const Op& op, const std::vector<bool>& batched) {
  for (size_t i = 0; i < batched.size(); ++i)
    if (op.has(int(i)) && !batched[i]) return false;
  return true;
}

// The attribute `dim`, one or several, does not touch axis 0.
bool along_others(const Op& op, const std::vector<bool>& batched) {
  if (!only_first(op, batched)) return false;
  const AttributeValue* value = op.attributes.find("dim");
  if (!value) return false;
  const int rank = op.in(0).rank();
  if (const auto* dim = std::get_if<int64_t>(value)) return positive(*dim, rank) != 0;
  if (const auto* dims = std::get_if<std::vector<int64_t>>(value))
    return !dims->empty() && std::all_of(dims->begin(), dims->end(), [&](int64_t d) { return positive(d, rank) != 0; });
  return false;
}

// Renaming: axis 0 stays where it is.
bool same_first_axis(const Op& op, const std::vector<bool>& batched) {
  return only_first(op, batched) && op.in(0).rank() > 0 && op.out().rank() > 0 &&
         op.in(0).shape[0] == op.out().shape[0];
}

const Rule* rule_of(const std::string& kind) {
  static const std::map<std::string, Rule> rules{
      {"unary", only_first},
      {"identity", only_first},
      {"adaptive_pool", only_first},
      {"pool", only_first},
      {"batch_norm", only_first},
      {"group_norm", only_first},
      {"resize", only_first},
      {"lrn", only_first},
      {"prelu", only_first},
      {"channel_shuffle", only_first},
      {"interleave", all_batched},
      {"cast", only_first},
      {"conv", first_and_residual},
      {"conv_transpose", first_and_residual},
      {"linear",
       [](const Op& op, const std::vector<bool>& batched) {
         return op.in(0).rank() >= 2 && first_and_residual(op, batched);
       }},
      {"binary", broadcasting},
      {"where", broadcasting},
      {"softmax", along_others},
      {"reduce", along_others},
      {"arg_reduce", along_others},
      {"cumsum", along_others},
      {"topk", along_others},
      {"split", along_others},
      {"concat",
       [](const Op& op, const std::vector<bool>& batched) {
         return all_batched(op, batched) && positive(op.attributes.integer("dim"), op.out().rank()) != 0;
       }},
      {"layer_norm",
       [](const Op& op, const std::vector<bool>& batched) {
         return only_first(op, batched) && int(op.attributes.integers("normalized_shape").size()) < op.in(0).rank();
       }},
      {"pad",
       [](const Op& op, const std::vector<bool>& batched) {
         return only_first(op, batched) && int(op.attributes.integers("pad").size()) <= 2 * (op.in(0).rank() - 1);
       }},
      {"permute",
       [](const Op& op, const std::vector<bool>& batched) {
         return only_first(op, batched) && positive(op.attributes.integers("dims")[0], op.in(0).rank()) == 0;
       }},
      {"transpose",
       [](const Op& op, const std::vector<bool>& batched) {
         const int rank = op.in(0).rank();
         return only_first(op, batched) && positive(op.attributes.integer("dim0"), rank) != 0 &&
                positive(op.attributes.integer("dim1"), rank) != 0;
       }},
      {"reshape", same_first_axis},
      {"flatten", same_first_axis},
      {"slice",
       [](const Op& op, const std::vector<bool>& batched) {
         if (!same_first_axis(op, batched)) return false;
         const AttributeValue* axes = op.attributes.find("axes");
         const auto* list = axes ? std::get_if<std::vector<int64_t>>(axes) : nullptr;
         return list && std::all_of(list->begin(), list->end(),
                                    [&](int64_t axis) { return positive(axis, op.in(0).rank()) != 0; });
       }},
      {"squeeze",
       [](const Op& op, const std::vector<bool>& batched) {
         return op.in(0).shape[0] != 1 && same_first_axis(op, batched);
       }},
      {"unsqueeze",
       [](const Op& op, const std::vector<bool>& batched) {
         return same_first_axis(op, batched) && positive(op.attributes.integer("dim"), op.out().rank()) != 0;
       }},
      {"matmul",
       [](const Op& op, const std::vector<bool>& batched) {
         const int rank = op.out().rank();
         for (int i : {0, 1}) {
           const TensorDesc& in = op.in(i);
           if (batched[size_t(i)] ? in.rank() != rank || rank < 3 : in.rank() == rank && in.shape[0] != 1) return false;
         }
         return only_residual(op, batched, 2);
       }},
      {"attention",
       [](const Op& op, const std::vector<bool>& batched) {
         if (!batched[0] || !batched[1] || !batched[2]) return false;
         if (!op.has(3)) return true;
         // A mask of its own for each image, or one for all.
         const int rank = op.in(3).rank();
         return batched[3] ? rank == op.in(0).rank() : rank < op.in(0).rank() || op.in(3).shape[0] == 1;
       }},
  };
  const auto it = rules.find(kind);
  return it == rules.end() ? nullptr : &it->second;
}

}  // namespace

std::optional<int64_t> batch_of(const Graph& graph) {
  if (graph.inputs().empty() || !graph.kept().empty()) return std::nullopt;
  const TensorDesc& first = graph.value(graph.inputs()[0].value).desc;
  if (first.rank() == 0) return std::nullopt;
  const int64_t batch = first.shape[0];
  std::vector<bool> batched(graph.values().size(), false);
  const auto outermost = [](const Layout& layout) { return layout.rank() == 0 || layout.order(0) == 0; };
  for (const GraphInput& input : graph.inputs()) {
    const TensorDesc& desc = graph.value(input.value).desc;
    if (desc.rank() == 0 || desc.shape[0] != batch || !outermost(desc.layout)) return std::nullopt;
    batched[size_t(input.value)] = true;
  }
  for (const Node& node : graph.nodes()) {
    const Op op = graph.op(node);
    std::vector<bool> of_inputs;
    for (ValueId id : node.inputs) of_inputs.push_back(id != kNoValue && batched[size_t(id)]);
    if (std::none_of(of_inputs.begin(), of_inputs.end(), [](bool b) { return b; })) continue;
    const Rule* rule = rule_of(op.schema->kind);
    if (!rule || !(*rule)(op, of_inputs)) return std::nullopt;
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      if (op.out(int(k)).rank() == 0 || op.out(int(k)).shape[0] != batch) return std::nullopt;
      batched[size_t(node.outputs[k])] = true;
    }
  }
  for (const GraphOutput& output : graph.outputs())
    if (!batched[size_t(output.value)] || (output.layout && !outermost(*output.layout))) return std::nullopt;
  return batch;
}

Graph with_batch(const Graph& graph, int64_t batch) {
  const int64_t before = graph.value(graph.inputs()[0].value).desc.shape[0];
  Graph result;
  std::vector<ValueId> places(graph.values().size(), kNoValue);
  for (const GraphInput& input : graph.inputs()) {
    const Value& value = graph.value(input.value);
    Dims shape = value.desc.shape;
    shape[0] = batch;
    places[size_t(input.value)] =
        result.input(value.name, TensorDesc::dense(value.desc.dtype, shape, value.desc.layout), {}, input.pinned);
  }
  for (size_t i = 0; i < graph.values().size(); ++i)
    if (graph.values()[i].constant) places[i] = result.constant(graph.values()[i].name, graph.values()[i].constant);
  std::vector<bool> batched(graph.values().size(), false);
  for (const GraphInput& input : graph.inputs()) batched[size_t(input.value)] = true;
  for (const Node& node : graph.nodes()) {
    Attributes attributes = node.attributes;
    bool any = false;
    std::vector<ValueId> inputs;
    for (ValueId id : node.inputs) {
      inputs.push_back(id == kNoValue ? kNoValue : places[size_t(id)]);
      any = any || (id != kNoValue && batched[size_t(id)]);
    }
    // A shape that spells the batch out.
    if (any && node.schema->kind == "reshape")
      if (const auto* shape = std::get_if<std::vector<int64_t>>(attributes.find("shape")))
        if (!shape->empty() && (*shape)[0] == before) {
          std::vector<int64_t> changed = *shape;
          changed[0] = batch;
          attributes.set("shape", changed);
        }
    const std::vector<ValueId> outputs = result.add(*node.schema, attributes, inputs, node.name);
    for (size_t k = 0; k < outputs.size(); ++k) {
      places[size_t(node.outputs[k])] = outputs[k];
      batched[size_t(node.outputs[k])] = any;
    }
  }
  for (const GraphOutput& output : graph.outputs())
    result.output(places[size_t(output.value)], output.name, output.layout);
  return result;
}

}  // namespace pl
