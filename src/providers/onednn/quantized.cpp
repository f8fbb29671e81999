// Convolutions and products of integers of 8 bits, as int8 primitives.
//
// The scales of a quantised product become one factor for each output channel, given to the primitive as the scales of
// the weights.  The scale of y is among them, and the bias is in its units, unless post-ops stand between that need
// real numbers: then it is the primitive's scale of dst.  As scales and zero points are tensors, they are read at each
// run: a few numbers for each channel, written to the workspace behind the scratchpad.
#include <algorithm>
#include <cstring>
#include <set>

#include "ops/activation.h"
#include "ops/post_ops.h"
#include "ops/quantized.h"
#include "providers/onednn/candidates.h"
#include "providers/onednn/faults.h"
#include "providers/onednn/windows.h"

namespace pl::onednn {
namespace {

constexpr size_t kLine = 64;  // bytes; the parts of the workspace start at cache lines
size_t whole_lines(size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

// Whether post-ops of y's integers are as good as those of the real numbers that they stand for.
bool commute_with_scales(const PostOps& list) {
  return std::all_of(list.begin(), list.end(), [](const PostOp& step) {
    return step.kind == PostOp::Kind::scale ||
           (step.kind == PostOp::Kind::function && find_unary_function(step.name)->is(unary::kScales));
  });
}

// What is written to the workspace before the primitive runs, each at its offset in bytes.
struct Parameters {
  QuantizedInputs in;
  std::vector<TensorDesc> inputs;
  int64_t columns = 0;  // output channels
  bool reals = false;   // the primitive's post-ops get real numbers, which it then divides by the scale of y
  size_t factors = 0, bias = 0, y_scale = 0, x_zero = 0, weight_zero = 0, y_zero = 0, end = 0;
  size_t addend_unit = 0, addend_zero = 0, addend_scale = 0;  // 1 / scale, -zero point and scale, as post-ops take them

  Parameters(const Op& op, int64_t columns, size_t scratchpad)
      : in(op),
        inputs(op.inputs),
        columns(columns),
        reals(in.rounds() && !commute_with_scales(post_ops_of(op))),
        end(whole_lines(scratchpad)) {
    const auto take = [&](bool needed, size_t bytes) {
      const size_t begin = end;
      if (needed) end += whole_lines(bytes);
      return begin;
    };
    factors = take(in.scaled(), size_t(columns) * sizeof(float));
    bias = take(in.bias >= 0, size_t(columns) * sizeof(float));
    y_scale = take(reals, sizeof(float));
    x_zero = take(in.x_zero >= 0, sizeof(int32_t));
    weight_zero = take(in.weight_zero >= 0, sizeof(int32_t));
    y_zero = take(in.y_zero >= 0, sizeof(int32_t));
    for (size_t* each : {&addend_unit, &addend_zero, &addend_scale}) *each = take(in.addend >= 0, sizeof(float));
  }

  int32_t zero_point(const KernelArguments& arguments, int i) const {
    const void* data = arguments.inputs[i]->host();
    return inputs[size_t(i)].dtype == DType::u8 ? int32_t(*static_cast<const uint8_t*>(data))
                                                : int32_t(*static_cast<const int8_t*>(data));
  }

  void write(const KernelArguments& arguments) const {
    if (end == factors) return;
    char* base = static_cast<char*>(arguments.workspace->host());
    const auto floats = [&](int i) { return static_cast<const float*>(arguments.inputs[i]->host()); };
    if (in.scaled()) {
      float* factor = reinterpret_cast<float*>(base + factors);
      const float unit = reals || !in.rounds() ? 1 : *floats(in.y_scale), common = *floats(in.x_scale) / unit;
      if (reals) *reinterpret_cast<float*>(base + y_scale) = *floats(in.y_scale);
      const float* each = floats(in.weight_scale);
      const bool single = inputs[size_t(in.weight_scale)].elements() == 1;
      for (int64_t j = 0; j < columns; ++j) factor[j] = common * each[single ? 0 : j];
      if (in.bias >= 0) {
        const void* from = arguments.inputs[in.bias]->host();
        const bool sums = inputs[size_t(in.bias)].dtype == DType::s32;
        float* to = reinterpret_cast<float*>(base + bias);
        for (int64_t j = 0; j < columns; ++j)
          to[j] = sums ? float(static_cast<const int32_t*>(from)[j]) * factor[j]
                       : static_cast<const float*>(from)[j] / unit;
      }
    }
    if (in.addend >= 0) {
      const float scale = *floats(in.addend_scale);
      *reinterpret_cast<float*>(base + addend_unit) = 1 / scale;
      *reinterpret_cast<float*>(base + addend_zero) =
          in.addend_zero < 0 ? 0.0f : -float(zero_point(arguments, in.addend_zero));
      *reinterpret_cast<float*>(base + addend_scale) = scale;
    }
    for (const auto& [i, offset] :
         {std::pair(in.x_zero, x_zero), std::pair(in.weight_zero, weight_zero), std::pair(in.y_zero, y_zero)})
      if (i >= 0) {
        const int32_t value = zero_point(arguments, i);
        std::memcpy(base + offset, &value, sizeof value);
      }
  }
};

class QuantizedKernel final : public Kernel {
 public:
  QuantizedKernel(Parameters parameters, PrimitiveDesc description, std::vector<Argument> arguments, std::string label)
      : parameters_(std::move(parameters)),
        primitive_(std::move(description), std::move(arguments), std::move(label)) {}
  void run(const KernelArguments& arguments) override {
    parameters_.write(arguments);
    primitive_.run(arguments);
  }

 private:
  Parameters parameters_;
  PrimitiveKernel primitive_;
};

// Instruction sets without VNNI multiply u8 by s8 in pairs whose sums saturate at 16 bits: wrong results for large
// values.  oneDNN offers implementations for them beside the others (and, where there is nothing newer, alone).
bool has_vnni(std::string_view text) {
  for (const char* set : {"vnni", "amx", "bf16", "fp16"})
    if (text.find(set) != std::string_view::npos) return true;
  return false;
}
// The gemm takes the best instructions there are, and its name says nothing of them.
bool is_exact(const std::string& name) { return has_vnni(name) || name.find("gemm") != std::string::npos; }

int rank_of(const_dnnl_memory_desc_t md) {
  int rank = 0;
  expect_success(dnnl_memory_desc_query(md, dnnl_query_ndims_s32, &rank), "dnnl_memory_desc_query");
  return rank;
}
MemoryDesc single_number(int rank) { return plain_md(dnnl_f32, std::vector<int64_t>(size_t(rank), 1)); }

// Where the tensors of post-ops come from: arguments of the primitive, by what they hold.
struct AddendArguments {
  int unit = 0, addend = 0, zero = 0, scale = 0;
};

// The op's post-ops: an addend q is added as ((y / scale) + q - zero) * scale.  Nothing if oneDNN has not all of them.
std::optional<AddendArguments> add_post_ops(PrimitiveAttributes& options, const Op& op,
                                            const_dnnl_memory_desc_t addend) {
  AddendArguments made;
  const QuantizedInputs in(op);
  for (const PostOp& step : post_ops_of(op)) {
    if (step.reads_input()) {
      if (!addend) continue;  // asked only whether oneDNN has the others
      const MemoryDesc number = single_number(rank_of(addend));
      const PostOp sum = PostOp::add(step.name), product = PostOp::multiply(step.name);
      made.unit = options.binary(product, number.get());
      made.addend = options.binary(sum, addend);
      if (in.addend_zero >= 0) made.zero = options.binary(sum, number.get());
      made.scale = options.binary(product, number.get());
      continue;
    }
    const auto steps = eltwise_of(step);
    if (steps.empty()) return std::nullopt;
    options.eltwise(steps);
  }
  return made;
}

// One question to oneDNN: the descriptions that do not depend on the implementation, and where data comes from.
struct Question {
  const Op& op;
  CandidateList& out;
  int64_t columns;
  MemoryDesc plain_weight;  // as it lies: input 1, plain
  TensorDesc x, y;
  std::optional<AddendArguments> post_ops;
  SharedDesc addend_md;
  TensorDesc addend;
  bool packs;               // the weight may be brought into the primitive's own form
  const char* suffix = "";  // of the implementations' names
  int added = 0;

  // Attributes with the run-time parameters the op has; `mask` of the scales.
  void set_parameters(dnnl_primitive_attr_t attributes, int mask) const {
    const QuantizedInputs in(op);
    if (in.scaled()) expect_success(dnnl_primitive_attr_set_scales_mask(attributes, DNNL_ARG_WEIGHTS, mask), "scales");
    if (Parameters(op, columns, 0).reals)
      expect_success(dnnl_primitive_attr_set_scales_mask(attributes, DNNL_ARG_DST, 0), "scales");
    if (in.x_zero >= 0)
      expect_success(dnnl_primitive_attr_set_zero_points_mask(attributes, DNNL_ARG_SRC, 0), "zero points");
    if (in.weight_zero >= 0)
      expect_success(dnnl_primitive_attr_set_zero_points_mask(attributes, DNNL_ARG_WEIGHTS, 0), "zero points");
    if (in.y_zero >= 0)
      expect_success(dnnl_primitive_attr_set_zero_points_mask(attributes, DNNL_ARG_DST, 0), "zero points");
  }

  void walk(dnnl_primitive_desc_t first) {
    const Owned<dnnl_primitive_desc_t> iterator(first);
    std::set<std::string> names;  // some stand in the list twice
    do {
      const std::string name = implementation_of(iterator.get());
      // Of reference implementations the host's is as good.
      if (!is_exact(name) || name.rfind("ref", 0) == 0 || name.find("+ref") != std::string::npos) continue;
      if (!names.insert(name).second) continue;
      if (const KnownFault* fault = fault_of(op, name, false)) {
        refuse(op, out, concat(name, ": ", fault->str()));
        continue;
      }
      dnnl_primitive_desc_t copy = nullptr;
      expect_success(dnnl_primitive_desc_clone(&copy, iterator.get()), "dnnl_primitive_desc_clone");
      add(PrimitiveDesc(copy, Destroy()), name);
    } while (dnnl_primitive_desc_next_impl(iterator.get()) == dnnl_success);
  }

  void add(const PrimitiveDesc& description, const std::string& name) {
    const auto md = [&](int argument) {
      return dnnl_primitive_desc_query_md(description.get(), dnnl_query_exec_arg_md, argument);
    };
    const const_dnnl_memory_desc_t scratchpad = md(DNNL_ARG_SCRATCHPAD);
    const size_t scratch_bytes = scratchpad ? dnnl_memory_desc_get_size(scratchpad) : 0;
    const Parameters parameters(op, columns, scratch_bytes);
    const QuantizedInputs& in = parameters.in;

    Candidate candidate;
    candidate.provider = "onednn";
    candidate.implementation = concat("int8:", name, suffix);
    for (const TensorDesc& tensor : op.inputs)
      candidate.inputs.push_back(tensor.present ? TensorDesc::dense(tensor.dtype, tensor.shape) : tensor);
    candidate.inputs[0] = x;
    if (in.addend >= 0) candidate.inputs[size_t(in.addend)] = addend;
    candidate.outputs = {y};
    candidate.workspace_bytes = parameters.end;
    candidate.flops = op.schema->flops(op) / 4;  // an instruction has four times the products of one of f32
    // Matrices that lie plainly are brought into the primitive's form in each run.
    const bool plain = op.schema->kind == "quantized_matmul" && !*suffix;
    // AMX's implementations take 1.03 ms for 64 to 256 channels at 56x56 with an addend, and 0.25 without; those of VNNI
    // 0.39 and 0.30 (one core of a Sapphire Rapids).
    const bool slow_sum = in.addend >= 0 && name.find("amx") != std::string::npos;
    candidate.efficiency = name.find("gemm") == std::string::npos && !plain && !slow_sum ? 0.7 : 0.35;

    using Source = Argument::Source;
    std::vector<Argument> arguments{{DNNL_ARG_SRC, Source::input, 0, 0, share(md(DNNL_ARG_SRC))},
                                    {DNNL_ARG_WEIGHTS, Source::input, 1, 0, share(md(DNNL_ARG_WEIGHTS))},
                                    {DNNL_ARG_DST, Source::output, 0, 0, share(md(DNNL_ARG_DST))}};
    const auto from_workspace = [&](bool needed, int argument, size_t offset, const MemoryDesc& desc) {
      if (needed) arguments.push_back({argument, Source::workspace, 0, offset, share(desc.get())});
    };
    const MemoryDesc per_column = plain_md(dnnl_f32, {columns}), single = plain_md(dnnl_s32, {1});
    from_workspace(in.scaled(), DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS, parameters.factors, per_column);
    if (in.bias >= 0)
      arguments.push_back({DNNL_ARG_BIAS, Source::workspace, 0, parameters.bias, share(md(DNNL_ARG_BIAS))});
    from_workspace(parameters.reals, DNNL_ARG_ATTR_SCALES | DNNL_ARG_DST, parameters.y_scale, plain_md(dnnl_f32, {1}));
    from_workspace(in.x_zero >= 0, DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_SRC, parameters.x_zero, single);
    from_workspace(in.weight_zero >= 0, DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_WEIGHTS, parameters.weight_zero, single);
    from_workspace(in.y_zero >= 0, DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_DST, parameters.y_zero, single);
    if (in.addend >= 0) {
      const MemoryDesc number = single_number(rank_of(addend_md.get()));
      arguments.push_back({post_ops->addend, Source::input, in.addend, 0, addend_md});
      from_workspace(true, post_ops->unit, parameters.addend_unit, number);
      from_workspace(post_ops->zero != 0, post_ops->zero, parameters.addend_zero, number);
      from_workspace(true, post_ops->scale, parameters.addend_scale, number);
    }
    if (scratch_bytes) arguments.push_back({DNNL_ARG_SCRATCHPAD, Source::workspace, 0, 0, share(scratchpad)});

    const const_dnnl_memory_desc_t weight = md(DNNL_ARG_WEIGHTS);
    if (dnnl_memory_desc_equal(weight, plain_weight.get())) {
      if (*suffix) return;  // listed already
    } else {
      if (!packs) return;
      pack_weight(candidate, weight);
    }
    const std::string label = concat(op.schema->name, ": onednn/", candidate.implementation);
    candidate.prepare = [parameters, description, arguments, label]() -> std::unique_ptr<Kernel> {
      return std::make_unique<QuantizedKernel>(parameters, description, arguments, label);
    };
    out.add(std::move(candidate));
    ++added;
  }

  // The primitive's own form: blocks, and sums of the weights behind them where zero points or signed x need those.
  void pack_weight(Candidate& candidate, const_dnnl_memory_desc_t wanted) const {
    const SharedDesc from = share(plain_weight.get()), to = share(wanted);
    // No form is shared between ops: the descriptions of oneDNN have no text to compare.
    const std::string form = concat(candidate.implementation, ' ', x.str(), ' ', y.str(), ' ', op.str());
    candidate.packings.push_back(
        {1, form, dnnl_memory_desc_get_size(wanted), [from, to](Buffer& source, Buffer& packed) {
           reorder_once(from.get(), source.host(), to.get(), packed.host());
         }});
  }
};

// True if oneDNN's int8 primitives can compute it at all.
bool accept_quantized(const Op& op, CandidateList& out) {
  const QuantizedInputs in(op);
  if (in.weight_zero >= 0 && (op.schema->kind == "quantized_conv" || op.in(in.weight_zero).elements() != 1)) {
    refuse(op, out, "oneDNN takes a zero point of weights in matrix products alone, and one value");
    return false;
  }
  // oneDNN takes zero points of a matrix product off in f32, which holds sums of up to 24 bits.
  const int64_t largest = 255 * 255 * op.in(0).shape[op.in(0).rank() - 1];
  if (op.schema->kind == "quantized_matmul" && !in.scaled() && (in.x_zero >= 0 || in.weight_zero >= 0) &&
      largest > int64_t(1) << 24) {
    refuse(op, out, "sums of this many terms with zero points have more bits than f32");
    return false;
  }
  if (!has_vnni(instruction_set())) {
    refuse(op, out, "sums of two products saturate at 16 bits with instruction set " + instruction_set());
    return false;
  }
  if (op.in(1).dtype != DType::s8) {
    refuse(op, out, "oneDNN takes s8 weights only");
    return false;
  }
  PrimitiveAttributes options;
  if (!add_post_ops(options, op, nullptr)) {
    refuse(op, out, concat("oneDNN has not all of ", to_text(post_ops_of(op))));
    return false;
  }
  return true;
}

void report(const Op& op, CandidateList& out, int added) {
  if (added == 0)
    refuse(op, out,
           concat("oneDNN ", library_version(), " has no int8 implementation for instruction set ", instruction_set()));
}

void list_conv(const Op& op, CandidateList& out) {
  if (!accept_quantized(op, out)) return;
  const Windows windows(op);
  const int64_t groups = op.attributes[attr::groups], columns = op.out().shape[1];
  std::vector<int64_t> sizes = op.in(1).shape.vector();
  if (groups > 1) {
    sizes[0] /= groups;
    sizes.insert(sizes.begin(), groups);
  }
  const QuantizedInputs in(op);
  const MemoryDesc weight = any_md(dnnl_s8, sizes), bias = in.bias >= 0 ? plain_md(dnnl_f32, {columns}) : nullptr;
  int added = 0;
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    const Described x = describe(op.in(0), layout), y = describe(op.out(), layout);
    if (!x || !y) continue;
    Question question{op, out, columns, plain_md(dnnl_s8, sizes), x.desc, y.desc, {}, {}, {}, true};
    PrimitiveAttributes options;
    if (in.addend >= 0) {
      const Described addend = describe(op.in(in.addend), layout);
      if (!addend) continue;
      question.addend = addend.desc, question.addend_md = share(addend.md.get());
    }
    question.post_ops = add_post_ops(options, op, question.addend_md.get());
    const dnnl_primitive_attr_t attributes = options.attributes();
    question.set_parameters(attributes, groups > 1 ? 3 : 1);
    dnnl_primitive_desc_t pd = nullptr;
    if (dnnl_convolution_forward_primitive_desc_create(
            &pd, cpu_engine(), dnnl_forward_inference, dnnl_convolution_direct, x.md.get(), weight.get(), bias.get(),
            y.md.get(), windows.stride.data(), windows.dilation.data(), windows.begins.data(), windows.ends.data(),
            attributes) != dnnl_success)
      continue;
    question.walk(pd);
    added += question.added;
  }
  report(op, out, added);
}

void list_quantized_matmul(const Op& op, CandidateList& out) {
  if (!accept_quantized(op, out)) return;
  std::vector<int64_t> a = op.in(0).shape.vector(), b = op.in(1).shape.vector(), y = op.out().shape.vector();
  const int64_t columns = b.back();
  if (b.size() == 2 && a.size() > 2) {  // one matrix for the whole stack: all rows at once
    a = {op.in(0).elements() / a.back(), a.back()};
    y = {op.out().elements() / columns, columns};
  }
  while (a.size() < y.size()) a.insert(a.begin(), 1);
  while (b.size() < y.size()) b.insert(b.begin(), 1);
  const MemoryDesc a_md = plain_md(to_dnnl(op.in(0).dtype), a), y_md = plain_md(to_dnnl(op.out().dtype), y);
  std::vector<int64_t> bias(y.size(), 1);
  bias.back() = columns;
  const MemoryDesc bias_md = QuantizedInputs(op).bias >= 0 ? plain_md(dnnl_f32, bias) : nullptr;
  int added = 0;
  // As b lies, and, one matrix that may be a constant, as the primitive wants it.
  for (bool packs : {false, true}) {
    if (packs && op.in(1).rank() > 2) continue;
    const MemoryDesc b_md = packs ? any_md(dnnl_s8, b) : plain_md(dnnl_s8, b);
    Question question{op,
                      out,
                      columns,
                      plain_md(dnnl_s8, b),
                      TensorDesc::dense(op.in(0).dtype, op.in(0).shape),
                      TensorDesc::dense(op.out().dtype, op.out().shape),
                      {},
                      {},
                      {},
                      packs,
                      packs ? ":packed" : ""};
    PrimitiveAttributes options;
    if (const int i = QuantizedInputs(op).addend; i >= 0) {
      question.addend = TensorDesc::dense(op.in(i).dtype, op.in(i).shape);
      question.addend_md = share(plain_md(to_dnnl(op.in(i).dtype), y).get());
    }
    question.post_ops = add_post_ops(options, op, question.addend_md.get());
    const dnnl_primitive_attr_t attributes = options.attributes();
    question.set_parameters(attributes, 1 << (y.size() - 1));
    dnnl_primitive_desc_t pd = nullptr;
    if (dnnl_matmul_primitive_desc_create(&pd, cpu_engine(), a_md.get(), b_md.get(), bias_md.get(), y_md.get(),
                                          attributes) == dnnl_success)
      question.walk(pd);
    added += question.added;
  }
  report(op, out, added);
}

PL_ONEDNN_KIND("quantized_conv", list_conv);
PL_ONEDNN_KIND("quantized_matmul", list_quantized_matmul);

}  // namespace
}  // namespace pl::onednn
