// slice and split: parts of a tensor.
#include <algorithm>

#include "ops/gradient.h"
#include "ops/sliced_axes.h"
#include "ops/view.h"

namespace pl {
namespace {

constexpr const char* kViewAtWholeBlocks =
    "A view where the layout of x permits (blocked dimensions must be cut at whole blocks); else x is brought to the "
    "plain layout first.";
constexpr size_t kMostSplitParts = 65536;

// After infer the attributes hold a start, end and step for each dimension, in range.
void infer_slice(Op& op) {
  const Dims& x = op.in(0).shape;
  const std::vector<int64_t> ends = op.attributes[attr::ends];
  const size_t count = op.attributes[attr::starts].size();
  check(op, ends.size() == count, Code::invalid_argument, "ends has ", ends.size(), " values, expected ", count,
        " (as many as starts)");
  const auto [starts, axes, steps] = SlicedAxes::of(op);
  std::vector<int64_t> first(size_t(x.size()), 0), last = x.vector(), step(size_t(x.size()), 1), all;
  for (int i = 0; i < x.size(); ++i) all.push_back(i);
  Dims output = x;
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = axes[i], size = x[int(axis)];
    const size_t a = size_t(axis);
    const auto inside = [size](int64_t place) {
      return std::clamp<int64_t>(place < 0 ? place + size : place, 0, size);
    };
    first[a] = inside(starts[i]);
    last[a] = std::max(first[a], inside(ends[i]));
    const int64_t length = last[a] - first[a];
    step[a] = std::min(steps[i], std::max<int64_t>(1, length));  // a longer step takes the first element only, too
    output[int(axis)] = length / step[a] + (length % step[a] != 0);
  }
  op.attributes.set(attr::starts, first);
  op.attributes.set(attr::ends, last);
  op.attributes.set(attr::axes, all);
  op.attributes.set(attr::steps, step);
  add_output(op, output);
}

// Zeros around the gradient, and between its elements where steps are larger than one.
void derive_slice(Derivation& d) {
  const Dims& x = d.op().in(0).shape;
  const std::vector<int64_t>&starts = d.op().attributes[attr::starts], &steps = d.op().attributes[attr::steps];
  Derivation::Value value = d.gradient();
  std::vector<int64_t> pad;  // the last dimension first
  for (int i = x.size(); i-- > 0;) {
    const int64_t step = steps[size_t(i)];
    Dims shape = d.desc(value).shape;
    if (step > 1) {
      Dims apart(shape.begin(), size_t(i + 1));
      apart.push_back(1);
      for (int k = i + 1; k < shape.size(); ++k) apart.push_back(shape[k]);
      std::vector<int64_t> between(size_t(2 * (shape.size() - i)), 0);
      between.back() = step - 1;
      value = d.make("pad", Attributes{{attr::pad, between}}, {d.reshaped(value, apart)});
      shape[i] *= step;
      value = d.reshaped(value, shape);
    }
    pad.push_back(starts[size_t(i)]);
    pad.push_back(x[i] - starts[size_t(i)] - shape[i]);
  }
  d.give(0, d.make("pad", Attributes{{attr::pad, pad}}, {value}));
}

void derive_split(Derivation& d) {
  std::vector<Derivation::Value> parts;
  for (size_t k = 0; k < d.op().outputs.size(); ++k) parts.push_back(d.gradient(int(k)));
  d.give(0, d.make("concat", Attributes{{attr::dim, d.op().attributes[attr::dim]}}, parts));
}

Schema make_slice() {
  Schema schema("slice", "slice",
                concat("A part of a tensor: starts[i], starts[i] + steps[i], ... before ends[i] along dimension "
                       "axes[i].\n\nNegative starts and ends count from the end; they are limited to the size, as in "
                       "Python.  ",
                       kViewAtWholeBlocks, "\n\nSource: semantics of ONNX's Slice, with positive steps."));
  schema.tensor("x", "any shape, any dtype")
      .batched()
      .required(attr::starts, "first index along each of axes")
      .required(attr::ends, "index after the last along each of axes")
      .attribute(attr::axes, None{}, "dimensions; None: the first ones")
      .attribute(attr::steps, None{}, "at least 1; None: ones")
      .result(Result("y").like("x"));
  schema.renaming = Renaming::part;
  schema.same_if_alike = true;
  schema.infer = infer_slice;
  schema.gradient = derive_slice;
  schema.flops = [](const Op&) { return 0.0; };
  schema.view = [](const Op& op) -> std::optional<std::vector<TensorDesc>> {
    const auto desc =
        view_sliced(op.in(0), Dims(op.attributes[attr::starts]), op.out().shape, Dims(op.attributes[attr::steps]));
    if (!desc) return std::nullopt;
    return std::vector<TensorDesc>{*desc};
  };
  return schema;
}

// After infer split_size_or_sections holds the size of each part.
void infer_split(Op& op) {
  check_rank(op, 0, 1, kMaxRank);
  const Dims& x = op.in(0).shape;
  const int64_t dim = normalise_dim(op, attr::dim, op.attributes[attr::dim], x.size());
  const int64_t size = x[int(dim)];
  std::vector<int64_t> sections = op.attributes[attr::split_size_or_sections];
  check(op, !sections.empty(), Code::invalid_argument, "split_size_or_sections is empty, expected at least one value");
  for (int64_t section : sections)
    check(op, section >= 0, Code::invalid_argument, "split_size_or_sections holds ", section, ", expected at least 0");
  if (sections.size() == 1) {
    const int64_t part = sections[0];
    check(op, part > 0 || size == 0, Code::invalid_argument, "split_size_or_sections is 0, expected at least 1");
    check(op, size == 0 || (size - 1) / part < int64_t(kMostSplitParts), Code::invalid_argument,
          "split_size_or_sections is ", part, ", expected at most ", kMostSplitParts, " parts of dimension ", dim,
          " of size ", size);
    sections.clear();
    for (int64_t start = 0; start < size; start += part) sections.push_back(std::min(part, size - start));
    if (sections.empty()) sections.push_back(0);
  }
  int64_t total = 0;
  for (int64_t section : sections)
    check(op, !__builtin_add_overflow(total, section, &total), Code::invalid_argument,
          "the sum of split_size_or_sections overflows 64 bits");
  check(op, total == size, Code::shape, "the sum of split_size_or_sections is ", total, ", expected ", size,
        " (the size of dimension ", dim, " of x)");
  op.attributes.set(attr::dim, dim);
  op.attributes.set(attr::split_size_or_sections, sections);
  Dims output = x;
  for (int64_t section : sections) {
    output[int(dim)] = section;
    add_output(op, output);
  }
}

std::optional<std::vector<TensorDesc>> view_split(const Op& op) {
  const TensorDesc& x = op.in(0);
  const int dim = int(op.attributes[attr::dim]);
  Dims starts = Dims::filled(x.rank(), 0);
  const Dims steps = Dims::filled(x.rank(), 1);
  std::vector<TensorDesc> views;
  for (const TensorDesc& output : op.outputs) {
    const auto desc = view_sliced(x, starts, output.shape, steps);
    if (!desc) return std::nullopt;
    views.push_back(*desc);
    starts[dim] += output.shape[dim];
  }
  return views;
}

Schema make_split() {
  Schema schema("split", "split",
                concat("A tensor cut into parts along one dimension.\n\n", kViewAtWholeBlocks,
                       "\n\nReturns one tensor for each part.\n\nSource: semantics of torch.split."));
  schema.tensor("x", "rank at least 1, any dtype")
      .batched()
      .required(attr::split_size_or_sections,
                "one value: the size of each part, the last one smaller if need be; several: the sizes of the parts")
      .attribute(attr::dim, int64_t(0), "the dimension; negative counts from the last")
      .axis(attr::dim)
      .result(Result("parts").like("x").repeated());
  schema.renaming = Renaming::split;
  schema.same_if_alike = true;
  schema.infer = infer_split;
  schema.gradient = derive_split;
  schema.several = true;
  schema.flops = [](const Op&) { return 0.0; };
  schema.view = view_split;
  return schema;
}

PL_REGISTER_OP(make_slice);
PL_REGISTER_OP(make_split);

}  // namespace
}  // namespace pl
