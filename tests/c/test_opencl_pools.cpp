// Pools: windows, adaptive and global ones, on every OpenCL device, against
// references in double precision, in every layout the provider offers, with 1 to 3 spatial dimensions.
#include "opencl_elements.h"
#include "opencl_pools.h"

using namespace pl;
using namespace pl::opencl_testing;

namespace {

SETUP() { unoptimised_on_pocl(); }

TEST("pool") {
  const auto check = [](const char* name, const char* attributes, const Input& x) {
    run(
        name, attributes, {x}, [&](const Op& op, const Dims& index) { return pooled(op, x, index); }, 4, 1e-6);
  };
  Input x = random_input(DType::f32, {2, 9, 7, 6});
  check("avg_pool2d", "kernel_size=[3,2] stride=2 padding=[1,0,1,1] ceil_mode=true", x);
  check("avg_pool2d", "kernel_size=3 stride=2 padding=1 count_include_pad=false", x);
  x.values[20] = kNan, x.values[100] = kInf, x.values[120] = -kInf;
  check("max_pool2d", "kernel_size=3 stride=2 padding=1 ceil_mode=true", x);
  check("max_pool1d", "kernel_size=3 stride=1 padding=2 dilation=2", random_input(DType::bf16, {2, 9, 11}));
  check("avg_pool1d", "kernel_size=4 padding=2", random_input(DType::f16, {2, 9, 11}));
  check("max_pool3d", "kernel_size=2 stride=1", random_input(DType::s8, {1, 9, 3, 4, 5}));
  check("avg_pool3d", "kernel_size=[2,3,2] padding=[1,1,0]", random_input(DType::f32, {1, 9, 3, 4, 5}));
  // Channels in fours.
  Input quads = random_input(DType::f32, {2, 12, 9, 11});
  check("avg_pool2d", "kernel_size=[3,2] stride=2 padding=[1,0,1,1] ceil_mode=true", quads);
  check("avg_pool2d", "kernel_size=3 stride=1 padding=1 count_include_pad=false", quads);
  check("avg_pool2d", "kernel_size=[5,7] stride=[2,3] padding=2", quads);
  quads.values[20] = kNan, quads.values[100] = kInf, quads.values[120] = -kInf;
  check("max_pool2d", "kernel_size=3 stride=2 padding=1 ceil_mode=true", quads);
  check("max_pool2d", "kernel_size=[2,3] stride=[3,1] padding=[1,2] dilation=[1,2]", quads);
  for (DType dtype : {DType::f16, DType::bf16}) {
    check("max_pool1d", "kernel_size=3 stride=2 padding=1", random_input(dtype, {2, 20, 11}));
    check("avg_pool2d", "kernel_size=2", random_input(dtype, {1, 20, 6, 7}));
  }
  Input low = random_input(DType::s64, {1, 3, 6}, -90, -80);
  check("max_pool1d", "kernel_size=2 padding=1", low);
  // A dilated window that steps over the whole input.
  run("max_pool1d", "kernel_size=2 dilation=2 padding=1", {random_input(DType::f32, {1, 2, 1})},
      [](const Op&, const Dims&) { return -kInf; });
}

Input low_input(const Dims& shape) {
  Input x = random_input(DType::f32, shape);
  for (double& value : x.values) value = -kInf;
  return x;
}

TEST("adaptive_pool") {
  const auto check = [](const char* name, const char* attributes, const Input& x) {
    run(
        name, attributes, {x},
        [&](const Op& op, const Dims& out) {
          const Dims in = spatial_part(x.desc.shape);
          double sum = 0, best = -kInf, count = 0;
          each(in, [&](const Dims& k) {
            Dims index = out;
            for (int d = 0; d < in.size(); ++d) {
              const int64_t sizes = op.out().shape[2 + d], q = out[2 + d];
              if (k[d] < q * in[d] / sizes || k[d] * sizes >= (q + 1) * in[d]) return;
              index[2 + d] = k[d];
            }
            sum += at(x, index);
            best = larger(best, at(x, index));
            ++count;
          });
          return op.attributes[attr::mode] == "max" ? best : sum / count;
        },
        4, 1e-6);
  };
  Input x = random_input(DType::f32, {2, 9, 7, 6});
  check("global_avg_pool", "", x);
  check("adaptive_avg_pool2d", "output_size=[3,4]", x);
  x.values[20] = kNan;
  check("adaptive_max_pool2d", "output_size=[3,4]", x);
  check("adaptive_avg_pool1d", "output_size=9", random_input(DType::f16, {2, 9, 5}));
  check("adaptive_max_pool3d", "output_size=2", random_input(DType::bf16, {1, 9, 3, 4, 5}));
  // Channels in fours: one part, and several.
  check("global_avg_pool", "", random_input(DType::f32, {3, 20, 7, 6}));
  check("global_avg_pool", "", random_input(DType::f16, {2, 4, 3, 4, 5}));
  check("adaptive_avg_pool1d", "output_size=1", random_input(DType::bf16, {2, 36, 5}));
  check("global_avg_pool", "", random_input(DType::f32, {2, 12, 49, 51}));
  Input large = random_input(DType::f32, {2, 12, 49, 51});
  large.values[3000] = kNan, large.values[9000] = kInf;
  check("global_max_pool", "", large);
  run("global_max_pool", "", {low_input({1, 4, 3, 3})}, [](const Op&, const Dims&) { return -kInf; });
}

}  // namespace
