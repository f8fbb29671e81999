// Batch normalisation (inference), layer normalisation, softmax, local response normalisation.
#include "providers/onednn/candidates.h"

namespace pl::onednn {
namespace {

void list_batch_norm(const Op& op, CandidateList& out) {
  if (!accept_dtypes(op, out, {DType::f32, DType::bf16, DType::f16})) return;
  if (op.in(0).rank() > 5) return refuse(op, out, "oneDNN normalises tensors of at most 5 dimensions");
  unsigned flags = dnnl_use_global_stats;
  if (op.has(3)) flags |= dnnl_use_scale;
  if (op.has(4)) flags |= dnnl_use_shift;
  const PostOps& list = post_ops_of(op);
  if (reads_inputs(list))
    return refuse(op, out, concat("post_ops is ", to_text(list), ", and oneDNN's batch norm reads no further input"));
  const bool relu = list.size() == 1 && list[0] == PostOp::function("relu");
  if (relu) flags |= dnnl_fuse_norm_relu;
  Lister lister(op, out);
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    const Described x = describe(op.in(0), layout), y = describe(op.out(), layout);
    if (!x) continue;
    PrimitiveAttributes post_ops;
    if (!relu && !post_ops.post_ops_of(op)) return refuse(op, out, missing_post_op(op));
    const dnnl_primitive_attr_t attributes = post_ops.attributes();
    std::vector<Binding> bindings{input(DNNL_ARG_SRC, 0, x.desc), output(DNNL_ARG_DST, y.desc),
                                  input(DNNL_ARG_MEAN, 1, plain_f32(op.in(1))),
                                  input(DNNL_ARG_VARIANCE, 2, plain_f32(op.in(2)))};
    if (op.has(3)) bindings.push_back(input(DNNL_ARG_SCALE, 3, plain_f32(op.in(3))));
    if (op.has(4)) bindings.push_back(input(DNNL_ARG_SHIFT, 4, plain_f32(op.in(4))));
    lister.walk(
        [&](dnnl_primitive_desc_t* pd) {
          return dnnl_batch_normalization_forward_primitive_desc_create(
              pd, cpu_engine(), dnnl_forward_inference, x.md.get(), y.md.get(), float(op.attributes[attr::eps]), flags,
              attributes);
        },
        bindings);
  }
  lister.finish();
}

void list_layer_norm(const Op& op, CandidateList& out) {
  if (!op.attributes[attr::centred]) return refuse(op, out, "oneDNN 3.2 normalises about the mean only");
  if (!accept_dtypes(op, out, {DType::f32, DType::bf16, DType::f16})) return;
  // The normalised dimensions as one, all others as rows.
  int64_t columns = 1;
  for (int64_t size : op.attributes[attr::normalized_shape]) columns *= size;
  const MemoryDesc md = plain_md(to_dnnl(op.in(0).dtype), {op.in(0).elements() / columns, columns});
  unsigned flags = dnnl_normalization_flags_none;
  std::vector<Binding> bindings{input(DNNL_ARG_SRC, 0, TensorDesc::dense(op.in(0).dtype, op.in(0).shape)),
                                output(DNNL_ARG_DST, op.out())};
  const auto parameter = [&](int index, int argument, unsigned flag) {
    if (!op.has(index)) return;
    flags |= flag;
    bindings.push_back(input(argument, index, plain_f32(op.in(index))));
  };
  parameter(1, DNNL_ARG_SCALE, dnnl_use_scale);
  parameter(2, DNNL_ARG_SHIFT, dnnl_use_shift);
  PrimitiveAttributes post_ops;
  const dnnl_primitive_attr_t attributes = post_ops.attributes();
  Lister lister(op, out);
  lister.walk(
      [&](dnnl_primitive_desc_t* pd) {
        return dnnl_layer_normalization_forward_primitive_desc_create(
            pd, cpu_engine(), dnnl_forward_inference, md.get(), md.get(), nullptr, float(op.attributes[attr::eps]),
            flags, attributes);
      },
      bindings);
  lister.finish();
}

void list_softmax(const Op& op, CandidateList& out) {
  if (!accept_dtypes(op, out, {DType::f32, DType::bf16, DType::f16})) return;
  Lister lister(op, out);
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    const Described x = describe(op.in(0), layout), y = describe(op.out(), layout);
    if (!x) continue;
    PrimitiveAttributes post_ops;
    const dnnl_primitive_attr_t attributes = post_ops.attributes();
    lister.walk(
        [&](dnnl_primitive_desc_t* pd) {
          return dnnl_softmax_forward_primitive_desc_create(
              pd, cpu_engine(), dnnl_forward_inference,
              op.attributes[attr::log] ? dnnl_softmax_log : dnnl_softmax_accurate, x.md.get(), y.md.get(),
              int(op.attributes[attr::dim]), attributes);
        },
        {input(DNNL_ARG_SRC, 0, x.desc), output(DNNL_ARG_DST, y.desc)});
  }
  lister.finish();
}

void list_lrn(const Op& op, CandidateList& out) {
  if (!accept_dtypes(op, out, {DType::f32, DType::bf16, DType::f16})) return;
  const int64_t size = op.attributes[attr::size];
  if (size % 2 == 0) return refuse(op, out, concat("size is ", size, ", and oneDNN's windows have a centre"));
  Lister lister(op, out);
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    const Described x = describe(op.in(0), layout), y = describe(op.out(), layout);
    if (!x) continue;
    PrimitiveAttributes post_ops;
    const dnnl_primitive_attr_t attributes = post_ops.attributes();
    lister.walk(
        [&](dnnl_primitive_desc_t* pd) {
          return dnnl_lrn_forward_primitive_desc_create(
              pd, cpu_engine(), dnnl_forward_inference, dnnl_lrn_across_channels, x.md.get(), y.md.get(), size,
              float(op.attributes[attr::alpha]), float(op.attributes[attr::beta]), float(op.attributes[attr::k_float]),
              attributes);
        },
        {input(DNNL_ARG_SRC, 0, x.desc), output(DNNL_ARG_DST, y.desc)});
  }
  lister.finish();
}

PL_ONEDNN_KIND("batch_norm", list_batch_norm);
PL_ONEDNN_KIND("layer_norm", list_layer_norm);
PL_ONEDNN_KIND("softmax", list_softmax);
PL_ONEDNN_KIND("lrn", list_lrn);

}  // namespace
}  // namespace pl::onednn
