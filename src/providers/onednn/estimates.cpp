#include "providers/onednn/estimates.h"

#include <algorithm>

#include "ops/post_ops.h"
#include "providers/onednn/engine.h"

namespace pl::onednn {
namespace {

bool starts_with(std::string_view text, std::string_view head) { return text.substr(0, head.size()) == head; }

// How near the roofline an implementation comes, before it is measured: medians over the convolutions of five
// networks and ten products, at batch 1 (`python -m bench.estimates`).
struct Reach {
  std::string_view name;                        // that the implementation's begins with
  double dense, pointwise, grouped, depthwise;  // of convolutions by their kernel and groups; dense: of other ops, too
  double product;                               // of linear and matmul
};
// clang-format off
constexpr Reach kReachOfAvx512[] = {  // two cores of a Xeon
    // name           dense  1x1   grouped depthwise product
    {"brgconv_1x1",   0.95,  0.95, 0.5,    0.5,      0.9},
    {"matmul:brg",    0.9,   0.9,  0.5,    0.5,      0.88},
    {"brg",           1.0,   0.9,  0.5,    0.5,      0.86},
    {"jit_1x1",       0.93,  0.93, 0.5,    0.5,      0.9},
    {"jit_dw",        0.8,   0.8,  0.8,    1.1,      0.8},
    {"jit",           0.9,   0.72, 0.5,    0.5,      0.8},
    {"sum:x64:gemm",  0.4,   0.4,  0.05,   0.02,     0.5},
    {"x64:gemm",      0.45,  0.5,  0.07,   0.02,     0.9},
    {"matmul:gemm",   0.45,  0.5,  0.07,   0.02,     0.89},
    {"gemm",          0.35,  0.35, 0.05,   0.02,     0.8},
};
constexpr Reach kReachOfAvx2[] = {  // a core of a Zen 3: vectors half as wide leave less to win by packing
    {"brgconv_1x1",   0.87,  0.88, 0.5,    0.5,      0.86},
    {"matmul:brg",    0.86,  0.86, 0.5,    0.5,      0.86},
    {"brg",           0.94,  0.88, 0.45,   0.5,      0.87},
    {"jit_1x1",       0.91,  0.92, 0.5,    0.5,      0.86},
    {"jit_dw",        0.8,   0.8,  0.8,    1.1,      0.8},
    {"jit",           0.85,  0.58, 0.55,   0.5,      0.8},
    {"sum:x64:gemm",  0.5,   0.6,  0.1,    0.02,     0.5},
    {"x64:gemm",      0.58,  0.75, 0.13,   0.02,     0.82},
    {"matmul:gemm",   0.58,  0.75, 0.13,   0.02,     0.8},
    {"gemm",          0.5,   0.6,  0.1,    0.02,     0.8},
};
// clang-format on
// Of the plain `jit` with AVX2 in channels last, beside channels blocked by 8.
constexpr double kChannelsLast = 0.78;
// Of a primitive amid a network, beside a kernel of ours: what 36 small ones add to ShuffleNet.
constexpr double kStartMs = 0.005;
// Of kernels with vectors half as wide as the processor's.
constexpr double kHalfVectors = 0.6;
// Of reductions: rows of 256 take three times as long as in the host provider.
constexpr double kReductions = 0.25;
// Of tanh with AVX2, whose table is gathered element by element: six times the host provider's time.
constexpr double kGatheredTanh = 0.12;

// Of brgemm where it reads the right matrix as it lies, in rows: it copies what is transposed, and rows of a power of
// two. Rows of whole pages share sets of the caches.
constexpr double kInRows = 0.74, kInRowsOfPages = 0.33;
constexpr int64_t kPageFloats = 1024, kShortRow = 256;

double reach_by_rows(const Op& op) {
  const Dims& b = op.in(1).shape;
  const int64_t columns = b[b.size() - 1];
  if (op.attributes[attr::transpose_b] || b.size() < 2 || columns <= kShortRow || (columns & (columns - 1)) == 0)
    return 1;
  return columns % kPageFloats == 0 ? kInRowsOfPages : kInRows;
}

double efficiency_of(const Op& op, std::string_view name, const TensorDesc& y, bool reference) {
  if (reference) return 0.01;
  const bool wide = has_avx512();
  double reached = 0.3;
  for (const Reach& reach : wide ? kReachOfAvx512 : kReachOfAvx2) {
    if (!starts_with(name, reach.name)) continue;
    const std::string& kind = op.schema->kind;
    reached = reach.dense;
    if (kind == "linear" || kind == "matmul") reached = reach.product;
    if (kind == "matmul" && starts_with(name, "brg")) reached = std::min(reached, reach_by_rows(op));
    const bool gradient = kind == "conv_backward_weights";
    if (kind == "conv" || gradient) {
      const Dims& shape = gradient ? op.out().shape : op.in(1).shape;
      const int64_t channels = op.in(0).shape[1], groups = channels / std::max<int64_t>(1, shape[1]);
      if (groups > 1)
        reached = groups == channels ? reach.depthwise : reach.grouped;
      else if (std::all_of(shape.begin() + 2, shape.end(), [](int64_t size) { return size == 1; }))
        reached = reach.pointwise;
    }
    if (kind == "reduce") reached = kReductions;
    if (kind == "unary" && !wide && op.attributes[attr::function] == "tanh") reached = kGatheredTanh;
    if (kind == "conv" && !wide && reach.name == "jit" && y.layout.is_channels_last()) reached *= kChannelsLast;
    break;
  }
  const size_t colon = name.rfind(':');
  const bool narrow = colon != std::string_view::npos && name.substr(colon + 1) == "avx2";
  return narrow && wide ? kHalfVectors * reached : reached;
}

// What products of oneDNN's older gemm pack in each call, while brgemm takes weights packed before: it reaches a little
// more of large products, and is 10 to 50% behind below 200 rows.
double packed_bytes_of(const Op& op, std::string_view name) {
  const std::string& kind = op.schema->kind;
  if ((kind != "linear" && kind != "matmul") || name.find("gemm:jit") == std::string_view::npos) return 0;
  return double(op.in(1).size_bytes());
}

// With AVX2 silu takes 0.2 to 0.4 ns an element longer than in the host provider's convolutions, as long as to read the
// result once more.
double silu_bytes_of(const Op& op) {
  if (has_avx512() || op.schema->kind != "conv") return 0;
  const PostOps& steps = post_ops_of(op);
  const bool silu = std::any_of(steps.begin(), steps.end(), [](const PostOp& step) { return step.name == "silu"; });
  return silu ? double(op.out().size_bytes()) : 0;
}

// Without AVX-512 a convolution as a product of matrices applies post-ops element by element: 2 to 5 ns for relu, 10 to
// 40 for other functions, which is said as so many readings of the result.
double loop_bytes_of(const Op& op, std::string_view name) {
  constexpr double kOfRelu = 8, kOfOthers = 40;
  const PostOps& steps = post_ops_of(op);
  if (has_avx512() || op.schema->kind != "conv" || name.find("gemm:jit") == std::string_view::npos || steps.empty())
    return 0;
  const bool quick = steps.size() == 1 && (steps[0].name == "relu" || steps[0].kind == PostOp::Kind::add);
  return (quick ? kOfRelu : kOfOthers) * double(op.out().size_bytes());
}

}  // namespace

void estimate(const Op& op, std::string_view name, Candidate& candidate) {
  candidate.start_ms = kStartMs;
  candidate.efficiency = efficiency_of(op, name, candidate.outputs[0], candidate.reference);
  candidate.more_bytes = packed_bytes_of(op, name) + silu_bytes_of(op) + loop_bytes_of(op, name);
}

}  // namespace pl::onednn
