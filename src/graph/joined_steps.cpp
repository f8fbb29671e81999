// Steps of a program that run as one, those whose kernels may (providers/together.h): at the place of the first of them
// where no step makes what they read, which is how weights are reordered; else at the place of the last.
#include <algorithm>
#include <map>
#include <utility>

#include "graph/lowering.h"
#include "providers/building.h"
#include "providers/together.h"

namespace pl {
namespace {

// Of all tensors of a step whose results are not outputs: larger ones would be kept in memory until the last of those
// that run with it, and starting it takes little beside its work.
constexpr size_t kSmall = size_t(1) << 20;

// Steps that may run as one so far, and the first behind one of them that has to run after it.
struct Joined {
  std::vector<int> steps;
  int before = 0;
  bool early = false;
};

}  // namespace

void Lowering::join_steps() {
  std::vector<Step>& steps = program_.steps_;
  struct Use {
    int step;
    bool writes;
  };
  std::vector<std::vector<Use>> uses(program_.storages_.size());  // in the order of steps
  const auto note = [&](int step, const Place& place, bool writes) {
    if (place.storage >= 0) uses[size_t(place.storage)].push_back({step, writes});
  };
  for (int n = 0; n < int(steps.size()); ++n) {
    for (const Place& place : steps[size_t(n)].inputs) note(n, place, false);
    for (const Place& place : steps[size_t(n)].outputs) note(n, place, true);
    note(n, steps[size_t(n)].workspace, true);
  }
  // The first step behind n that reads what n writes or writes what n uses.
  const auto bound = [&](int n) {
    int first = int(steps.size());
    const auto look = [&](const Place& place, bool written) {
      if (place.storage < 0) return;
      for (const Use& use : uses[size_t(place.storage)])
        if (use.step > n && (written || use.writes)) {
          first = std::min(first, use.step);
          break;
        }
    };
    for (const Place& place : steps[size_t(n)].inputs) look(place, false);
    for (const Place& place : steps[size_t(n)].outputs) look(place, true);
    return first;
  };
  // Whether no step before n writes what it reads: it may run at any place up to its own.
  const auto needs_none = [&](int n) {
    for (const Place& place : steps[size_t(n)].inputs) {
      if (place.storage < 0) continue;
      for (const Use& use : uses[size_t(place.storage)])
        if (use.step < n && use.writes) return false;
    }
    return true;
  };
  const auto suits = [&](const Step& step) {
    if (step.kind != Step::Kind::op && step.kind != Step::Kind::reorder) return false;
    if (step.workspace.storage >= 0 || step.outputs.empty()) return false;
    size_t bytes = 0;
    bool kept = true;
    for (const auto* places : {&step.inputs, &step.outputs})
      for (const Place& place : *places) bytes += place.bytes;
    for (const Place& place : step.outputs)
      kept = kept && place.storage >= 0 && program_.storages_[size_t(place.storage)].kind == Storage::Kind::output;
    return kept || bytes <= kSmall;
  };
  std::map<std::string, Joined> open;  // by device and what is done
  for (int n = 0; n < int(steps.size()); ++n) {
    const auto* kernel =
        suits(steps[size_t(n)]) ? dynamic_cast<const Together*>(steps[size_t(n)].kernel.get()) : nullptr;
    if (!kernel) continue;
    const bool early = needs_none(n);
    Joined& joined = open[concat(steps[size_t(n)].device->name(), early ? "\nearly\n" : "\n", kernel->alike())];
    joined.early = early;
    if (!joined.steps.empty() && ((!early && n >= joined.before) || joined.steps.size() >= kernel->most())) {
      join(joined.steps, early);
      joined.steps.clear();
    }
    joined.before = joined.steps.empty() ? bound(n) : std::min(joined.before, bound(n));
    joined.steps.push_back(n);
  }
  for (const auto& [text, joined] : open) join(joined.steps, joined.early);
}

void Lowering::join(const std::vector<int>& list, bool early) {
  if (list.size() < 2) return;
  const int host = early ? list.front() : list.back();
  std::vector<const Together*> kernels;
  std::vector<std::shared_ptr<Kernel>> held;
  for (int n : list) {
    held.push_back(program_.steps_[size_t(n)].kernel);
    kernels.push_back(dynamic_cast<const Together*>(held.back().get()));
  }
  std::shared_ptr<Kernel> together;
  try {
    const Building wish(Building::wish() == Building::freely ? Building::freely : Building::never);
    together = kernels[0]->together(kernels);
  } catch (const NotBuilt&) {
    return;
  }
  std::vector<Place> inputs, outputs;
  for (int n : list) {
    Step& step = program_.steps_[size_t(n)];
    for (auto [from, to] : {std::pair(&step.inputs, &inputs), std::pair(&step.outputs, &outputs)})
      for (const Place& place : *from) {
        if (place.storage < 0) continue;
        Storage& storage = program_.storages_[size_t(place.storage)];
        if (to == &outputs) storage.first = early ? std::min(storage.first, host) : host;
        storage.last = std::max(storage.last, host);
        to->push_back(place);
      }
    if (n == host) continue;
    step.expected_ms = std::max(0.0, step.expected_ms - context_.catalog().rates(*step.device).overhead_ms);
    step.runs_elsewhere = true;
    step.kernel = nullptr;
    step.inputs.clear();
    step.outputs.clear();
  }
  Step& step = program_.steps_[size_t(host)];
  step.kernel = std::move(together);
  step.inputs = std::move(inputs);
  step.outputs = std::move(outputs);
  for (int n : list)
    if (n != host) step.runs_too.push_back(n);
}

}  // namespace pl
