// Kind prelu: y = x if x > 0 else weight[c] * x.
#include "providers/host/common/host.h"
#include "providers/host/common/independent.h"
#include "providers/host/movement/periodic.h"

namespace pl::host {
namespace {

PL_VECTORISED void prelu_run(const float* x, const float* slope, int64_t step, float* y, int64_t n) {
  if (step) {
    PL_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] > 0.0f ? x[i] : x[i] * slope[i];
  } else {
    const float a = *slope;
    PL_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] > 0.0f ? x[i] : x[i] * a;
  }
}

struct PreluBody {
  bool direct;
  LoadRun<float> load;
  StoreRun<float> store;
  std::vector<PeriodicNest> nests;  // over y, x, weight
  PaddingZeroer zeroer;

  void operator()(const KernelArguments& arguments) const {
    const void* x = input(arguments, 0);
    const void* weight = input(arguments, 1);
    void* y = output(arguments);
    for (const PeriodicNest& periodic : nests) {
      const Nest& nest = periodic.nest;
      if (const int64_t period = periodic.period) {
        for_each_run(nest, 0.3 * double(period), [&](const int64_t* offsets, int64_t n) {
          const int64_t total = n * period, chunk = periodic.chunk();
          float values[kChunk], slopes[kChunk];
          load(weight, offsets[2], 1, period, slopes);
          repeat(slopes, period, std::min(total, chunk));
          for (int64_t i = 0; i < total; i += chunk) {
            const int64_t count = std::min(chunk, total - i);
            const float* from = static_cast<const float*>(x) + offsets[1] + i;
            float* to = static_cast<float*>(y) + offsets[0] + i;
            if (!direct) {
              load(x, offsets[1] + i, 1, count, values);
              from = to = values;
            }
            prelu_run(from, slopes, 1, to, count);
            if (!direct) store(values, count, y, offsets[0] + i, 1);
          }
        });
        continue;
      }
      const int64_t sy = nest.run().stride[0], sx = nest.run().stride[1], sw = nest.run().stride[2];
      const bool in_place = direct && sy == 1 && sx == 1 && (sw == 0 || sw == 1);
      for_each_run(nest, 0.3, [&](const int64_t* offsets, int64_t n) {
        if (in_place)
          return prelu_run(static_cast<const float*>(x) + offsets[1], static_cast<const float*>(weight) + offsets[2],
                           sw, static_cast<float*>(y) + offsets[0], n);
        float values[kChunk], slopes[kChunk];
        for (int64_t start = 0; start < n; start += kChunk) {
          const int64_t count = std::min(kChunk, n - start);
          load(x, offsets[1] + start * sx, sx, count, values);
          load(weight, offsets[2] + start * sw, sw, sw ? count : 1, slopes);
          prelu_run(values, slopes, sw != 0, values, count);
          store(values, count, y, offsets[0] + start * sy, sy);
        }
      });
    }
    zeroer.run(y);
  }
};

void list_prelu(const Op& op, CandidateList& out) {
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    const TensorDesc x = op.in(0).with_layout(layout), y = op.out().with_layout(layout), weight = dense_plain(op.in(1));
    add_candidate(out, "prelu", Quality::fast, {x, weight}, {y}, [=] {
      Dims shape = Dims::filled(x.rank(), 1);
      if (x.rank() > 1) shape[1] = weight.shape[0];
      const TensorDesc slopes = TensorDesc::dense(weight.dtype, shape);
      PreluBody body{x.dtype == DType::f32, float_loader(x.dtype), float_storer(x.dtype), {}, PaddingZeroer(y)};
      for (Nest& nest : make_nests(x.shape, {{y, {}}, {x, {}}, {slopes, {}}}))
        body.nests.emplace_back(std::move(nest), 2);
      return body;
    });
  }
}
PL_HOST_KIND("prelu", list_prelu);

}  // namespace
}  // namespace pl::host
