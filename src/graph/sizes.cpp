#include "graph/sizes.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/json.h"
#include "dispatch/catalog.h"
#include "dispatch/size_class.h"
#include "graph/batch.h"
#include "graph/compiler.h"
#include "graph/lessons.h"
#include "providers/building.h"

namespace pl {
namespace {

constexpr size_t kLeastMemory = 32 << 20;         // for programs of further sizes, where nothing else is asked for
constexpr size_t kSpareBytes = size_t(16) << 20;  // of the device, when programs go
constexpr size_t kPartOfWeights = 20;             // the same: so small a part of them
constexpr size_t kMostSources = 32;
constexpr double kPriceOfForm = 1.5;   // times the cost of an op: of a form of its weights that is not there yet
constexpr double kAnotherClass = 100;  // farther than any sizes of one class
constexpr int kRunsOfSparing = 8;      // fewer do not pay for a compiler
// What a prepared kernel and a step take, roughly: oneDNN's generated code and descriptions of candidates.
constexpr size_t kBytesOfKernel = 96 << 10, kBytesOfStep = 4 << 10;

// Whether the kernel of a state's way need not be compiled.
bool is_built(Context& context, const State& state) {
  if (!state.way || !state.entry->device->traits().compiles) return true;
  const Building wish(Building::never);
  return context.catalog().kernel(*state.entry, *state.way) != nullptr;
}

// Leaves of the states of each node on a device that compiles the cheapest one for each choice of layouts whose kernel
// is compiled, where there are some.
void keep_built(Context& context, std::vector<NodeStates>& nodes) {
  std::map<const Way*, bool> known;
  for (NodeStates& node : nodes) {
    if (node.kind != NodeStates::Kind::op || !node.device->traits().compiles || node.states.size() < 2) continue;
    std::vector<const State*> order;
    for (const State& state : node.states)
      if (!state.way || state.way->usable) order.push_back(&state);
    std::stable_sort(order.begin(), order.end(), [](const State* a, const State* b) { return a->ms < b->ms; });
    std::vector<State> built;
    for (const State* state : order) {
      const bool has = std::any_of(built.begin(), built.end(), [&](const State& other) {
        return other.inputs == state->inputs && other.outputs == state->outputs;
      });
      if (has) continue;
      const auto [it, added] = known.try_emplace(state->way, false);
      if (added) it->second = is_built(context, *state);
      if (it->second) built.push_back(*state);
    }
    const bool any_way = std::any_of(built.begin(), built.end(), [](const State& state) { return state.way; });
    if (any_way) node.states = std::move(built);
  }
}

}  // namespace

Plan::Sizes::Sizes(Plan& plan) : plan_(plan), constants_(plan.constants_) {
  constants_->share(plan.graph_);
  sources_.push_back(std::make_shared<Graph>(plan.graph_));
  for (size_t i = 0; i < plan.graph_.inputs().size(); ++i) {
    const GraphInput& input = plan.graph_.inputs()[i];
    if (input.kept >= 0) continue;
    given_.push_back(i);
    const Dims& shape = plan.graph_.value(input.value).desc.shape;
    for (int d = 0; d < shape.size(); ++d) {
      const std::string& axis = input.axes.empty() ? std::string() : input.axes[size_t(d)];
      const auto known = std::find(axes_.begin(), axes_.end(), axis);
      axis_at_.push_back(axis.empty() ? -1 : int32_t(known - axes_.begin()));
      if (!axis.empty() && known == axes_.end()) axes_.push_back(axis);
      own_.push_back(shape[d]);
    }
    axis_at_.push_back(-1);
    own_.push_back(-1);
  }
  grower_ = std::make_shared<const Grower>(Grower{Growing::of(plan.graph_), sources_.front()});
  plan.arenas_ = std::make_shared<SharedArenas>();
}

Plan::Sizes::~Sizes() = default;

void Plan::Sizes::settle_outputs() {
  std::lock_guard<std::mutex> making(making_);
  for (const auto& source : sources_) settle_outputs(*source);
}

void Plan::Sizes::settle_outputs(Graph& source) const {
  const std::vector<GraphOutput>& own = plan_.graph_.outputs();
  for (size_t i = 0; i < own.size(); ++i) {
    std::optional<Layout> layout = own[i].layout;
    // Squeeze leaves another rank where a size is 1.
    if (layout) layout = layout->for_rank(source.value(source.outputs()[i].value).desc.rank());
    source.want_output(i, layout);
  }
}

void Plan::Sizes::add(Graph source) {
  const Graph& own = this->source();
  const auto names = [](const Graph& graph) {
    std::vector<std::string> list;
    for (const GraphInput& input : graph.inputs()) list.push_back(graph.value(input.value).name);
    for (const GraphOutput& output : graph.outputs()) list.push_back(output.name);
    return list;
  };
  require(own.inputs().size() == source.inputs().size() && names(own) == names(source), Code::invalid_argument,
          "plan: a graph for further sizes has other inputs or outputs than the plan's, expected the same names");
  for (size_t i = 0; i < own.inputs().size(); ++i) {
    const TensorDesc &a = own.value(own.inputs()[i].value).desc, &b = source.value(source.inputs()[i].value).desc;
    require(a.dtype == b.dtype && a.rank() == b.rank() && own.inputs()[i].axes == source.inputs()[i].axes,
            Code::invalid_argument, "plan: input \"", own.value(own.inputs()[i].value).name,
            "\" of a graph for further sizes is ", b, ", expected dtype, rank and axes as of ", a);
    const GraphInput& kept = source.inputs()[i];
    require(kept.kept == own.inputs()[i].kept && (kept.kept < 0 || a.shape == b.shape), Code::invalid_argument,
            "plan: state \"", own.value(own.inputs()[i].value).name, "\" of a graph for further sizes is ", b,
            ", expected a state like ", a);
  }
  for (size_t k = 0; k < source.kept().size(); ++k) source.take_initial(k);  // the plan has its own
  constants_->share(source);
  std::lock_guard<std::mutex> making(making_);
  settle_outputs(source);
  const auto added = std::make_shared<Graph>(std::move(source));
  sources_.push_back(added);
  {
    // The first graph need not be that of the runs that make something grow.
    std::lock_guard<std::mutex> guard(lock_);
    if (!grows_) {
      Growing growing = Growing::of(*added);
      if (!growing.inputs.empty()) {
        grower_ = std::make_shared<const Grower>(Grower{std::move(growing), added});
        why_not_growing_.clear();
        added_.clear();
      }
    }
    if (sources_.size() > kMostSources)
      for (auto it = std::next(sources_.begin()); it != sources_.end(); ++it)
        if (*it != grower_->source) {
          sources_.erase(it);  // its programs stay
          break;
        }
    graphs_ = sources_.size();
  }
}

Plan::Sizes::Sources Plan::Sizes::sources() {
  std::lock_guard<std::mutex> making(making_);
  return sources_;
}

bool Plan::Sizes::are_others(const std::vector<TensorRef>& inputs) const {
  const Graph& graph = plan_.graph_;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i] && inputs[i]->desc().shape != graph.value(given(graph, i).value).desc.shape) return true;
  return false;
}

// With -1 between the tensors.
Plan::Sizes::Shapes Plan::Sizes::shapes_of(const std::vector<TensorRef>& inputs) const {
  Shapes shapes;
  for (const TensorRef& input : inputs) {
    for (int64_t size : input->desc().shape) shapes.push_back(size);
    shapes.push_back(-1);
  }
  return shapes;
}

std::map<std::string, int64_t> Plan::Sizes::sizes_of(const std::vector<TensorRef>& inputs) const {
  const Graph& graph = source();
  std::map<std::string, int64_t> sizes;
  std::map<std::string, std::string> known_by;  // by axis: the input that said it first
  for (size_t i = 0; i < inputs.size(); ++i) {
    const GraphInput& declared = this->given(graph, i);
    const std::string& name = graph.value(declared.value).name;
    const Dims &shape = graph.value(declared.value).desc.shape, &given = inputs[i]->desc().shape;
    const auto axis = [&](int d) { return declared.axes.empty() ? std::string() : declared.axes[size_t(d)]; };
    bool fits = given.size() == shape.size();
    for (int d = 0; fits && d < shape.size(); ++d) fits = !axis(d).empty() || given[d] == shape[d];
    if (!fits) {
      std::string expected;
      for (int d = 0; d < shape.size(); ++d)
        expected += (d ? ", " : "") + (axis(d).empty() ? std::to_string(shape[d]) : axis(d));
      fail(Code::shape, "plan: input \"", name, "\" has shape ", given, ", expected (", expected, ")");
    }
    for (int d = 0; d < shape.size(); ++d) {
      if (axis(d).empty()) continue;
      const auto [it, added] = sizes.try_emplace(axis(d), given[d]);
      if (added) known_by[axis(d)] = name;
      require(it->second == given[d], Code::shape, "plan: axis \"", axis(d), "\" is ", given[d], " in input \"", name,
              "\", expected ", it->second, " as in input \"", known_by[axis(d)], "\"");
    }
  }
  return sizes;
}

Plan::Sizes::Kept Plan::Sizes::find(const Shapes& shapes) {
  std::lock_guard<std::mutex> guard(lock_);
  for (auto it = kept_.begin(); it != kept_.end(); ++it)
    if (it->shapes == shapes) {
      kept_.splice(kept_.begin(), kept_, it);
      return *it;
    }
  return {};
}

std::shared_ptr<Plan> Plan::Sizes::at(const std::vector<TensorRef>& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i)
    require(inputs[i] != nullptr, Code::invalid_argument, "plan: input \"",
            plan_.graph_.value(given(plan_.graph_, i).value).name, "\" is missing");
  const Shapes shapes = shapes_of(inputs);
  if (auto known = known_at(shapes)) return known;
  const std::map<std::string, int64_t> sizes = sizes_of(inputs);
  std::lock_guard<std::mutex> making(making_);
  if (auto known = find(shapes).plan) return known;  // made meanwhile
  return make(bound(sources_, sizes), shapes);
}

std::shared_ptr<Plan> Plan::Sizes::at(const std::vector<int64_t>& sizes) {
  if (sizes.size() != axes_.size()) {
    std::string names;
    for (const std::string& axis : axes_) names += (names.empty() ? ": " : ", ") + axis;
    fail(Code::invalid_argument, "plan: ", sizes.size(), " sizes given, expected ", axes_.size(), names);
  }
  Shapes shapes = own_;
  for (size_t i = 0; i < shapes.size(); ++i)
    if (axis_at_[i] >= 0) shapes[i] = sizes[size_t(axis_at_[i])];
  if (shapes == own_) return nullptr;
  if (auto known = known_at(shapes)) return known;
  for (size_t i = 0; i < sizes.size(); ++i)
    require(sizes[i] >= 0, Code::shape, "plan: axis \"", axes_[i], "\" is ", sizes[i], ", expected at least 0");
  std::lock_guard<std::mutex> making(making_);
  if (auto known = find(shapes).plan) return known;  // made meanwhile
  return make(bound(sources_, sizes_in(shapes)), shapes);
}

std::map<std::string, int64_t> Plan::Sizes::sizes_in(const Shapes& shapes) const {
  std::map<std::string, int64_t> sizes;
  for (size_t i = 0; i < shapes.size(); ++i)
    if (axis_at_[i] >= 0) sizes[axes_[size_t(axis_at_[i])]] = shapes[i];
  return sizes;
}

std::shared_ptr<Plan> Plan::Sizes::known_at(const Shapes& shapes) {
  const Kept known = find(shapes);
  if (known.plan && known.sparing)
    count_run(shapes, [this, sizes = sizes_in(shapes)] { return bound(sources(), sizes); });
  return known.plan;
}

Graph Plan::Sizes::bound(const Sources& sources, const std::map<std::string, int64_t>& sizes) const {
  std::optional<Error> problem;
  for (const auto& source : sources) {
    try {
      return source->bound(sizes);
    } catch (const Error& error) {
      // What the first graph says, unless another one was made for these sizes.
      if (!problem || problem->code() == Code::unsupported) problem = error;
    }
  }
  throw *problem;
}

void Plan::Sizes::count_run(const Shapes& shapes, std::function<Graph()> graph) {
  {
    std::lock_guard<std::mutex> guard(lock_);
    const auto kept = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& k) { return k.shapes == shapes; });
    if (kept == kept_.end() || !kept->sparing || ++kept->runs < kRunsOfSparing || specialising_) return;
    kept->sparing = false;
    specialising_ = true;
  }
  if (background_.add([this, shapes, graph = std::move(graph)] { specialise(shapes, graph); })) return;
  std::lock_guard<std::mutex> guard(lock_);
  specialising_ = false;
}

void Plan::Sizes::specialise(const Shapes& shapes, const std::function<Graph()>& graph) {
  try {
    const std::shared_ptr<Plan> guide = nearest(shapes, false);
    const std::shared_ptr<Plan> plan = compiled(graph(), guide.get());
    const size_t bytes = bytes_of(*plan);
    std::lock_guard<std::mutex> guard(lock_);
    for (Kept& kept : kept_)
      if (kept.shapes == shapes) {
        kept.plan = plan;  // a run that goes on keeps the other alive
        bytes_ += bytes - kept.bytes;
        kept.bytes = bytes;
        ++specialised_;
      }
  } catch (const std::exception&) {
    // The program that is there serves on.
  }
  std::lock_guard<std::mutex> guard(lock_);
  specialising_ = false;
}

std::shared_ptr<Plan> Plan::Sizes::nearest(const Shapes& shapes, bool of_any_class) {
  // What another class has taken is compiled at least.
  const bool any = of_any_class && plan_.home_->traits().compiles;
  const auto distance = [&](const Shapes& others) {
    if (others.size() != shapes.size()) return HUGE_VAL;  // of a program for many lengths
    double sum = size_distance(shapes, others);
    for (size_t i = 0; i < shapes.size(); ++i) {
      if (size_class(shapes[i]) == size_class(others[i])) continue;
      if (!any) return HUGE_VAL;
      sum += kAnotherClass;
    }
    return sum;
  };
  std::shared_ptr<Plan> best;
  double least = HUGE_VAL;
  std::lock_guard<std::mutex> guard(lock_);
  for (const Kept& kept : kept_)
    if (const double away = distance(kept.shapes); away < least) {
      least = away;
      best = kept.plan;
    }
  if (distance(own_) < least) best = std::shared_ptr<Plan>(&plan_, [](Plan*) {});
  return best;
}

// How a batch is cut was said of the plan's own: of another one it holds as far as that can be cut so.
static void fit_to_batch(PlanOptions& options, std::optional<int64_t> batch) {
  if (!batch || *batch <= 1) {
    options.slice = 0;
    options.streams = 0;
    options.chains.clear();
    return;
  }
  options.slice = std::min(options.slice, *batch);
  int64_t largest = std::max<int64_t>(1, options.slice);
  for (auto& chain : options.chains) {
    chain.second = std::min(chain.second, *batch);
    largest = std::max(largest, chain.second);
  }
  if (options.streams) options.streams = int(std::min<int64_t>(options.streams, *batch / largest));
}

std::shared_ptr<Plan> Plan::Sizes::compiled(Graph graph, const Plan* guide) const {
  const std::shared_ptr<Plan> plan = Plan::make();
  plan->context_ = plan_.context_;
  plan->graph_ = std::move(graph);
  plan->graph_.forget_rules();
  plan->options_ = plan_.options_;
  plan->options_.deterministic = true;
  plan->options_.progress = nullptr;  // a run shows none
  fit_to_batch(plan->options_, batch_of(plan->graph_));
  plan->conversions_ = plan_.conversions_;
  plan->constants_ = constants_;
  plan->arenas_ = plan_.arenas_;
  const Catalog::Passing passing(plan_.context_->catalog());
  Compiler(*plan, plan->options_, true, guide, &plan_).compile();
  plan->forget_alternatives();
  return plan;
}

std::shared_ptr<Plan> Plan::Sizes::make(Graph graph, const Shapes& shapes, std::shared_ptr<GrownGraph> grown) {
  const std::shared_ptr<Plan> guide = nearest(shapes, true);
  const Building wish(Building::sparingly);
  std::shared_ptr<Plan> plan = compiled(std::move(graph), guide.get());
  keep(shapes, plan, std::move(grown));
  return plan;
}

size_t Plan::Sizes::limit() const {
  if (plan_.options_.program_memory) return *plan_.options_.program_memory;
  size_t weights = 0;
  const BodyRef body = plan_.body();
  for (const auto& part : body->parts) weights += part->program->memory().constant_bytes;
  return std::max(kLeastMemory, weights / kPartOfWeights);
}

size_t Plan::Sizes::bytes_of(const Plan& plan) const {
  const BodyRef body = plan.body(), own = plan_.body();
  size_t bytes = 0;
  std::set<const Kernel*> kernels;
  ConstantBlocks constants, shared;
  own->parts[0]->program->add_constants(shared);
  for (const auto& part : body->parts)
    for (const Variant* share = part.get(); share; share = share->rest.get()) {
      share->program->add_constants(constants);
      bytes += kBytesOfStep * share->nodes.size();
      for (const Program::Step& step : share->program->steps()) kernels.insert(step.kernel.get());
    }
  return bytes + constants.bytes_beside(shared) + kBytesOfKernel * kernels.size();
}

// Of all programs together, which run in the same arenas.
bool Plan::Sizes::beyond_memory_limit() const {
  if (!plan_.options_.memory_limit) return false;
  Memory all = plan_.memory_now();
  for (const Kept& kept : kept_) {
    const Memory one = kept.plan->memory_now();
    all.arena_bytes = std::max(all.arena_bytes, one.arena_bytes);
    all.constants.add(one.constants);
  }
  return all.bytes() > plan_.options_.memory_limit;
}

void Plan::Sizes::keep(const Shapes& shapes, const std::shared_ptr<Plan>& plan, std::shared_ptr<GrownGraph> grown) {
  const size_t bytes = bytes_of(*plan);
  const bool sparing = plan_.home_->traits().compiles;
  const size_t most = limit();
  std::vector<std::shared_ptr<Plan>> let_go;
  {
    std::lock_guard<std::mutex> guard(lock_);
    ++made_;
    kept_.push_front({shapes, plan, bytes, std::move(grown), sparing});
    bytes_ += bytes;
    while ((bytes_ > most || beyond_memory_limit()) && kept_.size() > 1) {  // the last one runs now
      bytes_ -= kept_.back().bytes;
      let_go.push_back(std::move(kept_.back().plan));
      kept_.pop_back();
    }
  }
  if (let_go.empty()) return;
  let_go.clear();  // a run that goes on keeps its plan alive
  constants_->release_unused();
  // Their blocks have sizes that hardly anything else asks for.
  if (plan_.home_->memory().cached > kSpareBytes) plan_.home_->release_cache();
}

void Plan::Sizes::describe(Json& json) {
  check_growing();
  std::lock_guard<std::mutex> guard(lock_);
  json.key("sizes")
      .object()
      .field("programs", int64_t(kept_.size()))
      .field("made", made_)
      .field("specialised", specialised_);
  json.field("bytes", int64_t(bytes_)).field("limit", int64_t(limit()));
  json.field("arena_bytes", int64_t(plan_.arenas_->bytes())).field("graphs", int64_t(graphs_));
  std::string axes;
  for (const std::string& axis : grower_->growing.axes) axes += (axes.empty() ? "" : ", ") + axis;
  json.field("growing", grower_->growing.inputs.empty() ? std::string("no input")
                        : why_not_growing_.empty()      ? axes
                                                        : why_not_growing_)
      .end();
}

// Descriptions of candidates take several times the memory of kernels.
void Plan::forget_alternatives() {
  std::map<const Way*, EntryRef> slim;
  const auto with_this_alone = [&](const EntryRef& entry, const Way& way) {
    EntryRef& made = slim[&way];
    if (!made) {
      made = std::make_shared<Entry>();
      made->op = entry->op;
      made->device = entry->device;
      made->threads = entry->threads;
      made->text = entry->text;
      std::lock_guard<std::mutex> guard(entry->lock);
      made->ways.push_back(way);
    }
    return made;
  };
  const BodyRef current = body();
  for (const auto& part : current->parts)
    for (Variant* share = part.get(); share; share = share->rest.get()) {
      for (size_t n = 0; n < share->nodes.size(); ++n) {
        NodeStates& node = share->nodes[n];
        State chosen = node.states[size_t(share->assignment.states[n])];
        if (chosen.way) {
          chosen.entry = with_this_alone(chosen.entry, *chosen.way);
          chosen.way = &chosen.entry->ways[0];
        }
        chosen.dense = nullptr;
        node.entry = node.entry ? chosen.entry : nullptr;
        node.refused = nullptr;
        node.states.assign(1, std::move(chosen));
        node.states.shrink_to_fit();
        share->assignment.states[n] = 0;
      }
      share->program->replace_entries(with_this_alone);
      share->costs = nullptr;
    }
}

// ---- choosing without measuring ----

std::vector<const State*> Plan::Compiler::chosen_by_guide(const Variant& variant) {
  std::vector<const State*> chosen;
  if (!guide_) return chosen;
  if (!guides_) guides_ = guide_->body();
  const Variant& other = *guides_->parts[0];
  const Graph& graph = variant.graph;
  bool alike = guides_->parts.size() == 1 && other.slice == variant.slice && other.nodes.size() == graph.nodes().size();
  for (size_t n = 0; alike && n < other.nodes.size(); ++n) alike = graph.node(n).schema == other.graph.node(n).schema;
  for (size_t n = 0; alike && n < other.nodes.size(); ++n)
    chosen.push_back(&other.nodes[n].states[size_t(other.assignment.states[n])]);
  return chosen;
}

bool Plan::Compiler::choose_like_others(Variant& variant, const std::vector<const State*>& like) {
  std::vector<NodeStates> nodes = variant.nodes;
  const Graph& graph = variant.graph;
  // Other forms of weights would have to be packed, and to lie in memory beside those that are there.
  for (size_t n = 0; n < nodes.size(); ++n) {
    std::vector<bool> packed;
    for (const State& state : nodes[n].states) packed.push_back(has_constants(graph, graph.node(n), nodes[n], state));
    if (std::find(packed.begin(), packed.end(), true) == packed.end()) continue;
    for (size_t s = 0; s < packed.size(); ++s)
      if (!packed[s]) nodes[n].states[s].ms *= kPriceOfForm;
  }
  for (size_t n = 0; n < like.size(); ++n) {
    if (!like[n]->way) continue;
    auto& states = nodes[n].states;
    const auto found = std::find_if(states.begin(), states.end(), [&](const State& state) {
      return state.way && state.way->usable && is_same_choice(state, *like[n]);
    });
    if (found == states.end()) continue;
    if (Building::wish() == Building::sparingly && !is_built(context_, *found)) continue;
    State kept = std::move(*found);
    states.clear();
    states.push_back(std::move(kept));
  }
  if (Building::wish() == Building::sparingly) keep_built(context_, nodes);
  try {
    Assignment assignment = translated(settle(variant, nodes, false, kNoise), nodes, variant.nodes);
    const auto& states = assignment.states;
    if (std::find(states.begin(), states.end(), -1) != states.end()) return false;
    variant.program = plan_.program_of(variant, assignment);
    variant.assignment = std::move(assignment);
  } catch (const Error& error) {
    if (error.code() != Code::unsupported) throw;
    return false;  // what was chosen there cannot be prepared here
  }
  return true;
}

bool Plan::Compiler::has_constants(const Graph& graph, const Node& node, const NodeStates& of,
                                   const State& state) const {
  for (size_t k = 0; k < state.inputs.size() && k < node.inputs.size(); ++k) {
    const ValueId value = node.inputs[k];
    if (value == kNoValue || !state.inputs[k].present || !graph.is_constant(value)) continue;
    const Packing* packing = state.way ? state.way->candidate.packing_of(int(k)) : nullptr;
    const bool has = packing ? constants_.has_packed(graph, value, state.way->candidate, *packing, *of.device)
                             : constants_.has_tensor(graph, value, state.inputs[k], *of.device);
    if (!has) return false;
  }
  return true;
}

}  // namespace pl
