// The tuning spaces of kernels with tiles in local memory, for GPUs: every point against loops in double precision.
#include "opencl_conv_cases.h"
#include "opencl_matmul_cases.h"
#include "opencl_points.h"
#include "providers/opencl/conv/conv_common.h"

using namespace pl;
using namespace pl::testing;

namespace {

TEST("all") {
  Candidates candidates;
  if (candidates.no_devices()) SKIP("no OpenCL device here");
  EachPointOnce once(candidates, {"conv_fwd_local", "matmul_local"});
  const Case cases[] = {
      {"conv2d", {1, 20, 7, 19}, {133, 20, 1, 1}, "activation=relu", true, true},
      {"conv2d", {1, 3, 9, 17}, {70, 3, 3, 3}, "padding=1 stride=[1,2]", true},
      {"conv2d", {1, 34, 6, 12}, {140, 17, 2, 3}, "groups=2 padding=[1,0] dilation=[1,2]", true, true},
  };
  candidates.more = {opencl::list_conv_local};
  for (int i = 0; i < 6; ++i) {
    once.next(i >= 3);
    check(candidates, cases[i % 3], DType::f32);
  }
  for (int i = 0; i < 2; ++i) {
    once.next(i > 0);
    check_matmul(candidates, {2, 70, 35}, {2, 35, 131}, i ? "activation=relu" : "", 131, DType::f32);
    check_matmul(candidates, {70, 7}, {7, 131}, "", 0, DType::f32);
  }
  for (const char* family : {"conv_fwd_local", "matmul_local"}) {
    std::printf("%s: %zu points\n", family, once.points(family));
    CHECK(once.points(family) >= 40);
  }
}

}  // namespace
