// Graph: a whole program as data: typed values, and the ops between them in an order in which they can run.
//
// It is built with the ops of eager calls (`add` infers and checks as they do), rewritten by passes (graph/pass.h),
// and compiled into a Plan (graph/plan.h).  Shapes are concrete; a graph whose inputs have named axes can be bound
// to other sizes, which infers every shape again.  Attributes and constants that follow from sizes are given as
// expressions (graph/size_expression.h) for that.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor.h"
#include "graph/size_expression.h"
#include "ops/op.h"

namespace pl {

// ValueId: an index into Graph::values()
constexpr ValueId kNoValue = -1;
constexpr int32_t kInserted = -2;  // Value::node of results of inserted nodes: kInserted - place

struct Value {
  Value();
  ~Value();
  Value(const Value& other);
  Value(Value&& other) noexcept;
  Value& operator=(const Value& other);
  Value& operator=(Value&& other) noexcept;

  std::string name;    // for people; unique in a graph
  TensorDesc desc;     // shape and dtype.  The layout is meant for constants and pinned inputs; else it is plain
  TensorRef constant;  // the data of a constant, else null
  int32_t node = -1;   // what makes it; -1: a constant or an input
  int32_t output = 0;  // which result of that node
};

// An attribute whose numbers follow from sizes of values before.
struct LateAttribute {
  AttributeName name;
  bool list = false;                  // else one number
  std::vector<SizeExpression> sizes;  // one for each number
};

struct Node {
  Node();
  ~Node();
  Node(const Node& other);
  Node(Node&& other) noexcept;
  Node& operator=(const Node& other);
  Node& operator=(Node&& other) noexcept;

  std::string name;  // for people: "layer1.0.conv1", "/features/0/Conv"
  const Schema* schema = nullptr;
  Attributes attributes;        // as the user gave them: complete ones are made again for every shape
  std::vector<ValueId> inputs;  // in schema order; kNoValue: an optional input that is absent
  std::vector<ValueId> outputs;
  std::vector<LateAttribute> late;  // `attributes` has what they are for the present sizes
  bool again = false;               // makes again what an earlier node made (graph/recompute.h)
};

// What holds for the sizes that a graph may be bound to, or follows from them, beside its ops.
struct SizeRule {
  enum class Kind {
    equal,      // of two sizes: the first == the second
    different,  // the first != the second
    less,       // the first < the second
    at_most,    // the first <= the second
    numbers,    // the constant `value` of rank 1 holds these sizes
    number,     // that of rank 0 holds the one size
    range       // that of rank 1 holds the numbers from the first on, in steps of the third, up to before the second
  };
  Kind kind = Kind::equal;
  std::vector<SizeExpression> sizes;
  ValueId value = kNoValue;
  size_t after = 0;  // how many nodes are before it

  std::string str() const;
};

// Nodes that gradients() appended (graph/gradients.h).  Which ops derive another, and their attributes, follow from
// shapes: for other sizes they are not copied but made again.
struct DerivedPart {
  size_t first = 0, end = 0;               // nodes
  ValueId first_value = 0, end_value = 0;  // their results, and constants made for them
  ValueId loss = kNoValue;
  std::vector<ValueId> by, gradients;
  Device* cpu = nullptr;  // where constants lie
};

// A named value that a program keeps between its runs.  It is an input and, where it is updated, an output of the
// graph, which the plan gives and takes by itself.
struct KeptValue {
  ValueId value = kNoValue;   // what ops read: the value before the run
  ValueId update = kNoValue;  // the value after the run; kNoValue: no run changes it
  TensorRef initial;          // before the first run
  bool parameter = false;     // gradients are taken of it
  // A run writes nothing but what nobody has read, so it may write at any step, and leave it half done.
  bool appended = false;
};

struct GraphInput {
  ValueId value = kNoValue;
  std::vector<std::string> axes;  // names of its axes, "" for those that are fixed; empty: none is named
  bool pinned = true;             // the caller gives it in desc.layout.  False: in whatever layout the plan likes
  int32_t kept = -1;              // given by the plan: an index into Graph::kept(); -1: by the caller
};

struct GraphOutput {
  ValueId value = kNoValue;
  std::string name;
  std::optional<Layout> layout;  // the layout the caller wants it in; none: whatever the plan likes
  int32_t kept = -1;  // the update of a kept value: an index into Graph::kept(); -1: a result of the caller's
};

class Graph {
 public:
  Graph();
  ~Graph();
  Graph(const Graph& other);
  Graph(Graph&& other) noexcept;
  Graph& operator=(const Graph& other);
  Graph& operator=(Graph&& other) noexcept;

  // ---- building ----

  // `axes` may be empty, or name some of the axes ("n", "", "", "").  Equal names must have equal sizes.
  ValueId input(const std::string& name, const TensorDesc& desc, const std::vector<std::string>& axes = {},
                bool pinned = true);
  ValueId constant(const std::string& name, TensorRef tensor);
  // Appends an op; its results are numbered consecutively.  Throws as an eager call does, the message naming the node
  // too.
  // `late` are attributes beside the others.
  std::vector<ValueId> add(const Schema& schema, const Attributes& attributes, const std::vector<ValueId>& inputs,
                           const std::string& name = "", const std::vector<LateAttribute>& late = {});
  void mark_again() { nodes_.back().again = true; }  // the op that was added last
  void note_derived(DerivedPart part) { derived_.push_back(std::move(part)); }
  // A constant of s64, s32 or f32 whose elements follow from sizes: `kind` is numbers, number or range.
  ValueId late_constant(const std::string& name, DType dtype, Device& device, SizeRule::Kind kind,
                        std::vector<SizeExpression> sizes);
  // The graph holds for such sizes only: `kind` is another one.  Throws Error(unsupported) where it does not hold now.
  void require_sizes(SizeRule::Kind kind, const SizeExpression& left, const SizeExpression& right);
  // Names in texts are of axes.
  SizeExpression size_expression(std::string_view text) const;
  std::vector<SizeExpression> size_expressions(std::string_view text) const;  // "n,s*64"
  std::vector<LateAttribute> late_attributes(std::string_view text) const;    // "shape=[n,s*64] start=s-1"
  static std::string late_text(const std::vector<LateAttribute>& late);       // as it is read
  void output(ValueId value, const std::string& name, std::optional<Layout> layout);
  // In which layout an output, by its number, is wanted.
  void want_output(size_t output, std::optional<Layout> layout) { outputs_[output].layout = std::move(layout); }
  // A value kept between runs, named as `name` alone.  `parameter`: one that gradients are taken of.
  ValueId keep(const std::string& name, TensorRef initial, bool parameter);
  // After a run `kept` gets the value that `update` had in it.  A second call replaces what the first one said.
  void update(ValueId kept, ValueId update);
  // What a graph keeps from which this one was made: its value v, where it is an input, is places[v] here, and its
  // outputs are this one's.
  void adopt_kept(const Graph& other, const std::vector<ValueId>& places);

  // ---- reading ----

  const std::vector<Value>& values() const { return values_; }
  const std::vector<Node>& nodes() const { return nodes_; }  // each after the makers of its inputs
  const std::vector<GraphInput>& inputs() const { return inputs_; }
  const std::vector<GraphOutput>& outputs() const { return outputs_; }
  const std::vector<KeptValue>& kept() const { return kept_; }
  // Forgets the tensor of a kept value, which is null from here on.
  TensorRef take_initial(size_t kept) { return std::exchange(kept_[kept].initial, nullptr); }
  int32_t find_kept(const std::string& name) const;  // an index into kept(), -1 if there is none
  const std::vector<SizeRule>& rules() const { return rules_; }
  const std::vector<DerivedPart>& derived() const { return derived_; }  // in the order of their nodes
  const Value& value(ValueId id) const { return values_[size_t(id)]; }
  const Node& node(size_t index) const { return nodes_[index]; }
  // The node that makes a value, or null for inputs, constants and kNoValue.
  const Node* maker(ValueId id) const;
  bool is_constant(ValueId id) const { return id != kNoValue && values_[size_t(id)].constant != nullptr; }
  // How often each value is used: by nodes (each input counts) and as an output of the graph.
  std::vector<int32_t> use_counts() const;
  // The nodes that use each value, in order; a node that uses a value twice is listed twice.
  std::vector<std::vector<int32_t>> consumers() const;
  // The op of a node with everything inferred.
  Op op(const Node& node) const;

  // Checks every invariant: order, types, shapes, uniqueness of names, outputs.  Throws Error(internal) naming the
  // node.
  void verify() const;

  // The same program for other sizes of the named axes; gradients are derived for these.  Throws
  // Error(invalid_argument) for a name that no input has, and what inference throws where an op does not permit the
  // size.
  Graph bound(const std::map<std::string, int64_t>& sizes) const;
  std::map<std::string, int64_t> axes() const;  // every named axis and its size
  // Forgets what is for other sizes than the present ones.
  void forget_rules();

  std::string str() const;   // for people, one op a line
  std::string dot() const;   // Graphviz
  std::string json() const;  // {"inputs", "outputs", "nodes", "constants"}; without the data of constants

  // Puts a tensor of the same logical contents, perhaps in another layout, in the place of a constant's.
  void replace_constant(ValueId constant, TensorRef tensor) { values_[size_t(constant)].constant = std::move(tensor); }

  // ---- rewriting, for passes ----

  // Turns a node into another op with the same results (shapes and dtypes, checked), named `name` unless that is
  // empty.  Its inputs must be made before it.
  void rewrite(size_t node, const Schema& schema, const Attributes& attributes, const std::vector<ValueId>& inputs,
               const std::string& name = "");
  // Whoever uses `from`, graph outputs included, is to use `to` (same shape and dtype).  Takes effect at the next
  // tidy().
  void redirect(ValueId from, ValueId to);
  // What `id` was redirected to, as tidy() will see it; `id` itself where it was not.
  ValueId resolved(ValueId id);
  // Inserts an op before node `before` (an index as it is now); takes its place in nodes() at the next tidy().
  std::vector<ValueId> insert(size_t before, const Schema& schema, const Attributes& attributes,
                              const std::vector<ValueId>& inputs, const std::string& name);
  // Makes redirections and insertions effective, and removes nodes that no output needs and the data of constants that
  // no node uses.  Renumbers nodes, not values.  Returns the number of nodes removed.
  size_t tidy();

 private:
  friend class GrownGraph;
  std::string unique_name(const std::string& wanted);
  ValueId add_value(const std::string& name, const TensorDesc& desc, int32_t node, int32_t output);
  Node make_node(const Schema& schema, const Attributes& attributes, const std::vector<ValueId>& inputs,
                 const std::string& name, int32_t index);
  int64_t dimension(const SizeSource& source, const SizeExpression& size) const;  // `size`: for messages
  int64_t evaluated(const SizeExpression& size) const;
  // With numbers for what never changes, the sizes of constants: a constant that no op reads is not kept.
  SizeExpression settled(const SizeExpression& size) const;
  // As they are for the sizes that values have now (graph/size_rules.cpp).
  void check(const SizeRule& condition) const;
  std::string named(std::string text) const;  // of sizes, with the names of axes for those that have one
  TensorRef tensor_of(const SizeRule& constant, DType dtype, Device& device) const;
  std::pair<TensorDesc, std::vector<char>> contents_of(const SizeRule& constant, DType dtype) const;
  Attributes with_late(Attributes attributes, const std::vector<LateAttribute>& late) const;
  // Takes over a rule of another graph, whose values have `places` in this one.
  void follow(const SizeRule& rule, const Value& old, std::vector<ValueId>& places);
  void note_rewritten();

  std::vector<Value> values_;
  std::vector<Node> nodes_;
  std::vector<GraphInput> inputs_;
  std::vector<GraphOutput> outputs_;
  std::vector<KeptValue> kept_;
  std::vector<SizeRule> rules_;  // in the order in which they were given
  std::vector<DerivedPart> derived_;
  bool rewritten_ = false;                             // by passes, which know the present sizes only
  bool fixed_ = false;                                 // by passes, too: gradients cannot be made again
  std::map<std::string, int32_t, std::less<>> names_;  // of values: how often the name was wanted
  struct Inserted {
    size_t before;
    Node node;
  };
  std::vector<Inserted> inserted_;  // their values have node = kInserted - index until tidy()
  std::vector<ValueId> forward_;    // by value: where it was redirected to, else kNoValue; empty: nothing was
};

}  // namespace pl
