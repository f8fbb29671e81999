// The working form of a PBQP: reductions that keep the optimum, and the bound.  Used by pbqp.cpp only.
//
// The cost of an edge is its matrix plus a potential for each state at either end, so that costs can be moved between
// nodes and edges (a reparametrisation: no choice's cost changes) without touching matrices.  Matrices are never
// written once made; the copies of a core that a search makes therefore share them.
//
// Invariants between calls: a live edge's matrix has the shape of its ends' present states; after reduce() every cost
// of a node is finite and non-negative, every edge cost is non-negative and no row of it is forbidden throughout, so
// that `constant` bounds the cost of every choice from below.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace pl::pbqp {

// Memory that is given back in the order opposite to that in which it was taken, as a depth-first search does.
// Pointers stay valid until then.
class Stack {
 public:
  struct Mark {
    size_t block = 0, used = 0, held = 0;
  };
  template <class T>
  T* take(size_t count) {
    return static_cast<T*>(take_bytes(count * sizeof(T)));
  }
  Mark mark() const { return {block_, used_, held_}; }
  void release(const Mark& mark) { block_ = mark.block, used_ = mark.used, held_ = mark.held; }
  size_t held() const { return held_; }  // bytes

 private:
  struct Block {
    std::unique_ptr<char[]> memory;
    size_t size = 0;
  };
  void* take_bytes(size_t bytes);

  std::vector<Block> blocks_;
  size_t block_ = 0, used_ = 0, held_ = 0;
};

struct Node {
  int id = 0;  // of this node in the core it was copied from
  int states = 0;
  double* cost = nullptr;
  const int* label = nullptr;  // the problem's numbers of the states left
  std::vector<int> edges;
  bool alive = true;
  bool queued = false;
  bool changed = true;  // since dominated states were looked for
};

struct Edge {
  int a = 0, b = 0;
  const double* m = nullptr;            // a's states by b's states
  double *pa = nullptr, *pb = nullptr;  // potentials
  int other(int node) const { return node == a ? b : a; }
};

// How to choose for a removed node once its neighbours are known.
struct Removal {
  struct Neighbour {
    int node = 0;
    const int* label = nullptr;
    int states = 0;
    const double* m = nullptr;
    int step = 0, across = 0;           // the entry of states (i, j) lies at i * step + j * across
    const double* potential = nullptr;  // at the removed node's end
  };
  int node = 0;
  int states = 0;
  const double* cost = nullptr;
  const int* label = nullptr;
  int neighbours = 0;
  Neighbour neighbour[2];
};

struct Counters {
  int r0 = 0, r1 = 0, r2 = 0, fixed = 0, dominated = 0;
  uint64_t work = 0;
};

class Core {
 public:
  Core(Stack& stack, Counters& counters) : stack_(&stack), counters_(&counters) {}

  // Building: the matrix must outlive the core.
  int add_node(int id, const double* costs, int states);
  void add_edge(int a, int b, const double* matrix);

  // The live nodes among `members` and the edges between them; shares matrices, owns the rest.  Its constant is 0.
  Core part(const std::vector<int>& members) const;
  std::vector<int> live() const;
  std::vector<std::vector<int>> components() const;  // of live nodes

  // Removes what can be removed exactly.  False: every choice is forbidden.
  bool reduce(bool dominance = true);
  // Forbids all states of a node but one; reduce() does the rest.
  void fix(int node, int state);
  void forbid(int node, int state);
  // Moves all that can be moved into the node's costs from its edges, and their minimum into the constant.
  void absorb(int node);
  // Raises the constant by up to `sweeps` rounds of message passing, until it reaches `limit` or a sweep gains less
  // than `least`.  States that alone would raise it to the limit are forbidden; true if there were any.
  bool ascend(int sweeps, double limit, double least);

  // Given the labels of the nodes that are left, sets those of the removed ones.
  void complete(std::vector<int>& labels) const;
  // The cost, for this core, of states (not labels) of its live nodes.
  double cost(const std::vector<int>& states) const;

  // The cost of an edge for state i of `node` and state j of its other end.
  double edge_cost(const Edge& edge, int node, int i, int j) const {
    return node == edge.a
               ? edge.m[size_t(i) * size_t(nodes[size_t(edge.b)].states) + size_t(j)] + edge.pa[i] + edge.pb[j]
               : edge.m[size_t(j) * size_t(nodes[size_t(edge.b)].states) + size_t(i)] + edge.pa[j] + edge.pb[i];
  }

  std::vector<Node> nodes;
  std::vector<Edge> edges;
  double constant = 0;

 private:
  void queue(int node);
  bool compact(int node);
  void normalise(int edge);
  void unlink(int edge);
  void remember(int node);
  void remove_single(int node);
  void remove_leaf(int node);
  void remove_between(int node);
  bool remove_dominated(int node);
  void minima(const Edge& edge, int node, double* out) const;

  Stack* stack_;
  Counters* counters_;
  std::vector<int> queue_;
  std::vector<Removal> removals_;
  std::vector<double> scratch_, scratch2_;
};

}  // namespace pl::pbqp
