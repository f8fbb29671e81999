// Epilogue: what convolutions and matrix products do to their sums in the same kernel: bias and post-ops.  One input
// may be added (the residual), with functions and factors before and behind it.
// The kernels' side is kernels/common/epilogue.clh.
#pragma once

#include "ops/post_ops.h"
#include "providers/opencl/program/kernel_source.h"
#include "providers/opencl/runtime/launch.h"
#include "providers/provider.h"

namespace pl::opencl {

// Defines what the op's post-ops do before an input is added, BEFORE_SUM(T, x), and behind it, AFTER_SUM(T, x).
void define_post_ops(KernelSource& source, const Op& op);

// Whether there is anything before an input is added: kernels that add it to their sums at once cannot do that.
bool has_steps_before_sum(const Op& op);
// Refuses lists of two inputs, and of products with one.  True if it may go on.
bool accept_post_ops(const Op& op, CandidateList& out);

// The input that is added to the op's sums; -1: none.
int added_input(const Op& op);
// Describes the inputs that post-ops read as the candidate's result.
void place_operands(const Op& op, Candidate& candidate);

// Whether the op's post-ops are a few instructions, so that it may be repeated for each sum of a tile.
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
