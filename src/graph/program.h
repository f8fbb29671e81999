// Program: an assignment made ready to run: steps with their kernels and the place of everything in memory.
//
// Running it looks nothing up, allocates nothing and takes one lock, for the arena: each run needs one of its own, and
// arenas are kept for the next run.  Constants are packed when the program is made (graph/packed_constants.h).  The
// programs of one plan for several sizes take the memory that they run in from SharedArenas.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "dispatch/context.h"
#include "graph/assign.h"
#include "graph/constant_blocks.h"
#include "graph/packed_constants.h"

namespace pl {

// Memory in which programs run that take turns: a run takes a block, and gives it back.
class SharedArenas {
 public:
  BufferRef take(Device& device, size_t bytes);  // at least so many
  void give(BufferRef block);
  size_t bytes() const;  // of the blocks that no run has

 private:
  mutable std::mutex lock_;
  std::vector<BufferRef> free_;
};

// Asked after each step of a run: how many are done, and what they took in ms.  False: the others are left out.
using GoOn = std::function<bool(size_t done, double ms)>;

// Of one run, by the clocks of the steps' devices: nobody waits for the work.
struct StepTimings {
  std::vector<bool> wanted;                      // by step
  std::vector<std::unique_ptr<Timing>> timings;  // the same; null where none was wanted
};

// What is to be found out about a run.
struct RunTimes {
  // Gets the time of every step that was run, by the host's clock: for devices that work at once.
  std::vector<double>* step_ms = nullptr;
  // With step_ms: asked as long as no input was written to; false ends the run early.
  const GoOn* go_on = nullptr;
  StepTimings* timings = nullptr;
  // Given where another program may run on the same inputs if this one fails: results then lie over no input, and it is
  // set before the first step that writes to one, a state in place.
  bool* overwrote = nullptr;
};

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
    enum class Kind { op, reorder, transfer, copy, pack };
    Kind kind = Kind::op;
    int node = -1;         // of the graph: the op, or the one that a conversion is for; -1: an output of the graph
    Packing packing;       // of kind pack: what is no constant, into the form that an op wants
    std::string provider;  // of kind pack
    bool sums = false;     // of kind pack: adds up what an op's kernel left in parts (providers/together.h)
    EntryRef entry;
    Way* way = nullptr;
    std::shared_ptr<Kernel> kernel;
    Device* device = nullptr;
    std::vector<Place> inputs, outputs;
    Place workspace;
    std::vector<TensorDesc> input_descs, output_descs;
    std::string cause;  // of conversions: "conv1: x", the consumer and its argument
    double expected_ms = 0;
    // Steps that run as one (providers/together.h): one of them has the kernel and the arguments of all, and knows the
    // others; these have neither.
    bool runs_elsewhere = false;
    std::vector<int> runs_too;
    bool absorbs = false;  // its kernel does the work of those before or behind it (graph/absorbed_steps.cpp)
  };

  // `in_place`: results may lie where an input lay that is read for the last time.  `threads`: of ops on `cpu`. `home`:
  // where inputs come from and outputs go to.  `arenas`: memory on devices with addresses, shared with others; null:
  // the program has its own.
  Program(Context& context, const Graph& graph, const std::vector<NodeStates>& nodes, const Assignment& assignment,
          Device& home, int threads, Conversions& conversions, PackedConstants& constants, bool in_place = true,
          std::shared_ptr<SharedArenas> arenas = nullptr);
  ~Program();
  // What such a program would need between inputs and outputs: nothing is packed, prepared or allocated.  Steps that
  // would run as one (graph/joined_steps.cpp, graph/absorbed_steps.cpp) are taken for apart, which may keep small tensors for a shorter time.
  static ProgramMemory memory_for(Context& context, const Graph& graph, const std::vector<NodeStates>& nodes,
                                  const Assignment& assignment, Device& home, int threads, Conversions& conversions,
                                  bool in_place);

  const std::vector<Step>& steps() const { return steps_; }
  const std::vector<TensorDesc>& inputs() const { return inputs_; }    // in which the inputs are taken
  const std::vector<TensorDesc>& outputs() const { return outputs_; }  // in which the outputs are given
  const ProgramMemory& memory() const { return memory_; }
  // A tensor for each constant that some step takes as a tensor; constants of which only packed forms are used have
  // none.
  const std::map<ValueId, TensorRef>& constants() const { return constants_; }
  int threads() const { return threads_; }
  // By output: the input, a kept value, in whose memory it is given, as it is written when that is read for the last
  // time, by steps that end a run; -1: none.
  const std::vector<int>& in_place_of() const { return in_place_of_; }
  // By output: the inputs in whose memory it may be given, as the step that writes it is the last one to read them.
  const std::vector<std::vector<int>>& may_lie_over() const { return may_lie_over_; }
  // From here on runs leave handing kernels over to the driver to the device's thread for that, if it has one.
  void submit_later(bool later) { submits_later_ = later; }
  // Has steps refer to other entries with the same way.
  void replace_entries(const std::function<EntryRef(const EntryRef& entry, const Way& way)>& replacement);
  // Where the constants lie that its steps read.
  void add_constants(ConstantBlocks& blocks) const;

  // One run.  Externals are as inputs() and outputs() describe them, apart but for in_place_of() and
  // may_lie_over().  False if it was
  // ended early: then outputs hold nothing of use.  While a profile is recorded no times are taken.
  bool run(const External* inputs, const External* outputs, const RunTimes& times = {});
  bool writes_to_inputs() const { return first_in_place_ != SIZE_MAX; }

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

  // With nothing in it yet.
  Program(Context& context, Device& home, int threads, std::shared_ptr<SharedArenas> arenas);
  void plan_memory();
  bool shares(const Device& device) const { return arenas_ && device.traits().host_addressable; }
  std::unique_ptr<Instance> make_instance();
  // Takes shared blocks for a run, and moves what lies in them to where they lie.
  std::vector<BufferRef> take_blocks(Instance& instance);
  void run_step(const Step& step, Buffer* const* slots);
  void record(const Step& step, Buffer* const* slots);

  Context& context_;
  Device& home_;
  int threads_;
  bool uses_threads_ = false, submits_later_ = false;
  std::vector<Step> steps_;
  std::vector<Storage> storages_;
  std::vector<TensorDesc> inputs_, outputs_;
  std::vector<std::string> names_;  // by node of the graph
  std::map<ValueId, TensorRef> constants_;
  std::vector<int> in_place_of_;
  std::vector<std::vector<int>> may_lie_over_;
  size_t first_in_place_ = SIZE_MAX;                // the step from which on inputs may be written to
  std::vector<std::pair<Device*, size_t>> blocks_;  // of the arenas, with their bytes: one where memory has addresses
  ProgramMemory memory_;
  std::shared_ptr<SharedArenas> arenas_;
  std::mutex lock_;
  std::vector<std::unique_ptr<Instance>> free_;
};

}  // namespace pl
