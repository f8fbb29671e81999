#include "ops/spatial.h"

namespace pl {
namespace {

constexpr int64_t kLargest = (int64_t(1) << 31) - 1;  // products of two such values cannot overflow

}  // namespace

int spatial_rank(const Op& op) { return int(op.attributes[attr::spatial]); }

Window window_of(const Op& op, int axis) {
  const int spatial = spatial_rank(op);
  const size_t i = size_t(axis);
  Window window;
  window.in = op.in(0).shape[2 + axis];
  window.out = op.out().shape[2 + axis];
  window.kernel = op.schema->kind == "pool" ? op.attributes[attr::kernel_size][i] : op.in(1).shape[2 + axis];
  window.stride = op.attributes[attr::stride][i];
  window.dilation = op.attributes[attr::dilation][i];
  window.begin = op.attributes[attr::padding][i];
  window.end = op.attributes[attr::padding][i + size_t(spatial)];
  return window;
}

const char* spatial_name(int spatial, int axis) {
  constexpr const char* names[] = {"d", "h", "w"};
  return names[3 - spatial + axis];
}

std::string spatial_list(int spatial, const std::string& prefix) {
  std::string text;
  for (int i = 0; i < spatial; ++i) text += (i ? ", " : "") + prefix + spatial_name(spatial, i);
  return text;
}

std::vector<int64_t> positive_per_axis(Op& op, const Key<Ints>& attribute, int spatial) {
  std::vector<int64_t> values = expand_ints(op, attribute, spatial);
  check_range(op, attribute, values, 1, kLargest);
  return values;
}

std::vector<int64_t> expand_padding(Op& op, int spatial) {
  std::vector<int64_t> values = op.attributes[attr::padding];
  check_range(op, attr::padding, values, 0, kLargest);
  const size_t s = size_t(spatial);
  if (values.size() == 1) values.resize(s, values[0]);
  if (values.size() == s) {
    values.resize(2 * s);
    std::copy(values.begin(), values.begin() + spatial, values.begin() + spatial);
  }
  check(op, values.size() == 2 * s, Code::invalid_argument, "padding has ", values.size(), " values, expected 1, ", s,
        " or ", 2 * s, " (begins, then ends)");
  op.attributes.set(attr::padding, values);
  return values;
}

void spell_padding(Op& op, const std::vector<int64_t>& kernel, const std::vector<int64_t>& stride,
                   const std::vector<int64_t>& dilation) {
  const std::string word(word_of(op, attr::padding));
  if (word.empty()) return;
  const size_t spatial = kernel.size();
  std::vector<int64_t> padding(2 * spatial, 0);
  for (size_t s = 0; s < spatial && word != "valid"; ++s) {
    const char* name = spatial_name(int(spatial), int(s));
    const int64_t in = op.in(0).shape[2 + int(s)];
    check(op, word != "same" || stride[s] == 1, Code::invalid_argument, "padding is \"same\" and stride along ", name,
          " is ", stride[s], ", expected 1; \"same_upper\" and \"same_lower\" allow other strides");
    check(op, kernel[s] >= 1 && kernel[s] <= kLargest, Code::shape, "kernel size along ", name, " is ", kernel[s],
          ", expected 1 to ", kLargest);
    const int64_t last = in == 0 ? 0 : (in - 1) / stride[s] * stride[s];  // where the last window begins, unpadded
    const int64_t total = std::max<int64_t>(0, last + dilation[s] * (kernel[s] - 1) + 1 - in);
    (word == "same_lower" ? padding[s + spatial] : padding[s]) = total / 2;
    (word == "same_lower" ? padding[s] : padding[s + spatial]) = total - total / 2;
  }
  op.attributes.set(attr::padding, padding);
}

std::vector<std::string> padding_words() { return {"valid", "same", "same_upper", "same_lower"}; }
const char* const kPaddingWords =
    "; or \"valid\": none; \"same\", with stride 1: the result has the size of x, an odd element is at the end; "
    "\"same_upper\", \"same_lower\", any stride: in / stride rounded up, an odd element is at the end or the begin";

int64_t sliding_size(const Op& op, const Window& window, const char* axis_name) {
  check(op, window.kernel >= 1 && window.kernel <= kLargest, Code::shape, "kernel size along ", axis_name, " is ",
        window.kernel, ", expected 1 to ", kLargest);
  const int64_t padded = window.in + window.begin + window.end;
  check(op, window.reach() <= padded, Code::shape, "x.", axis_name, " is ", window.in, ", with padding ", padded,
        ", expected at least ", window.reach(), " (kernel ", window.kernel, " with dilation ", window.dilation, ")");
  return (padded - window.reach()) / window.stride + 1;
}

Dims convolved_shape(Op& op, int spatial) {
  const Dims& x = op.in(0).shape;
  const Dims& weight = op.in(1).shape;

  const int64_t groups = op.attributes[attr::groups];
  check(op, groups >= 1, Code::invalid_argument, "groups is ", groups, ", expected at least 1");
  check(op, x[1] >= 1 && x[1] % groups == 0, Code::shape, "x.c is ", x[1], ", expected a multiple of ", groups,
        " (groups)");
  check(op, weight[1] == x[1] / groups, Code::shape, "weight.ic is ", weight[1], ", expected ", x[1] / groups,
        " (x.c / groups)");
  check(op, weight[0] >= 1 && weight[0] % groups == 0, Code::shape, "weight.oc is ", weight[0],
        ", expected a multiple of ", groups, " (groups)");

  const auto stride = positive_per_axis(op, attr::stride, spatial);
  const auto dilation = positive_per_axis(op, attr::dilation, spatial);
  spell_padding(op, {weight.begin() + 2, weight.end()}, stride, dilation);
  const auto padding = expand_padding(op, spatial);
  Dims output{x[0], weight[0]};
  for (int i = 0; i < spatial; ++i) {
    const size_t s = size_t(i);
    Window window;
    window.in = x[2 + i];
    window.kernel = weight[2 + i];
    window.stride = stride[s];
    window.dilation = dilation[s];
    window.begin = padding[s];
    window.end = padding[s + size_t(spatial)];
    output.push_back(sliding_size(op, window, spatial_name(spatial, i)));
  }
  return output;
}

}  // namespace pl
