// How good the tuned choice is: for each convolution on standard input, what dispatch measures as fastest, and how that
// compares with the fastest rival by an independent, paired measurement.  bench/choice_quality.py feeds it and sums up.
//
//   choice_quality [auto|full [threads [seconds]]] < shapes > results
//
// A shape is a line "n c h w oc k stride padding groups".  A result is a line of JSON:
//   {"shape": [...], "chosen": KEY, "chosen_ms": MS, "rival": KEY, "rival_ms": MS, "loss": R, "loss_low": R,
//    "floor": R, "pairs": N, "candidates": N, "chosen_tuned_ms": MS, "rival_tuned_ms": MS}
//
// The least of many noisy times is less than the time of the fastest candidate, so that is not what the choice is
// judged by.  First a race finds the rival: all candidates take turns, and those behind leave, sooner the further they
// are behind.  Then the chosen one and the rival run in turns anew; `loss` is the median of the ratios of their times
// in the same turn, from samples that had no part in finding the rival, at least 1.  `loss_low` is the lower end of
// that median's 95% confidence interval (by order statistics).  A twin of the chosen one, with weights and a kernel of
// its own, takes turns as well: `floor`, its ratio to the chosen one, says what the measurement cannot tell apart.
//
// Activations lie where they lie for all candidates, and large weights come from memory, as within a network
// (dispatch/measure.cpp says what that changes).  Samples during which another program took a processor away are taken
// again.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <map>
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
  attributes.set(attr::stride, s.stride);
  attributes.set(attr::padding, s.padding);
  attributes.set(attr::groups, s.groups);
  attributes.set(attr::activation, std::string("relu"));
  return make_op(*find_schema("conv2d"), attributes,
                 {f32({s.n, s.c, s.h, s.w}), f32({s.oc, s.c / s.groups, s.k, s.k}), f32({s.oc})});
}

// Turns of at least so many samples decide who leaves, and at which ratio to the best.
struct Stage {
  size_t rounds;
  double leave;
};
constexpr Stage kStages[] = {{3, 1.5}, {4, 1.2}, {6, 1.1}, {10, 1.05}};
constexpr double kHopeless = 2.5;  // slower than the best by this in its first runs: does not take part
constexpr size_t kLeastPairs = 9, kMostPairs = 151;
constexpr double kShortMs = 1;  // shorter ops run once before a sample, and a sample is at least 0.2 ms

constexpr int kAttempts = 4;  // at an undisturbed sample, while there is time

class Watch {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  const Clock::time_point start_ = Clock::now();
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + long(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Buffers by their place among inputs and outputs, large enough for every candidate.
class Places {
 public:
  explicit Places(Device& device) : device_(device) {}
  Buffer* get(int place, size_t bytes) {
    BufferRef& buffer = buffers_[place];
    if (!buffer || buffer->bytes() < bytes) buffer = filled(device_, bytes);
    return buffer.get();
  }
  static BufferRef filled(Device& device, size_t bytes) {
    BufferRef buffer = device.allocate(bytes);
    std::vector<float> values(bytes / sizeof(float));
    for (size_t i = 0; i < values.size(); ++i) values[i] = 0.5f + float(i * 7919 % 1024) / 1024;
    device.write(*buffer, 0, values.data(), values.size() * sizeof(float));
    return buffer;
  }

 private:
  Device& device_;
  std::map<int, BufferRef> buffers_;
};

// A candidate with a kernel and weights of its own.
class Contender {
 public:
  Contender(Device& device, Places& places, const Way& way) : way(&way), kernel_(way.candidate.prepare()) {
    const Candidate& candidate = way.candidate;
    for (size_t i = 0; i < candidate.inputs.size(); ++i) {
      const TensorDesc& desc = candidate.inputs[i];
      if (i > 0 && desc.present) buffers_.push_back(Places::filled(device, desc.size_bytes()));
      inputs_.push_back(!desc.present ? nullptr : i > 0 ? buffers_.back().get() : places.get(0, desc.size_bytes()));
    }
    outputs_.push_back(places.get(1, candidate.outputs[0].size_bytes()));
    if (candidate.workspace_bytes) buffers_.push_back(workspace_ = device.allocate(candidate.workspace_bytes));
    packed_ = pack_inputs(device, candidate, inputs_);
    for (size_t i = 1; i < inputs_.size(); ++i)  // weights and bias
      if (inputs_[i] && comes_from_afar(inputs_[i]->bytes())) evicted_.push_back(inputs_[i]);
  }

  const Way* way;
  std::vector<double> ms;  // a sample a round
  std::vector<bool> clean;

  // Twice, of which the first touches memory and builds what is built late.
  double first_ms(double least) {
    const double once = run_ms(1);
    return once > 4 * least ? once : std::min(run_ms(1), run_ms(1));
  }
  void set_repeat(double expected) {  // unless weights have to be evicted before each run
    short_ = expected < kShortMs;
    repeat_ = evicted_.empty() ? std::clamp(int(0.2 / std::max(expected, 1e-6)), 1, 500) : 1;
  }
  // Taken again up to `attempts` times while it is disturbed.
  void take_sample(int attempts) {
    if (short_) run_ms(1);
    bool undisturbed = false;
    double taken = INFINITY;
    for (int attempt = 0; attempt < attempts && !undisturbed; ++attempt) {
      const uint64_t before = preemptions();
      const double now = run_ms(repeat_);
      undisturbed = preemptions() == before;
      taken = undisturbed ? now : std::min(taken, now);
    }
    ms.push_back(taken);
    clean.push_back(undisturbed);
  }
  void forget() { ms.clear(), clean.clear(); }
  double judged_ms() const { return median(ms); }

 private:
  double run_ms(int runs) {
    for (const Buffer* buffer : evicted_) evict(*buffer);
    wake_together();
    const auto start = Clock::now();
    for (int i = 0; i < runs; ++i) kernel_->run({inputs_.data(), outputs_.data(), workspace_.get()});
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count() / runs;
  }

  std::unique_ptr<Kernel> kernel_;
  std::vector<BufferRef> buffers_, packed_;
  std::vector<Buffer*> inputs_, outputs_;
  std::vector<const Buffer*> evicted_;
  BufferRef workspace_;
  int repeat_ = 1;
  bool short_ = false;
};

using Contenders = std::vector<std::unique_ptr<Contender>>;

// The ratios of two contenders' samples of the same rounds, sorted; of undisturbed ones if there are enough.
std::vector<double> ratios(const Contender& over, const Contender& under) {
  std::vector<double> undisturbed, all;
  for (size_t i = 0; i < over.ms.size(); ++i) {
    all.push_back(over.ms[i] / under.ms[i]);
    if (over.clean[i] && under.clean[i]) undisturbed.push_back(all.back());
  }
  std::vector<double>& found = undisturbed.size() >= 5 ? undisturbed : all;
  std::sort(found.begin(), found.end());
  return found;
}

void take_round(Contenders& contenders, int attempts, std::mt19937& random) {
  std::vector<Contender*> order;
  for (const auto& contender : contenders) order.push_back(contender.get());
  std::shuffle(order.begin(), order.end(), random);
  for (Contender* contender : order) contender->take_sample(attempts);
}

// All that could be prepared and is not hopelessly slow; `chosen` in any case, as the first.
Contenders starters(Device& cpu, Places& places, const Entry& entry, const Way& chosen) {
  std::vector<const Way*> ways;
  for (const Way& way : entry.ways)
    if (way.usable && &way != &chosen) ways.push_back(&way);
  std::stable_sort(ways.begin(), ways.end(), [](const Way* a, const Way* b) { return a->ms < b->ms; });
  ways.insert(ways.begin(), &chosen);
  Contenders found;
  double least = INFINITY;
  for (const Way* way : ways) {
    try {
      auto contender = std::make_unique<Contender>(cpu, places, *way);
      const double ms = contender->first_ms(least);
      least = std::min(least, ms);
      if (way != &chosen && ms > kHopeless * least) continue;
      contender->set_repeat(ms);
      found.push_back(std::move(contender));
    } catch (const Error&) {
      if (way == &chosen) throw;
    }
  }
  return found;
}

// The fastest but the first, which stays in the race whatever it takes.
std::unique_ptr<Contender> rival_of(Contenders& race, std::mt19937& random, double seconds) {
  const Watch watch;
  for (const Stage& stage : kStages) {
    if (race.size() <= 2) break;
    for (size_t i = 0; i < stage.rounds; ++i) {
      if (race[0]->ms.size() >= 3 && watch.seconds() > seconds) break;
      take_round(race, watch.seconds() < seconds ? kAttempts : 1, random);
    }
    // Ratios to the first say how they stand among each other, too.
    std::vector<double> standing;
    for (const auto& contender : race) standing.push_back(median(ratios(*contender, *race[0])));
    const double least = *std::min_element(standing.begin() + 1, standing.end());
    for (size_t i = race.size(); i-- > 1;)
      if (standing[i] > stage.leave * least) race.erase(race.begin() + long(i));
  }
  if (race.size() < 2) return nullptr;
  auto best = race.begin() + 1;
  if (race.size() > 2) {
    const auto standing = [&](const auto& contender) { return median(ratios(*contender, *race[0])); };
    for (auto it = best; it != race.end(); ++it)
      if (standing(*it) < standing(*best)) best = it;
  }
  return std::move(*best);
}

// The way that dispatch takes where every layout is free, against its rival.
void judge(Catalog& catalog, Device& cpu, const Shape& shape, Tuning tuning, double seconds, std::mt19937& random) {
  const EntryRef entry = catalog.entry(convolution(shape), cpu);
  catalog.measure(*entry, tuning);
  const Way* chosen = nullptr;
  for (const Way& way : entry->ways)
    if (way.usable && (!chosen || way.ms < chosen->ms)) chosen = &way;
  if (!chosen) {
    std::printf("{\"problem\": \"no candidate\"}\n");
    std::fflush(stdout);
    return;
  }
  Places places(cpu);
  // The largest sizes first, so that all share the same memory.
  for (const Way& way : entry->ways)
    if (way.usable) places.get(0, way.candidate.inputs[0].size_bytes());
  for (const Way& way : entry->ways)
    if (way.usable) places.get(1, way.candidate.outputs[0].size_bytes());
  Contenders race = starters(cpu, places, *entry, *chosen);
  const size_t candidates = race.size();
  std::unique_ptr<Contender> rival = rival_of(race, random, seconds / 2);
  const auto twin = [&] {
    auto made = std::make_unique<Contender>(cpu, places, *chosen);
    made->set_repeat(made->first_ms(INFINITY));
    return made;
  };
  Contenders last;
  last.push_back(std::move(race[0]));
  last.push_back(twin());
  if (rival) last.push_back(std::move(rival));
  for (const auto& contender : last) contender->forget();
  const Watch watch;
  for (size_t round = 0; round < kMostPairs; ++round) {
    if (round >= kLeastPairs && watch.seconds() > seconds) break;
    take_round(last, watch.seconds() < seconds ? kAttempts : 1, random);
  }
  const Contender &first = *last[0], &other = *last.back();
  const std::vector<double> losses = last.size() > 2 ? ratios(first, other) : std::vector<double>{1};
  const auto low = long(double(losses.size()) / 2 - std::sqrt(double(losses.size())));
  const double floor = median(ratios(*last[1], first));
  Json json;
  json.object().key("shape").list();
  for (int64_t size :
       {shape.n, shape.c, shape.h, shape.w, shape.oc, shape.k, shape.stride, shape.padding, shape.groups})
    json.value(size);
  json.end()
      .field("chosen", first.way->key)
      .field("chosen_ms", first.judged_ms())
      .field("rival", other.way->key)
      .field("rival_ms", other.judged_ms())
      .field("loss", std::max(1.0, median(losses)))
      .field("loss_low", std::max(1.0, losses[size_t(std::max(0L, low))]))
      .field("floor", std::max(floor, 1 / floor))
      .field("pairs", losses.size())
      .field("candidates", candidates)
      .field("chosen_tuned_ms", double(first.way->ms))
      .field("rival_tuned_ms", double(other.way->ms))
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
