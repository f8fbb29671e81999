// Convolutions over three spatial dimensions by the kernels that others run on GPUs: matrix units, persistent
// work-groups, Winograd's algorithm plane by plane, and transposed ones by phases; against loops in double precision,
// on devices without such units too.
#include "opencl_conv_cases.h"
#include "providers/opencl/conv/conv_common.h"
#include "providers/opencl/matrix_units/mma.h"

using namespace pl;
using namespace pl::testing;

namespace {

// Of the candidates that `wanted` names the first of each case and every `each`-th, others each time.
struct Some {
  Candidates candidates;
  std::string wanted;
  size_t each = 1, number = 0, turn = 0, ran = 0;
  bool first = false;

  Some() {
    candidates.unoptimised_on_cpus();  // matrix units are emulated there: a large source for each point
    opencl::most_mma_plans = 1000;
    opencl::wgmma_tiles_in_plain = true;
    opencl::most_stream_groups = 3;
    candidates.begin = [this] { number = turn++, first = true; };
    candidates.filter = [this](const Candidate& candidate) {
      if (candidate.implementation.rfind(wanted, 0) != 0) return false;
      if (number++ % each && !first) return false;
      first = false;
      return ++ran > 0;
    };
  }
  void of(const char* name, size_t every) {
    CHECK(wanted.empty() || ran > 0);
    wanted = name;
    each = every;
    ran = 0;
  }
};

// Taps and positions along all three dimensions and along the depth alone, unlike sizes, strides and dilations; windows
// that begin in front of the first plane and end behind the last; groups; channels that end within a step or a piece,
// few channels; one plane that padding alone surrounds; positions that strides leave out; sums in parts.
const Case cases[] = {
    {"conv3d", {2, 24, 4, 5, 3}, {36, 24, 3, 3, 3}, "padding=1 activation=relu", true, true},
    {"conv3d",
     {1, 16, 5, 6, 7},
     {34, 8, 2, 3, 2},
     "groups=2 stride=[2,1,3] dilation=[2,1,2] padding=[1,0,2,0,1,1]",
     true},
    {"conv3d", {2, 3, 5, 9, 8}, {40, 3, 3, 4, 3}, "stride=[1,2,2] padding=[1,2,1] dilation=[2,1,1]", true, true},
    {"conv3d", {2, 40, 5, 4, 3}, {33, 40, 1, 1, 1}, "stride=[2,1,2]", true},
    {"conv3d", {1, 32, 7, 3, 5}, {20, 32, 3, 1, 1}, "padding=[2,0,0] stride=[2,1,1]", false, true},
    {"conv3d", {3, 16, 1, 5, 6}, {24, 16, 1, 2, 3}, "padding=[1,1,0] stride=[2,1,1]", true},
    {"conv3d", {2, 136, 3, 4, 5}, {66, 136, 1, 3, 1}, "padding=[0,1,0] activation=relu", true, true},
    {"conv3d", {1, 58, 3, 4, 5}, {30, 58, 2, 2, 2}, "padding=[1,0,1]", true, true},
};

TEST("forward") {
  Some some;
  if (some.candidates.no_devices()) SKIP("no OpenCL device here");
  some.candidates.more = {opencl::list_conv_mma};
  some.of("conv_fwd_mma", 25);
  for (const Case& c : cases) check(some.candidates, c, DType::f32);
  for (int i : {0, 2, 5}) check(some.candidates, cases[i], DType::f32, true);
  for (int i : {1, 2, 4, 7}) check(some.candidates, cases[i], DType::f16);
  for (int i : {0, 3}) check(some.candidates, cases[i], DType::bf16);
  some.candidates.math = Math::tf32;
  check(some.candidates, cases[0], DType::f32);
  some.candidates.math = Math::fp32;
  some.of("conv_fwd_stream", 6);
  const Case stream[] = {
      {"conv3d", {2, 24, 4, 5, 7}, {76, 24, 3, 3, 3}, "padding=1 activation=relu", true, true},
      {"conv3d", {1, 72, 5, 9, 8}, {132, 72, 3, 1, 2}, "padding=[2,0,1] stride=[2,1,2] dilation=[2,1,1]", true},
      {"conv3d", {3, 40, 5, 4, 3}, {68, 40, 1, 1, 1}, "stride=[2,1,2]", false, true},
  };
  for (const Case& c : stream) check(some.candidates, c, DType::f16, &c == stream);
  check(some.candidates, stream[1], DType::bf16);
  some.of("", 1);
}

TEST("winograd") {
  Some some;
  if (some.candidates.no_devices()) SKIP("no OpenCL device here");
  some.candidates.more = {opencl::list_conv_winograd};
  some.of("conv_fwd_winograd", 9);
  const Case planes[] = {
      {"conv3d", {2, 32, 4, 5, 6}, {36, 32, 3, 3, 3}, "padding=1 activation=relu", true, true},
      {"conv3d", {2, 32, 3, 5, 4}, {32, 32, 1, 3, 3}, "padding=[0,1,1]", true},
      {"conv3d", {1, 36, 7, 4, 5}, {32, 36, 2, 3, 3}, "padding=[2,0,1,1,2,0] stride=[3,1,1] dilation=[2,1,1]", true},
      {"conv3d", {1, 32, 1, 5, 4}, {32, 32, 1, 3, 3}, "padding=[1,1,1] stride=[2,1,1]", true},
  };
  for (const Case& c : planes) check(some.candidates, c, DType::f32);
  some.of("", 1);
}

// By phases, some of which no tap reaches; in one, which is a convolution; groups; weights that the program makes.
TEST("transposed") {
  Some some;
  if (some.candidates.no_devices()) SKIP("no OpenCL device here");
  some.candidates.more = {opencl::list_conv_transpose_mma};
  some.of("conv_transpose_phases", 30);
  const Case phases[] = {
      {"conv_transpose3d", {2, 16, 3, 4, 5}, {16, 34, 3, 3, 3}, "padding=1 activation=relu", true},
      {"conv_transpose3d", {1, 24, 3, 4, 3}, {24, 6, 2, 4, 3}, "groups=3 stride=[2,2,1] padding=[0,1,1]", true},
      {"conv_transpose3d", {2, 10, 2, 3, 4}, {10, 8, 3, 1, 2}, "stride=[2,3,1] padding=[1,0,1] output_padding=[1,2,0]"},
      {"conv_transpose3d", {1, 8, 4, 1, 6}, {8, 12, 2, 3, 2}, "dilation=[2,1,3]", true},
  };
  for (const Case& c : phases) check(some.candidates, c, DType::f32);
  for (int i : {0, 2}) check(some.candidates, phases[i], DType::f16);
  check(some.candidates, phases[1], DType::bf16);
  some.of("", 1);
}

}  // namespace
