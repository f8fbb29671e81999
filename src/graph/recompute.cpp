#include "graph/recompute.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "graph/phases.h"
#include "ops/op.h"

namespace pl {
namespace {

constexpr size_t kKept = SIZE_MAX;
constexpr size_t kMostNodes = 64;     // made again for one value
constexpr double kSmall = 1.0 / 16;   // of the value's bytes: an input that is kept rather than made again
constexpr double kStepMs = 0.002;     // what any further step takes beside its work
constexpr double kLeastBytes = 1024;  // that a bargain has to free

}  // namespace

RecomputedGraph made_again(const Graph& graph, const std::vector<MadeAgain>& list) {
  const size_t count = graph.nodes().size();
  std::vector<size_t> from(count, kKept);
  for (const MadeAgain& again : list) from[again.node] = again.from;
  // A value is that of the old graph's node, or of the node made again.
  struct Made {
    size_t node = 0, position = 0;
    bool again = false;
    std::vector<bool> of_again;  // by input
  };
  std::vector<Made> order;
  std::vector<int> place(count, -1), again(count, -1);  // in `order`
  const auto serves_again = [&](ValueId id, size_t user) {
    const int32_t maker = id == kNoValue ? -1 : graph.value(id).node;
    return maker >= 0 && from[size_t(maker)] <= user;
  };
  // Depth first, without recursion: chains may be long.
  const auto ensure = [&](size_t node, size_t user) {
    std::vector<std::pair<size_t, size_t>> stack{{node, 0}};
    while (!stack.empty()) {
      auto& [at, input] = stack.back();
      const std::vector<ValueId>& inputs = graph.node(at).inputs;
      if (again[at] >= 0) {
        stack.pop_back();
      } else if (input < inputs.size()) {
        const ValueId id = inputs[input++];
        if (serves_again(id, user)) stack.emplace_back(size_t(graph.value(id).node), 0);
      } else {
        Made made{at, user, true, {}};
        for (ValueId id : inputs) made.of_again.push_back(serves_again(id, user));
        again[at] = int(order.size());
        order.push_back(std::move(made));
        stack.pop_back();
      }
    }
  };
  for (size_t n = 0; n < count; ++n) {
    Made made{n, n, false, {}};
    for (ValueId id : graph.node(n).inputs) {
      made.of_again.push_back(serves_again(id, n));
      if (made.of_again.back()) ensure(size_t(graph.value(id).node), n);
    }
    place[n] = int(order.size());
    order.push_back(std::move(made));
  }
  std::vector<bool> needed(order.size(), false);
  for (const GraphOutput& output : graph.outputs())
    if (const int32_t node = graph.value(output.value).node; node >= 0) needed[size_t(place[size_t(node)])] = true;
  for (size_t i = order.size(); i-- > 0;) {
    if (!needed[i]) continue;
    const std::vector<ValueId>& inputs = graph.node(order[i].node).inputs;
    for (size_t k = 0; k < inputs.size(); ++k) {
      const int32_t maker = inputs[k] == kNoValue ? -1 : graph.value(inputs[k]).node;
      if (maker >= 0) needed[size_t(order[i].of_again[k] ? again[size_t(maker)] : place[size_t(maker)])] = true;
    }
  }

  RecomputedGraph result;
  std::vector<ValueId> values(graph.values().size(), kNoValue), copies = values;
  for (const GraphInput& input : graph.inputs()) {
    const Value& value = graph.value(input.value);
    values[size_t(input.value)] = result.graph.input(value.name, value.desc, input.axes, input.pinned);
  }
  for (size_t i = 0; i < graph.values().size(); ++i)
    if (graph.values()[i].constant)
      values[i] = result.graph.constant(graph.values()[i].name, graph.values()[i].constant);
  for (size_t i = 0; i < order.size(); ++i) {
    if (!needed[i]) continue;
    const Made& made = order[i];
    const Node& node = graph.node(made.node);
    std::vector<ValueId> inputs;
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const ValueId id = node.inputs[k];
      inputs.push_back(id == kNoValue ? kNoValue : (made.of_again[k] ? copies : values)[size_t(id)]);
    }
    // Where nothing needs a node before its copy, it is not made again but later.
    const bool twice = made.again && needed[size_t(place[made.node])];
    const std::vector<ValueId> outputs =
        result.graph.add(*node.schema, node.attributes, inputs, twice ? node.name + " again" : node.name);
    if (twice || node.again) result.graph.mark_again();
    for (size_t k = 0; k < outputs.size(); ++k) (made.again ? copies : values)[size_t(node.outputs[k])] = outputs[k];
    result.origin.push_back(made.node);
    result.position.push_back(made.position);
  }
  for (const GraphOutput& output : graph.outputs())
    result.graph.output(values[size_t(output.value)], output.name, output.layout);
  result.graph.adopt_kept(graph, values);
  return result;
}

// ---- lives ----

// Which buffers there are between inputs and outputs, and when they live, as lowering will make them.
class Recomputer::Lives {
 public:
  struct Use {
    int node;
    ValueId value;  // read there; kNoValue: made there
  };
  struct Buffer {
    size_t bytes = 0;
    int first = -1, last = -1;
    bool parts = false;     // of a concat, made where they lie: no result is written over another
    std::vector<Use> uses;  // in order
  };

  Lives(const Recomputer& chosen) : chosen_(chosen), graph_(chosen.result_.graph) {
    of_value_.assign(graph_.values().size(), -1);
    passing_.assign(graph_.nodes().size(), 0);
    find_parts();
    for (const GraphOutput& output : graph_.outputs()) outside_.insert(output.value);
    for (size_t n = 0; n < graph_.nodes().size(); ++n) add(n);
    for (size_t n = 0; n < graph_.nodes().size(); ++n) share(n);
    std::vector<size_t> begins(graph_.nodes().size() + 1, 0), ends = begins;
    for (const Buffer& buffer : buffers_) {
      if (buffer.first < 0) continue;
      begins[size_t(buffer.first)] += buffer.bytes;
      ends[size_t(buffer.last) + 1] += buffer.bytes;
    }
    size_t live = 0;
    for (size_t n = 0; n < graph_.nodes().size(); ++n) {
      live += begins[n];
      live -= ends[n];
      if (live + passing_[n] <= most_) continue;
      most_ = live + passing_[n];
      peak_ = int(n);
    }
  }

  const std::vector<Buffer>& buffers() const { return buffers_; }
  // Where the value lies as it was made; -1: not between inputs and outputs.
  int of(ValueId value) const { return of_value_[size_t(value)] < 0 ? -1 : stands_for(of_value_[size_t(value)]); }
  size_t most() const { return most_; }
  int peak() const { return peak_; }
  // Whether the buffer still has the value, which was made in it, before node `until`.
  bool holds(int buffer, ValueId value, int until) const {
    const Buffer& in = buffers_[size_t(buffer)];
    if (in.last < until) return false;
    const int made = graph_.value(value).node;
    return in.parts || std::none_of(in.uses.begin(), in.uses.end(), [&](const Use& use) {
             return use.value == kNoValue && use.node > made && use.node < until;
           });
  }

 private:
  using Form = std::pair<ValueId, std::string>;

  const NodeStates& node(size_t n) const { return chosen_.nodes_[chosen_.result_.origin[n]]; }
  const State& state(size_t n) const { return chosen_.state_of(chosen_.result_.origin[n]); }
  bool joins_in_place(size_t n) const { return node(n).kind == NodeStates::Kind::op && !state(n).way; }

  int stands_for(int buffer) const {
    while (stands_for_[size_t(buffer)] != buffer) buffer = stands_for_[size_t(buffer)];
    return buffer;
  }
  int make(size_t bytes) {
    buffers_.push_back({bytes, -1, -1, false, {}});
    stands_for_.push_back(int(buffers_.size()) - 1);
    return stands_for_.back();
  }
  void use(int buffer, size_t n, ValueId value) {
    if (buffer < 0) return;
    Buffer& used = buffers_[size_t(stands_for(buffer))];
    if (used.first < 0) used.first = int(n);
    used.last = std::max(used.last, int(n));
    used.uses.push_back({int(n), value});
  }

  // Parts that a concat in place wants where they lie; the outermost one decides.
  void find_parts() {
    for (size_t n = graph_.nodes().size(); n-- > 0;) {
      if (!joins_in_place(n)) continue;
      const Node& join = graph_.node(n);
      for (size_t k = 0; k < join.inputs.size(); ++k) {
        const Value& part = graph_.value(join.inputs[k]);
        if (part.node < 0 || joins_.count(join.inputs[k])) continue;
        const size_t maker = size_t(part.node);
        if (node(maker).kind == NodeStates::Kind::op && node(maker).device == node(n).device &&
            same_memory(state(maker).outputs[size_t(part.output)], state(n).inputs[k]))
          joins_[join.inputs[k]] = join.outputs[0];
      }
    }
  }

  int made_in(ValueId value, size_t bytes) {
    int& buffer = of_value_[size_t(value)];
    if (buffer >= 0 || outside_.count(value)) return buffer;
    const auto part = joins_.find(value);
    if (part == joins_.end()) return buffer = make(bytes);
    const Value& whole = graph_.value(part->second);
    const int in = made_in(part->second, state(size_t(whole.node)).outputs[size_t(whole.output)].size_bytes());
    if (in >= 0) buffers_[size_t(in)].parts = true;
    return of_value_[size_t(value)] = in;
  }

  // The buffer in which a node reads an input: as it was made, as it is wanted, or packed.
  int read_from(size_t n, size_t k, ValueId value) {
    const TensorDesc& wanted = state(n).inputs[k];
    const Value& made = graph_.value(value);
    const bool by_node = made.node >= 0;
    const TensorDesc& given = by_node ? state(size_t(made.node)).outputs[size_t(made.output)] : made.desc;
    const Device* at = by_node ? node(size_t(made.node)).device : &chosen_.home_;
    int from = of_value_[size_t(value)];
    if (at != node(n).device || !same_memory(given, wanted))
      from = form(n, value, from, wanted.str() + wanted.layout.generic_str() + node(n).device->name(),
                  wanted.size_bytes());
    const Packing* packing = state(n).way ? state(n).way->candidate.packing_of(int(k)) : nullptr;
    if (packing) from = form(n, value, from, state(n).way->candidate.provider + "/" + packing->form, packing->bytes);
    return from;
  }

  int form(size_t n, ValueId value, int from, const std::string& text, size_t bytes) {
    const auto [it, added] = forms_.try_emplace(Form{value, text}, -1);
    if (added) {
      use(from, n, value);
      it->second = make(bytes);
    }
    return it->second;
  }

  void add(size_t n) {
    const Node& made = graph_.node(n);
    if (node(n).kind == NodeStates::Kind::nothing) return;
    std::vector<int> read(made.inputs.size(), -1);
    for (size_t k = 0; k < made.inputs.size() && k < state(n).inputs.size(); ++k) {
      const ValueId id = made.inputs[k];
      if (id == kNoValue || graph_.is_constant(id) || !state(n).inputs[k].present) continue;
      read[k] = read_from(n, k, id);
    }
    const bool view = node(n).kind == NodeStates::Kind::view;
    for (size_t k = 0; !view && k < read.size(); ++k) use(read[k], n, made.inputs[k]);
    for (size_t k = 0; k < made.outputs.size(); ++k) {
      if (view)
        of_value_[size_t(made.outputs[k])] = read[0];
      else
        use(made_in(made.outputs[k], state(n).outputs[k].size_bytes()), n, kNoValue);
    }
    if (state(n).way) passing_[n] = state(n).way->candidate.workspace_bytes;
  }

  // Results that lie where an input lay (Lowering::share_storages).
  void share(size_t n) {
    const Node& made = graph_.node(n);
    if (node(n).kind != NodeStates::Kind::op || !state(n).way || made.outputs.size() != 1) return;
    const int own = of(made.outputs[0]);
    if (own < 0 || joins_.count(made.outputs[0]) || buffers_[size_t(own)].first != int(n)) return;
    for (size_t k = 0; k < made.inputs.size(); ++k) {
      const ValueId id = made.inputs[k];
      if (!(state(n).way->candidate.in_place >> k & 1) || id == kNoValue || of_value_[size_t(id)] < 0) continue;
      const int other = of(id);
      Buffer &input = buffers_[size_t(other)], &output = buffers_[size_t(own)];
      if (other == own || input.last != int(n) || input.bytes != output.bytes || joins_.count(id) ||
          !same_memory(state(n).inputs[k], state(n).outputs[0]))
        continue;
      input.last = output.last;
      input.uses.insert(input.uses.end(), output.uses.begin(), output.uses.end());
      output = {};
      stands_for_[size_t(own)] = other;
      return;
    }
  }

  const Recomputer& chosen_;
  const Graph& graph_;
  std::vector<Buffer> buffers_;
  std::vector<int> of_value_, stands_for_;
  std::vector<size_t> passing_;  // by node: workspace
  std::map<Form, int> forms_;
  std::map<ValueId, ValueId> joins_;  // parts, and the concat that they lie in
  std::set<ValueId> outside_;         // made in the caller's memory
  size_t most_ = 0;
  int peak_ = 0;
};

// ---- choosing ----

Recomputer::Recomputer(const Graph& graph, const std::vector<NodeStates>& nodes, const Assignment& assignment,
                       Device& home)
    : graph_(graph), nodes_(nodes), assignment_(assignment), home_(home), from_(graph.nodes().size(), kKept) {
  for (Phase phase : phases_of(graph)) forward_.push_back(phase == Phase::forward);
  forward_.resize(graph.nodes().size(), false);
  apply();
  peak_ = Lives(*this).most();
}

void Recomputer::apply() { result_ = made_again(graph_, list()); }

std::vector<MadeAgain> Recomputer::list() const {
  std::vector<MadeAgain> made;
  for (size_t n = 0; n < from_.size(); ++n)
    if (from_[n] != kKept) made.push_back({n, from_[n]});
  return made;
}

double Recomputer::ms() const {
  double sum = 0;
  for (size_t n = 0; n < result_.origin.size(); ++n)
    if (result_.graph.node(n).again) sum += state_of(result_.origin[n]).ms;
  return sum;
}

std::vector<NodeStates> Recomputer::nodes() const {
  std::vector<NodeStates> nodes;
  for (size_t origin : result_.origin) nodes.push_back(nodes_[origin]);
  return nodes;
}

Assignment Recomputer::assignment() const {
  Assignment assignment;
  for (size_t origin : result_.origin) assignment.states.push_back(assignment_.states[origin]);
  assignment.ms = assignment_.ms + ms();
  assignment.lower_bound = assignment_.lower_bound;
  return assignment;
}

// A concat in place moves nothing because its parts are made where they lie: made again, they would be copied.
bool Recomputer::may_be_made_again(size_t node) const {
  const State& state = state_of(node);
  if (!forward_[node] || graph_.node(node).schema->updates_states()) return false;
  if (nodes_[node].kind == NodeStates::Kind::op && !state.way) return false;
  return std::all_of(state.outputs.begin(), state.outputs.end(),
                     [](const TensorDesc& desc) { return !desc.present || desc.is_dense(); });
}

bool Recomputer::price(const Lives& lives, int buffer, int peak, bool deep, Bargain& bargain) const {
  const Lives::Buffer& kept = lives.buffers()[size_t(buffer)];
  const Graph& graph = result_.graph;
  int next = -1;  // node that reads it behind the peak
  std::vector<ValueId> wanted;
  for (const Lives::Use& use : kept.uses) {
    if (use.node <= peak) continue;
    if (use.value == kNoValue && kept.parts) return false;  // it is needed for the others
    // What is written over it later is another matter.
    if (use.value == kNoValue || graph.value(use.value).node > peak) continue;
    if (next < 0) next = use.node;
    wanted.push_back(use.value);
  }
  if (next < 0) return false;
  bargain = {{}, result_.position[size_t(next)], double(kept.bytes), 0};
  std::vector<bool> seen(graph_.nodes().size(), false);
  std::vector<int> held;  // buffers that are kept for it, and were not at the peak
  bool news = false;
  while (!wanted.empty()) {
    const ValueId id = wanted.back();
    wanted.pop_back();
    const int32_t maker = graph.value(id).node;
    if (maker < 0) continue;
    const size_t origin = result_.origin[size_t(maker)];
    if (seen[origin]) continue;
    const bool is_copy = result_.position[size_t(maker)] != origin;
    const int in = lives.of(id);
    if (in != buffer) {
      if (in < 0 || from_[origin] <= bargain.from) continue;  // is there, or is made again already
      const Lives::Buffer& other = lives.buffers()[size_t(in)];
      if (lives.holds(in, id, next)) continue;
      const bool keep =
          !deep || is_copy || !may_be_made_again(origin) || double(other.bytes) <= kSmall * double(kept.bytes);
      if (keep) {
        if (!lives.holds(in, id, peak + 1) && std::find(held.begin(), held.end(), in) == held.end()) {
          held.push_back(in);
          bargain.bytes -= double(other.bytes);
        }
        continue;
      }
    }
    if (is_copy || !may_be_made_again(origin)) return false;
    seen[origin] = true;
    news = news || from_[origin] == kKept;
    bargain.nodes.push_back(origin);
    if (bargain.nodes.size() > kMostNodes) return false;
    if (nodes_[origin].kind == NodeStates::Kind::op) bargain.ms += state_of(origin).ms + kStepMs;
    for (ValueId input : graph.node(size_t(maker)).inputs)
      if (input != kNoValue) wanted.push_back(input);
  }
  return news && bargain.bytes >= kLeastBytes;
}

bool Recomputer::lower_to(size_t bytes) {
  auto lives = std::make_unique<Lives>(*this);
  while (true) {
    peak_ = lives->most();
    if (peak_ <= bytes) return true;
    Bargain best;
    int of = -1;  // the buffer that it frees
    const int peak = lives->peak();
    for (size_t b = 0; b < lives->buffers().size(); ++b) {
      const Lives::Buffer& buffer = lives->buffers()[b];
      if (buffer.first < 0 || buffer.first >= peak || buffer.last <= peak) continue;
      if (std::any_of(buffer.uses.begin(), buffer.uses.end(), [&](const auto& use) { return use.node == peak; }))
        continue;
      for (bool deep : {false, true}) {
        Bargain bargain;
        if (!price(*lives, int(b), peak, deep, bargain) || refused_.count(bargain.nodes)) continue;
        if (of >= 0 && bargain.bytes * (best.ms + kStepMs) <= best.bytes * (bargain.ms + kStepMs)) continue;
        best = std::move(bargain);
        of = int(b);
      }
    }
    if (of < 0) return false;
    const std::vector<size_t> before = from_;
    for (size_t node : best.nodes) from_[node] = std::min(from_[node], best.from);
    apply();
    auto next = std::make_unique<Lives>(*this);
    if (next->most() <= peak_) {
      lives = std::move(next);
      continue;
    }
    // What it needs in the backward pass is more than it frees.
    refused_.insert(best.nodes);
    from_ = before;
    apply();
  }
}

}  // namespace pl
