// What is done when the process ends comes before static objects go.
#include "core/end_of_process.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "check.h"

using namespace pl;

namespace {

int pipe_to_parent = -1;

void say(char letter) {
  if (write(pipe_to_parent, &letter, 1) != 1) std::abort();
}

struct Late {
  ~Late() { say('s'); }
};

// What `body` says in a process of its own that ends by exit().
template <class Body>
std::string said_by(Body&& body) {
  int ends[2];
  CHECK(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    pipe_to_parent = ends[1];
    body();
    std::exit(0);
  }
  close(ends[1]);
  std::string said;
  for (char letter; read(ends[0], &letter, 1) == 1;) said += letter;
  close(ends[0]);
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  return said;
}

void make_static_object() { static const Late late; }

TEST("before_static_objects") {
  CHECK(said_by([] {
          { const InLibrary inside; }
          add_end_of_process([] { say('a'); });
          add_end_of_process([] { say('b'); });
          make_static_object();  // after them, as LLVM makes its own when it first compiles
        }) == "bas");
}

// The thread that ended has done nothing; std::atexit is what is left.
TEST("where_the_main_thread_never_passed") {
  CHECK(said_by([] {
          std::thread([] {
            { const InLibrary inside; }
            add_end_of_process([] { say('a'); });
          }).join();
          say('m');
          make_static_object();
        }) == "msa");
}

// A thread that is inside is told, and waited for.
TEST("calls_of_other_threads") {
  CHECK(said_by([] {
          static std::atomic<int> inside{0};
          { const InLibrary call; }
          add_end_of_process([] { say('a'); });
          std::thread([] {
            const InLibrary call;
            ++inside;
            while (!InLibrary::is_to_end()) std::this_thread::yield();
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
            say('t');
          }).detach();
          while (!inside) std::this_thread::yield();
          make_static_object();
        }) == "tas");
}

// A static object that waits for a thread that goes on calling: its later calls are let through.
struct Worker {
  std::atomic<bool> stop{false}, begun{false};
  std::thread thread{[this] {
    while (!stop) {
      const InLibrary call;
      begun = true;
    }
  }};
  ~Worker() {
    stop = true;
    thread.join();
    say('w');
  }
};

TEST("static_objects_that_join") {
  CHECK(said_by([] {
          { const InLibrary call; }
          add_end_of_process([] { say('a'); });
          static const Worker worker;
          while (!worker.begun) std::this_thread::yield();
        }) == "aw");
}

TEST("calls_within_calls") {
  const InLibrary outer;
  for (int i = 0; i < 3; ++i) const InLibrary inner;
  CHECK(!InLibrary::is_to_end());
}

TEST("in_forked_children_too") {
  CHECK(said_by([] {
          { const InLibrary inside; }
          add_end_of_process([] { say('a'); });
          const pid_t child = fork();
          if (child == 0) std::exit(0);
          int status = -1;
          waitpid(child, &status, 0);
          say(status == 0 ? '0' : '1');
        }) == "a0a");
}

}  // namespace
