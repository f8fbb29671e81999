#include "dispatch/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <random>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "core/threads.h"

namespace pl {
namespace {

// Constants of this size or more are evicted.  A layer with fewer bytes of weights belongs to a network that may well
// stay in the last-level cache.  That it matters: the 3x3 512->512 at 7x7 of ResNet-50 (9.4 MB of weights) takes 0.53
// ms in nChw16c and 0.56 in NHWC with warm weights, but 1.0 and 0.7 within the network (Zen 5, two cores;
// bench/networks.py).
constexpr size_t kEvictBytes = size_t(256) << 10;

constexpr int kAttempts = 3;           // at a sample in which no thread loses its processor
constexpr size_t kEnoughClean = 3;     // such samples, to judge by them alone
constexpr double kTimeSlicesMs = 100;  // what other programs take at once: a few time slices
constexpr double kClose = 1.15;        // contenders this near to the best are told apart by further rounds
constexpr double kTie = 1.05;          // those this near to it also by rounds in which everything is cold
constexpr int kTieRounds = 12;

using Clock = std::chrono::steady_clock;

// Values in [0.5, 1.5): no denormals, positive (variances), and finite through any op here.  Integers are zero
// or one, valid as indices wherever there is anything to index.
std::vector<char> random_bytes(DType dtype, size_t bytes) {
  std::vector<char> data(bytes);
  std::minstd_rand random(1);
  constexpr size_t kPeriod = 8191;  // elements generated; repeated, since only the timing matters
  const size_t unit = size_of(dtype);
  const size_t count = bytes / unit;
  for (size_t i = 0; i < std::min(count, kPeriod); ++i) {
    const float value = 0.5f + float(random() % 65536) / 65536.0f;
    char* at = data.data() + i * unit;
    switch (dtype) {
      case DType::f32: std::memcpy(at, &value, 4); break;
      case DType::f16: {
        const uint16_t half = float_to_half(value);
        std::memcpy(at, &half, 2);
        break;
      }
      case DType::bf16: {
        const uint16_t half = float_to_bfloat16(value);
        std::memcpy(at, &half, 2);
        break;
      }
      default: *at = 0; break;  // little-endian zero of any width: an index that is always valid
    }
  }
  for (size_t done = std::min(count, kPeriod) * unit; done > 0 && done < count * unit; done *= 2)
    std::memcpy(data.data() + done, data.data(), std::min(done, count * unit - done));
  return data;
}

// Whatever disturbs a run makes it longer, never shorter, so the lower quartile is nearer the truth than the median
// on a busy machine; the minimum would reward a single lucky run.
double lower_quartile(std::vector<double> values) {
  const auto at = values.begin() + long((values.size() - 1) / 4);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

struct Runner {
  Contender* contender;
  std::vector<Buffer*> inputs, outputs;
  Buffer* workspace = nullptr;
  std::vector<BufferRef> packed;       // constants as the kernel wants them
  std::vector<const Buffer*> evicted;  // before each run
  std::vector<double> clean;           // samples during which every thread kept its processor
  double shortest = INFINITY;          // of all samples
  int repeat = 1;

  void run_once() { contender->kernel->run({inputs.data(), outputs.data(), workspace}); }
  // One sample; false if another program took a processor away meanwhile, which costs whole time slices.
  bool sample(Device& device, double& ms) {
    for (const Buffer* buffer : evicted) evict(*buffer);
    if (device.is_cpu()) wake_together();
    const uint64_t before = preemptions();
    auto timing = device.start_timing();
    for (int i = 0; i < repeat; ++i) run_once();
    timing->stop();
    ms = timing->milliseconds() / repeat;
    return preemptions() == before;
  }
  void take_sample(Device& device) {
    try {
      for (int attempt = 0; attempt < kAttempts; ++attempt) {
        double ms = 0;
        const bool undisturbed = sample(device, ms);
        shortest = std::min(shortest, ms);
        if (undisturbed) {
          clean.push_back(ms);
          break;
        }
      }
    } catch (const Error&) {
      contender->failed = true;
    }
  }
  void forget() {
    clean.clear();
    shortest = INFINITY;
  }
  double ms() const { return clean.size() >= kEnoughClean ? lower_quartile(clean) : shortest; }
};

// True if other ops cannot tell them apart: they take the same data, and give the same.
bool alike(const Candidate& a, const Candidate& b, const std::vector<bool>& constants) {
  if (a.outputs != b.outputs || a.inputs.size() != b.inputs.size()) return false;
  for (size_t i = 0; i < a.inputs.size(); ++i)
    if (!(i < constants.size() && constants[i]) && a.inputs[i] != b.inputs[i]) return false;
  return true;
}

// Whatever measures it, a contender's time has its data near and its neighbour's traces in the caches.  Of two with the
// same time, one may lose twice as much as the other where activations, too, come from another core or from memory: the
// 1x1 512->128 at 28x28 in NHWC took 0.31 ms as `brgconv_1x1` and as `jit_1x1`, and 0.36 and 0.39 with all of its
// memory evicted (Xeon, two cores; bench/conv_overhead.cpp, where the latter is 7% slower).  So both figures count the
// same: the time becomes the fastest's, times the mean of what this one takes relative to the least, near and cold.
void break_ties(Device& device, std::vector<Runner>& runners, const MeasureOptions& options) {
  for (Runner& fastest : runners) {
    if (fastest.contender->failed || fastest.evicted.empty()) continue;
    const double near = fastest.ms();
    std::vector<Runner> tied;
    bool leads = true;
    for (Runner& runner : runners) {
      if (runner.contender->failed || runner.evicted.empty() ||
          !alike(*runner.contender->candidate, *fastest.contender->candidate, options.constants))
        continue;
      leads = leads && (near < runner.ms() || (near == runner.ms() && &fastest <= &runner));
      if (runner.ms() <= kTie * near) tied.push_back(runner);
    }
    if (!leads || tied.size() < 2) continue;
    for (Runner& runner : tied) {
      runner.forget();
      runner.evicted.clear();
      for (const std::vector<Buffer*>* side : {&runner.inputs, &runner.outputs})
        for (const Buffer* buffer : *side)
          if (buffer) runner.evicted.push_back(buffer);
      if (runner.workspace) runner.evicted.push_back(runner.workspace);
    }
    const auto began = Clock::now();
    const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - began).count(); };
    for (int round = 0; round < kTieRounds && (round < int(kEnoughClean) || seconds() < options.seconds / 2); ++round)
      for (size_t i = 0; i < tied.size(); ++i) {
        if (options.interrupt) options.interrupt->poll();
        tied[(size_t(round) + i) % tied.size()].take_sample(device);
      }
    double least = INFINITY;
    for (const Runner& runner : tied) least = std::min(least, runner.ms());
    for (const Runner& runner : tied)
      if (!runner.contender->failed)
        runner.contender->ms = near * (runner.contender->ms / near + runner.ms() / least) / 2;
  }
}

}  // namespace

bool comes_from_afar(size_t constant_bytes) { return constant_bytes >= kEvictBytes; }

void evict([[maybe_unused]] const Buffer& buffer) {
#if defined(__x86_64__)
  const char* at = static_cast<const char*>(buffer.host());
  for (size_t i = 0; at && i < buffer.bytes(); i += 64) _mm_clflush(at + i);
  _mm_mfence();
#endif
}

void measure(Device& device, std::vector<Contender>& contenders, const MeasureOptions& options) {
  // Buffers are shared between contenders: they only need the largest size that any of them wants.
  std::map<std::pair<int, int>, size_t> sizes;  // (0 input | 1 output, index) -> bytes
  size_t workspace_bytes = 0;
  for (const Contender& contender : contenders) {
    const Candidate& candidate = *contender.candidate;
    const auto grow = [&](int side, const std::vector<TensorDesc>& descs) {
      for (size_t i = 0; i < descs.size(); ++i)
        if (descs[i].present) {
          size_t& bytes = sizes[{side, int(i)}];
          bytes = std::max(bytes, descs[i].size_bytes());
        }
    };
    grow(0, candidate.inputs);
    grow(1, candidate.outputs);
    workspace_bytes = std::max(workspace_bytes, candidate.workspace_bytes);
  }
  std::map<std::pair<int, int>, BufferRef> buffers;
  for (const auto& [place, bytes] : sizes) {
    buffers[place] = device.allocate(bytes);
    if (place.first == 0) {
      DType dtype = DType::f32;
      for (const Contender& contender : contenders) dtype = contender.candidate->inputs[size_t(place.second)].dtype;
      const std::vector<char> data = random_bytes(dtype, bytes);
      device.write(*buffers[place], 0, data.data(), bytes);
    }
  }
  const BufferRef workspace = workspace_bytes ? device.allocate(workspace_bytes) : nullptr;

  std::vector<Runner> runners;
  for (Contender& contender : contenders) {
    Runner runner;
    runner.contender = &contender;
    const auto bind = [&](int side, const std::vector<TensorDesc>& descs, std::vector<Buffer*>& to) {
      for (size_t i = 0; i < descs.size(); ++i)
        to.push_back(descs[i].present ? buffers[{side, int(i)}].get() : nullptr);
    };
    bind(0, contender.candidate->inputs, runner.inputs);
    bind(1, contender.candidate->outputs, runner.outputs);
    if (contender.candidate->workspace_bytes) runner.workspace = workspace.get();
    try {
      runner.packed = pack_inputs(device, *contender.candidate, runner.inputs);
    } catch (const Error& error) {
      if (error.code() == Code::out_of_memory) throw;
      contender.failed = true;
    }
    for (size_t i = 0; i < runner.inputs.size(); ++i) {
      const Packing* packing = contender.candidate->packing_of(int(i));
      if (i < options.constants.size() && options.constants[i] && runner.inputs[i] && runner.inputs[i]->host() &&
          comes_from_afar(packing ? packing->bytes : contender.candidate->inputs[i].size_bytes()))
        runner.evicted.push_back(runner.inputs[i]);
    }
    runners.push_back(std::move(runner));
  }

  const auto began = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - began).count(); };
  for (Runner& runner : runners) {
    if (runner.contender->failed) continue;
    if (options.interrupt) options.interrupt->poll();
    runner.take_sample(device);  // touches memory, builds what is built late: not counted
    runner.forget();
    if (!runner.contender->failed) runner.take_sample(device);
    if (runner.evicted.empty())
      runner.repeat = std::clamp(int(0.02 / std::max(runner.shortest, 1e-6)), 1, 1000);  // samples of at least 20 us
  }
  // Each round begins with another contender, so that none always follows the same one's traces in the caches.
  size_t first = 0;
  const auto take_round = [&](const auto& races) {
    ++first;
    for (size_t i = 0; i < runners.size(); ++i) {
      Runner& runner = runners[(first + i) % runners.size()];
      if (options.interrupt) options.interrupt->poll();
      if (!runner.contender->failed && races(runner)) runner.take_sample(device);
    }
  };
  for (int round = 1; round < options.rounds; ++round) {
    double best = options.best_ms;
    for (const Runner& runner : runners) best = std::min(best, runner.shortest);
    // A machine so busy that hardly a sample was undisturbed gets more time, unless the op is a long one, of which a
    // time slice lost is a small part.
    const bool doubtful = best < kTimeSlicesMs && std::none_of(runners.begin(), runners.end(), [](const Runner& r) {
                            return r.clean.size() >= kEnoughClean;
                          });
    if (seconds() > options.seconds * (doubtful ? 4 : round < 3 ? 3 : 1)) break;
    // One disturbed run must not put a contender out of the race: all have three chances before any leaves,
    // but for those so slow that three runs would cost more than the whole budget.
    take_round([&](const Runner& runner) {
      if (runner.shortest > options.abandon_ratio * best) return false;
      return runner.shortest <= options.give_up_ratio * best ||
             (round < 3 && runner.shortest * 1e-3 <= options.seconds / 3);
    });
  }
  // What is close to the best by now is what a choice may get wrong: more rounds among those alone.
  for (int round = 0; round < options.final_rounds; ++round) {
    if (seconds() > options.seconds * 2) break;
    double best = INFINITY;
    for (const Runner& runner : runners)
      if (!runner.contender->failed) best = std::min(best, runner.ms());
    const auto close = [&](const Runner& runner) { return runner.ms() <= kClose * best; };
    if (std::count_if(runners.begin(), runners.end(), close) < 2) break;
    take_round(close);
  }
  for (Runner& runner : runners) {
    runner.contender->ms = runner.ms();
    runner.contender->doubtful = runner.clean.size() < kEnoughClean && runner.shortest < kTimeSlicesMs;
  }
  // A search among many, most of them bad, is not about ties.
  if (std::isinf(options.abandon_ratio)) break_ties(device, runners, options);
}

}  // namespace pl
