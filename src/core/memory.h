// Device memory: blocks from a caching pool with exact accounting, and reference-counted buffers over them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace pl {

class Device;

// Host allocations are aligned to this, so that vector loads and OpenCL's use of host memory need no copy.
constexpr size_t kHostAlignment = 4096;  // from 64 KiB on; 128 below

// A raw piece of device memory.  Either `host` is a pointer the host may read and write, or `handle` names
// device memory (a cl_mem), or both.
struct Block {
  void* host = nullptr;
  void* handle = nullptr;
  size_t bytes = 0;
  // What providers keep beside the block as long as it lives, by an address of their own: for instance the
  // cl_mem through which an OpenCL device uses host memory.  Guarded by companions_lock.
  std::map<const void*, std::shared_ptr<void>> companions;
  std::mutex companions_lock;
  // What a device of several streams notes of those that used the block last; guarded by the device.
  std::shared_ptr<void> last_uses;
};

// How a pool gets and returns raw memory.  `allocate` returns nullptr when there is none left.  `ready`, if given:
// whether the calling thread's stream may use a block without waiting for another stream.
struct RawMemory {
  std::function<std::unique_ptr<Block>(size_t bytes)> allocate;
  std::function<void(std::unique_ptr<Block>)> free;
  std::function<bool(const Block&)> ready;
};

struct MemoryStatistics {
  size_t in_use = 0;         // bytes in live buffers
  size_t cached = 0;         // bytes kept for reuse
  size_t peak = 0;           // the most that was in use, since reset_peaks() if that was called
  uint64_t allocations = 0;  // how often raw memory was asked for
  size_t peak_held = 0;      // the most that was in use and cached, since then
};

// A caching allocator.  A freed block is kept and given to the next request it fits without wasting more
// than an eighth; sizes are rounded to 64 bytes (4 KiB from 64 KiB on), never to powers of two.  When raw
// memory or the limit runs out, the cache is released and the request tried again before Error(out_of_memory).
// A block may be given back and taken again while a stream still uses it: devices order that.  One that need not be
// waited for is taken first, and up to kWaiting of a size are left to wait before one of them is taken.  Thread-safe.
class Pool {
 public:
  Pool(std::string device_name, RawMemory raw);
  ~Pool();
  std::unique_ptr<Block> take(size_t bytes);
  void give(std::unique_ptr<Block> block);
  void release_cache();
  void set_limit(size_t bytes) { limit_ = bytes; }  // 0: none
  MemoryStatistics statistics() const;
  void reset_peaks();  // both begin from what there is now

 private:
  using Cache = std::multimap<size_t, std::unique_ptr<Block>>;
  Cache::iterator find(size_t wanted, bool& at_once);
  std::unique_ptr<Block> taken(Cache::iterator fit);
  void release_cache_locked();
  size_t held() const { return statistics_.in_use + statistics_.cached; }
  mutable std::mutex lock_;
  std::string device_name_;
  RawMemory raw_;
  Cache cache_;
  MemoryStatistics statistics_;
  std::atomic<size_t> limit_{0};
};

// Storage of one or more tensors (a tensor and its views).  Thread-safe reference counting by shared_ptr.
class Buffer {
 public:
  // Pooled memory: the block goes back to its pool when the last reference goes.
  Buffer(std::shared_ptr<Device> device, std::shared_ptr<Pool> pool, std::unique_ptr<Block> block);
  // Memory of somebody else: `release` is called (if given) when the last reference goes.
  Buffer(std::shared_ptr<Device> device, std::unique_ptr<Block> block, std::function<void()> release);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  Device& device() const { return *device_; }
  const std::shared_ptr<Device>& device_ref() const { return device_; }
  Block& block() { return *block_; }
  void* host() const { return block_->host; }
  void* handle() const { return block_->handle; }
  size_t bytes() const { return block_->bytes; }
  bool borrowed() const { return !pool_; }

  // The storage version: reordered copies kept with a tensor are valid for one version only.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }
  void touch() { version_.fetch_add(1, std::memory_order_acq_rel); }

 private:
  std::shared_ptr<Device> device_;
  std::shared_ptr<Pool> pool_;
  std::unique_ptr<Block> block_;
  std::function<void()> release_;
  std::atomic<uint64_t> version_{0};
};

using BufferRef = std::shared_ptr<Buffer>;

// By what storages are told apart: what two buffers borrow at one address is one storage.
inline const void* memory_of(const Buffer& buffer) {
  if (buffer.handle()) return buffer.handle();
  return buffer.host() ? buffer.host() : &buffer;
}
// Whether a write to one may change the other: one storage, or borrowed memory of the host that overlaps.
bool share_memory(const Buffer& a, const Buffer& b);

}  // namespace pl
