// The gradients of convolutions by their weights.
#include "providers/onednn/candidates.h"
#include "providers/onednn/windows.h"

namespace pl::onednn {
namespace {

void list_conv_backward_weights(const Op& op, CandidateList& out) {
  if (!accept_dtypes(op, out, {DType::f32, DType::bf16, DType::f16})) return;
  const TensorDesc &x = op.in(0), &grad = op.in(1), &weight = op.out();
  const dnnl_data_type_t type = to_dnnl(x.dtype);
  const int64_t groups = op.attributes[attr::groups];
  Windows windows(op);
  // oneDNN wants the padding that the last window touches.
  for (size_t i = 0; i < windows.ends.size(); ++i) {
    const int axis = 2 + int(i);
    const int64_t reach = (weight.shape[axis] - 1) * (windows.dilation[i] + 1) + 1;
    windows.ends[i] = (grad.shape[axis] - 1) * windows.stride[i] + reach - x.shape[axis] - windows.begins[i];
  }
  std::vector<int64_t> sizes = weight.shape.vector();
  if (groups > 1) {
    sizes[0] /= groups;
    sizes.insert(sizes.begin(), groups);
  }
  Lister lister(op, out);
  for (const Layout& layout : layouts_to_try(op, x)) {
    const Described source = describe(x, layout);
    std::vector<Layout> others{layout};
    // The first convolution of a network: its few channels are read as they are.
    if (layout.is_plain() && x.shape[1] <= 4)
      for (const Layout& other : {Layout::channels_last(x.rank()), Layout::channels_blocked(x.rank(), 16),
                                  Layout::channels_blocked(x.rank(), 8)})
        if (!other.is_blocked() || grad.shape[1] * 2 >= other.block_volume()) others.push_back(other);
    for (const Layout& other : others) {
      const Described gradient = describe(grad, other);
      if (!source || !gradient) {
        lister.reason(concat("oneDNN cannot describe x as ", layout.str()));
        continue;
      }
      const auto ask = [&](const MemoryDesc& weights, const Binding& binding) {
        Owned<dnnl_primitive_desc_t> hint;  // oneDNN's iterator refers to it
        return lister.walk(
            [&](dnnl_primitive_desc_t* pd) {
              PrimitiveAttributes post_ops;
              const dnnl_primitive_attr_t attributes = post_ops.attributes();
              dnnl_primitive_desc_t forward = nullptr;
              const dnnl_status_t status = dnnl_convolution_forward_primitive_desc_create(
                  &forward, cpu_engine(), dnnl_forward_training, dnnl_convolution_direct, source.md.get(),
                  weights.get(), nullptr, gradient.md.get(), windows.stride.data(), windows.dilation.data(),
                  windows.begins.data(), windows.ends.data(), attributes);
              if (status != dnnl_success) return status;
              hint.reset(forward);
              return dnnl_convolution_backward_weights_primitive_desc_create(
                  pd, cpu_engine(), dnnl_convolution_direct, source.md.get(), weights.get(), nullptr, gradient.md.get(),
                  windows.stride.data(), windows.dilation.data(), windows.begins.data(), windows.ends.data(), forward,
                  attributes);
            },
            {input(DNNL_ARG_SRC, 0, source.desc), input(DNNL_ARG_DIFF_DST, 1, gradient.desc), binding});
      };
      Binding free_weights = output(DNNL_ARG_DIFF_WEIGHTS);
      free_weights.view = [groups](BlockedDesc& desc) { return groups == 1 || desc.merge(0); };
      const Lister::Outcome outcome = ask(any_md(type, sizes), free_weights);
      if (outcome.unnameable || outcome.fast == 0)
        ask(plain_md(type, sizes), output(DNNL_ARG_DIFF_WEIGHTS, TensorDesc::dense(weight.dtype, weight.shape)));
    }
  }
  lister.finish();
}

PL_ONEDNN_KIND("conv_backward_weights", list_conv_backward_weights);

}  // namespace
}  // namespace pl::onednn
