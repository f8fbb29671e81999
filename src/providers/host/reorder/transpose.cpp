#include "providers/host/reorder/transpose.h"

#include <algorithm>
#include <cstring>

#include "providers/host/common/simd.h"

namespace pl::host {
namespace {

typedef uint32_t Words __attribute__((vector_size(32)));   // 8 elements of 4 bytes
typedef uint16_t Halves __attribute__((vector_size(16)));  // 8 elements of 2 bytes

// By reference: vectors are neither passed nor returned, as that would depend on the instruction set.
template <class V, class T>
PL_INLINE void load(V& v, const T* p) {
  std::memcpy(&v, p, sizeof(V));
}
template <class V, class T>
PL_INLINE void store(T* p, const V& v) {
  std::memcpy(p, &v, sizeof(V));
}

// 8 by 8 elements.  Interleaves pairs of rows, then pairs of those, then halves.
PL_INLINE void transpose_tile(const uint32_t* source, int64_t source_step, uint32_t* target, int64_t target_step) {
  Words r[8], s[8], t[8];
  for (int i = 0; i < 8; ++i) load(r[i], source + i * source_step);
  for (int i = 0; i < 4; ++i) {
    s[2 * i] = __builtin_shufflevector(r[2 * i], r[2 * i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    s[2 * i + 1] = __builtin_shufflevector(r[2 * i], r[2 * i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) {
      t[4 * i + 2 * j] = __builtin_shufflevector(s[4 * i + j], s[4 * i + 2 + j], 0, 1, 8, 9, 4, 5, 12, 13);
      t[4 * i + 2 * j + 1] = __builtin_shufflevector(s[4 * i + j], s[4 * i + 2 + j], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  for (int i = 0; i < 4; ++i) {
    store(target + i * target_step, __builtin_shufflevector(t[i], t[4 + i], 0, 1, 2, 3, 8, 9, 10, 11));
    store(target + (4 + i) * target_step, __builtin_shufflevector(t[i], t[4 + i], 4, 5, 6, 7, 12, 13, 14, 15));
  }
}
PL_INLINE void transpose_tile(const uint16_t* source, int64_t source_step, uint16_t* target, int64_t target_step) {
  Halves r[8], s[8], t[8];
  for (int i = 0; i < 8; ++i) load(r[i], source + i * source_step);
  for (int i = 0; i < 4; ++i) {
    s[2 * i] = __builtin_shufflevector(r[2 * i], r[2 * i + 1], 0, 8, 1, 9, 2, 10, 3, 11);
    s[2 * i + 1] = __builtin_shufflevector(r[2 * i], r[2 * i + 1], 4, 12, 5, 13, 6, 14, 7, 15);
  }
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) {
      t[4 * i + 2 * j] = __builtin_shufflevector(s[4 * i + j], s[4 * i + 2 + j], 0, 1, 8, 9, 2, 3, 10, 11);
      t[4 * i + 2 * j + 1] = __builtin_shufflevector(s[4 * i + j], s[4 * i + 2 + j], 4, 5, 12, 13, 6, 7, 14, 15);
    }
  for (int i = 0; i < 4; ++i) {
    store(target + (2 * i) * target_step, __builtin_shufflevector(t[i], t[4 + i], 0, 1, 2, 3, 8, 9, 10, 11));
    store(target + (2 * i + 1) * target_step, __builtin_shufflevector(t[i], t[4 + i], 4, 5, 6, 7, 12, 13, 14, 15));
  }
}
template <class T>
PL_INLINE void transpose_tile(const T* source, int64_t source_step, T* target, int64_t target_step) {
  for (int b = 0; b < 8; ++b)
    for (int a = 0; a < 8; ++a) target[b * target_step + a] = source[a * source_step + b];
}

template <class T>
PL_INLINE void transpose_plainly(const T* source, int64_t source_step, T* target, int64_t target_step, int64_t columns,
                                 int64_t rows) {
  for (int64_t b = 0; b < rows; ++b)
    for (int64_t a = 0; a < columns; ++a) target[b * target_step + a] = source[a * source_step + b];
}

// Few interleaved planes, as in images: the compiler knows their number.
template <int Columns, class T>
PL_INLINE void interleave(const T* __restrict source, int64_t source_step, T* __restrict target, int64_t rows) {
  for (int64_t b = 0; b < rows; ++b)
    for (int a = 0; a < Columns; ++a) target[b * Columns + a] = source[a * source_step + b];
}
template <int Rows, class T>
PL_INLINE void separate(const T* __restrict source, T* __restrict target, int64_t target_step, int64_t columns) {
  for (int64_t a = 0; a < columns; ++a)
    for (int b = 0; b < Rows; ++b) target[b * target_step + a] = source[a * Rows + b];
}

template <class T>
PL_VECTORISED void transpose(const void* source_data, int64_t source_step, void* target_data, int64_t target_step,
                             int64_t columns, int64_t rows) {
  const T* source = static_cast<const T*>(source_data);
  T* target = static_cast<T*>(target_data);
  if (target_step == columns && columns == 3) return interleave<3>(source, source_step, target, rows);
  if (target_step == columns && columns == 2) return interleave<2>(source, source_step, target, rows);
  if (source_step == rows && rows == 3) return separate<3>(source, target, target_step, columns);
  if (source_step == rows && rows == 2) return separate<2>(source, target, target_step, columns);
  // Along the rows of the target 16 elements at a time: a cache line of the source is used up at once.
  const int64_t whole_columns = columns / 8 * 8, whole_rows = rows / 8 * 8;
  for (int64_t first = 0; first < whole_rows; first += 16)
    for (int64_t a = 0; a < whole_columns; a += 8)
      for (int64_t b = first; b < std::min(first + 16, whole_rows); b += 8)
        transpose_tile(source + a * source_step + b, source_step, target + b * target_step + a, target_step);
  transpose_plainly(source + whole_columns * source_step, source_step, target + whole_columns, target_step,
                    columns - whole_columns, whole_rows);
  transpose_plainly(source + whole_rows, source_step, target + whole_rows * target_step, target_step, columns,
                    rows - whole_rows);
}

}  // namespace

TransposeRun transposer(size_t element_bytes) {
  switch (element_bytes) {
    case 1: return transpose<uint8_t>;
    case 2: return transpose<uint16_t>;
    case 4: return transpose<uint32_t>;
    default: return transpose<uint64_t>;
  }
}

}  // namespace pl::host
