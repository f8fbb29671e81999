// Layouts of heads, (heads, l, e), (n, heads, l, e) or, with windows, (n, windows, heads, l, e): as it says, and with
// heads behind l, (n, l, heads, e), which a view of a linear layer's result has.
#pragma once

#include <vector>

#include "core/layout.h"

namespace pl::host {

inline std::vector<Layout> head_layouts(int rank) {
  std::vector<Layout> layouts{Layout::plain(rank)};
  if (rank == 3) layouts.push_back(Layout::parse("bac"));
  if (rank == 4) layouts.push_back(Layout::parse("acbd"));
  if (rank == 5) layouts.push_back(Layout::parse("abdce"));
  return layouts;
}

}  // namespace pl::host
