// The analytical model: what an unmeasured candidate probably costs.
#pragma once

#include "ops/op.h"
#include "providers/provider.h"

namespace pl {

// What a device can do, measured by Catalog::calibrate.
struct Rates {
  double bytes_per_ms = 1e7;           // copy: bytes read plus bytes written
  double flops_per_ms = 5e7;           // single-precision matrix product
  double overhead_ms = 0.005;          // an op on a few elements
  double transfer_bytes_per_ms = 1e7;  // host memory to the device and back
  double transfer_overhead_ms = 0.005;
};

double bytes_of(const Op& op);  // every input and output once
double flops_of(const Op& op);

// Roofline: overhead + max(flops / rate, bytes / bandwidth), divided by the candidate's stated efficiency; or what the
// candidate states itself, but no less than its bytes take.  What packed constants are larger by than the op's, and the
// candidate's further bytes, are added.
double estimate_ms(const Op& op, const Candidate& candidate, const Rates& rates);
// Packing an input: its bytes once in and once out; `launched`: and a launch.
double estimate_ms(const Candidate& candidate, const Packing& packing, const Rates& rates, bool launched = true);

}  // namespace pl
