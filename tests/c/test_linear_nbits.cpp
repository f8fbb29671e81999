// linear_nbits: every candidate of the host, at every form of blocks, against the definition in double precision.
#include <cmath>

#include "core/threads.h"
#include "host_testing.h"

using namespace pl;
using namespace pl::host_testing;

namespace {

struct Case {
  int64_t rows, depth, columns;
};

// Rows of weights that end within 32 bytes; fewer and more than eight blocks; columns that fill no panel; more rows and
// numbers than a piece has.
const Case kCases[] = {{1, 5, 1}, {2, 130, 30}, {7, 700, 53}, {21, 1025, 8}, {600, 300, 7}};

Input bytes(const Dims& shape, int low, int high) {
  Input input{TensorDesc::dense(DType::u8, shape), {}};
  std::uniform_int_distribution<int> number(low, high);
  for (int64_t i = 0; i < shape.product(); ++i) input.values.push_back(number(generator()));
  return input;
}

void check_form(const Case& c, int bits, int block, bool with_zero, bool with_bias, DType dtype = DType::f32) {
  const int64_t blocks = (c.depth + block - 1) / block, row_bytes = blocks * block * bits / 8;
  const Input x = random_input(dtype, {c.rows, c.depth}, -1, 1), weight = bytes({c.columns, row_bytes}, 0, 255);
  const Input scale = random_input(dtype, {c.columns, blocks}, 0.01, 0.02);
  const Input zero = with_zero ? bytes({c.columns, blocks}, 0, (1 << bits) - 1) : Input{};
  const Input bias = with_bias ? random_input(dtype, {c.columns}) : Input{};
  Values y, sizes;  // and what rounding errors are relative to: products of numbers and zero points apart
  for (int64_t r = 0; r < c.rows; ++r)
    for (int64_t o = 0; o < c.columns; ++o) {
      double sum = with_bias ? bias.values[size_t(o)] : 0, size = std::fabs(sum);
      for (int64_t i = 0; i < c.depth; ++i) {
        const int byte = int(weight.values[size_t(o * row_bytes + i * bits / 8)]);
        const int number = byte >> (i * bits % 8) & ((1 << bits) - 1);
        const size_t at = size_t(o * blocks + i / block);
        const double point = with_zero ? zero.values[at] : double(1 << (bits - 1));
        const double factor = x.values[size_t(r * c.depth + i)] * scale.values[at];
        sum += factor * (number - point);
        size += std::fabs(factor) * (number + point);
      }
      y.push_back(sum);
      sizes.push_back(size);
    }
  const double unit = dtype == DType::f32 ? 6e-8 : dtype == DType::f16 ? 5e-4 : 4e-3;
  const std::string text = concat("bits=", bits, " block_size=", block);
  const int candidates =
      run_all("linear_nbits", text.c_str(), {x, weight, scale, zero, bias},
              [&](const Op&, const std::vector<Values>& results, const std::string& what) {
                for (size_t i = 0; i < y.size(); ++i)
                  compare({results[0][i]}, {y[i]}, 2 * unit, 6e-8 * std::sqrt(double(c.depth)) * sizes[i], what);
              });
  const bool whole_words = block * bits / 8 % 4 == 0;
  const int expected = dtype != DType::f32 || !whole_words ? 1 : 1 + (c.rows <= 32) + (c.rows >= 4);
  CHECK(candidates == expected);
}

TEST("forms") {
  for (int bits : {2, 4, 8})
    for (int block : {16, 24, 32, 96, 256})
      for (const Case& c : kCases) {
        check_form(c, bits, block, true, true);
        check_form(c, bits, block, false, false);
      }
}

TEST("by the reference alone") {
  check_form({3, 44, 9}, 4, 10, true, true);  // blocks of five bytes
  for (DType dtype : {DType::f16, DType::bf16}) check_form({3, 70, 9}, 4, 32, true, true, dtype);
}

TEST("threads") {
  for (int threads : {1, 3}) {
    use_threads(threads);
    check_form({5, 300, 100}, 4, 32, true, false);
    check_form({70, 300, 100}, 4, 32, true, false);
  }
}

}  // namespace
