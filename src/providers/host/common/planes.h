// Planes: an activation (n, c, spatial...) as images of pixels that hold `width` neighbouring channels, for kernels
// that move windows over space.  NCHW has pixels of one channel, NHWC of all, nChw16c of 16.
#pragma once

#include <memory>
#include <optional>

#include "providers/host/common/elements.h"
#include "providers/host/common/host.h"

namespace pl::host {

struct Planes {
  int64_t images = 0, groups = 0, width = 0;  // groups * width is the channel count, block padding included
  int64_t size[3] = {1, 1, 1};                // d, h, w; missing dimensions in front have size 1
  int64_t image_step = 0, group_step = 0, step[3] = {0, 0, 0};  // in elements

  // Nothing for a layout whose pixels do not hold neighbouring channels only.
  static std::optional<Planes> of(const TensorDesc& desc);
};

// A tensor as elements of C: itself where it holds those, else a copy.
template <class C>
class Staged {
 public:
  Staged(const TensorDesc& desc, void* data, LoadRun<C> load) : Staged(desc, data) {
    if (!copy_) return;
    parallel_for(count_, 0.3,
                 [&](int64_t begin, int64_t end) { load(data, begin, 1, end - begin, copy_.get() + begin); });
  }
  // For writing: call commit when done.
  Staged(const TensorDesc& desc, void* data) : data_(data), count_(desc.elements() ? desc.padded_elements() : 0) {
    const bool direct = std::is_same_v<C, float> ? desc.dtype == DType::f32 : desc.dtype == DType::s64;
    if (!direct) copy_.reset(new C[size_t(std::max<int64_t>(count_, 1))]);
  }
  C* get() { return copy_ ? copy_.get() : static_cast<C*>(data_); }
  void commit(StoreRun<C> store) {
    if (!copy_) return;
    parallel_for(count_, 0.3,
                 [&](int64_t begin, int64_t end) { store(copy_.get() + begin, end - begin, data_, begin, 1); });
  }

 private:
  void* data_;
  int64_t count_;
  std::unique_ptr<C[]> copy_;
};

}  // namespace pl::host
