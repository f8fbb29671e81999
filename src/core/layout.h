// Layout: the order and the blocking of a tensor's dimensions, a value parsed from a string.
//
// Two spellings are understood, and mean the same values:
//   named    NCHW, NHWC, nChw16c, NCW, NDHWC, NC      activations: n, c, then d, h, w as the rank needs
//            OIHW, HWIO, OIhw16i16o, gOIhw8i8o        weights: g (groups), o, i, then d, h, w
//   generic  abcd, acdb, aBcd16b, ABcd16b16a          a is dimension 0, b dimension 1, ...
// Letters give the order from the outermost (slowest) to the innermost; a number and a letter after them
// give an inner block, the last one innermost.  In a spelling with blocks the blocked dimensions may be
// written in upper case, as oneDNN does; case has no other meaning.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/dims.h"

namespace pl {

constexpr int kMaxBlocks = 4;

class Layout {
 public:
  struct Block {
    int8_t dim = 0;
    int16_t size = 0;
    friend bool operator==(const Block& a, const Block& b) { return a.dim == b.dim && a.size == b.size; }
  };

  Layout() = default;                                   // rank 0: a scalar
  static Layout parse(std::string_view text);           // throws Error(layout)
  static Layout plain(int rank);                        // row-major: abcd...
  static Layout channels_last(int rank);                // a, c.., b: NHWC for rank 4; plain below rank 3
  static Layout channels_blocked(int rank, int block);  // nChw16c for (4, 16); plain below rank 3
  static Layout make(const int8_t* order, int rank, const Block* blocks, int block_count);

  int rank() const { return rank_; }
  int order(int position) const { return order_[position]; }  // dimension at `position`, 0 = outermost
  int block_count() const { return block_count_; }
  const Block& block(int i) const { return blocks_[i]; }  // i = 0 is the outermost inner block
  int64_t block_of(int dim) const;                        // product of dim's inner blocks; 1 if none
  int64_t block_volume() const;                           // product of all inner blocks
  bool is_plain() const;                                  // no blocks, order a, b, c...
  bool is_channels_last() const;
  bool is_blocked() const { return block_count_ > 0; }
  int channel_block() const;  // 16 of nChw16c, of any rank; 0 for layouts of other kinds

  // The layout of the same family for another rank: NHWC -> NDHWC, nChw16c -> nCw16c; plain where the
  // family has no meaning (rank below 3).  A layout of no family (`acbd`) is returned if the rank fits.
  Layout for_rank(int rank) const;
  // The layout after `permutation`: dimension i of the result is dimension permutation[i] of this one.
  Layout permuted(const Dims& permutation) const;

  // "NCHW", "NHWC", "nChw16c" for ranks 2 to 5 when blocks are on dimension 1 only; generic otherwise.  Of weights, in
  // their letters: "OIHW", "OIhw16i16o".
  std::string str(bool weights = false) const;
  std::string weights_str(bool grouped) const;  // "OIHW", "OIhw16i16o", "gOIhw..."
  std::string generic_str() const;              // "aBcd16b"

  uint64_t hash() const;
  friend bool operator==(const Layout& a, const Layout& b) {
    return a.rank_ == b.rank_ && a.block_count_ == b.block_count_ && a.order_ == b.order_ && a.blocks_ == b.blocks_;
  }
  friend bool operator!=(const Layout& a, const Layout& b) { return !(a == b); }

 private:
  std::array<int8_t, kMaxRank> order_{};
  std::array<Block, kMaxBlocks> blocks_{};
  int8_t rank_ = 0;
  int8_t block_count_ = 0;
};

// The layouts in which all images of a program may lie, as contests try them.
inline constexpr const char* kUniformLayouts[] = {"NHWC", "nChw16c", "nChw8c", "NCHW"};

}  // namespace pl
