// Layouts of heads: with unit steps between the columns, as it says, and (n, l, heads, e), with windows (n, windows, l,
// heads, e), which a view of a linear layer's result has.
#pragma once

#include <vector>

#include "core/layout.h"

namespace pl::host {

inline std::vector<Layout> head_layouts(int rank) {
  std::vector<Layout> layouts{Layout::plain(rank)};
  if (rank == 4) layouts.push_back(Layout::parse("acbd"));
  if (rank == 5) layouts.push_back(Layout::parse("abdce"));
  return layouts;
}

}  // namespace pl::host
