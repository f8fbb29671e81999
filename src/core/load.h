// Load: what other programs take of the processors that this process may run on.
//
// What is measured while they do is no lasting truth: a core shares its caches and the memory with the others, and a
// team of threads waits for the one whose processor was taken.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>

namespace pl {

class Load {
 public:
  using Clock = std::chrono::steady_clock;
  virtual ~Load() = default;
  // How many processors others had on average from `since` until now, or for somewhat longer where that is too short to
  // tell; those that a hypervisor gave to other machines among them.  Nothing where that is not known.
  virtual std::optional<double> of_others(Clock::time_point since) = 0;
  // The same of the last moments, for who asks in every call of an op.
  virtual std::optional<double> of_others_lately() { return of_others(Clock::now()); }
};

// Linux': /proc/stat counts what every processor did, and getrusage() what this process had of that.
class SystemLoad : public Load {
 public:
  SystemLoad();
  std::optional<double> of_others(Clock::time_point since) override;
  std::optional<double> of_others_lately() override;

 private:
  struct Sample {
    Clock::time_point time;
    double others;  // seconds of processors, since some moment
  };
  std::optional<Sample> sample() const;

  std::mutex lock_;
  std::deque<Sample> samples_;  // at least kApart apart
  std::mutex lately_lock_;      // taken before lock_
  Clock::time_point lately_at_{};
  std::optional<double> lately_;
};

}  // namespace pl
