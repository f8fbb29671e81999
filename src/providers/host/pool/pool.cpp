// Kinds pool and adaptive_pool: maximum and average of windows.
#include <limits>

#include "providers/host/common/planes.h"
#include "providers/host/pointwise/vector_math.h"
#include "providers/host/pool/pool_ranges.h"

namespace pl::host {
namespace {

template <class C>
PL_INLINE C join(C a, C b, bool maximum) {
  if constexpr (std::is_same_v<C, float>) return maximum ? math::maximum(a, b) : a + b;
  return maximum ? (a < b ? b : a) : a + b;
}

// Over n neighbours.
template <class C, bool Maximum>
PL_VECTORISED C join_run(const C* x, int64_t n, C start) {
  constexpr int kLanes = 16;
  C lanes[kLanes], result = start;
  int64_t i = 0;
  if (n >= kLanes) {
    for (int l = 0; l < kLanes; ++l) lanes[l] = x[l];
    for (i = kLanes; i + kLanes <= n; i += kLanes)
      for (int l = 0; l < kLanes; ++l) lanes[l] = join(lanes[l], x[i + l], Maximum);
    for (int l = 0; l < kLanes; ++l) result = join(result, lanes[l], Maximum);
  }
  for (; i < n; ++i) result = join(result, x[i], Maximum);
  return result;
}

// y[v] = join(y[v], x[v]): one tap for all channels of a pixel.
template <class C, bool Maximum>
PL_VECTORISED void join_pixel(const C* __restrict x, C* __restrict y, int64_t n) {
  for (int64_t v = 0; v < n; ++v) y[v] = join(y[v], x[v], Maximum);
}

// What a maximum begins with: all of a window that has no element in the input, as dilation may step over that.
template <class C>
C lowest_of(DType dtype) {
  if constexpr (std::is_same_v<C, float>)
    return -math::kInfinity;
  else
    return visit_dtype(dtype, [](auto type) {
      using T = typename decltype(type)::type;
      if constexpr (std::is_integral_v<T>) return C(std::numeric_limits<T>::min());
      return C(0);  // of no dtype that pools take
    });
}

template <class C>
struct PoolBody {
  bool maximum, include_padding;
  C start;
  TensorDesc x_desc, y_desc;
  Planes in, out;
  std::vector<PoolRange> ranges[3];
  LoadRun<C> load;
  StoreRun<C> store;

  // Padded channels hold zeros in x, so they come out as zeros.
  void pixel(const C* x, C* y, const PoolRange& d, const PoolRange& h, const PoolRange& w) const {
    const int64_t width = in.width;
    for (int64_t v = 0; v < width; ++v) y[v] = start;
    for (int64_t i = 0; i < d.count; ++i)
      for (int64_t j = 0; j < h.count; ++j) {
        const C* row = x + (d.first + i * d.step) * in.step[0] + (h.first + j * h.step) * in.step[1];
        for (int64_t k = 0; k < w.count; ++k) {
          const C* from = row + (w.first + k * w.step) * in.step[2];
          maximum ? join_pixel<C, true>(from, y, width) : join_pixel<C, false>(from, y, width);
        }
      }
  }

  // One channel whose pixels are neighbours along w, a window of d by h rows of them.
  C single(const C* x, const PoolRange& d, const PoolRange& h, const PoolRange& w) const {
    C value = start;
    const bool whole_rows = w.count == in.size[2] && w.step == 1 && h.step == 1 && in.step[1] == in.size[2];
    for (int64_t i = 0; i < d.count; ++i) {
      const C* plane = x + (d.first + i * d.step) * in.step[0] + h.first * in.step[1] + w.first;
      if (whole_rows || (w.step == 1 && w.count >= 16)) {
        const int64_t rows = whole_rows ? 1 : h.count, length = whole_rows ? h.count * w.count : w.count;
        for (int64_t j = 0; j < rows; ++j) {
          const C* row = plane + j * h.step * in.step[1];
          value = maximum ? join_run<C, true>(row, length, value) : join_run<C, false>(row, length, value);
        }
        continue;
      }
      for (int64_t j = 0; j < h.count; ++j)
        for (int64_t k = 0; k < w.count; ++k) value = join(value, plane[j * h.step * in.step[1] + k * w.step], maximum);
    }
    return value;
  }

  void operator()(const KernelArguments& arguments) const {
    Staged<C> x(x_desc, input(arguments, 0), load), y(y_desc, output(arguments));
    const int64_t rows = out.images * out.groups * out.size[0] * out.size[1];
    double taps = double(in.width) * double(out.size[2]);
    for (const auto& axis : ranges)
      if (!axis.empty()) taps *= double(axis[axis.size() / 2].count);
    const C* source = x.get();
    C* target = y.get();
    parallel_for(rows, 0.3 * taps + 20, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t oh = row % out.size[1], od = row / out.size[1] % out.size[0];
        const int64_t group = row / out.size[1] / out.size[0] % out.groups,
                      image = row / out.size[1] / out.size[0] / out.groups;
        const C* from = source + image * in.image_step + group * in.group_step;
        C* to = target + image * out.image_step + group * out.group_step + od * out.step[0] + oh * out.step[1];
        const PoolRange &d = ranges[0][size_t(od)], &h = ranges[1][size_t(oh)];
        for (int64_t ow = 0; ow < out.size[2]; ++ow, to += out.step[2]) {
          const PoolRange& w = ranges[2][size_t(ow)];
          if (in.width == 1 && in.step[2] == 1)
            *to = single(from, d, h, w);
          else
            pixel(from, to, d, h, w);
          if (maximum) continue;
          const int64_t count = include_padding ? d.full * h.full * w.full : d.count * h.count * w.count;
          for (int64_t v = 0; v < in.width; ++v) to[v] = C(double(to[v]) / double(count));
        }
      }
    });
    y.commit(store);
  }
};

template <class C>
void add(const Op& op, CandidateList& out, LoadRun<C> load, StoreRun<C> store) {
  const bool adaptive = op.schema->kind == "adaptive_pool";
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    const TensorDesc x = strided_view_as(op.in(0), layout), y = strided_view_as(op.out(), layout);
    const auto in = Planes::of(x), result = Planes::of(y);
    if (!in || !result) continue;
    const bool maximum = op.attributes[attr::mode] == "max";
    PoolBody<C> body{maximum,
                     !adaptive && op.attributes[attr::count_include_pad],
                     maximum ? lowest_of<C>(x.dtype) : C(0),
                     x,
                     y,
                     *in,
                     *result,
                     {},
                     load,
                     store};
    pool_ranges(op, in->size, result->size, body.ranges);
    add_candidate(out, "pool", Quality::fair, {x}, {y}, [body = std::move(body)] { return body; });
  }
}

void list_pool(const Op& op, CandidateList& out) {
  const DType dtype = op.in(0).dtype;
  if (is_floating(dtype))
    add<float>(op, out, float_loader(dtype), float_storer(dtype));
  else
    add<int64_t>(op, out, integer_loader(dtype), integer_storer(dtype));
}
PL_HOST_KIND("pool", list_pool);
PL_HOST_KIND("adaptive_pool", list_pool);

}  // namespace
}  // namespace pl::host
