// Runs every candidate of a provider for one op and compares with values computed in double precision.
//
// Inputs are put into the layouts that the candidate asks for, element by element; outputs are poisoned before and
// read back by TensorDesc::offset_of.  Besides the values, the block padding of outputs must be zero, and the bytes
// behind every tensor must be untouched.  A candidate that may write its result where an input lies is run so, too.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "core/device.h"
#include "ops/op.h"
#include "providers/provider.h"

namespace pltest {

using namespace pl;
using Values = std::vector<double>;  // logical, row-major

inline void for_each(const Dims& shape, const std::function<void(const Dims&, size_t)>& visit) {
  const int64_t count = shape.product();
  Dims index = Dims::filled(shape.size(), 0);
  for (int64_t i = 0; i < count; ++i) {
    visit(index, size_t(i));
    for (int d = shape.size() - 1; d >= 0 && ++index[d] == shape[d]; --d) index[d] = 0;
  }
}
// Position of an index in Values.
inline size_t at(const Dims& shape, const Dims& index) {
  size_t position = 0;
  for (int d = 0; d < shape.size(); ++d) position = position * size_t(shape[d]) + size_t(index[d]);
  return position;
}

inline double load(DType dtype, const void* p) {
  switch (dtype) {
    case DType::f32: return *static_cast<const float*>(p);
    case DType::f16: return half_to_float(*static_cast<const uint16_t*>(p));
    case DType::bf16: return bfloat16_to_float(*static_cast<const uint16_t*>(p));
    case DType::s8: return *static_cast<const int8_t*>(p);
    case DType::u8:
    case DType::boolean: return *static_cast<const uint8_t*>(p);
    case DType::s32: return *static_cast<const int32_t*>(p);
    case DType::s64: return double(*static_cast<const int64_t*>(p));
  }
  return 0;
}
inline void store(DType dtype, void* p, double value) {
  switch (dtype) {
    case DType::f32: *static_cast<float*>(p) = float(value); break;
    case DType::f16: *static_cast<uint16_t*>(p) = float_to_half(float(value)); break;
    case DType::bf16: *static_cast<uint16_t*>(p) = float_to_bfloat16(float(value)); break;
    case DType::s8: *static_cast<int8_t*>(p) = int8_t(value); break;
    case DType::u8:
    case DType::boolean: *static_cast<uint8_t*>(p) = uint8_t(value); break;
    case DType::s32: *static_cast<int32_t*>(p) = int32_t(value); break;
    case DType::s64: *static_cast<int64_t*>(p) = int64_t(value); break;
  }
}

struct Argument {
  TensorDesc desc;
  Values values;  // as the dtype holds them
};

// Uniform in [low, high], rounded to the dtype.
inline Argument random_argument(DType dtype, const Dims& shape, unsigned seed, double low = -2, double high = 2) {
  Argument argument{TensorDesc::dense(dtype, shape), Values(size_t(shape.product()))};
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> uniform(low, high);
  for (double& value : argument.values) {
    int64_t raw = 0;
    value = uniform(generator);
    store(dtype, &raw, is_floating(dtype) ? value : std::nearbyint(value));
    value = load(dtype, &raw);
  }
  return argument;
}
inline Argument absent() { return {}; }

// In which inputs' memory the candidate may write its only result: -1, none, and those that lie as it does.
inline std::vector<int> places_of_result(const Op& op, const Candidate& candidate) {
  std::vector<int> places{-1};
  if (candidate.outputs.size() != 1) return places;
  for (size_t i = 0; i < candidate.inputs.size() && i < 32; ++i)
    if (candidate.inputs[i].present && (candidate.in_place & op.schema->results[0].overwrites) >> i & 1 &&
        same_memory(candidate.inputs[i], candidate.outputs[0]))
      places.push_back(int(i));
  return places;
}

constexpr size_t kGuard = 64;
constexpr size_t kWorkspaceGuard = 1 << 16;  // oneDNN fills scratchpads with gaps

inline BufferRef place(Device& device, const TensorDesc& desc, const Values* values) {
  const size_t bytes = desc.size_bytes();
  BufferRef buffer = device.allocate(bytes + kGuard);
  char* base = static_cast<char*>(buffer->host());
  std::memset(base, values ? 0 : 0xff, bytes);  // 0xff..: NaN, -1
  std::memset(base + bytes, 0xa5, kGuard);
  if (values)
    for_each(desc.shape, [&](const Dims& index, size_t i) {
      store(desc.dtype, base + size_t(desc.offset_of(index)) * size_of(desc.dtype), (*values)[i]);
    });
  return buffer;
}

struct Tolerance {
  double relative = 2e-5, absolute = 2e-5;
};
inline Tolerance tolerance_of(DType dtype) {
  if (dtype == DType::bf16) return {1.6e-2, 1.6e-2};
  if (dtype == DType::f16) return {2e-3, 2e-3};
  return {};
}

struct Outcome {
  int candidates = 0, references = 0;
  int over = 0;  // runs with the result where an input lies
  std::vector<std::string> keys;
};

inline Outcome check_candidates(Provider& provider, Device& device, const std::string& name,
                                const std::string& attributes, const std::vector<Argument>& arguments,
                                const Values& expected, Tolerance tolerance = {}) {
  std::vector<TensorDesc> inputs;
  for (const Argument& argument : arguments) inputs.push_back(argument.desc);
  const Op op = make_op(*find_schema(name), Attributes::parse(attributes), inputs);
  CandidateList list;
  provider.list(op, device, list);
  Outcome outcome;
  const bool verbose = std::getenv("PYLAYOUT_TEST_VERBOSE") != nullptr;
  if (verbose) std::printf("%s\n", op.str().c_str());
  for (const Refusal& refusal : list.refusals)
    if (verbose) std::printf("  refused: %s\n", refusal.reason.c_str());
  const auto failed = [&](const std::string& key, const std::string& what) {
    std::printf("FAILED %s\n  %s: %s\n", op.str().c_str(), key.c_str(), what.c_str());
    check_count_failure();
  };
  for (Candidate& candidate : list.candidates) {
    const std::string key = candidate.key();
    if (verbose) std::printf("  %s%s\n", key.c_str(), candidate.reference ? " (reference)" : "");
    ++outcome.candidates;
    outcome.references += candidate.reference;
    if (std::find(outcome.keys.begin(), outcome.keys.end(), key) != outcome.keys.end()) failed(key, "listed twice");
    outcome.keys.push_back(key);
    std::vector<BufferRef> buffers;
    std::vector<Buffer*> in;
    for (size_t i = 0; i < arguments.size(); ++i) {
      in.push_back(nullptr);
      if (!arguments[i].desc.present) continue;
      buffers.push_back(place(device, candidate.inputs[i], &arguments[i].values));
      in.back() = buffers.back().get();
    }
    const TensorDesc& result = candidate.outputs[0];
    if (result.shape != op.out().shape || result.dtype != op.out().dtype || !result.is_dense()) {
      failed(key, "output described as " + result.str());
      continue;
    }
    BufferRef workspace;
    const size_t workspace_bytes = candidate.workspace_bytes;
    if (workspace_bytes) {
      workspace = device.allocate(workspace_bytes + kWorkspaceGuard);
      std::memset(static_cast<char*>(workspace->host()) + workspace_bytes, 0xa5, kWorkspaceGuard);
    }
    const auto packed = pack_inputs(device, candidate, in);
    const auto kernel = candidate.prepare();
    for (const int over : places_of_result(op, candidate)) {
      const BufferRef made = place(device, result, over < 0 ? nullptr : &arguments[size_t(over)].values);
      const std::string how = over < 0 ? key : concat(key, " over input ", over);
      std::vector<Buffer*> from = in;
      if (over >= 0) from[size_t(over)] = made.get();
      Buffer* out = made.get();
      kernel->run({from.data(), &out, workspace.get()});
      const char* base = static_cast<const char*>(out->host());
      std::vector<char> touched(size_t(result.extent()), 0);
      bool wrong = false;
      for_each(result.shape, [&](const Dims& index, size_t i) {
        const size_t position = size_t(result.offset_of(index));
        touched[position] = 1;
        const double actual = load(result.dtype, base + position * size_of(result.dtype)), wanted = expected[i];
        const bool same = std::isnan(wanted)   ? std::isnan(actual)
                          : std::isinf(wanted) ? actual == wanted
                                               : std::fabs(actual - wanted) <=
                                                     tolerance.absolute + tolerance.relative * std::fabs(wanted);
        if (!same && !wrong) {
          failed(how, concat("at ", index, ": ", actual, ", expected ", wanted));
          wrong = true;
        }
      });
      for (size_t i = 0; i < touched.size() && !wrong; ++i) {
        if (touched[i] || load(result.dtype, base + i * size_of(result.dtype)) == 0) continue;
        failed(how, concat("padding at element ", i, " is ", load(result.dtype, base + i * size_of(result.dtype))));
        wrong = true;
      }
      for (size_t i = 0; i < kGuard && !wrong; ++i)
        if (static_cast<const unsigned char*>(out->host())[result.size_bytes() + i] != 0xa5) {
          failed(how, concat("wrote byte ", i, " behind the output"));
          wrong = true;
        }
      for (size_t i = 0; i < kWorkspaceGuard && workspace && !wrong; ++i)
        if (static_cast<const unsigned char*>(workspace->host())[workspace_bytes + i] != 0xa5) {
          failed(how, concat("wrote byte ", i, " behind the workspace"));
          wrong = true;
        }
      outcome.over += over >= 0;
    }
  }
  return outcome;
}

}  // namespace pltest
