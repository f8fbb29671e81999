// Rows put in order: of each element an unsigned number in whose ascending order elements are wanted, with its place,
// by which equal elements keep their order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pl::host {

// Key: uint32_t of floats, in which all NaN are alike and larger than any number and -0 is 0; uint64_t of integers.
// `largest`: the largest come first.
void sort_keys(const float* row, int64_t n, bool largest, uint32_t* keys);
void sort_keys(const int64_t* row, int64_t n, bool largest, uint64_t* keys);

template <class Key>
class SortedRow {
 public:
  explicit SortedRow(int64_t n) : keys_(size_t(n)) {}
  Key* keys() { return keys_.data(); }  // to fill

  // The places of the elements of ranks `first` to `end`, in order.  The row has less than 2^32 elements.
  void places(int64_t first, int64_t end, int64_t* found);

 private:
  struct Element {
    Key key;
    uint32_t place;
    bool operator<(const Element& other) const { return key < other.key || (key == other.key && place < other.place); }
  };
  int64_t place_of_rank(int64_t rank) const;
  void by_digits(int64_t count);

  std::vector<Key> keys_;
  std::vector<Element> elements_, others_;
};

extern template class SortedRow<uint32_t>;
extern template class SortedRow<uint64_t>;

}  // namespace pl::host
