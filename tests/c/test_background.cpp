// Work on threads of its own that nobody waits for: its order and bounds, its end, forks, the end of the process.
#include "core/background.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "check.h"
#include "core/interrupt.h"

using namespace pl;

namespace {

// Something that many wait for.
class Gate {
 public:
  void open() {
    {
      std::lock_guard<std::mutex> guard(lock_);
      open_ = true;
    }
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock<std::mutex> guard(lock_);
    changed_.wait(guard, [&] { return open_; });
  }

 private:
  std::mutex lock_;
  std::condition_variable changed_;
  bool open_ = false;
};

TEST("one_thread_works_in_order") {
  std::vector<int> order;
  Gate done;
  Background background(1, 200);
  for (int i = 0; i < 100; ++i) CHECK(background.add([&order, i] { order.push_back(i); }));
  CHECK(background.add([&] { done.open(); }));
  done.wait();
  CHECK(order.size() == 100);
  for (int i = 0; i < 100; ++i) CHECK(order[size_t(i)] == i);
}

TEST("several_threads_work_at_once") {
  std::atomic<int> inside{0};
  Gate all;
  Background background(3, 3);
  for (int i = 0; i < 3; ++i)
    CHECK(background.add([&] {
      if (++inside == 3) all.open();
      all.wait();  // none goes on before the last has begun
    }));
  all.wait();
  background.stop();
  CHECK(inside == 3);
}

TEST("what_waits_is_bounded_and_is_forgotten_at_the_end") {
  Gate begun, go_on;
  std::atomic<int> ran{0};
  const auto held = std::make_shared<int>(1);
  Background background(1, 2);
  CHECK(background.add([&] {
    begun.open();
    go_on.wait();
    ++ran;
  }));
  begun.wait();
  CHECK(background.add([&ran, held] { ++ran; }));
  CHECK(background.add([&ran, held] { ++ran; }));
  CHECK(!background.add([&ran, held] { ++ran; }));
  CHECK(held.use_count() == 3);
  background.clear();
  CHECK(held.use_count() == 1);
  CHECK(background.add([&ran, held] { ++ran; }));
  std::thread stopper([&] { background.stop(); });
  while (!background.stopping()) std::this_thread::yield();
  CHECK(!background.add([&] { ++ran; }));
  go_on.open();
  stopper.join();
  CHECK(ran == 1);  // what had begun came to its end
  CHECK(held.use_count() == 1);
  CHECK(!background.add([&] { ++ran; }));
  background.stop();
}

TEST("what_is_thrown_ends_nothing") {
  Gate done;
  Background background;
  CHECK(background.add([] { throw std::runtime_error("nobody is told"); }));
  CHECK(background.add([] { throw Interrupted(); }));
  CHECK(background.add([&] { done.open(); }));
  done.wait();
}

TEST("nobody_is_asked_whether_to_stop") {
  Interrupt interrupt;
  std::atomic<int> asked{0};
  interrupt.set([&] { return ++asked > 0; });
  std::atomic<bool> came_through{false};
  Gate done;
  Background background;
  CHECK(background.add([&] {
    interrupt.poll();
    came_through = true;
    done.open();
  }));
  done.wait();
  CHECK(came_through);
  CHECK(asked == 0);
  bool thrown = false;
  try {
    interrupt.poll();
  } catch (const Interrupted&) {
    thrown = true;
  }
  CHECK(thrown);
}

TEST("many_threads_may_use_it") {
  std::atomic<int> taken{0}, ran{0};
  {
    Background background(2, 16);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < 200; ++i)
          if (background.add([&] { ++ran; }))
            ++taken;
          else
            std::this_thread::yield();
      });
    for (std::thread& thread : threads) thread.join();
    while (ran < taken) std::this_thread::yield();
    std::vector<std::thread> stoppers;
    for (int t = 0; t < 3; ++t) stoppers.emplace_back([&] { background.stop(); });
    for (std::thread& thread : stoppers) thread.join();
  }
  CHECK(taken > 0);
  CHECK(ran == taken);
}

#if !defined(__SANITIZE_THREAD__)  // it follows no fork of a process with threads
// A child has none of the threads: work is refused, and neither stop() nor the destructor waits for them.
TEST("a_forked_child_refuses_and_ends") {
  Gate begun, go_on;
  auto background = std::make_unique<Background>(2, 4);
  CHECK(background->add([&] {
    begun.open();
    go_on.wait();
  }));
  begun.wait();
  CHECK(!background->is_left_behind());
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    const bool refused = background->is_left_behind() && background->stopping() && !background->add([] {});
    background->clear();
    background->stop();
    background.reset();
    Background anew;  // one of its own works
    Gate done;
    const bool works = anew.add([&] { done.open(); });
    if (works) done.wait();
    anew.stop();
    _exit(refused && works ? 0 : 1);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  go_on.open();
  CHECK(background->add([] {}));  // the parent is not concerned
}

// The end of a process waits for what has begun, and forgets the rest.
TEST("the_end_of_a_process_stops_it") {
  int pipe_ends[2];
  CHECK(pipe(pipe_ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    close(pipe_ends[0]);
    static auto* const background = new Background(1, 4);  // never destroyed
    static Gate begun;
    background->add([fd = pipe_ends[1]] {
      begun.open();
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      [[maybe_unused]] const ssize_t written = write(fd, "x", 1);
    });
    background->add([] { std::this_thread::sleep_for(std::chrono::seconds(60)); });
    begun.wait();
    exit(0);
  }
  close(pipe_ends[1]);
  char got = 0;
  const bool came = read(pipe_ends[0], &got, 1) == 1;
  close(pipe_ends[0]);
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(came);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}
#endif

}  // namespace
