// Kernels that may run as one: a step of training has hundreds of small ones that do the same to tensors of other
// sizes, where starting each takes longer than its work.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "providers/provider.h"

namespace pl {

// What a Kernel may be besides.
class Together {
 public:
  virtual ~Together() = default;
  // What is done to each element, and of what dtypes: kernels of equal texts, on one device, may run as one.
  virtual const std::string& alike() const = 0;
  virtual size_t most() const = 0;  // how many kernels like this one may
  // A kernel that does the work of `kernels`, all alike.  Its inputs are theirs, one kernel's after the other's, absent
  // ones left out; its outputs likewise.  None may read or write what another one writes.
  virtual std::unique_ptr<Kernel> together(const std::vector<const Together*>& kernels) const = 0;
};

}  // namespace pl
