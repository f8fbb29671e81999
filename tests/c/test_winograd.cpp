// Winograd convolutions of the host provider, for every instruction set that this processor has: against sums in
// double, with guard bytes around all that is written, poisoned outputs and workspace, and zero padding after.
#include <cmath>
#include <limits>

#include "core/threads.h"
#include "host_testing.h"
#include "ops/post_ops.h"
#include "providers/host/conv/winograd.h"

using namespace pl;
using namespace pl::host_testing;

namespace {

struct Case {
  const char* attributes;
  Dims x, weight;
  bool bias, residual;
};

double relu(double x) { return x < 0 ? 0 : x; }
double silu(double x) { return x / (1 + std::exp(-x)); }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// The definition.  `largest`: the largest magnitude before the activation, of which none here is much steeper than one.
Values convolution(const Op& op, const std::vector<Input>& inputs, double* largest = nullptr) {
  const Dims &x = op.in(0).shape, &y = op.out().shape;
  const auto padding = op.attributes[attr::padding];
  Values result(size_t(y.product()));
  size_t at = 0;
  each(y, [&](const Dims& o) {
    double sum = op.has(2) ? inputs[2].values[size_t(o[1])] : 0;
    for (int64_t i = 0; i < x[1]; ++i)
      for (int64_t r = 0; r < 3; ++r)
        for (int64_t c = 0; c < 3; ++c) {
          const int64_t h = o[2] + r - padding[0], w = o[3] + c - padding[1];
          if (h >= 0 && w >= 0 && h < x[2] && w < x[3])
            sum += inputs[0].values[size_t(((o[0] * x[1] + i) * x[2] + h) * x[3] + w)] *
                   inputs[1].values[size_t(((o[1] * x[1] + i) * 3 + r) * 3 + c)];
        }
    if (largest) *largest = std::max(*largest, std::fabs(sum));
    for (const PostOp& step : post_ops_of(op)) {
      if (step.kind == PostOp::Kind::add) sum += inputs[3].values[at];
      if (step.kind == PostOp::Kind::scale) sum *= step.alpha();
      if (largest) *largest = std::max(*largest, std::fabs(sum));
      sum = step.name == "relu"      ? relu(sum)
            : step.name == "silu"    ? silu(sum)
            : step.name == "sigmoid" ? sigmoid(sum)
            : step.name == "tanh"    ? std::tanh(sum)
                                     : sum;
    }
    result[at++] = sum;
  });
  return result;
}

constexpr size_t kGuard = 256;
BufferRef guarded(Device& cpu, size_t bytes) {
  BufferRef buffer = cpu.allocate(bytes + kGuard);
  std::memset(buffer->host(), 0xff, bytes);  // NaN
  std::memset(static_cast<char*>(buffer->host()) + bytes, 0x5a, kGuard);
  return buffer;
}
void check_guard(const Buffer& buffer, size_t bytes, const std::string& what) {
  for (size_t i = 0; i < kGuard; ++i)
    if (static_cast<const char*>(buffer.host())[bytes + i] != 0x5a) {
      std::fprintf(stderr, "%s: byte %zu behind the end was written\n", what.c_str(), i);
      end_test();
    }
}

using List = void (*)(const Op& op, const host::WinogradKernels& kernels, CandidateList& out);

// The results of all candidates that are listed for this call, by their keys.
std::vector<std::pair<std::string, Values>> run_winograd(const host::WinogradKernels& kernels, const Op& op,
                                                         const std::vector<Input>& inputs,
                                                         List candidates = host::list_winograd) {
  static const auto cpu = make_cpu_device();
  CandidateList list;
  candidates(op, kernels, list);
  CHECK(list.refusals.empty());
  std::vector<std::pair<std::string, Values>> results;
  for (const Candidate& candidate : list.candidates) {
    const std::string what = op.str() + " by " + candidate.key();
    std::vector<BufferRef> buffers;
    std::vector<Buffer*> in;
    for (size_t i = 0; i < inputs.size(); ++i) {
      in.push_back(nullptr);
      if (!op.has(int(i))) continue;
      // No byte behind an input may be used either: what is there is NaN.
      const std::vector<char> bytes = store(candidate.inputs[i], inputs[i].values);
      buffers.push_back(guarded(*cpu, candidate.inputs[i].size_bytes() + kGuard));
      std::memcpy(buffers.back()->host(), bytes.data(), candidate.inputs[i].size_bytes());
      in.back() = buffers.back().get();
    }
    CHECK(candidate.packings.size() == size_t(op.schema->kind == "conv"));
    BufferRef packed;
    for (const Packing& packing : candidate.packings) {
      CHECK(packing.input == 1);
      packed = guarded(*cpu, packing.bytes);
      packing.pack(*in[1], *packed);
      check_guard(*packed, packing.bytes, what + ", packed weights");
      in[1] = packed.get();
    }
    const size_t bytes = candidate.outputs[0].size_bytes();
    const BufferRef y = guarded(*cpu, bytes), workspace = guarded(*cpu, candidate.workspace_bytes);
    Buffer* out = y.get();
    const auto kernel = candidate.prepare();
    for (int repetition = 0; repetition < 2; ++repetition) kernel->run({in.data(), &out, workspace.get()});
    check_guard(*y, bytes, what);
    check_guard(*workspace, candidate.workspace_bytes, what + ", workspace");
    std::vector<char> written(bytes + 64, 0x5a);
    std::memcpy(written.data(), y->host(), bytes);
    results.emplace_back(what, fetch(candidate.outputs[0], written, what));
  }
  return results;
}

Op op_for(const Case& c, std::vector<Input>& inputs, double low = -1, double high = 1) {
  inputs = {random_input(DType::f32, c.x, low, high), random_input(DType::f32, c.weight, low, high)};
  inputs.push_back(c.bias ? random_input(DType::f32, {c.weight[0]}, low, high) : Input{});
  Attributes bare = Attributes::parse(c.attributes);
  bare.erase(attr::post_ops);
  const Dims result = make_op(*find_schema("conv2d"), bare, {inputs[0].desc, inputs[1].desc}).out().shape;
  inputs.push_back(c.residual ? random_input(DType::f32, result, low, high) : Input{});
  return op_of("conv2d", c.attributes, inputs);
}

SETUP() {
  for (int i = 0; i < host::winograd_isas().count; ++i) std::printf("%s\n", host::winograd_isas().list[i]->isa);
}

TEST("values") {
  const Case cases[] = {
      {"padding=1", {1, 16, 8, 8}, {16, 16, 3, 3}, false, false},
      {"padding=1 activation=relu", {2, 32, 14, 14}, {48, 32, 3, 3}, true, true},
      {"padding=1 activation=silu", {3, 17, 7, 7}, {33, 17, 3, 3}, true, true},
      {"padding=1 activation=sigmoid", {1, 24, 5, 9}, {24, 24, 3, 3}, false, true},  // sigmoid(0) != 0: padding lanes
      {"activation=relu", {1, 30, 10, 13}, {20, 30, 3, 3}, true, false},
      {"padding=1 activation=relu", {1, 11, 9, 21}, {9, 11, 3, 3}, true, true},  // fewer than a block's channels
      {"padding=1 activation=tanh", {2, 24, 9, 33}, {40, 24, 3, 3}, true, true},
      {"padding=1", {1, 32, 20, 30}, {9, 32, 3, 3}, true, false},
      // Longer lists, on tiles and channels that are cut.
      {"padding=1 post_ops=\"relu, add(residual), sigmoid\"", {2, 24, 9, 7}, {40, 24, 3, 3}, true, true},
      {"padding=1 post_ops=\"add(residual), tanh, scale(-2), sigmoid\"", {1, 20, 6, 9}, {21, 20, 3, 3}, true, true},
      {"post_ops=\"scale(0.5), sigmoid, add(residual)\"", {2, 17, 7, 11}, {90, 17, 3, 3}, false, true},
      {"padding=[2,0,1,3]", {1, 16, 6, 4}, {31, 16, 3, 3}, true, false},
      {"padding=2", {1, 40, 3, 5}, {80, 40, 3, 3}, false, true},
      {"padding=7", {1, 16, 2, 1}, {16, 16, 3, 3}, true, false},  // tiles that see nothing of x
      {"", {2, 16, 3, 3}, {16, 16, 3, 3}, true, true},            // one output
      {"padding=1", {1, 19, 1, 1}, {65, 19, 3, 3}, true, true},
      {"padding=1 activation=relu", {1, 33, 2, 12}, {50, 33, 3, 3}, true, true},  // three tiles
      {"padding=1", {1, 64, 7, 7}, {96, 64, 3, 3}, true, false},                  // four
      {"padding=1", {1, 16, 1, 37}, {112, 16, 3, 3}, true, false},
      {"padding=1 activation=relu", {1, 160, 45, 41}, {17, 160, 3, 3}, true, false},  // blocks of tiles, of channels
      {"padding=1", {1, 160, 65, 66}, {192, 160, 3, 3}, true, true},  // shared by channels: more than 4 MB of weights
      {"padding=1", {1, 288, 4, 4}, {272, 288, 3, 3}, false, false},  // so few tiles that panels are not cut
  };
  for (const Case& c : cases) {
    std::vector<Input> inputs;
    const Op op = op_for(c, inputs);
    double largest = 1e-3;
    const Values expected = convolution(op, inputs, &largest);
    for (int i = 0; i < host::winograd_isas().count; ++i)
      for (int threads : {1, 2, 3}) {
        use_threads(threads);
        const auto results = run_winograd(*host::winograd_isas().list[i], op, inputs);
        const Dims& y = op.out().shape;
        const int64_t tiles = y[0] * ((y[2] + 3) / 4) * ((y[3] + 3) / 4);
        REQUIRE(results.size() == (tiles > 64 ? 2 : 4));  // two layouts; late weights for few tiles
        // Rounding is relative to neighbours.
        for (const auto& [what, values] : results) compare(values, expected, 0, 1e-5 * largest, what);
      }
  }
  use_threads(available_processors());
}

// The gradient by the weights: x and the gradient by the outputs, with so many channels.
struct Weights {
  const char* attributes;
  Dims x;
  int64_t channels;
};

Op weights_op(const Weights& c, std::vector<Input>& inputs) {
  inputs = {random_input(DType::f32, c.x), random_input(DType::f32, {c.channels, c.x[1], 3, 3})};
  const Dims y = op_of("conv2d", c.attributes, inputs).out().shape;
  inputs[1] = random_input(DType::f32, y);
  return op_of("conv2d_backward_weights", (std::string("kernel_size=[3,3] ") + c.attributes).c_str(), inputs);
}

Values weights_of(const Op& op, const std::vector<Input>& inputs) {
  const Dims &x = op.in(0).shape, &y = op.in(1).shape;
  const auto padding = op.attributes[attr::padding];
  Values result;
  each(op.out().shape, [&](const Dims& at) {
    double sum = 0;
    for (int64_t n = 0; n < x[0]; ++n)
      for (int64_t p = 0; p < y[2]; ++p)
        for (int64_t q = 0; q < y[3]; ++q) {
          const int64_t h = p + at[2] - padding[0], w = q + at[3] - padding[1];
          if (h >= 0 && w >= 0 && h < x[2] && w < x[3])
            sum += inputs[0].values[size_t(((n * x[1] + at[1]) * x[2] + h) * x[3] + w)] *
                   inputs[1].values[size_t(((n * y[1] + at[0]) * y[2] + p) * y[3] + q)];
        }
    result.push_back(sum);
  });
  return result;
}

double relative_error(const Values& values, const Values& expected) {
  double difference = 0, norm = 0;
  for (size_t j = 0; j < values.size(); ++j) {
    difference += (values[j] - expected[j]) * (values[j] - expected[j]);
    norm += expected[j] * expected[j];
  }
  return std::sqrt(difference / norm);
}

TEST("weights") {
  const Weights cases[] = {
      {"padding=1", {1, 16, 8, 8}, 16},
      {"padding=1", {2, 32, 14, 14}, 48},
      {"padding=1", {3, 17, 7, 7}, 33},
      {"", {1, 24, 5, 9}, 24},
      {"padding=[2,0,1,3]", {1, 16, 6, 4}, 31},
      {"padding=2", {1, 40, 3, 5}, 80},
      {"padding=7", {1, 16, 2, 1}, 16},
      {"", {2, 16, 3, 3}, 16},
      {"padding=1", {1, 9, 1, 37}, 112},
      {"padding=1", {5, 70, 17, 19}, 150},  // blocks of tiles, panels, and pieces of x that are cut
      {"padding=1", {1, 8, 66, 65}, 8},
  };
  for (const Weights& c : cases) {
    std::vector<Input> inputs;
    const Op op = weights_op(c, inputs);
    const Values expected = weights_of(op, inputs);
    const double largest = std::fabs(*std::max_element(
        expected.begin(), expected.end(), [](double one, double other) { return std::fabs(one) < std::fabs(other); }));
    for (int i = 0; i < host::winograd_isas().count; ++i) {
      std::vector<Values> by_one;
      for (int threads : {1, 2, 3}) {
        use_threads(threads);
        const auto results = run_winograd(*host::winograd_isas().list[i], op, inputs, host::list_winograd_weights);
        REQUIRE(results.size() == 2);  // layouts
        for (size_t k = 0; k < results.size(); ++k) {
          const auto& [what, values] = results[k];
          compare(values, expected, 0, 1e-5 * largest, what);
          if (threads == 1)
            by_one.push_back(values);
          else
            CHECK(values == by_one[k]);  // bit by bit
        }
      }
    }
  }
  use_threads(available_processors());
}

TEST("weights_error") {
  std::normal_distribution<double> normal;
  for (const Weights& c : {Weights{"padding=1", {2, 64, 28, 28}, 64}, Weights{"padding=1", {8, 128, 7, 7}, 64}}) {
    std::vector<Input> inputs;
    const Op op = weights_op(c, inputs);
    for (Input& input : inputs)
      for (double& value : input.values) value = rounded(DType::f32, normal(generator()));
    const Values expected = weights_of(op, inputs);
    for (int i = 0; i < host::winograd_isas().count; ++i)
      for (const auto& [what, values] :
           run_winograd(*host::winograd_isas().list[i], op, inputs, host::list_winograd_weights)) {
        const double error = relative_error(values, expected);
        if (!(error > 0 && error < 2e-6)) std::fprintf(stderr, "%s: error %.2e\n", what.c_str(), error);
        CHECK(error > 0);
        CHECK(error < 2e-6);
      }
  }
}

TEST("weights_of_others") {
  for (const char* attributes : {"stride=2", "dilation=2", "groups=2"}) {
    std::vector<Input> inputs{random_input(DType::f32, {1, 16, 9, 9}),
                              random_input(DType::f32, {16, std::string(attributes) == "groups=2" ? 8 : 16, 3, 3})};
    inputs[1] = random_input(DType::f32, op_of("conv2d", attributes, inputs).out().shape);
    const std::string text = std::string("kernel_size=[3,3] ") + attributes;
    CandidateList list;
    host::list_winograd_weights(op_of("conv2d_backward_weights", text.c_str(), inputs), *host::winograd_isas().list[0],
                                list);
    CHECK(list.candidates.empty());
  }
}

// Relative to the norm of the result, for normally distributed data: the bound that winograd.cpp states.
TEST("error") {
  const Case cases[] = {{"padding=1", {1, 64, 24, 24}, {64, 64, 3, 3}, false, false},
                        {"padding=1", {1, 128, 12, 12}, {128, 128, 3, 3}, false, false},
                        {"padding=1", {1, 512, 7, 7}, {128, 512, 3, 3}, false, false}};
  std::normal_distribution<double> normal;
  for (const Case& c : cases) {
    std::vector<Input> inputs;
    const Op op = op_for(c, inputs);
    for (int i : {0, 1})
      for (double& value : inputs[size_t(i)].values) value = rounded(DType::f32, normal(generator()));
    const Values expected = convolution(op, inputs);
    for (int i = 0; i < host::winograd_isas().count; ++i)
      for (const auto& [what, values] : run_winograd(*host::winograd_isas().list[i], op, inputs)) {
        const double error = relative_error(values, expected);
        if (!(error > 0 && error < 3e-6)) std::fprintf(stderr, "%s: error %.2e\n", what.c_str(), error);
        CHECK(error > 0);
        CHECK(error < 3e-6);
      }
  }
}

// A NaN or an infinity reaches every output that the definition says, and none beyond the tiles whose windows have it.
TEST("nan") {
  const Case c = {"padding=1", {2, 16, 24, 24}, {16, 16, 3, 3}, false, false};
  std::vector<Input> inputs;
  const Op op = op_for(c, inputs);
  const auto at = [](int64_t n, int64_t ch, int64_t h, int64_t w) { return size_t(((n * 16 + ch) * 24 + h) * 24 + w); };
  for (double poison : {std::numeric_limits<double>::quiet_NaN(), double(INFINITY)}) {
    inputs[0].values[at(1, 3, 13, 9)] = poison;
    for (const auto& [what, values] : run_winograd(*host::winograd_isas().list[0], op, inputs))
      for (int64_t h = 0; h < 24; ++h)
        for (int64_t w = 0; w < 24; ++w)
          for (int64_t o = 0; o < 16; ++o) {
            const bool near = std::abs(h - 13) <= 1 && std::abs(w - 9) <= 1;
            const bool far = std::abs(h - 13) > 5 || std::abs(w - 9) > 5;
            if (near) {
              CHECK(!std::isfinite(values[at(1, o, h, w)]));
              CHECK((poison > 0 || std::isnan(values[at(1, o, h, w)])));
            }
            if (far) CHECK(std::isfinite(values[at(1, o, h, w)]));
            CHECK(std::isfinite(values[at(0, o, h, w)]));
          }
  }
}

TEST("refusals") {
  struct Refused {
    const char* attributes;
    DType dtype;
    Dims x, weight;
    const char* reason;
  };
  const Refused cases[] = {
      {"stride=2", DType::f32, {1, 16, 8, 8}, {16, 16, 3, 3}, "stride is [2, 2], expected 1"},
      {"dilation=[1,2]", DType::f32, {1, 16, 8, 8}, {16, 16, 3, 3}, "dilation is [1, 2], expected 1"},
      {"groups=2", DType::f32, {1, 32, 8, 8}, {32, 16, 3, 3}, "groups is 2, expected 1"},
      {"", DType::bf16, {1, 16, 8, 8}, {16, 16, 3, 3}, "x is bf16, expected f32"},
      {"", DType::f32, {1, 7, 8, 8}, {16, 7, 3, 3}, "expected at least 8"},
      {"", DType::f32, {1, 16, 8, 8}, {16, 16, 1, 1}, nullptr},  // not even mentioned
  };
  for (const Refused& c : cases) {
    CandidateList list;
    const Op op = op_of("conv2d", c.attributes, {random_input(c.dtype, c.x), random_input(c.dtype, c.weight)});
    host::list_winograd(op, *host::winograd_isas().list[0], list);
    CHECK(list.candidates.empty());
    REQUIRE(list.refusals.size() == (c.reason ? 1 : 0));
    if (c.reason) CHECK(list.refusals[0].reason.find(c.reason) != std::string::npos);
  }
  // No image: nothing to do, which dispatch knows by itself.
  CandidateList list;
  std::vector<Input> inputs;
  host::list_winograd(op_for({"", {0, 16, 8, 8}, {16, 16, 3, 3}, false, false}, inputs), *host::winograd_isas().list[0],
                      list);
  CHECK(list.candidates.empty());
}

}  // namespace
