// What a convolution costs through pl_op_run, against the same convolution written by hand on oneDNN: same layout,
// same threads, prepacked weights, taking turns; and what of that this program cannot tell apart.
//
//   cmake -S . -B build -G Ninja -DPYLAYOUT_BENCH=ON && ninja -C build conv_overhead
//   build/bench/conv_overhead [batch] [ic,size,oc,k,s]
//
// One row for each distinct convolution of ResNet-50 and layout.  Three sides take turns: the hand-written call;
// a second hand-written call, with a primitive, weights, output and scratchpad of its own (the control); and pylayout.
// All read the same input.  The first alone uses the scratchpad that oneDNN keeps for all primitives, which would be
// used twice a turn, and pylayout's once, if the control used it too: of a convolution by im2col in NCHW, 2 to 8%
// where four sides shared it.
// The order of a turn goes through all six.  A ratio is the median over turns of that turn's ratio to the first
// hand-written call, so that a machine whose speed drifts changes both parts of it; turns in which another program took
// a processor away count only where there are hardly any others.
//
// The hand-written call uses the implementation that oneDNN lists first; pylayout uses the one it measured fastest, so
// a ratio may lie below 1.  The control's would be 1 throughout if a ratio said something about the call alone; which
// physical pages weights and output have got, and what others do to the memory, also makes it differ.  A row or
// a control above 1.05 is therefore taken again, twice, with three times the turns and new memory for weights and
// outputs of all sides: the column `again`.  It is a miss if the median of the three readings is above 1.05 as well.
// The summary counts rows and controls, each at first reading and after repetition.
//
// Before a sample of a convolution with large weights the caches are filled with other bytes, on all sides; then
// a small convolution runs both ways and the input is read again: so it is within a network, where the layer before
// has left its result and the code of oneDNN and of pl_op_run in the caches, and for that pylayout measured.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <unordered_map>
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

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
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

// Times of the sides in one turn, in microseconds.
enum Side { kHand, kControl, kThrough, kSides };
struct Turn {
  double us[kSides];
};

// What turns say: the median time of each side, and of each turn's ratio to the hand-written call.
struct Reading {
  double us[kSides], ratio[kSides];
  explicit Reading(const std::vector<Turn>& turns) {
    for (int side = 0; side < kSides; ++side) {
      std::vector<double> times, ratios;
      for (const Turn& turn : turns) {
        times.push_back(turn.us[side]);
        ratios.push_back(turn.us[side] / turn.us[kHand]);
      }
      us[side] = median(times);
      ratio[side] = median(ratios);
    }
  }
};

// Turns of all sides, each time in another order, until `wanted` of them were left alone by other programs, but at
// most three times as many, and for four seconds.  `sample(side)` takes one sample and returns microseconds.
template <class Sample>
Reading take_turns(int wanted, const Sample& sample) {
  static const Side orders[6][kSides] = {{kHand, kControl, kThrough}, {kThrough, kControl, kHand},
                                         {kControl, kThrough, kHand}, {kHand, kThrough, kControl},
                                         {kThrough, kHand, kControl}, {kControl, kHand, kThrough}};
  std::vector<Turn> clean, all;
  const auto start = std::chrono::steady_clock::now();
  const auto in_time = [&] { return std::chrono::steady_clock::now() - start < std::chrono::seconds(4); };
  for (int turn = 0; turn < 6 || (turn < 3 * wanted && int(clean.size()) < wanted && in_time()); ++turn) {
    Turn taken;
    bool disturbed = false;
    for (Side side : orders[turn % 6]) {
      const long preempted = preemptions();
      taken.us[side] = sample(side);
      disturbed = disturbed || preemptions() != preempted;
    }
    if (!disturbed) clean.push_back(taken);
    all.push_back(taken);
  }
  return Reading(int(clean.size()) * 4 >= wanted ? clean : all);
}

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

// The hand-written call, with a primitive and memory of its own.
class ByHand {
 public:
  ByHand(const dnnl::engine& cpu, dnnl::stream& stream, const dnnl::convolution_forward::primitive_desc& pd,
         dnnl::memory w_user, const dnnl::memory& x)
      : stream_(stream), convolution_(pd), w_(pd.weights_desc(), cpu), y_(pd.dst_desc(), cpu) {
    dnnl::reorder(w_user, w_).execute(stream_, w_user, w_);
    stream_.wait();
    arguments_ = {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w_}, {DNNL_ARG_DST, y_}};
    // Empty unless the primitive was made to be given one.
    arguments_.insert({DNNL_ARG_SCRATCHPAD, dnnl::memory(pd.scratchpad_desc(), cpu)});
  }
  void run() const {
    convolution_.execute(stream_, arguments_);
    stream_.wait();
  }

 private:
  dnnl::stream& stream_;
  dnnl::convolution_forward convolution_;
  dnnl::memory w_, y_;
  std::unordered_map<int, dnnl::memory> arguments_;
};

constexpr int kTurns = 40;
constexpr double kBar = 1.05;

class Benchmark {
 public:
  explicit Benchmark(int64_t batch) : batch_(batch), cpu_(dnnl::engine::kind::cpu, 0), stream_(cpu_) {
    check(pl_context_create("opencl=false", &context_));
    small_ = std::make_unique<Small>(context_, cpu_, 8);
  }
  ~Benchmark() {
    small_.reset();
    pl_context_release(context_);
  }
  Benchmark(const Benchmark&) = delete;

  void row(const Shape& shape, const std::string& text, const char* layout, dnnl::memory::format_tag tag);
  void summary() const;
  void small_call();

 private:
  void run_small(Side side, const Small& small) {
    if (side == kThrough) return small.run(context_);
    small.convolution.execute(stream_, small.arguments);
    stream_.wait();
  }
  // The layer before, both ways, the side's own last.  Pylayout may run it on an implementation of its own: by that
  // alone oneDNN's code would come from memory for pylayout's sample, which made 8 us a call.
  void run_before(Side side) {
    run_small(side == kThrough ? kHand : kThrough, *small_);
    run_small(side, *small_);
  }

  int64_t batch_;
  pl_context context_ = nullptr;
  dnnl::engine cpu_;
  dnnl::stream stream_;
  std::unique_ptr<Small> small_;  // what stands for the layer before
  std::vector<double> first_[kSides], final_[kSides];
};

void Benchmark::row(const Shape& s, const std::string& text, const char* layout, dnnl::memory::format_tag tag) {
  using namespace dnnl;
  const int64_t pad = s.kernel / 2, out = (s.size + 2 * pad - s.kernel) / s.stride + 1;
  const memory::dims x_dims{batch_, s.channels, s.size, s.size}, w_dims{s.outputs, s.channels, s.kernel, s.kernel},
      y_dims{batch_, s.outputs, out, out};
  const int64_t x_count = batch_ * s.channels * s.size * s.size;
  const int64_t w_count = s.outputs * s.channels * s.kernel * s.kernel;
  const auto x_values = random_values(size_t(x_count)), w_values = random_values(size_t(w_count));
  const auto f32 = memory::data_type::f32;
  const memory::desc x_desc(x_dims, f32, tag), y_desc(y_dims, f32, tag);
  const auto described = [&](scratchpad_mode mode) {
    primitive_attr attr;
    attr.set_scratchpad_mode(mode);
    return convolution_forward::primitive_desc(cpu_, prop_kind::forward_inference, algorithm::convolution_direct,
                                               x_desc, memory::desc(w_dims, f32, memory::format_tag::any), y_desc,
                                               {s.stride, s.stride}, {pad, pad}, {pad, pad}, attr);
  };
  const auto pd = described(scratchpad_mode::library), own_pd = described(scratchpad_mode::user);
  // One input for all: which pages it has got, and how it is aligned, makes differences of 5 to 10%.
  memory x_user({x_dims, f32, memory::format_tag::nchw}, cpu_);  // aligned
  // Weights are used where they lie in NCHW: beside the copy that the hand-written call has, aligned like it.
  memory w_user({w_dims, f32, memory::format_tag::oihw}, cpu_);
  std::memcpy(w_user.get_data_handle(), w_values.data(), w_values.size() * sizeof(float));
  std::memcpy(x_user.get_data_handle(), x_values.data(), x_values.size() * sizeof(float));
  pl_tensor px = nullptr, packed = nullptr;
  void* data = nullptr;
  check(pl_tensor_borrow(context_, PL_F32, 4, x_dims.data(), NULL, NULL, x_user.get_data_handle(), NULL, NULL, &px));
  check(pl_tensor_convert(px, NULL, layout, NULL, &packed));
  check(pl_tensor_data(packed, &data));
  const memory x(x_desc, cpu_, data);
  pl_attributes attributes = nullptr;
  const std::string given =
      "stride=" + std::to_string(s.stride) + " padding=" + std::to_string(pad) + " layout=" + layout;
  check(pl_attributes_create(given.c_str(), &attributes));
  const bool cold = w_count * 4 >= 256 << 10;  // as dispatch/measure.cpp

  std::string implementation;
  // With new memory for weights and outputs.
  const auto read = [&](int turns) {
    const ByHand hand(cpu_, stream_, pd, w_user, x), control(cpu_, stream_, own_pd, w_user, x);
    pl_tensor pw = nullptr;
    check(pl_tensor_borrow(context_, PL_F32, 4, w_dims.data(), NULL, NULL, w_user.get_data_handle(), NULL, NULL, &pw));
    const pl_tensor inputs[] = {packed, pw};
    const auto run = [&](Side side) {
      if (side == kHand) return hand.run();
      if (side == kControl) return control.run();
      pl_tensor result = nullptr;
      check(pl_op_run(context_, "conv2d", attributes, inputs, 2, &result, 1, nullptr));
      check(pl_tensor_release(result));
    };
    for (int i = 0; i < 3; ++i)
      for (Side side : {kHand, kControl, kThrough}) run(side);
    const int repeat = cold ? 1 : std::max(1, int(500 / time_us([&] { run(kHand); }, 1)));
    const Reading reading = take_turns(turns, [&](Side side) {
      if (cold) {
        forget_all();
        run_before(side);
        read_input(static_cast<const float*>(data), x_count);
      }
      return time_us([&] { run(side); }, repeat);
    });
    implementation = chosen(context_, attributes, inputs);
    check(pl_tensor_release(pw));
    return reading;
  };
  std::vector<Reading> readings{read(kTurns)};
  const Reading& first = readings.front();
  if (std::max(first.ratio[kThrough], first.ratio[kControl]) > kBar)
    for (int i = 0; i < 2; ++i) readings.push_back(read(3 * kTurns));
  std::string again;
  for (size_t i = 1; i < readings.size(); ++i) {
    char pair[64];
    std::snprintf(pair, sizeof pair, "%s%.3f (%.3f)", i > 1 ? " " : "", readings[i].ratio[kThrough],
                  readings[i].ratio[kControl]);
    again += pair;
  }
  for (Side side : {kControl, kThrough}) {
    std::vector<double> ratios;
    for (const Reading& reading : readings) ratios.push_back(reading.ratio[side]);
    first_[side].push_back(ratios.front());
    // A side that was within the bar at first stays so, whatever the other was repeated for.
    final_[side].push_back(ratios.front() > kBar ? median(ratios) : ratios.front());
  }
  std::printf("%-20s %-8s %9.1f %9.1f %7.3f %8.3f  %-22s %-22s %s\n", text.c_str(), layout, readings[0].us[kHand],
              readings[0].us[kThrough], readings[0].ratio[kThrough], readings[0].ratio[kControl], pd.impl_info_str(),
              implementation.c_str(), again.c_str());
  std::fflush(stdout);
  pl_attributes_release(attributes);
  for (pl_tensor tensor : {px, packed}) pl_tensor_release(tensor);
}

void Benchmark::summary() const {
  const auto within = [](const std::vector<double>& ratios) {
    return long(std::count_if(ratios.begin(), ratios.end(), [](double ratio) { return ratio <= kBar; }));
  };
  const auto tell = [](const char* name, const std::vector<double>& ratios) {
    double log_sum = 0;
    for (double ratio : ratios) log_sum += std::log(ratio);
    std::printf("%s / onednn at first reading: geometric mean %.3f, median %.3f, largest %.3f\n", name,
                std::exp(log_sum / double(ratios.size())), median(ratios),
                *std::max_element(ratios.begin(), ratios.end()));
  };
  tell("pylayout", first_[kThrough]);
  tell("onednn", first_[kControl]);
  const size_t rows = first_[kThrough].size();
  std::printf(
      "of %zu rows at most %.2f: %ld at first reading, %ld after repetition (the largest %.3f); control, onednn "
      "against itself: %ld and %ld (%.3f)\n",
      rows, kBar, within(first_[kThrough]), within(final_[kThrough]),
      *std::max_element(final_[kThrough].begin(), final_[kThrough].end()), within(first_[kControl]),
      within(final_[kControl]), *std::max_element(final_[kControl].begin(), final_[kControl].end()));
}

// What a call costs by itself where code is in the caches and nothing else: a share of every cold row above.
void Benchmark::small_call() {
  const Small another(context_, cpu_, 6);
  const Reading reading = take_turns(60, [&](Side side) {
    forget_all();
    run_before(side);
    return time_us([&] { run_small(side, another); }, 1);
  });
  std::printf("a call whose own data are cold: %.1f us by hand, %.1f through pylayout\n", reading.us[kHand],
              reading.us[kThrough]);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string only = argc > 2 ? argv[2] : "";
  Benchmark benchmark(argc > 1 ? std::atoll(argv[1]) : 1);
  std::printf("%-20s %-8s %9s %9s %7s %8s  %-22s %-22s %s\n", "ic,size,oc,k,s", "layout", "onednn us", "pylayout",
              "ratio", "control", "onednn's", "pylayout's", "again (control)");
  bool any = false;
  for (const Shape& s : kShapes) {
    char text[64];
    std::snprintf(text, sizeof text, "%lld,%lld,%lld,%lld,%lld", (long long)s.channels, (long long)s.size,
                  (long long)s.outputs, (long long)s.kernel, (long long)s.stride);
    if (!only.empty() && only != text) continue;
    any = true;
    for (const auto& [layout, tag] :
         {std::pair<const char*, dnnl::memory::format_tag>{"NCHW", dnnl::memory::format_tag::nchw},
          {"NHWC", dnnl::memory::format_tag::nhwc},
          {"nChw16c", dnnl::memory::format_tag::nChw16c}})
      if (s.channels >= 16 || tag != dnnl::memory::format_tag::nChw16c)  // nobody stores an image so
        benchmark.row(s, text, layout, tag);
  }
  if (!any) {
    std::fprintf(stderr, "conv_overhead: no convolution of ResNet-50 is %s, expected ic,size,oc,k,s\n", only.c_str());
    return 1;
  }
  benchmark.small_call();
  benchmark.summary();
  return 0;
}
