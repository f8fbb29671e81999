// What matmul and linear share: both are products of stacks of matrices.
#pragma once

#include <memory>

#include "providers/opencl/program/epilogue.h"
#include "providers/opencl/runtime/opencl_provider.h"
#include "providers/opencl/tuning/tuning.h"

namespace pl::opencl {

constexpr int kStackDims = 6;  // dimensions of a stack of matrices before rows (6) and columns (7)

// A tensor as a stack of matrices, of eight dimensions.  `transposed` swaps the last two; a tensor of rank 1 is one
// row, or one column if `vector_is_column`.
Addressing as_matrices(const TensorDesc& desc, bool transposed = false, bool vector_is_column = false);

// All dimensions but the last one as the rows of one matrix; unchanged where they do not lie in order.
TensorDesc as_rows(const TensorDesc& desc);
void swap_dims(Addressing& addressing, int first, int second);

// dst[b, m, n] = activation(sum over k of a[b, m, k] * b[b, k, n] + bias[n] + residual[b, m, n])
// Inputs 0 and 1 are a and b.
struct MatmulTensors {
  Addressing a, b, dst;
  Epilogue epilogue;

  int64_t rows() const { return dst.dims[kStackDims]; }
  int64_t columns() const { return dst.dims[kStackDims + 1]; }
  int64_t depth() const { return a.dims[kStackDims + 1]; }
  int64_t stack() const;  // matrices in dst, padding included
};

std::unique_ptr<Kernel> prepare_matmul_direct(OpenclDevice& device, const Op& op, const MatmulTensors& t);

// The class of a product's shape.
ShapeClass shape_class(const MatmulTensors& t);

// Each adds a candidate like `base`, whose tensors are t, for each tile worth trying; none where it does not suit.
// Register tiles, for CPUs.  b_is_panels: b's columns come in blocks of 16.
void add_matmul_tiled(const Op& op, OpenclDevice& device, const Candidate& base, const MatmulTensors& t,
                      bool b_is_panels, CandidateList& out);
// Tiles in local memory, for GPUs.
void add_matmul_local(const Op& op, OpenclDevice& device, const Candidate& base, const MatmulTensors& t,
                      CandidateList& out);

// All candidates of matmul and linear that use tiles in local memory.
void list_matmul_local(const Op& op, OpenclDevice& device, CandidateList& out);
void list_linear_local(const Op& op, OpenclDevice& device, CandidateList& out);

// On matrix units, as convolutions with a kernel of one position.
void list_matmul_mma(const Op& op, OpenclDevice& device, CandidateList& out);
void list_linear_mma(const Op& op, OpenclDevice& device, CandidateList& out);
void list_grouped_mma(const Op& op, OpenclDevice& device, CandidateList& out);

void list_linear_skinny(const Op& op, OpenclDevice& device, CandidateList& out);  // for few rows
void list_matmul_skinny(const Op& op, OpenclDevice& device, CandidateList& out);

}  // namespace pl::opencl
