// Kind pointwise: the program of an expression, evaluated over blocks of elements.
//
// Each node of the program is one vector loop over a block; node values live in buffers that are used again as soon
// as no later node needs them.  Reductions accumulate block by block, floats in double.
#include <cmath>
#include <functional>
#include <limits>
#include <memory>

#include "ops/pointwise.h"
#include "providers/host/common/host.h"
#include "providers/host/common/split_walk.h"
#include "providers/host/pointwise/functions.h"
#include "providers/host/pointwise/vector_math.h"
#include "providers/host/reduce/reduction_functions.h"

namespace pl::host {
namespace {

using pointwise::Arithmetic;
using pointwise::Code;
using pointwise::Function;
using pointwise::Node;
using pointwise::Program;
using pointwise::Reduction;

PL_VECTORISED void where_run(const float* c, const float* a, const float* b, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = c[i] != 0.0f ? a[i] : b[i];
}
PL_VECTORISED void where_run(const int64_t* c, const int64_t* a, const int64_t* b, int64_t* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = c[i] != 0 ? a[i] : b[i];
}
PL_VECTORISED void expm1_run(const float* x, float* y, int64_t n, double, double) {
  for (int64_t i = 0; i < n; ++i) y[i] = math::expm1(x[i]);
}
PL_VECTORISED void log1p_run(const float* x, float* y, int64_t n, double, double) {
  for (int64_t i = 0; i < n; ++i) y[i] = math::log1p(x[i]);
}
// Functions that networks hardly use, one element at a time.
void erfc_run(const float* x, float* y, int64_t n, double, double) {
  for (int64_t i = 0; i < n; ++i) y[i] = std::erfc(x[i]);
}
// std::lgamma also writes its sign to a variable that threads share.
void lgamma_run(const float* x, float* y, int64_t n, double, double) {
  int sign = 0;
  for (int64_t i = 0; i < n; ++i) y[i] = lgammaf_r(x[i], &sign);
}
PL_VECTORISED void isnan_run(const float* x, float* y, int64_t n, double, double) {
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] != x[i] ? 1.0f : 0.0f;
}
void isnan_run(const int64_t*, int64_t* y, int64_t n, double, double) { std::fill(y, y + n, 0); }

// The names under which functions.h has these functions; null for those it has not.
const char* table_name(Function function) {
  switch (function) {
    case Function::negate: return "neg";
    case Function::logical_not: return "logical_not";
    case Function::exp: return "exp";
    case Function::log: return "log";
    case Function::sqrt: return "sqrt";
    case Function::rsqrt: return "rsqrt";
    case Function::tanh: return "tanh";
    case Function::sigmoid: return "sigmoid";
    case Function::erf: return "erf";
    case Function::sin: return "sin";
    case Function::cos: return "cos";
    case Function::floor: return "floor";
    case Function::ceil: return "ceil";
    case Function::round: return "round";
    case Function::abs: return "abs";
    case Function::sign: return "sign";
    case Function::add: return "add";
    case Function::subtract: return "sub";
    case Function::multiply: return "mul";
    case Function::divide: return "div";
    case Function::maximum: return "maximum";
    case Function::minimum: return "minimum";
    case Function::power: return "pow";
    case Function::fmod: return "fmod";
    case Function::atan2: return "atan2";
    case Function::copysign: return "copysign";
    case Function::less: return "lt";
    case Function::less_equal: return "le";
    case Function::greater: return "gt";
    case Function::greater_equal: return "ge";
    case Function::equal: return "eq";
    case Function::not_equal: return "ne";
    case Function::logical_and: return "logical_and";
    case Function::logical_or: return "logical_or";
    default: return nullptr;
  }
}

template <class T>
UnaryRun<T> unary_of(Function function) {
  if (function == Function::isnan) return isnan_run;
  if constexpr (std::is_same_v<T, float>) {
    if (function == Function::expm1) return expm1_run;
    if (function == Function::log1p) return log1p_run;
    if (function == Function::erfc) return erfc_run;
    if (function == Function::lgamma) return lgamma_run;
    return find_float_unary(table_name(function));
  } else {
    return find_integer_unary(table_name(function));
  }
}
template <class T>
BinaryRun<T> binary_of(Function function) {
  if constexpr (std::is_same_v<T, float>)
    return find_float_binary(table_name(function));
  else
    return find_integer_binary(table_name(function));
}

// A node as an instruction on block buffers.  Constants and scalars are buffers of one value, read with step 0.
template <class T>
struct Instruction {
  Function function;
  UnaryRun<T> unary = nullptr;
  BinaryRun<T> binary = nullptr;
  int arguments[3] = {-1, -1, -1};  // values
  int value = 0;                    // the node itself
};

// A code ready to run on blocks of up to kChunk elements.
template <class T>
class Evaluator {
 public:
  Evaluator() = default;
  Evaluator(const Code& code, const std::vector<double>& scalars, int64_t count) : results_(code.results) {
    const size_t nodes = code.nodes.size();
    std::vector<size_t> last_use(nodes, 0);
    for (size_t i = 0; i < nodes; ++i)
      for (int argument : code.nodes[i].arguments)
        if (argument >= 0) last_use[size_t(argument)] = i;
    for (int result : code.results) last_use[size_t(result)] = nodes;
    slots_.assign(nodes, -1);
    constants_.assign(nodes, T(0));
    inputs_.assign(nodes, -1);
    std::vector<int> free;
    for (size_t i = 0; i < nodes; ++i) {
      const Node& node = code.nodes[i];
      if (node.function == Function::constant) constants_[i] = T(node.constant);
      if (node.function == Function::scalar) constants_[i] = T(scalars[size_t(node.index)]);
      if (node.function == Function::count) constants_[i] = T(count);
      if (node.function == Function::input || node.function == Function::reduced) inputs_[i] = node.index;
      if (pointwise::is_leaf(node.function)) continue;
      // Its own buffer is taken before those of its arguments are given back, so that they differ.
      if (free.empty()) {
        slots_[i] = buffers_++;
      } else {
        slots_[i] = free.back();
        free.pop_back();
      }
      for (int k = 0; k < 3; ++k) {
        const int argument = node.arguments[k];
        if (argument < 0 || slots_[size_t(argument)] < 0 || last_use[size_t(argument)] != i) continue;
        bool seen = false;
        for (int j = 0; j < k; ++j) seen |= node.arguments[j] == argument;
        if (!seen) free.push_back(slots_[size_t(argument)]);
      }
      Instruction<T> instruction;
      instruction.function = node.function;
      instruction.value = int(i);
      std::copy(node.arguments, node.arguments + 3, instruction.arguments);
      const int arity = pointwise::arity_of(node.function);
      if (arity == 1) instruction.unary = unary_of<T>(node.function);
      if (arity == 2) instruction.binary = binary_of<T>(node.function);
      instructions_.push_back(instruction);
    }
  }

  int buffers() const { return buffers_; }

  // `inputs[k]` holds n values, or with step 0 one.  `scratch` holds buffers() * kChunk values, and three blocks more.
  void run(const T* const* inputs, const int64_t* steps, int64_t n, T* scratch) const {
    T* spare = scratch + int64_t(buffers_) * kChunk;
    for (const Instruction<T>& instruction : instructions_) {
      const T* values[3] = {};
      int64_t value_steps[3] = {};
      for (int k = 0; k < 3 && instruction.arguments[k] >= 0; ++k)
        values[k] = value(instruction.arguments[k], inputs, steps, scratch, value_steps[k]);
      T* target = scratch + int64_t(slots_[size_t(instruction.value)]) * kChunk;
      if (instruction.binary) {
        instruction.binary(values[0], value_steps[0], values[1], value_steps[1], target, n);
        continue;
      }
      const int arity = pointwise::arity_of(instruction.function);
      for (int k = 0; k < arity; ++k)
        if (value_steps[k] == 0) {
          std::fill(spare + k * kChunk, spare + k * kChunk + n, *values[k]);
          values[k] = spare + k * kChunk;
        }
      if (instruction.unary) {
        instruction.unary(values[0], target, n, 0, 0);
      } else if (instruction.function == Function::where) {
        where_run(values[0], values[1], values[2], target, n);
      } else {  // clip
        binary_of<T>(Function::maximum)(values[0], 1, values[1], 1, target, n);
        binary_of<T>(Function::minimum)(target, 1, values[2], 1, target, n);
      }
    }
  }

  // The values of output k after run, with their step.
  const T* result(size_t k, const T* const* inputs, const int64_t* steps, const T* scratch, int64_t& step) const {
    return value(results_[k], inputs, steps, scratch, step);
  }

 private:
  const T* value(int node, const T* const* inputs, const int64_t* steps, const T* scratch, int64_t& step) const {
    const size_t i = size_t(node);
    if (slots_[i] >= 0) {
      step = 1;
      return scratch + int64_t(slots_[i]) * kChunk;
    }
    if (inputs_[i] >= 0) {
      step = steps[inputs_[i]];
      return inputs[inputs_[i]];
    }
    step = 0;
    return &constants_[i];
  }

  std::vector<Instruction<T>> instructions_;
  std::vector<int> results_, slots_, inputs_;  // by node: its buffer, the input it is
  std::vector<T> constants_;
  int buffers_ = 0;
};

// Reads block after block of all inputs of a nest and evaluates.
template <class T>
class BlockReader {
 public:
  BlockReader(const Evaluator<T>& evaluator, size_t inputs)
      : evaluator_(evaluator),
        blocks_(new T[inputs * size_t(kChunk)]),
        scratch_(new T[size_t((evaluator.buffers() + 3) * kChunk)]),
        pointers_(inputs),
        steps_(inputs) {}

  // Operand first_operand + k of the nest is input k; `at` is the distance from the start of the run.
  void run(const Nest& nest, int first_operand, const int64_t* offsets, int64_t at, int64_t n, const void* const* data,
           const std::vector<LoadRun<T>>& loads, const std::vector<bool>& direct) {
    for (size_t k = 0; k < pointers_.size(); ++k) {
      const int64_t step = nest.run().stride[first_operand + int(k)];
      const int64_t from = offsets[first_operand + int(k)] + at * step;
      steps_[k] = step != 0;
      if (direct[k] && (step == 0 || step == 1)) {
        pointers_[k] = static_cast<const T*>(data[k]) + from;
        continue;
      }
      T* block = blocks_.get() + k * size_t(kChunk);
      loads[k](data[k], from, step, step ? n : 1, block);
      pointers_[k] = block;
    }
    evaluator_.run(pointers_.data(), steps_.data(), n, scratch_.get());
  }
  const T* result(size_t k, int64_t& step) const {
    return evaluator_.result(k, pointers_.data(), steps_.data(), scratch_.get(), step);
  }

 private:
  const Evaluator<T>& evaluator_;
  std::unique_ptr<T[]> blocks_, scratch_;
  std::vector<const T*> pointers_;
  std::vector<int64_t> steps_;
};

template <class T>
struct Common {
  Evaluator<T> evaluator;
  std::vector<LoadRun<T>> loads;
  std::vector<bool> direct;
  StoreRun<T> store;
  int outputs;
  double nanoseconds;  // of one element on one core
  PaddingZeroer zeroer;

  std::vector<const void*> data(const KernelArguments& arguments) const {
    std::vector<const void*> pointers;
    for (size_t k = 0; k < loads.size(); ++k) pointers.push_back(input(arguments, int(k)));
    return pointers;
  }
};

template <class T>
struct ElementwiseBody {
  Common<T> common;
  std::vector<Nest> nests;  // over the outputs, which lie alike, and the inputs

  void operator()(const KernelArguments& arguments) const {
    const auto data = common.data(arguments);
    for (const Nest& nest : nests) {
      // Pieces of several short runs share one set of buffers.
      const double work = common.nanoseconds * double(nest.run().size);
      const bool split = nest.runs() < 16 && work * double(nest.runs()) > kSerialNanoseconds;
      const auto body = [&](BlockReader<T>& reader, const int64_t* offsets, int64_t n) {
        for (int64_t at = 0; at < n; at += kChunk) {
          const int64_t count = std::min(kChunk, n - at), step = nest.run().stride[0];
          reader.run(nest, 1, offsets, at, count, data.data(), common.loads, common.direct);
          for (int k = 0; k < common.outputs; ++k) {
            int64_t value_step;
            const T* values = reader.result(size_t(k), value_step);
            T filled[kChunk];
            if (value_step == 0) {
              std::fill(filled, filled + count, *values);
              values = filled;
            }
            common.store(values, count, output(arguments, k), offsets[0] + at * step, step);
          }
        }
      };
      if (split) {
        for_each_run(nest, common.nanoseconds, [&](const int64_t* offsets, int64_t n) {
          BlockReader<T> reader(common.evaluator, common.loads.size());
          body(reader, offsets, n);
        });
        continue;
      }
      parallel_for(nest.runs(), work, [&](int64_t begin, int64_t end) {
        BlockReader<T> reader(common.evaluator, common.loads.size());
        walk(nest, begin, end, [&](const int64_t* offsets, int64_t n) { body(reader, offsets, n); });
      });
    }
    for (int k = 0; k < common.outputs; ++k) common.zeroer.run(output(arguments, k));
  }
};

template <class T>
ReductionRuns<T> runs_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum: return reduction_runs<Sum, T>();
    case Reduction::product: return reduction_runs<Product, T>();
    case Reduction::maximum: return reduction_runs<Maximum, T>();
    case Reduction::minimum: return reduction_runs<Minimum, T>();
  }
  fail(pl::Code::internal, "reduction ", int(reduction), " does not exist");
}

template <class T>
struct ReducingBody {
  using A = Accumulator<T>;
  Common<T> common;
  Evaluator<T> finish;
  std::vector<ReductionRuns<T>> reductions;
  SplitWalk split;  // over outputs and inputs

  // Buffers of one thread: accumulators of every reduction for up to kChunk results side by side, and their values.
  struct Workspace {
    BlockReader<T> reader;
    std::unique_ptr<A[]> totals;
    std::unique_ptr<T[]> values, scratch, filled;
    explicit Workspace(const ReducingBody& body)
        : reader(body.common.evaluator, body.common.loads.size()),
          totals(new A[body.reductions.size() * size_t(kChunk)]),
          values(new T[body.reductions.size() * size_t(kChunk)]),
          scratch(new T[size_t((body.finish.buffers() + 3) * kChunk)]),
          filled(new T[size_t(kChunk)]) {}
    // The values of a result as a vector, also where they are all the same.
    const T* block(size_t k, int64_t n) {
      int64_t step;
      const T* result = reader.result(k, step);
      if (step == 1) return result;
      std::fill(filled.get(), filled.get() + n, *result);
      return filled.get();
    }
  };

  // Finishes and stores n results that lie side by side in the workspace.
  void finish_block(Workspace& workspace, const KernelArguments& arguments, int64_t offset, int64_t step,
                    int64_t n) const {
    std::vector<const T*> pointers;
    for (size_t k = 0; k < reductions.size(); ++k) {
      T* values = workspace.values.get() + k * size_t(kChunk);
      for (int64_t i = 0; i < n; ++i) values[i] = T(workspace.totals[k * size_t(kChunk) + size_t(i)]);
      pointers.push_back(values);
    }
    const std::vector<int64_t> steps(reductions.size(), 1);
    finish.run(pointers.data(), steps.data(), n, workspace.scratch.get());
    for (int k = 0; k < common.outputs; ++k) {
      int64_t value_step;
      const T* values = finish.result(size_t(k), pointers.data(), steps.data(), workspace.scratch.get(), value_step);
      if (value_step == 0) {
        std::fill(workspace.filled.get(), workspace.filled.get() + n, *values);
        values = workspace.filled.get();
      }
      common.store(values, n, output(arguments, k), offset, step);
    }
  }

  // One result: along its elements.
  void reduce_one(Workspace& workspace, const int64_t* kept, const std::vector<const void*>& data, int64_t slot) const {
    for (size_t k = 0; k < reductions.size(); ++k)
      workspace.totals[k * size_t(kChunk) + size_t(slot)] = reductions[k].start;
    for (const Nest& nest : split.along)
      walk(nest, 0, nest.runs(), [&](const int64_t* offsets, int64_t n) {
        int64_t own[kMaxOperands];
        for (int k = 0; k < nest.operands; ++k) own[k] = kept[k] + offsets[k];
        for (int64_t at = 0; at < n; at += kChunk) {
          const int64_t count = std::min(kChunk, n - at);
          workspace.reader.run(nest, 1, own, at, count, data.data(), common.loads, common.direct);
          for (size_t k = 0; k < reductions.size(); ++k) {
            A& total = workspace.totals[k * size_t(kChunk) + size_t(slot)];
            total = reductions[k].join(total, A(reductions[k].run(workspace.block(k, count), count)));
          }
        }
      });
  }

  // n results side by side, n at most kChunk: across them, element after element.
  void reduce_side_by_side(Workspace& workspace, const Nest& kept_nest, const int64_t* kept,
                           const std::vector<const void*>& data, int64_t n) const {
    for (size_t k = 0; k < reductions.size(); ++k)
      std::fill_n(workspace.totals.get() + k * size_t(kChunk), n, reductions[k].start);
    for (const Nest& nest : split.along)
      walk(nest, 0, nest.runs(), [&](const int64_t* offsets, int64_t count) {
        int64_t own[kMaxOperands];
        for (int64_t i = 0; i < count; ++i) {
          for (int k = 0; k < nest.operands; ++k) own[k] = kept[k] + offsets[k] + i * nest.run().stride[k];
          workspace.reader.run(kept_nest, 1, own, 0, n, data.data(), common.loads, common.direct);
          for (size_t k = 0; k < reductions.size(); ++k)
            reductions[k].rows(workspace.block(k, n), workspace.totals.get() + k * size_t(kChunk), n);
        }
      });
  }

  // Whether the elements of one result lie apart in the largest input, but neighbours of neighbouring results together.
  bool side_by_side(const Nest& kept_nest) const {
    if (kept_nest.run().size < 4 || split.along.empty()) return false;
    bool beside = false, along = false;
    for (int k = 1; k < kept_nest.operands; ++k) {
      beside |= kept_nest.run().stride[k] == 1;
      along |= split.along[0].run().stride[k] == 1 && split.along[0].run().size > 1;
    }
    return beside && !along;
  }

  void operator()(const KernelArguments& arguments) const {
    const auto data = common.data(arguments);
    const double work = common.nanoseconds * double(split.along_elements) + 50;
    for (const Nest& nest : split.kept) {
      const bool beside = side_by_side(nest);
      for_each_run(nest, work, [&](const int64_t* offsets, int64_t n) {
        Workspace workspace(*this);
        const int64_t* stride = nest.run().stride;
        for (int64_t first = 0; first < n; first += kChunk) {
          const int64_t count = std::min(kChunk, n - first);
          int64_t kept[kMaxOperands];
          for (int k = 0; k < nest.operands; ++k) kept[k] = offsets[k] + first * stride[k];
          if (beside) {
            reduce_side_by_side(workspace, nest, kept, data, count);
          } else {
            int64_t own[kMaxOperands];
            for (int64_t i = 0; i < count; ++i) {
              for (int k = 0; k < nest.operands; ++k) own[k] = kept[k] + i * stride[k];
              reduce_one(workspace, own, data, i);
            }
          }
          finish_block(workspace, arguments, kept[0], stride[0], count);
        }
      });
    }
    for (int k = 0; k < common.outputs; ++k) common.zeroer.run(output(arguments, k));
  }
};

template <class T>
void add(const Op& op, const Program& program, CandidateList& out, LoadRun<T> (*loader)(DType),
         StoreRun<T> (*storer)(DType)) {
  std::vector<int> all;
  for (size_t i = 0; i < op.inputs.size(); ++i) all.push_back(int(i));
  const Dims space = broadcast_shapes(op, all);
  const TensorDesc whole = TensorDesc::dense(op.in(0).dtype, space);
  const std::vector<double> scalars = op.attributes[attr::scalars];
  std::vector<bool> reduced(size_t(space.size()), false);
  if (program.reduces())
    for (int64_t dim : op.attributes[attr::dim_ints]) reduced[size_t(dim)] = true;
  for (const Layout& layout : layouts_to_try(op, whole)) {
    std::vector<TensorDesc> inputs, outputs;
    std::vector<Operand> operands;
    for (const TensorDesc& tensor : op.inputs)
      inputs.push_back(tensor.shape == space ? any_strided_view_as(tensor, layout) : dense(tensor));
    for (const TensorDesc& tensor : op.outputs)
      outputs.push_back(tensor.rank() == layout.rank() ? strided_view_as(tensor, layout) : dense_plain(tensor));
    const TensorDesc& y = outputs[0];
    operands.push_back({y.rank() == space.size() ? y : insert_dims(y, reduced), {}});
    for (const TensorDesc& tensor : inputs) operands.push_back({with_rank(tensor, space.size()), {}});
    add_candidate(out, program.reduces() ? "pointwise_reduce" : "pointwise",
                  program.reduces() ? Quality::fair : Quality::fast, inputs, outputs, [=] {
                    int64_t count = 1;
                    for (int d = 0; d < space.size(); ++d) count *= reduced[size_t(d)] ? space[d] : 1;
                    const auto common = [&](const TensorDesc& result) {
                      std::vector<LoadRun<T>> loads;
                      std::vector<bool> direct;
                      for (const TensorDesc& tensor : inputs) {
                        loads.push_back(loader(tensor.dtype));
                        direct.push_back(tensor.dtype == (std::is_same_v<T, float> ? DType::f32 : DType::s64));
                      }
                      return Common<T>{Evaluator<T>(program.elements, scalars, count),
                                       loads,
                                       direct,
                                       storer(result.dtype),
                                       program.outputs,
                                       0.3 * double(program.elements.nodes.size()),
                                       PaddingZeroer(result)};
                    };
                    using Body = std::function<void(const KernelArguments&)>;
                    if (!program.reduces())
                      return Body(ElementwiseBody<T>{common(outputs[0]), with_long_runs(make_nests(space, operands))});
                    std::vector<ReductionRuns<T>> reductions;
                    for (Reduction reduction : program.reductions) reductions.push_back(runs_of<T>(reduction));
                    return Body(ReducingBody<T>{common(outputs[0]), Evaluator<T>(program.finish, scalars, count),
                                                reductions, SplitWalk(space, reduced, operands)});
                  });
    // All inputs of a piece are read before its result is written.
    if (!program.reduces() && program.outputs == 1) out.candidates.back().in_place = (1u << inputs.size()) - 1;
  }
}

void list(const Op& op, CandidateList& out) {
  if (op.inputs.size() >= size_t(kMaxOperands))
    return out.refuse("host", concat("pointwise: ", op.inputs.size(), " tensors, at most ", kMaxOperands - 1));
  const Program program = pointwise::program_of(op);
  if (program.arithmetic == Arithmetic::f32)
    add<float>(op, program, out, float_loader, float_storer);
  else
    add<int64_t>(op, program, out, integer_loader, integer_storer);
}
PL_HOST_KIND("pointwise", list);

}  // namespace
}  // namespace pl::host
