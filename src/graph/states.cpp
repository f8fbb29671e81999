#include "graph/states.h"

#include <algorithm>
#include <set>

#include "ops/view.h"

namespace pl {
namespace {

constexpr size_t kMaxViewStates = 12;

// Descriptions of an activation worth considering for a view's input.
std::vector<TensorDesc> usual_descs(const TensorDesc& desc) {
  std::vector<TensorDesc> list{TensorDesc::dense(desc.dtype, desc.shape)};
  if (desc.rank() < 3) return list;
  list.push_back(desc.with_layout(Layout::channels_last(desc.rank())));
  for (int block : {16, 8})
    if (desc.shape[1] % block == 0) list.push_back(desc.with_layout(Layout::channels_blocked(desc.rank(), block)));
  return list;
}

void add_distinct(std::vector<TensorDesc>& list, const TensorDesc& desc) {
  for (const TensorDesc& known : list)
    if (same_memory(known, desc)) return;
  list.push_back(desc);
}

class Lister {
 public:
  Lister(const Graph& graph, Context& context, const StateOptions& options)
      : graph_(graph), context_(context), options_(options), given_(graph.values().size()) {
    for (const GraphInput& input : graph.inputs()) {
      const TensorDesc& desc = graph.value(input.value).desc;
      given_[size_t(input.value)] = input.pinned ? std::vector<TensorDesc>{desc} : usual_descs(desc);
    }
  }

  std::vector<NodeStates> list() {
    std::vector<NodeStates> result;
    for (const Node& node : graph_.nodes()) {
      result.push_back(of(node));
      for (const State& state : result.back().states)
        for (size_t k = 0; k < node.outputs.size(); ++k) {
          auto& known = given_[size_t(node.outputs[k])];
          if (known.size() < kMaxViewStates) add_distinct(known, state.outputs[k]);
        }
    }
    return result;
  }

 private:
  NodeStates of(const Node& node) {
    Op op = graph_.op(node);
    op.math = options_.math;
    NodeStates result;
    result.device = options_.device;
    if (std::all_of(op.outputs.begin(), op.outputs.end(), [](const auto& d) { return d.elements() == 0; })) {
      result.kind = NodeStates::Kind::nothing;
      State state;
      for (const TensorDesc& desc : op.inputs) state.inputs.push_back(desc.present ? plain(desc) : TensorDesc());
      state.outputs = op.outputs;
      state.shifts.resize(op.outputs.size());
      result.states.push_back(std::move(state));
    } else if (op.schema->view) {
      result.kind = NodeStates::Kind::view;
      list_view(node, op, result);
    } else {
      list_op(node, op, result);
    }
    return result;
  }

  static TensorDesc plain(const TensorDesc& desc) { return TensorDesc::dense(desc.dtype, desc.shape); }

  void list_view(const Node& node, Op& op, NodeStates& result) {
    std::vector<TensorDesc> wanted;
    const ValueId source = node.inputs[0];
    if (graph_.is_constant(source)) {
      wanted.push_back(plain(op.in(0)));
    } else {
      for (const TensorDesc& desc : given_[size_t(source)]) add_distinct(wanted, desc);
      for (const TensorDesc& desc : usual_descs(op.in(0))) add_distinct(wanted, desc);
    }
    for (const TensorDesc& desc : wanted) {
      if (result.states.size() >= kMaxViewStates) break;
      op.inputs[0] = desc;
      const auto views = op.schema->view(op);
      if (!views) continue;
      State state;
      state.inputs = {desc};
      state.outputs = *views;
      for (TensorDesc& output : state.outputs) {
        size_t shift = 0;
        // Where memory has no addresses, an offset stays in the description; what follows copies then.
        if (options_.device->host_memory() && output.offset) {
          shift = size_t(output.offset) * size_of(output.dtype);
          output.offset = 0;
        }
        state.shifts.push_back(shift);
      }
      result.states.push_back(std::move(state));
    }
    require(!result.states.empty(), Code::internal, op.schema->name, ": no view of ", op.in(0), " (node \"", node.name,
            "\")");
  }

  void list_op(const Node& node, const Op& op, NodeStates& result) {
    Catalog& catalog = context_.catalog();
    result.entry = catalog.entry(op, *options_.device, options_.threads);
    catalog.measure(*result.entry, Tuning::off);
    if (!options_.device->is_cpu() && !catalog.best_ms(*result.entry)) {
      Device& cpu = context_.device("cpu");
      const EntryRef fallback = catalog.entry(op, cpu, options_.threads);
      catalog.measure(*fallback, Tuning::off);
      if (catalog.best_ms(*fallback)) {
        result.entry = fallback;
        result.device = &cpu;
      }
    }
    std::set<std::string> own_threads;
    if (!options_.share_cpu && result.device->is_cpu())
      for (const auto& provider : context_.providers())
        if (!provider->follows_threads()) own_threads.insert(provider->name());
    for (const bool strict : {true, false}) {
      for (Way& way : result.entry->ways) {
        if (!way.usable || (strict && own_threads.count(way.candidate.provider))) continue;
        // What is not constant here would have to be packed in every run.
        const auto& packings = way.candidate.packings;
        if (std::any_of(packings.begin(), packings.end(),
                        [&](const Packing& p) { return !graph_.is_constant(node.inputs[size_t(p.input)]); }))
          continue;
        State state;
        state.way = &way;
        state.inputs = way.candidate.inputs;
        state.outputs = way.candidate.outputs;
        state.shifts.resize(state.outputs.size());
        state.ms = way.ms;
        result.states.push_back(std::move(state));
      }
      if (!result.states.empty()) break;  // rather with threads of its own than not at all
    }
    if (result.states.empty()) {
      std::string reasons;
      for (const Refusal& refusal : catalog.refusals(*result.entry))
        reasons += "\n  " + refusal.provider + ": " + refusal.reason;
      fail(Code::unsupported, op.schema->name, ": nothing on ", options_.device->name(), " can run ", op.str(),
           " (node \"", node.name, "\")", reasons.empty() ? std::string() : "; the providers say:" + reasons);
    }
    if (op.schema->kind == "concat" && result.device->host_memory()) add_in_place_concat(node, op, result);
  }

  // The parts where they lie in the result, for layouts in which each part is dense there.
  void add_in_place_concat(const Node& node, const Op& op, NodeStates& result) {
    for (ValueId id : node.inputs)
      if (graph_.is_constant(id)) return;  // would have to be copied each time
    const int dim = int(op.attributes.integer("dim"));
    for (const TensorDesc& whole : usual_descs(op.out())) {
      State state;
      state.outputs = {whole};
      bool fits = true;
      Dims starts = Dims::filled(whole.rank(), 0);
      for (const TensorDesc& part : op.inputs) {
        const auto slice = view_sliced(whole, starts, part.shape, Dims::filled(whole.rank(), 1));
        starts[dim] += part.shape[dim];
        if (!slice) {
          fits = false;
          break;
        }
        TensorDesc desc = *slice;
        state.shifts.push_back(size_t(desc.offset) * size_of(desc.dtype));
        desc.offset = 0;
        const TensorDesc dense = TensorDesc::dense(desc.dtype, desc.shape, desc.layout);
        fits = fits && same_memory(desc, dense);
        state.inputs.push_back(dense);
      }
      if (fits) result.states.push_back(std::move(state));
    }
  }

  const Graph& graph_;
  Context& context_;
  const StateOptions& options_;
  std::vector<std::vector<TensorDesc>> given_;  // by value: the descriptions in which it may come
};

}  // namespace

std::vector<NodeStates> list_states(const Graph& graph, Context& context, const StateOptions& options) {
  return Lister(graph, context, options).list();
}

void refresh_costs(std::vector<NodeStates>& nodes) {
  for (NodeStates& node : nodes)
    for (State& state : node.states)
      if (state.way) state.ms = state.way->ms;
}

std::vector<NodeStates> restricted_to(const std::vector<NodeStates>& nodes, const Layout& layout) {
  std::vector<NodeStates> result = nodes;
  for (NodeStates& node : result) {
    if (node.kind != NodeStates::Kind::op) continue;
    const auto matches = [&](const State& state) {
      const auto obeys = [&](const TensorDesc& desc) {
        const auto wanted = family_layout(layout, desc);
        return wanted && same_memory(desc, desc.with_layout(*wanted));
      };
      const Schema& schema = *node.entry->op.schema;
      int count = 0;
      for (size_t i = 0; i < state.inputs.size(); ++i)
        count += schema.role_of(int(i)) == Role::data && obeys(state.inputs[i]);
      for (const TensorDesc& output : state.outputs) count += obeys(output) ? 2 * int(state.inputs.size() + 1) : 0;
      return count;
    };
    int best = 0;
    for (const State& state : node.states) best = std::max(best, matches(state));
    node.states.erase(std::remove_if(node.states.begin(), node.states.end(),
                                     [&](const State& state) { return matches(state) < best; }),
                      node.states.end());
  }
  return result;
}

}  // namespace pl
