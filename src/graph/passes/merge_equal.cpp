// merge_equal: the same op on the same inputs is done once (common subexpressions), equal constants are one.
#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

namespace pl::passes {
namespace {

// Larger constants are compared by their storage only: hashing all weights of a model takes longer than what one equal
// pair of them costs.
constexpr size_t kComparedBytes = 64 << 10;

// Of some 64 words throughout: what hashes the same is compared whole.
uint64_t hash_bytes(const char* data, size_t bytes) {
  const size_t step = std::max<size_t>(8, bytes / 64 / 8 * 8);
  uint64_t hash = bytes;
  for (size_t i = 0; i < bytes; i += step) {
    uint64_t word = 0;
    std::memcpy(&word, data + i, std::min<size_t>(8, bytes - i));
    hash = hash_mix(hash, word);
  }
  return hash;
}

bool is_compared(const Tensor& tensor) {
  return tensor.device().traits().host_addressable && tensor.desc().is_dense() && !tensor.desc().has_padding() &&
         tensor.desc().size_bytes() <= kComparedBytes;
}

uint64_t hash_of(const Tensor& tensor) {
  const uint64_t hash = tensor.hash();
  if (!is_compared(tensor)) return hash_mix(hash, reinterpret_cast<uintptr_t>(tensor.buffer().get()));
  return hash_mix(hash, hash_bytes(static_cast<const char*>(tensor.buffer()->host()), tensor.desc().size_bytes()));
}

bool equal(const Tensor& a, const Tensor& b) {
  if (!(a.desc() == b.desc()) || &a.device() != &b.device()) return false;
  if (a.buffer() == b.buffer()) return true;
  return is_compared(a) && std::memcmp(a.buffer()->host(), b.buffer()->host(), a.desc().size_bytes()) == 0;
}

void merge_constants(Graph& graph, Rewriter& rewriter) {
  std::unordered_multimap<uint64_t, ValueId> known;
  const size_t count = graph.values().size();
  for (size_t i = 0; i < count; ++i) {
    const ValueId id = ValueId(i);
    if (!graph.is_constant(id) || rewriter.uses(id) == 0) continue;
    const Tensor& tensor = rewriter.constant(id);
    const uint64_t hash = hash_of(tensor);
    const auto [begin, end] = known.equal_range(hash);
    ValueId same = kNoValue;
    for (auto it = begin; it != end && same == kNoValue; ++it)
      if (equal(rewriter.constant(it->second), tensor)) same = it->second;
    if (same == kNoValue)
      known.emplace(hash, id);
    else
      rewriter.redirect(id, same);
  }
}

void merge_nodes(Rewriter& rewriter) {
  std::unordered_multimap<uint64_t, size_t> known;
  for (size_t i = 0; i < rewriter.size(); ++i) {
    if (!rewriter.live(i)) continue;
    const Node& node = rewriter.node(i);
    const std::vector<ValueId> inputs = rewriter.inputs(node);
    uint64_t hash = hash_mix(reinterpret_cast<uintptr_t>(node.schema), node.attributes.hash());
    for (ValueId id : inputs) hash = hash_mix(hash, uint64_t(id));
    const auto [begin, end] = known.equal_range(hash);
    const Node* same = nullptr;
    for (auto it = begin; it != end && !same; ++it) {
      const Node& other = rewriter.node(it->second);
      if (other.schema == node.schema && other.attributes == node.attributes && rewriter.inputs(other) == inputs)
        same = &other;
    }
    if (!same) {
      known.emplace(hash, i);
      continue;
    }
    for (size_t k = 0; k < node.outputs.size(); ++k) rewriter.redirect(node.outputs[k], same->outputs[k]);
  }
}

int run_merge_equal(Graph& graph, Context&) {
  Rewriter rewriter(graph);
  merge_constants(graph, rewriter);
  merge_nodes(rewriter);
  return rewriter.changes();
}

}  // namespace

Pass merge_equal() {
  return {"merge_equal",
          "Does the same op on the same inputs once, and shares constants of equal shape and bytes (up to 64 KiB; "
          "larger ones if they share storage already).  Exact.",
          run_merge_equal};
}

}  // namespace pl::passes
