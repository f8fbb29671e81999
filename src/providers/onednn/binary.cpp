// Functions of two arguments, with broadcasting.
#include "providers/onednn/candidates.h"

namespace pl::onednn {
namespace {

struct BinaryFunction {
  const char* name;
  dnnl_alg_kind_t algorithm;
  dnnl_alg_kind_t swapped;  // the same of exchanged arguments; undef if there is none
};
constexpr BinaryFunction kBinaryFunctions[] = {
    {"add", dnnl_binary_add, dnnl_binary_add}, {"sub", dnnl_binary_sub, dnnl_alg_kind_undef},
    {"mul", dnnl_binary_mul, dnnl_binary_mul}, {"div", dnnl_binary_div, dnnl_alg_kind_undef},
    {"eq", dnnl_binary_eq, dnnl_binary_eq},    {"ne", dnnl_binary_ne, dnnl_binary_ne},
    {"lt", dnnl_binary_lt, dnnl_binary_gt},    {"le", dnnl_binary_le, dnnl_binary_ge},
    {"gt", dnnl_binary_gt, dnnl_binary_lt},    {"ge", dnnl_binary_ge, dnnl_binary_le},
};

// An argument in the rank of the result: missing leading dimensions have size 1.
Described padded(const TensorDesc& tensor, const Layout& layout, int rank) {
  if (tensor.rank() == rank && rank > 0) return describe(tensor, layout);
  Described described;
  described.desc = TensorDesc::dense(tensor.dtype, tensor.shape);
  std::vector<int64_t> sizes(size_t(std::max(rank, 1) - tensor.rank()), 1);
  sizes.insert(sizes.end(), tensor.shape.begin(), tensor.shape.end());
  described.md = plain_md(to_dnnl(tensor.dtype), sizes);
  return described;
}

void list_binary(const Op& op, CandidateList& out) {
  if (!accept_dtypes(op, out, {DType::f32, DType::bf16, DType::f16, DType::boolean})) return;
  if (op.in(0).dtype == DType::boolean) return refuse(op, out, "oneDNN has no bool arithmetic");
  const std::string& name = op.attributes[attr::function];
  const BinaryFunction* function = nullptr;
  for (const BinaryFunction& entry : kBinaryFunctions)
    if (name == entry.name) function = &entry;
  if (name == "maximum" || name == "minimum")
    return refuse(op, out, "oneDNN's result is not NaN wherever one argument is");
  if (!function) return refuse(op, out, "oneDNN has no binary algorithm for it");

  // oneDNN broadcasts the second argument only.
  const TensorDesc& y = op.out();
  int first = 0;
  dnnl_alg_kind_t algorithm = function->algorithm;
  if (op.in(0).shape != y.shape) {
    if (op.in(1).shape != y.shape) return refuse(op, out, "oneDNN cannot broadcast both arguments");
    if (function->swapped == dnnl_alg_kind_undef) return refuse(op, out, "oneDNN cannot broadcast the first argument");
    first = 1;
    algorithm = function->swapped;
  }
  if (algorithm == dnnl_binary_gt || algorithm == dnnl_binary_ge)
    return refuse(op, out, "oneDNN takes NaN for greater than any number");
  const TensorDesc &a = op.in(first), &b = op.in(1 - first);
  Lister lister(op, out);
  for (const Layout& layout : layouts_to_try(op, a)) {
    const Described large = padded(a, layout, y.rank()), result = padded(y, layout, y.rank());
    if (!large || !result) continue;
    std::vector<Layout> small_layouts{layout};
    if (b.shape != y.shape && !layout.is_plain()) small_layouts.push_back(Layout::plain(y.rank()));
    for (const Layout& small_layout : small_layouts) {
      const Described small = padded(b, small_layout, y.rank());
      if (!small) continue;
      PrimitiveAttributes post_ops;
      if (!post_ops.post_ops_of(op)) {
        lister.reason(missing_post_op(op));
        continue;
      }
      const dnnl_primitive_attr_t attributes = post_ops.attributes();
      lister.walk(
          [&](dnnl_primitive_desc_t* pd) {
            return dnnl_binary_primitive_desc_create(pd, cpu_engine(), algorithm, large.md.get(), small.md.get(),
                                                     result.md.get(), attributes);
          },
          {input(DNNL_ARG_SRC_0, first, large.desc), input(DNNL_ARG_SRC_1, 1 - first, small.desc),
           output(DNNL_ARG_DST, result.desc)});
    }
  }
  lister.finish();
}

PL_ONEDNN_KIND("binary", list_binary);

}  // namespace
}  // namespace pl::onednn
