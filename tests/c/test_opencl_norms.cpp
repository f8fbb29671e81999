// Norms, softmax, squeeze and excitation on every OpenCL device, against
// references in double precision, in every layout the provider offers, with 1 to 3 spatial dimensions.
#include "opencl_elements.h"

using namespace pl;
using namespace pl::opencl_testing;

namespace {

SETUP() { unoptimised_on_pocl(); }

TEST("batch_norm") {
  const std::pair<DType, Dims> cases[] = {{DType::f32, {2, 9, 3, 2}},   {DType::bf16, {2, 9, 5}},
                                          {DType::f32, {2, 12, 7, 5}},  {DType::bf16, {3, 20, 5}},
                                          {DType::f16, {2, 136, 3, 3}}, {DType::f32, {37, 8}}};
  for (const auto& [dtype, shape] : cases) {
    const int64_t channels = shape[1];
    const Input x = random_input(dtype, shape);
    const Input mean = random_input(dtype, {channels}), var = random_input(dtype, {channels}, 0.1, 2);
    const Input weight = random_input(dtype, {channels}), bias = random_input(dtype, {channels});
    const auto normal = [&](const Dims& i) {
      const size_t c = size_t(i[1]);
      return (at(x, i) - mean.values[c]) / std::sqrt(var.values[c] + 1e-3);
    };
    run(
        "batch_norm", "eps=0.001 activation=relu", {x, mean, var, weight, bias},
        [&](const Op&, const Dims& i) {
          return std::max(0.0, normal(i) * weight.values[size_t(i[1])] + bias.values[size_t(i[1])]);
        },
        4, 2e-6);
    if (dtype == DType::f32)
      run(
          "batch_norm", "eps=0.001", {x, mean, var}, [&](const Op&, const Dims& i) { return normal(i); }, 4, 2e-6);
  }
  const Input x = random_input(DType::f32, {5, 3}), mean = random_input(DType::f32, {3});
  const Input var = random_input(DType::f32, {3}, 0.5, 1), bias = random_input(DType::f32, {3});
  run(
      "batch_norm", "eps=0.5", {x, mean, var, {}, bias},
      [&](const Op&, const Dims& i) {
        const size_t c = size_t(i[1]);
        return (at(x, i) - mean.values[c]) / std::sqrt(var.values[c] + 0.5) + bias.values[c];
      },
      4, 2e-6);
}

// x normalised over the elements for which `together(index, other)`.
double normalised(const Input& x, const Dims& index, double eps,
                  const std::function<bool(const Dims&, const Dims&)>& together) {
  double sum = 0, squares = 0, count = 0;
  each(x.desc.shape, [&](const Dims& other) {
    if (!together(index, other)) return;
    sum += at(x, other);
    ++count;
  });
  const double mean = sum / count;
  each(x.desc.shape, [&](const Dims& other) {
    if (together(index, other)) squares += (at(x, other) - mean) * (at(x, other) - mean);
  });
  return (at(x, index) - mean) / std::sqrt(squares / count + eps);
}

TEST("layer_norm") {
  const auto check = [](const Input& x, int kept, const char* attributes, bool affine) {
    Dims shape;
    for (int d = kept; d < x.desc.rank(); ++d) shape.push_back(x.desc.shape[d]);
    std::vector<Input> inputs{x};
    if (affine) inputs = {x, random_input(x.desc.dtype, shape), random_input(x.desc.dtype, shape)};
    run(
        "layer_norm", attributes, inputs,
        [&](const Op&, const Dims& i) {
          const double y = normalised(x, i, 1e-5, [&](const Dims& a, const Dims& b) {
            for (int d = 0; d < kept; ++d)
              if (a[d] != b[d]) return false;
            return true;
          });
          Dims place;
          for (int d = kept; d < i.size(); ++d) place.push_back(i[d]);
          return affine ? y * at(inputs[1], place) + at(inputs[2], place) : y;
        },
        8, 2e-5);  // a mean of 5.5 is known to 5e-7, the deviation is 0.3, weights reach 3
  };
  check(random_input(DType::f32, {3, 4, 300}, 5, 6), 2, "normalized_shape=300", true);
  check(random_input(DType::f16, {2, 9, 3, 5}), 1, "normalized_shape=[9,3,5]", true);
  check(random_input(DType::f32, {2, 9, 3, 5}), 2, "normalized_shape=[3,5]", false);
  check(random_input(DType::f32, {2, 1, 2, 1, 2, 1, 2, 2}), 0, "normalized_shape=[2,1,2,1,2,1,2,2]", false);
}

TEST("group_norm") {
  const auto check = [](const char* name, const char* attributes, const Input& x, int64_t groups, bool affine) {
    const int64_t size = x.desc.shape[1] / groups;
    std::vector<Input> inputs{x};
    if (affine)
      inputs = {x, random_input(x.desc.dtype, {x.desc.shape[1]}), random_input(x.desc.dtype, {x.desc.shape[1]})};
    run(
        name, attributes, inputs,
        [&](const Op&, const Dims& i) {
          const double y = normalised(
              x, i, 1e-5, [&](const Dims& a, const Dims& b) { return a[0] == b[0] && a[1] / size == b[1] / size; });
          return affine ? y * inputs[1].values[size_t(i[1])] + inputs[2].values[size_t(i[1])] : y;
        },
        8, 4e-6);
  };
  check("group_norm", "num_groups=3", random_input(DType::f32, {2, 9, 3, 4}), 3, true);
  check("group_norm", "num_groups=3", random_input(DType::bf16, {2, 9, 5}), 3, false);
  check("group_norm", "num_groups=2", random_input(DType::f32, {3, 6}), 2, true);
  check("instance_norm", "", random_input(DType::f32, {2, 9, 2, 2, 3}), 9, true);
}

TEST("softmax") {
  const auto check = [](const char* attributes, int dim, const Input& x) {
    const auto sum_of = [&](const Dims& i) {
      double best = -kInf, sum = 0;
      for (int64_t k = 0; k < x.desc.shape[dim]; ++k) best = larger(best, at(x, with(i, dim, k)));
      for (int64_t k = 0; k < x.desc.shape[dim]; ++k) sum += std::exp(at(x, with(i, dim, k)) - best);
      return std::make_pair(best, sum);
    };
    const auto softmax = [&](const Op&, const Dims& i) {
      return std::exp(at(x, i) - sum_of(i).first) / sum_of(i).second;
    };
    run("softmax", attributes, {x}, softmax, 8, 1e-7);
    if (x.desc.dtype == DType::f32)
      run(
          "log_softmax", attributes, {x},
          [&](const Op&, const Dims& i) { return at(x, i) - sum_of(i).first - std::log(sum_of(i).second); }, 8, 1e-6);
  };
  Input x = random_input(DType::f32, {2, 9, 3, 4}, -20, 90);
  x.values[5] = -kInf;
  check("dim=1", 1, x);
  x.values[7] = kNan, x.values[30] = kInf;
  check("dim=-1", 3, x);
  check("dim=1", 1, random_input(DType::f16, {2, 9, 5}));
  check("dim=0", 0, random_input(DType::bf16, {70}));
}

TEST("lrn") {
  const auto check = [](const char* attributes, int64_t size, double alpha, double beta, double k, const Input& x) {
    run(
        "local_response_norm", attributes, {x},
        [&](const Op&, const Dims& i) {
          double sum = 0;
          for (int64_t c = i[1] - size / 2; c <= i[1] + (size - 1) / 2; ++c)
            if (c >= 0 && c < x.desc.shape[1]) sum += at(x, with(i, 1, c)) * at(x, with(i, 1, c));
          return at(x, i) / std::pow(k + alpha / double(size) * sum, beta);
        },
        16);
  };
  check("size=4 alpha=0.5 beta=0.6 k=2", 4, 0.5, 0.6, 2, random_input(DType::f32, {2, 9, 3, 4}));
  check("size=50 alpha=0.5", 50, 0.5, 0.75, 1, random_input(DType::f16, {2, 9, 5}));
}

TEST("squeeze_excite") {
  const auto check = [](const char* attributes, const Input& x, int64_t squeezed, bool matrices = false) {
    const int64_t n = x.desc.shape[0], c = x.desc.shape[1], positions = x.desc.elements() / (n * c);
    const DType dtype = x.desc.dtype;
    const auto shape = [&](int64_t rows, int64_t columns) {
      return matrices ? Dims{rows, columns} : Dims{rows, columns, 1, 1};
    };
    const std::vector<Input> inputs{x, random_input(dtype, shape(squeezed, c), -1, 1), random_input(dtype, {squeezed}),
                                    random_input(dtype, shape(c, squeezed), -1, 1), random_input(dtype, {c})};
    Values gates;
    const Op op = op_of("squeeze_excite", attributes, inputs);
    const bool silu = op.attributes[attr::hidden] == "silu", hard = op.attributes[attr::gate] == "hardsigmoid";
    for (int64_t image = 0; image < n; ++image) {
      Values means(size_t(c), 0.0), hidden;
      for (int64_t e = 0; e < c * positions; ++e)
        means[size_t(e / positions)] += x.values[size_t(image * c * positions + e)] / double(positions);
      for (int64_t s = 0; s < squeezed; ++s) {
        double sum = inputs[2].values[size_t(s)];
        for (int64_t k = 0; k < c; ++k) sum += inputs[1].values[size_t(s * c + k)] * means[size_t(k)];
        hidden.push_back(silu ? sum / (1 + std::exp(-sum)) : std::max(sum, 0.0));
      }
      for (int64_t k = 0; k < c; ++k) {
        double sum = inputs[4].values[size_t(k)];
        for (int64_t s = 0; s < squeezed; ++s) sum += inputs[3].values[size_t(k * squeezed + s)] * hidden[size_t(s)];
        gates.push_back(hard ? std::min(std::max(sum / 6 + 0.5, 0.0), 1.0) : 1 / (1 + std::exp(-sum)));
      }
    }
    run(
        "squeeze_excite", attributes, inputs,
        [&](const Op&, const Dims& i) { return at(x, i) * gates[size_t(i[0] * c + i[1])]; }, 8, 2e-5);
  };
  check("hidden=silu", random_input(DType::f32, {2, 12, 3, 5}), 5);
  check("gate=hardsigmoid", random_input(DType::f32, {3, 72, 7, 7}), 24, true);
  check("", random_input(DType::f16, {2, 20, 9}), 3);
  check("gate=hardsigmoid", random_input(DType::bf16, {1, 8, 2, 3, 4}), 40);
  check("hidden=silu", random_input(DType::f32, {1, 2084, 1, 3}), 7);  // more quads than work-items
  check("", random_input(DType::f32, {2, 8, 33, 41}), 2);              // sums in parts
}

}  // namespace
