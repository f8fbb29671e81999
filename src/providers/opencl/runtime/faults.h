// Known faults of OpenCL runtimes and drivers (providers/known_faults.h).
#pragma once

#include "providers/known_faults.h"

namespace pl::opencl {

extern const KnownFault kQueueRelease, kSubBuffers, kPocl5MatrixUnits, kPocl5SignedDivision, kPocl3Targets;

}  // namespace pl::opencl
