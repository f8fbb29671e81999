#include "dispatch/size_class.h"

#include <cmath>

namespace pl {

int size_class(int64_t size) {
  int number = size > 0 ? 1 : 0;
  for (int64_t most = 1; size > most && most <= 256; most *= 4) ++number;
  return number;
}

double size_distance(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  if (a.size() != b.size()) return HUGE_VAL;
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i] > 0 && b[i] > 0) sum += std::fabs(std::log(double(a[i]) / double(b[i])));
  return sum;
}

}  // namespace pl
