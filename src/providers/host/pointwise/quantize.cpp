// Kinds quantize_linear and dequantize_linear: float arithmetic, a chunk at a time, in x's own order.
#include "providers/host/common/host.h"
#include "providers/host/common/independent.h"

namespace pl::host {
namespace {

constexpr double kQuantizeNanoseconds = 0.8;  // work of one element on one core

// Storing rounds and saturates; the sum is rounded already where it is in range.
PL_VECTORISED void quantize_each(float* x, const float* scale, const float* zero, int64_t n) {
  PL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) x[i] = __builtin_rintf(x[i] / scale[i]) + zero[i];
}
PL_VECTORISED void dequantize_each(float* x, const float* scale, const float* zero, int64_t n) {
  PL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) x[i] = (x[i] - zero[i]) * scale[i];
}

struct QuantizeBody {
  bool back;  // from integers to floats
  bool has_zero;
  std::vector<Nest> nests;  // over y, x, scale and zero point
  LoadRun<float> load, load_scale, load_zero;
  StoreRun<float> store;
  PaddingZeroer zeroer;

  void operator()(const KernelArguments& arguments) const {
    const void *x = input(arguments, 0), *scale = input(arguments, 1);
    void* y = output(arguments);
    for (const Nest& nest : nests) {
      const int64_t* stride = nest.run().stride;
      for_each_run(nest, kQuantizeNanoseconds, [&](const int64_t* offsets, int64_t n) {
        float values[kChunk], scales[kChunk], zeros[kChunk] = {};
        for (int64_t i = 0; i < n; i += kChunk) {
          const int64_t count = std::min(kChunk, n - i);
          load(x, offsets[1] + i * stride[1], stride[1], count, values);
          // What repeats is still there from the chunk before.
          if (i == 0 || stride[2]) load_scale(scale, offsets[2] + i * stride[2], stride[2], count, scales);
          if (has_zero && (i == 0 || stride[3]))
            load_zero(input(arguments, 2), offsets[3] + i * stride[3], stride[3], count, zeros);
          (back ? dequantize_each : quantize_each)(values, scales, zeros, count);
          store(values, count, y, offsets[0] + i * stride[0], stride[0]);
        }
      });
    }
    zeroer.run(y);
  }
};

void list_quantize(const Op& op, CandidateList& out) {
  const bool back = op.schema->kind == "dequantize_linear", has_zero = op.has(2);
  const int rank = op.in(0).rank(), axis = int(op.attributes[attr::axis]);
  // A parameter with the rank of x: along the axis, or standing still.
  const auto aligned = [&](const TensorDesc& desc) {
    if (desc.elements() == 1) return TensorDesc::dense(desc.dtype, Dims::filled(rank, 1));
    std::vector<bool> inserted(size_t(rank), true);
    inserted[size_t(axis)] = false;
    return insert_dims(desc, inserted);
  };
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    std::vector<TensorDesc> inputs{op.in(0).with_layout(layout)};
    for (size_t i = 1; i < op.inputs.size(); ++i) inputs.push_back(dense_plain(op.inputs[i]));
    const TensorDesc y = op.out().with_layout(layout), scale = inputs[1], zero = has_zero ? inputs[2] : inputs[1];
    add_candidate(out, op.schema->kind, Quality::fast, inputs, {y},
                  [=, x = inputs[0], scale_at = aligned(scale), zero_at = aligned(zero)] {
                    return QuantizeBody{back,
                                        has_zero,
                                        make_nests(y.shape, {{y, {}}, {x, {}}, {scale_at, {}}, {zero_at, {}}}),
                                        float_loader(x.dtype),
                                        float_loader(scale.dtype),
                                        float_loader(zero.dtype),
                                        float_storer(y.dtype),
                                        PaddingZeroer(y)};
                  });
  }
}
PL_HOST_KIND("quantize_linear", list_quantize);
PL_HOST_KIND("dequantize_linear", list_quantize);

}  // namespace
}  // namespace pl::host
