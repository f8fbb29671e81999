// Kind non_max_suppression.  A box is compared with those alone that were taken before and lie near it along the first
// coordinate: these are kept in cells as wide as the widest box, so that a box can only overlap those of its own cell
// and of the two beside it.  Boxes of different classes are often kept apart by moving each class to another place;
// then a cell holds few.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "providers/host/common/host.h"

namespace pl::host {
namespace {

constexpr int64_t kMostCells = 1024;
constexpr int64_t kPiece = 16;  // boxes that are compared between two looks at the result

struct Box {
  float low[2], high[2], area;
};

struct Cell {
  std::vector<float> low0, low1, high0, high1, area;
  void add(const Box& box) {
    low0.push_back(box.low[0]);
    low1.push_back(box.low[1]);
    high0.push_back(box.high[0]);
    high1.push_back(box.high[1]);
    area.push_back(box.area);
  }
};

PL_VECTORISED int overlapping(const Box& box, float limit, const float* low0, const float* low1, const float* high0,
                              const float* high1, const float* area, int64_t n) {
  int found = 0;
  for (int64_t i = 0; i < n; ++i) {
    const float w = std::min(box.high[0], high0[i]) - std::max(box.low[0], low0[i]);
    const float h = std::min(box.high[1], high1[i]) - std::max(box.low[1], low1[i]);
    const float common = w * h;
    found |= int((w > 0) & (h > 0) & (common / (box.area + area[i] - common) > limit));
  }
  return found;
}

bool overlaps(const Box& box, float limit, const Cell& cell) {
  const auto count = int64_t(cell.area.size());
  for (int64_t first = 0; first < count; first += kPiece)
    if (overlapping(box, limit, cell.low0.data() + first, cell.low1.data() + first, cell.high0.data() + first,
                    cell.high1.data() + first, cell.area.data() + first, std::min(kPiece, count - first)))
      return true;
  return false;
}

struct SuppressionBody {
  int64_t images, classes, count, most;
  float limit, least;
  bool has_least, centres;

  Box box_of(const float* at) const {
    Box box;
    for (int d = 0; d < 2; ++d) {
      const float a = centres ? at[d] - at[2 + d] / 2 : at[d], b = centres ? at[d] + at[2 + d] / 2 : at[2 + d];
      box.low[d] = std::min(a, b);
      box.high[d] = std::max(a, b);
    }
    box.area = (box.high[0] - box.low[0]) * (box.high[1] - box.low[1]);
    return box;
  }

  // The boxes that are taken of one image and class, in their order.
  std::vector<int64_t> taken(const std::vector<Box>& boxes, const float* scores) const {
    std::vector<int64_t> order, kept;
    for (int64_t i = 0; i < count; ++i)
      if (!has_least || scores[i] > least) order.push_back(i);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      const float x = scores[a], y = scores[b];
      return x > y || (y != y && x == x);  // NaN last, so that there is an order
    });
    float first = HUGE_VALF, end = -HUGE_VALF, widest = 0;
    for (int64_t i : order) {
      const Box& box = boxes[size_t(i)];
      if (!std::isfinite(box.low[0]) || !std::isfinite(box.high[0])) continue;
      first = std::min(first, box.low[0]);
      end = std::max(end, box.low[0]);
      widest = std::max(widest, box.high[0] - box.low[0]);
    }
    // A little wider, against the rounding of quotients.
    const double range = double(end) - double(first), width = std::max(double(widest) * 1.001, range / kMostCells);
    const bool apart = range > 0 && width > 0 && std::isfinite(range) && std::isfinite(width);
    std::vector<Cell> cells(apart ? size_t(range / width) + 1 : 1);
    for (int64_t i : order) {
      if (int64_t(kept.size()) == most) break;
      const Box& box = boxes[size_t(i)];
      size_t at = 0;
      if (apart && std::isfinite(box.low[0]) && std::isfinite(box.high[0]))
        at = std::min(size_t((double(box.low[0]) - double(first)) / width), cells.size() - 1);
      bool out = false;
      for (size_t c = at ? at - 1 : 0; c <= at + 1 && c < cells.size() && !out; ++c)
        out = overlaps(box, limit, cells[c]);
      if (out) continue;
      cells[at].add(box);
      kept.push_back(i);
    }
    return kept;
  }

  void operator()(const KernelArguments& arguments) const {
    const float* corners = static_cast<const float*>(input(arguments, 0));
    const float* scores = static_cast<const float*>(input(arguments, 1));
    int64_t* rows = static_cast<int64_t*>(output(arguments, 0));
    std::vector<Box> boxes(static_cast<size_t>(images * count));
    for (size_t i = 0; i < boxes.size(); ++i) boxes[i] = box_of(corners + 4 * i);
    std::vector<std::vector<int64_t>> all(size_t(images * classes));
    parallel_for(images * classes, 60.0 * double(count), [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        const auto own = boxes.begin() + k / classes * count;
        all[size_t(k)] = taken({own, own + count}, scores + k * count);
      }
    });
    int64_t at = 0;
    for (int64_t k = 0; k < images * classes; ++k)
      for (int64_t box : all[size_t(k)]) {
        rows[3 * at] = k / classes;
        rows[3 * at + 1] = k % classes;
        rows[3 * at + 2] = box;
        ++at;
      }
    std::fill(rows + 3 * at, rows + 3 * images * classes * std::min(most, count), int64_t(-1));
    *static_cast<int64_t*>(output(arguments, 1)) = at;
  }
};

void list_non_max_suppression(const Op& op, CandidateList& out) {
  const TensorDesc boxes = dense_plain(op.in(0)), scores = dense_plain(op.in(1));
  const bool has_least = !op.attributes.is_none(attr::score_threshold);
  const SuppressionBody body{boxes.shape[0],
                             scores.shape[1],
                             boxes.shape[1],
                             op.attributes[attr::max_boxes],
                             float(op.attributes[attr::iou_threshold]),
                             has_least ? float(op.attributes[attr::score_threshold]) : 0.0f,
                             has_least,
                             op.attributes[attr::boxes_are] == "centres"};
  add_candidate(out, "non_max_suppression", Quality::fair, {boxes, scores},
                {dense_plain(op.out(0)), dense_plain(op.out(1))}, [body] { return body; });
}
PL_HOST_KIND("non_max_suppression", list_non_max_suppression);

}  // namespace
}  // namespace pl::host
