// Kernels that run as one (providers/together.h), by what they are made of.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace pl {

class Kernel;

// Thread-safe.
class JoinedKernels {
 public:
  // The kernel that does the work of `kernels`, at least two and all alike; made once.
  std::shared_ptr<Kernel> of(const std::vector<std::shared_ptr<Kernel>>& kernels);
  void forget();

 private:
  std::mutex lock_;
  std::map<std::vector<std::shared_ptr<Kernel>>, std::shared_ptr<Kernel>> made_;  // keeps what the addresses name
};

}  // namespace pl
