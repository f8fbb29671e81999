// Convolutions of this provider's own: the jobs that the vector code does, and the table of that code by instruction
// set.  conv_pointwise.cpp, conv_direct.cpp and conv_depthwise.cpp make the jobs, conv_micro.h does them.
//
// Vectors hold `width` consecutive channels of one pixel.  Activations are channels-last (the vectors of a pixel lie
// side by side, the last one cut off) or blocked by `width` (the pixels of a vector lie side by side, the last vector
// filled up with zeros); both are strides here, counted in floats.  Weights are blocked by the output channel,
// Abcd16a for width 16: all of an output vector's weights lie in the order in which they are used.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

namespace pl {

struct Op;
struct PostOp;

namespace host {

// 1/6 is their product but for 1.5e-11.  1.0f / 6 is 3e-8 too large, and so would be every hardswish: 2.2e-6 in the
// results of MobileNet-v3-small, twice the error of all its rounding.
constexpr float kSixth = 0.5079345703125f, kSixthRest = 0.32812625169754f;

// What becomes of a sum before it is stored, or just after.
struct Finish {
  enum class Kind { none, clamp, hardswish, silu, other };
  using Run = void (*)(const float* x, float* y, int64_t n, double alpha, double beta);
  Kind kind = Kind::none;
  float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();  // of clamp
  Run other = nullptr;
  double alpha = 0, beta = 0;

  static Finish of(const PostOp& function);
};

// A post-op behind the sum and the function that a tile ends with, on what was stored just now.
struct Further {
  enum class Kind { function, scale, add, multiply };
  Kind kind = Kind::function;
  Finish::Run function = nullptr;
  double alpha = 0, beta = 0;  // of the function; alpha: what scale multiplies by
};

// The post-ops of an op as tiles take them: they start from an input that is added, apply a function before they store
// the result, and then go on with a few further steps.
struct Ending {
  static constexpr int kMostFurther = 4;
  int added = -1, later = -1;  // the inputs that are added at the start, and in a further step; -1: none
  Finish finish;
  Further further[kMostFurther];
  int further_count = 0;

  bool reads_inputs() const { return added >= 0 || later >= 0; }
  // Nothing for longer lists, and functions that this provider has not.
  static std::optional<Ending> of(const Op& op);
};

// Where the result goes, and what is added to it.
struct Result {
  float* y = nullptr;
  const float* residual = nullptr;  // addressed like y; null: none.  May be y itself
  const float* later = nullptr;     // what a further step adds, addressed like y, and not y itself
  const float* bias = nullptr;      // null: none
  int64_t channels = 0;
  int64_t image = 0, plane = 0, row = 0, pixel = 0, vector = 0;  // strides of y
  bool has_bias = false;                                         // among the arguments of the op
  bool padded = false;  // the last vector is stored whole, filled up with zeros
  Ending ending;
};

// 1x1, one group, no padding: y[pixel, o] = sum over i of x[pixel, i] * w[o, i].
struct Pointwise {
  const float* x = nullptr;
  const float* weights = nullptr;  // vector v, input channel i at (v * inputs + i) * width
  int64_t inputs = 0;              // channels of x
  // Channels that all pixels of a block are multiplied by before the next ones come: `inputs`, or a multiple of
  // `width`. The sums of the earlier ones wait in y.
  int64_t depth = 0;
  int64_t block = 0;            // pixels that are gone through for one set of weights before the next
  bool far_weights = false;     // more than stays in the second-level cache from block to block: fetched ahead
  bool channels_first = false;  // all vectors meet some channels before the next ones come
  int64_t images = 0, rows = 0, columns = 0;    // of y; a stride of 1 makes rows (and images) one long row
  int64_t x_image = 0, x_row = 0, x_pixel = 0;  // between what neighbouring images, rows, pixels of y read
  int64_t x_chunk = 0, chunk = 0;               // channels lie side by side in chunks of so many
  bool far_input = false, far_result = false;   // more than second-level caches hold: fetched ahead
  Result result;
};

// Any kernel, one group, on a copy of what a tile of y reads of x: a plane for each channel, zeros where the padding
// is, and the columns in an order in which neighbouring pixels of y read neighbouring floats.  y[pixel, o] = sum over t
// of x[row of y * x_row + column of y + taps[t]] * w[o, t].
//
// Vectors hold channels of y; or, for results of few channels, columns of it.  Then the weights are as the user has
// them, and in `result` the pixels are the channels, the vectors those of columns.
struct Direct {
  const float* x = nullptr;
  const float* weights = nullptr;  // vector v, tap t at (v * inputs + t) * width; of columns: o * inputs + t
  const int32_t* taps = nullptr;   // all of a filter's: channel, kernel row, kernel column
  int64_t inputs = 0;              // the number of taps
  int64_t rows = 0, columns = 0;   // of the tile
  int64_t x_row = 0;               // between what neighbouring rows of y read
  bool far_result = false;         // more than second-level caches hold: fetched ahead
  Result result;                   // y and residual begin at the tile's first pixel
};

// What a filter slides along beside the columns: rows, and planes of rows.
struct SlidAxis {
  int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, begin = 0;
};

// One filter for each channel, or one for each channel of a narrow group.  For output row oh the input rows are oh *
// stride - begin + k * dilation, and so for planes and columns; x counts as zero outside its bounds.
struct Depthwise {
  const float* x = nullptr;
  // Vector v, channel i of the group, tap (kd, kh, kw) at
  // ((((v * group + i) * planes.kernel + kd) * rows.kernel + kh) * kernel_w + kw) * width.
  const float* weights = nullptr;
  int64_t group = 1;  // channels; more than one, a power of two that divides the width, only with kernel_w = 3,
                      // stride_w of 1 or 2, dilation_w = 1
  SlidAxis planes, rows;
  int64_t in_w = 0, out_w = 0, kernel_w = 0, stride_w = 0, dilation_w = 0, begin_w = 0;
  int64_t x_image = 0, x_plane = 0, x_row = 0, x_pixel = 0, x_vector = 0;
  Result result;
};

struct ConvKernels {
  const char* isa;
  int width;              // floats a vector
  int tile_vectors;       // vectors of output channels that a tile of Pointwise or Direct spans at most, up to 4
  int tile_pixels[5];     // and pixels, by its number of vectors
  int depthwise_pixels;   // pixels of a tile of Depthwise
  int column_vectors[5];  // vectors of columns that a tile of Direct spans at most, by its number of channels
  bool groups;            // Depthwise::group may be more than 1
  // Pixels [first, last) counted through images, rows and columns; vectors [first_vector, last_vector) of the
  // output, `tile` of them at a time.
  void (*pointwise)(const Pointwise& job, int64_t first, int64_t last, int64_t first_vector, int64_t last_vector,
                    int tile);
  // All rows and columns of the tile; vectors as above.
  void (*direct)(const Direct& job, int64_t first_vector, int64_t last_vector, int tile);
  // Channels [first, last) of y in vectors of columns.  Up to a vector behind each row of x is read, and not used.
  void (*direct_columns)(const Direct& job, int64_t first, int64_t last);
  // Rows [first, last) of one image, counted through its planes, of vectors [first_vector, last_vector).
  void (*depthwise)(const Depthwise& job, int64_t image, int64_t first_vector, int64_t last_vector, int64_t first,
                    int64_t last);
};

// The best that this processor runs.
const ConvKernels& conv_kernels();
// Every one that it runs, for tests.
const ConvKernels* const* all_conv_kernels();  // ends with null

// One for each instruction set; null where the compiler or the architecture has none.
const ConvKernels* conv_kernels_baseline();
const ConvKernels* conv_kernels_avx2();
const ConvKernels* conv_kernels_avx512();

}  // namespace host
}  // namespace pl
