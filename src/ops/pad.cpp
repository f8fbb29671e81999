// pad: borders added to a tensor, or cut from it.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/gradient.h"

namespace pl {
namespace {

// Whether a pad value is one of the dtype's own.
bool representable(double value, DType dtype) {
  if (is_floating(dtype)) return true;
  if (value != std::floor(value)) return false;
  switch (dtype) {
    case DType::boolean: return value == 0 || value == 1;
    case DType::u8: return value >= 0 && value <= 255;
    case DType::s8: return value >= -128 && value <= 127;
    case DType::s32:
      return value >= std::numeric_limits<int32_t>::min() && value <= std::numeric_limits<int32_t>::max();
    default: return value >= -0x1p63 && value < 0x1p63;
  }
}

void infer_pad(Op& op) {
  const Dims& x = op.in(0).shape;
  const std::vector<int64_t> pad = op.attributes[attr::pad];
  const std::string mode = op.attributes[attr::mode];
  check(op, pad.size() % 2 == 0 && pad.size() <= size_t(2 * x.size()), Code::invalid_argument, "pad has ", pad.size(),
        " values, expected an even number up to ", 2 * x.size(), " (two for each dimension of x)");
  check_range(op, attr::pad, pad, -(int64_t(1) << 60), int64_t(1) << 60);  // no tensor has larger sizes
  check_not_nan(op, attr::value);
  const double value = op.attributes[attr::value];
  check(op, representable(value, op.in(0).dtype), Code::invalid_argument, "value is ", value, ", expected a value of ",
        name_of(op.in(0).dtype), " (x.dtype)");

  std::vector<int64_t> begins(size_t(x.size()), 0), ends = begins;
  for (size_t i = 0; i < pad.size(); i += 2) {
    begins[size_t(x.size()) - 1 - i / 2] = pad[i];
    ends[size_t(x.size()) - 1 - i / 2] = pad[i + 1];
  }
  Dims output = x;
  for (int d = 0; d < x.size(); ++d) {
    const int64_t begin = begins[size_t(d)], end = ends[size_t(d)];
    const bool overflow =
        __builtin_add_overflow(output[d], begin, &output[d]) || __builtin_add_overflow(output[d], end, &output[d]);
    check(op, !overflow && output[d] >= 0, Code::shape, "pad adds ", begin, " and ", end, " to dimension ", d,
          " of size ", x[d], ", expected a result of at least 0 that fits 64 bits");
    const int64_t most = std::max(begin, end);
    const int64_t crop = std::max<int64_t>(0, -begin) + std::max<int64_t>(0, -end);
    check(op, crop <= x[d], Code::shape, "pad takes ", crop, " from dimension ", d, " of size ", x[d],
          ", expected at most its size");
    if (mode == "reflect")
      check(op, most <= 0 || most < x[d], Code::shape, "pad adds ", most, " to dimension ", d, " of size ", x[d],
            ", expected less than its size (mode reflect)");
    if (mode == "replicate")
      check(op, most <= 0 || x[d] > 0, Code::shape, "pad adds ", most, " to dimension ", d,
            " of size 0, expected a size of at least 1 (mode replicate)");
  }
  op.attributes.set(attr::begins, begins);
  op.attributes.set(attr::ends, ends);
  add_output(op, output);
}

// Where an element of the result comes from along a dimension of size n.
int64_t source_of(const std::string& mode, int64_t at, int64_t n) {
  if (mode == "replicate") return std::clamp<int64_t>(at, 0, n - 1);
  return at < 0 ? -at : at >= n ? 2 * (n - 1) - at : at;
}

// Elements that were copied are added up along one dimension after the other.  Of a constant border: what was added is
// cut, what was cut is zero.
void derive_pad(Derivation& d) {
  const Attributes& a = d.op().attributes;
  const std::string& mode = a[attr::mode];
  if (mode != "constant") {
    const Dims &x = d.op().in(0).shape, &y = d.op().out().shape;
    Derivation::Value g = d.gradient();
    for (int dim = 0; dim < x.size(); ++dim) {
      const int64_t begin = a[attr::begins][size_t(dim)];
      if (begin == 0 && y[dim] == x[dim]) continue;
      std::vector<int64_t> sources;
      for (int64_t i = 0; i < y[dim]; ++i) sources.push_back(source_of(mode, i - begin, x[dim]));
      g = d.make("index_select_backward", Attributes{{attr::dim, int64_t(dim)}, {attr::size, x[dim]}},
                 {g, d.integers(sources)});
    }
    return d.give(0, g);
  }
  const std::vector<int64_t>&begins = a[attr::begins], &ends = a[attr::ends];
  std::vector<int64_t> pad;
  for (size_t i = begins.size(); i-- > 0;) {
    pad.push_back(-begins[i]);
    pad.push_back(-ends[i]);
  }
  d.give(0, d.make("pad", Attributes{{attr::pad, pad}}, {d.gradient()}));
}

Schema pad() {
  Schema schema("pad", "pad",
                "Borders added to a tensor, or cut from it.\n\n"
                "Along a padded dimension: y[i] = x[i - begin], outside of x the value (constant), the mirror image "
                "about the first or last element (reflect) or the nearest element (replicate).\n\n"
                "Returns the dtype of x, each size grown by begin + end.\n\n"
                "Source: semantics of torch.nn.functional.pad; any dimension may be padded in every mode.");
  schema.tensor("x", "any shape, any dtype")
      .batched()
      .required(attr::pad, "begin and end of the last dimension, then of the one before it, ...; negative ones crop")
      .attribute(attr::mode, std::string("constant"), "what borders hold", {"constant", "reflect", "replicate"})
      .attribute(attr::value, 0.0, "of mode constant; must be a value of x's dtype")
      .axis(attr::begins, AxisRule::Meaning::offsets)
      .axis(attr::ends, AxisRule::Meaning::offsets)
      .result(Result("y").like("x"));
  schema.same_if_alike = true;
  schema.same_only_if = {{attr::begins, 0}, {attr::ends, 0}};
  schema.infer = infer_pad;
  schema.gradient = derive_pad;
  return schema;
}

PL_REGISTER_OP(pad);

}  // namespace
}  // namespace pl
