// Convolutions, products, attention and gates of one or two work-groups: each kernel that shares local memory, and each
// tile of the matrix units' one, on shapes small enough for a simulator that watches every access (Oclgrind, the test
// oclgrind_races of CMakeLists.txt).
#include "opencl_attention_cases.h"
#include "opencl_conv_cases.h"
#include "opencl_matmul_cases.h"
#include "opencl_testing.h"
#include "providers/opencl/conv/conv_common.h"
#include "providers/opencl/matrix_units/matrix_unit.h"

using namespace pl;
using namespace pl::testing;

namespace {

TEST("all") {
  Candidates candidates;
  if (candidates.no_devices()) SKIP("no OpenCL device here");
  std::set<std::string> seen;
  candidates.more = {opencl::list_conv_mma, opencl::list_conv_local, opencl::list_conv_winograd,
                     opencl::list_conv_quad};
  candidates.filter = [&](const Candidate& candidate) { return seen.insert(candidate.implementation).second; };
  const Case cases[] = {
      {"conv2d", {1, 8, 5, 3}, {36, 8, 2, 2}, "padding=1 activation=relu", true, true},
      {"conv2d", {1, 3, 5, 3}, {33, 3, 3, 2}, "padding=[1,0] stride=[2,1]", true},
      {"conv2d", {1, 32, 5, 5}, {32, 32, 3, 3}, "padding=1"},
      {"conv2d", {1, 8, 3, 3}, {70, 8, 1, 1}, ""},
      {"conv2d", {1, 40, 9, 8}, {33, 40, 1, 1}, "stride=2", true},
      {"conv2d", {1, 8, 5, 3}, {8, 4, 3, 3}, "groups=2 padding=1", true, true},
  };
  for (const Case& c : cases) check(candidates, c, DType::f32);
  check_matmul(candidates, {9, 8}, {8, 134}, "", 134, DType::f32);
  check(candidates, AttentionCase{{1, 2, 40, 8}, {1, 2, 50, 8}, {1, 2, 50, 12}, {40, 50}}, DType::f32);
  {  // Pieces that wait in registers, as AMD's and Intel's matrix units have them.
    const auto build_with = [&](const char* options) {
      for (const auto& device : candidates.devices())
        if (opencl::OpenclDevice* target = opencl::as_opencl(*device)) target->build_options = options;
    };
    std::set<std::string> held;
    candidates.more = {opencl::list_conv_mma};
    candidates.filter = [&](const Candidate& candidate) {
      return candidate.implementation.rfind("conv_fwd_mma", 0) == 0 && held.size() < 4 &&
             held.insert(candidate.implementation).second;
    };
    // NVIDIA's unit has copies that go on by themselves, and only those.
    candidates.leave_out([](Device& device) {
      const opencl::OpenclDevice* target = opencl::as_opencl(device);
      return target && opencl::matrix_unit(target->capabilities()).kind == opencl::MatrixUnit::Kind::nvidia;
    });
    build_with(" -DMMA_HELD=1");
    check(candidates, cases[4], DType::f32);
    build_with("");
    CHECK(held.size() >= 3 || candidates.devices().empty());
  }
  {
    using namespace pl::opencl_testing;
    const std::vector<Input> inputs{random_input(DType::f32, {1, 12, 2, 3}), random_input(DType::f32, {40, 12}),
                                    random_input(DType::f32, {40}), random_input(DType::f32, {12, 40}),
                                    random_input(DType::f32, {12})};
    // Its values are checked in test_opencl_norms.
    const int ran =
        run_all_opencl("squeeze_excite", "", inputs, [](const Op&, const std::vector<Values>&, const std::string&) {});
    CHECK(ran >= 1);
    std::vector<Input> gradients = inputs;
    gradients.insert(gradients.begin() + 1, random_input(DType::f32, {1, 12, 2, 3}));
    const int backward = run_all_opencl("squeeze_excite_backward", "", gradients,
                                        [](const Op&, const std::vector<Values>&, const std::string&) {});
    CHECK(backward >= 1);
    // Tiles in local memory, partial ones; values are checked in test_opencl_reorder.
    for (const char* target : {"target=aBcd16b", "target=acdb dtype=f16"})
      run_all_opencl("reorder", target, {random_input(DType::f32, {1, 20, 4, 10})},
                     [](const Op&, const std::vector<Values>&, const std::string&) {});
    // Rows by work-groups, whole and in parts, of up to 16 lanes and of more; values are checked in
    // test_opencl_row_vectors.
    const auto none = [](const Op&, const std::vector<Values>&, const std::string&) {};
    run_all_opencl("softmax", "dim=1", {random_input(DType::f32, {3, 68})}, none, true);
    run_all_opencl("softmax", "dim=1", {random_input(DType::f32, {1, 160, 4})}, none, true);
    run_all_opencl("cumsum", "dim=1", {random_input(DType::f32, {3, 68})}, none, true);
    run_all_opencl("cumsum", "dim=1", {random_input(DType::f32, {1, 160, 4})}, none, true);
    run_all_opencl("argmax", "dim=1", {random_input(DType::f32, {1, 16, 5})}, none, true);
    run_all_opencl("group_norm", "num_groups=2", {random_input(DType::f32, {1, 16, 40})}, none, true);
    run_all_opencl("sum", "dim=[1]", {random_input(DType::f32, {1, 8300})}, none, true);
    // Tiles of a sort, several and one of a work-group; values are checked by tests/test_ops.py.
    run_all_opencl("topk", "k=5", {random_input(DType::f32, {6, 40})}, none);
    run_all_opencl("topk", "k=300 largest=false", {random_input(DType::s64, {1, 300})}, none);
    // Several heads of queries for one of keys, masked; values are checked in test_opencl_training.
    more_lists() = {opencl::list_attention_backward_mma};
    run_all_opencl("scaled_dot_product_attention_backward", "enable_gqa=true",
                   {random_input(DType::f32, {2, 20, 4}), random_input(DType::f32, {1, 18, 4}),
                    random_input(DType::f32, {1, 18, 12}), random_input(DType::f32, {2, 20, 12}),
                    random_input(DType::f32, {20, 18})},
                   none);
    more_lists() = {};
    run_all_opencl("lstm_backward", "",
                   {random_input(DType::f32, {2, 2, 3}), random_input(DType::f32, {1, 20, 3}),
                    random_input(DType::f32, {1, 20, 5}), random_input(DType::f32, {2, 1, 2, 5}),
                    random_input(DType::f32, {2, 1, 2, 5})},
                   none);
  }
  std::printf("%zu ways\n", seen.size());
  for (const std::string& name : seen) std::printf("ran %s\n", name.c_str());
  CHECK(seen.size() >= 16);
}

}  // namespace
