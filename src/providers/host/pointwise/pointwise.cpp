// Kind pointwise: the program of an expression, evaluated over blocks of elements.
//
// Reductions accumulate block by block, floats in double.  A function of one tensor of 8 bits is a table.
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>

#include "ops/pointwise.h"
#include "providers/host/common/host.h"
#include "providers/host/common/split_walk.h"
#include "providers/host/pointwise/evaluator.h"
#include "providers/host/reduce/reduction_functions.h"

namespace pl::host {
namespace {

using pointwise::Arithmetic;
using pointwise::Program;
using pointwise::Reduction;

// Reads block after block of all inputs of a nest and evaluates.
template <class T>
class BlockReader {
 public:
  BlockReader(const Evaluator<T>& evaluator, size_t inputs)
      : evaluator_(evaluator),
        blocks_(new T[inputs * size_t(kChunk)]),
        scratch_(new T[size_t(evaluator.scratch())]),
        pointers_(inputs),
        steps_(inputs) {}

  // Operand first_operand + k of the nest is input k; `at` is the distance from the start of the run.
  void run(const Nest& nest, int first_operand, const int64_t* offsets, int64_t at, int64_t n, const void* const* data,
           const std::vector<LoadRun<T>>& loads, const std::vector<bool>& direct, T* last = nullptr) {
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
    evaluator_.run(pointers_.data(), steps_.data(), n, scratch_.get(), last);
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
  bool is_plain;            // the outputs are of what is computed in

  // The output whose values are computed where they belong; -1: they are stored from elsewhere.
  int straight(const KernelArguments& arguments, const std::vector<const void*>& data) const {
    const int k = is_plain ? common.evaluator.last_result() : -1;
    if (k < 0) return -1;
    const void* target = output(arguments, k);
    const bool over = std::find(data.begin(), data.end(), target) != data.end();
    return over && !common.evaluator.last_reads_once() ? -1 : k;
  }

  // Whether runs of the output and of all inputs are neighbours of what is computed in.
  bool lie_alike(const Nest& nest) const {
    bool alike = nest.run().stride[0] == 1;
    for (size_t k = 0; k < common.direct.size(); ++k)
      alike = alike && common.direct[k] && nest.run().stride[k + 1] == 1;
    return alike;
  }

  void operator()(const KernelArguments& arguments) const {
    const auto data = common.data(arguments);
    const int straight = this->straight(arguments, data);
    for (const Nest& nest : nests) {
      // Pieces of several short runs share one set of buffers.
      const double work = common.nanoseconds * double(nest.run().size);
      const bool split = nest.runs() < 16 && work * double(nest.runs()) > kSerialNanoseconds;
      const int64_t step = nest.run().stride[0];
      const bool at_once = straight >= 0 && common.outputs == 1 && common.evaluator.is_one_loop() && lie_alike(nest);
      const auto body = [&](BlockReader<T>& reader, const int64_t* offsets, int64_t n) {
        const int64_t block = at_once ? n : kChunk;
        for (int64_t at = 0; at < n; at += block) {
          const int64_t count = std::min(block, n - at);
          T* last =
              straight >= 0 && step == 1 ? static_cast<T*>(output(arguments, straight)) + offsets[0] + at : nullptr;
          reader.run(nest, 1, offsets, at, count, data.data(), common.loads, common.direct, last);
          for (int k = 0; k < common.outputs; ++k) {
            if (last && k == straight) continue;
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
          scratch(new T[size_t(body.finish.scratch())]),
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

  // Whether blocks of neighbouring results take less time than blocks of one result's elements: fewer of them, or
  // fewer of the inputs with gaps between a block's elements.
  bool side_by_side(const Nest& kept_nest) const {
    if (split.along.empty()) return false;
    constexpr double kBlock = 50, kGap = 0.7;  // nanoseconds of a block, and of an element to be gathered
    const auto is_apart = [](int64_t stride) { return stride != 0 && stride != 1; };
    const auto &kept = kept_nest.run(), &along = split.along[0].run();
    const double results = double(kept.size), elements = double(along.size);
    double beside = elements * kBlock, one_by_one = results * kBlock;
    for (int k = 1; k < kept_nest.operands; ++k) {
      if (is_apart(kept.stride[k])) beside += results * elements * kGap;
      if (is_apart(along.stride[k])) one_by_one += results * elements * kGap;
    }
    return beside < one_by_one;
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

// A function of one tensor of 8 bits: its results for all that an element can hold.
struct TableBody {
  std::vector<char> values;  // 256 of them, in the order of the bytes
  size_t size;               // bytes of a value
  std::vector<Nest> nests;   // over the output and the input
  PaddingZeroer zeroer;

  template <class Value>
  void run(const void* x, void* y) const {
    constexpr double kNanoseconds = 0.4;  // of one element on one core
    Value table[256];
    std::memcpy(table, values.data(), sizeof table);
    for (const Nest& nest : nests) {
      const int64_t y_step = nest.run().stride[0], x_step = nest.run().stride[1];
      for_each_run(nest, kNanoseconds, [&](const int64_t* offsets, int64_t n) {
        const uint8_t* from = static_cast<const uint8_t*>(x) + offsets[1];
        Value* to = static_cast<Value*>(y) + offsets[0];
        if (x_step == 1 && y_step == 1)
          for (int64_t i = 0; i < n; ++i) to[i] = table[from[i]];
        else
          for (int64_t i = 0; i < n; ++i) to[i * y_step] = table[from[i * x_step]];
      });
    }
    zeroer.run(y);
  }
  void operator()(const KernelArguments& arguments) const {
    switch (size) {
      case 1: return run<uint8_t>(input(arguments, 0), output(arguments));
      case 2: return run<uint16_t>(input(arguments, 0), output(arguments));
      case 4: return run<uint32_t>(input(arguments, 0), output(arguments));
      default: return run<uint64_t>(input(arguments, 0), output(arguments));
    }
  }
};

bool is_table(const Op& op, const Program& program) {
  constexpr int64_t kFew = 2048;  // elements, for which making the table costs more than it saves
  return op.inputs.size() == 1 && size_of(op.in(0).dtype) == 1 && !program.reduces() && program.outputs == 1 &&
         op.in(0).elements() > kFew;
}

template <class T>
std::vector<char> table_of(const Evaluator<T>& evaluator, LoadRun<T> load, StoreRun<T> store, DType to) {
  uint8_t bytes[256];
  std::iota(bytes, bytes + 256, uint8_t(0));
  T values[256];
  load(bytes, 0, 1, 256, values);
  const T* inputs[] = {values};
  const int64_t steps[] = {1};
  std::vector<T> scratch(size_t(evaluator.scratch()));
  evaluator.run(inputs, steps, 256, scratch.data());
  int64_t step = 0;
  const T* results = evaluator.result(0, inputs, steps, scratch.data(), step);
  std::vector<T> all(256, *results);
  if (step) std::copy(results, results + 256, all.begin());
  std::vector<char> table(256 * size_of(to));
  store(all.data(), 256, table.data(), 0, 1);
  return table;
}

// Inputs in whose memory results may be written, as of Candidate: what is computed of a piece of all inputs is kept
// apart until it is written.  An input that is itself one of several results may be read behind others' writes.
uint32_t overwritable(const Program& program) {
  if (program.inputs >= 32) return 0;
  uint32_t inputs = (1u << program.inputs) - 1;
  if (program.outputs == 1) return inputs;
  for (const int result : program.elements.results) {
    const pointwise::Node& node = program.elements.nodes[size_t(result)];
    if (node.function == pointwise::Function::input) inputs &= ~(1u << node.index);
  }
  return inputs;
}

template <class T>
void add(const Op& op, const Program& program, CandidateList& out, LoadRun<T> (*loader)(DType),
         StoreRun<T> (*storer)(DType)) {
  constexpr DType kOwn = std::is_same_v<T, float> ? DType::f32 : DType::s64;  // what is computed in
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
                        direct.push_back(tensor.dtype == kOwn);
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
                      return Body(ElementwiseBody<T>{common(outputs[0]), with_long_runs(make_nests(space, operands)),
                                                     outputs[0].dtype == kOwn});
                    std::vector<ReductionRuns<T>> reductions;
                    for (Reduction reduction : program.reductions) reductions.push_back(runs_of<T>(reduction));
                    return Body(ReducingBody<T>{common(outputs[0]), Evaluator<T>(program.finish, scalars, count),
                                                reductions, SplitWalk(space, reduced, operands)});
                  });
    if (!program.reduces()) out.candidates.back().in_place = overwritable(program);
    if (is_table(op, program)) {
      add_candidate(out, "table", Quality::fast, inputs, outputs, [=] {
        const DType to = outputs[0].dtype;
        return TableBody{table_of(Evaluator<T>(program.elements, scalars, 1), loader(inputs[0].dtype), storer(to), to),
                         size_of(to), with_long_runs(make_nests(space, operands)), PaddingZeroer(outputs[0])};
      });
      out.candidates.back().flops = double(op.out().elements());
      out.candidates.back().efficiency = 1;
      out.candidates.back().in_place = 1;
    }
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
