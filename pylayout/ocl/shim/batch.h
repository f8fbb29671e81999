// Calls of the library's ops that wait for each other, to be started together.
#pragma once

#include <memory>
#include <vector>

#include "shim.h"

namespace ocl {

// As long as one is open in a thread, calls that only write into tensors that exist wait for the next ones, and what
// does the same to many tensors is started as one (pl_op_run_all). Nothing may read their results but other such calls;
// what does so all the same flushes before.
class Batch {
 public:
  Batch();  // within another one it does nothing
  ~Batch();
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;
  void finish();  // starts what waits; without it, after an exception, errors of what still waits are not told

  static bool open();
  // `op` and `attributes` live as long as `owner`, null for ever.
  static void add(const char* op, pl_attributes attributes, std::vector<Handle> inputs, std::vector<Handle> outputs,
                  std::shared_ptr<const void> owner);
  static void flush();

 private:
  bool outermost_;
};

// Registers a kernel for an op that does the same to each tensor of a list, by PyTorch's loop.
void register_list_op(const char* name);

}  // namespace ocl
