// Indices that an op's input holds, checked and counted from the start, for ops that look rows up or put them.
#pragma once

#include <string>
#include <vector>

#include "providers/host/common/host.h"

namespace pl::host {

// `count` neighbouring indices into a dimension of `size`; negative ones count from its end.  Throws for the first one
// that lies beside it.
std::vector<int64_t> checked_indices(const std::string& op, LoadRun<int64_t> load, const void* data, int64_t count,
                                     int64_t size);

// The same of indices that were loaded, in their place; false if one lies beside the dimension.
bool count_from_start(int64_t* index, int64_t n, int64_t size);

}  // namespace pl::host
