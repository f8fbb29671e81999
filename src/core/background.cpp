#include "core/background.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "core/end_of_process.h"
#include "core/interrupt.h"

namespace pl {
namespace {

std::atomic<unsigned> forks{0};  // of this process's ancestors, since the first Background

}  // namespace

struct Background::Crew {
  const int most;
  const size_t capacity;
  const unsigned born = forks.load();
  std::mutex lock;
  std::condition_variable changed;
  std::deque<std::function<void()>> waiting;
  size_t idle = 0;
  std::atomic<bool> stopping{false};
  std::mutex joining;  // held while threads are waited for
  std::vector<std::thread> threads;

  // All that may have threads, for forks and the end of the process.  Never destroyed: objects that outlive it may be.
  struct Register {
    std::mutex lock;
    std::vector<std::weak_ptr<Crew>> crews;
  };
  static Register& all() {
    static auto* one = new Register();
    return *one;
  }

  Crew(int most, size_t capacity) : most(std::max(1, most)), capacity(std::max<size_t>(1, capacity)) {}
  void stop();
  static void stop_all();
};

void Background::Crew::stop() {
  if (born != forks.load()) return;
  std::deque<std::function<void()>> gone;  // destroyed without the lock
  {
    std::lock_guard<std::mutex> guard(lock);
    stopping = true;
    gone.swap(waiting);
  }
  changed.notify_all();
  std::lock_guard<std::mutex> guard(joining);
  for (std::thread& thread : threads) thread.join();
  threads.clear();
}

void Background::Crew::stop_all() {
  std::vector<std::shared_ptr<Crew>> crews;
  {
    std::lock_guard<std::mutex> guard(all().lock);
    for (const std::weak_ptr<Crew>& known : all().crews)
      if (std::shared_ptr<Crew> crew = known.lock()) crews.push_back(std::move(crew));
  }
  for (const auto& crew : crews) crew->stop();
}

Background::Background(int threads, size_t capacity) {
  [[maybe_unused]] static const bool registered = [] {
    pthread_atfork([] { Crew::all().lock.lock(); }, [] { Crew::all().lock.unlock(); },
                   [] {
                     Crew::all().lock.unlock();
                     ++forks;
                   });
    add_end_of_process(Crew::stop_all);
    return true;
  }();
  crew_ = std::make_shared<Crew>(threads, capacity);
  std::lock_guard<std::mutex> guard(Crew::all().lock);
  auto& crews = Crew::all().crews;
  crews.erase(std::remove_if(crews.begin(), crews.end(), [](const auto& known) { return known.expired(); }),
              crews.end());
  crews.push_back(crew_);
}

Background::~Background() {
  if (is_left_behind()) {  // neither threads nor locks can be ended here
    new std::shared_ptr<Crew>(std::move(crew_));
    return;
  }
  crew_->stop();
}

bool Background::is_left_behind() const { return crew_->born != forks.load(); }

bool Background::stopping() const { return crew_->stopping.load() || is_left_behind(); }

void Background::serve(Crew& crew) {
  const Interrupt::Unasked unasked;
  std::unique_lock<std::mutex> guard(crew.lock);
  for (;;) {
    ++crew.idle;
    crew.changed.wait(guard, [&] { return crew.stopping || !crew.waiting.empty(); });
    --crew.idle;
    if (crew.stopping) return;
    std::function<void()> work = std::move(crew.waiting.front());
    crew.waiting.pop_front();
    guard.unlock();
    try {
      work();
    } catch (const std::exception&) {  // nobody is there to be told
    }
    work = nullptr;  // what it holds goes without the lock
    guard.lock();
  }
}

bool Background::add(std::function<void()> work) {
  if (stopping()) return false;
  {
    std::lock_guard<std::mutex> guard(crew_->lock);
    if (crew_->stopping || crew_->waiting.size() >= crew_->capacity) return false;
    crew_->waiting.push_back(std::move(work));
    if (crew_->waiting.size() > crew_->idle && int(crew_->threads.size()) < crew_->most) {
      try {
        crew_->threads.emplace_back([crew = crew_] { serve(*crew); });
      } catch (const std::system_error&) {  // no more threads: those that are there do it
        if (!crew_->threads.empty()) return true;
        crew_->waiting.pop_back();
        return false;
      }
    }
  }
  crew_->changed.notify_one();
  return true;
}

void Background::clear() {
  if (is_left_behind()) return;
  std::deque<std::function<void()>> gone;  // destroyed without the lock
  std::lock_guard<std::mutex> guard(crew_->lock);
  gone.swap(crew_->waiting);
}

void Background::stop() { crew_->stop(); }

}  // namespace pl
