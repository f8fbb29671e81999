// slice_scatter: a part of a tensor replaced.
#include "ops/gradient.h"
#include "ops/sliced_axes.h"

namespace pl {
namespace {

// After infer the attributes hold a start and a step for each dimension, in range.
void infer_slice_scatter(Op& op) {
  const Dims &x = op.in(0).shape, &src = op.in(1).shape;
  check_rank(op, 1, x.size(), x.size());
  const auto [starts, axes, steps] = SlicedAxes::of(op);
  std::vector<int64_t> first(size_t(x.size()), 0), step(size_t(x.size()), 1), all;
  for (int i = 0; i < x.size(); ++i) all.push_back(i);
  bool seen[kMaxRank] = {};
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = axes[i], size = x[int(axis)];
    seen[axis] = true;
    check(op, starts[i] >= -size && starts[i] <= size, Code::invalid_argument, "starts[", i, "] is ", starts[i],
          ", expected ", -size, " to ", size);
    first[size_t(axis)] = starts[i] < 0 ? starts[i] + size : starts[i];
    step[size_t(axis)] = steps[i];
  }
  for (int i = 0; i < x.size(); ++i) {
    const int64_t room = x[i] - first[size_t(i)], most = room / step[size_t(i)] + (room % step[size_t(i)] != 0);
    check(op, seen[i] ? src[i] <= most : src[i] == x[i], Code::shape, "src.shape is ", src, ", expected ",
          seen[i] ? "at most " : "", seen[i] ? most : x[i], " along dimension ", i);
    if (src[i] <= 1) step[size_t(i)] = 1;
  }
  op.attributes.set(attr::starts, first);
  op.attributes.set(attr::axes, all);
  op.attributes.set(attr::steps, step);
  add_output(op);
}

// Of x: zeros where src was written. Of src: what lies there.
void derive_slice_scatter(Derivation& d) {
  const Op& op = d.op();
  const Dims& src = op.in(1).shape;
  const Ints &starts = op.attributes[attr::starts], &steps = op.attributes[attr::steps];
  d.give_if_wanted(0, [&] {
    const Derivation::Value nothing = d.pointwise("y0 = 0 * s0", {d.input(1)}, {0});
    return d.make("slice_scatter",
                  Attributes{{attr::starts, starts}, {attr::axes, op.attributes[attr::axes]}, {attr::steps, steps}},
                  {d.gradient(), nothing});
  });
  d.give_if_wanted(1, [&] {
    Ints ends;
    for (int i = 0; i < src.size(); ++i)
      ends.push_back(src[i] ? starts[size_t(i)] + (src[i] - 1) * steps[size_t(i)] + 1 : starts[size_t(i)]);
    return d.make(
        "slice",
        Attributes{
            {attr::starts, starts}, {attr::ends, ends}, {attr::axes, op.attributes[attr::axes]}, {attr::steps, steps}},
        {d.gradient()});
  });
}

Schema slice_scatter() {
  Schema schema(
      "slice_scatter", "slice_scatter",
      "x with src written to a part of it.\n\n"
      "y[starts[0] + i * steps[0], starts[1] + j * steps[1], ...] = src[i, j, ...] along dimensions axes; all "
      "else is as in x.\n\n"
      "Returns x.shape in the dtype of x; where x is needed no more, only the part is written.\n\n"
      "Source: semantics of torch.slice_scatter, along several dimensions at once.");
  schema.tensor("x", "any shape, any dtype")
      .tensor("src", "the shape of the part, which is x.shape but along axes; the dtype of x")
      .like("x")
      .required(attr::starts, "first index along each of axes; negative counts from the end")
      .attribute(attr::axes, None{}, "dimensions; None: the first ones")
      .attribute(attr::steps, None{}, "at least 1; None: ones")
      .result(Result("y").like("x").shaped("x").over("x"));
  schema.infer = infer_slice_scatter;
  schema.gradient = derive_slice_scatter;
  schema.flops = [](const Op& op) { return double(op.in(1).elements()); };
  return schema;
}

PL_REGISTER_OP(slice_scatter);

}  // namespace
}  // namespace pl
