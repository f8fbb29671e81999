// Program: an assignment made ready to run: steps with their kernels and the place of everything in memory.
//
// Running it looks nothing up, allocates nothing and takes one lock, for the arena: each run needs one of its own, and
// arenas are kept for the next run.  Constants are packed when the program is made.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "dispatch/context.h"
#include "graph/assign.h"

namespace pl {

// Constants as kernels want them, shared by the programs of a plan and those that are tried for it.
class PackedConstants {
 public:
  explicit PackedConstants(Context& context) : context_(context) {}
  TensorRef tensor(const Graph& graph, ValueId value, const TensorDesc& wanted, Device& device, const std::string& why);
  BufferRef packed(const Graph& graph, ValueId value, const Candidate& candidate, const Packing& packing,
                   Device& device, const std::string& why);
  double seconds() const { return seconds_; }  // that making them took
  // Whether that was made before; of tensors that lie in that description already, true.
  bool has_tensor(const Graph& graph, ValueId value, const TensorDesc& wanted, Device& device) const;
  bool has_packed(const Graph& graph, ValueId value, const Candidate& candidate, const Packing& packing,
                  Device& device) const;
  // Lets go what no program holds.
  void release_unused();

 private:
  double seconds_ = 0;
  Context& context_;
  std::map<std::string, TensorRef> tensors_;
  std::map<std::string, BufferRef> packed_;
};

// Asked after each step of a run: how many are done, and what they took in ms.  False: the others are left out.
using GoOn = std::function<bool(size_t done, double ms)>;

// Somebody else's memory for an input or output of a program.
struct External {
  Buffer* buffer = nullptr;
  size_t offset = 0;  // bytes; not zero only where the device has host memory
};

struct ProgramMemory {
  size_t arena_bytes = 0;     // over all devices
  size_t lower_bound = 0;     // of the arena: the most that is live at any step
  size_t constant_bytes = 0;  // packed weights, each once
};

class Program {
 public:
  struct Place {        // where an argument of a step lies
    int storage = -1;   // -1: the argument is absent
    size_t offset = 0;  // bytes
    size_t bytes = 0;
  };
  struct Step {
    enum class Kind { op, reorder, transfer, copy };
    Kind kind = Kind::op;
    int node = -1;  // of the graph: the op, or the one that a conversion is for; -1: an output of the graph
    EntryRef entry;
    Way* way = nullptr;
    std::shared_ptr<Kernel> kernel;
    Device* device = nullptr;
    std::vector<Place> inputs, outputs;
    Place workspace;
    std::vector<TensorDesc> input_descs, output_descs;
    std::string cause;  // of conversions: "conv1: x", the consumer and its argument
    double expected_ms = 0;
  };

  // `in_place`: results may lie where an input lay that is read for the last time.  `threads`: of ops on `cpu`. `home`:
  // where inputs come from and outputs go to.
  Program(Context& context, const Graph& graph, const std::vector<NodeStates>& nodes, const Assignment& assignment,
          Device& home, int threads, Conversions& conversions, PackedConstants& constants, bool in_place = true);
  ~Program();

  const std::vector<Step>& steps() const { return steps_; }
  const std::vector<TensorDesc>& inputs() const { return inputs_; }    // in which the inputs are taken
  const std::vector<TensorDesc>& outputs() const { return outputs_; }  // in which the outputs are given
  const ProgramMemory& memory() const { return memory_; }
  // A tensor for each constant that some step takes as a tensor; constants of which only packed forms are used have
  // none.
  const std::map<ValueId, TensorRef>& constants() const { return constants_; }
  int threads() const { return threads_; }
  // Bytes of memory().constant_bytes that another program does not hold too.
  size_t constant_bytes_beside(const Program& other) const;

  // One run.  Externals are as inputs() and outputs() describe them.  `step_ms`, if given, gets the time of every step
  // that was run (the host's clock: for devices that work at once), and `go_on`, if given, is asked.  False if that
  // ended the run early: then outputs hold nothing of use.
  bool run(const External* inputs, const External* outputs, std::vector<double>* step_ms = nullptr,
           const GoOn* go_on = nullptr);

 private:
  friend class Lowering;
  struct Storage {
    enum class Kind { arena, input, output, constant };
    Kind kind = Kind::arena;
    int index = 0;  // of the input or output
    Device* device = nullptr;
    size_t bytes = 0;
    BufferRef constant;
    int first = -1, last = -1;  // steps that use it
    size_t block = 0;           // of the arena: number in blocks_
    size_t offset = 0;          // in it, bytes; not zero only where the device has host memory
  };
  struct Instance;

  void plan_memory();
  std::unique_ptr<Instance> make_instance();
  void run_step(const Step& step, Buffer* const* slots);
  void record(const Step& step, Buffer* const* slots);

  Context& context_;
  Device& home_;
  int threads_;
  bool uses_cpu_ = false;
  std::vector<Step> steps_;
  std::vector<Storage> storages_;
  std::vector<TensorDesc> inputs_, outputs_;
  std::vector<std::string> names_;  // by node of the graph
  std::map<ValueId, TensorRef> constants_;
  std::vector<std::pair<Device*, size_t>> blocks_;  // of the arenas, with their bytes: one where memory has addresses
  ProgramMemory memory_;
  std::mutex lock_;
  std::vector<std::unique_ptr<Instance>> free_;
};

}  // namespace pl
