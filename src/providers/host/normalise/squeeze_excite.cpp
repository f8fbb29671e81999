// Kind squeeze_excite, in plain layout.  Plans for `cpu` do without it: there its parts cost no launches.
#include <cmath>

#include "providers/host/common/host.h"
#include "providers/host/pointwise/functions.h"

namespace pl::host {
namespace {

struct GateBody {
  int64_t batch, channels, squeezed, positions;
  UnaryRun<float> activation, gate;
  LoadRun<double> load;
  StoreRun<double> store;

  // out[r] = function(bias[r] + sum over t of weight[r, t] * in[t])
  void layer(const void* weight, const void* bias, const std::vector<double>& in, UnaryRun<float> function,
             std::vector<double>& out) const {
    std::vector<double> row(in.size());
    load(bias, 0, 1, int64_t(out.size()), out.data());
    for (size_t r = 0; r < out.size(); ++r) {
      load(weight, int64_t(r * in.size()), 1, int64_t(row.size()), row.data());
      for (size_t t = 0; t < in.size(); ++t) out[r] += row[t] * in[t];
      float value = float(out[r]);
      function(&value, &value, 1, 0, 0);
      out[r] = double(value);
    }
  }
  void operator()(const KernelArguments& arguments) const {
    parallel_for(batch, double(channels * (positions + squeezed)), [&](int64_t begin, int64_t end) {
      std::vector<double> means(size_t(channels), 0.0), hidden(size_t(squeezed), 0.0), gates(size_t(channels), 0.0);
      std::vector<double> plane(static_cast<size_t>(positions));
      for (int64_t n = begin; n < end; ++n) {
        for (int64_t c = 0; c < channels; ++c) {
          load(input(arguments, 0), (n * channels + c) * positions, 1, positions, plane.data());
          double sum = 0;
          for (double value : plane) sum += value;
          means[size_t(c)] = sum / double(positions);
        }
        layer(input(arguments, 1), input(arguments, 2), means, activation, hidden);
        layer(input(arguments, 3), input(arguments, 4), hidden, gate, gates);
        for (int64_t c = 0; c < channels; ++c) {
          const int64_t at = (n * channels + c) * positions;
          load(input(arguments, 0), at, 1, positions, plane.data());
          for (double& value : plane) value *= gates[size_t(c)];
          store(plane.data(), positions, output(arguments), at, 1);
        }
      }
    });
  }
};

void list_squeeze_excite(const Op& op, CandidateList& out) {
  std::vector<TensorDesc> inputs;
  for (const TensorDesc& desc : op.inputs) inputs.push_back(dense_plain(desc));
  const Dims& shape = op.in(0).shape;
  const int64_t planes = shape[0] * shape[1];
  add_candidate(
      out, "squeeze_excite", Quality::reference, inputs, {dense_plain(op.out())},
      [=, activation = find_float_unary(op.attributes[attr::hidden]),
       gate = find_float_unary(op.attributes[attr::gate]), squeezed = op.in(1).shape[0],
       positions = planes ? op.in(0).elements() / planes : 0, dtype = op.in(0).dtype] {
        return GateBody{
            shape[0], shape[1], squeezed, positions, activation, gate, double_loader(dtype), double_storer(dtype)};
      });
}
PL_HOST_KIND("squeeze_excite", list_squeeze_excite);

}  // namespace
}  // namespace pl::host
