// recognise_rotary: rotary position embedding spelled in slices, products and concats becomes one op.
//
// Values are read as sums of columns of one tensor times factors; where each column of a result is a sum of the same
// column of x and of the other one of its pair, the factors are its tables.
#include <algorithm>
#include <map>
#include <set>

#include "graph/passes/combined_views.h"
#include "graph/passes/passes.h"
#include "graph/passes/patterns.h"

namespace pl::passes {
namespace {

// What is taken of `source` along dimension `dim`, all of the others: by a slice, or as a part of a split.
struct Taken {
  ValueId source = kNoValue;
  int64_t start = 0, count = 0, step = 1;
};

std::optional<Taken> taken_along(Rewriter& rewriter, ValueId id, int dim) {
  const int index = rewriter.maker(id);
  if (index < 0 || dim < 0) return std::nullopt;
  const Node& node = rewriter.node(size_t(index));
  Taken taken{rewriter.input(node, 0), 0, rewriter.shape(id)[dim]};
  if (is_slice(node)) {
    const Op op = rewriter.op(size_t(index));
    const std::vector<int64_t>& steps = op.attributes[attr::steps];
    for (int d = 0; d < op.out().rank(); ++d)
      if (d != dim && (op.in(0).shape[d] != op.out().shape[d] || steps[size_t(d)] != 1)) return std::nullopt;
    taken.start = op.attributes[attr::starts][size_t(dim)];
    taken.step = steps[size_t(dim)];
    return taken;
  }
  if (!is_split(node) || rewriter.op(size_t(index)).attributes[attr::dim] != dim) return std::nullopt;
  for (ValueId part : node.outputs) {
    if (part == id) return taken;
    taken.start += rewriter.shape(part)[dim];
  }
  return std::nullopt;
}

int last_of(const Dims& shape) { return shape.size() - 1; }

// Columns side by side.
std::optional<Taken> columns_taken(Rewriter& rewriter, ValueId id) {
  const auto taken = taken_along(rewriter, id, last_of(rewriter.shape(id)));
  return taken && taken->step == 1 ? taken : std::nullopt;
}

// The two tensors that a node joins along `dim`.
std::optional<std::pair<ValueId, ValueId>> two_joined(Rewriter& rewriter, int index, int dim) {
  if (index < 0 || !is_concat(rewriter.node(size_t(index)))) return std::nullopt;
  const Node& node = rewriter.node(size_t(index));
  if (node.inputs.size() != 2 || rewriter.op(size_t(index)).attributes[attr::dim] != dim) return std::nullopt;
  return std::pair(rewriter.input(node, 0), rewriter.input(node, 1));
}

// The elements of a value in their order, whatever its shape: runs of elements of the value that it is a view of.
struct Order {
  ValueId source = kNoValue;
  std::vector<std::pair<int64_t, int64_t>> runs;  // number and stride in the source, the outermost first

  Order(Rewriter& rewriter, ValueId id) : source(id) {
    constexpr int kMostViews = 8;
    int length = 0;
    const auto views = CombinedViews::back_from(rewriter, id, kMostViews, source, length);
    if (!views) {
      source = id;
      return;
    }
    const Dims& shape = rewriter.shape(source);
    for (const std::vector<int>& dim : views->dims())
      for (int factor : dim) {
        int64_t stride = views->span(factor);
        for (int d = views->factors()[size_t(factor)].dim + 1; d < shape.size(); ++d) stride *= shape[d];
        const int64_t size = views->factors()[size_t(factor)].size;
        if (!runs.empty() && runs.back().second == size * stride)
          runs.back() = {runs.back().first * size, stride};
        else
          runs.emplace_back(size, stride);
      }
  }
  bool operator==(const Order& other) const { return source == other.source && runs == other.runs; }
};

// A tensor of pairs of columns, `whole` (..., columns): column i of each half, or neighbours.  The columns that come first
// in their pairs are lane 0, the others lane 1.  Pairs may have a dimension of their own, and a lane may keep its place
// in it.
struct Pairs {
  Dims whole, lane, apart, lane_apart;
  int dim = 0;  // of pairs in `apart` and `lane_apart`
  bool interleaved = false;

  Pairs(const Dims& shape, bool neighbours)
      : whole(shape), lane(shape), dim(neighbours ? shape.size() : last_of(shape)), interleaved(neighbours) {
    lane[last_of(shape)] /= 2;
    for (int d = 0; d <= shape.size(); ++d) {
      apart.push_back(d == dim ? 2 : lane[d - (d > dim)]);
      lane_apart.push_back(d == dim ? 1 : lane[d - (d > dim)]);
    }
  }

  static bool are_in(const Dims& shape) {
    const int last = last_of(shape);
    return last > 0 && shape.size() < kMaxRank && shape[last] > 0 && shape[last] % 2 == 0;
  }
  bool is_whole(const Dims& shape) const { return shape == whole || shape == apart; }
  bool is_lane(const Dims& shape) const { return shape == lane || shape == lane_apart; }

  // The pairs of which a value is one lane, and which one.
  std::optional<std::pair<ValueId, int>> taken(Rewriter& rewriter, ValueId id) const {
    const bool by_dim = rewriter.shape(id) == lane_apart;
    const auto part = taken_along(rewriter, id, by_dim ? dim : last_of(whole));
    if (!part || rewriter.shape(part->source) != (by_dim ? apart : whole)) return std::nullopt;
    const bool by_two = interleaved && !by_dim;
    const int64_t second = by_two ? 1 : part->count;  // where lane 1 begins
    if (part->step != (by_two ? 2 : 1) || (part->start != 0 && part->start != second)) return std::nullopt;
    return std::pair(part->source, int(part->start != 0));
  }

  // The lane that a node puts beside zeros.
  std::optional<int> padded(Rewriter& rewriter, int index) const {
    if (index < 0 || !is_pad(rewriter.node(size_t(index)))) return std::nullopt;
    const Op op = rewriter.op(size_t(index));
    if (op.attributes[attr::mode] != "constant" || op.attributes[attr::value] != 0) return std::nullopt;
    const bool by_dim = op.out().shape == apart;
    if (op.in(0).shape != (by_dim ? lane_apart : lane) || (!by_dim && (interleaved || op.out().shape != whole)))
      return std::nullopt;
    const int64_t begin = op.attributes[attr::begins][size_t(by_dim ? dim : last_of(whole))];
    return int(begin != 0);
  }

  // The two lanes that a node joins.
  std::optional<std::pair<ValueId, ValueId>> joined(Rewriter& rewriter, int index) const {
    if (index < 0) return std::nullopt;
    const bool by_dim = rewriter.shape(rewriter.node(size_t(index)).outputs[0]) == apart;
    if (interleaved && !by_dim) return std::nullopt;
    const auto lanes = two_joined(rewriter, index, by_dim ? dim : last_of(whole));
    return lanes && rewriter.shape(lanes->first) == rewriter.shape(lanes->second) ? lanes : std::nullopt;
  }
};

// A lane of x, times a factor: a tensor of a lane's shape, or lane 0 or 1 of a whole one.  The factor's first dimensions
// broadcast.
struct Term {
  int x = 0;
  bool negative = false;
  ValueId factor = kNoValue;
  int lane = -1;
  bool apart = false;  // whether pairs have a dimension of their own in the factor
};
using Terms = std::optional<std::vector<Term>>;  // a sum, of none: zeros

constexpr int kMostSteps = 12;  // back from a result

// Reads values as sums of the lanes of one tensor times tables.
class Reader {
 public:
  Reader(Rewriter& rewriter, const Pairs& pairs) : rewriter_(rewriter), pairs_(pairs) {}  // finds what x may be
  Reader(Rewriter& rewriter, const Pairs& pairs, ValueId x) : Reader(rewriter, pairs) { x_.emplace(rewriter, x); }

  // Lane 0 or 1 of a whole tensor; of a tensor of a lane's shape (lane -1) all of it.
  Terms read(ValueId id, int lane) {
    if (depth_ > kMostSteps) return std::nullopt;
    ++depth_;
    Terms terms = lane < 0 ? lane_terms(id) : whole_terms(id, lane);
    --depth_;
    return terms;
  }

  // Where reading came to an end, the tensors of pairs that are computed otherwise: each may be x.
  const std::vector<ValueId>& ends() const { return ends_; }

  // Whether nothing else needs what was computed on the way.
  bool is_alone() const {
    return std::all_of(readers_.begin(), readers_.end(),
                       [&](const auto& each) { return int32_t(each.second.size()) == rewriter_.uses(each.first); });
  }

 private:
  // What input k of a node is read as.
  Terms input(int index, size_t k, int lane) {
    const ValueId id = rewriter_.input(rewriter_.node(size_t(index)), k);
    Terms terms = read(id, lane);
    if (terms && !terms->empty() && terms->front().factor != kNoValue) readers_[id].insert({index, k});
    return terms;
  }

  Terms whole_terms(ValueId id, int lane) {
    if (!pairs_.is_whole(rewriter_.shape(id))) return std::nullopt;
    if (x_ && Order(rewriter_, id) == *x_) return std::vector<Term>{Term{lane}};
    const size_t before = ends_.size();
    Terms terms = inner_terms(id, lane);
    if (!terms && ends_.size() == before) ends_.push_back(id);
    return terms;
  }

  Terms inner_terms(ValueId id, int lane) {
    const int index = rewriter_.maker(id);
    if (pairs_.joined(rewriter_, index)) return input(index, size_t(lane), -1);
    if (const auto padded = pairs_.padded(rewriter_, index))
      return *padded == lane ? input(index, 0, -1) : std::vector<Term>();
    return arithmetic(index, id, lane);
  }

  Terms lane_terms(ValueId id) {
    if (!pairs_.is_lane(rewriter_.shape(id))) return std::nullopt;
    const int index = rewriter_.maker(id);
    if (const auto taken = pairs_.taken(rewriter_, id)) return input(index, 0, taken->second);
    return arithmetic(index, id, -1);
  }

  Terms arithmetic(int index, ValueId id, int lane) {
    if (index < 0) return std::nullopt;
    const Node& node = rewriter_.node(size_t(index));
    if (is_reshape(node)) return input(index, 0, lane);
    if (computes(rewriter_, size_t(index), "neg")) return negated(input(index, 0, lane));
    if (is_bare(rewriter_, size_t(index), Operation::product)) return product(index, id, lane);
    const bool difference = is_bare(rewriter_, size_t(index), Operation::difference);
    if (!difference && !is_bare(rewriter_, size_t(index), Operation::sum)) return std::nullopt;
    Terms first = input(index, 0, lane), second = first ? input(index, 1, lane) : std::nullopt;
    if (!second) return std::nullopt;
    if (difference) second = negated(std::move(second));
    first->insert(first->end(), second->begin(), second->end());
    return first;
  }

  static Terms negated(Terms terms) {
    if (terms)
      for (Term& term : *terms) term.negative = !term.negative;
    return terms;
  }

  Terms product(int index, ValueId id, int lane) {
    const Node& node = rewriter_.node(size_t(index));
    for (size_t k = 0; k < 2; ++k) {
      const ValueId factor = rewriter_.input(node, k), table = rewriter_.input(node, 1 - k);
      if (rewriter_.shape(factor) != rewriter_.shape(id) || !is_table(table, rewriter_.shape(id))) continue;
      Terms terms = input(index, k, lane);
      if (terms && terms->empty()) return terms;
      if (!terms || terms->size() != 1 || terms->front().factor != kNoValue) continue;
      terms->front() = {terms->front().x, terms->front().negative, table, lane,
                        rewriter_.shape(id) == pairs_.apart || rewriter_.shape(id) == pairs_.lane_apart};
      return terms;
    }
    return std::nullopt;
  }

  // Whether a factor has all columns of `shape`.
  bool is_table(ValueId id, const Dims& shape) const {
    const Dims& own = rewriter_.shape(id);
    const int columns = shape.size() - pairs_.whole.size() + 1, more = shape.size() - own.size();
    if (own.size() < columns) return false;
    for (int d = shape.size() - columns; d < shape.size(); ++d)
      if (own[d - more] != shape[d]) return false;
    return true;
  }

  Rewriter& rewriter_;
  const Pairs& pairs_;
  std::optional<Order> x_;
  std::vector<ValueId> ends_;
  int depth_ = 0;
  std::map<ValueId, std::set<std::pair<int, size_t>>> readers_;  // of what holds products
};

// Makes tables of cosines and sines of the factors of lanes.
class Tables {
 public:
  Tables(Rewriter& rewriter, const Pairs& pairs, size_t before)
      : rewriter_(rewriter),
        pairs_(pairs),
        before_(before),
        dtype_(rewriter.desc(rewriter.node(before).outputs[0]).dtype),
        name_(rewriter.node(before).name + ".table") {}

  // Whether two factors can be lanes of one table, with little to compute.
  bool suit(const Term& first, const Term& second) const {
    const Dims shape = shape_of(first);
    return shape == shape_of(second) && rewriter_.desc(first.factor).dtype == dtype_ &&
           rewriter_.desc(second.factor).dtype == dtype_ &&
           (is_table(first, second) || 2 * shape.product() <= pairs_.whole.product());
  }

  ValueId of(const Term& first, const Term& second) {
    const Dims shape = shape_of(first);
    if (is_table(first, second)) return reshaped(first.factor, shape);
    const Pairs pairs(shape, pairs_.interleaved);
    const Attributes along{{attr::dim, int64_t(pairs.dim)}};
    return reshaped(insert("concat", along, {lane(first, pairs), lane(second, pairs)}), shape);
  }

 private:
  static bool is_table(const Term& first, const Term& second) {
    return first.factor == second.factor && first.lane == 0 && second.lane == 1 && !first.negative && !second.negative;
  }

  // Of the table that a factor is, or is a lane of.
  Dims shape_of(const Term& term) const {
    const Dims& own = rewriter_.shape(term.factor);
    Dims shape;
    for (int d = 0; d < own.size() - (term.apart ? 2 : 1); ++d) shape.push_back(own[d]);
    shape.push_back(pairs_.whole[last_of(pairs_.whole)]);
    return shape;
  }

  ValueId lane(const Term& term, const Pairs& pairs) {
    ValueId id = reshaped(term.factor, term.lane < 0 ? pairs.lane_apart : pairs.apart);
    if (term.lane >= 0)
      id = insert("slice",
                  Attributes{{attr::starts, std::vector<int64_t>{term.lane}},
                             {attr::ends, std::vector<int64_t>{term.lane + 1}},
                             {attr::axes, std::vector<int64_t>{pairs.dim}}},
                  {id});
    return term.negative ? insert("neg", {}, {id}) : id;
  }

  ValueId reshaped(ValueId id, const Dims& shape) {
    return rewriter_.shape(id) == shape ? id : insert("reshape", Attributes{{attr::shape, shape.vector()}}, {id});
  }

  ValueId insert(std::string_view schema, const Attributes& attributes, const std::vector<ValueId>& inputs) {
    return rewriter_.insert(before_, schema, attributes, inputs, name_);
  }

  Rewriter& rewriter_;
  const Pairs& pairs_;
  size_t before_;
  DType dtype_;
  std::string name_;
};

// The terms of lane `lane` of a result: that of the same lane of x, and that of the other one.
std::optional<std::pair<Term, Term>> turned_lane(const Terms& terms, int lane) {
  if (!terms || terms->size() != 2) return std::nullopt;
  const size_t same = terms->front().x == lane ? 0 : 1;
  const Term &own = (*terms)[same], &other = (*terms)[1 - same];
  if (own.x != lane || other.x == lane || own.factor == kNoValue || other.factor == kNoValue) return std::nullopt;
  return std::pair(own, other);
}

bool rewrite_as_rotary(Rewriter& rewriter, size_t index, const Pairs& pairs, ValueId x) {
  const ValueId result = rewriter.node(index).outputs[0];
  if (!is_floating(rewriter.desc(x).dtype) || rewriter.desc(x).dtype != rewriter.desc(result).dtype) return false;
  Reader reader(rewriter, pairs, x);
  const auto first = turned_lane(reader.read(result, 0), 0), second = turned_lane(reader.read(result, 1), 1);
  if (!first || !second || !reader.is_alone()) return false;
  Term sine = first->second;
  sine.negative = !sine.negative;
  Tables tables(rewriter, pairs, index);
  if (!tables.suit(first->first, second->first) || !tables.suit(sine, second->second)) return false;
  const std::string name = rewriter.node(index).name;
  const auto reshaped = [&](ValueId id, const Dims& shape) {
    return rewriter.insert(index, "reshape", Attributes{{attr::shape, shape.vector()}}, {id}, name + ".x");
  };
  const ValueId cosines = tables.of(first->first, second->first), sines = tables.of(sine, second->second);
  const ValueId whole = rewriter.shape(x) == pairs.whole ? x : reshaped(x, pairs.whole);
  const Attributes attributes{{attr::interleaved, pairs.interleaved}};
  const std::vector<ValueId> inputs{whole, cosines, sines};
  if (rewriter.shape(result) == pairs.whole) {
    rewriter.rewrite(index, "rotary_embedding", attributes, inputs);
  } else {
    const ValueId y = rewriter.insert(index, "rotary_embedding", attributes, inputs, name);
    rewriter.rewrite(index, "reshape", Attributes{{attr::shape, pairs.apart.vector()}}, {y});
  }
  return true;
}

// A result whose lanes are sums of products of the lanes of one tensor: x * cos + turned(x) * sin, or lane by lane.
bool recognise_rotary_of(Rewriter& rewriter, size_t index, const Dims& whole) {
  if (!Pairs::are_in(whole)) return false;
  for (const bool interleaved : {false, true}) {
    const Pairs pairs(whole, interleaved);
    Reader reader(rewriter, pairs);
    reader.read(rewriter.node(index).outputs[0], 0);
    std::vector<ValueId> sources = reader.ends();
    std::sort(sources.begin(), sources.end());
    sources.erase(std::unique(sources.begin(), sources.end()), sources.end());
    for (const ValueId source : sources)
      if (rewrite_as_rotary(rewriter, index, pairs, source)) return true;
  }
  return false;
}

// The first columns turned, joined to the others: all columns, of which the first are turned.
void take_rest(Rewriter& rewriter, size_t index) {
  const Node& node = rewriter.node(index);
  const Dims& all = rewriter.shape(node.outputs[0]);
  const auto parts = two_joined(rewriter, int(index), last_of(all));
  if (!parts) return;
  const int rotary = sole_maker(rewriter, parts->first, is_rotary_embedding);
  const auto rest = columns_taken(rewriter, parts->second);
  if (rotary < 0 || !rest || rewriter.shape(rest->source) != all) return;
  const std::vector<ValueId> inputs = rewriter.inputs(rewriter.node(size_t(rotary)));
  const auto first = columns_taken(rewriter, inputs[0]);
  if (!first || first->source != rest->source || first->start != 0 || rest->start != first->count) return;
  const Dims& table = rewriter.shape(inputs[1]);
  if (table[last_of(table)] != first->count) return;
  const Attributes attributes{{attr::interleaved, bool(rewriter.op(size_t(rotary)).attributes[attr::interleaved])}};
  rewriter.rewrite(index, "rotary_embedding", attributes, {first->source, inputs[1], inputs[2]});
}

// Its columns are pairs, or the last dimension is that of pairs.
bool recognise_rotary_at(Rewriter& rewriter, size_t index) {
  const Dims& shape = rewriter.shape(rewriter.node(index).outputs[0]);
  if (recognise_rotary_of(rewriter, index, shape)) return true;
  const int last = last_of(shape);
  if (last < 1 || shape[last] != 2) return false;
  Dims whole;
  for (int d = 0; d < last; ++d) whole.push_back(shape[d] * (d == last - 1 ? 2 : 1));
  return recognise_rotary_of(rewriter, index, whole);
}

int run_recognise_rotary(Graph& graph, Context&) {
  return sweep(graph, [](Rewriter& rewriter, size_t index) {
    const bool joins = is_concat(rewriter.node(index));
    if (!joins && !is_bare(rewriter, index, Operation::sum) && !is_bare(rewriter, index, Operation::difference)) return;
    if (!recognise_rotary_at(rewriter, index) && joins) take_rest(rewriter, index);
  });
}

}  // namespace

Pass recognise_rotary() {
  return {
      "recognise_rotary",
      "Recognises x * cos + concat(-x2, x1) * sin, of all columns or the first ones, or lane by lane, with halves or "
      "neighbours as pairs, as rotary_embedding.  A result changes by roundings of its dtype.",
      run_recognise_rotary};
}

}  // namespace pl::passes
