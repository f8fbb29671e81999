// How good the tuned choice is: for each convolution on standard input, what dispatch measures as fastest, and what
// a longer, independent measurement of every candidate says.  bench/choice_quality.py feeds it and sums up.
//
//   choice_quality [auto|full [threads [seconds]]] < shapes > results
//
// A shape is a line "n c h w oc k stride padding groups".  A result is a line of JSON:
//   {"shape": [...], "chosen": KEY, "chosen_ms": MS, "fastest": KEY, "fastest_ms": MS, "candidates": N}
// where both times come from the second measurement.  It is independent of the first: kernels prepared anew, buffers
// of each candidate's own, rounds in a new random order; its statistic is the median of the samples during which no
// other program took a processor away.  Large weights come from memory in both, as they do within a network
// (dispatch/measure.cpp says what that changes).
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "core/json.h"
#include "core/threads.h"
#include "dispatch/catalog.h"
#include "dispatch/context.h"
#include "dispatch/cost_database.h"
#include "dispatch/measure.h"

namespace {

using namespace pl;
using Clock = std::chrono::steady_clock;

struct Shape {
  int64_t n, c, h, w, oc, k, stride, padding, groups;
};

Op convolution(const Shape& s) {
  const auto f32 = [](std::initializer_list<int64_t> shape) { return TensorDesc::dense(DType::f32, Dims(shape)); };
  Attributes attributes;
  attributes.set("stride", s.stride);
  attributes.set("padding", s.padding);
  attributes.set("groups", s.groups);
  attributes.set("activation", std::string("relu"));
  return make_op(*find_schema("conv2d"), attributes,
                 {f32({s.n, s.c, s.h, s.w}), f32({s.oc, s.c / s.groups, s.k, s.k}), f32({s.oc})});
}

// A candidate with a kernel and memory of its own.
class Contender {
 public:
  Contender(Device& device, const Candidate& candidate) : kernel_(candidate.prepare()) {
    const auto fill = [&](const std::vector<TensorDesc>& descs, std::vector<Buffer*>& to) {
      for (const TensorDesc& desc : descs) {
        if (!desc.present) {
          to.push_back(nullptr);
          continue;
        }
        BufferRef buffer = device.allocate(desc.size_bytes());
        std::vector<float> values(desc.size_bytes() / sizeof(float));
        for (size_t i = 0; i < values.size(); ++i) values[i] = 0.5f + float(i * 7919 % 1024) / 1024;
        device.write(*buffer, 0, values.data(), values.size() * sizeof(float));
        to.push_back(buffer.get());
        buffers_.push_back(std::move(buffer));
      }
    };
    fill(candidate.inputs, inputs_);
    fill(candidate.outputs, outputs_);
    if (candidate.workspace_bytes) buffers_.push_back(workspace_ = device.allocate(candidate.workspace_bytes));
    packed_ = pack_inputs(device, candidate, inputs_);
    for (size_t i = 1; i < inputs_.size(); ++i)  // weights and bias
      if (inputs_[i] && comes_from_afar(inputs_[i]->bytes())) evicted_.push_back(inputs_[i]);
  }
  double run_ms(int runs) {
    for (const Buffer* buffer : evicted_) evict(*buffer);
    if (!evicted_.empty()) wake_threads();
    const auto start = Clock::now();
    for (int i = 0; i < runs; ++i) kernel_->run({inputs_.data(), outputs_.data(), workspace_.get()});
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count() / runs;
  }
  void set_repeat(double ms) {  // samples of 0.3 ms and more, unless weights have to be evicted before each run
    repeat_ = evicted_.empty() ? std::clamp(int(0.3 / std::max(ms, 1e-6)), 1, 500) : 1;
  }
  void take_sample() {
    run_ms(1);  // brings its memory into the caches
    for (int attempt = 0; attempt < 5; ++attempt) {
      const uint64_t before = preemptions();
      const double ms = run_ms(repeat_);
      all_.push_back(ms);
      if (preemptions() != before) continue;
      clean_.push_back(ms);
      break;
    }
  }
  double judged_ms() const {
    std::vector<double> sorted = clean_.size() >= 5 ? clean_ : all_;
    const auto middle = sorted.begin() + long(sorted.size() / (clean_.size() >= 5 ? 2 : 4));
    std::nth_element(sorted.begin(), middle, sorted.end());
    return *middle;
  }

 private:
  std::unique_ptr<Kernel> kernel_;
  std::vector<BufferRef> buffers_, packed_;
  std::vector<Buffer*> inputs_, outputs_;
  std::vector<const Buffer*> evicted_;
  BufferRef workspace_;
  std::vector<double> clean_, all_;
  int repeat_ = 1;
};

// The way that dispatch takes where every layout is free, and all that could be prepared.
void judge(Catalog& catalog, Device& cpu, const Shape& shape, Tuning tuning, double seconds, std::mt19937& random) {
  const EntryRef entry = catalog.entry(convolution(shape), cpu);
  catalog.measure(*entry, tuning);
  const Way* chosen = nullptr;
  for (const Way& way : entry->ways)
    if (way.usable && (!chosen || way.ms < chosen->ms)) chosen = &way;
  if (!chosen) {
    std::printf("{\"problem\": \"no candidate\"}\n");
    return;
  }
  // Memory for all at once is what an interleaved measurement takes; those hopelessly slow are not worth it.
  std::vector<std::pair<const Way*, std::unique_ptr<Contender>>> race;
  double least = INFINITY;
  for (const Way& way : entry->ways) {
    if (!way.usable) continue;
    std::unique_ptr<Contender> contender;
    try {
      contender = std::make_unique<Contender>(cpu, way.candidate);
      contender->run_ms(1);
    } catch (const Error&) {
      continue;
    }
    const double ms = std::min(contender->run_ms(1), contender->run_ms(1));
    least = std::min(least, ms);
    if (&way != chosen && ms > 4 * least) continue;
    contender->set_repeat(ms);
    race.emplace_back(&way, std::move(contender));
  }
  const auto start = Clock::now();
  for (int round = 0; round < 101; ++round) {
    if (round >= 9 && std::chrono::duration<double>(Clock::now() - start).count() > seconds) break;
    std::shuffle(race.begin(), race.end(), random);
    for (auto& [way, contender] : race) contender->take_sample();
  }
  const Way* fastest = nullptr;
  double fastest_ms = INFINITY, chosen_ms = INFINITY;
  for (const auto& [way, contender] : race) {
    const double ms = contender->judged_ms();
    if (way == chosen) chosen_ms = ms;
    if (ms < fastest_ms) fastest = way, fastest_ms = ms;
  }
  Json json;
  json.object().key("shape").list();
  for (int64_t size :
       {shape.n, shape.c, shape.h, shape.w, shape.oc, shape.k, shape.stride, shape.padding, shape.groups})
    json.value(size);
  json.end()
      .field("chosen", chosen->key)
      .field("chosen_ms", chosen_ms)
      .field("fastest", fastest->key)
      .field("fastest_ms", fastest_ms)
      .field("candidates", race.size())
      .end();
  std::printf("%s\n", json.str().c_str());
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Tuning tuning = parse_tuning(argc > 1 ? argv[1] : "auto");
    ContextOptions options;
    options.threads = argc > 2 ? std::atoi(argv[2]) : 0;
    const double seconds = argc > 3 ? std::atof(argv[3]) : 1.0;
    const auto context = Context::create(options);
    use_threads(context->options().threads);
    CostDatabase costs("");  // in memory: nothing is known beforehand
    Catalog catalog(*context, costs);
    std::mt19937 random(1);
    std::string line;
    while (std::getline(std::cin, line)) {
      std::istringstream text(line);
      Shape s{};
      text >> s.n >> s.c >> s.h >> s.w >> s.oc >> s.k >> s.stride >> s.padding >> s.groups;
      if (!text) throw Error(Code::invalid_argument, "shape \"" + line + "\", expected nine numbers");
      judge(catalog, context->device("cpu"), s, tuning, seconds, random);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "choice_quality: %s\n", error.what());
    return 1;
  }
  return 0;
}
