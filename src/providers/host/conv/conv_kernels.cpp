#include "providers/host/conv/conv_kernels.h"

#include "providers/host/pointwise/functions.h"

namespace pl::host {

Finish Finish::of(const PostOp& function) {
  Finish finish;
  const std::string& name = function.name;
  const double alpha = function.alpha(), beta = function.beta();
  if (name == "relu" || name == "relu6") {
    finish.kind = Kind::clamp;
    finish.low = 0;
    if (name == "relu6") finish.high = 6;
  } else if (name == "clip" && alpha <= beta) {  // else the order of the comparisons would matter
    finish.kind = Kind::clamp;
    finish.low = float(alpha);
    finish.high = float(beta);
  } else if (name == "hardswish") {
    finish.kind = Kind::hardswish;
  } else if (name == "silu") {
    finish.kind = Kind::silu;
  } else {
    finish.kind = Kind::other;
    finish.other = find_float_unary(name);
    finish.alpha = alpha;
    finish.beta = beta;
  }
  return finish;
}

namespace {

Further::Kind kind_of(const PostOp& step) {
  switch (step.kind) {
    case PostOp::Kind::scale: return Further::Kind::scale;
    case PostOp::Kind::add: return Further::Kind::add;
    case PostOp::Kind::multiply: return Further::Kind::multiply;
    case PostOp::Kind::function: break;
  }
  return Further::Kind::function;
}

}  // namespace

std::optional<Ending> Ending::of(const Op& op) {
  Ending ending;
  bool stored = false;
  for (const PostOp& step : post_ops_of(op)) {
    const bool function = step.kind == PostOp::Kind::function;
    if (!stored && function) {
      ending.finish = Finish::of(step);
      if (ending.finish.kind == Finish::Kind::other && !ending.finish.other) return std::nullopt;
      stored = true;
      continue;
    }
    const int input = step.reads_input() ? operand_of(*op.schema, step) : -1;
    if (!stored && step.kind == PostOp::Kind::add && ending.added < 0) {
      ending.added = input;
      continue;
    }
    stored = true;
    if (ending.further_count == kMostFurther || (step.reads_input() && ending.later >= 0)) return std::nullopt;
    Further& further = ending.further[ending.further_count++];
    further = {kind_of(step), function ? find_float_unary(step.name) : nullptr, step.alpha(), step.beta()};
    if (function && !further.function) return std::nullopt;
    if (step.reads_input()) ending.later = input;
  }
  return ending;
}

const ConvKernels* const* all_conv_kernels() {
  static const struct Table {
    const ConvKernels* entries[4] = {};  // best first
    Table() {
      int count = 0;
      for (const ConvKernels* kernels : {conv_kernels_avx512(), conv_kernels_avx2(), conv_kernels_baseline()})
        if (kernels) entries[count++] = kernels;
    }
  } table;
  return table.entries;
}

const ConvKernels& conv_kernels() { return *all_conv_kernels()[0]; }

}  // namespace pl::host
