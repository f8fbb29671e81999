// providers/host/common/parallel.h: pieces of an op that threads share.
#include "providers/host/common/parallel.h"

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/threads.h"
#include "host_testing.h"

using namespace pl;
using namespace pl::host;
using namespace pl::host_testing;

namespace {

// Threads of its own, which ThreadSanitizer sees.  `missing`: ranks of the last ranges that have no thread.
std::vector<int> taken_by_threads(int threads, int64_t pieces, int missing) {
  Shares shares(threads, pieces);
  const std::unique_ptr<std::atomic<int>[]> taken(new std::atomic<int>[size_t(pieces) + 1]());
  std::vector<std::thread> team;
  for (int rank = 0; rank < threads - missing; ++rank)
    team.emplace_back([&, rank] {
      Shares::Taker take(shares, rank);
      for (int64_t piece; (piece = take()) >= 0;) ++taken[size_t(std::min(piece, pieces))];
      CHECK(take() == -1);  // and again
    });
  for (std::thread& thread : team) thread.join();
  return {taken.get(), taken.get() + pieces + 1};
}

TEST("each_piece_once") {
  for (int round = 0; round < 5; ++round)
    for (int threads : {1, 2, 3, 8})
      for (int64_t pieces : {0, 1, 2, 3, 7, 8, 9, 64, 1000, 20000})
        for (int missing : {0, threads / 2}) {
          std::vector<int> expected(size_t(pieces) + 1, 1);
          expected.back() = 0;
          CHECK(taken_by_threads(threads, pieces, missing) == expected);
        }
}

TEST("own_pieces_first") {
  Shares shares(3, 11);  // ranges of 3, 4 and 4
  Shares::Taker take(shares, 1);
  for (int64_t expected : {3, 4, 5, 6, 10, 9, 8, 7, 2, 1, 0, -1, -1}) CHECK(take() == expected);
}

TEST("of_one_thread") {
  Shares::Taker take(2, 5);
  for (int64_t expected : {2, 3, 4, -1, -1}) CHECK(take() == expected);
}

// A thread that is kept in its first piece: the other does all the rest meanwhile.
TEST("a_late_thread") {
  constexpr int64_t kPieces = 40;
  Shares shares(2, kPieces);
  std::atomic<int64_t> done{0};
  std::atomic<bool> begun{false};
  bool all_in_time = false;
  std::thread late([&] {
    Shares::Taker take(shares, 0);
    CHECK(take() == 0);
    begun = true;
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!all_in_time && std::chrono::steady_clock::now() < until) {
      all_in_time = done == kPieces - 1;
      std::this_thread::yield();
    }
    CHECK(take() == -1);
  });
  while (!begun) std::this_thread::yield();
  Shares::Taker take(shares, 1);
  while (take() >= 0) ++done;
  late.join();
  CHECK(all_in_time);
}

TEST("regions") {
  for (int threads : {1, 2, 3, 4}) {
    use_threads(threads);
    const int most = threads_for(1e9);
    for (int64_t pieces : {0, 1, 2, 3, 4, 5, 100}) {
      std::vector<std::atomic<int>> taken(size_t(pieces) + 1);
      in_shares(most, pieces, [&](int64_t rank, Shares::Taker take) {
        CHECK(rank >= 0 && rank < std::max<int64_t>(1, std::min<int64_t>(most, pieces)));
        for (int64_t piece; (piece = take()) >= 0;) ++taken[size_t(std::min(piece, pieces))];
      });
      for (int64_t i = 0; i <= pieces; ++i) CHECK(taken[size_t(i)] == int(i < pieces));
    }
    for (int64_t count : {0, 1, 2, 3, 17, 1000})
      for (double nanoseconds : {1.0, 1e4, 1e6}) {
        std::vector<std::atomic<int>> met(size_t(count) + 1);
        std::atomic<int> calls{0};
        parallel_for(count, nanoseconds, [&](int64_t begin, int64_t end) {
          CHECK(0 <= begin && begin < end && end <= count);
          ++calls;
          for (int64_t i = begin; i < end; ++i) ++met[size_t(i)];
        });
        for (int64_t i = 0; i < count; ++i) CHECK(met[size_t(i)] == 1);
        const double all = double(count) * nanoseconds;
        const int used = int(std::min<int64_t>(threads_for(all), count));
        CHECK(calls == (used <= 1 ? int(count > 0) : int(std::min(count, used * pieces_of_thread(all / used)))));
      }
  }
  use_threads(1);
}

TEST("within_a_region") {
  use_threads(2);
  std::atomic<int> team{0}, pieces{0}, others{0};
#pragma omp parallel num_threads(2)
  {
    ++team;
    in_shares(2, 10, [&](int64_t rank, Shares::Taker take) {
      while (take() >= 0) ++pieces;
      others += rank != 0;
    });
  }
  use_threads(1);
  CHECK(pieces == 10 * team);
  CHECK(others == 0);
}

TEST("sizes_of_pieces") {
  CHECK(pieces_of_thread(0) == 1 && pieces_of_thread(1.9 * kPieceNanoseconds) == 1);
  CHECK(pieces_of_thread(3.5 * kPieceNanoseconds) == 3);
  CHECK(pieces_of_thread(1e12) == int64_t(kMostPieces));
}

// The bits of results, by candidate; with each number of threads, several times.
void same_bits(const char* name, const char* attributes, const std::vector<Input>& inputs) {
  std::map<std::string, std::vector<Values>> first;
  for (int threads : {1, 2, 2, 2, 3, 5}) {
    use_threads(threads);
    run_all(name, attributes, inputs, [&](const Op&, const std::vector<Values>& outputs, const std::string& what) {
      const auto [known, added] = first.emplace(what, outputs);
      if (!added && known->second != outputs) {
        std::fprintf(stderr, "%s: other results on %d threads\n", what.c_str(), threads);
        end_test();
      }
    });
  }
  use_threads(1);
}

// Large enough for several pieces a thread, with ends that no tile divides; terms that are summed at once.
TEST("bits_of_products") {
  same_bits(
      "linear", "activation=relu",
      {random_input(DType::f32, {203, 96}), random_input(DType::f32, {1333, 96}), random_input(DType::f32, {1333})});
  same_bits("linear", "",  // by vectors
            {random_input(DType::f32, {40, 128}), random_input(DType::f32, {8011, 128}), Input{}});
  same_bits("matmul", "", {random_input(DType::f32, {3, 150, 70}), random_input(DType::f32, {3, 70, 160})});
}

TEST("bits_of_convolutions") {
  same_bits("conv2d", "padding=1",
            {random_input(DType::f32, {2, 24, 29, 31}), random_input(DType::f32, {37, 24, 3, 3}), Input{}});
}

TEST("bits_of_attention") {
  same_bits("scaled_dot_product_attention", "enable_gqa=true",
            {random_input(DType::f32, {1, 6, 150, 40}), random_input(DType::f32, {1, 3, 170, 40}),
             random_input(DType::f32, {1, 3, 170, 40})});
}

}  // namespace
