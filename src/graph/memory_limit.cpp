// What a plan needs in memory, and how it is kept within `memory_limit`.
//
// A plan holds three things beside its inputs and outputs: the values between them (the arenas of one run), its states,
// and weights.  Of weights it holds each form that a step reads, once, whoever shares it; and, on its own device, those
// of which steps read packed forms only, as the graph has them, since files are written and other forms are packed from
// them.  Memory that somebody has lent, an array or a mapped file, counts where steps read it as it lies: then its
// pages are in memory as long as the plan runs.
//
// Where a plan would need more than the limit, values are made fewer by cutting the batch, workspaces by ways of ops
// that need less, and weights by ways whose forms are smaller: these have a price per byte, the lowest one with which
// the plan fits, so that larger forms stay where they save most time.  A program that trains makes values again in its
// backward pass first (graph/recompute.h), which changes no choice and no result.
#include <algorithm>
#include <cmath>

#include "dispatch/runner.h"
#include "graph/compiler.h"
#include "graph/phases.h"
#include "graph/recompute.h"
#include "graph/sizes.h"

namespace pl {
namespace {

// In ms for a byte of weights.  A larger form that saves 0.1 ms has some 10 MB: prices that matter are near 1e-8.
constexpr double kLeastPrice = 1e-11, kHighPrice = 1e-4, kHighestPrice = 1;
constexpr int kPrices = 9;                  // tried between the first two
constexpr int kCorrections = 3;             // of what is foretold of a program, by what it needs
constexpr size_t kCorrectionsOfPeak = 128;  // parts of the peak, the least by which it is lowered between two checks

// Whether the plan has this memory of its own: nobody has lent it.
bool is_own(const Tensor& constant, const Device& home) {
  return &constant.device() == &home && !constant.buffer()->borrowed();
}

size_t end_of(const Tensor& tensor) {
  const TensorDesc& desc = tensor.desc();
  return std::min(tensor.buffer()->bytes(), size_t(desc.offset) * size_of(desc.dtype) + desc.size_bytes());
}

// Calls with each constant that a node reads in one of its states, and the packing, null where it is a tensor.
template <class Use>
void for_constants(const Graph& graph, const Node& node, const State& state, const Use& use) {
  for (size_t k = 0; k < state.inputs.size() && k < node.inputs.size(); ++k)
    if (state.inputs[k].present && graph.is_constant(node.inputs[k]))
      use(*graph.value(node.inputs[k]).constant, state.inputs[k],
          state.way ? state.way->candidate.packing_of(int(k)) : nullptr);
}

bool lies_so(const Tensor& constant, const TensorDesc& wanted, const Device& device) {
  return &constant.device() == &device && same_memory(constant.desc(), wanted) && is_aligned(constant);
}

// Of weights, that this state alone would hold.
size_t bytes_of_weights(const Graph& graph, const Node& node, const NodeStates& of, const State& state,
                        const Device& home) {
  size_t sum = 0;
  for_constants(graph, node, state, [&](const Tensor& constant, const TensorDesc& wanted, const Packing* packing) {
    sum += packing ? packing->bytes : wanted.size_bytes();
    if (packing && !lies_so(constant, wanted, *of.device) && is_own(constant, home)) sum += end_of(constant);
  });
  return sum;
}

// Between inputs and outputs, that this state needs beside the node's values.
size_t bytes_in_passing(const Graph& graph, const Node& node, const State& state) {
  if (!state.way) return 0;
  size_t sum = state.way->candidate.workspace_bytes;
  for (const Packing& packing : state.way->candidate.packings)
    if (size_t(packing.input) < node.inputs.size() && !graph.is_constant(node.inputs[size_t(packing.input)]))
      sum += packing.bytes;
  return sum;
}

}  // namespace

// ---- what is needed ----

std::string Plan::Memory::str() const {
  std::string text = concat("weights ", constants.bytes(), ", values between inputs and outputs ", arena_bytes);
  if (state_bytes) text += concat(", states ", state_bytes);
  return text;
}

size_t Plan::bytes_of_states(const std::vector<std::unique_ptr<Variant>>& parts) const {
  if (graph_.kept().empty()) return 0;
  std::vector<bool> in_place(graph_.outputs().size(), false);
  if (parts.size() == 1 && !parts[0]->slice && parts[0]->program) {
    const std::vector<int>& of = parts[0]->program->in_place_of();
    for (size_t i = 0; i < of.size(); ++i)
      if (of[i] >= 0) in_place[size_t(parts[0]->results[i])] = true;
  }
  size_t sum = 0;
  for (const KeptValue& kept : graph_.kept()) sum += graph_.value(kept.value).desc.size_bytes();
  for (size_t i = 0; i < in_place.size(); ++i) {
    const int32_t kept = graph_.outputs()[i].kept;
    if (kept >= 0 && !in_place[i]) sum += graph_.value(graph_.kept()[size_t(kept)].value).desc.size_bytes();
  }
  return sum;
}

Plan::Memory Plan::memory_of(const std::vector<std::unique_ptr<Variant>>& parts, const Chains& chains,
                             bool with_given) const {
  Memory memory;
  memory.arena_bytes = chains.bytes_between();
  memory.lower_bound = chains.least_between();
  memory.state_bytes = bytes_of_states(parts);
  const auto add_given = [&](const Graph& graph, const Program* program) {
    for (size_t i = 0; i < graph.values().size(); ++i) {
      const TensorRef& constant = graph.values()[i].constant;
      if (constant && is_own(*constant, *home_) && !(program && program->constants().count(ValueId(i))))
        memory.constants.add(*constant->buffer(), end_of(*constant));
    }
  };
  for (const auto& part : parts)
    for (const Variant* share = part.get(); share; share = share->rest.get()) {
      memory.arena_bytes += share->program->memory().arena_bytes * size_t(share->streams);
      memory.lower_bound += share->program->memory().lower_bound * size_t(share->streams);
      share->program->add_constants(memory.constants);
      add_given(share->graph, with_given ? nullptr : share->program.get());
    }
  if (sizes_) add_given(sizes_->source(), nullptr);
  return memory;
}

Plan::Memory Plan::memory_now() const {
  const BodyRef current = body();
  const std::lock_guard<std::mutex> guard(changing_);
  return memory_of(current->parts, *current->chains, live_ && constants_);
}

Plan::Memory Plan::memory_for(const Variant& variant, const Assignment& assignment, bool with_given) const {
  Memory memory;
  const ProgramMemory needed = Program::memory_for(*context_, variant.graph, variant.nodes, assignment, *home_,
                                                   variant.threads, *conversions_, options_.in_place);
  memory.arena_bytes = needed.arena_bytes * size_t(variant.streams);
  memory.lower_bound = needed.lower_bound * size_t(variant.streams);
  std::vector<bool> unpacked(variant.graph.values().size(), false);
  for (size_t n = 0; n < variant.nodes.size(); ++n) {
    const NodeStates& node = variant.nodes[n];
    const State& state = node.states[size_t(assignment.states[n])];
    for_constants(variant.graph, variant.graph.node(n), state,
                  [&](const Tensor& constant, const TensorDesc& wanted, const Packing* packing) {
                    const Buffer& buffer = *constant.buffer();
                    const std::string on = node.device->name();
                    if (packing)
                      memory.constants.add(buffer, packing->bytes,
                                           on + "/" + Runner::form_name(state.way->candidate, *packing));
                    else if (lies_so(constant, wanted, *node.device))
                      memory.constants.add(buffer, end_of(constant));
                    else
                      memory.constants.add(
                          buffer, wanted.size_bytes(),
                          concat(on, '/', wanted.str(), wanted.layout.generic_str(), '+', constant.desc().offset));
                  });
    for (size_t k = 0; k < state.inputs.size() && k < variant.graph.node(n).inputs.size(); ++k)
      if (state.inputs[k].present && !(state.way && state.way->candidate.packing_of(int(k))))
        unpacked[size_t(variant.graph.node(n).inputs[k])] = true;
  }
  for (size_t i = 0; i < unpacked.size(); ++i) {
    const TensorRef& constant = variant.graph.values()[i].constant;
    if (constant && is_own(*constant, *home_) && (with_given || !unpacked[i]))
      memory.constants.add(*constant->buffer(), end_of(*constant));
  }
  return memory;
}

bool Plan::has_room_for(const Variant& variant, const Assignment& assignment) const {
  if (!options_.memory_limit) return true;
  const BodyRef current = body();
  Memory memory = memory_for(variant, assignment, true);
  memory.state_bytes = bytes_of_states(current->parts);
  for (const auto& part : current->parts)
    for (const Variant* share = part.get(); share; share = share->rest.get()) {
      const Memory own = memory_for(*share, share->assignment, true);
      memory.arena_bytes += own.arena_bytes;
      memory.constants.add(own.constants);
    }
  return memory.bytes() <= options_.memory_limit;
}

// ---- keeping within the limit ----

Plan::Memory Plan::Compiler::memory_of(const Finalist& finalist) const {
  return with_others(plan_.memory_of(finalist.parts, *finalist.chains, false));
}

// A program for further sizes lies in memory beside the plan's own, and runs in the same arenas.
Plan::Memory Plan::Compiler::with_others(Memory memory) const {
  if (!beside_) return memory;
  const Memory own = beside_->memory_now();
  memory.arena_bytes = std::max(memory.arena_bytes, own.arena_bytes);
  memory.constants.add(own.constants);
  return memory;
}

// With ways that need at most so many bytes in passing, where a node has such.
std::unique_ptr<Plan::Variant> Plan::Compiler::lighter(const Finalist& than, size_t most) {
  const Variant& heavy = *than.parts[0];
  std::unique_ptr<Variant> light = plan_.variant_of(heavy.slice, heavy.streams, heavy.threads);
  light->nodes = heavy.nodes;
  light->costs = std::make_unique<ConversionCosts>(*plan_.conversions_, light->threads);
  std::vector<std::vector<double>> weights;  // by node and state: bytes
  for (size_t n = 0; n < light->nodes.size(); ++n) {
    NodeStates& of = light->nodes[n];
    const Node& node = light->graph.node(n);
    const auto bytes = [&](const State& state) { return bytes_in_passing(light->graph, node, state); };
    size_t allowed = SIZE_MAX;  // at least what the lightest way takes
    for (const State& state : of.states) allowed = std::min(allowed, bytes(state));
    allowed = std::max(allowed, most);
    of.states.erase(
        std::remove_if(of.states.begin(), of.states.end(), [&](const State& state) { return bytes(state) > allowed; }),
        of.states.end());
    weights.emplace_back();
    for (const State& state : of.states)
      weights.back().push_back(double(bytes_of_weights(light->graph, node, of, state, *plan_.home_)));
  }
  const auto priced = [&](double price) {
    std::vector<NodeStates> nodes = light->nodes;
    for (size_t n = 0; n < nodes.size(); ++n)
      for (size_t s = 0; s < nodes[n].states.size(); ++s) nodes[n].states[s].ms += price * weights[n][s];
    Assignment assignment = settle(*light, nodes, price == 0);
    for (size_t n = 0; n < nodes.size(); ++n) assignment.ms -= price * weights[n][size_t(assignment.states[n])];
    return assignment;
  };
  size_t limit = options_.memory_limit;
  const size_t states = plan_.bytes_of_states(than.parts);
  const auto fits = [&](const Assignment& assignment) {
    Memory memory = with_others(plan_.memory_for(*light, assignment, false));
    memory.state_bytes = states;
    return memory.bytes() <= limit;
  };
  for (int correction = 0;; ++correction) {
    light->assignment = priced(0);
    if (!fits(light->assignment)) {
      light->assignment = priced(kHighestPrice);
      double low = std::log(kLeastPrice), high = std::log(kHighPrice);
      for (int i = 0; i < kPrices && fits(light->assignment); ++i) {
        const double middle = (low + high) / 2;
        Assignment assignment = priced(std::exp(middle));
        const bool good = fits(assignment);
        (good ? high : low) = middle;
        if (good) light->assignment = std::move(assignment);
      }
    }
    light->program = plan_.program_of(*light, light->assignment);
    std::vector<std::unique_ptr<Variant>> alone;
    alone.push_back(std::move(light));
    const size_t bytes = with_others(plan_.memory_of(alone, *plan_.chains_of(alone), false)).bytes();
    light = std::move(alone.front());
    if (bytes <= options_.memory_limit || bytes - options_.memory_limit >= limit || correction == kCorrections) break;
    if (!fits(light->assignment)) break;  // the least was taken
    limit -= bytes - options_.memory_limit;
  }
  return light;
}

void Plan::Compiler::add_lighter(std::vector<Finalist>& list) {
  const size_t limit = options_.memory_limit;
  if (!limit) return;
  if (std::any_of(list.begin(), list.end(), [&](const Finalist& c) { return memory_of(c).bytes() <= limit; })) return;
  const size_t count = list.size();
  // In passing, of what there is between inputs and outputs.  Not of the limit: the least that an error tells of must
  // be found again where it is the limit.
  for (size_t part : {size_t(0), size_t(64), size_t(8), size_t(1)})
    for (size_t i = 0; i < count; ++i) {
      if (list[i].parts.size() > 1 || list[i].parts[0]->rest || !list[i].again.empty()) continue;
      const size_t arena = list[i].parts[0]->program->memory().arena_bytes;
      Finalist finalist;
      finalist.parts.push_back(lighter(list[i], part == 0 ? 0 : part == 1 ? SIZE_MAX : arena / part));
      finalist.chains = plan_.chains_of(finalist.parts);
      list.push_back(std::move(finalist));
    }
  // The last one that keeps the limit is taken where nothing is measured: the fastest by costs.
  const auto ms = [&](const Finalist& finalist) {
    return finalist.parts[0]->assignment.ms * plan_.rounds_of(*finalist.parts[0]);
  };
  std::stable_sort(list.begin() + long(count), list.end(),
                   [&](const Finalist& a, const Finalist& b) { return ms(a) > ms(b); });
}

// With values made again, so that the arena fits beside what else there is; or as near to that as this leads.
Plan::Compiler::Finalist Plan::Compiler::recomputed(const Finalist& finalist) {
  report("recomputing", 0);
  const Variant& kept = *finalist.parts[0];
  const size_t all = memory_of(finalist).bytes(), arena = kept.program->memory().arena_bytes, rest = all - arena;
  const size_t limit = options_.memory_limit - std::min(options_.memory_limit, rest);
  Recomputer recomputer(kept.graph, kept.nodes, kept.assignment, *plan_.home_);
  auto variant = std::make_unique<Variant>();
  // What is foretold there is corrected by what lowering says.
  for (size_t over = arena - limit;;) {
    const size_t peak = recomputer.peak();
    over = std::max(over, peak / kCorrectionsOfPeak);
    const bool more = recomputer.lower_to(peak - std::min(peak, over));
    variant->nodes = recomputer.nodes();
    variant->assignment = recomputer.assignment();
    const size_t needed = Program::memory_for(context_, recomputer.result().graph, variant->nodes, variant->assignment,
                                              *plan_.home_, kept.threads, *plan_.conversions_, options_.in_place)
                              .arena_bytes;
    if (needed <= limit || !more) break;
    over = needed - limit;
  }
  variant->threads = kept.threads;
  variant->graph = recomputer.result().graph;
  variant->inputs = kept.inputs;
  variant->results = kept.results;
  for (const GraphOutput& output : variant->graph.outputs())
    variant->outputs.push_back(maker_of(variant->graph, output.value));
  variant->costs = std::make_unique<ConversionCosts>(*plan_.conversions_, variant->threads);
  variant->program = plan_.program_of(*variant, variant->assignment);
  Finalist result;
  result.again = recomputer.list();
  result.parts.push_back(std::move(variant));
  result.chains = plan_.chains_of(result.parts);
  return result;
}

void Plan::Compiler::add_recomputed(std::vector<Finalist>& list, size_t first) {
  const size_t limit = options_.memory_limit;
  if (!limit || phases_of(plan_.graph_).empty()) return;
  if (std::any_of(list.begin(), list.end(), [&](const Finalist& c) { return memory_of(c).bytes() <= limit; })) return;
  for (size_t i = list.size(); i-- > first;) {  // the last is the fastest
    if (list[i].parts.size() > 1 || list[i].parts[0]->slice) continue;
    Finalist finalist = recomputed(list[i]);
    if (finalist.again.empty()) continue;
    list.push_back(std::move(finalist));
    if (memory_of(list.back()).bytes() <= limit) return;
  }
}

// Leaves out what takes more memory than the limit.
void Plan::Compiler::keep_within_memory(std::vector<Finalist>& list) {
  const size_t limit = options_.memory_limit;
  if (!limit) return;
  std::optional<Memory> least;
  size_t again = 0;  // ops that are made again for that
  std::vector<Finalist> kept;
  for (Finalist& finalist : list) {
    Memory memory = memory_of(finalist);
    if (!least || memory.bytes() < least->bytes()) {
      least = memory;
      again = finalist.again.size();
    }
    if (memory.bytes() <= limit) kept.push_back(std::move(finalist));
  }
  require(!kept.empty(), Code::out_of_memory, "compile: memory_limit is ", limit,
          " bytes, the least that this graph can be run in here is ", least->bytes(), " (", least->str(),
          again ? concat("; ", again, " ops of the forward pass are made again in the backward pass") : "", ")");
  list = std::move(kept);
  constants_.release_unused();
}

}  // namespace pl
