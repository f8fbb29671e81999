#include "dispatch/waiting_kernels.h"

#include <algorithm>

#include "dispatch/runner.h"

namespace pl {
namespace {

std::vector<uintptr_t> addresses(const std::vector<Buffer*>& buffers) {
  std::vector<uintptr_t> list;
  for (const Buffer* buffer : buffers) list.push_back(reinterpret_cast<uintptr_t>(buffer));
  return list;
}

}  // namespace

void WaitingKernels::add(One one) {
  int round = 0;
  for (const BufferRef& input : one.inputs)
    if (input) round = std::max(round, uses_[memory_of(*input)].written + 1);
  for (const BufferRef& each : one.outputs)
    if (each) round = std::max({round, uses_[memory_of(*each)].written + 1, uses_[memory_of(*each)].read + 1});
  for (const BufferRef& input : one.inputs)
    if (input) uses_[memory_of(*input)].read = std::max(uses_[memory_of(*input)].read, round);
  for (const BufferRef& each : one.outputs)
    if (each) uses_[memory_of(*each)].written = round;
  if (rounds_.size() <= size_t(round)) rounds_.resize(size_t(round) + 1);
  rounds_[size_t(round)].push_back(std::move(one));
}

void WaitingKernels::start() {
  const std::vector<std::vector<One>> rounds = std::exchange(rounds_, {});
  uses_.clear();
  for (const std::vector<One>& round : rounds) start_round(round);
}

void WaitingKernels::start_round(const std::vector<One>& all) {
  std::vector<bool> taken(all.size());
  for (size_t first = 0; first < all.size(); ++first) {
    if (taken[first]) continue;
    const Together* like = all[first].together;
    const size_t most = like ? like->most() : 1;
    std::vector<const One*> group{&all[first]};
    for (size_t i = first + 1; i < all.size() && group.size() < most; ++i) {
      if (taken[i] || !all[i].together || all[i].entry->device != all[first].entry->device ||
          all[i].together->alike() != like->alike())
        continue;
      taken[i] = true;
      group.push_back(&all[i]);
    }
    start_group(group);
  }
}

void WaitingKernels::start_group(const std::vector<const One*>& group) {
  const One& first = *group[0];
  const bool alone = group.size() == 1;
  std::vector<std::shared_ptr<Kernel>> kernels;
  CallLists::Group made;
  std::vector<Buffer*> in, out;
  const auto take = [&](const std::vector<BufferRef>& buffers, uint32_t number, std::vector<Buffer*>& arguments,
                        std::vector<uint32_t>& numbers) {
    for (const BufferRef& each : buffers) {
      const uint32_t own = number++;
      if (!each && !alone) continue;
      arguments.push_back(each.get());
      numbers.push_back(each ? own : CallLists::kNone);
    }
  };
  for (const One* one : group) {
    kernels.push_back(one->kernel);
    made.entries.push_back(one->entry.get());
    take(one->inputs, one->first_input, in, made.inputs);
    take(one->outputs, one->first_output, out, made.outputs);
  }
  made.way = first.way;
  made.kernel = alone ? first.kernel : joined_.of(kernels, sharing_of(group.size(), addresses(in), addresses(out)));
  made.kind = first.kind;
  made.role = first.role;
  made.cause = first.cause;
  start(runner_, made, in, out);
  if (groups_) groups_->push_back(std::move(made));
}

void WaitingKernels::start(Runner& runner, const CallLists::Group& group, const std::vector<Buffer*>& inputs,
                           const std::vector<Buffer*>& outputs) {
  if (group.entries.size() == 1)
    runner.run_kernel(*group.entries[0], *group.way, *group.kernel, inputs, outputs, group.kind, group.role,
                      group.cause);
  else
    runner.run_joined(group.entries, *group.way, *group.kernel, inputs, outputs, group.kind, group.role, group.cause);
  for (Buffer* each : outputs)
    if (each) each->touch();
}

}  // namespace pl
