#include "graph/compiler.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "graph/batch.h"
#include "graph/half_precision.h"

namespace pl {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kHopeless = 2;  // times what the assignment of all layouts would take
constexpr int kRefinements = 3;  // times that layouts are assigned again with times taken within programs

bool is_gpu(const Device& device) {
  const auto properties = device.properties();
  const auto type = properties.find("type");
  return type != properties.end() && type->second == "gpu";
}

double lower_quartile(std::vector<double> values) {
  if (values.empty()) return kInfinity;
  const auto at = values.begin() + long((values.size() - 1) / 4);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace

double Plan::Compiler::Contender::ms() const { return lower_quartile(totals); }

Plan::Compiler::Compiler(Plan& plan, const PlanOptions& options)
    : plan_(plan), options_(options), context_(*plan.context_), constants_(context_) {}

void Plan::Compiler::report(const char* stage, double fraction) const {
  if (options_.progress) options_.progress(stage, std::min(1.0, std::max(0.0, fraction)));
  context_.interrupt().poll();
}

double Plan::Compiler::elapsed() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
}

double Plan::Compiler::remaining() const { return options_.seconds > 0 ? options_.seconds - elapsed() : 1e9; }

// ---- running ----

double Plan::Compiler::run_once(Variant& variant, Program& program, std::vector<double>* step_ms) {
  context_.interrupt().poll();
  const int64_t slices = plan_.slices_of(variant);
  std::vector<size_t> in, out;
  for (const TensorDesc& desc : program.inputs()) {
    provide(inputs_, in.size(), desc, slices, true);
    in.push_back(desc.size_bytes());
  }
  for (const TensorDesc& desc : program.outputs()) {
    provide(outputs_, out.size(), desc, slices, false);
    out.push_back(desc.size_bytes());
  }
  const auto start = std::chrono::steady_clock::now();
  run_slices(program, slices, variant.streams, inputs_, outputs_, in, out, step_ms);
  plan_.home_->synchronize();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

// Kept for every program of every variant; they differ in it only where a layout pads.
void Plan::Compiler::provide(std::vector<External>& list, size_t index, const TensorDesc& desc, int64_t slices,
                             bool fill) {
  Device& home = *plan_.home_;
  if (list.size() <= index) list.resize(index + 1);
  const size_t bytes = std::max<size_t>(1, desc.size_bytes() * size_t(slices));
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

void Plan::Compiler::measure_ops(Variant& variant, double seconds) {
  if (options_.tuning == Tuning::off) return;
  Catalog& catalog = context_.catalog();
  // The dearest first, in case the time runs out; those with windows, which cost about what they do without, last.
  std::map<Entry*, int> counts;
  std::map<Entry*, EntryRef> refs;
  std::set<Entry*> windowed;
  for (const NodeStates& node : variant.nodes) {
    std::set<Entry*> entries;
    for (const State& state : node.states) {
      if (!state.entry) continue;
      entries.insert(state.entry.get());
      refs.emplace(state.entry.get(), state.entry);
      if (state.entry != node.entry) windowed.insert(state.entry.get());
    }
    for (Entry* entry : entries) ++counts[entry];
  }
  std::vector<std::pair<double, Entry*>> order;
  for (const auto& [entry, count] : counts) order.emplace_back(catalog.best_ms(*entry).value_or(0) * count, entry);
  std::stable_sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
    const size_t last_a = windowed.count(a.second), last_b = windowed.count(b.second);
    return last_a != last_b     ? last_a < last_b
           : a.first != b.first ? a.first > b.first
                                : a.second->text < b.second->text;
  });
  const double end = elapsed() + seconds;
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                                            std::chrono::duration<double>(std::min(seconds, 1e8)));
  std::map<Entry*, std::vector<size_t>> building;
  if (builders_) {
    for (const auto& [ms, entry] : order) {
      if (entry->device->is_cpu()) continue;
      for (size_t way : building[entry] = catalog.to_measure(*entry, options_.tuning)) builders_->add(refs[entry], way);
    }
    // Compiling disturbs what is measured on the same processors.
    if (!is_gpu(*plan_.home_))
      for (const auto& [ms, entry] : order) builders_->wait(refs[entry], building[entry], until);
  }
  for (size_t i = 0; i < order.size(); ++i) {
    report("measuring ops", double(i) / double(order.size()));
    if (builders_) builders_->wait(refs[order[i].second], building[order[i].second], until);
    const double left = end - elapsed();
    if (left <= 0) break;
    catalog.measure(*order[i].second, options_.tuning, left);
  }
  if (builders_) builders_->clear();
  refresh_costs(variant.nodes);
}

void Plan::Compiler::build_ahead(const Variant& variant, const Assignment& assignment) {
  if (!builders_) return;
  for (size_t i = 0; i < variant.nodes.size(); ++i) {
    const NodeStates& node = variant.nodes[i];
    if (node.kind != NodeStates::Kind::op) continue;
    const State& state = node.states[size_t(assignment.states[i])];
    if (state.way && !state.entry->device->is_cpu())
      builders_->add(state.entry, size_t(state.way - state.entry->ways.data()));
  }
}

// Assigns, measures the conversions that the assignment uses, and again until it uses none that is a mere estimate.
Assignment Plan::Compiler::settle(Variant& variant, const std::vector<NodeStates>& nodes, bool measure) {
  Assignment assignment;
  for (int round = 0; round < 8; ++round) {
    assignment = assign(variant.graph, nodes, *plan_.home_, *variant.costs, PbqpLimits{});
    bool news = false;
    if (measure && options_.tuning != Tuning::off)
      for (const Use& use : conversions_of(variant.graph, nodes, *plan_.home_, assignment))
        news = variant.costs->measure(use.given, *use.source, use.wanted, *use.target) || news;
    if (!news) break;
  }
  return assignment;
}

void Plan::Compiler::add_contender(Variant& variant, std::vector<Contender>& list, const std::string& name,
                                   Assignment assignment) {
  for (const Contender& known : list)
    if (known.assignment.states == assignment.states) return;
  build_ahead(variant, assignment);
  Contender contender;
  contender.name = name;
  contender.program = std::make_unique<Program>(context_, variant.graph, variant.nodes, assignment, *plan_.home_,
                                                variant.threads, *plan_.conversions_, constants_, options_.in_place);
  contender.assignment = std::move(assignment);
  list.push_back(std::move(contender));
}

// All contenders in turns, so that a machine whose speed drifts slows all alike.
void Plan::Compiler::run_rounds(Variant& variant, std::vector<Contender>& list, int rounds, double until) {
  for (Contender& contender : list) {
    if (contender.totals.empty()) run_once(variant, *contender.program, nullptr);  // touches memory: not counted
  }
  const bool at_once = plan_.home_->host_memory();
  std::vector<double> step_ms;
  for (int round = 0; round < rounds; ++round) {
    if (round >= 2 && elapsed() > until) break;
    for (Contender& contender : list) {
      contender.totals.push_back(run_once(variant, *contender.program, at_once ? &step_ms : nullptr));
      if (!at_once) continue;
      contender.samples.resize(step_ms.size());
      for (size_t i = 0; i < step_ms.size(); ++i) contender.samples[i].push_back(step_ms[i]);
    }
  }
}

// Times taken within programs take the place of those taken alone; ways not run there are scaled by what the others of
// their node turned out to cost.
void Plan::Compiler::learn(Variant& variant, const std::vector<Contender>& list) {
  std::map<std::pair<size_t, int>, double> at_node;  // least of the contenders' quartiles, by node and state
  std::map<Way*, Seen> anywhere;
  for (const Contender& contender : list)
    for (size_t i = 0; i < contender.samples.size(); ++i) {
      const Program::Step& step = contender.program->steps()[i];
      if (step.kind != Program::Step::Kind::op) continue;
      const double ms = lower_quartile(contender.samples[i]);
      const int state = contender.assignment.states[size_t(step.node)];
      auto [it, added] = at_node.try_emplace({size_t(step.node), state}, ms);
      if (!added) it->second = std::min(it->second, ms);
      Seen& seen = anywhere[step.way];
      seen.sum += ms;
      ++seen.count;
    }
  for (size_t n = 0; n < variant.nodes.size(); ++n) {
    NodeStates& node = variant.nodes[n];
    if (node.kind != NodeStates::Kind::op) continue;
    double log_ratio = 0;
    int known = 0;
    std::vector<bool> seen(node.states.size(), false);
    for (size_t s = 0; s < node.states.size(); ++s) {
      State& state = node.states[s];
      if (!state.way) continue;
      double ms = kInfinity;
      if (const auto it = at_node.find({n, int(s)}); it != at_node.end())
        ms = it->second;
      else if (const auto other = anywhere.find(state.way); other != anywhere.end())
        ms = other->second.sum / other->second.count;
      if (std::isinf(ms)) continue;
      seen[s] = true;
      if (state.way->ms > 0 && ms > 0) {
        log_ratio += std::log(ms / state.way->ms);
        ++known;
      }
      state.ms = ms;
    }
    // Never below what was measured alone: nothing runs faster for being less known.
    const double ratio = known ? std::max(1.0, std::exp(log_ratio / known)) : 1.0;
    for (size_t s = 0; s < node.states.size(); ++s)
      if (!seen[s] && node.states[s].way) node.states[s].ms = cost_of(node.states[s]) * ratio;
  }
}

// What each node took in the winning program, its conversions included.  Steps were timed in one slice of each stream.
void Plan::Compiler::note_times(Variant& variant, const Contender& winner) const {
  if (winner.samples.empty()) return;
  const double times = double(plan_.slices_of(variant)) / variant.streams;
  variant.node_ms.assign(variant.nodes.size(), 0.0);
  for (size_t i = 0; i < winner.samples.size(); ++i) {
    const int node = winner.program->steps()[i].node;
    variant.node_ms[node < 0 ? variant.nodes.size() - 1 : size_t(node)] += lower_quartile(winner.samples[i]) * times;
  }
}

void Plan::Compiler::contest(Variant& variant, double seconds) {
  const double until = elapsed() + seconds;
  std::vector<Contender> list;
  add_contender(variant, list, "auto", settle(variant, variant.nodes, true));
  if (options_.tuning != Tuning::off) {
    for (const char* layout : {"NHWC", "nChw16c", "nChw8c", "NCHW"}) {
      const std::vector<NodeStates> only = restricted_to(variant.nodes, Layout::parse(layout));
      Assignment uniform = settle(variant, only, false);
      // As states of the unrestricted nodes.
      for (size_t i = 0; i < only.size(); ++i) {
        const State& state = only[i].states[size_t(uniform.states[i])];
        const auto& all = variant.nodes[i].states;
        for (size_t s = 0; s < all.size(); ++s)
          if (all[s].way == state.way && all[s].inputs == state.inputs && all[s].outputs == state.outputs)
            uniform.states[i] = int(s);
      }
      // Where kernels are compiled for it, a program that would be hopeless is not worth making.
      if (builders_ && uniform.ms > kHopeless * list[0].assignment.ms) continue;
      add_contender(variant, list, layout, std::move(uniform));
    }
    run_rounds(variant, list, 5, until);
    if (plan_.home_->host_memory())
      for (int i = 0; i < kRefinements; ++i) {
        report("refining", double(i) / kRefinements);
        learn(variant, list);
        const size_t before = list.size();
        add_contender(variant, list, "auto", settle(variant, variant.nodes, true));
        if (list.size() == before || elapsed() > until) break;
        // The slowest have told what they could.
        double best = kInfinity;
        for (const Contender& contender : list) best = std::min(best, contender.ms());
        std::vector<Contender> rest;
        for (Contender& contender : list)
          if (contender.totals.empty() || contender.ms() < 1.15 * best || &contender == &list[0])
            rest.push_back(std::move(contender));
          else
            plan_.trials_.push_back({contender.name + name_of(variant), contender.ms()});
        list = std::move(rest);
        run_rounds(variant, list, 5, until);
      }
  }
  size_t best = 0;
  for (size_t i = 1; i < list.size(); ++i)
    if (list[i].ms() < list[best].ms()) best = i;
  for (const Contender& contender : list)
    if (!contender.totals.empty()) plan_.trials_.push_back({contender.name + name_of(variant), contender.ms()});
  note_times(variant, list[best]);
  variant.assignment = std::move(list[best].assignment);
  variant.program = std::move(list[best].program);
}

void Plan::Compiler::prepare(Variant& variant, double seconds) {
  variant.nodes = plan_.states_of(variant);
  variant.costs = std::make_unique<ConversionCosts>(*plan_.conversions_, variant.threads);
  if (options_.layout != "auto") {
    variant.nodes = restricted_to(variant.nodes, Layout::parse(options_.layout));
    measure_ops(variant, seconds);
    variant.assignment = settle(variant, variant.nodes, true);
    variant.program =
        std::make_unique<Program>(context_, variant.graph, variant.nodes, variant.assignment, *plan_.home_,
                                  variant.threads, *plan_.conversions_, constants_, options_.in_place);
    return;
  }
  measure_ops(variant, seconds * 0.7);
  contest(variant, 0.3 * seconds);
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
  const std::optional<int64_t> batch = plan_.home_->is_cpu() ? batch_of(plan_.graph_) : std::nullopt;
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
      require(*batch % slice == 0, Code::invalid_argument, "compile: slice is ", slice, ", expected a divisor of ",
              *batch, " (the batch)");
      require(streams <= threads && *batch / slice % streams == 0, Code::invalid_argument, "compile: streams is ",
              streams, ", expected at most ", threads, " (threads) and a divisor of ", *batch / slice, " (slices)");
      add(slice, streams, threads / streams);
    }
    return list;
  }
  if (threads > 1 && *batch % threads == 0) {
    add(1, threads, 1);
    if (*batch / threads >= 4) add(4, threads, 1);
  }
  if (options_.memory_limit) {  // smaller and smaller parts, one at a time
    for (int64_t slice = 1; slice < *batch; ++slice)
      if (*batch % slice == 0 && (slice & (slice - 1)) == 0) add(slice, 1, threads);
  }
  add(0, 1, threads);
  return list;
}

Device& Plan::Compiler::choose_home() const {
  if (options_.device != "auto") return context_.device(options_.device);
  for (const auto& device : context_.devices())
    if (is_gpu(*device)) return *device;
  return context_.device("cpu");
}

// Leaves out what takes more memory than the limit.
void Plan::Compiler::keep_within_memory(std::vector<Candidate>& list) const {
  if (!options_.memory_limit) return;
  size_t least = SIZE_MAX;
  for (const Candidate& candidate : list) least = std::min(least, candidate.bytes());
  require(least <= options_.memory_limit, Code::out_of_memory, "compile: memory_limit is ", options_.memory_limit,
          " bytes, the least that this graph can be run in here is ", least);
  list.erase(std::remove_if(list.begin(), list.end(),
                            [&](const Candidate& candidate) { return candidate.bytes() > options_.memory_limit; }),
             list.end());
}

void Plan::Compiler::compile() {
  plan_.home_ = &choose_home();
  plan_.threads_ = options_.threads ? options_.threads : int(context_.options().threads);
  if (options_.simplify) {
    report("simplifying", 0);
    plan_.passes_ = simplify(plan_.graph_, context_, options_.without);
    if (is_gpu(*plan_.home_))
      for (PassReport& report : run_passes(launch_passes(), plan_.graph_, context_, options_.without))
        plan_.passes_.push_back(std::move(report));
  }
  if (std::max<Math>(options_.math, context_.options().math) == Math::fp16 && !plan_.home_->is_cpu())
    plan_.graph_ = in_half_precision(plan_.graph_, context_);
  plan_.graph_.verify();
  if (!plan_.home_->host_memory() && options_.tuning != Tuning::off)
    builders_ = std::make_unique<Builders>(context_.catalog(), context_.interrupt());
  std::vector<std::unique_ptr<Variant>> list = variants();
  // Without measuring, the last one: the whole batch at once, unless that takes too much memory.
  if (options_.tuning == Tuning::off && !options_.memory_limit && options_.chains.empty())
    list.erase(list.begin(), list.end() - 1);
  for (size_t i = 0; i < list.size(); ++i) {
    const double share = std::max(1.0, remaining() / double(list.size() - i));
    prepare(*list[i], std::min(share, 1e8));
  }
  std::vector<Candidate> candidates;
  std::optional<Candidate> chained;
  if (options_.chains.empty()) {
    chained = composed(list, best_segments(list));
    for (std::unique_ptr<Variant>& variant : list) {
      Candidate candidate;
      candidate.parts.push_back(std::move(variant));
      candidate.chains = plan_.chains_of(candidate.parts);
      candidates.push_back(std::move(candidate));
    }
  } else {
    chained = composed(list, given_segments(list));
  }
  if (chained) candidates.insert(candidates.begin(), std::move(*chained));  // the last one is the simplest
  keep_within_memory(candidates);
  const bool choose = candidates.size() > 1 && options_.tuning != Tuning::off;
  if (!choose) candidates.erase(candidates.begin(), candidates.end() - 1);
  size_t best = 0;
  if (choose) {
    // All in turns once more, on the same data.
    for (int round = 0; round < 5; ++round)
      for (Candidate& candidate : candidates) {
        if (round == 0) run_candidate(candidate);
        candidate.totals.push_back(run_candidate(candidate));
      }
    for (size_t i = 1; i < candidates.size(); ++i)
      if (lower_quartile(candidates[i].totals) < lower_quartile(candidates[best].totals)) best = i;
    for (const Candidate& candidate : candidates)
      if (candidate.parts.size() > 1) plan_.trials_.push_back({candidate.name, lower_quartile(candidate.totals)});
  }
  plan_.adopt(std::move(candidates[best].parts));
  plan_.seconds_ = elapsed();
  report("done", 1);
}

}  // namespace pl
