#include "providers/opencl/runtime/faults.h"

#include <unistd.h>

#include <cstdlib>
#include <sstream>

#include "providers/opencl/runtime/loader.h"
#include "providers/opencl/runtime/objects.h"

namespace pl::opencl {

const KnownFault kQueueRelease{
    "nvidia-queue-release",
    "NVIDIA OpenCL",
    "",
    "",
    "the release of a command queue that threads have used which have ended since",
    "the release never returns",
    "driver 580 on an H200",
    "a device's context and queues are made once for the process and never closed; those of streams are used again "
    "(runtime/opencl_device.cpp, runtime/queues.cpp)",
};

const KnownFault kSubBuffers{
    "nvidia-sub-buffers",
    "NVIDIA OpenCL",
    "",
    "",
    "sub-buffers that kernels have used, overlapping or not, released in another order than that of their use",
    "the driver crashes",
    "driver 580 on an H200",
    "plans place values in whole buffers (docs/explanation/planning.md); Device::part refuses",
};

const KnownFault kSeveralThreads{
    "nvidia-several-threads",
    "NVIDIA OpenCL",
    "",
    "",
    "two threads that call the driver at the same time, one of them in a wait: runs of plans, or one that measures "
    "kernels beside another's runs",
    "a thread of the driver's crashes after a few seconds",
    "driver 580: four threads that run four plans on an H100, tune=live of ResNet-50 on an H200; building programs on "
    "other threads is right",
    "one thread at a time calls the driver; where several do, waits are questions with others' turns in between "
    "(runtime/calls_in_turn.h)",
};

const KnownFault kPocl5MatrixUnits{
    "pocl5-matrix-units",
    "PoCL",
    "5.0",
    "6.0",
    "kernels for matrix units, compiled for a processor",
    "sums of tiles are wrong, optimised or not",
    "PoCL 5.0 of Ubuntu 24.04; 3.1 and 6.0 are right",
    "processors are not offered these kernels",
};

const KnownFault kPocl5SignedDivision{
    "pocl5-signed-division",
    "PoCL",
    "5.0",
    "6.0",
    "a signed division or remainder of a local id by a constant",
    "all work-items of a group get the last one's quotient",
    "PoCL 5.0 of Ubuntu 24.04, in reorder_quads and the kernels over groups of rows",
    "kernels divide unsigned local ids",
};

const KnownFault kPocl3Targets{
    "pocl3-targets",
    "PoCL",
    "",
    "3.1",
    "any kernel, on processors newer than the compiler in the Python package pocl-binary-distribution",
    "no kernel is compiled: unknown target CPU 'generic'",
    "pocl-binary-distribution 3.0",
    "ops run by other providers",
    "pip uninstall pocl-binary-distribution; pip install 'pylayout[opencl]'",
};

const KnownFault kPoclHalfVectors{
    "pocl-half-vectors",
    "PoCL",
    "",
    "",
    "vload_half8 from an address that 16 does not divide, on processors",
    "the process ends by a general protection fault, where the compiler makes one access of it",
    "PoCL 3.1+debian and 5.0 on Sapphire Rapids: argmax of f16 along rows of ten",
    "eight halves are loaded by two vload_half4 (kernels/common/dtype.clh)",
};

const KnownFault kPoclLinker{
    "pocl-linker",
    "PoCL",
    "",
    "",
    "any kernel, where Debian's build of PoCL finds no `ld` in PATH",
    "the process is aborted",
    "PoCL 3.1+debian in an environment without a compiler",
    "the runtime's devices are left out",
    "apt-get install binutils, or add the folder of `ld` to PATH",
    [](const std::string& version) {
      const char* path = std::getenv("PATH");
      return lacks_linker(version, path ? path : "");
    },
};

std::string pocl_version(const std::string& platform_version) {
  const size_t at = platform_version.find("PoCL ");
  return at == std::string::npos ? "" : platform_version.substr(at + 5);
}

bool lacks_linker(const std::string& version, const std::string& path) {
  if (version.find("+debian") == std::string::npos) return false;
  std::istringstream folders(path);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (access((folder + "/ld").c_str(), X_OK) == 0) return false;
  return true;
}

namespace {

std::vector<std::string> pocl_versions() {
  std::vector<std::string> versions;
  for (const Platform& platform : opened_platforms()) {
    std::string version = pocl_version(platform.version);
    if (!version.empty()) versions.push_back(std::move(version));
  }
  return versions;
}

// Of the driver: the platform's version is CUDA's.
std::vector<std::string> nvidia_versions() {
  std::vector<std::string> versions;
  for (const Platform& platform : opened_platforms()) {
    if (platform.name.find("NVIDIA") != 0) continue;
    cl_device_id id = nullptr;
    char text[64] = "";
    if (platform.cl->clGetDeviceIDs(platform.id, CL_DEVICE_TYPE_ALL, 1, &id, nullptr) == CL_SUCCESS &&
        platform.cl->clGetDeviceInfo(id, CL_DRIVER_VERSION, sizeof text - 1, text, nullptr) == CL_SUCCESS)
      versions.emplace_back(text);
  }
  return versions;
}

}  // namespace

static const LibraryRegistration pocl("PoCL", pocl_versions), nvidia("NVIDIA OpenCL", nvidia_versions);
static const KnownFaultRegistration registered[] = {
    KnownFaultRegistration(kQueueRelease),        KnownFaultRegistration(kSubBuffers),
    KnownFaultRegistration(kSeveralThreads),      KnownFaultRegistration(kPocl5MatrixUnits),
    KnownFaultRegistration(kPocl5SignedDivision), KnownFaultRegistration(kPocl3Targets),
    KnownFaultRegistration(kPoclLinker),          KnownFaultRegistration(kPoclHalfVectors)};

}  // namespace pl::opencl
