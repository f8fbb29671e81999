// PrimitiveKernel: one oneDNN primitive as a Kernel.
//
// What changes from run to run is only where data lies.  The memory objects and the argument array that oneDNN
// wants are therefore made once and kept as an `Execution`; a run takes one, sets its data pointers, executes and
// puts it back.  Each thread that runs the kernel at the same time as others gets an Execution of its own; none
// is ever freed before the kernel, so that after warming up a run allocates nothing.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "providers/onednn/engine.h"
#include "providers/provider.h"

namespace pl::onednn {

// The id of an Argument that is no argument of the primitive: an input that is copied to output 0 before.
constexpr int kCopiedToOutput = -1;

// Where one execution argument of a primitive comes from.
struct Argument {
  enum class Source { input, output, workspace };
  int id = 0;  // DNNL_ARG_SRC, ...
  Source source = Source::input;
  int index = 0;      // of the input or output
  size_t offset = 0;  // bytes from the start of the buffer; of kCopiedToOutput: how many to copy
  SharedDesc md;
};

class PrimitiveKernel final : public Kernel {
 public:
  // `label` names the op and implementation in error messages.
  PrimitiveKernel(PrimitiveDesc description, std::vector<Argument> arguments, std::string label);
  ~PrimitiveKernel() override;
  void run(const KernelArguments& arguments) override;

 private:
  struct Execution;
  Execution* take();
  void give(Execution* execution);

  PrimitiveDesc description_;
  std::vector<Argument> arguments_;
  std::string label_;
  int copied_input_ = -1;  // by kCopiedToOutput
  size_t copied_bytes_ = 0;
  // Set when the primitive needs more scratchpad than the candidate stated; each Execution then brings its own.
  SharedDesc own_scratchpad_;
  Owned<dnnl_primitive_t> primitive_;
  bool holds_signals_ = false;  // see holds_signals() in kernel.cpp

  // The free Executions: one in `ready_`, which is all that a single thread needs, the rest in `free_`.
  std::atomic<Execution*> ready_{nullptr};
  std::mutex lock_;  // of the two below
  std::vector<Execution*> free_;
  std::vector<std::unique_ptr<Execution>> all_;
};

}  // namespace pl::onednn
