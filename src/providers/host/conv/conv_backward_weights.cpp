// Kind conv_backward_weights: the gradient of a convolution by its weights, in double, a loop; and what is faster.
#include "providers/host/common/reference.h"
#include "providers/host/conv/conv_candidates.h"
#include "providers/host/conv/winograd.h"

namespace pl::host {
namespace {

struct WeightsAxis {
  int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, begin = 0;

  // The outputs p for which p * stride - begin + k * dilation lies in the input.
  std::pair<int64_t, int64_t> outputs(int64_t k) const {
    const int64_t shift = k * dilation - begin;
    const int64_t first = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
    const int64_t last = in - 1 - shift;  // of p * stride
    return {first, last < 0 ? first : std::max(first, std::min(out, last / stride + 1))};
  }
};

struct WeightsBody {
  TensorDesc x, grad, result;
  int64_t groups;
  WeightsAxis axes[3];

  void operator()(const KernelArguments& arguments) const {
    const std::vector<double> from = PlainDoubles::read(x, input(arguments, 0));
    const std::vector<double> gradients = PlainDoubles::read(grad, input(arguments, 1));
    const int64_t images = x.shape[0], channels = x.shape[1], ic = channels / groups, oc = grad.shape[1];
    const auto &d = axes[0], &h = axes[1], &w = axes[2];
    const int64_t kernel = d.kernel * h.kernel * w.kernel, in = d.in * h.in * w.in, out = d.out * h.out * w.out;
    std::vector<double> weights(size_t(oc * ic * kernel), 0.0);
    parallel_for(oc * ic, 1.0 * double(kernel) * double(images * out), [&](int64_t first, int64_t end) {
      for (int64_t pair = first; pair < end; ++pair) {
        const int64_t o = pair / ic, i = pair % ic, c = o / (oc / groups) * ic + i;
        for (int64_t k = 0; k < kernel; ++k) {
          const int64_t kd = k / (h.kernel * w.kernel), kh = k / w.kernel % h.kernel, kw = k % w.kernel;
          const auto [d0, d1] = d.outputs(kd);
          const auto [h0, h1] = h.outputs(kh);
          const auto [w0, w1] = w.outputs(kw);
          double sum = 0;
          for (int64_t n = 0; n < images; ++n)
            for (int64_t pd = d0; pd < d1; ++pd)
              for (int64_t ph = h0; ph < h1; ++ph) {
                const int64_t id = pd * d.stride - d.begin + kd * d.dilation,
                              ih = ph * h.stride - h.begin + kh * h.dilation;
                const double* row =
                    from.data() + (n * channels + c) * in + (id * h.in + ih) * w.in - w.begin + kw * w.dilation;
                const double* g = gradients.data() + (n * oc + o) * out + (pd * h.out + ph) * w.out;
                for (int64_t pw = w0; pw < w1; ++pw) sum += row[pw * w.stride] * g[pw];
              }
          weights[size_t(pair * kernel + k)] = sum;
        }
      }
    });
    PlainDoubles::write(result, output(arguments), weights);
  }
};

void list_conv_backward_weights(const Op& op, CandidateList& out) {
  list_depthwise_backward_weights(op, out);
  list_winograd_weights(op, *winograd_isas().list[0], out);
  const int spatial = int(op.attributes[attr::spatial]);
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    WeightsBody body{op.in(0).with_layout(layout),
                     op.in(1).with_layout(layout),
                     dense_plain(op.out()),
                     op.attributes[attr::groups],
                     {}};
    for (int i = 0; i < spatial; ++i) {
      const size_t s = size_t(i);
      body.axes[3 - spatial + i] = {op.in(0).shape[2 + i],
                                    op.in(1).shape[2 + i],
                                    op.out().shape[2 + i],
                                    op.attributes[attr::stride][s],
                                    op.attributes[attr::dilation][s],
                                    op.attributes[attr::padding][s]};
    }
    add_candidate(out, "conv_backward_weights", Quality::reference, {body.x, body.grad}, {body.result},
                  [body] { return body; });
  }
}
PL_HOST_KIND("conv_backward_weights", list_conv_backward_weights);

}  // namespace
}  // namespace pl::host
