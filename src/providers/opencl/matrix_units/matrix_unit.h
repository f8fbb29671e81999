// Which matrix units a device has and what its OpenCL compiler lets kernels use of them (kernels/common/mma*.clh).
#pragma once

#include <string>

#include "core/dtype.h"
#include "ops/op.h"
#include "providers/opencl/runtime/capabilities.h"

namespace pl::opencl {

struct MatrixUnit {
  enum class Kind { none, nvidia, amd, intel };
  Kind kind = Kind::none;
  std::string name;          // "mma.sync", "v_mfma (gfx90a)", "subgroup matrices of 16"
  int lanes = 32;            // work-items that execute an instruction together
  int amd_matrix = 0;        // AMD_MATRIX of mma_amd.clh
  int intel_matrix = 0;      // INTEL_MATRIX of mma_intel.clh
  bool block_reads = false;  // Intel: of local memory
  bool wmma = false;         // AMD: v_wmma, not v_mfma
  bool tf32 = false;         // factors of f32 may be rounded to 11 bits
  bool fp32 = false;         // or multiplied as accurately as by fma
  std::string reason;        // Kind::none: why

  explicit operator bool() const { return kind != Kind::none; }
  // Why products of these factors are not for this unit; empty if they are.
  std::string refusal(DType dtype, Math math) const;
};

// By what the device says of itself: on NVIDIA the compute capability, on AMD the name, which is the target's
// ("gfx90a:sramecc+:xnack-"), on Intel the extensions and the sizes of subgroups.
MatrixUnit matrix_unit(const Capabilities& can);

}  // namespace pl::opencl
