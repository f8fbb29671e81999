// matmul and linear on OpenCL: every candidate against loops in double precision.
#include "opencl_matmul_cases.h"

using namespace pl;
using namespace pl::testing;

namespace {

TEST("all") {
  Candidates candidates;
  if (candidates.no_devices()) SKIP("no OpenCL device here");
  // Building programs takes most of the time: of the plans for matrix units every third, another third each time.
  size_t number = 0;
  candidates.filter = [&](const Candidate& candidate) {
    return candidate.implementation.rfind("conv_fwd_mma", 0) != 0 || number++ % 3 == 0;
  };
  candidates.unoptimised_on_pocl();
  for (DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    check_matmul(candidates, {17, 33}, {33, 29}, "", 0, dtype);
    check_matmul(candidates, {2, 3, 21, 40}, {3, 40, 64}, "activation=relu", 64, dtype);
    check_linear(candidates, {7, 50}, 37, "activation=gelu", true, true, dtype);
  }
  candidates.unoptimised_on_cpus();
  for (DType dtype : {DType::f32, DType::f16}) {  // terms in whole pieces of 16 bytes: matrix units
    check_matmul(candidates, {70, 48}, {48, 136}, "activation=relu", 136, dtype);
    check_matmul(candidates, {37, 41}, {41, 72}, "activation=relu", 72, dtype, {37, 72});  // zeros behind 41 terms
    check_matmul(candidates, {2, 3, 41, 9}, {2, 3, 20, 41}, "transpose_a=true transpose_b=true", 20, dtype);
    check_matmul(candidates, {48, 70}, {33, 48}, "transpose_a=true transpose_b=true", 0, dtype);
    check_matmul(candidates, {70, 48}, {70, 136}, "transpose_a=true", 0, dtype);  // terms outermost, as they lie
    check_matmul(candidates, {41, 58}, {41, 33}, "transpose_a=true", 0, dtype);
    check_matmul(candidates, {1, 16}, {1, 8}, "transpose_a=true", 0, dtype);
    check_matmul(candidates, {2, 3, 11, 40}, {40, 65}, "", 65, dtype);
    check_matmul(candidates, {2, 3, 19, 40}, {2, 3, 40, 72}, "activation=relu", 72, dtype, {2, 3, 19, 72});
    check_matmul(candidates, {3, 40, 19}, {40, 33}, "transpose_a=true", 0, dtype);
    check_matmul(candidates, {19, 40}, {5, 1, 24, 40}, "transpose_b=true", 24, dtype, {5, 1, 19, 24});
    check_matmul(candidates, {2, 9, 512}, {2, 512, 20}, "", 20, dtype, {2, 9, 20});
    check_linear(candidates, {7, 512}, 36, "activation=gelu", true, true, dtype);
  }
  const DType f32 = DType::f32;
  for (const char* text : {"transpose_a=true", "transpose_b=true", "transpose_a=true transpose_b=true"}) {
    const Attributes attributes = Attributes::parse(text);
    const bool ta = attributes.has(attr::transpose_a), tb = attributes.has(attr::transpose_b);
    check_matmul(candidates, ta ? Dims{40, 35} : Dims{35, 40}, tb ? Dims{24, 40} : Dims{40, 24}, text, 24, f32);
    check_matmul(candidates, ta ? Dims{3, 1, 9, 5} : Dims{3, 1, 5, 9}, tb ? Dims{2, 7, 9} : Dims{2, 9, 7}, text, 7,
                 f32);
  }
  check_matmul(candidates, {1, 1}, {1, 1}, "", 1, f32);
  check_matmul(candidates, {5}, {5}, "activation=sigmoid", 0, f32);
  check_matmul(candidates, {5}, {4, 5, 3}, "", 3, f32);
  check_matmul(candidates, {2, 3, 5}, {5}, "", 0, f32);
  check_matmul(candidates, {1, 300}, {300, 100}, "", 100, f32);
  check_matmul(candidates, {130, 70}, {70, 150}, "", 150, f32);
  check_matmul(candidates, {2, 1, 1, 2, 1, 1, 3, 4}, {1, 2, 2, 1, 4, 5}, "", 5, f32);
  check_matmul(candidates, {2, 20, 6, 8}, {2, 20, 8, 6}, "", 0, f32);  // layouts that block the second dimension
  check_matmul(candidates, {2, 1, 6, 8}, {2, 20, 8, 6}, "", 0, f32);
  check_linear(candidates, {13}, 5, "", true, false, f32);
  check_linear(candidates, {1, 64}, 1000, "", true, false, f32);
  for (const DType dtype : {DType::f32, DType::f16}) {  // of one row and two: tiles and lanes of their own
    check_linear(candidates, {1, 2052}, 35, "", true, false, dtype);
    check_linear(candidates, {2, 1032}, 17, "", false, false, dtype);
    check_matmul(candidates, {1, 1032}, {35, 1032}, "transpose_b=true", 35, dtype);
    check_matmul(candidates, {3, 2, 64}, {64, 17}, "activation=relu", 0, dtype, {3, 2, 17});
    check_matmul(candidates, {72, 2}, {72, 33}, "transpose_a=true", 0, dtype);
  }
  check_linear(candidates, {2, 18, 4, 10}, 20, "activation=clip activation_alpha=-1 activation_beta=1", true, true,
               f32);
  check_linear(candidates, {3, 40, 12}, 6, "", false, true, f32);
  bool turned = false;
  for (const std::string& name : candidates.implementations) {
    std::printf("ran %s\n", name.c_str());
    turned |= name.rfind("matmul_turned_mma[", 0) == 0;
  }
  CHECK(turned);
}

}  // namespace
