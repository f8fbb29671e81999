// Winograd's algorithm on OpenCL, on devices that would not choose it too: against loops in double precision, and its
// error against what is stated (src/providers/opencl/conv/conv_winograd.cpp).
#include <cmath>

#include "opencl_conv_cases.h"
#include "providers/opencl/conv/conv_common.h"

using namespace pl;
using namespace pl::testing;

namespace {

const Case cases[] = {
    {"conv2d", {2, 32, 9, 11}, {36, 32, 3, 3}, "padding=1 activation=relu", true, true},
    {"conv2d", {1, 36, 6, 5}, {32, 36, 3, 3}, "padding=[0,2,1,0]", true},
    {"conv2d", {1, 64, 3, 3}, {40, 64, 3, 3}, ""},
    {"conv2d", {3, 32, 2, 7}, {32, 32, 3, 3}, "padding=1", false, true},
};

// Too many channels for the larger tile; strides and groups for none.
void check_refusals(opencl::OpenclDevice& device) {
  const auto listed = [&](const Dims& x, const Dims& w, const char* attributes) {
    const auto tensor = [](const Dims& shape) { return TensorDesc::dense(DType::f32, shape); };
    const Op op = make_op(*find_schema("conv2d"), Attributes::parse(attributes), {tensor(x), tensor(w), {}, {}});
    CandidateList list;
    opencl::list_conv_winograd(op, device, list);
    std::set<std::string> tiles;
    for (const Candidate& candidate : list.candidates)
      tiles.insert(candidate.implementation.substr(0, candidate.implementation.find('[')));
    return std::make_pair(tiles.size(), list.refusals.size());
  };
  CHECK(listed({1, 64, 8, 8}, {64, 64, 3, 3}, "padding=1") == std::make_pair(size_t(2), size_t(0)));
  CHECK(listed({1, 1024, 8, 8}, {64, 1024, 3, 3}, "padding=1") == std::make_pair(size_t(1), size_t(1)));
  CHECK(listed({1, 64, 8, 8}, {64, 64, 3, 3}, "stride=2").first == 0);
  CHECK(listed({1, 64, 8, 8}, {64, 64, 3, 3}, "dilation=2").first == 0);
  CHECK(listed({1, 64, 8, 8}, {64, 32, 3, 3}, "groups=2").first == 0);
  CHECK(listed({1, 64, 8, 8}, {64, 64, 1, 1}, "").first == 0);
}

TEST("all") {
  Candidates candidates;
  if (candidates.no_devices()) SKIP("no OpenCL device here");
  candidates.more = {opencl::list_conv_winograd,
                     [](const Op&, opencl::OpenclDevice& device, CandidateList&) { check_refusals(device); }};
  candidates.filter = [](const Candidate& candidate) {
    return candidate.implementation.rfind("conv_fwd_winograd", 0) == 0;
  };
  for (const Case& c : cases) check(candidates, c, DType::f32);
  bool two = false, four = false;
  for (const std::string& name : candidates.implementations) {
    std::printf("ran %s\n", name.c_str());
    two |= name.rfind("conv_fwd_winograd_f2", 0) == 0;
    four |= name.rfind("conv_fwd_winograd_f4", 0) == 0;
  }
  CHECK(two);
  CHECK(four);
}

}  // namespace
