#include "graph/compiler.h"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <limits>
#include <set>

#include "core/threads.h"
#include "graph/batch.h"

namespace pl {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kRefinements = 3;  // times that layouts are assigned again with times taken within programs

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
}

double Plan::Compiler::elapsed() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
}

double Plan::Compiler::remaining() const { return options_.seconds > 0 ? options_.seconds - elapsed() : 1e9; }

// ---- running ----

void run_slices(Program& program, int64_t slices, int streams, const std::vector<External>& inputs,
                const std::vector<External>& outputs, const std::vector<size_t>& input_bytes,
                const std::vector<size_t>& output_bytes, std::vector<double>* step_ms) {
  if (slices == 1) {
    program.run(inputs.data(), outputs.data(), step_ms);
    return;
  }
  const auto run = [&](int64_t first, int64_t last, std::vector<double>* ms) {
    std::vector<External> in = inputs, out = outputs;
    for (int64_t slice = first; slice < last; ++slice) {
      for (size_t i = 0; i < in.size(); ++i) in[i].offset = inputs[i].offset + size_t(slice) * input_bytes[i];
      for (size_t i = 0; i < out.size(); ++i) out[i].offset = outputs[i].offset + size_t(slice) * output_bytes[i];
      program.run(in.data(), out.data(), ms);
    }
  };
  if (streams == 1) {
    run(0, slices, step_ms);
    return;
  }
  std::exception_ptr problem;
  use_threads(streams);
#pragma omp parallel num_threads(streams)
  {
    const int64_t stream = omp_get_thread_num(), count = omp_get_num_threads();
    try {
      run(slices * stream / count, slices * (stream + 1) / count, stream == 0 ? step_ms : nullptr);
    } catch (...) {
#pragma omp critical(pl_stream_problem)
      if (!problem) problem = std::current_exception();
    }
  }
  if (problem) std::rethrow_exception(problem);
}

void Plan::execute(const std::vector<External>& inputs, const std::vector<External>& outputs) const {
  run_slices(*chosen_->program, slices_, chosen_->streams, inputs, outputs, input_bytes_, output_bytes_, nullptr);
}

double Plan::Compiler::run_once(Variant& variant, Program& program, std::vector<double>* step_ms) {
  const int64_t slices = slices_of(variant);
  provide_data(program, slices);
  std::vector<size_t> in, out;
  for (const TensorDesc& desc : program.inputs()) in.push_back(desc.size_bytes());
  for (const TensorDesc& desc : program.outputs()) out.push_back(desc.size_bytes());
  const auto start = std::chrono::steady_clock::now();
  run_slices(program, slices, variant.streams, inputs_, outputs_, in, out, step_ms);
  plan_.home_->synchronize();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

// Memory for the whole batch, for every program of every variant; they differ in it only where a layout pads.
void Plan::Compiler::provide_data(const Program& program, int64_t slices) {
  Device& home = *plan_.home_;
  const auto provide = [&](std::vector<External>& list, const std::vector<TensorDesc>& descs, bool fill) {
    list.resize(descs.size());
    for (size_t i = 0; i < descs.size(); ++i) {
      const size_t bytes = std::max<size_t>(1, descs[i].size_bytes() * size_t(slices));
      if (list[i].buffer && list[i].buffer->bytes() >= bytes) continue;
      data_.push_back(home.allocate(bytes));
      list[i] = {data_.back().get(), 0};
      if (!fill) continue;
      std::vector<char> values(data_.back()->bytes(), 0);
      if (descs[i].dtype == DType::f32)
        for (size_t k = 0; k + 4 <= values.size(); k += 4) {
          // A sawtooth between -1 and 1, different from place to place.
          const float value = float(int((k / 4) * 7919 % 2001) - 1000) * 1e-3f;
          std::memcpy(values.data() + k, &value, 4);
        }
      home.write(*data_.back(), 0, values.data(), values.size());
    }
  };
  provide(inputs_, program.inputs(), true);
  provide(outputs_, program.outputs(), false);
}

// ---- measuring ops and assigning layouts ----

void Plan::Compiler::measure_ops(Variant& variant, double seconds) {
  if (options_.tuning == Tuning::off) return;
  Catalog& catalog = context_.catalog();
  // The dearest first, in case the time runs out.
  std::map<Entry*, int> counts;
  for (const NodeStates& node : variant.nodes) {
    std::set<Entry*> entries;
    for (const State& state : node.states)
      if (state.entry) entries.insert(state.entry.get());
    for (Entry* entry : entries) ++counts[entry];
  }
  std::vector<std::pair<double, Entry*>> order;
  for (const auto& [entry, count] : counts) order.emplace_back(catalog.best_ms(*entry).value_or(0) * count, entry);
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second->text < b.second->text;
  });
  const double end = elapsed() + seconds;
  for (size_t i = 0; i < order.size(); ++i) {
    report("measuring ops", double(i) / double(order.size()));
    const double left = end - elapsed();
    if (left <= 0) break;
    catalog.measure(*order[i].second, options_.tuning, left);
  }
  refresh_costs(variant.nodes);
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
  Contender contender;
  contender.name = name;
  contender.program = std::make_unique<Program>(context_, variant.graph, variant.nodes, assignment, *plan_.home_,
                                                variant.threads, *plan_.conversions_, constants_);
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
      if (!seen[s] && node.states[s].way) node.states[s].ms = node.states[s].way->ms * ratio;
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
  variant.assignment = std::move(list[best].assignment);
  variant.program = std::move(list[best].program);
}

void Plan::Compiler::prepare(Variant& variant, double seconds) {
  StateOptions states;
  states.device = plan_.home_;
  states.threads = variant.threads;
  states.math = options_.math;
  states.share_cpu = variant.threads >= available_processors();
  variant.nodes = list_states(variant.graph, context_, states);
  variant.costs = std::make_unique<ConversionCosts>(*plan_.conversions_, variant.threads);
  if (options_.layout != "auto") {
    variant.nodes = restricted_to(variant.nodes, Layout::parse(options_.layout));
    measure_ops(variant, seconds);
    variant.assignment = settle(variant, variant.nodes, true);
    variant.program = std::make_unique<Program>(context_, variant.graph, variant.nodes, variant.assignment,
                                                *plan_.home_, variant.threads, *plan_.conversions_, constants_);
    return;
  }
  measure_ops(variant, seconds * 0.7);
  contest(variant, 0.3 * seconds);
}

// ---- variants ----

void Plan::adopt(std::unique_ptr<Variant> variant) {
  chosen_ = std::move(variant);
  const Program& program = *chosen_->program;
  slices_ = chosen_->slice ? graph_.value(graph_.inputs()[0].value).desc.shape[0] / chosen_->slice : 1;
  for (const TensorDesc& desc : program.inputs()) input_bytes_.push_back(desc.size_bytes());
  for (const TensorDesc& desc : program.outputs()) output_bytes_.push_back(desc.size_bytes());
  // From here on the packed constants serve; the originals are let go.
  std::map<std::string, TensorRef> by_name;
  for (const auto& [id, tensor] : program.constants()) {
    by_name[chosen_->graph.value(id).name] = tensor;
    chosen_->graph.replace_constant(id, tensor);
  }
  for (size_t i = 0; i < graph_.values().size(); ++i)
    if (const auto it = by_name.find(graph_.values()[i].name); graph_.is_constant(ValueId(i)) && it != by_name.end())
      graph_.replace_constant(ValueId(i), it->second);
}

int64_t Plan::Compiler::slices_of(const Variant& variant) const {
  return variant.slice ? plan_.graph_.value(plan_.graph_.inputs()[0].value).desc.shape[0] / variant.slice : 1;
}

std::string Plan::Compiler::name_of(const Variant& variant) const {
  if (!variant.slice) return "";
  return concat(" in slices of ", variant.slice, ", ", variant.streams, " at a time");
}

std::vector<std::unique_ptr<Plan::Variant>> Plan::Compiler::variants() {
  std::vector<std::unique_ptr<Variant>> list;
  const auto add = [&](int64_t slice, int streams, int threads) {
    auto variant = std::make_unique<Variant>();
    variant->slice = slice;
    variant->streams = streams;
    variant->threads = threads;
    variant->graph = slice ? with_batch(plan_.graph_, slice) : plan_.graph_;
    list.push_back(std::move(variant));
  };
  const std::optional<int64_t> batch = plan_.home_->is_cpu() ? batch_of(plan_.graph_) : std::nullopt;
  const int threads = plan_.threads_;
  const bool may_cut = batch && *batch > 1;
  if (options_.slice || options_.streams) {
    require(may_cut || (batch && options_.slice <= *batch && options_.streams <= 1), Code::unsupported,
            "compile: slice and streams are given, but this graph's images cannot be run apart on ",
            plan_.home_->name());
  }
  if (!may_cut) {
    add(0, 1, threads);
    return list;
  }
  if (options_.slice || options_.streams) {
    const int64_t slice = options_.slice ? options_.slice : 1;
    const int streams = options_.streams ? options_.streams : 1;
    require(*batch % slice == 0, Code::invalid_argument, "compile: slice is ", slice, ", expected a divisor of ",
            *batch, " (the batch)");
    require(streams <= threads && *batch / slice % streams == 0, Code::invalid_argument, "compile: streams is ",
            streams, ", expected at most ", threads, " (threads) and a divisor of ", *batch / slice, " (slices)");
    add(slice, streams, threads / streams);
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
  for (const auto& device : context_.devices()) {
    const auto properties = device->properties();
    const auto type = properties.find("type");
    if (type != properties.end() && type->second == "gpu") return *device;
  }
  return context_.device("cpu");
}

// Leaves out the variants whose arenas are larger than the limit.
void Plan::Compiler::keep_within_memory(std::vector<std::unique_ptr<Variant>>& list) const {
  if (!options_.memory_limit) return;
  const auto bytes = [](const Variant& variant) {
    return variant.program->memory().arena_bytes * size_t(variant.streams);
  };
  size_t least = SIZE_MAX;
  for (const auto& variant : list) least = std::min(least, bytes(*variant));
  require(least <= options_.memory_limit, Code::out_of_memory, "compile: memory_limit is ", options_.memory_limit,
          " bytes, the least that this graph can be run in here is ", least);
  list.erase(std::remove_if(list.begin(), list.end(),
                            [&](const auto& variant) { return bytes(*variant) > options_.memory_limit; }),
             list.end());
}

void Plan::Compiler::compile() {
  plan_.home_ = &choose_home();
  plan_.threads_ = options_.threads ? options_.threads : int(context_.options().threads);
  if (options_.simplify) {
    report("simplifying", 0);
    plan_.passes_ = simplify(plan_.graph_, context_, options_.without);
  }
  plan_.graph_.verify();
  std::vector<std::unique_ptr<Variant>> list = variants();
  // Without measuring, the last one: the whole batch at once, unless that takes too much memory.
  if (options_.tuning == Tuning::off && !options_.memory_limit) list.erase(list.begin(), list.end() - 1);
  for (size_t i = 0; i < list.size(); ++i) {
    const double share = std::max(1.0, remaining() / double(list.size() - i));
    prepare(*list[i], std::min(share, 1e8));
  }
  keep_within_memory(list);
  const bool choose = list.size() > 1 && options_.tuning != Tuning::off;
  if (!choose) list.erase(list.begin(), list.end() - 1);
  size_t best = 0;
  if (choose) {
    // All variants in turns once more, on the same data.
    std::vector<std::vector<double>> totals(list.size());
    for (int round = 0; round < 5; ++round)
      for (size_t i = 0; i < list.size(); ++i) {
        if (round == 0) run_once(*list[i], *list[i]->program, nullptr);
        totals[i].push_back(run_once(*list[i], *list[i]->program, nullptr));
      }
    for (size_t i = 1; i < list.size(); ++i)
      if (lower_quartile(totals[i]) < lower_quartile(totals[best])) best = i;
  }
  plan_.adopt(std::move(list[best]));
  plan_.seconds_ = elapsed();
  report("done", 1);
}

}  // namespace pl
