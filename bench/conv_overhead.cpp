// What a convolution costs through pl_op_run, against the same convolution written by hand on oneDNN: same layout,
// same threads, prepacked weights, the two taking turns.
//
//   cmake -S . -B build -G Ninja -DPYLAYOUT_BENCH=ON && ninja -C build conv_overhead
//   build/bench/conv_overhead [batch]
//
// One row for each distinct convolution of ResNet-50 and layout: microseconds of both (the lower quartile of samples
// during which no other program took a processor away) and their ratio, with the implementation each uses.  The
// hand-written call uses the one that oneDNN lists first; pylayout uses the one it measured fastest, so a ratio may
// lie below 1.  Both read the same input, in the same pages.  Before a sample of a convolution with large weights the
// caches are filled with other bytes, on both sides; then a small convolution runs the same way and the input is read
// again: so it is within a network, where the layer before has left its result and the code of oneDNN and of pl_op_run
// in the caches, and for that pylayout measured.  Who goes first changes every round.  A row above 1.05 is taken twice
// more, and the median of the three ratios counts: `all` lists them.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <vector>

#include <sys/resource.h>

#include "pylayout.h"

namespace {

struct Shape {
  int64_t channels, size, outputs, kernel, stride;
};
// The distinct convolutions of ResNet-50 (He et al., 2015) at 224 x 224.
const Shape kShapes[] = {
    {3, 224, 64, 7, 2},     {64, 56, 64, 1, 1},   {64, 56, 64, 3, 1},    {64, 56, 256, 1, 1},   {256, 56, 64, 1, 1},
    {256, 56, 128, 1, 1},   {128, 56, 128, 3, 2}, {128, 28, 512, 1, 1},  {256, 56, 512, 1, 2},  {512, 28, 128, 1, 1},
    {128, 28, 128, 3, 1},   {512, 28, 256, 1, 1}, {256, 28, 256, 3, 2},  {256, 14, 1024, 1, 1}, {512, 28, 1024, 1, 2},
    {1024, 14, 256, 1, 1},  {256, 14, 256, 3, 1}, {1024, 14, 512, 1, 1}, {512, 14, 512, 3, 2},  {512, 7, 2048, 1, 1},
    {1024, 14, 2048, 1, 2}, {2048, 7, 512, 1, 1}, {512, 7, 512, 3, 1},
};

void check(pl_status status) {
  if (status == PL_OK) return;
  std::fprintf(stderr, "conv_overhead: %s\n", pl_last_error());
  std::exit(1);
}

double lower_quartile(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[(values.size() - 1) / 4];
}

// Fills the caches with bytes of no use, by reading: so do the weights of a network's other layers.
void forget_all() {
  static const std::vector<char> far(size_t(96) << 20, 1);  // larger than last-level caches
  const int64_t lines = int64_t(far.size() / 64);
  int sum = 0;
#pragma omp parallel for schedule(static) reduction(+ : sum)
  for (int64_t i = 0; i < lines; ++i) sum += far[size_t(i) * 64];
  volatile int kept = sum;
  (void)kept;
}

// Brings `x` into the caches, and leaves the threads of the pool awake.
void read_input(const float* x, int64_t count) {
  float sum = 0;
#pragma omp parallel for schedule(static) reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) sum += x[i];
  volatile float kept = sum;
  (void)kept;
}

long preemptions() {
  struct rusage usage {};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nivcsw;
}

// Samples of one side; those during which a processor was taken away count only where there are hardly any others.
struct Samples {
  std::vector<double> clean, all;
  double us() const { return lower_quartile(clean.size() >= 5 ? clean : all); }
};

// The first candidate that `pl_op_query` lists: the one that runs.
std::string chosen(pl_context context, pl_attributes attributes, const pl_tensor* inputs) {
  char* json = nullptr;
  if (pl_op_query(context, "conv2d", attributes, inputs, 2, &json) != PL_OK) return "?";
  std::string found = "?";
  const char key[] = "\"implementation\": \"";
  if (const char* at = std::strstr(json, key))
    found.assign(at + sizeof key - 1, std::strcspn(at + sizeof key - 1, "\""));
  pl_string_free(json);
  return found;
}

template <class Run>
double time_us(Run run, int repeat) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < repeat; ++i) run();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() / repeat;
}

std::vector<float> random_values(size_t count) {
  std::vector<float> values(count);
  uint32_t state = 1;
  for (float& value : values) value = float((state = state * 1664525u + 1013904223u) >> 8) / 16777216.0f - 0.5f;
  return values;
}

// A 1x1 convolution of 16 channels in NHWC.
struct Small {
  std::vector<float> x_values, w_values = std::vector<float>(16 * 16, 1.0f);
  pl_tensor plain = nullptr, x = nullptr, w = nullptr;
  pl_attributes attributes = nullptr;
  dnnl::convolution_forward convolution;
  std::unordered_map<int, dnnl::memory> arguments;

  Small(pl_context context, const dnnl::engine& cpu, int64_t size) : x_values(size_t(16 * size * size), 1.0f) {
    using namespace dnnl;
    const int64_t x_shape[] = {1, 16, size, size}, w_shape[] = {16, 16, 1, 1};
    check(pl_tensor_borrow(context, PL_F32, 4, x_shape, NULL, NULL, x_values.data(), NULL, NULL, &plain));
    check(pl_tensor_borrow(context, PL_F32, 4, w_shape, NULL, NULL, w_values.data(), NULL, NULL, &w));
    check(pl_tensor_convert(plain, NULL, "NHWC", NULL, &x));
    check(pl_attributes_create("layout=NHWC", &attributes));
    const auto f32 = memory::data_type::f32;
    const memory::desc desc({1, 16, size, size}, f32, memory::format_tag::nhwc);
    convolution_forward::primitive_desc pd(cpu, prop_kind::forward_inference, algorithm::convolution_direct, desc,
                                           memory::desc({16, 16, 1, 1}, f32, memory::format_tag::any), desc, {1, 1},
                                           {0, 0}, {0, 0});
    memory x_memory(desc, cpu), w_memory(pd.weights_desc(), cpu), y_memory(desc, cpu);
    std::memset(x_memory.get_data_handle(), 0, desc.get_size());
    std::memset(w_memory.get_data_handle(), 0, pd.weights_desc().get_size());
    convolution = convolution_forward(pd);
    arguments = {{DNNL_ARG_SRC, x_memory}, {DNNL_ARG_WEIGHTS, w_memory}, {DNNL_ARG_DST, y_memory}};
  }
  ~Small() {
    pl_attributes_release(attributes);
    for (pl_tensor tensor : {plain, x, w}) pl_tensor_release(tensor);
  }
  Small(const Small&) = delete;
  void run(pl_context context) const {
    const pl_tensor inputs[] = {x, w};
    pl_tensor result = nullptr;
    check(pl_op_run(context, "conv2d", attributes, inputs, 2, &result, 1, nullptr));
    check(pl_tensor_release(result));
  }
};

}  // namespace

int main(int argc, char** argv) {
  using namespace dnnl;
  const int64_t batch = argc > 1 ? std::atoll(argv[1]) : 1;
  pl_context context = nullptr;
  check(pl_context_create("opencl=false", &context));
  engine cpu(engine::kind::cpu, 0);
  stream stream(cpu);
  // What stands for the layer before, both ways.
  const Small small(context, cpu, 8);
  const auto run_by_hand = [&](const Small& one) {
    one.convolution.execute(stream, one.arguments);
    stream.wait();
  };
  const auto small_by_hand = [&] { run_by_hand(small); };
  const auto small_through = [&] { small.run(context); };
  std::printf("%-24s %-8s %10s %10s %7s  %-28s %-28s %s\n", "ic,size,oc,k,s", "layout", "onednn us", "pylayout",
              "ratio", "onednn's", "pylayout's", "all");
  std::vector<double> ratios;
  for (const Shape& s : kShapes) {
    const int64_t pad = s.kernel / 2, out = (s.size + 2 * pad - s.kernel) / s.stride + 1;
    const memory::dims x_dims{batch, s.channels, s.size, s.size}, w_dims{s.outputs, s.channels, s.kernel, s.kernel},
        y_dims{batch, s.outputs, out, out};
    const auto x_values = random_values(size_t(batch * s.channels * s.size * s.size));
    const auto w_values = random_values(size_t(s.outputs * s.channels * s.kernel * s.kernel));
    for (const auto& [name, tag] : {std::pair<const char*, memory::format_tag>{"NCHW", memory::format_tag::nchw},
                                    {"NHWC", memory::format_tag::nhwc},
                                    {"nChw16c", memory::format_tag::nChw16c}}) {
      if (s.channels < 16 && tag == memory::format_tag::nChw16c) continue;  // nobody stores an image so
      // By hand.
      const auto f32 = memory::data_type::f32;
      const memory::desc x_desc(x_dims, f32, tag), y_desc(y_dims, f32, tag);
      convolution_forward::primitive_desc pd(cpu, prop_kind::forward_inference, algorithm::convolution_direct, x_desc,
                                             memory::desc(w_dims, f32, memory::format_tag::any), y_desc,
                                             {s.stride, s.stride}, {pad, pad}, {pad, pad});
      memory w_user({w_dims, f32, memory::format_tag::oihw}, cpu, const_cast<float*>(w_values.data()));
      // Both read the same input: which pages it has got, and how it is aligned, makes differences of 5 to 10%.
      pl_tensor px, pw, packed;
      memory x_user({x_dims, f32, memory::format_tag::nchw}, cpu);  // aligned
      std::memcpy(x_user.get_data_handle(), x_values.data(), x_values.size() * sizeof(float));
      void* x_data = x_user.get_data_handle();
      check(pl_tensor_borrow(context, PL_F32, 4, x_dims.data(), NULL, NULL, x_data, NULL, NULL, &px));
      check(pl_tensor_convert(px, NULL, name, NULL, &packed));
      void* packed_data = nullptr;
      check(pl_tensor_data(packed, &packed_data));
      memory x(x_desc, cpu, packed_data), w(pd.weights_desc(), cpu), y(y_desc, cpu);
      reorder(w_user, w).execute(stream, w_user, w);
      convolution_forward convolution(pd);
      const std::unordered_map<int, memory> arguments{{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DST, y}};
      const auto by_hand = [&] {
        convolution.execute(stream, arguments);
        stream.wait();
      };
      // Through pylayout, the same layout forced.
      check(pl_tensor_borrow(context, PL_F32, 4, w_dims.data(), NULL, NULL, const_cast<float*>(w_values.data()), NULL,
                             NULL, &pw));
      pl_attributes attributes;
      const std::string text =
          "stride=" + std::to_string(s.stride) + " padding=" + std::to_string(pad) + " layout=" + name;
      check(pl_attributes_create(text.c_str(), &attributes));
      const pl_tensor inputs[] = {packed, pw};
      const auto through = [&] {
        pl_tensor result = nullptr;
        check(pl_op_run(context, "conv2d", attributes, inputs, 2, &result, 1, nullptr));
        check(pl_tensor_release(result));
      };
      for (int i = 0; i < 3; ++i) {
        by_hand();
        through();
      }
      const bool cold = s.outputs * s.channels * s.kernel * s.kernel * 4 >= 256 << 10;  // as dispatch/measure.cpp
      const int repeat = cold ? 1 : std::max(1, int(500 / time_us(by_hand, 1)));
      const int64_t x_count = batch * s.channels * s.size * s.size;
      const auto sample = [&](Samples& samples, const auto& run, const auto& before) {
        if (cold) {
          forget_all();
          before();
          read_input(static_cast<const float*>(packed_data), x_count);
        }
        const long preempted = preemptions();
        const double us = time_us(run, repeat);
        if (preemptions() == preempted) samples.clean.push_back(us);
        samples.all.push_back(us);
      };
      double hand = 0, ours = 0;
      std::vector<double> tries;
      for (int attempt = 0; attempt < 3 && (attempt == 0 || tries[0] > 1.05); ++attempt) {
        Samples a, b;
        for (int round = 0; round < 150 && (round < 30 || a.clean.size() < 30 || b.clean.size() < 30); ++round) {
          const auto one = [&] { sample(a, by_hand, small_by_hand); };
          const auto other = [&] { sample(b, through, small_through); };
          if (round % 2)
            one(), other();
          else
            other(), one();
        }
        hand = a.us(), ours = b.us();
        tries.push_back(ours / hand);
      }
      std::string listed;
      for (double ratio : tries) listed += (listed.empty() ? "" : " ") + std::to_string(ratio).substr(0, 5);
      std::sort(tries.begin(), tries.end());
      const double ratio = tries[tries.size() / 2];
      ratios.push_back(ratio);
      char shape[64];
      std::snprintf(shape, sizeof shape, "%lld,%lld,%lld,%lld,%lld", (long long)s.channels, (long long)s.size,
                    (long long)s.outputs, (long long)s.kernel, (long long)s.stride);
      std::printf("%-24s %-8s %10.1f %10.1f %7.3f  %-28s %-28s %s\n", shape, name, hand, ours, ratio,
                  pd.impl_info_str(), chosen(context, attributes, inputs).c_str(), listed.c_str());
      std::fflush(stdout);
      pl_attributes_release(attributes);
      for (pl_tensor tensor : {px, pw, packed}) pl_tensor_release(tensor);
    }
  }
  long within = 0;
  for (double ratio : ratios) within += ratio <= 1.05;
  double log_sum = 0;
  for (double ratio : ratios) log_sum += std::log(ratio);
  std::sort(ratios.begin(), ratios.end());
  std::printf("pylayout / onednn: %ld of %zu rows at most 1.05, geometric mean %.3f, median %.3f, largest %.3f\n",
              within, ratios.size(), std::exp(log_sum / double(ratios.size())), ratios[ratios.size() / 2],
              ratios.back());
  // What a call costs by itself where code is in the caches and nothing else: a share of every cold row above.
  const Small another(context, cpu, 6);
  Samples hand, ours;
  for (int round = 0; round < 60; ++round) {
    const auto take = [&](Samples& samples, const auto& before, const auto& run) {
      forget_all();
      before();
      const long preempted = preemptions();
      const double us = time_us(run, 1);
      if (preemptions() == preempted) samples.clean.push_back(us);
      samples.all.push_back(us);
    };
    take(hand, small_by_hand, [&] { run_by_hand(another); });
    take(ours, small_through, [&] { another.run(context); });
  }
  std::printf("a call whose own data are cold: %.1f us by hand, %.1f through pylayout\n", hand.us(), ours.us());
  check(pl_context_release(context));
  return 0;
}
