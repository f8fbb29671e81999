// The tuning space of attention by tiles: every point against loops in double precision, on devices without matrix
// units too, where the kernel has no instructions of theirs.
#include <set>
#include <string>

#include "opencl_attention_cases.h"
#include "opencl_points.h"
#include "opencl_testing.h"

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

// Every point of the gradients' space against the first.
TEST("gradients") {
  if (opencl_testing::targets().empty()) SKIP("no OpenCL device here");
  opencl_testing::pretend_gpus();
  std::set<std::string> points;
  const auto input = [](const Dims& shape) { return opencl_testing::random_input(DType::f32, shape); };
  const std::vector<opencl_testing::Input> inputs{input({130, 8}), input({150, 8}), input({150, 8}), input({130, 8})};
  std::vector<opencl_testing::Values> wanted;
  opencl_testing::run_all_opencl(
      "scaled_dot_product_attention_backward", "", inputs,
      [&](const Op&, const std::vector<opencl_testing::Values>& results, const std::string& what) {
        if (wanted.empty()) wanted = results;
        for (size_t k = 0; k < results.size(); ++k)
          for (size_t i = 0; i < results[k].size(); ++i) {
            if (std::fabs(results[k][i] - wanted[k][i]) < 1e-4) continue;
            std::fprintf(stderr, "%s: result %zu, element %zu is %g, expected %g\n", what.c_str(), k, i, results[k][i],
                         wanted[k][i]);
            end_test();
          }
      },
      true, [&](const Candidate& candidate) { return points.insert(candidate.implementation).second; });
  std::printf("attention_backward_mma: %zu points\n", points.size());
  CHECK(points.size() >= 10);
}

}  // namespace
