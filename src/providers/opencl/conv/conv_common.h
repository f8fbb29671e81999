// What the implementations of conv share: each fills in a candidate of layouts that add_per_layout chose.
#pragma once

#include <memory>

#include "providers/opencl/addressing/window.h"
#include "providers/opencl/program/epilogue.h"
#include "providers/opencl/runtime/opencl_provider.h"
#include "providers/opencl/tuning/tuning.h"

namespace pl::opencl {

// The op as a candidate's kernel sees it.  (n, c, d, h, w), whatever the rank of the op.
struct ConvTensors {
  Addressing src, wei, dst;
  Epilogue epilogue;
  WindowArgument window;
  int64_t groups = 1;
  int64_t stack = 1;       // more than 1: that many products, along dimension 2 (d) of all tensors
  int64_t row_groups = 0;  // more: that many groups of rows, where input 2 says, have weights along dimension 2 of wei
  // More than one: that many convolutions of these sizes, whose weights follow each other.
  struct Shift {
    cl_int begin[3];  // of the window
    int64_t dst;      // where results lie, from dst's own offset on
  };
  std::vector<Shift> phases;
  bool made = false;  // who lists the candidate makes the weights as it wants them, rounded where op.math lets f32 be

  ConvTensors() = default;
  ConvTensors(const Op& op, const Candidate& candidate);
  int64_t batch() const { return dst.dims[0]; }
  int64_t channels() const { return src.dims[1]; }
  int64_t out_channels() const { return dst.dims[1]; }
  int64_t channels_per_group() const { return channels() / groups; }
  int64_t out_channels_per_group() const { return out_channels() / groups; }
  // Of the output; of one product.
  int64_t pixels() const { return dst.dims[0] * (stack > 1 ? 1 : dst.dims[2]) * dst.dims[3] * dst.dims[4]; }
  int64_t taps() const { return (stack > 1 || row_groups > 0 ? 1 : wei.dims[2]) * wei.dims[3] * wei.dims[4]; }
  // Whether positions or taps lie in several planes: DEPTH of kernels/common/positions.clh.
  bool deep() const;
  // Whether each output position sees one position, which is there.
  bool pointwise() const;
  // Whether positions of the output, channels last, do not follow each other in memory.
  bool scattered() const;
  // SRC, WEI, DST, BIAS, RES, ACTIVATION.
  void define(KernelSource& source, const Op& op) const;
};

// The class of a convolution's shape: positions, output channels and terms of one group; its layout's kind in one word,
// since tuned values differ with it: "window-channels", "pointwise-columns".
ShapeClass shape_class(const ConvTensors& t);

// The inputs of a call, in whose workspace its weights lie in the form that is wanted.
inline std::vector<Buffer*> weights_from_workspace(const KernelArguments& arguments, size_t count) {
  std::vector<Buffer*> inputs(arguments.inputs, arguments.inputs + count);
  inputs[1] = arguments.workspace;
  return inputs;
}

// True if dst's padding, if it has any, is of channels only: what kernels that do not walk memory can fill.
bool pads_channels_only(const Addressing& addressing);

// (oc, ic, k...) with the output channels in blocks innermost, then the input channels: OhwI16o.  One vector of
// output channels for each input channel and position lies side by side, vectors of neighbouring channels follow.
Layout packed_weights(int rank);

// (n, spatial..., c), or weights' (oc, k..., ic), with zeros behind the last channel up to whole blocks of `block`:
// aB8b, acdB8b.
Layout channels_last_padded(int rank, int64_t block);

// Gives a candidate whose source, weights and output have their layouts those of the other inputs.
void complete_conv(const Op& op, Candidate& candidate);

// Of a depthwise convolution: channels that lie side by side, alike in the source and the output, each with one filter;
// 0 where they do not.
int64_t depthwise_run(const ConvTensors& t);
// Whether list_conv_depthwise_rows has candidates for tensors like these, on a CPU.
bool depthwise_rows_suits(const OpenclDevice& device, const ConvTensors& t);

// A candidate for each layout of the source and the output, its weights as packed_weights() has them.
std::vector<Candidate> packed_candidates(const Op& op);

// The implementations besides the direct one; each adds candidates where it suits.
void list_conv_tiled(const Op& op, OpenclDevice& device, CandidateList& out);     // for CPUs
void list_conv_rows(const Op& op, OpenclDevice& device, CandidateList& out);      // for CPUs
void list_conv_local(const Op& op, OpenclDevice& device, CandidateList& out);     // for GPUs
void list_conv_mma(const Op& op, OpenclDevice& device, CandidateList& out);       // where there are matrix units
void list_conv_winograd(const Op& op, OpenclDevice& device, CandidateList& out);  // 3x3, for GPUs
void list_conv_quad(const Op& op, OpenclDevice& device, CandidateList& out);      // few terms, for GPUs
void list_conv_depthwise(const Op& op, OpenclDevice& device, CandidateList& out);
void list_conv_depthwise_rows(const Op& op, OpenclDevice& device, CandidateList& out);    // for CPUs
void list_conv_depthwise_window(const Op& op, OpenclDevice& device, CandidateList& out);  // for GPUs
void list_conv_skinny(const Op& op, OpenclDevice& device, CandidateList& out);            // 1x1, few positions
void list_conv_transpose_mma(const Op& op, OpenclDevice& device, CandidateList& out);
void list_conv_backward_weights_mma(const Op& op, OpenclDevice& device, CandidateList& out);
void list_conv_backward_weights_turned(const Op& op, OpenclDevice& device, CandidateList& out);  // channels last
// The same where x and grad are these inputs of the call.
void add_conv_backward_weights_turned(const Op& op, OpenclDevice& device, int x, int grad, CandidateList& out);

// Adds a candidate like `base` for each tile worth trying, whose tensors are `t`.
void add_conv_local(const Op& op, OpenclDevice& device, const Candidate& base, const ConvTensors& t,
                    CandidateList& out);
// Adds candidates like `base` for products of few rows, t.pixels(): dense, kernels of one position.
void add_skinny(const Op& op, OpenclDevice& device, const Candidate& base, const ConvTensors& t, CandidateList& out);
// Adds a candidate like `base` for each plan worth measuring, whose tensors are `t`, channels innermost.
void add_conv_mma(const Op& op, OpenclDevice& device, const Candidate& base, const ConvTensors& t, CandidateList& out);
// By Winograd's algorithm, with each tile that is accurate enough; `turned`: kernels are turned around.
void add_conv_winograd(const Op& op, OpenclDevice& device, const Candidate& base, const ConvTensors& t, bool turned,
                       CandidateList& out);
// Like add_conv_mma by wgmma and persistent work-groups, for constant weights.
void add_conv_stream(const Op& op, OpenclDevice& device, const Candidate& base, const ConvTensors& t,
                     CandidateList& out);

}  // namespace pl::opencl
