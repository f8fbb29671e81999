// Element types and their conversions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace pl {

enum class DType : uint8_t { f32, f16, bf16, s8, u8, s32, s64, boolean };
constexpr int kDTypeCount = 8;

size_t size_of(DType dtype);               // bytes per element
const char* name_of(DType dtype);          // "f32", "bf16", "bool"...
DType parse_dtype(std::string_view name);  // throws Error(invalid_argument) that lists the known names
bool is_floating(DType dtype);

// Scalar conversions, round to nearest even; used by the host provider and tests, not by hot loops of others.
float half_to_float(uint16_t half);
uint16_t float_to_half(float value);
float bfloat16_to_float(uint16_t value);
uint16_t float_to_bfloat16(float value);

}  // namespace pl
