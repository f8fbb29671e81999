#include "core/dtype.h"

#include <cstring>

#include "core/status.h"

namespace pl {
namespace {

struct Info {
  const char* name;
  size_t bytes;
  bool floating;
};
constexpr Info kInfo[kDTypeCount] = {{"f32", 4, true}, {"f16", 2, true},  {"bf16", 2, true}, {"s8", 1, false},
                                     {"u8", 1, false}, {"s32", 4, false}, {"s64", 8, false}, {"bool", 1, false}};

}  // namespace

size_t size_of(DType dtype) { return kInfo[size_t(dtype)].bytes; }
const char* name_of(DType dtype) { return kInfo[size_t(dtype)].name; }
bool is_floating(DType dtype) { return kInfo[size_t(dtype)].floating; }

DType parse_dtype(std::string_view name) {
  std::string known;
  for (int i = 0; i < kDTypeCount; ++i) {
    if (name == kInfo[i].name) return DType(i);
    known += std::string(i ? ", " : "") + kInfo[i].name;
  }
  fail(Code::invalid_argument, "dtype \"", name, "\" is not known; expected one of ", known);
}

// IEEE 754-2008 binary16.
float half_to_float(uint16_t half) {
  const uint32_t sign = uint32_t(half & 0x8000u) << 16;
  uint32_t exponent = (half >> 10) & 0x1fu, mantissa = half & 0x3ffu, bits;
  if (exponent == 0x1f) {
    bits = sign | 0x7f800000u | (mantissa << 13);
  } else if (exponent) {
    bits = sign | ((exponent + 112) << 23) | (mantissa << 13);
  } else {  // zero or subnormal: mantissa * 2^-24, exact in binary32
    float magnitude = float(mantissa) * 5.9604644775390625e-8f;
    std::memcpy(&bits, &magnitude, 4);
    bits |= sign;
  }
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

uint16_t float_to_half(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  const uint16_t sign = uint16_t((bits >> 16) & 0x8000u);
  bits &= 0x7fffffffu;
  if (bits > 0x7f800000u) return uint16_t(sign | 0x7e00u);   // NaN stays NaN
  if (bits >= 0x477ff000u) return uint16_t(sign | 0x7c00u);  // 65520 and above round to infinity
  if (bits < 0x38800000u) {                                  // below 2^-14: subnormal, in units of 2^-24
    float magnitude;
    std::memcpy(&magnitude, &bits, 4);
    magnitude += 0.5f;  // places the unit 2^-24 at the last mantissa bit; the addition rounds to nearest even
    std::memcpy(&bits, &magnitude, 4);
    return uint16_t(sign | (bits - 0x3f000000u));
  }
  const uint32_t odd = (bits >> 13) & 1u;
  return uint16_t(sign | ((bits - 0x38000000u + 0xfffu + odd) >> 13));
}

float bfloat16_to_float(uint16_t value) {
  const uint32_t bits = uint32_t(value) << 16;
  float result;
  std::memcpy(&result, &bits, 4);
  return result;
}

uint16_t float_to_bfloat16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return uint16_t((bits >> 16) | 0x40u);
  return uint16_t((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace pl
