// fold_constants: what depends on constants only is computed once.
#include <algorithm>
#include <limits>

#include "core/threads.h"
#include "dispatch/context.h"
#include "dispatch/cost_model.h"
#include "graph/passes/constants.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

namespace pl::passes {
namespace {

// A result of more elements than its inputs together is kept as an op (an expand costs nothing, its result memory),
// unless it is small anyway.  One of the same elements in a wider dtype is not: dequantised weights are used in each
// run.
constexpr size_t kSmallBytes = 64 << 10;

// The op's results on the cpu in plain layout, by a provider's cheapest way by its own estimate: an op that runs once
// is not worth measuring.  Empty where nothing can run it so.
std::vector<TensorRef> compute(Context& context, const Op& op, const std::vector<TensorRef>& inputs) {
  std::vector<TensorRef> results;
  if (op.schema->view) {
    const auto views = op.schema->view(op);
    if (!views) return {};
    for (const TensorDesc& view : *views)
      results.push_back(plain_on_cpu(context, std::make_shared<Tensor>(view, inputs[0]->buffer())));
    return results;
  }
  Device& cpu = context.device("cpu");
  std::optional<Candidate> best;
  double least = std::numeric_limits<double>::infinity();
  for (Provider* provider : context.providers_of(cpu)) {
    if (op.has_empty_tensor() && !provider->handles_empty()) continue;
    CandidateList list;
    provider->list(op, cpu, list);
    for (Candidate& candidate : list.candidates) {
      const auto is_plain = [](const TensorDesc& desc) { return !desc.present || desc.layout.is_plain(); };
      if (!candidate.packings.empty()) continue;
      if (!std::all_of(candidate.inputs.begin(), candidate.inputs.end(), is_plain)) continue;
      if (!std::all_of(candidate.outputs.begin(), candidate.outputs.end(), is_plain)) continue;
      const double ms = estimate_ms(op, candidate, Rates()) * (candidate.reference ? 1000 : 1);
      if (ms >= least) continue;
      least = ms;
      best = std::move(candidate);
    }
  }
  if (!best) return {};
  std::vector<Buffer*> in, out;
  for (const TensorRef& input : inputs) in.push_back(input ? input->buffer().get() : nullptr);
  in.resize(op.inputs.size(), nullptr);
  for (const TensorDesc& desc : best->outputs) {
    results.push_back(Tensor::allocate(cpu, desc));
    out.push_back(results.back()->buffer().get());
  }
  const BufferRef workspace = best->workspace_bytes ? cpu.allocate(best->workspace_bytes) : nullptr;
  use_threads(context.options().threads);
  best->prepare()->run({in.data(), out.data(), workspace.get()});
  return results;
}

void fold(Rewriter& rewriter, Context& context, size_t index) {
  const Node& node = rewriter.node(index);
  if (node.inputs.empty()) return;
  int64_t before = 0, after = 0;
  size_t bytes = 0;
  for (size_t k = 0; k < node.inputs.size(); ++k) {
    const ValueId id = rewriter.input(node, k);
    if (id == kNoValue) continue;
    if (!rewriter.is_constant(id)) return;
    before += rewriter.desc(id).elements();
  }
  for (ValueId id : node.outputs) {
    after += rewriter.desc(id).elements();
    bytes += rewriter.desc(id).size_bytes();
  }
  if (after > before && bytes > kSmallBytes) return;
  std::vector<TensorRef> inputs;
  std::vector<TensorDesc> descs;
  for (size_t k = 0; k < node.inputs.size(); ++k) {
    const ValueId id = rewriter.input(node, k);
    inputs.push_back(id == kNoValue ? nullptr : plain_on_cpu(context, rewriter.graph().value(id).constant));
    descs.push_back(id == kNoValue ? TensorDesc() : inputs.back()->desc());
  }
  const std::vector<TensorRef> results = compute(context, make_op(*node.schema, node.attributes, descs), inputs);
  for (size_t k = 0; k < results.size(); ++k) {
    const ValueId constant = rewriter.add_constant(rewriter.graph().value(node.outputs[k]).name, results[k]);
    rewriter.redirect(node.outputs[k], constant);
  }
}

int run(Graph& graph, Context& context) {
  return sweep(graph, [&](Rewriter& rewriter, size_t index) { fold(rewriter, context, index); });
}

}  // namespace

Pass fold_constants() {
  return {"fold_constants",
          "Computes once what depends on constants only, unless the result is over 64 KiB and has more elements than "
          "the inputs.  "
          "As exact as the op.",
          run};
}

}  // namespace pl::passes
