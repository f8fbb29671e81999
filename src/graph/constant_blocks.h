// Memory in which constants lie: what several programs read is there once.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "core/memory.h"

namespace pl {

class ConstantBlocks {
 public:
  // Memory that was lent twice is the same, too.
  static const void* place_of(const Buffer& buffer) { return buffer.host() ? buffer.host() : &buffer; }

  // `bytes`: how much of it, from its beginning.  `form`: not the memory itself, but what will be made of it.
  void add(const Buffer& buffer, size_t bytes, const std::string& form = {}) { add({place_of(buffer), form}, bytes); }
  void add(const ConstantBlocks& others) {
    for (const auto& [key, bytes] : others.blocks_) add(key, bytes);
  }
  size_t bytes() const {
    size_t sum = 0;
    for (const auto& block : blocks_) sum += block.second;
    return sum;
  }
  // Of those that are not among the others.
  size_t bytes_beside(const ConstantBlocks& others) const {
    size_t sum = 0;
    for (const auto& [key, bytes] : blocks_)
      if (!others.blocks_.count(key)) sum += bytes;
    return sum;
  }

 private:
  using Key = std::pair<const void*, std::string>;

  void add(const Key& key, size_t bytes) {
    size_t& known = blocks_[key];
    known = known < bytes ? bytes : known;
  }

  std::map<Key, size_t> blocks_;
};

}  // namespace pl
