// Lanes: threads that run programs on `cpu` for others, where more of those run programs at once than there are
// processors for.
//
// OpenMP gives each thread that opens parallel regions a team of its own.  Four threads that run a plan of two threads
// on two processors have four teams, whose threads take processors from each other in the midst of regions, and as
// libgomp sees more threads than processors, none of them spins for the next region any more.  So a program runs in the
// thread that called, as long as the callers of the last moments have processors enough for all of their teams.  Where
// they have not, programs wait in a queue, in their order, and lanes run them: as many at a time as there are
// processors for, one right after the other, with a team that stays awake.
#pragma once

#include <cstdint>
#include <functional>

namespace pl {

// Calls `work`, whose parallel regions have `threads` threads, here or in a lane, and returns when it is done.  What it
// throws is thrown here.
void run_in_turn(int threads, const std::function<void()>& work);

struct LaneStatistics {
  uint64_t here = 0, in_lanes = 0;  // programs so far
  int lanes = 0;                    // threads made
};
LaneStatistics lane_statistics();

}  // namespace pl
