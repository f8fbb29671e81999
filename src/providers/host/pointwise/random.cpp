// Kinds random and random_permutation: numbers by the number of each element.
#include <cmath>

#include "ops/random_words.h"
#include "providers/host/common/host.h"
#include "providers/host/common/philox.h"

namespace pl::host {
namespace {

// What random_uniform and its like do with the four words of a counter.  Arithmetic of f32, with fma where the
// definition rounds once, so that it gives what kernels of other devices give.
struct Uniform {
  int digits;  // of the dtype
  float low, high, width;
  DType dtype;

  float rounded(float value) const {
    if (dtype == DType::f16) return widen(narrow_half(value));
    return dtype == DType::bf16 ? widen(narrow_bfloat16(value)) : value;
  }
  void operator()(const uint32_t* words, float* y) const {
    const float unit = std::ldexp(1.0f, -digits);
    for (int k = 0; k < 4; ++k) {
      const float value = rounded(std::fma(width, float(words[k] >> (32 - digits)) * unit, low));
      y[k] = value >= high ? low : value;
    }
  }
};

// Greater than 0 and less than 1.
float between(uint32_t word) { return float(2 * (word >> 9) + 1) * 0x1p-24f; }

struct Normal {
  float mean, deviation;

  void operator()(const uint32_t* words, float* y) const {
    for (int k = 0; k < 4; k += 2) {
      const float radius = std::sqrt(-2.0f * std::log(between(words[k])));
      const float angle = 6.2831853f * (between(words[k + 1]) - 0.5f);
      y[k] = std::fma(deviation, radius * std::cos(angle), mean);
      y[k + 1] = std::fma(deviation, radius * std::sin(angle), mean);
    }
  }
};

struct Exponential {
  float rate;

  void operator()(const uint32_t* words, float* y) const {
    for (int k = 0; k < 4; ++k) y[k] = -std::log(between(words[k])) / rate;
  }
};

struct Bernoulli {
  uint64_t limit;

  void operator()(const uint32_t* words, int64_t* y) const {
    for (int k = 0; k < 4; ++k) y[k] = words[k] < limit;
  }
};

struct Integers {
  int64_t low;
  uint64_t count;  // 0: 2^64

  int64_t from(uint64_t word) const { return int64_t(uint64_t(low) + (count ? word % count : word)); }
  void operator()(const uint32_t* words, int64_t* y) const {
    for (int k = 0; k < 4; ++k) y[k] = from(words[k]);
  }
};

// Two words an element.
struct WideIntegers : Integers {
  void operator()(const uint32_t* words, int64_t* y) const {
    for (int k = 0; k < 2; ++k) y[k] = from(words[2 * k] | uint64_t(words[2 * k + 1]) << 32);
  }
};

template <class C, int64_t kEach, class Values>
struct RandomBody {
  int64_t count, seeds;
  Values values;
  StoreRun<C> store;

  void operator()(const KernelArguments& arguments) const {
    const PhiloxSeed seed(input(arguments, 0), seeds);
    parallel_for((count + kChunk - 1) / kChunk, 6.0 * kChunk, [&](int64_t begin, int64_t end) {
      constexpr int64_t kCounters = kChunk / kEach;
      static_assert(kChunk % kEach == 0 && kCounters % PhiloxSeed::kBlock == 0);
      C made[kChunk + 4];
      uint32_t words[4 * kCounters];
      for (int64_t at = begin * kChunk; at < std::min(end * kChunk, count); at += kChunk) {
        const int64_t n = std::min(kChunk, count - at);
        seed.fill(uint64_t(at) / kEach, (n + kEach - 1) / kEach, words);
        for (int64_t i = 0; i < n; i += kEach) values(words + i / kEach * 4, made + i);
        store(made, n, output(arguments), at, 1);
      }
    });
  }
};

template <class C, int64_t kEach = 4, class Values>
void add_random(const Op& op, CandidateList& out, const Values& values, StoreRun<C> store) {
  const RandomBody<C, kEach, Values> body{op.out().elements(), op.in(0).elements(), values, store};
  add_candidate(out, "random", Quality::fair, {dense_plain(op.in(0))}, {dense_plain(op.out())},
                [body] { return body; });
}

void list_random(const Op& op, CandidateList& out) {
  const Attributes& given = op.attributes;
  const std::string& distribution = given[attr::distribution];
  const DType dtype = op.out().dtype;
  const auto number = [&](const Key<double>& key) { return float(given[key]); };
  if (distribution == "uniform") {
    const int digits = dtype == DType::f16 ? 11 : dtype == DType::bf16 ? 8 : 24;
    const Uniform values{digits, number(attr::low), number(attr::high), float(given[attr::high] - given[attr::low]),
                         dtype};
    return add_random(op, out, values, float_storer(dtype));
  }
  if (distribution == "normal")
    return add_random(op, out, Normal{number(attr::mean), number(attr::std)}, float_storer(dtype));
  if (distribution == "exponential") return add_random(op, out, Exponential{number(attr::rate)}, float_storer(dtype));
  if (distribution == "bernoulli")
    return add_random(op, out, Bernoulli{words_below(given[attr::p])}, integer_storer(dtype));
  const int64_t low = given[attr::low_int];
  const uint64_t count = uint64_t(given[attr::high_int]) - uint64_t(low) + 1;
  if (count == 0 || count > uint64_t(1) << 32)
    return add_random<int64_t, 2>(op, out, WideIntegers{{low, count}}, integer_storer(dtype));
  add_random(op, out, Integers{low, count}, integer_storer(dtype));
}
PL_HOST_KIND("random", list_random);

// ---- random_permutation

constexpr uint32_t kRounds = 12;

struct Permutation {
  int64_t count, seeds;
  int bits;  // of a half

  void operator()(const KernelArguments& arguments) const {
    const PhiloxSeed seed(input(arguments, 0), seeds);
    int64_t* y = static_cast<int64_t*>(output(arguments));
    const uint32_t mask = (uint32_t(1) << bits) - 1;
    parallel_for(count, 300.0, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        uint64_t value = uint64_t(i);
        do {
          uint32_t left = uint32_t(value >> bits), right = uint32_t(value) & mask;
          for (uint32_t round = 0; round < kRounds; ++round) {
            const uint32_t mixed = philox(seed.first, right | uint64_t(round) << 32, seed.key).word[0];
            const uint32_t next = left ^ (mixed & mask);
            left = right;
            right = next;
          }
          value = uint64_t(left) << bits | right;
        } while (value >= uint64_t(count));
        y[i] = int64_t(value);
      }
    });
  }
};

void list_permutation(const Op& op, CandidateList& out) {
  const int64_t count = op.attributes[attr::n];
  int bits = 4;
  while (count > int64_t(1) << (2 * bits)) ++bits;
  const Permutation body{count, op.in(0).elements(), bits};
  add_candidate(out, "random_permutation", Quality::fair, {dense_plain(op.in(0))}, {dense_plain(op.out())},
                [body] { return body; });
}
PL_HOST_KIND("random_permutation", list_permutation);

}  // namespace
}  // namespace pl::host
