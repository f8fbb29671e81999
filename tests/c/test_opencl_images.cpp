// Kernels that only GPUs are offered for pooling, normalisation by given statistics, borders, resizing, gathering and
// interleaving, and what expressions become there: every device here says that it is one.  Each is checked against
// double precision, or to be equal, in every layout.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "opencl_pools.h"
#include "opencl_testing.h"
#include "ops/spatial.h"

using namespace pl;
using namespace pl::opencl_testing;

namespace {

const double kNan = std::nan(""), kInf = INFINITY;

// Loads and stores alone tell dtypes apart, and each is a program to build: of a list of cases each in f32 and in one
// of 16 bits, which take turns.
std::vector<DType> dtypes_of(size_t number) { return {DType::f32, number % 2 ? DType::bf16 : DType::f16}; }

using Element = std::function<double(const Op& op, const Dims& index)>;
std::set<std::string> seen;  // implementations

// Kernels of one element a work-item, for all devices, are left to test_opencl_pools, _norms, _movement.
bool is_for_gpus(const Candidate& candidate) { return candidate.implementation.find("_direct") == std::string::npos; }

void run(const char* name, const std::string& attributes, const std::vector<Input>& inputs, const Element& element,
         double factor = 1, double absolute = 0, bool whole_space = false) {
  run_all_opencl(
      name, attributes.c_str(), inputs,
      [&](const Op& op, const std::vector<Values>& y, const std::string& what) {
        const size_t by = what.find(" by opencl/");
        CHECK(by != std::string::npos);
        const std::string rest = what.substr(by + 11);
        seen.insert(rest.substr(0, rest.find_first_of("[/ ")));
        Values expected;
        each(op.out().shape, [&](const Dims& index) { expected.push_back(element(op, index)); });
        expect(expected, factor, absolute)(op, y, what);
      },
      whole_space, is_for_gpus);
}

// ---- resize

void test_resize() {
  struct Case {
    Dims shape;
    const char* attributes;
  };
  const Case cases[] = {{{2, 17, 4, 5}, "size=[7,3] mode=nearest"},
                        {{2, 16, 4, 5}, "scale_factor=[2.0,2.0] mode=nearest"},
                        {{1, 3, 6}, "size=[13] mode=nearest"},
                        {{1, 24, 3, 7}, "size=[9,16] mode=nearest"},
                        {{2, 17, 4, 5}, "size=[7,3] mode=bilinear"},
                        {{2, 24, 4, 5}, "size=[9,12] mode=bilinear align_corners=true"},
                        {{2, 20, 4, 5}, "scale_factor=[2.5,0.5] mode=bilinear"},
                        {{1, 32, 5, 4}, "scale_factor=[2.0,2.0] mode=bilinear"},
                        {{1, 3, 5, 16}, "scale_factor=[2.0,2.0] mode=bilinear"},
                        {{2, 3, 1, 6}, "scale_factor=[2.0,2.0] mode=bilinear"},
                        {{1, 3, 5, 16}, "scale_factor=[2.0,2.0] mode=nearest"},
                        {{2, 18, 3, 1}, "scale_factor=[2.0,2.0] mode=nearest"},
                        {{2, 17, 1, 1}, "size=[3,1] mode=bilinear align_corners=true"},
                        {{1, 9, 19, 4}, "size=[4,8] mode=bilinear"},
                        {{2, 24, 6}, "size=[4] mode=linear"}};
  for (const Case& c : cases)
    for (DType dtype : dtypes_of(size_t(&c - cases))) {
      const Input x = random_input(dtype, c.shape);
      const bool nearest = std::string(c.attributes).find("nearest") != std::string::npos;
      run(
          "interpolate", c.attributes, {x},
          [&](const Op& op, const Dims& o) {
            const auto& scale = op.attributes[attr::scale_floats];
            const bool align = op.attributes[attr::align_corners];
            const int spatial = c.shape.size() - 2;
            double sum = 0;
            for (int corner = 0; corner < (1 << spatial); ++corner) {
              Dims source = o;
              double weight = 1;
              for (int d = 0; d < spatial; ++d) {
                const int64_t n = c.shape[2 + d];
                const double p = double(o[2 + d]), s = scale[size_t(d)];
                const bool second = corner >> d & 1;
                if (nearest) {
                  source[2 + d] = std::min(int64_t(std::floor(float(p) * float(s))), n - 1);
                  weight *= second ? 0 : 1;
                  continue;
                }
                const double position = align ? p * s : std::max((p + 0.5) * s - 0.5, 0.0);
                const int64_t first = std::min(int64_t(position), n - 1);
                const double of_second = std::min(position - double(first), 1.0);
                source[2 + d] = second ? std::min(first + 1, n - 1) : first;
                weight *= second ? of_second : 1 - of_second;
              }
              sum += weight * at(x, source);
            }
            return sum;
          },
          1, nearest ? 0 : 2e-6, true);
    }
  const Input bytes = random_input(DType::u8, {1, 19, 3, 3}, 0, 200);
  run("interpolate", "scale_factor=[1.0,1.0] mode=nearest", {bytes},
      [&](const Op&, const Dims& index) { return at(bytes, index); });
}

// ---- expressions

void test_pointwise() {
  const Dims shapes[] = {{2, 16, 4, 6}, {3, 20, 5, 8}, {2, 24, 3, 3}, {1, 9, 1, 12}};
  for (const Dims& shape : shapes)
    for (DType dtype : dtypes_of(size_t(&shape - shapes)))
      for (int64_t channels : {shape[1], int64_t(1)}) {
        const Input x = random_input(dtype, shape), by = random_input(dtype, {channels, 1, 1});
        const Input columns = random_input(DType::f32, {shape[3]});
        run("add", "activation=relu", {x, by}, [&](const Op&, const Dims& i) {
          const double sum = at(x, i) + at(by, {channels == 1 ? 0 : i[1], 0, 0});
          return sum < 0 ? 0 : sum;
        });
        if (channels != 1) continue;
        run("mul", "", {x, x}, [&](const Op&, const Dims& i) { return at(x, i) * at(x, i); });
        if (dtype == DType::f32)
          run("mul", "", {x, columns}, [&](const Op&, const Dims& i) { return at(x, i) * at(columns, {i[3]}); });
      }
}

// ---- pad

void test_pad(const char* mode) {
  struct Case {
    Dims shape;
    std::vector<int64_t> pad;  // last dimension first
  };
  const Case cases[] = {{{2, 17, 4, 5}, {1, 2, 3, 0}},
                        {{2, 16, 4, 6}, {1, 1, 1, 1}},
                        {{2, 24, 5, 16}, {3, 5, 1, 1}},
                        {{2, 17, 4, 5}, {0, 1, 2, 2, 3, 4, 1, 0}},
                        {{2, 17, 4, 5}, {-1, 2, 3, -2}},
                        {{1, 3, 6}, {2, 2}},
                        {{7}, {3, 3}},
                        {{2, 24, 5, 4}, {3, -3, -1, -1, 2, 0}},
                        {{1, 16, 3, 9}, {-4, -4, 1, 0}},
                        {{1, 18, 3, 3, 2}, {1, 1, 2, 1, 0, 2}}};
  for (const Case& c : cases)
    for (DType dtype : {DType::f32, DType::f16, DType::bf16, DType::u8, DType::s64}) {
      // Bytes alone decide: every dtype for some, one of 4 and one of 2 bytes for all.
      if (dtype != DType::f32 && dtype != DType::f16 && c.shape[0] != 1) continue;
      const Input x = random_input(dtype, c.shape);
      const bool constant = std::string(mode) == "constant";
      const double value = is_floating(dtype) ? 1.5 : 0;
      std::string attributes = "pad=[";
      for (size_t i = 0; i < c.pad.size(); ++i) attributes += (i ? "," : "") + std::to_string(c.pad[i]);
      attributes += concat("] mode=", mode, constant ? concat(" value=", value) : "");
      run("pad", attributes, {x}, [&](const Op& op, const Dims& index) {
        const auto& begins = op.attributes[attr::begins];
        Dims source = index;
        bool inside = true;
        for (int d = 0; d < index.size(); ++d) {
          const int64_t n = c.shape[d];
          int64_t s = index[d] - begins[size_t(d)];
          inside &= s >= 0 && s < n;
          if (std::string(mode) == "replicate") s = std::min(std::max<int64_t>(s, 0), n - 1);
          if (std::string(mode) == "reflect") s = s < 0 ? -s : s >= n ? 2 * (n - 1) - s : s;
          source[d] = s;
        }
        return constant && !inside ? value : at(x, source);
      });
    }
}

// ---- gather

void test_gather() {
  for (DType dtype : {DType::f32, DType::f16, DType::u8, DType::s64})
    for (int dim = 0; dim < 4; ++dim)
      for (const Dims& shape : {Dims{7}, Dims{2, 3}}) {
        const Dims table{3, 40, 4, 8};
        const Input x = random_input(dtype, table);
        Input index{TensorDesc::dense(DType::s64, shape), {}};
        for (int64_t i = 0; i < shape.product(); ++i)
          index.values.push_back(double((i * 5 + 1) % (2 * table[dim]) - table[dim]));
        run("index_select", concat("dim=", dim), {x, index}, [&](const Op&, const Dims& o) {
          Dims source, chosen;
          for (int d = 0; d < dim; ++d) source.push_back(o[d]);
          for (int d = 0; d < shape.size(); ++d) chosen.push_back(o[dim + d]);
          const auto i = int64_t(at(index, chosen));
          source.push_back(i < 0 ? i + table[dim] : i);
          for (int d = dim + shape.size(); d < o.size(); ++d) source.push_back(o[d]);
          return at(x, source);
        });
      }
  const Input weight = random_input(DType::f32, {50, 36});
  Input words{TensorDesc::dense(DType::s32, {3, 5}), {}};
  for (int i = 0; i < 15; ++i) words.values.push_back(double(i * 7 % 100 - 50));
  run("embedding", "", {words, weight}, [&](const Op&, const Dims& o) {
    const auto row = int64_t(at(words, {o[0], o[1]}));
    return at(weight, {row < 0 ? row + 50 : row, o[2]});
  });
}

// ---- batch_norm

void test_batch_norm() {
  const Dims shapes[] = {{2, 17, 4, 5}, {3, 12, 7, 7}, {2, 16, 8, 6}, {2, 32, 9}, {1, 20, 3, 4, 6}, {2, 40, 1, 1}};
  for (const Dims& shape : shapes)
    for (DType dtype : dtypes_of(size_t(&shape - shapes)))
      for (bool full : {true, false}) {
        const Dims channels{shape[1]};
        std::vector<Input> inputs{random_input(dtype, shape), random_input(dtype, channels),
                                  random_input(dtype, channels, 0.5, 2)};
        for (int k = 0; k < 2; ++k) inputs.push_back(full ? random_input(dtype, channels) : Input{});
        run(
            "batch_norm", full ? "activation=relu eps=0.01" : "", inputs,
            [&](const Op& op, const Dims& index) {
              const Dims c{index[1]};
              const double x = at(inputs[0], index), eps = op.attributes[attr::eps];
              double y = (x - at(inputs[1], c)) / std::sqrt(at(inputs[2], c) + eps);
              if (!full) return y;
              y = y * at(inputs[3], c) + at(inputs[4], c);
              return y < 0 ? 0 : y;
            },
            8, 4e-6);
        if (!full || dtype != dtypes_of(size_t(&shape - shapes))[0]) continue;
        inputs.resize(5);
        for (int k = 0; k < 2; ++k) inputs.push_back(random_input(dtype, shape));
        run(
            "batch_norm", "post_ops=\"relu, multiply(gate), scale(0.5), add(residual), clip(-1, 1)\"", inputs,
            [&](const Op& op, const Dims& index) {
              const Dims c{index[1]};
              const double deviation = std::sqrt(at(inputs[2], c) + op.attributes[attr::eps]);
              double y = (at(inputs[0], index) - at(inputs[1], c)) / deviation * at(inputs[3], c) + at(inputs[4], c);
              y = std::max(y, 0.0) * at(inputs[6], index) * 0.5 + at(inputs[5], index);
              return std::min(std::max(y, -1.0), 1.0);
            },
            12, 8e-6);
      }
}

// ---- pools

void test_pools(const std::string& kind, DType dtype) {  // max, avg
  const char* const windows[] = {"kernel_size=3 stride=2 padding=1",
                                 "kernel_size=2",
                                 "kernel_size=[3,2] stride=2 padding=[1,0,1,1] ceil_mode=true",
                                 "kernel_size=3 stride=1 padding=1 count_include_pad=false",
                                 "kernel_size=[5,7] stride=[2,3] padding=2",
                                 "kernel_size=[2,3] stride=[3,1] padding=[1,2] dilation=[1,2]",
                                 "kernel_size=[3,2] padding=[2,1] dilation=[3,1] stride=[4,1]"};
  const bool max = kind == "max";
  for (const char* window : windows)
    for (const Dims& shape : {Dims{2, 9, 9, 11}, Dims{1, 20, 14, 8}, Dims{1, 3, 10, 32}}) {
      const bool dilated = std::string(window).find("dil") != std::string::npos;
      // All windows of f32, two of the others; columns enough for every width of a tile in NCHW only.
      if (dtype != DType::f32 && (window != windows[0] || shape[0] == 2) && window != windows[1]) continue;
      if (max ? std::string(window).find("count") != std::string::npos : dilated) continue;
      Input x = random_input(dtype, shape);
      if (max) x.values[20] = kNan, x.values[100] = kInf, x.values[120] = -kInf;
      const bool every =  // tile
          dtype == DType::f32    ? window == windows[2] || window == windows[6] || shape[1] == 3
          : window == windows[0] ? shape[1] == 3
                                 : shape[0] == 2;
      run((kind + "_pool2d").c_str(), window, {x},
          [&](const Op& op, const Dims& index) { return pooled(op, x, index); }, 4, 1e-6, every);
    }
  if (dtype != DType::f32) return;
  const Input row = random_input(dtype, {2, 17, 11});
  run((kind + "_pool1d").c_str(), "kernel_size=3 stride=2 padding=1", {row},
      [&](const Op& op, const Dims& index) { return pooled(op, row, index); }, 4, 1e-6);
  if (!max) return;
  // A dilated window that steps over the whole input: padding of blocks stays zero.
  run("max_pool1d", "kernel_size=2 dilation=2 padding=1", {random_input(DType::f32, {1, 9, 1})},
      [](const Op&, const Dims&) { return -kInf; });
}

void test_global_pools(const std::string& kind) {  // max, avg
  const Dims shapes[] = {{3, 17, 7, 7}, {2, 20, 8, 8}, {1, 16, 40, 24}, {2, 32, 5}, {1, 12, 3, 4, 6}, {2, 8, 70, 31}};
  for (const Dims& shape : shapes)
    for (DType dtype : dtypes_of(size_t(&shape - shapes) + (kind == "max"))) {
      const bool max = kind == "max";
      Input x = random_input(dtype, shape);
      if (max) x.values[20] = kNan, x.values[100] = kInf, x.values[120] = -kInf;
      const int64_t positions = shape.product() / (shape[0] * shape[1]);
      run(
          max ? concat("adaptive_max_pool", shape.size() - 2, "d").c_str() : "global_avg_pool",
          max ? "output_size=1" : "", {x},
          [&](const Op&, const Dims& out) {
            double sum = 0, best = -kInf;
            for (int64_t i = 0; i < positions; ++i) {
              const double value = x.values[size_t((out[0] * shape[1] + out[1]) * positions + i)];
              sum += value;
              best = larger(best, value);
            }
            return max ? best : sum / double(positions);
          },
          4, 2e-6);
    }
}

// ---- interleave

void test_interleave() {
  struct Case {
    Dims shape;
    const char* attributes;
  };
  const Case cases[] = {{{2, 58, 5, 7}, "sections=[58,58]"},
                        {{1, 116, 3, 5}, "sections=[116,116]"},
                        {{3, 24, 4, 3}, ""},
                        {{1, 16, 9}, "sections=[24,8]"},
                        {{2, 7, 5, 3}, "sections=[5,9]"},
                        {{1, 64, 3, 2, 2}, "sections=[32,96]"},
                        {{2, 58, 5, 7}, "groups=58 sections=[58,58]"},
                        {{1, 116, 3, 5}, "groups=116 sections=[116,116]"},
                        {{1, 464, 3}, "groups=464 sections=[464,464]"},
                        {{3, 24, 4, 3}, "groups=24"},
                        {{1, 16, 9}, "groups=16 sections=[24,8]"},
                        {{2, 7, 5, 3}, "groups=7 sections=[7,7]"},
                        {{2, 9, 5, 3}, "groups=6 sections=[5,13]"}};
  for (const Case& c : cases)
    for (DType dtype : {DType::f32, DType::f16, DType::s8, DType::s64}) {
      const Input x = random_input(dtype, c.shape), y = random_input(dtype, c.shape);
      run_all_opencl(
          "interleave", c.attributes, {x, y},
          [&](const Op& op, const std::vector<Values>& results, const std::string& what) {
            const int64_t groups = op.attributes[attr::groups], channels = c.shape[1];
            int64_t first = 0;
            for (size_t k = 0; k < results.size(); ++k) {
              Values expected;
              each(op.out(int(k)).shape, [&](const Dims& index) {
                Dims from = index;
                const int64_t to = first + index[1], channel = to % groups * (2 * channels / groups) + to / groups;
                from[1] = channel % channels;
                expected.push_back(at(channel < channels ? x : y, from));
              });
              REQUIRE(results[k].size() == expected.size());
              for (size_t i = 0; i < expected.size(); ++i) {
                if (results[k][i] == expected[i]) continue;
                std::fprintf(stderr, "%s: result %zu, element %zu is %g, expected %g\n", what.c_str(), k, i,
                             double(results[k][i]), double(expected[i]));
                end_test();
              }
              first += op.out(int(k)).shape[1];
            }
            seen.insert("interleave_pieces");
          },
          false, is_for_gpus);
    }
}

// A case is worth something only where these were among its candidates.
void expect_ran(std::initializer_list<const char*> names) {
  for (const std::string& name : seen) std::printf("ran %s\n", name.c_str());
  for (const char* name : names)
    if (!seen.count(name)) {
      std::fprintf(stderr, "%s did not run\n", name);
      check_count_failure();
    }
}

SETUP() {
  pretend_gpus();
  if (targets().empty()) SKIP("no OpenCL device here");
  seen.clear();
}

TEST("resize") {
  test_resize();
  expect_ran({"nearest_twice", "linear_twice", "resize_pieces"});
}
TEST("pointwise") {
  test_pointwise();
  expect_ran({"pointwise"});
}
TEST("pad_constant") {
  test_pad("constant");
  expect_ran({"pad_pieces"});
}
TEST("pad_reflect") {
  test_pad("reflect");
  expect_ran({"pad_pieces"});
}
TEST("pad_replicate") {
  test_pad("replicate");
  expect_ran({"pad_pieces"});
}
TEST("gather") {
  test_gather();
  expect_ran({"gather_pieces"});
}
TEST("batch_norm") {
  test_batch_norm();
  expect_ran({"batch_norm_planes", "batch_norm_quad"});
}
TEST("max_pools") {
  for (DType dtype : {DType::f32, DType::f16, DType::bf16}) test_pools("max", dtype);
  expect_ran({"pool_pieces", "pool_columns"});
}
TEST("avg_pools") {
  for (DType dtype : {DType::f32, DType::f16, DType::bf16}) test_pools("avg", dtype);
  expect_ran({"pool_pieces", "pool_columns"});
}
TEST("global_pools") {
  for (const char* kind : {"max", "avg"}) test_global_pools(kind);
  expect_ran({"global_pool_planes", "global_pool_quad"});
}
TEST("interleave") {
  test_interleave();
  expect_ran({"interleave_pieces"});
}

}  // namespace
