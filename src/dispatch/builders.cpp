#include "dispatch/builders.h"

#include <algorithm>

#include "core/threads.h"

namespace pl {

Builders::Builders(Catalog& catalog, Interrupt& interrupt, int threads) : catalog_(catalog), interrupt_(interrupt) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

Builders::~Builders() {
  {
    std::lock_guard<std::mutex> guard(lock_);
    stop_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Builders::add(const EntryRef& entry, size_t way) {
  {
    std::lock_guard<std::mutex> guard(lock_);
    jobs_.push_back({entry, way});
  }
  changed_.notify_one();
}

bool Builders::wait(const EntryRef& entry, const std::vector<size_t>& ways,
                    std::chrono::steady_clock::time_point until) {
  std::unique_lock<std::mutex> guard(lock_);
  const auto finished = [&] {
    return std::all_of(ways.begin(), ways.end(), [&](size_t way) { return done_.count({entry.get(), way}) > 0; });
  };
  for (;;) {
    const auto next = std::min(until, std::chrono::steady_clock::now() + std::chrono::milliseconds(50));
    if (changed_.wait_until(guard, next, finished)) return true;
    if (next == until) return false;
    guard.unlock();
    interrupt_.poll();
    guard.lock();
  }
}

void Builders::clear() {
  std::lock_guard<std::mutex> guard(lock_);
  jobs_.clear();
  next_ = 0;
}

void Builders::work() {
  std::unique_lock<std::mutex> guard(lock_);
  for (;;) {
    changed_.wait(guard, [&] { return stop_ || next_ < jobs_.size(); });
    if (stop_) return;
    const Job job = jobs_[next_++];
    guard.unlock();
    try {
      catalog_.kernel(*job.entry, job.entry->ways[job.way]);
    } catch (const Error&) {  // out of memory: whoever measures it meets it again and says so
    }
    guard.lock();
    done_.insert({job.entry.get(), job.way});
    changed_.notify_all();
  }
}

}  // namespace pl
