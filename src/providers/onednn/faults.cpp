#include "providers/onednn/faults.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "ops/post_ops.h"
#include "ops/spatial.h"
#include "providers/onednn/engine.h"

namespace pl::onednn {

// The implementation walks the kernel's taps in depth and height, of all or of one row at a time, whichever its
// estimate of the caches prefers: with many input channels the latter.  A row of taps that the stride leaves out is an
// empty product, and for an empty product it applies the post-ops to what the destination holds.  Where sums are kept
// in a buffer apart (bf16, f16), the destination is written again at the end, and the result is right.
const KnownFault kStridedPostOps{
    "onednn-strided-post-ops",
    "oneDNN",
    "3.1",
    "3.3",
    "a transposed convolution by brgconv_strided, of f32, with a bias or post-ops, of more than one row of taps and a "
    "stride in depth or height, but for 2 x 2 with stride 2",
    "bias and activation are applied once for each row of taps that the stride leaves out",
    "oneDNN 3.2 on Zen 4 and Sapphire Rapids: conv_transpose2d of 1024 channels, kernel 4, stride 2, in NHWC: "
    "relative error 1; on Ice Lake a fifth of 700 random ones of kernel 3 or 4 with a stride as large, a tenth of "
    "kernel 2 with stride 2 x 1, and none of 720 of kernel 2 with stride 2; oneDNN mended it in \"fix kd/kh blocking "
    "for brg deconv\"",
    "the implementation is used without them, and a second primitive applies them",
};

// Channels are multiplied in pairs.  The one behind the last odd one is multiplied by a weight of zero, and beyond the
// last pixel that is whatever lies in memory.
const KnownFault kOddChannels{
    "onednn-odd-channels-bf16",
    "oneDNN",
    "",
    "",
    "a convolution of bf16, transposed or not, with an odd number of input channels, by brgconv: in three dimensions "
    "any, in one and two avx512_core_bf16; in three dimensions also by jit:avx512_core_amx, as the gradient by "
    "weights is in all; a transposed one in three dimensions by AMX's jit and jit_deconvolution with any number of "
    "input or output channels that is no multiple of 16",
    "results are NaN where what lies behind the input is none or infinite",
    "oneDNN 3.2 on Sapphire Rapids, in channels last: conv_transpose3d of 255 to 595 channels, kernels 4 and 7; "
    "conv3d of 533, kernel 4; conv1d, conv_transpose1d, conv2d of 1023 and 2047, kernels 4 and 7; f32, f16, 1x1 "
    "kernels and avx512_core_amx were right in one and two dimensions; by AMX conv_transpose3d of 513, 14 and 10, of "
    "32 to 20, conv2d_backward_weights of 63 and 2047",
    "the implementation is not used",
};

const KnownFault kGemmZeroPoint{
    "onednn-gemm-zero-point",
    "oneDNN",
    "",
    "",
    "an int8 convolution by gemm_s8u8s32 with a zero point of x, whose output channels in a group are no multiple of "
    "16",
    "the term of the zero point is wrong for some channels",
    "oneDNN 3.2 on Sapphire Rapids, in NHWC: conv_integer and qlinear_conv of 53 and 129 channels, kernels 1 and 4; "
    "128, 130 and 144 channels were right in the few cases tried",
    "the implementation is not used",
};

const KnownFault kPaddedZeroPoint{
    "onednn-padded-zero-point",
    "oneDNN",
    "",
    "",
    "an int8 convolution by brgconv:avx2_vnni with a zero point of x and padding",
    "results next to the padding are wrong",
    "oneDNN 3.2 on Sapphire Rapids: qlinear_conv in one dimension, 46 pixels, 47 to 64 channels to 109 and 112, "
    "kernel 7, padding 3 and 5; without a zero point, by avx512_core_vnni, and at some other sizes it was right",
    "the implementation is not used",
};

// Its jump table for rows of the kernel that lie in the padding is left behind its end.
const KnownFault kAmxPadding{
    "onednn-amx-padding",
    "oneDNN",
    "",
    "",
    "an int8 convolution by jit:avx512_core_amx with a zero point of x and padding",
    "the process ends by a segmentation fault, results are wrong, or others are written behind them",
    "oneDNN 3.2 on Sapphire Rapids: qlinear_conv in two and three dimensions, 320 channels to 128, kernel 7 high, "
    "padding 6: at 3 rows the fault, at 9 wrong results; no zero point was right; conv_integer of 32 channels, "
    "kernels 5 and 7, dilation 2 and 3: the fault with 7 x 7 pixels, wrong results with 9 x 29; 320 channels, 13 x 62 "
    "pixels, kernel 2, padding 1 x 0, and 1152, 55 x 40, kernel 3: a byte behind the result",
    "the implementation is not used",
};

const KnownFault kIdleZeroPoint{
    "onednn-idle-zero-point",
    "oneDNN",
    "",
    "",
    "an int8 convolution by brgconv with a zero point of x where some taps of the kernel meet padding alone",
    "results are wrong",
    "oneDNN 3.2 on Sapphire Rapids: qlinear_conv in three dimensions, 4 x 4 x 2 pixels, 40 channels to 512, kernel 2, "
    "dilation 3, padding 1, by avx512_core_vnni",
    "the implementation is not used",
};

const KnownFault kFarEdgeZeroPoint{
    "onednn-far-edge-zero-point",
    "oneDNN",
    "",
    "",
    "an int8 convolution by brgconv with a zero point of x, a kernel of five elements or more along the width, and "
    "four or more of padding there",
    "results in some columns are wrong where the result is some 6 to 16 wide",
    "oneDNN 3.2 on Ice Lake and Sapphire Rapids: conv_integer by avx512_core_vnni, 12 x 7 pixels, 96 channels to 64, "
    "kernel 7, padding 5 at the right; 6 pixels, kernel 9, padding 4; 6 pixels, kernel 5, dilation 2, padding 4; with "
    "three taps, or less padding, 6,000 random convolutions were right",
    "the implementation is not used",
};

// Each thread copies the pixels that the stride meets into a place of its own, the last channels by 16 bytes, also
// where there are fewer: into the next thread's place.
const KnownFault kSharedTails{
    "onednn-shared-tails-int8",
    "oneDNN",
    "",
    "",
    "an int8 convolution by jit_uni_int8_1x1 with a stride and several threads, whose input channels are no multiple "
    "of 16",
    "threads change what others read: now and then some results are wrong",
    "oneDNN 3.2 on Sapphire Rapids, four threads, avx2_vnni: two of 8,000 checks of qlinear_conv, 72 channels to 102, "
    "stride 2, and 2 to 65, stride 3; none of 35,000 with one thread",
    "the implementation is not used",
};

// Seen in processes that had run thousands of other ops; which of the zero points it takes was not found out.
const KnownFault kProductZeroPoint{
    "onednn-product-zero-point",
    "oneDNN",
    "",
    "",
    "an int8 product of matrices by brg:avx2_vnni with a zero point of a or b",
    "the process ends: it reads or frees memory that is not its own",
    "oneDNN 3.2 on Sapphire Rapids: qlinear_matmul with three zero points, 1 x 128 by 128 x 2 and 128 x 243 by 243 x "
    "3584; 35 products of matmul_integer were right",
    "the implementation is not used",
};

// It begins its sums by tap with the first input that a tap meets.
const KnownFault kTapsOnPadding{
    "onednn-taps-on-padding",
    "oneDNN",
    "",
    "",
    "the gradient of a convolution by its weights, of bf16 or f16, where some taps of the kernel meet padding alone",
    "the gradients of these taps are what lay in memory before",
    "oneDNN 3.2 on Sapphire Rapids: conv2d_backward_weights of 4 x 2 pixels, 65 channels to 511, kernel 3 x 7, "
    "padding 1 x 3, stride 3, by jit_bf16:avx512_core_bf16, brgconv_bwd_w:avx512_core_amx and jit:avx512_core_amx",
    "the implementation is not used",
};

// It copies the pixels that the stride meets into its scratchpad, to places a vector of channels apart, and books as many
// as x has.
const KnownFault kFewChannelsApart{
    "onednn-few-channels-apart",
    "oneDNN",
    "",
    "",
    "the gradient by its weights of a convolution with a kernel of one element and a stride, of fewer input channels "
    "than a vector has elements: 16 by 1x1:avx512_core, 8 by 1x1:avx2",
    "it writes behind its scratchpad: other tensors change, or the process ends or hangs",
    "oneDNN 3.2 on Ice Lake: conv2d_backward_weights of 2 x 3 x 224 x 224, NHWC, to 64 channels, stride 2: half of "
    "another layer's gradients were other numbers; its source has the same line for bf16. On Zen 3: of 2 x 1 to 7 x 32 "
    "x 32, and none of 8 channels and more",
    "the implementation is not used",
};

const KnownFault kFewChannelsAmx{
    "onednn-few-channels-amx",
    "oneDNN",
    "",
    "",
    "the gradient of a convolution by its weights, of bf16 or f16, by brgconv_bwd_w:avx512_core_amx, with fewer than "
    "16 input or output channels, or with at most 32 of one and 2048 or more of the other",
    "the process ends by a division by zero, or what pads the weights is not zero",
    "oneDNN 3.2 on Sapphire Rapids, two threads: conv2d_backward_weights of 2 x 4 x 10 x 5 to 3072 channels, kernel "
    "7, of 2304 channels to 4 and of 32 to 4096; of 34 random ones beyond these limits 21 ended the process, of 546 "
    "of few channels alone 2 were wrong, and none of 1,027 others",
    "the implementation is not used",
};

const KnownFault kTailsOfWeights{
    "onednn-tails-of-weights-bf16",
    "oneDNN",
    "",
    "",
    "the gradient of a convolution by its weights, of bf16 or f16: by jit_bf16:avx512_core_bf16 with input channels "
    "that are no multiple of 16, more than 16 or in groups; by jit:avx512_core_amx with more than 32 input channels, "
    "fewer than 16 beyond a multiple of 32",
    "some gradients are NaN or other numbers, and what pads them is not zero",
    "oneDNN 3.2 on Sapphire Rapids, channels last: conv2d_backward_weights of 20 to 129 channels to 1 to 64, kernels "
    "1 to 7, 16 of 1,400 random ones, and one of 90 with groups; of 36, 40 and 72 channels to 1 to 1536, kernels 1 to "
    "7, 7 of some 150; none of 6,000 others",
    "the implementation is not used",
};

// The first window that reads all taps sets their sums, before others add to them.
const KnownFault kShallowInput{
    "onednn-shallow-input",
    "oneDNN",
    "",
    "",
    "the gradient of a convolution in three dimensions by its weights, of bf16 or f16, where every window along the "
    "depth meets padding, by jit_bf16:avx512_core_bf16 and jit:avx512_core_amx",
    "gradients are NaN or what lay in memory before",
    "oneDNN 3.2 on Sapphire Rapids: conv3d_backward_weights, depth 2 with kernel 3 and padding 1, as the last layers "
    "of R3D-18 have it: 36 of 59 random ones, and none of 600 with a window inside",
    "the implementation is not used",
};

const KnownFault kDilatedIdleTaps{
    "onednn-dilated-idle-taps",
    "oneDNN",
    "",
    "",
    "a convolution of bf16 or f16, transposed or not, with dilation, by brgconv:avx512_core_amx, where some taps of "
    "the kernel meet padding alone",
    "the process ends by a segmentation fault",
    "oneDNN 3.2 on Sapphire Rapids: conv2d of 1 x 767 x 1 x 2, kernel 2, dilation 3, padding 2; 8 of 73 random ones, "
    "and none of 470 without dilation or such taps",
    "the implementation is not used",
};

const KnownFault kPatches{
    "onednn-patches-amx",
    "oneDNN",
    "",
    "",
    "a convolution of bf16 or f16 whose stride is its kernel's width, 2 or more, of 16 input channels or 16 more than "
    "a multiple of 32, by brgconv:avx512_core_amx",
    "results are wrong",
    "oneDNN 3.2 on Sapphire Rapids: conv2d of 3 x 400 x 2 x 2, kernel 2, stride 2; conv1d of 48 and 272 channels: 3 "
    "of 5 random ones, and none of 45 of other channels",
    "the implementation is not used",
};

const KnownFault kOnePixel{
    "onednn-one-pixel-amx",
    "oneDNN",
    "",
    "",
    "a transposed convolution of bf16 or f16 of one pixel, by a convolution (conv:any) of avx512_core_amx but for "
    "brgconv_strided",
    "results are wrong, and others are written behind the scratchpad",
    "oneDNN 3.2 on Sapphire Rapids: conv_transpose2d of 2 x 2047 x 1 x 1 to 72 channels, kernel 5: 66 of 234 random "
    "ones, and none of 2,300 of more pixels and channels",
    "the implementation is not used",
};

const KnownFault kOneChannel{
    "onednn-one-channel-amx",
    "oneDNN",
    "",
    "",
    "a transposed convolution of bf16 or f16 of one channel to one, by conv:any+jit:avx512_core_amx",
    "it writes behind its scratchpad: results are wrong, or the process ends",
    "oneDNN 3.2 on Sapphire Rapids: conv_transpose2d of 1 x 1 x 88 x 152, kernel 7: 9 of 12 random ones",
    "the implementation is not used",
};

const KnownFault kAmx1x1{
    "onednn-1x1-amx",
    "oneDNN",
    "",
    "",
    "a convolution of int8, bf16 or f16 by jit_1x1:avx512_core_amx",
    "it writes behind its result",
    "oneDNN 3.2 on Sapphire Rapids: conv_integer of 2 x 320 x 2 x 3 x 6 to 64 channels, conv2d of 1 x 2304 x 9 x 3 to "
    "64: 5 of 39 random ones",
    "the implementation is not used",
};

const KnownFault kTails1x1{
    "onednn-1x1-tails-bf16",
    "oneDNN",
    "",
    "",
    "a convolution of bf16 by jit_bf16_1x1:avx512_core_bf16, whose input channels are no multiple of 16",
    "some results are other numbers",
    "oneDNN 3.2 on Sapphire Rapids, channels last: conv2d of 4 x 33 x 5 x 6 to 513 channels; of 3 x 1 x 254 x 94 to "
    "20, stride 1 x 2: 2 of 53 random ones",
    "the implementation is not used",
};

const KnownFault kEvenDepthwise{
    "onednn-even-depthwise-int8",
    "oneDNN",
    "",
    "",
    "a depthwise convolution of int8 with a kernel of even width, by jit_uni_int8:avx2_vnni",
    "some results are wrong",
    "oneDNN 3.2 on Sapphire Rapids, channels last: conv_integer and qlinear_conv, kernels 2 and 4 wide: 5 of 285 "
    "random ones, and none of 5,300 of odd width or not depthwise",
    "the implementation is not used",
};

const KnownFault kSoftplus{
    "onednn-softplus",
    "oneDNN",
    "",
    "",
    "softplus and mish of f32, by themselves or as post-ops",
    "far below zero, where softplus is nearly exp(x), it is off by 6e-7, half a percent of it at -9; mish is made of "
    "it",
    "oneDNN 3.2 on Sapphire Rapids: jit:uni, mul; on Zen 4: matmul, linear; other code of it takes another formula",
    "these run elsewhere",
};

const KnownFault kLogarithm{
    "onednn-logarithm",
    "oneDNN",
    "",
    "",
    "log and log_softmax of f32 by vector code",
    "results are off by up to 3.8e-6, also next to zero: seven times the error of this library's own",
    "oneDNN 3.2 on Sapphire Rapids: jit:avx512_core, log of 1.0318; jit:avx512_core_fp16, log_softmax in four rows of "
    "five",
    "log and log_softmax of f32 run elsewhere",
};

const KnownFault kNanBecomesNumber{
    "onednn-nan-becomes-number",
    "oneDNN",
    "",
    "",
    "relu, relu6, clip, exp and hardsigmoid as primitives of their own, and softmax, by vector code",
    "they limit numbers by a minimum or maximum, and NaN comes out as a number: a row of softmax with NaN or infinity "
    "as zeros",
    "oneDNN 3.2",
    "these functions run elsewhere; only as fused activations, which cannot be had otherwise, they are oneDNN's",
};

const KnownFault kPrimitiveCache{
    "onednn-primitive-cache",
    "oneDNN",
    "",
    "",
    "two primitives of one op in one process, by two implementations or with strides that differ in dimensions of "
    "size 1",
    "the cache takes one for the other: an inner product as gemm came back as brgemm, which reads its weights in "
    "another layout, and a primitive needed another scratchpad than its description said",
    "oneDNN 3.2",
    "each primitive's description is compared with the one asked for, and made again without the cache where they "
    "differ",
};

const KnownFault kTooOld{
    "onednn-too-old",
    "oneDNN",
    "",
    "3.2",
    "any op",
    "post-ops that choices rest on are missing",
    "oneDNN 3.1",
    "every op is refused",
    "pip install --upgrade onednn-cpu-gomp, and unset PYLAYOUT_ONEDNN",
};

namespace {

// What is asked of a primitive.
struct Call {
  const Op& op;
  std::string_view implementation;
  bool post_ops;  // it applies a bias or an activation itself

  const std::string& kind() const { return op.schema->kind; }
  bool by(std::string_view text) const { return implementation.find(text) != std::string_view::npos; }
  bool transposed() const { return kind() == "conv_transpose"; }
  bool convolves() const { return kind() == "conv" || transposed(); }
  bool by_weights() const { return kind() == "conv_backward_weights"; }
  bool half() const { return op.in(0).dtype == DType::bf16 || op.in(0).dtype == DType::f16; }
  int spatial() const { return op.in(0).rank() - 2; }
  int64_t groups() const { return op.attributes[attr::groups]; }
  // Of a group.  For the gradient by weights, those of the convolution.
  int64_t input_channels() const { return op.in(0).shape[1] / groups(); }
  int64_t output_channels() const { return (by_weights() ? op.in(1) : op.out()).shape[1] / groups(); }
  bool has_input(const char* name) const {
    const int index = op.schema->input_index(name);
    return index >= 0 && op.has(index);
  }
  template <class Test>
  bool any(const Key<Ints>& attribute, const Test& test) const {
    const auto& values = op.attributes[attribute];
    return std::any_of(values.begin(), values.end(), test);
  }
  bool strided() const {
    return any(attr::stride, [](int64_t step) { return step != 1; });
  }
  bool dilated() const {
    return any(attr::dilation, [](int64_t step) { return step != 1; });
  }
  bool padded() const {
    return any(attr::padding, [](int64_t size) { return size != 0; });
  }

  // The window along a dimension as it slides over the larger side: over the result of a transposed convolution.
  Window window(int axis) const {
    Window window;
    if (by_weights()) {
      const size_t a = size_t(axis);
      const auto& padding = op.attributes[attr::padding];
      window = {op.in(0).shape[2 + axis],       op.in(1).shape[2 + axis],         op.attributes[attr::kernel_size][a],
                op.attributes[attr::stride][a], op.attributes[attr::dilation][a], padding[a],
                padding[a + size_t(spatial())]};
    } else {
      window = window_of(op, axis);
      if (transposed()) std::swap(window.in, window.out);
    }
    return window;
  }

  // Whether some tap of the kernel meets padding alone, wherever the window lies.
  bool has_idle_taps() const {
    for (int axis = 0; axis < spatial(); ++axis) {
      const Window each = window(axis);
      for (int64_t k = 0; k < each.kernel; ++k) {
        bool meets = false;
        for (int64_t p = 0; p < each.out && !meets; ++p) {
          const int64_t at = p * each.stride - each.begin + k * each.dilation;
          meets = at >= 0 && at < each.in;
        }
        if (!meets) return true;
      }
    }
    return false;
  }

  // Whether some window along a dimension meets no padding.
  bool has_window_inside(int axis) const {
    const Window each = window(axis);
    for (int64_t p = 0; p < each.out; ++p) {
      const int64_t at = p * each.stride - each.begin;
      if (at >= 0 && at + each.reach() <= each.in) return true;
    }
    return false;
  }
};

bool pads_width_by_four(const Call& call) {
  const Window width = call.window(call.spatial() - 1);
  return width.kernel >= 5 && std::max(width.begin, width.end) >= 4;
}

// Where rows of taps are left out by a stride.
bool has_idle_rows(const Call& call) {
  const Dims& shape = call.op.in(1).shape;
  const auto &stride = call.op.attributes[attr::stride], &dilation = call.op.attributes[attr::dilation];
  // U-Nets' kernel: two rows of one tap each were never taken one at a time.
  if (shape.size() == 4 && shape[2] == 2 && shape[3] == 2 && stride[0] == 2 && stride[1] == 2 && dilation[0] == 1)
    return false;
  for (size_t i = 0; i + 1 < stride.size(); ++i) {                       // not along the width
    const int64_t every = stride[i] / std::gcd(stride[i], dilation[i]);  // taps between two that meet an input
    if (every > 1 && shape[2 + int(i)] > 1) return true;
  }
  return false;
}

// The faults of single implementations, and when each strikes.
struct Strike {
  const KnownFault* fault;
  bool (*strikes)(const Call& call);
};

const Strike kStrikes[] = {
    {&kOddChannels,
     [](const Call& call) {
       if (call.by_weights()) return call.half() && call.by("avx512_core_amx") && call.input_channels() % 2 == 1;
       if (!call.convolves() || call.op.in(0).dtype != DType::bf16) return false;
       const bool amx = call.by("jit:avx512_core_amx") || call.by("jit_deconvolution:avx512_core_amx");
       if (call.transposed() && call.spatial() == 3 && amx)
         return call.input_channels() % 16 != 0 || call.output_channels() % 16 != 0;
       if (call.input_channels() % 2 == 0) return false;
       return call.spatial() == 3 ? call.by("brgconv") || call.by("jit:avx512_core_amx")
                                  : call.by("brgconv:avx512_core_bf16");
     }},
    {&kFewChannelsAmx,
     [](const Call& call) {
       if (!call.by_weights() || !call.half() || !call.by("brgconv_bwd_w:avx512_core_amx")) return false;
       const int64_t in = call.input_channels(), out = call.output_channels();
       return std::min(in, out) < 16 || (std::min(in, out) <= 32 && std::max(in, out) >= 2048);
     }},
    {&kTailsOfWeights,
     [](const Call& call) {
       if (!call.by_weights() || !call.half()) return false;
       const int64_t in = call.input_channels();
       return (call.by("jit_bf16:avx512_core_bf16") && in % 16 != 0 && (in > 16 || call.groups() > 1)) ||
              (call.by("jit:avx512_core_amx") && in > 32 && in % 32 != 0 && in % 32 < 16);
     }},
    {&kTapsOnPadding, [](const Call& call) { return call.by_weights() && call.half() && call.has_idle_taps(); }},
    {&kShallowInput,
     [](const Call& call) {
       return call.by_weights() && call.half() && call.spatial() == 3 && !call.has_window_inside(0) &&
              (call.by("jit_bf16:avx512_core_bf16") || call.by("jit:avx512_core_amx"));
     }},
    {&kFewChannelsApart,
     [](const Call& call) {
       const int64_t apart = call.by("1x1:avx512_core") ? 16 : call.by("1x1:avx2") ? 8 : 0;
       return call.by_weights() && call.op.in(0).shape[1] < apart && call.strided();
     }},
    {&kDilatedIdleTaps,
     [](const Call& call) {
       return call.convolves() && call.half() && call.by("brgconv:avx512_core_amx") && call.dilated() &&
              call.has_idle_taps();
     }},
    {&kPatches,
     [](const Call& call) {
       if (!call.convolves() || call.transposed() || !call.half() || !call.by("brgconv:avx512_core_amx")) return false;
       const Window width = call.window(call.spatial() - 1);
       return width.kernel > 1 && width.kernel == width.stride && call.input_channels() % 32 == 16;
     }},
    {&kOnePixel,
     [](const Call& call) {
       const Dims& shape = call.op.in(0).shape;
       return call.transposed() && call.half() && call.by("conv:any") && call.by("avx512_core_amx") &&
              !call.by("brgconv_strided") &&
              std::all_of(shape.begin() + 2, shape.end(), [](int64_t s) { return s == 1; });
     }},
    {&kOneChannel,
     [](const Call& call) {
       return call.transposed() && call.half() && call.by("conv:any+jit:avx512_core_amx") && call.groups() == 1 &&
              call.input_channels() == 1 && call.output_channels() == 1;
     }},
    {&kLogarithm,
     [](const Call& call) {
       const std::string_view name = call.op.schema->name;
       return (name == "log" || name == "log_softmax") && call.op.in(0).dtype == DType::f32 && call.by("jit");
     }},
    {&kNanBecomesNumber, [](const Call& call) { return call.kind() == "softmax" && call.by("jit"); }},
    {&kSoftplus,
     [](const Call& call) {
       const PostOps& steps = post_ops_of(call.op);
       const auto concerned = [](std::string_view name) { return name == "softplus" || name == "mish"; };
       return call.op.out().dtype == DType::f32 &&
              (concerned(call.op.schema->name) ||
               std::any_of(steps.begin(), steps.end(), [&](const PostOp& step) { return concerned(step.name); }));
     }},
    {&kPaddedZeroPoint,
     [](const Call& call) { return call.by("brgconv:avx2_vnni") && call.has_input("x_zero_point") && call.padded(); }},
    {&kIdleZeroPoint,
     [](const Call& call) {
       return call.kind() == "quantized_conv" && call.by("brgconv") && call.has_input("x_zero_point") &&
              call.has_idle_taps();
     }},
    {&kFarEdgeZeroPoint,
     [](const Call& call) {
       return call.kind() == "quantized_conv" && call.by("brgconv") && call.has_input("x_zero_point") &&
              pads_width_by_four(call);
     }},
    {&kSharedTails,
     [](const Call& call) {
       return call.kind() == "quantized_conv" && call.by("jit_uni_int8_1x1") && call.op.in(0).shape[1] % 16 != 0 &&
              call.strided();
     }},
    {&kAmx1x1,
     [](const Call& call) {
       return (call.kind() == "quantized_conv" || call.convolves()) && call.by("jit_1x1:avx512_core_amx");
     }},
    {&kTails1x1,
     [](const Call& call) {
       return call.convolves() && call.by("jit_bf16_1x1:avx512_core_bf16") && call.input_channels() % 16 != 0;
     }},
    {&kEvenDepthwise,
     [](const Call& call) {
       return call.kind() == "quantized_conv" && call.by("jit_uni_int8:avx2_vnni") && call.groups() > 1 &&
              call.input_channels() == 1 && call.window(call.spatial() - 1).kernel % 2 == 0;
     }},
    {&kProductZeroPoint,
     [](const Call& call) {
       return call.kind() == "quantized_matmul" && call.by("brg:avx2_vnni") &&
              (call.has_input("a_zero_point") || call.has_input("b_zero_point"));
     }},
    {&kAmxPadding,
     [](const Call& call) {
       return call.by("jit:avx512_core_amx") && call.has_input("x_zero_point") && call.padded();
     }},
    {&kGemmZeroPoint,
     [](const Call& call) {
       return call.kind() == "quantized_conv" && call.by("gemm_s8u8s32") && call.has_input("x_zero_point") &&
              call.output_channels() % 16 != 0;
     }},
    {&kStridedPostOps,  // last: the others hold without post-ops, too
     [](const Call& call) {
       return call.transposed() && call.post_ops && call.op.out().dtype == DType::f32 &&
              call.implementation.substr(0, 8) == "brg_conv" && call.by("brgconv_strided") && has_idle_rows(call);
     }},
};

const LibraryRegistration library("oneDNN", [] { return std::vector<std::string>{library_version()}; });
// Those that strike no single implementation.
const KnownFaultRegistration others[] = {KnownFaultRegistration(kPrimitiveCache), KnownFaultRegistration(kTooOld)};
const bool registered = [] {
  for (const Strike& each : kStrikes) KnownFaultRegistration{*each.fault};
  return true;
}();

}  // namespace

bool has(const KnownFault& fault) {
  static const std::string version = library_version();
  return fault.concerns(version);
}

const KnownFault* fault_of(const Op& op, std::string_view implementation, bool post_ops) {
  const Call call{op, implementation, post_ops};
  for (const Strike& each : kStrikes)
    if (each.strikes(call) && has(*each.fault)) return each.fault;
  return nullptr;
}

bool loses_nan(std::string_view function) {
  if (!has(kNanBecomesNumber)) return false;
  for (const char* name : {"relu", "relu6", "clip", "exp", "hardsigmoid"})
    if (function == name) return true;
  return false;
}

}  // namespace pl::onednn
