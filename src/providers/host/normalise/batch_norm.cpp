// Kind batch_norm: folded to one scale and one shift for each channel.
#include <cmath>

#include "providers/host/normalise/channels.h"

namespace pl::host {
namespace {

void list(const Op& op, CandidateList& out) {
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    std::vector<TensorDesc> inputs = {strided_view_as(op.in(0), layout)};
    for (size_t i = 1; i < op.inputs.size(); ++i) inputs.push_back(dense_plain(op.inputs[i]));
    const TensorDesc y = strided_view_as(op.out(), layout);
    add_candidate(out, "batch_norm", Quality::fast, inputs, {y},
                  [=, eps = op.attributes[attr::eps], post_ops = AppliedPostOps(op)] {
                    return
                        [=, affine = ChannelAffine(inputs[0], y, false, post_ops)](const KernelArguments& arguments) {
                          const int64_t c = inputs[0].shape[1];
                          const auto vector = [&](size_t i, float fallback) {
                            return i < inputs.size() ? read_vector(inputs[i], input(arguments, int(i)), c, fallback)
                                                     : std::vector<float>(size_t(c), fallback);
                          };
                          const auto mean = vector(1, 0), variance = vector(2, 1);
                          auto scale = vector(3, 1), shift = vector(4, 0);
                          for (size_t i = 0; i < size_t(c); ++i) {
                            const double factor = double(scale[i]) / std::sqrt(double(variance[i]) + eps);
                            scale[i] = float(factor);
                            shift[i] = float(double(shift[i]) - double(mean[i]) * factor);
                          }
                          affine.run(input(arguments, 0), output(arguments), scale.data(), shift.data());
                        };
                  });
    out.candidates.back().in_place = 1;
  }
}
PL_HOST_KIND("batch_norm", list);

}  // namespace
}  // namespace pl::host
