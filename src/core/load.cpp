#include "core/load.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace pl {
namespace {

// The system counts in hundredths of a second: over 0.3 s two processors are known to a tenth of one.
constexpr std::chrono::milliseconds kShortest{300}, kApart{100};
constexpr size_t kSamples = 64;

double own_seconds() {
  struct rusage usage {};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) { return double(time.tv_sec) + 1e-6 * double(time.tv_usec); };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

SystemLoad::SystemLoad() {
  if (const auto first = sample()) samples_.push_back(*first);
}

std::optional<SystemLoad::Sample> SystemLoad::sample() const {
#if defined(__linux__)
  cpu_set_t mine;
  CPU_ZERO(&mine);
  if (sched_getaffinity(0, sizeof mine, &mine)) return std::nullopt;
  std::ifstream file("/proc/stat");
  double ticks = 0;
  bool any = false;
  // cpu0 user nice system idle iowait irq softirq steal ...; a guest's time is in user and nice.
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, 3, "cpu") != 0) break;
    if (line.size() < 4 || !std::isdigit(static_cast<unsigned char>(line[3]))) continue;
    std::istringstream fields(line.substr(3));
    int number = 0;
    double user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0, steal = 0;
    fields >> number >> user >> nice >> system >> idle >> iowait >> irq >> softirq >> steal;
    if (!fields || number >= CPU_SETSIZE || !CPU_ISSET(number, &mine)) continue;
    ticks += user + nice + system + irq + softirq + steal;
    any = true;
  }
  if (!any) return std::nullopt;
  return Sample{Clock::now(), ticks / double(sysconf(_SC_CLK_TCK)) - own_seconds()};
#else
  return std::nullopt;
#endif
}

std::optional<double> SystemLoad::of_others(Clock::time_point since) {
  std::lock_guard<std::mutex> guard(lock_);
  if (samples_.empty()) return std::nullopt;
  // The latest sample before that which lies far enough back.
  const auto before = std::min(since, Clock::now() - kShortest);
  while (samples_.size() > 1 && samples_[1].time <= before) samples_.pop_front();
  const Sample first = samples_.front();
  if (Clock::now() - first.time < kApart) return std::nullopt;
  const auto now = sample();
  if (!now) return std::nullopt;
  if (now->time - samples_.back().time >= kApart && samples_.size() < kSamples) samples_.push_back(*now);
  const std::chrono::duration<double> passed = now->time - first.time;
  return std::max(0.0, (now->others - first.others) / passed.count());
}

// Reading /proc/stat takes 0.1 ms.
std::optional<double> SystemLoad::of_others_lately() {
  std::lock_guard<std::mutex> guard(lately_lock_);
  const Clock::time_point now = Clock::now();
  if (lately_at_ == Clock::time_point() || now - lately_at_ >= kApart) {
    lately_ = of_others(now);
    lately_at_ = now;
  }
  return lately_;
}

}  // namespace pl
