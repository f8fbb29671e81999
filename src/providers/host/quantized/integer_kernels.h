// Products of integers of 8 bits: the jobs that the vector code does, and the table of that code by instruction set.
// integer_products.cpp and integer_winograd.cpp make the jobs, integer_micro.h does them.
//
// Sums are exact for all values, in two ways:
//   narrow  u8 by s8, four terms at a time, as AVX2 multiplies them: sums of two products in 16 bits, which saturate
//           where two weights of the same sign reach beyond 128.  x is u8; of s8 the first bit is turned, and 128 is a
//           part of its zero point, which is applied to the sums of the weights.
//   wide    s16 by s16: x less its zero point, weights widened as they are loaded.
// Which of the two is decided when weights are packed, for each step: four terms of the columns of two vectors.  A
// narrow step is plain, where its terms lie side by side in x, or gathered: where neighbours do not fit, each term is
// multiplied beside another one of the 16 that lie around it.  Instructions that add products in 32 bits (VNNI) have
// plain steps alone.  On a Zen 3 plain steps have 1.9 times the multiply-adds of f32, gathered ones 1.7, wide ones 1.4.
#pragma once

#include <cstdint>

#include "providers/host/conv/conv_kernels.h"

namespace pl::host {

// A post-op on real numbers.
struct IntegerStep {
  enum class Kind { scale, clamp, round, add, other };
  Kind kind = Kind::scale;
  float factor = 1;         // of scale, and of round, which then limits what it rounded and multiplies that
  float low = 0, high = 0;  // of clamp and round
  Finish::Run other = nullptr;
  double alpha = 0, beta = 0;  // of other
};

// What becomes of the sums of a tile.
struct IntegerResult {
  enum class Form { sums, reals, unsigned_bytes, signed_bytes };
  static constexpr int kMostSteps = 12;
  Form form = Form::sums;
  void* y = nullptr;
  int64_t pixel = 0;  // elements between neighbouring pixels of y; columns lie side by side
  // By column, filled up to whole vectors.
  const int32_t* initial = nullptr;  // added to the sums; null: nothing
  const float* factor = nullptr;     // reals are sums * factor + bias
  const float* bias = nullptr;       // null: none
  // Of bytes: limits of what is rounded, before the zero point is added; the lower one of the integer.
  int32_t low = 0;
  float high = 0;
  int32_t zero = 0;
  int step_count = 0;
  IntegerStep steps[kMostSteps];
  // Of the step `add`: laid out as y, of bytes; (addend - addend_zero) * addend_scale is added.
  const void* addend = nullptr;
  bool signed_addend = false;
  float addend_scale = 1, addend_zero = 0;
};

// y[pixel, column] = sum over steps, and the four terms k of each, of x[offsets[pixel] + places[step] + k] * w[column];
// of gathered steps, terms are x[offsets[pixel] + places[step] + orders[step][k]].
// Two vectors of columns go together, a panel; the last one may have a single vector.
struct IntegerProduct {
  const uint8_t* narrow = nullptr;   // x as it is
  const int16_t* wide = nullptr;     // x less its zero point; null where no step is wide
  const int32_t* offsets = nullptr;  // by pixel of the block
  int64_t steps = 0;
  // Panels one after the other; of a step for each vector, then each column, its four weights; of a wide step those of
  // the first two terms for each vector, then of the others.
  const int8_t* weights = nullptr;
  const int32_t* places = nullptr;        // of the steps of each panel: plain ones, gathered ones, wide ones
  const int32_t* orders = nullptr;        // of the same steps: of four bytes, each under 16
  const int32_t* plain_steps = nullptr;   // how many, by panel
  const int32_t* narrow_steps = nullptr;  // plain and gathered ones
  int64_t columns = 0;
  IntegerResult result;  // y and addend: of the block's first pixel and column 0
};

// The same of one long term, x and weights of 16 bits.
struct WideProduct {
  const int16_t* x = nullptr;
  const int32_t* offsets = nullptr;
  int64_t depth = 0;                 // even
  const int16_t* weights = nullptr;  // of two terms for each vector of the call, then each column, its two weights
  int64_t columns = 0;
  IntegerResult result;
};

// One filter for each channel, all channels side by side.
struct IntegerDepthwise {
  const int16_t* x = nullptr;
  const int32_t* offsets = nullptr;  // by pixel of the block
  const int32_t* taps = nullptr;     // an even number, the last one twice where there are odd ones
  int64_t tap_count = 0;
  const int16_t* weights = nullptr;  // two vectors of channels v, taps t and t + 1: (v * tap_count + t) * 2 * width
  int64_t columns = 0;
  IntegerResult result;
};

// The end of a 3x3 convolution by Winograd's F(2x2, 3x3): tiles of 2 x 2 pixels from 16 products, four times too large.
struct IntegerTiles {
  struct Place {
    int64_t pixel;      // of the tile's first one
    int rows, columns;  // 1 or 2
  };
  const int32_t* products = nullptr;  // element i of tile t at (i * tiles + t) * pitch
  int64_t tiles = 0, pitch = 0;
  const Place* places = nullptr;
  int64_t row = 0;  // pixels from a row of y to the next one
  int64_t columns = 0;
  IntegerResult result;
};

struct IntegerKernels {
  const char* isa;
  int width;       // sums a vector
  bool saturates;  // sums of two products have 16 bits
  // Pixels [first, last) of the block by vectors of columns [first_vector, last_vector).
  // first_vector is even.
  void (*product)(const IntegerProduct& job, int64_t first, int64_t last, int64_t first_vector, int64_t last_vector);
  // The same, at most two vectors.
  void (*wide_product)(const WideProduct& job, int64_t first, int64_t last, int64_t first_vector, int64_t last_vector);
  // Pixels [first, last) of all channels.
  void (*depthwise)(const IntegerDepthwise& job, int64_t first, int64_t last);
  // Vectors of columns [first_vector, last_vector), at most two, which the products begin with.
  void (*tiles)(const IntegerTiles& job, int64_t first_vector, int64_t last_vector);
};

// Best first, those that this processor runs; ends with null.
const IntegerKernels* const* all_integer_kernels();

// One for each instruction set; null where the compiler or the architecture has none.
const IntegerKernels* integer_kernels_avx2();
const IntegerKernels* integer_kernels_avx512();
const IntegerKernels* integer_kernels_vnni();

}  // namespace pl::host
