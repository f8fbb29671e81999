// conv and conv_transpose on OpenCL: every candidate against loops in double precision.
#include "opencl_conv_cases.h"
#include "providers/opencl/conv/conv_common.h"

using namespace pl;
using namespace pl::testing;

namespace {

const Case cases[] = {
    {"conv2d", {2, 3, 9, 11}, {5, 3, 3, 3}, "padding=1"},
    {"conv2d", {1, 17, 7, 7}, {33, 17, 3, 3}, "padding=[2,0,1,3] stride=[2,1] dilation=[1,2]", true},
    {"conv2d", {2, 32, 8, 9}, {48, 32, 1, 1}, "activation=relu", true, true},
    {"conv2d", {1, 1, 5, 6}, {1, 1, 2, 3}, "stride=3"},
    {"conv2d",
     {1, 24, 6, 5},
     {12, 8, 3, 3},
     "groups=3 padding=1 activation=leaky_relu activation_alpha=0.3",
     true,
     true},
    {"conv2d", {1, 16, 5, 5}, {32, 4, 3, 1}, "groups=4 padding=[1,0]", true},
    {"conv2d", {2, 19, 9, 8}, {19, 1, 3, 3}, "groups=19 padding=1 activation=clip activation_beta=0.5", true},
    {"conv2d", {1, 16, 9, 8}, {16, 1, 5, 5}, "groups=16 padding=2 stride=2", true, true},
    {"conv2d", {1, 32, 12, 21}, {32, 1, 3, 3}, "groups=32 padding=[2,1,1,2] dilation=2"},
    {"conv2d", {1, 6, 7, 6}, {18, 1, 3, 3}, "groups=6 padding=1", true},  // depthwise with a multiplier
    {"conv2d", {1, 8, 3, 3}, {20, 8, 3, 3}, "padding=[5,6,7,8] dilation=4 activation=exp", true},
    {"conv1d", {2, 18, 23}, {34, 18, 5}, "padding=[2,3] dilation=2 stride=2", true, true},
    {"conv1d", {1, 16, 30}, {16, 1, 4}, "groups=16 padding=1 activation=gelu", true},
    {"conv3d", {1, 16, 4, 5, 6}, {20, 16, 2, 3, 3}, "padding=[1,0,1,0,1,1] stride=[1,2,1]", true, true},
    {"conv3d", {1, 10, 4, 5, 6}, {20, 1, 3, 2, 3}, "groups=10 padding=1 dilation=[1,2,1]"},
    {"conv2d", {3, 12, 5, 4}, {9, 12, 5, 4}, "activation=relu", true, true},  // the whole image
    {"conv1d", {2, 8, 6}, {3, 8, 6}, "stride=4 padding=[0,2]"},
    {"conv_transpose2d", {2, 5, 4, 6}, {5, 7, 3, 3}, "stride=2 padding=1 output_padding=1", true},
    {"conv_transpose2d",
     {1, 24, 5, 4},
     {24, 6, 4, 2},
     "groups=3 stride=[3,1] padding=[1,0,2,1] dilation=[1,3] activation=sigmoid",
     true},
    {"conv_transpose2d", {1, 16, 5, 4}, {16, 1, 3, 3}, "groups=16 stride=2"},
    {"conv_transpose1d", {1, 20, 9}, {20, 33, 3}, "stride=2 padding=1", true},
    {"conv_transpose3d", {1, 4, 3, 4, 3}, {4, 16, 2, 3, 2}, "stride=[2,1,2] padding=1"},
};

TEST("all") {
  Candidates candidates;
  if (candidates.no_devices()) SKIP("no OpenCL device here");
  // Building programs takes most of the time, so a case runs every third candidate of its list, which starts anew
  // with the device; another third the next time.
  size_t number = 0, turn = 0;
  candidates.begin = [&] { number = turn; };
  candidates.filter = [&](const Candidate&) { return number++ % 3 == 0; };
  const auto run = [&](const Case& c, DType dtype, bool special = false) {
    ++turn;
    check(candidates, c, dtype, special);
  };
  for (const Case& c : cases) run(c, DType::f32);
  candidates.unoptimised_on_pocl();
  for (DType dtype : {DType::f16, DType::bf16})
    for (int i : {1, 2, 6, 9, 15, 17}) run(cases[i], dtype);
  for (int i : {0, 1, 6, 7, 9, 17}) run(cases[i], DType::f32, true);
  // Few programs, many geometries: all candidates.
  candidates.filter = [](const Candidate&) { return true; };
  std::mt19937 engine(7);
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(engine);
  };
  for (int i = 0; i < 20; ++i) {
    const int64_t kh = pick(1, 4), kw = pick(1, 4), dh = pick(1, 3), dw = pick(1, 3), groups = i % 2 ? 24 : 1;
    const Dims x{pick(1, 3), 24, (kh - 1) * dh + pick(1, 12), (kw - 1) * dw + pick(1, 20)};
    const std::string text =
        concat("stride=[", pick(1, 3), ",", pick(1, 3), "] dilation=[", dh, ",", dw, "] groups=", groups, " padding=[",
               pick(0, 5), ",", pick(0, 5), ",", pick(0, 5), ",", pick(0, 5), "]");
    check(candidates, {"conv2d", x, {24, 24 / groups, kh, kw}, text.c_str()}, DType::f32);
  }
  // What is meant for GPUs is right everywhere.
  candidates.more = {opencl::list_conv_local, opencl::list_conv_depthwise_window, opencl::list_conv_quad};
  number = turn = 0;
  candidates.filter = [&](const Candidate& candidate) {
    return candidate.implementation.rfind("conv_fwd_depthwise_window", 0) == 0 ||
           (candidate.implementation.rfind("conv_fwd_local", 0) == 0 && number++ % 2 == 0);
  };
  for (const Case& c : cases)
    if (std::string(c.name).rfind("conv_transpose", 0) != 0) run(c, DType::f32);
  run(cases[2], DType::f16);
  for (DType dtype : {DType::f16, DType::bf16}) run(cases[7], dtype);
  // Channels in pairs.
  const Case pairs[] = {
      {"conv2d", {2, 58, 9, 8}, {58, 1, 3, 3}, "groups=58 padding=1 activation=relu", true, true},
      {"conv2d", {1, 6, 11, 9}, {6, 1, 5, 3}, "groups=6 padding=[2,1] stride=2 dilation=[1,2]", true},
  };
  candidates.filter = [](const Candidate& candidate) {
    return candidate.implementation.rfind("conv_fwd_depthwise_window", 0) == 0;
  };
  for (const Case& c : pairs)
    for (DType dtype : {DType::f32, DType::f16, DType::bf16}) run(c, dtype, dtype == DType::f32);
  // Few terms, in the first of its tiles: each layout of first layers, groups, rows of positions, strides that leave
  // columns out.
  const Case few[] = {
      {"conv2d", {2, 3, 11, 12}, {32, 3, 3, 3}, "stride=2 padding=1 activation=relu", true},
      {"conv2d", {1, 1, 7, 9}, {8, 1, 5, 4}, "padding=[2,0,1,3] dilation=[1,2]", true},
      {"conv2d", {1, 4, 6, 7}, {12, 4, 3, 3}, "stride=[1,3]", false, true},
      {"conv2d", {1, 2, 9, 8}, {20, 2, 1, 1}, "stride=2", true, true},
      {"conv2d", {2, 12, 5, 6}, {36, 4, 3, 3}, "groups=3 padding=1 activation=sigmoid", true, true},
      {"conv2d", {1, 16, 5, 9}, {24, 8, 3, 2}, "groups=2 padding=[3,2] dilation=[2,3] stride=[2,1]", true},
      {"conv2d", {1, 64, 4, 5}, {64, 16, 3, 3}, "groups=4 padding=[1,0,0,2]", true},
      {"conv2d", {1, 32, 5, 7}, {20, 32, 3, 3}, "padding=1", true, true},
      {"conv2d", {3, 24, 5, 7}, {48, 24, 1, 1}, "activation=leaky_relu activation_alpha=0.1", true, true},
      {"conv1d", {2, 8, 23}, {16, 4, 5}, "groups=2 padding=[2,3] stride=2", true, true},
      {"conv1d", {2, 3, 23}, {16, 3, 5}, "padding=2", true},
  };
  size_t quads = 0;
  std::set<std::string> ran;
  candidates.begin = [&] { ran.clear(); };
  candidates.filter = [&](const Candidate& candidate) {
    if (candidate.tuning.family != "conv_fwd_quad") return false;
    const bool first = ran.insert(candidate.inputs[0].layout.generic_str()).second;
    quads += first;
    return first;
  };
  for (const Case& c : few) check(candidates, c, DType::f32);
  for (int i : {0, 4, 8}) check(candidates, few[i], DType::f16);
  for (int i : {2, 6}) check(candidates, few[i], DType::bf16);
  for (int i : {0, 4}) check(candidates, few[i], DType::f32, true);
  CHECK(quads >= 32);
  for (const std::string& name : candidates.implementations) std::printf("ran %s\n", name.c_str());
}

}  // namespace
