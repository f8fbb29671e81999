// The contest of programs for one way of cutting the batch: what the plan is chosen by.
//
// Programs run in turns, every step timed where it stands, and are judged by the sum of what their steps typically
// take: on a busy machine hardly a run of a whole program is undisturbed, but of a few runs each step has some that
// are.  The times tell more than which program is best: they replace those taken alone, with which layouts are assigned
// again, and programs that put other implementations, of the same layouts, in the place of all at once show which of
// those were measured too badly to be chosen.
#include <algorithm>
#include <cmath>

#include "core/numbers.h"
#include "core/samples.h"
#include "core/threads.h"
#include "graph/compiler.h"
#include "graph/lessons.h"

namespace pl {
namespace {

constexpr int kRefinements = 4;  // times that layouts are assigned again with times taken within programs
constexpr int kLeastRounds = 5, kMostRounds = 24;  // a contestant's, each time
constexpr double kNear = 1.25;                     // to the best: takes part in the last rounds
constexpr double kRescued = 2.0;        // times what was chosen: implementations dearer than that are not tried
constexpr double kHopelessUniform = 2;  // times what the assignment of all layouts would take
constexpr int kSiblings = 2;            // programs with other implementations at a time
constexpr double kSuspicious = 1.6;     // between times alone and within: one of the two was disturbed
constexpr double kReliable = 1.3;       // between typical and least times: beyond, they say more about other programs
constexpr double kPromising = 1.2;      // times what costs say of the assignment of all layouts
constexpr size_t kMostSuspects = 24;
constexpr double kEqual = 0.01;  // of the fastest program's time: what saving conversions may cost at most

}  // namespace

size_t Plan::Compiler::Contestant::conversions() const {
  return size_t(std::count_if(program->steps().begin(), program->steps().end(),
                              [](const Program::Step& step) { return step.kind != Program::Step::Kind::op; }));
}

bool Plan::Compiler::Contestant::steady() const { return ms() <= kReliable * least(); }

bool Plan::Compiler::Contestant::reliable() const { return totals.size() >= kLeastRounds && steady(); }

bool Plan::Compiler::add_contestant(Variant& variant, std::vector<Contestant>& list, const std::string& name,
                                    Assignment assignment) {
  for (const Contestant& known : list)
    if (known.assignment.states == assignment.states) return false;
  build_ahead(variant, assignment);
  const double began = elapsed();
  Contestant contestant;
  contestant.name = name;
  contestant.program = plan_.program_of(variant, assignment);
  contestant.assignment = std::move(assignment);
  list.push_back(std::move(contestant));
  build_seconds_ = std::max(build_seconds_, elapsed() - began);
  return true;
}

void Plan::Compiler::add_uniform(Variant& variant, std::vector<Contestant>& list, const char* layout) {
  const std::vector<NodeStates> only = mostly_in(variant.nodes, Layout::parse(layout));
  Assignment uniform = settle(variant, only, false);
  // Where kernels are compiled for it, a program that would be hopeless is not worth making.
  if (builders_ && uniform.ms > kHopelessUniform * list[0].assignment.ms) return;
  if (add_contestant(variant, list, layout, translated(uniform, only, variant.nodes))) list.back().uniform = true;
}

// Programs with the layouts of `of` and everywhere an implementation that was not tried there yet, the cheapest first.
void Plan::Compiler::add_siblings(Variant& variant, std::vector<Contestant>& list, const Assignment& of) {
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
      if (std::any_of(list.begin(), list.end(), [&](const Contestant& c) { return c.assignment.states[n] == int(s); }))
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
    if (!add_contestant(variant, list, "other implementations", std::move(sibling))) break;
  }
}

// All contestants in turns, so that a machine whose speed drifts slows all alike, until those near to the best are told
// apart, or the time is up.
void Plan::Compiler::run_rounds(Variant& variant, std::vector<Contestant>& list) {
  const bool at_once = !plan_.home_->traits().queued;
  std::vector<double> step_ms;
  for (Contestant& contestant : list) {
    if (contestant.totals.empty() && elapsed() < end_)
      run_once(variant, *contestant.program, nullptr);  // touches memory
    contestant.rounds = 0;
  }
  // How much slower than the best a contestant may seem, by its least disturbed steps, to take another turn.
  const auto chance = [](int round) {
    return round < 1 ? kInfinity : round < 3 ? 20 : round < 5 ? 5 : round < 10 ? 2 : kNear;
  };
  for (int round = 0; round < kMostRounds; ++round) {
    double best = kInfinity;
    for (const Contestant& contestant : list) best = std::min(best, contestant.least());
    const auto races = [&](const Contestant& contestant) {
      if (contestant.rounds == 0 || contestant.least() <= chance(round) * best) return true;
      // What seems slow because it was disturbed each time, and should not be by its costs, has not lost yet.
      return !contestant.steady() && contestant.assignment.ms <= kPromising * list[0].assignment.ms;
    };
    if (round >= kLeastRounds && std::all_of(list.begin(), list.end(), [&](const Contestant& contestant) {
          return !races(contestant) || contestant.ms() <= kSteady * contestant.least();
        }))
      break;
    for (Contestant& contestant : list) {
      if (elapsed() > end_) return;
      if (!races(contestant)) continue;
      if (at_once) wake_together();
      const double total = run_once(variant, *contestant.program, at_once ? &step_ms : nullptr);
      contestant.add(total, step_ms);
      ++contestant.rounds;
    }
  }
}

void Plan::Compiler::learn(Variant& variant, const std::vector<Contestant>& list) {
  Lessons lessons;
  for (const Contestant& contestant : list) lessons.add(*contestant.program, contestant.assignment, contestant);
  lessons.apply(variant.nodes, *variant.costs);
}

// So that tables for other machines say what ways take within programs, beside what they take alone.
void Plan::Compiler::note_costs(const std::vector<Contestant>& list) const {
  struct Seen {
    EntryRef entry;
    double sum = 0;
    int count = 0;
  };
  std::map<const Way*, Seen> seen;
  for (const Contestant& contestant : list)
    for (size_t i = 0; i < contestant.samples.size(); ++i) {
      const Program::Step& step = contestant.program->steps()[i];
      if (!step.way || step.runs_elsewhere || !step.runs_too.empty() || contestant.samples[i].size() < kLeastRounds)
        continue;
      Seen& way = seen[step.way];
      way.entry = step.entry;
      way.sum += typical(contestant.samples[i]);
      ++way.count;
    }
  for (const auto& [way, times] : seen) context_.catalog().record_within(*times.entry, *way, times.sum / times.count);
}

// What each node took in the winning program, its conversions included.  Steps were timed in one slice of each stream.
void Plan::Compiler::note_times(Variant& variant, const Contestant& winner) const {
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
// So is what was never measured alone, and so never held against the other ways' results.
void Plan::Compiler::measure_again(Variant& variant, const Contestant& winner) {
  std::map<Way*, std::pair<double, Entry*>> suspects;
  std::map<Way*, Entry*> unknown;
  for (size_t i = 0; i < winner.samples.size(); ++i) {
    const Program::Step& step = winner.program->steps()[i];
    if (!step.way || step.runs_elsewhere || !step.runs_too.empty()) continue;
    const double within = typical(winner.samples[i]), alone = step.way->ms;
    if (!step.way->measured) {
      if (step.kind == Program::Step::Kind::op) unknown[step.way] = step.entry.get();
      continue;
    }
    if (step.kind != Program::Step::Kind::op && alone < within) continue;
    if (std::max(within, alone) > kSuspicious * std::min(within, alone))
      suspects[step.way] = {std::max(suspects[step.way].first, std::abs(within - alone)), step.entry.get()};
  }
  std::vector<std::pair<double, Way*>> order;
  for (const auto& [way, what] : suspects) order.emplace_back(what.first, way);
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  order.resize(std::min(order.size(), kMostSuspects));
  for (const auto& [way, entry] : unknown) {
    suspects[way] = {0, entry};
    order.emplace_back(0, way);
  }
  for (const auto& suspect : order) {
    report("measuring again", double(&suspect - order.data()) / double(order.size()));
    if (elapsed() > stop_) break;
    Entry& entry = *suspects[suspect.second].second;
    for (size_t w = 0; w < entry.ways.size(); ++w)
      if (&entry.ways[w] == suspect.second) context_.catalog().measure_if_it_fits(entry, {w}, MeasureOptions{});
  }
  if (variant.threads) use_threads(variant.threads);
}

// The fastest; or one with fewer conversions, if it is slower by no more than what the two times may be off by: then
// they have not paid for themselves.  Never one that is slower than a uniform layout.
size_t Plan::Compiler::winner_of(const std::vector<Contestant>& list) const {
  size_t best = 0;
  for (size_t i = 1; i < list.size(); ++i)
    if (list[i].ms() < list[best].ms()) best = i;
  const Contestant& fastest = list[best];
  if (!fastest.reliable()) return best;
  double most = kInfinity;
  for (const Contestant& contestant : list)
    if (contestant.uniform) most = std::min(most, contestant.ms());
  for (size_t i = 0; i < list.size(); ++i) {
    const Contestant& other = list[i];
    const double off = std::min(std::sqrt(fastest.variance() + other.variance()), kEqual * fastest.ms());
    if (!other.reliable() || other.ms() > std::min(most, fastest.ms() + off)) continue;
    const size_t count = other.conversions(), least = list[best].conversions();
    if (count < least || (count == least && other.ms() < list[best].ms())) best = i;
  }
  return best;
}

void Plan::Compiler::contest(Variant& variant, std::optional<Assignment> untuned) {
  std::vector<Contestant> list;
  build_seconds_ = 0;
  const bool host = !plan_.home_->traits().queued;
  const double noise = host ? kNoise : 0;
  add_contestant(variant, list, "auto", settle(variant, variant.nodes, true, noise));
  if (tuning_ != Tuning::off) {
    if (untuned && add_contestant(variant, list, "untuned", std::move(*untuned))) list.back().untuned = true;
    for (const char* layout : kUniformLayouts)
      if (elapsed() < stop_) add_uniform(variant, list, layout);
    const auto since = Load::Clock::now();
    run_rounds(variant, list);
    if (host && !context_.catalog().was_disturbed(*plan_.home_, plan_.threads_, since)) note_costs(list);
    for (int i = 0; host && i < kRefinements && elapsed() + build_seconds_ < stop_; ++i) {
      report("refining", double(i) / kRefinements);
      learn(variant, list);
      const size_t before = list.size();
      Assignment again = settle(variant, variant.nodes, true, noise);
      if (measured_) add_siblings(variant, list, again);
      add_contestant(variant, list, "auto", std::move(again));
      add_contestant(variant, list, "more reorders", settle(variant, variant.nodes, true));
      if (list.size() == before) break;
      run_rounds(variant, list);
    }
  }
  // Where the machine was so busy, or the time so short, that the clock does not tell many programs apart, costs decide.
  // But costs are of ops alone, and a program that they prefer may be slower than one made by estimates.
  size_t best = winner_of(list);
  if (host && tuning_ != Tuning::off && !list[best].reliable()) {
    disturbed_ = disturbed_ || !list[best].steady();
    best = list.size() > 1 && list[1].untuned && seems_faster(list[1], list[0]) ? 1 : 0;
  }
  // The rest's programs do a part of the batch only: they would seem fast.
  const double times = plan_.rounds_of(variant);
  for (const Contestant& contestant : list)
    if (!contestant.totals.empty() && !variant.from)
      plan_.timed_.push_back({contestant.name + name_of(variant), contestant.ms() * (host ? times : 1)});
  note_times(variant, list[best]);
  if (measured_) measure_again(variant, list[best]);
  // What stands against the others' results is left out, and the rest compete again.
  for (size_t n = 0; n < variant.nodes.size(); ++n) {
    const State& state = variant.nodes[n].states[size_t(list[best].assignment.states[n])];
    if (!state.way || state.way->usable) continue;
    const std::vector<NodeStates> before = variant.nodes;
    refresh_states(variant.nodes);
    if (std::equal(before.begin(), before.end(), variant.nodes.begin(),
                   [](const NodeStates& a, const NodeStates& b) { return a.states.size() == b.states.size(); }))
      break;  // nothing else can run it
    return contest(variant, std::nullopt);
  }
  variant.assignment = std::move(list[best].assignment);
  variant.program = std::move(list[best].program);
}

}  // namespace pl
