// Layout assignment against enumeration: random graphs of up to 8 ops with fan-out, diamonds and concats, whose states
// want and give random layouts at random costs.  Concats are in place: what cannot be made there is copied.  Every
// other graph's costs are noisy: a conversion has to gain a margin.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include "check.h"
#include "dispatch/context.h"
#include "graph/assign.h"

using namespace pl;

namespace {

const double kInf = std::numeric_limits<double>::infinity();

struct Random {
  explicit Random(unsigned seed) : engine(seed) {}
  int below(int n) { return int(std::uniform_int_distribution<int>(0, n - 1)(engine)); }
  double real() { return std::uniform_real_distribution<double>(0, 1)(engine); }
  std::mt19937 engine;
};

constexpr int kLayouts = 8;
std::vector<Layout> layouts() {
  std::vector<Layout> list;
  for (const char* text : {"NCHW", "NHWC", "nChw16c", "nChw8c", "nChw4c", "nwhc", "nhcw", "ncwh"})
    list.push_back(Layout::parse(text));
  return list;
}

struct Case {
  Graph graph;
  std::vector<NodeStates> nodes;
};

// What it costs to have everything as `choice` says, counted by what is materialised: each value once in each further
// description that anybody wants, however many do.
class Enumeration {
 public:
  Enumeration(const Case& c, Device& home, ConversionCosts& costs, double noise)
      : case_(c), home_(home), costs_(costs) {
    const Graph& graph = c.graph;
    const auto least = [&](int node) {
      double ms = kInf;
      for (const State& state : c.nodes[size_t(node)].states) ms = std::min(ms, state.ms);
      return ms;
    };
    for (size_t id = 0; id < graph.values().size(); ++id) {
      const Value& value = graph.values()[id];
      Wanted wanted;
      wanted.maker = value.node;
      for (size_t n = 0; n < graph.nodes().size(); ++n)
        for (size_t k = 0; k < graph.node(n).inputs.size(); ++k)
          if (graph.node(n).inputs[k] == ValueId(id)) wanted.users.push_back({int(n), int(k)});
      for (const GraphOutput& output : graph.outputs())
        if (output.value == ValueId(id) && output.layout)
          wanted.fixed.push_back(index(*output.layout));
        else if (output.value == ValueId(id))
          ++wanted.any_output;
      if (value.node >= 0) wanted.margin = noise * least(value.node);
      for (const auto& [node, input] : wanted.users) wanted.margin = std::max(wanted.margin, noise * least(node));
      wanted.copy_ms = costs_.copy_ms(value.desc, home_);
      // Conversions by index of layout.
      for (const Layout& from : layouts())
        for (const Layout& to : layouts())
          wanted.ms.push_back(costs_.ms(value.desc.with_layout(from), home_, value.desc.with_layout(to), home_));
      values_.push_back(wanted);
    }
    for (const NodeStates& node : c.nodes) {
      indices_.emplace_back();
      for (const State& state : node.states) {
        std::vector<int> of;
        for (const TensorDesc& input : state.inputs) of.push_back(index(input.layout));
        of.push_back(index(state.outputs[0].layout));
        indices_.back().push_back(of);
      }
    }
  }

  // margins: with what conversions have to gain beside.
  double cost(const std::vector<int>& choice, bool margins) const {
    double sum = 0;
    for (size_t n = 0; n < choice.size(); ++n) sum += case_.nodes[n].states[size_t(choice[n])].ms;
    for (const Wanted& value : values_) {
      const int given = value.maker < 0 ? 0 : chosen(choice, value.maker).back();
      bool have[kLayouts] = {};
      have[given] = true;
      const auto want = [&](int layout) {
        if (!have[layout]) sum += value.ms[size_t(given * kLayouts + layout)] + (margins ? value.margin : 0);
        have[layout] = true;
      };
      for (int layout : value.fixed) want(layout);
      for (const auto& [node, input] : value.users) want(chosen(choice, node)[size_t(input)]);
    }
    return sum + copies(choice);
  }

  // Of the parts of concats that lie somewhere else: in another place of a concat, in an output, in an input.
  double copies(const std::vector<int>& choice) const {
    double sum = 0;
    for (const Wanted& value : values_) {
      std::vector<int> parts;  // layouts
      for (const auto& [node, input] : value.users)
        if (case_.graph.node(size_t(node)).schema->kind == "concat")
          parts.push_back(chosen(choice, node)[size_t(input)]);
      int count = 0;
      for (size_t b = 0; b < parts.size(); ++b) {
        count += value.maker < 0 && parts[b] == 0;
        count += value.any_output;
        for (int output : value.fixed) count += output == parts[b];
        for (size_t a = 0; a < b; ++a) count += parts[a] == parts[b];
      }
      sum += count * value.copy_ms;
    }
    return sum;
  }

  double least() const {
    std::vector<int> choice(case_.nodes.size(), 0);
    double best = kInf;
    for (;;) {
      best = std::min(best, cost(choice, true));
      size_t n = 0;
      for (; n < choice.size(); ++n) {
        if (++choice[n] < int(case_.nodes[n].states.size())) break;
        choice[n] = 0;
      }
      if (n == choice.size()) return best;
    }
  }

 private:
  struct Wanted {
    int maker = -1;
    std::vector<std::pair<int, int>> users;  // (node, input)
    std::vector<int> fixed;                  // layouts in which outputs are wanted
    int any_output = 0;                      // outputs in any layout
    double margin = 0;
    double copy_ms = 0;
    std::vector<double> ms;
  };
  static int index(const Layout& layout) {
    const std::vector<Layout> all = layouts();
    const auto found = std::find(all.begin(), all.end(), layout);
    REQUIRE(found != all.end());
    return int(found - all.begin());
  }
  const std::vector<int>& chosen(const std::vector<int>& choice, int node) const {
    return indices_[size_t(node)][size_t(choice[size_t(node)])];
  }

  const Case& case_;
  Device& home_;
  ConversionCosts& costs_;
  std::vector<Wanted> values_;
  std::vector<std::vector<std::vector<int>>> indices_;  // by node and state: layouts of its inputs, then of its result
};

// Ops of one input, of two, and concats of two or three; each reads what was made before, rather the latest.  Every
// value has 16 channels or a multiple, and may be wanted in so many layouts.
Case random_case(Random& random, Device& home, double scale, int count) {
  Case c;
  const auto all = layouts();
  const int shape = random.below(5);  // chain, fan-out, diamonds, alternating affinities, anything
  const int ops = 1 + random.below(8);
  std::vector<ValueId> made{c.graph.input("x", TensorDesc::dense(DType::f32, {1, 16, 8, 8}))};
  int most = ops <= 5 ? 5 : ops == 6 ? 4 : 3;
  for (int n = 0; n < ops; ++n) {
    const auto pick = [&] {
      if (shape == 0 || shape == 3) return made.back();
      if (shape == 1) return made[size_t(random.below(std::min(2, int(made.size()))))];
      return made[made.size() - 1 - size_t(random.below(std::min(shape == 2 ? 3 : 8, int(made.size()))))];
    };
    std::vector<ValueId> inputs{pick()};
    const char* op = "relu";
    Attributes attributes;
    const auto same_shape = [&](ValueId id) {
      return c.graph.value(id).desc.shape == c.graph.value(inputs[0]).desc.shape;
    };
    const int kind = random.below(4);
    if (kind == 0) {
      op = "add";
      ValueId other = pick();
      inputs.push_back(same_shape(other) ? other : inputs[0]);
    } else if (kind == 1) {
      op = "concat";
      attributes.set(attr::dim, int64_t(1));
      for (int extra = 1 + random.below(2); extra > 0; --extra) inputs.push_back(pick());
    }
    const ValueId y = c.graph.add(*find_schema(op), attributes, inputs)[0];
    made.push_back(y);
    NodeStates node;
    node.device = &home;
    const int states = 1 + random.below(most);
    for (int s = 0; s < states; ++s) {
      State state;
      const int affinity = shape == 3 ? n % 2 : random.below(count);
      for (ValueId input : inputs)
        state.inputs.push_back(
            c.graph.value(input).desc.with_layout(all[size_t(random.below(3) ? affinity : random.below(count))]));
      state.outputs = {
          c.graph.value(y).desc.with_layout(all[size_t(random.below(3) ? affinity : random.below(count))])};
      state.shifts.resize(inputs.size());
      // From far below what a conversion costs to far above it; sometimes nothing; sometimes all the same.
      const int size = random.below(5);
      state.ms = size == 0 ? 0 : size == 1 ? scale : scale * random.real() * std::pow(4, size - 3);
      node.states.push_back(state);
    }
    c.nodes.push_back(node);
  }
  const auto uses = c.graph.use_counts();
  for (size_t id = 0; id < made.size(); ++id) {
    if (id == 0 || (uses[size_t(made[id])] && random.below(8))) continue;
    std::optional<Layout> wanted;
    if (random.below(3)) wanted = all[size_t(random.below(count))];
    c.graph.output(made[id], "", wanted);
  }
  return c;
}

// Eight ops in a row whose best layouts alternate; in the other one each takes `gain` longer.
size_t conversions_in_a_row(Device& home, ConversionCosts& costs, double op_ms, double gain, double noise) {
  Case c;
  ValueId x = c.graph.input("x", TensorDesc::dense(DType::f32, {1, 16, 8, 8}));
  for (int n = 0; n < 8; ++n) {
    const ValueId y = c.graph.add(*find_schema("relu"), Attributes(), {x})[0];
    NodeStates node;
    node.device = &home;
    for (int s = 0; s < 2; ++s) {
      State state;
      const Layout layout = layouts()[size_t(s)];
      state.inputs = {c.graph.value(x).desc.with_layout(layout)};
      state.outputs = {c.graph.value(y).desc.with_layout(layout)};
      state.ms = n % 2 == s ? op_ms : op_ms + gain;
      node.states.push_back(state);
    }
    c.nodes.push_back(node);
    x = y;
  }
  c.graph.output(x, "", std::nullopt);
  const Assignment found = assign(c.graph, c.nodes, home, costs, {}, noise);
  CHECK(found.exact);
  CHECK(std::abs(found.ms - found.lower_bound) < 1e-9 * found.ms);
  return conversions_of(c.graph, c.nodes, home, found).size();
}

TEST("all") {
  ContextOptions options;
  options.cache_dir = "/proc/none";  // nothing on disk
  options.tuning = Tuning::off;      // conversions have estimated costs: the same ones for both
  options.without = {"opencl"};
  const auto context = Context::create(options);
  Device& cpu = context->device("cpu");
  Conversions conversions(*context, context->catalog(), context->later_measuring());
  ConversionCosts costs(conversions, 1);
  const TensorDesc x = TensorDesc::dense(DType::f32, {1, 16, 8, 8});
  const double scale = costs.ms(x, cpu, x.with_layout(Layout::channels_last(4)), cpu);
  CHECK(scale > 0);
  CHECK(scale < kInf);
  // A conversion that pays for itself, but by less than the noise of its op's costs; then by more.
  const double gain = 3 * scale, op_ms = 100 * scale;
  CHECK(conversions_in_a_row(cpu, costs, op_ms, gain, 0) == 7);
  CHECK(conversions_in_a_row(cpu, costs, op_ms, gain, 0.08) == 0);
  CHECK(conversions_in_a_row(cpu, costs, op_ms, 20 * scale, 0.08) == 7);
  int shared = 0, converted = 0, copied = 0;
  for (unsigned seed = 0; seed < 10000; ++seed) {
    Random random(seed);
    const Case c = random_case(random, cpu, scale, seed % 2 ? kLayouts : 4);
    const double noise = seed / 2 % 2 ? 0.5 * random.real() : 0;
    const Assignment found = assign(c.graph, c.nodes, cpu, costs, {}, noise);
    const Enumeration all(c, cpu, costs, noise);
    const double best = all.least(), judged = all.cost(found.states, true), own = all.cost(found.states, false);
    const double slack = 1e-9 * (best + scale);
    if (!found.exact || judged > best + slack || std::abs(found.ms - own) > slack) {
      std::fprintf(stderr, "seed %u: says %.12g (exact %d), costs %.12g, the best costs %.12g\n%s", seed, found.ms,
                   found.exact, judged, best, c.graph.str().c_str());
      REQUIRE(false);
    }
    // The conversions listed are those counted, once for each consumer.
    std::map<std::pair<ValueId, std::string>, double> each;
    const std::vector<Use> uses = conversions_of(c.graph, c.nodes, cpu, found);
    for (const Use& use : uses) each[{use.value, use.wanted.layout.str()}] = costs.ms(use.given, cpu, use.wanted, cpu);
    double sum = 0;
    for (size_t n = 0; n < c.nodes.size(); ++n) sum += c.nodes[n].states[size_t(found.states[n])].ms;
    for (const auto& [key, ms] : each) sum += ms;
    const double copies = all.copies(found.states);
    copied += copies > 0;
    CHECK(std::abs(sum + copies - own) <= slack);
    converted += !uses.empty();
    shared += each.size() < uses.size();
  }
  // The cases are worth something only if conversions, shared ones too, are part of the best choices.
  std::printf("%d with conversions, %d with shared ones, %d with copies\n", converted, shared, copied);
  CHECK(converted > 3000);
  CHECK(shared > 100);
  CHECK(copied > 100);
}

}  // namespace
