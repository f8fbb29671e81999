#include "graph/pbqp_core.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace pl::pbqp {
namespace {

constexpr double kForbidden = std::numeric_limits<double>::infinity();
// Sums of the same costs in another order differ by about this much of their size.
constexpr double kRounding = 1e-13;
constexpr size_t kBlockBytes = size_t(1) << 20;

// A node's side of an edge: entry (i, j), i its own state, lies at i * step + j * across.
struct Side {
  const double* m;
  double *own, *others;
  size_t step, across;
  int node;  // the other end
};

Side side_of(const Core& core, const Edge& edge, int node) {
  const size_t columns = size_t(core.nodes[size_t(edge.b)].states);
  if (node == edge.a) return {edge.m, edge.pa, edge.pb, columns, 1, edge.b};
  return {edge.m, edge.pb, edge.pa, 1, columns, edge.a};
}

}  // namespace

void* Stack::take_bytes(size_t bytes) {
  bytes = (std::max<size_t>(bytes, 1) + 63) / 64 * 64;
  while (block_ < blocks_.size() && used_ + bytes > blocks_[block_].size) ++block_, used_ = 0;
  if (block_ == blocks_.size()) {
    const size_t size = std::max(bytes, kBlockBytes);
    blocks_.push_back({std::unique_ptr<char[]>(new char[size]), size});
    used_ = 0;
  }
  void* place = blocks_[block_].memory.get() + used_;
  used_ += bytes;
  held_ += bytes;
  return place;
}

int Core::add_node(int id, const double* costs, int states) {
  Node node;
  node.id = id;
  node.states = states;
  node.cost = stack_->take<double>(size_t(states));
  int* label = stack_->take<int>(size_t(states));
  for (int i = 0; i < states; ++i) node.cost[i] = costs[i], label[i] = i;
  node.label = label;
  nodes.push_back(std::move(node));
  queue(int(nodes.size()) - 1);
  return int(nodes.size()) - 1;
}

void Core::add_edge(int a, int b, const double* matrix) {
  Edge edge{a, b, matrix, nullptr, nullptr};
  const size_t rows = size_t(nodes[size_t(a)].states), columns = size_t(nodes[size_t(b)].states);
  edge.pa = stack_->take<double>(rows);
  edge.pb = stack_->take<double>(columns);
  std::fill_n(edge.pa, rows, 0.0);
  std::fill_n(edge.pb, columns, 0.0);
  edges.push_back(edge);
  const int number = int(edges.size()) - 1;
  nodes[size_t(a)].edges.push_back(number);
  nodes[size_t(b)].edges.push_back(number);
  normalise(number);
}

Core Core::part(const std::vector<int>& members) const {
  Core out(*stack_, *counters_);
  std::vector<int> place(nodes.size(), -1);
  for (int old : members) {
    const Node& from = nodes[size_t(old)];
    place[size_t(old)] = int(out.nodes.size());
    Node node;
    node.id = old;
    node.states = from.states;
    node.cost = stack_->take<double>(size_t(from.states));
    std::copy_n(from.cost, from.states, node.cost);
    node.label = from.label;
    node.changed = from.changed;
    out.nodes.push_back(std::move(node));
    if (from.queued) out.queue(place[size_t(old)]);
  }
  for (int old : members) {
    for (int number : nodes[size_t(old)].edges) {
      const Edge& from = edges[size_t(number)];
      if (from.a != old || place[size_t(from.b)] < 0) continue;  // each edge once, at its a
      Edge edge{place[size_t(from.a)], place[size_t(from.b)], from.m, nullptr, nullptr};
      const size_t rows = size_t(nodes[size_t(from.a)].states), columns = size_t(nodes[size_t(from.b)].states);
      edge.pa = stack_->take<double>(rows);
      edge.pb = stack_->take<double>(columns);
      std::copy_n(from.pa, rows, edge.pa);
      std::copy_n(from.pb, columns, edge.pb);
      out.nodes[size_t(edge.a)].edges.push_back(int(out.edges.size()));
      out.nodes[size_t(edge.b)].edges.push_back(int(out.edges.size()));
      out.edges.push_back(edge);
    }
  }
  return out;
}

std::vector<int> Core::live() const {
  std::vector<int> out;
  for (size_t n = 0; n < nodes.size(); ++n)
    if (nodes[n].alive) out.push_back(int(n));
  return out;
}

std::vector<std::vector<int>> Core::components() const {
  std::vector<std::vector<int>> out;
  std::vector<char> seen(nodes.size(), 0);
  for (int start : live()) {
    if (seen[size_t(start)]) continue;
    std::vector<int> part{start};
    seen[size_t(start)] = 1;
    for (size_t at = 0; at < part.size(); ++at) {
      const int node = part[at];
      for (int number : nodes[size_t(node)].edges) {
        const int next = edges[size_t(number)].other(node);
        if (!seen[size_t(next)]) seen[size_t(next)] = 1, part.push_back(next);
      }
    }
    std::sort(part.begin(), part.end());
    out.push_back(std::move(part));
  }
  return out;
}

void Core::queue(int node) {
  Node& n = nodes[size_t(node)];
  n.changed = true;
  if (n.queued) return;
  n.queued = true;
  queue_.push_back(node);
}

void Core::unlink(int number) {
  const Edge& edge = edges[size_t(number)];
  for (int end : {edge.a, edge.b}) {
    std::vector<int>& list = nodes[size_t(end)].edges;
    list.erase(std::find(list.begin(), list.end(), number));
    queue(end);
  }
}

// Moves the minima of an edge's rows and columns into its nodes; forbids states that it leaves no partner; drops it
// when nothing but zeros is left, which is where chains of ops that agree about layouts fall apart.
void Core::normalise(int number) {
  Edge& edge = edges[size_t(number)];
  Node &a = nodes[size_t(edge.a)], &b = nodes[size_t(edge.b)];
  const int rows = a.states, columns = b.states;
  counters_->work += uint64_t(rows) * uint64_t(columns);
  for (int i = 0; i < rows; ++i) {
    const double* row = edge.m + size_t(i) * size_t(columns);
    double least = kForbidden;
    for (int j = 0; j < columns; ++j) least = std::min(least, row[j] + edge.pb[j]);
    if (least == kForbidden) {
      forbid(edge.a, i);
    } else {
      a.cost[i] += least + edge.pa[i];
      edge.pa[i] = -least;
    }
  }
  scratch_.assign(size_t(columns), kForbidden);
  for (int i = 0; i < rows; ++i) {
    if (a.cost[i] == kForbidden) continue;  // its row no longer counts
    const double* row = edge.m + size_t(i) * size_t(columns);
    for (int j = 0; j < columns; ++j) scratch_[size_t(j)] = std::min(scratch_[size_t(j)], row[j] + edge.pa[i]);
  }
  for (int j = 0; j < columns; ++j) {
    const double least = scratch_[size_t(j)];
    if (least == kForbidden) {
      forbid(edge.b, j);
    } else {
      b.cost[j] += least + edge.pb[j];
      edge.pb[j] = -least;
    }
  }
  for (int i = 0; i < rows; ++i) {
    if (a.cost[i] == kForbidden) continue;
    const double* row = edge.m + size_t(i) * size_t(columns);
    for (int j = 0; j < columns; ++j) {
      if (b.cost[j] == kForbidden) continue;
      const double size = std::abs(row[j]) + std::abs(edge.pa[i]) + std::abs(edge.pb[j]);
      if (!(row[j] + edge.pa[i] + edge.pb[j] <= kRounding * size) || size == kForbidden) return;
    }
  }
  unlink(number);
}

void Core::forbid(int node, int state) {
  nodes[size_t(node)].cost[state] = kForbidden;
  queue(node);
}

void Core::fix(int node, int state) {
  for (int i = 0; i < nodes[size_t(node)].states; ++i)
    if (i != state) nodes[size_t(node)].cost[i] = kForbidden;
  queue(node);
}

// Drops a node's forbidden states.  False: none is left.
bool Core::compact(int number) {
  Node& node = nodes[size_t(number)];
  std::vector<int> kept;
  for (int i = 0; i < node.states; ++i)
    if (node.cost[i] < kForbidden) kept.push_back(i);
  if (int(kept.size()) == node.states) return true;
  if (kept.empty()) return false;
  const size_t count = kept.size();
  double* cost = stack_->take<double>(count);
  int* label = stack_->take<int>(count);
  for (size_t i = 0; i < count; ++i) cost[i] = node.cost[kept[i]], label[i] = node.label[kept[i]];
  for (int at : node.edges) {
    Edge& edge = edges[size_t(at)];
    const size_t columns = size_t(nodes[size_t(edge.b)].states);
    double* potential = stack_->take<double>(count);
    if (edge.a == number) {
      double* m = stack_->take<double>(count * columns);
      for (size_t i = 0; i < count; ++i) {
        std::copy_n(edge.m + size_t(kept[i]) * columns, columns, m + i * columns);
        potential[i] = edge.pa[kept[i]];
      }
      edge.m = m, edge.pa = potential;
    } else {
      const size_t rows = size_t(nodes[size_t(edge.a)].states);
      double* m = stack_->take<double>(rows * count);
      for (size_t i = 0; i < rows; ++i)
        for (size_t j = 0; j < count; ++j) m[i * count + j] = edge.m[i * columns + size_t(kept[j])];
      for (size_t j = 0; j < count; ++j) potential[j] = edge.pb[kept[j]];
      edge.m = m, edge.pb = potential;
    }
  }
  node.states = int(count);
  node.cost = cost;
  node.label = label;
  const std::vector<int> around = node.edges;  // normalise() may drop edges
  for (int at : around) normalise(at);
  return true;
}

bool Core::reduce(bool dominance) {
  for (;;) {
    while (!queue_.empty()) {
      const int number = queue_.back();
      queue_.pop_back();
      Node& node = nodes[size_t(number)];
      node.queued = false;
      if (!node.alive) continue;
      if (!compact(number)) return false;
      // Compacting may have forbidden states of its own by way of a neighbour; then it is in the queue again.
      if (node.queued) continue;
      double least = kForbidden;
      for (int i = 0; i < node.states; ++i) least = std::min(least, node.cost[i]);
      if (!(least < kForbidden)) return false;
      for (int i = 0; i < node.states; ++i) node.cost[i] -= least;
      constant += least;
      if (node.states == 1 || node.edges.empty()) {
        remove_single(number);
      } else if (node.edges.size() == 1) {
        remove_leaf(number);
      } else if (node.edges.size() == 2) {
        remove_between(number);
      }
    }
    if (!dominance) return true;
    for (size_t n = 0; n < nodes.size(); ++n) {
      if (!nodes[n].alive || !nodes[n].changed) continue;
      nodes[n].changed = false;
      remove_dominated(int(n));
    }
    if (queue_.empty()) return true;
  }
}

void Core::remember(int number) {
  const Node& node = nodes[size_t(number)];
  Removal removal;
  removal.node = number;
  removal.states = node.states;
  removal.cost = node.cost;
  removal.label = node.label;
  if (node.states > 1) {
    for (int at : node.edges) {
      const Side side = side_of(*this, edges[size_t(at)], number);
      const Node& other = nodes[size_t(side.node)];
      removal.neighbour[removal.neighbours++] = {side.node,      other.label,      other.states, side.m,
                                                 int(side.step), int(side.across), side.own};
    }
  }
  removals_.push_back(removal);
  nodes[size_t(number)].alive = false;
}

// A node without neighbours (R0), or with one state, whose edges then are costs of its neighbours.
void Core::remove_single(int number) {
  Node& node = nodes[size_t(number)];
  ++(node.edges.empty() ? counters_->r0 : counters_->fixed);
  remember(number);
  const std::vector<int> around = node.edges;
  for (int at : around) {
    const Side side = side_of(*this, edges[size_t(at)], number);
    Node& other = nodes[size_t(side.node)];
    for (int j = 0; j < other.states; ++j)
      other.cost[j] += side.m[size_t(j) * side.across] + side.own[0] + side.others[j];
    unlink(at);
  }
}

// RI: whatever its neighbour takes, a leaf takes what then is best.
void Core::remove_leaf(int number) {
  Node& node = nodes[size_t(number)];
  ++counters_->r1;
  remember(number);
  const int at = node.edges[0];
  const Side side = side_of(*this, edges[size_t(at)], number);
  Node& other = nodes[size_t(side.node)];
  counters_->work += uint64_t(node.states) * uint64_t(other.states);
  for (int j = 0; j < other.states; ++j) {
    double least = kForbidden;
    for (int i = 0; i < node.states; ++i)
      least = std::min(least, node.cost[i] + side.own[i] + side.m[size_t(i) * side.step + size_t(j) * side.across]);
    other.cost[j] += least + side.others[j];
  }
  unlink(at);
}

// RII: for each pair of states of its two neighbours, a node takes what then is best; what that costs becomes
// (part of) the edge between the neighbours.
void Core::remove_between(int number) {
  Node& node = nodes[size_t(number)];
  ++counters_->r2;
  remember(number);
  const int first = node.edges[0], second = node.edges[1];
  const Side y = side_of(*this, edges[size_t(first)], number), z = side_of(*this, edges[size_t(second)], number);
  const size_t rows = size_t(nodes[size_t(y.node)].states), columns = size_t(nodes[size_t(z.node)].states);
  const size_t states = size_t(node.states);
  counters_->work += states * rows * columns;
  double* sum = stack_->take<double>(rows * columns);
  std::fill_n(sum, rows * columns, kForbidden);
  scratch2_.resize(columns);
  for (size_t i = 0; i < states; ++i) {
    double* to_z = scratch2_.data();
    for (size_t k = 0; k < columns; ++k) to_z[k] = z.m[i * z.step + k * z.across] + z.own[i] + z.others[k];
    for (size_t j = 0; j < rows; ++j) {
      const double base = node.cost[i] + y.m[i * y.step + j * y.across] + y.own[i] + y.others[j];
      if (base == kForbidden) continue;
      double* row = sum + j * columns;
#pragma omp simd
      for (size_t k = 0; k < columns; ++k) {
        const double cost = base + to_z[k];
        row[k] = cost < row[k] ? cost : row[k];
      }
    }
  }
  unlink(first);
  unlink(second);
  for (int at : nodes[size_t(y.node)].edges) {
    Edge& edge = edges[size_t(at)];
    if (edge.other(y.node) != z.node) continue;
    double* joined = stack_->take<double>(rows * columns);
    if (edge.a == y.node) {
      for (size_t k = 0; k < rows * columns; ++k) joined[k] = edge.m[k] + sum[k];
    } else {
      for (size_t k = 0; k < columns; ++k)
        for (size_t j = 0; j < rows; ++j) joined[k * rows + j] = edge.m[k * rows + j] + sum[j * columns + k];
    }
    edge.m = joined;
    queue(y.node);
    queue(z.node);
    normalise(at);
    return;
  }
  add_edge(y.node, z.node, sum);
}

// out[i]: the least cost of the edge for state i of `node`.
void Core::minima(const Edge& edge, int node, double* out) const {
  const size_t rows = size_t(nodes[size_t(edge.a)].states), columns = size_t(nodes[size_t(edge.b)].states);
  counters_->work += rows * columns;
  if (node == edge.a) {
    for (size_t i = 0; i < rows; ++i) {
      const double* row = edge.m + i * columns;
      double least = kForbidden;
#pragma omp simd reduction(min : least)
      for (size_t j = 0; j < columns; ++j) least = std::min(least, row[j] + edge.pb[j]);
      out[i] = least + edge.pa[i];
    }
    return;
  }
  std::fill_n(out, columns, kForbidden);
  for (size_t i = 0; i < rows; ++i) {
    const double* row = edge.m + i * columns;
    const double base = edge.pa[i];
#pragma omp simd
    for (size_t j = 0; j < columns; ++j) {
      const double cost = row[j] + base;
      out[j] = cost < out[j] ? cost : out[j];
    }
  }
  for (size_t j = 0; j < columns; ++j) out[j] += edge.pb[j];
}

void Core::absorb(int number) {
  Node& node = nodes[size_t(number)];
  const size_t states = size_t(node.states);
  scratch_.resize(states);
  for (int at : node.edges) {
    const Edge& edge = edges[size_t(at)];
    minima(edge, number, scratch_.data());
    double* own = edge.a == number ? edge.pa : edge.pb;
    for (size_t i = 0; i < states; ++i) {
      node.cost[i] += scratch_[i];
      if (scratch_[i] < kForbidden) own[i] -= scratch_[i];
    }
  }
  const double least = *std::min_element(node.cost, node.cost + states);
  if (!(least < kForbidden)) return;
  for (size_t i = 0; i < states; ++i) node.cost[i] -= least;
  constant += least;
}

// A state goes if another one costs no more whatever the neighbours take: if the difference at the node and the
// greatest differences on its edges add up to nothing or less.  Once the node has absorbed, each edge's is at least 0.
bool Core::remove_dominated(int number) {
  absorb(number);
  Node& node = nodes[size_t(number)];
  bool any = false;
  for (int i = node.states - 1; i >= 0; --i) {
    for (int j = 0; j < node.states; ++j) {
      if (j == i || node.cost[j] == kForbidden) continue;
      const double slack = kRounding * node.cost[i];
      double sum = node.cost[j] - node.cost[i];
      for (size_t at = 0; at < node.edges.size() && sum <= slack; ++at) {
        const Side side = side_of(*this, edges[size_t(node.edges[at])], number);
        const size_t others = size_t(nodes[size_t(side.node)].states);
        const double *worse = side.m + size_t(i) * side.step, *better = side.m + size_t(j) * side.step;
        counters_->work += others;
        double most = -kForbidden;
        for (size_t k = 0; k < others; ++k) {
          if (worse[k * side.across] == kForbidden) continue;
          most = std::max(most, better[k * side.across] - worse[k * side.across]);
        }
        sum += most + side.own[j] - side.own[i];
      }
      if (sum <= slack) {
        forbid(number, i);
        ++counters_->dominated;
        any = true;
        break;
      }
    }
  }
  return any;
}

// One sweep is a pass of tree-reweighted message passing there and back, in the order of the nodes' numbers: each
// node takes all that its edges can give, and hands an equal share to each of those ahead.  Every cost stays
// non-negative, so the constant never falls.
bool Core::ascend(int sweeps, double limit, double least) {
  const std::vector<int> order = live();
  std::vector<char> forbidden;  // by node and state, in this order
  std::vector<size_t> offset(order.size() + 1, 0);
  for (size_t n = 0; n < order.size(); ++n) offset[n + 1] = offset[n] + size_t(nodes[size_t(order[n])].states);
  forbidden.assign(offset.back(), 0);
  bool any = false;
  const auto visit = [&](size_t at, bool forward, bool give) {
    const int number = order[at];
    absorb(number);
    Node& node = nodes[size_t(number)];
    for (int i = 0; i < node.states; ++i)
      if (constant + node.cost[i] >= limit) any = true, forbidden[offset[at] + size_t(i)] = 1;
    if (!give) return;
    int ahead = 0;
    for (int e : node.edges) ahead += (edges[size_t(e)].other(number) > number) == forward;
    if (ahead == 0) return;
    const double share = 1.0 / std::max(ahead, int(node.edges.size()) - ahead);
    for (int e : node.edges) {
      Edge& edge = edges[size_t(e)];
      if ((edge.other(number) > number) != forward) continue;
      double* own = edge.a == number ? edge.pa : edge.pb;
      for (int i = 0; i < node.states; ++i) own[i] += share * node.cost[i];
    }
    const double rest = std::max(0.0, 1 - share * ahead);
    for (int i = 0; i < node.states; ++i) node.cost[i] *= rest;
  };
  for (int sweep = 0; sweep < sweeps && constant < limit; ++sweep) {
    const double before = constant;
    for (size_t n = 0; n < order.size(); ++n) visit(n, true, true);
    for (size_t n = order.size(); n-- > 0;) visit(n, false, n > 0);
    if (constant - before < least) break;
  }
  if (constant >= limit) return false;
  for (size_t n = 0; any && n < order.size(); ++n)
    for (size_t i = offset[n]; i < offset[n + 1]; ++i)
      if (forbidden[i]) forbid(order[n], int(i - offset[n]));
  return any;
}

void Core::complete(std::vector<int>& labels) const {
  for (size_t r = removals_.size(); r-- > 0;) {
    const Removal& removal = removals_[r];
    const double* row[2] = {nullptr, nullptr};
    for (int n = 0; n < removal.neighbours; ++n) {
      const Removal::Neighbour& neighbour = removal.neighbour[n];
      const int wanted = labels[size_t(neighbour.node)];
      const int j = int(std::find(neighbour.label, neighbour.label + neighbour.states, wanted) - neighbour.label);
      row[n] = neighbour.m + size_t(j) * size_t(neighbour.across);
    }
    int best = 0;
    double least = kForbidden;
    for (int i = 0; i < removal.states; ++i) {
      double cost = removal.cost[i];
      for (int n = 0; n < removal.neighbours; ++n) {
        const Removal::Neighbour& neighbour = removal.neighbour[n];
        cost += row[n][size_t(i) * size_t(neighbour.step)] + neighbour.potential[i];
      }
      if (cost < least) least = cost, best = i;
    }
    labels[size_t(removal.node)] = removal.label[best];
  }
}

double Core::cost(const std::vector<int>& states) const {
  double sum = constant;
  for (size_t n = 0; n < nodes.size(); ++n) {
    if (!nodes[n].alive) continue;
    sum += nodes[n].cost[states[n]];
    for (int at : nodes[n].edges) {
      const Edge& edge = edges[size_t(at)];
      if (edge.a == int(n)) sum += edge_cost(edge, edge.a, states[n], states[size_t(edge.b)]);
    }
  }
  return sum;
}

}  // namespace pl::pbqp
