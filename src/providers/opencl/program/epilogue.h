// Epilogue: what convolutions and matrix products do to their sums in the same kernel: bias and post-ops.  Up to two
// inputs may be added or multiplied by (a residual, a gate), with functions and factors before, between and behind
// them.  The kernels' side is kernels/common/epilogue.clh.
#pragma once

#include <functional>

#include "ops/post_ops.h"
#include "providers/opencl/program/kernel_source.h"
#include "providers/opencl/runtime/launch.h"
#include "providers/provider.h"

namespace pl::opencl {

// Defines what the op's post-ops do before an input is joined, BEFORE_SUM(T, x), between two, BETWEEN(T, x), and behind
// the last one, AFTER_SUM(T, x).
void define_post_ops(KernelSource& source, const Op& op);

// Refuses lists of three inputs.  True if it may go on.
bool accept_post_ops(const Op& op, CandidateList& out);
// How many inputs the op's post-ops read.
int operand_count(const Op& op);

// Describes the inputs that post-ops read as the candidate's result, which may be written in their memory.
void place_operands(const Op& op, Candidate& candidate);

// Of kernels that read operands where they write their result (kernels/common/operands.clh): the post-ops and the dtypes
// of their inputs, and the arguments of OPERAND_PARAMETERS.
void define_operands(KernelSource& source, const Op& op);
void pass_operands(Launch& launch, const Op& op);

// Whether the op's post-ops are a few instructions, so that it may be repeated for each sum of a tile.
bool short_epilogue(const Op& op);

struct Epilogue {
  int bias = -1;                 // the input that is the bias (one dimension), -1 if there is none
  int first = -1, last = -1;     // the inputs that post-ops read, in their order; -1: there is none, or one alone
  TensorDesc bias_desc;          // as the candidate described them
  Addressing first_at, last_at;  // given the same dimensions as the kernel's output

  // Of the op's post-ops.  at(i): input i, with the dimensions of the kernel's output.
  void read_operands(const Op& op, const std::function<Addressing(int)>& at);
  void define(KernelSource& source, const Op& op) const;
  void pass(Launch& launch) const;  // the arguments of EPILOGUE_PARAMETERS
};

}  // namespace pl::opencl
