#include "providers/host/normalise/channels.h"

#include "providers/host/common/independent.h"

namespace pl::host {

PL_VECTORISED void affine_run(const float* x, const float* scale, const float* shift, int64_t step, float* y,
                              int64_t n) {
  if (step) {
    PL_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] * scale[i] + shift[i];
  } else {
    const float a = *scale, b = *shift;
    PL_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] * a + b;
  }
}

std::vector<float> read_vector(const TensorDesc& desc, const void* data, int64_t count, float fallback) {
  std::vector<float> values(size_t(count), fallback);
  if (desc.present && count) float_loader(desc.dtype)(data, 0, 1, count, values.data());
  return values;
}

ChannelAffine::ChannelAffine(const TensorDesc& x, const TensorDesc& y, bool by_image, AppliedPostOps post_ops)
    : post_ops_(std::move(post_ops)),
      direct_(x.dtype == DType::f32 && y.dtype == DType::f32),
      load_(float_loader(x.dtype)),
      store_(float_storer(y.dtype)),
      zeroer_(y) {
  Dims parameter = Dims::filled(x.rank(), 1);
  parameter[1] = x.shape[1];
  if (by_image) parameter[0] = x.shape[0];
  for (Nest& nest : make_nests(x.shape, {{y, {}}, {x, {}}, {TensorDesc::dense(DType::f32, parameter), {}}}))
    nests_.emplace_back(std::move(nest), 2);
}

void ChannelAffine::run(const void* x, void* y, const float* scale, const float* shift) const {
  for (const PeriodicNest& periodic : nests_) {
    const Nest& nest = periodic.nest;
    if (const int64_t period = periodic.period) {
      for_each_run(nest, 0.3 * double(period), [&](const int64_t* offsets, int64_t n) {
        const int64_t total = n * period, chunk = periodic.chunk();
        float scales[kChunk], shifts[kChunk], values[kChunk];
        std::copy(scale + offsets[2], scale + offsets[2] + period, scales);
        std::copy(shift + offsets[2], shift + offsets[2] + period, shifts);
        repeat(scales, period, std::min(total, chunk));
        repeat(shifts, period, std::min(total, chunk));
        for (int64_t i = 0; i < total; i += chunk) {
          const int64_t count = std::min(chunk, total - i);
          const float* from = static_cast<const float*>(x) + offsets[1] + i;
          float* to = static_cast<float*>(y) + offsets[0] + i;
          if (!direct_) {
            load_(x, offsets[1] + i, 1, count, values);
            from = to = values;
          }
          affine_run(from, scales, shifts, 1, to, count);
          post_ops_.apply(to, count);
          if (!direct_) store_(values, count, y, offsets[0] + i, 1);
        }
      });
      continue;
    }
    const Loop& run = nest.run();
    const int64_t sy = run.stride[0], sx = run.stride[1], sp = run.stride[2];
    const bool in_place = direct_ && sy == 1 && sx == 1 && (sp == 0 || sp == 1);
    for_each_run(nest, 0.3, [&](const int64_t* offsets, int64_t n) {
      if (in_place) {
        float* target = static_cast<float*>(y) + offsets[0];
        affine_run(static_cast<const float*>(x) + offsets[1], scale + offsets[2], shift + offsets[2], sp, target, n);
        post_ops_.apply(target, n);
        return;
      }
      float values[kChunk];
      for (int64_t start = 0; start < n; start += kChunk) {
        const int64_t count = std::min(kChunk, n - start);
        load_(x, offsets[1] + start * sx, sx, count, values);
        const float *a = scale + offsets[2] + start * sp, *b = shift + offsets[2] + start * sp;
        if (sp == 0 || sp == 1)
          affine_run(values, a, b, sp, values, count);
        else
          for (int64_t i = 0; i < count; ++i) values[i] = values[i] * a[i * sp] + b[i * sp];
        post_ops_.apply(values, count);
        store_(values, count, y, offsets[0] + start * sy, sy);
      }
    });
  }
  zeroer_.run(y);
}

}  // namespace pl::host
