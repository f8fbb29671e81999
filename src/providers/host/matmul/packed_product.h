// PackedProduct: large products of matrices as blocks of the result that stay in the second-level cache.
//
// For each block the depth is taken in pieces. Of a piece the rows of a and the columns of b are copied first, into the
// forms that BlockProduct reads, whatever their strides: what a copy costs is little against the products, and strides
// of whole pages, as weights have, then cost nothing more. Halves are widened as they are copied: products and sums are
// of f32. A block is complete before it is written.
#pragma once

#include "providers/host/common/elements.h"
#include "providers/host/matmul/block_product.h"

namespace pl::host {

// Element (i, j) at i * row_step + j * column_step; one of the steps is 1.
struct Strided {
  int64_t row_step = 0, column_step = 1;
};

struct PackedProduct {
  BlockProduct product;
  int64_t rows, columns, depth;
  Strided a, b;
  DType dtype;  // of a and b
  int64_t row_blocks, column_blocks;

  PackedProduct(const BlockProduct& product, int64_t rows, int64_t columns, int64_t depth, Strided a, Strided b,
                int64_t products, int64_t threads, DType dtype = DType::f32);

  int64_t blocks() const { return row_blocks * column_blocks; }
  int64_t floats() const;  // of workspace for each thread
  // The same for any product of at most so many rows and columns.
  static int64_t most_floats(const BlockProduct& product, int64_t rows, int64_t columns, Strided a);

  // A block: rows [row, row + rows), columns likewise.
  struct Block {
    int64_t row, rows, column, columns;
  };
  Block block(int64_t number) const;
  int64_t result_step() const;
  // The block's sums, rows `result_step` apart, in `space`.
  const float* run(const Block& block, const void* a_data, const void* b_data, float* space) const;

 private:
  bool a_by_columns() const { return a.column_step != 1; }
  int64_t a_step() const;
  int64_t a_floats() const;
  int64_t most_rows() const;
  int64_t most_columns() const;
  void pack_a(const void* data, const Block& block, int64_t first, int64_t count, float* to) const;
  void pack_b(const void* data, const Block& block, int64_t first, int64_t count, float* to) const;
  void pack_b_by_columns(const void* data, int64_t from, int64_t columns, int64_t count, float* to) const;
};

}  // namespace pl::host
