// Kind pad: the part of x that remains is copied; borders are filled with a value, or copied from x: backwards where
// they mirror it, from one place where they repeat it.
#include "providers/host/common/host.h"
#include "providers/host/reorder/copy.h"

namespace pl::host {
namespace {

// Where a range of output indices comes from along one dimension.
struct Piece {
  int64_t target, source, size;
  int64_t step = 1;  // in x, from an index to the next
};

// The indices of x that stay, and for the modes that mirror or repeat its borders, each index on its own where x has
// blocks.
std::vector<Piece> pieces_of(int64_t in, int64_t out, int64_t begin, const std::string& mode, bool blocks) {
  std::vector<Piece> pieces;
  const int64_t first = std::max<int64_t>(0, begin), last = std::min(out, begin + in);
  if (last > first) pieces.push_back({first, first - begin, last - first});
  if (mode == "constant") return pieces;
  for (int64_t i = 0; i < out; ++i) {
    if (i >= first && i < last) continue;
    int64_t source = i - begin;
    if (mode == "replicate")
      source = std::min(std::max<int64_t>(source, 0), in - 1);
    else
      source = source < 0 ? -source : 2 * (in - 1) - source;
    const bool follows =
        !blocks && !pieces.empty() && i > 0 && i != last && pieces.back().target + pieces.back().size == i;
    if (follows) {
      Piece& before = pieces.back();
      const int64_t step = source - (before.source + (before.size - 1) * before.step);
      if (step <= 0 && step >= -1 && (before.size == 1 || before.step == step)) {
        before.step = step;
        ++before.size;
        continue;
      }
    }
    pieces.push_back({i, source, 1});
  }
  return pieces;
}

struct PadBody {
  std::vector<CopyNests> copies;
  std::vector<CopyNests> fills;  // from one element
  char value[8];
  PaddingZeroer zeroer;

  void operator()(const KernelArguments& arguments) const {
    for (const CopyNests& fill : fills) fill.run(value, output(arguments));
    for (const CopyNests& copy : copies) copy.run(input(arguments, 0), output(arguments));
    zeroer.run(output(arguments));
  }
};

PadBody pad_body(const TensorDesc& x, const TensorDesc& y, const std::vector<int64_t>& begins, const std::string& mode,
                 double value) {
  PadBody body{{}, {}, {}, PaddingZeroer(y)};
  double_storer(x.dtype)(&value, 1, body.value, 0, 1);
  const int rank = x.rank();
  struct Region {
    Dims target, source, shape;
    TensorDesc x;  // as it is read from there
  };
  std::vector<Region> regions = {{{}, {}, {}, x}};
  for (int d = 0; d < rank; ++d) {
    std::vector<Region> grown;
    const bool blocks = x.layout.block_of(d) > 1 || y.layout.block_of(d) > 1;
    for (const Piece& piece : pieces_of(x.shape[d], y.shape[d], begins[size_t(d)], mode, blocks))
      for (Region region : regions) {
        region.target.push_back(piece.target);
        const int64_t stride = x.strides[d];
        if (piece.step != 1) {
          region.x.offset += piece.source * stride;
          region.x.strides[d] = stride * piece.step;
        }
        region.source.push_back(piece.step == 1 ? piece.source : 0);
        region.shape.push_back(piece.size);
        grown.push_back(region);
      }
    regions = std::move(grown);
  }
  for (const Region& region : regions)
    body.copies.emplace_back(region.shape, Operand{y, region.target}, Operand{region.x, region.source});
  if (mode != "constant") return body;

  // Borders along d: where x reaches before d, outside of it along d, everything after d.
  TensorDesc one = TensorDesc::dense(x.dtype, Dims::filled(rank, 1));
  Dims begin = Dims::filled(rank, 0), shape = y.shape;
  for (int d = 0; d < rank; ++d) {
    const int64_t first = std::min(y.shape[d], std::max<int64_t>(0, begins[size_t(d)]));
    const int64_t last = std::max(first, std::min(y.shape[d], begins[size_t(d)] + x.shape[d]));
    const auto fill = [&](int64_t from, int64_t to) {
      if (from >= to) return;
      Dims border_begin = begin, border_shape = shape;
      border_begin[d] = from;
      border_shape[d] = to - from;
      body.fills.emplace_back(border_shape, Operand{y, border_begin}, Operand{one, {}});
    };
    fill(0, first);
    fill(last, y.shape[d]);
    begin[d] = first;
    shape[d] = last - first;
  }
  return body;
}

void list_pad(const Op& op, CandidateList& out) {
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    const TensorDesc x = op.in(0).with_layout(layout), y = op.out().with_layout(layout);
    add_candidate(out, "pad", Quality::fast, {x}, {y},
                  [=, begins = op.attributes[attr::begins], mode = op.attributes[attr::mode],
                   value = op.attributes[attr::value]] { return pad_body(x, y, begins, mode, value); });
  }
}
PL_HOST_KIND("pad", list_pad);

}  // namespace
}  // namespace pl::host
