#include "graph/plan.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>

#include "core/json.h"
#include "core/lanes.h"
#include "core/storage_numbers.h"
#include "core/threads.h"
#include "dispatch/measuring_time.h"
#include "dispatch/runner.h"
#include "graph/compiler.h"
#include "graph/live.h"
#include "graph/phases.h"
#include "graph/sizes.h"

namespace pl {
namespace {

// "2,layer3.0.conv1=8": from the beginning in slices of 2, from that node on in slices of 8.
std::vector<std::pair<std::string, int64_t>> parse_chains(const std::string& text) {
  std::vector<std::pair<std::string, int64_t>> result;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    const std::string item = text.substr(begin, comma - begin);
    begin = comma + 1;
    const size_t equals = item.rfind('=');
    const bool named = equals != std::string::npos;
    const std::string number = named ? item.substr(equals + 1) : item;
    int64_t slice = 0;
    const auto [end, problem] = std::from_chars(number.data(), number.data() + number.size(), slice);
    require(problem == std::errc() && end == number.data() + number.size() && slice > 0 && named == !result.empty() &&
                (!named || equals > 0),
            Code::invalid_argument, "compile: slice is \"", text,
            "\", expected a number, or a number and after it NODE=NUMBER for each node that begins another chain, "
            "separated by commas");
    result.emplace_back(named ? item.substr(0, equals) : std::string(), slice);
  }
  return result;
}

}  // namespace

PlanOptions PlanOptions::parse(const Attributes& attributes) {
  PlanOptions options;
  const auto text = [](const std::string& key, const AttributeValue& value) {
    const auto* found = std::get_if<std::string>(&value);
    require(found != nullptr, Code::invalid_argument, "compile: ", key, " is ", to_text(value), ", expected text");
    return *found;
  };
  const auto integer = [](const std::string& key, const AttributeValue& value, int64_t highest) {
    const auto* found = std::get_if<int64_t>(&value);
    require(found && *found >= 0 && *found <= highest, Code::invalid_argument, "compile: ", key, " is ", to_text(value),
            ", expected 0 to ", highest);
    return *found;
  };
  for (const auto& [name, value] : attributes) {
    const std::string key(name.text());
    if (key == "device") {
      options.device = text(key, value);
    } else if (key == "layout") {
      options.layout = text(key, value);
      if (options.layout != "auto") Layout::parse(options.layout);
    } else if (key == "threads") {
      options.threads = int(integer(key, value, 4096));
    } else if (key == "tune") {
      options.live = text(key, value) == "live";
      options.tuning =
          options.live ? Tuning::automatic : parse_tuning(text(key, value), "compile: tune", "auto, off, full or live");
    } else if (key == "seconds") {
      const auto* number = std::get_if<double>(&value);
      const auto* whole = std::get_if<int64_t>(&value);
      const double seconds = number ? *number : whole ? double(*whole) : -1;
      require(seconds >= 0 && std::isfinite(seconds), Code::invalid_argument, "compile: seconds is ", to_text(value),
              ", expected 0 (no limit) or more");
      options.seconds = seconds;
    } else if (key == "slice" && std::holds_alternative<std::string>(value)) {
      options.chains = parse_chains(std::get<std::string>(value));
    } else if (key == "slice") {
      options.slice = integer(key, value, int64_t(1) << 40);
    } else if (key == "streams") {
      options.streams = int(integer(key, value, 4096));
    } else if (key == "math") {
      options.math = parse_math(text(key, value));
    } else if (key == "submit") {
      const std::string who = text(key, value);
      require(who == "caller" || who == "thread", Code::invalid_argument, "compile: submit is \"", who,
              "\", expected caller or thread");
      options.submit_later = who == "thread";
    } else if (key == "memory_limit") {
      options.memory_limit = size_t(integer(key, value, int64_t(1) << 50));
    } else if (key == "program_memory") {
      options.program_memory = size_t(integer(key, value, int64_t(1) << 50));
    } else if (key == "simplify" || key == "deterministic") {
      const auto* flag = std::get_if<bool>(&value);
      require(flag != nullptr, Code::invalid_argument, "compile: ", key, " is ", to_text(value),
              ", expected true or false");
      (key == "simplify" ? options.simplify : options.deterministic) = *flag;
    } else if (key == "without") {
      // Names of passes, separated by commas; "widen", "strided_views" and "in_place" are no passes.
      std::string name;
      for (char c : text(key, value) + ",") {
        if (c != ',') {
          name += c;
          continue;
        }
        bool* const flag = name == "widen"           ? &options.widen
                           : name == "strided_views" ? &options.strided_views
                           : name == "in_place"      ? &options.in_place
                                                     : nullptr;
        if (flag) {
          *flag = false;
          name.clear();
        }
        if (name.empty()) continue;
        check_pass(name, "compile: without");
        options.without.push_back(name);
        name.clear();
      }
    } else {
      fail(Code::invalid_argument, "compile: there is no option \"", key,
           "\"; expected one of device, layout, threads, tune, seconds, slice, streams, math, memory_limit, "
           "program_memory, submit, deterministic, simplify, without");
    }
  }
  require(
      !options.live || !options.seconds, Code::invalid_argument, "compile: tune is \"live\" and seconds is ",
      options.seconds.value_or(0),
      ": seconds are for measuring before the first run, and tune=live measures nothing then; expected one of them");
  return options;
}

Plan::Plan() = default;
// A child that was forked leaves it as it is: threads of the parent's may have held its locks and those of the drivers
// beneath.
std::shared_ptr<Plan> Plan::make() {
  return std::shared_ptr<Plan>(new Plan(), [](Plan* plan) {
    if (is_forked_child()) return;
    const std::shared_ptr<Context> context = plan->context_;
    Device* home = plan->home_;
    const size_t cached = home ? home->memory().cached : 0;
    delete plan;
    // Its large blocks have sizes that hardly anything else asks for.
    constexpr size_t kLarge = size_t(16) << 20;
    if (home && home->memory().cached > cached + kLarge) home->release_cache();
  });
}

// Programs may be made just now on other threads, of what the plan has.
Plan::~Plan() {
  live_.reset();
  sizes_.reset();
}

Plan::BodyRef Plan::body() const {
  std::lock_guard<std::mutex> guard(changing_);
  return body_;
}

Graph Plan::snapshot() const {
  std::lock_guard<std::mutex> guard(changing_);
  return graph_;
}

bool Plan::settled() const { return !live_ || live_->settled(); }

void Plan::freeze() {
  if (live_ && !is_forked_child()) live_->freeze();
}

std::unique_ptr<Program> Plan::program_of(const Variant& variant, const Assignment& assignment) const {
  auto program = std::make_unique<Program>(*context_, variant.graph, variant.nodes, assignment, *home_, variant.threads,
                                           *conversions_, *constants_, options_.in_place, arenas_);
  program->submit_later(options_.submit_later);
  return program;
}

void Plan::extend(Graph other) {
  require(sizes_ != nullptr, Code::unsupported,
          "plan: its inputs have no named axes, so it serves the sizes of its graph only");
  sizes_->add(std::move(other));
}

void Plan::begin(bool named) {
  conversions_ = std::make_shared<Conversions>(*context_, context_->catalog(), context_->later_measuring());
  constants_ = std::make_shared<PackedConstants>(*context_);
  if (named) sizes_ = std::make_unique<Sizes>(*this);
  graph_.forget_rules();
}

std::shared_ptr<Plan> Plan::compile(std::shared_ptr<Context> context, const Graph& graph, const PlanOptions& options) {
  require(!graph.outputs().empty(), Code::invalid_argument, "compile: the graph has no outputs");
  const std::shared_ptr<Plan> plan = make();
  plan->context_ = std::move(context);
  plan->graph_ = graph;
  plan->options_ = options;
  plan->take_states();
  plan->begin(!graph.axes().empty());
  const MeasuringTime before = measuring_time();
  Compiler(*plan, options).compile();
  plan->measuring_seconds_ = measuring_time().seconds - before.seconds;
  plan->agreement_seconds_ = measuring_time().comparing - before.comparing;
  plan->place_states();
  plan->context_->trim_choices();
  plan->options_.progress = nullptr;
  return plan;
}

std::vector<const GraphInput*> Plan::inputs() const {
  std::vector<const GraphInput*> list;
  for (const GraphInput& input : graph_.inputs())
    if (input.kept < 0) list.push_back(&input);
  return list;
}

std::vector<const GraphOutput*> Plan::results() const {
  std::vector<const GraphOutput*> list;
  for (const GraphOutput& output : graph_.outputs())
    if (output.kept < 0) list.push_back(&output);
  return list;
}

// ---- kept values ----

// Copies of the graph, one for each program, would hold them as long as the plan lives.
void Plan::take_states() {
  for (size_t k = 0; k < graph_.kept().size(); ++k) states_.now.push_back(graph_.take_initial(k));
}

// From where they were given to the device.
void Plan::place_states() {
  for (size_t k = 0; k < states_.now.size(); ++k) {
    const TensorRef given =
        std::exchange(states_.now[k], Tensor::allocate(*home_, graph_.value(graph_.kept()[k].value).desc));
    context_->runner().convert_into(given, states_.now[k], "plan: state");
  }
  states_.next.resize(states_.now.size());
}

size_t Plan::kept_index(const std::string& name) const {
  const int32_t index = graph_.find_kept(name);
  if (index >= 0) return size_t(index);
  std::string names;
  for (const KeptValue& kept : graph_.kept()) names += (names.empty() ? "" : ", ") + graph_.value(kept.value).name;
  fail(Code::invalid_argument, "plan: there is no state \"", name, "\"; expected one of ",
       names.empty() ? "(none)" : names);
}

TensorRef Plan::copy_of_state(size_t kept) const {
  const TensorRef copy = Tensor::allocate(*home_, states_.now[kept]->desc());
  home_->copy(*states_.now[kept]->buffer(), 0, *copy->buffer(), 0, copy->desc().size_bytes());
  return copy;
}

TensorRef Plan::state(const std::string& name) {
  const size_t index = kept_index(name);
  std::lock_guard<std::mutex> guard(taking_turns_);
  return copy_of_state(index);
}

void Plan::set_state(const std::string& name, const TensorRef& value) {
  const size_t index = kept_index(name);
  std::lock_guard<std::mutex> guard(taking_turns_);
  const TensorDesc &given = value->desc(), &wanted = states_.now[index]->desc();
  require(given.shape == wanted.shape && given.dtype == wanted.dtype,
          given.dtype == wanted.dtype ? Code::shape : Code::invalid_argument, "plan: state \"", name, "\" is set to ",
          name_of(given.dtype), " ", given.shape, ", expected ", name_of(wanted.dtype), " ", wanted.shape);
  context_->runner().convert_into(value, states_.now[index], "plan: state " + name);
}

std::vector<TensorRef> Plan::run(const std::vector<TensorRef>& inputs, const std::vector<TensorRef>& destinations,
                                 Plan* other) {
  refuse_after_fork();
  if (!home_->traits().threads) return run_now(inputs, destinations, other);
  std::vector<TensorRef> results;
  const std::vector<StreamRef>& streams = current_streams();
  run_in_turn(threads_, [&] {
    const StreamsOf callers(streams);  // steps may be another device's
    results = run_now(inputs, destinations, other);
  });
  return results;
}

std::shared_ptr<Plan> Plan::at(const std::vector<int64_t>& sizes) {
  refuse_after_fork();
  if (!sizes_) {
    require(sizes.empty(), Code::invalid_argument, "plan: ", sizes.size(), " sizes given, but no axis has a name");
    return nullptr;
  }
  if (!home_->traits().threads) return sizes_->at(sizes);
  std::shared_ptr<Plan> made;
  run_in_turn(threads_, [&] { made = sizes_->at(sizes); });
  return made;
}

void Plan::check_count(size_t inputs) const {
  const size_t expected = graph_.inputs().size() - graph_.kept().size();
  if (inputs == expected) return;
  std::string names;
  for (const GraphInput* input : this->inputs())
    names += (names.empty() ? ": " : ", ") + graph_.value(input->value).name;
  fail(Code::invalid_argument, "plan: ", inputs, " inputs given, expected ", expected, names);
}

std::vector<TensorRef> Plan::run_now(const std::vector<TensorRef>& inputs, const std::vector<TensorRef>& destinations,
                                     Plan* other) {
  check_count(inputs.size());
  std::shared_ptr<Plan> found;
  if (sizes_ && !other) {
    if (auto results = sizes_->run_growing(inputs)) {
      deliver(*results, destinations);
      return *results;
    }
    if (sizes_->are_others(inputs)) other = (found = sizes_->at(inputs)).get();
  }
  std::unique_lock<std::mutex> turn(taking_turns_, std::defer_lock);
  if (!states_.now.empty()) turn.lock();
  std::vector<TensorRef> results = (other ? *other : *this).run_on(states_, inputs, destinations);
  if (turn.owns_lock()) turn.unlock();
  deliver(results, destinations);
  return results;
}

void Plan::deliver(std::vector<TensorRef>& results, const std::vector<TensorRef>& destinations) {
  const auto names = this->results();
  for (size_t i = 0; i < destinations.size() && i < results.size(); ++i) {
    if (!destinations[i]) continue;
    if (destinations[i] == results[i]) {
      results[i]->buffer()->touch();
    } else {
      // Where two results are wanted in one tensor, the last one is left there.
      if (std::find(destinations.begin() + long(i) + 1, destinations.end(), destinations[i]) == destinations.end())
        context_->runner().convert_into(results[i], destinations[i], "plan: output " + names[i]->name);
      results[i] = destinations[i];
    }
  }
}

// Inputs are converted where a program wants another form of them; `given` holds what runs read.
std::vector<External> Plan::place_inputs(const States& states, const std::vector<TensorRef>& inputs,
                                         std::vector<TensorRef>& given) const {
  std::vector<External> in;
  size_t next = 0;
  for (const GraphInput& wanted : graph_.inputs()) {
    if (wanted.kept >= 0) {
      in.push_back({states.now[size_t(wanted.kept)]->buffer().get(), 0});
      continue;
    }
    const Value& value = graph_.value(wanted.value);
    TensorRef tensor = inputs[next++];
    require(tensor != nullptr, Code::invalid_argument, "plan: input \"", value.name, "\" is missing");
    const TensorDesc& desc = tensor->desc();
    require(desc.shape == value.desc.shape, Code::shape, "plan: input \"", value.name, "\" has shape ", desc.shape,
            ", expected ", value.desc.shape);
    require(desc.dtype == value.desc.dtype, Code::invalid_argument, "plan: input \"", value.name, "\" is ",
            name_of(desc.dtype), ", expected ", name_of(value.desc.dtype));
    if (&tensor->device() != home_ || !same_memory(desc, value.desc))
      tensor = context_->runner().convert(tensor, *home_, value.desc, "activation", "plan: input " + value.name, false);
    in.push_back({tensor->buffer().get(), 0});
    given.push_back(std::move(tensor));
  }
  return in;
}

// The memory of a state's new value.
External Plan::place_update(States& states, size_t state, const TensorDesc& form, bool in_place) const {
  TensorRef& update = states.next[state];
  if (in_place) {
    update = nullptr;
    return {states.now[state]->buffer().get(), 0};
  }
  if (!update) update = Tensor::allocate(*home_, form);
  return {update->buffer().get(), 0};
}

std::vector<External> Plan::place_outputs(const Body& body, States& states, const std::vector<TensorRef>& destinations,
                                          const std::vector<External>& in, bool ends,
                                          std::vector<TensorRef>& results) const {
  results.clear();
  std::vector<External> out;
  StorageNumbers taken(in.size() + body.output_forms.size());  // hundreds of results, among hundreds of inputs
  uint32_t number = 0;
  for (const External& input : in) taken.add(input.buffer, number++);
  // Whether a result can be written where it is wanted: in this form, and where no other result lies and no input, but
  // one that it may be written over.
  const auto is_straight = [&](const Tensor& destination, const TensorDesc& form, size_t at) {
    if (&destination.device() != home_ || !same_memory(destination.desc(), form)) return false;
    const StorageNumbers::Storage* found = taken.find(destination.buffer().get());
    if (!found) return true;
    const std::vector<int>& over = body.may_lie_over[at];
    return ends && found->count == 1 && std::find(over.begin(), over.end(), int(found->first)) != over.end();
  };
  for (size_t at = 0; at < body.output_forms.size(); ++at) {
    const TensorDesc& form = body.output_forms[at];
    if (const int32_t state = graph_.outputs()[at].kept; state >= 0) {
      out.push_back(place_update(states, size_t(state), form, body.in_place[at]));
      continue;
    }
    const size_t i = results.size();
    TensorRef result;
    if (i < destinations.size() && destinations[i]) {
      const TensorDesc& target = destinations[i]->desc();
      require(target.shape == form.shape && target.dtype == form.dtype, Code::shape, "plan: output \"",
              graph_.outputs()[at].name, "\" is ", target, ", expected ", name_of(form.dtype), " ", form.shape);
      if (is_straight(*destinations[i], form, at)) result = destinations[i];
    }
    if (!result) result = Tensor::allocate(*home_, form);
    taken.add(result->buffer().get(), number++);
    out.push_back({result->buffer().get(), 0});
    results.push_back(std::move(result));
  }
  return out;
}

void Plan::take_updates(States& states) const {
  for (const GraphOutput& output : graph_.outputs()) {
    if (output.kept < 0) continue;
    TensorRef &now = states.now[size_t(output.kept)], &next = states.next[size_t(output.kept)];
    if (next) std::swap(now, next);
    now->buffer()->touch();
  }
}

std::vector<TensorRef> Plan::run_on(States& states, const std::vector<TensorRef>& inputs,
                                    const std::vector<TensorRef>& destinations) {
  std::vector<TensorRef> given, results;
  const std::vector<External> in = place_inputs(states, inputs, given);
  std::vector<External> out;
  if (live_) {
    live_->run([&](const Body& body, const RunTimes& times) {
      out = place_outputs(body, states, destinations, in, !times.overwrote, results);
      return body.chains->run(in, out, times);
    });
  } else {
    const BodyRef current = body();
    out = place_outputs(*current, states, destinations, in, true, results);
    current->chains->run(in, out);
  }
  take_updates(states);
  return results;
}

std::vector<Plan::TimedProgram> Plan::timed_programs() const {
  std::lock_guard<std::mutex> guard(changing_);
  return timed_;
}

// ---- saying why ----

std::string Plan::summary_json() const {
  int ops = 0, views = 0, in_place = 0, reorders = 0;
  double op_ms = 0, reorder_ms = 0, reorder_bytes = 0;
  int64_t slices = 1;
  int streams = 1;
  Assignment total;
  total.exact = true;
  const BodyRef current = body();
  const Memory memory = memory_now();
  for (const auto& part : current->parts) {
    for (size_t i = 0; i < part->nodes.size(); ++i) {
      const NodeStates& node = part->nodes[i];
      views += node.kind == NodeStates::Kind::view;
      in_place += node.kind == NodeStates::Kind::op && !node.states[size_t(part->assignment.states[i])].way;
    }
    slices = std::max(slices, slices_of(*part) + (part->rest != nullptr));
    streams = std::max(streams, part->streams);
    total.ms += part->assignment.ms;
    total.lower_bound += part->assignment.lower_bound;
    total.exact = total.exact && part->assignment.exact;
  }
  Json json;
  json.object().field("device", home_->name()).field("threads", threads_);
  json.field("slices", slices).field("streams", streams);
  json.key("chains").list();
  for (const auto& part : current->parts) {
    json.object().field("first", part->nodes.empty() ? std::string() : part->graph.node(0).name);
    json.field("nodes", int64_t(part->nodes.size())).field("slice", part->slice);
    json.field("slices", slices_of(*part) + (part->rest != nullptr))
        .field("last", part->rest ? part->rest->slice : part->slice);
    json.field("streams", part->streams).field("threads", part->threads).end();
  }
  json.end();
  json.key("steps").list();
  double phase_ms[3] = {};
  for (const auto& part : current->parts) {
    const std::vector<Phase> phases = phases_of(part->graph);
    for (const Program::Step& step : part->program->steps()) {
      const bool op = step.kind == Program::Step::Kind::op;
      const double bytes = step.outputs.empty() ? 0 : double(step.outputs[0].bytes);
      ops += op;
      reorders += !op;
      (op ? op_ms : reorder_ms) += step.expected_ms;
      if (!op) reorder_bytes += bytes;
      constexpr const char* kinds[] = {"op", "reorder", "transfer", "copy", "pack"};
      json.object().field("kind", std::string(kinds[int(step.kind)]));
      json.field("node", step.node < 0 ? std::string() : part->graph.node(size_t(step.node)).name);
      if (op) json.field("op", part->graph.node(size_t(step.node)).schema->name);
      if (step.way)
        json.field("provider", step.way->candidate.provider)
            .field("implementation", step.way->candidate.implementation);
      if (step.kind == Program::Step::Kind::pack)
        json.field("provider", step.provider).field("implementation", step.packing.form);
      json.key("inputs").list();
      for (size_t i = 0; i < step.input_descs.size(); ++i) {
        const TensorDesc& desc = step.input_descs[i];
        if (!desc.present) continue;
        // A reorder may change nothing but where elements lie: of a view, which has gaps or begins elsewhere.
        if (op)
          json.value(desc.layout.str(step.entry->op.schema->is_weights(int(i))));
        else
          json.value(desc.layout.str() + (desc.is_dense() ? "" : " view"));
      }
      json.end().key("outputs").list();
      for (const TensorDesc& desc : step.output_descs)
        if (desc.present) json.value(desc.layout.str() + (op || desc.is_dense() ? "" : " view"));
      json.end();
      if (!phases.empty() && step.node >= 0) {
        const Phase phase = phases[size_t(step.node)];
        phase_ms[int(phase)] += step.expected_ms;
        json.field("phase", std::string(name_of(phase)));
      }
      json.field("cause", step.cause).field("bytes", bytes).field("ms", step.expected_ms).end();
    }
  }
  json.end().key("phases").object();
  if (!phases_of(graph_).empty())
    for (Phase phase : {Phase::forward, Phase::backward, Phase::update})
      json.field(name_of(phase), phase_ms[int(phase)]);
  json.end();
  json.field("ops", ops).field("views", views).field("concats_in_place", in_place);
  json.key("reorders").object().field("count", reorders).field("bytes", reorder_bytes).field("ms", reorder_ms).end();
  json.field("op_ms", op_ms).field("expected_ms", total.ms);
  json.field("lower_bound_ms", total.lower_bound).field("exact", total.exact);
  json.key("memory").object();
  json.field("arena_bytes", memory.arena_bytes).field("lower_bound_bytes", memory.lower_bound);
  json.field("constant_bytes", memory.constants.bytes()).field("state_bytes", memory.state_bytes);
  json.field("bytes", memory.bytes()).end();
  const Again again = made_again_in(*current);
  json.key("made_again").object().field("ops", again.ops).field("ms", again.ms).end();
  json.key("choices");
  write_choices(json, *current);
  json.key("tuning").object().field(
      "state", live_ ? live_->state() : std::string(options_.deterministic ? "pinned" : "settled"));
  json.field("tried", live_ ? live_->tried() : 0).field("spent_ms", live_ ? live_->spent_ms() : 0.0);
  json.field("measuring_seconds", measuring_seconds_).field("agreement_seconds", agreement_seconds_).end();
  json.key("contestants").list();
  for (const TimedProgram& timed : timed_programs())
    json.object().field("name", timed.name).field("ms", timed.ms).end();
  json.end().key("widened").list();
  for (DType dtype : widened_)
    json.object().field("dtype", std::string(name_of(dtype))).field("why", why_widened(dtype)).end();
  json.end().key("passes").object();
  for (const PassReport& pass : passes_) json.field(pass.name, pass.rewrites);
  json.end();
  if (sizes_) sizes_->describe(json);
  json.field("recalled", recalled_).field("seconds", seconds_).field("packing_seconds", packing_seconds_).end();
  return json.str();
}

}  // namespace pl
