// lstm, gru and rnn by oneDNN's recurrent primitives.
//
// They differ from ONNX's layers in the order of the gates (i, f, c, o of an LSTM), in the bias, of which they have
// one, and in where a second direction lies: y is (steps, batch, directions * hidden).  Weights and bias are packed
// once; y is described in the layout that has the directions there.
#include <algorithm>
#include <cstring>
#include <set>

#include "providers/onednn/candidates.h"

namespace pl::onednn {
namespace {

enum Input { kX, kW, kR, kBias, kLengths, kInitialH, kInitialC, kPeephole };
struct Sizes {
  int64_t steps, batch, features, hidden, directions, gates;
  bool batch_first;

  explicit Sizes(const Op& op)
      : features(op.in(kX).shape[2]),
        hidden(op.in(kR).shape[2]),
        directions(op.in(kR).shape[0]),
        gates(op.attributes[attr::gates]),
        batch_first(op.attributes[attr::batch_first]) {
    const Dims& x = op.in(kX).shape;
    steps = x[batch_first ? 1 : 0];
    batch = x[batch_first ? 0 : 1];
  }
};

// Gate `gate` of oneDNN is this one of ONNX's.
int64_t onnx_gate(int64_t gates, int64_t gate) {
  constexpr int64_t lstm[] = {0, 2, 3, 1};  // i, f, c, o of i, o, f, c
  return gates == 4 ? lstm[gate] : gate;
}

// Weights (directions, gates * hidden, depth) in the form of `wanted`.
Packing pack_weights(int input, const Sizes& s, int64_t depth, const std::string& form,
                     const_dnnl_memory_desc_t wanted) {
  const SharedDesc to = share(wanted);
  return {input, form, dnnl_memory_desc_get_size(wanted), [s, depth, to](Buffer& source, Buffer& packed) {
            std::vector<float> ordered(size_t(s.directions * s.gates * s.hidden * depth));
            const int64_t gate = s.hidden * depth;
            for (int64_t d = 0; d < s.directions; ++d)
              for (int64_t g = 0; g < s.gates; ++g)
                std::memcpy(ordered.data() + (d * s.gates + g) * gate,
                            static_cast<const float*>(source.host()) + (d * s.gates + onnx_gate(s.gates, g)) * gate,
                            size_t(gate) * sizeof(float));
            // (levels, directions, depth, gates, hidden) over (direction, gate, hidden, depth).
            const MemoryDesc from = strided_md(dnnl_f32, {1, s.directions, depth, s.gates, s.hidden},
                                               {s.directions * s.gates * gate, s.gates * gate, 1, gate, depth});
            reorder_once(from.get(), ordered.data(), to.get(), packed.host());
          }};
}

// The biases of x and of the state added up, but for the last gate of a gru that resets after the product.
Packing pack_bias(const Sizes& s, bool reset_after) {
  const int64_t rows = s.gates + (reset_after ? 1 : 0);
  return {kBias, concat("recurrent_bias", s.gates, reset_after ? "+1" : ""),
          size_t(s.directions * rows * s.hidden) * sizeof(float),
          [s, rows, reset_after](Buffer& source, Buffer& packed) {
            const float* from = static_cast<const float*>(source.host());
            float* to = static_cast<float*>(packed.host());
            for (int64_t d = 0; d < s.directions; ++d, from += 2 * s.gates * s.hidden)
              for (int64_t g = 0; g < rows; ++g)
                for (int64_t j = 0; j < s.hidden; ++j) {
                  const float* of_x = from + onnx_gate(s.gates, std::min(g, s.gates - 1)) * s.hidden + j;
                  const float* of_state = of_x + s.gates * s.hidden;
                  const bool split = reset_after && g >= s.gates - 1;
                  *to++ = !split ? *of_x + *of_state : g == s.gates ? *of_state : *of_x;
                }
          }};
}

void list_recurrent(const Op& op, CandidateList& out) {
  if (op.in(kX).dtype != DType::f32) return refuse(op, out, "only f32 here");
  const bool lstm = op.attributes[attr::cell] == "lstm", gru = op.attributes[attr::cell] == "gru";
  if (op.has(kLengths)) return refuse(op, out, "oneDNN knows no lengths of sequences");
  if (lstm && op.has(kPeephole)) return refuse(op, out, "peepholes are left to the host");
  if (lstm && op.has(kInitialH) != op.has(kInitialC))
    return refuse(op, out, "oneDNN takes both initial states or none");
  if (!op.has(kBias)) return refuse(op, out, "oneDNN has no recurrent layers without bias");
  const Sizes s(op);
  const bool reset_after = gru && op.attributes[attr::linear_before_reset];
  const std::string& way = op.attributes[attr::direction];
  const dnnl_rnn_direction_t direction = way == "forward"   ? dnnl_unidirectional_left2right
                                         : way == "reverse" ? dnnl_unidirectional_right2left
                                                            : dnnl_bidirectional_concat;
  // As the tensors lie: see the head of this file.
  const bool two = s.directions == 2;
  const Layout y_layout = two && !s.batch_first ? Layout::parse("acbd") : Layout::plain(4);
  const Layout state_layout = two && s.batch_first ? Layout::parse("bac") : Layout::plain(3);
  const int64_t width = s.directions * s.hidden;
  const auto sequence = [&](int64_t channels) {
    return s.batch_first ? strided_md(dnnl_f32, {s.steps, s.batch, channels}, {channels, s.steps * channels, 1})
                         : strided_md(dnnl_f32, {s.steps, s.batch, channels}, {s.batch * channels, channels, 1});
  };
  const MemoryDesc x = sequence(s.features), y = sequence(width);
  const MemoryDesc state = plain_md(dnnl_f32, {1, s.directions, s.batch, s.hidden});
  const MemoryDesc w = any_md(dnnl_f32, {1, s.directions, s.features, s.gates, s.hidden});
  const MemoryDesc r = any_md(dnnl_f32, {1, s.directions, s.hidden, s.gates, s.hidden});
  const MemoryDesc bias = plain_md(dnnl_f32, {1, s.directions, s.gates + (reset_after ? 1 : 0), s.hidden});
  const const_dnnl_memory_desc_t first = op.has(kInitialH) ? state.get() : nullptr;
  PrimitiveAttributes options;
  const dnnl_primitive_attr_t attributes = options.attributes();
  dnnl_primitive_desc_t made = nullptr;
  dnnl_status_t status;
  if (lstm)
    status = dnnl_lstm_forward_primitive_desc_create(
        &made, cpu_engine(), dnnl_forward_inference, direction, x.get(), first, first, w.get(), r.get(), nullptr,
        nullptr, bias.get(), y.get(), state.get(), state.get(), dnnl_rnn_flags_undef, attributes);
  else if (gru)
    status = (reset_after ? dnnl_lbr_gru_forward_primitive_desc_create : dnnl_gru_forward_primitive_desc_create)(
        &made, cpu_engine(), dnnl_forward_inference, direction, x.get(), first, w.get(), r.get(), bias.get(), y.get(),
        state.get(), dnnl_rnn_flags_undef, attributes);
  else
    status = dnnl_vanilla_rnn_forward_primitive_desc_create(
        &made, cpu_engine(), dnnl_forward_inference,
        op.attributes[attr::nonlinearity] == "relu" ? dnnl_eltwise_relu : dnnl_eltwise_tanh, direction, x.get(), first,
        w.get(), r.get(), bias.get(), y.get(), state.get(), dnnl_rnn_flags_undef, 0, 0, attributes);
  if (status != dnnl_success)
    return refuse(op, out, concat("oneDNN ", library_version(), " has no implementation for these shapes"));
  const Owned<dnnl_primitive_desc_t> iterator(made);
  std::set<std::string> names;
  do {
    const char* info = implementation_of(iterator.get());
    if (!names.insert(info).second) continue;
    dnnl_primitive_desc_t copy = nullptr;
    expect_success(dnnl_primitive_desc_clone(&copy, iterator.get()), "dnnl_primitive_desc_clone");
    const PrimitiveDesc description(copy, Destroy());
    const auto md = [&](int argument) { return dnnl_primitive_desc_query_md(copy, dnnl_query_exec_arg_md, argument); };

    Candidate candidate;
    candidate.provider = "onednn";
    candidate.implementation = info;
    for (const TensorDesc& tensor : op.inputs)
      candidate.inputs.push_back(tensor.present ? TensorDesc::dense(tensor.dtype, tensor.shape) : tensor);
    for (int i : {int(kInitialH), int(kInitialC)})
      if (op.has(i)) candidate.inputs[size_t(i)] = op.in(i).with_layout(state_layout);
    candidate.outputs = {op.out(0).with_layout(y_layout), op.out(1).with_layout(state_layout)};
    if (lstm) candidate.outputs.push_back(op.out(2).with_layout(state_layout));
    candidate.efficiency = 0.3;
    using Source = Argument::Source;
    std::vector<Argument> arguments{{DNNL_ARG_SRC_LAYER, Source::input, kX, 0, share(md(DNNL_ARG_SRC_LAYER))},
                                    {DNNL_ARG_WEIGHTS_LAYER, Source::input, kW, 0, share(md(DNNL_ARG_WEIGHTS_LAYER))},
                                    {DNNL_ARG_WEIGHTS_ITER, Source::input, kR, 0, share(md(DNNL_ARG_WEIGHTS_ITER))},
                                    {DNNL_ARG_BIAS, Source::input, kBias, 0, share(md(DNNL_ARG_BIAS))},
                                    {DNNL_ARG_DST_LAYER, Source::output, 0, 0, share(md(DNNL_ARG_DST_LAYER))},
                                    {DNNL_ARG_DST_ITER, Source::output, 1, 0, share(md(DNNL_ARG_DST_ITER))}};
    if (lstm) arguments.push_back({DNNL_ARG_DST_ITER_C, Source::output, 2, 0, share(md(DNNL_ARG_DST_ITER_C))});
    if (first) arguments.push_back({DNNL_ARG_SRC_ITER, Source::input, kInitialH, 0, share(md(DNNL_ARG_SRC_ITER))});
    if (first && lstm)
      arguments.push_back({DNNL_ARG_SRC_ITER_C, Source::input, kInitialC, 0, share(md(DNNL_ARG_SRC_ITER_C))});
    if (const auto scratchpad = md(DNNL_ARG_SCRATCHPAD)) {
      candidate.workspace_bytes = dnnl_memory_desc_get_size(scratchpad);
      if (candidate.workspace_bytes)
        arguments.push_back({DNNL_ARG_SCRATCHPAD, Source::workspace, 0, 0, share(scratchpad)});
    }
    // No form is shared between ops: the descriptions of oneDNN have no text to compare.
    const std::string form = concat(info, ' ', op.str());
    candidate.packings.push_back(pack_weights(kW, s, s.features, "w " + form, md(DNNL_ARG_WEIGHTS_LAYER)));
    candidate.packings.push_back(pack_weights(kR, s, s.hidden, "r " + form, md(DNNL_ARG_WEIGHTS_ITER)));
    candidate.packings.push_back(pack_bias(s, reset_after));
    const std::string label = concat(op.schema->name, ": onednn/", info);
    candidate.prepare = [description, arguments, label]() -> std::unique_ptr<Kernel> {
      return std::make_unique<PrimitiveKernel>(description, arguments, label);
    };
    out.add(std::move(candidate));
  } while (dnnl_primitive_desc_next_impl(iterator.get()) == dnnl_success);
}

PL_ONEDNN_KIND("recurrent", list_recurrent);

}  // namespace
}  // namespace pl::onednn
