// Attention on OpenCL: every candidate against loops in double precision, on devices without matrix units too, where
// the kernel has no instructions of theirs.
#include <limits>

#include "opencl_attention_cases.h"

using namespace pl;
using namespace pl::testing;

namespace {

const AttentionCase cases[] = {
    {{2, 3, 70, 64}, {2, 3, 53, 64}, {2, 3, 53, 64}, {}, ""},
    {{2, 37, 20}, {2, 45, 20}, {2, 45, 19}, {}, "scale=0.7"},  // rows are no whole pieces
    {{1, 2, 150, 32}, {1, 2, 150, 32}, {1, 2, 150, 32}, {}, "is_causal=true"},
    {{2, 2, 40, 16}, {2, 2, 197, 16}, {2, 2, 197, 32}, {40, 197}, "scale=-0.5"},
    {{2, 2, 33, 24}, {2, 2, 40, 24}, {2, 2, 40, 40}, {2, 1, 33, 40}, "", true},
    {{65, 128}, {20, 128}, {20, 96}, {}, "", true},
    {{2, 2, 3, 5, 7}, {2, 2, 3, 9, 7}, {2, 2, 3, 9, 1}, {2, 1, 1, 1, 9}, ""},
    {{2, 3, 70, 32}, {2, 3, 70, 32}, {2, 3, 70, 32}, {}, "is_causal=true", false, {3, 1, 1}},
    {{2, 33, 24}, {2, 40, 24}, {2, 40, 40}, {2, 33, 40}, "scale=-0.5", true, {2, 33, 1}},
};

// Few queries, for which keys are read in parts of 128.
const AttentionCase few_cases[] = {
    {{2, 3, 1, 64}, {2, 3, 300, 64}, {2, 3, 300, 64}, {2, 1, 1, 300}, ""},
    {{2, 8, 1, 40}, {2, 2, 257, 40}, {2, 2, 257, 24}, {}, "enable_gqa=true scale=0.7"},
    {{1, 6, 2, 16}, {1, 2, 129, 16}, {1, 2, 129, 8}, {1, 6, 2, 129}, "enable_gqa=true softcap=2.0", false, {6, 2, 1}},
    {{3, 7, 24}, {3, 128, 24}, {3, 128, 40}, {3, 7, 128}, "scale=-0.5", true},
    {{8, 128}, {5, 128}, {5, 256}, {}, "is_causal=true"},
    {{5, 3, 8}, {5, 400, 8}, {5, 400, 128}, {3, 400}, "", false, {3, 1}},
};

bool is_ours(const Candidate& candidate) { return candidate.implementation.rfind("attention_mma", 0) == 0; }

// A mask of booleans: the same as one of 0 and -infinity.
void check_bool(Provider& provider, Device& device) {
  const Dims shape{2, 3, 20, 16};
  const auto tensor = [](DType dtype, const Dims& dims) { return TensorDesc::dense(dtype, dims); };
  const TensorDesc rows = tensor(DType::f32, shape);
  const Op op = make_op(*find_schema("scaled_dot_product_attention"), {},
                        {rows, rows, rows, tensor(DType::boolean, Dims{20, 20})});
  const Op added =
      make_op(*find_schema("scaled_dot_product_attention"), {}, {rows, rows, rows, tensor(DType::f32, Dims{20, 20})});
  std::vector<std::vector<float>> data;
  for (unsigned i = 0; i < 3; ++i) {
    data.emplace_back();
    for (double value : random_array(shape, DType::f32, 500 + i).values) data.back().push_back(float(value));
  }
  std::vector<unsigned char> seen;
  std::vector<float> sums;
  for (int i = 0; i < 400; ++i) {
    seen.push_back(i / 20 != 7 && i % 3 != 1);
    sums.push_back(seen.back() ? 0.0f : -INFINITY);
  }
  const auto run = [&](const Op& asked, const void* mask, size_t bytes) {
    CandidateList list;
    if (opencl::OpenclDevice* target = opencl::as_opencl(device)) opencl::list_attention_mma(asked, *target, list);
    provider.list(asked, device, list);
    std::vector<std::vector<float>> results;
    for (const Candidate& candidate : list.candidates) {
      if (!candidate.outputs[0].layout.is_plain() || candidate.outputs[0].layout != Layout::plain(4)) continue;
      std::vector<BufferRef> buffers;
      std::vector<Buffer*> in;
      const auto put_there = [&](const void* from, size_t size) {
        buffers.push_back(device.allocate(size));
        device.write(*buffers.back(), 0, from, size);
        return buffers.back().get();
      };
      for (const auto& values : data) in.push_back(put_there(values.data(), values.size() * 4));
      in.push_back(put_there(mask, bytes));
      const BufferRef dst = device.allocate(data[0].size() * 4);
      Buffer* out = dst.get();
      candidate.prepare()->run({in.data(), &out, nullptr});
      results.emplace_back(data[0].size());
      device.read(*dst, 0, results.back().data(), results.back().size() * 4);
    }
    return results;
  };
  const auto booleans = run(op, seen.data(), seen.size()), numbers = run(added, sums.data(), sums.size() * 4);
  REQUIRE(!booleans.empty());
  REQUIRE(booleans.size() == numbers.size());
  for (size_t i = 0; i < booleans.size(); ++i)
    for (size_t e = 0; e < booleans[i].size(); ++e) {
      CHECK(std::fabs(booleans[i][e] - numbers[i][e]) < 1e-6f);
      if (e / 16 % 20 == 7) CHECK(booleans[i][e] == 0.0f);
    }
}

// Sums that are scaled by a little more or less than 1 at each tile drift away from later ones.
void check_drift(Candidates& candidates) {
  constexpr int64_t kKeys = 2048;
  std::vector<Array> inputs{Array(Dims{1, 16, 16}), Array(Dims{1, kKeys, 16}), Array(Dims{1, kKeys, 8})};
  for (double& value : inputs[0].values) value = rounded(1.1, DType::f32);
  for (double& value : inputs[1].values) value = rounded(3.3, DType::f32);
  for (size_t i = 0; i < inputs[2].values.size(); ++i) inputs[2].values[i] = i < inputs[2].values.size() / 2 ? 1 : -1;
  candidates.check("scaled_dot_product_attention", {}, DType::f32, inputs,
                   [&](const Op& op) { return attended(op, inputs); });
}

// A mask that leaves few of many keys, in some parts none, and to one query nothing at all.
void check_hidden_parts(Candidates& candidates) {
  for (const DType dtype : {DType::f32, DType::f16})
    for (const int64_t shown : {0, 1, 130, 700}) {
      const Dims q{2, 4, 2, 32}, k{2, 2, 700, 32};
      std::vector<Array> inputs{random_array(q, dtype, 71), random_array(k, dtype, 72), random_array(k, dtype, 73),
                                random_array({2, 1, 2, 700}, dtype, 74)};
      for (size_t at = 0; at < inputs[3].values.size(); ++at)
        if (int64_t(at % 700) >= shown - int64_t(at / 700)) inputs[3].values[at] = -INFINITY;
      candidates.check("scaled_dot_product_attention", Attributes::parse("enable_gqa=true"), dtype, inputs,
                       [&](const Op& op) { return attended(op, inputs); });
    }
}

// Keys that have the lowest number for a mask are seen where a query has no others: all alike.
void check_lowest(Candidates& candidates) {
  const Dims q{1, 2, 2, 32}, k{1, 2, 200, 32};
  std::vector<Array> inputs{random_array(q, DType::f32, 81), random_array(k, DType::f32, 82),
                            random_array(k, DType::f32, 83), random_array({1, 1, 2, 200}, DType::f32, 84)};
  for (size_t at = 0; at < inputs[3].values.size(); ++at)
    if (at < 200 || at % 2) inputs[3].values[at] = -double(std::numeric_limits<float>::max());
  candidates.check("scaled_dot_product_attention", {}, DType::f32, inputs,
                   [&](const Op& op) { return attended(op, inputs); });
}

TEST("all") {
  Candidates candidates;
  candidates.unoptimised_on_cpus();
  if (candidates.no_devices()) SKIP("no OpenCL device here");
  // Building programs takes most of the time: on processors, of the tiles every third, another third each time. Each of
  // them: test_opencl_points_attention.
  bool gpu = false;
  for (const auto& device : candidates.devices())
    if (const opencl::OpenclDevice* target = opencl::as_opencl(*device)) gpu |= !target->capabilities().cpu;
  size_t number = 0;
  const auto is_in_turn = [&](const Candidate& candidate) { return is_ours(candidate) && (gpu || number++ % 3 == 0); };
  candidates.filter = [&](const Candidate& candidate) {
    return is_in_turn(candidate) || candidate.implementation == "attention_rows";
  };
  for (const AttentionCase& c : cases)
    for (DType dtype : {DType::f32, DType::f16, DType::bf16}) check(candidates, c, dtype);
  candidates.filter = [](const Candidate& candidate) { return candidate.implementation == "attention_few"; };
  for (const AttentionCase& c : few_cases)
    for (DType dtype : {DType::f32, DType::f16}) check(candidates, c, dtype);
  check(candidates, few_cases[1], DType::bf16);
  check_hidden_parts(candidates);
  check_lowest(candidates);
  candidates.filter = is_in_turn;
  check_lowest(candidates);
  check_drift(candidates);
  candidates.math = Math::tf32;
  candidates.filter = is_in_turn;
  for (int i : {0, 3, 4}) check(candidates, cases[i], DType::f32);
  candidates.math = Math::fp32;
  for (const auto& provider : make_providers())
    if (provider->name() == "opencl")
      for (const auto& device : provider->devices()) check_bool(*provider, *device);
  for (const std::string& name : candidates.implementations) std::printf("ran %s\n", name.c_str());
}

}  // namespace
