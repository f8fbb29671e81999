// Rewriter: a graph while one pass is at work on it.
//
// It knows who makes and how often each value is used, kept up to date through rewrites and redirections, though the
// latter take effect only at Graph::tidy().  Nodes that nothing uses any more are skipped at once, so that one sweep
// over the nodes, in order, sees what the sweep did before.  All steps take constant time on average.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "ops/post_ops.h"

namespace pl::passes {

class Rewriter {
 public:
  explicit Rewriter(Graph& graph);

  Graph& graph() { return graph_; }
  size_t size() const { return live_.size(); }            // nodes; those inserted meanwhile are not counted
  bool live(size_t index) const { return live_[index]; }  // something still uses it
  const Node& node(size_t index) const { return graph_.node(index); }
  int changes() const { return changes_; }

  // ---- values ----

  // Input k of a node as tidy() will see it; kNoValue if absent.
  ValueId input(const Node& node, size_t k);
  std::vector<ValueId> inputs(const Node& node);
  const TensorDesc& desc(ValueId id) const { return graph_.value(id).desc; }
  const Dims& shape(ValueId id) const { return desc(id).shape; }
  // Dense and plain, whatever layouts the values have: of an op that is only asked about.
  std::vector<TensorDesc> plain_descs(const std::vector<ValueId>& ids) const;
  bool is_constant(ValueId id) const { return graph_.is_constant(id); }
  bool is_given(ValueId id) const;  // a constant, or an input of the graph, as parameters are
  bool is_parameter(ValueId id) const;
  const Tensor& constant(ValueId id) const { return *graph_.value(id).constant; }
  // The number that a constant of one element holds.  Its rank may be more than that of what it is combined with, which
  // gives the result this rank, too.
  std::optional<double> number(ValueId id) const;
  // Whether it is this number, one that every dtype holds: a power of 2.000001 has no value where a square has one.
  bool is_number(ValueId id, double expected) const { return number(id) == expected; }
  int32_t uses(ValueId id) const { return uses_[size_t(id)]; }
  // The node that makes a value: its index, or -1 for inputs, constants, absent values and what was inserted in this
  // pass.
  int maker(ValueId id) const;
  int sole_maker(ValueId id) const;  // the same where `id` is used once only, else -1
  // While it lives, one use of a value does not count: that by what will be gone with the rewrite.
  class UncountedUse {
   public:
    UncountedUse(Rewriter& rewriter, ValueId id) : rewriter_(rewriter), id_(id) { --rewriter_.uses_[size_t(id_)]; }
    ~UncountedUse() { ++rewriter_.uses_[size_t(id_)]; }
    UncountedUse(const UncountedUse&) = delete;
    UncountedUse& operator=(const UncountedUse&) = delete;

   private:
    Rewriter& rewriter_;
    ValueId id_;
  };

  // ---- attributes ----

  Op op(size_t index) const { return graph_.op(graph_.node(index)); }
  const PostOps& post_ops(size_t index) const { return post_ops_of(node(index).attributes); }
  bool has_post_ops(size_t index) const { return !post_ops(index).empty(); }

  // ---- changes ----

  void rewrite(size_t index, std::string_view schema, const Attributes& attributes, const std::vector<ValueId>& inputs,
               const std::string& name = "");
  void redirect(ValueId from, ValueId to);
  // Inserts an op before node `before`: its results; the one of an op that has one.
  std::vector<ValueId> insert_all(size_t before, std::string_view schema, const Attributes& attributes,
                                  const std::vector<ValueId>& inputs, const std::string& name);
  ValueId insert(size_t before, std::string_view schema, const Attributes& attributes,
                 const std::vector<ValueId>& inputs, const std::string& name);
  ValueId add_constant(const std::string& name, TensorRef tensor);

 private:
  void use(ValueId id);
  void release(ValueId id);

  Graph& graph_;
  std::vector<int32_t> uses_;
  std::vector<bool> live_;
  std::vector<ValueId> released_;  // work list of release()
  int changes_ = 0;
};

// Calls visit(rewriter, index) for every node that is live when its turn comes; returns the number of changes.
template <class Visit>
int sweep(Graph& graph, Visit&& visit) {
  Rewriter rewriter(graph);
  for (size_t i = 0; i < rewriter.size(); ++i)
    if (rewriter.live(i)) visit(rewriter, i);
  return rewriter.changes();
}

const Schema& schema_of(std::string_view name);  // throws Error(internal) if there is none
bool takes_attribute(const Schema& schema, const AttributeName& name);
bool takes_input(const Schema& schema, std::string_view name);

// Puts post-ops behind those that attributes have.
void append_post_ops(Attributes& attributes, const PostOps& list);
// Rewrites a node into the op that computes a step of x; one that reads no input.
void rewrite_as_step(Rewriter& rewriter, size_t index, const PostOp& step, ValueId x);

}  // namespace pl::passes
