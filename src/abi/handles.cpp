#include "abi/handles.h"

#include <thread>

namespace pl::abi {

void SlotLock::wait() noexcept {
  for (int spins = 0; taken_.load(std::memory_order_relaxed); ++spins) {
    if (spins < 64) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    } else {
      std::this_thread::yield();
    }
  }
}

// Never destroyed: threads and destructors of the host program may call until the process has ended.
HandleTable<ContextRef>& contexts() {
  static auto& table = *new HandleTable<ContextRef>(1, "pl_context");
  return table;
}

HandleTable<TensorEntry>& tensors() {
  static auto& table = *new HandleTable<TensorEntry>(2, "pl_tensor");
  return table;
}

HandleTable<AttributesEntry>& attribute_sets() {
  static auto& table = *new HandleTable<AttributesEntry>(3, "pl_attributes");
  return table;
}

HandleTable<GraphEntry>& graphs() {
  static auto& table = *new HandleTable<GraphEntry>(4, "pl_graph");
  return table;
}

HandleTable<PlanRef>& plans() {
  static auto& table = *new HandleTable<PlanRef>(5, "pl_plan");
  return table;
}

HandleTable<CandidatesRef>& candidate_sets() {
  static auto& table = *new HandleTable<CandidatesRef>(6, "pl_candidates");
  return table;
}

HandleTable<StreamEntry>& streams() {
  static auto& table = *new HandleTable<StreamEntry>(7, "pl_stream");
  return table;
}

HandleTable<EventEntry>& events() {
  static auto& table = *new HandleTable<EventEntry>(8, "pl_event");
  return table;
}

std::vector<TensorRef> tensors_of(const Context& context, const std::string& what, const pl_tensor* handles,
                                  size_t count, const char* function, const char* argument) {
  require(count == 0 || handles != nullptr, Code::invalid_argument, function, ": ", argument, " is NULL, expected ",
          count, " handles");
  require(count < (size_t(1) << 32), Code::invalid_argument, function, ": ", argument, ": ", count, " are too many");
  std::vector<TensorRef> list;
  list.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    if (!handles[i]) {
      list.emplace_back();
      continue;
    }
    const Context* owner = nullptr;
    list.push_back(tensors().read(value_of(handles[i]), function, argument, [&](const TensorEntry& entry) {
      owner = entry.context.get();
      return entry.tensor;
    }));
    require(owner == &context, Code::invalid_argument, what, ": ", argument, "[", i,
            "] belongs to another context than the one that was given");
  }
  return list;
}

}  // namespace pl::abi
