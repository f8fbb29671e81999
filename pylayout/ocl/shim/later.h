// Calls of the library's ops that wait for each other, to be started together.
#pragma once

#include <memory>
#include <vector>

#include "chain.h"
#include "shim.h"

namespace ocl {

// A tensor of the device as it lies, and the same over memory that its storage keeps. Nothing that waits is started.
Operand operand_of(const at::Tensor& tensor);
Operand placed_operand_of(const at::Tensor& tensor);

// The calls that wait, of all threads: they only write into tensors that exist, and are started, those that do the same
// to many tensors as one (pl_op_run_all), when somebody is about to read what they write or to write what they read or
// write, or asks what the device has done. All are of one device and one stream of it.
class Later {
 public:
  // Takes `operands`, inputs before outputs. `op` and `attributes` live as long as `owner`, null for ever.
  static void add(c10::DeviceIndex device, const char* op, pl_attributes attributes, Operand* operands, size_t inputs,
                  size_t outputs, std::shared_ptr<const void> owner);
  // Takes an op on lists, `tensors` one list after another, to run behind the ops of lists before as a chain (chain.h).
  // `result`: a list that the op makes; none: it changes its first list. Tensors are of one real dtype, those of
  // an element alike in sizes and strides, dense, and in blocks that are not shared. False, and nothing was done: memory of one
  // element is another's, too.
  static bool add(c10::DeviceIndex device, const ListFormula& formula, TensorPointers tensors, size_t count,
                  const Chain::Number& number, TensorPointers result);
  static void flush();
  // Starts what waits if it has to be started before the block is read, or is written.
  static void before_read(const Block* block) {
    if (block && block->written_later_.load(std::memory_order_relaxed) == round_.load(std::memory_order_relaxed))
      flush();
  }
  static void before_write(const Block* block) {
    before_read(block);
    if (block && block->read_later_.load(std::memory_order_relaxed) == round_.load(std::memory_order_relaxed)) flush();
  }

 private:
  struct Waiting;
  static Waiting& waiting();
  static void start(Waiting& waiting);
  static std::atomic<uint64_t> round_;  // of adding and starting: a block keeps those in which it was used last
};

// As long as one is open in a thread, all calls that can wait do.
class Batch {
 public:
  // Within another one it does nothing. starts: what waits, when it ends.
  explicit Batch(bool starts = true);
  ~Batch();
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;
  void finish();  // starts what waits; without it, after an exception, errors of what still waits are not told

  static bool open();

 private:
  bool outermost_, starts_;
};

}  // namespace ocl
