#include "dispatch/call_lists.h"

#include <utility>

#include "core/storage_numbers.h"

namespace pl {
namespace {

constexpr size_t kMostLists = 64;  // an optimizer that works by lists has up to ten for each group of its parameters
constexpr size_t kSeen = 256;

// Calls see(tensor, its number) for each tensor of the calls, as long as it gives true; whether all did.
template <class See>
bool all_tensors(const std::vector<OpCall>& calls, See&& see) {
  uint32_t number = 0;
  for (const OpCall& call : calls)
    for (const auto* list : {&call.inputs, &call.destinations})
      for (const TensorRef& tensor : *list)
        if (!see(tensor, number++)) return false;
  return true;
}

bool is_the_one(const std::weak_ptr<Tensor>& known, const TensorRef& tensor) {
  return !known.owner_before(tensor) && !tensor.owner_before(known);
}

bool are_alike(const CallLists::List& list, const CallLists::Likeness& likeness, const std::vector<OpCall>& calls) {
  if (list.calls.size() != calls.size() || list.places.size() != likeness.first.size()) return false;
  for (size_t i = 0; i < calls.size(); ++i) {
    const CallLists::Call& known = list.calls[i];
    if (known.schema != &calls[i].schema || known.call != calls[i].call || known.inputs != calls[i].inputs.size() ||
        known.outputs != calls[i].destinations.size())
      return false;
  }
  return all_tensors(calls, [&](const TensorRef& tensor, uint32_t number) {
    const CallLists::Place& place = list.places[number];
    if (place.first != likeness.first[number]) return false;
    if (!tensor || is_the_one(place.tensor, tensor)) return true;
    return place.device == &tensor->device() && *place.desc == tensor->desc();
  });
}

}  // namespace

CallLists::Likeness CallLists::likeness(const std::vector<OpCall>& calls) {
  Likeness made;
  size_t count = 0;
  for (const OpCall& call : calls) {
    count += call.inputs.size() + call.destinations.size();
    made.hash = hash_mix(made.hash, reinterpret_cast<uintptr_t>(&call.schema));
    made.hash = hash_mix(made.hash, reinterpret_cast<uintptr_t>(call.call.get()));
    made.hash = hash_mix(made.hash, call.inputs.size());
  }
  made.first.resize(count, kNone);
  StorageNumbers storages(count);
  all_tensors(calls, [&](const TensorRef& tensor, uint32_t number) {
    if (tensor) made.first[number] = storages.add(tensor->buffer().get(), number).first;
    made.hash = hash_mix(made.hash, (tensor ? tensor->hash() : 0) + made.first[number]);
    return true;
  });
  return made;
}

std::shared_ptr<const CallLists::List> CallLists::find(const Likeness& likeness, const std::vector<OpCall>& calls,
                                                       uint64_t epoch) {
  std::shared_ptr<const List> list;
  {
    std::lock_guard<std::mutex> guard(lock_);
    const auto found = lists_.find(likeness.hash);
    if (found == lists_.end()) return nullptr;
    list = found->second;
  }
  if (list->epoch != epoch || !are_alike(*list, likeness, calls)) return nullptr;
  return list;
}

bool CallLists::wants(const Likeness& likeness) {
  std::lock_guard<std::mutex> guard(lock_);
  seen_.resize(kSeen);
  return std::exchange(seen_[likeness.hash % kSeen], likeness.hash) == likeness.hash;
}

void CallLists::put(const Likeness& likeness, std::shared_ptr<const List> list) {
  std::unordered_map<uint64_t, std::shared_ptr<const List>> gone;
  std::lock_guard<std::mutex> guard(lock_);
  if (lists_.size() >= kMostLists) gone.swap(lists_);
  lists_[likeness.hash] = std::move(list);
}

void CallLists::forget() {
  std::unordered_map<uint64_t, std::shared_ptr<const List>> gone;
  std::lock_guard<std::mutex> guard(lock_);
  gone.swap(lists_);
}

}  // namespace pl
