// Programs of several threads on `cpu`: in the callers while there are processors for all, else in lanes, in turn.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "core/lanes.h"
#include "core/threads.h"

using namespace pl;

namespace {

const int kAll = available_processors();

// Until the callers before do not count any more.
void pause_for_callers() { std::this_thread::sleep_for(std::chrono::milliseconds(80)); }

TEST("alone_it_runs_here") {
  pause_for_callers();
  const LaneStatistics before = lane_statistics();
  const std::thread::id me = std::this_thread::get_id();
  for (int i = 0; i < 100; ++i) {
    std::thread::id ran;
    run_in_turn(kAll, [&] { ran = std::this_thread::get_id(); });
    CHECK(ran == me);
  }
  CHECK(lane_statistics().here == before.here + 100);
  CHECK(lane_statistics().in_lanes == before.in_lanes);
}

// Each wants all processors: one runs at a time, in an order that leaves nobody out.
TEST("several_take_turns") {
  pause_for_callers();
  const LaneStatistics before = lane_statistics();
  std::atomic<int> running{0}, most{0}, begun{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      ++begun;
      while (begun < 4) std::this_thread::yield();
      for (int i = 0; i < 200; ++i)
        run_in_turn(kAll, [&] {
          const int now = ++running;
          for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) continue;
          std::this_thread::yield();
          --running;
        });
    });
  for (std::thread& thread : threads) thread.join();
  const LaneStatistics after = lane_statistics();
  CHECK(most == 1);
  CHECK(after.here + after.in_lanes == before.here + before.in_lanes + 800);
  CHECK(after.in_lanes > before.in_lanes + 100);
  CHECK(after.lanes == std::max(before.lanes, 1));
  // Once they have gone it runs here again.
  pause_for_callers();
  run_in_turn(kAll, [] {});
  CHECK(lane_statistics().here == after.here + 1);
}

// Those of one thread have processors of their own, as many as there are.
TEST("small_ones_run_side_by_side") {
  if (kAll < 2) SKIP("one processor");
  pause_for_callers();
  const LaneStatistics before = lane_statistics();
  std::atomic<int> inside{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&] {
      run_in_turn(1, [&] {
        ++inside;
        while (inside < 2) std::this_thread::yield();  // for ever, if they ran one after the other
      });
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(lane_statistics().here == before.here + 2);
}

TEST("an_exception_reaches_its_caller") {
  std::atomic<int> wrong{0}, caught{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const std::string name = std::to_string(t) + " " + std::to_string(i);
        try {
          run_in_turn(kAll, [&] {
            if (i % 2) throw std::runtime_error(name);
          });
          wrong += i % 2;
        } catch (const std::runtime_error& error) {
          ++caught;
          wrong += error.what() != name;
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(caught == 75);
}

TEST("one_within_another_runs_at_once") {
  std::vector<std::thread> threads;
  std::atomic<int> done{0};
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) run_in_turn(kAll, [&] { run_in_turn(kAll, [&] { ++done; }); });
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(done == 60);
}

}  // namespace
