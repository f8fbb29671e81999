// Evaluator: the code of a pointwise program, run on blocks of elements.
//
// Each node of the code is one vector loop over a block; node values live in buffers that are used again as soon as no
// later node needs them.  Some groups of nodes are one loop (joined_loops.h).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ops/pointwise.h"
#include "providers/host/common/elements.h"
#include "providers/host/pointwise/functions.h"
#include "providers/host/pointwise/joined_loops.h"

namespace pl::host {

// A node as an instruction on block buffers.  Constants and scalars are buffers of one value, read with step 0.
template <class T>
struct Instruction {
  pointwise::Function function;
  std::optional<JoinedLoop> loop;  // in place of the function
  UnaryRun<T> unary = nullptr;
  BinaryRun<T> binary = nullptr;
  int arguments[3] = {-1, -1, -1};  // values
  int value = 0;                    // the node itself
};

// A code ready to run on blocks of up to kChunk elements.  T: float or int64_t.
template <class T>
class Evaluator {
 public:
  Evaluator() = default;
  // `count`: the value of the name count.
  Evaluator(const pointwise::Code& code, const std::vector<double>& scalars, int64_t count);

  int buffers() const { return buffers_; }
  int64_t scratch() const { return (buffers_ + 1) * kChunk; }  // values that run() needs

  // `inputs[k]` holds n values, or with step 0 one.  `scratch` holds scratch() values.  `last`: where the values of the
  // last output to be computed go (last_result()), in place of scratch; result() does not give them then.
  void run(const T* const* inputs, const int64_t* steps, int64_t n, T* scratch, T* last = nullptr) const;
  // The output whose values are those of the last instruction, and no other one's; -1: there is none.
  int last_result() const;
  // Whether these may be written over an input: each is read at once.
  bool last_reads_once() const;
  // Whether all is one loop, which needs no scratch where inputs hold n values each: then n may be above kChunk.
  bool is_one_loop() const;
  // The values of output k after run, with their step.
  const T* result(size_t k, const T* const* inputs, const int64_t* steps, const T* scratch, int64_t& step) const {
    return value(results_[k], inputs, steps, scratch, step);
  }

 private:
  bool is_constant(int node) const;
  void run(const Instruction<T>& instruction, const T* const* inputs, const int64_t* steps, int64_t n, T* scratch,
           T* target) const;
  // `spare`: a block for an argument of one value.
  void run_loop(const JoinedLoop& loop, const T* x, int64_t step, T* y, int64_t n, T* spare) const;
  const T* value(int node, const T* const* inputs, const int64_t* steps, const T* scratch, int64_t& step) const;

  std::vector<Instruction<T>> instructions_;
  std::vector<int> results_, slots_, inputs_;  // by node: its buffer, the input it is
  std::vector<T> constants_;
  int buffers_ = 0;
};

}  // namespace pl::host
