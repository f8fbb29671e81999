// Products by groups of rows, and the gradients of their matrices: every candidate of the host and of OpenCL, those for
// GPUs and matrix units too, against the definition in double precision.
#include <iterator>
#include <set>

#include "opencl_testing.h"
#include "providers/host/conv/conv_candidates.h"
#include "providers/opencl/matmul/matmul_common.h"

using namespace pl;
using namespace pl::opencl_testing;

namespace {

struct Case {
  int64_t rows, depth, columns;
  Values ends;
  DType index = DType::s32;
};

const Case kCases[] = {
    {37, 33, 19, {9, 9, 10, 31, 35}},       // an empty group, odd sizes, rows of no group
    {24, 16, 32, {0, 17, 20}, DType::s64},  // whole vectors
    {3, 20, 70, {0, 0, 1, 1, 1, 2, 2, 3}},  // fewer rows than groups
    {300, 40, 36, {290, 290, 300}},         // one large group
    {5, 3, 2, {5}},                         // narrow
    {9, 400, 24, {4, 9}, DType::s64},       // several pieces of the terms
    {410, 8, 130, {1, 400, 401}},           // several blocks of rows
};

int64_t begin_of(const Case& c, size_t group) { return group ? int64_t(c.ends[group - 1]) : 0; }

Input ends_of(const Case& c) { return {TensorDesc::dense(c.index, Dims{int64_t(c.ends.size())}), c.ends}; }

Values products(const Case& c, const Input& x, const Input& weight, bool transposed) {
  Values y(size_t(c.rows * c.columns), 0.0);
  for (size_t g = 0; g < c.ends.size(); ++g)
    for (int64_t r = begin_of(c, g); r < int64_t(c.ends[g]); ++r)
      for (int64_t n = 0; n < c.columns; ++n) {
        double sum = 0;
        for (int64_t k = 0; k < c.depth; ++k) {
          const int64_t at = transposed ? n * c.depth + k : k * c.columns + n;
          sum += x.values[size_t(r * c.depth + k)] * weight.values[g * size_t(c.depth * c.columns) + size_t(at)];
        }
        y[size_t(r * c.columns + n)] = sum;
      }
  return y;
}

Values gradients(const Case& c, const Input& x, const Input& grad) {
  Values dw;
  for (size_t g = 0; g < c.ends.size(); ++g)
    for (int64_t k = 0; k < c.depth; ++k)
      for (int64_t n = 0; n < c.columns; ++n) {
        double sum = 0;
        for (int64_t r = begin_of(c, g); r < int64_t(c.ends[g]); ++r)
          sum += x.values[size_t(r * c.depth + k)] * grad.values[size_t(r * c.columns + n)];
        dw.push_back(sum);
      }
  return dw;
}

Input factors(DType dtype, const Dims& shape) { return random_input(dtype, shape, -1, 1); }

constexpr size_t kMostTiles = 6;

// Of sums of up to some hundred terms in f32.
constexpr double kSums = 3e-5;

using Run = std::function<void(const char* name, const char* attributes, const std::vector<Input>&, const Check&)>;

// `halves`: in other dtypes than f32 so many cases.
void each_case(size_t halves, const Run& run) {
  for (size_t number = 0; number < std::size(kCases); ++number)
    for (DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      if (dtype != DType::f32 && number >= halves) continue;
      const Case& c = kCases[number];
      const Input x = factors(dtype, {c.rows, c.depth}), ends = ends_of(c), grad = factors(dtype, {c.rows, c.columns});
      const auto groups = int64_t(c.ends.size());
      const Input weight = factors(dtype, {groups, c.depth, c.columns});
      const Input turned = factors(dtype, {groups, c.columns, c.depth});
      run("grouped_mm", "", {x, weight, ends}, expect(products(c, x, weight, false), 1, kSums));
      run("grouped_mm", "transpose_weight=true", {x, turned, ends}, expect(products(c, x, turned, true), 1, kSums));
      run("grouped_mm_backward_weights", "", {x, grad, ends}, expect(gradients(c, x, grad), 1, kSums));
    }
}

TEST("host") {
  host::every_instruction_set() = true;
  each_case(std::size(kCases), run_all);
}

TEST("host_refuses_ends_that_do_not_ascend") {
  for (const Values& ends : {Values{3, 2}, Values{-1, 2}, Values{1, 6}}) {
    const Case c{5, 4, 8, ends};
    std::string said;
    try {
      run_all("grouped_mm", "", {factors(DType::f32, {5, 4}), factors(DType::f32, {2, 4, 8}), ends_of(c)},
              [](const Op&, const std::vector<Values>&, const std::string&) {});
    } catch (const Error& error) {
      said = error.what();
    }
    CHECK(said.find("grouped_mm: offsets is ") == 0);
  }
}

TEST("opencl") {
  if (targets().empty()) SKIP("no OpenCL device here");
  unoptimised_on_pocl();
  more_lists() = {[](const Op& op, opencl::OpenclDevice& device, CandidateList& out) {
    if (op.schema->kind == "grouped_mm") opencl::list_grouped_mma(op, device, out);
  }};
  std::set<std::string> ran, tiles;
  each_case(1, [&](const char* name, const char* attributes, const std::vector<Input>& inputs, const Check& check) {
    run_all_opencl(name, attributes, inputs, check, false, [&](const Candidate& candidate) {
      const std::string kernel = candidate.implementation.substr(0, candidate.implementation.find('['));
      ran.insert(kernel);
      // Of the tiles of matrix units a few, each a program: test_opencl_mma has the others.
      if (kernel != "conv_fwd_mma" || tiles.count(candidate.implementation)) return true;
      return tiles.size() < kMostTiles && tiles.insert(candidate.implementation).second;
    });
  });
  for (const char* kernel : {"grouped_mm_local", "grouped_mm_weights_local", "conv_fwd_mma"})
    CHECK(ran.count(kernel) == 1);
}

// Whatever they hold, nothing is written behind the result; what lies there is seen to by the check of each run.
TEST("opencl_stays_within_the_result") {
  if (targets().empty()) SKIP("no OpenCL device here");
  const auto anything = [](const Op&, const std::vector<Values>&, const std::string&) {};
  for (const Values& ends : {Values{7, 3, 100, -5}, Values{1e9, -1e9, 2, 40}, Values{-3, -2, -1, 0}}) {
    const Case c{33, 12, 20, ends};
    const Input x = factors(DType::f32, {c.rows, c.depth}), grad = factors(DType::f32, {c.rows, c.columns});
    run_all_opencl("grouped_mm", "", {x, factors(DType::f32, {4, c.depth, c.columns}), ends_of(c)}, anything);
    run_all_opencl("grouped_mm_backward_weights", "", {x, grad, ends_of(c)}, anything);
  }
}

}  // namespace
