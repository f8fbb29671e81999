// The tuning space of products of matrices on CPUs: every point against loops in double precision.
#include "opencl_matmul_cases.h"
#include "opencl_points.h"

using namespace pl;
using namespace pl::testing;

namespace {

TEST("all") {
  Candidates candidates;
  if (candidates.no_devices()) SKIP("no OpenCL device here");
  EachPointOnce once(candidates, {"matmul_tiled"});
  for (int i = 0; i < 2; ++i) {
    once.next(i > 0);
    check_matmul(candidates, {2, 35, 21}, {2, 21, 67}, "activation=relu", 67, DType::f32);
    check_linear(candidates, {17, 13}, 67, "", true, true, DType::f32);
    check_linear(candidates, {3, 13}, 67, "", true, false, DType::f32);
    check_linear(candidates, {1, 13}, 67, "", false, false, DType::f32);
  }
  std::printf("matmul_tiled: %zu points\n", once.points("matmul_tiled"));
  CHECK(once.points("matmul_tiled") >= 12);
}

}  // namespace
