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

}  // namespace pl::abi
