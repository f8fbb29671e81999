// Groups of neighbouring rows, each of which meets a matrix of its own.
#pragma once

#include <string>
#include <vector>

#include "providers/host/common/host.h"

namespace pl::host {

struct RowGroup {
  int64_t matrix, begin, end;  // rows [begin, end)
  int64_t rows() const { return end - begin; }
};

// Where groups end, as the op's offsets say.
struct RowGroups {
  std::string op;
  int input;  // of the offsets
  LoadRun<int64_t> load;
  int64_t groups, rows;

  RowGroups(const Op& described, int offsets, int64_t all_rows)
      : op(described.schema->name),
        input(offsets),
        load(integer_loader(described.in(offsets).dtype)),
        groups(described.in(offsets).elements()),
        rows(all_rows) {}

  // Every group, also those without rows.  Throws where offsets do not ascend or are larger than `rows`.
  std::vector<RowGroup> read(const KernelArguments& arguments) const {
    std::vector<int64_t> ends(size_t(groups), 0);
    if (groups > 0) load(host::input(arguments, input), 0, 1, groups, ends.data());
    std::vector<RowGroup> found;
    int64_t begin = 0;
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t end = ends[size_t(g)];
      require(end >= begin && end <= rows, Code::invalid_argument, op, ": offsets is ", end, " at element ", g,
              ", expected ", begin, " to ", rows);
      found.push_back({g, begin, end});
      begin = end;
    }
    return found;
  }
};

}  // namespace pl::host
