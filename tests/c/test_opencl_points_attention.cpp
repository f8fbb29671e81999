// The tuning space of attention by tiles: every point against loops in double precision, on devices without matrix
// units too, where the kernel has no instructions of theirs.
#include "opencl_attention_cases.h"
#include "opencl_points.h"

using namespace pl;
using namespace pl::testing;

namespace {

TEST("all") {
  Candidates candidates;
  if (candidates.no_devices()) SKIP("no OpenCL device here");
  for (DType dtype : {DType::f32, DType::f16}) {
    EachPointOnce once(candidates, {"attention_mma"});
    for (const AttentionCase& c : {AttentionCase{{1, 2, 130, 32}, {1, 2, 150, 32}, {1, 2, 150, 40}, {}, ""},
                                   AttentionCase{{1, 2, 130, 16}, {1, 2, 150, 16}, {1, 2, 150, 8}, {130, 150}, ""}}) {
      once.next(c.mask.size() > 0);
      check(candidates, c, dtype);
    }
    std::printf("attention_mma: %zu points\n", once.points("attention_mma"));
    CHECK(once.points("attention_mma") >= 10);
  }
}

}  // namespace
