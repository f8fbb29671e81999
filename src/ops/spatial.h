// Windows that slide over spatial dimensions: what convolution and pooling have in common.
//
// Along one dimension, output position o sees the inputs  o * stride - begin + k * dilation,  k = 0 .. kernel - 1.
// Activations are (n, c, spatial...) with one to three spatial dimensions; lists of attributes are in their order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "ops/op.h"

namespace pl {

struct Window {
  int64_t in = 0, out = 0;
  int64_t kernel = 1, stride = 1, dilation = 1;
  int64_t begin = 0, end = 0;  // padding, as the user gave it

  int64_t reach() const { return dilation * (kernel - 1) + 1; }  // inputs from the first to the last one seen
  // Padding behind the input that the last window really touches: less than `end` when the stride leaves a rest,
  // more in ceil_mode.
  int64_t effective_end() const { return std::max<int64_t>(0, (out - 1) * stride + reach() - in - begin); }
};

// The number of spatial dimensions of a conv, conv_transpose or pool: its constant `spatial`.
int spatial_rank(const Op& op);
// Spatial dimension `axis` (0 .. spatial - 1) of an inferred conv, conv_transpose or pool.  For conv_transpose `in`
// and `out` are those of the op; the window slides over its output.
Window window_of(const Op& op, int axis);

// The names of dimensions in error messages: "w" / "h", "w" / "d", "h", "w".
const char* spatial_name(int spatial, int axis);
// Spatial shape in documentation: "w", "h, w", "d, h, w", each with this prefix ("k": "kh, kw").
std::string spatial_list(int spatial, const std::string& prefix = "");

// For infer.  Each reads an attribute, expands it, checks it and stores it back.
std::vector<int64_t> positive_per_axis(Op& op, const Key<Ints>& attribute, int spatial);  // 1 .. 2^31 - 1
// The padding that a word stands for, set as numbers for a window of these sizes.  "same" is torch's; "same_upper"
// (TensorFlow's SAME) and "same_lower", for any stride, are ONNX's: ceil(in / stride) outputs, an odd element at the
// end or the begin.  Does nothing where the padding is given in numbers.
void spell_padding(Op& op, const std::vector<int64_t>& kernel, const std::vector<int64_t>& stride,
                   const std::vector<int64_t>& dilation);
// Padding of 1, s or 2s values to the 2s of begins, then ends; none negative.
std::vector<int64_t> expand_padding(Op& op, int spatial);
// The output size of a window, an error where the kernel is larger than the padded input.
int64_t sliding_size(const Op& op, const Window& window, const char* axis_name);
// The words for the padding of a convolution or pool, and what documentation says of them.
std::vector<std::string> padding_words();
extern const char* const kPaddingWords;
// The output shape of a convolution of input 0 with weights, input 1, both of rank spatial + 2; checks both, groups,
// and the attributes of the window, which it expands.
Dims convolved_shape(Op& op, int spatial);

}  // namespace pl
