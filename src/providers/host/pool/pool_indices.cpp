// Kind pool_indices: where the maxima of pools lie, one window at a time.
#include "ops/pool_indices.h"

#include "ops/spatial.h"
#include "providers/host/common/planes.h"
#include "providers/host/pool/pool_ranges.h"

namespace pl::host {
namespace {

struct PoolIndicesBody {
  TensorDesc x_desc;
  Planes in, out;
  std::vector<PoolRange> ranges[3];
  LoadRun<float> load;
  PaddingZeroer zeroer;

  // Of one channel, whose plane begins at x.
  int64_t place_of(const float* x, const PoolRange& d, const PoolRange& h, const PoolRange& w) const {
    int64_t found = -1;
    float best = 0;
    for (int64_t i = 0; i < d.count; ++i)
      for (int64_t j = 0; j < h.count; ++j)
        for (int64_t k = 0; k < w.count; ++k) {
          const int64_t at[3] = {d.first + i * d.step, h.first + j * h.step, w.first + k * w.step};
          const float value = x[at[0] * in.step[0] + at[1] * in.step[1] + at[2] * in.step[2]];
          if (found >= 0 && value <= best) continue;
          if (found >= 0 && best != best && value == value) continue;
          best = value;
          found = (at[0] * in.size[1] + at[1]) * in.size[2] + at[2];
        }
    return found;
  }

  void operator()(const KernelArguments& arguments) const {
    Staged<float> staged(x_desc, input(arguments, 0), load);
    const float* x = staged.get();
    int64_t* y = static_cast<int64_t*>(output(arguments));
    const int64_t positions = out.size[0] * out.size[1] * out.size[2];
    double taps = double(in.width);
    for (const auto& axis : ranges)
      if (!axis.empty()) taps *= double(axis[axis.size() / 2].count);
    parallel_for(in.images * in.groups, double(positions) * (2 * taps + 5), [&](int64_t begin, int64_t end) {
      for (int64_t plane = begin; plane < end; ++plane) {
        const int64_t image = plane / in.groups, group = plane % in.groups;
        const float* from = x + image * in.image_step + group * in.group_step;
        int64_t* to = y + image * out.image_step + group * out.group_step;
        for (int64_t p = 0; p < positions; ++p) {
          const int64_t od = p / (out.size[1] * out.size[2]), oh = p / out.size[2] % out.size[1], ow = p % out.size[2];
          int64_t* place = to + od * out.step[0] + oh * out.step[1] + ow * out.step[2];
          for (int64_t v = 0; v < in.width; ++v)
            place[v] = place_of(from + v, ranges[0][size_t(od)], ranges[1][size_t(oh)], ranges[2][size_t(ow)]);
        }
      }
    });
    zeroer.run(y);
  }
};

void list_pool_indices(const Op& op, CandidateList& out) {
  const Op forward = forward_of_indices(op);
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    const TensorDesc x = op.in(0).with_layout(layout), y = op.out().with_layout(layout);
    const auto in = Planes::of(x), result = Planes::of(y);
    if (!in || !result) continue;
    PoolIndicesBody body{x, *in, *result, {}, float_loader(x.dtype), PaddingZeroer(y)};
    pool_ranges(forward, in->size, result->size, body.ranges);
    add_candidate(out, "pool_indices", Quality::fair, {x}, {y}, [body = std::move(body)] { return body; });
  }
}
PL_HOST_KIND("pool_indices", list_pool_indices);

}  // namespace
}  // namespace pl::host
