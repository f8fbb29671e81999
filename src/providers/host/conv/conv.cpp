// Kinds conv and conv_transpose, as references: exact sums in double, any layout, dtype and shape.  The fast candidates
// of conv lie in conv_depthwise.cpp, conv_pointwise.cpp, conv_direct.cpp and winograd.cpp.
#include "ops/spatial.h"
#include "providers/host/common/reference.h"
#include "providers/host/conv/conv_candidates.h"
#include "providers/host/conv/winograd.h"

namespace pl::host {
namespace {

// One spatial axis: out = in * stride - begin + k * dilation for a transposed convolution, in = out * stride - begin +
// k * dilation for the other.
struct Axis {
  int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, begin = 0;
};

// Positions p of the strided side, first to last, whose partner p * stride + shift lies in [0, size).
struct Span {
  int64_t first, last;
};
Span span_of(int64_t count, int64_t stride, int64_t shift, int64_t size) {
  const int64_t first = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
  const int64_t last = shift >= size ? 0 : (size - shift + stride - 1) / stride;
  return {std::min(first, count), std::min(last, count)};
}

struct ConvBody {
  bool transposed;
  int64_t groups;
  Axis axes[3];
  std::vector<TensorDesc> inputs;  // x, weight, bias, operands of post-ops
  TensorDesc y;
  AppliedPostOps post_ops;

  // target += weight * source for one pair of channels and all kernel positions.
  void channel_pair(const double* x, const double* weight, double* out) const {
    const Axis &d = axes[0], &h = axes[1], &w = axes[2];
    for (int64_t kd = 0; kd < d.kernel; ++kd)
      for (int64_t kh = 0; kh < h.kernel; ++kh)
        for (int64_t kw = 0; kw < w.kernel; ++kw) {
          const double factor = *weight++;
          const auto span = [&](const Axis& axis, int64_t k) {
            const int64_t shift = k * axis.dilation - axis.begin;
            return transposed ? span_of(axis.in, axis.stride, shift, axis.out)
                              : span_of(axis.out, axis.stride, shift, axis.in);
          };
          const Span sd = span(d, kd), sh = span(h, kh), sw = span(w, kw);
          for (int64_t pd = sd.first; pd < sd.last; ++pd)
            for (int64_t ph = sh.first; ph < sh.last; ++ph) {
              const int64_t qd = pd * d.stride + kd * d.dilation - d.begin,
                            qh = ph * h.stride + kh * h.dilation - h.begin;
              const int64_t qw = sw.first * w.stride + kw * w.dilation - w.begin, n = sw.last - sw.first;
              if (transposed)
                add_scaled(factor, x + (pd * h.in + ph) * w.in + sw.first, 1, out + (qd * h.out + qh) * w.out + qw,
                           w.stride, n);
              else
                add_scaled(factor, x + (qd * h.in + qh) * w.in + qw, w.stride,
                           out + (pd * h.out + ph) * w.out + sw.first, 1, n);
            }
        }
  }

  void operator()(const KernelArguments& arguments) const {
    const auto read = [&](size_t i) {
      return PlainDoubles::read(input_desc(inputs, i), input_data(inputs, arguments, i));
    };
    const auto x = read(0), weight = read(1), bias = read(2);
    std::vector<std::vector<double>> operands;
    for (size_t i = 3; i < inputs.size(); ++i) operands.push_back(read(i));
    const int64_t images = y.shape[0], oc = y.shape[1], ic = inputs[0].shape[1];
    int64_t in_size = 1, out_size = 1, kernel = 1;
    for (const Axis& axis : axes) in_size *= axis.in, out_size *= axis.out, kernel *= axis.kernel;
    std::vector<double> result(size_t(y.elements()));
    const int64_t group_ic = ic / groups, group_oc = oc / groups;
    parallel_for(images * oc, double(group_ic * kernel * out_size), [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item) {
        const int64_t n = item / oc, o = item % oc, group = o / group_oc;
        double* out = result.data() + item * out_size;
        std::fill(out, out + out_size, bias.empty() ? 0.0 : bias[size_t(o)]);
        for (int64_t i = 0; i < group_ic; ++i) {
          const int64_t channel = group * group_ic + i;
          // conv: (oc, ic / groups, k); conv_transpose: (ic, oc / groups, k).
          const int64_t pair = transposed ? channel * group_oc + o % group_oc : o * group_ic + i;
          channel_pair(x.data() + (n * ic + channel) * in_size, weight.data() + pair * kernel, out);
        }
        post_ops.apply(out, out_size, [&](int input) { return operands[size_t(input) - 3].data() + item * out_size; });
      }
    });
    PlainDoubles::write(y, output(arguments), result);
  }
};

void list_conv(const Op& op, CandidateList& out) {
  const bool transposed = op.schema->kind == "conv_transpose";
  if (!transposed) {
    if (!Ending::of(op)) refuse_ending(op, out);
    list_depthwise(op, out);
    list_pointwise(op, out);
    list_direct(op, out);
  }
  list_winograd(op, *winograd_isas().list[0], out);
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    ConvBody body;
    body.transposed = transposed;
    body.groups = op.attributes[attr::groups];
    body.post_ops = AppliedPostOps(op);
    body.y = op.out().with_layout(layout);
    const int spatial = op.in(0).rank() - 2;
    for (int i = 0; i < spatial; ++i) {
      const Window window = window_of(op, i);
      Axis& axis = body.axes[3 - spatial + i];
      axis = {window.in, window.out, window.kernel, window.stride, window.dilation, window.begin};
    }
    for (size_t i = 0; i < op.inputs.size(); ++i)
      body.inputs.push_back(i == 0 || i > 2 ? dense_as(op.inputs[i], layout) : dense_plain(op.inputs[i]));
    const auto inputs = body.inputs;
    const TensorDesc y = body.y;
    add_candidate(out, "reference", Quality::reference, inputs, {y}, [body = std::move(body)] { return body; });
  }
}
PL_HOST_KIND("conv", list_conv);
PL_HOST_KIND("conv_transpose", list_conv);

}  // namespace
}  // namespace pl::host
