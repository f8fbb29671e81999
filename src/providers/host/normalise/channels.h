// Work by channel (dimension 1): what batch_norm, group_norm and prelu have in common.
#pragma once

#include "providers/host/common/host.h"
#include "providers/host/movement/periodic.h"
#include "providers/host/pointwise/functions.h"

namespace pl::host {

// y = x * scale + shift with scale and shift as floats; steps of 0 or 1 for both; y may be x.
void affine_run(const float* x, const float* scale, const float* shift, int64_t step, float* y, int64_t n);

// A vector parameter of c elements as floats; `fallback` for each where it is absent.
std::vector<float> read_vector(const TensorDesc& desc, const void* data, int64_t count, float fallback);

// Applies y = x * scale[k] + shift[k], and post-ops, to a tensor of any layout, where k runs over dimension 1, or with
// `by_image` over dimensions 0 and 1 (k = n * c + channel).
class ChannelAffine {
 public:
  ChannelAffine(const TensorDesc& x, const TensorDesc& y, bool by_image);
  // Of the first of these inputs, with the op's post-ops, which read others of them.
  ChannelAffine(const std::vector<TensorDesc>& inputs, const TensorDesc& y, const Op& op);
  // operands: what post-ops read, in their order.  y may lie where x or one of them does.
  void run(const void* x, void* y, const float* scale, const float* shift,
           const std::vector<const void*>& operands = {}) const;

 private:
  struct Walked {
    const void* x;
    void* y;
    const float *scale, *shift;
    const std::vector<const void*>& operands;
  };
  void run_periodic(const PeriodicNest& periodic, const Walked& at, const int64_t* offsets, int64_t n) const;
  void run_nest(const Nest& nest, const Walked& at, const int64_t* offsets, int64_t n) const;
  // Post-ops on `count` values; operand k lies from offsets[k] + first * strides[k] on.
  void finish(float* values, int64_t count, const Walked& at, const int64_t* offsets, const int64_t* strides,
              int64_t first) const;

  AppliedPostOps post_ops_;
  std::vector<int> inputs_;  // of the op, that post-ops read, in their order
  bool direct_;
  LoadRun<float> load_;
  StoreRun<float> store_;
  std::vector<PeriodicNest> nests_;  // over y, x, scale and shift, operands
  PaddingZeroer zeroer_;
};

}  // namespace pl::host
