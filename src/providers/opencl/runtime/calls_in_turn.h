// Calls of a driver that one thread makes at a time, against the fault kMeasuringBeside (faults.h).
//
// The table's functions take a lock. Builds do not, which take seconds, and in which the driver does nothing else. Nor
// do waits (clFinish, clWaitForEvents, transfers that block) as long as no PolledWaits lives: nothing else can go on
// where there is one thread. As long as one does, a wait asks for an event's state again and again, and others have
// their turns in between.
#pragma once

#include "providers/opencl/runtime/api.h"

namespace pl::opencl {

// A table whose functions are those of `driver`, in turn. Of one driver a process: again, that of the first.
const Api* calls_in_turn(const Api& driver);

class PolledWaits {
 public:
  PolledWaits();
  ~PolledWaits();
  PolledWaits(const PolledWaits&) = delete;
  PolledWaits& operator=(const PolledWaits&) = delete;
};

}  // namespace pl::opencl
