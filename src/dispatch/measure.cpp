#include "dispatch/measure.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <optional>
#include <tuple>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "core/samples.h"
#include "core/threads.h"
#include "dispatch/measuring_time.h"
#include "dispatch/sample_data.h"

namespace pl {
namespace {

// Constants of this size or more are evicted.  A layer with fewer bytes of weights belongs to a network that may well
// stay in the last-level cache.  That it matters: the 3x3 512->512 at 7x7 of ResNet-50 (9.4 MB of weights) takes 0.53
// ms in nChw16c and 0.56 in NHWC with warm weights, but 1.0 and 0.7 within the network (Zen 5, two cores;
// bench/networks.py).
constexpr size_t kEvictBytes = size_t(256) << 10;

// A GPU has no instruction for it: what fills its last-level cache takes the place of all else there, activations, too.
// So it is done where constants are by far the most that an op reads, as in products of few rows.  With weights in that
// cache a product of 1 x 2048 x 11264 in f16 took 16 us on an H200 by lanes and by matrix units, 18 and 24 within the
// network (bench/static_caches.py).
constexpr size_t kSweepBytes = size_t(128) << 20;  // the largest last-level caches of GPUs have 50 to 128 MB
constexpr size_t kMostlyConstants = 8;             // times the bytes of all other inputs and outputs

constexpr int kAttempts = 3;           // at a sample in which no thread loses its processor
constexpr size_t kEnoughClean = 3;     // such samples, to judge by them alone
constexpr double kTimeSlicesMs = 100;  // what other programs take at once: a few time slices
constexpr double kClose = 1.15;        // candidates this near to the best are told apart by further rounds
constexpr double kTie = 1.05;          // those this near to it also by rounds in which everything is cold
constexpr int kTieRounds = 12;

using MeasureClock = std::chrono::steady_clock;

std::atomic<int64_t> measuring_ns{0}, comparing_ns{0};

// Adds the time of its life to a sum.
class TimeIn {
 public:
  explicit TimeIn(std::atomic<int64_t>& sum) : sum_(sum) {}
  ~TimeIn() { sum_ += std::chrono::nanoseconds(MeasureClock::now() - began_).count(); }

 private:
  std::atomic<int64_t>& sum_;
  MeasureClock::time_point began_ = MeasureClock::now();
};

double seconds_since(MeasureClock::time_point began) {
  return std::chrono::duration<double>(MeasureClock::now() - began).count();
}

// A candidate that is being timed.
struct Timed {
  TimedCandidate* measured;
  std::vector<Buffer*> inputs, outputs;
  Buffer* workspace = nullptr;
  std::vector<BufferRef> packed;       // constants as the kernel wants them
  std::vector<const Buffer*> evicted;  // before each run
  Buffer* sweep = nullptr;             // is filled before each run, so that the caches hold nothing else
  std::vector<double> clean;           // samples during which every thread kept its processor
  double shortest = INFINITY;          // of all samples
  int repeat = 1;

  bool out() const { return measured->failed || measured->wrong; }
  void run_once() { measured->kernel->run({inputs.data(), outputs.data(), workspace}); }
  // One sample; false if another program took a processor away meanwhile, which costs whole time slices.
  bool sample(Device& device, double& ms) {
    for (const Buffer* buffer : evicted) evict(*buffer);
    if (sweep) device.fill_zero(*sweep, 0, sweep->bytes());
    if (device.traits().threads) wake_together();
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
      measured->failed = true;
    }
  }
  void forget() {
    clean.clear();
    shortest = INFINITY;
  }
  void evict_all() {  // before each run from now on
    evicted.clear();
    for (const std::vector<Buffer*>* side : {&inputs, &outputs})
      for (const Buffer* buffer : *side)
        if (buffer) evicted.push_back(buffer);
    if (workspace) evicted.push_back(workspace);
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

// Whatever measures it, a candidate's time has its data near and its neighbour's traces in the caches.  Of two with the
// same time, one may lose twice as much as the other where activations, too, come from another core or from memory: the
// 1x1 512->128 at 28x28 in NHWC took 0.31 ms as `brgconv_1x1` and as `jit_1x1`, and 0.36 and 0.39 with all of its
// memory evicted (Xeon, two cores; bench/conv_overhead.cpp, where the latter is 7% slower).  So both figures count the
// same: the time becomes the fastest's, times the mean of what this one takes relative to the least, near and cold.
void break_ties(Device& device, std::vector<Timed>& list, const MeasureOptions& options) {
  for (Timed& fastest : list) {
    if (fastest.out() || fastest.evicted.empty()) continue;
    const double near = fastest.ms();
    std::vector<Timed> tied;
    bool leads = true;
    for (Timed& other : list) {
      if (other.out() || other.evicted.empty() ||
          !alike(*other.measured->candidate, *fastest.measured->candidate, options.constants))
        continue;
      leads = leads && (near < other.ms() || (near == other.ms() && &fastest <= &other));
      if (other.ms() <= kTie * near) tied.push_back(other);
    }
    if (!leads || tied.size() < 2) continue;
    for (Timed& each : tied) each.forget(), each.evict_all();
    const auto began = MeasureClock::now();
    for (int round = 0; round < kTieRounds && (round < int(kEnoughClean) || seconds_since(began) < options.seconds / 2);
         ++round)
      for (size_t i = 0; i < tied.size(); ++i) {
        if (options.interrupt) options.interrupt->poll();
        tied[(size_t(round) + i) % tied.size()].take_sample(device);
      }
    double least = INFINITY;
    for (const Timed& each : tied) least = std::min(least, each.ms());
    for (const Timed& each : tied)
      if (!each.measured->failed) each.measured->ms = near * (each.measured->ms / near + each.ms() / least) / 2;
  }
}

}  // namespace

bool comes_from_afar(size_t constant_bytes) { return constant_bytes >= kEvictBytes; }

void evict([[maybe_unused]] const Buffer& buffer) {
#if defined(__x86_64__)
  const char* at = static_cast<const char*>(buffer.host());
  for (size_t i = 0; at && i < buffer.bytes(); i += 64) _mm_clflush(at + i);
  _mm_mfence();
#elif defined(__aarch64__)
  const char* at = static_cast<const char*>(buffer.host());
  for (size_t i = 0; at && i < buffer.bytes(); i += 64) asm volatile("dc civac, %0" ::"r"(at + i) : "memory");
  asm volatile("dsb ish" ::: "memory");
#endif
}

namespace {

// What input `input` of the op holds while it is measured.  Weights of sums have either sign, so that a term too many
// or too few stands out of the sum.
SampleRange range_of(const Op& op, int input) {
  SampleRange range;
  if (op.schema->products && op.schema->role_of(input) == Role::constant) range.low = -1, range.high = 1;
  const DType dtype = op.in(input).dtype;
  if (dtype == DType::s8 || dtype == DType::u8)
    range.largest = 127;
  else if (op.schema->integers && (dtype == DType::s32 || dtype == DType::s64))
    std::tie(range.least, range.largest) = op.schema->integers(op, input);
  range.ascending = op.schema->input_parameter(input).ascending;
  return range;
}

// The buffers that candidates take turns in: of each input and output one, of the largest size that any wants.
class Buffers {
 public:
  Buffers(Device& device, const Op& op) : device_(device), op_(op), held_(op.inputs.size()) {}

  // Makes room for what the candidate wants.
  void grow(const Candidate& candidate) {
    grow(inputs_, candidate.inputs);
    grow(outputs_, candidate.outputs);
    if (candidate.workspace_bytes > (workspace_ ? workspace_->bytes() : 0)) {
      outgrown_.push_back(std::move(workspace_));
      workspace_ = device_.allocate(candidate.workspace_bytes);
    }
  }
  // Writes the inputs as the candidate states them, where they are not there yet, and binds what it runs on.
  void bind(const Candidate& candidate, std::vector<Buffer*>& inputs, std::vector<Buffer*>& outputs,
            Buffer*& workspace) {
    for (size_t i = 0; i < candidate.inputs.size(); ++i) {
      const TensorDesc& desc = candidate.inputs[i];
      inputs.push_back(desc.present ? inputs_[i].get() : nullptr);
      if (!desc.present || (held_[i].present && same_memory(held_[i], desc))) continue;
      Buffer& buffer = *inputs_[i];
      if (buffer.host()) {
        write_sample(desc, range_of(op_, int(i)), unsigned(i) + 1, static_cast<char*>(buffer.host()));
      } else {
        staging_.resize(std::max(staging_.size(), desc.size_bytes()));
        write_sample(desc, range_of(op_, int(i)), unsigned(i) + 1, staging_.data());
        device_.write(buffer, 0, staging_.data(), desc.size_bytes());
      }
      held_[i] = desc;
    }
    for (size_t i = 0; i < candidate.outputs.size(); ++i)
      outputs.push_back(candidate.outputs[i].present ? outputs_[i].get() : nullptr);
    if (candidate.workspace_bytes) workspace = workspace_.get();
  }

 private:
  void grow(std::vector<BufferRef>& buffers, const std::vector<TensorDesc>& descs) {
    buffers.resize(std::max(buffers.size(), descs.size()));
    for (size_t i = 0; i < descs.size(); ++i)
      if (descs[i].present && (!buffers[i] || buffers[i]->bytes() < descs[i].size_bytes())) {
        outgrown_.push_back(std::move(buffers[i]));
        buffers[i] = device_.allocate(descs[i].size_bytes());
        if (&buffers == &inputs_) held_[i] = {};
      }
  }

  Device& device_;
  const Op& op_;
  std::vector<BufferRef> inputs_, outputs_;
  BufferRef workspace_;
  std::vector<BufferRef> outgrown_;  // a witness may want larger ones than those that candidates are bound to
  std::vector<TensorDesc> held_;     // what each input's buffer holds
  std::vector<char> staging_;
};

// Positions in each output at which results are compared.  A device that is not the host reads 64 at once.
int positions_on(const Device& device) { return device.traits().host_addressable ? 256 : 64; }

// Holds the results of the candidates' first runs against each other; empty ones are of those that failed.
void compare(Device& device, const Op& op, Buffers& buffers, std::vector<TimedCandidate>& candidates,
             std::vector<std::vector<double>> results, const MeasureOptions& options) {
  const double bound = agreement_bound(op);
  std::vector<int> weights(results.size(), 1);
  if (options.agreed && options.agreed->weight > 0) {
    results.push_back(options.agreed->values);
    weights.push_back(options.agreed->weight);
  }
  Agreement agreement = agree(results, weights, bound);
  if (agreement.representative < 0 && options.witnesses) {
    const std::vector<Witness> witnesses = options.witnesses();
    Probe probe(device, op, positions_on(device), witnesses.size());
    for (size_t i = 0; i < witnesses.size(); ++i) {
      const Witness& witness = witnesses[i];
      std::vector<Buffer*> inputs, outputs;
      Buffer* workspace = nullptr;
      try {
        buffers.grow(witness.candidate);
        buffers.bind(witness.candidate, inputs, outputs, workspace);
        const std::vector<BufferRef> packed = pack_inputs(device, witness.candidate, inputs);
        probe.poison(witness.candidate.outputs, outputs);
        witness.kernel->run({inputs.data(), outputs.data(), workspace});
        device.synchronize();
        probe.gather(i, witness.candidate.outputs, outputs);
      } catch (const Error&) {  // it says nothing, then
      }
    }
    std::vector<std::vector<double>> found = probe.read();
    for (size_t i = 0; i < witnesses.size(); ++i) {
      results.push_back(std::move(found[i]));
      weights.push_back(witnesses[i].candidate.reference ? 2 : 1);  // plain loops are right where others differ
    }
    agreement = agree(results, weights, bound);
  }
  for (size_t i = 0; i < candidates.size(); ++i) {
    candidates[i].error = agreement.error[i];
    candidates[i].wrong = agreement.outlier[i];
    candidates[i].agrees = agreement.representative >= 0 && !results[i].empty() && !agreement.outlier[i];
  }
  if (!options.agreed || agreement.representative < 0) return;
  options.agreed->values = results[size_t(agreement.representative)];
  options.agreed->weight = 0;
  for (size_t i = 0; i < results.size(); ++i)
    if (!results[i].empty() && !agreement.outlier[i]) options.agreed->weight += weights[i];
}

// One call of measure().
class Measurement {
 public:
  Measurement(Device& device, const Op& op, std::vector<TimedCandidate>& candidates, const MeasureOptions& options)
      : device_(device), op_(op), candidates_(candidates), options_(options), buffers_(device, op) {}

  void run() {
    run_untimed();
    if (options_.untimed) return;
    began_ = MeasureClock::now();
    take_first_samples();
    race();
    decide_among_the_best();
    report();
    // A search among many, most of them bad, is not about ties.
    if (std::isinf(options_.abandon_ratio)) break_ties(device_, timed_, options_);
  }

 private:
  void poll() const {
    if (options_.interrupt) options_.interrupt->poll();
  }

  // The first run of each touches memory and builds what is built late. Its result is held against the others'.
  void run_untimed() {
    for (const TimedCandidate& measured : candidates_) buffers_.grow(*measured.candidate);
    Probe probe(device_, op_, positions_on(device_), candidates_.size());
    for (size_t i = 0; i < candidates_.size(); ++i) {
      TimedCandidate& measured = candidates_[i];
      const Candidate& candidate = *measured.candidate;
      Timed timed;
      timed.measured = &measured;
      buffers_.bind(candidate, timed.inputs, timed.outputs, timed.workspace);
      poll();
      pack(timed);
      try {
        if (!measured.failed) {
          {
            const TimeIn comparing(comparing_ns);
            probe.poison(candidate.outputs, timed.outputs);
          }
          timed.run_once();
          device_.synchronize();
          const TimeIn comparing(comparing_ns);
          probe.gather(i, candidate.outputs, timed.outputs);
        }
      } catch (const Error&) {
        measured.failed = true;
      }
      evict_constants(timed);
      timed_.push_back(std::move(timed));
    }
    const TimeIn comparing(comparing_ns);
    compare(device_, op_, buffers_, candidates_, probe.read(), options_);
  }

  void pack(Timed& timed) {
    try {
      timed.packed = pack_inputs(device_, *timed.measured->candidate, timed.inputs);
    } catch (const Error& error) {
      if (error.code() == Code::out_of_memory) throw;
      timed.measured->failed = true;
    }
  }

  void evict_constants(Timed& timed) {
    const Candidate& candidate = *timed.measured->candidate;
    size_t constants = 0, others = 0;
    for (const TensorDesc& desc : candidate.outputs) others += desc.present ? desc.size_bytes() : 0;
    for (size_t i = 0; i < timed.inputs.size(); ++i) {
      if (!timed.inputs[i]) continue;
      const Packing* packing = candidate.packing_of(int(i));
      const size_t bytes = packing ? packing->bytes : candidate.inputs[i].size_bytes();
      const bool constant = i < options_.constants.size() && options_.constants[i];
      (constant ? constants : others) += bytes;
      if (constant && timed.inputs[i]->host() && comes_from_afar(bytes)) timed.evicted.push_back(timed.inputs[i]);
    }
    if (device_.traits().gpu && comes_from_afar(constants) && constants > kMostlyConstants * others)
      timed.sweep = sweep();
  }

  // Null where the device has no memory left for it.
  Buffer* sweep() {
    if (sweep_) return sweep_->get();
    sweep_.emplace();
    try {
      *sweep_ = device_.allocate(kSweepBytes);
    } catch (const Error& error) {
      if (error.code() != Code::out_of_memory) throw;
    }
    return sweep_->get();
  }

  void take_first_samples() {
    for (Timed& timed : timed_) {
      if (timed.out()) continue;
      poll();
      timed.take_sample(device_);
      if (timed.evicted.empty() && !timed.sweep)
        timed.repeat = std::clamp(int(0.02 / std::max(timed.shortest, 1e-6)), 1, 1000);  // samples of at least 20 us
    }
  }

  // Each round begins with another candidate, so that none always follows the same one's traces in the caches.
  template <class Races>
  void take_round(const Races& races) {
    ++first_;
    for (size_t i = 0; i < timed_.size(); ++i) {
      Timed& timed = timed_[(first_ + i) % timed_.size()];
      poll();
      if (!timed.out() && races(timed)) timed.take_sample(device_);
    }
  }

  void race() {
    for (int round = 1; round < options_.rounds; ++round) {
      double best = options_.best_ms;
      for (const Timed& timed : timed_) best = std::min(best, timed.shortest);
      // A machine so busy that hardly a sample was undisturbed gets more time, unless the op is a long one, of which a
      // time slice lost is a small part.
      const bool doubtful = best < kTimeSlicesMs && std::none_of(timed_.begin(), timed_.end(), [](const Timed& timed) {
                              return timed.clean.size() >= kEnoughClean;
                            });
      if (seconds_since(began_) > options_.seconds * (doubtful ? 4 : round < 3 ? 3 : 1)) break;
      // One disturbed run must not put a candidate out of the race: all have three chances before any leaves,
      // but for those so slow that three runs would cost more than the whole budget.
      take_round([&](const Timed& timed) {
        if (timed.shortest > options_.abandon_ratio * best) return false;
        return timed.shortest <= options_.give_up_ratio * best ||
               (round < 3 && timed.shortest * 1e-3 <= options_.seconds / 3);
      });
    }
  }

  // What is close to the best by now is what a choice may get wrong: more rounds among those alone.
  void decide_among_the_best() {
    for (int round = 0; round < options_.final_rounds; ++round) {
      if (seconds_since(began_) > options_.seconds * 2) break;
      double best = INFINITY;
      for (const Timed& timed : timed_)
        if (!timed.out()) best = std::min(best, timed.ms());
      const auto close = [&](const Timed& timed) { return timed.ms() <= kClose * best; };
      if (std::count_if(timed_.begin(), timed_.end(), close) < 2) break;
      take_round(close);
    }
  }

  void report() {
    for (Timed& timed : timed_) {
      timed.measured->ms = timed.ms();
      timed.measured->doubtful = timed.clean.size() < kEnoughClean && timed.shortest < kTimeSlicesMs;
    }
  }

  Device& device_;
  const Op& op_;
  std::vector<TimedCandidate>& candidates_;
  const MeasureOptions& options_;
  Buffers buffers_;
  std::vector<Timed> timed_;
  std::optional<BufferRef> sweep_;  // once it was asked for
  size_t first_ = 0;                // that the next round begins with
  MeasureClock::time_point began_;
};

}  // namespace

MeasureOptions beside_runs() {
  MeasureOptions options;
  options.rounds = 4;
  options.final_rounds = 1;
  options.seconds = 0.02;
  return options;
}

double cost_beside_runs(double ms, size_t bytes) {
  constexpr double kLeastSampleMs = 0.02;  // as short ones are repeated
  constexpr int kSamples = 6;              // the run that is compared included
  constexpr double kBytesPerMs = 5e6;      // that are written
  return kSamples * std::max(kLeastSampleMs, ms) + double(bytes) / kBytesPerMs;
}

double cost_beside_runs(const Candidate& candidate, double ms) {
  size_t bytes = 0;
  for (const TensorDesc& desc : candidate.inputs) bytes += desc.present ? desc.size_bytes() : 0;
  return cost_beside_runs(ms, bytes);
}

MeasuringTime measuring_time() { return {1e-9 * double(measuring_ns), 1e-9 * double(comparing_ns)}; }

void measure(Device& device, const Op& op, std::vector<TimedCandidate>& candidates, const MeasureOptions& options) {
  device.prepare_places();  // kernels are prepared before time counts
  const TimeIn measuring(measuring_ns);
  Measurement(device, op, candidates, options).run();
}

}  // namespace pl
