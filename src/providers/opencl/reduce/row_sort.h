// Rows sorted by work-groups: tiles in local memory, then lists merged (kernels/topk/).
#pragma once

#include "providers/opencl/program/kernel_source.h"
#include "providers/opencl/runtime/launch.h"

namespace pl::opencl {

class RowSort {
 public:
  // The first k of `size` elements of each of `rows` rows, in ascending order or, with `largest`, in descending order.
  // Nothing may be zero; possible() says whether there is a way.
  RowSort(DType dtype, int64_t rows, int64_t size, int64_t k, bool largest);
  bool possible() const;

  // As rows (addressing/rows.h) of one dimension.
  struct Results {
    const Addressing &values, &indices;  // outputs 0 and 1
    int64_t skip = 0;                    // of the first elements, which are not written
  };
  // Queues the launches.  `src`, as rows, is input 0.  Padding of the results is left alone.
  void add(KernelList& kernels, OpenclDevice& device, const Addressing& src, const Results& results) const;
  size_t workspace_bytes() const;

  // The same of numbers of s32 that lie dense in the workspace, `first_number()` numbers from its start.  Returns where
  // the lists then begin, counted in keys (kernels/topk/sort_key.clh): k of a row, rows one behind the other.
  int64_t add_lists(KernelList& kernels, OpenclDevice& device) const;
  size_t lists_workspace_bytes() const;
  int64_t first_number() const;

 private:
  struct Lists {  // of a row, and their length
    int64_t count, length;
  };
  Lists merged(const Lists& from) const;
  int64_t region(bool results) const;
  KernelSource source(const char* file, const Addressing& src, const Results* results) const;
  int64_t add_steps(KernelList& kernels, OpenclDevice& device, const Addressing& src, const Results* results) const;

  int64_t rows_, size_, k_;
  bool largest_;
  int64_t key_bytes_, tile_ = 8;
  Lists tiles_;
};

}  // namespace pl::opencl
