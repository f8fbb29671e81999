// Changes of layout and dtype; the source may be strided and start anywhere in its buffer.
#include "providers/onednn/candidates.h"

namespace pl::onednn {
namespace {

void list_reorder(const Op& op, CandidateList& out) {
  const TensorDesc &x = op.in(0), &y = op.out();
  if (!accept_dtypes(op, out, {DType::f32, DType::bf16, DType::f16, DType::s8, DType::u8, DType::s32, DType::boolean}))
    return;
  if (y.dtype == DType::boolean && x.dtype != DType::boolean)
    return refuse(op, out, concat("oneDNN has no bool, and would not turn ", name_of(x.dtype), " into 0 and 1"));
  const MemoryDesc source = to_md(x), destination = to_md(y);
  if (!source) return refuse(op, out, concat("oneDNN cannot describe x, ", x.str()));
  if (!destination) return refuse(op, out, concat("oneDNN cannot describe the result, ", y.str()));
  Lister lister(op, out);
  PrimitiveAttributes post_ops;
  const dnnl_primitive_attr_t attributes = post_ops.attributes();
  Binding from = input(DNNL_ARG_FROM, 0, x);
  from.offset = size_t(x.offset) * size_of(x.dtype);
  lister.walk(
      [&](dnnl_primitive_desc_t* pd) {
        return dnnl_reorder_primitive_desc_create(pd, source.get(), cpu_engine(), destination.get(), cpu_engine(),
                                                  attributes);
      },
      {from, output(DNNL_ARG_TO, y)});
  lister.finish();
}

PL_ONEDNN_KIND("reorder", list_reorder);

}  // namespace
}  // namespace pl::onednn
