// Kernels that may run as one: a step of training has hundreds of small ones that do the same to tensors of other
// sizes, where starting each takes longer than its work.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "providers/provider.h"

namespace pl {

// Which arguments of kernels that run as one lie in the same memory: an optimizer's kernels have one rate for all, and
// each writes its results where their old values lie.  A driver takes time for every argument.
struct Sharing {
  std::vector<bool> common;  // by input of a kernel: all kernels have the same one
  std::vector<int> written;  // by input of a kernel: the output of the same kernel that lies there; -1: none

  bool any() const;
  bool operator<(const Sharing& other) const;
};
// `inputs` and `outputs`: a number for the memory of each argument, one kernel's after the other's.
Sharing sharing_of(size_t kernels, const std::vector<uintptr_t>& inputs, const std::vector<uintptr_t>& outputs);

// What a Kernel may be besides.
class Together {
 public:
  virtual ~Together() = default;
  // What is done to each element, and of what dtypes: kernels of equal texts, on one device, may run as one.
  virtual const std::string& alike() const = 0;
  virtual size_t most() const = 0;  // how many kernels like this one may
  // A kernel that does the work of `kernels`, all alike.  Its inputs are theirs, one kernel's after the other's, absent
  // ones left out; its outputs likewise.  None may read or write what another one writes.  `shared`: what is expected of
  // the arguments; it may be otherwise in a run.
  virtual std::unique_ptr<Kernel> together(const std::vector<const Together*>& kernels,
                                           const Sharing& shared) const = 0;
};

// What a Kernel may be besides: one that ends by adding up partial sums, from the workspace into its last outputs.  That
// may be done later, together with the ends of others.
class EndsLater {
 public:
  virtual ~EndsLater() = default;
  virtual void begin(const KernelArguments& arguments) = 0;  // all but the ends, whose outputs are not written
  // For each of the last outputs, in their order, a kernel that is Together, of one input, the workspace.  Empty: it
  // cannot end later.
  virtual std::vector<std::unique_ptr<Kernel>> ends() const = 0;
};

// What a Kernel may be besides: one that can do a neighbour's work where it reads or makes what lies between them, so
// that neither that memory nor a second start is needed.  Nobody else may read what lies there.
class Absorbs {
 public:
  virtual ~Absorbs() = default;
  // Does the work of `before`, whose only output is this one's input `input`, too: the first input of `before` takes its
  // place, the others follow this one's own.  Null: it cannot, or would take longer.
  virtual std::unique_ptr<Kernel> with_before(const Kernel& before, int input) const = 0;
  // Does the work of `behind`, all of whose inputs are this one's only output as a whole or parts of it, too, and has
  // its output in place of that.  Null: as above.
  virtual std::unique_ptr<Kernel> with_behind(const Kernel& behind) const = 0;
};

}  // namespace pl
