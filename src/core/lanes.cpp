#include "core/lanes.h"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "core/threads.h"

namespace pl {
namespace {

using Clock = std::chrono::steady_clock;

// A caller counts for so long after its last run.  Longer than the pauses of a busy server's threads, shorter than what
// a thread that now runs alone would notice.
constexpr Clock::duration kRecent = std::chrono::milliseconds(50);

struct Request {
  std::thread::id caller;
  const std::function<void()>* work = nullptr;
  int threads = 1;
  std::exception_ptr problem;
  bool done = false;
  bool here = false;  // there is no thread for it: its caller runs it
  std::condition_variable finished;
};

struct Lane {
  Request* next = nullptr;  // given to it
  bool let_go = false;      // of its team
  bool has_team = false;
  int threads = 0;  // of its last run
  std::condition_variable given;
};

struct Caller {
  std::thread::id id;
  int threads = 1;
  bool waits = false;  // for its program
  Clock::time_point last;
};

thread_local bool inside = false;  // a program runs in this thread

// Of the calling thread; costs nothing where it has none.
void release_team() { omp_pause_resource(omp_pause_soft, omp_get_initial_device()); }

class Lanes {
 public:
  void run(int threads, const std::function<void()>& work) {
    const int wanted = std::min(threads, processors_);
    bool here = false;
    {
      std::unique_lock<std::mutex> guard(lock_);
      here = note_caller(wanted) && queue_.empty() && (in_use_ == 0 || in_use_ + wanted <= processors_);
      if (here) {
        in_use_ += wanted;
        ++statistics_.here;
        // A lane that waits need not be counted among libgomp's threads.
        for (const auto& lane : lanes_)
          if (lane->has_team && !lane->next && is_idle(*lane)) lane->let_go = true, lane->given.notify_one();
      }
    }
    here ? run_here(wanted, work) : run_elsewhere(wanted, work);
  }

  LaneStatistics statistics() {
    std::lock_guard<std::mutex> guard(lock_);
    LaneStatistics statistics = statistics_;
    statistics.lanes = int(lanes_.size());
    return statistics;
  }

 private:
  // In the calling thread, with processors that in_use_ counts already.
  void run_here(int threads, const std::function<void()>& work) {
    inside = true;
    std::exception_ptr problem;
    try {
      work();
    } catch (...) {
      problem = std::current_exception();
    }
    inside = false;
    {
      std::lock_guard<std::mutex> guard(lock_);
      in_use_ -= threads;
      note_end(std::this_thread::get_id());
      hand_out();
    }
    if (problem) std::rethrow_exception(problem);
  }

  // With the lock.  Whether the teams of all that called lately have processors of their own.
  bool note_caller(int threads) {
    const Clock::time_point now = Clock::now();
    const std::thread::id id = std::this_thread::get_id();
    int others = 0;
    Caller* known = nullptr;
    for (size_t i = 0; i < callers_.size();) {
      Caller& caller = callers_[i];
      if (caller.id == id) {
        known = &caller;
      } else if (!caller.waits && now - caller.last > kRecent) {
        if (known == &callers_.back()) known = &caller;
        caller = callers_.back();
        callers_.pop_back();
        continue;
      } else {
        others += caller.threads;
      }
      ++i;
    }
    if (known)
      known->threads = threads, known->waits = true;
    else
      callers_.push_back({id, threads, true, now});
    return others == 0 || others + threads <= processors_;
  }
  void note_end(std::thread::id id) {
    for (Caller& caller : callers_)
      if (caller.id == id) caller.waits = false, caller.last = Clock::now();
  }

  bool is_idle(const Lane& lane) const { return std::find(idle_.begin(), idle_.end(), &lane) != idle_.end(); }

  void run_elsewhere(int threads, const std::function<void()>& work) {
    release_team();
    Request request;
    request.caller = std::this_thread::get_id();
    request.work = &work;
    request.threads = threads;
    std::unique_lock<std::mutex> guard(lock_);
    queue_.push_back(&request);
    hand_out();
    request.finished.wait(guard, [&] { return request.done || request.here; });
    ++(request.here ? statistics_.here : statistics_.in_lanes);
    guard.unlock();
    if (request.here) return run_here(threads, work);
    if (request.problem) std::rethrow_exception(request.problem);
  }

  // With the lock: gives requests to lanes, in their order, as far as there are processors.
  void hand_out() {
    while (!queue_.empty() && (in_use_ == 0 || in_use_ + queue_.front()->threads <= processors_)) {
      Request* request = queue_.front();
      // One whose team has that size already, if there is one.
      auto lane = std::find_if(idle_.rbegin(), idle_.rend(),
                               [&](const Lane* idle) { return idle->threads == request->threads; });
      if (lane == idle_.rend() && !idle_.empty()) lane = idle_.rbegin();
      Lane* chosen;
      if (lane != idle_.rend()) {
        chosen = *lane;
        idle_.erase(std::next(lane).base());
      } else {
        lanes_.push_back(std::make_unique<Lane>());
        chosen = lanes_.back().get();
        try {
          std::thread([this, chosen] { serve(*chosen); }).detach();
        } catch (const std::system_error&) {
          lanes_.pop_back();
          if (in_use_) return;  // it waits for the end of another one
          chosen = nullptr;
        }
      }
      queue_.pop_front();
      in_use_ += request->threads;
      if (!chosen) {
        request->here = true;
        request->finished.notify_one();
        continue;
      }
      chosen->threads = request->threads;
      chosen->next = request;
      chosen->given.notify_one();
    }
  }

  void serve(Lane& lane) {
    inside = true;
    std::unique_lock<std::mutex> guard(lock_);
    for (;;) {
      lane.given.wait(guard, [&] { return lane.next || lane.let_go; });
      if (!lane.next) {
        lane.let_go = lane.has_team = false;
        guard.unlock();
        release_team();
        guard.lock();
        continue;
      }
      Request& request = *lane.next;
      lane.let_go = false;
      lane.has_team = lane.has_team || request.threads > 1;
      guard.unlock();
      try {
        (*request.work)();
      } catch (...) {
        request.problem = std::current_exception();
      }
      guard.lock();
      in_use_ -= request.threads;
      lane.next = nullptr;
      note_end(request.caller);
      request.done = true;
      request.finished.notify_one();  // the request is its caller's: not used after the lock is let go
      idle_.push_back(&lane);
      hand_out();  // to this lane first
    }
  }

  const int processors_ = available_processors();
  std::mutex lock_;  // guards all below and what lanes hold
  int in_use_ = 0;   // processors
  std::deque<Request*> queue_;
  std::vector<Caller> callers_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<Lane*> idle_;
  LaneStatistics statistics_;
};

// Never destroyed: lanes wait in it until the process has ended.
Lanes& lanes() {
  static auto& all = *new Lanes();
  return all;
}

}  // namespace

void run_in_turn(int threads, const std::function<void()>& work) {
  refuse_after_fork();
  if (inside || omp_in_parallel()) return work();
  lanes().run(threads, work);
}

LaneStatistics lane_statistics() { return lanes().statistics(); }

}  // namespace pl
