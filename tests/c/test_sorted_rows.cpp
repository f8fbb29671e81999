// Rows in order (providers/host/reduce/sorted_row.h), against a stable sort of their places.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "check.h"
#include "providers/host/reduce/sorted_row.h"

using namespace pl;

namespace {

// Whether x comes before y; NaN is larger than any number.
template <class C>
bool before(C x, C y, bool largest) {
  const bool x_nan = x != x, y_nan = y != y;
  if (x_nan || y_nan) return x_nan != y_nan && x_nan == largest;
  return largest ? x > y : x < y;
}

template <class Key, class C>
void check_row(const std::vector<C>& row, bool largest) {
  const auto n = int64_t(row.size());
  std::vector<int64_t> order(row.size());
  std::iota(order.begin(), order.end(), int64_t(0));
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return before(row[size_t(a)], row[size_t(b)], largest); });
  host::SortedRow<Key> sorted(n);
  host::sort_keys(row.data(), n, largest, sorted.keys());
  const int64_t ranks[] = {0, 1, n / 3, (n - 1) / 2, n / 2, n - 1, n};
  for (int64_t first : ranks)
    for (int64_t end : ranks) {
      if (first > end || first < 0 || end > n) continue;
      std::vector<int64_t> found(size_t(end - first), -1);
      sorted.places(first, end, found.data());
      CHECK(std::equal(found.begin(), found.end(), order.begin() + first));
    }
}

TEST("floats") {
  std::mt19937 random(7);
  for (int64_t n : {1, 2, 3, 17, 64, 191, 192, 1000, 5000, 40000})
    for (int kind = 0; kind < 4; ++kind)
      for (bool largest : {false, true}) {
        std::vector<float> row;
        for (int64_t i = 0; i < n; ++i) {
          const float number = float(int32_t(random())) * 1e-7f;
          row.push_back(kind == 0   ? number
                        : kind == 1 ? float(random() % 5) - 2
                        : kind == 2 ? 3.0f
                        : random() % 3 == 0
                            ? std::numeric_limits<float>::quiet_NaN()
                            : (random() % 4 == 0 ? -0.0f : std::ldexp(number, int(random() % 250) - 125)));
        }
        if (kind == 3 && n > 3) {
          row[1] = std::numeric_limits<float>::infinity();
          row[2] = -std::numeric_limits<float>::infinity();
          row[3] = -std::numeric_limits<float>::quiet_NaN();
        }
        check_row<uint32_t>(row, largest);
      }
}

TEST("integers") {
  std::mt19937_64 random(8);
  for (int64_t n : {1, 2, 33, 250, 3000})
    for (int kind = 0; kind < 3; ++kind)
      for (bool largest : {false, true}) {
        std::vector<int64_t> row;
        for (int64_t i = 0; i < n; ++i)
          row.push_back(kind == 0   ? int64_t(random())
                        : kind == 1 ? int64_t(random() % 7) - 3
                                    : int64_t(random() % 256));
        row[0] = std::numeric_limits<int64_t>::min();
        row.back() = std::numeric_limits<int64_t>::max();
        check_row<uint64_t>(row, largest);
      }
}

}  // namespace
