// A made-up device: memory of its own, by handles that the host does not address, in truth on the heap.
#pragma once

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "core/device.h"

namespace pl {

// The only thread that gets memory of such devices, unless it is none.
inline std::atomic<std::thread::id> only_thread_with_memory{};

// The name up to the colon is the fingerprint.
class HeapDevice : public Device {
 public:
  explicit HeapDevice(std::string name, DeviceTraits traits = DeviceTraits())
      : Device(std::move(name), traits, memory_of_heap()) {}

  std::string fingerprint() const override { return name().substr(0, name().find(':')); }
  std::map<std::string, std::string> properties() const override { return {}; }
  void read(Buffer& source, size_t offset, void* destination, size_t bytes) override {
    std::memcpy(destination, at(source, offset), bytes);
  }
  void write(Buffer& destination, size_t offset, const void* source, size_t bytes) override {
    std::memcpy(at(destination, offset), source, bytes);
  }
  void fill_zero(Buffer& destination, size_t offset, size_t bytes) override {
    std::memset(at(destination, offset), 0, bytes);
  }
  void copy(Buffer& source, size_t source_offset, Buffer& destination, size_t destination_offset,
            size_t bytes) override {
    std::memcpy(at(destination, destination_offset), at(source, source_offset), bytes);
  }
  void synchronize() override {}

  static char* at(Buffer& buffer, size_t offset = 0) { return static_cast<char*>(buffer.handle()) + offset; }

 private:
  static RawMemory memory_of_heap() {
    return {[](size_t bytes) -> std::unique_ptr<Block> {
              const std::thread::id only = only_thread_with_memory;
              if (only != std::thread::id() && only != std::this_thread::get_id()) return nullptr;
              auto block = std::make_unique<Block>();
              block->handle = std::malloc(bytes);
              block->bytes = bytes;
              return block;
            },
            [](std::unique_ptr<Block> block) { std::free(block->handle); }, nullptr};
  }
};

}  // namespace pl
