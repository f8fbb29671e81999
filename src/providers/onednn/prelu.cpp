// PReLU with one slope, or one for each channel.
#include "providers/onednn/candidates.h"

namespace pl::onednn {
namespace {

void list_prelu(const Op& op, CandidateList& out) {
  if (!accept_dtypes(op, out, {DType::f32, DType::bf16, DType::f16})) return;
  const int rank = op.in(0).rank();
  std::vector<int64_t> sizes(size_t(rank), 1);
  sizes[rank > 1 ? 1 : 0] = op.in(1).elements();
  const MemoryDesc slopes = plain_md(to_dnnl(op.in(1).dtype), sizes);
  Lister lister(op, out);
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    const Described x = describe(op.in(0), layout), y = describe(op.out(), layout);
    if (!x) continue;
    PrimitiveAttributes post_ops;
    const dnnl_primitive_attr_t attributes = post_ops.attributes();
    lister.walk(
        [&](dnnl_primitive_desc_t* pd) {
          return dnnl_prelu_forward_primitive_desc_create(pd, cpu_engine(), dnnl_forward_inference, x.md.get(),
                                                          slopes.get(), y.md.get(), attributes);
        },
        {input(DNNL_ARG_SRC, 0, x.desc), input(DNNL_ARG_WEIGHTS, 1, op.in(1)), output(DNNL_ARG_DST, y.desc)});
  }
  lister.finish();
}

PL_ONEDNN_KIND("prelu", list_prelu);

}  // namespace
}  // namespace pl::onednn
