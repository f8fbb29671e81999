// conv, linear and matmul on matrix units where 16 bytes do not divide the rows of terms, so that left factors are
// copied by 4 or 8: plans against loops in double precision, on devices without such units too.
#include "opencl_conv_cases.h"
#include "opencl_matmul_cases.h"
#include "providers/opencl/conv/conv_common.h"
#include "providers/opencl/matrix_units/mma.h"

using namespace pl;
using namespace pl::testing;

namespace {

// Channels that end within a step and within a piece, results one by one, in pairs and in fours, positions in order, by
// strides and by windows, groups, sums in parts; with the bytes of a copy of 16 bits and of f32.
struct PieceCase {
  Case conv;
  int half_bytes, single_bytes;  // 0: padded in memory; 16: whole pieces, left to test_opencl_mma
};
const PieceCase cases[] = {
    {{"conv2d", {2, 58, 9, 8}, {58, 58, 1, 1}, "activation=relu", true, true}, 4, 8},
    {{"conv2d", {1, 58, 9, 11}, {70, 58, 3, 2}, "padding=[1,0] stride=[1,2]", true}, 4, 8},
    {{"conv2d", {2, 28, 7, 9}, {33, 28, 1, 1}, "stride=[2,1]", true, true}, 8, 16},
    {{"conv2d", {1, 116, 13, 5}, {116, 116, 1, 1}, "", true}, 8, 16},
    {{"conv2d", {1, 60, 7, 5}, {66, 20, 3, 3}, "groups=3 padding=1", false, true}, 8, 16},
    {{"conv1d", {1, 522, 40}, {38, 522, 1}, "activation=relu", true, true}, 4, 8},
    {{"conv2d", {1, 74, 5, 9}, {92, 37, 2, 2}, "groups=2 dilation=2", true, true}, 0, 4},
    {{"conv2d", {1, 89, 6, 9}, {140, 89, 1, 1}, "", true, true}, 0, 4},
};

// Channels that no copy of 4 bytes divides, or that windows read again by those of 4: sources, results, or both have
// zeros behind the last channel.  Of an activation that makes other numbers of zeros.
TEST("padded_in_memory") {
  Candidates candidates;
  candidates.unoptimised_on_cpus();
  if (candidates.no_devices()) SKIP("no OpenCL device here");
  opencl::wgmma_tiles_in_plain = true;
  std::set<std::pair<bool, bool>> ran;
  std::set<std::string> kernels;
  size_t number = 0;
  candidates.more = {opencl::list_conv_mma};
  candidates.filter = [&](const Candidate& candidate) {
    const auto padded = [](const TensorDesc& desc) { return desc.layout.block_count() > 0; };
    const std::pair<bool, bool> which(padded(candidate.inputs[0]), padded(candidate.outputs[0]));
    const std::string kernel = candidate.implementation.substr(0, candidate.implementation.find('['));
    if (which == std::pair(false, false) || kernel.rfind("conv_fwd_", 0) != 0) return false;
    const bool first = ran.insert(which).second | kernels.insert(kernel).second;
    return first || number++ % 7 == 0;
  };
  const Case some[] = {
      {"conv2d", {2, 45, 5, 6}, {89, 45, 3, 2}, "padding=1 stride=[1,2] activation=sigmoid", true},
      {"conv3d", {1, 58, 3, 4, 5}, {30, 58, 2, 1, 3}, "padding=[1,0,1] activation=sigmoid", true},
      {"conv2d", {1, 89, 6, 9}, {76, 89, 1, 1}, "activation=relu", true, true},
      {"conv2d", {1, 150, 5, 3}, {139, 150, 1, 1}, "activation=sigmoid"},
  };
  for (const DType dtype : {DType::f16, DType::f32})
    for (const Case& c : some) check(candidates, c, dtype, &c == some);
  check(candidates, some[0], DType::bf16);
  CHECK(ran.size() == 3);
  CHECK(kernels.count("conv_fwd_mma") && kernels.count("conv_fwd_stream"));
}

TEST("all") {
  Candidates candidates;
  candidates.unoptimised_on_cpus();  // matrix units are emulated there: a large source for each point
  if (candidates.no_devices()) SKIP("no OpenCL device here");
  // Building programs takes most of the time: the first plan of each case and some others, each time
  // different ones.
  opencl::most_mma_plans = 1000;
  opencl::wgmma_tiles_in_plain = true;
  size_t number = 0, turn = 0, ran = 0;
  constexpr size_t kEach = 11;
  bool first = false;
  std::string bytes;
  candidates.begin = [&] { number = turn++, first = true; };
  candidates.filter = [&](const Candidate& candidate) {
    const std::string& name = candidate.implementation;
    if (name.rfind("conv_fwd_mma", 0) != 0 || name.find(bytes) == std::string::npos) return false;
    if (number++ % kEach && !first) return false;
    first = false;
    return ++ran > 0;
  };
  const auto checked = [&](int count, auto check_all) {
    ran = 0;
    bytes = concat(",bytes=", count);
    check_all();
    CHECK(ran > 0);
  };
  const auto run = [&](DType dtype, bool special) {
    candidates.more = {opencl::list_conv_mma};
    for (const PieceCase& c : cases) {
      const int count = dtype == DType::f32 ? c.single_bytes : c.half_bytes;
      if (count == 4 || count == 8) checked(count, [&] { check(candidates, c.conv, dtype, special); });
    }
  };
  run(DType::f16, false);
  run(DType::f16, true);
  run(DType::bf16, false);
  run(DType::f32, false);
  run(DType::f32, true);
  candidates.math = Math::tf32;
  run(DType::f32, true);
  candidates.math = Math::fp32;
  for (const DType dtype : {DType::f16, DType::f32}) {
    const int pair = dtype == DType::f16 ? 4 : 8;
    checked(pair, [&] { check_linear(candidates, Dims{3, 13, 58}, 77, "activation=relu", true, true, dtype); });
    checked(pair, [&] { check_matmul(candidates, Dims{38, 90}, Dims{90, 50}, "", 50, dtype); });
    checked(pair, [&] {
      check_matmul(candidates, Dims{3, 34, 41}, Dims{3, 33, 34}, "transpose_a=true transpose_b=true", 0, dtype);
    });
  }
  for (const std::string& name : candidates.implementations) std::printf("ran %s\n", name.c_str());
}

}  // namespace
