// CopyNests: elements from one tensor to (a part of) another, across any layouts and dtypes.  It is the kernel of
// reorder and the moving part of concat, pad and others.
#pragma once

#include <vector>

#include "providers/host/common/elements.h"
#include "providers/host/common/nest.h"
#include "providers/host/reorder/transpose.h"

namespace pl::host {

class CopyNests {
 public:
  // Copies the elements of `shape`, that begin at target.begin in the target and at source.begin in the source.
  CopyNests(const Dims& shape, const Operand& target, const Operand& source);
  void run(const void* source, void* target) const;

 private:
  // How the two innermost loops of a nest are done.
  enum class Way { line, rows, transpose, scattered };
  struct Part {
    Way way;
    Nest nest;  // over target and source; without its innermost loop except for `line`
    Loop inner;
  };
  void rows(const Part& part, const void* source, void* target, const int64_t* offsets, int64_t n) const;
  void transpose(const Part& part, const void* source, void* target, const int64_t* offsets, int64_t n) const;

  std::vector<Part> parts_;
  size_t source_bytes_, target_bytes_;
  bool same_dtype_;
  ConvertRun convert_;
  TransposeRun transpose_;
};

}  // namespace pl::host
