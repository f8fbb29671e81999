// Steps of a program that run as one, those whose kernels may (providers/together.h), at the place of the last of them.
// Before that, small steps that need nothing but what lies there before a run go to its beginning: so weights that
// change are made narrow together, then reordered together.
#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "graph/lowering.h"
#include "providers/building.h"
#include "providers/together.h"

namespace pl {
namespace {

// Steps that may run as one so far, and the first behind one of them that has to run after it.
struct Joined {
  std::vector<int> steps;
  int before = 0;
  size_t summed = 0;  // bytes of parts that they add up
};

}  // namespace

// The kernel of a step that may run as one with others.
const Together* Lowering::joinable(const Step& step) const {
  if (!step.kernel || step.absorbs) return nullptr;
  if (step.workspace.storage >= 0 || step.outputs.empty()) return nullptr;
  size_t bytes = 0;
  bool kept = true;
  for (const auto* places : {&step.inputs, &step.outputs})
    for (const Place& place : *places) bytes += place.bytes;
  for (const Place& place : step.outputs)
    kept = kept && place.storage >= 0 && program_.storages_[size_t(place.storage)].kind == Storage::Kind::output;
  return kept || bytes <= (step.sums ? kMostSummedBytes : kMostJoinedBytes)
             ? dynamic_cast<const Together*>(step.kernel.get())
             : nullptr;
}

// A step's rank is 0 where no step writes what it reads, else one more than those of the steps that do; behind a step
// that stays where it is, it stays too.
void Lowering::prepare_first() {
  std::vector<Step>& steps = program_.steps_;
  constexpr int kStays = -1;
  std::vector<std::optional<int>> written(program_.storages_.size());  // the rank of the steps so far that wrote it
  std::vector<bool> used(program_.storages_.size());
  std::vector<std::pair<int, size_t>> order;  // of those that move, by rank
  std::vector<size_t> others;
  for (size_t n = 0; n < steps.size(); ++n) {
    const Step& step = steps[n];
    int rank = joinable(step) ? 0 : kStays;
    for (const Place& place : step.inputs)
      if (place.storage >= 0 && written[size_t(place.storage)] && rank != kStays) {
        const int before = *written[size_t(place.storage)];
        rank = before == kStays ? kStays : std::max(rank, before + 1);
      }
    for (const Place& place : step.outputs)  // parts of a tensor that steps share, memory of the caller
      if (place.storage < 0 || used[size_t(place.storage)]) rank = kStays;
    for (const auto* places : {&step.inputs, &step.outputs})
      for (const Place& place : *places)
        if (place.storage >= 0) used[size_t(place.storage)] = true;
    for (const Place& place : step.outputs)
      if (place.storage >= 0) written[size_t(place.storage)] = rank;
    if (step.workspace.storage >= 0) written[size_t(step.workspace.storage)] = kStays;
    if (rank == kStays)
      others.push_back(n);
    else
      order.emplace_back(rank, n);
  }
  if (order.empty()) return;
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Step> old = std::move(steps);
  steps.clear();
  for (const auto& [rank, n] : order) steps.push_back(std::move(old[n]));
  for (size_t n : others) steps.push_back(std::move(old[n]));
}

std::vector<std::vector<Lowering::Use>> Lowering::uses() const {
  std::vector<std::vector<Use>> list(program_.storages_.size());
  const auto note = [&](int step, const Place& place, bool writes) {
    if (place.storage >= 0) list[size_t(place.storage)].push_back({step, writes});
  };
  for (int n = 0; n < int(program_.steps_.size()); ++n) {
    const Step& step = program_.steps_[size_t(n)];
    for (const Place& place : step.inputs) note(n, place, false);
    for (const Place& place : step.outputs) note(n, place, true);
    note(n, step.workspace, true);
  }
  return list;
}

template <class Visit>
void Lowering::each_that_waits(const std::vector<std::vector<Use>>& uses, int n, Visit&& visit) const {
  const auto look = [&](const Place& place, bool written) {
    if (place.storage < 0) return;
    for (const Use& use : uses[size_t(place.storage)])
      if (use.step > n && (written || use.writes)) visit(use.step);
  };
  for (const Place& place : program_.steps_[size_t(n)].inputs) look(place, false);
  for (const Place& place : program_.steps_[size_t(n)].outputs) look(place, true);
}

// Small steps that read sums of parts go to where their results are needed, so that nothing keeps the sums from being
// added up together: so gradients by biases are made wide at the end.
void Lowering::postpone_readers_of_sums() {
  std::vector<Step>& steps = program_.steps_;
  const auto all = int(steps.size());
  std::vector<bool> summed(program_.storages_.size()), moves(steps.size());
  for (int n = 0; n < all; ++n) {
    const Step& step = steps[size_t(n)];
    if (!joinable(step)) continue;
    moves[size_t(n)] = !step.sums && std::any_of(step.inputs.begin(), step.inputs.end(), [&](const Place& place) {
      return place.storage >= 0 && summed[size_t(place.storage)];
    });
    if (step.sums || moves[size_t(n)])
      for (const Place& place : step.outputs)
        if (place.storage >= 0) summed[size_t(place.storage)] = true;
  }
  if (std::find(moves.begin(), moves.end(), true) == moves.end()) return;
  const std::vector<std::vector<Use>> used = uses();
  std::vector<int> at(steps.size());  // the step that each goes before
  for (int n = all; n-- > 0;) {
    int first = all;
    if (moves[size_t(n)]) each_that_waits(used, n, [&](int step) { first = std::min(first, at[size_t(step)]); });
    at[size_t(n)] = first < all ? first : n;  // results that nothing waits for are left where they are
  }
  std::vector<int> order(steps.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return at[size_t(a)] < at[size_t(b)]; });
  std::vector<Step> moved;
  for (int n : order) moved.push_back(std::move(steps[size_t(n)]));
  steps = std::move(moved);
}

// When each storage is used first and last.
void Lowering::find_lives() {
  for (Storage& storage : program_.storages_) storage.first = storage.last = -1;
  for (size_t n = 0; n < program_.steps_.size(); ++n) note_uses(program_.steps_[n], int(n));
}

void Lowering::join_steps(bool in_place) {
  std::vector<Step>& steps = program_.steps_;
  const std::vector<std::vector<Use>> used = uses();
  // The first step behind n that has to run after it.
  const auto bound = [&](int n) {
    int first = int(steps.size());
    each_that_waits(used, n, [&](int step) { first = std::min(first, step); });
    return first;
  };
  std::map<std::string, Joined> open;  // by device and what is done
  for (int n = 0; n < int(steps.size()); ++n) {
    const Together* kernel = joinable(steps[size_t(n)]);
    if (!kernel) continue;
    Joined& joined = open[concat(steps[size_t(n)].device->name(), "\n", kernel->alike())];
    const size_t summed = steps[size_t(n)].sums ? steps[size_t(n)].inputs[0].bytes : 0;
    if (!joined.steps.empty() &&
        (n >= joined.before || joined.steps.size() >= kernel->most() || joined.summed + summed > kMostSummedAtOnce)) {
      join(joined.steps, in_place);
      joined = Joined();
    }
    joined.summed += summed;
    joined.before = joined.steps.empty() ? bound(n) : std::min(joined.before, bound(n));
    joined.steps.push_back(n);
  }
  for (const auto& [text, joined] : open) join(joined.steps, in_place);
  for (Step& step : steps) {
    if (step.kind != Step::Kind::reorder || !step.kernel || !step.way || !step.runs_too.empty()) continue;
    const bool fastest = std::none_of(step.entry->ways.begin(), step.entry->ways.end(),
                                      [&](const Way& way) { return way.usable && way.ms < step.way->ms; });
    if (!fastest && joinable(step)) set_reorder(step, step.entry, true);
  }
  find_lives();
}

// The storage that a place is expected to share memory with: of a kept value's new value, that of the old one.
uintptr_t Lowering::expected_memory(const Place& place, bool in_place) const {
  const Storage& storage = program_.storages_[size_t(place.storage)];
  const int32_t kept = storage.kind == Storage::Kind::output ? graph_.outputs()[size_t(storage.index)].kept : -1;
  if (in_place && kept >= 0)
    for (size_t s = 0; s < program_.storages_.size(); ++s) {
      const Storage& old = program_.storages_[s];
      if (old.kind == Storage::Kind::input && graph_.inputs()[size_t(old.index)].kept == kept) return s;
    }
  return uintptr_t(place.storage);
}

void Lowering::run_elsewhere(Step& step) {
  step.expected_ms = std::max(0.0, step.expected_ms - context_.catalog().rates(*step.device).overhead_ms);
  step.runs_elsewhere = true;
  step.kernel = nullptr;
  step.inputs.clear();
  step.outputs.clear();
}

void Lowering::join(const std::vector<int>& list, bool in_place) {
  if (list.size() < 2) return;
  const int host = list.back();
  std::vector<const Together*> kernels;
  std::vector<std::shared_ptr<Kernel>> held;
  std::vector<Place> inputs, outputs;
  std::vector<uintptr_t> read, written;  // the memory of these
  const auto take = [&](const std::vector<Place>& from, std::vector<Place>& to, std::vector<uintptr_t>& memory) {
    for (const Place& place : from) {
      if (place.storage < 0) continue;
      to.push_back(place);
      memory.push_back(expected_memory(place, in_place));
    }
  };
  for (int n : list) {
    const Step& step = program_.steps_[size_t(n)];
    held.push_back(step.kernel);
    kernels.push_back(dynamic_cast<const Together*>(held.back().get()));
    take(step.inputs, inputs, read);
    take(step.outputs, outputs, written);
  }
  std::shared_ptr<Kernel> together;
  try {
    const Building wish(Building::wish() == Building::freely ? Building::freely : Building::never);
    together = kernels[0]->together(kernels, sharing_of(list.size(), read, written));
  } catch (const NotBuilt&) {
    return;
  }
  Step& step = program_.steps_[size_t(host)];
  step.kernel = std::move(together);
  step.inputs = std::move(inputs);
  step.outputs = std::move(outputs);
  for (int n : list) {
    if (n == host) continue;
    run_elsewhere(program_.steps_[size_t(n)]);
    step.runs_too.push_back(n);
  }
}

}  // namespace pl
