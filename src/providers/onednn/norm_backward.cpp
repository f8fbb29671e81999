// Batch normalisation in training, and its gradients.
#include <algorithm>

#include "ops/normalization.h"
#include "ops/post_ops.h"
#include "providers/onednn/candidates.h"

namespace pl::onednn {
namespace {

constexpr unsigned kFlags = dnnl_use_scale | dnnl_use_shift;

// False: refused.
bool accept_norm_backward(const Op& op, CandidateList& out) {
  if (!accept_dtypes(op, out, {DType::f32})) return false;
  if (op.in(0).rank() > 5) {
    refuse(op, out, "oneDNN normalises tensors of at most 5 dimensions");
    return false;
  }
  return accept_terms(op, out, op.in(0).elements() / std::max<int64_t>(op.in(0).shape[1], 1));
}

dnnl_status_t create_forward(dnnl_primitive_desc_t* pd, const Op& op, const_dnnl_memory_desc_t x, unsigned flags,
                             const_dnnl_primitive_attr_t attributes) {
  return dnnl_batch_normalization_forward_primitive_desc_create(pd, cpu_engine(), dnnl_forward_training, x, x,
                                                                float(op.attributes[attr::eps]), flags, attributes);
}

// In training oneDNN has relu in the same pass, other post-ops as a primitive over the result.
void list_training(const Op& op, CandidateList& out) {
  if (!accept_norm_backward(op, out)) return;
  const PostOps& list = post_ops_of(op);
  const bool relu = list.size() == 1 && list[0] == PostOp::function("relu");
  const unsigned flags = relu ? kFlags | dnnl_fuse_norm_relu : kFlags;
  Lister lister(op, out);
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    const Described x = describe(op.in(0), layout);
    if (!x) continue;
    PrimitiveAttributes post_ops;
    const dnnl_primitive_attr_t attributes = post_ops.attributes();
    if (!list.empty() && !relu) {
      if (x.desc.dtype != DType::f32) return refuse(op, out, "post-ops would take a result that is rounded already");
      auto step = post_ops_apart(op, x);
      if (!step) return refuse(op, out, "oneDNN has not all of post_ops " + to_text(list));
      lister.then(std::move(step));
    }
    Binding mean = output(DNNL_ARG_MEAN, plain_f32(op.out(1))),
            variance = output(DNNL_ARG_VARIANCE, plain_f32(op.out(2)));
    mean.index = 1;
    variance.index = 2;
    lister.walk(
        [&](dnnl_primitive_desc_t* pd) { return create_forward(pd, op, x.md.get(), flags, attributes); },
        {input(DNNL_ARG_SRC, 0, x.desc), output(DNNL_ARG_DST, x.desc), input(DNNL_ARG_SCALE, 1, plain_f32(op.in(1))),
         input(DNNL_ARG_SHIFT, 2, plain_f32(op.in(2))), mean, variance});
  }
  lister.finish();
}

void list_backward(const Op& op, CandidateList& out) {
  if (!accept_norm_backward(op, out)) return;
  if (op.attributes[attr::inverted]) return out.refuse("onednn", op.schema->name + ": takes the variance itself");
  if (activation_of(op)) return refuse(op, out, "oneDNN takes the gradient of the norm's own result");
  Lister lister(op, out);
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    const Described x = describe(op.in(0), layout);
    if (!x) continue;
    PrimitiveAttributes post_ops;
    const dnnl_primitive_attr_t attributes = post_ops.attributes();
    Binding of_weight = output(DNNL_ARG_DIFF_SCALE, plain_f32(op.out(1)));
    Binding of_bias = output(DNNL_ARG_DIFF_SHIFT, plain_f32(op.out(2)));
    of_weight.index = 1;
    of_bias.index = 2;
    Owned<dnnl_primitive_desc_t> hint;  // oneDNN's iterator refers to it
    lister.walk(
        [&](dnnl_primitive_desc_t* pd) {
          dnnl_primitive_desc_t forward = nullptr;
          const dnnl_status_t status = create_forward(&forward, op, x.md.get(), kFlags, attributes);
          if (status != dnnl_success) return status;
          hint.reset(forward);
          return dnnl_batch_normalization_backward_primitive_desc_create(
              pd, cpu_engine(), dnnl_backward, x.md.get(), x.md.get(), x.md.get(), float(op.attributes[attr::eps]),
              kFlags, forward, attributes);
        },
        {input(DNNL_ARG_SRC, 0, x.desc), input(DNNL_ARG_DIFF_DST, 1, x.desc),
         input(DNNL_ARG_MEAN, 2, plain_f32(op.in(2))), input(DNNL_ARG_VARIANCE, 3, plain_f32(op.in(3))),
         input(DNNL_ARG_SCALE, 4, plain_f32(op.in(4))), output(DNNL_ARG_DIFF_SRC, x.desc), of_weight, of_bias});
  }
  lister.finish();
}

PL_ONEDNN_KIND("batch_norm_training", list_training);
PL_ONEDNN_KIND("batch_norm_backward", list_backward);

}  // namespace
}  // namespace pl::onednn
