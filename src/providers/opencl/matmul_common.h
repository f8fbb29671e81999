// What matmul and linear share: both are products of stacks of matrices.
#pragma once

#include <memory>

#include "providers/opencl/epilogue.h"
#include "providers/opencl/opencl_provider.h"

namespace pl::opencl {

constexpr int kStackDims = 6;  // dimensions of a stack of matrices before rows (6) and columns (7)

// A tensor as a stack of matrices, of eight dimensions.  `transposed` swaps the last two; a tensor of rank 1 is one
// row, or one column if `vector_is_column`.
Addressing as_matrices(const TensorDesc& desc, bool transposed = false, bool vector_is_column = false);

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

}  // namespace pl::opencl
