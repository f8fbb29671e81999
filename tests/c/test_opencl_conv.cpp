// conv and conv_transpose on OpenCL: every candidate against loops in double precision.
#include "opencl_candidates.h"
#include "ops/spatial.h"
#include "providers/opencl/conv_common.h"

using namespace pl;
using namespace pl::testing;

namespace {

// A spatial shape as (d, h, w), with sizes of 1 before those that are there.
Array widened(Array array) {
  Dims shape{array.shape[0], array.shape[1]};
  for (int i = array.shape.size(); i < 5; ++i) shape.push_back(1);
  for (int i = 2; i < array.shape.size(); ++i) shape.push_back(array.shape[i]);
  array.shape = shape;
  return array;
}

struct Geometry {
  Window axis[3];
  explicit Geometry(const Op& op) {
    const int spatial = spatial_rank(op);
    for (int i = 0; i < 3; ++i) axis[i].in = axis[i].out = 1;
    for (int i = 0; i < spatial; ++i) axis[3 - spatial + i] = window_of(op, i);
  }
};

// Adds to y[n, o, q] for every pair of an input position p and a kernel position k that meet in q of a convolution
// (from p = q * stride - begin + k * dilation) or of its transpose (q = p * stride - begin + k * dilation).
Array reference(const Op& op, const std::vector<Array>& inputs, bool transposed) {
  const Array x = widened(inputs[0]), w = widened(inputs[1]);
  Array y(op.out().shape);
  y = widened(y);
  const Geometry g(op);
  const int64_t groups = op.attributes.integer("groups"), oc = y.shape[1] / groups, ic = x.shape[1] / groups;
  for_each_index(y.shape, [&](const Dims& q, size_t linear) {
    double sum = 0;
    const int64_t group = q[1] / oc;
    for_each_index(Dims{w.shape[2], w.shape[3], w.shape[4]}, [&](const Dims& k, size_t) {
      int64_t p[3];
      for (int a = 0; a < 3; ++a) {
        const Window& v = g.axis[a];
        if (transposed) {
          const int64_t scaled = q[2 + a] + v.begin - k[a] * v.dilation;
          if (scaled < 0 || scaled % v.stride) return;
          p[a] = scaled / v.stride;
        } else {
          p[a] = q[2 + a] * v.stride - v.begin + k[a] * v.dilation;
        }
        if (p[a] < 0 || p[a] >= x.shape[2 + a]) return;
      }
      for (int64_t i = 0; i < ic; ++i) {
        const double weight =
            transposed ? w.at({group * ic + i, q[1] % oc, k[0], k[1], k[2]}) : w.at({q[1], i, k[0], k[1], k[2]});
        sum += x.at({q[0], group * ic + i, p[0], p[1], p[2]}) * weight;
      }
    });
    if (op.has(2)) sum += inputs[2].values[size_t(q[1])];
    if (op.has(3)) sum += inputs[3].values[linear];
    y.values[linear] = activated(op, sum);
  });
  y.shape = op.out().shape;
  return y;
}

struct Case {
  const char* name;
  Dims x, weight;
  const char* attributes;
  bool bias = false, residual = false;
};

void check(Candidates& candidates, const Case& c, DType dtype, bool special = false) {
  const bool transposed = std::string(c.name).rfind("conv_transpose", 0) == 0;
  static unsigned seed = 1;
  std::vector<Array> inputs{random_array(c.x, dtype, seed++), random_array(c.weight, dtype, seed++), Array()};
  if (special) {  // NaN and infinity reach the outputs that see them, and no other one
    inputs[0].values[3] = NAN;
    inputs[0].values[inputs[0].values.size() - 2] = INFINITY;
  }
  if (!transposed) inputs.push_back(Array());
  const Attributes attributes = Attributes::parse(c.attributes);
  std::vector<TensorDesc> descs;
  for (const Array& input : inputs)
    descs.push_back(input.given() ? TensorDesc::dense(dtype, input.shape) : TensorDesc());
  const Dims output = make_op(*find_schema(c.name), attributes, descs).out().shape;
  if (c.bias) inputs[2] = random_array(Dims{output[1]}, dtype, seed++);
  if (c.residual) inputs[3] = random_array(output, dtype, seed++);
  candidates.check(c.name, attributes, dtype, inputs, [&](const Op& op) { return reference(op, inputs, transposed); });
}

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

// For matrix units: channels come in whole pieces of 16 bytes.
const Case matrix_cases[] = {
    {"conv2d", {2, 24, 9, 11}, {40, 24, 3, 3}, "padding=1 activation=relu", true, true},
    {"conv2d", {1, 40, 9, 8}, {33, 40, 1, 1}, "stride=2", true},
    {"conv2d", {3, 32, 7, 7}, {150, 16, 3, 2}, "groups=2 padding=[1,0] dilation=[1,2]", true, true},
    {"conv2d", {1, 128, 5, 5}, {96, 128, 3, 3}, "padding=[1,2,0,1] stride=[2,1] activation=leaky_relu"},
    {"conv1d", {2, 16, 90}, {130, 16, 5}, "padding=2", true},
    {"conv2d", {1, 256, 7, 6}, {70, 256, 1, 1}, "", true, true},
};

}  // namespace

int main() {
  Candidates candidates;
  if (candidates.no_devices()) {
    std::printf("no OpenCL device here: nothing to test\n");
    return 0;
  }
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
  for (DType dtype : {DType::f16, DType::bf16})
    for (int i : {1, 2, 6, 9, 15}) run(cases[i], dtype);
  for (int i : {0, 1, 6, 7, 9, 15}) run(cases[i], DType::f32, true);
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
  candidates.more = {opencl::list_conv_local};
  number = turn = 0;
  candidates.filter = [&](const Candidate& candidate) {
    return candidate.implementation == "conv_fwd_local" && number++ % 2 == 0;
  };
  for (const Case& c : cases)
    if (std::string(c.name).rfind("conv_transpose", 0) != 0) run(c, DType::f32);
  run(cases[2], DType::f16);
  // So is what is meant for matrix units, without their instructions: every plan, whole sums and sums of parts.
  candidates.more = {opencl::list_conv_mma};
  candidates.filter = [](const Candidate& candidate) { return candidate.implementation.rfind("conv_fwd_mma", 0) == 0; };
  for (const Case& c : matrix_cases) check(candidates, c, DType::f32);
  for (DType dtype : {DType::f16, DType::bf16})
    for (int i : {0, 2, 3}) check(candidates, matrix_cases[i], dtype);
  for (int i : {0, 1, 3}) check(candidates, matrix_cases[i], DType::f32, true);
  for (const std::string& name : candidates.implementations) std::printf("ran %s\n", name.c_str());
  return 0;
}
