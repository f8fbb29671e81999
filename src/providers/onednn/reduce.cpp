// Reductions over any set of dimensions.
#include <algorithm>

#include "providers/onednn/candidates.h"

namespace pl::onednn {
namespace {

struct ReduceFunction {
  const char* name;
  dnnl_alg_kind_t algorithm;
  float p;  // of the norms
};
constexpr ReduceFunction kReduceFunctions[] = {
    {"sum", dnnl_reduction_sum, 0},
    {"mean", dnnl_reduction_mean, 0},
    {"prod", dnnl_reduction_mul, 0},
    {"reduce_l1", dnnl_reduction_norm_lp_sum, 1},
    {"reduce_l2", dnnl_reduction_norm_lp_sum, 2},
    {"reduce_sum_square", dnnl_reduction_norm_lp_power_p_sum, 2},
};

void list_reduce(const Op& op, CandidateList& out) {
  if (!accept_dtypes(op, out, {DType::f32, DType::bf16, DType::f16})) return;
  const TensorDesc &x = op.in(0), &y = op.out();
  const ReduceFunction* function = nullptr;
  for (const ReduceFunction& entry : kReduceFunctions)
    if (op.attributes[attr::function] == entry.name) function = &entry;
  if (op.attributes[attr::function] == "amax" || op.attributes[attr::function] == "amin")
    return refuse(op, out, "oneDNN's result is not NaN wherever an element is");
  if (!function) return refuse(op, out, "oneDNN has no reduction algorithm for it");
  if (x.rank() == 0) return refuse(op, out, "x has no dimension to reduce");
  if (x.rank() > 5) return refuse(op, out, "oneDNN reduces tensors of at most 5 dimensions");
  if (!accept_terms(op, out, x.elements() / std::max<int64_t>(y.elements(), 1))) return;
  // oneDNN keeps reduced dimensions; without keepdim the memory is the same.
  Dims kept = x.shape;
  for (int64_t dim : op.attributes[attr::dim_ints]) kept[int(dim)] = 1;
  const TensorDesc kept_desc = TensorDesc::dense(y.dtype, kept);
  Lister lister(op, out);
  for (const Layout& layout : layouts_to_try(op, x)) {
    const Described source = describe(x, layout);
    if (!source) continue;
    const auto ask = [&](const Layout& result_layout) {
      const Described result = describe(kept_desc, result_layout);
      if (!result) return;
      PrimitiveAttributes post_ops;
      const dnnl_primitive_attr_t attributes = post_ops.attributes();
      lister.walk(
          [&](dnnl_primitive_desc_t* pd) {
            return dnnl_reduction_primitive_desc_create(pd, cpu_engine(), function->algorithm, source.md.get(),
                                                        result.md.get(), function->p, 0.0f, attributes);
          },
          {input(DNNL_ARG_SRC, 0, source.desc),
           output(DNNL_ARG_DST, y.rank() == x.rank() ? result.desc : TensorDesc::dense(y.dtype, y.shape))});
    };
    ask(Layout::plain(x.rank()));
    if (y.rank() == x.rank() && !layout.is_plain()) ask(layout);
  }
  lister.finish();
}

PL_ONEDNN_KIND("reduce", list_reduce);

}  // namespace
}  // namespace pl::onednn
