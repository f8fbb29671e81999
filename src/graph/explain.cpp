// Why a plan is as it is: each choice with its runner-up, each conversion with what made it necessary; for people and
// as JSON.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "core/json.h"
#include "graph/compiler.h"
#include "graph/marked_costs.h"
#include "graph/phases.h"

namespace pl {
namespace {

std::string milliseconds(double ms) {
  char text[32];
  std::snprintf(text, sizeof text, ms < 1 ? "%.4f" : "%.3f", ms);
  return text;
}

bool is_marked(const State& state, const CostDatabase& costs) {
  return state.way && state.entry && is_marked(*state.entry, *state.way, costs);
}

// What a state's time rests on, where that is not a measurement of this op left alone.
const char* said_of_cost(const State& state, const CostDatabase& costs) {
  return !state.way->measured ? " (estimated)" : is_marked(state, costs) ? " (measured beside other programs)" : "";
}

std::string layout_text(const TensorDesc& desc, bool weights = false) {
  return desc.rank() ? desc.layout.str(weights) : std::string("scalar");
}

// How an input is read: its layout, or the form it is packed into.
std::string input_text(const Schema& schema, const State& state, size_t input) {
  if (state.way)
    for (const Packing& packing : state.way->candidate.packings)
      if (size_t(packing.input) == input) return packing.form;
  return layout_text(state.inputs[input], schema.is_weights(int(input)));
}

std::string inputs_text(const Schema& schema, const State& state) {
  std::string text;
  for (size_t i = 0; i < state.inputs.size(); ++i)
    if (state.inputs[i].present) text += (text.empty() ? "" : " ") + input_text(schema, state, i);
  return text;
}

std::string outputs_text(const std::vector<TensorDesc>& descs) {
  std::string text;
  for (const TensorDesc& desc : descs)
    if (desc.present) text += (text.empty() ? "" : " ") + layout_text(desc);
  return text;
}

std::string way_text(const State& state) {
  if (!state.way) return "in place";
  return state.way->candidate.provider + "/" + state.way->candidate.implementation;
}

// Why an op does not run on the plan's device, in the words of the providers there; nothing for one that does.
std::vector<Refusal> refusals_at_home(Catalog& catalog, const NodeStates& node) {
  return node.refused ? catalog.refusals(*node.refused) : std::vector<Refusal>();
}

// Ways of an op, with and without strided views, that are not used because others disagreed with them.
std::vector<Refusal> disagreements(Catalog& catalog, const NodeStates& node) {
  std::vector<Entry*> entries;
  const auto add = [&](const EntryRef& entry) {
    if (entry && std::find(entries.begin(), entries.end(), entry.get()) == entries.end())
      entries.push_back(entry.get());
  };
  add(node.entry);
  for (const State& state : node.states) add(state.entry);
  std::vector<Refusal> found;
  for (Entry* entry : entries)
    for (Refusal& refusal : catalog.disagreements(*entry)) found.push_back(std::move(refusal));
  return found;
}

// What was chosen for a node that is not `nothing`.
std::string state_text(const Schema& schema, const NodeStates& node, const State& state) {
  const std::string what = state.way                             ? way_text(state)
                           : node.kind == NodeStates::Kind::view ? "a view"
                                                                 : "its parts lie in place";
  return what + ", " + inputs_text(schema, state) + " -> " + outputs_text(state.outputs);
}

}  // namespace

// A node's choice, and the state that would have been next, all others being as they are.
struct Plan::Choice {
  const State* state = nullptr;
  const State* next = nullptr;  // null: there is no other
  double margin_ms = 0;         // what the whole would cost more with it
};

namespace {

// What a node costs in one of its states, with the conversions around it, while all other nodes stay as they are.
class Surroundings {
 public:
  Surroundings(const Graph& graph, const std::vector<NodeStates>& nodes, const Assignment& assignment, Device& home,
               ConversionCosts& costs)
      : graph_(graph), nodes_(nodes), assignment_(assignment), home_(home), costs_(costs) {
    wanted_.resize(graph.values().size());
    for (size_t n = 0; n < nodes.size(); ++n) {
      const State& state = chosen(int(n));
      const std::vector<ValueId>& inputs = graph.node(n).inputs;
      for (size_t k = 0; k < inputs.size(); ++k)
        if (counts(inputs[k], state, k))
          wanted_[size_t(inputs[k])].push_back({int(n), state.inputs[k], nodes[n].device});
    }
    for (const GraphOutput& output : graph.outputs())
      if (output.layout && !graph.is_constant(output.value))
        wanted_[size_t(output.value)].push_back(
            {-1, graph.value(output.value).desc.with_layout(*output.layout), &home});
  }

  const State& chosen(int node) const { return nodes_[size_t(node)].states[size_t(assignment_.states[size_t(node)])]; }

  double ms(int number, const State& state) {
    const Node& node = graph_.node(size_t(number));
    Device& device = *nodes_[size_t(number)].device;
    double sum = state.ms;
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const ValueId id = node.inputs[k];
      if (!counts(id, state, k)) continue;
      // A copy that somebody else needs too, or an earlier input of this op, costs nothing more.
      bool there = false;
      for (const Wanted& other : wanted_[size_t(id)])
        there = there || (other.node != number && other.device == &device && same_memory(other.desc, state.inputs[k]));
      for (size_t earlier = 0; earlier < k; ++earlier)
        there = there || (node.inputs[earlier] == id && same_memory(state.inputs[earlier], state.inputs[k]));
      if (there) continue;
      const Value& value = graph_.value(id);
      sum += value.node < 0 ? costs_.ms(value.desc, home_, state.inputs[k], device)
                            : costs_.ms(chosen(value.node).outputs[size_t(value.output)],
                                        *nodes_[size_t(value.node)].device, state.inputs[k], device);
    }
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      const std::vector<Wanted>& users = wanted_[size_t(node.outputs[o])];
      for (size_t u = 0; u < users.size(); ++u) {
        bool there = false;
        for (size_t earlier = 0; earlier < u; ++earlier)
          there =
              there || (users[earlier].device == users[u].device && same_memory(users[earlier].desc, users[u].desc));
        if (!there) sum += costs_.ms(state.outputs[o], device, users[u].desc, *users[u].device);
      }
    }
    return sum;
  }

 private:
  struct Wanted {
    int node;
    TensorDesc desc;
    Device* device;
  };
  bool counts(ValueId id, const State& state, size_t input) const {
    return id != kNoValue && !graph_.is_constant(id) && state.inputs[input].present;
  }

  const Graph& graph_;
  const std::vector<NodeStates>& nodes_;
  const Assignment& assignment_;
  Device& home_;
  ConversionCosts& costs_;
  std::vector<std::vector<Wanted>> wanted_;  // by value: how it is wanted, by whom
};

}  // namespace

std::vector<Plan::Choice> Plan::choices(const Variant& variant) const {
  Surroundings around(variant.graph, variant.nodes, variant.assignment, *home_, *variant.costs);
  std::vector<Choice> choices;
  for (size_t n = 0; n < variant.nodes.size(); ++n) {
    Choice choice;
    choice.state = &around.chosen(int(n));
    double least = std::numeric_limits<double>::infinity();
    if (variant.nodes[n].kind == NodeStates::Kind::op) {
      for (const State& other : variant.nodes[n].states) {
        if (&other == choice.state) continue;
        const double ms = around.ms(int(n), other);
        if (ms < least) least = ms, choice.next = &other;
      }
      if (choice.next) choice.margin_ms = least - around.ms(int(n), *choice.state);
    }
    choices.push_back(choice);
  }
  return choices;
}

std::string Plan::explain() const {
  const std::lock_guard<std::mutex> guard(explaining_);
  const auto cut = [&](const Variant& part) {
    return part.slice
               ? concat(", in ", slices_of(part) + (part.rest != nullptr), " slices of ", part.slice, ", ",
                        part.streams, " at the same time", part.rest ? concat(", the last of ", part.rest->slice) : "")
               : std::string();
  };
  std::string text =
      concat("plan for ", home_->name(), home_->traits().threads ? concat(", ", threads_, " threads") : "");
  const BodyRef current = body();
  const auto& parts = current->parts;
  if (parts.size() == 1)
    text += cut(*parts[0]);
  else
    text += concat(", in ", parts.size(), " chains, ", current->chains->bytes_between(), " bytes between them");
  text += "\n";
  if (recalled_) text += "  chosen by an earlier compilation (tune=\"full\" measures anew)\n";
  for (DType dtype : widened_) text += "  " + why_widened(dtype) + "\n";
  for (const TimedProgram& timed : timed_programs())
    text += "  tried " + timed.name + ": " + milliseconds(timed.ms) + " ms\n";
  if (!phases_of(graph_).empty()) {
    double ms[3] = {};
    for (const auto& part : parts) {
      const std::vector<Phase> phases = phases_of(part->graph);
      for (const Program::Step& step : part->program->steps())
        if (step.node >= 0) ms[int(phases[size_t(step.node)])] += step.expected_ms;
    }
    for (Phase phase : {Phase::forward, Phase::backward, Phase::update})
      text += concat(phase == Phase::forward ? "  " : ", ", name_of(phase), " ", milliseconds(ms[int(phase)]), " ms");
    text += "\n";
  }
  if (const Again again = made_again_in(*current); again.ops)
    text += concat("  ", again.ops, " ops made again in the backward pass, ", milliseconds(again.ms),
                   " ms, so that what they make need not be kept (memory_limit)\n");
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts.size() > 1) text += concat("chain ", i + 1, ": ", parts[i]->nodes.size(), " nodes", cut(*parts[i]), "\n");
    text += explain(*parts[i]);
    if (parts[i]->rest) text += explain_rest(*parts[i]);
  }
  return text;
}

Plan::Again Plan::made_again_in(const Body& body) const {
  Again again;
  for (const auto& part : body.parts)
    for (const Program::Step& step : part->program->steps()) {
      if (step.node < 0 || !part->graph.node(size_t(step.node)).again) continue;
      again.ops += step.kind == Program::Step::Kind::op;
      again.ms += step.expected_ms;
    }
  return again;
}

std::string Plan::why_widened(DType dtype) const {
  const std::string name = name_of(dtype);
  return concat(name, " is widened to f32 between inputs and outputs: this processor does not multiply ", name,
                " (without=\"widen\" keeps ", name, ")");
}

std::string Plan::explain_rest(const Variant& variant) const {
  const Variant& rest = *variant.rest;
  std::string text;
  size_t otherwise = 0;
  const auto say = [](const Variant& part, size_t n) {
    return state_text(*part.graph.node(n).schema, part.nodes[n],
                      part.nodes[n].states[size_t(part.assignment.states[n])]);
  };
  for (size_t n = 0; n < rest.nodes.size(); ++n) {
    if (say(rest, n) == say(variant, n)) continue;
    ++otherwise;
    text += "  " + rest.graph.node(n).name + " (" + rest.graph.node(n).schema->name + "): " + say(rest, n) + "\n";
  }
  return concat("slice of the last ", rest.slice, ": ", rest.nodes.size() - otherwise, " of ", rest.nodes.size(),
                " nodes as in the others\n", text);
}

std::string Plan::explain(const Variant& variant) const {
  const Graph& graph = variant.graph;
  std::string text;
  const std::vector<Use> uses = conversions_of(graph, variant.nodes, *home_, variant.assignment);
  const auto conversion = [&](const Use& use) {
    const bool weights = use.node >= 0 && graph.node(size_t(use.node)).schema->is_weights(use.input);
    return use.given.str(weights) + " -> " + layout_text(use.wanted, weights) +
           (use.source == use.target ? std::string() : " on " + use.target->name()) +
           concat(", ", use.given.size_bytes(), " bytes, ") +
           milliseconds(variant.costs->ms(use.given, *use.source, use.wanted, *use.target)) + " ms";
  };
  const std::vector<Choice> all = choices(variant);
  for (size_t i = 0; i < all.size(); ++i) {
    const Choice& choice = all[i];
    const State& state = *choice.state;
    const Schema& schema = *graph.node(i).schema;
    text += graph.node(i).name + " (" + schema.name + (graph.node(i).again ? ", made again" : "") + "): ";
    if (variant.nodes[i].kind == NodeStates::Kind::nothing) {
      text += "nothing to compute\n";
      continue;
    }
    text += state_text(schema, variant.nodes[i], state);
    if (state.way) text += ", " + milliseconds(state.ms) + " ms" + said_of_cost(state, context_->costs());
    if (choice.next)
      text += "; next: " + way_text(*choice.next) + ", " + inputs_text(schema, *choice.next) + " -> " +
              outputs_text(choice.next->outputs) + ", " + (choice.margin_ms >= 0 ? "+" : "-") +
              milliseconds(std::abs(choice.margin_ms)) + " ms";
    text += "\n";
    for (const Refusal& refusal : refusals_at_home(context_->catalog(), variant.nodes[i]))
      text += concat("  on ", variant.nodes[i].device->name(), ", because ", home_->name(),
                     " has no way: ", refusal.provider, ": ", refusal.reason, "\n");
    for (const Refusal& refusal : disagreements(context_->catalog(), variant.nodes[i]))
      text += concat("  not used: ", refusal.provider, "/", refusal.reason, "\n");
    for (const Use& use : uses)
      if (use.node == int(i))
        text += "  reorder of " + graph.value(use.value).name + ", because " + schema.name + " wants " +
                schema.input_parameter(use.input).name + " so: " + conversion(use) + "\n";
  }
  for (const Use& use : uses)
    if (use.node < 0)
      text += "reorder for output " + graph.outputs()[size_t(use.input)].name +
              ", because it is wanted so: " + conversion(use) + "\n";
  return text;
}

// [{"node", "op", "kind", "device", "refusals", "disagreements", "provider", "implementation", "inputs", "outputs",
// "ms", "measured", "marked", "next"}], for every node.
void Plan::write_choices(Json& json, const Body& body) const {
  const std::lock_guard<std::mutex> guard(explaining_);
  const auto state_fields = [&](const Schema& schema, const State& state) {
    if (state.way) {
      json.field("provider", state.way->candidate.provider);
      json.field("implementation", state.way->candidate.implementation);
    }
    json.key("inputs").list();
    for (size_t i = 0; i < state.inputs.size(); ++i) {
      if (state.inputs[i].present) {
        json.value(input_text(schema, state, i));
      } else {
        json.null();
      }
    }
    json.end().key("outputs").list();
    for (const TensorDesc& desc : state.outputs) {
      if (desc.present) {
        json.value(layout_text(desc));
      } else {
        json.null();
      }
    }
    json.end();
  };
  json.list();
  for (const auto& part : body.parts) {
    const Variant& variant = *part;
    const std::vector<Choice> all = choices(variant);
    for (size_t i = 0; i < all.size(); ++i) {
      const Choice& choice = all[i];
      const NodeStates& node = variant.nodes[i];
      const char* kind = node.kind == NodeStates::Kind::nothing ? "nothing"
                         : node.kind == NodeStates::Kind::view  ? "view"
                         : choice.state->way                    ? "op"
                                                                : "in place";
      json.object().field("node", variant.graph.node(i).name).field("op", variant.graph.node(i).schema->name);
      json.field("kind", kind).field("device", node.device->name()).field("again", variant.graph.node(i).again);
      json.key("refusals").list();
      for (const Refusal& refusal : refusals_at_home(context_->catalog(), node))
        json.object().field("provider", refusal.provider).field("reason", refusal.reason).end();
      json.end().key("disagreements").list();
      for (const Refusal& refusal : disagreements(context_->catalog(), node))
        json.object().field("provider", refusal.provider).field("reason", refusal.reason).end();
      json.end();
      state_fields(*variant.graph.node(i).schema, *choice.state);
      json.field("ms", choice.state->ms).field("measured", choice.state->way && choice.state->way->measured);
      json.field("marked", is_marked(*choice.state, context_->costs()));
      json.key("next");
      if (choice.next) {
        json.object();
        state_fields(*variant.graph.node(i).schema, *choice.next);
        json.field("margin_ms", choice.margin_ms).end();
      } else {
        json.null();
      }
      json.end();
    }
  }
  json.end();
}

}  // namespace pl
