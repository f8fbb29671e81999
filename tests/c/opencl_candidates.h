// For tests of one op kind of the OpenCL provider: runs every candidate on every OpenCL device here, and on host
// memory where a device shares it, and compares with a reference in double precision.  Checks besides: padding of
// outputs is zero, nothing is written behind them, a second run gives the same bits, whose launches are left to the
// device's thread, and so does one with the result where an input lies, if the candidate may write there.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "launches_here.h"
#include "ops/post_ops.h"
#include "packings.h"
#include "providers/opencl/runtime/loader.h"
#include "providers/opencl/runtime/opencl_provider.h"
#include "unoptimised.h"

namespace pl::testing {

struct Array {  // row-major, logical
  Dims shape;
  std::vector<double> values;

  Array() = default;
  explicit Array(const Dims& shape) : shape(shape), values(size_t(shape.product())) {}
  bool given() const { return !values.empty(); }
  double& at(std::initializer_list<int64_t> index) {
    size_t place = 0;
    int d = 0;
    for (int64_t i : index) place = place * size_t(shape[d++]) + size_t(i);
    return values[place];
  }
  double at(std::initializer_list<int64_t> index) const { return const_cast<Array*>(this)->at(index); }
};

inline double rounded(double value, DType dtype) {
  if (dtype == DType::f16) return double(half_to_float(float_to_half(float(value))));
  if (dtype == DType::bf16) return double(bfloat16_to_float(float_to_bfloat16(float(value))));
  return double(float(value));
}

// Seeded values in [-1, 1], exact in `dtype`.
inline Array random_array(const Dims& shape, DType dtype, unsigned seed) {
  Array array(shape);
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  for (double& value : array.values) value = rounded(uniform(engine), dtype);
  return array;
}

template <class Visit>
void for_each_index(const Dims& shape, Visit visit) {
  for (int64_t linear = 0; linear < shape.product(); ++linear) {
    Dims index = Dims::filled(shape.size(), 0);
    for (int64_t d = shape.size() - 1, rest = linear; d >= 0; --d) {
      index[int(d)] = rest % shape[int(d)];
      rest /= shape[int(d)];
    }
    visit(index, size_t(linear));
  }
}

inline void put(std::vector<unsigned char>& bytes, size_t place, DType dtype, double value) {
  const auto single = float(value);
  const uint16_t half = dtype == DType::f16 ? float_to_half(single) : float_to_bfloat16(single);
  if (dtype == DType::f32)
    std::memcpy(&bytes[place * 4], &single, 4);
  else
    std::memcpy(&bytes[place * 2], &half, 2);
}

inline double take(const std::vector<unsigned char>& bytes, size_t place, DType dtype) {
  float single;
  uint16_t half;
  if (dtype == DType::f32) {
    std::memcpy(&single, &bytes[place * 4], 4);
    return double(single);
  }
  std::memcpy(&half, &bytes[place * 2], 2);
  return double(dtype == DType::f16 ? half_to_float(half) : bfloat16_to_float(half));
}

inline double function_of(const PostOp& step, double x) {
  const std::string& name = step.name;
  const double alpha = step.alpha(), beta = step.beta();
  if (name == "relu") return x < 0 ? 0 : x;
  if (name == "leaky_relu") return x > 0 ? x : alpha * x;
  if (name == "gelu_erf") return x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
  if (name == "sigmoid") return 1 / (1 + std::exp(-x));
  if (name == "tanh") return std::tanh(x);
  if (name == "clip") return std::min(std::max(x, alpha), beta);
  if (name == "exp") return std::exp(x);
  std::fprintf(stderr, "no reference for the post-op %s\n", name.c_str());
  end_test();
}

// The op's post-ops of a sum; they read the inputs at place `linear` of the result.
inline double finished(const Op& op, double sum, const std::vector<Array>& inputs, size_t linear) {
  for (const PostOp& step : post_ops_of(op)) {
    const auto operand = [&] { return inputs[size_t(operand_of(*op.schema, step))].values[linear]; };
    switch (step.kind) {
      case PostOp::Kind::function: sum = function_of(step, sum); break;
      case PostOp::Kind::scale: sum *= step.alpha(); break;
      case PostOp::Kind::add: sum += operand(); break;
      case PostOp::Kind::multiply: sum *= operand(); break;
    }
  }
  return sum;
}

class Candidates {
 public:
  // Asked about every candidate: false leaves it out.
  std::function<bool(const Candidate&)> filter = [](const Candidate&) { return true; };
  std::function<void()> begin = [] {};  // called before the candidates of a device
  // Lists of candidates that the provider offers on other devices than those here.
  std::vector<opencl::OpenclList> more;
  bool whole_space = false;               // every point of the tuning spaces
  std::set<std::string> implementations;  // that ran
  Math math = Math::fp32;                 // of products

  Candidates() : cpu_(make_cpu_device()), providers_(make_providers()) {
    for (const auto& provider : providers_) {
      if (provider->name() != "opencl") continue;
      devices_ = provider->devices();
      for (const auto& device : devices_)
        std::printf("%s: %s\n", device->name().c_str(), device->fingerprint().c_str());
      if (provider->serves(*cpu_)) devices_.push_back(cpu_);
      if (const char* only = std::getenv("PYLAYOUT_TEST_DEVICE"))  // opencl:0
        devices_.erase(std::remove_if(devices_.begin(), devices_.end(),
                                      [&](const auto& device) { return device->name() != only; }),
                       devices_.end());
      provider_ = provider.get();
    }
  }

  // Says so where there is nothing to test on.
  bool no_devices() const {
    if (devices_.empty()) std::printf("no OpenCL device here: nothing to test\n");
    return devices_.empty();
  }

  void unoptimised_on_cpus() { for_each_device(testing::unoptimised_on_cpus); }
  void unoptimised_on_pocl() { for_each_device(testing::unoptimised_on_pocl); }

  const std::vector<std::shared_ptr<Device>>& devices() const { return devices_; }
  void leave_out(const std::function<bool(Device&)>& which) {
    devices_.erase(std::remove_if(devices_.begin(), devices_.end(), [&](const auto& each) { return which(*each); }),
                   devices_.end());
  }
  // Leaves one of them.
  void only(const Device& device) {
    leave_out([&](const Device& each) { return &each != &device; });
  }

  // `inputs` in schema order, an Array without values for an absent one; `reference` gets the inferred op.
  void check(const char* name, const Attributes& attributes, DType dtype, const std::vector<Array>& inputs,
             const std::function<Array(const Op&)>& reference) {
    const Schema* schema = find_schema(name);
    REQUIRE(schema != nullptr);
    std::vector<TensorDesc> descs;
    for (const Array& input : inputs)
      descs.push_back(input.given() ? TensorDesc::dense(dtype, input.shape) : TensorDesc());
    Op op = make_op(*schema, attributes, descs);
    op.math = math;
    const Array expected = reference(op);
    CHECK(expected.shape == op.out().shape);
    for (const auto& device : devices_) {
      CandidateList list;
      list.whole_space = whole_space;
      provider_->list(op, *device, list);
      for (opencl::OpenclList add : more)
        if (opencl::OpenclDevice* target = opencl::as_opencl(*device)) add(op, *target, list);
      for (const Refusal& refusal : list.refusals) std::fprintf(stderr, "refused: %s\n", refusal.reason.c_str());
      REQUIRE(!list.candidates.empty());
      begin();
      for (Candidate& candidate : list.candidates)
        if (filter(candidate) && !left_out(*device, candidate)) run(op, *device, candidate, inputs, expected);
    }
  }

 private:
  static bool left_out(Device& device, const Candidate& candidate) {
    const opencl::OpenclDevice* target = opencl::as_opencl(device);
    if (!target || !is_miscompiled(*target, candidate.implementation)) return false;
    static bool said = false;
    if (!std::exchange(said, true)) std::printf("%s is PoCL 5: without matrix units\n", device.name().c_str());
    return true;
  }
  void for_each_device(void (*visit)(opencl::OpenclDevice&)) {
    for (const auto& device : devices_)
      if (opencl::OpenclDevice* target = opencl::as_opencl(*device)) visit(*target);
  }

  void run(const Op& op, Device& device, Candidate& candidate, const std::vector<Array>& inputs,
           const Array& expected) {
    implementations.insert(candidate.implementation);
    const auto give_up = [&](const std::string& what) {
      std::fprintf(stderr, "%s on %s, %s: %s\n", candidate.key().c_str(), device.name().c_str(), op.str().c_str(),
                   what.c_str());
      end_test();
    };
    std::vector<BufferRef> buffers;
    std::vector<Buffer*> in;
    double magnitude = 1;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].given()) {
        in.push_back(nullptr);
        continue;
      }
      const TensorDesc& desc = candidate.inputs[i];
      if (!desc.is_dense() || desc.shape != inputs[i].shape) give_up("an input is not dense or of another shape");
      std::vector<unsigned char> bytes(desc.size_bytes());
      for_each_index(desc.shape, [&](const Dims& index, size_t linear) {
        put(bytes, size_t(desc.offset_of(index)), desc.dtype, inputs[i].values[linear]);
      });
      bytes.resize(bytes.size() + 64, 0xff);  // NaN, which shows in results that see it
      buffers.push_back(device.allocate(bytes.size()));
      device.write(*buffers.back(), 0, bytes.data(), bytes.size());
      in.push_back(buffers.back().get());
    }
    for (double value : expected.values)
      if (std::isfinite(value)) magnitude = std::max(magnitude, std::fabs(value));
    const TensorDesc& out = candidate.outputs[0];
    if (!out.is_dense() || out.shape != expected.shape) give_up("the output is not dense or of another shape");
    const size_t size = out.size_bytes(), guarded = size + 256, item = size_of(out.dtype);
    BufferRef dst = device.allocate(guarded);
    BufferRef workspace = candidate.workspace_bytes ? device.allocate(candidate.workspace_bytes) : nullptr;
    Buffer* target = dst.get();
    check_prepared_packings(device, candidate, in, candidate.key());
    const std::vector<BufferRef> packed = pack_inputs(device, candidate, in);
    std::unique_ptr<Kernel> kernel = candidate.prepare();
    std::vector<unsigned char> first, result(guarded);
    for (int repeat = 0; repeat < 2; ++repeat) {
      const std::vector<unsigned char> poison(guarded, static_cast<unsigned char>(repeat ? 0x7f : 0xff));
      device.write(*dst, 0, poison.data(), guarded);
      const KernelArguments arguments{in.data(), &target, workspace.get()};
      if (!repeat)
        kernel->run(arguments);
      else if (const int here = run_later(device, *kernel, arguments))
        give_up(concat(here, " launches were not left to the device's thread"));
      device.read(*dst, 0, result.data(), guarded);
      for (size_t i = size; i < guarded; ++i)
        if (result[i] != poison[i]) give_up("wrote behind the output");
      result.resize(size);
      if (repeat && result != first) give_up("a second run gave other bits");
      first = result;
      result.resize(guarded);
    }
    for (size_t k = 0; k < in.size(); ++k) {
      if (!in[k] || !same_memory(candidate.inputs[k], out) ||
          !((candidate.in_place & op.schema->results[0].overwrites) >> k & 1))
        continue;
      device.read(*in[k], 0, result.data(), size);
      device.write(*dst, 0, result.data(), size);
      std::vector<Buffer*> from = in;
      from[k] = dst.get();
      kernel->run({from.data(), &target, workspace.get()});
      device.read(*dst, 0, result.data(), guarded);
      if (!std::equal(first.begin(), first.end(), result.begin()))
        give_up(concat("over input ", k, " gave other bits"));
    }
    std::vector<bool> written(size / item);
    // Sums of up to a few thousand terms in f32, then one rounding to the output's dtype.
    // Where factors may be rounded to tf32, they are off by 2^-10 at most.
    const double epsilon = out.dtype == DType::f16    ? 1.1e-3
                           : out.dtype == DType::bf16 ? 8.5e-3
                           : math == Math::tf32       ? 2e-3
                                                      : 3e-6;
    for_each_index(out.shape, [&](const Dims& index, size_t linear) {
      const auto place = size_t(out.offset_of(index));
      written[place] = true;
      const double got = take(result, place, out.dtype), want = expected.values[linear];
      const bool same = std::isnan(want)   ? std::isnan(got)
                        : std::isinf(want) ? got == want
                                           : std::fabs(got - want) <= epsilon * magnitude;
      if (same) return;
      give_up(concat("at ", index, " ", got, ", expected ", want));
    });
    for (size_t place = 0; place < written.size(); ++place)
      if (!written[place] && take(result, place, out.dtype) != 0) give_up("padding is not zero");
  }

  std::shared_ptr<Device> cpu_;
  std::vector<std::unique_ptr<Provider>> providers_;
  Provider* provider_ = nullptr;
  std::vector<std::shared_ptr<Device>> devices_;
};

}  // namespace pl::testing
