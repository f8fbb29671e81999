// The memory plan: places buffers that live for some of a plan's steps in one block of memory, so that no two that live
// at the same time overlap, and the block is as small as a few good orders of placing them make it.
//
// The problem is dynamic storage allocation, which is NP-hard; greedy placement by size comes close to the liveness
// bound on networks (Pisarchyk and Lee, "Efficient memory management for deep neural net inference", 2020, greedy by
// size).  Here several orders are tried, and the best one is improved by placing first what came to lie on top.
#pragma once

#include <cstddef>
#include <vector>

namespace pl {

struct ArenaBuffer {
  size_t bytes = 0;
  int first = 0;          // the step that writes it
  int last = 0;           // the last step that reads it: alive in between, both inclusive
  size_t alignment = 64;  // of its offset, a power of two; the arena itself must be aligned as much
};

struct ArenaPlan {
  std::vector<size_t> offsets;  // for each buffer, in bytes
  size_t bytes = 0;             // of the arena
  size_t lower_bound = 0;       // the most bytes alive at any one step: no arena is smaller
};

struct SlotPlan {
  std::vector<int> slots;          // for each buffer; -1: it has no bytes
  std::vector<size_t> slot_bytes;  // of each slot: the largest buffer in it
  size_t bytes = 0;                // of all slots
  size_t lower_bound = 0;          // as above
};

// Deterministic.  Buffers that share memory on purpose (in-place results, slices of a concat) are one buffer here,
// alive while any of them is.  Throws Error(internal) for a lifetime that ends before it starts or an alignment that is
// no power of two, Error(out_of_memory) if the sizes add up to more than can be addressed.
ArenaPlan plan_arena(const std::vector<ArenaBuffer>& buffers);

// The same for memory without addresses, where buffers cannot lie at any place of a block but can take turns in a whole
// one ("shared objects" of the paper above, greedy by size).  Alignments do not matter.  Errors are plan_arena's.
SlotPlan plan_slots(const std::vector<ArenaBuffer>& buffers);

}  // namespace pl
