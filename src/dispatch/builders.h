// Builders: kernels prepared ahead on other threads.  A runtime compiles one program on one processor, for a tenth of a
// second to several; a network's ops have hundreds.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "core/background.h"
#include "dispatch/catalog.h"

namespace pl {

class Builders {
 public:
  // `interrupt` ends waiting.
  Builders(Catalog& catalog, Interrupt& interrupt, int threads);
  // Destroyed, it waits for what has begun.
  Builders(const Builders&) = delete;
  Builders& operator=(const Builders&) = delete;

  // Prepares the kernel of a way, after those asked for before; whoever needs it meanwhile prepares it too.  Asked for
  // again, nothing happens.
  void add(const EntryRef& entry, size_t way);
  // Waits until the kernels of these ways are there, or could not be made; false once `until` has passed.  Throws
  // Interrupted.
  bool wait(const EntryRef& entry, const std::vector<size_t>& ways, std::chrono::steady_clock::time_point until);
  // Forgets what nobody has begun.
  void clear();

 private:
  void note(const Entry* entry, size_t way);

  Catalog& catalog_;
  Interrupt& interrupt_;
  std::mutex lock_;
  std::condition_variable changed_;
  std::set<std::pair<const Entry*, size_t>> asked_, done_;
  Background threads_;  // the last: its work uses all of the others
};

}  // namespace pl
