#include "providers/onednn/candidates.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "core/status.h"
#include "oneapi/dnnl/dnnl_debug.h"
#include "providers/onednn/estimates.h"
#include "providers/onednn/faults.h"

namespace pl::onednn {
namespace {

bool starts_with(std::string_view text, std::string_view head) { return text.substr(0, head.size()) == head; }

// What oneDNN itself calls its plain loops.  In reorders `simple` is a compiled, parallel loop and no reference;
// a `ref` concat is a sequence of such reorders.
bool is_reference(std::string_view name, std::string_view kind) {
  if (starts_with(name, "ref")) return kind != "concat";
  if (name.find("+ref") != std::string_view::npos) return true;  // "conv:any+ref:any", a deconvolution
  return starts_with(name, "simple") && kind != "reorder" && kind != "concat";
}

// True if one of `names`, met before in the same list, is the same code for a newer instruction set:
// "jit:avx512_core" for "jit:avx2".  Products and convolutions keep avx2, whose smaller blocks can suit better.
bool is_superseded(std::string_view name, const std::set<std::string>& names, std::string_view kind) {
  const size_t colon = name.rfind(':');
  if (colon == std::string_view::npos) return false;
  const std::string_view base = name.substr(0, colon + 1), isa = name.substr(colon + 1);
  const bool blocked = kind == "conv" || kind == "conv_transpose" || kind == "linear" || kind == "matmul";
  if (isa != "sse41" && isa != "avx" && (isa != "avx2" || blocked)) return false;
  const auto at = names.lower_bound(std::string(base));
  return at != names.end() && starts_with(*at, base);
}

// A deconvolution that is the gradient of a convolution applies post-ops by a loop of reference over the result: 150 times the time
// of a depthwise one.
bool loops_over_post_ops(const Op& op, std::string_view name) {
  return op.schema->kind == "conv_transpose" && starts_with(name, "conv:any") && !post_ops_of(op).empty();
}

bool has_post_ops(const_dnnl_primitive_desc_t pd) {
  const_dnnl_primitive_attr_t attributes = nullptr;
  const_dnnl_post_ops_t post_ops = nullptr;
  return dnnl_primitive_desc_get_attr(pd, &attributes) == dnnl_success &&
         dnnl_primitive_attr_get_post_ops(attributes, &post_ops) == dnnl_success && dnnl_post_ops_len(post_ops) > 0;
}

// A primitive, and after it others over its result.
class Primitives final : public Kernel {
 public:
  Primitives(PrimitiveDesc first, std::vector<Argument> arguments, const Lister::Step& step, const std::string& label) {
    kernels_.push_back(std::make_unique<PrimitiveKernel>(std::move(first), std::move(arguments), label));
    for (const Lister::Step::Primitive& next : step.primitives)
      kernels_.push_back(std::make_unique<PrimitiveKernel>(next.description, next.arguments, label));
  }
  void run(const KernelArguments& arguments) override {
    for (const auto& kernel : kernels_) kernel->run(arguments);
  }

 private:
  std::vector<std::unique_ptr<PrimitiveKernel>> kernels_;
};

// A primitive that reads an input beside, and another that finds it where the result is to be, for a caller who wants
// it there; made when that happens first.
class BesideOrWithin final : public Kernel {
 public:
  using Make = std::function<std::unique_ptr<PrimitiveKernel>()>;
  BesideOrWithin(std::unique_ptr<PrimitiveKernel> beside, Make within, int input)
      : beside_(std::move(beside)), make_(std::move(within)), input_(input) {}
  void run(const KernelArguments& arguments) override {
    if (arguments.outputs[0]->host() != arguments.inputs[input_]->host()) return beside_->run(arguments);
    std::call_once(made_, [&] { within_ = make_(); });
    within_->run(arguments);
  }

 private:
  std::unique_ptr<PrimitiveKernel> beside_, within_;
  Make make_;
  int input_;
  std::once_flag made_;
};

// Whether the one candidate that is asked for, if one is, may have these tensors.
bool may_be_wanted(const std::optional<Wanted>& wanted, const std::vector<Binding>& bindings) {
  return !wanted || std::all_of(bindings.begin(), bindings.end(), [&](const Binding& binding) {
    const size_t index = size_t(binding.index);
    return !binding.desc ||
           (binding.output ? wanted->gives(index, *binding.desc) : wanted->takes(index, *binding.desc));
  });
}

bool same(const Candidate& a, const Candidate& b) {
  if (a.implementation != b.implementation) return false;
  const auto same_list = [](const std::vector<TensorDesc>& x, const std::vector<TensorDesc>& y) {
    for (size_t i = 0; i < x.size(); ++i)
      if (x[i].present && !same_memory(x[i], y[i])) return false;
    return true;
  };
  return same_list(a.inputs, b.inputs) && same_list(a.outputs, b.outputs);
}

}  // namespace

Binding::Binding() = default;
Binding::Binding(int argument, bool output, int index, std::optional<TensorDesc> desc)
    : argument(argument), output(output), index(index), desc(std::move(desc)) {}
Binding::~Binding() = default;
Binding::Binding(const Binding& other) = default;
Binding::Binding(Binding&& other) noexcept = default;
Binding& Binding::operator=(const Binding& other) = default;
Binding& Binding::operator=(Binding&& other) noexcept = default;

Lister::Lister(const Op& op, CandidateList& out) : op_(op), out_(out), first_(out.candidates.size()) {}
Lister::~Lister() = default;

Binding input(int argument, int index) { return {argument, false, index}; }
Binding input(int argument, int index, TensorDesc desc) { return {argument, false, index, std::move(desc)}; }
Binding output(int argument, TensorDesc desc) { return {argument, true, 0, std::move(desc)}; }
Binding output(int argument) { return {argument, true, 0}; }

std::vector<Eltwise> eltwise_of(const PostOp& step) {
  if (step.kind == PostOp::Kind::scale) return {{dnnl_eltwise_linear, float(step.alpha()), 0}};
  return eltwise_of(step.name, step.alpha(), step.beta());
}

std::vector<Eltwise> eltwise_of(std::string_view function, double alpha, double beta) {
  const float a = float(alpha), b = float(beta);
  if (function == "relu") return {{dnnl_eltwise_relu, 0, 0}};
  if (function == "relu6") return {{dnnl_eltwise_clip_v2, 0, 6}};
  if (function == "leaky_relu") return {{dnnl_eltwise_relu, a, 0}};
  if (function == "elu") return {{dnnl_eltwise_elu, a, 0}};
  // scale * (max(0, x) + min(0, alpha * (exp(x) - 1))), the constants of Klambauer et al. 2017
  if (function == "selu")
    return {{dnnl_eltwise_elu, 1.6732632423543772f, 0}, {dnnl_eltwise_linear, 1.0507009873554805f, 0}};
  if (function == "gelu_erf") return {{dnnl_eltwise_gelu_erf, 0, 0}};
  if (function == "gelu_tanh") return {{dnnl_eltwise_gelu_tanh, 0, 0}};
  if (function == "silu") return {{dnnl_eltwise_swish, 1, 0}};
  if (function == "hardswish") return {{dnnl_eltwise_hardswish, 1.0f / 6, 0.5f}};
  if (function == "hardsigmoid") return {{dnnl_eltwise_hardsigmoid, 1.0f / 6, 0.5f}};
  if (function == "sigmoid") return {{dnnl_eltwise_logistic, 0, 0}};
  if (function == "tanh") return {{dnnl_eltwise_tanh, 0, 0}};
  if (function == "clip") return {{dnnl_eltwise_clip_v2, a, b}};
  // log(1 + exp(alpha x)) / alpha; ours is x itself above the threshold, which is the same float from 17 on.
  if (function == "softplus" && beta >= 17 && alpha != 0) return {{dnnl_eltwise_soft_relu, a, 0}};
  if (function == "mish") return {{dnnl_eltwise_mish, 0, 0}};
  if (function == "abs") return {{dnnl_eltwise_abs, 0, 0}};
  if (function == "neg") return {{dnnl_eltwise_linear, -1, 0}};
  if (function == "exp") return {{dnnl_eltwise_exp, 0, 0}};
  if (function == "log") return {{dnnl_eltwise_log, 0, 0}};
  if (function == "sqrt") return {{dnnl_eltwise_sqrt, 0, 0}};
  if (function == "reciprocal") return {{dnnl_eltwise_pow, 1, -1}};
  if (function == "square") return {{dnnl_eltwise_square, 0, 0}};
  if (function == "round") return {{dnnl_eltwise_round, 0, 0}};
  return {};
}

PrimitiveAttributes::PrimitiveAttributes() {
  dnnl_primitive_attr_t attributes = nullptr;
  expect_success(dnnl_primitive_attr_create(&attributes), "dnnl_primitive_attr_create");
  attributes_.reset(attributes);
  expect_success(dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user), "scratchpad mode");
  expect_success(dnnl_primitive_attr_set_fpmath_mode(attributes, dnnl_fpmath_mode_strict), "fpmath mode");
  dnnl_post_ops_t post_ops = nullptr;
  expect_success(dnnl_post_ops_create(&post_ops), "dnnl_post_ops_create");
  post_ops_.reset(post_ops);
}

// Without AVX-512 products of matrices apply post-ops by scalar code, whose relu multiplies by its slope: 0 * -infinity is
// NaN, where its clip gives 0.
void PrimitiveAttributes::eltwise(const std::vector<Eltwise>& steps) {
  for (Eltwise step : steps) {
    if (step.algorithm == dnnl_eltwise_relu && step.alpha == 0 && !has_avx512())
      step = {dnnl_eltwise_clip_v2, 0, INFINITY};
    expect_success(dnnl_post_ops_append_eltwise(post_ops_.get(), step.algorithm, step.alpha, step.beta),
                   "dnnl_post_ops_append_eltwise");
  }
}

int PrimitiveAttributes::binary(const PostOp& step, const_dnnl_memory_desc_t operand) {
  const int position = dnnl_post_ops_len(post_ops_.get());
  const auto algorithm = step.kind == PostOp::Kind::add ? dnnl_binary_add : dnnl_binary_mul;
  expect_success(dnnl_post_ops_append_binary(post_ops_.get(), algorithm, operand), "dnnl_post_ops_append_binary");
  return DNNL_ARG_ATTR_MULTIPLE_POST_OP(position) | DNNL_ARG_SRC_1;
}

std::optional<std::vector<Binding>> PrimitiveAttributes::post_ops_of(const Op& op, const Operand& operand,
                                                                     bool accumulate) {
  std::vector<Binding> bindings;
  for (const PostOp& step : pl::post_ops_of(op)) {
    const int position = dnnl_post_ops_len(post_ops_.get());
    if (step.reads_input()) {
      const bool adds = step.kind == PostOp::Kind::add;
      const int index = operand_of(*op.schema, step);
      if (accumulate && adds && position == 0) {
        expect_success(dnnl_post_ops_append_sum(post_ops_.get(), 1.0f, 0, dnnl_data_type_undef),
                       "dnnl_post_ops_append_sum");
        bindings.push_back(input(kCopiedToOutput, index, operand.desc));
        continue;
      }
      bindings.push_back(input(binary(step, operand.md), index, operand.desc));
      continue;
    }
    const auto steps = eltwise_of(step);
    if (steps.empty()) return std::nullopt;
    eltwise(steps);
  }
  return bindings;
}

dnnl_primitive_attr_t PrimitiveAttributes::attributes() {
  expect_success(dnnl_primitive_attr_set_post_ops(attributes_.get(), post_ops_.get()), "post-ops");
  return attributes_.get();
}

Lister::Outcome Lister::walk(const std::function<dnnl_status_t(dnnl_primitive_desc_t*)>& create,
                             const std::vector<Binding>& bindings, const std::string& prefix, bool references,
                             const_dnnl_memory_desc_t weights) {
  Outcome outcome;
  require(weights || !accumulate_, Code::internal, op_.schema->name, ": a question that accumulates names no weights");
  twins_ = Twins{weights, false, nullptr, {}};
  dnnl_primitive_desc_t made = nullptr;
  if (!may_be_wanted(out_.wanted, bindings)) return outcome;
  outcome.status = create(&made);
  if (outcome.status != dnnl_success) return outcome;
  const Owned<dnnl_primitive_desc_t> iterator(made);
  std::set<std::string> names;
  do {
    const char* info = implementation_of(iterator.get());
    // Implementations come fastest first: the plain loops, which end the list, are of use only where there is nothing
    // else, and so are older instruction sets.
    const bool reference = is_reference(info, op_.schema->kind);
    if (reference && (outcome.fast > 0 || !references)) continue;
    if (is_superseded(info, names, op_.schema->kind)) continue;
    names.insert(info);
    if (out_.wanted && out_.wanted->implementation() != prefix + info) {
      outcome.fast += !reference;
      continue;
    }
    const bool has_bias = std::any_of(bindings.begin(), bindings.end(),
                                      [](const Binding& binding) { return binding.argument == DNNL_ARG_BIAS; });
    const KnownFault* fault = fault_of(op_, info, step_ || has_bias || has_post_ops(iterator.get()));
    const bool apart = fault == &kStridedPostOps || (!fault && loops_over_post_ops(op_, info));
    // With the step that applies post-ops, only those are wanted that do not apply them well.
    const bool wants_apart = step_ && only_apart_;
    if (apart != wants_apart || (fault && !apart)) {
      if (fault && !wants_apart) refuse(op_, out_, concat(info, ": ", fault->str()));
      outcome.apart += apart;
      continue;
    }
    dnnl_primitive_desc_t copy = nullptr;
    expect_success(dnnl_primitive_desc_clone(&copy, iterator.get()), "dnnl_primitive_desc_clone");
    if (add(copy, bindings, prefix + info)) {
      ++outcome.added;
      outcome.fast += !reference;
      if (out_.wanted) break;
    } else {
      ++outcome.unnameable;
    }
  } while (dnnl_primitive_desc_next_impl(iterator.get()) == dnnl_success);
  unnameable_ += outcome.unnameable;
  return outcome;
}

namespace {

bool same_md(const_dnnl_primitive_desc_t a, const_dnnl_primitive_desc_t b, int argument) {
  return dnnl_memory_desc_equal(dnnl_primitive_desc_query_md(a, dnnl_query_exec_arg_md, argument),
                                dnnl_primitive_desc_query_md(b, dnnl_query_exec_arg_md, argument));
}

bool same_name(const_dnnl_primitive_desc_t a, const_dnnl_primitive_desc_t b) {
  return std::string_view(implementation_of(a)) == implementation_of(b);
}

bool same_tensors(const_dnnl_primitive_desc_t a, const_dnnl_primitive_desc_t b) {
  return same_md(a, b, DNNL_ARG_WEIGHTS) && same_md(a, b, DNNL_ARG_DST);
}

}  // namespace

// A question takes as long as oneDNN takes to refuse on behalf of all implementations before the first that is offered,
// some 0.1 ms: one for each candidate would make a list of them take half as long again.
PrimitiveDesc Lister::accumulating(const_dnnl_primitive_desc_t pd) {
  if (!twins_.asked) {
    twins_.asked = true;
    dnnl_primitive_desc_t made = nullptr;
    if (accumulate_(twins_.weights, &made) == dnnl_success) twins_.next.reset(made);
  }
  const auto meet = [&] {
    dnnl_primitive_desc_t copy = nullptr;
    expect_success(dnnl_primitive_desc_clone(&copy, twins_.next.get()), "dnnl_primitive_desc_clone");
    twins_.met.emplace_back(copy, Destroy());
    if (dnnl_primitive_desc_next_impl(twins_.next.get()) != dnnl_success) twins_.next.reset();
  };
  for (size_t i = 0; i < twins_.met.size() || twins_.next; ++i) {
    if (i == twins_.met.size()) meet();
    if (!same_name(twins_.met[i].get(), pd)) continue;
    if (same_tensors(twins_.met[i].get(), pd)) return twins_.met[i];
    // Left to itself it would have the weights otherwise than the one that does not accumulate.
    return accumulating_with(dnnl_primitive_desc_query_md(pd, dnnl_query_exec_arg_md, DNNL_ARG_WEIGHTS), pd);
  }
  return nullptr;
}

PrimitiveDesc Lister::accumulating_with(const_dnnl_memory_desc_t weights, const_dnnl_primitive_desc_t pd) const {
  dnnl_primitive_desc_t made = nullptr;
  if (accumulate_(weights, &made) != dnnl_success) return nullptr;
  const PrimitiveDesc found(made, Destroy());
  do {
    if (same_name(made, pd)) return same_tensors(made, pd) ? found : nullptr;
  } while (dnnl_primitive_desc_next_impl(made) == dnnl_success);
  return nullptr;
}

namespace {

size_t to_line(size_t bytes) {
  constexpr size_t kLine = 64;
  return (bytes + kLine - 1) / kLine * kLine;
}

// What a primitive wants beside its tensors; null where it wants nothing.
const_dnnl_memory_desc_t memory_for(const_dnnl_primitive_desc_t pd, int argument) {
  const auto md = dnnl_primitive_desc_query_md(pd, dnnl_query_exec_arg_md, argument);
  return md && dnnl_memory_desc_get_size(md) ? md : nullptr;
}

// Of the workspace, that hold the result which a step takes.
size_t bytes_between(const Lister::Step& step) {
  return step.between ? to_line(dnnl_memory_desc_get_size(step.between.get())) : 0;
}

}  // namespace

std::optional<TensorDesc> Lister::described(const_dnnl_memory_desc_t md, const Binding& binding) const {
  if (binding.desc) return *binding.desc;
  const TensorDesc& tensor = binding.output ? op_.out(binding.index) : op_.in(binding.index);
  auto blocked = read_desc(md);
  if (!blocked || (binding.view && !binding.view(*blocked))) return std::nullopt;
  std::optional<TensorDesc> read = blocked->tensor(tensor.dtype);
  if (!read || read->shape != tensor.shape) return std::nullopt;
  // The description must hold all that oneDNN's says: it can be reordered to, and needs no more bytes
  // (compensation values behind the weights, for instance, would).
  const MemoryDesc back = to_md(*read);
  if (!back || dnnl_memory_desc_get_size(back.get()) != dnnl_memory_desc_get_size(md)) return std::nullopt;
  return read;
}

bool Lister::bind(const_dnnl_primitive_desc_t pd, const std::vector<Binding>& bindings, Candidate& candidate,
                  std::vector<Argument>& arguments) const {
  using Source = Argument::Source;
  candidate.inputs.resize(op_.inputs.size());
  candidate.outputs.resize(op_.outputs.size());
  for (const Binding& binding : bindings) {
    if (binding.argument == kCopiedToOutput) {
      candidate.inputs[size_t(binding.index)] = *binding.desc;
      arguments.push_back({binding.argument, Source::input, binding.index, binding.desc->size_bytes(), nullptr});
      continue;
    }
    const const_dnnl_memory_desc_t md = dnnl_primitive_desc_query_md(pd, dnnl_query_exec_arg_md, binding.argument);
    auto desc = md ? described(md, binding) : std::nullopt;
    if (!desc) return false;
    (binding.output ? candidate.outputs : candidate.inputs)[size_t(binding.index)] = std::move(*desc);
    if (step_ && step_->between && binding.argument == DNNL_ARG_DST)
      arguments.push_back({binding.argument, Source::workspace, 0, 0, share(md)});
    else
      arguments.push_back({binding.argument, binding.output ? Source::output : Source::input, binding.index,
                           binding.offset, share(md)});
  }
  if (step_)
    for (const auto& [index, desc] : step_->inputs) candidate.inputs[size_t(index)] = desc;
  return true;
}

// Behind what a step's primitives hand on: the scratchpad, and what a primitive for training keeps for its gradient,
// which nobody reads here.
void Lister::bind_workspace(const_dnnl_primitive_desc_t pd, Candidate& candidate,
                            std::vector<Argument>& arguments) const {
  candidate.workspace_bytes = step_ ? bytes_between(*step_) : 0;
  for (const int argument : {DNNL_ARG_SCRATCHPAD, DNNL_ARG_WORKSPACE}) {
    const auto md = memory_for(pd, argument);
    if (!md) continue;
    const size_t offset = to_line(candidate.workspace_bytes);
    candidate.workspace_bytes = offset + dnnl_memory_desc_get_size(md);
    arguments.push_back({argument, Argument::Source::workspace, 0, offset, share(md)});
  }
  if (!step_) return;
  for (const Step::Primitive& next : step_->primitives)
    for (const Argument& argument : next.arguments)
      if (argument.source == Argument::Source::workspace)
        candidate.workspace_bytes =
            std::max(candidate.workspace_bytes, argument.offset + dnnl_memory_desc_get_size(argument.md.get()));
}

// What oneDNN documents: elementwise primitives write where they read x; a sum accumulates into what it is added to.
unsigned Lister::written_in_place(const std::vector<Binding>& bindings) const {
  const std::string& kind = op_.schema->kind;
  unsigned inputs = 0;
  for (const Binding& binding : bindings)
    if (binding.argument == kCopiedToOutput ||
        (binding.argument == DNNL_ARG_SRC && (kind == "unary" || kind == "batch_norm")) ||
        (binding.argument == DNNL_ARG_SRC_0 && kind == "binary"))
      inputs |= 1u << binding.index;
  return inputs;
}

// Those of the implementation that accumulates into dst, where the other one has these.
std::vector<Argument> Lister::arguments_within(const_dnnl_primitive_desc_t within,
                                               const std::vector<Argument>& arguments, Candidate& candidate) const {
  using Source = Argument::Source;
  std::vector<Argument> list;
  for (const Argument& argument : arguments)
    if (argument.id != DNNL_ARG_SCRATCHPAD && !(argument.source == Source::input && argument.index == accumulated_))
      list.push_back(argument);
  if (const auto md = memory_for(within, DNNL_ARG_SCRATCHPAD)) {
    candidate.workspace_bytes = std::max(candidate.workspace_bytes, dnnl_memory_desc_get_size(md));
    list.push_back({DNNL_ARG_SCRATCHPAD, Source::workspace, 0, 0, share(md)});
  }
  return list;
}

bool Lister::add(dnnl_primitive_desc_t pd, const std::vector<Binding>& bindings, const std::string& name) {
  const PrimitiveDesc description(pd, Destroy());
  Candidate candidate;
  candidate.provider = "onednn";
  candidate.implementation = name;
  std::vector<Argument> arguments;
  if (!bind(pd, bindings, candidate, arguments)) return false;
  // Layouts of tensors with one channel or one pixel differ in name only; and questions overlap.
  for (size_t i = first_; i < out_.candidates.size(); ++i)
    if (same(out_.candidates[i], candidate)) return true;
  bind_workspace(pd, candidate, arguments);
  candidate.reference = is_reference(implementation_of(pd), op_.schema->kind);  // the name without prefix
  estimate(op_, name, candidate);
  candidate.in_place |= written_in_place(bindings);
  std::string label = concat(op_.schema->name, ": onednn/", name);
  PrimitiveDesc within;
  std::vector<Argument> within_arguments;
  if (accumulate_ && !step_) within = accumulating(pd);
  if (within) {
    candidate.in_place |= 1u << accumulated_;
    within_arguments = arguments_within(within.get(), arguments, candidate);
  }
  candidate.prepare = [description, arguments = std::move(arguments), label = std::move(label), step = step_, within,
                       within_arguments, input = accumulated_]() -> std::unique_ptr<Kernel> {
    if (step) return std::make_unique<Primitives>(description, arguments, *step, label);
    auto kernel = std::make_unique<PrimitiveKernel>(description, arguments, label);
    if (!within) return kernel;
    const auto make = [=] { return std::make_unique<PrimitiveKernel>(within, within_arguments, label); };
    return std::make_unique<BesideOrWithin>(std::move(kernel), make, input);
  };
  out_.add(std::move(candidate));
  ++added_;
  return true;
}

void Lister::finish() {
  if (added_ > 0) return;
  std::string text;
  for (const std::string& reason : reasons_) text += (text.empty() ? "" : "; ") + reason;
  if (text.empty() && unnameable_) text = "all implementations use memory formats that no layout describes";
  const DType dtype = op_.in(0).dtype;
  if (text.empty() && (dtype == DType::bf16 || dtype == DType::f16))
    text = concat("oneDNN ", library_version(), " has no ", name_of(dtype), " implementation for instruction set ",
                  instruction_set());
  if (text.empty())
    text = concat("oneDNN ", library_version(), " has no implementation for these shapes and attributes: ", op_.str());
  refuse(op_, out_, text);
}

int first_added(const Op& op) {
  const PostOps& list = post_ops_of(op);
  return list.empty() || list[0].kind != PostOp::Kind::add ? -1 : operand_of(*op.schema, list[0]);
}

Accumulating::Accumulating(const Op& op, Lister* lister, const Operand& operand, Create create) {
  const int input = first_added(op);
  if (!lister || input < 0 || !post_ops_.post_ops_of(op, operand, true)) return;
  lister_ = lister;
  lister->accumulate(
      [create = std::move(create), attributes = post_ops_.attributes()](
          const_dnnl_memory_desc_t weights, dnnl_primitive_desc_t* pd) { return create(weights, attributes, pd); },
      input);
}

Accumulating::~Accumulating() {
  if (lister_) lister_->accumulate(nullptr);
}

Described describe(const TensorDesc& tensor, const Layout& layout) {
  Described described;
  if (layout.rank() != tensor.rank()) return described;
  described.desc = TensorDesc::dense(tensor.dtype, tensor.shape, layout);
  described.md = to_md(described.desc);
  return described;
}

bool accept_dtypes(const Op& op, CandidateList& out, std::initializer_list<DType> allowed) {
  for (const auto& list : {op.inputs, op.outputs}) {
    for (const TensorDesc& tensor : list) {
      bool ok = !tensor.present;
      for (DType dtype : allowed) ok = ok || tensor.dtype == dtype;
      if (ok) continue;
      refuse(op, out, concat(name_of(tensor.dtype), " tensors are not supported by oneDNN here"));
      return false;
    }
  }
  return true;
}

bool accept_terms(const Op& op, CandidateList& out, int64_t terms) {
  if (terms <= kMostTerms) return true;
  refuse(
      op, out,
      concat("oneDNN adds up in one float, and each result has ", terms, " terms, expected ", kMostTerms, " at most"));
  return false;
}

namespace {

Argument argument(int id, Argument::Source source, int index, const_dnnl_memory_desc_t md) {
  return {id, source, index, 0, share(md)};
}

}  // namespace

std::optional<Lister::Step> post_ops_apart(const Op& op, const Described& y, int bias) {
  using Source = Argument::Source;
  const PostOps& list = post_ops_of(op);
  PrimitiveAttributes attributes;
  Lister::Step step;
  MemoryDesc wide;
  if (y.desc.dtype != DType::f32) {
    wide = to_md(TensorDesc::dense(DType::f32, y.desc.shape, y.desc.layout));
    step.between = share(wide.get());
  }
  // What the primitive gave, and what inputs of the op lie as.
  const dnnl_memory_desc_t given = wide ? wide.get() : y.md.get(), operand_md = y.md.get();
  const auto result = [&](int id) { return argument(id, wide ? Source::workspace : Source::output, 0, given); };
  dnnl_primitive_desc_t made = nullptr;
  std::vector<Argument> arguments{result(DNNL_ARG_DST)};
  // The first of all is the primitive, the others are its post-ops.
  std::vector<Eltwise> first;
  const bool reads = bias < 0 && !list.empty() && list[0].reads_input();
  if (bias < 0 && !reads) {
    if (list.empty() || (first = eltwise_of(list[0])).empty()) return std::nullopt;
    attributes.eltwise({first.begin() + 1, first.end()});
  }
  for (size_t i = bias < 0 ? 1 : 0; i < list.size(); ++i) {
    if (list[i].reads_input()) {
      const int operand = operand_of(*op.schema, list[i]);
      arguments.push_back(argument(attributes.binary(list[i], operand_md), Source::input, operand, operand_md));
      step.inputs.emplace_back(operand, y.desc);
      continue;
    }
    const std::vector<Eltwise> more = eltwise_of(list[i]);
    if (more.empty()) return std::nullopt;
    attributes.eltwise(more);
  }
  if (bias < 0 && !reads) {
    expect_success(dnnl_eltwise_forward_primitive_desc_create(&made, cpu_engine(), dnnl_forward_inference,
                                                              first[0].algorithm, given, given, first[0].alpha,
                                                              first[0].beta, attributes.attributes()),
                   "dnnl_eltwise_forward_primitive_desc_create");
    arguments.push_back(result(DNNL_ARG_SRC));
  } else {
    const int operand = reads ? operand_of(*op.schema, list[0]) : bias;
    const bool adds = !reads || list[0].kind == PostOp::Kind::add;
    MemoryDesc other;
    if (!reads) {
      std::vector<int64_t> sizes(size_t(op.out().rank()), 1);
      sizes[1] = op.in(bias).shape[0];
      other = plain_md(to_dnnl(op.in(bias).dtype), sizes);
    }
    const const_dnnl_memory_desc_t beside = reads ? operand_md : other.get();
    step.inputs.emplace_back(operand, reads ? y.desc : op.in(operand));
    expect_success(dnnl_binary_primitive_desc_create(&made, cpu_engine(), adds ? dnnl_binary_add : dnnl_binary_mul,
                                                     given, beside, given, attributes.attributes()),
                   "dnnl_binary_primitive_desc_create");
    arguments.push_back(result(DNNL_ARG_SRC_0));
    arguments.push_back(argument(DNNL_ARG_SRC_1, Source::input, operand, beside));
  }
  const auto add = [&](dnnl_primitive_desc_t pd, std::vector<Argument> with) {
    PrimitiveDesc description(pd, Destroy());
    if (const auto scratchpad = memory_for(pd, DNNL_ARG_SCRATCHPAD)) {
      with.push_back(argument(DNNL_ARG_SCRATCHPAD, Source::workspace, 0, scratchpad));
      with.back().offset = bytes_between(step);
    }
    step.primitives.push_back({std::move(description), std::move(with)});
  };
  add(made, std::move(arguments));
  if (wide) {
    PrimitiveAttributes none;
    expect_success(dnnl_reorder_primitive_desc_create(&made, wide.get(), cpu_engine(), y.md.get(), cpu_engine(),
                                                      none.attributes()),
                   "dnnl_reorder_primitive_desc_create");
    add(made, {result(DNNL_ARG_SRC), argument(DNNL_ARG_DST, Source::output, 0, y.md.get())});
  }
  return step;
}

std::string missing_post_op(const Op& op) {
  for (const PostOp& step : post_ops_of(op))
    if (!step.reads_input() && eltwise_of(step).empty()) return "oneDNN has no post-op " + step.str();
  return "oneDNN has all of the post-ops";
}

void refuse(const Op& op, CandidateList& out, const std::string& reason) {
  out.refuse("onednn", op.schema->name + ": " + reason);
}

}  // namespace pl::onednn
