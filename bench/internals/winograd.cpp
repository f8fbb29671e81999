// Winograd convolutions against oneDNN's: for each shape all candidates in NHWC and blocked layouts, timed in turns,
// and the error of each against sums in double.  bench/winograd.py feeds it and makes a table.
//
//   winograd [threads [seconds [warm|cold [text]]]] < shapes > results
//
// A shape is a line "n c h w oc": 3x3, stride 1, padding 1, with bias and ReLU.  "cold" evicts the weights before
// each run, as they are within a network whose weights exceed the caches.  With `text`, only candidates whose key has
// it.  A result is a line of JSON: {"shape": [...], "candidates": [{"key": KEY, "ms": MS, "error": E}, ...]}, the
// fastest first: the lower decile of the times (of one thread: of its processor's time), and the relative L2 error.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <iostream>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "core/json.h"
#include "core/threads.h"
#include "dispatch/context.h"

namespace {

using namespace pl;
using Clock = std::chrono::steady_clock;

// One thread's time is its processor's, which other programs disturb less.
bool processor_time = false;
double now_ms() {
  timespec now;
  clock_gettime(processor_time ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return double(now.tv_sec) * 1e3 + double(now.tv_nsec) * 1e-6;
}

struct Shape {
  int64_t n, c, h, w, oc;
};

Op convolution(const Shape& s) {
  const auto f32 = [](std::initializer_list<int64_t> shape) { return TensorDesc::dense(DType::f32, Dims(shape)); };
  Attributes attributes;
  attributes.set(attr::padding, int64_t(1));
  attributes.set(attr::activation, std::string("relu"));
  return make_op(*find_schema("conv2d"), attributes, {f32({s.n, s.c, s.h, s.w}), f32({s.oc, s.c, 3, 3}), f32({s.oc})});
}

// x, weights and bias in logical order.
using Values = std::vector<std::vector<float>>;

Values random_values(const Op& op) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  Values values;
  for (const TensorDesc& desc : op.inputs) {
    values.emplace_back();
    if (desc.present)
      for (int64_t i = 0; i < desc.elements(); ++i) values.back().push_back(normal(random));
  }
  return values;
}

class Contender {
 public:
  Contender(Device& device, const Candidate& candidate, const Values& values, bool cold)
      : candidate(candidate), kernel_(candidate.prepare()) {
    for (size_t i = 0; i < candidate.inputs.size(); ++i) {
      const TensorDesc& desc = candidate.inputs[i];
      inputs_.push_back(nullptr);
      if (!desc.present) continue;
      buffers_.push_back(device.allocate(desc.size_bytes()));
      inputs_.back() = buffers_.back().get();
      device.fill_zero(*buffers_.back(), 0, desc.size_bytes());
      place(desc, values[i], static_cast<float*>(buffers_.back()->host()));
    }
    packed_ = pack_inputs(device, candidate, inputs_);
    buffers_.push_back(device.allocate(candidate.outputs[0].size_bytes()));
    output_ = buffers_.back().get();
    if (candidate.workspace_bytes) buffers_.push_back(workspace_ = device.allocate(candidate.workspace_bytes));
    if (cold) evicted_ = inputs_[1];
  }
  double run_ms(int repeat) {
#if defined(__x86_64__)
    for (size_t i = 0; evicted_ && i < evicted_->bytes(); i += 64)
      _mm_clflush(static_cast<const char*>(evicted_->host()) + i);
    _mm_mfence();
#endif
    if (evicted_) repeat = 1;
    wake_threads();
    const double start = now_ms();
    for (int i = 0; i < repeat; ++i) kernel_->run({inputs_.data(), &output_, workspace_.get()});
    return (now_ms() - start) / repeat;
  }
  // Relative L2 error over some output channels of the first image.
  double error(const Op& op, const Values& values) {
    const Dims &x = op.in(0).shape, &y = op.out().shape;
    double difference = 0, norm = 0;
    for (int64_t o = 0; o < y[1]; o += std::max<int64_t>(1, y[1] / 3))
      for (int64_t r = 0; r < y[2]; r += std::max<int64_t>(1, y[2] / 16))
        for (int64_t c = 0; c < y[3]; ++c) {
          double sum = double(values[2][size_t(o)]);
          for (int64_t i = 0; i < x[1]; ++i)
            for (int64_t k = 0; k < 9; ++k) {
              const int64_t yy = r + k / 3 - 1, xx = c + k % 3 - 1;
              if (yy < 0 || xx < 0 || yy >= x[2] || xx >= x[3]) continue;
              sum += double(values[0][size_t((i * x[2] + yy) * x[3] + xx)]) *
                     double(values[1][size_t((o * x[1] + i) * 9 + k)]);
            }
          sum = std::max(sum, 0.0);
          const double got =
              double(static_cast<const float*>(output_->host())[candidate.outputs[0].offset_of(Dims{0, o, r, c})]);
          difference += (got - sum) * (got - sum);
          norm += sum * sum;
        }
    return std::sqrt(difference / norm);
  }
  // Whatever disturbs a run makes it longer.
  double ms() const {
    std::vector<double> sorted = samples;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 10];
  }
  const Candidate& candidate;
  std::vector<double> samples;
  int repeat = 1;

 private:
  static void place(const TensorDesc& desc, const std::vector<float>& values, float* to) {
    Dims index = Dims::filled(desc.rank(), 0);
    for (float value : values) {
      to[desc.offset_of(index)] = value;
      for (int d = desc.rank() - 1; d >= 0 && ++index[d] == desc.shape[d]; --d) index[d] = 0;
    }
  }
  std::unique_ptr<Kernel> kernel_;
  std::vector<BufferRef> buffers_, packed_;
  std::vector<Buffer*> inputs_;
  Buffer *output_ = nullptr, *evicted_ = nullptr;
  BufferRef workspace_;
};

void compare(Context& context, const Shape& shape, double seconds, bool cold, const std::string& filter) {
  Device& cpu = context.device("cpu");
  const Op op = convolution(shape);
  CandidateList list;
  for (Provider* provider : context.providers_of(cpu)) provider->list(op, cpu, list);
  const Values values = random_values(op);
  std::vector<std::unique_ptr<Contender>> race;
  double least = INFINITY;
  for (const Candidate& candidate : list.candidates) {
    if (candidate.reference || candidate.inputs[0].layout.is_plain()) continue;
    if (candidate.key().find(filter) == std::string::npos) continue;
    auto contender = std::make_unique<Contender>(cpu, candidate, values, cold);
    contender->run_ms(1);
    const double ms = std::min(contender->run_ms(1), contender->run_ms(1));
    least = std::min(least, ms);
    if (ms > 4 * least) continue;
    contender->repeat = std::clamp(int(0.3 / std::max(ms, 1e-6)), 1, 500);
    race.push_back(std::move(contender));
  }
  const auto start = Clock::now();
  std::mt19937 random(1);
  for (int round = 0; round < 301; ++round) {
    if (round >= 7 && std::chrono::duration<double>(Clock::now() - start).count() > seconds) break;
    std::shuffle(race.begin(), race.end(), random);
    for (auto& contender : race) {
      contender->run_ms(1);
      contender->samples.push_back(contender->run_ms(contender->repeat));
    }
  }
  std::sort(race.begin(), race.end(), [](const auto& a, const auto& b) { return a->ms() < b->ms(); });
  Json json;
  json.object().key("shape").list();
  for (int64_t size : {shape.n, shape.c, shape.h, shape.w, shape.oc}) json.value(size);
  json.end().key("candidates").list();
  for (const auto& contender : race)
    json.object()
        .field("key", contender->candidate.key())
        .field("ms", contender->ms())
        .field("error", contender->error(op, values))
        .end();
  json.end().end();
  std::printf("%s\n", json.str().c_str());
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    ContextOptions options;
    options.threads = argc > 1 ? std::atoi(argv[1]) : 0;
    const double seconds = argc > 2 ? std::atof(argv[2]) : 1.0;
    const bool cold = argc > 3 && std::string(argv[3]) == "cold";
    const std::string filter = argc > 4 ? argv[4] : "";
    const auto context = Context::create(options);
    use_threads(context->options().threads);
    processor_time = context->options().threads == 1;
    std::string line;
    while (std::getline(std::cin, line)) {
      std::istringstream text(line);
      Shape s{};
      text >> s.n >> s.c >> s.h >> s.w >> s.oc;
      if (!text) throw Error(Code::invalid_argument, "shape \"" + line + "\", expected five numbers");
      compare(*context, s, seconds, cold, filter);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "winograd: %s\n", error.what());
    return 1;
  }
  return 0;
}
