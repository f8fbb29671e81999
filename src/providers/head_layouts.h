// Layouts of heads, (heads, l, e), (n, heads, l, e) or, with windows, (n, windows, heads, l, e).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/layout.h"

namespace pl {

// As it says, and with heads behind l, (n, l, heads, e), which a view of a linear layer's result has.
inline std::vector<Layout> head_layouts(int rank) {
  std::vector<Layout> layouts{Layout::plain(rank)};
  std::string text;
  for (int i = 0; i < rank; ++i) text += char('a' + i);
  if (rank > 2) {
    std::swap(text[size_t(rank) - 3], text[size_t(rank) - 2]);
    layouts.push_back(Layout::parse(text));
  }
  return layouts;
}

// These and, of several n, l in front, (l, n, heads, e): words side by side, as PyTorch's MultiheadAttention has them.
inline std::vector<Layout> head_layouts(const Dims& shape) {
  std::vector<Layout> layouts = head_layouts(shape.size());
  if (shape.size() == 4 && shape[0] > 1) layouts.push_back(Layout::parse("cabd"));
  return layouts;
}

struct AttentionLayouts {
  Layout from, to;  // of what it reads, and of what it writes
};

// Each of the first with each, and each of the others with itself.
inline std::vector<AttentionLayouts> attention_layouts(const Dims& shape) {
  const std::vector<Layout> layouts = head_layouts(shape);
  const size_t first = head_layouts(shape.size()).size();
  std::vector<AttentionLayouts> pairs;
  for (size_t i = 0; i < layouts.size(); ++i)
    for (size_t j = 0; j < layouts.size(); ++j)
      if (i == j || (i < first && j < first)) pairs.push_back({layouts[i], layouts[j]});
  return pairs;
}

}  // namespace pl
