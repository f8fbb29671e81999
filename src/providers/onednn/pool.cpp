// Pooling over windows, and adaptive pooling where all windows have the same size.
#include "providers/onednn/candidates.h"
#include "providers/onednn/windows.h"

namespace pl::onednn {
namespace {

struct Pooling {
  dnnl_alg_kind_t algorithm;
  std::vector<int64_t> kernel, stride, dilation, begins, ends;
};

void list_windows(const Op& op, const Pooling& pooling, CandidateList& out) {
  Lister lister(op, out);
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    const Described x = describe(op.in(0), layout), y = describe(op.out(), layout);
    if (!x || !y) continue;
    PrimitiveAttributes post_ops;
    const dnnl_primitive_attr_t attributes = post_ops.attributes();
    lister.walk(
        [&](dnnl_primitive_desc_t* pd) {
          return dnnl_pooling_forward_primitive_desc_create(pd, cpu_engine(), dnnl_forward_inference, pooling.algorithm,
                                                            x.md.get(), y.md.get(), pooling.stride.data(),
                                                            pooling.kernel.data(), pooling.dilation.data(),
                                                            pooling.begins.data(), pooling.ends.data(), attributes);
        },
        {input(DNNL_ARG_SRC, 0, x.desc), output(DNNL_ARG_DST, y.desc)});
  }
  lister.finish();
}

void list_pool(const Op& op, CandidateList& out) {
  if (!accept_dtypes(op, out, {DType::f32, DType::bf16, DType::f16, DType::s8, DType::u8})) return;
  const bool average = op.attributes[attr::mode] == "avg";
  const Windows windows(op);
  Pooling pooling{dnnl_pooling_max, op.attributes[attr::kernel_size], windows.stride, windows.dilation, windows.begins,
                  windows.ends};
  const bool count_padding = average && op.attributes[attr::count_include_pad];
  for (size_t i = 0; i < pooling.kernel.size(); ++i) {
    // oneDNN derives nothing from ceil_mode: the end padding is what the output size needs.
    const int64_t in = op.in(0).shape[2 + int(i)], size = op.out().shape[2 + int(i)];
    const int64_t reach = (pooling.kernel[i] - 1) * (windows.dilation[i] + 1) + 1;
    const int64_t end = (size - 1) * windows.stride[i] + reach - in - windows.begins[i];
    if (count_padding && end > windows.ends[i])
      return refuse(op, out,
                    "count_include_pad with a last window that ceil_mode lets run over the padding: oneDNN "
                    "divides by the whole window");
    pooling.ends[i] = std::max<int64_t>(end, 0);
  }
  if (average) pooling.algorithm = count_padding ? dnnl_pooling_avg_include_padding : dnnl_pooling_avg_exclude_padding;
  list_windows(op, pooling, out);
}

void list_adaptive(const Op& op, CandidateList& out) {
  if (!accept_dtypes(op, out, {DType::f32, DType::bf16, DType::f16, DType::s8, DType::u8})) return;
  const bool average = op.attributes[attr::mode] == "avg";
  Pooling pooling{average ? dnnl_pooling_avg_exclude_padding : dnnl_pooling_max, {}, {}, {}, {}, {}};
  for (int i = 2; i < op.in(0).rank(); ++i) {
    const int64_t in = op.in(0).shape[i], size = op.out().shape[i];
    if (size == 0 || in % size != 0)
      return refuse(op, out, concat("oneDNN pools windows of one size only, and ", in, " is not a multiple of ", size));
    pooling.kernel.push_back(in / size);
    pooling.stride.push_back(in / size);
    for (auto* zeros : {&pooling.dilation, &pooling.begins, &pooling.ends}) zeros->push_back(0);
  }
  list_windows(op, pooling, out);
}

PL_ONEDNN_KIND("pool", list_pool);
PL_ONEDNN_KIND("adaptive_pool", list_adaptive);

}  // namespace
}  // namespace pl::onednn
