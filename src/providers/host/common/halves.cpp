#include "providers/host/common/halves.h"

#include "providers/host/common/simd.h"

#if PL_HAS_CLONES
#include <immintrin.h>
#define PL_FOR_TARGET(name) __attribute__((target(name)))
#else
#define PL_FOR_TARGET(name)
#endif

namespace pl::host {
namespace {

PL_FOR_TARGET("default") void widen_all(const Half* source, float* target, int64_t n) {
  for (int64_t i = 0; i < n; ++i) target[i] = widen(source[i]);
}
PL_FOR_TARGET("default") void narrow_all(const float* source, Half* target, int64_t n) {
  for (int64_t i = 0; i < n; ++i) target[i] = narrow_half(source[i]);
}
PL_FOR_TARGET("default") void narrow_all(const float* source, BFloat16* target, int64_t n) {
  for (int64_t i = 0; i < n; ++i) target[i] = narrow_bfloat16(source[i]);
}

#if PL_HAS_CLONES

PL_FOR_TARGET("arch=x86-64-v3") void widen_all(const Half* source, float* target, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(target + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(source + i))));
  for (; i < n; ++i) target[i] = _cvtsh_ss(source[i].bits);
}
PL_FOR_TARGET("arch=x86-64-v3") void narrow_all(const float* source, Half* target, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(target + i), _mm256_cvtps_ph(_mm256_loadu_ps(source + i), 0));
  for (; i < n; ++i) target[i] = {uint16_t(_cvtss_sh(source[i], 0))};
}
// Each in the lower half of 32 bits.
PL_FOR_TARGET("arch=x86-64-v3") PL_INLINE __m256i narrowed(const float* source) {
  const __m256 x = _mm256_loadu_ps(source);
  const __m256i bits = _mm256_castps_si256(x), upper = _mm256_srli_epi32(bits, 16);
  const __m256i half = _mm256_add_epi32(_mm256_and_si256(upper, _mm256_set1_epi32(1)), _mm256_set1_epi32(0x7fff));
  const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, half), 16);
  const __m256i nan = _mm256_or_si256(upper, _mm256_set1_epi32(0x40));
  return _mm256_blendv_epi8(rounded, nan, _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
}
PL_FOR_TARGET("arch=x86-64-v3") void narrow_all(const float* source, BFloat16* target, int64_t n) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m256i packed = _mm256_packus_epi32(narrowed(source + i), narrowed(source + i + 8));  // in turns of 4
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(target + i), _mm256_permute4x64_epi64(packed, 0xd8));
  }
  for (; i < n; ++i) target[i] = narrow_bfloat16(source[i]);
}

PL_FOR_TARGET("arch=x86-64-v4") void widen_all(const Half* source, float* target, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) {
    const auto used = __mmask16(n - i < 16 ? (1u << (n - i)) - 1 : 0xffffu);
    _mm512_mask_storeu_ps(target + i, used, _mm512_maskz_cvtph_ps(used, _mm256_maskz_loadu_epi16(used, source + i)));
  }
}
PL_FOR_TARGET("arch=x86-64-v4") void narrow_all(const float* source, Half* target, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) {
    const auto used = __mmask16(n - i < 16 ? (1u << (n - i)) - 1 : 0xffffu);
    _mm256_mask_storeu_epi16(target + i, used, _mm512_maskz_cvtps_ph(used, _mm512_maskz_loadu_ps(used, source + i), 0));
  }
}
PL_FOR_TARGET("arch=x86-64-v4") void narrow_all(const float* source, BFloat16* target, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) {
    const auto used = __mmask16(n - i < 16 ? (1u << (n - i)) - 1 : 0xffffu);
    const __m512 x = _mm512_maskz_loadu_ps(used, source + i);
    const __m512i bits = _mm512_castps_si512(x), upper = _mm512_maskz_srli_epi32(used, bits, 16);
    const __m512i half = _mm512_add_epi32(_mm512_and_si512(upper, _mm512_set1_epi32(1)), _mm512_set1_epi32(0x7fff));
    const __m512i rounded = _mm512_maskz_srli_epi32(used, _mm512_add_epi32(bits, half), 16);
    const __m512i made =
        _mm512_mask_or_epi32(rounded, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), upper, _mm512_set1_epi32(0x40));
    _mm512_mask_cvtepi32_storeu_epi16(target + i, used, made);
  }
}

#endif

}  // namespace

void widen_run(const Half* source, float* target, int64_t n) { widen_all(source, target, n); }
void narrow_run(const float* source, Half* target, int64_t n) { narrow_all(source, target, n); }
void narrow_run(const float* source, BFloat16* target, int64_t n) { narrow_all(source, target, n); }

}  // namespace pl::host
