#include "graph/growing.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "ops/activation.h"

namespace pl {
namespace {

template <class... Parts>
[[noreturn]] void refuse(const Node& node, const Parts&... parts) {
  fail(Code::unsupported, "growing: node \"", node.name, "\" (", node.schema->name, ") ", parts...);
}

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

bool is_zero(const Graph& graph, ValueId id) {
  if (!graph.is_constant(id)) return false;
  const TensorRef& tensor = graph.value(id).constant;
  if (tensor->desc().elements() != 1) return false;
  std::vector<char> bytes(size_of(tensor->desc().dtype));
  tensor->device().read(*tensor->buffer(), size_t(tensor->desc().offset) * bytes.size(), bytes.data(), bytes.size());
  return std::all_of(bytes.begin(), bytes.end(), [](char c) { return c == 0; });
}

bool has_activation(const Op& op) {
  const AttributeValue* activation = op.attributes.find("activation");
  return activation && !std::holds_alternative<None>(*activation);
}

bool keeps_finite(const Op& op) { return op.schema->keeps_finite && activation_keeps_finite(op); }

int64_t product(const Dims& shape, int begin, int end) {
  int64_t result = 1;
  for (int d = begin; d < end; ++d) result *= shape[d];
  return result;
}

}  // namespace

Growing Growing::of(const Graph& graph) {
  Growing found;
  const auto consumers = graph.consumers();
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const GraphInput& input = graph.inputs()[i];
    const auto& users = consumers[size_t(input.value)];
    if (input.kept >= 0 || input.axes.empty() || users.size() != 1 || !input.pinned) continue;
    const Node& node = graph.node(size_t(users[0]));
    if (!node.schema->joins || node.inputs.size() != 2 || node.inputs[0] != input.value) continue;
    const Op op = graph.op(node);
    const int dim = int(op.attributes.integer("dim"));
    if (input.axes[size_t(dim)].empty() || !graph.value(input.value).desc.layout.is_plain()) continue;
    std::vector<size_t> outputs;
    for (size_t k = 0; k < graph.outputs().size(); ++k)
      if (graph.outputs()[k].value == node.outputs[0]) outputs.push_back(k);
    if (outputs.size() != 1 || graph.outputs()[outputs[0]].kept >= 0) continue;
    const auto& layout = graph.outputs()[outputs[0]].layout;
    if (layout && !layout->is_plain()) continue;
    const bool as_input = std::any_of(graph.outputs().begin(), graph.outputs().end(),
                                      [&](const auto& o) { return o.value == input.value; });
    if (as_input || (!found.inputs.empty() && input.axes[size_t(dim)] != found.axis)) return {};
    found.axis = input.axes[size_t(dim)];
    found.inputs.push_back({i, outputs[0], dim});
  }
  // The axis may be no other input's, nor another dimension's.
  size_t named = 0;
  for (const GraphInput& input : graph.inputs())
    named += size_t(std::count(input.axes.begin(), input.axes.end(), found.axis));
  return named == found.inputs.size() ? found : Growing();
}

GrownGraph::GrownGraph(const Graph& source, const Growing& growing, std::map<std::string, int64_t> sizes,
                       int64_t capacity)
    : growing_(growing), capacity_(capacity) {
  const auto at = [&](int64_t length) {
    sizes[growing.axis] = length;
    return source.bound(sizes);
  };
  graph_ = at(capacity);
  places_ = graph_;
  const Graph longer = at(capacity + 1), least = at(1);
  find_changes(longer, least);
  rewrite(longer, least);
}

void GrownGraph::find_changes(const Graph& longer, const Graph& least) {
  require(longer.values().size() == graph_.values().size() && least.values().size() == graph_.values().size() &&
              longer.nodes().size() == graph_.nodes().size() && least.nodes().size() == graph_.nodes().size(),
          Code::unsupported, "growing: the graph has other values for other lengths");
  padded_.assign(graph_.values().size(), -1);
  for (size_t v = 0; v < padded_.size(); ++v) {
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

ValueId GrownGraph::mask(const Dims& shape, bool boolean, DType dtype) {
  masks_.push_back({boolean, shape});
  return graph_.input(concat("growing.places.", masks_.size()),
                      TensorDesc::dense(boolean ? DType::boolean : dtype, shape));
}

void GrownGraph::rewrite(const Graph& longer, const Graph& least) {
  const size_t values = graph_.values().size();
  // Constants that follow from the length.
  std::vector<ValueId> fed;
  for (size_t r = 0; r < graph_.rules().size(); ++r) {
    const ValueId id = graph_.rules()[r].value;
    if (id == kNoValue) continue;
    const TensorRef& own = graph_.value(id).constant;
    if (padded(id) < 0 && same_elements(own, longer.value(id).constant) && same_elements(own, least.value(id).constant))
      continue;
    require(padded(id) < 0 || graph_.rules()[r].kind == SizeRule::Kind::range, Code::unsupported, "growing: constant ",
            graph_.value(id).name, " has as many numbers as the length says, expected a range");
    feeds_.push_back({r, padded(id) >= 0});
    fed.push_back(id);
  }
  std::vector<ValueId> places;
  for (ValueId id : fed) {
    const std::string name = concat("growing.numbers.", places.size());
    places.push_back(graph_.input(name, TensorDesc::dense(graph_.value(id).desc.dtype, graph_.value(id).desc.shape)));
  }
  // By value: whether unused places hold zeros, and whether they hold finite numbers.
  std::vector<bool> zero(values, false), finite(values, false);
  for (ValueId id : fed) finite[size_t(id)] = true;
  std::map<size_t, std::vector<ValueId>> joins;  // concats that grow
  for (const GrowingInput& input : growing_.inputs) {
    finite[size_t(graph_.inputs()[input.input].value)] = true;
    const Value& joined = graph_.value(graph_.outputs()[input.output].value);
    joins[size_t(joined.node)] = graph_.node(size_t(joined.node)).inputs;
  }
  struct Change {
    size_t node;
    std::vector<ValueId> inputs;
  };
  std::vector<Change> changes;
  std::map<std::string, ValueId> masks;  // by shape and dtype
  const auto mask_of = [&](int rank, int dim, int64_t size, bool boolean, DType dtype) {
    Dims shape(std::vector<int64_t>(size_t(rank), 1));
    shape[dim] = size;
    ValueId& made = masks.try_emplace(concat(shape, boolean), kNoValue).first->second;
    if (made == kNoValue) made = mask(shape, boolean, dtype);
    return made;
  };
  for (size_t n = 0; n < graph_.nodes().size(); ++n) {
    const Node& node = graph_.node(n);
    const Op op = graph_.op(node);
    const std::string& kind = node.schema->kind;
    const Renaming renaming = node.schema->renaming;
    const bool other_attributes = node.attributes.str() != longer.node(n).attributes.str() ||
                                  node.attributes.str() != least.node(n).attributes.str();
    std::vector<int> dims;
    for (ValueId id : node.inputs) dims.push_back(padded(id));
    const bool takes = std::any_of(dims.begin(), dims.end(), [](int dim) { return dim >= 0; });
    const int gives = padded(node.outputs[0]);
    if (!takes && gives < 0 && !other_attributes) continue;
    const ValueId result = node.outputs[0], x = node.inputs.empty() ? kNoValue : node.inputs[0];
    const auto of = [&](const std::vector<bool>& what, ValueId id) { return id != kNoValue && what[size_t(id)]; };
    require(node.outputs.size() == 1, Code::unsupported, "growing: node \"", node.name, "\" has several results");
    if (joins.count(n)) {
      finite[size_t(result)] = dims[1] < 0;
      if (dims[1] >= 0) refuse(node, "joins two parts that grow");
    } else if (renaming == Renaming::shape || renaming == Renaming::order) {
      if (!takes || gives < 0) refuse(node, "follows from the length");
      const Dims &from = graph_.value(x).desc.shape, &to = graph_.value(result).desc.shape;
      if (renaming == Renaming::shape &&
          (product(from, 0, dims[0]) != product(to, 0, gives) || from[dims[0]] != to[gives]))
        refuse(node, "splits or joins the dimension that grows");
      zero[size_t(result)] = of(zero, x);
      finite[size_t(result)] = of(finite, x);
    } else if (renaming == Renaming::repeat) {
      if (gives < 0) refuse(node, "follows from the length");
      zero[size_t(result)] = of(zero, x);
      finite[size_t(result)] = of(finite, x);
    } else if (other_attributes) {
      refuse(node, "has attributes that follow from the length");
    } else if (is_elementwise(op)) {
      bool all_zero = true, any_zero = false, all_finite = keeps_finite(op), others_known = true;
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        const ValueId id = node.inputs[k];
        const Parameter& parameter = node.schema->input_parameter(int(k));
        if (id == kNoValue || parameter.selects) continue;
        all_zero = all_zero && (of(zero, id) || is_zero(graph_, id));
        any_zero = any_zero || of(zero, id);
        if (dims[k] < 0) continue;
        all_finite = all_finite && of(finite, id) && !parameter.nonzero;
        others_known = others_known && of(zero, id);
      }
      // Another factor may be infinite there, unless it is the same for all places.
      const bool one_grows = std::count_if(dims.begin(), dims.end(), [](int dim) { return dim >= 0; }) == 1;
      if (!has_activation(op))
        zero[size_t(result)] = (node.schema->zeros == Zeros::where_all && all_zero) ||
                               (node.schema->zeros == Zeros::where_any && any_zero && (one_grows || others_known));
      finite[size_t(result)] = all_finite || zero[size_t(result)];
    } else if (node.schema->name == "softmax" && int(op.attributes.integer("dim")) == dims[0]) {
      const TensorDesc& desc = graph_.value(x).desc;
      if (!of(finite, x)) refuse(node, "is of numbers that may be none for places that are not used");
      if (desc.dtype != DType::f32) refuse(node, "is of ", name_of(desc.dtype), ", expected f32");
      const ValueId made = mask_of(desc.rank(), dims[0], desc.shape[dims[0]], false, desc.dtype);
      changes.push_back({n, {graph_.insert(n, *find_schema("add"), {}, {x, made}, node.name + "/places")[0]}});
      zero[size_t(result)] = finite[size_t(result)] = true;
    } else if (kind == "matmul") {
      for (size_t k = 0; k < 2; ++k) {
        if (dims[k] < 0) continue;
        const int rank = graph_.value(node.inputs[k]).desc.rank();
        const bool swapped = op.attributes.flag(k ? "transpose_b" : "transpose_a");
        const int along = swapped ? (k ? rank - 1 : rank - 2) : (k ? rank - 2 : rank - 1);
        if (dims[k] != along) continue;
        const ValueId other = node.inputs[1 - k];
        const bool none =
            (of(zero, node.inputs[k]) && of(finite, other)) || (of(zero, other) && of(finite, node.inputs[k]));
        if (!none) refuse(node, "sums over places that are not used");
      }
      if (node.inputs.size() > 2) refuse(node, "has something fused to it");
      finite[size_t(result)] = (dims[0] < 0 || of(finite, node.inputs[0])) &&
                               (dims[1] < 0 || of(finite, node.inputs[1])) && keeps_finite(op);
    } else if (kind == "attention") {
      const int rank = graph_.value(x).desc.rank(), last = rank - 1;
      if (dims[0] >= 0 || dims[1] != rank - 2 || dims[2] != rank - 2 || op.attributes.flag("is_causal"))
        refuse(node, "is causal by numbers of rows, or grows elsewhere than in its keys");
      if (!of(finite, node.inputs[1]) || !of(finite, node.inputs[2])) refuse(node, "has keys that may be infinite");
      const ValueId given = node.inputs.size() > 3 ? node.inputs[3] : kNoValue;
      const DType dtype = graph_.value(x).desc.dtype;
      if (dtype != DType::f32) refuse(node, "is of ", name_of(dtype), ", expected f32");
      const bool boolean = given != kNoValue && graph_.value(given).desc.dtype == DType::boolean;
      const int mask_rank = given == kNoValue ? rank : graph_.value(given).desc.rank();
      ValueId made = mask_of(mask_rank, given == kNoValue ? last : mask_rank - 1,
                             graph_.value(node.inputs[1]).desc.shape[rank - 2], boolean, dtype);
      if (given != kNoValue)
        made = graph_.insert(n, *find_schema(boolean ? "logical_and" : "add"), {}, {given, made},
                             node.name + "/places")[0];
      changes.push_back({n, {x, node.inputs[1], node.inputs[2], made}});
    } else if (kind == "gather" && dims[0] < 0) {  // rows by positions
      finite[size_t(result)] = true;
    } else if (gives >= 0 && dims[0] >= 0 && keeps_apart(op, dims[0]) &&
               std::all_of(dims.begin() + 1, dims.end(), [](int dim) { return dim < 0; })) {
      finite[size_t(result)] = keeps_finite(op) && of(finite, x);
    } else {
      refuse(node, "takes what grows, which is not known to keep its places apart");
    }
  }
  for (size_t k = 0; k < graph_.outputs().size(); ++k) {
    const bool grows = std::any_of(growing_.inputs.begin(), growing_.inputs.end(),
                                   [&](const GrowingInput& input) { return input.output == k; });
    require(grows || padded(graph_.outputs()[k].value) < 0, Code::unsupported, "growing: output \"",
            graph_.outputs()[k].name, "\" is as long as the past");
  }
  for (const Change& change : changes) {
    const Node& node = graph_.node(change.node);
    const Schema* schema = node.schema;
    const Attributes attributes = node.attributes;
    graph_.rewrite(change.node, *schema, attributes, change.inputs);
  }
  for (size_t k = 0; k < fed.size(); ++k) graph_.redirect(fed[k], places[k]);
  graph_.forget_rules();
  for (const GrowingInput& input : growing_.inputs) {
    GraphOutput& output = graph_.outputs_[input.output];
    output.value = joins[size_t(graph_.value(output.value).node)][1];
    output.layout = Layout::plain(graph_.value(output.value).desc.rank());
    added_ = graph_.value(output.value).desc.shape[input.dim];
  }
  graph_.tidy();
}

std::vector<TensorRef> GrownGraph::feeds(int64_t length, Device& device) const {
  std::vector<TensorRef> made;
  const auto tensor = [&](DType dtype, const Dims& shape, const void* data) {
    made.push_back(Tensor::allocate(device, TensorDesc::dense(dtype, shape)));
    if (made.back()->desc().size_bytes())
      device.write(*made.back()->buffer(), 0, data, made.back()->desc().size_bytes());
  };
  {
    std::lock_guard<std::mutex> guard(lock_);
    for (const Changing& size : changing_)
      places_.values_[size_t(size.value)].desc.shape[size.dim] = size.least + length;
    for (const SizeRule& rule : places_.rules())
      if (rule.value == kNoValue) places_.check(rule);
    for (const Feed& feed : feeds_) {
      const SizeRule& rule = places_.rules()[feed.rule];
      const DType dtype = graph_.value(rule.value).desc.dtype;
      const TensorRef exact = places_.tensor_of(rule, dtype, device);
      if (!feed.padded) {
        made.push_back(exact);
        continue;
      }
      // Numbers for the past, then for what is added; in between any, which are those of the last place.
      const size_t bytes = size_of(dtype), count = size_t(exact->desc().elements()), past = size_t(length);
      std::vector<char> own(count * bytes), all(size_t(capacity_) * bytes + own.size() - past * bytes);
      device.read(*exact->buffer(), 0, own.data(), own.size());
      std::memcpy(all.data(), own.data(), past * bytes);
      for (size_t at = past; at < size_t(capacity_); ++at)
        std::memcpy(all.data() + at * bytes, own.data() + (past - 1) * bytes, bytes);
      std::memcpy(all.data() + size_t(capacity_) * bytes, own.data() + past * bytes, own.size() - past * bytes);
      tensor(dtype, Dims({int64_t(all.size() / bytes)}), all.data());
    }
  }
  for (const Mask& mask : masks_) {
    const size_t places = size_t(mask.shape.product());
    const auto unused = [&](size_t at) { return at >= size_t(length) && at < size_t(capacity_); };
    std::vector<float> numbers(mask.boolean ? 0 : places);
    std::vector<uint8_t> flags(mask.boolean ? places : 0);
    for (size_t at = 0; at < numbers.size(); ++at)
      numbers[at] = unused(at) ? -std::numeric_limits<float>::infinity() : 0.0f;
    for (size_t at = 0; at < flags.size(); ++at) flags[at] = !unused(at);
    if (mask.boolean)
      tensor(DType::boolean, mask.shape, flags.data());
    else
      tensor(DType::f32, mask.shape, numbers.data());
  }
  return made;
}

}  // namespace pl
