#include "graph/live_at_once.h"

#include <algorithm>

#include "core/clock.h"
#include "core/interrupt.h"
#include "dispatch/catalog.h"
#include "profile/profile.h"

namespace pl {
namespace {

constexpr double kMegabyte = 1 << 20;
constexpr size_t kFirstRuns = 4;        // of the plan's own before anything is tried; the first one touches memory
constexpr size_t kMostSamples = 32;     // of the plan's own runs that are kept
constexpr size_t kTurns = 8;            // of a challenger, after which it has won or lost
constexpr size_t kEarlyTurns = 5;       // after which it has, where the difference is plain
constexpr double kPlain = 0.05;         // such a difference
constexpr double kHopelessLive = 1.25;  // times the plan's: lost after two turns
constexpr double kBehind = 1.06;        // the same after four
constexpr double kNearLoss = 1.15;      // a way of cutting the batch that is no further behind is tried once more
constexpr double kUnpromising = 1.6;    // times the plan's, by costs: a uniform layout is not tried
constexpr double kMostRescued = 1.5;  // times what was chosen, by costs: an implementation is not tried among siblings
constexpr int kMostAssigned = 12, kMostSiblings = 6;
constexpr double kMostOfARun = 0.6;  // what a chore may take, in parts of the plan's run
constexpr double kMostOfAComparison = 0.9;
constexpr double kAlwaysMs = 2;      // or that much
constexpr double kWorkInARun = 0.3;  // what chores of one run take together, in parts of it
constexpr int kUndisturbed = 2;      // of three runs, by challengers and chores: medians stay the plan's own
constexpr double kLeaveEarly = 0.1;  // of the plan's run: so much less than twice its time is too much already
constexpr size_t kRecordsAtATime = 8;
constexpr double kNews = 0.1;  // a time that differs by less is not recorded again

}  // namespace

Plan::LiveAtOnce::LiveAtOnce(Plan& plan, std::vector<Cut> others) : Live(plan) {
  const Body& body = *plan.body();
  const auto add_idea = [&](Idea::Kind kind) {
    Idea idea;
    idea.kind = kind;
    ideas_.push_back(idea);
  };
  const bool whole = body.parts.size() == 1 && !body.parts[0]->rest;
  if (!whole) {  // of an earlier compilation, cut into chains: nothing is known to compete with it
    settle(End::none);
    return;
  }
  const Variant& part = *body.parts[0];
  auto field = std::make_unique<Field>();
  field->variant = plan.variant_of(part.slice, part.streams, part.threads);
  field->variant->nodes = part.nodes;
  field->variant->costs = std::make_unique<ConversionCosts>(*plan.conversions_, part.threads);
  own_ = first_ = part.assignment;
  field->tried.push_back(own_.states);
  fields_.push_back(std::move(field));
  assign_ms_ = std::max(1.0, plan.assigning_ms_);
  list_ms_ = std::max(1.0, plan.listing_ms_);
  add_idea(Idea::Kind::assign);
  if (plan.options_.layout == "auto")
    for (const char* layout : kUniformLayouts) {
      add_idea(Idea::Kind::uniform);
      ideas_.back().layout = layout;
    }
  add_idea(Idea::Kind::siblings);
  add_idea(Idea::Kind::more_reorders);
  for (const Cut& cut : others) {
    add_idea(Idea::Kind::cut);
    ideas_.back().cut = cut;
  }
  add_idea(Idea::Kind::first);
}

Plan::LiveAtOnce::~LiveAtOnce() = default;

double Plan::LiveAtOnce::usual_ms() const {
  std::vector<double> totals = own_times_.totals;
  if (totals.empty()) return 0;
  const auto middle = totals.begin() + long(totals.size() / 2);
  std::nth_element(totals.begin(), middle, totals.end());
  return *middle;
}

// ---- runs ----

void Plan::LiveAtOnce::run(const Go& go) {
  std::unique_lock<std::mutex> turn(lock_, std::defer_lock);
  if (settled() || plan_.context_->profile().active() || !turn.try_lock() || settled()) {
    go(*plan_.body(), {});
    return;
  }
  plan_.context_->note_live_run();
  const BodyRef own = plan_.body();
  if (challenger_ && challenger_->body && undisturbed_ >= kUndisturbed && expected_regret(*challenger_) <= credit()) {
    undisturbed_ = 0;
    run_challenger(go, *own);
    return;
  }
  run_own(go, *own);
  if (++undisturbed_ <= kUndisturbed || (challenger_ && challenger_->body)) return;
  undisturbed_ = 0;
  behind_run([&] { work(); });
}

template <class Work>
void Plan::LiveAtOnce::behind_run(const Work& work) {
  const Interrupt::Unasked unasked;
  try {
    work();
  } catch (const Interrupted&) {     // the process ends
  } catch (const std::exception&) {  // no memory for a challenger, say: what runs goes on
    finish(End::failed);
  }
}

void Plan::LiveAtOnce::run_own(const Go& go, const Body& own) {
  std::vector<double> step_ms;
  const double start = now_ms();
  go(own, {&step_ms});
  const double total = now_ms() - start;
  ran_ms_ = ran_ms_ + total;
  if (++runs_ == 1) return;
  if (own_times_.totals.size() >= kMostSamples) own_times_.forget(kMostSamples / 2);
  own_times_.add(total, step_ms);
  if (challenger_ && challenger_->warm) challenger_->rival.add(total, step_ms);
}

// A run that will take over twice the plan's time is left where what is left of it takes longer than a run of the plan.
void Plan::LiveAtOnce::run_challenger(const Go& go, const Body& own) {
  Challenger& it = *challenger_;
  const double usual = usual_ms();
  const GoOn watch = [&](size_t done, double ms) {
    if (ms < usual / 2) return true;
    const double all = ms / std::max(1e-3, it.share[done - 1]);
    return all <= (2 - kLeaveEarly) * usual || all - ms <= usual;
  };
  std::vector<double> step_ms;
  const double start = now_ms();
  bool finished = false, overwrote = false;
  std::exception_ptr error;
  try {
    finished = go(*it.body, {&step_ms, it.share.empty() ? nullptr : &watch, nullptr, &overwrote});
  } catch (const Error&) {
    error = std::current_exception();
  }
  double total = now_ms() - start;
  if (finished) {
    if (it.warm) it.times.add(total, step_ms);
    it.warm = true;
  } else if (!overwrote) {
    it.times.add_steps(step_ms);
    ++it.left;
    go(own, {});
    total = now_ms() - start;
  }
  ran_ms_ = ran_ms_ + std::min(total, usual);
  // One that was faster pays back: of runs that were merely disturbed, half are so.
  spent_ms_ = std::max(0.0, spent_ms_ + total - usual);
  behind_run([&] { error ? give_up() : judge(); });
  if (error && overwrote) std::rethrow_exception(error);
}

// What the challenger's next run will take longer than the plan's.
double Plan::LiveAtOnce::expected_regret(const Challenger& challenger) const {
  const double usual = usual_ms();
  double ratio = challenger.assignment.ms / std::max(1e-6, own_times_.ms());
  if (!challenger.times.totals.empty()) ratio = least_of(challenger.times.totals) / usual;
  if (challenger.left) ratio = 2;
  return usual * std::clamp(ratio - 1, 0.02, 0.9);
}

void Plan::LiveAtOnce::judge() {
  const Challenger& it = *challenger_;
  if (it.left >= 2) return conclude(false);
  const size_t turns = std::min(it.times.totals.size(), it.rival.totals.size());
  if (turns < 2) return;
  // Steps of slices are those of one slice, of which another way of cutting has another number.
  const bool alike = it.field == fields_[own_field_].get();
  const double mine = alike ? it.times.ms() : typical(it.times.totals);
  const double theirs = alike ? it.rival.ms() : typical(it.rival.totals);
  const double least =
      (alike ? it.times.least() : least_of(it.times.totals)) / (alike ? it.rival.least() : least_of(it.rival.totals));
  if (least > kHopelessLive || (turns >= 4 && least > kBehind && mine > kBehind * theirs)) return conclude(false);
  if (turns >= kEarlyTurns && mine < (1 - kPlain) * theirs) return conclude(true);
  if (turns < kTurns) return;
  conclude(mine < (it.first ? 1 : 1 - kGain) * theirs);
}

void Plan::LiveAtOnce::conclude(bool won) {
  const std::unique_ptr<Challenger> it = std::move(challenger_);
  ++tried_;
  Field& field = *it->field;
  const Program& program = program_of(*it->body);
  field.lessons.add(program, it->assignment, it->times);
  note_costs(program, it->times);
  {
    std::lock_guard<std::mutex> guard(plan_.changing_);
    if (plan_.timed_.empty()) plan_.timed_.push_back({"untuned", typical(own_times_.totals)});
    if (!it->times.totals.empty()) plan_.timed_.push_back({it->name, typical(it->times.totals)});
  }
  const size_t number =
      size_t(std::find_if(fields_.begin(), fields_.end(), [&](const auto& known) { return known.get() == it->field; }) -
             fields_.begin());
  const bool other_cut = number != own_field_;
  const bool near = !it->times.totals.empty() && !it->rival.totals.empty() &&
                    typical(it->times.totals) < kNearLoss * typical(it->rival.totals);
  if (won) {
    learn();
    plan_.adopt(it->body);
    own_field_ = number;
    own_ = it->assignment;
    own_times_ = it->times;
    ++won_;
    add_chore(&record_ms_, 1, [this] { plan_.remember_live(false); });
  }
  it->body = nullptr;
  plan_.constants_->release_unused();
  if (won || !other_cut || near) {
    const bool again = !ideas_.empty() && ideas_.front().kind == Idea::Kind::assign && ideas_.front().field == number;
    Idea idea;
    idea.field = number;
    if (!again && assigned_++ < kMostAssigned && (!other_cut || won || field.tried.size() < 3)) ideas_.push_front(idea);
  }
}

// The challenger cannot be made, or failed.
void Plan::LiveAtOnce::give_up() {
  ++tried_;
  challenger_ = nullptr;
  const auto of_it = [&](const Chore& chore) { return chore.learned_ms != &record_ms_; };
  chores_.erase(std::remove_if(chores_.begin(), chores_.end(), of_it), chores_.end());
  plan_.constants_->release_unused();
}

// ---- chores ----

void Plan::LiveAtOnce::add_chore(double* learned_ms, double scale, std::function<void()> work) {
  chores_.push_back({*learned_ms * scale, std::move(work), learned_ms, scale});
}

void Plan::LiveAtOnce::work() {
  if (own_times_.totals.size() < kFirstRuns) return;
  double left_ms = kWorkInARun * usual_ms();
  while (!settled()) {
    if (!chores_.empty()) {
      if (!do_chore(left_ms)) return;
    } else if (challenger_) {
      return;  // its runs are awaited
    } else if (!next_idea()) {
      finish(End::found);
    }
  }
}

// False: not now.
bool Plan::LiveAtOnce::do_chore(double& left_ms) {
  const double usual = usual_ms();
  const Chore& next = chores_.front();
  const double expected = *next.learned_ms * next.scale;
  const bool compares = next.learned_ms == &compare_ms_;  // cannot be cut, and nothing new runs without it
  if (expected > std::max((compares ? kMostOfAComparison : kMostOfARun) * usual, kAlwaysMs)) {
    *next.learned_ms *= 0.9;  // it may have been a disturbed one
    const bool record = next.learned_ms == &record_ms_;
    chores_.pop_front();
    if (challenger_ && !record) give_up();
    return true;
  }
  // The first one of a run may take more than several together.
  const bool first = left_ms >= kWorkInARun * usual;
  if (expected > credit() || (!first && expected > left_ms)) return false;
  const Chore chore = std::move(chores_.front());
  chores_.pop_front();
  const double start = thread_ms();
  chore.work();
  const double took = thread_ms() - start;
  spent_ms_ = spent_ms_ + took;
  left_ms -= took;
  if (chore.scale > 0) {
    double& learned = *chore.learned_ms;
    const double growth = compares ? 1.5 : 4;  // the first ones of those touch memory that later ones find touched
    learned = std::max(0.75 * learned, std::min(took / chore.scale, growth * learned));
  }
  return true;
}

bool Plan::LiveAtOnce::next_idea() {
  if (ideas_.empty()) return false;
  const Idea idea = ideas_.front();
  ideas_.pop_front();
  const bool lists = idea.kind == Idea::Kind::cut;
  add_chore(lists ? &list_ms_ : &assign_ms_, 1, [this, idea] { pursue(idea); });
  return true;
}

void Plan::LiveAtOnce::learn() {
  const BodyRef own = plan_.body();
  const Program& program = program_of(*own);
  fields_[own_field_]->lessons.add(program, own_, own_times_);
  note_costs(program, own_times_);
}

void Plan::LiveAtOnce::pursue(const Idea& idea) {
  if (idea.kind == Idea::Kind::cut) return open_cut(idea.cut);
  Field& field = *fields_[idea.kind == Idea::Kind::assign ? idea.field : own_field_];
  learn();
  std::vector<NodeStates>& nodes = field.variant->nodes;
  ConversionCosts& costs = *field.variant->costs;
  Device& home = *plan_.home_;
  field.lessons.apply(nodes, costs);
  for (NodeStates& node : nodes)
    for (State& state : node.states)
      if (state.way && !state.way->usable) state.ms = 1e9;
  const bool owns = &field == fields_[own_field_].get();
  const double own_ms = own_times_.ms();
  switch (idea.kind) {
    case Idea::Kind::assign:
    case Idea::Kind::more_reorders: {
      const double noise = idea.kind == Idea::Kind::assign ? kNoise : 0;
      Assignment found = assign(field.variant->graph, nodes, home, costs, PbqpLimits{}, noise);
      if (!owns || found.ms < (1 - kGain) * own_ms)
        challenge(field, noise ? "auto" : "more reorders", std::move(found));
      break;
    }
    case Idea::Kind::uniform: {
      const std::vector<NodeStates> only = mostly_in(nodes, Layout::parse(idea.layout));
      const Assignment found = assign(field.variant->graph, only, home, costs, PbqpLimits{}, 0);
      if (found.ms < kUnpromising * own_ms) challenge(field, idea.layout, translated(found, only, nodes));
      break;
    }
    case Idea::Kind::siblings:
      if (siblings_++ < kMostSiblings && challenge(field, "other implementations", siblings_of(field, own_)))
        ideas_.push_front(idea);
      break;
    case Idea::Kind::first:
      if (won_) {
        std::vector<std::vector<int>>& tried = fields_[0]->tried;
        tried.erase(std::remove(tried.begin(), tried.end(), first_.states), tried.end());
        const bool back = own_field_ != 0 || own_.states != first_.states;
        if (back && challenge(*fields_[0], "untuned", first_)) challenger_->first = true;
      }
      break;
    case Idea::Kind::cut: break;
  }
}

bool Plan::LiveAtOnce::challenge(Field& field, const std::string& name, Assignment assignment) {
  const auto& states = assignment.states;
  if (std::find(states.begin(), states.end(), -1) != states.end()) return false;
  if (std::find(field.tried.begin(), field.tried.end(), states) != field.tried.end()) return false;
  field.tried.push_back(states);
  if (!plan_.has_room_for(*field.variant, assignment)) return false;
  challenger_ = std::make_unique<Challenger>();
  challenger_->field = &field;
  challenger_->name = name;
  challenger_->assignment = std::move(assignment);
  add_chores(*field.variant, challenger_->assignment);
  if (const Variant* rest = field.variant->rest.get()) add_chores(*rest, rest->assignment);
  add_chore(&build_ms_, 1, [this] { build_challenger(); });
  return true;
}

// Kernels and packed constants, one by one, as Lowering will ask for them.
void Plan::LiveAtOnce::add_chores(const Variant& variant, const Assignment& assignment) {
  const Graph& graph = variant.graph;
  const std::vector<NodeStates>& nodes = variant.nodes;
  Catalog& catalog = plan_.context_->catalog();
  std::set<const Way*> prepared;
  std::map<const Entry*, Way*> used;  // by the plan
  const std::vector<NodeStates>& own = fields_[own_field_]->variant->nodes;
  for (size_t n = 0; n < own.size(); ++n) {
    const State& state = own[n].states[size_t(own_.states[n])];
    if (state.way) used[state.entry.get()] = state.way;
  }
  const auto compare = [&](const EntryRef& entry, Way* way) {
    double bytes = kMegabyte / 2;  // what there is to do beside writing inputs
    for (const TensorDesc& desc : way->candidate.inputs) bytes += desc.present ? double(desc.size_bytes()) : 0;
    add_chore(&compare_ms_, bytes / kMegabyte, [this, &catalog, entry, way] {
      if (!catalog.compare(*entry, *way)) give_up();
    });
  };
  const auto prepare = [&](const EntryRef& entry, Way* way) {
    const auto known = used.find(entry.get());
    Way* other = known == used.end() ? nullptr : known->second;  // whose result the way's is held against at first
    bool made = false, compared = false, first = false;
    {
      std::lock_guard<std::mutex> guard(entry->lock);
      if (!prepared.insert(way).second) return;
      for (Way& each : entry->ways)
        if (known == used.end() && each.usable && &each != way && (!other || each.ms < other->ms)) other = &each;
      made = way->kernel != nullptr;
      compared = way->agrees || way == other;
      first = other && entry->agreed.weight == 0;
    }
    if (!made)
      add_chore(&kernel_ms_, 1, [this, &catalog, entry, way] {
        if (!catalog.kernel(*entry, *way)) give_up();
      });
    if (compared) return;
    if (first && prepared.insert(other).second) compare(entry, other);
    compare(entry, way);
  };
  for (size_t n = 0; n < nodes.size(); ++n) {
    const Node& node = graph.node(n);
    const State& state = nodes[n].states[size_t(assignment.states[n])];
    if (state.way) prepare(state.entry, state.way);
    Device* device = nodes[n].device;
    for (size_t k = 0; k < state.inputs.size() && k < node.inputs.size(); ++k) {
      const ValueId value = node.inputs[k];
      if (value == kNoValue || !state.inputs[k].present || !graph.is_constant(value)) continue;
      const std::string cause = node.name;
      if (const Packing* packing = state.way ? state.way->candidate.packing_of(int(k)) : nullptr) {
        const Candidate& candidate = state.way->candidate;
        if (plan_.constants_->has_packed(graph, value, candidate, *packing, *device)) continue;
        add_chore(&pack_ms_, double(packing->bytes) / kMegabyte,
                  [this, &graph, value, &candidate, packing, device, cause] {
                    plan_.constants_->packed(graph, value, candidate, *packing, *device, cause);
                  });
      } else {
        const TensorDesc wanted = state.inputs[k];
        if (plan_.constants_->has_tensor(graph, value, wanted, *device)) continue;
        add_chore(&pack_ms_, double(wanted.size_bytes()) / kMegabyte, [this, &graph, value, wanted, device, cause] {
          plan_.constants_->tensor(graph, value, wanted, *device, cause);
        });
      }
    }
  }
  for (const Use& use : conversions_of(graph, nodes, *plan_.home_, assignment)) {
    const Conversion path =
        plan_.conversions_->plan(use.given, *use.source, use.wanted, *use.target, ReorderCosts::known, variant.threads);
    for (const ConversionStep& step : path.steps) {
      if (step.kind != ConversionStep::Kind::reorder) continue;
      Way* best = nullptr;
      for (Way& way : step.entry->ways)
        if (way.usable && (!best || way.ms < best->ms)) best = &way;
      if (best) prepare(step.entry, best);
    }
  }
}

void Plan::LiveAtOnce::build_challenger() {
  Challenger& it = *challenger_;
  Variant& variant = *it.field->variant;
  variant.assignment = it.assignment;
  std::map<Maker, Layout> layouts;
  std::vector<std::unique_ptr<Variant>> parts;
  parts.push_back(plan_.part_of(variant, 0, variant.nodes.size(), layouts));
  it.body = plan_.body_of(std::move(parts));
  if (it.field != fields_[own_field_].get() || variant.slice) return;
  // How far the plan's program is when it has done the nodes that each step has done.
  const BodyRef own = plan_.body();
  std::vector<double> node_ms(variant.nodes.size(), 0.0);
  const auto& own_steps = program_of(*own).steps();
  double sum = 0;
  for (size_t i = 0; i < own_steps.size() && i < own_times_.samples.size(); ++i) {
    const double ms = typical(own_times_.samples[i]);
    sum += ms;
    node_ms[own_steps[i].node < 0 ? node_ms.size() - 1 : size_t(own_steps[i].node)] += ms;
  }
  double done = 0;
  for (const Program::Step& step : program_of(*it.body).steps()) {
    if (step.node >= 0) done += std::exchange(node_ms[size_t(step.node)], 0.0);
    it.share.push_back(done / std::max(1e-9, sum));
  }
}

// Layouts as they are, and where equal ops occur several times, in each of them another implementation that was not
// run yet; the cheapest first.
Assignment Plan::LiveAtOnce::siblings_of(const Field& field, const Assignment& of) const {
  const std::vector<NodeStates>& nodes = field.variant->nodes;
  Assignment sibling = of;
  std::set<const Way*> taken;
  for (size_t n = 0; n < nodes.size(); ++n) {
    const NodeStates& node = nodes[n];
    if (node.kind != NodeStates::Kind::op) continue;
    const State& chosen = node.states[size_t(of.states[n])];
    if (!chosen.way) continue;
    int best = -1;
    for (size_t s = 0; s < node.states.size(); ++s) {
      const State& state = node.states[s];
      if (!state.way || !state.way->usable || int(s) == of.states[n] || state.ms > kMostRescued * chosen.ms ||
          field.lessons.knows(state.way) || taken.count(state.way))
        continue;
      if (!same_layouts(field.variant->graph, field.variant->graph.node(n), chosen, state)) continue;
      if (best < 0 || state.ms < node.states[size_t(best)].ms) best = int(s);
    }
    if (best < 0) continue;
    sibling.states[n] = best;
    taken.insert(node.states[size_t(best)].way);
    sibling.ms += node.states[size_t(best)].ms - chosen.ms;
  }
  return sibling;
}

void Plan::LiveAtOnce::open_cut(const Cut& cut) {
  auto field = std::make_unique<Field>();
  field->variant = plan_.variant_of(cut.slice, cut.streams, cut.threads);
  const auto choose = [&](Variant& variant) {
    variant.nodes = plan_.states_of(variant);
    leave_out_uncompiled(variant.nodes);
    variant.costs = std::make_unique<ConversionCosts>(*plan_.conversions_, variant.threads);
    variant.assignment = assign(variant.graph, variant.nodes, *plan_.home_, *variant.costs, PbqpLimits{}, kNoise);
  };
  choose(*field->variant);
  if (const int64_t images = plan_.rest_of(*field->variant)) {
    field->variant->rest = plan_.rest_for(images);
    choose(*field->variant->rest);
  }
  fields_.push_back(std::move(field));
  Field& added = *fields_.back();
  Assignment assignment = added.variant->assignment;
  challenge(added, concat("in slices of ", cut.slice, ", ", cut.streams, " at a time"), std::move(assignment));
}

// So that other plans, and later processes, begin with them.
void Plan::LiveAtOnce::note_costs(const Program& program, const StepTimes& times) {
  struct Record {
    EntryRef entry;
    const Way* way;
    double ms;
  };
  // What is taken beside other programs would mislead.
  if (plan_.context_->catalog().was_disturbed(*plan_.home_, plan_.threads_, Load::Clock::now())) return;
  std::vector<Record> records;
  std::set<const Way*> known;
  for (size_t i = 0; i < times.samples.size(); ++i) {
    const Program::Step& step = program.steps()[i];
    if (times.samples[i].size() < 3 || step.runs_elsewhere || !step.runs_too.empty()) continue;
    if (!step.way || step.way->measured || !known.insert(step.way).second) continue;
    const double ms = typical(times.samples[i]);
    double& before = recorded_[step.way];
    if (std::abs(ms - before) <= kNews * before) continue;
    before = ms;
    records.push_back({step.entry, step.way, ms});
  }
  for (size_t i = 0; i < records.size(); i += kRecordsAtATime) {
    const std::vector<Record> some(records.begin() + long(i),
                                   records.begin() + long(std::min(records.size(), i + kRecordsAtATime)));
    add_chore(&record_ms_, 1, [this, some] {
      for (const Record& record : some) plan_.context_->catalog().record_within(*record.entry, *record.way, record.ms);
    });
  }
}

// ---- the end ----

void Plan::LiveAtOnce::freeze() {
  std::lock_guard<std::mutex> guard(lock_);
  if (!settled()) finish(End::pinned);
}

void Plan::LiveAtOnce::finish(End how) {
  challenger_ = nullptr;
  chores_.clear();
  ideas_.clear();
  fields_.clear();
  own_times_ = StepTimes();
  settle(how);
}

}  // namespace pl
