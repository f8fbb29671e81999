// The pointwise-broadcast-reduce generator: from a program of expressions, an OpenCL kernel for tensors of any
// layout and dtype.
//
// Without reductions a work-item computes one element (four neighbours on devices other than CPUs, where memory
// allows) of every output.  With reductions a work-item, or the lanes of a work-group where the reduced axis is the
// contiguous one, folds a chunk of the reduced elements; where there are several chunks a second kernel folds
// their results in order.  There are no atomics: the same call gives the same bits each time on one device.
// Sums of floats are folded in blocks of 128, so that their error does not grow with the length.
//
// Only the structure is compiled in: the expressions, dtypes, number of axes, and which innermost strides are 0
// or 1.  Sizes and other strides are arguments.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ops/pointwise.h"
#include "providers/opencl/pointwise/pointwise_axes.h"
#include "providers/opencl/runtime/launch.h"

namespace pl::opencl {

// One tensor of a computation: its description, aligned to the iteration space by broadcast_to.
struct Operand {
  DType dtype = DType::f32;
  Addressing addressing;
  int argument = 0;  // of inputs: which of KernelArguments' it is
};

struct Computation {
  std::string name;  // in build logs
  pointwise::Program program;
  std::vector<double> scalars;        // s0, s1, ...
  std::string epilogue = "identity";  // a unary function applied to every output
  double epilogue_alpha = 0, epilogue_beta = 0;
  bool saturate = false;  // integers that do not fit are limited to the range instead of wrapped
  bool rounds = false;    // results of f32 to the nearest tf32; only where is_joinable()
  // Of input 0: its elements are sums of so many, in order, each so many elements behind the one before; more than one
  // only where is_joinable().
  int64_t parts = 1, part_stride = 0;
  Dims space;                 // the broadcast shape
  std::vector<bool> reduced;  // by dimension of space
  std::vector<Operand> inputs, outputs;
};

// The prepared kernel.  Outputs are those of KernelArguments, in order; `workspace_bytes` of workspace are needed.
struct ComputationPlan {
  Computation computation;
  Iteration iteration;
  int64_t chunks = 1;  // of the reduced elements, each folded on its own
  int64_t lanes = 1;   // work-items that fold one chunk together
  size_t workspace_bytes = 0;
};

// Decides how to run a computation.  Returns false, with the reason, where the layouts do not fit together.
bool plan_computation(const OpenclDevice& device, Computation computation, ComputationPlan& out, std::string& reason);
std::unique_ptr<Kernel> prepare_computation(OpenclDevice& device, const ComputationPlan& plan);

}  // namespace pl::opencl
