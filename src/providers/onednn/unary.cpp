// Functions of one argument, element by element.
#include "providers/onednn/candidates.h"
#include "providers/onednn/faults.h"

namespace pl::onednn {
namespace {

void list_unary(const Op& op, CandidateList& out) {
  if (!accept_dtypes(op, out, {DType::f32, DType::bf16, DType::f16})) return;
  const std::string& function = op.attributes[attr::function];
  const auto steps = eltwise_of(function, op.attributes[attr::alpha], op.attributes[attr::beta]);
  if (steps.size() != 1) return refuse(op, out, "oneDNN has no eltwise algorithm for it");
  const Eltwise& step = steps[0];
  if (function == "elu") return refuse(op, out, "oneDNN has exp(x) - 1, which loses the digits of small arguments");
  // A NaN that disappears hides the defect that made it.
  if (loses_nan(function)) return refuse(op, out, kNanBecomesNumber.str());
  Lister lister(op, out);
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    const Described x = describe(op.in(0), layout), y = describe(op.out(), layout);
    if (!x) continue;
    PrimitiveAttributes post_ops;
    const dnnl_primitive_attr_t attributes = post_ops.attributes();
    lister.walk(
        [&](dnnl_primitive_desc_t* pd) {
          return dnnl_eltwise_forward_primitive_desc_create(pd, cpu_engine(), dnnl_forward_inference, step.algorithm,
                                                            x.md.get(), y.md.get(), step.alpha, step.beta, attributes);
        },
        {input(DNNL_ARG_SRC, 0, x.desc), output(DNNL_ARG_DST, y.desc)});
  }
  lister.finish();
}

PL_ONEDNN_KIND("unary", list_unary);

}  // namespace
}  // namespace pl::onednn
