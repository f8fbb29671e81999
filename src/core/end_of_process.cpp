#include "core/end_of_process.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

namespace pl {
namespace {

constexpr std::chrono::seconds kMostSeconds{5};

// All lists are without locks, which might be held for ever in a forked child, and what is in them is never destroyed
// nor taken out: a check for leaks would not find it any more.
struct Action {
  void (*call)();
  Action* before;
};
std::atomic<Action*> last_action{nullptr};

// Of a thread that has called the library; of another one once that has ended.
struct Place {
  std::atomic<bool> taken{true};
  std::atomic<InLibrary::State> state{InLibrary::kOutside};
  Place* before;
};
std::atomic<Place*> last_place{nullptr};
std::atomic<pid_t> process{0};  // that the places are of

std::atomic<bool> ended{false};

bool is_main_thread() { return syscall(SYS_gettid) == getpid(); }

Place* free_place() {
  if (process == 0) process = getpid();
  for (Place* place = last_place.load(); place; place = place->before) {
    bool taken = false;
    if (place->taken.compare_exchange_strong(taken, true)) return place;
  }
  auto* made = new Place;
  made->before = last_place.load();
  while (!last_place.compare_exchange_weak(made->before, made)) {
  }
  return made;
}

thread_local Place* own = nullptr;

// A call that is told to end and has ended leaves its thread outside, or in a call that was not told.
void wait_for_others() {
  if (process != getpid()) return;  // a forked child, where there are none
  for (Place* place = last_place.load(); place; place = place->before) {
    InLibrary::State inside = InLibrary::kInside;
    if (place != own) place->state.compare_exchange_strong(inside, InLibrary::kToEnd);
  }
  const auto until = std::chrono::steady_clock::now() + kMostSeconds;
  for (Place* place = last_place.load(); place; place = place->before)
    while (place->state == InLibrary::kToEnd && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void end_process() {
  if (ended.exchange(true)) return;
  for (int round = 0; round < 3; ++round) {  // a thread may have been about to call
    wait_for_others();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  for (Action* action = last_action.load(); action; action = action->before) action->call();
}

struct OfThread {
  bool called = false;
  ~OfThread() {
    if (is_main_thread())
      end_process();
    else if (own)
      own->taken = false;
  }
};
thread_local OfThread of_thread;

}  // namespace

thread_local int InLibrary::depth_ = 0;
thread_local std::atomic<InLibrary::State>* InLibrary::place_ = nullptr;

void add_end_of_process(void (*action)()) {
  [[maybe_unused]] static const int registered = std::atexit(end_process);
  auto* added = new Action{action, last_action.load()};
  while (!last_action.compare_exchange_weak(added->before, added)) {
  }
}

void InLibrary::take_place() {
  of_thread.called = true;  // which makes it
  own = free_place();
  place_ = &own->state;
}

}  // namespace pl
