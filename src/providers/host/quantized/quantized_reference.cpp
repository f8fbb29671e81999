// Kinds quantized_conv and quantized_matmul, as references: exact sums of integers, scaled in double.
//
// They serve what fast kernels refuse: zero points of weights above all.
#include <cmath>

#include "ops/quantized.h"
#include "ops/spatial.h"
#include "providers/host/common/host.h"
#include "providers/host/common/independent.h"
#include "providers/host/pointwise/functions.h"
#include "providers/host/quantized/integer_products.h"
#include "providers/host/reorder/copy.h"

namespace pl::host {
namespace {

// y[i] += factor * x[i * step], wrapping around as the processor's integer sums do.
PL_VECTORISED void add_multiple(int32_t factor, const int32_t* x, int64_t step, int32_t* y, int64_t n) {
  if (step == 1) {
    PL_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) y[i] = int32_t(uint32_t(y[i]) + uint32_t(factor) * uint32_t(x[i]));
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = int32_t(uint32_t(y[i]) + uint32_t(factor) * uint32_t(x[i * step]));
  }
}

struct QuantizedBody {
  std::vector<TensorDesc> inputs;
  TensorDesc y;
  QuantizedInputs in;
  AppliedPostOps post_ops;

  double value(const KernelArguments& arguments, int i, int64_t index, double fallback) const {
    if (i < 0) return fallback;
    const TensorDesc& desc = inputs[size_t(i)];
    double result;
    double_loader(desc.dtype)(input(arguments, i), desc.elements() == 1 ? 0 : index, 1, 1, &result);
    return result;
  }

  // The input less its zero point, row-major; `outer` indices of the zero point follow one another every `inner`
  // elements and then repeat.
  std::vector<int32_t> integers(const KernelArguments& arguments, int i, int zero, int64_t outer, int64_t inner) const {
    const TensorDesc& desc = inputs[size_t(i)];
    const int64_t count = desc.elements();
    std::vector<int32_t> values(size_t(std::max<int64_t>(count, 1)));
    const TensorDesc plain = TensorDesc::dense(DType::s32, desc.shape);
    CopyNests(desc.shape, {plain, {}}, {desc, {}}).run(input(arguments, i), values.data());
    if (zero < 0) return values;
    std::vector<int32_t> zeros;
    for (int64_t k = 0; k < outer; ++k) zeros.push_back(int32_t(value(arguments, zero, k, 0)));
    parallel_for(count, 0.5, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) values[size_t(k)] -= zeros[size_t(k / inner % outer)];
    });
    return values;
  }

  // What makes a result of the sums of one output channel or column.
  struct Column {
    double factor, sum, real;  // (sums + sum) * factor + real
  };
  std::vector<Column> columns_of(const KernelArguments& arguments, int64_t count) const {
    const bool sums = in.bias >= 0 && inputs[size_t(in.bias)].dtype == DType::s32;
    std::vector<Column> columns;
    for (int64_t k = 0; k < count; ++k) {
      const double bias = value(arguments, in.bias, k, 0);
      columns.push_back({value(arguments, in.x_scale, 0, 1) * value(arguments, in.weight_scale, k, 1), sums ? bias : 0,
                         sums ? 0 : bias});
    }
    return columns;
  }

  // Stores row-major sums; column = index / inner % columns has the scale.
  void finish(const KernelArguments& arguments, const std::vector<int32_t>& sums, int64_t columns,
              int64_t inner) const {
    const TensorDesc plain = TensorDesc::dense(DType::s32, y.shape);
    if (!in.scaled()) {
      CopyNests(y.shape, {y, {}}, {plain, {}}).run(sums.data(), output(arguments));
    } else {
      const std::vector<Column> of = columns_of(arguments, columns);
      const double scale = value(arguments, in.y_scale, 0, 1), zero = value(arguments, in.y_zero, 0, 0);
      std::vector<float> values(sums.size());
      // Row-major, as the sums.
      const std::vector<int32_t> addend =
          in.addend < 0 ? std::vector<int32_t>() : integers(arguments, in.addend, in.addend_zero, 1, 1);
      const double addend_scale = value(arguments, in.addend_scale, 0, 1);
      parallel_for(y.elements(), 3, [&](int64_t begin, int64_t end) {
        double reals[kChunk], added[kChunk];
        for (int64_t k = begin; k < end; k += kChunk) {
          const int64_t n = std::min(kChunk, end - k);
          for (int64_t i = 0; i < n; ++i) {
            const Column& column = of[size_t((k + i) / inner % columns)];
            reals[i] = (double(sums[size_t(k + i)]) + column.sum) * column.factor + column.real;
          }
          if (in.addend >= 0)
            for (int64_t i = 0; i < n; ++i) added[i] = addend[size_t(k + i)] * addend_scale;
          post_ops.apply(reals, n, [&](int) -> const double* { return added; });
          if (in.rounds())
            for (int64_t i = 0; i < n; ++i) reals[i] = std::nearbyint(reals[i] / scale) + zero;
          std::copy(reals, reals + n, values.begin() + k);
        }
      });
      CopyNests(y.shape, {y, {}}, {TensorDesc::dense(DType::f32, y.shape), {}}).run(values.data(), output(arguments));
    }
    PaddingZeroer(y).run(output(arguments));
  }
};

struct ConvBody : QuantizedBody {
  int64_t groups;
  Window axes[3];  // d, h, w

  explicit ConvBody(QuantizedBody base) : QuantizedBody(std::move(base)) {}

  // sums += weights * x for one pair of channels; positions whose input lies outside are passed over.
  void channel_pair(const int32_t* x, const int32_t* weight, int32_t* sums) const {
    const Window &d = axes[0], &h = axes[1], &w = axes[2];
    for (int64_t kd = 0; kd < d.kernel; ++kd)
      for (int64_t kh = 0; kh < h.kernel; ++kh)
        for (int64_t kw = 0; kw < w.kernel; ++kw) {
          const int32_t factor = *weight++;
          if (factor == 0) continue;
          const int64_t shift = kw * w.dilation - w.begin;
          const int64_t first = shift >= 0 ? 0 : (-shift + w.stride - 1) / w.stride;
          const int64_t last = shift >= w.in ? 0 : std::min(w.out, (w.in - shift + w.stride - 1) / w.stride);
          if (first >= last) continue;
          for (int64_t od = 0; od < d.out; ++od) {
            const int64_t id = od * d.stride + kd * d.dilation - d.begin;
            if (id < 0 || id >= d.in) continue;
            for (int64_t oh = 0; oh < h.out; ++oh) {
              const int64_t ih = oh * h.stride + kh * h.dilation - h.begin;
              if (ih < 0 || ih >= h.in) continue;
              add_multiple(factor, x + (id * h.in + ih) * w.in + first * w.stride + shift, w.stride,
                           sums + (od * h.out + oh) * w.out + first, last - first);
            }
          }
        }
  }

  void operator()(const KernelArguments& arguments) const {
    const int64_t images = y.shape[0], oc = y.shape[1], ic = inputs[0].shape[1];
    int64_t in_size = 1, out_size = 1, kernel = 1;
    for (const Window& axis : axes) in_size *= axis.in, out_size *= axis.out, kernel *= axis.kernel;
    const int64_t group_ic = ic / groups, group_oc = oc / groups;
    const auto x = integers(arguments, 0, in.x_zero, 1, 1);
    const auto weight = integers(arguments, 1, in.weight_zero, oc, group_ic * kernel);
    std::vector<int32_t> sums(size_t(std::max<int64_t>(y.elements(), 1)));
    parallel_for(images * oc, double(group_ic * kernel * out_size) * 0.3, [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item) {
        const int64_t n = item / oc, o = item % oc;
        int32_t* out = sums.data() + item * out_size;
        for (int64_t i = 0; i < group_ic; ++i)
          channel_pair(x.data() + (n * ic + o / group_oc * group_ic + i) * in_size,
                       weight.data() + (o * group_ic + i) * kernel, out);
      }
    });
    finish(arguments, sums, oc, out_size);
  }
};

struct MatmulBody : QuantizedBody {
  std::vector<int64_t> a_offsets, b_offsets;  // of each matrix of the result's stack
  int64_t rows, columns, depth;

  explicit MatmulBody(QuantizedBody base) : QuantizedBody(std::move(base)) {}

  void operator()(const KernelArguments& arguments) const {
    const auto a = integers(arguments, 0, in.x_zero, 1, 1), b = integers(arguments, 1, in.weight_zero, columns, 1);
    std::vector<int32_t> sums(size_t(std::max<int64_t>(y.elements(), 1)));
    parallel_for(int64_t(a_offsets.size()) * rows, double(depth * columns) * 0.3, [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item) {
        const int32_t* row = a.data() + a_offsets[size_t(item / rows)] + item % rows * depth;
        const int32_t* matrix = b.data() + b_offsets[size_t(item / rows)];
        for (int64_t k = 0; k < depth; ++k)
          add_multiple(row[k], matrix + k * columns, 1, sums.data() + item * columns, columns);
      }
    });
    finish(arguments, sums, columns, 1);
  }
};

QuantizedBody base_of(const Op& op, const Layout& layout) {
  QuantizedBody base{{}, dense_as(op.out(), layout), QuantizedInputs(op), AppliedPostOps(op)};
  for (const TensorDesc& desc : op.inputs)
    base.inputs.push_back(base.inputs.empty() || int(base.inputs.size()) == base.in.addend ? dense_as(desc, layout)
                                                                                           : dense_plain(desc));
  return base;
}

void list_quantized_conv(const Op& op, CandidateList& out) {
  list_integer_products(op, out);
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    ConvBody body(base_of(op, layout));
    body.groups = op.attributes[attr::groups];
    const int spatial = spatial_rank(op);
    for (Window& axis : body.axes) axis.in = axis.out = 1;
    for (int i = 0; i < spatial; ++i) body.axes[3 - spatial + i] = window_of(op, i);
    const auto inputs = body.inputs;
    const TensorDesc y = body.y;
    add_candidate(out, "reference", Quality::reference, inputs, {y}, [body = std::move(body)] { return body; });
  }
}
PL_HOST_KIND("quantized_conv", list_quantized_conv);

// The offset of each matrix of a stack, as broadcasting repeats it to `output`.
std::vector<int64_t> matrices_of(const Dims& shape, const Dims& output) {
  std::vector<int64_t> offsets{0}, steps(size_t(output.size()), 0);
  const int added = output.size() - shape.size();
  int64_t step = shape[shape.size() - 2] * shape[shape.size() - 1];
  for (int i = shape.size() - 3; i >= 0; --i) {
    if (shape[i] != 1) steps[size_t(i + added)] = step;
    step *= shape[i];
  }
  for (int i = 0; i + 2 < output.size(); ++i) {
    std::vector<int64_t> grown;
    for (int64_t offset : offsets)
      for (int64_t j = 0; j < output[i]; ++j) grown.push_back(offset + j * steps[size_t(i)]);
    offsets = std::move(grown);
  }
  return offsets;
}

void list_quantized_matmul(const Op& op, CandidateList& out) {
  list_integer_products(op, out);
  MatmulBody body(base_of(op, Layout::plain(op.in(0).rank())));
  body.y = dense_plain(op.out());
  const Dims &a = op.in(0).shape, &b = op.in(1).shape, &y = op.out().shape;
  body.a_offsets = matrices_of(a, y);
  body.b_offsets = matrices_of(b, y);
  body.rows = a[a.size() - 2];
  body.columns = b[b.size() - 1];
  body.depth = a[a.size() - 1];
  const auto inputs = body.inputs;
  const TensorDesc result = body.y;
  add_candidate(out, "reference", Quality::reference, inputs, {result}, [body = std::move(body)] { return body; });
}
PL_HOST_KIND("quantized_matmul", list_quantized_matmul);

}  // namespace
}  // namespace pl::host
