// Pools of windows by pieces of 16 bytes, on GPUs (kernels/pool/pool_columns.cl, pool_pieces.cl,
// pool_backward_pieces.cl).
#pragma once

#include "providers/opencl/runtime/opencl_device.h"
#include "providers/provider.h"

namespace pl::opencl {

// Adds candidates for a pool: channels first; channels last and in blocks.  Nothing where they do not suit.
void list_pool_columns(const Op& op, OpenclDevice& device, CandidateList& out);
void list_pool_pieces(const Op& op, OpenclDevice& device, CandidateList& out);
// The same for the gradient of a maximum pool, channels last and in blocks.
void list_pool_backward_pieces(const Op& op, const Op& forward, OpenclDevice& device, CandidateList& out);

}  // namespace pl::opencl
