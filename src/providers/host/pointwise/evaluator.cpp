#include "providers/host/pointwise/evaluator.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "providers/host/common/host.h"
#include "providers/host/common/independent.h"
#include "providers/host/pointwise/clip_run.h"
#include "providers/host/pointwise/vector_gamma.h"
#include "providers/host/pointwise/vector_math.h"

namespace pl::host {
namespace {

using pointwise::Code;
using pointwise::Function;
using pointwise::Node;

// y[i] = c[i] ? a[i * a_step] : b[i * b_step] with steps of 0 or 1.  All are read, so that the choice is a blend.
template <class T>
PL_VECTORISED void where_run(const T* c, const T* a, int64_t a_step, const T* b, int64_t b_step, T* y, int64_t n) {
  const auto choose = [](T condition, T first, T second) { return condition != T(0) ? first : second; };
  const T one = *a, other = *b;
  if (a_step && b_step) {
    PL_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) y[i] = choose(c[i], a[i], b[i]);
  } else if (a_step) {
    PL_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) y[i] = choose(c[i], a[i], other);
  } else if (b_step) {
    PL_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) y[i] = choose(c[i], one, b[i]);
  } else {
    PL_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) y[i] = choose(c[i], one, other);
  }
}
PL_VECTORISED void expm1_run(const float* x, float* y, int64_t n, double, double) {
  for (int64_t i = 0; i < n; ++i) y[i] = math::expm1(x[i]);
}
PL_VECTORISED void log1p_run(const float* x, float* y, int64_t n, double, double) {
  for (int64_t i = 0; i < n; ++i) y[i] = math::log1p(x[i]);
}
PL_VECTORISED void erfc_run(const float* x, float* y, int64_t n, double, double) {
  for (int64_t i = 0; i < n; ++i) y[i] = math::erfc(x[i]);
}
PL_VECTORISED void erfinv_run(const float* x, float* y, int64_t n, double, double) {
  for (int64_t i = 0; i < n; ++i) y[i] = math::erfinv(x[i]);
}
PL_VECTORISED void lgamma_run(const float* x, float* y, int64_t n, double, double) {
  PL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) y[i] = math::lgamma(x[i]);
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
    case Function::bit_not: return "bitwise_not";
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
    case Function::bit_and: return "bitwise_and";
    case Function::bit_or: return "bitwise_or";
    case Function::bit_xor: return "bitwise_xor";
    case Function::left_shift: return "bitwise_left_shift";
    case Function::right_shift: return "bitwise_right_shift";
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
    if (function == Function::erfinv) return erfinv_run;
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

// What quantised tensors come from and go to, each in one loop.
PL_VECTORISED void dequantize_run(const float* x, float zero, float scale, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - zero) * scale;
}
PL_VECTORISED void quantize_run(const float* x, float scale, float zero, float low, float high, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const float value = __builtin_rintf(x[i] / scale) + zero, above = value < low ? low : value;
    y[i] = above > high ? high : above;
  }
}

}  // namespace

template <class T>
Evaluator<T>::Evaluator(const Code& code, const std::vector<double>& scalars, int64_t count) : results_(code.results) {
  const size_t nodes = code.nodes.size();
  std::vector<size_t> last_use(nodes, 0);
  for (size_t i = 0; i < nodes; ++i)
    for (int argument : code.nodes[i].arguments)
      if (argument >= 0) last_use[size_t(argument)] = i;
  std::vector<const JoinedLoop*> loop_at(nodes, nullptr);
  std::vector<bool> inner(nodes, false);
  std::vector<JoinedLoop> loops;
  if constexpr (std::is_same_v<T, float>) loops = joined_loops(code);
  for (const JoinedLoop& loop : loops) {
    loop_at[size_t(loop.node)] = &loop;
    for (int node : loop.inner) inner[size_t(node)] = true;
    last_use[size_t(loop.x)] = std::max(last_use[size_t(loop.x)], size_t(loop.node));
  }
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
    if (pointwise::is_leaf(node.function) || inner[i]) continue;
    // Its own buffer is taken before those of its arguments are given back, so that they differ.
    if (free.empty()) {
      slots_[i] = buffers_++;
    } else {
      slots_[i] = free.back();
      free.pop_back();
    }
    const int loop_arguments[3] = {loop_at[i] ? loop_at[i]->x : -1, -1, -1};
    const int* const arguments = loop_at[i] ? loop_arguments : node.arguments;
    for (int k = 0; k < 3; ++k) {
      const int argument = arguments[k];
      if (argument < 0 || slots_[size_t(argument)] < 0 || last_use[size_t(argument)] != i) continue;
      bool seen = false;
      for (int j = 0; j < k; ++j) seen |= arguments[j] == argument;
      if (!seen) free.push_back(slots_[size_t(argument)]);
    }
    Instruction<T> instruction;
    instruction.function = node.function;
    instruction.value = int(i);
    std::copy(arguments, arguments + 3, instruction.arguments);
    if (loop_at[i]) {
      instruction.loop = *loop_at[i];
      instructions_.push_back(instruction);
      continue;
    }
    const int arity = pointwise::arity_of(node.function);
    if (arity == 1) instruction.unary = unary_of<T>(node.function);
    if (arity == 2) instruction.binary = binary_of<T>(node.function);
    bool of_constants = true;
    for (int k = 0; k < arity; ++k) of_constants &= is_constant(node.arguments[k]);
    if (!of_constants) {
      instructions_.push_back(instruction);
      continue;
    }
    // Its value is known now.
    std::vector<T> scratch(size_t(kChunk) * size_t(buffers_ + 1));
    run(instruction, nullptr, nullptr, 1, scratch.data(), &constants_[i]);
    free.push_back(slots_[i]);
    slots_[i] = -1;
  }
}

template <class T>
bool Evaluator<T>::is_constant(int node) const {
  return slots_[size_t(node)] < 0 && inputs_[size_t(node)] < 0;
}

template <class T>
const T* Evaluator<T>::value(int node, const T* const* inputs, const int64_t* steps, const T* scratch,
                             int64_t& step) const {
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

template <class T>
void Evaluator<T>::run_loop(const JoinedLoop& loop, const T* x, int64_t step, T* y, int64_t n, T* spare) const {
  if (step == 0) {
    std::fill(spare, spare + n, *x);
    x = spare;
  }
  if constexpr (std::is_same_v<T, float>) {  // integers have none
    const auto number = [&](int node) { return node < 0 ? 0.0f : constants_[size_t(node)]; };
    switch (loop.kind) {
      case JoinedLoop::Kind::dequantize: dequantize_run(x, number(loop.zero), number(loop.scale), y, n); break;
      case JoinedLoop::Kind::quantize:
        quantize_run(x, number(loop.scale), number(loop.zero), number(loop.low), number(loop.high), y, n);
        break;
      case JoinedLoop::Kind::function: loop.function(x, y, n, 0, 0); break;
    }
  }
}

template <class T>
int Evaluator<T>::last_result() const {
  if (instructions_.empty()) return -1;
  const int node = instructions_.back().value;
  if (std::count(results_.begin(), results_.end(), node) != 1) return -1;
  return int(std::find(results_.begin(), results_.end(), node) - results_.begin());
}

template <class T>
bool Evaluator<T>::last_reads_once() const {
  const Function function = instructions_.back().function;
  return instructions_.back().binary && function >= Function::add && function <= Function::minimum;
}

template <class T>
bool Evaluator<T>::is_one_loop() const {
  if (instructions_.size() != 1) return false;
  const Instruction<T>& only = instructions_[0];
  return only.loop || only.unary || only.binary;
}

template <class T>
void Evaluator<T>::run(const T* const* inputs, const int64_t* steps, int64_t n, T* scratch, T* last) const {
  for (const Instruction<T>& instruction : instructions_) {
    const bool ends = last && &instruction == &instructions_.back();
    T* target = ends ? last : scratch + int64_t(slots_[size_t(instruction.value)]) * kChunk;
    run(instruction, inputs, steps, n, scratch, target);
  }
}

template <class T>
void Evaluator<T>::run(const Instruction<T>& instruction, const T* const* inputs, const int64_t* steps, int64_t n,
                       T* scratch, T* target) const {
  T* spare = scratch + int64_t(buffers_) * kChunk;
  const T* values[3] = {};
  int64_t value_steps[3] = {};
  for (int k = 0; k < 3 && instruction.arguments[k] >= 0; ++k)
    values[k] = value(instruction.arguments[k], inputs, steps, scratch, value_steps[k]);
  if (instruction.loop) return run_loop(*instruction.loop, values[0], value_steps[0], target, n, spare);
  if (instruction.binary) return instruction.binary(values[0], value_steps[0], values[1], value_steps[1], target, n);
  if (value_steps[0] == 0) {
    std::fill(spare, spare + n, *values[0]);
    values[0] = spare;
  }
  if (instruction.unary) return instruction.unary(values[0], target, n, 0, 0);
  if (instruction.function == Function::where)
    return where_run(values[0], values[1], value_steps[1], values[2], value_steps[2], target, n);
  if (value_steps[1] == 0 && value_steps[2] == 0) return clip_run(values[0], *values[1], *values[2], target, n);
  // `spare`, as the target may be a limit's.
  binary_of<T>(Function::maximum)(values[0], 1, values[1], value_steps[1], spare, n);
  binary_of<T>(Function::minimum)(spare, 1, values[2], value_steps[2], target, n);
}

template class Evaluator<float>;
template class Evaluator<int64_t>;

}  // namespace pl::host
