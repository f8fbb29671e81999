// The host provider's conversions and casts of runs of numbers: bit by bit what scalar code makes of them.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#include "host_testing.h"
#include "providers/host/common/elements.h"

using namespace pl;

namespace {

// The vector conversions against the scalar ones of core/dtype.h, on every half and on awkward floats: one by one, and
// in runs of every length up to two vectors, between others that stay as they are.
template <class From, class To>
void check_runs(const std::vector<From>& source, const std::vector<To>& expected, const To& guard,
                const std::function<void(const From*, int64_t, To*)>& convert,
                const std::function<bool(To, To)>& same) {
  std::vector<To> made(64);
  int64_t length = 1;
  for (size_t i = 0; i < source.size(); i += size_t(length), length = length % 40 + 1) {
    length = std::min(length, int64_t(source.size() - i));
    std::fill(made.begin(), made.end(), guard);
    convert(source.data() + i, length, made.data() + 1);
    CHECK(same(made[0], guard) && same(made[size_t(length) + 1], guard));
    for (int64_t k = 0; k < length; ++k) CHECK(same(made[size_t(k) + 1], expected[i + size_t(k)]));
  }
}

void add_floats_of_any_bits(int count, std::vector<float>& floats) {
  uint32_t bits = 12345;
  for (int i = 0; i < count; ++i) {
    bits = bits * 1664525u + 1013904223u;
    float value;
    std::memcpy(&value, &bits, 4);
    floats.push_back(value);
  }
}

TEST("conversions") {
  const auto same_float = [](float a, float b) {
    return std::memcmp(&a, &b, 4) == 0 || (std::isnan(a) && std::isnan(b));
  };
  std::vector<uint16_t> halves;
  std::vector<float> floats;
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    halves.push_back(uint16_t(bits));
    floats.push_back(half_to_float(uint16_t(bits)));
  }
  check_runs<uint16_t, float>(
      halves, floats, 1234.0f,
      [](const uint16_t* x, int64_t n, float* y) { host::float_loader(DType::f16)(x, 0, 1, n, y); }, same_float);
  add_floats_of_any_bits(2000000, floats);
  const struct {
    DType dtype;
    uint16_t (*narrow)(float);
    float (*widen)(uint16_t);
  } kinds[] = {{DType::f16, float_to_half, half_to_float}, {DType::bf16, float_to_bfloat16, bfloat16_to_float}};
  for (const auto& kind : kinds) {
    std::vector<uint16_t> expected;
    for (const float value : floats) expected.push_back(kind.narrow(value));
    check_runs<float, uint16_t>(
        floats, expected, 0x1234,
        [&](const float* x, int64_t n, uint16_t* y) { host::float_storer(kind.dtype)(x, n, y, 0, 1); },
        [&](uint16_t a, uint16_t b) { return a == b || (std::isnan(kind.widen(a)) && std::isnan(kind.widen(b))); });
    uint16_t one;
    for (size_t i = 0; i < floats.size(); i += 97) {
      host::float_storer(kind.dtype)(&floats[i], 1, &one, 0, 2);  // as of a strided view
      CHECK(one == expected[i] || std::isnan(floats[i]));
    }
  }
}

template <class To>
void check_unlimited_casts(const std::vector<float>& floats, DType to) {
  using Wide = std::conditional_t<sizeof(To) == 8, int64_t, int32_t>;
  const double bound = -double(std::numeric_limits<Wide>::min());
  const auto cut = [&](float value) {
    const bool fits = std::fabs(double(value)) < bound;
    return To(fits ? Wide(value) : std::numeric_limits<Wide>::min());
  };
  const auto same = [](To a, To b) { return a == b; };
  std::vector<To> expected;
  for (const float value : floats) expected.push_back(cut(value));
  const host::ConvertRun cast = host::unlimited_caster(DType::f32, to);
  check_runs<float, To>(
      floats, expected, To(77), [&](const float* x, int64_t n, To* y) { cast(x, 0, 1, y, 0, 1, n); }, same);
  To one;
  for (size_t i = 0; i < floats.size(); i += 97) {  // as of a strided view
    cast(floats.data(), int64_t(i), 3, &one, 0, 2, 1);
    CHECK(one == expected[i]);
  }
  for (const DType from : {DType::f16, DType::bf16}) {
    std::vector<uint16_t> halves;
    std::vector<To> of_halves;
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      halves.push_back(uint16_t(bits));
      of_halves.push_back(cut(from == DType::f16 ? half_to_float(uint16_t(bits)) : bfloat16_to_float(uint16_t(bits))));
    }
    const host::ConvertRun of_half = host::unlimited_caster(from, to);
    check_runs<uint16_t, To>(
        halves, of_halves, To(77), [&](const uint16_t* x, int64_t n, To* y) { of_half(x, 0, 1, y, 0, 1, n); }, same);
  }
}

// Floats that an integer cannot hold, and NaN, become the least one.
TEST("unlimited_casts") {
  std::vector<float> floats;
  add_floats_of_any_bits(300000, floats);
  for (const float bound : {2147483648.0f, 9223372036854775808.0f})
    for (const float away : {-1.0f, 1.0f})
      for (const float towards : {0.0f, std::numeric_limits<float>::infinity()}) {
        floats.push_back(away * bound);
        floats.push_back(away * std::nextafter(bound, towards));
      }
  check_unlimited_casts<int8_t>(floats, DType::s8);
  check_unlimited_casts<uint8_t>(floats, DType::u8);
  check_unlimited_casts<int32_t>(floats, DType::s32);
  check_unlimited_casts<int64_t>(floats, DType::s64);
}

}  // namespace
