// scaled_dot_product_attention of few queries and many keys (kernels/attention/attention_few.cl).
#pragma once

#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {

// Candidates where at most eight queries of all heads that share one of k and v stand against any number of keys, by
// ordinary arithmetic: for GPUs.
void list_attention_few(const Op& op, OpenclDevice& device, CandidateList& out);

}  // namespace pl::opencl
