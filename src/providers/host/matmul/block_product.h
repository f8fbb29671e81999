// BlockProduct: small matrix products whose operands lie in the cache, for kernels that are made of such.
//
// The tiles of the result are kept in vector registers: on AVX-512 8 x 48 sums of 16 floats a vector, on AVX2 4 x 24
// of 8, on NEON 4 x 12 of 4.  The columns of b come in panels as wide as a vector, so that a step along the depth loads
// whole vectors; elements of a are broadcast from where they lie.
#pragma once

#include <cstdint>
#include <vector>

namespace pl::host {

// c[i, j] = factor * (sum over k of a[i, k] * b[k, j]) + (accumulate ? c[i, j] : 0)
struct Product {
  int64_t rows = 0, panels = 0, depth = 0;  // panels * width columns; all of them are read and written
  // a[i, k] at a[i * a_step + k] or, where a lies by columns, at a[i + k * a_step]
  const float* a = nullptr;
  int64_t a_step = 0;
  bool a_by_columns = false;
  const float* b = nullptr;  // b[k, j] at b[k * b_step + j / width * b_panel_step + j % width]
  int64_t b_step = 0, b_panel_step = 0;
  float* c = nullptr;  // c[i, j] at c[i * c_step + j]
  int64_t c_step = 0;
  float factor = 1;
  bool accumulate = false;
};

inline int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

struct BlockProduct {
  int width;                    // columns of a panel
  int rows;                     // a multiple of these runs fastest
  void (*run)(const Product&);  // on the calling thread
};

// Takes pieces of a workspace, in floats; each begins a cache line.
class Pieces {
 public:
  int64_t take(int64_t floats) {
    const int64_t begin = at_;
    at_ += round_up(floats, 16);
    return begin;
  }
  int64_t total() const { return at_; }

 private:
  int64_t at_ = 0;
};

// All that this processor can run, the best one first.
const std::vector<BlockProduct>& block_products();
inline const BlockProduct& block_product() { return block_products().front(); }

}  // namespace pl::host
