// The tuning space of the matrix units' kernel on NVIDIA: every point against loops in double precision, on devices
// without such units too, where the kernel has no instructions of theirs.  AMD's and Intel's: test_opencl_matrix_units.
#include "opencl_conv_cases.h"
#include "opencl_points.h"
#include "providers/opencl/conv/conv_common.h"
#include "providers/opencl/matrix_units/matrix_unit.h"
#include "providers/opencl/matrix_units/mma.h"

using namespace pl;
using namespace pl::testing;

namespace {

TEST("all") {
  Candidates candidates;
  if (candidates.no_devices()) SKIP("no OpenCL device here");
  candidates.more = {[](const Op& op, opencl::OpenclDevice& device, CandidateList& out) {
    if (!opencl::matrix_unit(device.capabilities())) opencl::list_conv_mma(op, device, out);
  }};
  EachPointOnce once(candidates, {"conv_fwd_mma", "conv_fwd_stream"});
  // Tails of rows, columns and steps; the second has the terms for sums in parts, the third pieces of one position.
  const Case cases[] = {
      {"conv2d", {1, 72, 9, 17}, {140, 72, 1, 1}, "activation=relu", true, true},
      {"conv2d", {1, 136, 6, 13}, {132, 136, 3, 2}, "padding=[1,0]", true},
      {"conv2d", {2, 3, 18, 17}, {40, 3, 5, 5}, "padding=2 stride=[1,2]", true, true},
  };
  for (int i = 0; i < 6; ++i) {
    once.next(i >= 3);
    check(candidates, cases[i % 3], DType::f32);
  }
  const size_t points = once.points("conv_fwd_mma");
  // wgmma's tiles, some of whose pieces and quads the work-items do not share evenly, and steps that lag.
  opencl::wgmma_tiles_in_plain = true;
  const Case wide[] = {{"conv2d", {1, 144, 9, 31}, {280, 144, 1, 1}, "activation=relu", true, true},
                       {"conv2d", {1, 512, 5, 9}, {268, 512, 1, 1}, "", true}};
  for (int i = 0; i < 2; ++i) {
    once.next(i > 0);
    check(candidates, wide[i], DType::f16);
  }
  CHECK(once.points("conv_fwd_stream") == 11);
  std::printf("conv_fwd_mma: %zu points, %zu of them of f32\n", once.points("conv_fwd_mma"), points);
  CHECK(points >= 9);
  CHECK(once.points("conv_fwd_mma") >= points + 20);
  CHECK(once.points("conv_fwd_mma") <= 120);
}

}  // namespace
