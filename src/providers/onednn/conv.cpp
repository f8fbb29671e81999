// Convolutions: bias and post-ops are part of the primitive.
#include "providers/onednn/candidates.h"
#include "providers/onednn/windows.h"

namespace pl::onednn {
namespace {

struct Convolution {
  const Op& op;
  Lister& lister;
  Windows windows;
  int64_t groups;
  std::vector<int64_t> weight_sizes;  // as oneDNN counts them: (g,) oc / g, ic / g, k...
  dnnl_data_type_t type;

  bool with_bias() const { return op.has(2); }
  bool with_operands() const { return reads_inputs(post_ops_of(op)); }
  // Grouped weights come to us as (oc, ic / g, k...): g and oc / g are one dimension.
  bool merge_groups(BlockedDesc& desc) const { return groups == 1 || desc.merge(0); }

  // One question to oneDNN.  An output layout of nothing leaves it to the implementation.
  void ask(const Described& x, const std::optional<Layout>& output_layout) {
    // An operand is best read while the result is written; the plain GEMM can only accumulate into it.
    if (!ask(x, output_layout, false) && first_added(op) >= 0) ask(x, output_layout, true);
  }

  // Returns true if something faster than the reference was found.
  bool ask(const Described& x, const std::optional<Layout>& output_layout, bool accumulate) {
    Described y;
    MemoryDesc any;
    if (output_layout) {
      y = describe(op.out(), *output_layout);
      if (!y) return false;
    } else {
      any = any_md(type, op.out().shape.vector());
    }
    const_dnnl_memory_desc_t y_md = any ? any.get() : y.md.get();

    PrimitiveAttributes post_ops;
    std::vector<Binding> bindings{input(DNNL_ARG_SRC, 0, x.desc)};
    bindings.push_back(any ? output(DNNL_ARG_DST) : output(DNNL_ARG_DST, y.desc));
    const auto operands = post_ops.post_ops_of(op, {y_md, y.desc}, accumulate);
    if (!operands) {
      lister.reason(missing_post_op(op));
      return false;
    }
    bindings.insert(bindings.end(), operands->begin(), operands->end());
    MemoryDesc bias;
    if (with_bias()) {
      bias = to_md(op.in(2));
      bindings.push_back(input(DNNL_ARG_BIAS, 2, op.in(2)));
    }
    const auto create = [&](const_dnnl_memory_desc_t weights, dnnl_primitive_attr_t attributes,
                            dnnl_primitive_desc_t* pd) {
      return dnnl_convolution_forward_primitive_desc_create(
          pd, cpu_engine(), dnnl_forward_inference, dnnl_convolution_direct, x.md.get(), weights, bias.get(), y_md,
          windows.stride.data(), windows.dilation.data(), windows.begins.data(), windows.ends.data(), attributes);
    };
    const dnnl_primitive_attr_t attributes = post_ops.attributes();
    const Accumulating sum(op, accumulate ? nullptr : &lister, {y_md, y.desc}, create);
    const auto ask_with = [&](const MemoryDesc& weights, const Binding& weights_binding) {
      auto all = bindings;
      all.push_back(weights_binding);
      return lister.walk([&](dnnl_primitive_desc_t* pd) { return create(weights.get(), attributes, pd); }, all,
                         accumulate ? "sum:" : "", !accumulate, weights.get());
    };
    Binding free_weights = input(DNNL_ARG_WEIGHTS, 1);
    free_weights.view = [groups = groups](BlockedDesc& desc) { return groups == 1 || desc.merge(0); };
    auto outcome = ask_with(any_md(type, weight_sizes), free_weights);
    if (outcome.unnameable && groups > 1)  // blocks that do not end where groups do: try plain weights
      outcome.fast += ask_with(plain_md(type, weight_sizes),
                               input(DNNL_ARG_WEIGHTS, 1, TensorDesc::dense(op.in(1).dtype, op.in(1).shape)))
                          .fast;
    return outcome.fast > 0;
  }
};

void list_convolutions(const Op& op, CandidateList& out) {
  if (!accept_dtypes(op, out, {DType::f32, DType::bf16, DType::f16})) return;
  const TensorDesc &x = op.in(0), &weight = op.in(1);
  const int64_t groups = op.attributes[attr::groups];
  Lister lister(op, out);
  Convolution conv{op, lister, Windows(op), groups, weight.shape.vector(), to_dnnl(x.dtype)};
  if (groups > 1) {
    conv.weight_sizes[0] /= groups;
    conv.weight_sizes.insert(conv.weight_sizes.begin(), groups);
  }
  const int rank = x.rank();
  for (const Layout& layout : layouts_to_try(op, x)) {
    const Described source = describe(x, layout);
    if (!source) {
      lister.reason(concat("oneDNN cannot describe x as ", layout.str()));
      continue;
    }
    conv.ask(source, layout);
    // The first convolution of a network: its few input channels are read as they are, and the output goes
    // straight into the layout of what follows.
    if (layout.is_plain() && x.shape[1] <= 4) {
      if (!conv.with_operands()) conv.ask(source, std::nullopt);
      for (const Layout& other :
           {Layout::channels_last(rank), Layout::channels_blocked(rank, 16), Layout::channels_blocked(rank, 8)})
        if (!other.is_blocked() || op.out().shape[1] * 2 >= other.block_volume()) conv.ask(source, other);
    }
  }
  lister.finish();
}

PL_ONEDNN_KIND("conv", list_convolutions);

}  // namespace
}  // namespace pl::onednn
