// Partitioned boolean quadratic problems: which state each node takes, where states cost something and so does
// every pair of states of two joined nodes.
//
//     minimise  sum_n cost_n(state_n)  +  sum_(a, b) costs_ab(state_a, state_b)
//
// Choosing layouts for a whole graph is such a problem: nodes are ops and shared tensors, states are candidates
// and layouts, edges hold what reorders cost.  Infinity forbids a state or a pair.
//
// Nodes with at most two neighbours are removed exactly (R0, RI, RII), and so are states that another one of the
// same node beats wherever it is put; networks made of chains, branches and joins end there, without a search.  What
// is left is searched by branch and bound, each connected part on its own.
//   Scholz and Eckstein, "Register allocation for irregular architectures", LCTES 2002: R0, RI, RII.
//   Hames and Scholz, "Nearly optimal register allocation with PBQP", JMLC 2006: exact branch and bound.
//   Anderson and Gregg, "Optimal DNN primitive selection with PBQP", arXiv 1710.01079: the use made of it here.
//   Kolmogorov, "Convergent tree-reweighted message passing", PAMI 2006: the bound.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <unordered_map>
#include <vector>

namespace pl {

// A dense table of costs, row after row.
struct CostMatrix {
  CostMatrix() = default;
  CostMatrix(int rows, int cols, double fill = 0) : rows(rows), cols(cols), values(size_t(rows) * size_t(cols), fill) {}
  double& at(int row, int col) { return values[size_t(row) * size_t(cols) + size_t(col)]; }
  double at(int row, int col) const { return values[size_t(row) * size_t(cols) + size_t(col)]; }

  int rows = 0;
  int cols = 0;
  std::vector<double> values;
};

// The problem.  Costs may be negative or +infinity; NaN and -infinity are errors (Error(internal)).
class Pbqp {
 public:
  struct Edge {
    int a, b;          // a < b
    CostMatrix costs;  // rows: states of a, columns: states of b
  };

  // Returns the node's number: 0, 1, 2...  A node without states makes the problem infeasible.
  int add_node(std::vector<double> costs);
  // Rows are a's states, columns b's, in whichever order the two are named.  Edges between the same two nodes add
  // up; of an edge from a node to itself the diagonal counts.
  void add_edge(int a, int b, const CostMatrix& costs);

  int nodes() const { return int(nodes_.size()); }
  const std::vector<double>& node(int number) const { return nodes_[size_t(number)]; }
  const std::vector<Edge>& edges() const { return edges_; }
  // What a choice of one state a node costs in all.
  double cost(const std::vector<int>& choice) const;

 private:
  std::vector<std::vector<double>> nodes_;
  std::vector<Edge> edges_;
  std::unordered_map<uint64_t, size_t> between_;  // the edge between two nodes, by a << 32 | b
};

// When to give up proving.  The reductions and a first good choice are made whatever the limits.
struct PbqpLimits {
  double seconds = 1;  // of the clock
  // Of matrix entries looked at, about a nanosecond each.  Equal problems get equal solutions where this limit, and not
  // the clock, ends the search; hence its default lies well below a second.
  uint64_t work = 400'000'000;
};

struct PbqpSolution {
  std::vector<int> choice;  // a state for each node; empty: none was found that is not forbidden
  double cost = std::numeric_limits<double>::infinity();
  double lower_bound = -std::numeric_limits<double>::infinity();  // no choice costs less
  bool exact = false;  // the choice is the best there is (or, if it is empty, there is none), up to rounding
  double gap() const { return exact ? 0 : cost - lower_bound; }

  // How it was found.
  int r0 = 0, r1 = 0, r2 = 0;  // nodes removed with 0, 1 and 2 neighbours
  int fixed = 0;               // nodes removed because one state was left
  int dominated = 0;           // states removed because another one is never worse
  int core = 0;                // nodes left for the search
  uint64_t branches = 0;       // states tried by the search
  uint64_t work = 0;
};

// Deterministic: of equal choices, the one with lower states where they are met.
PbqpSolution solve(const Pbqp& problem, const PbqpLimits& limits = {});

}  // namespace pl
