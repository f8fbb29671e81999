// join_linear: linear ops of the same data by different constant weights become one of the weights in a row, whose
// result is read in slices of its channels: queries, keys and values; gate and up of a gated layer.
//
// The slices are strided views.  So only where each reader takes such a view on this device are ops joined: nothing is
// copied then, and the data is read once.  split_linear, which runs before, does the opposite; what it parted for
// readers that want tensors of their own stays parted.
//
// A graph with named axes goes through the passes again for each size.  The weights in a row are one constant for all
// of them, which is packed once and of which there is no other copy (graph/joined_constants.h).  Ops that are joined at
// some sizes only would have their weights packed apart, too: they stay apart, unless the weights adjoin already.
#include <algorithm>
#include <cstring>

#include "dispatch/context.h"
#include "graph/passes/constants.h"
#include "graph/passes/passes.h"
#include "graph/passes/patterns.h"
#include "graph/passes/products.h"
#include "graph/passes/strided_readers.h"
#include "graph/program.h"
#include "ops/gradient.h"
#include "ops/view.h"

namespace pl::passes {
namespace {

constexpr int kMostViewsBehindProduct = 4;  // between a product and its reader
// On the process's threads, where the joined result is more than second-level caches hold, short sums are no faster as
// one, and an activation takes more in a loop of its own than one product gains
// (docs/notes/2026-11-25-text-on-two-cores.md).  Where each op is a launch, one for several is always less.
constexpr size_t kMostBytes = 3 << 19;
constexpr int64_t kLongSum = 256;

class Joiner {
 public:
  Joiner(Rewriter& rewriter, Context& context, Device& device, PackedConstants* constants)
      : rewriter_(rewriter),
        context_(context),
        device_(device),
        constants_(constants),
        readers_(rewriter, context, device) {
    // A program for many lengths of what grows may have no axes left.
    sized_late_ = !rewriter.graph().axes().empty() || (constants && constants->are_shared());
  }

  // The ops of each group have no other product between them: what is made together is needed at about one time.
  void run() {
    std::vector<size_t> group;
    for (size_t i = 0; i < rewriter_.size(); ++i) {
      const Node& node = rewriter_.node(i);
      if (!node.schema->products) continue;
      const bool may = is_joinable(i);
      if (!group.empty() && !(may && are_alike(rewriter_.node(group[0]), node))) {
        join(group);
        group.clear();
      }
      if (may) group.push_back(i);
    }
    join(group);
  }

 private:
  bool is_joinable(size_t index) {
    const Node& node = rewriter_.node(index);
    const ValueId weight = rewriter_.input(node, kWeight), bias = rewriter_.input(node, kBias);
    return is_linear(node) && rewriter_.is_constant(weight) && is_one_function(rewriter_.post_ops(index)) &&
           (bias == kNoValue || rewriter_.is_constant(bias)) && rewriter_.shape(weight)[0] > 0 &&
           !rewriter_.is_constant(rewriter_.input(node, 0));
  }
  // Of a gated layer one of two products has it.
  static bool is_one_function(const PostOps& list) {
    return list.empty() || (list.size() == 1 && list[0].kind == PostOp::Kind::function);
  }
  bool are_alike(const Node& a, const Node& b) {
    return a.schema == b.schema && rewriter_.input(a, 0) == rewriter_.input(b, 0);
  }

  void join(const std::vector<size_t>& group) {
    if (group.size() < 2) return;
    int64_t channels = 0;
    size_t bytes = 0;
    for (size_t index : group) {
      const TensorDesc& y = rewriter_.desc(rewriter_.node(index).outputs[0]);
      channels += y.shape[y.rank() - 1];
      bytes += y.size_bytes();
    }
    const int64_t terms = rewriter_.shape(rewriter_.input(rewriter_.node(group[0]), kWeight))[1];
    const bool activated =
        std::any_of(group.begin(), group.end(), [&](size_t index) { return rewriter_.has_post_ops(index); });
    const bool unless_large = device_.traits().threads && (terms < kLongSum || activated);
    if (unless_large && bytes > kMostBytes) return;
    TensorRef shared;  // weights that other sizes have, too
    if (sized_late_) {
      const std::vector<ValueId> weights = inputs_of(group, kWeight);
      shared = view_of_all(weights);
      if (!shared && constants_ && !unless_large) shared = constants_->in_a_row(tensors_of(weights));
      if (!shared) return;
    }
    std::vector<PostOps> functions;  // of each, which is fused into it
    int64_t first = 0;
    for (size_t index : group) {
      const ValueId y = rewriter_.node(index).outputs[0];
      TensorDesc whole = rewriter_.desc(y);
      Dims starts = Dims::filled(whole.rank(), 0);
      const Dims part = whole.shape;
      starts[whole.rank() - 1] = first;
      first += part[whole.rank() - 1];
      Dims shape = part;
      shape[whole.rank() - 1] = channels;
      whole = TensorDesc::dense(whole.dtype, shape);
      const auto view = view_sliced(whole, starts, part, Dims::filled(whole.rank(), 1));
      if (!view) return;
      functions.push_back(rewriter_.post_ops(index));
      const bool taken = functions.back().empty() ? readers_.take(y, *view, kMostViewsBehindProduct)
                                                  : applies(functions.back()[0], *view);
      if (!taken) return;
    }
    rewrite(group, functions, std::move(shared));
  }

  bool applies(const PostOp& function, const TensorDesc& view) {
    const StepCall call = call_of(function);
    return readers_.has_ways(make_op(schema_of(call.op), call.attributes, {readers_.as_given(view)}));
  }

  std::vector<ValueId> inputs_of(const std::vector<size_t>& group, size_t k) {
    std::vector<ValueId> ids;
    for (size_t index : group) ids.push_back(rewriter_.input(rewriter_.node(index), k));
    return ids;
  }

  std::vector<TensorRef> tensors_of(const std::vector<ValueId>& ids) {
    std::vector<TensorRef> tensors;
    for (ValueId id : ids) tensors.push_back(rewriter_.graph().value(id).constant);
    return tensors;
  }

  // The constants one behind the other; absent ones are zeros.  Where they lie so already, a view of that memory.
  TensorRef in_a_row(const std::vector<ValueId>& parts, const std::vector<Dims>& shapes, DType dtype) {
    if (const TensorRef view = view_of_all(parts)) return view;
    Dims shape = shapes[0];
    shape[0] = 0;
    for (const Dims& part : shapes) shape[0] += part[0];
    const TensorRef whole = Tensor::allocate(context_.host(), TensorDesc::dense(dtype, shape));
    char* to = static_cast<char*>(whole->buffer()->host());
    for (size_t i = 0; i < parts.size(); ++i) {
      const size_t bytes = TensorDesc::dense(dtype, shapes[i]).size_bytes();
      if (parts[i] == kNoValue) {
        std::memset(to, 0, bytes);
      } else {
        const TensorRef part = plain_on_cpu(context_, rewriter_.graph().value(parts[i]).constant);
        std::memcpy(to, static_cast<const char*>(part->buffer()->host()), bytes);
      }
      to += bytes;
    }
    return whole;
  }

  TensorRef view_of_all(const std::vector<ValueId>& parts) {
    if (parts[0] == kNoValue) return nullptr;
    const Tensor& first = rewriter_.constant(parts[0]);
    TensorDesc whole = first.desc();
    if (whole.layout.is_blocked()) return nullptr;
    for (size_t i = 1; i < parts.size(); ++i) {
      if (parts[i] == kNoValue) return nullptr;
      const Tensor& part = rewriter_.constant(parts[i]);
      TensorDesc expected = whole;
      expected.shape[0] = part.desc().shape[0];
      expected.offset = whole.offset + whole.shape[0] * whole.strides[0];
      if (part.buffer() != first.buffer() || !same_memory(part.desc(), expected)) return nullptr;
      whole.shape[0] += expected.shape[0];
    }
    return std::make_shared<Tensor>(whole, first.buffer());
  }

  void rewrite(const std::vector<size_t>& group, const std::vector<PostOps>& functions, TensorRef row) {
    const Node& node = rewriter_.node(group[0]);
    const ValueId x = rewriter_.input(node, 0);
    const DType dtype = rewriter_.desc(x).dtype;
    const std::vector<ValueId> weights = inputs_of(group, kWeight), biases = inputs_of(group, kBias);
    std::vector<Dims> weight_shapes, bias_shapes;
    for (ValueId weight : weights) {
      weight_shapes.push_back(rewriter_.shape(weight));
      bias_shapes.push_back(Dims{weight_shapes.back()[0]});
    }
    const bool biased = std::any_of(biases.begin(), biases.end(), [](ValueId bias) { return bias != kNoValue; });
    const std::string name = node.name;
    if (!row) row = in_a_row(weights, weight_shapes, dtype);
    std::vector<ValueId> inputs{x, rewriter_.add_constant(name + ".weights", std::move(row))};
    if (biased) inputs.push_back(rewriter_.add_constant(name + ".biases", in_a_row(biases, bias_shapes, dtype)));
    const ValueId whole = rewriter_.insert(group[0], "linear", {}, inputs, name + ".joined");
    const int64_t axis = rewriter_.shape(whole).size() - 1;
    int64_t first = 0;
    for (size_t i = 0; i < group.size(); ++i) {
      const int64_t end = first + weight_shapes[i][0];
      const Attributes part = Attributes{{attr::starts, std::vector<int64_t>{first}},
                                         {attr::ends, std::vector<int64_t>{end}},
                                         {attr::axes, std::vector<int64_t>{axis}}};
      first = end;
      if (functions[i].empty()) {
        rewriter_.rewrite(group[i], "slice", part, {whole});
        continue;
      }
      const ValueId slice = rewriter_.insert(group[i], "slice", part, {whole}, rewriter_.node(group[i]).name + ".part");
      rewrite_as_step(rewriter_, group[i], functions[i][0], slice);
    }
  }

  Rewriter& rewriter_;
  Context& context_;
  Device& device_;
  PackedConstants* constants_;
  StridedReaders readers_;
  bool sized_late_ = false;  // the graph is one of several, for further sizes
};

}  // namespace

Pass join_linear(Device* device, PackedConstants* constants) {
  return {"join_linear",
          "Makes linear ops of the same data by different constant weights, as queries, keys and values are, one whose "
          "result is read in slices, if on this device all readers take strided views.  Exact but for the order in "
          "which products are added up.",
          [device, constants](Graph& graph, Context& context) {
            if (!device) return 0;
            Rewriter rewriter(graph);
            Joiner(rewriter, context, *device, constants).run();
            return rewriter.changes();
          }};
}

}  // namespace pl::passes
