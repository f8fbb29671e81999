// Several calls at once: kernels that may run as one are started as one, and a list like one before as that was.
#include "dispatch/dispatcher.h"
#include "dispatch/runner.h"
#include "providers/building.h"
#include "providers/together.h"

namespace pl {

// Kernels that read and write the caller's tensors as they are, and nothing else.
std::optional<WaitingKernels::One> Dispatcher::as_waiting(const DecisionRef& decision, const OpCall& call) {
  const auto buffer_of = [](const TensorRef& tensor) { return tensor ? tensor->buffer() : nullptr; };
  WaitingKernels::One one;
  one.cause = decision->schema->name;
  if (decision->copy) {
    if (share_memory(*call.inputs[0]->buffer(), *call.destinations[0]->buffer())) return std::nullopt;
    one.entry = decision->copy_entry;
    one.way = decision->copy_way;
    one.kernel = decision->copy;
    one.together = dynamic_cast<const Together*>(decision->copy.get());
    one.inputs = {call.inputs[0]->buffer()};
    one.outputs = {call.destinations[0]->buffer()};
    one.kind = "reorder";
    one.role = "output";
    return one;
  }
  if (!decision->way || decision->entry->device != decision->home) return std::nullopt;
  const Candidate& candidate = decision->way->candidate;
  if (!candidate.packings.empty() || candidate.workspace_bytes || call.destinations.size() != decision->outputs.size())
    return std::nullopt;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const bool read = candidate.inputs[i].present;
    if (call.inputs[i] && read && !is_direct_input(*decision, i, call.inputs)) return std::nullopt;
    one.inputs.push_back(read ? buffer_of(call.inputs[i]) : nullptr);
  }
  for (size_t i = 0; i < call.destinations.size(); ++i) {
    if (!is_direct(*decision, i, call.inputs, call.destinations)) return std::nullopt;
    one.outputs.push_back(buffer_of(call.destinations[i]));
  }
  one.entry = decision->entry;
  one.way = decision->way;
  one.kernel = decision->kernel;
  one.together = decision->together;
  return one;
}

// As such a list was started before.
void Dispatcher::start_again(const CallLists::List& list, const std::vector<OpCall>& calls) {
  std::vector<Buffer*> storages, in, out;
  storages.reserve(list.places.size());
  for (size_t i = 0; i < calls.size(); ++i) {
    const CallLists::Call& known = list.calls[i];
    for (const auto* tensors : {&calls[i].inputs, &calls[i].destinations})
      for (const TensorRef& tensor : *tensors) storages.push_back(tensor ? tensor->buffer().get() : nullptr);
    note_use(known.entry, known.copies, calls[i]);
  }
  const auto take = [&](const std::vector<uint32_t>& numbers, std::vector<Buffer*>& arguments) {
    arguments.clear();
    for (const uint32_t number : numbers) arguments.push_back(number == CallLists::kNone ? nullptr : storages[number]);
  };
  for (const CallLists::Group& group : list.groups) {
    take(group.inputs, in);
    take(group.outputs, out);
    WaitingKernels::start(runner_, group, in, out);
  }
}

// `copies`: the entry brings a view's elements to where they are wanted; what made them might as well give them so.
void Dispatcher::note_use(const EntryRef& entry, bool copies, const OpCall& call) {
  catalog_.touch(*entry);
  if (copies)
    ranking_.note_read(*call.inputs[0]);
  else
    ranking_.learn(*entry, call.inputs);
}

void Dispatcher::run_all(const std::vector<OpCall>& calls) {
  const CallLists::Likeness likeness = CallLists::likeness(calls);
  const uint64_t epoch = catalog_.epoch();
  const bool lasts = !contest_.turn();  // else calls are chosen for the contest under way
  if (lasts)
    if (const auto known = call_lists_.find(likeness, calls, epoch)) return start_again(*known, calls);
  const Building wish(Building::behind);
  WaitingKernels waiting(runner_, joined_);
  std::shared_ptr<CallLists::List> list;
  if (lasts && call_lists_.wants(likeness)) {
    list = std::make_shared<CallLists::List>();
    list->epoch = epoch;
    waiting.note_into(&list->groups);
  }
  uint32_t number = 0;  // of the call's first tensor
  for (const OpCall& call : calls) {
    const Turn turn = turn_of(call.schema, call.call, call.inputs, call.destinations);
    DecisionRef decision;
    try {
      decision = decision_for(turn, call.schema, call.call, call.inputs, call.destinations);
    } catch (...) {
      waiting.start();
      throw;
    }
    std::optional<WaitingKernels::One> one;
    if (!turn.number) one = as_waiting(decision, call);
    if (!one) {
      list = nullptr;
      waiting.note_into(nullptr);
      waiting.start();
      execute(*decision, turn, call.inputs, call.destinations);
      continue;
    }
    const bool copies = !decision->entry;
    one->first_input = number;
    one->first_output = number + uint32_t(call.inputs.size());
    number += uint32_t(call.inputs.size() + call.destinations.size());
    if (list) add_call(*list, decision, *one, call, likeness);
    note_use(one->entry, copies, call);
    waiting.add(std::move(*one));
  }
  waiting.start();
  if (list && catalog_.epoch() == epoch) call_lists_.put(likeness, std::move(list));
}

void Dispatcher::add_call(CallLists::List& list, const DecisionRef& decision, const WaitingKernels::One& one,
                          const OpCall& call, const CallLists::Likeness& likeness) {
  list.calls.push_back(
      {&call.schema, call.call, call.inputs.size(), call.destinations.size(), one.entry, !decision->entry, decision});
  const auto add = [&](const std::vector<TensorRef>& tensors, const std::vector<TensorDesc>& descs) {
    for (size_t i = 0; i < tensors.size(); ++i)
      list.places.push_back(
          {&descs[i], tensors[i] ? &tensors[i]->device() : nullptr, tensors[i], likeness.first[list.places.size()]});
  };
  add(call.inputs, decision->inputs);
  add(call.destinations, decision->destinations);
}

}  // namespace pl
