// Candidates of the kinds `conv`, most by the code of conv_kernels.h, and `conv_backward_weights`, and what making them
// has in common.
#pragma once

#include <algorithm>
#include <vector>

#include "ops/spatial.h"
#include "providers/host/common/host.h"
#include "providers/host/conv/conv_kernels.h"

namespace pl::host {

void list_depthwise(const Op& op, CandidateList& out);  // groups of one channel, or of a few
void list_pointwise(const Op& op, CandidateList& out);  // 1x1, groups = 1
void list_direct(const Op& op, CandidateList& out);     // larger kernels, groups = 1
// Of the kind `conv_backward_weights`: groups of one channel.
void list_depthwise_backward_weights(const Op& op, CandidateList& out);

// The floats of a tensor between neighbouring images, planes, rows, pixels and vectors of channels.
struct Strides {
  int64_t image = 0, plane = 0, row = 0, pixel = 0, vector = 0;
  static Strides of(const TensorDesc& desc, int width);  // channels last or blocked by `width`
};

// f32, one spatial dimension or more, up to `most`, no tensor without elements, post-ops that the kernels have.
bool suits_conv_kernels(const Op& op, int most = 2);
// Of an op whose post-ops they have not (Ending::of).
void refuse_ending(const Op& op, CandidateList& out);
// Depth, height and width; the depth of what has none is 1, and so is the height of a 1-D convolution.
Window planes_of(const Op& op);
Window rows_of(const Op& op);
Window columns_of(const Op& op);

// Blocked by the output channel: Abcd16a.
Layout filter_layout(int rank, int width);

// Everything of the result but the addresses.
Result result_of(const Op& op, const TensorDesc& y, int width);
void bind(Result& result, const KernelArguments& arguments);

// Tests ask for the candidates of all instruction sets, not just of the best.
bool& every_instruction_set();

// Activations of more bytes than this are fetched ahead.  Smaller ones lie in the second-level cache, and fetching
// would only compete with reading the weights: 7x7 layers took 1.1 times as long (bench/layers.py).  Nor does a tile of
// a single vector have loads to spare.
constexpr int64_t kFarFrom = int64_t(1) << 19;

// How near the roofline kernels come in each layout, as `python -m bench.estimates` finds it: with vectors of 16 floats,
// and with narrower ones.
struct Efficiencies {
  double last, blocked, narrow_last, narrow_blocked;

  double of(const Layout& layout, int width) const {
    if (width < 16) return layout.is_blocked() ? narrow_blocked : narrow_last;
    return layout.is_blocked() ? blocked : last;
  }
};

// Adds one candidate for channels last and one for channels blocked by the kernels' width.  make(kernels, x, y) gives
// the body; suits(kernels) says whether there is one.
template <class Suits, class Make>
void add_conv_candidates(const Op& op, const std::string& name, Efficiencies reached, CandidateList& out, Suits suits,
                         Make make) {
  const int rank = op.in(0).rank();
  for (const ConvKernels* const* kernels = all_conv_kernels(); *kernels; ++kernels) {
    if (!suits(**kernels)) continue;
    const int width = (*kernels)->width;
    for (const Layout& layout : {Layout::channels_last(rank), Layout::channels_blocked(rank, width)}) {
      if (layout.is_blocked() && 2 * std::min(op.in(0).shape[1], op.out().shape[1]) < width) continue;
      std::vector<TensorDesc> inputs;
      for (size_t i = 0; i < op.inputs.size(); ++i)
        inputs.push_back(i == 1   ? op.inputs[i].with_layout(filter_layout(rank, width))
                         : i == 2 ? dense_plain(op.inputs[i])
                         : i == 0 ? strided_view_as(op.inputs[i], layout)
                                  : dense_as(op.inputs[i], layout));
      const TensorDesc x = inputs[0], y = strided_view_as(op.out(), layout);
      const Ending ending = *Ending::of(op);
      if (ending.reads_inputs() && !y.is_dense()) continue;  // what is added lies as y does
      add_candidate(out, name + ":" + (*kernels)->isa, Quality::fast, inputs, {y},
                    [body = make(**kernels, x, y)] { return body; });
      out.candidates.back().efficiency = reached.of(layout, width);
      if (ending.added >= 0) out.candidates.back().in_place = 1u << ending.added;  // tiles start from it
    }
    if (!every_instruction_set()) break;  // the best one
  }
}

}  // namespace pl::host
