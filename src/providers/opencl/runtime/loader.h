// Finds and opens OpenCL at run time.
//
// Libraries are looked for in this order:
//   1. $PYLAYOUT_OPENCL: the path of a loader or of a runtime to use alone; `none` turns OpenCL off;
//   2. an ICD loader that the process has loaded already (a host framework's, pyopencl's), so that both see
//      the same platforms; else libOpenCL.so.1 of the system; else one in the directories below;
//   3. runtimes that loaders do not find by themselves: libintelocl.so of the Python package intel-opencl-rt,
//      whose .icd file names a directory that does not exist.  Their own entry points are used.
// The directories are those of $PYLAYOUT_OPENCL_PATH (separated by ':'; Python sets it to its environment's
// lib folder) and the folders above this library's own that look like an environment's lib.
//
// No library, no runtime and a runtime that cannot be opened are not errors: they end as sentences in `notes`.
#pragma once

#include <string>
#include <vector>

#include "providers/opencl/runtime/api.h"

namespace pl::opencl {

struct Platform {
  const Api* cl = nullptr;
  cl_platform_id id = nullptr;
  std::string name;     // "Portable Computing Language"
  std::string version;  // "OpenCL 3.0 PoCL 3.1 ..."
};

struct Libraries {
  std::vector<Platform> platforms;
  std::vector<std::string> notes;  // what was loaded, what is missing and how to add it
};

// Opened on the first call, once for the process; never closed (runtimes keep threads).  Thread-safe.
const Libraries& libraries();

// Those of libraries(), if a context of this process has asked for them; else none, and nothing is opened.
std::vector<Platform> opened_platforms();

}  // namespace pl::opencl
