#include "providers/host/movement/roi_axis.h"

#include <algorithm>
#include <cmath>

namespace pl::host {
namespace {

constexpr int64_t kMostSamples = 1 << 12;  // of a bin along one axis, where the size of a box says how many

}  // namespace

RoiSampling::RoiSampling(const Op& op)
    : ratio(op.attributes[attr::sampling_ratio]),
      scale(float(op.attributes[attr::spatial_scale])),
      aligned(op.attributes[attr::aligned]),
      largest(op.attributes[attr::mode] == "max") {}

// In f32, as other implementations: near a border the rounding decides.
void RoiAxis::place(float first, float end, int64_t count, const RoiSampling& sampling, int64_t size) {
  float length = end - first;
  if (!sampling.aligned) length = std::max(length, 1.0f);
  const float bin = length / float(count);
  const float wanted = std::ceil(bin);
  bins = count;
  each = sampling.ratio > 0 ? sampling.ratio : wanted >= 1 ? int64_t(std::min(wanted, float(kMostSamples))) : 0;
  samples.clear();
  for (int64_t i = 0; i < bins; ++i)
    for (int64_t k = 0; k < each; ++k) {
      float at = first + float(i) * bin + (float(k) + 0.5f) * bin / float(each);
      if (!(at >= -1.0f && at <= float(size))) {  // a NaN, too
        samples.push_back({{0, 0}, {0, 0}});
        continue;
      }
      at = std::max(at, 0.0f);
      const int64_t before = std::min(int64_t(at), size - 1), behind = std::min(before + 1, size - 1);
      const float share = before < size - 1 ? at - float(before) : 0.0f;
      samples.push_back({{before, 1 - share}, {behind, share}});
    }
}

void RoiAxis::merge(int64_t bin, std::vector<RoiPart>& parts) const {
  parts.clear();
  const auto add = [&](const RoiPart& part) {
    if (part.weight == 0) return;
    for (size_t k = parts.size(); k-- > 0 && parts.size() - k <= 2;)
      if (parts[k].pixel == part.pixel) {
        parts[k].weight += part.weight;
        return;
      }
    parts.push_back(part);
  };
  for (int64_t k = bin * each; k < (bin + 1) * each; ++k) {
    add(samples[size_t(k)].before);
    add(samples[size_t(k)].behind);
  }
}

void RoiPlace::find(const RoiSampling& sampling, const float* box, const Planes& in, const Planes& out) {
  const float scale = sampling.scale, shift = sampling.aligned ? 0.5f : 0.0f;
  rows.place(box[1] * scale - shift, box[3] * scale - shift, out.size[1], sampling, in.size[1]);
  columns.place(box[0] * scale - shift, box[2] * scale - shift, out.size[2], sampling, in.size[2]);
  pixels.clear();
  begin.assign(1, 0);
  if (sampling.largest) return;
  std::vector<std::vector<RoiPart>> across(size_t(out.size[2]));
  for (int64_t w = 0; w < out.size[2]; ++w) columns.merge(w, across[size_t(w)]);
  std::vector<RoiPart> down;
  const float each = 1.0f / float(std::max<int64_t>(1, rows.each * columns.each));
  for (int64_t h = 0; h < out.size[1]; ++h) {
    rows.merge(h, down);
    for (int64_t w = 0; w < out.size[2]; ++w) {
      for (const RoiPart& row : down)
        for (const RoiPart& column : across[size_t(w)])
          pixels.push_back({row.pixel * in.step[1] + column.pixel * in.step[2], row.weight * column.weight * each});
      begin.push_back(pixels.size());
    }
  }
}

void check_images(const char* op, const std::vector<int64_t>& images, int64_t count) {
  for (size_t k = 0; k < images.size(); ++k)
    require(images[k] >= 0 && images[k] < count, Code::invalid_argument, op, ": images holds ", images[k],
            " at element ", k, ", expected 0 to ", count - 1);
}

}  // namespace pl::host
