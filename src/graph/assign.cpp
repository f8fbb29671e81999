#include "graph/assign.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/numbers.h"

namespace pl {
namespace {

// A hub has a state for each set of descriptions, up to this many.
constexpr size_t kMaxHubSets = 256;

// The sets of at most `most` of `count` things, smaller ones first, all of a size or none; bit k stands for thing k.
// Returns the size of the largest, which is less than `most` where there are more than kMaxHubSets.
size_t sets_of(size_t count, size_t most, std::vector<uint64_t>& sets) {
  sets = {0};
  for (size_t size = 1, begin = 0; size <= std::min(most, count); ++size) {
    const size_t end = sets.size();
    for (size_t i = begin; i < end; ++i)
      for (size_t k = 0; k < count; ++k)
        if (sets[i] >> k == 0) sets.push_back(sets[i] | uint64_t(1) << k);  // above all that it has
    if (sets.size() > kMaxHubSets) {
      sets.resize(end);
      return size - 1;
    }
    begin = end;
  }
  return std::min(most, count);
}

// The states of a value's maker or of one of its consumers, as far as this value is concerned: which of a few
// descriptions each state gives or wants.
struct End {
  int node = -1;  // of the problem
  Device* device = nullptr;
  std::vector<TensorDesc> descs;  // distinct in memory
  std::vector<int> of_state;      // index into descs

  void add(const TensorDesc& desc) {
    for (size_t i = 0; i < descs.size(); ++i)
      if (same_memory(descs[i], desc)) {
        of_state.push_back(int(i));
        return;
      }
    of_state.push_back(int(descs.size()));
    descs.push_back(desc);
  }
};

CostMatrix expand(const CostMatrix& by_desc, const std::vector<int>& rows, const std::vector<int>& columns) {
  CostMatrix matrix(int(rows.size()), int(columns.size()));
  for (size_t r = 0; r < rows.size(); ++r)
    for (size_t c = 0; c < columns.size(); ++c) matrix.at(int(r), int(c)) = by_desc.at(rows[r], columns[c]);
  return matrix;
}

class ProblemBuilder {
 public:
  ProblemBuilder(const Graph& graph, const std::vector<NodeStates>& nodes, Device& home, ConversionCosts& costs,
                 double noise)
      : graph_(graph), nodes_(nodes), home_(home), costs_(costs), noise_(noise) {}

  Pbqp build() {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      std::vector<double> costs;
      for (const State& state : nodes_[i].states) costs.push_back(state.ms);
      problem_.add_node(std::move(costs));  // problem node i is graph node i
    }
    makers_.resize(graph_.values().size());
    consumers_.resize(graph_.values().size());
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const Node& node = graph_.node(i);
      for (size_t k = 0; k < node.outputs.size(); ++k) {
        End& end = makers_[size_t(node.outputs[k])];
        end.node = int(i);
        end.device = nodes_[i].device;
        for (const State& state : nodes_[i].states) end.add(state.outputs[k]);
      }
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        const ValueId id = node.inputs[k];
        if (id == kNoValue || graph_.is_constant(id) || !nodes_[i].states[0].inputs[k].present) continue;
        End end;
        end.node = int(i);
        end.device = nodes_[i].device;
        for (const State& state : nodes_[i].states) end.add(state.inputs[k]);
        consumers_[size_t(id)].push_back(std::move(end));
      }
    }
    for (const GraphInput& input : graph_.inputs()) {
      End& end = makers_[size_t(input.value)];
      end.device = &home_;
      const TensorDesc& desc = graph_.value(input.value).desc;
      end.add(desc);
      if (!input.pinned && desc.rank() >= 3) end.add(desc.with_layout(Layout::channels_last(desc.rank())));
      end.node = problem_.add_node(std::vector<double>(end.of_state.size(), 0));
    }
    for (const GraphOutput& output : graph_.outputs()) {
      if (!output.layout || graph_.is_constant(output.value)) continue;  // any layout will do
      End end;
      end.device = &home_;
      end.add(graph_.value(output.value).desc.with_layout(*output.layout));
      end.node = problem_.add_node({0});
      consumers_[size_t(output.value)].push_back(std::move(end));
    }
    find_margins();
    for (size_t id = 0; id < makers_.size(); ++id)
      if (makers_[id].node >= 0) join(makers_[id], consumers_[id], margins_[id]);
    price_copies();
    return std::move(problem_);
  }

  // The margins that are part of what the problem says of a choice.
  double margins(const Assignment& assignment) const {
    if (noise_ == 0) return 0;
    double sum = 0;
    std::vector<Use> uses = conversions_of(graph_, nodes_, home_, assignment);
    for (size_t i = 0; i < uses.size(); ++i) {
      bool there = false;  // materialised for somebody else already
      for (size_t k = 0; k < i && hubs_[size_t(uses[i].value)]; ++k)
        there = there || (uses[k].value == uses[i].value && uses[k].target == uses[i].target &&
                          same_memory(uses[k].wanted, uses[i].wanted));
      if (!there) sum += margins_[size_t(uses[i].value)];
    }
    return sum;
  }

 private:
  void find_margins() {
    std::vector<double> least;  // by node, ms
    for (const NodeStates& node : nodes_) {
      double ms = kInfinity;
      for (const State& state : node.states) ms = std::min(ms, state.ms);
      least.push_back(std::isinf(ms) ? 0 : ms);
    }
    margins_.assign(makers_.size(), 0);
    hubs_.assign(makers_.size(), false);
    for (size_t id = 0; id < makers_.size(); ++id) {
      const auto count = [&, &margin = margins_[id]](const End& end) {
        if (end.node >= 0 && size_t(end.node) < least.size())
          margin = std::max(margin, noise_ * least[size_t(end.node)]);
      };
      count(makers_[id]);
      for (const End& consumer : consumers_[id]) count(consumer);
      hubs_[id] = consumers_[id].size() > 1;
    }
  }

  double conversion_ms(const TensorDesc& from, Device& source, const TensorDesc& to, Device& target, double margin) {
    if (&source == &target && same_memory(from, to)) return 0;
    return costs_.ms(from, source, to, target) + margin;
  }

  CostMatrix costs_between(const End& maker, const End& consumer, double margin) {
    CostMatrix matrix(int(maker.descs.size()), int(consumer.descs.size()));
    for (size_t r = 0; r < maker.descs.size(); ++r)
      for (size_t c = 0; c < consumer.descs.size(); ++c)
        matrix.at(int(r), int(c)) =
            conversion_ms(maker.descs[r], *maker.device, consumer.descs[c], *consumer.device, margin);
    return matrix;
  }

  void join(const End& maker, const std::vector<End>& consumers, double margin) {
    if (consumers.empty()) return;
    // All descriptions that are wanted, and by which state of which consumer.
    std::vector<TensorDesc> wanted;
    std::vector<Device*> where;
    std::vector<std::vector<int>> place(consumers.size());  // by consumer and its description: index into `wanted`
    for (size_t c = 0; c < consumers.size(); ++c)
      for (const TensorDesc& desc : consumers[c].descs) {
        size_t k = 0;
        while (k < wanted.size() && !(where[k] == consumers[c].device && same_memory(wanted[k], desc))) ++k;
        if (k == wanted.size()) {
          wanted.push_back(desc);
          where.push_back(consumers[c].device);
        }
        place[c].push_back(int(k));
      }
    // No solution needs more descriptions than there are consumers.  Where these are too many sets, the largest are
    // left out; where no smaller one is enough for all consumers, each of them pays for itself.
    std::vector<uint64_t> sets;
    if (consumers.size() > 1 && wanted.size() <= 64) {
      const size_t largest = sets_of(wanted.size(), consumers.size(), sets);
      const auto enough = [&](uint64_t set) {
        return std::all_of(place.begin(), place.end(), [&](const std::vector<int>& descs) {
          return std::any_of(descs.begin(), descs.end(), [&](int k) { return set >> k & 1; });
        });
      };
      if (largest < std::min(wanted.size(), consumers.size()) && std::none_of(sets.begin(), sets.end(), enough))
        sets.clear();
    }
    if (sets.empty()) {
      hubs_[size_t(&maker - makers_.data())] = false;
      for (const End& consumer : consumers)
        problem_.add_edge(maker.node, consumer.node,
                          expand(costs_between(maker, consumer, margin), maker.of_state, consumer.of_state));
      return;
    }
    const int count = int(sets.size());
    const int hub = problem_.add_node(std::vector<double>(sets.size(), 0));
    CostMatrix made(int(maker.descs.size()), count);
    for (size_t r = 0; r < maker.descs.size(); ++r)
      for (size_t k = 0; k < wanted.size(); ++k) {
        const double ms = conversion_ms(maker.descs[r], *maker.device, wanted[k], *where[k], margin);
        for (int s = 0; s < count; ++s)
          if (sets[size_t(s)] >> k & 1) made.at(int(r), s) += ms;
      }
    std::vector<int> all(sets.size(), 0);
    for (int s = 0; s < count; ++s) all[size_t(s)] = s;
    problem_.add_edge(maker.node, hub, expand(made, maker.of_state, all));
    for (size_t c = 0; c < consumers.size(); ++c) {
      CostMatrix has(count, int(consumers[c].descs.size()), kInfinity);
      for (int s = 0; s < count; ++s)
        for (size_t k = 0; k < place[c].size(); ++k)
          if (sets[size_t(s)] >> place[c][k] & 1) has.at(s, int(k)) = 0;
      problem_.add_edge(hub, consumers[c].node, expand(has, all, consumers[c].of_state));
    }
  }

  // A value is made in one place.  Where a concat in place wants it in another one, it is copied there: if another
  // concat in place has it already, or the same one at an earlier argument; if it is an output; if nothing makes it,
  // as it is an input or a view.  Where it has to be converted, the conversion goes to its place; a second one costs
  // about as much as a copy.
  void price_copies() {
    std::vector<std::vector<Place>> places(graph_.values().size());
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const Node& node = graph_.node(i);
      if (nodes_[i].kind != NodeStates::Kind::op || !node.schema->joins) continue;
      for (size_t k = 0; k < node.inputs.size(); ++k)
        if (!graph_.is_constant(node.inputs[k])) places[size_t(node.inputs[k])].push_back({int(i), k});
    }
    for (size_t id = 0; id < places.size(); ++id) {
      const std::vector<Place>& list = places[id];
      if (list.empty()) continue;
      const Value& value = graph_.value(ValueId(id));
      const bool made = value.node >= 0 && nodes_[size_t(value.node)].kind == NodeStates::Kind::op;
      if (!made) {
        const End& maker = makers_[id];
        for (const Place& place : list)
          price(maker.node, maker.of_state.size(), place,
                [&](size_t state) { return &maker.descs[size_t(maker.of_state[state])]; });
      }
      for (const GraphOutput& output : graph_.outputs()) {
        if (output.value != ValueId(id)) continue;
        std::optional<TensorDesc> wanted;
        if (output.layout) wanted = value.desc.with_layout(*output.layout);
        for (const Place& place : list)
          price(place.node, nodes_[size_t(place.node)].states.size(), place,
                [&](size_t state) { return wanted ? &*wanted : part(place, state); });
      }
      for (size_t b = 0; b < list.size(); ++b)
        for (size_t a = 0; a < b; ++a)
          price(list[a].node, nodes_[size_t(list[a].node)].states.size(), list[b],
                [&](size_t state) { return part(list[a], state); });
    }
  }

  struct Place {
    int node = -1;  // a concat
    size_t input = 0;
  };
  // Where a state of a concat has its parts in place, how it wants one of them.
  const TensorDesc* part(const Place& place, size_t state) const {
    const State& concat = nodes_[size_t(place.node)].states[state];
    return concat.way ? nullptr : &concat.inputs[place.input];
  }
  // A copy to `place`, where some state of another node has or wants the value in the same description.
  void price(int node, size_t states, const Place& place, const std::function<const TensorDesc*(size_t)>& desc_of) {
    CostMatrix matrix(int(states), int(nodes_[size_t(place.node)].states.size()));
    for (int r = 0; r < matrix.rows; ++r)
      for (int c = 0; c < matrix.cols; ++c) {
        const TensorDesc *other = desc_of(size_t(r)), *own = part(place, size_t(c));
        if (other && own && same_memory(*other, *own))
          matrix.at(r, c) = costs_.copy_ms(*own, *nodes_[size_t(place.node)].device);
      }
    problem_.add_edge(node, place.node, matrix);
  }

  const Graph& graph_;
  const std::vector<NodeStates>& nodes_;
  Device& home_;
  ConversionCosts& costs_;
  double noise_;
  Pbqp problem_;
  std::vector<End> makers_;                  // by value
  std::vector<std::vector<End>> consumers_;  // by value
  std::vector<double> margins_;              // by value: what a conversion of it has to gain, ms
  std::vector<bool> hubs_;                   // by value: consumers share what it is converted to
};

}  // namespace

uint64_t ConversionCosts::key(const TensorDesc& from, Device& source, const TensorDesc& to, Device& target) const {
  uint64_t key = hash_mix(from.hash(), to.hash());
  key = hash_mix(key, reinterpret_cast<uintptr_t>(&source));
  return hash_mix(key, reinterpret_cast<uintptr_t>(&target));
}

double ConversionCosts::ms(const TensorDesc& from, Device& source, const TensorDesc& to, Device& target) {
  if (&source == &target && same_memory(from, to)) return 0;
  const auto [it, added] = known_.try_emplace(key(from, source, to, target));
  if (added) {
    try {
      it->second.ms = conversions_.cost_ms(from, source, to, target, ReorderCosts::known, threads_);
    } catch (const Error& error) {
      if (error.code() != Code::unsupported) throw;
      it->second = {kInfinity, true};
    }
  }
  return it->second.ms;
}

double ConversionCosts::copy_ms(const TensorDesc& desc, Device& device) {
  return conversions_.copy_ms(desc, device, threads_);
}

void ConversionCosts::set(const TensorDesc& from, Device& source, const TensorDesc& to, Device& target, double ms) {
  known_[key(from, source, to, target)] = {ms, true};
}

bool ConversionCosts::measure(const TensorDesc& from, Device& source, const TensorDesc& to, Device& target) {
  if (&source == &target && same_memory(from, to)) return false;
  Known& known = known_[key(from, source, to, target)];
  if (known.measured) return false;
  known = {conversions_.cost_ms(from, source, to, target, ReorderCosts::measured, threads_), true};
  return true;
}

Assignment assign(const Graph& graph, const std::vector<NodeStates>& nodes, Device& home, ConversionCosts& costs,
                  const PbqpLimits& limits, double noise) {
  ProblemBuilder builder(graph, nodes, home, costs, noise);
  const PbqpSolution solution = solve(builder.build(), limits);
  // A graph whose outputs are all inputs or constants has nothing to choose.
  require(!solution.choice.empty() || nodes.empty(), Code::unsupported,
          "compile: there is no combination of implementations between whose layouts conversions exist");
  Assignment assignment;
  assignment.states.assign(solution.choice.begin(), solution.choice.begin() + long(nodes.size()));
  const double margins = builder.margins(assignment);
  assignment.ms = solution.cost - margins;
  assignment.lower_bound = solution.lower_bound - margins;
  assignment.exact = solution.exact;
  return assignment;
}

std::vector<Use> conversions_of(const Graph& graph, const std::vector<NodeStates>& nodes, Device& home,
                                const Assignment& assignment) {
  std::vector<Use> uses;
  const auto given = [&](ValueId id, Use& use) {
    const Value& value = graph.value(id);
    use.value = id;
    if (value.node < 0) {
      use.given = value.desc;
      use.source = &home;
    } else {
      const NodeStates& maker = nodes[size_t(value.node)];
      use.given = maker.states[size_t(assignment.states[size_t(value.node)])].outputs[size_t(value.output)];
      use.source = maker.device;
    }
  };
  const auto keep = [&](Use use) {
    if (use.source != use.target || !same_memory(use.given, use.wanted)) uses.push_back(std::move(use));
  };
  for (size_t i = 0; i < nodes.size(); ++i) {
    const State& state = nodes[i].states[size_t(assignment.states[i])];
    const Node& node = graph.node(i);
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      if (node.inputs[k] == kNoValue || graph.is_constant(node.inputs[k]) || !state.inputs[k].present) continue;
      Use use;
      given(node.inputs[k], use);
      use.node = int(i);
      use.input = int(k);
      use.wanted = state.inputs[k];
      use.target = nodes[i].device;
      keep(std::move(use));
    }
  }
  for (size_t k = 0; k < graph.outputs().size(); ++k) {
    const GraphOutput& output = graph.outputs()[k];
    if (!output.layout || graph.is_constant(output.value)) continue;
    Use use;
    given(output.value, use);
    use.input = int(k);
    use.wanted = graph.value(output.value).desc.with_layout(*output.layout);
    use.target = &home;
    keep(std::move(use));
  }
  return uses;
}

}  // namespace pl
