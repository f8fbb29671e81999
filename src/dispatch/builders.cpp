#include "dispatch/builders.h"

#include <algorithm>

namespace pl {
namespace {

constexpr size_t kMostWaiting = 1 << 16;

}  // namespace

Builders::Builders(Catalog& catalog, Interrupt& interrupt, int threads)
    : catalog_(catalog), interrupt_(interrupt), threads_(threads, kMostWaiting) {}

void Builders::note(const Entry* entry, size_t way) {
  {
    std::lock_guard<std::mutex> guard(lock_);
    done_.insert({entry, way});
  }
  changed_.notify_all();
}

void Builders::add(const EntryRef& entry, size_t way) {
  {
    std::lock_guard<std::mutex> guard(lock_);
    if (!asked_.insert({entry.get(), way}).second) return;
  }
  const bool taken = threads_.add([this, entry, way] {
    try {
      catalog_.kernel(*entry, entry->ways[way]);
    } catch (const Error&) {  // out of memory: whoever measures it meets it again and says so
    }
    note(entry.get(), way);
  });
  if (!taken) note(entry.get(), way);  // whoever needs it makes it
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
  threads_.clear();
  std::lock_guard<std::mutex> guard(lock_);
  asked_ = done_;
}

}  // namespace pl
