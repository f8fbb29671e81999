// Parts of a plan: variants that cut the batch differently, parts of them, their chains, and the body that a plan runs;
// and where variants are joined to one finalist.
//
// Every variant's program was run, each step timed where it stands.  A shortest path over the nodes, staying with a
// variant or changing to another where few values cross, says which variant should run which nodes.  What a change
// costs beyond reorders (caches that have to be filled again) is not in those times, so the composed plan takes part in
// the last contest as one more finalist.
#include <algorithm>
#include <cstdlib>

#include "core/clock.h"
#include "core/numbers.h"
#include "core/threads.h"
#include "graph/batch.h"
#include "graph/compiler.h"
#include "graph/sizes.h"

namespace pl {
namespace {

constexpr size_t kMostAcross = 2;        // values that may cross a boundary: a block's result and its shortcut
constexpr double kPriceOfChange = 0.01;  // in parts of the fastest variant's time
constexpr double kLeastGain = 0.02;      // promised less is not tried

// Whether the images of a batch follow one another in memory, so that a slice of them is a piece of it.
bool images_follow(const TensorDesc& desc) {
  return desc.rank() > 0 && desc.layout.order(0) == 0 && desc.layout.block_of(0) == 1 &&
         same_memory(desc, TensorDesc::dense(desc.dtype, desc.shape, desc.layout));
}

}  // namespace

// ---- parts of a plan ----

std::vector<NodeStates> Plan::states_of(const Variant& variant, std::vector<const State*> like) const {
  StateOptions states;
  states.device = home_;
  states.threads = variant.threads;
  states.math = options_.math;
  states.strided_views = options_.strided_views;
  states.share_cpu = variant.threads >= available_processors();
  states.like = std::move(like);
  return list_states(variant.graph, *context_, states);
}

int64_t Plan::batch() const { return graph_.value(graph_.inputs()[0].value).desc.shape[0]; }

int64_t Plan::slices_of(const Variant& variant) const {
  return variant.slice ? (batch() - variant.from) / variant.slice / variant.streams * variant.streams : 1;
}

double Plan::rounds_of(const Variant& variant) const {
  return variant.slice ? double(batch()) / double(variant.slice * variant.streams) : 1;
}

int64_t Plan::rest_of(const Variant& variant) const {
  return variant.slice ? batch() - variant.from - slices_of(variant) * variant.slice : 0;
}

std::unique_ptr<Plan::Variant> Plan::variant_of(int64_t slice, int streams, int threads) const {
  auto variant = std::make_unique<Variant>();
  variant->slice = slice;
  variant->streams = streams;
  variant->threads = threads;
  variant->graph = slice ? with_batch(graph_, slice) : graph_;
  for (size_t i = 0; i < graph_.inputs().size(); ++i) variant->inputs.push_back({-1, int(i)});
  for (size_t i = 0; i < graph_.outputs().size(); ++i) {
    variant->outputs.push_back(maker_of(graph_, graph_.outputs()[i].value));
    variant->results.push_back(int(i));
  }
  return variant;
}

std::unique_ptr<Plan::Variant> Plan::rest_for(int64_t images) const {
  auto rest = variant_of(images, 1, threads_);
  rest->from = batch() - images;
  return rest;
}

std::unique_ptr<Plan::Variant> Plan::part_of(const Variant& variant, size_t first, size_t end,
                                             std::map<Maker, Layout>& layouts) const {
  auto part = std::make_unique<Variant>();
  part->slice = variant.slice;
  part->from = variant.from;
  part->streams = variant.streams;
  part->threads = variant.threads;
  part->first = first;
  if (first == 0 && end == variant.nodes.size() && layouts.empty()) {
    part->graph = variant.graph;
    part->inputs = variant.inputs;
    part->outputs = variant.outputs;
    part->results = variant.results;
  } else {
    CutGraph cut = cut_out(variant.graph, first, end, layouts);
    part->graph = std::move(cut.graph);
    part->inputs = std::move(cut.inputs);
    part->outputs = std::move(cut.outputs);
    part->results = std::move(cut.results);
  }
  part->nodes.assign(variant.nodes.begin() + long(first), variant.nodes.begin() + long(end));
  part->assignment.states.assign(variant.assignment.states.begin() + long(first),
                                 variant.assignment.states.begin() + long(end));
  part->costs = std::make_unique<ConversionCosts>(*conversions_, variant.threads);
  part->program = program_of(*part, part->assignment);
  for (const Program::Step& step : part->program->steps()) part->assignment.ms += step.expected_ms;
  for (size_t i = 0; i < part->outputs.size(); ++i) {
    const TensorDesc& desc = part->program->outputs()[i];
    layouts[part->outputs[i]] = desc.layout;
    if (part->results[i] >= 0) continue;
    require(images_follow(desc), Code::unsupported, "compile: slice: what node \"",
            graph_.node(size_t(part->outputs[i].first)).name, "\" gives lies in ", desc,
            ", which cannot be handed from chain to chain");
  }
  if (variant.rest) part->rest = part_of(*variant.rest, first, end, layouts);
  return part;
}

std::unique_ptr<Chains> Plan::chains_of(const std::vector<std::unique_ptr<Variant>>& parts) const {
  auto chains = std::make_unique<Chains>(*home_);
  for (const auto& part : parts)
    for (const Variant* share = part.get(); share; share = share->rest.get())
      chains->add(*share->program, {share->slice, slices_of(*share), share->streams, share->from}, share->inputs,
                  share->outputs, share->results);
  chains->finish();
  return chains;
}

void Plan::settle_outputs() {
  const BodyRef body = this->body();
  const std::vector<GraphOutput>& outputs = graph_.outputs();
  const auto is_free = [](const GraphOutput& each) { return !each.layout && each.kept < 0; };
  if (std::none_of(outputs.begin(), outputs.end(), is_free)) return;
  memory_path_ = memory_path();
  for (size_t at = 0; at < outputs.size(); ++at)
    if (is_free(outputs[at])) graph_.want_output(at, body->output_forms[at].layout);
  const auto settle = [&](Variant& part) {
    for (size_t i = 0; i < part.results.size(); ++i)
      if (part.results[i] >= 0) part.graph.want_output(i, outputs[size_t(part.results[i])].layout);
  };
  for (const auto& part : body->parts) {
    settle(*part);
    if (part->rest) settle(*part->rest);
  }
  if (sizes_) sizes_->settle_outputs();
}

Plan::BodyRef Plan::body_of(std::vector<std::unique_ptr<Variant>> parts) const {
  auto body = std::make_shared<Body>();
  body->chains = chains_of(parts);
  const auto whole = [&](const TensorDesc& desc, const Variant& part) {
    if (!part.slice) return desc;
    Dims shape = desc.shape;
    shape[0] = batch();
    return TensorDesc::dense(desc.dtype, shape, desc.layout);
  };
  body->output_forms.resize(graph_.outputs().size());
  for (const auto& part : parts) {
    const std::vector<TensorDesc>& outputs = part->program->outputs();
    for (size_t i = 0; i < outputs.size(); ++i)
      if (part->results[i] >= 0) body->output_forms[size_t(part->results[i])] = whole(outputs[i], *part);
  }
  body->in_place.assign(graph_.outputs().size(), false);
  body->may_lie_over.resize(graph_.outputs().size());
  if (parts.size() == 1 && !parts[0]->slice && !parts[0]->rest) {
    const Program& program = *parts[0]->program;
    for (size_t i = 0; i < parts[0]->results.size(); ++i) {
      if (parts[0]->results[i] < 0) continue;
      const auto output = size_t(parts[0]->results[i]);
      body->in_place[output] = program.in_place_of()[i] >= 0;
      for (const int input : program.may_lie_over()[i])
        body->may_lie_over[output].push_back(parts[0]->inputs[size_t(input)].second);
    }
  }
  body->parts = std::move(parts);
  return body;
}

void Plan::adopt(BodyRef body) {
  std::lock_guard<std::mutex> guard(changing_);
  body_.swap(body);
}

void Plan::release_constants() {
  const std::lock_guard<std::mutex> explaining(explaining_);
  const std::lock_guard<std::mutex> guard(changing_);
  std::map<std::string, TensorRef> by_name;
  const auto let_go = [&](Variant& variant) {
    for (const auto& [id, tensor] : variant.program->constants()) {
      by_name[variant.graph.value(id).name] = tensor;
      variant.graph.replace_constant(id, tensor);
    }
  };
  for (const auto& part : body_->parts) {
    if (part->rest) let_go(*part->rest);
    let_go(*part);
  }
  for (size_t i = 0; i < graph_.values().size(); ++i)
    if (const auto it = by_name.find(graph_.values()[i].name); graph_.is_constant(ValueId(i)) && it != by_name.end())
      graph_.replace_constant(ValueId(i), it->second);
  constants_.reset();
}

// ---- where to change from one variant to another ----

std::vector<Chain> Plan::Compiler::given_chains(const std::vector<std::unique_ptr<Variant>>& list) const {
  const Graph& graph = plan_.graph_;
  const auto across = values_across(graph, SIZE_MAX);
  std::vector<Chain> chains;
  for (const auto& [name, slice] : options_.chains) {
    size_t first = 0;
    if (!name.empty()) {
      const auto it = std::find_if(graph.nodes().begin(), graph.nodes().end(),
                                   [&, &wanted = name](const Node& node) { return node.name == wanted; });
      require(it != graph.nodes().end(), Code::invalid_argument, "compile: slice: the simplified graph has no node \"",
              name, "\"");
      first = size_t(it - graph.nodes().begin());
      require(first > chains.back().first, Code::invalid_argument, "compile: slice: node \"", name,
              "\" does not lie behind the one where the chain before begins");
      require(!across[first].empty(), Code::unsupported, "compile: slice: no value crosses from before node \"", name,
              "\" to behind it");
      chains.back().end = first;
    }
    const auto variant = std::find_if(list.begin(), list.end(),
                                      [&, &wanted = slice](const auto& known) { return known->slice == wanted; });
    chains.push_back({size_t(variant - list.begin()), first, graph.nodes().size()});
  }
  return chains;
}

std::vector<Chain> Plan::Compiler::best_chains(const std::vector<std::unique_ptr<Variant>>& list) const {
  const size_t count = plan_.graph_.nodes().size();
  if (list.size() < 2 || count < 2 || !plan_.home_->traits().host_addressable) return {};
  double single = kInfinity;
  const auto ms_of = [&](const Variant& variant) {  // of the whole batch
    std::vector<double> ms = variant.node_ms;
    for (size_t n = 0; n < count && variant.rest; ++n) ms[n] += variant.rest->node_ms[n];
    return ms;
  };
  for (const auto& variant : list) {
    if (variant->node_ms.size() != count || (variant->rest && variant->rest->node_ms.size() != count)) return {};
    double sum = 0;
    for (double ms : ms_of(*variant)) sum += ms;
    single = std::min(single, sum);
  }
  const auto across = values_across(plan_.graph_, kMostAcross);
  const auto state_of = [](const Variant& variant, int node) -> const State& {
    return variant.nodes[size_t(node)].states[size_t(variant.assignment.states[size_t(node)])];
  };
  // What it costs to go on with variant `to` before node `place`.
  const auto change_ms = [&](const Variant& from, const Variant& to, size_t place) {
    if (across[place].empty()) return kInfinity;
    double ms = kPriceOfChange * single;
    for (const Maker& maker : across[place]) {
      const State& given = state_of(from, maker.first);
      if (!given.way || !images_follow(given.outputs[size_t(maker.second)])) return kInfinity;
      const TensorDesc& wanted = state_of(to, maker.first).outputs[size_t(maker.second)];
      const TensorDesc& made = given.outputs[size_t(maker.second)];
      const TensorDesc here = TensorDesc::dense(made.dtype, wanted.shape, made.layout);
      ms += to.costs->ms(here, *plan_.home_, wanted, *plan_.home_) * plan_.rounds_of(to);
    }
    return ms;
  };
  std::vector<std::vector<double>> node_ms;
  for (const auto& variant : list) node_ms.push_back(ms_of(*variant));
  double ms = 0;
  std::vector<Chain> chains = cheapest_chains(
      node_ms, [&](size_t from, size_t to, size_t place) { return change_ms(*list[from], *list[to], place); }, ms);
  if (chains.size() < 2 || ms > (1 - kLeastGain) * single) chains.clear();
  return chains;
}

// ---- the composed plan ----

std::optional<Plan::Compiler::Finalist> Plan::Compiler::composed(const std::vector<std::unique_ptr<Variant>>& list,
                                                                 const std::vector<Chain>& chains) {
  if (chains.empty()) return std::nullopt;
  report("joining chains", 0);
  Finalist result;
  std::map<Maker, Layout> layouts;
  for (const Chain& chain : chains) {
    const Variant& variant = *list[chain.variant];
    result.parts.push_back(plan_.part_of(variant, chain.first, chain.end, layouts));
    const Variant& part = *result.parts.back();
    result.name += (result.name.empty() ? "chains: " : "; from " + part.graph.node(0).name + " on ") +
                   (part.slice ? concat("in slices of ", part.slice, ", ", part.streams, " at a time")
                               : std::string("the whole batch"));
  }
  result.chains = plan_.chains_of(result.parts);
  return result;
}

double Plan::Compiler::run_finalist(Finalist& finalist) {
  context_.interrupt().poll();
  for (const auto& part : finalist.parts) {
    const auto &inputs = part->program->inputs(), &outputs = part->program->outputs();
    for (size_t i = 0; i < inputs.size(); ++i)
      if (part->inputs[i].first < 0) provide(inputs_, size_t(part->inputs[i].second), inputs[i], *part, true);
    for (size_t i = 0; i < outputs.size(); ++i)
      if (part->results[i] >= 0) provide(outputs_, size_t(part->results[i]), outputs[i], *part, false);
  }
  const double start = now_ms();
  finalist.chains->run(inputs_, outputs_);
  plan_.home_->synchronize();
  return now_ms() - start;
}

}  // namespace pl
