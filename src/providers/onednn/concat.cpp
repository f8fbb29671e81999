// Concatenation; all tensors in one layout.
#include "providers/onednn/candidates.h"

namespace pl::onednn {
namespace {

void list_concat(const Op& op, CandidateList& out) {
  if (!accept_dtypes(op, out, {DType::f32, DType::bf16, DType::f16, DType::s8, DType::u8, DType::s32, DType::boolean}))
    return;
  for (const TensorDesc& tensor : op.inputs)
    if (tensor.elements() == 0) return refuse(op, out, "oneDNN does not concatenate empty tensors");
  Lister lister(op, out);
  for (const Layout& layout : layouts_to_try(op, op.out())) {
    std::vector<Described> sources;
    std::vector<const_dnnl_memory_desc_t> mds;
    std::vector<Binding> bindings;
    bool described = true;
    for (size_t i = 0; i < op.inputs.size() && described; ++i) {
      sources.push_back(describe(op.inputs[i], layout));
      described = bool(sources.back());
      mds.push_back(sources.back().md.get());
      bindings.push_back(input(DNNL_ARG_MULTIPLE_SRC + int(i), int(i), sources.back().desc));
    }
    const Described y = describe(op.out(), layout);
    if (!described || !y) continue;
    bindings.push_back(output(DNNL_ARG_DST, y.desc));
    PrimitiveAttributes post_ops;
    const dnnl_primitive_attr_t attributes = post_ops.attributes();
    lister.walk(
        [&](dnnl_primitive_desc_t* pd) {
          return dnnl_concat_primitive_desc_create(pd, cpu_engine(), y.md.get(), int(mds.size()),
                                                   int(op.attributes[attr::dim]), mds.data(), attributes);
        },
        bindings);
  }
  lister.finish();
}

PL_ONEDNN_KIND("concat", list_concat);

}  // namespace
}  // namespace pl::onednn
