#include "providers/host/quantized/integer_products.h"

#include <cmath>

#include "core/numbers.h"
#include "ops/post_ops.h"
#include "providers/host/common/independent.h"
#include "providers/host/pointwise/functions.h"

namespace pl::host {
namespace {

constexpr int64_t kEndingLine = 64;  // bytes; what is written for the columns starts at cache lines

size_t column_bytes(int64_t columns) {
  return size_t(divided_up(columns * int64_t(sizeof(float)), kEndingLine) * kEndingLine);
}

std::optional<IntegerStep> integer_step_of(const PostOp& step) {
  using Kind = IntegerStep::Kind;
  IntegerStep made;
  if (step.kind == PostOp::Kind::scale) {
    made.factor = float(step.alpha());
    return made;
  }
  if (step.kind == PostOp::Kind::add) {
    made.kind = Kind::add;
    return made;
  }
  if (step.kind != PostOp::Kind::function) return std::nullopt;
  const Finish finish = Finish::of(step);
  if (step.name == "round") {
    made.kind = Kind::round;
    made.low = -kInfinity, made.high = kInfinity;
  } else if (finish.kind == Finish::Kind::clamp) {
    made.kind = Kind::clamp;
    made.low = finish.low, made.high = finish.high;
  } else {
    made.kind = Kind::other;
    made.other = find_float_unary(step.name);
    made.alpha = step.alpha(), made.beta = step.beta();
    if (!made.other) return std::nullopt;
  }
  return made;
}

IntegerStep scale_step(float factor) {
  IntegerStep step;
  step.factor = factor;
  return step;
}

PL_VECTORISED void widen_unsigned(const uint8_t* x, int16_t zero, int16_t* y, int64_t n) {
  PL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) y[i] = int16_t(x[i] - zero);
}
PL_VECTORISED void turn_first_bit(const uint8_t* x, uint8_t* y, int64_t n) {
  PL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) y[i] = uint8_t(x[i] ^ 128);
}
PL_VECTORISED void widen_signed(const int8_t* x, int16_t zero, int16_t* y, int64_t n) {
  PL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) y[i] = int16_t(x[i] - zero);
}

}  // namespace

void widen_bytes(const void* x, bool is_signed, int32_t zero, int16_t* y, int64_t n) {
  if (is_signed)
    widen_signed(static_cast<const int8_t*>(x), int16_t(zero), y, n);
  else
    widen_unsigned(static_cast<const uint8_t*>(x), int16_t(zero), y, n);
}

void unsigned_bytes(const void* x, bool is_signed, uint8_t* y, int64_t n) {
  const uint8_t* from = static_cast<const uint8_t*>(x);
  if (is_signed)
    turn_first_bit(from, y, n);
  else
    std::copy_n(from, n, y);
}

std::optional<IntegerEnding> IntegerEnding::of(const Op& op, int64_t groups, int64_t lanes) {
  IntegerEnding ending(op);
  for (const PostOp& step : post_ops_of(op)) {
    const auto made = integer_step_of(step);
    if (!made) return std::nullopt;
    ending.steps_.push_back(*made);
  }
  // One more may come, the scale of y.
  if (ending.steps_.size() >= size_t(IntegerResult::kMostSteps)) return std::nullopt;
  const bool conv = op.schema->kind == "quantized_conv";
  const Dims& y = op.out().shape;
  ending.groups_ = groups;
  ending.columns_ = conv ? y[1] : y[y.size() - 1];
  const int64_t each = ending.columns_ / groups;
  ending.group_columns_ = divided_up(each, lanes) * lanes;
  return ending;
}

size_t IntegerEnding::workspace_bytes() const { return 3 * column_bytes(groups_ * group_columns_); }

int32_t IntegerEnding::zero_point(const KernelArguments& arguments, int i) const {
  if (i < 0) return 0;
  const void* data = input(arguments, i);
  return inputs_[size_t(i)].dtype == DType::u8 ? int32_t(*static_cast<const uint8_t*>(data))
                                               : int32_t(*static_cast<const int8_t*>(data));
}

IntegerResult IntegerEnding::bind(const KernelArguments& arguments, char* workspace, const int32_t* sums,
                                  int32_t zero) const {
  using Form = IntegerResult::Form;
  using Kind = IntegerStep::Kind;
  IntegerResult result;
  result.y = output(arguments);
  result.pixel = columns_;
  result.form = y_.dtype == DType::s32   ? Form::sums
                : y_.dtype == DType::f32 ? Form::reals
                : y_.dtype == DType::u8  ? Form::unsigned_bytes
                                         : Form::signed_bytes;
  const int64_t filled = groups_ * group_columns_, each = columns_ / groups_;
  const void* given = in_.bias >= 0 ? input(arguments, in_.bias) : nullptr;
  const bool of_sums = given && inputs_[size_t(in_.bias)].dtype == DType::s32;
  if (of_sums || (sums && zero != 0)) {
    int32_t* initial = reinterpret_cast<int32_t*>(workspace + 2 * column_bytes(filled));
    std::fill_n(initial, filled, 0);
    for (int64_t group = 0; group < groups_ && of_sums; ++group)
      std::copy_n(static_cast<const int32_t*>(given) + group * each, each, initial + group * group_columns_);
    if (sums)  // wrapping around as all sums do
      for (int64_t j = 0; j < filled; ++j)
        initial[j] = int32_t(uint32_t(initial[j]) - uint32_t(zero) * uint32_t(sums[j]));
    result.initial = initial;
  }
  if (!in_.scaled()) return result;
  if (in_.addend >= 0) {
    result.addend = input(arguments, in_.addend);
    result.signed_addend = inputs_[size_t(in_.addend)].dtype == DType::s8;
    result.addend_scale = *static_cast<const float*>(input(arguments, in_.addend_scale));
    result.addend_zero = float(zero_point(arguments, in_.addend_zero));
  }

  // The scale of y is applied as early as it may be: to the factors of the sums, where no step before needs reals.
  std::vector<IntegerStep> steps = steps_;
  float first = 1;
  if (in_.rounds()) {
    float unit = 1 / *static_cast<const float*>(input(arguments, in_.y_scale));
    size_t i = steps.size();
    for (; i > 0; --i) {
      IntegerStep& step = steps[i - 1];
      if (step.kind == Kind::round || step.kind == Kind::other) break;
      if (step.kind == Kind::clamp) step.low *= unit, step.high *= unit;
      if (step.kind == Kind::add) result.addend_scale *= unit;
      if (step.kind == Kind::scale) {
        step.factor *= unit;
        unit = 1;
        break;
      }
    }
    if (i == 0)
      first = unit;
    else if (unit != 1)
      steps.insert(steps.begin() + int64_t(i), scale_step(unit));
  }
  while (!steps.empty() && steps.front().kind == Kind::scale) {
    first *= steps.front().factor;
    steps.erase(steps.begin());
  }
  if (in_.rounds()) {
    result.zero = zero_point(arguments, in_.y_zero);
    float low = float((result.form == Form::unsigned_bytes ? 0 : -128) - result.zero), high = low + 255;
    while (!steps.empty() && steps.back().kind == Kind::clamp) {
      const float lower = std::max(low, steps.back().low), upper = std::min(high, steps.back().high);
      if (lower > upper) break;
      low = lower, high = upper;
      steps.pop_back();
    }
    result.low = int32_t(std::nearbyint(low)), result.high = high;
  }
  // What follows a rounding is a part of it: each step is a pass over a tile.
  for (size_t i = 0; i + 1 < steps.size();) {
    IntegerStep& step = steps[i];
    const IntegerStep& next = steps[i + 1];
    const bool unlimited = step.low == -kInfinity && step.high == kInfinity && step.factor == 1;
    if (step.kind == Kind::round && next.kind == Kind::scale)
      step.factor *= next.factor;
    else if (step.kind == Kind::round && next.kind == Kind::clamp && unlimited)
      step.low = next.low, step.high = next.high;
    else {
      ++i;
      continue;
    }
    steps.erase(steps.begin() + int64_t(i) + 1);
  }
  result.step_count = int(steps.size());
  std::copy(steps.begin(), steps.end(), result.steps);

  float* factor = reinterpret_cast<float*>(workspace);
  float* bias = reinterpret_cast<float*>(workspace + column_bytes(filled));
  const float* weight_scale = static_cast<const float*>(input(arguments, in_.weight_scale));
  const bool single = inputs_[size_t(in_.weight_scale)].elements() == 1;
  const float common = *static_cast<const float*>(input(arguments, in_.x_scale)) * first;
  result.factor = factor;
  if (given && !of_sums) result.bias = bias;
  for (int64_t group = 0; group < groups_; ++group) {
    const int64_t to = group * group_columns_, from = group * each;
    std::fill(factor + to + each, factor + to + group_columns_, 0.0f);
    for (int64_t j = 0; j < each; ++j) factor[to + j] = common * weight_scale[single ? 0 : from + j];
    if (result.bias) {
      std::fill(bias + to + each, bias + to + group_columns_, 0.0f);
      for (int64_t j = 0; j < each; ++j) bias[to + j] = static_cast<const float*>(given)[from + j] * first;
    }
  }
  return result;
}

IntegerResult IntegerEnding::at(const IntegerResult& whole, int64_t pixels, int64_t group, int64_t columns) const {
  using Form = IntegerResult::Form;
  IntegerResult result = whole;
  const int64_t element = pixels * whole.pixel + columns;
  const int64_t bytes = whole.form == Form::sums || whole.form == Form::reals ? 4 : 1;
  result.y = static_cast<char*>(whole.y) + element * bytes;
  if (whole.addend) result.addend = static_cast<const char*>(whole.addend) + element;
  const int64_t filled = group * group_columns_;
  if (whole.initial) result.initial += filled;
  if (whole.factor) result.factor += filled;
  if (whole.bias) result.bias += filled;
  return result;
}

}  // namespace pl::host
