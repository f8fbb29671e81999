// The solver of partitioned boolean quadratic problems against enumeration and dynamic programming.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "check.h"
#include "core/status.h"
#include "graph/pbqp.h"

using pl::CostMatrix;
using pl::Pbqp;
using pl::PbqpLimits;
using pl::PbqpSolution;

namespace {

const double kInf = std::numeric_limits<double>::infinity();

bool close(double a, double b) { return a == b || std::abs(a - b) <= 1e-9 * (1 + std::abs(a) + std::abs(b)); }

double brute_force(const Pbqp& problem) {
  std::vector<int> choice(size_t(problem.nodes()), 0);
  for (int n = 0; n < problem.nodes(); ++n)
    if (problem.node(n).empty()) return kInf;
  double best = kInf;
  for (;;) {
    best = std::min(best, problem.cost(choice));
    int n = 0;
    for (; n < problem.nodes(); ++n) {
      if (++choice[size_t(n)] < int(problem.node(n).size())) break;
      choice[size_t(n)] = 0;
    }
    if (n == problem.nodes()) return best;
  }
}

// Everything a solution says of itself that can be checked without knowing the optimum.
void check_consistent(const Pbqp& problem, const PbqpSolution& found) {
  if (found.choice.empty()) {
    CHECK(found.cost == (problem.nodes() == 0 ? 0 : kInf));
    return;
  }
  CHECK(int(found.choice.size()) == problem.nodes());
  for (int n = 0; n < problem.nodes(); ++n) {
    CHECK(found.choice[size_t(n)] >= 0);
    CHECK(found.choice[size_t(n)] < int(problem.node(n).size()));
  }
  CHECK(close(found.cost, problem.cost(found.choice)));
  CHECK(found.cost < kInf);
  CHECK(found.lower_bound <= found.cost);
  if (found.exact) CHECK(found.gap() == 0);
}

struct Random {
  explicit Random(unsigned seed) : engine(seed) {}
  int below(int n) { return int(std::uniform_int_distribution<int>(0, n - 1)(engine)); }
  double real() { return std::uniform_real_distribution<double>(0, 1)(engine); }
  std::mt19937 engine;
};

// Kinds of costs: of many sizes, alike (where reductions find least to do), many ties, mostly zeros, negative ones,
// layout-like (0 if the states agree).
enum { kReal, kAlike, kTies, kZeros, kSigned, kAgree, kKinds };

double random_cost(Random& random, int kind, double forbidden) {
  if (random.real() < forbidden) return kInf;
  switch (kind) {
    case kAlike: return 1 + random.real();
    case kTies: return random.below(3);
    case kZeros: return random.below(4) == 0 ? random.below(3) : 0;
    case kSigned: return random.real() * 10 - 5;
    default: return random.real() * std::pow(10, random.below(4) - 2);
  }
}

CostMatrix random_matrix(Random& random, int rows, int cols, int kind, double forbidden) {
  CostMatrix out(rows, cols);
  const double reorder = random.real() * 3;
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < cols; ++j)
      out.at(i, j) =
          kind == kAgree ? (i % 3 == j % 3 ? 0 : reorder * (1 + j % 3)) : random_cost(random, kind, forbidden);
  return out;
}

void join(Pbqp& problem, Random& random, int a, int b, int kind, double forbidden) {
  problem.add_edge(a, b,
                   random_matrix(random, int(problem.node(a).size()), int(problem.node(b).size()), kind, forbidden));
}

int random_node(Pbqp& problem, Random& random, int states, int kind, double forbidden) {
  std::vector<double> costs;
  for (int i = 0; i < states; ++i) costs.push_back(random_cost(random, kind, forbidden));
  return problem.add_node(costs);
}

// Fan-out, diamonds, cycles, cliques, grids and any graph at all, of up to 8 nodes.
Pbqp random_problem(Random& random) {
  Pbqp problem;
  const int count = 1 + random.below(8), shape = random.below(6), kind = random.below(kKinds);
  const double forbidden = random.below(3) == 0 ? random.real() * 0.4 : 0;
  const int most = count > 6 ? 4 : 5, least = random.below(2) ? most : 1;
  for (int n = 0; n < count; ++n)
    random_node(problem, random, least + random.below(most - least + 1), kind, forbidden * 0.5);
  const auto edge = [&](int a, int b) {
    if (random.below(2)) std::swap(a, b);
    join(problem, random, a, b, kind, forbidden);
  };
  for (int b = 1; b < count; ++b) {
    switch (shape) {
      case 0: edge(0, b); break;      // fan-out
      case 1: edge(b - 1, b); break;  // chain; closed below
      case 2:
        edge(b - 1, b);
        if (b > 1) edge(b - 2, b);
        break;  // strip: series-parallel
      case 3:
        for (int a = 0; a < b; ++a) edge(a, b);
        break;  // clique
      case 4:
        if (b > 1) {
          edge(0, b);
          if (b + 1 < count) edge(b, count - 1);
        }
        break;  // diamond of many paths
      default:
        for (int a = 0; a < b; ++a)
          if (random.real() < 0.5) edge(a, b);
        break;
    }
  }
  if (shape == 1 && count > 2) edge(count - 1, 0);
  if (shape == 5 && count > 1 && random.below(4) == 0) edge(0, 1);  // a parallel edge, perhaps
  if (random.below(10) == 0) {
    const int n = random.below(count);
    edge(n, n);
  }
  return problem;
}

TEST("equals_brute_force") {
  int infeasible = 0, searched = 0;
  for (unsigned seed = 0; seed < 10000; ++seed) {
    Random random(seed);
    const Pbqp problem = random_problem(random);
    const double best = brute_force(problem);
    const PbqpSolution found = solve(problem);
    if (!found.exact || !close(found.cost, best) || found.choice.empty() != (best == kInf)) {
      std::fprintf(stderr, "seed %u: found %.17g (exact %d), the best is %.17g\n", seed, found.cost, found.exact, best);
      REQUIRE(false);
    }
    check_consistent(problem, found);
    infeasible += best == kInf;
    searched += found.branches > 0;
  }
  // The cases are worth something only if all kinds of them occur.
  std::printf("%d infeasible, %d searched\n", infeasible, searched);
  CHECK(infeasible > 100);
  CHECK(infeasible < 5000);
  CHECK(searched > 100);
}

TEST("small_cases") {
  Pbqp empty;
  CHECK(solve(empty).exact);
  CHECK(solve(empty).cost == 0);

  Pbqp nothing;
  nothing.add_node({});
  CHECK(solve(nothing).exact);
  CHECK(solve(nothing).choice.empty());
  CHECK(solve(nothing).cost == kInf);

  Pbqp tie;  // of equal states the first
  tie.add_node({3, 1, 1, 1});
  CHECK(solve(tie).choice == std::vector<int>{1});

  Pbqp odd;  // an odd cycle of nodes that must differ from their neighbours and have two states
  CostMatrix differ(2, 2);
  differ.at(0, 0) = differ.at(1, 1) = kInf;
  for (int n = 0; n < 5; ++n) odd.add_node({0, 0});
  for (int n = 0; n < 5; ++n) odd.add_edge(n, (n + 1) % 5, differ);
  CHECK(solve(odd).exact);
  CHECK(solve(odd).choice.empty());
  CHECK(solve(odd).lower_bound == kInf);

  Pbqp four;  // four nodes that must all differ, of three states: no reduction sees that
  CostMatrix all(3, 3);
  for (int i = 0; i < 3; ++i) all.at(i, i) = kInf;
  for (int n = 0; n < 4; ++n) four.add_node({0, 0, 0});
  for (int b = 0; b < 4; ++b)
    for (int a = 0; a < b; ++a) four.add_edge(b, a, all);
  CHECK(solve(four).exact);
  CHECK(solve(four).choice.empty());

  Pbqp turned;  // an edge named from its second node, and its parallel
  turned.add_node({0, 0});
  turned.add_node({0, 0, 0});
  CostMatrix wide(3, 2, 5), tall(2, 3, 1);
  wide.at(2, 1) = 0;
  tall.at(1, 2) = 7;
  turned.add_edge(1, 0, wide);
  CHECK(solve(turned).choice == (std::vector<int>{1, 2}));
  turned.add_edge(0, 1, tall);
  CHECK(solve(turned).cost == 6);
  CHECK(solve(turned).choice == (std::vector<int>{0, 0}));

  for (double bad : {-kInf, double(NAN)}) {
    bool refused = false;
    try {
      Pbqp().add_node({bad});
    } catch (const pl::Error& error) {
      refused = error.code() == pl::Code::internal;
    }
    CHECK(refused);
  }
  bool refused = false;
  try {
    turned.add_edge(0, 1, CostMatrix(3, 2));
  } catch (const pl::Error&) {
    refused = true;
  }
  CHECK(refused);
}

// Trees by dynamic programming from the leaves: node n hangs from parent[n] < n.
TEST("trees") {
  for (unsigned seed = 0; seed < 20; ++seed) {
    Random random(seed);
    Pbqp problem;
    const int count = 1000, kind = random.below(kKinds), shape = random.below(3);
    std::vector<int> parent(count, -1);
    std::vector<CostMatrix> edge(count);
    for (int n = 0; n < count; ++n) random_node(problem, random, 1 + random.below(20), kind, 0);
    for (int n = 1; n < count; ++n) {
      parent[size_t(n)] = shape == 0 ? n - 1 : shape == 1 ? random.below(n) : std::max(0, n - 1 - random.below(5));
      const int p = parent[size_t(n)];
      edge[size_t(n)] = random_matrix(random, int(problem.node(p).size()), int(problem.node(n).size()), kind, 0.02);
      problem.add_edge(p, n, edge[size_t(n)]);
    }
    std::vector<std::vector<double>> best(count);
    for (int n = 0; n < count; ++n) best[size_t(n)] = problem.node(n);
    for (int n = count - 1; n > 0; --n) {
      std::vector<double>& above = best[size_t(parent[size_t(n)])];
      for (size_t i = 0; i < above.size(); ++i) {
        double least = kInf;
        for (size_t j = 0; j < best[size_t(n)].size(); ++j)
          least = std::min(least, best[size_t(n)][j] + edge[size_t(n)].at(int(i), int(j)));
        above[i] += least;
      }
    }
    const double expected = *std::min_element(best[0].begin(), best[0].end());
    const PbqpSolution found = solve(problem);
    CHECK(found.exact);
    CHECK(found.branches == 0);
    CHECK(close(found.cost, expected));
    check_consistent(problem, found);
  }
}

// A chain of forks: node f_k, 1 to 4 paths of 0 to 3 nodes each, node f_(k+1); as residual and Inception blocks.
// By dynamic programming along the chain, and along each path for each pair of states of its ends.
TEST("series_parallel") {
  for (unsigned seed = 0; seed < 20; ++seed) {
    Random random(1000 + seed);
    Pbqp problem;
    const int kind = random.below(kKinds);
    const auto fresh = [&] { return random_node(problem, random, 1 + random.below(12), kind, 0); };
    int fork = fresh();
    std::vector<double> best = problem.node(fork);  // of all so far, by the fork's state
    while (problem.nodes() < 1000) {
      std::vector<std::vector<int>> paths(size_t(1 + random.below(4)));
      for (std::vector<int>& path : paths)
        for (int n = random.below(4); n > 0; --n) path.push_back(fresh());
      const int next = fresh();
      const size_t rows = problem.node(fork).size(), cols = problem.node(next).size();
      CostMatrix block = CostMatrix(int(rows), int(cols));
      for (const std::vector<int>& path : paths) {
        std::vector<int> ends = path;
        ends.push_back(next);
        CostMatrix so_far;  // by the fork's state and that of the path's last node
        int last = fork;
        for (int node : ends) {
          const int states = int(problem.node(node).size()), before = int(problem.node(last).size());
          const CostMatrix edge = random_matrix(random, before, states, kind, 0);
          if (random.below(2)) {
            problem.add_edge(last, node, edge);
          } else {
            CostMatrix turned(states, before);
            for (int i = 0; i < before; ++i)
              for (int j = 0; j < states; ++j) turned.at(j, i) = edge.at(i, j);
            problem.add_edge(node, last, turned);
          }
          CostMatrix longer(int(rows), states, kInf);
          for (int i = 0; i < int(rows); ++i)
            for (int k = 0; k < before; ++k)
              for (int j = 0; j < states; ++j) {
                if (last == fork && k != i) continue;
                const double base = last == fork ? 0 : so_far.at(i, k);
                const double own = node == next ? 0 : problem.node(node)[size_t(j)];
                longer.at(i, j) = std::min(longer.at(i, j), base + edge.at(k, j) + own);
              }
          so_far = longer;
          last = node;
        }
        for (size_t i = 0; i < rows * cols; ++i) block.values[i] += so_far.values[i];
      }
      std::vector<double> after(cols, kInf);
      for (size_t j = 0; j < cols; ++j) {
        for (size_t i = 0; i < rows; ++i) after[j] = std::min(after[j], best[i] + block.at(int(i), int(j)));
        after[j] += problem.node(next)[j];
      }
      best = after;
      fork = next;
    }
    const PbqpSolution found = solve(problem);
    CHECK(found.exact);
    CHECK(found.branches == 0);
    CHECK(found.core == 0);
    CHECK(close(found.cost, *std::min_element(best.begin(), best.end())));
    check_consistent(problem, found);
  }
}

// Any graph whose answer is known: costs are zero along a hidden choice and not negative elsewhere.
TEST("hidden_choice") {
  for (unsigned seed = 0; seed < 10; ++seed) {
    Random random(2000 + seed);
    Pbqp problem;
    std::vector<int> hidden;
    for (int n = 0; n < 300; ++n) {
      random_node(problem, random, 2 + random.below(10), kReal, 0);
      hidden.push_back(random.below(int(problem.node(n).size())));
    }
    Pbqp shifted;
    for (int n = 0; n < 300; ++n) {
      std::vector<double> costs = problem.node(n);
      costs[size_t(hidden[size_t(n)])] = 0;
      shifted.add_node(costs);
    }
    for (int e = 0; e < 900; ++e) {
      const int a = random.below(300), b = random.below(300);
      if (a == b) continue;
      CostMatrix m = random_matrix(random, int(shifted.node(a).size()), int(shifted.node(b).size()), kReal, 0.1);
      m.at(hidden[size_t(a)], hidden[size_t(b)]) = 0;
      shifted.add_edge(a, b, m);
    }
    const PbqpSolution found = solve(shifted);
    CHECK(found.exact);
    CHECK(found.cost == 0);
    check_consistent(shifted, found);
  }
}

Pbqp clique(int nodes, int states, unsigned seed) {
  Random random(seed);
  Pbqp problem;
  for (int n = 0; n < nodes; ++n) random_node(problem, random, states, kReal, 0);
  for (int b = 0; b < nodes; ++b)
    for (int a = 0; a < b; ++a) join(problem, random, a, b, kReal, 0);
  return problem;
}

// Seconds of the processor: other programs on the machine do not matter.
double seconds_of(const std::function<void()>& work) {
  const std::clock_t start = std::clock();
  work();
  return double(std::clock() - start) / CLOCKS_PER_SEC;
}

TEST("deadline") {
  const Pbqp problem = clique(60, 20, 7);
  PbqpSolution found;
  PbqpLimits limits;
  limits.seconds = 0.2;
  limits.work = ~uint64_t(0);
  const double spent = seconds_of([&] { found = solve(problem, limits); });
  std::printf("clique of 60: %.3f s, cost %.4f, bound %.4f, %llu branches\n", spent, found.cost, found.lower_bound,
              static_cast<unsigned long long>(found.branches));
  check_consistent(problem, found);
  CHECK(!found.exact);
  CHECK(found.gap() > 0);
  CHECK(found.lower_bound > 0);
  CHECK(spent < 3);    // generous: a sanitizer may slow it; not the minutes a proof would take
  limits.seconds = 0;  // still a choice
  check_consistent(problem, solve(problem, limits));
  CHECK(!solve(problem, limits).choice.empty());
}

// The work limit, not the clock, ends the search: the same each time, whatever the machine does meanwhile.
TEST("deterministic") {
  PbqpLimits limits;
  limits.seconds = 1e9;
  limits.work = 20'000'000;
  const Pbqp problem = clique(25, 8, 11);
  const PbqpSolution first = solve(problem, limits);
  CHECK(!first.exact);
  for (int again = 0; again < 3; ++again) {
    const PbqpSolution other = solve(problem, limits);
    CHECK(other.choice == first.choice);
    CHECK(other.lower_bound == first.lower_bound);
    CHECK(other.branches == first.branches);
  }
  for (unsigned seed = 0; seed < 500; ++seed) {
    Random random(seed), same(seed);
    CHECK(solve(random_problem(random)).choice == solve(random_problem(same)).choice);
  }
}

// As networks are: ops with up to 20 ways in 3 to 6 layouts, tensors with several consumers as nodes of their own.
Pbqp network(int ops, int states, int reach, unsigned seed) {
  Random random(seed);
  Pbqp problem;
  std::vector<int> tensors;
  while (int(tensors.size()) < ops) {
    const int op = random_node(problem, random, states, kReal, 0);
    const int hub = problem.add_node(std::vector<double>(6, 0.0));
    const double reorder = random.real();
    CostMatrix out(states, 6, reorder), in(6, states, reorder);
    for (int i = 0; i < states; ++i) out.at(i, i % 6) = in.at((i * 7 + 1) % 6, i) = 0;
    problem.add_edge(op, hub, out);
    if (!tensors.empty()) problem.add_edge(tensors.back(), op, in);
    if (tensors.size() > 2 && random.below(4) == 0)
      problem.add_edge(tensors[tensors.size() - 1 - size_t(random.below(std::min(reach, int(tensors.size()))))], op,
                       in);
    tensors.push_back(hub);
  }
  return problem;
}

// Dense blocks: every op reads all results of its block, through a concat in one of the layouts.
Pbqp dense_network(int blocks, int layers, int states, unsigned seed) {
  Random random(seed);
  Pbqp problem;
  for (int b = 0; b < blocks; ++b) {
    std::vector<int> hubs{problem.add_node(std::vector<double>(6, 0.0))};
    for (int l = 0; l < layers; ++l) {
      std::vector<double> copies(6);
      for (double& copy : copies) copy = 0.01 + 0.05 * random.real();
      const int concat = problem.add_node(copies);
      for (int hub : hubs) {
        const double reorder = 0.02 + 0.02 * random.real();
        CostMatrix m(6, 6, reorder);
        for (int i = 0; i < 6; ++i) m.at(i, i) = 0;
        problem.add_edge(hub, concat, m);
      }
      std::vector<double> costs(static_cast<size_t>(states));
      for (double& cost : costs) cost = 0.1 + 0.2 * random.real();
      const int op = problem.add_node(costs), hub = problem.add_node(std::vector<double>(6, 0.0));
      CostMatrix in(6, states, 0.05), out(states, 6, 0.03);
      for (int i = 0; i < states; ++i) in.at(i % 6, i) = out.at(i, (i / 6 + i) % 6) = 0;
      problem.add_edge(concat, op, in);
      problem.add_edge(op, hub, out);
      hubs.push_back(hub);
    }
  }
  return problem;
}

void report(const char* what, const Pbqp& problem, double most_gap) {
  PbqpSolution found;
  PbqpLimits limits;
  limits.seconds = 1e9;  // the limit of work decides, so that a busy machine finds as much
  const double spent = seconds_of([&] { found = solve(problem, limits); });
  std::printf("%s: %.1f ms, core %d of %d, %d dominated, %llu branches, gap %g of %g\n", what, spent * 1e3, found.core,
              problem.nodes(), found.dominated, static_cast<unsigned long long>(found.branches), found.gap(),
              found.cost);
  check_consistent(problem, found);
  CHECK(found.gap() <= most_gap * found.cost);
  CHECK(spent < 60);  // for sanitizers; 20 ms and 1 s are meant
}

TEST("fast_enough") {
  report("150 ops of 20 states", network(150, 20, 4, 3), 0);
  report("1000 ops of 20 states", network(1000, 20, 4, 3), 0);
  report("150 ops of 20 states, reading from anywhere", network(150, 20, 150, 3), 0);
  report("1000 ops of 20 states, reading from up to 30 back", network(1000, 20, 30, 3), 0.5);
  report("4 dense blocks of 8 layers", dense_network(4, 8, 20, 5), 0);
  report("4 dense blocks of 24 layers", dense_network(4, 24, 20, 5), 0.2);
}

}  // namespace
