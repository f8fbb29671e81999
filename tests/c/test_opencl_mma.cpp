// conv on matrix units: every plan against loops in double precision, on devices without them too, where the kernel has
// no instructions of theirs.
#include <set>

#include "dispatch/descriptions.h"
#include "opencl_conv_cases.h"
#include "opencl_testing.h"
#include "providers/opencl/conv/conv_common.h"
#include "providers/opencl/matrix_units/mma.h"
#include "providers/opencl/program/ptx.h"

using namespace pl;
using namespace pl::testing;

namespace {

// Channels come in whole pieces of 16 bytes, or are fewer than one holds.
const Case cases[] = {
    {"conv2d", {2, 24, 9, 11}, {40, 24, 3, 3}, "padding=1 activation=relu", true, true},
    {"conv2d", {1, 40, 9, 8}, {33, 40, 1, 1}, "stride=2", true},
    {"conv2d", {3, 32, 7, 7}, {150, 16, 3, 2}, "groups=2 padding=[1,0] dilation=[1,2]", true, true},
    {"conv2d", {1, 128, 5, 5}, {96, 128, 3, 3}, "padding=[1,2,0,1] stride=[2,1] activation=leaky_relu"},
    {"conv1d", {2, 16, 90}, {130, 16, 5}, "padding=2", true},
    {"conv2d", {1, 256, 7, 6}, {70, 256, 1, 1}, "", true, true},
    {"conv2d", {2, 3, 19, 17}, {40, 3, 7, 7}, "padding=[3,2,3,1] stride=2 activation=relu", true, true},
    {"conv2d", {1, 4, 9, 8}, {20, 4, 3, 2}, "dilation=[1,2] padding=2"},
    {"conv2d", {1, 72, 12, 13}, {264, 72, 1, 1}, "", true},
};

// Where a device has wgmma all its tiles are tried, not only the most promising ones; sums in parts by some.
bool all_tiles = false;
void list_all(const Op& op, opencl::OpenclDevice& device, CandidateList& out) {
  if (!opencl::has_wgmma(device)) return;
  all_tiles = true;
  const size_t most = opencl::most_mma_plans;
  opencl::most_mma_plans = 1000;
  CandidateList all;
  opencl::list_conv_mma(op, device, all);
  opencl::most_mma_plans = most;
  size_t number = 0;
  for (Candidate& candidate : all.candidates) {
    const std::string& name = candidate.implementation;
    if (name.find("wgmma") == std::string::npos) continue;
    if (name.find("parts") == std::string::npos || number++ % 4 == 0) out.add(std::move(candidate));
  }
}

void check_ptx() {
  const std::string ptx = ".version 9.0\n.target sm_90, texmode_independent\n//sm_90a a;\n\tb;\n\t//sm_90a {c;}\n";
  CHECK(opencl::with_sm_90a(ptx) == ".version 9.0\n.target sm_90a, texmode_independent\na;\n\tb;\n\t{c;}\n");
  CHECK(opencl::with_sm_90a(".target sm_90\n").empty());
  CHECK(opencl::with_sm_90a(".target sm_80\n//sm_90a a;\n").empty());
  CHECK(opencl::with_sm_90a(".target sm_90a\n//sm_90a a;\n").empty());
  CHECK(opencl::with_sm_90a("").empty());
}

// The matrix unit cuts its sums toward zero, which no result shows by itself: all of them together, on average.
void check_bias() {
  constexpr int64_t kTerms = 256, kColumns = 64, kSide = 40, kPositions = kSide * kSide;
  const std::vector<opencl_testing::Input> inputs{opencl_testing::random_input(DType::f32, {1, kTerms, kSide, kSide}),
                                                  opencl_testing::random_input(DType::f32, {kColumns, kTerms, 1, 1})};
  const auto &x = inputs[0].values, &w = inputs[1].values;
  std::vector<double> exact(size_t(kColumns * kPositions));
  for (int64_t o = 0; o < kColumns; ++o)
    for (int64_t c = 0; c < kTerms; ++c)
      for (int64_t q = 0; q < kPositions; ++q)
        exact[size_t(o * kPositions + q)] += double(w[size_t(o * kTerms + c)]) * double(x[size_t(c * kPositions + q)]);
  opencl_testing::run_all_opencl(
      "conv2d", "", inputs,
      [&](const Op&, const std::vector<opencl_testing::Values>& results, const std::string& what) {
        double along = 0, norm = 0;
        for (size_t i = 0; i < exact.size(); ++i) {
          along += (double(results[0][i]) - exact[i]) * exact[i];
          norm += exact[i] * exact[i];
        }
        if (std::abs(along / norm) < 2e-8) return;
        std::fprintf(stderr, "%s: results are %.1e of them too large on average\n", what.c_str(), along / norm);
        end_test();
      });
}

// Rounded factors only where they were asked for, and apart from exact ones in what is known of an op by its
// description.
void check_math(opencl::OpenclDevice& device) {
  using List = void (*)(const Op&, opencl::OpenclDevice&, CandidateList&);
  const auto check_op = [&](Op op, List list_of) {
    std::set<std::string> texts;
    for (const Math math : {Math::fp32, Math::tf32}) {
      op.math = math;
      texts.insert(describe(op));
      CandidateList list;
      list_of(op, device, list);
      REQUIRE(!list.candidates.empty());
      for (const Candidate& candidate : list.candidates)
        CHECK((candidate.implementation.find("tf32") != std::string::npos) == (math == Math::tf32));
    }
    CHECK(texts.size() == 2);
  };
  const auto tensor = [](const Dims& shape) { return TensorDesc::dense(DType::f32, shape); };
  const TensorDesc x = tensor({2, 32, 8, 8});
  check_op(make_op(*find_schema("conv2d"), {}, {x, tensor({64, 32, 3, 3}), {}, {}}), opencl::list_conv_mma);
  check_op(make_op(*find_schema("conv_transpose2d"), {}, {x, tensor({32, 64, 3, 3}), {}}),
           opencl::list_conv_transpose_mma);
  Attributes window;
  window.set(attr::kernel_size, std::vector<int64_t>{3, 3});
  check_op(make_op(*find_schema("conv2d_backward_weights"), window, {x, tensor({2, 64, 6, 6})}),
           opencl::list_conv_backward_weights_turned);
}

// Sums that are not finite are computed once more by a loop, 25 times as slow as the unit; no others are, whatever the
// number of columns that are finished together.  Of (1 + e)^2 three products leave out e^2: with this e the loop's sum
// is one unit in the last place larger, the unit's exact.
void check_no_loop(opencl::OpenclDevice& device) {
  constexpr int64_t kTerms = 32;
  constexpr float kSmall = 7 * 0x1p-14f;
  const auto tensor = [](const Dims& shape) { return TensorDesc::dense(DType::f32, shape); };
  for (const int64_t columns : {33, 34, 36}) {
    const Op op = make_op(*find_schema("conv2d"), {},
                          {tensor(Dims{1, kTerms, 5, 5}), tensor(Dims{columns, kTerms, 1, 1}), {}, {}});
    CandidateList list;
    opencl::list_conv_mma(op, device, list);
    REQUIRE(!list.candidates.empty());
    Candidate& candidate = list.candidates.front();
    std::vector<BufferRef> buffers;
    for (int i : {0, 1}) {
      const std::vector<float> factors(candidate.inputs[size_t(i)].size_bytes() / sizeof(float), 1 + kSmall);
      buffers.push_back(device.allocate(factors.size() * sizeof(float)));
      device.write(*buffers.back(), 0, factors.data(), factors.size() * sizeof(float));
    }
    const std::vector<Buffer*> in{buffers[0].get(), buffers[1].get(), nullptr, nullptr};
    std::vector<float> sums(candidate.outputs[0].size_bytes() / sizeof(float));
    const BufferRef result = device.allocate(sums.size() * sizeof(float));
    const BufferRef workspace = candidate.workspace_bytes ? device.allocate(candidate.workspace_bytes) : nullptr;
    Buffer* const out = result.get();
    candidate.prepare()->run({in.data(), &out, workspace.get()});
    device.read(*result, 0, sums.data(), sums.size() * sizeof(float));
    for (const float sum : sums) CHECK(sum <= kTerms * (1 + 2 * kSmall));
  }
}

TEST("all") {
  check_ptx();
  Candidates candidates;
  candidates.unoptimised_on_cpus();  // matrix units are emulated there: a large source for each point
  if (candidates.no_devices()) SKIP("no OpenCL device here");
  check_bias();
  for (const auto& device : candidates.devices())
    if (opencl::OpenclDevice* target = opencl::as_opencl(*device)) {
      check_math(*target);
      if (target->capabilities().nvidia) check_no_loop(*target);  // elsewhere one product is as exact as the loop
    }
  candidates.more = {opencl::list_conv_mma, list_all};
  candidates.filter = [](const Candidate& candidate) { return candidate.implementation.rfind("conv_fwd_mma", 0) == 0; };
  for (size_t i = 0; i < 8; ++i) check(candidates, cases[i], DType::f32);
  // Building programs takes most of the time: of what follows every third plan, another third each time.
  size_t number = 0, turn = 0;
  candidates.begin = [&] { number = turn++; };
  candidates.filter = [&](const Candidate& candidate) {
    const std::string& name = candidate.implementation;
    const bool rounds = name.find("+rounds") != std::string::npos;  // weights, in each run
    return name.rfind("conv_fwd_mma", 0) == 0 && (number++ % 3 == 0 || rounds || all_tiles);
  };
  for (DType dtype : {DType::f16, DType::bf16})
    for (int i : {0, 2, 3, 6, 8}) check(candidates, cases[i], dtype);
  for (int i : {0, 1, 3, 6}) check(candidates, cases[i], DType::f32, true);
  candidates.math = Math::tf32;
  for (int i : {0, 2, 5, 8})
    if (i == 0 || all_tiles) check(candidates, cases[i], DType::f32, i < 3);
  bool rounded = false;
  for (const std::string& name : candidates.implementations) {
    std::printf("ran %s\n", name.c_str());
    rounded |= name.find("+rounds") != std::string::npos;
  }
  CHECK(rounded);
}

}  // namespace
