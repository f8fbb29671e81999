#include "providers/onednn/faults.h"

#include <algorithm>
#include <numeric>

#include "ops/post_ops.h"
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
    "oneDNN 3.2 on Zen 4 and Sapphire Rapids: conv_transpose2d of 1024 channels, kernel 4, stride 2, in NHWC: relative "
    "error 1; on Ice Lake a fifth of 700 random ones of kernel 3 or 4 with a stride as large, a tenth of kernel 2 with "
    "stride 2 x 1, and none of 720 of kernel 2 with stride 2; oneDNN mended it in \"fix kd/kh blocking "
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
    "weights is in all",
    "results are NaN where what lies behind the input is none or infinite",
    "oneDNN 3.2 on Sapphire Rapids, in channels last: conv_transpose3d of 255 to 595 channels, kernels 4 and 7; "
    "conv3d of 533, kernel 4; conv1d, conv_transpose1d, conv2d of 1023 and 2047, kernels 4 and 7; f32, f16, 1x1 "
    "kernels and avx512_core_amx were right in one and two dimensions; by AMX conv_transpose3d of 513, "
    "conv2d_backward_weights of 63 and 2047",
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
    "oneDNN 3.2 on Sapphire Rapids: qlinear_conv in one dimension, 46 pixels, 47 to 64 channels to 109 and 112, kernel "
    "7, padding 3 and 5; without a zero point, by avx512_core_vnni, and at some other sizes it was right",
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
    "kernels 5 and 7, dilation 2 and 3: the fault with 7 x 7 pixels, wrong results with 9 x 29; 320 channels, 13 x "
    "62 pixels, kernel 2, padding 1 x 0, and 1152, 55 x 40, kernel 3: a byte behind the result",
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
    "oneDNN 3.2 on Sapphire Rapids: conv2d_backward_weights of 4 x 2 pixels, 65 channels to 511, kernel 3 x 7, padding "
    "1 x 3, stride 3, by jit_bf16:avx512_core_bf16, brgconv_bwd_w:avx512_core_amx and jit:avx512_core_amx",
    "the implementation is not used",
};

// It copies the pixels that the stride meets into its scratchpad, to places 16 channels apart, and books as many as x
// has.
const KnownFault kFewChannelsApart{
    "onednn-few-channels-apart",
    "oneDNN",
    "",
    "",
    "the gradient by its weights of a convolution with a kernel of one element and a stride, of fewer than 16 input "
    "channels, by 1x1:avx512_core",
    "it writes behind its scratchpad: other tensors change, or the process ends",
    "oneDNN 3.2 on Ice Lake: conv2d_backward_weights of 2 x 3 x 224 x 224, NHWC, to 64 channels, stride 2: half of "
    "another layer's gradients were other numbers; its source has the same line for bf16",
    "the implementation is not used",
};

// Seen once; which of its sizes it takes was not found out.
const KnownFault kFewChannelsAmx{
    "onednn-few-channels-amx",
    "oneDNN",
    "",
    "",
    "the gradient of a convolution by its weights, of bf16 or f16, of fewer than 16 input channels, by "
    "brgconv_bwd_w:avx512_core_amx",
    "the process ends by a division by zero",
    "oneDNN 3.2 on Sapphire Rapids, two threads: conv2d_backward_weights of 2 x 4 x 10 x 5, bf16, to 3072 channels, "
    "kernel 7, stride 2 x 1, padding 3",
    "the implementation is not used",
};

const KnownFault kSoftplus{
    "onednn-softplus",
    "oneDNN",
    "",
    "",
    "add, sub, mul and div with the post-op softplus",
    "far below zero, where the result is nearly exp(x), it is off by 6e-7, half a percent of it at -9",
    "oneDNN 3.2 on Sapphire Rapids: jit:uni, mul of f32; other code of it takes another formula",
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
    "relu, relu6, clip, exp and hardsigmoid as primitives of their own, by vector code",
    "they end in a minimum or maximum, and NaN comes out as a number",
    "oneDNN 3.2",
    "these functions run elsewhere; only as fused activations, which cannot be had otherwise, they are oneDNN's",
};

const KnownFault kPrimitiveCache{
    "onednn-primitive-cache",
    "oneDNN",
    "",
    "",
    "two primitives of one op in one process, by two implementations or with strides that differ in dimensions of size "
    "1",
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

static const KnownFaultRegistration registered[] = {
    KnownFaultRegistration(kStridedPostOps),   KnownFaultRegistration(kOddChannels),
    KnownFaultRegistration(kGemmZeroPoint),    KnownFaultRegistration(kLogarithm),
    KnownFaultRegistration(kNanBecomesNumber), KnownFaultRegistration(kPrimitiveCache),
    KnownFaultRegistration(kTooOld),           KnownFaultRegistration(kPaddedZeroPoint),
    KnownFaultRegistration(kAmxPadding),       KnownFaultRegistration(kTapsOnPadding),
    KnownFaultRegistration(kSoftplus),         KnownFaultRegistration(kIdleZeroPoint),
    KnownFaultRegistration(kProductZeroPoint), KnownFaultRegistration(kFewChannelsApart),
    KnownFaultRegistration(kFarEdgeZeroPoint), KnownFaultRegistration(kSharedTails),
    KnownFaultRegistration(kFewChannelsAmx)};
static const LibraryRegistration library("oneDNN", [] { return std::vector<std::string>{library_version()}; });

bool has(const KnownFault& fault) {
  static const std::string version = library_version();
  return fault.concerns(version);
}

static bool has_stride(const Op& op) {
  const auto& stride = op.attributes[attr::stride];
  return std::any_of(stride.begin(), stride.end(), [](int64_t step) { return step != 1; });
}

static bool has_padding(const Op& op) {
  if (!op.attributes.has(attr::padding)) return false;
  const auto& padding = op.attributes[attr::padding];
  return std::any_of(padding.begin(), padding.end(), [](int64_t size) { return size != 0; });
}

// Whether some tap of the kernel of a convolution with the result y meets no input, wherever the window lies.
static bool has_idle_taps(const Op& op, const TensorDesc& y, const std::vector<int64_t>& kernel) {
  const auto &stride = op.attributes[attr::stride], &dilation = op.attributes[attr::dilation],
             &padding = op.attributes[attr::padding];
  for (int axis = 0; axis < op.in(0).rank() - 2; ++axis) {
    const size_t a = size_t(axis);
    const int64_t in = op.in(0).shape[2 + axis], windows = y.shape[2 + axis];
    for (int64_t k = 0; k < kernel[kernel.size() == 1 ? 0 : a]; ++k) {
      bool meets = false;
      for (int64_t p = 0; p < windows && !meets; ++p) {
        const int64_t at = p * stride[a] - padding[a] + k * dilation[a];
        meets = at >= 0 && at < in;
      }
      if (!meets) return true;
    }
  }
  return false;
}

const KnownFault* fault_of(const Op& op, std::string_view implementation, bool post_ops) {
  const std::string& kind = op.schema->kind;
  const auto is_by = [&](const char* text) { return implementation.find(text) != std::string_view::npos; };
  if ((kind == "conv" || kind == "conv_transpose") && op.in(0).dtype == DType::bf16 &&
      (op.in(0).shape[1] / op.attributes[attr::groups]) % 2 == 1 &&
      (is_by(op.in(0).rank() == 5 ? "brgconv" : "brgconv:avx512_core_bf16") ||
       (op.in(0).rank() == 5 && is_by("jit:avx512_core_amx"))) &&
      has(kOddChannels))
    return &kOddChannels;
  if (kind == "conv_backward_weights" && is_by("avx512_core_amx") && op.in(0).dtype != DType::f32) {
    const int64_t channels = op.in(0).shape[1] / op.attributes[attr::groups];
    if (channels % 2 == 1 && has(kOddChannels)) return &kOddChannels;
    if (channels < 16 && is_by("brgconv_bwd_w") && has(kFewChannelsAmx)) return &kFewChannelsAmx;
  }
  if ((op.schema->name == "log" || op.schema->name == "log_softmax") && op.in(0).dtype == DType::f32 && is_by("jit") &&
      has(kLogarithm))
    return &kLogarithm;
  if (kind == "conv_backward_weights" && op.in(0).dtype != DType::f32 && has(kTapsOnPadding) &&
      has_idle_taps(op, op.in(1), op.attributes[attr::kernel_size]))
    return &kTapsOnPadding;
  if (kind == "conv_backward_weights" && is_by("1x1:avx512_core") && op.in(0).shape[1] < 16 && has_stride(op) &&
      has(kFewChannelsApart))
    return &kFewChannelsApart;
  const PostOps& steps = post_ops_of(op);
  const auto is_softplus = [](const PostOp& step) { return step.name == "softplus"; };
  if (kind == "binary" && std::any_of(steps.begin(), steps.end(), is_softplus) && has(kSoftplus)) return &kSoftplus;
  const int zero_point = op.schema->input_index("x_zero_point");
  if (is_by("brgconv:avx2_vnni") && zero_point >= 0 && op.has(zero_point) && has_padding(op) && has(kPaddedZeroPoint))
    return &kPaddedZeroPoint;
  if (kind == "quantized_conv" && is_by("brgconv") && zero_point >= 0 && op.has(zero_point)) {
    std::vector<int64_t> kernel = op.in(op.schema->input_index("weight")).shape.vector();
    kernel.erase(kernel.begin(), kernel.begin() + 2);
    if (has_idle_taps(op, op.out(), kernel) && has(kIdleZeroPoint)) return &kIdleZeroPoint;
    const auto& padding = op.attributes[attr::padding];  // before each dimension, then behind each
    const size_t width = kernel.size() - 1;
    if (kernel[width] >= 5 && std::max(padding[width], padding.back()) >= 4 && has(kFarEdgeZeroPoint))
      return &kFarEdgeZeroPoint;
  }
  if (kind == "quantized_conv" && is_by("jit_uni_int8_1x1") && op.in(0).shape[1] % 16 != 0 && has_stride(op) &&
      has(kSharedTails))
    return &kSharedTails;
  const int of_a = op.schema->input_index("a_zero_point"), of_b = op.schema->input_index("b_zero_point");
  if (kind == "quantized_matmul" && is_by("brg:avx2_vnni") && has(kProductZeroPoint) &&
      ((of_a >= 0 && op.has(of_a)) || (of_b >= 0 && op.has(of_b))))
    return &kProductZeroPoint;
  if (is_by("jit:avx512_core_amx") && zero_point >= 0 && op.has(zero_point) && has_padding(op) && has(kAmxPadding))
    return &kAmxPadding;
  if (is_by("gemm_s8u8s32") && zero_point >= 0 && op.has(zero_point) && op.attributes.has(attr::groups) &&
      op.out().shape[1] / op.attributes[attr::groups] % 16 != 0 && has(kGemmZeroPoint))
    return &kGemmZeroPoint;
  if (kind == "conv_transpose" && post_ops && op.out().dtype == DType::f32 &&
      implementation.substr(0, 8) == "brg_conv" && implementation.find("brgconv_strided") != std::string_view::npos &&
      has(kStridedPostOps)) {
    const auto &stride = op.attributes[attr::stride], &dilation = op.attributes[attr::dilation];
    const Dims& shape = op.in(1).shape;
    // U-Nets' kernel: two rows of one tap each were never taken one at a time.
    const bool of_u_nets =
        shape.size() == 4 && shape[2] == 2 && shape[3] == 2 && stride[0] == 2 && stride[1] == 2 && dilation[0] == 1;
    for (size_t i = 0; i + 1 < stride.size() && !of_u_nets; ++i) {         // not along the width
      const int64_t every = stride[i] / std::gcd(stride[i], dilation[i]);  // taps between two that meet an input
      if (every > 1 && shape[2 + int(i)] > 1) return &kStridedPostOps;
    }
  }
  return nullptr;
}

bool loses_nan(std::string_view function) {
  if (!has(kNanBecomesNumber)) return false;
  for (const char* name : {"relu", "relu6", "clip", "exp", "hardsigmoid"})
    if (function == name) return true;
  return false;
}

}  // namespace pl::onednn
