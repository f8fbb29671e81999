#include "providers/opencl/runtime/faults.h"

namespace pl::opencl {

const KnownFault kQueueRelease{
    "nvidia-queue-release",
    "NVIDIA OpenCL",
    "",
    "",
    "the release of a command queue that threads have used which have ended since",
    "the release never returns",
    "driver 580 on an H200",
    "a device's context and queue are made once for the process and never closed (runtime/opencl_device.cpp)",
};

const KnownFault kSubBuffers{
    "nvidia-sub-buffers",
    "NVIDIA OpenCL",
    "",
    "",
    "overlapping sub-buffers that kernels have used, released in another order than that of their use",
    "the driver crashes",
    "driver 580 on an H200",
    "plans place values in whole buffers (docs/explanation/planning.md); Device::part refuses",
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

static const KnownFaultRegistration registered[] = {
    KnownFaultRegistration(kQueueRelease), KnownFaultRegistration(kSubBuffers),
    KnownFaultRegistration(kPocl5MatrixUnits), KnownFaultRegistration(kPocl5SignedDivision)};

}  // namespace pl::opencl
