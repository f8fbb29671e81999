#include "core/end_of_process.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>

namespace pl {
namespace {

struct Action {
  void (*call)();
  Action* before;
};

// Without a lock: in a forked child it might be held for ever.
std::atomic<Action*> last{nullptr};

void end_process() {
  for (Action* action = last.exchange(nullptr); action; action = action->before) action->call();
}

struct OfThread {
  bool passed = false;
  ~OfThread() {
    if (passed && syscall(SYS_gettid) == getpid()) end_process();  // the main thread
  }
};

thread_local OfThread of_thread;

}  // namespace

void add_end_of_process(void (*action)()) {
  [[maybe_unused]] static const int registered = std::atexit(end_process);
  auto* added = new Action{action, last.load()};  // never destroyed
  while (!last.compare_exchange_weak(added->before, added)) {
  }
}

void pass_into_library() { of_thread.passed = true; }

}  // namespace pl
