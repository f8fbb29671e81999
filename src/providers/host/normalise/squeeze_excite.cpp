// Kinds squeeze_excite and squeeze_excite_backward, in plain layout.  Plans for `cpu` do without them: there their parts
// cost no launches.
#include <cmath>

#include "providers/host/common/host.h"
#include "providers/host/common/reference.h"
#include "providers/host/pointwise/functions.h"
#include "providers/host/pointwise/slope.h"

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

struct LayerGradientsBody {
  std::vector<TensorDesc> inputs, outputs;  // plain
  UnaryRun<float> activation, gate;
  Slope activation_slope, gate_slope;

  static double applied(UnaryRun<float> function, double value) {
    float narrow = float(value);
    function(&narrow, &narrow, 1, 0, 0);
    return double(narrow);
  }
  static double applied(const Slope& slope, double at, double by) {
    const float x = float(at), grad = float(by);
    float made;
    slope.run(&x, &grad, 1, &made);
    return double(made);
  }

  void operator()(const KernelArguments& arguments) const {
    std::vector<std::vector<double>> in, out;
    for (size_t i = 0; i < inputs.size(); ++i) in.push_back(PlainDoubles::read(inputs[i], input(arguments, int(i))));
    for (const TensorDesc& desc : outputs) out.emplace_back(size_t(desc.shape.product()), 0.0);
    const std::vector<double>&x = in[0], &grad = in[1], &weight1 = in[2], &bias1 = in[3], &weight2 = in[4],
          &bias2 = in[5];
    const size_t batch = size_t(inputs[0].shape[0]), channels = bias2.size(), squeezed = bias1.size();
    const size_t positions = batch > 0 && channels > 0 ? x.size() / (batch * channels) : 0;
    for (size_t n = 0; n < batch; ++n) {
      std::vector<double> means(channels), products(channels), before(bias1), hidden(squeezed), by_hidden(squeezed),
          gates(bias2), by_gate(channels);
      for (size_t c = 0; c < channels; ++c)
        for (size_t p = 0, at = (n * channels + c) * positions; p < positions; ++p, ++at) {
          means[c] += x[at] / double(positions);
          products[c] += x[at] * grad[at];
        }
      for (size_t s = 0; s < squeezed; ++s) {
        for (size_t c = 0; c < channels; ++c) before[s] += weight1[s * channels + c] * means[c];
        hidden[s] = applied(activation, before[s]);
      }
      for (size_t c = 0; c < channels; ++c) {
        for (size_t s = 0; s < squeezed; ++s) gates[c] += weight2[c * squeezed + s] * hidden[s];
        by_gate[c] = applied(gate_slope, gates[c], products[c]);
        gates[c] = applied(gate, gates[c]);
        out[4][c] += by_gate[c];
      }
      for (size_t s = 0; s < squeezed; ++s) {
        for (size_t c = 0; c < channels; ++c) by_hidden[s] += weight2[c * squeezed + s] * by_gate[c];
        by_hidden[s] = applied(activation_slope, before[s], by_hidden[s]);
        out[2][s] += by_hidden[s];
      }
      for (size_t c = 0; c < channels; ++c) {
        double by_mean = 0;
        for (size_t s = 0; s < squeezed; ++s) {
          by_mean += weight1[s * channels + c] * by_hidden[s];
          out[1][s * channels + c] += by_hidden[s] * means[c];
          out[3][c * squeezed + s] += by_gate[c] * hidden[s];
        }
        for (size_t p = 0, at = (n * channels + c) * positions; p < positions; ++p, ++at)
          out[0][at] = grad[at] * gates[c] + by_mean / double(positions);
      }
    }
    for (size_t i = 0; i < outputs.size(); ++i) PlainDoubles::write(outputs[i], output(arguments, int(i)), out[i]);
  }
};

void list_squeeze_excite_backward(const Op& op, CandidateList& out) {
  std::vector<TensorDesc> inputs, outputs;
  for (const TensorDesc& desc : op.inputs) inputs.push_back(dense_plain(desc));
  for (const TensorDesc& desc : op.outputs) outputs.push_back(dense_plain(desc));
  const std::string &hidden = op.attributes[attr::hidden], &gate = op.attributes[attr::gate];
  add_candidate(out, "squeeze_excite_backward", Quality::reference, inputs, outputs, [=] {
    return LayerGradientsBody{inputs,
                              outputs,
                              find_float_unary(hidden),
                              find_float_unary(gate),
                              Slope(PostOp::function(hidden)),
                              Slope(PostOp::function(gate))};
  });
}
PL_HOST_KIND("squeeze_excite_backward", list_squeeze_excite_backward);

}  // namespace
}  // namespace pl::host
