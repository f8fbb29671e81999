// Programs: what Python made of an op for given sizes, dtypes and numbers (pylayout/ocl/programs.py), kept and run
// again.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "arguments.h"
#include "shim.h"

namespace ocl {

struct Step {
  std::string op;
  pl_attributes attributes;
  c10::SmallVector<int, 6> inputs;  // slots; -1: an optional one that is absent
  int first;                        // the slot of the first result
  int count;
};

struct Output {
  int slot;       // -1: it has no elements; -2: no tensor, for nobody asked for it
  int argument;   // the tensor among the arguments into which it is written; -1: a new one
  bool returned;  // false: it is written, and no result of the op
  bool free;      // a new one that may lie in any layout
  at::ScalarType type;
  std::vector<int64_t> sizes, strides;
};

// What stands for an op with given arguments: calls of the library's ops. Slots are the tensors among the arguments,
// then the real numbers among them if it serves any, then constants, then the results of steps.
struct Program {
  std::string refusal;  // why PyTorch's kernel of the CPU runs instead; "" where it does not
  size_t numbers = 0;   // read as tensors; 0: the program is for the numbers that it was made for
  std::vector<Handle> constants;
  std::vector<Step> steps;
  std::vector<Output> outputs;
  size_t slots = 0;
  // The first of the last steps that only change tensors among the arguments, all of them small: nobody may need them
  // soon, and they wait. `all_exist`: no step gives a tensor that is not there before it runs.
  size_t last = 0;
  bool all_exist = false;
  void find_last();  // once it is filled
  // It ran before, so that no reason is left for which the library could refuse it.
  mutable std::atomic<bool> proven{false};
  // The library ran a part of it on the host: it is started at once, so that each call is counted as what it is.
  mutable std::atomic<bool> needs_host{false};
  ~Program();
};

using ProgramRef = std::shared_ptr<const Program>;

// Whether each step of a call of it waits, where calls wait for each other (Batch), and it only writes into tensors that
// are there.
inline bool always_waits(const Program& program) {
  return program.all_exist && program.proven.load(std::memory_order_relaxed) &&
         !program.needs_host.load(std::memory_order_relaxed);
}
// A call of such a program, within a Batch; `tensors` and `numbers` as in Arguments.
void call_waiting(const ProgramRef& program, c10::ArrayRef<const at::Tensor*> tensors, c10::ArrayRef<double> numbers,
                  c10::DeviceIndex device);

// Is told of each call by a program in its thread, before it runs, as long as it lives.
class Calls {
 public:
  Calls();
  virtual ~Calls();
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;
  virtual void add(const ProgramRef& program, const Arguments& arguments) = 0;

 private:
  Calls* outer_;
};

// Asks Python for a program: name of the op, its arguments as JSON. 0, or the error's message is kept.
using Maker = int (*)(const char* op, const char* arguments, int device, Program* program);
void set_maker(Maker maker);
void forget_programs();
void register_op(const char* name);  // this op by its program, though PyTorch has a kernel made of other ops

}  // namespace ocl
