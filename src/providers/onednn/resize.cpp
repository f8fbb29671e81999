// Interpolation, where oneDNN's coordinates are those of the op.
//
// oneDNN maps output position p to (p + 1/2) * in / out - 1/2, rounded to nearest or split between two neighbours.
#include <cmath>

#include "providers/onednn/candidates.h"

namespace pl::onednn {
namespace {

void list_resize(const Op& op, CandidateList& out) {
  if (!accept_dtypes(op, out, {DType::f32, DType::bf16, DType::f16, DType::s8, DType::u8})) return;
  if (op.attributes[attr::align_corners]) return refuse(op, out, "oneDNN has no align_corners");
  const bool nearest = op.attributes[attr::mode] == "nearest";
  const auto& scale = op.attributes[attr::scale_floats];
  for (size_t i = 0; i < scale.size(); ++i) {
    const int64_t in = op.in(0).shape[2 + int(i)], size = op.out().shape[2 + int(i)];
    if (!nearest && std::fabs(scale[i] - double(in) / double(size)) > 1e-7 * scale[i])
      return refuse(op, out,
                    concat("scale_factor ", 1 / scale[i], " is not the ratio of the sizes, ", in, " and ", size,
                           ", which oneDNN goes by"));
    for (int64_t p = 0; nearest && p < size; ++p) {
      const auto ours = std::min(int64_t(std::floor(double(p) * scale[i])), in - 1);
      const auto theirs = int64_t(std::round((float(p) + 0.5f) * float(in) / float(size) - 0.5f));
      if (ours != theirs)
        return refuse(op, out,
                      concat("oneDNN takes element ", theirs, " for position ", p,
                             " of the result, where floor(p * scale) is ", ours));
    }
  }
  Lister lister(op, out);
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    const Described x = describe(op.in(0), layout), y = describe(op.out(), layout);
    if (!x || !y) continue;
    PrimitiveAttributes post_ops;
    const dnnl_primitive_attr_t attributes = post_ops.attributes();
    lister.walk(
        [&](dnnl_primitive_desc_t* pd) {
          return dnnl_resampling_forward_primitive_desc_create(
              pd, cpu_engine(), dnnl_forward_inference, nearest ? dnnl_resampling_nearest : dnnl_resampling_linear,
              nullptr, x.md.get(), y.md.get(), attributes);
        },
        {input(DNNL_ARG_SRC, 0, x.desc), output(DNNL_ARG_DST, y.desc)});
  }
  lister.finish();
}

PL_ONEDNN_KIND("resize", list_resize);

}  // namespace
}  // namespace pl::onednn
