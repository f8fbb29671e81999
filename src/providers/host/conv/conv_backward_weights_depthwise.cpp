// The gradient of a depthwise convolution by its weights: f32, channels side by side.
//
// A piece of work is a vector of channels of one image: for each row of the window, up to four of its taps at a time,
// the sums stay in registers while x and the gradient are gone through. Sums of images are joined in their order, so
// that results do not depend on the number of threads.
#include "providers/host/conv/conv_candidates.h"

#include "providers/host/common/planes.h"
#include "providers/host/common/simd.h"

namespace pl::host {
namespace {

constexpr int kMostTaps = 4;  // of a row of the window that are taken together

struct DepthwiseAxis {
  int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, begin = 0;

  int64_t at(int64_t p, int64_t k) const { return p * stride - begin + k * dilation; }
  // The first output whose tap k lies in the input, and the first behind them that does not.
  int64_t first(int64_t k) const {
    const int64_t before = begin - k * dilation;
    return before <= 0 ? 0 : std::min(out, (before + stride - 1) / stride);
  }
  int64_t end(int64_t k) const {
    const int64_t last = in - 1 + begin - k * dilation;  // of p * stride
    return last < 0 ? 0 : std::min(out, last / stride + 1);
  }
};

struct Job {
  const float *x = nullptr, *grad = nullptr;
  float* sums = nullptr;  // [image][tap][channel]
  DepthwiseAxis rows, columns;
  int64_t x_row = 0, x_pixel = 0, grad_row = 0, grad_pixel = 0;
  int64_t channels = 0;  // padding included
};

template <int Width>
struct Vector {
  typedef float Type __attribute__((vector_size(4 * Width), aligned(4), may_alias));
};

// The taps kw .. kw + Taps - 1 of row kh of the window.  x, grad and sums are those of the image and its channels.
template <int Width, int Taps>
PL_INLINE void sum_taps(const Job& job, int64_t kh, int64_t kw) {
  using V = typename Vector<Width>::Type;
  const DepthwiseAxis &rows = job.rows, &columns = job.columns;
  const int64_t last = kw + Taps - 1;
  // Outputs all of whose taps lie in the input.
  const int64_t begin = columns.first(kw), end = std::max(begin, columns.end(last));
  const int64_t step = columns.stride * job.x_pixel, apart = columns.dilation * job.x_pixel;
  V total[Taps];
#pragma GCC unroll 4
  for (int i = 0; i < Taps; ++i) total[i] = V{};
  for (int64_t oh = rows.first(kh); oh < rows.end(kh); ++oh) {
    const float* x = job.x + rows.at(oh, kh) * job.x_row;
    const float* grad = job.grad + oh * job.grad_row;
    V sum[Taps];  // of the row: adding few at a time keeps what is small
#pragma GCC unroll 4
    for (int i = 0; i < Taps; ++i) sum[i] = V{};
    const float* from = x + columns.at(begin, kw) * job.x_pixel;
    for (int64_t ow = begin; ow < end; ++ow, from += step) {
      const V g = *reinterpret_cast<const V*>(grad + ow * job.grad_pixel);
#pragma GCC unroll 4
      for (int i = 0; i < Taps; ++i) sum[i] += g * *reinterpret_cast<const V*>(from + i * apart);
    }
#pragma GCC unroll 4
    for (int i = 0; i < Taps; ++i) {
      const auto add = [&](int64_t ow) {
        const V g = *reinterpret_cast<const V*>(grad + ow * job.grad_pixel);
        sum[i] += g * *reinterpret_cast<const V*>(x + columns.at(ow, kw + i) * job.x_pixel);
      };
      const int64_t first = columns.first(kw + i), behind = columns.end(kw + i);
      for (int64_t ow = first; ow < std::min(begin, behind); ++ow) add(ow);
      for (int64_t ow = std::max(end, first); ow < behind; ++ow) add(ow);
      total[i] += sum[i];
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < Taps; ++i)
    *reinterpret_cast<V*>(job.sums + (kh * columns.kernel + kw + i) * job.channels) = total[i];
}

template <int Width>
PL_INLINE void sum_window(const Job& job) {
  const int64_t kernel = job.columns.kernel, pieces = (kernel + kMostTaps - 1) / kMostTaps;
  for (int64_t kh = 0; kh < job.rows.kernel; ++kh)
    for (int64_t piece = 0; piece < pieces; ++piece) {
      const int64_t kw = kernel * piece / pieces, count = kernel * (piece + 1) / pieces - kw;
      switch (count) {
        case 1: sum_taps<Width, 1>(job, kh, kw); break;
        case 2: sum_taps<Width, 2>(job, kh, kw); break;
        case 3: sum_taps<Width, 3>(job, kh, kw); break;
        default: sum_taps<Width, 4>(job, kh, kw);
      }
    }
}

PL_INLINE Job moved(Job job, int64_t channels) {
  job.x += channels, job.grad += channels, job.sums += channels;
  return job;
}

// `count` channels, by vectors of Width and what is left by shorter ones.
template <int Width>
PL_INLINE void sum_channels(const Job& job, int64_t count) {
  int64_t c = 0;
  for (; c + Width <= count; c += Width) sum_window<Width>(moved(job, c));
  if constexpr (Width > 8)
    for (; c + 8 <= count; c += 8) sum_window<8>(moved(job, c));
  if constexpr (Width > 4)
    for (; c + 4 <= count; c += 4) sum_window<4>(moved(job, c));
  for (; c < count; ++c) sum_window<1>(moved(job, c));
}

void sum_baseline(const Job& job, int64_t count) { sum_channels<4>(job, count); }
#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("avx2,fma"))) void sum_avx2(const Job& job, int64_t count) { sum_channels<8>(job, count); }
__attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma"))) void sum_avx512(const Job& job, int64_t count) {
  sum_channels<16>(job, count);
}
#endif

using Sum = void (*)(const Job&, int64_t);

Sum best_sum() {
#if defined(__x86_64__) && defined(__GNUC__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq"))
    return sum_avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return sum_avx2;
#endif
  return sum_baseline;
}

constexpr int64_t kChannels = 16;  // of a piece of work

struct DepthwiseWeightsBody {
  Job job;
  Planes x, grad;
  int64_t channels;  // without padding
  Sum sum;

  int64_t taps() const { return job.rows.kernel * job.columns.kernel; }
  size_t workspace_bytes() const { return size_t(x.images * taps() * job.channels) * sizeof(float); }

  void operator()(const KernelArguments& arguments) const {
    constexpr double kNanoseconds = 0.3;  // of a tap of a piece, at one position
    const auto* from = static_cast<const float*>(input(arguments, 0));
    const auto* gradients = static_cast<const float*>(input(arguments, 1));
    auto* sums = static_cast<float*>(arguments.workspace->host());
    const int64_t pieces = (x.width + kChannels - 1) / kChannels;
    const double positions = double(job.rows.out * job.columns.out);
    parallel_for(x.images * x.groups * pieces, kNanoseconds * double(taps()) * positions,
                 [&](int64_t first, int64_t end) {
                   for (int64_t piece = first; piece < end; ++piece) {
                     const int64_t c = piece % pieces * kChannels, group = piece / pieces % x.groups,
                                   image = piece / pieces / x.groups;
                     Job own = job;
                     own.x = from + image * x.image_step + group * x.group_step + c;
                     own.grad = gradients + image * grad.image_step + group * grad.group_step + c;
                     own.sums = sums + image * taps() * job.channels + group * x.width + c;
                     sum(own, std::min(kChannels, x.width - c));
                   }
                 });
    auto* weights = static_cast<float*>(output(arguments));
    parallel_for(channels, double(taps() * x.images), [&](int64_t first, int64_t end) {
      for (int64_t c = first; c < end; ++c)
        for (int64_t tap = 0; tap < taps(); ++tap) {
          float joined = 0;
          for (int64_t image = 0; image < x.images; ++image) joined += sums[(image * taps() + tap) * job.channels + c];
          weights[c * taps() + tap] = joined;
        }
    });
  }
};

}  // namespace

void list_depthwise_backward_weights(const Op& op, CandidateList& out) {
  const int spatial = int(op.attributes[attr::spatial]);
  const int64_t channels = op.in(0).shape[1];
  if (op.in(0).dtype != DType::f32 || op.in(1).dtype != DType::f32 || op.out().dtype != DType::f32) return;
  if (spatial > 2 || op.attributes[attr::groups] != channels || op.in(1).shape[1] != channels) return;
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    const TensorDesc x = op.in(0).with_layout(layout), grad = op.in(1).with_layout(layout);
    const auto from = Planes::of(x), gradients = Planes::of(grad);
    if (!from || !gradients || from->width < 4 || x.elements() == 0 || grad.elements() == 0) continue;
    DepthwiseWeightsBody body{{}, *from, *gradients, channels, best_sum()};
    for (int i = 0; i < spatial; ++i) {
      const auto of = [&](const Key<Ints>& key) { return op.attributes[key][size_t(i)]; };
      DepthwiseAxis& axis = i + 1 < spatial ? body.job.rows : body.job.columns;
      axis = DepthwiseAxis{x.shape[2 + i],   grad.shape[2 + i],  op.out().shape[2 + i],
                           of(attr::stride), of(attr::dilation), of(attr::padding)};
    }
    body.job.x_row = from->step[1], body.job.x_pixel = from->step[2];
    body.job.grad_row = gradients->step[1], body.job.grad_pixel = gradients->step[2];
    body.job.channels = from->groups * from->width;
    add_candidate(out, "depthwise_backward_weights", Quality::fast, {x, grad}, {dense_plain(op.out())},
                  [body] { return body; });
    out.candidates.back().workspace_bytes = body.workspace_bytes();
  }
}

}  // namespace pl::host
