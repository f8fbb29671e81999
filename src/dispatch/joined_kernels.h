// Kernels that run as one (providers/together.h), by what they are made of.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "providers/together.h"

namespace pl {

// Thread-safe.
class JoinedKernels {
 public:
  // The kernel that does the work of `kernels`, at least two and all alike, on arguments that share memory so; made once.
  std::shared_ptr<Kernel> of(const std::vector<std::shared_ptr<Kernel>>& kernels, const Sharing& shared);
  void forget();

 private:
  std::mutex lock_;
  // Keeps what the addresses name.
  std::map<std::pair<std::vector<std::shared_ptr<Kernel>>, Sharing>, std::shared_ptr<Kernel>> made_;
};

}  // namespace pl
