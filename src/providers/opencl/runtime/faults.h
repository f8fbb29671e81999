// Known faults of OpenCL runtimes and drivers (providers/known_faults.h).
#pragma once

#include "providers/known_faults.h"

namespace pl::opencl {

extern const KnownFault kQueueRelease, kSubBuffers, kMeasuringBeside, kPocl5MatrixUnits, kPocl5SignedDivision,
    kPocl3Targets, kPoclLinker, kPoclHalfVectors;

// Whether a platform of this version needs a linker that the directories of `path` (as PATH has them) lack.
bool lacks_linker(const std::string& version, const std::string& path);

}  // namespace pl::opencl
