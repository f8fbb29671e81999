#include "core/device.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/status.h"
#include "core/threads.h"

namespace pl {
namespace {

constexpr size_t kStagedBytes = size_t(4) << 20;

// Whether two buffers are the same memory, so that places in them may overlap.
bool same_memory(Buffer& a, Buffer& b) {
  if (&a.device() != &b.device()) return false;
  return &a == &b || (a.handle() && a.handle() == b.handle());
}

bool overlap(size_t a, size_t b, size_t bytes) { return a < b ? b - a < bytes : a - b < bytes; }

}  // namespace

Device::Device(std::string name, const DeviceTraits& traits, RawMemory raw)
    : name_(std::move(name)), traits_(traits), pool_(std::make_shared<Pool>(name_, std::move(raw))) {}

int Device::builders() const { return available_processors(); }

BufferRef Device::allocate(size_t bytes) {
  return std::make_shared<Buffer>(shared_from_this(), pool_, pool_->take(bytes));
}

StreamRef Device::make_stream() { return immediate_stream(this, false); }

StreamRef Device::stream() {
  for (const StreamRef& current : current_streams())
    if (current->owner() == this) return current;
  return immediate_stream(this, true);
}

void Device::read_later(Buffer& source, size_t offset, void* destination, size_t bytes) {
  read(source, offset, destination, bytes);
}

void Device::write_later(Buffer& destination, size_t offset, const void* source, size_t bytes) {
  write(destination, offset, source, bytes);
}

BufferRef Device::allocate_pinned(Device& host, size_t bytes) { return host.allocate(bytes); }

BufferRef Device::part(const BufferRef& whole, size_t offset, size_t bytes) {
  require(traits_.host_addressable, Code::internal, "device ", name_,
          ": a part of a buffer, where memory has no addresses");
  auto block = std::make_unique<Block>();
  block->host = static_cast<char*>(whole->host()) + offset;
  block->bytes = bytes;
  return std::make_shared<Buffer>(shared_from_this(), std::move(block), [whole] {});
}

BufferRef Device::borrow_handle(void*) {
  fail(Code::device, "device ", name_, ": its memory has no handles that could be borrowed; expected an OpenCL device");
}

void Device::gather_places(Buffer& source, const std::vector<size_t>& offsets, size_t unit, Buffer& destination,
                           size_t destination_offset) {
  if (traits_.host_addressable) synchronize();
  for (size_t i = 0; i < offsets.size(); ++i) {
    const size_t to = destination_offset + i * unit;
    if (traits_.host_addressable)
      std::memcpy(static_cast<char*>(destination.host()) + to, static_cast<const char*>(source.host()) + offsets[i],
                  unit);
    else
      copy(source, offsets[i], destination, to, unit);
  }
}

void Device::set_places(Buffer& destination, const std::vector<size_t>& offsets, size_t unit) {
  constexpr uint64_t kAllBits = ~uint64_t(0);
  if (traits_.host_addressable) synchronize();
  for (size_t offset : offsets) {
    if (traits_.host_addressable)
      std::memset(static_cast<char*>(destination.host()) + offset, 0xff, unit);
    else
      write(destination, offset, &kAllBits, unit);
  }
}

bool Device::take(Buffer&, size_t, Buffer&, size_t, size_t) { return false; }

void transfer(Buffer& source, size_t source_offset, Buffer& destination, size_t destination_offset, size_t bytes) {
  if (bytes == 0) return;
  Device &from = source.device(), &to = destination.device();
  if (from.traits().host_addressable && to.traits().host_addressable) {
    from.synchronize();
    to.synchronize();
    const char* first = static_cast<const char*>(source.host()) + source_offset;
    char* target = static_cast<char*>(destination.host()) + destination_offset;
    const uintptr_t apart =
        first < target ? uintptr_t(target) - uintptr_t(first) : uintptr_t(first) - uintptr_t(target);
    if (apart >= bytes)
      copy_bytes(target, first, bytes);
    else if (apart)
      std::memmove(target, first, bytes);
    return;
  }
  if (&from == &to) {
    if (!same_memory(source, destination) || !overlap(source_offset, destination_offset, bytes))
      return from.copy(source, source_offset, destination, destination_offset, bytes);
    if (source_offset == destination_offset) return;
    const BufferRef between = from.allocate(bytes);
    from.copy(source, source_offset, *between, 0, bytes);
    return from.copy(*between, 0, destination, destination_offset, bytes);
  }
  if (to.take(source, source_offset, destination, destination_offset, bytes)) return;
  if (from.traits().host_addressable) {
    from.synchronize();
    to.write(destination, destination_offset, static_cast<const char*>(source.host()) + source_offset, bytes);
  } else if (to.traits().host_addressable) {
    to.synchronize();
    from.read(source, source_offset, static_cast<char*>(destination.host()) + destination_offset, bytes);
  } else {
    std::vector<char> staging(std::min(bytes, kStagedBytes));
    for (size_t at = 0; at < bytes; at += staging.size()) {
      const size_t piece = std::min(staging.size(), bytes - at);
      from.read(source, source_offset + at, staging.data(), piece);
      to.write(destination, destination_offset + at, staging.data(), piece);
    }
  }
}

}  // namespace pl
