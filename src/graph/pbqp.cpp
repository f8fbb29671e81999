#include "graph/pbqp.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "core/numbers.h"
#include "core/status.h"
#include "graph/pbqp_core.h"

namespace pl {
namespace {

using pbqp::Core;
using pbqp::Counters;
using pbqp::Edge;
using pbqp::Node;
using pbqp::Stack;

// Two costs that differ by less than this part of the best one found are the same: sums of the same numbers in another
// order.  Without it a search tries every tie.
constexpr double kSame = 1e-11;
// Rounds of message passing: before the search, where each pays for the whole of it, and at each branch.
constexpr int kSweepsFirst = 100;
constexpr int kSweepsBranch = 8;
// The copies a search holds; beyond it, the search ends as if its time were over.
constexpr size_t kMaxHeldBytes = size_t(512) << 20;
constexpr int kLocalRounds = 20;

// What a search found.  Labels are by node of the core it was given; empty: nothing below the limit.
struct Found {
  double cost = kInfinity;
  double bound = -kInfinity;  // no choice costs less than this, or than the limit
  std::vector<int> labels;
};

class Search {
 public:
  Search(const Pbqp& problem, const PbqpLimits& limits)
      : problem_(problem), limits_(limits), start_(std::chrono::steady_clock::now()) {}
  PbqpSolution run();

 private:
  bool solve_part(const Core& root, const std::vector<int>& members, std::vector<int>& labels, double& bound,
                  bool& exact);
  Found search(Core& core, double limit);
  Found search_components(Core& core, const std::vector<std::vector<int>>& components, double limit);
  Found branch(Core& core, double limit);
  Found guess(const Core& core, const std::vector<int>& members);
  void improve(const Core& core, std::vector<int>& states) const;
  bool exhausted();

  const Pbqp& problem_;
  const PbqpLimits limits_;
  const std::chrono::steady_clock::time_point start_;
  Stack stack_;
  Counters counters_;
  uint64_t branches_ = 0;
  double same_ = 0;
  bool stopped_ = false;
};

bool Search::exhausted() {
  if (stopped_) return true;
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start_;
  stopped_ = counters_.work > limits_.work || spent.count() > limits_.seconds || stack_.held() > kMaxHeldBytes;
  return stopped_;
}

int index_of(const Node& node, int label) {
  return int(std::find(node.label, node.label + node.states, label) - node.label);
}

int most_joined(const Core& core) {
  int best = -1;
  for (size_t n = 0; n < core.nodes.size(); ++n) {
    if (!core.nodes[n].alive) continue;
    if (best < 0 || core.nodes[n].edges.size() > core.nodes[size_t(best)].edges.size()) best = int(n);
  }
  return best;
}

// A choice without a search: where the reductions stop, the node with the most neighbours takes the state that is
// cheapest if each of them could then choose for itself (RN).
Found Search::guess(const Core& core, const std::vector<int>& members) {
  const Stack::Mark mark = stack_.mark();
  Found found;
  {
    Core work = core.part(members);
    for (;;) {
      if (!work.reduce(false)) {
        stack_.release(mark);
        return found;
      }
      const int number = most_joined(work);
      if (number < 0) break;
      const Node& node = work.nodes[size_t(number)];
      std::vector<double> cost(node.cost, node.cost + node.states);
      for (int at : node.edges) {
        const Edge& edge = work.edges[size_t(at)];
        const Node& other = work.nodes[size_t(edge.other(number))];
        for (int i = 0; i < node.states; ++i) {
          double least = kInfinity;
          for (int j = 0; j < other.states; ++j)
            least = std::min(least, work.edge_cost(edge, number, i, j) + other.cost[j]);
          cost[size_t(i)] += least;
        }
      }
      work.fix(number, int(std::min_element(cost.begin(), cost.end()) - cost.begin()));
    }
    found.labels.assign(work.nodes.size(), 0);
    work.complete(found.labels);
    found.cost = 0;
  }
  stack_.release(mark);
  return found;
}

// Changes one state, or those of two neighbours, while that makes a choice cheaper.
void Search::improve(const Core& core, std::vector<int>& states) const {
  // What each state of a node costs, given its neighbours but for the one across `without`.
  const auto around = [&](int number, int without, std::vector<double>& cost) {
    const Node& node = core.nodes[size_t(number)];
    cost.assign(node.cost, node.cost + node.states);
    for (int at : node.edges) {
      if (at == without) continue;
      const Edge& edge = core.edges[size_t(at)];
      for (int i = 0; i < node.states; ++i)
        cost[size_t(i)] += core.edge_cost(edge, number, i, states[size_t(edge.other(number))]);
    }
  };
  std::vector<double> a, b;
  const std::vector<int> live = core.live();
  for (int round = 0; round < kLocalRounds; ++round) {
    bool better = false;
    for (int number : live) {
      around(number, -1, a);
      const int best = int(std::min_element(a.begin(), a.end()) - a.begin());
      if (a[size_t(best)] < a[size_t(states[size_t(number)])] - same_) states[size_t(number)] = best, better = true;
    }
    for (size_t e = 0; !better && e < core.edges.size(); ++e) {
      const Edge& edge = core.edges[e];
      around(edge.a, int(e), a);
      around(edge.b, int(e), b);
      int &of_a = states[size_t(edge.a)], &of_b = states[size_t(edge.b)];
      double least = a[size_t(of_a)] + b[size_t(of_b)] + core.edge_cost(edge, edge.a, of_a, of_b) - same_;
      for (int i = 0; i < int(a.size()); ++i)
        for (int j = 0; j < int(b.size()); ++j) {
          const double cost = a[size_t(i)] + b[size_t(j)] + core.edge_cost(edge, edge.a, i, j);
          if (cost < least) least = cost, of_a = i, of_b = j, better = true;
        }
    }
    if (!better) return;
  }
}

// The best choice of those that cost less than `limit`.
Found Search::search(Core& core, double limit) {
  Found found;
  for (;;) {
    if (!core.reduce()) {
      found.bound = kInfinity;
      return found;
    }
    found.bound = core.constant;
    if (core.constant >= limit - same_) return found;
    const std::vector<std::vector<int>> components = core.components();
    if (components.empty()) {
      found.cost = core.constant;
      found.labels.assign(core.nodes.size(), 0);
      core.complete(found.labels);
      return found;
    }
    if (components.size() > 1) return search_components(core, components, limit);
    const double least = limit < kInfinity ? 0.01 * (limit - core.constant) : 1e-3 * std::abs(core.constant);
    const bool fewer = core.ascend(kSweepsBranch, limit - same_, least);
    found.bound = core.constant;
    if (core.constant >= limit - same_) return found;
    if (!fewer) return branch(core, limit);
  }
}

Found Search::search_components(Core& core, const std::vector<std::vector<int>>& components, double limit) {
  Found found;
  std::vector<Core> parts;
  std::vector<double> bounds;
  double sum = core.constant, cost = core.constant;
  for (const std::vector<int>& members : components) {
    Core part = core.part(members);
    part.ascend(kSweepsBranch, kInfinity, 0.01 * std::abs(limit < kInfinity ? limit - sum : sum));
    sum += part.constant;
    bounds.push_back(part.constant);
    parts.push_back(std::move(part));
  }
  std::vector<int> labels(core.nodes.size(), 0);
  for (size_t p = 0; p < parts.size() && sum < limit - same_; ++p) {
    const Found part = search(parts[p], limit - (sum - bounds[p]));
    sum += std::max(0.0, part.bound - bounds[p]);
    if (part.labels.empty()) {
      found.bound = sum;
      return found;
    }
    cost += part.cost;
    for (size_t n = 0; n < components[p].size(); ++n) labels[size_t(components[p][n])] = part.labels[n];
    if (p + 1 == parts.size() && cost < limit) {
      core.complete(labels);
      found.cost = cost;
      found.labels = labels;
    }
  }
  found.bound = sum;
  return found;
}

Found Search::branch(Core& core, double limit) {
  Found found;
  const int number = most_joined(core);
  core.absorb(number);
  const Node& node = core.nodes[size_t(number)];
  std::vector<int> order(size_t(node.states), 0);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int x, int y) { return node.cost[x] < node.cost[y]; });
  const std::vector<int> members = core.live();
  const int place = int(std::find(members.begin(), members.end(), number) - members.begin());
  double bound = kInfinity;
  std::vector<int> labels(core.nodes.size(), 0);
  for (int state : order) {
    const double least = core.constant + node.cost[state];
    if (least >= limit - same_ || exhausted()) {
      bound = std::min(bound, least);
      break;
    }
    ++branches_;
    const Stack::Mark mark = stack_.mark();
    {
      Core child = core.part(members);
      child.constant = core.constant;
      child.fix(place, state);
      const Found below = search(child, limit);
      bound = std::min(bound, std::max(least, below.bound));
      if (below.cost < limit && !below.labels.empty()) {
        limit = found.cost = below.cost;
        for (size_t n = 0; n < members.size(); ++n) labels[size_t(members[n])] = below.labels[n];
        found.labels = labels;
      }
    }
    stack_.release(mark);
  }
  if (!found.labels.empty()) core.complete(found.labels);
  found.bound = std::max(bound, core.constant);
  return found;
}

// One connected part of what the reductions left: sets its labels, adds to the bound.  False: no choice was found;
// there is none if the bound then is infinite.
bool Search::solve_part(const Core& root, const std::vector<int>& members, std::vector<int>& labels, double& bound,
                        bool& exact) {
  std::vector<int> all(members.size());
  std::iota(all.begin(), all.end(), 0);
  Core core = root.part(members);
  Found best;
  const auto consider = [&](Found found) {
    if (found.labels.empty()) return;
    std::vector<int> states(all.size());
    for (size_t n = 0; n < all.size(); ++n) states[n] = index_of(core.nodes[n], found.labels[n]);
    if (!(core.cost(states) < kInfinity)) return;
    improve(core, states);
    found.cost = core.cost(states);
    if (!(found.cost < best.cost)) return;
    for (size_t n = 0; n < all.size(); ++n) found.labels[n] = core.nodes[n].label[states[n]];
    best = std::move(found);
    same_ = kSame * std::abs(best.cost);
  };
  same_ = 0;
  consider(guess(core, all));
  for (int left = kSweepsFirst; left > 0 && core.constant < best.cost - same_ && !exhausted(); left -= 10) {
    const double before = core.constant;
    core.ascend(10, kInfinity, 0);
    if (left == kSweepsFirst) consider(guess(core, all));  // the moved costs tell more of what a state will cost
    const double gap = best.cost < kInfinity ? best.cost - before : std::abs(before);
    if (core.constant - before < 1e-3 * gap) break;
  }
  const Found found = search(core, best.cost);
  if (found.cost < best.cost) best = found;
  const double proven = std::min(found.bound, best.cost);
  const bool done = best.labels.empty() ? proven == kInfinity : best.cost - proven <= 2 * same_;
  exact = exact && done;
  bound += done ? best.cost : proven;
  for (size_t n = 0; n < best.labels.size(); ++n) labels[size_t(members[n])] = best.labels[n];
  return !best.labels.empty();
}

PbqpSolution Search::run() {
  PbqpSolution out;
  Core root(stack_, counters_);
  for (int n = 0; n < problem_.nodes(); ++n) root.add_node(n, problem_.node(n).data(), int(problem_.node(n).size()));
  for (const Pbqp::Edge& edge : problem_.edges()) root.add_edge(edge.a, edge.b, edge.costs.values.data());
  const bool possible = root.reduce();
  out.exact = true;
  out.r0 = counters_.r0, out.r1 = counters_.r1, out.r2 = counters_.r2, out.fixed = counters_.fixed;
  out.dominated = counters_.dominated;
  std::vector<int> labels(root.nodes.size(), 0);
  bool found = possible;
  if (possible) {
    out.core = int(root.live().size());
    double bound = root.constant;
    for (const std::vector<int>& members : root.components()) {
      const Stack::Mark mark = stack_.mark();
      found = solve_part(root, members, labels, bound, out.exact);
      stack_.release(mark);
      if (!found) break;
    }
    if (bound == kInfinity) out.exact = true;  // one part proves it for all
    out.lower_bound = bound;
  } else {
    out.lower_bound = kInfinity;
  }
  if (found) {
    root.complete(labels);
    out.choice = std::move(labels);
    out.cost = problem_.cost(out.choice);
    if (out.exact) out.lower_bound = out.cost;
    out.lower_bound = std::min(out.lower_bound, out.cost);
  }
  out.branches = branches_;
  out.work = counters_.work;
  return out;
}

void check(double cost) {
  require(!std::isnan(cost) && cost != -kInfinity, Code::internal, "pbqp: a cost is ", cost,
          ", expected a number or +infinity");
}

}  // namespace

int Pbqp::add_node(std::vector<double> costs) {
  for (double cost : costs) check(cost);
  nodes_.push_back(std::move(costs));
  return int(nodes_.size()) - 1;
}

void Pbqp::add_edge(int a, int b, const CostMatrix& costs) {
  require(a >= 0 && b >= 0 && a < nodes() && b < nodes(), Code::internal, "pbqp: edge ", a, "-", b, " among ", nodes(),
          " nodes");
  const size_t rows = nodes_[size_t(a)].size(), columns = nodes_[size_t(b)].size();
  require(size_t(costs.rows) == rows && size_t(costs.cols) == columns && costs.values.size() == rows * columns,
          Code::internal, "pbqp: edge ", a, "-", b, " has ", costs.rows, " x ", costs.cols, " costs, expected ", rows,
          " x ", columns);
  for (double cost : costs.values) check(cost);
  if (a == b) {
    for (size_t i = 0; i < rows; ++i) nodes_[size_t(a)][i] += costs.at(int(i), int(i));
    return;
  }
  const bool turned = a > b;
  if (turned) std::swap(a, b);
  const auto [at, fresh] = between_.try_emplace(uint64_t(a) << 32 | uint64_t(b), edges_.size());
  if (fresh) edges_.push_back({a, b, turned ? CostMatrix(costs.cols, costs.rows) : costs});
  CostMatrix& sum = edges_[at->second].costs;
  if (fresh && !turned) return;
  for (int i = 0; i < sum.rows; ++i)
    for (int j = 0; j < sum.cols; ++j) sum.at(i, j) += turned ? costs.at(j, i) : costs.at(i, j);
}

double Pbqp::cost(const std::vector<int>& choice) const {
  double sum = 0;
  for (size_t n = 0; n < nodes_.size(); ++n) sum += nodes_[n][size_t(choice[n])];
  for (const Edge& edge : edges_) sum += edge.costs.at(choice[size_t(edge.a)], choice[size_t(edge.b)]);
  return sum;
}

PbqpSolution solve(const Pbqp& problem, const PbqpLimits& limits) { return Search(problem, limits).run(); }

}  // namespace pl
