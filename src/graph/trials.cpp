// The contest of programs for one way of cutting the batch: what the plan is chosen by.
//
// Programs run in turns, every step timed where it stands, and are judged by the sum of what their steps typically
// take: on a busy machine hardly a run of a whole program is undisturbed, but of a few runs each step has some that
// are.  The times tell more than which program is best: they replace those taken alone, with which layouts are assigned
// again, and programs that put other implementations, of the same layouts, in the place of all at once show which of
// those were measured too badly to be chosen.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/threads.h"
#include "graph/compiler.h"
#include "graph/samples.h"

namespace pl {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kRefinements = 4;  // times that layouts are assigned again with times taken within programs
constexpr int kLeastRounds = 5, kMostRounds = 24;  // a contender's, each time
constexpr double kNear = 1.25;                     // to the best: takes part in the last rounds
constexpr double kRescued = 2.0;        // times what was chosen: implementations dearer than that are not tried
constexpr double kHopelessUniform = 2;  // times what the assignment of all layouts would take
constexpr int kSiblings = 2;            // programs with other implementations at a time
constexpr double kSuspicious = 1.6;     // between times alone and within: one of the two was disturbed
constexpr double kReliable = 1.3;       // between typical and least times: beyond, they say more about other programs
constexpr double kPromising = 1.2;      // times what costs say of the assignment of all layouts
constexpr size_t kMostSuspects = 24;
// Up to which costs of ops are known (graph/assign.h): what samples of one thing may differ by and count as steady.
constexpr double kNoise = kSteady - 1;
constexpr double kEqual = 0.01;  // of the fastest program's time: what saving conversions may cost at most

bool same_layouts(const Graph& graph, const Node& node, const State& a, const State& b) {
  for (size_t i = 0; i < a.inputs.size(); ++i) {
    if (a.inputs[i].present != b.inputs[i].present) return false;
    const bool constant = i < node.inputs.size() && node.inputs[i] != kNoValue && graph.is_constant(node.inputs[i]);
    if (a.inputs[i].present && !constant && !same_memory(a.inputs[i], b.inputs[i])) return false;
  }
  for (size_t i = 0; i < a.outputs.size(); ++i)
    if (!same_memory(a.outputs[i], b.outputs[i])) return false;
  return true;
}

}  // namespace

double Plan::Compiler::Contender::ms() const {
  if (samples.empty()) return typical(totals);
  double sum = 0;
  for (const auto& step : samples) sum += typical(step);
  return sum;
}

double Plan::Compiler::Contender::least() const {
  if (samples.empty()) return least_of(totals);
  double sum = 0;
  for (const auto& step : samples) sum += least_of(step);
  return sum;
}

// Steps are disturbed independently; the second least of a few samples is off by about what it lies above the least.
double Plan::Compiler::Contender::variance() const {
  double sum = 0;
  for (const auto& step : samples) sum += std::pow(typical(step) - least_of(step), 2);
  return sum;
}

size_t Plan::Compiler::Contender::conversions() const {
  return size_t(std::count_if(program->steps().begin(), program->steps().end(),
                              [](const Program::Step& step) { return step.kind != Program::Step::Kind::op; }));
}

bool Plan::Compiler::Contender::steady() const { return ms() <= kReliable * least(); }

bool Plan::Compiler::Contender::reliable() const { return totals.size() >= kLeastRounds && steady(); }

bool Plan::Compiler::add_contender(Variant& variant, std::vector<Contender>& list, const std::string& name,
                                   Assignment assignment) {
  for (const Contender& known : list)
    if (known.assignment.states == assignment.states) return false;
  build_ahead(variant, assignment);
  const double began = elapsed();
  Contender contender;
  contender.name = name;
  contender.program = std::make_unique<Program>(context_, variant.graph, variant.nodes, assignment, *plan_.home_,
                                                variant.threads, *plan_.conversions_, constants_, options_.in_place);
  contender.assignment = std::move(assignment);
  list.push_back(std::move(contender));
  build_seconds_ = std::max(build_seconds_, elapsed() - began);
  return true;
}

void Plan::Compiler::add_uniform(Variant& variant, std::vector<Contender>& list, const char* layout) {
  const std::vector<NodeStates> only = restricted_to(variant.nodes, Layout::parse(layout));
  Assignment uniform = settle(variant, only, false);
  // Where kernels are compiled for it, a program that would be hopeless is not worth making.
  if (builders_ && uniform.ms > kHopelessUniform * list[0].assignment.ms) return;
  // As states of the unrestricted nodes.
  for (size_t i = 0; i < only.size(); ++i) {
    const State& state = only[i].states[size_t(uniform.states[i])];
    const auto& all = variant.nodes[i].states;
    for (size_t s = 0; s < all.size(); ++s)
      if (all[s].way == state.way && all[s].inputs == state.inputs && all[s].outputs == state.outputs)
        uniform.states[i] = int(s);
  }
  if (add_contender(variant, list, layout, std::move(uniform))) list.back().uniform = true;
}

// Programs with the layouts of `of` and everywhere an implementation that was not tried there yet, the cheapest first.
void Plan::Compiler::add_siblings(Variant& variant, std::vector<Contender>& list, const Assignment& of) {
  std::vector<std::vector<int>> others(variant.nodes.size());
  for (size_t n = 0; n < variant.nodes.size(); ++n) {
    const NodeStates& node = variant.nodes[n];
    const State& chosen = node.states[size_t(of.states[n])];
    if (node.kind != NodeStates::Kind::op || !chosen.way) continue;
    for (size_t s = 0; s < node.states.size(); ++s) {
      const State& state = node.states[s];
      if (int(s) == of.states[n] || !state.way || state.ms > kRescued * chosen.ms) continue;
      if (state.way->compiles && !state.way->measured) continue;  // may take seconds
      if (!same_layouts(variant.graph, variant.graph.node(n), chosen, state)) continue;
      if (std::any_of(list.begin(), list.end(), [&](const Contender& c) { return c.assignment.states[n] == int(s); }))
        continue;
      if (context_.catalog().kernel(*state.entry, *state.way)) others[n].push_back(int(s));
    }
    std::stable_sort(others[n].begin(), others[n].end(),
                     [&](int a, int b) { return node.states[size_t(a)].ms < node.states[size_t(b)].ms; });
  }
  for (size_t k = 0; k < kSiblings && elapsed() + build_seconds_ < stop_; ++k) {
    Assignment sibling = of;
    for (size_t n = 0; n < others.size(); ++n)
      if (k < others[n].size()) sibling.states[n] = others[n][k];
    if (!add_contender(variant, list, "other implementations", std::move(sibling))) break;
  }
}

// All contenders in turns, so that a machine whose speed drifts slows all alike, until those near to the best are told
// apart, or the time is up.
void Plan::Compiler::run_rounds(Variant& variant, std::vector<Contender>& list) {
  const bool at_once = plan_.home_->host_memory();
  std::vector<double> step_ms;
  for (Contender& contender : list) {
    if (contender.totals.empty() && elapsed() < end_) run_once(variant, *contender.program, nullptr);  // touches memory
    contender.rounds = 0;
  }
  // How much slower than the best a contender may seem, by its least disturbed steps, to take another turn.
  const auto chance = [](int round) {
    return round < 1 ? kInfinity : round < 3 ? 20 : round < 5 ? 5 : round < 10 ? 2 : kNear;
  };
  for (int round = 0; round < kMostRounds; ++round) {
    double best = kInfinity;
    for (const Contender& contender : list) best = std::min(best, contender.least());
    const auto races = [&](const Contender& contender) {
      if (contender.rounds == 0 || contender.least() <= chance(round) * best) return true;
      // What seems slow because it was disturbed each time, and should not be by its costs, has not lost yet.
      return !contender.steady() && contender.assignment.ms <= kPromising * list[0].assignment.ms;
    };
    if (round >= kLeastRounds && std::all_of(list.begin(), list.end(), [&](const Contender& contender) {
          return !races(contender) || contender.ms() <= kSteady * contender.least();
        }))
      break;
    for (Contender& contender : list) {
      if (elapsed() > end_) return;
      if (!races(contender)) continue;
      if (at_once) wake_together();
      contender.totals.push_back(run_once(variant, *contender.program, at_once ? &step_ms : nullptr));
      ++contender.rounds;
      if (!at_once) continue;
      contender.samples.resize(step_ms.size());
      for (size_t i = 0; i < step_ms.size(); ++i) contender.samples[i].push_back(step_ms[i]);
    }
  }
}

// Times taken within programs take the place of those taken alone; ways not run there are scaled by what the others of
// their node turned out to cost.
void Plan::Compiler::learn(Variant& variant, const std::vector<Contender>& list) {
  std::map<std::pair<size_t, int>, double> at_node;  // least of the contenders' times, by node and state
  std::map<Way*, Seen> anywhere;
  std::map<Way*, double> moved;  // by reorder, least of the contenders' times
  for (const Contender& contender : list)
    for (size_t i = 0; i < contender.samples.size(); ++i) {
      const Program::Step& step = contender.program->steps()[i];
      const double ms = typical(contender.samples[i]);
      if (step.kind == Program::Step::Kind::reorder) {
        // Alone it finds its input in the caches, and nobody waits for its result.
        double& least = moved.try_emplace(step.way, ms).first->second;
        least = std::min(least, ms);
        variant.costs->set(step.input_descs[0], *step.device, step.output_descs[0], *step.device, least);
      }
      if (step.kind != Program::Step::Kind::op) continue;
      const int state = contender.assignment.states[size_t(step.node)];
      auto [it, added] = at_node.try_emplace({size_t(step.node), state}, ms);
      if (!added) it->second = std::min(it->second, ms);
      Seen& seen = anywhere[step.way];
      seen.sum += ms;
      ++seen.count;
    }
  for (size_t n = 0; n < variant.nodes.size(); ++n) {
    NodeStates& node = variant.nodes[n];
    if (node.kind != NodeStates::Kind::op) continue;
    double log_ratio = 0;
    int known = 0;
    std::vector<bool> seen(node.states.size(), false);
    for (size_t s = 0; s < node.states.size(); ++s) {
      State& state = node.states[s];
      if (!state.way) continue;
      double ms = kInfinity;
      if (const auto it = at_node.find({n, int(s)}); it != at_node.end())
        ms = it->second;
      else if (const auto other = anywhere.find(state.way); other != anywhere.end())
        ms = other->second.sum / other->second.count;
      if (std::isinf(ms)) continue;
      seen[s] = true;
      if (state.way->ms > 0 && ms > 0) {
        log_ratio += std::log(ms / state.way->ms);
        ++known;
      }
      state.ms = ms;
    }
    // Never below what was measured alone: nothing runs faster for being less known.
    const double ratio = known ? std::max(1.0, std::exp(log_ratio / known)) : 1.0;
    for (size_t s = 0; s < node.states.size(); ++s)
      if (!seen[s] && node.states[s].way) node.states[s].ms = cost_of(node.states[s]) * ratio;
  }
}

// What each node took in the winning program, its conversions included.  Steps were timed in one slice of each stream.
void Plan::Compiler::note_times(Variant& variant, const Contender& winner) const {
  if (winner.samples.empty() || variant.nodes.empty()) return;  // reorders for outputs count to the last node
  const double times = double(plan_.slices_of(variant)) / variant.streams;
  variant.node_ms.assign(variant.nodes.size(), 0.0);
  for (size_t i = 0; i < winner.samples.size(); ++i) {
    const int node = winner.program->steps()[i].node;
    variant.node_ms[node < 0 ? variant.nodes.size() - 1 : size_t(node)] += typical(winner.samples[i]) * times;
  }
}

// What took much more or less alone than within the winner, the most time first, is measured alone once more, so that
// the database does not hand a disturbed measurement on to other programs.  Reorders take less alone: more is odd.
void Plan::Compiler::measure_again(Variant& variant, const Contender& winner) {
  std::map<Way*, std::pair<double, Entry*>> suspects;
  for (size_t i = 0; i < winner.samples.size(); ++i) {
    const Program::Step& step = winner.program->steps()[i];
    if (!step.way || !step.way->measured) continue;
    const double within = typical(winner.samples[i]), alone = step.way->ms;
    if (step.kind != Program::Step::Kind::op && alone < within) continue;
    if (std::max(within, alone) > kSuspicious * std::min(within, alone))
      suspects[step.way] = {std::max(suspects[step.way].first, std::abs(within - alone)), step.entry.get()};
  }
  std::vector<std::pair<double, Way*>> order;
  for (const auto& [way, what] : suspects) order.emplace_back(what.first, way);
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  order.resize(std::min(order.size(), kMostSuspects));
  for (const auto& suspect : order) {
    report("measuring again", double(&suspect - order.data()) / double(order.size()));
    if (elapsed() > stop_) break;
    Entry& entry = *suspects[suspect.second].second;
    for (size_t w = 0; w < entry.ways.size(); ++w)
      if (&entry.ways[w] == suspect.second) context_.catalog().measure(entry, std::vector<size_t>{w}, MeasureOptions{});
  }
  if (variant.threads) use_threads(variant.threads);
}

// The fastest; or one with fewer conversions, if it is slower by no more than what the two times may be off by: then
// they have not paid for themselves.  Never one that is slower than a uniform layout.
size_t Plan::Compiler::winner_of(const std::vector<Contender>& list) const {
  size_t best = 0;
  for (size_t i = 1; i < list.size(); ++i)
    if (list[i].ms() < list[best].ms()) best = i;
  const Contender& fastest = list[best];
  if (!fastest.reliable()) return best;
  double most = kInfinity;
  for (const Contender& contender : list)
    if (contender.uniform) most = std::min(most, contender.ms());
  for (size_t i = 0; i < list.size(); ++i) {
    const Contender& other = list[i];
    const double off = std::min(std::sqrt(fastest.variance() + other.variance()), kEqual * fastest.ms());
    if (!other.reliable() || other.ms() > std::min(most, fastest.ms() + off)) continue;
    const size_t count = other.conversions(), least = list[best].conversions();
    if (count < least || (count == least && other.ms() < list[best].ms())) best = i;
  }
  return best;
}

void Plan::Compiler::contest(Variant& variant) {
  std::vector<Contender> list;
  build_seconds_ = 0;
  const bool host = plan_.home_->host_memory();
  const double noise = host ? kNoise : 0;
  add_contender(variant, list, "auto", settle(variant, variant.nodes, true, noise));
  if (options_.tuning != Tuning::off) {
    for (const char* layout : {"NHWC", "nChw16c", "nChw8c", "NCHW"})
      if (elapsed() < stop_) add_uniform(variant, list, layout);
    run_rounds(variant, list);
    for (int i = 0; host && i < kRefinements && elapsed() + build_seconds_ < stop_; ++i) {
      report("refining", double(i) / kRefinements);
      learn(variant, list);
      const size_t before = list.size();
      Assignment again = settle(variant, variant.nodes, true, noise);
      if (measured_) add_siblings(variant, list, again);
      add_contender(variant, list, "auto", std::move(again));
      add_contender(variant, list, "more reorders", settle(variant, variant.nodes, true));
      if (list.size() == before) break;
      run_rounds(variant, list);
    }
  }
  // Where the machine was so busy that the clock says nothing, costs decide.
  size_t best = winner_of(list);
  if (host && options_.tuning != Tuning::off && !list[best].reliable()) {
    disturbed_ = disturbed_ || !list[best].steady();
    best = 0;
  }
  // The rest's programs do a part of the batch only: they would seem fast.
  const double times = plan_.rounds_of(variant);
  for (const Contender& contender : list)
    if (!contender.totals.empty() && !variant.from)
      plan_.trials_.push_back({contender.name + name_of(variant), contender.ms() * (host ? times : 1)});
  note_times(variant, list[best]);
  if (measured_) measure_again(variant, list[best]);
  variant.assignment = std::move(list[best].assignment);
  variant.program = std::move(list[best].program);
}

}  // namespace pl
