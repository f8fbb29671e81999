// Pooling, normalisation, softmax, arg reductions, resizing and data movement on every OpenCL device: each against a
// reference in double precision, in every layout the provider offers, with 1 to 3 spatial dimensions.
#include <algorithm>
#include <limits>

#include "opencl_pools.h"
#include "opencl_testing.h"
#include "ops/spatial.h"

using namespace pl;
using namespace pl::opencl_testing;

namespace {

const double kNan = std::nan(""), kInf = INFINITY;

Dims with(Dims index, int dim, int64_t value) {
  index[dim] = value;
  return index;
}

using Element = std::function<double(const Op& op, const Dims& index)>;

void run(const char* name, const char* attributes, const std::vector<Input>& inputs, const Element& element,
         double factor = 1, double absolute = 0) {
  run_all_opencl(name, attributes, inputs, [&](const Op& op, const std::vector<Values>& y, const std::string& what) {
    Values expected;
    each(op.out().shape, [&](const Dims& index) { expected.push_back(element(op, index)); });
    expect(expected, factor, absolute)(op, y, what);
  });
}

Dims spatial_part(const Dims& shape) {
  Dims part;
  for (int d = 2; d < shape.size(); ++d) part.push_back(shape[d]);
  return part;
}

// ---- pooling

SETUP() { unoptimised_on_pocl(); }

TEST("pool") {
  const auto check = [](const char* name, const char* attributes, const Input& x) {
    run(
        name, attributes, {x}, [&](const Op& op, const Dims& index) { return pooled(op, x, index); }, 4, 1e-6);
  };
  Input x = random_input(DType::f32, {2, 9, 7, 6});
  check("avg_pool2d", "kernel_size=[3,2] stride=2 padding=[1,0,1,1] ceil_mode=true", x);
  check("avg_pool2d", "kernel_size=3 stride=2 padding=1 count_include_pad=false", x);
  x.values[20] = kNan, x.values[100] = kInf, x.values[120] = -kInf;
  check("max_pool2d", "kernel_size=3 stride=2 padding=1 ceil_mode=true", x);
  check("max_pool1d", "kernel_size=3 stride=1 padding=2 dilation=2", random_input(DType::bf16, {2, 9, 11}));
  check("avg_pool1d", "kernel_size=4 padding=2", random_input(DType::f16, {2, 9, 11}));
  check("max_pool3d", "kernel_size=2 stride=1", random_input(DType::s8, {1, 9, 3, 4, 5}));
  check("avg_pool3d", "kernel_size=[2,3,2] padding=[1,1,0]", random_input(DType::f32, {1, 9, 3, 4, 5}));
  // Channels in fours.
  Input quads = random_input(DType::f32, {2, 12, 9, 11});
  check("avg_pool2d", "kernel_size=[3,2] stride=2 padding=[1,0,1,1] ceil_mode=true", quads);
  check("avg_pool2d", "kernel_size=3 stride=1 padding=1 count_include_pad=false", quads);
  check("avg_pool2d", "kernel_size=[5,7] stride=[2,3] padding=2", quads);
  quads.values[20] = kNan, quads.values[100] = kInf, quads.values[120] = -kInf;
  check("max_pool2d", "kernel_size=3 stride=2 padding=1 ceil_mode=true", quads);
  check("max_pool2d", "kernel_size=[2,3] stride=[3,1] padding=[1,2] dilation=[1,2]", quads);
  for (DType dtype : {DType::f16, DType::bf16}) {
    check("max_pool1d", "kernel_size=3 stride=2 padding=1", random_input(dtype, {2, 20, 11}));
    check("avg_pool2d", "kernel_size=2", random_input(dtype, {1, 20, 6, 7}));
  }
  Input low = random_input(DType::s64, {1, 3, 6}, -90, -80);
  check("max_pool1d", "kernel_size=2 padding=1", low);
  // A dilated window that steps over the whole input.
  run("max_pool1d", "kernel_size=2 dilation=2 padding=1", {random_input(DType::f32, {1, 2, 1})},
      [](const Op&, const Dims&) { return -kInf; });
}

Input low_input(const Dims& shape) {
  Input x = random_input(DType::f32, shape);
  for (double& value : x.values) value = -kInf;
  return x;
}

TEST("adaptive_pool") {
  const auto check = [](const char* name, const char* attributes, const Input& x) {
    run(
        name, attributes, {x},
        [&](const Op& op, const Dims& out) {
          const Dims in = spatial_part(x.desc.shape);
          double sum = 0, best = -kInf, count = 0;
          each(in, [&](const Dims& k) {
            Dims index = out;
            for (int d = 0; d < in.size(); ++d) {
              const int64_t sizes = op.out().shape[2 + d], q = out[2 + d];
              if (k[d] < q * in[d] / sizes || k[d] * sizes >= (q + 1) * in[d]) return;
              index[2 + d] = k[d];
            }
            sum += at(x, index);
            best = larger(best, at(x, index));
            ++count;
          });
          return op.attributes.text("mode") == "max" ? best : sum / count;
        },
        4, 1e-6);
  };
  Input x = random_input(DType::f32, {2, 9, 7, 6});
  check("global_avg_pool", "", x);
  check("adaptive_avg_pool2d", "output_size=[3,4]", x);
  x.values[20] = kNan;
  check("adaptive_max_pool2d", "output_size=[3,4]", x);
  check("adaptive_avg_pool1d", "output_size=9", random_input(DType::f16, {2, 9, 5}));
  check("adaptive_max_pool3d", "output_size=2", random_input(DType::bf16, {1, 9, 3, 4, 5}));
  // Channels in fours: one part, and several.
  check("global_avg_pool", "", random_input(DType::f32, {3, 20, 7, 6}));
  check("global_avg_pool", "", random_input(DType::f16, {2, 4, 3, 4, 5}));
  check("adaptive_avg_pool1d", "output_size=1", random_input(DType::bf16, {2, 36, 5}));
  check("global_avg_pool", "", random_input(DType::f32, {2, 12, 49, 51}));
  Input large = random_input(DType::f32, {2, 12, 49, 51});
  large.values[3000] = kNan, large.values[9000] = kInf;
  check("global_max_pool", "", large);
  run("global_max_pool", "", {low_input({1, 4, 3, 3})}, [](const Op&, const Dims&) { return -kInf; });
}

// ---- normalisation

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
    const bool silu = op.attributes.text("hidden") == "silu", hard = op.attributes.text("gate") == "hardsigmoid";
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

// ---- arg reductions

TEST("arg_reduce") {
  const auto check = [](const char* name, const char* attributes, const Input& x, int dim) {
    run(name, attributes, {x}, [&](const Op& op, const Dims& out) {
      const bool keep = op.attributes.flag("keepdim"), min = std::string(name) == "argmin";
      double best = kNan, place = -1;
      int64_t e = 0;
      each(x.desc.shape, [&](const Dims& index) {
        if (dim >= 0) {
          e = index[dim];
          for (int d = 0; d < index.size(); ++d)
            if (d != dim && index[d] != out[keep || d < dim ? d : d - 1]) return;
        }
        const double value = at(x, index);
        if (place < 0 || (!std::isnan(best) && (std::isnan(value) || (min ? value < best : value > best)))) {
          best = value;
          place = double(e);
        }
        ++e;
      });
      return place;
    });
  };
  Input x = random_input(DType::f32, {2, 9, 5, 7}, -3, 3);
  for (double& value : x.values) value = std::floor(value);  // many ties
  check("argmin", "dim=1", x, 1);
  x.values[40] = kNan, x.values[47] = kNan, x.values[9] = kInf;
  check("argmax", "dim=2 keepdim=true", x, 2);
  check("argmin", "dim=1 keepdim=true", x, 1);
  check("argmax", "", x, -1);
  check("argmax", "dim=0", random_input(DType::s64, {70, 3}), 0);
  check("argmin", "dim=-1", random_input(DType::bf16, {3, 80}), 1);
  check("argmax", "keepdim=true", random_input(DType::u8, {3, 80}, 0, 200), -1);
  check("argmax", "", random_input(DType::f16, {}), -1);
}

// ---- resizing

TEST("resize") {
  const auto check = [](const char* attributes, const Input& x) {
    const Dims in = spatial_part(x.desc.shape);
    const bool linear = std::string(attributes).find("linear") != std::string::npos;
    run(
        "interpolate", attributes, {x},
        [&](const Op& op, const Dims& out) {
          double sum = 0;
          each(Dims::filled(in.size(), 2), [&](const Dims& corner) {
            double weight = 1;
            Dims index = out;
            for (int d = 0; d < in.size(); ++d) {
              const auto scale = float(op.attributes.numbers("scale")[size_t(d)]);
              const auto q = float(out[2 + d]);
              float s = op.attributes.flag("align_corners") ? q * scale : std::max((q + 0.5f) * scale - 0.5f, 0.0f);
              if (!linear) s = std::floor(q * scale);
              const int64_t low = std::min(int64_t(s), in[d] - 1);
              const double high = linear ? std::min(double(s) - double(low), 1.0) : 0;
              index[2 + d] = std::min(low + corner[d], in[d] - 1);
              weight *= corner[d] ? high : 1 - high;
            }
            if (weight != 0) sum += weight * at(x, index);
          });
          return sum;
        },
        8, 4e-6);
  };
  Input x = random_input(DType::f32, {2, 9, 4, 5});
  check("size=[7,3] mode=bilinear", x);
  check("size=[7,9] mode=bilinear align_corners=true", x);
  check("scale_factor=[1.7,0.6]", x);
  check("scale_factor=2.5 mode=linear", random_input(DType::bf16, {2, 9, 5}));
  check("size=11", random_input(DType::u8, {2, 9, 5}));
  check("size=[5,2,4] mode=trilinear", random_input(DType::f16, {1, 9, 3, 4, 2}));
  check("size=[2,5,3]", random_input(DType::f32, {1, 9, 3, 4, 2}));
  // Channels side by side: vectors of 4, 8 and 16, whole and not.
  for (int64_t channels : {4, 7, 8, 19, 48})
    check("size=[7,3] mode=bilinear", random_input(DType::f32, {2, channels, 4, 5}));
  check("size=[7,9] mode=bilinear align_corners=true", random_input(DType::f32, {2, 16, 4, 5}));
  check("scale_factor=[1.7,0.6]", random_input(DType::f32, {2, 16, 4, 5}));
  check("size=[5,2,4] mode=trilinear", random_input(DType::f16, {1, 32, 3, 4, 2}));
  check("scale_factor=2.5 mode=linear", random_input(DType::bf16, {2, 16, 5}));
  Input special{TensorDesc::dense(DType::f32, {1, 1, 4}), {kNan, 1, 2, kInf}};
  run_all_opencl("interpolate", "size=8 mode=linear", {special},
                 expect({kNan, kNan, kNan, 1.25, 1.75, kInf, kInf, kInf}));
}

// ---- data movement

constexpr DType kAll[] = {DType::f32, DType::f16, DType::bf16, DType::s8,
                          DType::u8,  DType::s32, DType::s64,  DType::boolean};

TEST("concat") {
  const auto check = [](const char* attributes, int dim, const std::vector<Input>& inputs) {
    run("concat", attributes, inputs, [&](const Op&, const Dims& index) {
      int64_t from = index[dim];
      size_t i = 0;
      for (; from >= inputs[i].desc.shape[dim]; ++i) from -= inputs[i].desc.shape[dim];
      return at(inputs[i], with(index, dim, from));
    });
  };
  const Input a = random_input(DType::f32, {2, 9, 3, 4}), b = random_input(DType::f32, {2, 3, 3, 4}),
              c = random_input(DType::f32, {2, 9, 2, 4});
  check("dim=1", 1, {a, b, a});
  check("dim=-2", 2, {a, c});
  for (DType dtype : kAll) check("", 0, {random_input(dtype, {2, 3}), random_input(dtype, {1, 3})});
  // Rows in pieces of 16 bytes down to 1; more tensors than one launch takes.
  for (DType dtype : {DType::f32, DType::f16, DType::u8})
    for (int64_t channels : {16, 4, 2})
      check("dim=1", 1, {random_input(dtype, {2, 16, 3, 5}), random_input(dtype, {2, channels, 3, 5})});
  check("dim=1", 1, {random_input(DType::f32, {1, 3, 41, 43}), random_input(DType::f32, {1, 7, 41, 43})});
  check("", 0, {random_input(DType::u8, {5, 2003}), random_input(DType::u8, {6, 2003})});
  std::vector<Input> many;
  for (int i = 0; i < 11; ++i) many.push_back(random_input(DType::f32, {2, 4 * (i % 3), 2, 3}));
  check("dim=1", 1, many);
}

// Few channels to one block of them, and casts on the way.
TEST("reorder_pieces") {
  for (int64_t channels : {1, 3, 4, 7})
    for (const char* attributes :
         {"target=aBcd4b", "target=aBcd8b", "target=aBcd8b dtype=f16", "target=aBcd4b dtype=bf16"}) {
      const Input x = random_input(DType::f32, {2, channels, 5, 7});
      run("reorder", attributes, {x}, [&](const Op&, const Dims& index) { return at(x, index); });
    }
  const Input x = random_input(DType::f16, {2, 3, 9}), image = random_input(DType::f32, {2, 3, 4, 5});
  run("cast", "dtype=f32", {x}, [&](const Op&, const Dims& index) { return at(x, index); });
  for (const char* attributes : {"dtype=f16", "dtype=bf16"})
    run("cast", attributes, {image}, [&](const Op&, const Dims& index) { return at(image, index); });
}

TEST("pad") {
  const auto check = [](const char* attributes, const Input& x) {
    run("pad", attributes, {x}, [&](const Op& op, const Dims& out) {
      const std::string mode = op.attributes.text("mode");
      Dims index = out;
      for (int d = 0; d < out.size(); ++d) {
        const int64_t size = x.desc.shape[d];
        int64_t& s = index[d];
        s -= op.attributes.integers("begins")[size_t(d)];
        if (mode == "constant" && (s < 0 || s >= size)) return op.attributes.number("value");
        if (mode == "reflect") s = s < 0 ? -s : s >= size ? 2 * (size - 1) - s : s;
        if (mode == "replicate") s = std::min(std::max<int64_t>(s, 0), size - 1);
      }
      return at(x, index);
    });
  };
  const Input x = random_input(DType::f32, {2, 9, 3, 4});
  check("pad=[1,2,0,1,-1,4] value=-inf", x);
  check("pad=[3,-1,2,1,2,3] mode=reflect", x);
  check("pad=[5,6,0,2,1,0,0,1] mode=replicate", x);
  for (DType dtype : kAll) check("pad=[1,2] value=1", random_input(dtype, {2, 3}));
  check("pad=[-1,0]", random_input(DType::bf16, {2, 9, 5}));
}

Input indices(DType dtype, const Dims& shape, int64_t size) {
  Input index = random_input(dtype, shape, -double(size), double(size));
  index.values.back() = double(size);  // out of range on either side
  if (index.values.size() > 1) index.values[0] = -double(size) - 1;
  return index;
}
// The element of x along `dim`, zero where there is none.
double taken(const Input& x, const Dims& index, int dim, double wanted) {
  const auto size = double(x.desc.shape[dim]);
  if (wanted < 0) wanted += size;
  return wanted < 0 || wanted >= size ? 0 : at(x, with(index, dim, int64_t(wanted)));
}

TEST("gather") {
  const auto select = [](const char* attributes, int dim, const Input& x, const Input& index) {
    run("index_select", attributes, {x, index}, [&](const Op&, const Dims& out) {
      Dims place, chosen;
      for (int d = 0; d < index.desc.rank(); ++d) chosen.push_back(out[dim + d]);
      for (int d = 0; d < x.desc.rank(); ++d)
        place.push_back(d < dim ? out[d] : d == dim ? 0 : out[d - 1 + index.desc.rank()]);
      return taken(x, place, dim, at(index, chosen));
    });
  };
  const Input x = random_input(DType::f32, {2, 9, 3, 4});
  select("dim=1", 1, x, indices(DType::s64, {11}, 9));
  select("dim=-1", 3, x, indices(DType::s32, {2, 3}, 4));
  select("dim=1", 1, x, indices(DType::s64, {}, 9));

  const Input table = random_input(DType::bf16, {7, 6}), rows = indices(DType::s64, {2, 9, 4}, 7);
  run("embedding", "", {rows, table}, [&](const Op&, const Dims& out) {
    return taken(table, {0, out[3]}, 0, at(rows, {out[0], out[1], out[2]}));
  });

  const auto gather = [](const char* attributes, int dim, const Input& x, const Input& index) {
    run("gather", attributes, {x, index},
        [&](const Op&, const Dims& out) { return taken(x, out, dim, at(index, out)); });
  };
  gather("dim=1", 1, x, indices(DType::s64, {2, 12, 2, 4}, 9));
  gather("dim=2", 2, x, indices(DType::s32, {1, 9, 5, 4}, 3));
  for (DType dtype : kAll) gather("dim=0", 0, random_input(dtype, {5, 3}), indices(DType::s64, {4, 3}, 5));
}

}  // namespace
