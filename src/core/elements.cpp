#include "core/elements.h"

#include <cstring>

namespace pl {

double load(DType dtype, const void* from) {
  const auto as = [from](auto value) {
    std::memcpy(&value, from, sizeof value);
    return value;
  };
  switch (dtype) {
    case DType::f32: return as(float());
    case DType::f16: return half_to_float(as(uint16_t()));
    case DType::bf16: return bfloat16_to_float(as(uint16_t()));
    case DType::s8: return as(int8_t());
    case DType::u8:
    case DType::boolean: return as(uint8_t());
    case DType::s32: return as(int32_t());
    case DType::s64: return double(as(int64_t()));
  }
  return 0;
}

void store(DType dtype, void* to, double value) {
  const auto put = [to](auto number) { std::memcpy(to, &number, sizeof number); };
  switch (dtype) {
    case DType::f32: return put(float(value));
    case DType::f16: return put(float_to_half(float(value)));
    case DType::bf16: return put(float_to_bfloat16(float(value)));
    case DType::s8: return put(int8_t(value));
    case DType::u8:
    case DType::boolean: return put(uint8_t(value));
    case DType::s32: return put(int32_t(value));
    case DType::s64: return put(int64_t(value));
  }
}

}  // namespace pl
