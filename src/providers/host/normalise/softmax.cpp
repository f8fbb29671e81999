// Kind softmax: softmax and log_softmax along one dimension.
//
// Where that dimension is contiguous each row is done on its own; where its neighbours in memory are other rows,
// many rows are done side by side.  Any other layout goes through a row gathered into a buffer.
#include <cmath>
#include <limits>

#include "providers/host/common/host.h"
#include "providers/host/common/independent.h"
#include "providers/host/common/split_walk.h"
#include "providers/host/normalise/softmax_row.h"
#include "providers/host/pointwise/vector_math.h"

namespace pl::host {
namespace {

constexpr double kSoftmaxNanoseconds = 1.5;  // work of one element on one core
PL_VECTORISED void shift(const float* x, float* y, int64_t n, float largest, float log_sum) {
  PL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - largest) - log_sum;
}

void softmax_row(const float* x, float* y, int64_t n, bool log) {
  const float largest = largest_of_row(x, n);
  const double sum = exponentials_of_row(x, log ? nullptr : y, n, largest);
  if (log)
    shift(x, y, n, largest, float(std::log(sum)));
  else
    scale_row(y, n, float(1.0 / sum));
}

// Steps over rows side by side.
PL_VECTORISED void larger(const float* x, float* largest, int64_t n) {
  for (int64_t i = 0; i < n; ++i) largest[i] = math::maximum(largest[i], x[i]);
}
PL_VECTORISED void add_exponentials(const float* x, const float* largest, float* sum, int64_t n) {
  for (int64_t i = 0; i < n; ++i) sum[i] += math::exp(x[i] - largest[i]);
}
PL_VECTORISED void divide(const float* x, const float* largest, const float* factor, float* y, int64_t n) {
  PL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) y[i] = math::exp(x[i] - largest[i]) * factor[i];
}
PL_VECTORISED void subtract(const float* x, const float* largest, const float* log_sum, float* y, int64_t n) {
  PL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - largest[i]) - log_sum[i];
}

struct SoftmaxBody {
  bool log;
  DType dtype;
  SplitWalk split;  // over x and y, which lie alike
  LoadRun<float> load;
  StoreRun<float> store;
  PaddingZeroer zeroer;

  void side_by_side(const void* x, void* y, int64_t first, int64_t n) const {
    float largest[kChunk], sum[kChunk] = {}, values[kChunk];
    const bool direct = dtype == DType::f32;
    const auto values_at = [&](int64_t offset) { return floats_at(dtype, load, x, offset, n, values); };
    std::fill(largest, largest + n, -math::kInfinity);
    for_each_along(split, first, [&](int64_t offset) { larger(values_at(offset), largest, n); });
    for_each_along(split, first, [&](int64_t offset) { add_exponentials(values_at(offset), largest, sum, n); });
    for (int64_t i = 0; i < n; ++i) sum[i] = log ? std::log(sum[i]) : 1.0f / sum[i];
    for_each_along(split, first, [&](int64_t offset) {
      float* target = direct ? static_cast<float*>(y) + offset : values;
      (log ? subtract : divide)(values_at(offset), largest, sum, target, n);
      if (!direct) store(values, n, y, offset, 1);
    });
  }

  void operator()(const KernelArguments& arguments) const {
    const void* x = input(arguments, 0);
    void* y = output(arguments);
    const int64_t length = split.along_elements;
    const bool direct = dtype == DType::f32 && split.contiguous(0);
    for (const Nest& nest : split.kept) {
      const int64_t step = nest.run().stride[0];
      for_each_run(nest, kSoftmaxNanoseconds * double(length) + 10, [&](const int64_t* offsets, int64_t n) {
        if (split.side_by_side(nest)) {
          for (int64_t i = 0; i < n; i += kChunk) side_by_side(x, y, offsets[0] + i, std::min(kChunk, n - i));
          return;
        }
        std::vector<float> row(direct ? 0 : size_t(length));
        for (int64_t i = 0; i < n; ++i) {
          const int64_t first = offsets[0] + i * step;
          if (direct) {
            const int64_t at = first + split.along[0].base[0];
            softmax_row(static_cast<const float*>(x) + at, static_cast<float*>(y) + at, length, log);
          } else {
            gather_row(split, 0, load, x, first, row.data());
            softmax_row(row.data(), row.data(), length, log);
            scatter_row(split, 1, store, y, first, row.data());
          }
        }
      });
    }
    zeroer.run(y);
  }
};

void list_softmax(const Op& op, CandidateList& out) {
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    const TensorDesc x = op.in(0).with_layout(layout), y = op.out().with_layout(layout);
    add_candidate(out, "softmax", Quality::fast, {x}, {y},
                  [=, dim = op.attributes[attr::dim], log = op.attributes[attr::log]] {
                    std::vector<bool> along(size_t(x.rank()), false);
                    along[size_t(dim)] = true;
                    return SoftmaxBody{log,
                                       x.dtype,
                                       SplitWalk(x.shape, along, {{x, {}}, {y, {}}}),
                                       float_loader(x.dtype),
                                       float_storer(x.dtype),
                                       PaddingZeroer(y)};
                  });
  }
}
PL_HOST_KIND("softmax", list_softmax);

}  // namespace
}  // namespace pl::host
