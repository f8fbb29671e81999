// Runs every candidate of the host provider for one op and hands the results, in logical order, to a check.
//
// Inputs are written through TensorDesc::offset_of, one element after the other, so that nothing of the code under
// test places them.  Outputs are poisoned before each run; their padding must be zero after it.  A candidate that may
// write its result where an input lies is run so, too.
#pragma once

#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "check.h"
#include "providers/host/common/host.h"

namespace pl::host_testing {

using Values = std::vector<double>;

// Calls f(index) for each index of `shape` in logical order.
template <class F>
void each(const Dims& shape, F&& f) {
  if (shape.product() == 0) return;
  Dims index = Dims::filled(shape.size(), 0);
  while (true) {
    f(index);
    int d = shape.size() - 1;
    for (; d >= 0; --d) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

inline int64_t linear(const Dims& shape, const Dims& index) {
  int64_t at = 0;
  for (int d = 0; d < shape.size(); ++d) at = at * shape[d] + index[d];
  return at;
}

// An element of each dtype as a double; s64 beyond 2^53 is not tested through it.
inline double get(const void* base, DType dtype, int64_t i) {
  double value;
  host::converter(dtype, DType::f32);  // throws for a dtype that does not exist
  host::double_loader(dtype)(base, i, 1, 1, &value);
  return value;
}
inline void put(void* base, DType dtype, int64_t i, double value) { host::double_storer(dtype)(&value, 1, base, i, 1); }

inline std::vector<char> store(const TensorDesc& desc, const Values& values) {
  std::vector<char> bytes(desc.size_bytes() + 64, 0);
  int64_t i = 0;
  each(desc.shape,
       [&](const Dims& index) { put(bytes.data(), desc.dtype, desc.offset_of(index), values[size_t(i++)]); });
  return bytes;
}

// Reads in logical order; the padding must be zero.
inline Values fetch(const TensorDesc& desc, const std::vector<char>& bytes, const std::string& what) {
  Values values;
  std::vector<char> seen(desc.size_bytes() / size_of(desc.dtype), 0);
  each(desc.shape, [&](const Dims& index) {
    const int64_t at = desc.offset_of(index);
    seen[size_t(at)] = 1;
    values.push_back(get(bytes.data(), desc.dtype, at));
  });
  for (size_t i = 0; i < seen.size(); ++i)
    if (!seen[i] && get(bytes.data(), desc.dtype, int64_t(i)) != 0) {
      std::fprintf(stderr, "%s: padding element %zu is not zero\n", what.c_str(), i);
      end_test();
    }
  for (size_t i = desc.size_bytes(); i < bytes.size(); ++i)
    if (bytes[i] != 0x5a) {
      std::fprintf(stderr, "%s: byte %zu behind the output was written\n", what.c_str(), i);
      end_test();
    }
  return values;
}

struct Input {
  TensorDesc desc;
  Values values;
};

// What a dtype keeps of a value.
inline double rounded(DType dtype, double value) {
  char element[8] = {};
  put(element, dtype, 0, value);
  return get(element, dtype, 0);
}

inline std::mt19937& generator() {
  static std::mt19937 random(20240611);
  return random;
}

inline Input random_input(DType dtype, const Dims& shape, double low = -3, double high = 3) {
  Input input{TensorDesc::dense(dtype, shape), {}};
  std::uniform_real_distribution<double> real(low, high);
  for (int64_t i = 0; i < shape.product(); ++i) {
    double value = real(generator());
    if (!is_floating(dtype)) value = std::floor(value);
    if (dtype == DType::boolean) value = value > 0;
    if (dtype == DType::u8) value = std::fabs(value);
    input.values.push_back(rounded(dtype, value));
  }
  return input;
}

using Check = std::function<void(const Op& op, const std::vector<Values>& outputs, const std::string& what)>;

inline Op op_of(const char* name, const char* attributes, const std::vector<Input>& inputs) {
  const Schema* schema = find_schema(name);
  if (!schema) {
    std::fprintf(stderr, "op %s does not exist\n", name);
    end_test();
  }
  std::vector<TensorDesc> descs;
  for (const Input& input : inputs) descs.push_back(input.desc);
  return make_op(*schema, Attributes::parse(attributes), descs);
}

// The same inputs, but that the first one lies with its first two dimensions the other way round: a layout of which
// kernels know nothing but its strides.  None where it has no two.
inline std::vector<Input> exchanged(std::vector<Input> inputs) {
  if (inputs.empty() || !inputs[0].desc.present || inputs[0].desc.rank() < 2) return {};
  Input& x = inputs[0];
  Dims order;
  for (int d = 0; d < x.desc.rank(); ++d) order.push_back(d < 2 ? 1 - d : d);
  x.desc = TensorDesc::dense(x.desc.dtype, x.desc.shape, Layout::plain(x.desc.rank()).permuted(order));
  return inputs;
}

inline void require_candidates(const Op& op, const CandidateList& list) {
  if (!list.candidates.empty()) return;
  std::fprintf(stderr, "%s: no candidate: %s\n", op.str().c_str(),
               list.refusals.empty() ? "" : list.refusals[0].reason.c_str());
  end_test();
}

// Runs all candidates of an op.
inline void run_candidates(const Op& op, const CandidateList& list, const std::vector<Input>& inputs,
                           const Check& check);

// Runs all candidates; returns how many there were (at least one).
inline int run_all(const char* name, const char* attributes, const std::vector<Input>& inputs, const Check& check) {
  const auto cpu = make_cpu_device();
  const Op op = op_of(name, attributes, inputs);
  CandidateList list;
  host::HostProvider provider;
  provider.list(op, *cpu, list);
  require_candidates(op, list);
  run_candidates(op, list, inputs, check);
  if (const std::vector<Input> others = exchanged(inputs); !others.empty()) {
    const Op other = op_of(name, attributes, others);
    CandidateList more, fitting;
    provider.list(other, *cpu, more);
    for (Candidate& candidate : more.candidates)
      if (candidate.inputs[0].layout == others[0].desc.layout) fitting.add(std::move(candidate));
    run_candidates(other, fitting, others, check);
  }
  return int(list.candidates.size());
}

inline void run_candidates(const Op& op, const CandidateList& list, const std::vector<Input>& inputs,
                           const Check& check) {
  const auto cpu = make_cpu_device();
  for (const Candidate& candidate : list.candidates) {
    const std::string what = op.str() + " by " + candidate.key();
    std::vector<BufferRef> buffers;
    std::vector<Buffer*> in, out;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!candidate.inputs[i].present) {
        in.push_back(nullptr);
        continue;
      }
      const std::vector<char> bytes = store(candidate.inputs[i], inputs[i].values);
      buffers.push_back(cpu->allocate(bytes.size()));
      std::memcpy(buffers.back()->host(), bytes.data(), bytes.size());
      in.push_back(buffers.back().get());
    }
    for (const TensorDesc& desc : candidate.outputs) {
      buffers.push_back(cpu->allocate(desc.size_bytes() + 64));
      std::memset(buffers.back()->host(), 0x5a, desc.size_bytes() + 64);
      out.push_back(buffers.back().get());
    }
    BufferRef workspace;
    if (candidate.workspace_bytes) workspace = cpu->allocate(candidate.workspace_bytes);
    const auto packed = pack_inputs(*cpu, candidate, in);
    const auto kernel = candidate.prepare();
    for (int repetition = 0; repetition < 2; ++repetition) kernel->run({in.data(), out.data(), workspace.get()});
    std::vector<Values> results;
    for (size_t i = 0; i < out.size(); ++i) {
      const char* bytes = static_cast<const char*>(out[i]->host());
      results.push_back(fetch(candidate.outputs[i], {bytes, bytes + candidate.outputs[i].size_bytes() + 64}, what));
    }
    check(op, results, what);
    for (size_t n = 0; n < out.size(); ++n)
      for (size_t k = 0; k < inputs.size(); ++k) {
        const TensorDesc& result = candidate.outputs[n];
        const Result& declared = op.schema->results[std::min(n, op.schema->results.size() - 1)];
        if (!candidate.inputs[k].present || !same_memory(candidate.inputs[k], result) ||
            !((candidate.in_place & declared.overwrites) >> k & 1))
          continue;
        char* place = static_cast<char*>(out[n]->host());
        std::memcpy(place, store(candidate.inputs[k], inputs[k].values).data(), result.size_bytes());
        std::vector<Buffer*> from = in;
        from[k] = out[n];
        kernel->run({from.data(), out.data(), workspace.get()});
        const std::string how = concat(what, " over input ", k);
        results[n] = fetch(result, {place, place + result.size_bytes() + 64}, how);
        check(op, results, how);
      }
  }
}

// |result - expected| <= absolute + relative * |expected|; NaN equals NaN.
inline void compare(const Values& result, const Values& expected, double relative, double absolute,
                    const std::string& what) {
  if (result.size() != expected.size()) {
    std::fprintf(stderr, "%s: %zu elements, expected %zu\n", what.c_str(), result.size(), expected.size());
    end_test();
  }
  for (size_t i = 0; i < result.size(); ++i) {
    if (std::isnan(result[i]) && std::isnan(expected[i])) continue;
    if (result[i] == expected[i]) continue;
    if (!(std::fabs(result[i] - expected[i]) <= absolute + relative * std::fabs(expected[i]))) {
      std::fprintf(stderr, "%s: element %zu is %.9g, expected %.9g\n", what.c_str(), i, result[i], expected[i]);
      end_test();
    }
  }
}

// The relative rounding error of one operation's result.
inline double tolerance(DType dtype) {
  switch (dtype) {
    case DType::f32: return 1e-6;
    case DType::f16: return 1e-3;
    case DType::bf16: return 8e-3;
    default: return 0;
  }
}

// Compares one output with expected values, rounded to the output's dtype.
inline Check expect(Values expected, double factor = 1, double absolute = 0) {
  return [=](const Op& op, const std::vector<Values>& outputs, const std::string& what) {
    Values wanted = expected;
    for (double& value : wanted) value = rounded(op.out().dtype, value);
    const double relative = tolerance(op.out().dtype) * factor;
    compare(outputs[0], wanted, relative, std::max(absolute, relative * 1e-2), what);
  };
}

}  // namespace pl::host_testing
