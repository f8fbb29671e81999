// Kind pool_backward: the gradients of pools by their input.  A plane of one image and group of channels at a time, so
// that what windows add to one pixel comes in one order.
#include "ops/pool_backward.h"

#include <cmath>
#include <limits>

#include "ops/spatial.h"
#include "providers/host/common/independent.h"
#include "providers/host/common/planes.h"
#include "providers/host/pool/pool_ranges.h"

namespace pl::host {
namespace {

// A later tap counts where it is larger, or the first NaN.
PL_VECTORISED void join_tap(const float* __restrict x, int32_t tap, float* __restrict best, int32_t* __restrict where,
                            int64_t n) {
  PL_INDEPENDENT
  for (int64_t v = 0; v < n; ++v) {
    const bool larger = !(x[v] <= best[v]) & (best[v] == best[v]);
    best[v] = larger ? x[v] : best[v];
    where[v] = larger ? tap : where[v];
  }
}

struct PoolBackwardBody {
  bool maximum, include_padding;
  TensorDesc x_desc, grad_desc, dx_desc;
  Planes in, out;
  std::vector<PoolRange> ranges[3];
  LoadRun<float> load;
  StoreRun<float> store;

  // Where the taps of a window lie in the plane, and by channel the number of the one that holds the maximum.
  void find_maximum(const float* x, const PoolRange& d, const PoolRange& h, const PoolRange& w, float* best,
                    std::vector<int64_t>& taps, int32_t* where) const {
    taps.clear();
    for (int64_t i = 0; i < d.count; ++i)
      for (int64_t j = 0; j < h.count; ++j)
        for (int64_t k = 0; k < w.count; ++k)
          taps.push_back((d.first + i * d.step) * in.step[0] + (h.first + j * h.step) * in.step[1] +
                         (w.first + k * w.step) * in.step[2]);
    std::copy(x + taps[0], x + taps[0] + in.width, best);
    std::fill(where, where + in.width, 0);
    for (size_t tap = 1; tap < taps.size(); ++tap) join_tap(x + taps[tap], int32_t(tap), best, where, in.width);
  }

  void spread(float* dx, const float* g, const PoolRange& d, const PoolRange& h, const PoolRange& w) const {
    const int64_t width = in.width;
    const int64_t count = include_padding ? d.full * h.full * w.full : d.count * h.count * w.count;
    const float share = 1.0f / float(std::max<int64_t>(count, 1));
    for (int64_t i = 0; i < d.count; ++i)
      for (int64_t j = 0; j < h.count; ++j)
        for (int64_t k = 0; k < w.count; ++k) {
          float* to = dx + (d.first + i * d.step) * in.step[0] + (h.first + j * h.step) * in.step[1] +
                      (w.first + k * w.step) * in.step[2];
          PL_INDEPENDENT
          for (int64_t v = 0; v < width; ++v) to[v] += g[v] * share;
        }
  }

  void operator()(const KernelArguments& arguments) const {
    std::optional<Staged<float>> x;
    if (maximum) x.emplace(x_desc, input(arguments, 0), load);
    Staged<float> grad(grad_desc, input(arguments, maximum ? 1 : 0), load), dx(dx_desc, output(arguments));
    const float* source = x ? x->get() : nullptr;
    const float* gradients = grad.get();
    float* target = dx.get();
    const int64_t positions = out.size[0] * out.size[1] * out.size[2], elements = dx_desc.padded_elements();
    double taps = double(in.width);
    for (const auto& axis : ranges)
      if (!axis.empty()) taps *= double(axis[axis.size() / 2].count);
    parallel_for(elements, 0.1, [&](int64_t begin, int64_t end) { std::fill(target + begin, target + end, 0.0f); });
    parallel_for(in.images * in.groups, double(positions) * (taps + 5), [&](int64_t begin, int64_t end) {
      std::vector<float> best(size_t(in.width));
      std::vector<int64_t> taps;
      std::vector<int32_t> where(best.size());
      for (int64_t plane = begin; plane < end; ++plane) {
        const int64_t image = plane / in.groups, group = plane % in.groups;
        const int64_t base = image * in.image_step + group * in.group_step;
        const float* from = gradients + image * out.image_step + group * out.group_step;
        for (int64_t p = 0; p < positions; ++p) {
          const int64_t od = p / (out.size[1] * out.size[2]), oh = p / out.size[2] % out.size[1], ow = p % out.size[2];
          const float* g = from + od * out.step[0] + oh * out.step[1] + ow * out.step[2];
          const PoolRange &d = ranges[0][size_t(od)], &h = ranges[1][size_t(oh)], &w = ranges[2][size_t(ow)];
          if (!maximum) {
            spread(target + base, g, d, h, w);
            continue;
          }
          if (d.count * h.count * w.count == 0) continue;  // dilation steps over the input
          find_maximum(source + base, d, h, w, best.data(), taps, where.data());
          for (int64_t v = 0; v < in.width; ++v) target[base + taps[size_t(where[size_t(v)])] + v] += g[v];
        }
      }
    });
    dx.commit(store);
  }
};

void list_pool_backward(const Op& op, CandidateList& out) {
  const Op forward = forward_of_pool(op);
  const bool maximum = op.attributes[attr::mode] == "max";
  const DType dtype = op.in(0).dtype;
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    const TensorDesc x = op.out().with_layout(layout), grad = op.inputs.back().with_layout(layout);
    const auto in = Planes::of(x), result = Planes::of(grad);
    if (!in || !result) continue;
    PoolBackwardBody body{
        maximum,
        !maximum && forward.attributes.has(attr::count_include_pad) && forward.attributes[attr::count_include_pad],
        x,
        grad,
        x,
        *in,
        *result,
        {},
        float_loader(dtype),
        float_storer(dtype)};
    pool_ranges(forward, in->size, result->size, body.ranges);
    std::vector<TensorDesc> inputs;
    if (maximum) inputs.push_back(x);
    inputs.push_back(grad);
    add_candidate(out, "pool_backward", Quality::fair, inputs, {x}, [body = std::move(body)] { return body; });
  }
}
PL_HOST_KIND("pool_backward", list_pool_backward);

}  // namespace
}  // namespace pl::host
