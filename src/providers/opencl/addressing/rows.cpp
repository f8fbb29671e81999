#include "providers/opencl/addressing/rows.h"

#include <algorithm>

namespace pl::opencl {

Addressing as_rows(const Addressing& from, const std::vector<int>& last) {
  std::vector<int> order;  // order[i]: the dimension of `from` that becomes dimension i
  for (int dim = 0; dim < from.rank; ++dim)
    if (std::find(last.begin(), last.end(), dim) == last.end()) order.push_back(dim);
  order.insert(order.end(), last.begin(), last.end());
  std::vector<int> place(order.size());
  for (size_t i = 0; i < order.size(); ++i) place[size_t(order[i])] = int(i);
  Addressing to = from;
  for (size_t i = 0; i < order.size(); ++i) {
    to.dims[i] = from.dims[size_t(order[i])];
    to.strides[i] = from.strides[size_t(order[i])];
  }
  for (Addressing::Inner& inner : to.inner) inner.dim = place[size_t(inner.dim)];
  for (int& dim : to.order) dim = place[size_t(dim)];
  return to.insert(0, kMaxRank - to.rank);
}

int row_group(const OpenclDevice& device, int64_t size) {
  const Capabilities& has = device.capabilities();
  if (!has.gpu) return 1;
  int group = 1;
  while (group < 256 && group * 4 <= size && size_t(group) * 2 <= has.max_work_group) group *= 2;
  return group;
}

}  // namespace pl::opencl
