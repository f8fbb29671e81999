#include "graph/growing.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "graph/used.h"

namespace pl {
namespace {

// The one dimension in which shapes differ, by one; -1: they are equal, -2: they differ otherwise.
int difference(const Dims& shorter, const Dims& longer) {
  if (shorter.size() != longer.size()) return -2;
  int found = -1;
  for (int d = 0; d < shorter.size(); ++d) {
    if (shorter[d] == longer[d]) continue;
    if (found >= 0 || longer[d] - shorter[d] != 1) return -2;
    found = d;
  }
  return found;
}

bool same_elements(const TensorRef& a, const TensorRef& b) {
  if (a == b) return true;
  if (a->desc() != b->desc()) return false;
  std::vector<char> first(a->desc().size_bytes()), second(first.size());
  if (first.empty()) return true;
  a->device().read(*a->buffer(), 0, first.data(), first.size());
  b->device().read(*b->buffer(), 0, second.data(), second.size());
  return first == second;
}

}  // namespace

Growing Growing::of(const Graph& graph) {
  Growing found;
  if (!graph.kept().empty() || !graph.derived().empty()) return found;  // one that trains
  const auto consumers = graph.consumers();
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const GraphInput& input = graph.inputs()[i];
    const auto& users = consumers[size_t(input.value)];
    if (input.kept >= 0 || input.axes.empty() || users.size() != 1 || !input.pinned) continue;
    const Node& node = graph.node(size_t(users[0]));
    if (!node.schema->joins || node.inputs.size() != 2 || node.inputs[0] != input.value) continue;
    const Op op = graph.op(node);
    const int dim = int(op.attributes[attr::dim]);
    if (input.axes[size_t(dim)].empty() || !graph.value(input.value).desc.layout.is_plain()) continue;
    std::vector<size_t> outputs;
    for (size_t k = 0; k < graph.outputs().size(); ++k)
      if (graph.outputs()[k].value == node.outputs[0]) outputs.push_back(k);
    if (outputs.size() != 1 || graph.outputs()[outputs[0]].kept >= 0) continue;
    const auto& layout = graph.outputs()[outputs[0]].layout;
    if (layout && !layout->is_plain()) continue;
    const bool as_input = std::any_of(graph.outputs().begin(), graph.outputs().end(),
                                      [&](const auto& o) { return o.value == input.value; });
    if (as_input) return {};
    const std::string& axis = input.axes[size_t(dim)];
    if (!found.grows(axis)) found.axes.push_back(axis);
    found.inputs.push_back({i, outputs[0], dim});
  }
  // The axes may be no other input's, nor another dimension's.
  size_t named = 0;
  for (const GraphInput& input : graph.inputs())
    named += size_t(std::count_if(input.axes.begin(), input.axes.end(), [&](const auto& a) { return found.grows(a); }));
  if (named != found.inputs.size()) return {};
  if (!found.inputs.empty()) found.find_follower(graph);
  return found;
}

bool Growing::grows(const std::string& axis) const { return std::count(axes.begin(), axes.end(), axis); }

// Sizes of a graph are often bound to each other: where it makes no sense for a longer past alone, it may for one with
// another axis that is longer, too; and for the least past with as much less of that axis.
void Growing::find_follower(const Graph& graph) {
  const std::map<std::string, int64_t> sizes = graph.axes();
  const auto makes_sense = [&](const std::string& other, int64_t length) {
    Growing tried = *this;
    tried.follower = other;
    try {
      graph.bound(tried.at(sizes, length));
      return true;
    } catch (const Error&) {
      return false;
    }
  };
  const int64_t longer = sizes.at(axes[0]) + 1;
  if (makes_sense("", longer)) return;
  for (const auto& [other, size] : sizes) {
    if (grows(other) || !makes_sense(other, longer) || !makes_sense(other, 1)) continue;
    for (size_t i = 0; i < graph.inputs().size(); ++i) {
      const std::vector<std::string>& own = graph.inputs()[i].axes;
      if (graph.inputs()[i].kept >= 0) continue;
      for (size_t d = 0; d < own.size(); ++d)
        if (own[d] == other) followers.push_back({i, int(d)});
    }
    follower = other;
    return;
  }
}

std::map<std::string, int64_t> Growing::at(std::map<std::string, int64_t> sizes, int64_t length) const {
  if (!follower.empty()) {
    int64_t& size = sizes[follower];
    size += length - sizes[axes[0]];
    require(size >= 0, Code::unsupported, "growing: axis \"", follower, "\" is ", length - size,
            " shorter than the past, which may have ", length, " places");
  }
  for (const std::string& axis : axes) sizes[axis] = length;
  return sizes;
}

int64_t Growing::added(const Graph& source, const std::map<std::string, int64_t>& sizes) const {
  const Graph bound = source.bound(at(sizes, 1));
  int64_t found = -1;
  for (const GrowingInput& input : inputs) {
    const int64_t own = bound.value(bound.outputs()[input.output].value).desc.shape[input.dim] - 1;
    require(found < 0 || found == own, Code::unsupported, "growing: a run adds ", found, " places to one input, ", own,
            " to another");
    found = own;
  }
  return found;
}

GrownGraph::GrownGraph(const Graph& source, const Growing& growing, const std::map<std::string, int64_t>& sizes,
                       int64_t room)
    : growing_(growing), capacity_(room - growing.added(source, sizes)) {
  const auto at = [&](int64_t length) { return source.bound(growing.at(sizes, length)); };
  graph_ = at(capacity_);
  places_ = graph_;
  const Graph longer = at(capacity_ + 1), least = at(1);
  find_changes(longer, least);
  rewrite(longer, least);
}

void GrownGraph::find_changes(const Graph& longer, const Graph& least) {
  require(longer.values().size() == graph_.values().size() && least.values().size() == graph_.values().size() &&
              longer.nodes().size() == graph_.nodes().size() && least.nodes().size() == graph_.nodes().size(),
          Code::unsupported, "growing: the graph has other values for other lengths");
  padded_.assign(graph_.values().size(), -1);
  // What exporters leave, of whose values nothing is read, counts where a rule asks for its size.
  std::vector<bool> counts = used_in(graph_).values;
  for (const SizeRule& rule : graph_.rules())
    for (const SizeExpression& size : rule.sizes)
      size.visit_sources([&](const SizeSource& at) { counts[size_t(at.value)] = true; });
  for (size_t v = 0; v < padded_.size(); ++v) {
    if (!counts[v]) continue;
    const Dims& shape = graph_.value(ValueId(v)).desc.shape;
    const Dims& shorter = least.value(ValueId(v)).desc.shape;
    const int dim = difference(shape, longer.value(ValueId(v)).desc.shape);
    bool follows = dim >= -1 && shorter.size() == shape.size();
    for (int d = 0; follows && d < shape.size(); ++d) follows = shorter[d] == shape[d] - (d == dim ? capacity_ - 1 : 0);
    require(follows, Code::unsupported, "growing: value ", graph_.value(ValueId(v)).name, " has shape ", shape,
            ", which does not follow from the length as a size does");
    padded_[v] = dim;
  }
  for (const SizeRule& rule : graph_.rules())
    for (const SizeExpression& size : rule.sizes)
      size.visit_sources([&](const SizeSource& at) {
        if (padded(at.value) != at.dim) return;
        changing_.push_back({at.value, at.dim, graph_.value(at.value).desc.shape[at.dim] - capacity_});
      });
}

// Masks of the same shape and dtype are one, but that a mask is of one dimension.
ValueId GrownGraph::mask(int rank, int dim, int64_t size, DType dtype) {
  Dims shape = Dims::filled(rank, 1);
  shape[dim] = size;
  return added(TensorDesc::dense(dtype, shape), std::nullopt);
}

ValueId GrownGraph::places_from(int64_t first, int64_t count) {
  return added(TensorDesc::dense(DType::s64, {count}), first);
}

ValueId GrownGraph::place_of(int64_t first) { return added(TensorDesc::dense(DType::s64, Dims()), first); }

ValueId GrownGraph::added(const TensorDesc& desc, std::optional<int64_t> first) {
  for (const Added& known : added_)
    if (known.first == first && known.desc == desc) return known.value;
  added_.push_back({desc, graph_.input(concat("growing.places.", added_.size()), desc), first});
  return added_.back().value;
}

// Joins become writes into what is kept.
void GrownGraph::append_in_place() {
  const ValueId at = graph_.input("growing.length", TensorDesc::dense(DType::s64, Dims()));
  for (const GrowingInput& input : growing_.inputs) {
    GraphInput& past = graph_.inputs_[input.input];
    GraphOutput& output = graph_.outputs_[input.output];
    const auto index = int32_t(graph_.kept_.size());
    const auto node = size_t(graph_.value(output.value).node);
    Attributes attributes;
    attributes.set(attr::dim, int64_t(input.dim));
    graph_.values_[size_t(past.value)].desc =
        TensorDesc::dense(graph_.value(past.value).desc.dtype, graph_.value(output.value).desc.shape);
    graph_.rewrite(node, *find_schema("tensor_scatter"), attributes, {past.value, graph_.node(node).inputs[1], at});
    graph_.kept_.push_back({past.value, output.value, nullptr, false, true});
    past.axes.clear();
    past.kept = output.kept = index;
    output.layout = Layout::plain(graph_.value(output.value).desc.rank());
  }
}

// Constants that follow from the length: noted, to become inputs.
std::vector<ValueId> GrownGraph::find_feeds(const Graph& longer, const Graph& least) {
  std::vector<ValueId> fed;
  const std::vector<bool> used = used_in(graph_).values;
  for (size_t r = 0; r < graph_.rules().size(); ++r) {
    const ValueId id = graph_.rules()[r].value;
    if (id == kNoValue || !used[size_t(id)]) continue;
    const TensorRef& own = graph_.value(id).constant;
    if (padded(id) < 0 && same_elements(own, longer.value(id).constant) && same_elements(own, least.value(id).constant))
      continue;
    require(padded(id) < 0 || graph_.rules()[r].kind == SizeRule::Kind::range, Code::unsupported, "growing: constant ",
            graph_.value(id).name, " has as many numbers as the length says, expected a range");
    feeds_.push_back({r, padded(id) >= 0});
    fed.push_back(id);
  }
  return fed;
}

void GrownGraph::check_outputs() const {
  for (size_t k = 0; k < graph_.outputs().size(); ++k) {
    const bool grows = std::any_of(growing_.inputs.begin(), growing_.inputs.end(),
                                   [&](const GrowingInput& input) { return input.output == k; });
    require(grows || padded(graph_.outputs()[k].value) < 0, Code::unsupported, "growing: output \"",
            graph_.outputs()[k].name, "\" is as long as the past");
  }
}

void GrownGraph::rewrite(const Graph& longer, const Graph& least) {
  const std::vector<ValueId> fed = find_feeds(longer, least);
  std::vector<ValueId> inputs;
  for (ValueId id : fed) {
    const std::string name = concat("growing.numbers.", inputs.size());
    inputs.push_back(graph_.input(name, TensorDesc::dense(graph_.value(id).desc.dtype, graph_.value(id).desc.shape)));
  }
  const std::vector<Change> changes = changed_nodes(longer, least, fed);
  check_outputs();
  for (const Change& change : changes) {
    const Node& node = graph_.node(change.node);
    const Schema* schema = change.schema ? change.schema : node.schema;
    const Attributes attributes = change.schema ? change.attributes : node.attributes;
    graph_.rewrite(change.node, *schema, attributes, change.inputs);
  }
  for (size_t k = 0; k < fed.size(); ++k) graph_.redirect(fed[k], inputs[k]);
  graph_.forget_rules();
  append_in_place();
  graph_.tidy();
}

// With the lock.
std::vector<GrownGraph::Numbers> GrownGraph::numbers(int64_t length) const {
  std::vector<Numbers> made;
  for (const Changing& size : changing_) places_.values_[size_t(size.value)].desc.shape[size.dim] = size.least + length;
  for (const SizeRule& rule : places_.rules())
    if (rule.value == kNoValue) places_.check(rule);
  for (const Feed& feed : feeds_) {
    const SizeRule& rule = places_.rules()[feed.rule];
    auto [desc, bytes] = places_.contents_of(rule, graph_.value(rule.value).desc.dtype);
    if (feed.padded) {  // for places that are not used any number, which is that of the last place
      const size_t each = size_of(desc.dtype), own = bytes.size();
      desc.shape[0] += capacity_ - length;
      desc = TensorDesc::dense(desc.dtype, desc.shape);
      bytes.resize(desc.size_bytes());
      for (size_t at = own; own && at < bytes.size(); at += each)
        std::memcpy(bytes.data() + at, bytes.data() + own - each, each);
    }
    made.push_back({desc, std::move(bytes)});
  }
  for (const Added& own : added_) {
    const TensorDesc& desc = own.desc;
    std::vector<char> bytes(desc.size_bytes());
    if (own.first) {
      for (int64_t at = 0, place = *own.first + length; at < desc.elements(); ++at, ++place)
        std::memcpy(bytes.data() + size_t(at) * sizeof place, &place, sizeof place);
      made.push_back({desc, std::move(bytes)});
      continue;
    }
    const auto unused = size_t(desc.elements() - (capacity_ - length));  // from there on
    const auto fill = [&](auto used, auto other) {
      for (size_t at = 0; at < bytes.size() / sizeof used; ++at)
        std::memcpy(bytes.data() + at * sizeof used, at < unused ? &used : &other, sizeof used);
    };
    constexpr float kNone = -std::numeric_limits<float>::infinity();
    switch (desc.dtype) {
      case DType::boolean: fill(uint8_t(1), uint8_t(0)); break;
      case DType::f16: fill(uint16_t(0), float_to_half(kNone)); break;
      case DType::bf16: fill(uint16_t(0), float_to_bfloat16(kNone)); break;
      default: fill(0.0f, kNone);
    }
    made.push_back({desc, std::move(bytes)});
  }
  std::vector<char> begins(sizeof length);
  std::memcpy(begins.data(), &length, sizeof length);
  made.push_back({TensorDesc::dense(DType::s64, Dims()), std::move(begins)});
  return made;
}

// A write to a device waits for what is queued there, a copy on it does not: the numbers for some lengths are written
// at once, and copied for each run.
std::vector<TensorRef> GrownGraph::feeds(int64_t length, Device& device) const {
  constexpr int64_t kAhead = 32;  // lengths
  constexpr size_t kAlignment = 64;
  std::vector<TensorRef> made;
  std::lock_guard<std::mutex> guard(lock_);
  if (!device.traits().queued) {
    for (const Numbers& feed : numbers(length)) {
      made.push_back(Tensor::allocate(device, feed.desc));
      if (!feed.bytes.empty()) device.write(*made.back()->buffer(), 0, feed.bytes.data(), feed.bytes.size());
    }
    return made;
  }
  if (length < table_.first || length >= table_.first + table_.count) {
    std::vector<char> bytes;
    Table table;
    table.first = length;
    for (; table.count < kAhead && length + table.count <= capacity_; ++table.count) {
      std::vector<Numbers> each;
      try {
        each = numbers(length + table.count);
      } catch (const Error&) {
        if (table.count == 0) throw;
        break;  // a later length for which the source does not hold
      }
      for (const Numbers& feed : each) {
        if (table.count == 0) table.feeds.emplace_back(feed.desc, bytes.size());
        bytes.insert(bytes.end(), feed.bytes.begin(), feed.bytes.end());
        bytes.resize((bytes.size() + kAlignment - 1) / kAlignment * kAlignment);
      }
      if (table.count == 0) table.each = bytes.size();
    }
    table.buffer = device.allocate(bytes.size());
    device.write(*table.buffer, 0, bytes.data(), bytes.size());
    table_ = std::move(table);
  }
  for (const auto& [desc, offset] : table_.feeds) {
    made.push_back(Tensor::allocate(device, desc));
    device.copy(*table_.buffer, size_t(length - table_.first) * table_.each + offset, *made.back()->buffer(), 0,
                desc.size_bytes());
  }
  return made;
}

}  // namespace pl
