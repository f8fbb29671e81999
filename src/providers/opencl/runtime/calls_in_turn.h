// Calls of a driver that one thread makes at a time, against the fault kSeveralThreads (faults.h).
//
// The table's functions take a lock. Builds do not, which take seconds, and in which the driver does nothing else. A
// wait (clFinish, clWaitForEvents, a transfer that blocks) keeps the lock where one thread alone has called the driver,
// of those that live. Where there are several it asks for an event's state again and again, and others have their turns
// in between.
#pragma once

#include "providers/opencl/runtime/api.h"

namespace pl::opencl {

// A table whose functions are those of `driver`, in turn. Of one driver a process: again, that of the first.
const Api* calls_in_turn(const Api& driver);

}  // namespace pl::opencl
