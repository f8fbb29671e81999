// Ops on OpenCL's CPU devices against oneDNN and the host provider: for each op the candidates of every runner take
// turns in one process.  bench/opencl_cpu.py feeds it and makes tables.
//
//   opencl_cpu [threads [seconds [start|whole [fastest|layouts [text]]]]] < ops > results
//
// An op is a line "NAME ATTRIBUTES;SHAPE;SHAPE..." with a shape of sizes for each input, "1,64,56,56" or
// "1,64,56,56@NHWC"; all f32.  "start": the points of the tuning spaces that dispatch begins with; "whole": all.
// "fastest": a runner takes part with the layouts that suit it, but plain ones; "layouts": layouts are compared one by
// one.  With `text`, only candidates of OpenCL whose key has it.  All ops together take about `seconds`, compilations
// not counted: what is left is shared by those that are left.
//
// Runners: "onednn" and "host" on device `cpu`, each OpenCL CPU device by its name, its threads alone awake, as in a
// program that uses that device; "opencl": the same kernels on the memory of `cpu`, as dispatch may take them there,
// amid ops of OpenMP's threads; and "chosen": what dispatch, tuning from nothing, takes for `cpu`.
// The first answer names the devices; then an answer for each op is a line of JSON: {"op": LINE, "flops": F, "bytes":
// inputs and outputs, "ways": [{"runner", "key", "layout", "ms", "processor_ms", "error"}, ...]}: the fastest of each
// runner.  Times are lower quartiles: by the clock, and of all threads of the process together, which other programs
// disturb less.  On several processors one thread that lost its processor holds up all, so only samples count during
// which none did ("undisturbed", their number), and where there are few of them, the least of all.  The error is the L2
// norm of the difference from the first runner's result over that of the result.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>
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
double now() { return seconds_of(CLOCK_MONOTONIC); }

// Calls f(id, line of /proc/self/task/ID/stat) for each thread of this process.
template <class F>
void for_each_thread(const F& f) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(entry.path() / "stat");
    std::string line;
    if (std::getline(file, line)) f(pid_t(std::atoi(line.c_str())), line);
  }
}
// Processor time of all threads, up to now: the clock of a process learns of its other threads milliseconds late.
double processor_seconds() {
  double sum = 0;
  for_each_thread([&](pid_t id, const std::string&) {
    timespec time;
    const auto clock = clockid_t((~unsigned(id) << 3) | 6);  // the kernel's name for a thread's
    if (!clock_gettime(clock, &time)) sum += double(time.tv_sec) + double(time.tv_nsec) * 1e-9;
  });
  return sum;
}
// Until the threads of the last runner have gone to sleep: those of OpenMP and of OpenCL runtimes spin for up to some
// milliseconds, during which a thread of another runtime hardly gets their processor.
void wait_until_idle() {
  const double limit = now() + 0.05;
  bool running = true;
  while (running && now() < limit) {
    std::this_thread::sleep_for(std::chrono::microseconds(500));
    running = false;
    for_each_thread([&](pid_t id, const std::string& stat) {
      const size_t name = stat.rfind(')');  // the state follows
      running |= id != gettid() && name != std::string::npos && stat.compare(name, 3, ") R") == 0;
    });
  }
}

Op op_of(const std::string& line) {
  std::istringstream parts(line);
  std::string head, part;
  std::getline(parts, head, ';');
  const size_t space = std::min(head.find(' '), head.size());
  const Schema* schema = find_schema(head.substr(0, space));
  require(schema != nullptr, Code::invalid_argument, "op \"", line, "\": there is no op of this name");
  std::vector<TensorDesc> inputs;
  while (std::getline(parts, part, ';')) {
    std::istringstream sizes(part.substr(0, part.find('@')));
    Dims shape;
    for (std::string size; std::getline(sizes, size, ',');) shape.push_back(std::stoll(size));
    const size_t at = part.find('@');
    inputs.push_back(TensorDesc::dense(
        DType::f32, shape, at == std::string::npos ? Layout::plain(shape.size()) : Layout::parse(part.substr(at + 1))));
  }
  return make_op(*schema, Attributes::parse(head.substr(space)), inputs);
}

// Calls f(place in memory, number in the order of indices) for each element.
template <class F>
void for_each_element(const TensorDesc& desc, const F& f) {
  if (desc.layout.is_plain()) {
    for (int64_t at = 0; at < desc.elements(); ++at) f(size_t(at), at);
    return;
  }
  Dims index = Dims::filled(desc.rank(), 0);
  for (int64_t at = 0; at < desc.elements(); ++at) {
    f(size_t(desc.offset_of(index)), at);
    for (int d = desc.rank() - 1; d >= 0 && ++index[d] == desc.shape[d]; --d) index[d] = 0;
  }
}

// The tensors of one op: candidates that describe them alike share them.
class Tensors {
 public:
  // Input `number` with values that depend on the indices only: of either sign in the first, positive in the others.
  Buffer* input(Device& device, int number, const TensorDesc& desc) {
    BufferRef& buffer = buffers_[concat(device.name(), " ", number, " ", desc.layout.str())];
    if (!buffer) {
      buffer = device.allocate(desc.size_bytes());
      std::vector<float> memory(desc.size_bytes() / sizeof(float));
      for_each_element(desc, [&](size_t to, int64_t i) {
        const float value = float((i * 7919 + number * 31) % 2039) / 1019.5f - 1.0f;
        memory[to] = number ? std::abs(value) + 0.1f : value;
      });
      device.write(*buffer, 0, memory.data(), memory.size() * sizeof(float));
    }
    return buffer.get();
  }
  Buffer* output(Device& device, int number, const TensorDesc& desc) {
    BufferRef& buffer = buffers_[concat(device.name(), " output ", number, " ", desc.layout.str())];
    if (!buffer) buffer = device.allocate(desc.size_bytes());
    return buffer.get();
  }

 private:
  std::map<std::string, BufferRef> buffers_;
};

constexpr size_t kEnough = 5;  // undisturbed samples, to judge by them alone

// A candidate with its kernel.
class Racer {
 public:
  Racer(Device& device, const Candidate& candidate, const std::string& runner, Tensors& tensors)
      : runner(runner),
        key(candidate.key()),
        layout(candidate.inputs[0].layout.str()),
        device_(device),
        amid_others_(device.traits().host_addressable && candidate.provider == "opencl"),
        kernel_(candidate.prepare()) {
    for (size_t i = 0; i < candidate.inputs.size(); ++i) {
      const TensorDesc& desc = candidate.inputs[i];
      inputs_.push_back(desc.present ? tensors.input(device, int(i), desc) : nullptr);
    }
    packed_ = pack_inputs(device, candidate, inputs_);
    for (size_t i = 0; i < candidate.outputs.size(); ++i)
      outputs_.push_back(tensors.output(device, int(i), candidate.outputs[i]));
    result_ = candidate.outputs[0];
    if (candidate.workspace_bytes) workspace_ = device.allocate(candidate.workspace_bytes);
  }
  // Runs as a program does: all are queued, then it waits.
  void run(int times) {
    for (int i = 0; i < times; ++i) kernel_->run({inputs_.data(), outputs_.data(), workspace_.get()});
    device_.synchronize();
  }
  void take_sample() {
    // Brings its memory into the caches, and wakes its threads; long runs do that themselves.
    if (wall_.empty() || wall_.back() < 10) run(1);
    if (amid_others_) wake_together();
    const uint64_t preempted = preemptions();
    const double processor = processor_seconds(), wall = now();
    run(repeat_);
    wall_.push_back((now() - wall) * 1e3 / repeat_);
    processor_.push_back((processor_seconds() - processor) * 1e3 / repeat_);
    if (preemptions() == preempted) undisturbed_.push_back(wall_.back());
  }
  // Samples of a millisecond and more.
  void begin() {
    take_sample();
    repeat_ = std::clamp(int(1.0 / std::max(wall_[0], 1e-6)), 1, 200);
    if (repeat_ == 1) return;
    processor_.clear();
    wall_.clear();
    undisturbed_.clear();
    take_sample();
  }
  static double quartile(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[(values.size() - 1) / 4];
  }
  double ms() const {
    if (by_processor) return quartile(wall_);
    return undisturbed() >= kEnough ? quartile(undisturbed_) : *std::min_element(wall_.begin(), wall_.end());
  }
  size_t undisturbed() const { return undisturbed_.size(); }
  double processor_ms() const { return quartile(processor_); }
  // How many were at work.
  double processors() const {
    return std::accumulate(processor_.begin(), processor_.end(), 0.0) /
           std::accumulate(wall_.begin(), wall_.end(), 0.0);
  }
  // By which the fastest is found: on one processor, what other programs disturb less.
  double score() const { return by_processor ? processor_ms() : ms(); }
  static inline bool by_processor = false;
  // In the order of indices.
  std::vector<float> result() {
    run(1);
    std::vector<float> memory(result_.size_bytes() / sizeof(float)), values(size_t(result_.elements()));
    device_.read(*outputs_[0], 0, memory.data(), result_.size_bytes());
    for_each_element(result_, [&](size_t from, int64_t i) { values[size_t(i)] = memory[from]; });
    return values;
  }
  const std::string runner, key, layout;

 private:
  Device& device_;
  const bool amid_others_;  // its threads share the processors with OpenMP's, awake from the ops around it
  std::unique_ptr<Kernel> kernel_;
  std::vector<BufferRef> packed_;
  std::vector<Buffer*> inputs_, outputs_;
  BufferRef workspace_;
  TensorDesc result_;
  std::vector<double> wall_, processor_, undisturbed_;
  int repeat_ = 1;
};

double difference(const std::vector<float>& values, const std::vector<float>& expected) {
  double sum = 0, norm = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    sum += std::pow(double(values[i]) - double(expected[i]), 2);
    norm += double(expected[i]) * double(expected[i]);
  }
  return std::sqrt(sum / std::max(norm, 1e-30));
}

using Race = std::vector<std::unique_ptr<Racer>>;

// The turn of a runner: the others' threads go to sleep, and its own work for a while as they would in a program that
// goes on and on.  There are schedulers that put threads which slept together on one processor, and spread them late.
void begin_turn(const Race& race) {
  constexpr double kSeconds = 0.02;
  wait_until_idle();
  for (const double end = now() + kSeconds; !Racer::by_processor && now() < end;) race.front()->run(1);
}

Racer& fastest(const Race& race) {
  return **std::min_element(race.begin(), race.end(),
                            [](const auto& a, const auto& b) { return a->score() < b->score(); });
}

// Leaves those that may be the fastest.
void preselect(Race& race) {
  begin_turn(race);
  for (auto& racer : race) racer->begin();
  for (const double ratio : {1.6, 1.25}) {
    const double limit = ratio * fastest(race).score();
    race.erase(std::remove_if(race.begin(), race.end(), [&](const auto& c) { return c->score() > limit; }), race.end());
    for (auto& racer : race) racer->take_sample();
  }
  std::sort(race.begin(), race.end(), [](const auto& a, const auto& b) { return a->score() < b->score(); });
  if (race.size() > 3) race.resize(3);
}

struct Settings {
  bool whole = false, by_layout = false;
  std::string filter;
};

void compare(Context& context, Catalog& catalog, const std::string& line, double seconds, const Settings& settings) {
  const Op op = op_of(line);
  Device& cpu = context.device("cpu");
  Tensors tensors;
  std::map<std::string, Race> races;                      // by runner, and layout if these are compared one by one
  std::vector<std::pair<std::string, Candidate>> shared;  // of OpenCL on `cpu`
  const auto race_of = [&](const std::string& runner, const Candidate& candidate) -> Race& {
    return races[settings.by_layout ? runner + " " + candidate.inputs[0].layout.str() : runner];
  };
  for (const auto& device : context.devices()) {
    const bool host = device->traits().host_addressable;
    if (!host && device->properties()["type"] != "cpu") continue;
    CandidateList list;
    list.whole_space = settings.whole;
    for (Provider* provider : context.providers_of(*device)) provider->list(op, *device, list);
    for (const Candidate& candidate : list.candidates) {
      if (candidate.reference || (!settings.by_layout && candidate.inputs[0].layout.is_plain())) continue;
      const bool opencl = candidate.provider == "opencl";
      if (opencl && candidate.efficiency < 0.1 && !settings.by_layout) continue;
      if (opencl && candidate.key().find(settings.filter) == std::string::npos) continue;
      if (host && opencl) {
        shared.emplace_back(candidate.key(), candidate);
        continue;
      }
      const std::string runner = host ? candidate.provider : device->name();
      race_of(runner, candidate).push_back(std::make_unique<Racer>(*device, candidate, runner, tensors));
    }
  }
  std::set<std::string> good;  // of OpenCL
  for (auto& [name, race] : races) {
    preselect(race);
    for (const auto& racer : race) good.insert(racer->key);
  }
  for (const auto& [key, candidate] : shared)
    if (good.count(key))
      race_of("opencl", candidate).push_back(std::make_unique<Racer>(cpu, candidate, "opencl", tensors));
  const EntryRef entry = catalog.entry(op, cpu);
  catalog.measure(*entry, Tuning::automatic);
  const Way* chosen = nullptr;
  for (const Way& way : entry->ways)
    if (way.usable && (!chosen || way.ms < chosen->ms)) chosen = &way;
  if (chosen) races["~chosen"].push_back(std::make_unique<Racer>(cpu, chosen->candidate, "chosen", tensors));
  for (auto& [name, race] : races) {
    if (race.empty() || (race[0]->runner != "opencl" && race[0]->runner != "chosen")) continue;
    preselect(race);
  }

  const double end = now() + seconds;
  std::minstd_rand random(1);
  std::vector<Race*> order;
  for (auto& [name, race] : races) order.push_back(&race);
  for (int round = 0; round < 201; ++round) {
    if (round >= 3 && now() > end) break;
    std::shuffle(order.begin(), order.end(), random);
    for (Race* race : order) {
      std::shuffle(race->begin(), race->end(), random);
      begin_turn(*race);
      for (auto& racer : *race) racer->take_sample();
    }
  }
  Json json;
  json.object().field("op", line).field("flops", double(op.schema->flops(op)));
  double bytes = 0;
  for (const auto* tensors_of : {&op.inputs, &op.outputs})
    for (const TensorDesc& desc : *tensors_of)
      if (desc.present) bytes += double(desc.size_bytes());
  json.field("bytes", bytes).key("ways").list();
  std::vector<float> expected;
  for (auto& [name, race] : races) {
    if (race.empty()) continue;
    Racer& best = fastest(race);
    const std::vector<float> values = best.result();
    if (expected.empty()) expected = values;
    json.object()
        .field("runner", best.runner)
        .field("key", best.key)
        .field("layout", best.layout)
        .field("ms", best.ms())
        .field("processor_ms", best.processor_ms())
        .field("processors", best.processors())
        .field("undisturbed", int64_t(best.undisturbed()))
        .field("error", difference(values, expected))
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
    double seconds = argc > 2 ? std::atof(argv[2]) : 60.0;
    Settings settings;
    settings.whole = argc > 3 && std::string(argv[3]) == "whole";
    settings.by_layout = argc > 4 && std::string(argv[4]) == "layouts";
    settings.filter = argc > 5 ? argv[5] : "";
    const auto context = Context::create(options);
    use_threads(context->options().threads);
    Racer::by_processor = context->options().threads == 1;
    CostDatabase costs("");  // in memory: nothing is known beforehand
    Catalog catalog(*context, costs);
    Json json;
    json.object();
    for (const auto& device : context->devices())
      if (device->properties()["type"] == "cpu")
        json.field(device->name(), device->properties()["platform"] + ", " + device->properties()["name"]);
    std::printf("%s\n", json.end().str().c_str());
    std::vector<std::string> lines;
    for (std::string line; std::getline(std::cin, line);) lines.push_back(line);
    for (size_t i = 0; i < lines.size(); ++i) {
      const double begun = now();
      // Half of an op's time for what comes before the rounds, which may take less or more.
      compare(*context, catalog, lines[i], std::max(0.0, seconds / double(lines.size() - i) / 2), settings);
      seconds -= now() - begun;
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "opencl_cpu: %s\n", error.what());
    return 1;
  }
  return 0;
}
