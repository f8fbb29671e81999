#include "graph/choices.h"

#include <algorithm>

#include "core/clock.h"
#include "graph/batch.h"
#include "graph/compiler.h"

namespace pl {

std::string key_of(const State& state) {
  if (state.way) return state.way->key;
  std::string text = "in place";
  for (const TensorDesc& desc : state.inputs)
    text += " " + concat(desc.layout.generic_str(), ':', joined(desc.strides.vector()));
  for (const TensorDesc& desc : state.outputs)
    text += " > " + desc.layout.generic_str() + (desc.is_dense() ? "" : ":" + joined(desc.strides.vector()));
  return text;
}

std::string PlanChoices::records() const {
  std::string text;
  for (const Cut& cut : cuts) text += record("part", cut.first, cut.slice, cut.streams, cut.threads);
  for (const std::string& way : ways) text += record("choice", way);
  for (const std::string& way : rests) text += record("rest", way);
  return text;
}

bool PlanChoices::take(const RecordReader& reader, const std::vector<std::string>& line) {
  if (line[0] == "part") {
    reader.expect_fields(line, 5);
    cuts.push_back(
        {size_t(reader.integer(line[1], 0, INT32_MAX, "a node")), reader.integer(line[2], 0, int64_t(1) << 40, "slice"),
         int(reader.integer(line[3], 1, 4096, "streams")), int(reader.integer(line[4], 1, 4096, "threads"))});
    return true;
  }
  if (line[0] != "choice" && line[0] != "rest") return false;
  reader.expect_fields(line, 2);
  (line[0] == "choice" ? ways : rests).push_back(line[1]);
  return true;
}

std::string PlanChoices::misfit(const Graph& graph) const {
  if (cuts.empty()) return "has no part";
  const auto across = cuts.size() > 1 ? values_across(graph, SIZE_MAX) : std::vector<std::vector<Maker>>();
  std::optional<int64_t> batch;  // asked for once
  for (size_t p = 0; p < cuts.size(); ++p) {
    const Cut& cut = cuts[p];
    if (p == 0 ? cut.first != 0
               : cut.first <= cuts[p - 1].first || cut.first >= graph.nodes().size() || across[cut.first].empty())
      return concat("its chains do not fit together at node ", cut.first);
    if (!cut.slice && p == 0) continue;
    if (!batch) batch = batch_of(graph).value_or(0);
    if (*batch <= 0 || (cut.slice && cut.streams > *batch / cut.slice))
      return concat("its batch cannot be run in slices of ", cut.slice, ", ", cut.streams, " at a time");
  }
  return {};
}

PlanChoices Plan::chosen() const {
  const BodyRef current = body();
  PlanChoices result;
  const auto add = [](const Variant& variant, std::vector<std::string>& keys) {
    for (size_t i = 0; i < variant.nodes.size(); ++i)
      keys.push_back(key_of(variant.nodes[i].states[size_t(variant.assignment.states[i])]));
  };
  for (const auto& part : current->parts) {
    result.cuts.push_back({part->first, part->slice, part->streams, part->threads});
    add(*part, result.ways);
    if (part->rest) add(*part->rest, result.rests);
  }
  return result;
}

std::string Plan::take(const PlanChoices& choices) {
  // Kernels are compiled by other threads while programs are made, if they have to be.
  std::unique_ptr<Builders> builders;
  if (home_->traits().compiles)
    builders = std::make_unique<Builders>(context_->catalog(), context_->interrupt(), home_->builders());
  // Nodes [first, end) as keys[at], ... say; false: one is not offered.
  std::string missing;
  const auto choose = [&](Variant& variant, size_t first, size_t end, const std::vector<std::string>& keys, size_t at) {
    const double before = thread_ms();
    variant.nodes = states_of(variant);
    listing_ms_ = thread_ms() - before;
    variant.assignment.states.assign(variant.nodes.size(), 0);
    for (size_t i = first; i < end; ++i, ++at) {
      const auto& all = variant.nodes[i].states;
      const auto it = std::find_if(all.begin(), all.end(),
                                   [&](const State& state) { return at < keys.size() && key_of(state) == keys[at]; });
      if (it == all.end()) {
        missing = variant.graph.node(i).name;
        return false;
      }
      variant.assignment.states[i] = int(it - all.begin());
      if (builders) queue_build(*builders, *it);
    }
    return true;
  };
  const auto& cuts = choices.cuts;
  const auto end_of = [&](size_t p) { return p + 1 < cuts.size() ? cuts[p + 1].first : graph_.nodes().size(); };
  std::vector<std::unique_ptr<Variant>> variants;
  size_t rests = 0;  // used of choices.rests
  for (size_t p = 0; p < cuts.size(); ++p) {
    const size_t first = cuts[p].first, end = end_of(p);
    variants.push_back(variant_of(cuts[p].slice, cuts[p].streams, cuts[p].threads));
    Variant& variant = *variants.back();
    bool good = choose(variant, first, end, choices.ways, first);
    if (const int64_t images = rest_of(variant); good && images) {
      variant.rest = rest_for(images);
      good = choose(*variant.rest, first, end, choices.rests, rests);
      rests += end - first;
    }
    if (!good) return "what it chose for \"" + missing + "\" is not offered any more";
  }
  std::vector<std::unique_ptr<Variant>> parts;
  std::map<Maker, Layout> layouts;
  for (size_t p = 0; p < cuts.size(); ++p) parts.push_back(part_of(*variants[p], cuts[p].first, end_of(p), layouts));
  packing_seconds_ = constants_->seconds();
  adopt(body_of(std::move(parts)));
  return {};
}

}  // namespace pl
