// By x: the gradient of the result where x is still there.  By src: that of the place where each element was put, as
// far as the result depends on it.  Of joined elements:
//   sum         all
//   prod        the product of the others; with zeros taken out of it, so that nothing is divided by one
//   amax, amin  those that are the result share it
//   none        the last one put to a place
#include "ops/scatter.h"

namespace pl {
namespace {

using Value = Builder::Value;

// y = scatter(x, dim, index, src), where index has the shape of src, or 1 beside dim.
struct Scattered {
  Derivation& d;
  int64_t dim;
  std::string reduce;
  Value x, index, src, y, g;

  Value put(Value to, Value elements, const char* how) const {
    return d.make("scatter", Attributes{{attr::dim, dim}, {attr::reduce, std::string(how)}}, {to, index, elements});
  }

  // Of each element of src what `from`, of the shape of x, has where it was put.
  Value found(Value from) const {
    const Dims &shape = d.desc(src).shape, &indices = d.desc(index).shape, &whole = d.desc(from).shape;
    bool slices = true;
    for (int i = 0; i < shape.size(); ++i) slices = slices && (i == dim || (indices[i] == 1 && shape[i] == whole[i]));
    if (slices)
      return d.make("index_select", Attributes{{attr::dim, dim}}, {from, d.reshaped(index, Dims{indices[int(dim)]})});
    return d.make("gather", Attributes{{attr::dim, dim}}, {from, d.expanded(index, shape)});
  }

  Value zeros(Value like) const { return d.pointwise("y0 = 0", {like}); }

  void put_last(bool by_x, bool by_src, Value& dx, Value& dsrc) const {
    if (by_x) dx = put(g, zeros(src), "none");
    if (!by_src) return;
    // The places along dim, put in the same way, tell which element stayed.
    const int64_t count = d.desc(src).shape[int(dim)];
    std::vector<int64_t> numbers;
    for (int64_t i = 0; i < count; ++i) numbers.push_back(i);
    Dims along = Dims::filled(d.desc(src).shape.size(), 1);
    along[int(dim)] = count;
    const Value number = d.expanded(d.reshaped(d.integers(numbers), along), d.desc(src).shape);
    const Value none = d.make("cast", Attributes{{attr::dtype, std::string(name_of(DType::s64))}}, {zeros(x)});
    const Value stayed = d.make("eq", {}, {found(put(none, number, "none")), number});
    dsrc = d.make("where", {}, {stayed, found(g), zeros(src)});
  }

  void product(bool by_x, bool by_src, Value& dx, Value& dsrc) const {
    constexpr const char* kNoZeros = "y0 = where(x0 == 0, 1, x0)";
    if (by_x) {
      const Value own = d.pointwise(kNoZeros, {x});
      dx = d.pointwise("y0 = x0 * x1 / x2", {g, put(own, src, "prod"), own});
    }
    if (!by_src) return;
    const Value count = found(put(zeros(x), d.pointwise("y0 = x0 == 0", {src}), "sum"));
    const Value others = found(d.pointwise("y0 = x0 * x1", {g, put(x, d.pointwise(kNoZeros, {src}), "prod")}));
    const Value all = found(d.pointwise("y0 = x0 * x1", {g, y}));
    dsrc = d.pointwise("y0 = where(x0 == 0, where(x1 == 1, x2, 0), x3 / where(x0 == 0, 1, x0))",
                       {src, count, others, all});
  }

  void extreme(bool by_x, bool by_src, Value& dx, Value& dsrc) const {
    const Value own = d.pointwise("y0 = x0 == x1", {x, y}), put_there = d.pointwise("y0 = x0 == x1", {src, found(y)});
    const Value share = d.pointwise("y0 = x0 / max(x1, 1)", {g, put(own, put_there, "sum")});
    if (by_x) dx = d.pointwise("y0 = x0 * x1", {own, share});
    if (by_src) dsrc = d.pointwise("y0 = x0 * x1", {put_there, found(share)});
  }

  // The gradients by x and src, where they are wanted.
  std::pair<Value, Value> derive(bool by_x, bool by_src) const {
    Value dx = Builder::kNone, dsrc = Builder::kNone;
    if (reduce == "sum") {
      dx = g;
      if (by_src) dsrc = found(g);
    } else if (reduce == "none") {
      put_last(by_x, by_src, dx, dsrc);
    } else if (reduce == "prod") {
      product(by_x, by_src, dx, dsrc);
    } else {
      extreme(by_x, by_src, dx, dsrc);
    }
    return {dx, dsrc};
  }
};

}  // namespace

void derive_scatter(Derivation& d) {
  const Attributes& attributes = d.op().attributes;
  const auto [dx, dsrc] =
      Scattered{d,          attributes[attr::dim], attributes[attr::reduce], d.input(0), d.input(1), d.input(2),
                d.output(), d.gradient()}
          .derive(d.wanted(0), d.wanted(2));
  if (d.wanted(0)) d.give(0, dx);
  if (d.wanted(2)) d.give(2, dsrc);
}

// The dimensions that are indexed made one: scatter along it.
void derive_scatter_nd(Derivation& d) {
  const Dims &x = d.op().in(0).shape, &index = d.op().in(1).shape;
  const int depth = int(index[index.size() - 1]);
  const int64_t count = index.product() / depth;
  int64_t slices = 1, inner = 1;
  std::vector<int64_t> sizes, steps;
  for (int i = depth; i < x.size(); ++i) inner *= x[i];
  for (int i = depth; i-- > 0;) {
    sizes.insert(sizes.begin(), x[i]);
    steps.insert(steps.begin(), slices);
    slices *= x[i];
  }
  Builder::Value places = d.input(1);
  if (d.op().in(1).dtype != DType::s64)
    places = d.make("cast", Attributes{{attr::dtype, std::string(name_of(DType::s64))}}, {places});
  if (depth > 1) {
    // Negative ones count from the end.
    places = d.pointwise("y0 = where(x0 < 0, x0 + x1, x0) * x2", {places, d.integers(sizes), d.integers(steps)});
    places = d.summed(places, {index.size() - 1}, false);
  }
  const Dims flat{slices, inner}, flat_src{count, inner};
  const auto [dx, dsrc] = Scattered{d,
                                    0,
                                    d.op().attributes[attr::reduce],
                                    d.reshaped(d.input(0), flat),
                                    d.reshaped(places, Dims{count, 1}),
                                    d.reshaped(d.input(2), flat_src),
                                    d.reshaped(d.output(), flat),
                                    d.reshaped(d.gradient(), flat)}
                              .derive(d.wanted(0), d.wanted(2));
  if (d.wanted(0)) d.give(0, d.reshaped(dx, x));
  if (d.wanted(2)) d.give(2, d.reshaped(dsrc, d.op().in(2).shape));
}

}  // namespace pl
