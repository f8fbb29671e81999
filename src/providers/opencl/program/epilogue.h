// Epilogue: what convolutions and matrix products do to their sums in the same kernel: bias, residual, activation.
// The kernels' side is kernels/common/epilogue.clh.
#pragma once

#include "ops/op.h"
#include "providers/opencl/program/kernel_source.h"
#include "providers/opencl/runtime/launch.h"

namespace pl::opencl {

// Defines ACTIVATION, ACTIVATION_ALPHA and ACTIVATION_BETA from the op's canonical attributes.
void define_activation(KernelSource& source, const Op& op);

// Whether the op's activation is a few instructions, so that it may be repeated for each sum of a tile.
bool short_epilogue(const Op& op);

struct Epilogue {
  int bias = -1;           // the input that is the bias (one dimension), -1 if there is none
  int residual = -1;       // the input that is added as it is, -1 if there is none
  TensorDesc bias_desc;    // as the candidate described them
  Addressing residual_at;  // given the same dimensions as the kernel's output

  void define(KernelSource& source, const Op& op) const;
  void pass(Launch& launch) const;  // the arguments of EPILOGUE_PARAMETERS
};

}  // namespace pl::opencl
