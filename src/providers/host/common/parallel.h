// in_team, in_shares, parallel_for: split work over the cores, when it is worth it.
#pragma once

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace pl::host {

// A share of the work below: ThreadSanitizer is to see what threads share in small ops, too.
#if defined(__SANITIZE_THREAD__)
constexpr double kWorth = 1e-6;
#else
constexpr double kWorth = 1;
#endif

// Waking the other threads and waiting for them costs a few microseconds; below this much work one thread is faster.
constexpr double kSerialNanoseconds = 12000 * kWorth;

// The same for ops that run in the midst of others like them, when the other threads are still awake.
constexpr double kAwakeNanoseconds = 3000 * kWorth;

// The number of threads worth using for so much work (all items together).
inline int threads_for(double nanoseconds, double serial = kSerialNanoseconds) {
  if (nanoseconds < serial || omp_in_parallel()) return 1;
  return int(std::min<double>(omp_get_max_threads(), nanoseconds / (serial / 2)));
}

// Calls body(rank, team) on up to `threads` threads, team of them; it must not throw.
//
// The whole pool begins the region, and threads beyond those asked for leave at once: libgomp ends threads when a
// region wants fewer than the one before, and the next larger region waits until others are made.  That cost 0.5 ms
// each time on 16 processors, more than most ops (docs/notes/2026-11-26-teams-that-shrink.md).
template <class Body>
void in_team(int threads, Body&& body) {
  if (threads <= 1) {
    body(int64_t(0), int64_t(1));
    return;
  }
#pragma omp parallel
  {
    const int64_t team = std::min(threads, omp_get_num_threads()), rank = omp_get_thread_num();
    if (rank < team) body(rank, team);
  }
}

// A thread's part of an op is cut into pieces of about so much work, since another thread may have to wait for one...
constexpr double kPieceNanoseconds = 50000 * kWorth;
// ... but into no more than so many: of long ops a sixteenth is little.
constexpr double kMostPieces = 16;

inline int64_t pieces_of_thread(double nanoseconds) {
  return int64_t(std::clamp<double>(nanoseconds / kPieceNanoseconds, 1, kMostPieces));
}

// The pieces [0, pieces) of an op, each of which one of its threads takes.  A thread has a range of its own, from whose
// beginning it takes one after the other: so it reads what it read and wrote in ops before.  Then it takes pieces from
// the ends of the others' ranges.  A thread whose processor something else uses for a while so keeps the others waiting
// for a piece, not for all of its range (docs/notes/2026-11-27-shares-by-who-is-free.md).
//
// Who computes a piece is left to chance, so results must depend on the piece alone: sums that are added up later belong
// to pieces, never to threads.
class Shares {
 public:
  static constexpr int kMostThreads = 512;

  // Fewer than 2^31 pieces.
  Shares(int threads, int64_t pieces) : threads_(threads) {
    for (int i = 0; i < threads; ++i)
      ranges_[i].left.store(word(pieces * i / threads, pieces * (i + 1) / threads), std::memory_order_relaxed);
  }

  // Takes pieces for the thread `rank`.
  class Taker {
   public:
    Taker(int64_t begin, int64_t end) : next_(begin), end_(end) {}  // these alone
    Taker(Shares& shares, int rank) : shares_(&shares), rank_(rank) {}

    // The next piece; -1: there is none.
    int64_t operator()() {
      if (!shares_) return next_ < end_ ? next_++ : -1;
      if (away_ == 0) {
        const uint64_t left = range().fetch_add(1, std::memory_order_relaxed);
        if (!empty(left)) return first(left);
        ++away_;
      }
      for (; away_ < shares_->threads_; ++away_) {
        if (empty(range().load(std::memory_order_relaxed))) continue;
        const uint64_t left = range().fetch_sub(uint64_t(1) << 32, std::memory_order_relaxed);
        if (!empty(left)) return end(left) - 1;
      }
      return -1;
    }

   private:
    std::atomic<uint64_t>& range() { return shares_->ranges_[(rank_ + away_) % shares_->threads_].left; }

    Shares* shares_ = nullptr;
    int rank_ = 0, away_ = 0;  // whose range is next: so many ranks from its own
    int64_t next_ = 0, end_ = 0;
  };

 private:
  // What is left of a range, in one word: its first piece, and in the upper half the one behind its last.  Who finds
  // nothing there has moved one of the two already; both ways the range stays empty.
  struct alignas(64) Range {
    std::atomic<uint64_t> left;
  };
  static uint64_t word(int64_t first, int64_t end) { return uint64_t(first) | uint64_t(end) << 32; }
  static int32_t first(uint64_t left) { return int32_t(uint32_t(left)); }
  static int32_t end(uint64_t left) { return int32_t(uint32_t(left >> 32)); }
  static bool empty(uint64_t left) { return first(left) >= end(left); }

  const int threads_;
  Range ranges_[kMostThreads];
};

// Calls body(rank, take) on up to `threads` threads, which share the pieces [0, pieces): `take()` gives the next one
// that the thread is to do, -1 at the end.  What `body` keeps between pieces is the thread's; it must not throw.
// Within a region there is one thread.
template <class Body>
void in_shares(int threads, int64_t pieces, Body&& body) {
  constexpr double kMuch = 1e9;
  threads = int(std::min<int64_t>(std::min({threads, threads_for(kMuch), Shares::kMostThreads}), pieces));
  if (threads <= 1) {
    body(int64_t(0), Shares::Taker(0, pieces));
  } else if (pieces == threads) {  // so little work that taking it from others would not help
    in_team(threads, [&](int64_t rank, int64_t team) {
      body(rank, Shares::Taker(pieces * rank / team, pieces * (rank + 1) / team));
    });
  } else {
    Shares shares(threads, pieces);
    in_team(threads, [&](int64_t rank, int64_t) { body(rank, Shares::Taker(shares, int(rank))); });
  }
}

// Calls body(begin, end) for consecutive pieces of [0, count), each item about `nanoseconds` of work on one core.
// Where they begin and end depends on the number of threads, never on chance.  A piece runs on one thread; `body` must
// not throw.
template <class Body>
void parallel_for(int64_t count, double nanoseconds, Body&& body, double serial = kSerialNanoseconds) {
  if (count <= 0) return;
  const double all = double(count) * nanoseconds;
  const int threads = int(std::min<int64_t>(threads_for(all, serial), count));
  const int64_t pieces = threads <= 1 ? 1 : std::min(count, threads * pieces_of_thread(all / double(threads)));
  in_shares(threads, pieces, [&](int64_t, Shares::Taker take) {
    for (int64_t piece; (piece = take()) >= 0;) body(count * piece / pieces, count * (piece + 1) / pieces);
  });
}

}  // namespace pl::host
