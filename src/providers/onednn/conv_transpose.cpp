// Transposed convolutions: oneDNN's deconvolution, with bias and post-ops.
#include <numeric>

#include "providers/onednn/candidates.h"
#include "providers/onednn/windows.h"

namespace pl::onednn {
namespace {

constexpr const char* kApart = "then_post_ops:";

void list_conv_transpose(const Op& op, CandidateList& out) {
  if (!accept_dtypes(op, out, {DType::f32, DType::bf16, DType::f16})) return;
  const TensorDesc &x = op.in(0), &weight = op.in(1);
  const dnnl_data_type_t type = to_dnnl(x.dtype);
  const int64_t groups = op.attributes[attr::groups];
  Windows windows(op);
  const auto& extra = op.attributes[attr::output_padding];
  for (size_t i = 0; i < extra.size(); ++i) windows.ends[i] -= extra[i];

  // Ours is (ic, oc / groups, k...), oneDNN's (g,) oc / g, ic / g, k...
  const int64_t ic = weight.shape[0] / groups, oc = weight.shape[1];
  std::vector<int64_t> sizes{oc, ic}, strides;
  const std::vector<int64_t> ours = row_major(weight.shape.vector());
  strides = {ours[1], ours[0]};
  for (int i = 2; i < weight.rank(); ++i) {
    sizes.push_back(weight.shape[i]);
    strides.push_back(ours[size_t(i)]);
  }
  const int first = groups > 1 ? 1 : 0;  // position of oc
  if (groups > 1) {
    sizes.insert(sizes.begin(), groups);
    strides.insert(strides.begin(), ours[0] * ic);
  }
  std::vector<int> exchange(sizes.size());
  std::iota(exchange.begin(), exchange.end(), 0);
  std::swap(exchange[size_t(first)], exchange[size_t(first) + 1]);
  Binding free_weights = input(DNNL_ARG_WEIGHTS, 1);
  free_weights.view = [groups, exchange](BlockedDesc& desc) {
    desc.permute(exchange);
    return groups == 1 || desc.merge(0);
  };

  Lister lister(op, out);
  for (const Layout& layout : layouts_to_try(op, x)) {
    const Described source = describe(x, layout), y = describe(op.out(), layout);
    if (!source || !y) continue;
    PrimitiveAttributes post_ops;
    const Operand operand{y.md.get(), y.desc};
    const auto operands = post_ops.post_ops_of(op, operand);
    if (!operands) return refuse(op, out, missing_post_op(op));
    std::vector<Binding> bindings{input(DNNL_ARG_SRC, 0, source.desc), output(DNNL_ARG_DST, y.desc)};
    MemoryDesc bias;
    if (op.has(2)) {
      bias = to_md(op.in(2));
      bindings.push_back(input(DNNL_ARG_BIAS, 2, op.in(2)));
    }
    bindings.insert(bindings.end(), operands->begin(), operands->end());
    const dnnl_primitive_attr_t attributes = post_ops.attributes();
    // apart: what then applies bias and post-ops.
    const auto ask = [&](const MemoryDesc& weights, const Binding& binding, const Lister::Step* apart) {
      const const_dnnl_memory_desc_t dst = apart && apart->between ? apart->between.get() : y.md.get();
      auto all = bindings;
      if (apart) all.resize(2);  // without the bias and operands
      all.push_back(binding);
      PrimitiveAttributes none;
      const dnnl_primitive_attr_t applied = apart ? none.attributes() : attributes;
      const auto create = [&](const_dnnl_memory_desc_t weights_md, dnnl_primitive_attr_t with,
                              dnnl_primitive_desc_t* pd) {
        return dnnl_deconvolution_forward_primitive_desc_create(
            pd, cpu_engine(), dnnl_forward_inference, dnnl_deconvolution_direct, source.md.get(), weights_md,
            apart ? nullptr : bias.get(), dst, windows.stride.data(), windows.dilation.data(), windows.begins.data(),
            windows.ends.data(), with);
      };
      const Accumulating sum(op, apart ? nullptr : &lister, operand, create);
      return lister.walk([&](dnnl_primitive_desc_t* pd) { return create(weights.get(), applied, pd); }, all,
                         apart ? kApart : "", true, weights.get());
    };
    const auto ask_all = [&](const Lister::Step* apart) {
      const Lister::Outcome free = ask(any_md(type, sizes), free_weights, apart);
      if (free.unnameable)
        ask(strided_md(type, sizes, strides), input(DNNL_ARG_WEIGHTS, 1, TensorDesc::dense(weight.dtype, weight.shape)),
            apart);
      return free.apart > 0;
    };
    // One that is wanted by name is not met, and so not counted, where it is asked with post-ops.
    const bool wanted_apart = out.wanted && out.wanted->implementation().rfind(kApart, 0) == 0;
    if (!ask_all(nullptr) && !wanted_apart) continue;
    const std::optional<Lister::Step> step = post_ops_apart(op, y, op.has(2) ? 2 : -1);
    if (!step) continue;
    lister.then(step, true);
    ask_all(&*step);
    lister.then(std::nullopt);
  }
  lister.finish();
}

PL_ONEDNN_KIND("conv_transpose", list_conv_transpose);

}  // namespace
}  // namespace pl::onednn
