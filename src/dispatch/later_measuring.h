// LaterMeasuring: on GPUs no eager call waits for measuring.
//
// Kernels of a GPU are compiled for a tenth of a second to several each, and an op has many ways.  To compile and time
// all that may be the fastest before a program's first result took 16 s for BERT and 36 s for a step of its training
// (H200), which then ran as fast as by estimates, within 10%.  So a call takes the way that promises most, and the
// others' turn comes behind it, by one thread:
//   1. Once no call was chosen for `quiet`, and none waits for its kernel (Building::behind), kernels of the ways that
//      matter are compiled (dispatch/beside_runs.h).  The op that takes most comes first; first kSome ways of each, then
//      all.
//   2. They are timed against each other on sample values, between what the program queues.  What that takes is at most
//      kShare of the time.
//   3. What was found is made known at most once every kBetween: calls choose again then.
// Until an op's ways are all measured it is open (Entry::open).
//
// On other devices, and with other tuning than `automatic`, an op is measured when it is first called.  Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "core/background.h"
#include "dispatch/beside_runs.h"
#include "dispatch/catalog.h"

namespace pl {

class Profile;

class LaterMeasuring {
  using Clock = std::chrono::steady_clock;

 public:
  LaterMeasuring(Machine& machine, Catalog& catalog, Profile& profile);
  ~LaterMeasuring();

  // Has an op that a call is about to run measured as tuning wants it, now or later.
  void want(const EntryRef& entry, Tuning tuning, const MeasureLimits& limits = {});
  // While it lives, a call is chosen, kernels compiled.
  class Choosing {
   public:
    explicit Choosing(LaterMeasuring& later) : later_(later) { ++later_.choosing_; }
    ~Choosing() {
      later_.chosen_ = Clock::now().time_since_epoch().count();
      --later_.choosing_;
    }
    Choosing(const Choosing&) = delete;
    Choosing& operator=(const Choosing&) = delete;

   private:
    LaterMeasuring& later_;
  };
  // True if nothing is left to be measured or made known.
  bool settled() const { return left_ == 0 && !found_; }
  // Before anything is compiled.  Beside a program's first calls it would delay their result: by 2 s for BERT, while the
  // processes that compile began (H200).
  std::atomic<std::chrono::milliseconds> quiet{std::chrono::milliseconds(2000)};
  // Grows when what was found is made known.
  uint64_t published() const { return published_.load(std::memory_order_acquire); }

  static constexpr double kShare = 0.05;                        // of the time, that measuring may take
  static constexpr double kMostCreditMs = 500;                  // that may be spent at once, as at the beginning
  static constexpr size_t kSome = 4;                            // ways of each op that are measured before all others
  static constexpr std::chrono::milliseconds kPatience{10000};  // as long this is waited for
  static constexpr std::chrono::milliseconds kBetween{1000};

 private:
  struct Stopped {};  // thrown in the background where all is to end

  // In the background.
  void work();
  void measure(const std::vector<EntryRef>& entries, size_t most);
  std::vector<size_t> ways_of(Entry& entry, size_t most);
  void wait_for_quiet();
  void afford(double ms);
  void check() const;
  void publish(bool at_once);
  void close(Entry& entry);

  Machine& machine_;
  Catalog& catalog_;
  Profile& profile_;
  std::atomic<uint64_t> published_{0};
  std::atomic<size_t> left_{0};     // ops that are open
  std::atomic<bool> found_{false};  // something that was not made known yet
  std::atomic<int> choosing_{0};
  std::atomic<Clock::rep> chosen_{0};  // when the last call was
  std::mutex lock_;                    // guards the next three
  std::condition_variable changed_;
  std::vector<EntryRef> waiting_;
  bool working_ = false;
  // Of the background alone.
  BesideRuns beside_;
  double credit_ms_ = kMostCreditMs;
  Clock::time_point credited_;
  Clock::time_point published_at_;
  Background background_{1, 1};  // the last: its work uses all of the others
};

}  // namespace pl
