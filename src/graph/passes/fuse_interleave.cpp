// fuse_interleave: concat of two tensors, channel_shuffle and slices of the result become one op, with two groups and
// with as many as each tensor has channels, which is the gradient of that.
#include <algorithm>

#include "graph/passes/passes.h"
#include "graph/passes/patterns.h"

namespace pl::passes {
namespace {

struct ChannelRun {
  int64_t start = 0, count = 0;
  ValueId value = kNoValue;
};

// The channels that a slice takes, if it takes a run of them and all of the other dimensions.
std::optional<ChannelRun> channel_run_of(Rewriter& rewriter, size_t index) {
  if (!rewriter.live(index) || !is_slice(rewriter.node(index))) return std::nullopt;
  const Op op = rewriter.op(index);
  const Dims &from = op.in(0).shape, &to = op.out().shape;
  for (int d = 0; d < from.size(); ++d)
    if (d != 1 && from[d] != to[d]) return std::nullopt;
  if (op.attributes[attr::steps][1] != 1) return std::nullopt;
  return ChannelRun{op.attributes[attr::starts][1], to[1], rewriter.node(index).outputs[0]};
}

// The slices that use a value, in order, if nothing else does and they tile its channels; else none.
std::vector<ChannelRun> channel_runs_of(Rewriter& rewriter, ValueId id, const std::vector<int32_t>& users) {
  if (size_t(rewriter.uses(id)) != users.size()) return {};
  std::vector<ChannelRun> parts;
  for (int32_t user : users) {
    const auto part = channel_run_of(rewriter, size_t(user));
    if (!part) return {};
    parts.push_back(*part);
  }
  std::sort(parts.begin(), parts.end(), [](const ChannelRun& a, const ChannelRun& b) { return a.start < b.start; });
  int64_t next = 0;
  for (const ChannelRun& part : parts) {
    if (part.start != next) return {};
    next += part.count;
  }
  return next == rewriter.shape(id)[1] ? parts : std::vector<ChannelRun>();
}

void fuse_interleave_at(Rewriter& rewriter, size_t index, const std::vector<std::vector<int32_t>>& consumers) {
  const Node& node = rewriter.node(index);
  if (!is_channel_shuffle(node)) return;
  const int before = sole_maker(rewriter, rewriter.input(node, 0), is_concat);
  if (before < 0) return;
  const std::vector<ValueId> inputs = rewriter.inputs(rewriter.node(size_t(before)));
  if (inputs.size() != 2 || rewriter.shape(inputs[0]) != rewriter.shape(inputs[1])) return;
  if (rewriter.op(size_t(before)).attributes[attr::dim] != 1) return;
  const int64_t groups = rewriter.op(index).attributes[attr::groups];
  if (groups != 2 && groups != rewriter.shape(inputs[0])[1]) return;
  const ValueId z = node.outputs[0];
  std::vector<ChannelRun> parts = channel_runs_of(rewriter, z, consumers[size_t(z)]);
  if (parts.empty()) parts = {{0, rewriter.shape(z)[1], z}};
  std::vector<int64_t> sections;
  for (const ChannelRun& part : parts) sections.push_back(part.count);
  Attributes attributes;
  attributes.set(attr::sections, sections);
  attributes.set(attr::groups, groups);
  const std::vector<ValueId> results = rewriter.insert_all(index, "interleave", attributes, inputs, node.name);
  for (size_t k = 0; k < parts.size(); ++k) rewriter.redirect(parts[k].value, results[k]);
}

int run_fuse_interleave(Graph& graph, Context&) {
  const std::vector<std::vector<int32_t>> consumers = graph.consumers();
  return sweep(graph, [&](Rewriter& rewriter, size_t index) { fuse_interleave_at(rewriter, index, consumers); });
}

}  // namespace

Pass fuse_interleave() {
  return {"fuse_interleave",
          "Makes concat of two tensors of equal shape, channel_shuffle with two groups, or as many as a tensor has "
          "channels, and the slices that take its result apart one op: interleave.  Exact.",
          run_fuse_interleave};
}

}  // namespace pl::passes
