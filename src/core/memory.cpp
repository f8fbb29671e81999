#include "core/memory.h"

#include <cstring>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "core/device.h"
#include "core/status.h"

namespace pl {
namespace {

// What a pool keeps for reuse at most, beside the most that was in use at once.  Sizes that grow from call to call fit
// into no block that was given back before: 100,000 convolutions of ever larger images left 850 MiB of such.  A loop of
// equal calls needs at most what it has in use for each of its sizes, and is far from this.
constexpr size_t kSpareBytes = size_t(128) << 20;
constexpr size_t kSparePeaks = 4;
constexpr size_t kTrimBytes = size_t(16) << 20;
constexpr int kWaiting = 4;

}  // namespace

Pool::Pool(std::string device_name, RawMemory raw) : device_name_(std::move(device_name)), raw_(std::move(raw)) {}

Pool::~Pool() { release_cache(); }

std::unique_ptr<Block> Pool::take(size_t bytes) {
  const size_t unit = bytes < 65536 ? 64 : 4096;
  require(bytes <= SIZE_MAX / 2, Code::out_of_memory, device_name_, ": ", bytes, " bytes asked for");
  const size_t wanted = (std::max<size_t>(bytes, 1) + unit - 1) / unit * unit;
  std::lock_guard<std::mutex> guard(lock_);
  bool at_once = false;
  const Cache::iterator fit = find(wanted, at_once);
  std::unique_ptr<Block> block;
  if (at_once) {
    block = taken(fit);
  } else {
    const size_t limit = limit_;
    const auto within_limit = [&] { return !limit || held() + wanted <= limit; };
    const auto allocate = [&] {
      if (!within_limit()) return;
      block = raw_.allocate(wanted);
      if (block) statistics_.allocations++;
    };
    allocate();
    if (!block && fit != cache_.end()) block = taken(fit);
    if (!block) {
      release_cache_locked();
      allocate();
    }
    require(block != nullptr, Code::out_of_memory, device_name_, ": no memory for ", wanted, " bytes; ",
            statistics_.in_use, " bytes are in use, nothing is cached",
            limit ? concat(", the limit is ", limit) : std::string());
  }
  statistics_.in_use += block->bytes;
  statistics_.peak = std::max(statistics_.peak, statistics_.in_use);
  statistics_.peak_held = std::max(statistics_.peak_held, held());
  return block;
}

// A block that fits; `at_once`: it may be used now, or enough others wait already.  Of those that wait the one that was
// given back first is ready first, and stands last.
Pool::Cache::iterator Pool::find(size_t wanted, bool& at_once) {
  auto found = cache_.end();
  int waiting = 0;
  for (auto fit = cache_.lower_bound(wanted); fit != cache_.end() && fit->first <= wanted + wanted / 8; ++fit) {
    found = fit;
    at_once = !raw_.ready || raw_.ready(*fit->second) || ++waiting == kWaiting;
    if (at_once) break;
  }
  return found;
}

std::unique_ptr<Block> Pool::taken(Cache::iterator fit) {
  std::unique_ptr<Block> block = std::move(fit->second);
  cache_.erase(fit);
  statistics_.cached -= block->bytes;
  return block;
}

void Pool::give(std::unique_ptr<Block> block) {
  std::lock_guard<std::mutex> guard(lock_);
  statistics_.in_use -= block->bytes;
  statistics_.cached += block->bytes;
  const size_t bytes = block->bytes;
  // Before others of its size: the one given back last is taken first, as its bytes are still near.
  cache_.emplace_hint(cache_.lower_bound(bytes), bytes, std::move(block));
  if (statistics_.cached > kSpareBytes + kSparePeaks * statistics_.peak) release_cache_locked();
}

void Pool::release_cache_locked() {
  for (auto& entry : cache_) raw_.free(std::move(entry.second));
  cache_.clear();
#ifdef __GLIBC__
  // What lies below a block that is still in use goes back to the system only when it is asked for.
  if (statistics_.cached >= kTrimBytes) malloc_trim(0);
#endif
  statistics_.cached = 0;
}

void Pool::release_cache() {
  std::lock_guard<std::mutex> guard(lock_);
  release_cache_locked();
}

MemoryStatistics Pool::statistics() const {
  std::lock_guard<std::mutex> guard(lock_);
  return statistics_;
}

void Pool::reset_peaks() {
  std::lock_guard<std::mutex> guard(lock_);
  statistics_.peak = statistics_.in_use;
  statistics_.peak_held = held();
}

Buffer::Buffer(std::shared_ptr<Device> device, std::shared_ptr<Pool> pool, std::unique_ptr<Block> block)
    : device_(std::move(device)), pool_(std::move(pool)), block_(std::move(block)) {}

Buffer::Buffer(std::shared_ptr<Device> device, std::unique_ptr<Block> block, std::function<void()> release)
    : device_(std::move(device)), block_(std::move(block)), release_(std::move(release)) {}

bool share_memory(const Buffer& a, const Buffer& b) {
  if (memory_of(a) == memory_of(b)) return true;
  if (!a.borrowed() && !b.borrowed()) return false;  // pieces of a pool's
  if (a.handle() || b.handle() || !a.host() || !b.host()) return false;
  const char *first = static_cast<const char*>(a.host()), *second = static_cast<const char*>(b.host());
  return first < second + b.bytes() && second < first + a.bytes();
}

Buffer::~Buffer() {
  if (pool_) {
    pool_->give(std::move(block_));
    return;
  }
  block_.reset();
  if (release_) release_();
}

}  // namespace pl
