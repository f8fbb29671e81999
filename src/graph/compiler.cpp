#include "graph/compiler.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>

#include "core/clock.h"
#include "core/samples.h"
#include "graph/batch.h"
#include "graph/half_precision.h"
#include "graph/lessons.h"
#include "graph/live_at_once.h"
#include "graph/live_queued.h"

namespace pl {
namespace {

// Shares of the time that the caller allows.  Measuring ops alone ends at kForOps, the contest at kForAll; the rest is
// kept for rounds that take longer than expected.
constexpr double kForOps = 0.55, kForAll = 0.85;
constexpr size_t kSome = 4;                      // candidates of each op measured after its first, before the others
constexpr int64_t kSeveral = 4;                  // images of a slice that share one reading of the weights
constexpr double kLeastToAskTables = 1.5;        // seconds: kernels are compiled for it; seconds=2 leaves 1.7
constexpr int kLeastTurns = 5, kMostTurns = 15;  // of whole plans in the last contest

// Raises estimates beside measured candidates of the same op: the least of many estimates is usually too low (those of
// matrix units take 0.7 to 1.4 of the time that is measured on an H200), and a chosen one has to be compiled.
void distrust_estimates(std::vector<NodeStates>& nodes) {
  constexpr double kDistrust = 1.5;
  for (NodeStates& node : nodes) {
    const auto measured = [](const State& state) { return state.way && state.way->measured; };
    if (std::none_of(node.states.begin(), node.states.end(), measured)) continue;
    for (State& state : node.states)
      if (state.way && state.way->compiles && !state.way->measured && !state.way->tabled) state.ms *= kDistrust;
  }
}

std::chrono::steady_clock::time_point in_seconds(double seconds) {
  return std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                                std::chrono::duration<double>(std::clamp(seconds, 0.0, 1e8)));
}

// Images of a slice by which weights are read fewer times: as near to kSeveral as leaves few images over.
int64_t several_images(int64_t batch, int streams) {
  const auto rest = [&](int64_t slice) { return batch % (slice * streams); };
  int64_t best = kSeveral;
  for (int64_t slice : {kSeveral + 1, kSeveral - 1, kSeveral + 2})
    if (slice * streams <= batch && rest(slice) < rest(best)) best = slice;
  return best;
}

}  // namespace

Plan::Variant::Variant() = default;
Plan::Variant::~Variant() = default;
Plan::Variant::Variant(Variant&& other) noexcept = default;
Plan::Variant& Plan::Variant::operator=(Variant&& other) noexcept = default;

Plan::Compiler::Finalist::Finalist() = default;
Plan::Compiler::Finalist::~Finalist() = default;
Plan::Compiler::Finalist::Finalist(Finalist&& other) noexcept = default;
Plan::Compiler::Finalist& Plan::Compiler::Finalist::operator=(Finalist&& other) noexcept = default;

void leave_out_uncompiled(std::vector<NodeStates>& nodes) {
  const auto unknown = [](const State& state) { return state.way && state.way->compiles && !state.way->measured; };
  for (NodeStates& node : nodes) {
    auto& states = node.states;
    if (node.device->traits().compiles || std::all_of(states.begin(), states.end(), unknown)) continue;
    states.erase(std::remove_if(states.begin(), states.end(), unknown), states.end());
  }
}

void queue_build(Builders& builders, const State& state) {
  if (state.way && state.entry->device->traits().compiles)
    builders.add(state.entry, size_t(state.way - state.entry->ways.data()));
}

Plan::Compiler::Compiler(Plan& plan, const PlanOptions& options, bool further, const Plan* guide, const Plan* beside)
    : plan_(plan),
      options_(options),
      context_(*plan.context_),
      tuning_(further ? Tuning::off : options.tuning),
      further_(further),
      guide_(guide),
      beside_(beside),
      constants_(*plan.constants_) {}

void Plan::Compiler::report(const char* stage, double fraction) const {
  if (options_.progress) options_.progress(stage, std::min(1.0, std::max(0.0, fraction)));
  context_.interrupt().poll();
}

double Plan::Compiler::elapsed() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
}

double Plan::Compiler::remaining() const {
  const double seconds = options_.seconds.value_or(kDefaultSeconds);
  return seconds > 0 ? seconds - elapsed() : 1e9;
}

// ---- running ----

double Plan::Compiler::run_once(Variant& variant, Program& program, std::vector<double>* step_ms) {
  context_.interrupt().poll();
  std::vector<size_t> in, out;
  for (const TensorDesc& desc : program.inputs()) {
    provide(inputs_, in.size(), desc, variant, true);
    in.push_back(desc.size_bytes());
  }
  for (const TensorDesc& desc : program.outputs()) {
    provide(outputs_, out.size(), desc, variant, false);
    out.push_back(desc.size_bytes());
  }
  // Where the device queues work, new values of states lie where they will: kernels may be others then.  On `cpu` they
  // would drift from run to run, to values that take longer.
  std::vector<External> results = outputs_;
  if (plan_.home_->traits().queued)
    for (size_t i = 0; i < out.size(); ++i)
      if (const int input = program.in_place_of()[i]; input >= 0) results[i] = inputs_[size_t(input)];
  const double start = now_ms();
  run_slices(program, plan_.slices_of(variant), variant.streams, inputs_, results, in, out, step_ms);
  plan_.home_->synchronize();
  return now_ms() - start;
}

// Kept for every program of every variant; they differ in it only where a layout pads.
void Plan::Compiler::provide(std::vector<External>& list, size_t index, const TensorDesc& desc, const Variant& variant,
                             bool fill) {
  Device& home = *plan_.home_;
  if (list.size() <= index) list.resize(index + 1);
  const size_t of_batch =
      variant.slice ? desc.size_bytes() / size_t(variant.slice) * size_t(plan_.batch()) : desc.size_bytes();
  const size_t bytes = std::max<size_t>(1, of_batch);
  if (list[index].buffer && list[index].buffer->bytes() >= bytes) return;
  data_.push_back(home.allocate(bytes));
  list[index] = {data_.back().get(), 0};
  if (!fill) return;
  std::vector<char> values(data_.back()->bytes(), 0);
  if (desc.dtype == DType::f32)
    for (size_t k = 0; k + 4 <= values.size(); k += 4) {
      // A sawtooth between -1 and 1, different from place to place.
      const float value = float(int((k / 4) * 7919 % 2001) - 1000) * 1e-3f;
      std::memcpy(values.data() + k, &value, 4);
    }
  home.write(*data_.back(), 0, values.data(), values.size());
}

// ---- measuring ops and assigning layouts ----

// The order in which ops are measured, in case the time runs out: the op whose uses take the most time in all comes
// first.  Ops on strided views come last, because they take about the time of the same op on dense tensors.
std::vector<std::pair<double, EntryRef>> Plan::Compiler::dearest_first(const std::map<EntryRef, int>& counts,
                                                                       const std::set<EntryRef>& strided) const {
  std::vector<std::pair<double, EntryRef>> order;
  for (const auto& [entry, count] : counts)
    order.emplace_back(context_.catalog().best_ms(*entry).value_or(0) * count, entry);
  std::stable_sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
    const size_t last_a = strided.count(a.second), last_b = strided.count(b.second);
    return last_a != last_b     ? last_a < last_b
           : a.first != b.first ? a.first > b.first
                                : a.second->text < b.second->text;
  });
  return order;
}

// By entry the ways that the assignment takes while all costs are estimates or known from before, where they must be
// compiled; those of most nodes first.
std::map<EntryRef, std::vector<size_t>> Plan::Compiler::likely_ways(Variant& variant) {
  const Assignment assignment = settle(variant, variant.nodes, false);
  std::map<EntryRef, std::map<size_t, int>> counts;
  for (size_t n = 0; n < variant.nodes.size(); ++n) {
    const NodeStates& node = variant.nodes[n];
    if (node.kind != NodeStates::Kind::op) continue;
    const State& state = node.states[size_t(assignment.states[n])];
    if (state.way) ++counts[state.entry][size_t(state.way - state.entry->ways.data())];
  }
  std::map<EntryRef, std::vector<size_t>> likely;
  for (const auto& entry_counts : counts) {
    const auto& ways = entry_counts.second;
    std::vector<size_t>& list = likely[entry_counts.first];
    for (const auto& [way, count] : ways) list.push_back(way);
    std::stable_sort(list.begin(), list.end(), [&](size_t a, size_t b) { return ways.at(a) > ways.at(b); });
  }
  return likely;
}

void Plan::Compiler::measure_ops(Variant& variant, double seconds) {
  if (tuning_ == Tuning::off) {
    if (options_.tuning != Tuning::off) correct_estimates(variant.nodes);
    return leave_out_uncompiled(variant.nodes);
  }
  Catalog& catalog = context_.catalog();
  std::map<EntryRef, int> counts;
  std::set<EntryRef> strided;
  for (const NodeStates& node : variant.nodes) {
    std::set<EntryRef> entries;
    for (const State& state : node.states) {
      if (!state.entry) continue;
      entries.insert(state.entry);
      if (state.entry != node.entry) strided.insert(state.entry);
    }
    for (const EntryRef& entry : entries) ++counts[entry];
  }
  // On the CPU first of all ops what is ready to run, then what has to be compiled, which may take most of the time;
  // elsewhere, where everything has to be, of all ops the ways that the assignment by estimates takes, which a plan
  // needs most likely, and then, by what was measured, others of the dearest.
  const double all_end = elapsed() + seconds;
  const bool compiles = plan_.home_->traits().compiles, gpu = plan_.home_->traits().gpu;
  std::vector<MeasureLimits> passes(compiles ? 3 : 2);
  passes[0].without_compiling = !compiles;
  std::map<EntryRef, std::vector<size_t>> likely;
  if (compiles) {
    passes[0].ways = 1, passes[1].ways = kSome;
    likely = likely_ways(variant);
  }
  std::vector<std::pair<double, EntryRef>> order;
  for (size_t p = 0; p < passes.size(); ++p) {
    // What a plan needs anyway may take longer.
    const double end = gpu && p == 0 ? std::max(stop_, all_end) : all_end;
    if (p == 0 || compiles) order = dearest_first(counts, strided);
    if (end <= elapsed()) {
      short_of_time_ = true;
      break;
    }
    std::map<EntryRef, std::vector<size_t>> building;
    if (builders_)
      for (const auto& [ms, entry] : order) {
        if (!entry->device->traits().compiles) continue;
        std::vector<size_t>& ways = building[entry];
        if (p == 0) ways = likely[entry];  // on the CPU there are none
        if (ways.empty()) {
          ways = catalog.to_measure(*entry, tuning_);
          if (ways.size() > passes[p].ways) ways.resize(passes[p].ways);
        }
        for (size_t way : ways) builders_->add(entry, way);
      }
    // Compiling disturbs what is measured on the same processors: it is waited for, but not for more than half of the
    // time.
    if (builders_ && !gpu) {
      const auto until = in_seconds((end - elapsed()) / 2);
      for (const auto& [ms, entry] : order)
        if (!builders_->wait(entry, building[entry], until)) break;
      builders_->clear();
    }
    for (size_t i = 0; i < order.size(); ++i) {
      report("measuring ops", (double(p) + double(i) / double(order.size())) / double(passes.size()));
      const EntryRef& entry = order[i].second;
      if (builders_ && gpu) builders_->wait(entry, building[entry], in_seconds(end - elapsed()));
      MeasureLimits limits = passes[p];
      if (p == 0) limits.these = likely[entry];
      limits.op_seconds = limits.seconds = end - elapsed();
      if (limits.seconds <= 0) {
        short_of_time_ = true;
        break;
      }
      const uint64_t before = catalog.epoch();
      catalog.measure(*entry, tuning_, limits);
      measured_ = measured_ || catalog.epoch() != before;
    }
    if (builders_) builders_->clear();
  }
  correct_estimates(variant.nodes);
  leave_out_uncompiled(variant.nodes);
  distrust_estimates(variant.nodes);
}

// What machines like this one measured takes the place of estimates, where it holds here.
void Plan::Compiler::ask_tables(std::vector<NodeStates>& nodes) {
  if (options_.tuning != Tuning::automatic || further_) return;
  // Live runs measure what they need, and nothing is compiled before.
  const bool may_compile = tuning_ != Tuning::off && stop_ - elapsed() >= kLeastToAskTables;
  context_.catalog().check_tables(entries_of(nodes), may_compile ? builders_.get() : nullptr);
  refresh_states(nodes);
}

// By what is known already of ops like these: of many estimates beside measured times the least is too low.
void Plan::Compiler::correct_estimates(std::vector<NodeStates>& nodes) {
  context_.catalog().correct_estimates(entries_of(nodes));
  refresh_states(nodes);
}

void Plan::Compiler::build_ahead(const Variant& variant, const Assignment& assignment) {
  if (!builders_) return;
  for (size_t i = 0; i < variant.nodes.size(); ++i) {
    const NodeStates& node = variant.nodes[i];
    if (node.kind != NodeStates::Kind::op) continue;
    const State& state = node.states[size_t(assignment.states[i])];
    queue_build(*builders_, state);
  }
}

// Assigns, measures the conversions that the assignment uses, and again until it uses none that is a mere estimate.
Assignment Plan::Compiler::settle(Variant& variant, const std::vector<NodeStates>& nodes, bool measure, double noise) {
  Assignment assignment;
  for (int round = 0; round < 8; ++round) {
    const double before = thread_ms();
    assignment = assign(variant.graph, nodes, *plan_.home_, *variant.costs, PbqpLimits{}, noise);
    plan_.assigning_ms_ = thread_ms() - before;
    bool news = false;
    if (measure && tuning_ != Tuning::off && elapsed() < stop_)
      for (const Use& use : conversions_of(variant.graph, nodes, *plan_.home_, assignment))
        news = variant.costs->measure(use.given, *use.source, use.wanted, *use.target) || news;
    if (!news) break;
  }
  return assignment;
}

void Plan::Compiler::prepare(Variant& variant, double seconds) {
  end_ = elapsed() + seconds;
  stop_ = elapsed() + kForAll * seconds;
  const double before = thread_ms();
  const std::vector<const State*> like = chosen_by_guide(variant);
  variant.nodes = plan_.states_of(variant, like);
  plan_.listing_ms_ = thread_ms() - before;
  variant.costs = std::make_unique<ConversionCosts>(*plan_.conversions_, variant.threads);
  ask_tables(variant.nodes);
  if (options_.layout != "auto") {
    variant.nodes = restricted_to(variant.nodes, Layout::parse(options_.layout));
    measure_ops(variant, kForAll * seconds);
    variant.assignment = settle(variant, variant.nodes, true);
    build_ahead(variant, variant.assignment);
    variant.program = plan_.program_of(variant, variant.assignment);
    return;
  }
  std::optional<Assignment> untuned;
  if (tuning_ != Tuning::off && !plan_.home_->traits().compiles) {
    std::vector<NodeStates> unmeasured = variant.nodes;
    leave_out_uncompiled(unmeasured);
    Assignment assignment = settle(variant, unmeasured, false, kNoise);
    measure_ops(variant, kForOps * seconds);
    assignment = translated(assignment, unmeasured, variant.nodes);
    const auto& states = assignment.states;
    if (std::find(states.begin(), states.end(), -1) == states.end()) untuned = std::move(assignment);
  } else {
    measure_ops(variant, kForOps * seconds);
  }
  if (further_) {
    if (choose_like_others(variant, like)) return;
    if (!like.empty()) variant.nodes = plan_.states_of(variant);
  }
  contest(variant, std::move(untuned));
  short_of_time_ = short_of_time_ || elapsed() >= stop_;
}

// ---- variants ----

std::string Plan::Compiler::name_of(const Variant& variant) const {
  if (!variant.slice) return "";
  return concat(" in slices of ", variant.slice, ", ", variant.streams, " at a time");
}

std::vector<std::unique_ptr<Plan::Variant>> Plan::Compiler::variants() {
  std::vector<std::unique_ptr<Variant>> list;
  const auto add = [&](int64_t slice, int streams, int threads) {
    list.push_back(plan_.variant_of(slice, streams, threads));
  };
  const std::optional<int64_t> batch = plan_.home_->traits().threads ? batch_of(plan_.graph_) : std::nullopt;
  const int threads = plan_.threads_;
  const bool may_cut = batch && *batch > 1;
  if (options_.slice || options_.streams || !options_.chains.empty()) {
    require(may_cut || (batch && options_.chains.empty() && options_.slice <= *batch && options_.streams <= 1),
            Code::unsupported, "compile: slice and streams are given, but this graph's images cannot be run apart on ",
            plan_.home_->name());
  }
  if (!may_cut) {
    add(0, 1, threads);
    return list;
  }
  if (options_.slice || options_.streams || !options_.chains.empty()) {
    std::set<int64_t> sizes;
    for (const auto& chain : options_.chains) sizes.insert(chain.second);
    if (sizes.empty()) sizes.insert(options_.slice ? options_.slice : 1);
    const int streams = options_.streams ? options_.streams : 1;
    for (int64_t slice : sizes) {
      require(slice <= *batch, Code::invalid_argument, "compile: slice is ", slice, ", expected at most ", *batch,
              " (the batch)");
      require(streams <= threads && streams <= *batch / slice, Code::invalid_argument, "compile: streams is ", streams,
              ", expected at most ", threads, " (threads) and ", *batch / slice, " (slices of ", slice, ")");
      add(slice, streams, threads / streams);
    }
    return list;
  }
  if (threads > 1 && *batch >= threads) {
    add(1, threads, 1);
    if (*batch / threads >= kSeveral) add(several_images(*batch, threads), threads, 1);
  }
  if (options_.memory_limit) {  // smaller and smaller parts, one at a time
    for (int64_t slice = 1; slice <= *batch / 2; slice *= 2) add(slice, 1, threads);
  }
  add(0, 1, threads);
  return list;
}

std::vector<std::shared_ptr<Plan::Variant>> Plan::Compiler::add_rests(
    std::vector<std::unique_ptr<Variant>>& list) const {
  std::vector<std::shared_ptr<Variant>> rests;
  for (const auto& variant : list) {
    const int64_t images = plan_.rest_of(*variant);
    if (!images) continue;
    const auto known =
        std::find_if(rests.begin(), rests.end(), [&](const auto& rest) { return rest->slice == images; });
    variant->rest = known != rests.end() ? *known : plan_.rest_for(images);
    if (known == rests.end()) rests.push_back(variant->rest);
  }
  return rests;
}

Device& Plan::Compiler::choose_home() const {
  if (options_.device != "auto") return context_.device(options_.device);
  for (const auto& device : context_.devices())
    if (device->traits().gpu) return *device;
  return context_.host();
}

// All in turns once more, on the same data.
size_t Plan::Compiler::last_contest(std::vector<Finalist>& finalists) {
  for (Finalist& finalist : finalists) run_finalist(finalist);  // touches memory: not counted
  size_t best = 0;
  for (int turn = 0; turn < kMostTurns; ++turn) {
    // What is hopeless after two turns takes no more; on a busy machine the others take more than the usual number.
    if (turn >= 2 && remaining() < 0) break;
    if (turn >= kLeastTurns && is_steady(finalists[best].totals)) break;
    const double least = least_of(finalists[best].totals);
    for (Finalist& finalist : finalists)
      if (turn < 2 || least_of(finalist.totals) <= kHopeless * least) finalist.totals.push_back(run_finalist(finalist));
    for (size_t i = 0; i < finalists.size(); ++i)
      if (typical(finalists[i].totals) < typical(finalists[best].totals)) best = i;
  }
  return best;
}

// Whether nothing is measured before the first run, and others compete in runs.  A step of training on a GPU is measured
// before: it runs for minutes.  So is what an OpenCL runtime on the CPU runs, whose kernels are compiled in runs.
bool Plan::Compiler::answers_first() const {
  const DeviceTraits& traits = plan_.home_->traits();
  const auto trained = [](const KeptValue& kept) { return kept.parameter && kept.update != kNoValue; };
  const std::vector<KeptValue>& kept = plan_.graph_.kept();
  return !traits.queued || (traits.gpu && std::none_of(kept.begin(), kept.end(), trained));
}

void Plan::Compiler::simplify_graph() {
  if (options_.widen) plan_.widened_ = dtypes_to_widen(plan_.graph_, context_, *plan_.home_);
  if (!plan_.widened_.empty()) {
    report("widening", 0);
    plan_.graph_ = widened(plan_.graph_, context_, plan_.widened_);
  }
  if (options_.simplify) {
    report("simplifying", 0);
    std::vector<std::string> without = options_.without;
    if (!options_.strided_views) without.insert(without.end(), {"join_linear", "join_rotary"});  // results are views
    const auto further = [&](const std::vector<Pass>& list) {
      for (PassReport& report : run_passes(list, plan_.graph_, context_, without)) {
        const auto same = std::find_if(plan_.passes_.begin(), plan_.passes_.end(),
                                       [&](const PassReport& known) { return known.name == report.name; });
        if (same == plan_.passes_.end())
          plan_.passes_.push_back(std::move(report));
        else
          same->rewrites += report.rewrites;
      }
    };
    further(first_passes(plan_.home_));
    further(standard_passes());
    further(device_passes(plan_.home_, &constants_));
    further(last_passes(plan_.home_));
  }
  const Math math = std::max<Math>(options_.math, context_.options().math);
  if (math == Math::fp16 || math == Math::bf16) {
    const DType half = math == Math::fp16 ? DType::f16 : DType::bf16;
    if (gains_by(context_, *plan_.home_, half)) plan_.graph_ = in_half_precision(plan_.graph_, context_, half);
  }
  plan_.graph_.verify();
}

void Plan::Compiler::compile() {
  plan_.home_ = &choose_home();
  plan_.threads_ = options_.threads ? options_.threads : int(context_.options().threads);
  simplify_graph();
  const bool automatic = options_.tuning == Tuning::automatic && !further_;
  const bool live = automatic && !options_.seconds && options_.chains.empty() && (options_.live || answers_first());
  if (automatic) {
    const Recalled recalled = plan_.recall(!live);
    if (recalled == Recalled::unsettled) {
      std::vector<Cut> others;
      const BodyRef body = plan_.body();
      for (const auto& variant : variants())
        if (variant->slice != body->parts[0]->slice || variant->streams != body->parts[0]->streams)
          others.push_back({variant->slice, variant->streams, variant->threads});
      return finish(live, std::move(others));
    }
    if (recalled == Recalled::settled) return finish(false, {});
  }
  if (live) tuning_ = Tuning::off;
  if (tuning_ != Tuning::off) context_.catalog().find_rates(*plan_.home_);
  if (plan_.home_->traits().compiles)
    builders_ = std::make_unique<Builders>(context_.catalog(), context_.interrupt(), plan_.home_->builders());
  std::vector<std::unique_ptr<Variant>> list = variants();
  // Without measuring, the last one: the whole batch at once, unless that takes too much memory.
  std::vector<Cut> others;
  if (tuning_ == Tuning::off && !options_.memory_limit && options_.chains.empty()) {
    for (size_t i = 0; i + 1 < list.size(); ++i) others.push_back({list[i]->slice, list[i]->streams, list[i]->threads});
    list.erase(list.begin(), list.end() - 1);
  }
  const std::vector<std::shared_ptr<Variant>> rests = add_rests(list);
  std::vector<Variant*> all;
  for (const auto& rest : rests) all.push_back(rest.get());
  for (const auto& variant : list) all.push_back(variant.get());
  for (size_t i = 0; i < all.size(); ++i) {
    const double share = std::max(1.0, remaining() / double(all.size() - i));
    prepare(*all[i], std::min(share, 1e8));
  }
  std::vector<Finalist> finalists;
  std::optional<Finalist> chained;
  if (options_.chains.empty()) {
    chained = composed(list, best_chains(list));
    for (std::unique_ptr<Variant>& variant : list) {
      Finalist finalist;
      if (variant->rest) {
        // Made again for the layouts of this variant's outputs.
        std::map<Maker, Layout> layouts;
        for (size_t i = 0; i < variant->outputs.size(); ++i)
          layouts[variant->outputs[i]] = variant->program->outputs()[i].layout;
        variant->rest = plan_.part_of(*variant->rest, 0, variant->nodes.size(), layouts);
      }
      finalist.parts.push_back(std::move(variant));
      finalist.chains = plan_.chains_of(finalist.parts);
      finalists.push_back(std::move(finalist));
    }
  } else {
    chained = composed(list, given_chains(list));
  }
  if (chained) finalists.insert(finalists.begin(), std::move(*chained));  // the last one is the simplest
  add_recomputed(finalists, 0);
  const size_t known = finalists.size();
  add_lighter(finalists);
  add_recomputed(finalists, known);
  keep_within_memory(finalists);
  const bool choose = finalists.size() > 1 && tuning_ != Tuning::off;
  if (!choose) finalists.erase(finalists.begin(), finalists.end() - 1);
  size_t best = 0;
  if (choose) {
    best = last_contest(finalists);
    short_of_time_ = short_of_time_ || remaining() < 0;
    disturbed_ = disturbed_ || (!plan_.home_->traits().queued && !is_steady(finalists[best].totals));
    for (const Finalist& finalist : finalists)
      if (finalist.parts.size() > 1) plan_.timed_.push_back({finalist.name, typical(finalist.totals)});
  }
  if (!finalists[best].again.empty()) {
    plan_.memory_path_ = plan_.memory_path();
    plan_.graph_ = finalists[best].parts[0]->graph;
    plan_.again_ = finalists[best].again;
  }
  plan_.adopt(plan_.body_of(std::move(finalists[best].parts)));
  plan_.packing_seconds_ = constants_.seconds();
  if (tuning_ != Tuning::off) plan_.remember(!short_of_time_, disturbed_);
  finish(live, std::move(others));
}

void Plan::Compiler::finish(bool live, std::vector<Cut> others) {
  plan_.settle_outputs();
  // Others are packed from the weights as the graph has them, which stay meanwhile.
  if (live && options_.memory_limit) {
    const BodyRef body = plan_.body();
    live = plan_.memory_of(body->parts, *body->chains, true).bytes() <= options_.memory_limit;
  }
  if (live && !options_.deterministic && plan_.home_->traits().queued)
    plan_.live_ = std::make_unique<LiveQueued>(plan_);
  else if (live && !options_.deterministic)
    plan_.live_ = std::make_unique<LiveAtOnce>(plan_, std::move(others));
  else
    plan_.release_constants();
  if (!further_) plan_.home_->release_cache();  // blocks of what was tried, and in which weights lay on their way
  plan_.seconds_ = elapsed();
  report("done", 1);
}

}  // namespace pl
