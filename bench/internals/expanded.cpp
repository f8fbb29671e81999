// Would a 1x1 convolution and the depthwise one after it gain from being one step?  Both are run for all channels one
// after the other, and for a few vectors of channels at a time through a buffer that stays in the cache: in channels
// blocked by a vector no sum of either needs more.
//
//   expanded > results
//
// One thread, one image, by the core's own time: the least of many runs.  A line for each pair of layers of
// MobileNetV2 and EfficientNet-B0: microseconds apart, together, and their ratio.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <limits>
#include <random>
#include <vector>

#include "providers/host/conv/conv_kernels.h"

namespace {

using namespace pl::host;

constexpr int kRuns = 60;

double now_us() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return double(now.tv_sec) * 1e6 + double(now.tv_nsec) * 1e-3;
}

struct Pair {
  const char* network;
  int64_t inputs, expanded, size, kernel, stride;  // square images
  Finish::Kind finish;
};

std::vector<float> values(int64_t count) {
  std::minstd_rand random(1);
  std::vector<float> list(static_cast<size_t>(count));
  for (float& value : list) value = float(random() % 2001) * 1e-3f - 1;
  return list;
}

// The result of all channels, `plane` pixels in rows of `row`, blocked by `width`.
Result result_of(const Pair& pair, int64_t width, int64_t plane, int64_t row, const std::vector<float>& bias) {
  Result result;
  result.bias = bias.data();
  result.has_bias = true;
  result.channels = pair.expanded;
  result.image = plane * pair.expanded;
  result.row = row * width;
  result.pixel = width;
  result.vector = plane * width;
  result.padded = true;
  result.ending.finish.kind = pair.finish;
  if (pair.finish == Finish::Kind::clamp) result.ending.finish.low = 0, result.ending.finish.high = 6;
  return result;
}

void measure(const Pair& pair) {
  const ConvKernels& kernels = conv_kernels();
  const int64_t width = kernels.width, vectors = pair.expanded / width, plane = pair.size * pair.size;
  const int64_t border = pair.kernel / 2, out = (pair.size + 2 * border - pair.kernel) / pair.stride + 1;
  const auto x = values(pair.inputs * plane), filters = values(pair.inputs * pair.expanded),
             bias = values(pair.expanded);
  const auto taps = values(pair.expanded * pair.kernel * pair.kernel);
  std::vector<float> whole(size_t(pair.expanded * plane)), few(size_t(4 * width * plane)),
      y(size_t(pair.expanded * out * out));

  Pointwise pointwise;
  pointwise.x = x.data();
  pointwise.weights = filters.data();
  pointwise.inputs = pair.inputs;
  pointwise.images = pointwise.rows = 1;
  pointwise.columns = plane;
  pointwise.x_image = pair.inputs * plane;
  pointwise.x_pixel = pointwise.chunk = pair.inputs % width ? pair.inputs : width;
  pointwise.x_chunk = pointwise.chunk * plane;
  pointwise.result = result_of(pair, width, plane, pair.size, bias);

  Depthwise depthwise;
  depthwise.weights = taps.data();
  depthwise.in_h = depthwise.in_w = pair.size;
  depthwise.out_h = depthwise.out_w = out;
  depthwise.kernel_h = depthwise.kernel_w = pair.kernel;
  depthwise.stride_h = depthwise.stride_w = pair.stride;
  depthwise.dilation_h = depthwise.dilation_w = 1;
  depthwise.begin_h = depthwise.begin_w = border;
  depthwise.x_image = pair.expanded * plane;
  depthwise.x_row = pair.size * width;
  depthwise.x_pixel = width;
  depthwise.x_vector = plane * width;
  depthwise.result = result_of(pair, width, out * out, out, bias);
  depthwise.result.y = y.data();

  // `group` vectors of channels at a time; the buffer holds those from `first` on.
  const auto run = [&](float* buffer, int64_t first, int64_t last, int group) {
    Pointwise expand = pointwise;
    expand.result.y = buffer - first * pointwise.result.vector;
    kernels.pointwise(expand, 0, plane, first, last, group);
    Depthwise reduce = depthwise;
    reduce.x = expand.result.y;
    kernels.depthwise(reduce, 0, first, last, 0, out);
  };
  double apart = std::numeric_limits<double>::infinity(), together = apart;
  for (int i = 0; i < kRuns; ++i)
    for (int group = 1; group <= kernels.tile_vectors; ++group) {
      double begin = now_us();
      run(whole.data(), 0, vectors, group);
      apart = std::min(apart, now_us() - begin);
      begin = now_us();
      for (int64_t v = 0; v < vectors; v += group) run(few.data(), v, std::min(vectors, v + group), group);
      together = std::min(together, now_us() - begin);
    }
  std::printf("%-16s %3ld -> %4ld at %3ld, %ldx%ld/%ld  %7.1f %7.1f  %.3f\n", pair.network, long(pair.inputs),
              long(pair.expanded), long(pair.size), long(pair.kernel), long(pair.kernel), long(pair.stride), apart,
              together, apart / together);
}

}  // namespace

int main() {
  const auto clamp = Finish::Kind::clamp, silu = Finish::Kind::silu;
  for (const Pair& pair : {
           Pair{"mobilenet_v2", 16, 96, 112, 3, 2, clamp},
           Pair{"mobilenet_v2", 24, 144, 56, 3, 1, clamp},
           Pair{"mobilenet_v2", 24, 144, 56, 3, 2, clamp},
           Pair{"mobilenet_v2", 32, 192, 28, 3, 1, clamp},
           Pair{"mobilenet_v2", 32, 192, 28, 3, 2, clamp},
           Pair{"mobilenet_v2", 64, 384, 14, 3, 1, clamp},
           Pair{"mobilenet_v2", 96, 576, 14, 3, 1, clamp},
           Pair{"mobilenet_v2", 160, 960, 7, 3, 1, clamp},
           Pair{"efficientnet_b0", 16, 96, 112, 3, 2, silu},
           Pair{"efficientnet_b0", 24, 144, 56, 3, 1, silu},
           Pair{"efficientnet_b0", 24, 144, 56, 5, 2, silu},
           Pair{"efficientnet_b0", 40, 240, 28, 5, 1, silu},
           Pair{"efficientnet_b0", 80, 480, 14, 3, 1, silu},
           Pair{"efficientnet_b0", 112, 672, 14, 5, 1, silu},
           Pair{"efficientnet_b0", 192, 1152, 7, 5, 1, silu},
       })
    measure(pair);
  return 0;
}
