// nest_concats: a concat that begins with the parts of an earlier one begins with that one's result.
#include <unordered_map>

#include "graph/passes/passes.h"
#include "graph/passes/patterns.h"

namespace pl::passes {
namespace {

int run_nest_concats(Graph& graph, Context&) {
  struct Known {
    std::vector<ValueId> parts;
    int64_t dim;
    ValueId result;
  };
  std::vector<Known> known;
  std::unordered_map<uint64_t, size_t> by_hash;  // of the parts: index into `known`
  int rewrites = 0;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.node(i);
    if (!is_concat(node)) continue;
    const int rank = graph.value(node.outputs[0]).desc.rank();
    int64_t dim = graph.op(node).attributes[attr::dim];
    if (dim < 0) dim += rank;
    const std::vector<ValueId> parts = node.inputs;
    uint64_t hash = hash_mix(17, uint64_t(dim));
    size_t longest = 0;
    ValueId begins_with = kNoValue;
    for (size_t k = 0; k < parts.size(); ++k) {
      hash = hash_mix(hash, uint64_t(parts[k]));
      const auto it = by_hash.find(hash);
      if (it == by_hash.end() || k + 1 == parts.size()) continue;  // equal ones are merge_equal's
      const Known& earlier = known[it->second];
      if (earlier.dim == dim && earlier.parts.size() == k + 1 &&
          std::equal(earlier.parts.begin(), earlier.parts.end(), parts.begin())) {
        longest = k + 1;
        begins_with = earlier.result;
      }
    }
    if (parts.size() >= 2) {
      by_hash.emplace(hash, known.size());
      known.push_back({parts, dim, node.outputs[0]});
    }
    if (longest == 0) continue;
    std::vector<ValueId> inputs{begins_with};
    inputs.insert(inputs.end(), parts.begin() + long(longest), parts.end());
    const Schema& schema = *node.schema;
    const Attributes attributes = node.attributes;
    graph.rewrite(i, schema, attributes, inputs);
    ++rewrites;
  }
  return rewrites;
}

}  // namespace

Pass nest_concats() {
  return {
      "nest_concats",
      "concat(a, b, c) after concat(a, b) becomes concat(concat(a, b), c), as in DenseNet, so that all parts can be "
      "made where they lie in the last one; results are equal to the bit",
      run_nest_concats};
}

}  // namespace pl::passes
