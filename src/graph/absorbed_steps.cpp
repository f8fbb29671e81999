// Steps whose kernels do a neighbour's work, too (Absorbs of providers/together.h): a norm where its rows are multiplied by
// a matrix, what is done to a product's results where they are summed up.
#include <algorithm>
#include <utility>

#include "graph/lowering.h"
#include "providers/building.h"
#include "providers/together.h"

namespace pl {

int Lowering::other_user(const Place& place, int n, const std::vector<std::vector<Use>>& uses) const {
  if (place.storage < 0 || program_.storages_[size_t(place.storage)].kind != Storage::Kind::arena) return -1;
  int other = -1;
  for (const Use& use : uses[size_t(place.storage)]) {
    if (use.step == n) continue;
    if (other >= 0 && other != use.step) return -1;
    other = use.step;
  }
  if (other < 0) return -1;
  const Step &a = program_.steps_[size_t(std::min(n, other))], &b = program_.steps_[size_t(std::max(n, other))];
  const auto writes = [&](const Step& step) {
    return std::count_if(step.outputs.begin(), step.outputs.end(), [&](const Place& p) { return p.storage >= 0; });
  };
  if (a.kind != Step::Kind::op || b.kind != Step::Kind::op || !a.kernel || !b.kernel || a.device != b.device) return -1;
  if (a.workspace.storage >= 0 || b.workspace.storage >= 0 || writes(a) != 1 || writes(b) != 1) return -1;
  const Place& made = a.outputs[0];
  return made.storage == place.storage && made.offset == place.offset && made.bytes == place.bytes ? other : -1;
}

bool Lowering::reads_alike(int earlier, int later, const std::vector<std::vector<Use>>& uses) const {
  const std::vector<Place>& places = program_.steps_[size_t(earlier)].inputs;
  return std::none_of(places.begin(), places.end(), [&](const Place& place) {
    if (place.storage < 0) return false;
    const std::vector<Use>& list = uses[size_t(place.storage)];
    return std::any_of(list.begin(), list.end(),
                       [&](const Use& use) { return use.writes && use.step > earlier && use.step <= later; });
  });
}

bool Lowering::absorb_before(int n, const std::vector<std::vector<Use>>& uses) {
  Step& step = program_.steps_[size_t(n)];
  const auto* kernel = dynamic_cast<const Absorbs*>(step.kernel.get());
  for (size_t i = 0; kernel && i < step.inputs.size(); ++i) {
    const int other = other_user(step.inputs[i], n, uses);
    if (other < 0 || other > n || !reads_alike(other, n, uses)) continue;
    if (std::count_if(step.inputs.begin(), step.inputs.end(),
                      [&](const Place& place) { return place.storage == step.inputs[i].storage; }) != 1)
      continue;
    Step& before = program_.steps_[size_t(other)];
    std::shared_ptr<Kernel> both = kernel->with_before(*before.kernel, int(i));
    if (!both) continue;
    step.kernel = std::move(both);
    step.inputs[i] = before.inputs[0];
    step.inputs.insert(step.inputs.end(), before.inputs.begin() + 1, before.inputs.end());
    step.runs_too.push_back(other);
    step.absorbs = true;
    run_elsewhere(before);
    return true;
  }
  return false;
}

bool Lowering::absorb_behind(int n, const std::vector<std::vector<Use>>& uses) {
  Step& step = program_.steps_[size_t(n)];
  const auto* kernel = dynamic_cast<const Absorbs*>(step.kernel.get());
  if (!kernel) return false;
  const int other = other_user(step.outputs[0], n, uses);
  if (other < n) return false;
  Step& behind = program_.steps_[size_t(other)];
  for (const Place& place : behind.inputs)
    if (place.storage != step.outputs[0].storage || place.offset != step.outputs[0].offset) return false;
  for (const Use& use : uses[size_t(behind.outputs[0].storage)])  // it is written earlier, then
    if (use.step < other) return false;
  std::shared_ptr<Kernel> both = kernel->with_behind(*behind.kernel);
  if (!both) return false;
  step.kernel = std::move(both);
  step.outputs = behind.outputs;
  step.runs_too.push_back(other);
  step.absorbs = true;
  run_elsewhere(behind);
  return true;
}

void Lowering::absorb_steps() {
  const Building wish(Building::wish() == Building::freely ? Building::freely : Building::never);
  std::vector<std::vector<Use>> used = uses();
  for (int n = 0; n < int(program_.steps_.size()); ++n) {
    if (!program_.steps_[size_t(n)].kernel) continue;
    for (bool (Lowering::*absorb)(int, const std::vector<std::vector<Use>>&) :
         {&Lowering::absorb_before, &Lowering::absorb_behind}) {
      try {
        if ((this->*absorb)(n, used)) used = uses();
      } catch (const NotBuilt&) {  // they stay apart
      } catch (const Error& error) {
        if (error.code() != Code::device) throw;  // a driver that cannot build it builds them one by one
      }
    }
  }
}

}  // namespace pl
