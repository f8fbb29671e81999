// Known faults of OpenCL runtimes and drivers (providers/known_faults.h).
#pragma once

#include "providers/known_faults.h"

namespace pl::opencl {

extern const KnownFault kQueueRelease, kSubBuffers, kSeveralThreads, kPocl5MatrixUnits, kPocl5SignedDivision,
    kPocl3Targets, kPoclLinker, kPoclHalfVectors;

// "3.1+debian ..." of a platform's version "OpenCL 3.0 PoCL 3.1+debian ..."; "" of other platforms.
std::string pocl_version(const std::string& platform_version);

// Whether PoCL of this version needs a linker that the directories of `path` (as PATH has them) lack.
bool lacks_linker(const std::string& version, const std::string& path);

}  // namespace pl::opencl
