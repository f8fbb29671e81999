// Background: work that nobody waits for, done by a few threads of its own: kernels that are compiled while a plan
// runs, programs for sizes that come again and again.
//
// Threads are begun with the first work.  What waits is bounded.  stop() forgets what nobody has begun and waits for
// what has; from then on nothing is taken any more.  When the process ends, all are stopped (core/end_of_process.h).
//
// Threads do not live on in a forked child.  There work is refused, nothing is waited for, and what belongs to the
// threads is left as it is, since one of them may have held a lock when the process was forked.
//
// The work is asked by no Interrupt: the caller whose signal would end it is elsewhere.  What it throws is lost, so it
// has to catch what matters.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace pl {

class Background {
 public:
  // `capacity`: pieces of work that may wait, beside those that have begun.
  explicit Background(int threads = 1, size_t capacity = 64);
  ~Background();  // stop(); never from work of its own
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // In order.  False: it was not taken, as too much waits, all has ended, or this is a forked child.
  bool add(std::function<void()> work);
  void clear();  // forgets what nobody has begun
  void stop();   // from any thread but those of its own; again: nothing happens
  // For long work: whether it is to end.
  bool stopping() const;
  // Whether this is a child of the process that made it: what its threads have locked stays locked.
  bool is_left_behind() const;

 private:
  struct Crew;
  static void serve(Crew& crew);
  std::shared_ptr<Crew> crew_;
};

}  // namespace pl
