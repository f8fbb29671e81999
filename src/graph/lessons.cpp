#include "graph/lessons.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace pl {

void Lessons::add(const Program& program, const Assignment& assignment, const StepTimes& times) {
  for (size_t i = 0; i < times.samples.size(); ++i) {
    if (times.samples[i].empty()) continue;
    const Program::Step& step = program.steps()[i];
    if (step.runs_elsewhere || !step.runs_too.empty()) continue;
    const double ms = typical(times.samples[i]);
    if (step.kind == Program::Step::Kind::reorder) {
      // Alone it finds its input in the caches, and nobody waits for its result.
      Moved& moved =
          moved_.try_emplace(step.way, Moved{step.input_descs[0], step.output_descs[0], step.device, ms}).first->second;
      moved.ms = std::min(moved.ms, ms);
    }
    if (step.kind != Program::Step::Kind::op) continue;
    const int state = assignment.states[size_t(step.node)];
    auto [it, added] = at_node_.try_emplace({size_t(step.node), state}, ms);
    if (!added) it->second = std::min(it->second, ms);
    Seen& seen = anywhere_[step.way];
    seen.sum += ms;
    ++seen.count;
  }
}

namespace {

bool is_estimate(const Way& way) { return !way.measured && !way.within && !way.tabled; }

}  // namespace

void Lessons::apply(std::vector<NodeStates>& nodes, ConversionCosts& costs) const {
  const auto time_of = [&](size_t n, size_t s, const Way* way) {
    if (const auto it = at_node_.find({n, int(s)}); it != at_node_.end()) return it->second;
    const auto other = anywhere_.find(way);
    return other == anywhere_.end() ? std::numeric_limits<double>::infinity() : other->second.sum / other->second.count;
  };
  // How far estimates are off throughout: rates that were taken on a busy machine are wrong by as much everywhere.
  constexpr int kEnough = 4;
  double log_error = 0;
  int estimated = 0;
  for (size_t n = 0; n < nodes.size(); ++n)
    for (size_t s = 0; s < nodes[n].states.size(); ++s) {
      const Way* way = nodes[n].states[s].way;
      if (!way || !is_estimate(*way)) continue;
      const double ms = time_of(n, s, way);
      if (std::isinf(ms) || ms <= 0 || way->ms <= 0) continue;
      log_error += std::log(ms / way->ms);
      ++estimated;
    }
  const double error = estimated >= kEnough ? std::exp(log_error / estimated) : 1;
  const auto alone = [&](const State& state) { return cost_of(state) * (is_estimate(*state.way) ? error : 1); };
  for (const auto& [way, moved] : moved_) costs.set(moved.from, *moved.device, moved.to, *moved.device, moved.ms);
  for (size_t n = 0; n < nodes.size(); ++n) {
    NodeStates& node = nodes[n];
    if (node.kind != NodeStates::Kind::op) continue;
    double log_ratio = 0;
    int known = 0;
    std::vector<bool> seen(node.states.size(), false);
    for (size_t s = 0; s < node.states.size(); ++s) {
      State& state = node.states[s];
      if (!state.way) continue;
      const double ms = time_of(n, s, state.way);
      if (std::isinf(ms)) continue;
      seen[s] = true;
      if (state.way->ms > 0 && ms > 0) {
        log_ratio += std::log(ms / alone(state));
        ++known;
      }
      state.ms = ms;
    }
    // Never below what was measured alone: nothing runs faster for being less known.
    const double ratio = known ? std::max(1.0, std::exp(log_ratio / known)) : 1.0;
    for (size_t s = 0; s < node.states.size(); ++s)
      if (!seen[s] && node.states[s].way) node.states[s].ms = alone(node.states[s]) * ratio;
  }
}

Assignment translated(const Assignment& assignment, const std::vector<NodeStates>& from,
                      const std::vector<NodeStates>& nodes) {
  Assignment result = assignment;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const State& state = from[i].states[size_t(assignment.states[i])];
    const auto& all = nodes[i].states;
    const auto it = std::find_if(all.begin(), all.end(), [&](const State& other) {
      return other.way == state.way && other.inputs == state.inputs && other.outputs == state.outputs;
    });
    result.states[i] = it == all.end() ? -1 : int(it - all.begin());
  }
  return result;
}

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

}  // namespace pl
