// The caching allocator: what it keeps for reuse is bounded, and a loop of equal calls takes everything from there.
#include <memory>
#include <vector>

#include "check.h"
#include "core/memory.h"

using namespace pl;

namespace {

constexpr size_t kMiB = size_t(1) << 20;

// Blocks without memory.
RawMemory counted(size_t& bytes) {
  return {[&bytes](size_t wanted) {
            auto block = std::make_unique<Block>();
            block->bytes = wanted;
            bytes += wanted;
            return block;
          },
          [&bytes](std::unique_ptr<Block> block) { bytes -= block->bytes; }, nullptr};
}

TEST("sizes_that_grow_leave_little_behind") {
  size_t bytes = 0, most = 0;
  {
    Pool pool("test", counted(bytes));
    for (size_t size = kMiB; size < 9 * kMiB; size += 4096) {
      pool.give(pool.take(size));
      most = std::max(most, bytes);
      const MemoryStatistics now = pool.statistics();
      CHECK(now.in_use == 0);
      CHECK(now.cached == bytes);
    }
  }
  CHECK(most < 128 * kMiB + 6 * 9 * kMiB);  // all sizes together have 10 GiB
  CHECK(bytes == 0);
}

// As a network's activations do: several of a size, smaller from stage to stage, and back.
TEST("a_loop_of_equal_calls_allocates_once") {
  size_t bytes = 0;
  Pool pool("test", counted(bytes));
  const auto step = [&] {
    std::vector<std::unique_ptr<Block>> live;
    for (const size_t size : {64, 64, 48, 32, 32, 24, 16, 16, 12, 8, 8, 6, 4, 8, 16, 32, 64, 96, 3, 2, 1}) {
      live.push_back(pool.take(size * kMiB));
      if (live.size() <= 3) continue;
      pool.give(std::move(live.front()));
      live.erase(live.begin());
    }
    for (auto& block : live) pool.give(std::move(block));
  };
  step();
  const uint64_t before = pool.statistics().allocations;
  for (int i = 0; i < 10; ++i) step();
  CHECK(pool.statistics().allocations == before);
}

// Blocks that another stream uses are left to it, until enough of a size wait, or no memory is left.
TEST("blocks_that_must_be_waited_for_are_taken_last") {
  size_t bytes = 0;
  bool ready = false;
  RawMemory raw = counted(bytes);
  raw.ready = [&](const Block&) { return ready; };
  Pool pool("test", raw);
  for (int i = 0; i < 20; ++i) pool.give(pool.take(kMiB));
  CHECK(pool.statistics().allocations == 4);
  ready = true;
  pool.give(pool.take(kMiB));
  CHECK(pool.statistics().allocations == 4);
  pool.release_cache();
  CHECK(bytes == 0);

  ready = false;
  pool.set_limit(2 * kMiB);
  for (int i = 0; i < 20; ++i) pool.give(pool.take(kMiB));
  CHECK(bytes == 2 * kMiB);
}

}  // namespace
