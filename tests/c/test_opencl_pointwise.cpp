// The pointwise-broadcast-reduce generator on every OpenCL device: each op that is built on it, layouts, dtypes,
// broadcasting, chunked and grouped reductions, and that the same call gives the same bits.
#include "elementwise_references.h"
#include "opencl_testing.h"
#include "ops/activation.h"
#include "ops/pointwise.h"

using namespace pl;
using namespace pl::opencl_testing;

namespace {

SETUP() { unoptimised_on_pocl(); }

TEST("unary") {
  for (const Schema* schema : all_schemas()) {
    if (schema->kind != "unary") continue;
    const std::string& name = schema->name;
    const auto [low, high] = domain_of(name);
    // Every function in f32 and, where it has them, integers; exp, which is not zero at zero, also in the layouts that
    // leave padding.
    for (DType dtype : {DType::f32, DType::s32}) {
      const Dims shape = schema->name == "exp" ? Dims{2, 9, 3, 5} : Dims{90};
      if (!is_defined_on(schema->name, dtype)) continue;
      const Input x = random_input(dtype, shape, low, high);
      run_all_opencl(schema->name.c_str(), attributes_of(name), {x},
                     [&](const Op& op, const std::vector<Values>& y, const std::string& what) {
                       Values expected;
                       for (double v : x.values)
                         expected.push_back(unary_reference(op.attributes[attr::function], v,
                                                            op.attributes[attr::alpha], op.attributes[attr::beta]));
                       expect(expected, 4, 2e-6)(op, y, what);
                     });
    }
  }
  for (DType dtype : {DType::f16, DType::bf16, DType::s8, DType::u8, DType::s64}) {
    const Input x = random_input(dtype, {3, 17, 4});
    run_all_opencl("relu", "", {x}, [&](const Op& op, const std::vector<Values>& y, const std::string& what) {
      Values expected;
      for (double v : x.values) expected.push_back(std::max(v, 0.0));
      expect(expected)(op, y, what);
    });
  }
  const double nan = std::nan("");
  const Input special{TensorDesc::dense(DType::f32, {4}), {nan, INFINITY, -INFINITY, -0.5}};
  run_all_opencl("relu", "", {special}, expect({nan, INFINITY, 0, 0}));
  run_all_opencl("clip", "min=3 max=1", {special}, expect({nan, 1, 1, 1}));
  run_all_opencl("softplus", "", {special}, expect({nan, INFINITY, 0, std::log1p(std::exp(-0.5))}, 4));
  run_all_opencl("sign", "", {special}, expect({nan, 1, -1, -1}));
}

TEST("binary") {
  const std::pair<Dims, Dims> shapes[] = {{{2, 17, 3, 5}, {2, 17, 3, 5}},
                                          {{2, 17, 3, 5}, {1, 17, 1, 1}},
                                          {{1, 17, 1, 5}, {2, 1, 3, 1}},
                                          {{2, 16, 2, 6}, {2, 1, 2, 6}},
                                          {{2, 3, 1030}, {1030}},
                                          {{}, {3, 4}},
                                          {{5}, {1}},
                                          {{3, 1, 2}, {3, 24, 2}}};
  for (const auto& [xs, ys] : shapes) {
    for (const char* name : {"sub", "pow", "gt"}) {
      if (*name != 's' && xs.size() == 4) continue;
      const double low = std::string(name) == "pow" ? 0.2 : -3;
      const Input x = random_input(DType::f32, xs, low, 3), y = random_input(DType::f32, ys, low, 3);
      run_all_opencl(name, "", {x, y}, [&](const Op& op, const std::vector<Values>& out, const std::string& what) {
        Values expected;
        each(op.out().shape, [&](const Dims& index) {
          expected.push_back(binary_reference(name, broadcast_at(x, index), broadcast_at(y, index)));
        });
        expect(expected, 4)(op, out, what);
      });
    }
  }
  const Input big{TensorDesc::dense(DType::u8, {3}), {250, 3, 7}}, more{TensorDesc::dense(DType::u8, {3}), {10, 5, 7}};
  run_all_opencl("add", "", {big, more}, expect({4, 8, 14}));
  run_all_opencl("sub", "", {big, more}, expect({240, 254, 0}));
  run_all_opencl("eq", "", {big, more}, expect({0, 0, 1}));
  run_all_opencl("bitwise_xor", "", {big, more}, expect({240, 6, 0}));
  const Input least{TensorDesc::dense(DType::s32, {6}), {-2147483648.0, -1, -1, 2147483647.0, -5, 5}},
      counts{TensorDesc::dense(DType::s32, {6}), {31, 40, 64, 31, -1, -1}};
  run_all_opencl("bitwise_left_shift", "", {least, counts}, expect({0, 0, 0, -2147483648.0, 0, 0}));
  run_all_opencl("bitwise_right_shift", "", {least, counts}, expect({-1, -1, -1, 0, -1, 0}));
  const Input x = random_input(DType::f32, {2, 19, 4, 4}), y = random_input(DType::f32, {2, 19, 4, 4});
  run_all_opencl("add", "activation=leaky_relu", {x, y},
                 [&](const Op& op, const std::vector<Values>& out, const std::string& what) {
                   Values expected;
                   for (size_t i = 0; i < x.values.size(); ++i)
                     expected.push_back(unary_reference("leaky_relu", x.values[i] + y.values[i], 0.01, 0));
                   expect(expected, 1, 1e-6)(op, out, what);
                 });
  const Input c = random_input(DType::boolean, {2, 1, 5}), a = random_input(DType::bf16, {3, 1}),
              b = random_input(DType::bf16, {2, 3, 5});
  run_all_opencl("where", "", {c, a, b}, [&](const Op& op, const std::vector<Values>& out, const std::string& what) {
    Values expected;
    each(op.out().shape, [&](const Dims& index) {
      expected.push_back(broadcast_at(c, index) != 0 ? broadcast_at(a, index) : broadcast_at(b, index));
    });
    expect(expected)(op, out, what);
  });
  const Input slope = random_input(DType::f32, {19});
  run_all_opencl("prelu", "", {x, slope}, [&](const Op& op, const std::vector<Values>& out, const std::string& what) {
    Values expected;
    each(op.out().shape, [&](const Dims& index) {
      const double v = broadcast_at(x, index);
      expected.push_back(v > 0 ? v : v * slope.values[size_t(index[1])]);
    });
    expect(expected)(op, out, what);
  });
}

// The reduction of every op of the kind, in double.
Values reduced(const Op& op, const Input& x) {
  const std::string name = op.attributes[attr::function];
  std::vector<bool> gone(size_t(x.desc.rank()));
  for (int64_t d : op.attributes[attr::dim_ints]) gone[size_t(d)] = true;
  Dims kept;
  for (int d = 0; d < x.desc.rank(); ++d)
    if (!gone[size_t(d)]) kept.push_back(x.desc.shape[d]);
  const bool maximum = name == "amax", minimum = name == "amin";
  Values out(size_t(kept.product()), name == "prod" ? 1.0 : maximum ? -INFINITY : minimum ? INFINITY : 0.0);
  each(x.desc.shape, [&](const Dims& index) {
    Dims at;
    for (int d = 0; d < index.size(); ++d)
      if (!gone[size_t(d)]) at.push_back(index[d]);
    double& to = out[size_t(kept.size() ? linear(kept, at) : 0)];
    const double v = x.values[size_t(linear(x.desc.shape, index))];
    if (maximum)
      to = std::max(to, v);
    else if (minimum)
      to = std::min(to, v);
    else if (name == "prod")
      to *= v;
    else
      to += name == "reduce_l1" ? std::fabs(v) : name == "reduce_l2" || name == "reduce_sum_square" ? v * v : v;
  });
  for (double& v : out) {
    if (name == "mean") v /= double(x.desc.elements()) / double(out.size());
    if (name == "reduce_l2") v = std::sqrt(v);
  }
  return out;
}

// Whole vectors with a rest, and blocks of channels of which some are padding, where a function of zero is not zero.
TEST("whole_vectors") {
  const double nan = std::nan("");
  for (const Dims& shape : {Dims{3, 37}, Dims{9}, Dims{2, 24, 5, 3}, Dims{1, 17, 40}, Dims{2, 12, 7}})
    for (DType dtype : {DType::f32, DType::bf16}) {
      Input x = random_input(dtype, shape, -6, 6);
      x.values[0] = nan, x.values[1] = -INFINITY, x.values[2] = INFINITY;
      const std::pair<const char*, double (*)(double)> functions[] = {
          {"exp", [](double v) { return std::exp(v); }},
          {"tanh", [](double v) { return std::tanh(v); }},
          {"gelu", [](double v) { return v * 0.5 * (std::erf(v * std::sqrt(0.5)) + 1); }},
          {"sigmoid", [](double v) { return 1 / (std::exp(-v) + 1); }},
      };
      for (const auto& [name, function] : functions) {
        Values y;
        for (double v : x.values) y.push_back(function(v));
        run_all_opencl(name, "", {x}, expect(y, 2, 1e-6));
      }
      if (shape.size() < 3) continue;
      Dims channels = Dims::filled(shape.size(), 1);
      channels[1] = shape[1];
      const Input gate = random_input(dtype, channels);
      Values y;
      each(shape, [&](const Dims& i) { y.push_back(x.values[y.size()] + gate.values[size_t(i[1])]); });
      run_all_opencl("add", "", {x, gate}, expect(y, 2, 1e-6));
    }
}

TEST("reduce") {
  const auto check = [](const char* name, const char* attributes, const Input& x) {
    run_all_opencl(name, attributes, {x}, [&](const Op& op, const std::vector<Values>& y, const std::string& what) {
      // Sums of numbers of either sign: the error is relative to the sum of magnitudes.
      double magnitude = 0;
      for (double v : x.values) magnitude += std::fabs(v);
      expect(reduced(op, x), 4, is_floating(x.desc.dtype) ? 1e-6 * magnitude / double(y[0].size()) : 0)(op, y, what);
    });
  };
  const Input x = random_input(DType::f32, {2, 19, 5, 7});
  for (const char* attributes : {"", "dim=[1]", "dim=[2,3]", "dim=[2,3] keepdim=true", "dim=[0,2] keepdim=true",
                                 "dim=[1] keepdim=true", "dim=[-1]", "keepdim=true"})
    check("mean", attributes, x);
  for (const Schema* schema : all_schemas())
    if (schema->kind == "reduce")
      check(schema->name.c_str(), "dim=[1,2]", random_input(DType::f32, {3, 4, 6, 5}, 0.5, 1.5));
  for (DType dtype : {DType::s32, DType::s64}) check("sum", "dim=[0]", random_input(dtype, {300, 3}));
  for (DType dtype : {DType::f16, DType::u8}) check("amax", "dim=[1]", random_input(dtype, {3, 300}));
  // Several chunks, with and without lanes, an odd number of elements, and a padded layout.
  check("sum", "", random_input(DType::f32, {1, 100003}));
  check("amin", "dim=[0]", random_input(DType::f32, {70001, 3}));
  check("mean", "dim=[2,3]", random_input(DType::f32, {1, 3, 160, 161}));
  // A sum of equal numbers stays exact to f32 rounding: the error does not grow with the length.
  Input same{TensorDesc::dense(DType::f32, {1 << 22}), Values(size_t(1) << 22, 0.1f)};
  run_all_opencl("sum", "", {same}, [&](const Op&, const std::vector<Values>& y, const std::string& what) {
    compare(y[0], {double(0.1f) * double(1 << 22)}, 5e-6, 0, what);
  });
  const Input nan{TensorDesc::dense(DType::f32, {4}), {1, std::nan(""), 3, 2}};
  run_all_opencl("amax", "", {nan}, expect({std::nan("")}));
}

TEST("pointwise") {
  const Input a = random_input(DType::f32, {2, 18, 3, 4}), b = random_input(DType::f16, {18, 1, 1}),
              c = random_input(DType::s32, {2, 1, 3, 4});
  run_all_opencl("pointwise",
                 "expressions=\"t = x0 * x1 + s0; y0 = where(x2 > 0, t, exp(-t)); y1 = t * t\" scalars=[0.5]",
                 {a, b, c}, [&](const Op& op, const std::vector<Values>& y, const std::string& what) {
                   Values first, second;
                   each(op.out().shape, [&](const Dims& index) {
                     const double t = broadcast_at(a, index) * broadcast_at(b, index) + 0.5;
                     first.push_back(broadcast_at(c, index) > 0 ? t : std::exp(-t));
                     second.push_back(t * t);
                   });
                   compare(y[0], first, 1e-5, 1e-5, what);
                   compare(y[1], second, 1e-5, 1e-5, what);
                 });
  // Mean and variance at once, over a broadcast product.
  run_all_opencl("pointwise",
                 "expressions=\"y0 = x0 * x1; y1 = y0 * y0\" "
                 "reductions=\"reduce_y0 += y0; reduce_y1 += y1; y0 = reduce_y0 / count; y1 = reduce_y1 / count - "
                 "(reduce_y0 / count) * (reduce_y0 / count)\" dim=[0,2,3]",
                 {a, b}, [&](const Op& op, const std::vector<Values>& y, const std::string& what) {
                   Values mean(18, 0.0), variance(18, 0.0);
                   each(a.desc.shape, [&](const Dims& index) {
                     const double v = broadcast_at(a, index) * broadcast_at(b, index);
                     mean[size_t(index[1])] += v / 24;
                     variance[size_t(index[1])] += v * v / 24;
                   });
                   for (size_t i = 0; i < 18; ++i) variance[i] -= mean[i] * mean[i];
                   REQUIRE(op.outputs.size() == 2);
                   compare(y[0], mean, 1e-5, 1e-5, what);
                   compare(y[1], variance, 1e-4, 1e-4, what);
                 });
  const Input i = random_input(DType::s64, {4, 5}, -9, 9), j = random_input(DType::s64, {5}, -2, 2);
  run_all_opencl("pointwise", "expressions=\"y0 = x0 / x1 + max(x0, x1)\"", {i, j},
                 [&](const Op& op, const std::vector<Values>& y, const std::string& what) {
                   Values expected;
                   each(op.out().shape, [&](const Dims& index) {
                     const double p = broadcast_at(i, index), q = broadcast_at(j, index);
                     expected.push_back((q == 0 ? 0 : std::trunc(p / q)) + std::max(p, q));
                   });
                   expect(expected)(op, y, what);
                 });
}

// Every dtype to every other, through the common axes and, element by element, into a layout without them.
TEST("reorder_dtypes") {
  const double nan = std::nan("");
  const Input edge{TensorDesc::dense(DType::f32, {8}), {300, -300, 0.5, 1.5, -2.5, nan, 3e9, -3e9}};
  run_all_opencl("reorder", "target=a dtype=s8", {edge}, expect({127, -128, 0, 2, -2, 0, 127, -128}));
  run_all_opencl("reorder", "target=a dtype=u8", {edge}, expect({255, 0, 0, 2, 0, 0, 255, 0}));
  run_all_opencl("reorder", "target=a dtype=s32", {edge},
                 expect({300, -300, 0, 2, -2, 0, 2147483647.0, -2147483648.0}));
  const Input wide{TensorDesc::dense(DType::s32, {4}), {300, -300, 5, -5}};
  run_all_opencl("reorder", "target=a dtype=s8", {wide}, expect({127, -128, 5, -5}));
  const DType dtypes[] = {DType::f32, DType::f16, DType::bf16, DType::s8,
                          DType::u8,  DType::s32, DType::s64,  DType::boolean};
  for (size_t i = 0; i < 8; ++i)
    for (size_t j : {i, (i + 1) % 8, (i + 3) % 8})
      for (const char* target : {"aBc8b", "ABc4b2a2b"}) {
        if (*(target + 1) == 'B' && *target == 'A' && j != i) continue;
        const Input x = random_input(dtypes[i], {3, 11, 2}, -9, 9);
        const std::string attributes = std::string("target=") + target + " dtype=" + name_of(dtypes[j]);
        run_all_opencl("reorder", attributes.c_str(), {x},
                       [&](const Op&, const std::vector<Values>& y, const std::string& what) {
                         Values expected;
                         for (double v : x.values) expected.push_back(rounded(dtypes[j], v));
                         compare(y[0], expected, 0, 0, what);
                       });
      }
}

TEST("repeatable") {
  const Input x = random_input(DType::f32, {1, 200000});
  std::vector<Values> first;
  for (int run = 0; run < 3; ++run) {
    std::vector<Values> all;
    run_all_opencl("sum", "", {x},
                   [&](const Op&, const std::vector<Values>& y, const std::string&) { all.push_back(y[0]); });
    if (run == 0) first = all;
    CHECK(all == first);
  }
}

// Kernels of an optimizer as one launch, made for arguments that share memory in some way and run with arguments that
// share it in each way: the rate of all, new values where the old ones lie, another output there than expected.
TEST("joined kernels and what their arguments share") {
  constexpr size_t kKernels = 5, kInputs = 3, kOutputs = 2;  // x0 + x2 * x1 and 2 * x1 - x2
  const char* const attributes = "expressions=\"y0 = x0 + x2 * x1; y1 = 2 * x1 - x2\"";
  enum Way { apart, one_rate, in_place, crossed };
  for (const Target& target : targets()) {
    opencl::OpenclDevice* const device = opencl::as_opencl(*target.device);
    if (!device) continue;
    std::vector<std::unique_ptr<Kernel>> own;
    std::vector<const Together*> kernels;
    std::vector<std::vector<Input>> inputs;
    for (size_t k = 0; k < kKernels; ++k) {
      const int64_t size = int64_t(k) * 700 + 3;
      inputs.push_back({random_input(DType::f32, {size}), random_input(DType::f32, {size}),
                        random_input(DType::f32, {1}, 0.5, 0.5)});
      const Op op = op_of("pointwise", attributes, inputs.back());
      CandidateList list;
      target.provider->list(op, *device, list);
      for (const Candidate& candidate : list.candidates) {
        std::unique_ptr<Kernel> kernel = candidate.prepare();
        const auto* together = dynamic_cast<const Together*>(kernel.get());
        if (!together || kernels.size() > k) continue;
        kernels.push_back(together);
        own.push_back(std::move(kernel));
      }
      CHECK(kernels.size() == k + 1);
      CHECK(kernels[k]->alike() == kernels[0]->alike());
    }
    // Runs `kernel` on arguments that share memory in a way; `made`: what is known of it beforehand.
    const auto run = [&](Kernel* kernel, Way way, Sharing* made) {
      std::vector<BufferRef> buffers;
      std::vector<Buffer*> in, out;
      std::vector<uintptr_t> read, written;
      const auto buffer_of = [&](const Values& values) {
        const std::vector<char> bytes = store(TensorDesc::dense(DType::f32, {int64_t(values.size())}), values);
        buffers.push_back(device->allocate(bytes.size() + 64));
        device->write(*buffers.back(), 0, bytes.data(), bytes.size());
        return buffers.back().get();
      };
      Buffer* const rate = buffer_of(inputs[0][2].values);
      for (size_t k = 0; k < kKernels; ++k) {
        in.push_back(buffer_of(inputs[k][0].values));
        in.push_back(buffer_of(inputs[k][1].values));
        in.push_back(way == one_rate ? rate : buffer_of(inputs[k][2].values));
        for (size_t o = 0; o < kOutputs; ++o) {
          Buffer* const over = in[k * kInputs + (way == crossed ? 1 - o : o)];
          out.push_back(way == in_place || way == crossed ? over : buffer_of(inputs[k][0].values));
        }
      }
      for (Buffer* each : in) read.push_back(reinterpret_cast<uintptr_t>(each));
      for (Buffer* each : out) written.push_back(reinterpret_cast<uintptr_t>(each));
      if (made) *made = sharing_of(kKernels, read, written);
      if (!kernel) return;
      kernel->run({in.data(), out.data(), nullptr});
      for (size_t k = 0; k < kKernels; ++k)
        for (size_t o = 0; o < kOutputs; ++o) {
          const Values &x0 = inputs[k][0].values, &x1 = inputs[k][1].values;
          std::vector<float> found(x0.size());
          device->read(*out[k * kOutputs + o], 0, found.data(), found.size() * sizeof(float));
          for (size_t i = 0; i < found.size(); ++i)
            CHECK(std::fabs(found[i] - (o == 0 ? x0[i] + 0.5 * x1[i] : 2 * x1[i] - 0.5)) < 1e-5);
        }
    };
    for (Way expected : {apart, one_rate, in_place, crossed}) {
      Sharing shared;
      run(nullptr, expected, &shared);
      CHECK(shared.any() == (expected != apart));
      const std::unique_ptr<Kernel> joined = kernels[0]->together(kernels, shared);
      for (Way way : {expected, apart, one_rate, in_place, crossed, expected}) run(joined.get(), way, nullptr);
    }
  }
}

}  // namespace
