// core/threads.h: work of another runtime's threads, during which the pool's give way.
#include "core/threads.h"

#include <omp.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "check.h"

using namespace pl;

namespace {

// Each calls `work` once, on the calling thread; the pool's other threads are in the region meanwhile.
void do_work() {
  use_threads(2);
  const auto self = std::this_thread::get_id();
  for (int i = 0; i < 20; ++i) {
    int calls = 0;
    const auto work = [&] {
      CHECK(std::this_thread::get_id() == self);
      ++calls;
    };
    with_pool_aside(work);
    CHECK(calls == 1);
    while_pool_yields([&] {
      work();
      CHECK(omp_get_num_threads() == 2);
    });
    CHECK(calls == 2 && !omp_in_parallel());
  }
  use_threads(1);
  with_pool_aside([&] { CHECK(!omp_in_parallel()); });
}

// Threads of the pool that work by themselves, as a plan's streams, ask nobody to give way.
TEST("within_a_region") {
  use_threads(2);
  std::atomic<int> calls{0};
  int team = 0;
#pragma omp parallel num_threads(2)
  {
    if (omp_get_thread_num() == 0) team = omp_get_num_threads();
    with_pool_aside([&] {
      CHECK(omp_get_level() == 1);
      ++calls;
    });
  }
  CHECK(calls == team);
}

TEST("exceptions_pass") {
  use_threads(2);
  for (const auto run : {with_pool_aside, while_pool_yields}) {
    bool caught = false;
    try {
      run([] { throw std::runtime_error("expected"); });
    } catch (const std::runtime_error&) {
      caught = true;
    }
    CHECK(caught);
  }
}

TEST("work_is_done_here") { do_work(); }
TEST("on_a_thread_of_its_own") { std::thread(do_work).join(); }  // each has a pool of its own

}  // namespace
