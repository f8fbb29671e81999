#include "providers/host/normalise/channels.h"

#include <algorithm>

#include "providers/host/common/independent.h"

namespace pl::host {
namespace {

// Of nests: the result is number 0, x number 1.
constexpr int kParameters = 2;
constexpr size_t kOperands = 3;

// A value for each channel, or for each channel of each image.
TensorDesc by_channel(const TensorDesc& x, bool by_image) {
  Dims shape = Dims::filled(x.rank(), 1);
  shape[1] = x.shape[1];
  if (by_image) shape[0] = x.shape[0];
  return TensorDesc::dense(DType::f32, shape);
}

}  // namespace

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

ChannelAffine::ChannelAffine(const TensorDesc& x, const TensorDesc& y, bool by_image)
    : direct_(x.dtype == DType::f32 && y.dtype == DType::f32),
      load_(float_loader(x.dtype)),
      store_(float_storer(y.dtype)),
      zeroer_(y) {
  for (Nest& nest : make_nests(x.shape, {{y, {}}, {x, {}}, {by_channel(x, by_image), {}}}))
    nests_.emplace_back(std::move(nest), kParameters);
}

ChannelAffine::ChannelAffine(const std::vector<TensorDesc>& inputs, const TensorDesc& y, const Op& op)
    : post_ops_(op),
      direct_(inputs[0].dtype == DType::f32 && y.dtype == DType::f32),
      load_(float_loader(inputs[0].dtype)),
      store_(float_storer(y.dtype)),
      zeroer_(y) {
  const TensorDesc& x = inputs[0];
  std::vector<Operand> walked{{y, {}}, {x, {}}, {by_channel(x, false), {}}};
  for (const PostOp& step : post_ops_of(op)) {
    if (!step.reads_input()) continue;
    inputs_.push_back(operand_of(*op.schema, step));
    walked.push_back({inputs[size_t(inputs_.back())], {}});
  }
  for (Nest& nest : make_nests(x.shape, walked)) nests_.emplace_back(std::move(nest), kParameters);
}

void ChannelAffine::finish(float* values, int64_t count, const Walked& at, const int64_t* offsets,
                           const int64_t* strides, int64_t first) const {
  float loaded[kChunk];
  post_ops_.apply(values, count, [&](int input) {
    const size_t k = size_t(std::find(inputs_.begin(), inputs_.end(), input) - inputs_.begin());
    const int64_t stride = strides[kOperands + k], from = offsets[kOperands + k] + first * stride;
    if (direct_ && stride == 1) return static_cast<const float*>(at.operands[k]) + from;
    load_(at.operands[k], from, stride, count, loaded);
    return static_cast<const float*>(loaded);
  });
}

void ChannelAffine::run_periodic(const PeriodicNest& periodic, const Walked& at, const int64_t* offsets,
                                 int64_t n) const {
  const int64_t period = periodic.period, total = n * period, chunk = periodic.chunk();
  const std::vector<int64_t> strides(size_t(periodic.nest.operands), 1);
  float scales[kChunk], shifts[kChunk], values[kChunk];
  std::copy(at.scale + offsets[kParameters], at.scale + offsets[kParameters] + period, scales);
  std::copy(at.shift + offsets[kParameters], at.shift + offsets[kParameters] + period, shifts);
  repeat(scales, period, std::min(total, chunk));
  repeat(shifts, period, std::min(total, chunk));
  const bool in_place = direct_ && inputs_.empty();
  for (int64_t i = 0; i < total; i += chunk) {
    const int64_t count = std::min(chunk, total - i);
    const float* from = direct_ ? static_cast<const float*>(at.x) + offsets[1] + i : values;
    float* to = in_place ? static_cast<float*>(at.y) + offsets[0] + i : values;
    if (!direct_) load_(at.x, offsets[1] + i, 1, count, values);
    affine_run(from, scales, shifts, 1, to, count);
    finish(to, count, at, offsets, strides.data(), i);
    if (!in_place) store_(values, count, at.y, offsets[0] + i, 1);
  }
}

void ChannelAffine::run_nest(const Nest& nest, const Walked& at, const int64_t* offsets, int64_t n) const {
  const int64_t* strides = nest.run().stride;
  const int64_t sy = strides[0], sx = strides[1], sp = strides[kParameters];
  const float *scale = at.scale + offsets[kParameters], *shift = at.shift + offsets[kParameters];
  if (direct_ && inputs_.empty() && sy == 1 && sx == 1 && (sp == 0 || sp == 1)) {
    float* target = static_cast<float*>(at.y) + offsets[0];
    affine_run(static_cast<const float*>(at.x) + offsets[1], scale, shift, sp, target, n);
    post_ops_.apply(target, n);
    return;
  }
  float values[kChunk];
  for (int64_t start = 0; start < n; start += kChunk) {
    const int64_t count = std::min(kChunk, n - start);
    load_(at.x, offsets[1] + start * sx, sx, count, values);
    const float *a = scale + start * sp, *b = shift + start * sp;
    if (sp == 0 || sp == 1)
      affine_run(values, a, b, sp, values, count);
    else
      for (int64_t i = 0; i < count; ++i) values[i] = values[i] * a[i * sp] + b[i * sp];
    finish(values, count, at, offsets, strides, start);
    store_(values, count, at.y, offsets[0] + start * sy, sy);
  }
}

void ChannelAffine::run(const void* x, void* y, const float* scale, const float* shift,
                        const std::vector<const void*>& operands) const {
  const Walked at{x, y, scale, shift, operands};
  for (const PeriodicNest& periodic : nests_) {
    const double work = 0.3 * double(std::max<int64_t>(periodic.period, 1));
    for_each_run(periodic.nest, work, [&](const int64_t* offsets, int64_t n) {
      if (periodic.period)
        run_periodic(periodic, at, offsets, n);
      else
        run_nest(periodic.nest, at, offsets, n);
    });
  }
  zeroer_.run(y);
}

}  // namespace pl::host
