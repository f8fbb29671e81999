// conv and linear by persistent work-groups (conv_fwd_stream.cl) against loops in double precision, on devices without
// wgmma too, where the kernel has no instructions of theirs.  Of each case some points, others each time.
#include "opencl_conv_cases.h"
#include "opencl_matmul_cases.h"
#include "providers/opencl/conv/conv_common.h"
#include "providers/opencl/matrix_units/mma.h"

using namespace pl;
using namespace pl::testing;

namespace {

// Steps, tiles and windows that end early; the third and fourth have several tiles for each work-group, down and
// across.
const Case cases[] = {
    {"conv2d", {2, 24, 9, 11}, {76, 24, 3, 3}, "padding=1 activation=relu", true, true},
    {"conv2d", {1, 40, 9, 8}, {68, 40, 1, 1}, "stride=2", true},
    {"conv2d", {2, 72, 13, 13}, {516, 72, 1, 1}, "", true, true},
    {"conv2d", {1, 136, 33, 13}, {268, 136, 2, 1}, "dilation=[2,1] stride=[1,2] padding=[1,0]", true},
    {"conv2d", {1, 128, 5, 5}, {96, 128, 3, 3}, "padding=[1,2,0,1] stride=[2,1] activation=leaky_relu"},
    {"conv1d", {2, 16, 90}, {132, 16, 5}, "padding=2", false, true},
    {"conv2d", {3, 57, 7, 9}, {260, 57, 1, 1}, "", true},  // rows in order, with zeros behind the last channel
};

TEST("all") {
  Candidates candidates;
  candidates.unoptimised_on_cpus();  // matrix units are emulated there: a large source for each point
  if (candidates.no_devices()) SKIP("no OpenCL device here");
  opencl::most_mma_plans = 1000;
  opencl::wgmma_tiles_in_plain = true;
  opencl::most_stream_groups = 3;
  size_t turn = 0;
  std::set<std::string> each, tried;
  candidates.begin = [&] { each.clear(), ++turn; };
  candidates.filter = [&](const Candidate& candidate) {
    if (candidate.tuning.family != "conv_fwd_stream" || !each.insert(candidate.implementation).second) return false;
    if ((std::hash<std::string>()(candidate.implementation) + turn) % 6) return false;
    tried.insert(candidate.implementation);
    return true;
  };
  for (const DType dtype : {DType::f16, DType::bf16}) {
    ++turn;
    candidates.more = {opencl::list_conv_mma};
    for (const Case& c : cases) check(candidates, c, dtype, &c == cases);
    check_linear(candidates, Dims{5, 67, 200}, 392, "activation=gelu_erf", true, true, dtype);
    check_linear(candidates, Dims{3, 2048}, 132, "", false, false, dtype);
  }
  for (const std::string& name : candidates.implementations) std::printf("ran %s\n", name.c_str());
  CHECK(tried.size() == 11);
}

}  // namespace
