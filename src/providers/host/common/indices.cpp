#include "providers/host/common/indices.h"

#include <atomic>

#include "providers/host/common/independent.h"

namespace pl::host {
namespace {

constexpr int64_t kPiece = 1 << 14;

}  // namespace

PL_VECTORISED bool count_from_start(int64_t* index, int64_t n, int64_t size) {
  int64_t beside = 0;
  PL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    index[i] += index[i] < 0 ? size : 0;
    beside |= (index[i] < 0) | (index[i] >= size);
  }
  return beside == 0;
}

std::vector<int64_t> checked_indices(const std::string& op, LoadRun<int64_t> load, const void* data, int64_t count,
                                     int64_t size) {
  std::vector<int64_t> found(static_cast<size_t>(count));
  std::atomic<bool> right{true};
  parallel_for((count + kPiece - 1) / kPiece, 0.7 * kPiece, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * kPiece, n = std::min(end * kPiece, count) - first;
    load(data, first, 1, n, found.data() + first);
    if (!count_from_start(found.data() + first, n, size)) right = false;
  });
  if (right) return found;
  for (int64_t i = 0; i < count; ++i) {
    int64_t index;
    load(data, i, 1, 1, &index);
    require(index >= -size && index < size, Code::invalid_argument, op, ": index is ", index, " at element ", i,
            ", expected ", -size, " to ", size - 1);
  }
  fail(Code::internal, op, ": indices changed while they were read");
}

}  // namespace pl::host
