#include "graph/saved_graph.h"

#include <algorithm>
#include <sstream>

#include "dispatch/context.h"
#include "graph/gradients.h"

namespace pl {
namespace {

constexpr size_t kAlignment = 64;

// The fields of a list, none where it is empty.
std::vector<std::string> fields_of(const std::string& list) {
  std::vector<std::string> fields;
  if (list.empty()) return fields;
  std::istringstream parts(list + ",");
  for (std::string part; std::getline(parts, part, ',');) fields.push_back(part);
  return fields;
}

std::string sizes_text(const std::vector<SizeExpression>& sizes) {
  std::string text;
  for (size_t i = 0; i < sizes.size(); ++i) text += (i ? "," : "") + sizes[i].str();
  return text;
}

}  // namespace

// ---- writing ----

size_t GraphWriter::append(const TensorRef& tensor) {
  const auto [place, added] = places_.try_emplace(tensor.get(), 0);
  if (added) place->second = append_copy(tensor);
  return place->second;
}

size_t GraphWriter::append_copy(const TensorRef& tensor) {
  const size_t place = (data_.size() + kAlignment - 1) / kAlignment * kAlignment;
  const TensorDesc& desc = tensor->desc();
  const size_t bytes = size_t(desc.elements()) * size_of(desc.dtype);
  data_.resize(place + bytes);
  if (bytes) context_.read(tensor, data_.data() + place, bytes);
  return place;
}

std::string GraphWriter::write(const Graph& graph, const std::function<TensorRef(size_t)>& state) {
  std::string text;
  for (const GraphInput& input : graph.inputs()) {
    const Value& value = graph.value(input.value);
    if (input.kept >= 0) {
      text += record("state", input.value, value.name, name_of(value.desc.dtype), joined(value.desc.shape.vector()),
                     append_copy(state(size_t(input.kept))), int(graph.kept()[size_t(input.kept)].parameter));
      continue;
    }
    std::string axes;
    for (size_t i = 0; i < input.axes.size(); ++i) axes += (i ? "," : "") + input.axes[i];
    text += record("input", input.value, value.name, name_of(value.desc.dtype), joined(value.desc.shape.vector()),
                   value.desc.layout.generic_str(), int(input.pinned), axes);
  }
  std::vector<bool> late(graph.values().size(), false);
  for (const SizeRule& rule : graph.rules())
    if (rule.value != kNoValue) late[size_t(rule.value)] = true;
  for (const DerivedPart& part : graph.derived())
    std::fill(late.begin() + part.first_value, late.begin() + part.end_value, true);
  const std::vector<int32_t> uses = graph.use_counts();
  for (size_t i = 0; i < graph.values().size(); ++i) {
    const Value& value = graph.values()[i];
    if (!value.constant || !uses[i] || late[i]) continue;
    const TensorDesc& desc = value.constant->desc();
    text += record("constant", i, value.name, name_of(desc.dtype), joined(desc.shape.vector()), append(value.constant));
  }
  auto rule = graph.rules().begin();
  const auto write_rules = [&](size_t after) {
    for (; rule != graph.rules().end() && rule->after <= after; ++rule) {
      if (rule->value == kNoValue) {
        text += record("sizes", int(rule->kind), sizes_text(rule->sizes));
        continue;
      }
      const Value& value = graph.value(rule->value);
      text +=
          record("sizes", int(rule->kind), sizes_text(rule->sizes), rule->value, value.name, name_of(value.desc.dtype));
    }
  };
  const auto integers = [](const std::vector<ValueId>& values) {
    return joined(std::vector<int64_t>(values.begin(), values.end()));
  };
  auto part = graph.derived().begin();
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    write_rules(i);
    if (part != graph.derived().end() && part->first == i) {
      text += record("gradients", part->loss, integers(part->by), integers(part->gradients));
      i = part++->end - 1;
      continue;
    }
    const Node& node = graph.nodes()[i];
    std::string line = record("node", node.name, node.schema->name, node.attributes.str(), integers(node.inputs),
                              node.outputs[0], node.outputs.size());
    if (!node.late.empty()) {
      line.pop_back();
      line += "\t" + record(Graph::late_text(node.late));
    }
    text += line;
    if (node.again) text += record("again");
  }
  write_rules(graph.nodes().size());
  for (const GraphOutput& output : graph.outputs())
    text += output.kept >= 0
                ? record("update", graph.kept()[size_t(output.kept)].value, output.value)
                : record("output", output.value, output.name, output.layout ? output.layout->generic_str() : "any");
  return text;
}

// ---- reading ----

Dims GraphReader::shape_of(const std::string& text) const {
  const std::vector<int64_t> sizes = reader_.integers(text, 0, int64_t(1) << 59, "a size");
  if (sizes.size() > size_t(kMaxRank)) reader_.refuse("a shape has ", sizes.size(), " sizes");
  return Dims(sizes);
}

ValueId GraphReader::value_of(int64_t number) const {
  const auto it = values_.find(number);
  if (it == values_.end()) reader_.refuse("value ", number, " is used before it is made");
  return it->second;
}

ValueId GraphReader::value_of(const std::string& text) const {
  const int64_t number = reader_.integer(text, -1, INT32_MAX, "a value");
  return number < 0 ? kNoValue : value_of(number);
}

SizeExpression GraphReader::renumbered(const SizeExpression& size) const {
  return size.renumbered([&](ValueId number) { return value_of(int64_t(number)); });
}

TensorRef GraphReader::tensor_of(const std::vector<std::string>& line) {
  const TensorDesc desc = TensorDesc::dense(parse_dtype(line[3]), shape_of(line[4]));
  const size_t size = size_t(desc.elements()) * size_of(desc.dtype);
  const int64_t at = reader_.integer(line[5], 0, int64_t(data_.size()), "an offset");
  if (size > data_.size() - size_t(at)) reader_.refuse(line[0], " \"", line[2], "\" reaches beyond the data");
  Placed& placed = tensors_[at];
  if (placed.tensor && placed.dtype == desc.dtype && placed.shape == desc.shape) return placed.tensor;
  const TensorRef tensor = Tensor::allocate(context_.host(), desc);
  if (size) context_.write(tensor, data_.data() + at, size);
  if (line[0] == "constant") placed = {tensor, desc.dtype, desc.shape};
  return tensor;
}

void GraphReader::take_input(const std::vector<std::string>& line) {
  reader_.expect_fields(line, 8);
  const TensorDesc desc =
      TensorDesc::dense(parse_dtype(line[3]), shape_of(line[4]), line[5].empty() ? Layout() : Layout::parse(line[5]));
  const std::vector<std::string> axes = desc.rank() ? fields_of(line[7]) : std::vector<std::string>();
  values_[reader_.integer(line[1], 0, INT32_MAX, "a value")] =
      graph_.input(line[2], desc, axes, reader_.integer(line[6], 0, 1, "pinned") == 1);
}

void GraphReader::take_node(const std::vector<std::string>& line) {
  if (line.size() != 8) reader_.expect_fields(line, 7);
  const Schema* schema = find_schema(line[2]);
  if (!schema) reader_.refuse("there is no op \"", line[2], "\"");
  std::vector<ValueId> inputs;
  for (const std::string& part : fields_of(line[4])) inputs.push_back(value_of(part));
  std::vector<LateAttribute> late;
  if (line.size() == 8) late = graph_.late_attributes(line[7]);
  for (LateAttribute& attribute : late)
    for (SizeExpression& size : attribute.sizes) size = renumbered(size);
  const std::vector<ValueId> made = graph_.add(*schema, Attributes::parse(line[3]), inputs, line[1], late);
  const int64_t first = reader_.integer(line[5], 0, INT32_MAX, "a value");
  if (reader_.integer(line[6], 0, INT32_MAX, "the number of results") != int64_t(made.size()))
    reader_.refuse("node \"", line[1], "\" has ", made.size(), " results, the file says ", line[6]);
  for (size_t k = 0; k < made.size(); ++k) values_[first + int64_t(k)] = made[k];
}

void GraphReader::take_gradients(const std::vector<std::string>& line) {
  reader_.expect_fields(line, 4);
  std::vector<ValueId> by;
  for (const std::string& part : fields_of(line[2])) by.push_back(value_of(part));
  const std::vector<ValueId> made = gradients(graph_, value_of(line[1]), by, context_.host());
  const std::vector<int64_t> numbers = reader_.integers(line[3], 0, INT32_MAX, "a value");
  if (numbers.size() != made.size())
    reader_.refuse("there are ", numbers.size(), " gradients, by ", made.size(), " values");
  for (size_t i = 0; i < made.size(); ++i) values_[numbers[i]] = made[i];
}

void GraphReader::take_sizes(const std::vector<std::string>& line) {
  if (line.size() != 6) reader_.expect_fields(line, 3);
  const auto kind = SizeRule::Kind(reader_.integer(line[1], 0, int64_t(SizeRule::Kind::range), "a kind of sizes"));
  const bool constant = kind >= SizeRule::Kind::numbers;
  std::vector<SizeExpression> sizes = graph_.size_expressions(line[2]);
  for (SizeExpression& size : sizes) size = renumbered(size);
  const size_t expected = kind == SizeRule::Kind::number ? 1 : kind == SizeRule::Kind::range ? 3 : 2;
  if (constant != (line.size() == 6) || (kind != SizeRule::Kind::numbers && sizes.size() != expected))
    reader_.refuse("sizes \"", line[2], "\" do not fit their kind, ", line[1]);
  if (!constant) return graph_.require_sizes(kind, sizes[0], sizes[1]);
  values_[reader_.integer(line[3], 0, INT32_MAX, "a value")] =
      graph_.late_constant(line[4], parse_dtype(line[5]), context_.host(), kind, std::move(sizes));
}

bool GraphReader::take(const std::vector<std::string>& line) {
  const std::string& kind = line[0];
  if (kind == "input") {
    take_input(line);
  } else if (kind == "constant") {
    reader_.expect_fields(line, 6);
    values_[reader_.integer(line[1], 0, INT32_MAX, "a value")] = graph_.constant(line[2], tensor_of(line));
  } else if (kind == "state") {
    reader_.expect_fields(line, 7);
    const bool parameter = reader_.integer(line[6], 0, 1, "whether it is a parameter") == 1;
    values_[reader_.integer(line[1], 0, INT32_MAX, "a value")] = graph_.keep(line[2], tensor_of(line), parameter);
  } else if (kind == "update") {
    reader_.expect_fields(line, 3);
    graph_.update(value_of(line[1]), value_of(line[2]));
  } else if (kind == "node") {
    take_node(line);
  } else if (kind == "gradients") {
    take_gradients(line);
  } else if (kind == "again") {
    reader_.expect_fields(line, 1);
    if (graph_.nodes().empty()) reader_.refuse("what it makes again is made by no node");
    graph_.mark_again();
  } else if (kind == "sizes") {
    take_sizes(line);
  } else if (kind == "output") {
    reader_.expect_fields(line, 4);
    std::optional<Layout> layout;
    if (line[3] != "any") layout = line[3].empty() ? Layout() : Layout::parse(line[3]);
    const ValueId value = value_of(line[1]);
    if (value == kNoValue) reader_.refuse("output \"", line[2], "\" has no value");
    graph_.output(value, line[2], layout);
  } else {
    return false;
  }
  return true;
}

Graph GraphReader::finish() {
  if (graph_.outputs().empty()) reader_.refuse("has no outputs");
  values_.clear();
  return std::exchange(graph_, Graph());
}

}  // namespace pl
