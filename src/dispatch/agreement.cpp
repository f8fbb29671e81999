#include "dispatch/agreement.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "core/elements.h"

namespace pl {
namespace {

constexpr double kEpsilonF32 = 5.96e-8;  // half a unit in the last place of 1
// Of a sum's rounding errors.  Winograd's transforms, the worst that is right, reach 5 times a plain sum's; the faults
// that were met in libraries are 100 times above.
constexpr double kSafety = 32;
// Approximations of exp, tanh and their kin, and of estimated reciprocals, in f32.
constexpr double kApproximation = 4e-5;
// Of an 8-bit result a difference of one is a matter of rounding; of these wider ones, a few in a hundred may be ties.
constexpr double kTies = 0.05;
constexpr size_t kSlot = 8;  // bytes for a gathered value: of the widest dtype, so that all lie at multiples of theirs

double epsilon_of(DType dtype) {
  switch (dtype) {
    case DType::bf16: return 1.0 / 256;
    case DType::f16: return 1.0 / 2048;
    default: return kEpsilonF32;
  }
}

// The number of terms in the longest sums, as far as the description tells.
double terms_of(const Op& op) {
  double outputs = 0, longest = 1;
  for (const TensorDesc& desc : op.outputs) outputs += double(desc.elements());
  for (const TensorDesc& desc : op.inputs)
    for (int d = 0; desc.present && d < desc.rank(); ++d) longest = std::max(longest, double(desc.shape[d]));
  return std::max(longest, outputs > 0 ? op.schema->flops(op) / (2 * outputs) : 1.0);
}

}  // namespace

Probe::Probe(Device& device, const Op& op, int count, size_t runs) : device_(device), kept_(runs) {
  std::mt19937 random(7);
  for (const TensorDesc& desc : op.outputs) {
    outputs_.push_back({{}, desc.dtype, bytes_, {}});
    const Dims& shape = desc.shape;
    if (!desc.present || shape.product() == 0) continue;
    for (int i = 0; i < count; ++i) {
      Dims index = Dims::filled(shape.size(), 0);
      for (int d = 0; d < shape.size(); ++d) {
        const int64_t anywhere = int64_t(random() % uint64_t(shape[d]));
        switch (random() % 4) {
          case 0: index[d] = 0; break;
          case 1: index[d] = shape[d] - 1; break;
          case 2:
            index[d] = std::min(shape[d] - 1, anywhere / 16 * 16 + (random() % 2 ? 15 : 0));
            break;  // blocks' edges
          default: index[d] = anywhere;
        }
      }
      outputs_.back().positions.push_back(index);
    }
    bytes_ += size_t(count) * kSlot;
  }
  if (bytes_ > 0 && runs > 0) gathered_ = device_.allocate(bytes_ * runs);
}

const std::vector<size_t>& Probe::places(Output& output, const TensorDesc& desc) {
  for (const auto& [known, offsets] : output.known)
    if (known == desc) return offsets;
  std::vector<size_t> offsets;
  for (const Dims& index : output.positions) offsets.push_back(size_t(desc.offset_of(index)) * size_of(desc.dtype));
  output.known.emplace_back(desc, std::move(offsets));
  return output.known.back().second;
}

void Probe::poison(const std::vector<TensorDesc>& outputs, const std::vector<Buffer*>& buffers) {
  for (size_t o = 0; o < outputs.size(); ++o)
    if (buffers[o] && !outputs_[o].positions.empty())
      device_.set_places(*buffers[o], places(outputs_[o], outputs[o]), size_of(outputs[o].dtype));
}

void Probe::gather(size_t run, const std::vector<TensorDesc>& outputs, const std::vector<Buffer*>& buffers) {
  for (size_t o = 0; o < outputs.size(); ++o)
    if (buffers[o] && !outputs_[o].positions.empty())
      device_.gather_places(*buffers[o], places(outputs_[o], outputs[o]), size_of(outputs[o].dtype), *gathered_,
                            run * bytes_ + outputs_[o].offset);
  kept_[run] = true;
}

std::vector<std::vector<double>> Probe::read() {
  std::vector<std::vector<double>> results(kept_.size());
  if (!gathered_) return results;
  std::vector<char> bytes(bytes_ * kept_.size());
  device_.read(*gathered_, 0, bytes.data(), bytes.size());
  for (size_t run = 0; run < kept_.size(); ++run) {
    if (!kept_[run]) continue;
    for (const Output& output : outputs_)
      for (size_t i = 0; i < output.positions.size(); ++i)
        results[run].push_back(
            load(output.dtype, bytes.data() + run * bytes_ + output.offset + i * size_of(output.dtype)));
  }
  return results;
}

double agreement_bound(const Op& op) {
  double epsilon = kEpsilonF32;
  bool integers = false;
  for (const auto* list : {&op.inputs, &op.outputs})
    for (const TensorDesc& desc : *list)
      if (desc.present && is_floating(desc.dtype)) epsilon = std::max(epsilon, epsilon_of(desc.dtype));
  for (const TensorDesc& desc : op.outputs) integers = integers || !is_floating(desc.dtype);
  if (op.schema->products && op.math != Math::fp32) epsilon = std::max(epsilon, 1.0 / 2048);
  const double rounding = kSafety * kEpsilonF32 * std::sqrt(terms_of(op));
  const double coarse = epsilon > kEpsilonF32 ? 8 * epsilon : 0;
  return std::max({rounding, coarse, kApproximation, integers ? kTies : 0.0});
}

double difference(const std::vector<double>& result, const std::vector<double>& expected) {
  if (result.size() != expected.size()) return std::numeric_limits<double>::infinity();
  double squares = 0, scale = 0, largest = 0;
  size_t count = 0;
  for (size_t i = 0; i < result.size(); ++i) {
    const double a = result[i], b = expected[i];
    if (!std::isfinite(a) || !std::isfinite(b)) {
      if (a == b || (std::isnan(a) && std::isnan(b))) continue;
      return std::numeric_limits<double>::infinity();
    }
    squares += (a - b) * (a - b);
    scale += b * b;
    largest = std::max(largest, std::fabs(a - b));
    ++count;
  }
  if (count == 0 || squares == 0) return 0;
  if (scale == 0) return std::numeric_limits<double>::infinity();
  const double unit = std::sqrt(scale / double(count));
  return std::max(std::sqrt(squares / double(count)), largest / 16) / unit;
}

Agreement agree(const std::vector<std::vector<double>>& results, const std::vector<int>& weights, double bound) {
  struct Group {
    size_t leader;
    int weight;
  };
  std::vector<Group> groups;
  std::vector<int> group_of(results.size(), -1);
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].empty()) continue;
    for (size_t g = 0; g < groups.size() && group_of[i] < 0; ++g)
      if (difference(results[i], results[groups[g].leader]) <= bound) group_of[i] = int(g);
    if (group_of[i] < 0) {
      group_of[i] = int(groups.size());
      groups.push_back({i, 0});
    }
    groups[size_t(group_of[i])].weight += weights[i];
  }
  Agreement agreement;
  agreement.outlier.assign(results.size(), false);
  agreement.error.assign(results.size(), 0);
  int largest = -1, weight = 0;
  bool tie = false;
  for (size_t g = 0; g < groups.size(); ++g) {
    if (groups[g].weight > weight) {
      largest = int(g), weight = groups[g].weight, tie = false;
    } else if (groups[g].weight == weight) {
      tie = true;
    }
  }
  if (largest < 0 || tie) return agreement;
  agreement.representative = int(groups[size_t(largest)].leader);
  for (size_t i = 0; i < results.size(); ++i) {
    if (group_of[i] < 0) continue;
    agreement.error[i] = difference(results[i], results[size_t(agreement.representative)]);
    agreement.outlier[i] = group_of[i] != largest;
  }
  return agreement;
}

}  // namespace pl
