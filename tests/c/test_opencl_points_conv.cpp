// The tuning spaces of convolutions for CPUs, and of depthwise ones: every point against loops in double precision.
#include "opencl_conv_cases.h"
#include "opencl_points.h"
#include "providers/opencl/conv/conv_common.h"

using namespace pl;
using namespace pl::testing;

namespace {

TEST("all") {
  Candidates candidates;
  if (candidates.no_devices()) SKIP("no OpenCL device here");
  candidates.more = {opencl::list_conv_depthwise_window, opencl::list_conv_quad};
  EachPointOnce once(candidates, {"conv_fwd_rows", "conv_fwd_tiled", "conv_fwd_depthwise", "conv_fwd_depthwise_rows",
                                  "conv_fwd_depthwise_window", "conv_fwd_quad"});
  // Rows of few and of many positions, with and without a border; tails of channels, in blocks and out of them.
  const Case cases[] = {
      {"conv2d", {2, 5, 3, 35}, {70, 5, 1, 1}, "activation=relu", true, true},
      {"conv2d", {1, 18, 6, 34}, {75, 18, 3, 3}, "padding=[1,2,0,1] stride=[2,1] dilation=[1,2]", true, true},
      {"conv2d", {1, 48, 4, 5}, {24, 12, 3, 2}, "groups=4 padding=1"},
      {"conv2d", {1, 5, 2, 2}, {66, 5, 2, 2}, "", true},
      {"conv2d", {1, 6, 2, 1}, {66, 6, 1, 1}, "", true},
      {"conv2d", {2, 48, 7, 40}, {48, 1, 3, 3}, "groups=48 padding=[1,0]", true, true},
      {"conv2d", {1, 36, 9, 11}, {36, 1, 5, 3}, "groups=36 padding=[2,1] stride=2", true},
      {"conv2d", {1, 8, 4, 34}, {16, 1, 3, 3}, "groups=8 padding=1"},
      {"conv2d", {2, 20, 5, 19}, {20, 1, 5, 5}, "groups=20 padding=2 activation=sigmoid", true, true},
      {"conv2d", {1, 32, 7, 9}, {32, 1, 3, 3}, "groups=32 padding=[2,3] dilation=[2,3] activation=relu", true, true},
      {"conv2d", {2, 22, 9, 15}, {22, 1, 7, 7}, "groups=22 padding=3 activation=relu", true, true},
      {"conv2d", {2, 16, 11, 9}, {16, 1, 7, 5}, "groups=16 padding=[3,1] stride=[1,2]", true},
      {"conv2d", {2, 20, 3, 33}, {68, 20, 3, 3}, "padding=1", true},
      // Few terms: groups of few channels, first layers, rows of positions.
      {"conv2d", {2, 16, 9, 17}, {16, 4, 3, 3}, "groups=4 padding=1 activation=relu", true, true},
      {"conv2d", {1, 24, 7, 13}, {48, 8, 3, 3}, "groups=3 stride=[2,1] padding=[0,2,1,1]", true},
      {"conv2d", {2, 24, 6, 11}, {32, 12, 2, 3}, "groups=2 dilation=[2,1] padding=[1,0]", true, true},
      {"conv2d", {1, 32, 5, 9}, {64, 32, 1, 1}, "", true, true},
      {"conv2d", {1, 3, 11, 12}, {32, 3, 3, 3}, "stride=2 padding=1", true},
  };
  const size_t count = sizeof cases / sizeof *cases;
  for (size_t i = 0; i < 2 * count; ++i) {
    once.next(i >= count);
    check(candidates, cases[i % count], DType::f32);
  }
  bool cpu = false;
  for (const auto& device : candidates.devices()) {
    const opencl::OpenclDevice* target = opencl::as_opencl(*device);
    cpu = cpu || (target && target->capabilities().cpu);
  }
  const auto expect = [&](const char* family, size_t least) {
    std::printf("%s: %zu points\n", family, once.points(family));
    CHECK(once.points(family) >= least);
  };
  expect("conv_fwd_rows", cpu ? 9 : 0);  // is for CPUs
  expect("conv_fwd_tiled", cpu ? 9 : 0);
  expect("conv_fwd_depthwise_rows", cpu ? 4 : 0);
  for (const char* family : {"conv_fwd_depthwise", "conv_fwd_depthwise_window", "conv_fwd_quad"}) expect(family, 9);
}

}  // namespace
