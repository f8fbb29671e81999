// StorageNumbers: which of many tensors lie in one storage, each asked about in constant time.
//
// Storages are told apart by memory_of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/dims.h"
#include "core/memory.h"

namespace pl {

class StorageNumbers {
 public:
  struct Storage {
    const void* memory = nullptr;
    uint32_t first = 0;  // the number under which it came first
    uint32_t count = 0;  // how often it came
  };

  // For at most `most` storages, in a table that is half empty at least; its memory stays the thread's.
  explicit StorageNumbers(size_t most) : table_(std::move(spare())) {
    size_t size = 16;
    while (size < 2 * most) size *= 2;
    table_.assign(size, {});
  }
  StorageNumbers(const StorageNumbers&) = delete;
  StorageNumbers& operator=(const StorageNumbers&) = delete;
  ~StorageNumbers() { spare() = std::move(table_); }

  const Storage& add(const Buffer* buffer, uint32_t number) {
    const void* memory = memory_of(*buffer);
    Storage& place = place_of(memory);
    if (!place.count++) {
      place.memory = memory;
      place.first = number;
    }
    return place;
  }
  // Null where it did not come.
  const Storage* find(const Buffer* buffer) {
    const Storage& place = place_of(memory_of(*buffer));
    return place.count ? &place : nullptr;
  }

 private:
  static std::vector<Storage>& spare() {
    thread_local std::vector<Storage> table;
    return table;
  }
  // Where it is, or an empty place for it.
  Storage& place_of(const void* memory) {
    const size_t mask = table_.size() - 1;
    size_t at = hash_mix(0, reinterpret_cast<uintptr_t>(memory)) & mask;
    while (table_[at].count && table_[at].memory != memory) at = (at + 1) & mask;
    return table_[at];
  }

  std::vector<Storage> table_;
};

}  // namespace pl
