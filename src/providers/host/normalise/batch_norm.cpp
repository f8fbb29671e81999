// Kind batch_norm: folded to one scale and one shift for each channel.
#include <cmath>

#include "providers/host/normalise/channels.h"

namespace pl::host {
namespace {

struct FoldedBatchNorm {
  std::vector<TensorDesc> inputs;
  std::vector<int> operands;  // inputs that post-ops read
  double eps;
  ChannelAffine affine;

  std::vector<float> vector(const KernelArguments& arguments, size_t i, float fallback) const {
    const int64_t channels = inputs[0].shape[1];
    if (i >= inputs.size()) return std::vector<float>(size_t(channels), fallback);
    return read_vector(inputs[i], input(arguments, int(i)), channels, fallback);
  }

  void operator()(const KernelArguments& arguments) const {
    const std::vector<float> mean = vector(arguments, 1, 0), variance = vector(arguments, 2, 1);
    std::vector<float> scale = vector(arguments, 3, 1), shift = vector(arguments, 4, 0);
    for (size_t i = 0; i < scale.size(); ++i) {
      const double factor = double(scale[i]) / std::sqrt(double(variance[i]) + eps);
      scale[i] = float(factor);
      shift[i] = float(double(shift[i]) - double(mean[i]) * factor);
    }
    std::vector<const void*> read;
    for (int operand : operands) read.push_back(input(arguments, operand));
    affine.run(input(arguments, 0), output(arguments), scale.data(), shift.data(), read);
  }
};

void list_batch_norm(const Op& op, CandidateList& out) {
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    const TensorDesc y = strided_view_as(op.out(), layout);
    std::vector<TensorDesc> inputs;
    for (const TensorDesc& input : op.inputs) inputs.push_back(dense_plain(input));
    inputs[0] = strided_view_as(op.in(0), layout);
    std::vector<int> operands;
    uint32_t in_place = 1;
    for (const PostOp& step : post_ops_of(op)) {
      if (!step.reads_input()) continue;
      const int operand = operand_of(*op.schema, step);
      inputs[size_t(operand)] = strided_view_as(op.in(operand), layout);
      operands.push_back(operand);
      in_place |= 1u << operand;
    }
    add_candidate(out, "batch_norm", Quality::fast, inputs, {y}, [=, eps = op.attributes[attr::eps]] {
      return FoldedBatchNorm{inputs, operands, eps, ChannelAffine(inputs, y, op)};
    });
    out.candidates.back().in_place = in_place;
  }
}
PL_HOST_KIND("batch_norm", list_batch_norm);

}  // namespace
}  // namespace pl::host
