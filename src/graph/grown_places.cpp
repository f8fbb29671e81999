// What becomes of places that are not used, op by op: whether they stay apart from those that are, and what they hold.
#include <algorithm>
#include <array>
#include <set>

#include "graph/growing.h"
#include "graph/named_ops.h"
#include "graph/used.h"
#include "ops/post_ops.h"

namespace pl {
namespace {

template <class... Parts>
[[noreturn]] void refuse(const Node& node, const Parts&... parts) {
  fail(Code::unsupported, "growing: node \"", node.name, "\" (", node.schema->name, ") ", parts...);
}

bool is_zero(const Graph& graph, ValueId id) {
  if (!graph.is_constant(id)) return false;
  const TensorRef& tensor = graph.value(id).constant;
  if (tensor->desc().elements() != 1) return false;
  std::vector<char> bytes(size_of(tensor->desc().dtype));
  tensor->device().read(*tensor->buffer(), size_t(tensor->desc().offset) * bytes.size(), bytes.data(), bytes.size());
  return std::all_of(bytes.begin(), bytes.end(), [](char c) { return c == 0; });
}

bool keeps_finite(const Op& op) { return op.schema->keeps_finite && keep_finite(post_ops_of(op)); }

int64_t product(const Dims& shape, int begin, int end) {
  int64_t result = 1;
  for (int d = begin; d < end; ++d) result *= shape[d];
  return result;
}

bool grows(int dim) { return dim >= 0; }

}  // namespace

class GrownGraph::Places {
 public:
  Places(GrownGraph& grown, const std::vector<ValueId>& fed, const Graph& longer, const Graph& least)
      : grown_(grown),
        graph_(grown.graph_),
        longer_(longer),
        least_(least),
        zero_(graph_.values().size(), false),
        finite_(graph_.values().size(), false) {
    for (ValueId id : fed) finite_[size_t(id)] = true;
    for (const GrowingInput& input : grown.growing_.inputs) {
      finite_[size_t(graph_.inputs()[input.input].value)] = true;
      joins_.insert(size_t(graph_.value(graph_.outputs()[input.output].value).node));
    }
    for (const Place& follower : grown.growing_.followers)
      zero_[size_t(graph_.inputs()[follower.input].value)] = finite_[size_t(graph_.inputs()[follower.input].value)] =
          true;
  }

  // `follows`: the node's attributes follow from the length.
  void visit(size_t index, bool follows) {
    const Node& node = graph_.node(index);
    Call call{index, node, graph_.op(node), {}, grown_.padded(node.outputs[0])};
    for (ValueId id : node.inputs) call.dims.push_back(grown_.padded(id));
    if (std::none_of(call.dims.begin(), call.dims.end(), grows) && call.gives < 0 && !follows) return;
    require(node.outputs.size() == 1, Code::unsupported, "growing: node \"", node.name, "\" has several results");
    const Renaming renaming = node.schema->renaming;
    if (joins_.count(index)) return join(call);
    if (renaming == Renaming::shape || renaming == Renaming::order) return view(call);
    if (renaming == Renaming::repeat) return repeat(call);
    if (renaming == Renaming::part) return follows ? moving_part(call) : part(call);
    if (follows) refuse(node, "has attributes that follow from the length");
    if (node.schema->joins) return joined(call);
    if (is_elementwise(call.op)) return elementwise(call);
    if (is_softmax(node) && int(call.op.attributes[attr::dim]) == call.dims[0]) return softmax(call);
    if (node.schema->weighting.order == Weighting::Order::matrices) return matrix_product(call);
    if (is_attention(node)) return attention(call);
    // Sums up to a place are of those before it.
    if (is_running_sum(node) && int(call.op.attributes[attr::dim]) == call.dims[0])
      return set(call, false, !is_floating(graph_.value(call.x()).desc.dtype));
    if (is_sum(node) && call.gives < 0 && is_zero_there(call.x())) return;  // zeros count for nothing
    if (is_look_up(node) && call.dims[0] < 0) return set(call, false, true);
    if (call.gives >= 0 && call.dims[0] >= 0 && keeps_apart(call.op, call.dims[0]) &&
        std::none_of(call.dims.begin() + 1, call.dims.end(), grows))
      return set(call, false, keeps_finite(call.op) && is_finite(call.x()));
    refuse(node, "takes what grows, which is not known to keep its places apart");
  }

  const std::vector<Change>& changes() const { return changes_; }

 private:
  struct Call {
    size_t index;
    const Node& node;
    Op op;
    std::vector<int> dims;  // of the inputs, along which they grow; -1: they do not
    int gives;              // the same of the result

    ValueId x() const { return node.inputs.empty() ? kNoValue : node.inputs[0]; }
  };

  bool is_zero_there(ValueId id) const { return id != kNoValue && zero_[size_t(id)]; }
  bool is_finite(ValueId id) const {
    return id != kNoValue && (finite_[size_t(id)] || !is_floating(graph_.value(id).desc.dtype));
  }
  void set(const Call& call, bool zero, bool finite) {
    zero_[size_t(call.node.outputs[0])] = zero;
    finite_[size_t(call.node.outputs[0])] = finite;
  }

  void join(const Call& call) {
    if (grows(call.dims[1])) refuse(call.node, "joins two parts that grow");
    set(call, false, true);
  }

  // Parts along another dimension, which all grow.  Or one part grows, and those behind it are written where its places
  // end that are used.
  void joined(const Call& call) {
    const std::vector<ValueId> inputs = call.node.inputs;
    const int along = int(call.op.attributes[attr::dim]);
    bool zero = true, finite = true;
    size_t growing = inputs.size();
    for (size_t k = 0; k < inputs.size(); ++k) {
      zero = zero && is_zero_there(inputs[k]);
      if (call.gives == along && !grows(call.dims[k])) continue;
      if (call.gives < 0 || call.dims[k] != call.gives || (call.gives == along && growing < inputs.size()))
        refuse(call.node, "joins parts that grow along other dimensions");
      finite = finite && is_finite(inputs[k]);
      growing = k;
    }
    if (call.gives != along) return set(call, zero, finite);
    set(call, false, finite);
    if (growing + 1 == inputs.size()) return;
    // Room for the parts behind it, filled with zeros.
    const std::string name = call.node.name + "/places";
    const auto insert = [&](const Schema& schema, const Attributes& attributes, const std::vector<ValueId>& of) {
      return graph_.insert(call.index, schema, attributes, of, name)[0];
    };
    ValueId whole = inputs[growing];
    if (growing > 0)
      whole = insert(*call.node.schema, call.node.attributes,
                     {inputs.begin(), inputs.begin() + std::ptrdiff_t(growing) + 1});
    const int64_t room = graph_.value(call.node.outputs[0]).desc.shape[along] - graph_.value(whole).desc.shape[along];
    std::vector<int64_t> pad;  // the last dimension first
    for (int d = graph_.value(whole).desc.rank(); d-- > 0;) {
      pad.push_back(0);
      pad.push_back(d == along ? room : 0);
    }
    whole = insert(*find_schema("pad"), Attributes{{attr::pad, pad}}, {whole});
    int64_t at = -grown_.capacity_;  // and the length
    Attributes attributes;
    attributes.set(attr::dim, int64_t(along));
    const Schema& writes = *find_schema("tensor_scatter");
    for (size_t k = 0; k < inputs.size(); ++k) {
      if (k > growing) {
        const ValueId begin = grown_.place_of(at);
        if (k + 1 == inputs.size())
          changes_.push_back({call.index, {whole, inputs[k], begin}, &writes, attributes});
        else
          whole = insert(writes, attributes, {whole, inputs[k], begin});
      }
      at += graph_.value(inputs[k]).desc.shape[along];
    }
  }

  void view(const Call& call) {
    const bool takes = std::any_of(call.dims.begin(), call.dims.end(), grows);
    if (!takes || call.gives < 0) refuse(call.node, "follows from the length");
    const int dim = call.dims[0], gives = call.gives;
    const Dims &from = graph_.value(call.x()).desc.shape, &to = graph_.value(call.node.outputs[0]).desc.shape;
    if (call.node.schema->renaming == Renaming::shape &&
        (product(from, 0, dim) != product(to, 0, gives) || from[dim] != to[gives]))
      refuse(call.node, "splits or joins the dimension that grows");
    set(call, is_zero_there(call.x()), is_finite(call.x()));
  }

  // Parts that have all places.
  void part(const Call& call) {
    if (call.gives < 0 || call.gives != call.dims[0]) refuse(call.node, "takes some of the places that grow");
    const Dims &from = graph_.value(call.x()).desc.shape, &to = graph_.value(call.node.outputs[0]).desc.shape;
    if (from[call.gives] != to[call.gives]) refuse(call.node, "takes some of the places that grow");
    set(call, is_zero_there(call.x()), is_finite(call.x()));
  }

  // Parts whose begin or end follows from the length: the first ones up to the end, whose number follows, and as many
  // places as ever from a begin that moves, which are looked up there.
  void moving_part(const Call& call) {
    const int rank = graph_.value(call.x()).desc.rank();
    const auto ends_of = [&](const Graph& graph, const auto& which) {
      const std::vector<int64_t> list = graph.op(graph.node(call.index)).attributes[which];
      return list;
    };
    const auto at = [&](const auto& which) {  // of pasts of 1, of capacity and of one more
      return std::array{ends_of(least_, which), ends_of(graph_, which), ends_of(longer_, which)};
    };
    const auto starts = at(attr::starts), ends = at(attr::ends), steps = at(attr::steps);
    const auto same = [&](const auto& list, size_t d) { return list[0][d] == list[1][d] && list[1][d] == list[2][d]; };
    const auto moves = [&](const auto& list, size_t d) {
      return list[1][d] - list[0][d] == grown_.capacity_ - 1 && list[2][d] - list[1][d] == 1;
    };
    int moved = -1;
    bool cut = false;  // along other dimensions
    for (size_t d = 0; d < size_t(rank); ++d) {
      const bool first = same(starts, d) && (same(ends, d) || (moves(ends, d) && int(d) == call.gives));
      const bool begins = moves(starts, d) && moves(ends, d) && moved < 0;
      if ((!first && !begins) || (!(same(starts, d) && same(ends, d)) && steps[1][d] != 1))
        refuse(call.node, "has attributes that follow from the length");
      if (begins && !first)
        moved = int(d);
      else
        cut = cut || starts[1][d] != 0 || ends[1][d] != graph_.value(call.x()).desc.shape[int(d)] || steps[1][d] != 1;
    }
    // Of places that are not used some may be among those that the whole has.
    set(call, false, !is_floating(graph_.value(call.x()).desc.dtype));
    if (moved < 0) return;
    ValueId x = call.x();
    const auto m = size_t(moved);
    if (cut) {
      Attributes others = call.op.attributes;
      std::vector<int64_t> from = starts[1], to = ends[1];
      from[m] = 0;
      to[m] = graph_.value(x).desc.shape[moved];
      others.set(attr::starts, from);
      others.set(attr::ends, to);
      x = graph_.insert(call.index, *call.node.schema, others, {x}, call.node.name + "/places")[0];
    }
    const ValueId places = grown_.places_from(starts[1][m] - grown_.capacity_, ends[1][m] - starts[1][m]);
    changes_.push_back({call.index, {x, places}, find_schema("index_select"), Attributes{{attr::dim, int64_t(moved)}}});
  }

  void repeat(const Call& call) {
    if (call.gives < 0) refuse(call.node, "follows from the length");
    const bool zero = is_zero_there(call.x()) || is_zero(graph_, call.x());
    set(call, zero, zero || is_finite(call.x()));
  }

  void elementwise(const Call& call) {
    const Schema& schema = *call.node.schema;
    bool all_zero = true, any_zero = false, all_finite = keeps_finite(call.op), others_known = true;
    for (size_t k = 0; k < call.node.inputs.size(); ++k) {
      const ValueId id = call.node.inputs[k];
      const Parameter& parameter = schema.input_parameter(int(k));
      if (id == kNoValue || parameter.selects) continue;
      all_zero = all_zero && (is_zero_there(id) || is_zero(graph_, id));
      any_zero = any_zero || is_zero_there(id);
      if (!grows(call.dims[k])) continue;
      all_finite = all_finite && is_finite(id) && !parameter.nonzero;
      others_known = others_known && is_zero_there(id);
    }
    // Another factor may be infinite there, unless it is the same for all places.
    const bool one_grows = std::count_if(call.dims.begin(), call.dims.end(), grows) == 1;
    const bool zero =
        post_ops_of(call.op).empty() && ((schema.zeros == Zeros::where_all && all_zero) ||
                                         (schema.zeros == Zeros::where_any && any_zero && (one_grows || others_known)));
    set(call, zero, all_finite || zero);
  }

  // -infinity is added along them.
  void softmax(const Call& call) {
    const TensorDesc& desc = graph_.value(call.x()).desc;
    if (!is_finite(call.x())) refuse(call.node, "is of numbers that may be none for places that are not used");
    const int dim = call.dims[0];
    const ValueId mask = grown_.mask(desc.rank(), dim, desc.shape[dim], desc.dtype);
    change(call, {added(call, "add", call.x(), mask)});
    set(call, true, true);
  }

  void matrix_product(const Call& call) {
    const std::vector<ValueId>& inputs = call.node.inputs;
    for (size_t k = 0; k < 2; ++k) {
      if (!grows(call.dims[k])) continue;
      const int rank = graph_.value(inputs[k]).desc.rank();
      const bool swapped = call.op.attributes[k ? attr::transpose_b : attr::transpose_a];
      const int along = swapped ? (k ? rank - 1 : rank - 2) : (k ? rank - 2 : rank - 1);
      if (call.dims[k] != along) continue;
      const ValueId own = inputs[k], other = inputs[1 - k];
      const bool none = (is_zero_there(own) && is_finite(other)) || (is_zero_there(other) && is_finite(own));
      if (!none) refuse(call.node, "sums over places that are not used");
    }
    if (inputs.size() > 2) refuse(call.node, "has something fused to it");
    const auto finite = [&](size_t k) { return !grows(call.dims[k]) || is_finite(inputs[k]); };
    set(call, false, finite(0) && finite(1) && keeps_finite(call.op));
  }

  // A mask hides them, joined to the one there is.
  void attention(const Call& call) {
    const std::vector<ValueId>& inputs = call.node.inputs;
    const int rank = graph_.value(call.x()).desc.rank();
    if (grows(call.dims[0]) || call.dims[1] != rank - 2 || call.dims[2] != rank - 2 ||
        call.op.attributes[attr::is_causal])
      refuse(call.node, "is causal by numbers of rows, or grows elsewhere than in its keys");
    if (call.op.attributes[attr::dropout_p] != 0) refuse(call.node, "drops weights by their number");
    if (!is_finite(inputs[1]) || !is_finite(inputs[2])) refuse(call.node, "has keys that may be infinite");
    const ValueId given = inputs.size() > 3 ? inputs[3] : kNoValue;
    const TensorDesc like = graph_.value(given == kNoValue ? call.x() : given).desc;
    const int64_t keys = graph_.value(inputs[1]).desc.shape[rank - 2];
    ValueId mask = grown_.mask(like.rank(), like.rank() - 1, keys, like.dtype);
    if (given != kNoValue) mask = added(call, like.dtype == DType::boolean ? "logical_and" : "add", given, mask);
    std::vector<ValueId> all = inputs;
    all.resize(std::max<size_t>(all.size(), 4), kNoValue);
    all[3] = mask;
    change(call, all);
  }

  void change(const Call& call, std::vector<ValueId> inputs) {
    changes_.push_back({call.index, std::move(inputs), nullptr, {}});
  }

  ValueId added(const Call& call, const char* op, ValueId a, ValueId b) {
    return graph_.insert(call.index, *find_schema(op), {}, {a, b}, call.node.name + "/places")[0];
  }

  GrownGraph& grown_;
  Graph& graph_;
  const Graph &longer_, &least_;
  std::vector<bool> zero_, finite_;  // by value: what its unused places hold
  std::set<size_t> joins_;           // concats that grow
  std::vector<Change> changes_;
};

std::vector<GrownGraph::Change> GrownGraph::changed_nodes(const Graph& longer, const Graph& least,
                                                          const std::vector<ValueId>& fed) {
  Places places(*this, fed, longer, least);
  // What exporters leave is in the graph until passes take it: a mask's sum where only its size counts.
  const std::vector<bool> used = used_in(graph_).nodes;
  for (size_t n = 0; n < graph_.nodes().size(); ++n) {
    if (!used[n]) continue;
    const Node& node = graph_.node(n);
    const int dim = node.schema->renaming == Renaming::part ? padded(node.inputs[0]) : -1;
    const auto attributes = [&](const Graph& graph) {
      const Node& same = graph.node(n);
      if (dim < 0) return same.attributes.str();
      // The end of all places follows from the length, as their number does.
      Attributes own = graph.op(same).attributes;
      std::vector<int64_t> ends = own[attr::ends];
      if (ends[size_t(dim)] == graph.value(same.inputs[0]).desc.shape[dim]) ends[size_t(dim)] = 0;
      own.set(attr::ends, ends);
      return own.str();
    };
    const std::string own = attributes(graph_);
    places.visit(n, own != attributes(longer) || own != attributes(least));
  }
  return places.changes();
}

}  // namespace pl
