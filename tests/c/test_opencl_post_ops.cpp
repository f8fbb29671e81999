// Post-ops on OpenCL: lists of up to two inputs, with steps before, between and behind them, by one candidate of each
// implementation, those for GPUs and matrix units too; and with the result where an operand lies.
#include <set>

#include "opencl_conv_cases.h"
#include "opencl_matmul_cases.h"
#include "providers/opencl/conv/conv_common.h"
#include "providers/opencl/matmul/matmul_common.h"

using namespace pl;
using namespace pl::testing;

namespace {

const char* const kOne[] = {"post_ops=\"leaky_relu, add(residual), scale(0.5)\"", "post_ops=\"add(residual), tanh\""};
const char* const kBoth = "post_ops=\"relu, add(residual), tanh, multiply(gate), leaky_relu\"";
const char* const kGate = "post_ops=\"scale(2), multiply(gate)\"";

// The first candidate of each implementation, whatever its point.
struct FirstOfEach {
  std::set<std::string> ran;
  // units: those on matrix units too, which are emulated here and take seconds to compile.
  explicit FirstOfEach(Candidates& candidates, bool units = true) {
    candidates.begin = [this] { ran.clear(); };
    candidates.filter = [this, units](const Candidate& candidate) {
      const std::string& name = candidate.implementation;
      const bool parts = name.find("parts") != std::string::npos, rounds = name.find("+rounds") != std::string::npos;
      if (rounds || (!units && name.rfind("conv_fwd_mma", 0) == 0)) return false;
      return ran.insert(name.substr(0, name.find('[')) + (parts ? " in parts" : "")).second;
    };
  }
};

std::string with(const char* attributes, const char* post_ops) { return concat(attributes, " ", post_ops); }

TEST("convolutions") {
  Candidates candidates;
  candidates.unoptimised_on_cpus();
  if (candidates.no_devices()) SKIP("no OpenCL device here");
  const FirstOfEach filter(candidates);
  candidates.more = {opencl::list_conv_local, opencl::list_conv_depthwise_window, opencl::list_conv_quad,
                     opencl::list_conv_winograd, opencl::list_conv_mma};
  const Case cases[] = {
      {"conv2d", {2, 24, 9, 11}, {40, 24, 3, 3}, "padding=1"},
      {"conv2d", {1, 256, 4, 5}, {36, 256, 1, 1}, ""},  // on matrix units in parts
      {"conv2d", {2, 20, 5, 6}, {20, 1, 3, 3}, "groups=20 padding=1"},
  };
  for (Case c : cases) {
    const std::string one = with(c.attributes, kOne[0]), both = with(c.attributes, kBoth),
                      gate = with(c.attributes, kGate);
    c.bias = true;
    c.attributes = gate.c_str(), c.gate = true;
    check(candidates, c, DType::f32);
    c.attributes = both.c_str(), c.residual = true;
    check(candidates, c, DType::f16);
    c.attributes = one.c_str(), c.gate = false;
    check(candidates, c, DType::f32);
  }
  std::set<std::string> kinds;
  for (const std::string& name : candidates.implementations) kinds.insert(name.substr(0, name.find('[')));
  for (const char* kind : {"conv_fwd_local", "conv_fwd_depthwise_window", "conv_fwd_quad", "conv_fwd_mma"})
    CHECK(kinds.count(kind) == 1);
}

TEST("transposed_convolutions") {
  Candidates candidates;
  candidates.unoptimised_on_cpus();
  if (candidates.no_devices()) SKIP("no OpenCL device here");
  const FirstOfEach filter(candidates);
  candidates.more = {opencl::list_conv_transpose_mma};
  const Case cases[] = {
      {"conv_transpose2d", {2, 16, 5, 6}, {16, 24, 2, 2}, "stride=2"},            // phases alike, together
      {"conv_transpose2d", {2, 16, 5, 6}, {16, 18, 3, 3}, "stride=2 padding=1"},  // and apart
      {"conv_transpose2d", {1, 16, 4, 5}, {16, 20, 1, 1}, "stride=2"},            // without a tap
      {"conv_transpose2d", {1, 24, 6, 7}, {24, 20, 3, 3}, "padding=1"},
  };
  size_t turn = 0;
  for (Case c : cases) {
    const std::string attributes = with(c.attributes, kOne[turn++ % 2]);
    c.attributes = attributes.c_str(), c.bias = c.residual = true;
    check(candidates, c, DType::f32);
  }
  bool together = false, phases = false, turned = false;
  for (const std::string& name : candidates.implementations) {
    together |= name.rfind("conv_transpose_together", 0) == 0;
    phases |= name.rfind("conv_transpose_phases", 0) == 0;
    turned |= name.rfind("conv_transpose_turned", 0) == 0;
  }
  CHECK(together && phases);
  CHECK(turned);
}

TEST("products") {
  Candidates candidates;
  candidates.unoptimised_on_cpus();
  if (candidates.no_devices()) SKIP("no OpenCL device here");
  const FirstOfEach filter(candidates, false);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    check_matmul(candidates, {2, 19, 40}, {2, 40, 72}, kBoth, 72, dtype, {2, 19, 72}, true);
    check_linear(candidates, {3, 7, 48}, 36, kBoth, true, true, dtype, true);
  }
  check_linear(candidates, {7, 512}, 36, kGate, true, false, DType::f32, true);
  check_matmul(candidates, {37, 48}, {48, 33}, kOne[0], 0, DType::f32, {37, 33});
}

}  // namespace
