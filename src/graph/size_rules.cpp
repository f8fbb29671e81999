// What of a graph follows from sizes beside its shapes: attributes, constants, and the sizes for which it holds.
#include <algorithm>
#include <cctype>
#include <cstring>

#include "graph/graph.h"

namespace pl {
namespace {

constexpr int64_t kMostNumbers = int64_t(1) << 28;  // of a late constant

const char* sign_of(SizeRule::Kind kind) {
  switch (kind) {
    case SizeRule::Kind::equal: return "==";
    case SizeRule::Kind::different: return "!=";
    case SizeRule::Kind::less: return "<";
    case SizeRule::Kind::at_most: return "<=";
    default: return nullptr;
  }
}

}  // namespace

std::string SizeRule::str() const {
  if (const char* sign = sign_of(kind)) return sizes[0].str() + " " + sign + " " + sizes[1].str();
  std::string text = kind == Kind::range ? "range(" : kind == Kind::numbers ? "[" : "";
  for (size_t i = 0; i < sizes.size(); ++i) text += (i ? "," : "") + sizes[i].str();
  return text + (kind == Kind::range ? ")" : kind == Kind::numbers ? "]" : "");
}

int64_t Graph::dimension(const SizeSource& source, const SizeExpression& size) const {
  // A size's text is made only where it is needed: each new size of a plan asks thousands of times.
  if (source.value < 0 || size_t(source.value) >= values_.size())
    fail(Code::invalid_argument, "graph: size ", size.str(), ": there is no value ", source.value,
         ", expected less than ", values_.size());
  const Dims& shape = value(source.value).desc.shape;
  if (source.dim < 0 || source.dim >= shape.size())
    fail(Code::shape, "graph: size ", size.str(), ": value ", source.value, " has rank ", shape.size(),
         ", expected one with a dimension ", source.dim);
  return shape[source.dim];
}

int64_t Graph::evaluated(const SizeExpression& size) const {
  return size.evaluate([&](const SizeSource& source) { return dimension(source, size); });
}

SizeExpression Graph::settled(const SizeExpression& size) const {
  return size.with_numbers([&](const SizeSource& source) -> std::optional<int64_t> {
    const int64_t number = dimension(source, size);
    const auto is_late = [&](const SizeRule& rule) { return rule.value == source.value; };
    if (!is_constant(source.value) || std::any_of(rules_.begin(), rules_.end(), is_late)) return std::nullopt;
    return number;
  });
}

SizeExpression Graph::size_expression(std::string_view text) const {
  return SizeExpression::parse(text, [&](const std::string& name) -> SizeSource {
    for (const GraphInput& input : inputs_)
      for (size_t i = 0; i < input.axes.size(); ++i)
        if (input.axes[i] == name) return {input.value, int(i)};
    std::string names;
    for (const auto& [axis, size] : axes()) names += (names.empty() ? "" : ", ") + axis;
    fail(Code::invalid_argument, "graph: size \"", text, "\": no input has an axis \"", name, "\"; expected one of ",
         names.empty() ? "(none)" : names);
  });
}

std::vector<SizeExpression> Graph::size_expressions(std::string_view text) const {
  std::vector<SizeExpression> sizes;
  if (text.empty()) return sizes;
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c != ',' || (depth > 0 && i < text.size())) continue;
    sizes.push_back(size_expression(text.substr(begin, i - begin)));
    begin = i + 1;
  }
  return sizes;
}

std::vector<LateAttribute> Graph::late_attributes(std::string_view text) const {
  std::vector<LateAttribute> list;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    begin = end + 1;
    if (word.empty()) continue;
    const size_t equals = word.find('=');
    require(equals != 0 && equals < word.size(), Code::invalid_argument, "graph: late attributes are \"", text,
            "\": expected name=size or name=[size,size] in place of \"", word, "\"");
    LateAttribute attribute;
    attribute.name = AttributeName::of(word.substr(0, equals));
    std::string_view sizes = word.substr(equals + 1);
    attribute.list = sizes.size() >= 2 && sizes.front() == '[' && sizes.back() == ']';
    if (attribute.list) sizes = sizes.substr(1, sizes.size() - 2);
    attribute.sizes = size_expressions(sizes);
    require(attribute.list || attribute.sizes.size() == 1, Code::invalid_argument, "graph: late attribute ", word,
            ": expected one size, or several in brackets");
    list.push_back(std::move(attribute));
  }
  return list;
}

std::string Graph::late_text(const std::vector<LateAttribute>& late) {
  std::string text;
  for (const LateAttribute& attribute : late) {
    text.append(text.empty() ? "" : " ").append(attribute.name.text()).append(attribute.list ? "=[" : "=");
    for (size_t i = 0; i < attribute.sizes.size(); ++i) text += (i ? "," : "") + attribute.sizes[i].str();
    if (attribute.list) text += "]";
  }
  return text;
}

void Graph::check(const SizeRule& condition) const {
  const int64_t left = evaluated(condition.sizes[0]), right = evaluated(condition.sizes[1]);
  const bool holds = condition.kind == SizeRule::Kind::equal       ? left == right
                     : condition.kind == SizeRule::Kind::different ? left != right
                     : condition.kind == SizeRule::Kind::less      ? left < right
                                                                   : left <= right;
  if (holds) return;
  fail(Code::unsupported, "graph: it was made for sizes where ", named(condition.str()), ", here ", left, " and ",
       right);
}

std::string Graph::named(std::string text) const {
  for (const GraphInput& input : inputs_)
    for (size_t i = input.axes.size(); i-- > 0;) {
      if (input.axes[i].empty()) continue;
      const std::string source = concat("#", input.value, ".", i);
      for (size_t at = 0; (at = text.find(source, at)) != std::string::npos;) {
        const size_t behind = at + source.size();
        const bool whole = behind == text.size() || !std::isdigit(static_cast<unsigned char>(text[behind]));
        if (whole) text.replace(at, source.size(), input.axes[i]);
        at += whole ? input.axes[i].size() : source.size();
      }
    }
  return text;
}

std::pair<TensorDesc, std::vector<char>> Graph::contents_of(const SizeRule& constant, DType dtype) const {
  std::vector<int64_t> numbers;
  for (const SizeExpression& size : constant.sizes) numbers.push_back(evaluated(size));
  if (constant.kind == SizeRule::Kind::range) {
    const int64_t first = numbers[0], end = numbers[1], step = numbers[2];
    require(step != 0, Code::invalid_argument, "graph: ", constant.str(), ": the step is 0");
    // Of a negative step: the same, mirrored.
    const __int128 span = step > 0 ? __int128(end) - first : __int128(first) - end,
                   each = step > 0 ? step : -__int128(step);
    const __int128 count = span <= 0 ? 0 : (span + each - 1) / each;
    require(count <= kMostNumbers, Code::shape, "graph: ", constant.str(), ": more than ", kMostNumbers, " numbers");
    numbers.resize(size_t(count));
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = first + int64_t(i) * step;
  }
  Dims shape;
  if (constant.kind != SizeRule::Kind::number) shape = Dims({int64_t(numbers.size())});
  std::vector<char> data(numbers.size() * size_of(dtype));
  const auto put = [&](auto type) {
    for (size_t i = 0; i < numbers.size(); ++i) {
      const auto number = decltype(type)(numbers[i]);
      if constexpr (std::is_same_v<decltype(type), int32_t>)
        require(number == numbers[i], Code::shape, "graph: ", constant.str(), ": ", numbers[i],
                " does not fit s32, the dtype of the value");
      std::memcpy(data.data() + i * sizeof number, &number, sizeof number);
    }
  };
  if (dtype == DType::s64)
    put(int64_t());
  else if (dtype == DType::s32)
    put(int32_t());
  else if (dtype == DType::f32)
    put(float());
  else
    fail(Code::unsupported, "graph: ", constant.str(), ": dtype is ", name_of(dtype), ", expected s64, s32 or f32");
  return {TensorDesc::dense(dtype, shape), std::move(data)};
}

TensorRef Graph::tensor_of(const SizeRule& constant, DType dtype, Device& device) const {
  const auto [desc, data] = contents_of(constant, dtype);
  const TensorRef tensor = Tensor::allocate(device, desc);
  if (!data.empty()) device.write(*tensor->buffer(), 0, data.data(), data.size());
  return tensor;
}

Attributes Graph::with_late(Attributes attributes, const std::vector<LateAttribute>& late) const {
  for (const LateAttribute& attribute : late) {
    std::vector<int64_t> numbers;
    for (const SizeExpression& size : attribute.sizes) numbers.push_back(evaluated(size));
    if (attribute.list)
      attributes.set_value(attribute.name, std::move(numbers));
    else
      attributes.set_value(attribute.name, numbers.at(0));
  }
  return attributes;
}

ValueId Graph::late_constant(const std::string& name, DType dtype, Device& device, SizeRule::Kind kind,
                             std::vector<SizeExpression> sizes) {
  for (SizeExpression& size : sizes) size = settled(size);
  SizeRule rule{kind, std::move(sizes), kNoValue, nodes_.size()};
  require(kind != SizeRule::Kind::range || rule.sizes.size() == 3, Code::invalid_argument, "graph: ", rule.str(),
          ": expected three sizes");
  rule.value = constant(name.empty() ? "sizes" : name, tensor_of(rule, dtype, device));
  rules_.push_back(rule);
  return rule.value;
}

void Graph::require_sizes(SizeRule::Kind kind, const SizeExpression& left, const SizeExpression& right) {
  const SizeRule rule{kind, {settled(left), settled(right)}, kNoValue, nodes_.size()};
  check(rule);
  rules_.push_back(rule);
}

void Graph::follow(const SizeRule& rule, const Value& old, std::vector<ValueId>& places) {
  SizeRule own = rule;
  for (SizeExpression& size : own.sizes) size = size.renumbered([&](ValueId id) { return places[size_t(id)]; });
  if (own.value == kNoValue) return require_sizes(own.kind, own.sizes[0], own.sizes[1]);
  places[size_t(rule.value)] =
      late_constant(old.name, old.desc.dtype, old.constant->device(), own.kind, std::move(own.sizes));
}

void Graph::forget_rules() {
  rules_.clear();
  derived_.clear();
  for (Node& node : nodes_) node.late.clear();
}

}  // namespace pl
