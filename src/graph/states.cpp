#include "graph/states.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "ops/view.h"

namespace pl {
namespace {

constexpr size_t kMaxViewStates = 12;
constexpr double kManyTimes = 3;  // more than what two reorders beside a fast op take, and what costs are wrong by

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

// The op with its first input in that order, and the others of its shape alike.
Op in_order_of(const Op& op, const TensorDesc& desc) {
  Op own = op;
  for (TensorDesc& input : own.inputs)
    if (input.present && input.shape == op.in(0).shape) input = input.with_layout(desc.layout);
  return own;
}

bool is_strided_view(const TensorDesc& desc) { return desc.present && !desc.is_dense(); }

// Dense in an order of dimensions that is of no family: what a permute of such a tensor gives.
bool lies_in_own_order(const TensorDesc& desc) {
  return desc.present && desc.is_dense() && !desc.layout.is_blocked() && !desc.layout.is_plain() &&
         !desc.layout.is_channels_last();
}

// Where a part of a tensor begins, and the part as it lies there.
struct Part {
  TensorDesc desc;   // without offset
  size_t shift = 0;  // bytes
};

std::optional<Part> part_of(const TensorDesc& whole, const Dims& starts, const Dims& shape) {
  const auto slice = view_sliced(whole, starts, shape, Dims::filled(whole.rank(), 1));
  if (!slice) return std::nullopt;
  Part part;
  part.desc = TensorDesc::dense(whole.dtype, shape, whole.layout);
  TensorDesc view = part.desc;
  view.strides = whole.strides;
  view.offset = slice->offset;
  if (!same_memory(view, *slice)) return std::nullopt;  // cut within blocks
  part.shift = size_t(slice->offset) * size_of(whole.dtype);
  view.offset = 0;
  if (!same_memory(view, part.desc)) part.desc = view;
  return part;
}

// The way of an entry that differs from this one in strides only; null if there is none.
Way* without_strided_views(const Way& way, Entry& entry) {
  const auto alike = [](const std::vector<TensorDesc>& a, const std::vector<TensorDesc>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const TensorDesc& x, const TensorDesc& y) {
      return x.present == y.present && (!x.present || x.layout == y.layout);
    });
  };
  for (Way& other : entry.ways)
    if (other.candidate.provider == way.candidate.provider &&
        other.candidate.implementation == way.candidate.implementation &&
        alike(other.candidate.inputs, way.candidate.inputs) && alike(other.candidate.outputs, way.candidate.outputs))
      return &other;
  return nullptr;
}

bool has_strided_views(const State& state) {
  const auto strided = [](const TensorDesc& desc) { return desc.present && !desc.is_dense(); };
  return std::any_of(state.inputs.begin(), state.inputs.end(), strided) ||
         std::any_of(state.outputs.begin(), state.outputs.end(), strided);
}

class Lister {
 public:
  Lister(const Graph& graph, Context& context, const StateOptions& options)
      : graph_(graph),
        context_(context),
        options_(options),
        given_(graph.values().size()),
        strided_views_(graph.values().size()) {
    if (options.strided_views && options.device->traits().host_addressable) find_strided_views();
    for (const GraphInput& input : graph.inputs()) {
      const TensorDesc& desc = graph.value(input.value).desc;
      given_[size_t(input.value)] = input.pinned ? std::vector<TensorDesc>{desc} : usual_descs(desc);
    }
  }

  std::vector<NodeStates> list() {
    std::vector<NodeStates> result;
    for (const Node& node : graph_.nodes()) {
      const State* like = options_.like.empty() ? nullptr : options_.like[result.size()];
      result.push_back(of(node, like));
      for (const State& state : result.back().states)
        for (size_t k = 0; k < node.outputs.size(); ++k) {
          auto& known = given_[size_t(node.outputs[k])];
          if (known.size() < kMaxViewStates) add_distinct(known, state.outputs[k]);
        }
    }
    count_absorbed(result);
    return result;
  }

 private:
  // Kernels that do the work of those before and behind them (graph/absorbed_steps.cpp) save the launches of these.
  void count_absorbed(std::vector<NodeStates>& nodes) const {
    const auto absorbs = [](const State& state) { return state.way && state.way->candidate.absorbs; };
    std::vector<int> maker(graph_.values().size(), -1);
    std::optional<std::vector<std::vector<int32_t>>> consumers;
    for (size_t i = 0; i < nodes.size(); ++i) {
      const Node& node = graph_.node(i);
      for (const ValueId id : node.outputs) maker[size_t(id)] = int(i);
      if (std::none_of(nodes[i].states.begin(), nodes[i].states.end(), absorbs)) continue;
      if (!consumers) consumers = graph_.consumers();
      const int before = maker[size_t(node.inputs[0])], behind = only_reader(nodes, *consumers, node.outputs[0]);
      const bool alone = behind >= 0 && reads_only(graph_.node(size_t(behind)), node);
      const int saved = (before >= 0 && only_reader(nodes, *consumers, node.inputs[0]) == int(i) &&
                         may_be_absorbed(nodes[size_t(before)], Candidate::Absorbed::before)) +
                        (alone && may_be_absorbed(nodes[size_t(behind)], Candidate::Absorbed::behind));
      for (State& state : nodes[i].states) {
        if (!absorbs(state)) continue;
        state.saved_ms = saved * context_.catalog().rates(*nodes[i].device).overhead_ms;
        state.ms = cost_of(state);
      }
    }
  }
  static bool may_be_absorbed(const NodeStates& node, Candidate::Absorbed where) {
    return std::any_of(node.states.begin(), node.states.end(),
                       [&](const State& state) { return state.way && state.way->candidate.absorbed == where; });
  }
  // The only node that reads the value, or views of it; -1: there are others, or it is an output.
  int only_reader(const std::vector<NodeStates>& nodes, const std::vector<std::vector<int32_t>>& consumers,
                  ValueId id) const {
    for (const GraphOutput& output : graph_.outputs())
      if (output.value == id) return -1;
    int only = -1;
    for (const int32_t n : consumers[size_t(id)]) {
      const bool view = nodes[size_t(n)].kind == NodeStates::Kind::view;
      const int found = view ? only_reader(nodes, consumers, graph_.node(size_t(n)).outputs[0]) : n;
      if (found < 0 || (only >= 0 && only != found)) return -1;
      only = found;
    }
    return only;
  }
  // Whether all inputs are what `source` makes, or views of it.
  bool reads_only(const Node& node, const Node& source) const {
    return std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) {
      const Node* made = id == kNoValue ? nullptr : graph_.maker(id);
      while (made && made->schema->view && made != &source) made = graph_.maker(made->inputs[0]);
      return made == &source;
    });
  }

  // Of every value the descriptions that it has as a part of the outermost concat around it.
  void find_strided_views() {
    for (size_t i = graph_.nodes().size(); i-- > 0;) {
      const Node& node = graph_.node(i);
      if (!node.schema->joins) continue;
      const Op op = graph_.op(node);
      const auto& outer = strided_views_[size_t(node.outputs[0])];
      std::map<ValueId, std::vector<TensorDesc>> found;
      for (const TensorDesc& whole : outer.empty() ? usual_descs(op.out()) : outer)
        if (const auto parts = parts_of(node, op, whole))
          for (size_t k = 0; k < parts->size(); ++k)
            if (const TensorDesc& desc = (*parts)[k].desc; desc.is_dense() || !desc.layout.is_plain())
              add_distinct(found[node.inputs[k]], desc);
      for (auto& [value, descs] : found)  // of several concats the last one decides, as in Lowering
        if (strided_views_[size_t(value)].empty()) strided_views_[size_t(value)] = std::move(descs);
    }
  }

  // The parts of a concat where they lie in its result; nothing where that cannot be.
  std::optional<std::vector<Part>> parts_of(const Node& node, const Op& op, const TensorDesc& whole) const {
    const int dim = int(op.attributes[attr::dim]);
    std::vector<Part> parts;
    Dims starts = Dims::filled(whole.rank(), 0);
    for (size_t k = 0; k < op.inputs.size(); ++k) {
      if (graph_.is_constant(node.inputs[k])) return std::nullopt;  // would have to be copied each time
      const auto part = part_of(whole, starts, op.inputs[k].shape);
      if (!part) return std::nullopt;
      parts.push_back(*part);
      starts[dim] += op.inputs[k].shape[dim];
    }
    return parts;
  }

  NodeStates of(const Node& node, const State* like) {
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
    } else if (!like || !list_like(node, op, *like, result)) {
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
        if (options_.device->traits().host_addressable && output.offset) {
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
    if (options_.device != &context_.host() && !catalog.best_ms(*result.entry)) {
      Device& cpu = context_.host();
      const EntryRef fallback = catalog.entry(op, cpu, options_.threads);
      catalog.measure(*fallback, Tuning::off);
      if (catalog.best_ms(*fallback)) {
        result.refused = result.entry;
        result.entry = fallback;
        result.device = &cpu;
      }
    }
    std::set<std::string> own_threads;
    if (!options_.share_cpu && result.device->traits().threads)
      for (const auto& provider : context_.providers())
        if (!provider->follows_threads()) own_threads.insert(provider->name());
    for (const bool strict : {true, false}) {
      add_ways(node, result.entry, strict ? own_threads : std::set<std::string>(), result);
      if (!result.states.empty()) break;  // rather with threads of its own than not at all
    }
    add_own_orders(node, op, own_threads, result);
    if (result.states.empty())
      fail(Code::unsupported, catalog.why_nothing_runs(*result.entry, "node \"" + node.name + "\""));
    if (op.schema->joins && result.device->traits().host_addressable) add_in_place_concat(node, op, result);
    if (options_.strided_views) add_strided(node, op, result);
  }

  // The states of the way alone that another graph took; false where it is not to be had.
  bool list_like(const Node& node, const Op& op, const State& like, NodeStates& result) {
    if (!like.way || like.entry->device != options_.device || options_.device->traits().compiles) return false;
    const std::string way = like.way->candidate.dense_key();
    NodeStates found = result;
    const bool own_order = !like.inputs.empty() && lies_in_own_order(like.inputs[0]);
    const Op asked = own_order ? in_order_of(op, like.inputs[0]) : op;
    found.entry = context_.catalog().following(asked, *options_.device, way, options_.threads);
    context_.catalog().measure(*found.entry, Tuning::off);
    add_ways(node, found.entry, {}, found);
    if (options_.strided_views && has_strided_views(like)) add_strided(node, op, found, way);
    found.states.erase(std::remove_if(found.states.begin(), found.states.end(),
                                      [&](const State& state) { return !is_same_choice(state, like); }),
                       found.states.end());
    if (found.states.empty()) return false;
    result = std::move(found);
    return true;
  }

  void add_ways(const Node& node, const EntryRef& entry, const std::set<std::string>& without, NodeStates& result) {
    for (Way& way : entry->ways) {
      if (!way.usable || without.count(way.candidate.provider)) continue;
      // What is not constant is packed in every run: a weight in training.  Where work is queued that takes a kernel,
      // which runs with those that pack others (graph/joined_steps.cpp).
      double packing_ms = 0;
      bool waits = false;
      for (const Packing& packing : way.candidate.packings) {
        if (graph_.is_constant(node.inputs[size_t(packing.input)])) continue;
        const bool queued = result.device->traits().queued;
        waits = waits || (queued && !packing.prepare);
        packing_ms += estimate_ms(way.candidate, packing, context_.catalog().rates(*result.device), !queued);
      }
      if (waits) continue;
      State state;
      state.packing_ms = packing_ms;
      if (way.candidate.ends_later && result.device->traits().queued)
        state.saved_ms = context_.catalog().rates(*result.device).overhead_ms;
      state.way = &way;
      state.entry = entry;
      state.inputs = way.candidate.inputs;
      state.outputs = way.candidate.outputs;
      state.shifts.resize(state.outputs.size());
      state.ms = cost_of(state);
      result.states.push_back(std::move(state));
    }
  }

  // Ways that read the first input as it lies, in an order of dimensions that is of no family, and the other inputs of
  // its shape alike.
  void add_own_orders(const Node& node, const Op& op, const std::set<std::string>& without, NodeStates& result) {
    if (node.inputs.empty() || node.inputs[0] == kNoValue || graph_.is_constant(node.inputs[0])) return;
    for (const TensorDesc& desc : given_[size_t(node.inputs[0])]) {
      if (!lies_in_own_order(desc)) continue;
      const auto reads_it = [&](const State& state) { return state.inputs[0] == desc; };
      if (std::any_of(result.states.begin(), result.states.end(), reads_it)) continue;
      const EntryRef entry = context_.catalog().entry(in_order_of(op, desc), *result.device, options_.threads);
      context_.catalog().measure(*entry, Tuning::off);
      NodeStates found;
      found.device = result.device;
      add_ways(node, entry, without, found);
      for (State& state : found.states)
        if (reads_it(state)) result.states.push_back(std::move(state));
    }
  }

  // Ways that read inputs, or write the result of an op that has one, as strided views.  `way`: as for
  // Catalog::strided().
  void add_strided(const Node& node, const Op& op, NodeStates& result, const std::string& way = {}) {
    if (op.outputs.empty() || op.inputs.empty()) return;
    const bool constant = graph_.is_constant(node.inputs[0]);
    const std::vector<std::vector<TensorDesc>> sources = strided_inputs(node, op);
    std::vector<TensorDesc> targets{op.out()};
    if (op.outputs.size() == 1 && !op.schema->joins)  // an outer concat has the parts of inner ones where they lie
      for (const TensorDesc& desc : strided_views_[size_t(node.outputs[0])])
        if (is_strided_view(desc)) targets.push_back(desc);
    Op strided = op;
    for (size_t x = 0; x < sources.size(); ++x)
      for (size_t y = 0; y < targets.size(); ++y) {
        if (x + y == 0 || (x == 0 && constant) || (x && y && sources[x][0].layout != targets[y].layout)) continue;
        strided.inputs = sources[x];
        strided.outputs[0] = targets[y];
        const EntryRef entry = context_.catalog().strided(strided, *result.device, options_.threads, way);
        context_.catalog().measure(*entry, Tuning::off);
        const size_t before = result.states.size();
        add_ways(node, entry, {}, result);
        for (size_t s = before; s < result.states.size(); ++s) {
          State& state = result.states[s];
          state.dense = without_strided_views(*state.way, *result.entry);
          state.ms = cost_of(state);
        }
      }
  }

  // The inputs of an op as they are, and with those as strided views that may come so: the first one in each
  // description, alone and with all others that lie in this layout; and those without the first one.
  std::vector<std::vector<TensorDesc>> strided_inputs(const Node& node, const Op& op) const {
    const auto views_of = [&](size_t k) {
      std::vector<TensorDesc> views;
      if (k >= node.inputs.size() || node.inputs[k] == kNoValue || graph_.is_constant(node.inputs[k])) return views;
      for (const TensorDesc& desc : given_[size_t(node.inputs[k])])
        if (is_strided_view(desc)) views.push_back(desc);
      return views;
    };
    std::vector<std::vector<TensorDesc>> list{op.inputs};
    const auto add_with_others = [&](const Layout& layout, std::vector<TensorDesc> inputs) {
      for (size_t k = 1; k < op.inputs.size(); ++k)
        for (const TensorDesc& view : views_of(k))
          if (view.layout == layout) {
            inputs[k] = view;
            break;
          }
      if (std::find(list.begin(), list.end(), inputs) == list.end()) list.push_back(std::move(inputs));
    };
    for (const TensorDesc& view : views_of(0)) {
      list.push_back(op.inputs);
      list.back()[0] = view;
      add_with_others(view.layout, list.back());
    }
    for (size_t k = 1; k < op.inputs.size(); ++k)
      for (const TensorDesc& view : views_of(k)) add_with_others(view.layout, op.inputs);
    return list;
  }

  // The parts where they lie in the result.  Of concats within others only the outermost has parts that are strided
  // views of it.
  void add_in_place_concat(const Node& node, const Op& op, NodeStates& result) {
    const auto& outer = strided_views_[size_t(node.outputs[0])];
    const auto add = [&](const TensorDesc& whole, bool dense) {
      const auto parts = parts_of(node, op, whole);
      if (!parts) return;
      State state;
      state.outputs = {whole};
      for (const Part& part : *parts) {
        const bool strided = !part.desc.is_dense();
        if (strided && (dense || part.desc.layout.is_plain() || !options_.strided_views)) return;
        state.inputs.push_back(part.desc);
        state.shifts.push_back(part.shift);
      }
      result.states.push_back(std::move(state));
    };
    for (const TensorDesc& whole : usual_descs(op.out())) add(whole, !outer.empty());
    for (const TensorDesc& whole : outer)
      if (is_strided_view(whole)) add(whole, false);
  }

  const Graph& graph_;
  Context& context_;
  const StateOptions& options_;
  std::vector<std::vector<TensorDesc>> given_;          // by value: the descriptions in which it may come
  std::vector<std::vector<TensorDesc>> strided_views_;  // by value: those as a part of a concat, dense ones among them
};

}  // namespace

State::State() = default;
State::~State() = default;
State::State(const State& other) = default;
State::State(State&& other) noexcept = default;
State& State::operator=(const State& other) = default;
State& State::operator=(State&& other) noexcept = default;

NodeStates::NodeStates() = default;
NodeStates::~NodeStates() = default;
NodeStates::NodeStates(const NodeStates& other) = default;
NodeStates::NodeStates(NodeStates&& other) noexcept = default;
NodeStates& NodeStates::operator=(const NodeStates& other) = default;
NodeStates& NodeStates::operator=(NodeStates&& other) noexcept = default;

std::vector<NodeStates> list_states(const Graph& graph, Context& context, const StateOptions& options) {
  return Lister(graph, context, options).list();
}

bool is_same_choice(const State& a, const State& b) {
  const auto alike = [](const std::vector<TensorDesc>& x, const std::vector<TensorDesc>& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), [](const TensorDesc& one, const TensorDesc& other) {
      return one.present == other.present && (!one.present || one.is_dense() == other.is_dense());
    });
  };
  return a.way && b.way && a.way->candidate.dense_key() == b.way->candidate.dense_key() && alike(a.inputs, b.inputs) &&
         alike(a.outputs, b.outputs);
}

double cost_of(const State& state) {
  const bool dense = state.dense && state.dense->measured && !state.way->measured;
  return std::max(0.0, (dense ? state.dense->ms : state.way->ms) - state.saved_ms) + state.packing_ms;
}

std::vector<EntryRef> entries_of(const std::vector<NodeStates>& nodes) {
  std::set<EntryRef> entries;
  for (const NodeStates& node : nodes)
    for (const State& state : node.states)
      if (state.entry) entries.insert(state.entry);
  return {entries.begin(), entries.end()};
}

void refresh_states(std::vector<NodeStates>& nodes) {
  const auto unusable = [](const State& state) { return state.way && !state.way->usable; };
  for (NodeStates& node : nodes) {
    if (!std::all_of(node.states.begin(), node.states.end(), unusable))
      node.states.erase(std::remove_if(node.states.begin(), node.states.end(), unusable), node.states.end());
    for (State& state : node.states)
      if (state.way) state.ms = cost_of(state);
  }
}

namespace {

// The states of each node that come nearest to `layout`, and those that `also(state, nearest)` keeps.
template <class Also>
std::vector<NodeStates> nearest_to(const std::vector<NodeStates>& nodes, const Layout& layout, Also&& also) {
  std::vector<NodeStates> result = nodes;
  for (NodeStates& node : result) {
    if (node.kind != NodeStates::Kind::op) continue;
    const auto matches = [&](const State& state) {
      const auto obeys = [&](const TensorDesc& desc) {
        const auto wanted = family_layout(layout, desc);
        return wanted && (desc.layout == *wanted || same_memory(desc, desc.with_layout(*wanted)));
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
    std::vector<const State*> nearest;
    for (const State& state : node.states)
      if (matches(state) == best) nearest.push_back(&state);
    std::vector<State> kept;
    for (const State& state : node.states)
      if (matches(state) == best ||
          std::all_of(nearest.begin(), nearest.end(), [&](const State* near) { return also(state, *near); }))
        kept.push_back(state);
    node.states = std::move(kept);
  }
  return result;
}

}  // namespace

std::vector<NodeStates> restricted_to(const std::vector<NodeStates>& nodes, const Layout& layout) {
  return nearest_to(nodes, layout, [](const State&, const State&) { return false; });
}

std::vector<NodeStates> mostly_in(const std::vector<NodeStates>& nodes, const Layout& layout) {
  return nearest_to(nodes, layout, [](const State& state, const State& nearest) {
    return state.way && nearest.way && nearest.ms > kManyTimes * state.ms;
  });
}

}  // namespace pl
