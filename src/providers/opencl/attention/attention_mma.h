// scaled_dot_product_attention and its gradients by tiles (kernels/attention/attention_mma.cl,
// attention_backward_mma.cl).
#pragma once

#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {

// Candidates for heads of at most 256 columns whose tiles fit into local memory, on matrix units where the device has
// NVIDIA's, else by ordinary arithmetic.
void list_attention_mma(const Op& op, OpenclDevice& device, CandidateList& out);

// Candidates for gradients, of heads whose tiles fit into local memory and whose sums fit into registers.
void list_attention_backward_mma(const Op& op, OpenclDevice& device, CandidateList& out);

}  // namespace pl::opencl
