#include "core/layout.h"

#include <cctype>

namespace pl {
namespace {

// Dimension letters of the named spellings, by rank, in logical order.
constexpr const char* kActivation[kMaxRank + 1] = {"", "", "nc", "ncw", "nchw", "ncdhw"};
constexpr const char* kWeights[kMaxRank + 1] = {"", "", "oi", "oiw", "oihw", "oidhw"};
constexpr const char* kGrouped[kMaxRank + 1] = {"", "", "", "goi", "goiw", "goihw", "goidhw"};
constexpr const char* kGeneric = "abcdefgh";

std::string spell(const Layout& layout, const char* letters) {
  const bool blocked = layout.is_blocked();
  const bool named = letters != kGeneric;
  std::string text;
  for (int i = 0; i < layout.rank(); ++i) {
    const int dim = layout.order(i);
    // oneDNN's custom: plain named layouts in upper case; with blocks, upper case marks a blocked dimension.
    const bool upper = blocked ? layout.block_of(dim) > 1 : named;
    text += upper ? char(std::toupper(letters[dim])) : letters[dim];
  }
  for (int i = 0; i < layout.block_count(); ++i)
    text += std::to_string(layout.block(i).size) + letters[layout.block(i).dim];
  return text;
}

}  // namespace

Layout Layout::make(const int8_t* order, int rank, const Block* blocks, int block_count) {
  require(rank >= 0 && rank <= kMaxRank, Code::layout, "layout: rank ", rank, ", expected 0 to ", kMaxRank);
  require(block_count <= kMaxBlocks, Code::layout, "layout: ", block_count, " inner blocks, at most ", kMaxBlocks);
  Layout layout;
  layout.rank_ = int8_t(rank);
  unsigned seen = 0;
  for (int i = 0; i < rank; ++i) {
    require(order[i] >= 0 && order[i] < rank && !(seen >> order[i] & 1u), Code::layout,
            "layout: the order is not a permutation of ", rank, " dimensions");
    seen |= 1u << order[i];
    layout.order_[size_t(i)] = order[i];
  }
  for (int i = 0; i < block_count; ++i) {
    require(blocks[i].dim >= 0 && blocks[i].dim < rank && blocks[i].size >= 1, Code::layout, "layout: inner block of ",
            blocks[i].size, " on dimension ", int(blocks[i].dim), " of ", rank);
    if (blocks[i].size > 1) layout.blocks_[size_t(layout.block_count_++)] = blocks[i];
  }
  return layout;
}

Layout Layout::parse(std::string_view text) {
  const auto bad = [&](const auto&... why) { fail(Code::layout, "layout \"", text, "\": ", why...); };
  std::string outer;
  size_t at = 0;
  for (; at < text.size() && std::isalpha(static_cast<unsigned char>(text[at])); ++at)
    outer += char(std::tolower(static_cast<unsigned char>(text[at])));
  if (outer.empty()) bad("expected letters such as NCHW, NHWC, nChw16c, OIhw16i16o or aBcd16b");
  if (outer.size() > size_t(kMaxRank)) bad(outer.size(), " dimensions, at most ", kMaxRank);

  const auto is_permutation_of = [&](const char* letters) {
    std::string a = outer, b = letters ? letters : "";
    std::sort(a.begin(), a.end());
    std::sort(b.begin(), b.end());
    return a == b;
  };
  const int rank = int(outer.size());
  const std::string generic(kGeneric, size_t(rank));
  const char* letters = nullptr;
  for (const char* candidate : {kActivation[rank], kWeights[rank], kGrouped[rank], generic.c_str()})
    if (candidate && is_permutation_of(candidate)) letters = candidate;
  if (!letters) bad("the letters name no set of ", rank, " dimensions (n c d h w, g o i d h w, or a b c ...)");
  const auto dim_of = [&](char letter) -> int8_t {
    const char lower = char(std::tolower(static_cast<unsigned char>(letter)));
    for (int8_t d = 0; d < rank; ++d)
      if (letters[d] == lower) return d;
    return -1;
  };

  int8_t order[kMaxRank];
  for (int i = 0; i < rank; ++i) order[i] = dim_of(outer[size_t(i)]);
  Block blocks[kMaxBlocks];
  int count = 0;
  while (at < text.size()) {
    int64_t size = 0;
    const size_t digits = at;
    while (at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) && size < 100000)
      size = size * 10 + (text[at++] - '0');
    if (at == digits) bad("unexpected '", text[at], "' at position ", at);
    if (at == text.size()) bad("the block size ", size, " at the end names no dimension");
    const int8_t dim = dim_of(text[at]);
    if (dim < 0) bad("'", text[at], "' at position ", at, " is not one of its dimensions");
    if (size < 2 || size > 1024) bad("block size ", size, ", expected 2 to 1024");
    if (count == kMaxBlocks) bad("more than ", kMaxBlocks, " inner blocks");
    blocks[count++] = {dim, int16_t(size)};
    ++at;
  }
  return make(order, rank, blocks, count);
}

Layout Layout::plain(int rank) {
  int8_t order[kMaxRank] = {0, 1, 2, 3, 4, 5, 6, 7};
  return make(order, rank, nullptr, 0);
}

Layout Layout::channels_last(int rank) {
  if (rank < 3) return plain(rank);
  int8_t order[kMaxRank] = {0};
  for (int i = 2; i < rank; ++i) order[i - 1] = int8_t(i);
  order[rank - 1] = 1;
  return make(order, rank, nullptr, 0);
}

Layout Layout::channels_blocked(int rank, int size) {
  if (rank < 3) return plain(rank);
  Layout layout = plain(rank);
  const Block block{1, int16_t(size)};
  return make(layout.order_.data(), rank, &block, 1);
}

int64_t Layout::block_of(int dim) const {
  int64_t size = 1;
  for (int i = 0; i < block_count_; ++i)
    if (blocks_[size_t(i)].dim == dim) size *= blocks_[size_t(i)].size;
  return size;
}

int64_t Layout::block_volume() const {
  int64_t size = 1;
  for (int i = 0; i < block_count_; ++i) size *= blocks_[size_t(i)].size;
  return size;
}

bool Layout::is_plain() const { return *this == plain(rank_); }
bool Layout::is_channels_last() const { return rank_ >= 3 && *this == channels_last(rank_); }

int Layout::channel_block() const {
  if (block_count_ != 1) return 0;
  const int size = blocks_[0].size;
  return *this == channels_blocked(rank_, size) ? size : 0;
}

Layout Layout::for_rank(int rank) const {
  if (is_plain()) return plain(rank);
  if (is_channels_last()) return channels_last(rank);
  if (const int block = channel_block()) return channels_blocked(rank, block);
  require(rank == rank_, Code::layout, "layout ", str(), " has rank ", int(rank_), ", expected ", rank);
  return *this;
}

Layout Layout::permuted(const Dims& permutation) const {
  require(permutation.size() == rank_, Code::layout, "layout ", str(), ": a permutation of ", permutation.size(),
          " dimensions, expected ", int(rank_));
  int8_t new_dim[kMaxRank] = {};
  for (int i = 0; i < rank_; ++i) new_dim[permutation[i]] = int8_t(i);
  int8_t order[kMaxRank];
  for (int i = 0; i < rank_; ++i) order[i] = new_dim[order_[size_t(i)]];
  Block blocks[kMaxBlocks];
  for (int i = 0; i < block_count_; ++i) blocks[i] = {new_dim[blocks_[size_t(i)].dim], blocks_[size_t(i)].size};
  return make(order, rank_, blocks, block_count_);
}

std::string Layout::str(bool weights) const {
  if (weights) return weights_str(false);
  bool on_channels = rank_ >= 2 && rank_ <= 5;
  for (int i = 0; i < block_count_; ++i) on_channels &= blocks_[size_t(i)].dim == 1;
  return on_channels ? spell(*this, kActivation[rank_]) : generic_str();
}

std::string Layout::weights_str(bool grouped) const {
  const char* letters = grouped ? kGrouped[rank_] : kWeights[rank_];
  return letters && *letters ? spell(*this, letters) : generic_str();
}

std::string Layout::generic_str() const { return spell(*this, kGeneric); }

uint64_t Layout::hash() const {
  uint64_t seed = uint64_t(rank_) << 8 | uint64_t(block_count_);
  uint64_t order = 0;
  for (int i = 0; i < rank_; ++i) order = order << 8 | uint64_t(order_[size_t(i)]);
  seed = hash_mix(seed, order);
  for (int i = 0; i < block_count_; ++i)
    seed = hash_mix(seed, uint64_t(blocks_[size_t(i)].dim) << 16 | uint64_t(blocks_[size_t(i)].size));
  return seed;
}

}  // namespace pl
