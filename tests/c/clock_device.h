// A made-up device that queues work and compiles kernels, whose clock says what each kernel is to take; an op on it, and
// the ways that there are to run it.  Who includes it registers both.
#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "heap_device.h"
#include "ops/op.h"
#include "providers/provider.h"

namespace pl {

// What this thread's kernels took on the device so far, ms.
inline thread_local double clock_ms = 0;
inline thread_local double last_ms = 0;  // what the last one takes

class ClockTiming : public Timing {
 public:
  void stop() override { end_ = clock_ms; }
  double milliseconds() override { return end_ - start_; }

 private:
  double start_ = clock_ms, end_ = clock_ms;
};

class ClockDevice : public HeapDevice {
 public:
  ClockDevice() : HeapDevice("clock:0", traits_of_it()) {}
  int builders() const override { return 2; }
  std::unique_ptr<Timing> start_timing() override { return std::make_unique<ClockTiming>(); }

 private:
  static DeviceTraits traits_of_it() {
    DeviceTraits traits;
    traits.queued = traits.compiles = traits.gpu = true;
    return traits;
  }
};

constexpr Key<int64_t> kLayer{"layer"};

inline Schema make_turned() {
  Schema schema("test_turned", "test_turned", "y = -x");
  schema.tensor("x", "any").attribute(kLayer, int64_t(0), "tells layers apart");
  schema.infer = [](Op& op) { op.outputs = {TensorDesc::dense(op.in(0).dtype, op.in(0).shape)}; };
  return schema;
}

struct Offer {
  double said_ms, real_ms;
  bool wrong = false;
};

// What is offered, and what was prepared so far.
inline std::vector<Offer> offers;
inline std::chrono::milliseconds compiling(0);
inline std::mutex noting;
inline std::vector<std::pair<size_t, std::thread::id>> prepared;

class TurnedKernel : public Kernel {
 public:
  TurnedKernel(int64_t count, Offer offer) : count_(count), offer_(offer) {}
  void run(const KernelArguments& arguments) override {
    const auto* x = reinterpret_cast<const float*>(ClockDevice::at(*arguments.inputs[0]));
    auto* y = reinterpret_cast<float*>(ClockDevice::at(*arguments.outputs[0]));
    for (int64_t i = 0; i < count_; ++i) y[i] = offer_.wrong && i % 7 == 3 ? x[i] : -x[i];
    clock_ms += offer_.real_ms;
    last_ms = offer_.real_ms;
  }

 private:
  int64_t count_;
  Offer offer_;
};

class ClockProvider : public Provider {
 public:
  std::string name() const override { return "clock"; }
  std::string version() const override { return "1"; }
  bool serves(const Device& device) const override { return device.fingerprint() == "clock"; }
  bool compiles() const override { return true; }
  void list(const Op& op, Device&, CandidateList& out) override {
    if (op.schema->kind != "test_turned") return;
    for (size_t i = 0; i < offers.size(); ++i) {
      Candidate candidate;
      candidate.provider = name();
      candidate.implementation = "way" + std::to_string(i);
      candidate.inputs = {TensorDesc::dense(DType::f32, op.in(0).shape)};
      candidate.outputs = {TensorDesc::dense(DType::f32, op.out(0).shape)};
      candidate.busy_ms = offers[i].said_ms;
      candidate.prepare = [i, offer = offers[i], count = op.out(0).elements()] {
        std::this_thread::sleep_for(compiling);
        const std::lock_guard<std::mutex> guard(noting);
        prepared.emplace_back(i, std::this_thread::get_id());
        return std::make_unique<TurnedKernel>(count, offer);
      };
      out.add(candidate);
    }
  }
};
}  // namespace pl
