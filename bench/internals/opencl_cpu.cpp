// Convolutions on OpenCL's CPU devices against oneDNN's: for each shape the candidates of every OpenCL CPU device, of
// oneDNN and of the host provider take turns in one process.  bench/opencl_cpu.py feeds it and makes tables.
//
//   opencl_cpu [threads [seconds [start|whole [text]]]] < shapes > results
//
// A shape is a line "n c h w oc k stride padding", with bias and ReLU.  "start": the points that dispatch begins with;
// "whole": every point of the tuning spaces.  With `text`, only candidates of OpenCL whose key has it.  A result is a
// line of JSON: {"shape": [...], "flops": F, "chosen": KEY, "ways": [{"runner", "key", "layout", "ms", "processor_ms",
// "error"}, ...]}: the fastest of each runner ("onednn", "host", "opencl:0"...), and what dispatch, tuning from
// nothing, picks for `cpu`.  Times are lower quartiles: by the clock, and of all threads of the process together, which
// other programs disturb less.  The error is the largest distance from sums in double, over the largest sum.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "core/json.h"
#include "core/threads.h"
#include "dispatch/catalog.h"
#include "dispatch/context.h"
#include "dispatch/cost_database.h"

namespace {

using namespace pl;

double seconds_of(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return double(now.tv_sec) + double(now.tv_nsec) * 1e-9;
}

struct Shape {
  int64_t n, c, h, w, oc, k, stride, padding;
};

Op convolution(const Shape& s) {
  const auto f32 = [](std::initializer_list<int64_t> shape) { return TensorDesc::dense(DType::f32, Dims(shape)); };
  Attributes attributes;
  attributes.set("stride", s.stride);
  attributes.set("padding", s.padding);
  attributes.set("activation", std::string("relu"));
  return make_op(*find_schema("conv2d"), attributes,
                 {f32({s.n, s.c, s.h, s.w}), f32({s.oc, s.c, s.k, s.k}), f32({s.oc})});
}

// Values of a tensor in the order of its indices; cheap to make, the same everywhere.
float value_at(int input, int64_t i) { return float((i * 7919 + input * 31) % 2039) / 1019.5f - 1.0f; }

// A candidate with a kernel and memory of its own.
class Contender {
 public:
  Contender(Device& device, const Candidate& candidate, const std::string& runner)
      : runner(runner),
        key(candidate.key()),
        layout(candidate.inputs[0].layout.str()),
        device_(device),
        kernel_(candidate.prepare()) {
    for (size_t i = 0; i < candidate.inputs.size(); ++i) {
      const TensorDesc& desc = candidate.inputs[i];
      inputs_.push_back(nullptr);
      if (!desc.present) continue;
      buffers_.push_back(device.allocate(desc.size_bytes()));
      inputs_.back() = buffers_.back().get();
      std::vector<float> memory(desc.size_bytes() / sizeof(float));
      Dims index = Dims::filled(desc.rank(), 0);
      for (int64_t at = 0; at < desc.elements(); ++at) {
        memory[size_t(desc.offset_of(index))] = value_at(int(i), at);
        for (int d = desc.rank() - 1; d >= 0 && ++index[d] == desc.shape[d]; --d) index[d] = 0;
      }
      device.write(*inputs_.back(), 0, memory.data(), memory.size() * sizeof(float));
    }
    packed_ = pack_inputs(device, candidate, inputs_);
    result_ = candidate.outputs[0];
    buffers_.push_back(device.allocate(result_.size_bytes()));
    output_ = buffers_.back().get();
    if (candidate.workspace_bytes) buffers_.push_back(workspace_ = device.allocate(candidate.workspace_bytes));
  }
  // Runs as a program does: all are queued, then it waits.
  void run(int times) {
    for (int i = 0; i < times; ++i) kernel_->run({inputs_.data(), &output_, workspace_.get()});
    device_.synchronize();
  }
  void take_sample() {
    run(1);  // brings its memory into the caches, and wakes its threads
    const double wall = seconds_of(CLOCK_MONOTONIC), processor = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    run(repeat_);
    processor_.push_back((seconds_of(CLOCK_PROCESS_CPUTIME_ID) - processor) * 1e3 / repeat_);
    wall_.push_back((seconds_of(CLOCK_MONOTONIC) - wall) * 1e3 / repeat_);
  }
  // Samples of a millisecond and more.
  void begin() {
    take_sample();
    repeat_ = std::clamp(int(1.0 / std::max(wall_[0], 1e-6)), 1, 200);
    processor_.clear();
    wall_.clear();
  }
  static double quartile(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[(values.size() - 1) / 4];
  }
  double ms() const { return quartile(wall_); }
  double processor_ms() const { return quartile(processor_); }
  double error(const Shape& s) {
    std::vector<float> result(result_.size_bytes() / sizeof(float));
    device_.read(*output_, 0, result.data(), result_.size_bytes());
    std::minstd_rand random(1);
    double worst = 0, largest = 0;
    for (int i = 0; i < 50; ++i) {
      const int64_t n = int64_t(random()) % s.n, o = int64_t(random()) % s.oc,
                    y = i < 25 ? int64_t(random()) % result_.shape[2] : (i & 1) * (result_.shape[2] - 1),
                    x = i < 25 ? int64_t(random()) % result_.shape[3] : (i & 2) / 2 * (result_.shape[3] - 1);
      double sum = double(value_at(2, o));
      for (int64_t c = 0; c < s.c; ++c)
        for (int64_t k = 0; k < s.k * s.k; ++k) {
          const int64_t yy = y * s.stride - s.padding + k / s.k, xx = x * s.stride - s.padding + k % s.k;
          if (yy < 0 || xx < 0 || yy >= s.h || xx >= s.w) continue;
          sum += double(value_at(0, ((n * s.c + c) * s.h + yy) * s.w + xx)) *
                 double(value_at(1, (o * s.c + c) * s.k * s.k + k));
        }
      worst =
          std::max(worst, std::abs(std::max(sum, 0.0) - double(result[size_t(result_.offset_of(Dims{n, o, y, x}))])));
      largest = std::max(largest, std::abs(sum));
    }
    return worst / largest;
  }
  const std::string runner, key, layout;

 private:
  Device& device_;
  std::unique_ptr<Kernel> kernel_;
  std::vector<BufferRef> buffers_, packed_;
  std::vector<Buffer*> inputs_;
  Buffer* output_ = nullptr;
  BufferRef workspace_;
  TensorDesc result_;
  std::vector<double> wall_, processor_;
  int repeat_ = 1;
};

// Until the threads of the last runner have gone to sleep: those of OpenMP and of OpenCL runtimes spin for a while.
void wait_until_idle() {
  for (int i = 0; i < 30; ++i) {
    const double before = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    std::this_thread::sleep_for(std::chrono::microseconds(500));
    if (seconds_of(CLOCK_PROCESS_CPUTIME_ID) - before < 50e-6) return;
  }
}

using Race = std::vector<std::unique_ptr<Contender>>;

// Leaves those that may be the fastest of this runner.
void preselect(Race& race) {
  for (auto& contender : race) contender->begin();
  for (int round = 0; round < 3; ++round)
    for (auto& contender : race) contender->take_sample();
  std::sort(race.begin(), race.end(), [](const auto& a, const auto& b) { return a->ms() < b->ms(); });
  const double limit = race.empty() ? 0 : 1.3 * race[0]->ms();
  while (race.size() > 4 || (!race.empty() && race.back()->ms() > limit)) race.pop_back();
}

void compare(Context& context, Catalog& catalog, const Shape& shape, double seconds, bool whole,
             const std::string& filter) {
  const Op op = convolution(shape);
  std::map<std::string, Race> races;
  for (const auto& device : context.devices()) {
    const bool host = device->is_cpu();
    if (!host && device->properties()["type"] != "cpu") continue;
    CandidateList list;
    list.whole_space = whole;
    for (Provider* provider : context.providers_of(*device))
      if ((provider->name() == "opencl") != host) provider->list(op, *device, list);
    for (const Candidate& candidate : list.candidates) {
      if (candidate.reference || candidate.inputs[0].layout.is_plain() || candidate.efficiency < 0.1) continue;
      if (!host && candidate.key().find(filter) == std::string::npos) continue;
      const std::string runner = host ? candidate.provider : device->name();
      races[runner].push_back(std::make_unique<Contender>(*device, candidate, runner));
    }
  }
  for (auto& [runner, race] : races) {
    wait_until_idle();
    preselect(race);
  }
  const double end = seconds_of(CLOCK_MONOTONIC) + seconds;
  std::minstd_rand random(1);
  for (int round = 0; round < 201; ++round) {
    if (round >= 7 && seconds_of(CLOCK_MONOTONIC) > end) break;
    for (auto& [runner, race] : races) {
      wait_until_idle();
      std::shuffle(race.begin(), race.end(), random);
      for (auto& contender : race) contender->take_sample();
    }
  }
  const EntryRef entry = catalog.entry(op, context.device("cpu"));
  catalog.measure(*entry, Tuning::automatic);
  const Way* chosen = nullptr;
  for (const Way& way : entry->ways)
    if (way.usable && (!chosen || way.ms < chosen->ms)) chosen = &way;
  Json json;
  json.object().key("shape").list();
  for (int64_t size : {shape.n, shape.c, shape.h, shape.w, shape.oc, shape.k, shape.stride, shape.padding})
    json.value(size);
  json.end().field("flops", double(op.schema->flops(op))).field("chosen", chosen ? chosen->key : "none");
  json.key("ways").list();
  for (auto& [runner, race] : races) {
    if (race.empty()) continue;
    Contender& best =
        **std::min_element(race.begin(), race.end(), [](const auto& a, const auto& b) { return a->ms() < b->ms(); });
    json.object()
        .field("runner", runner)
        .field("key", best.key)
        .field("layout", best.layout)
        .field("ms", best.ms())
        .field("processor_ms", best.processor_ms())
        .field("error", best.error(shape))
        .end();
  }
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
    const bool whole = argc > 3 && std::string(argv[3]) == "whole";
    const std::string filter = argc > 4 ? argv[4] : "";
    const auto context = Context::create(options);
    use_threads(context->options().threads);
    CostDatabase costs("");  // in memory: nothing is known beforehand
    Catalog catalog(*context, costs);
    Json json;
    json.object();
    for (const auto& device : context->devices())
      if (device->properties()["type"] == "cpu")
        json.field(device->name(), device->properties()["platform"] + ", " + device->properties()["name"]);
    std::printf("%s\n", json.end().str().c_str());
    std::string line;
    while (std::getline(std::cin, line)) {
      std::istringstream text(line);
      Shape s{};
      text >> s.n >> s.c >> s.h >> s.w >> s.oc >> s.k >> s.stride >> s.padding;
      if (!text) throw Error(Code::invalid_argument, "shape \"" + line + "\", expected eight numbers");
      compare(*context, catalog, s, seconds, whole, filter);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "opencl_cpu: %s\n", error.what());
    return 1;
  }
  return 0;
}
