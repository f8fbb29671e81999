#include "graph/live_queued.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/clock.h"
#include "core/threads.h"
#include "dispatch/catalog.h"
#include "profile/profile.h"

namespace pl {
namespace {

// Runs.
constexpr int kBegin = 2;        // the run with which the background begins: no first result waits for it
constexpr int kUndisturbed = 2;  // of three runs, which are not timed
constexpr size_t kMostPending = 4;
constexpr double kEventMs = 0.012;      // what an event costs that is asked for (H200: 7 us) and read
constexpr double kTimedShare = 0.3;     // of a run that its events may cost
constexpr size_t kLeastTimed = 8;       // steps
constexpr double kStepMs = 0.003;       // what a step takes beside its own time: starting it, and the gap before it
constexpr size_t kOwnTurns = 3;         // samples of each of the plan's steps before anything is assigned
constexpr size_t kTurns = 6;            // of a challenger's, after which it has won or lost
constexpr size_t kEarlyTurns = 3;       // after which it has, where the difference is plain
constexpr double kPlain = 0.05;         // such a difference
constexpr double kHopelessLive = 1.25;  // times the plan's: lost after two turns

// Search.
constexpr size_t kSome = 4;     // ways of each op that are measured before all others
constexpr size_t kFew = 2;      // and before those
constexpr double kNear = 1.15;  // measured: times what was chosen; such a way is tried where it stands
constexpr int kMostSiblings = 3, kMostImproved = 6;
constexpr double kMostOfARun = 0.9;    // what a sample of a way may take
constexpr double kPromise = 0.02;      // that a program has to promise to be faster by
constexpr double kBetweenMs = 1000;    // programs that are tried while ops are still measured
constexpr double kNearUniform = 1.05;  // times the plan's by costs: a uniform layout is not tried beyond
constexpr double kDistrusted = 1.5;    // estimates beside measured ways of the same op
constexpr std::chrono::milliseconds kAtMost(200);

}  // namespace

// ---- contestants ----

size_t Plan::LiveQueued::Contestant::fewest() const {
  const auto& steps = body->parts[0]->program->steps();
  if (times.samples.size() < steps.size()) return 0;
  size_t fewest = SIZE_MAX;
  for (size_t i = 0; i < steps.size(); ++i)
    if (!steps[i].runs_elsewhere) fewest = std::min(fewest, times.samples[i].size());
  return fewest;
}

double Plan::LiveQueued::Contestant::ms() const {
  double sum = 0;
  for (const std::vector<double>& step : times.samples)
    if (!step.empty()) sum += typical(step) + kStepMs;
  return sum;
}

double Plan::LiveQueued::Contestant::least() const {
  double sum = 0;
  for (const std::vector<double>& step : times.samples)
    if (!step.empty()) sum += least_of(step) + kStepMs;
  return sum;
}

Plan::LiveQueued::LiveQueued(Plan& plan) : Live(plan), background_(1, 1) {
  const BodyRef body = plan.body();
  const Variant& part = *body->parts[0];
  if (body->parts.size() != 1 || part.rest || part.nodes.empty()) {
    settle(End::none);
    return;
  }
  variant_ = plan.variant_of(part.slice, part.streams, part.threads);
  variant_->nodes = part.nodes;
  variant_->costs = std::make_unique<ConversionCosts>(*plan.conversions_, part.threads);
  chosen_ = first_ = part.assignment;
  tried_states_.insert(chosen_.states);
  own_ = std::make_shared<Contestant>();
  own_->body = body;
}

Plan::LiveQueued::~LiveQueued() { stop(); }

void Plan::LiveQueued::stop() {
  if (background_.is_left_behind()) return;
  {
    const std::lock_guard<std::mutex> guard(lock_);
    ending_ = true;
  }
  changed_.notify_all();
  background_.stop();
}

// ---- runs ----

void Plan::LiveQueued::run(const Go& go) {
  ContestantRef contestant;
  StepTimings timings;
  BodyRef own;
  bool takes_part = false, begins = false;
  if (!settled() && !background_.is_left_behind() && !plan_.context_->profile().active()) {
    const std::unique_lock<std::mutex> guard(lock_, std::try_to_lock);
    if (guard.owns_lock() && !taken_ && !settled()) {
      plan_.context_->note_live_run();
      takes_part = taken_ = true;
      begins = ++runs_ == kBegin;
      harvest();
      contestant = next_contestant(timings.wanted);
    }
  }
  if (begins && !background_.add([this] { search(); })) end(End::none);  // there are no threads
  if (!contestant) own = plan_.body();
  const BodyRef& body = contestant ? contestant->body : own;
  struct Leave {
    LiveQueued* live;
    ~Leave() {
      if (!live) return;
      const std::lock_guard<std::mutex> guard(live->lock_);
      live->taken_ = false;
    }
  } leave{takes_part ? this : nullptr};
  const double start = now_ms();
  RunTimes times;
  if (contestant) times.timings = &timings;
  bool overwrote = false;
  if (contestant) times.overwrote = &overwrote;
  std::exception_ptr error;
  try {
    go(*body, times);
  } catch (const Error&) {
    own = plan_.body();
    if (!contestant || contestant->body == own) throw;
    error = std::current_exception();
  }
  if (error && !overwrote) go(*own, {});
  const double host = now_ms() - start;
  if (!takes_part) return;
  const std::lock_guard<std::mutex> guard(lock_);
  ran_ms_ = ran_ms_ + std::max(host, usual_ms_);
  if (waits_) changed_.notify_all();
  if (!contestant) {
    host_ms_ = host;
    return;
  }
  spent_ms_ = spent_ms_ + kEventMs * double(std::count(timings.wanted.begin(), timings.wanted.end(), true));
  ++contestant->runs;
  if (error) {
    contestant->failed = true;
    spent_ms_ = spent_ms_ + usual_ms_;
    if (overwrote) std::rethrow_exception(error);
  } else if (variant_) {  // else all has ended meanwhile
    pending_.push_back({std::move(contestant), std::move(timings)});
  }
}

// Reads what is there to be read.
void Plan::LiveQueued::harvest() {
  while (!pending_.empty()) {
    Pending& next = pending_.front();
    const auto& timings = next.timings.timings;
    if (!std::all_of(timings.begin(), timings.end(), [](const auto& timing) { return !timing || timing->done(); }))
      return;
    Contestant& contestant = *next.contestant;
    try {
      if (contestant.warm) {
        contestant.times.samples.resize(timings.size());
        for (size_t i = 0; i < timings.size(); ++i)
          if (timings[i]) contestant.times.samples[i].push_back(timings[i]->milliseconds());
      }
    } catch (const Error&) {
      contestant.failed = true;
    }
    contestant.warm = true;
    if (challenger_ && next.contestant == challenger_->its)
      if (contestant.fewest() > 0) spent_ms_ = spent_ms_ + std::max(0.0, contestant.ms() - usual_ms_);
    pending_.pop_front();
  }
}

// Whose run this is, if it is to be timed, and which of its steps are.
Plan::LiveQueued::ContestantRef Plan::LiveQueued::next_contestant(std::vector<bool>& wanted) {
  if (runs_ < kBegin || pending_.size() >= kMostPending || credit() <= 0) return nullptr;
  ContestantRef contestant;
  if (challenger_ && judge() == Verdict::open)
    contestant = challenger_->its->runs <= challenger_->own->runs ? challenger_->its : challenger_->own;
  else if (!challenger_ && own_ && own_->fewest() < kTurns)
    contestant = own_;
  if (!contestant) return nullptr;
  if (undisturbed_ < kUndisturbed) {
    ++undisturbed_;
    return nullptr;
  }
  undisturbed_ = 0;
  const auto& steps = contestant->body->parts[0]->program->steps();
  const double usual = std::max(host_ms_, usual_ms_);
  const size_t count = std::min(steps.size(), std::max(kLeastTimed, size_t(kTimedShare * usual / kEventMs)));
  wanted.assign(steps.size(), false);
  for (size_t k = 0; k < count; ++k) {
    const size_t i = (contestant->next + k) % steps.size();
    wanted[i] = !steps[i].runs_elsewhere;
  }
  if (contestant->warm) contestant->next = (contestant->next + count) % std::max<size_t>(1, steps.size());
  return contestant;
}

Plan::LiveQueued::Verdict Plan::LiveQueued::judge() const {
  const Contestant &its = *challenger_->its, &own = *challenger_->own;
  if (its.failed || own.failed) return Verdict::lost;
  const size_t turns = std::min(its.fewest(), own.fewest());
  if (turns < 2) return Verdict::open;
  const double mine = its.ms(), theirs = own.ms(), least = its.least() / own.least();
  if (least > kHopelessLive) return Verdict::lost;
  if (turns >= kEarlyTurns && (mine < (1 - kPlain) * theirs)) return Verdict::won;
  if (turns >= kEarlyTurns && least > 1 + kPlain && mine > (1 + kPlain) * theirs) return Verdict::lost;
  if (turns < kTurns) return Verdict::open;
  return mine < (challenger_->first ? 1 : 1 - kGain) * theirs ? Verdict::won : Verdict::lost;
}

void Plan::LiveQueued::freeze() {
  if (settled() || background_.is_left_behind()) return;
  stop();
  if (!settled()) end(End::pinned);
}

void Plan::LiveQueued::end(End how) {
  {
    const std::lock_guard<std::mutex> guard(lock_);
    if (settled() || (how == End::pinned && !variant_)) return;  // somebody else's call has done it
    challenger_ = nullptr;
    own_ = nullptr;
    pending_.clear();
    variant_ = nullptr;
  }
  settle(how);
}

// ---- the background ----

void Plan::LiveQueued::check() const {
  if (ending_ || background_.stopping()) throw Stopped();
}

template <class Done>
void Plan::LiveQueued::wait_until(const Done& done) {
  std::unique_lock<std::mutex> guard(lock_);
  for (;;) {
    check();
    if (done()) return;
    waits_ = true;
    changed_.wait_for(guard, kAtMost);  // the end of the process tells nobody
    waits_ = false;
  }
}

// Waits until so much may be spent, and counts it as spent.
void Plan::LiveQueued::afford(double ms) {
  wait_until([&] { return ms <= credit() && !plan_.context_->profile().active(); });
  spend(ms);
}

void Plan::LiveQueued::spend(double ms) {
  const std::lock_guard<std::mutex> guard(lock_);
  spent_ms_ = spent_ms_ + ms;
}

double Plan::LiveQueued::usual_ms() {
  const std::lock_guard<std::mutex> guard(lock_);
  return usual_ms_;
}

void Plan::LiveQueued::search() {
  improved_at_ms_ = now_ms();
  try {
    wait_until([&] { return own_->failed || own_->fewest() >= kOwnTurns; });
    StepTimes times;
    {
      const std::lock_guard<std::mutex> guard(lock_);
      times = own_->times;
      usual_ms_ = own_->ms();
      own_ = nullptr;
    }
    lessons_.add(*plan_.body()->parts[0]->program, chosen_, times);
    beside_ = std::make_unique<BesideRuns>(
        plan_.context_->catalog(), plan_.context_->interrupt(), [this] { check(); }, [this](double ms) { afford(ms); });
    beside_->ask_tables(entries_of(variant_->nodes));
    improve("table");
    for (size_t most : {kFew, kSome, SIZE_MAX}) {
      measure(most);
      improve("auto");
    }
    for (int i = 0; i < kMostImproved && improve("auto"); ++i) continue;
    for (int i = 0; i < kMostSiblings && challenge("other implementations", siblings_of_own()); ++i) improve("auto");
    if (plan_.options_.layout == "auto")
      for (const char* layout : kUniformLayouts) {
        check();
        apply_costs();
        const std::vector<NodeStates> only = mostly_in(variant_->nodes, Layout::parse(layout));
        const Assignment found = assign(variant_->graph, only, *plan_.home_, *variant_->costs, PbqpLimits{});
        if (found.ms < kNearUniform * chosen_.ms) challenge(layout, translated(found, only, variant_->nodes));
      }
    improve("auto");
    if (won_ && chosen_.states != first_.states) {
      tried_states_.erase(first_.states);
      challenge("untuned", first_, true);
    }
  } catch (const Stopped&) {
    beside_ = nullptr;
    return;
  } catch (const std::exception&) {  // no memory for a challenger, say: what runs goes on
    beside_ = nullptr;
    return end(End::failed);
  }
  beside_ = nullptr;
  end(End::found);
}

// The ops of the plan with the ways of each that are measured next, `most` of them in all; the op in which the most may
// be gained comes first.
std::vector<Plan::LiveQueued::Batch> Plan::LiveQueued::batches(size_t most) {
  Catalog& catalog = plan_.context_->catalog();
  std::map<EntryRef, double> weights;
  std::map<const Entry*, std::vector<size_t>> used;
  for (size_t n = 0; n < variant_->nodes.size(); ++n) {
    const NodeStates& node = variant_->nodes[n];
    if (node.kind != NodeStates::Kind::op) continue;
    std::set<EntryRef> entries;
    for (const State& state : node.states)
      if (state.way) entries.insert(state.entry);
    const State& own = node.states[size_t(chosen_.states[n])];
    for (const EntryRef& entry : entries) weights[entry] += own.way ? own.ms : 0;
    if (own.way) used[own.entry.get()].push_back(size_t(own.way - own.entry->ways.data()));
  }
  const double longest = kMostOfARun * usual_ms();
  std::vector<Batch> list;
  for (const auto& weighed : weights) {
    const EntryRef& entry = weighed.first;
    std::vector<size_t> ways = catalog.to_measure(*entry, Tuning::automatic);
    size_t measured = 0;
    for (const Way& way : entry->ways) measured += way.measured && way.usable;
    // Those in use first: what is to beat them is held against their results.
    const auto& first = used[entry.get()];
    std::stable_partition(ways.begin(), ways.end(),
                          [&](size_t way) { return std::find(first.begin(), first.end(), way) != first.end(); });
    ways.erase(std::remove_if(ways.begin(), ways.end(), [&](size_t way) { return entry->ways[way].ms > longest; }),
               ways.end());
    if (most != SIZE_MAX) ways.resize(std::min(ways.size(), most - std::min(most, measured)));
    if (!ways.empty()) list.push_back({entry, weighed.second, std::move(ways)});
  }
  std::stable_sort(list.begin(), list.end(), [](const Batch& a, const Batch& b) {
    return a.weight != b.weight ? a.weight > b.weight : a.entry->text < b.entry->text;
  });
  return list;
}

void Plan::LiveQueued::measure(size_t most) {
  Catalog& catalog = plan_.context_->catalog();
  apply_costs();
  const std::vector<Batch> list = batches(most);
  for (const Batch& batch : list) beside_->add(batch.entry, batch.ways);
  std::vector<EntryRef> entries;
  for (const Batch& batch : list) {
    beside_->measure(batch.entry, batch.ways);
    catalog.bump_epoch();
    entries.push_back(batch.entry);
    if (now_ms() - improved_at_ms_ > kBetweenMs) improve("auto");
  }
  catalog.correct_estimates(entries);
}

void Plan::LiveQueued::apply_costs() {
  std::vector<NodeStates>& nodes = variant_->nodes;
  lessons_.apply(nodes, *variant_->costs);
  for (NodeStates& node : nodes) {
    const bool measured = std::any_of(node.states.begin(), node.states.end(),
                                      [](const State& state) { return state.way && state.way->measured; });
    for (State& state : node.states) {
      if (!state.way) continue;
      if (!state.way->usable) state.ms = 1e9;
      if (measured && !state.way->measured && !state.way->tabled && !lessons_.knows(state.way)) state.ms *= kDistrusted;
    }
  }
}

// Assigns layouts by what is known now; where that promises to gain, it challenges the plan.  True if something was
// learned.
bool Plan::LiveQueued::improve(const std::string& name) {
  check();
  constexpr int kMostRounds = 4;
  Assignment found;
  for (int round = 0; round < kMostRounds; ++round) {
    apply_costs();
    found = assign(variant_->graph, variant_->nodes, *plan_.home_, *variant_->costs, PbqpLimits{});
    bool news = false;
    for (const Use& use : conversions_of(variant_->graph, variant_->nodes, *plan_.home_, found)) {
      if (!variant_->costs->measure(use.given, *use.source, use.wanted, *use.target)) continue;
      spend(cost_beside_runs(0, use.given.size_bytes()));
      news = true;
      check();
    }
    if (!news) break;
  }
  improved_at_ms_ = now_ms();
  double own_ms = 0;  // by the same costs
  for (size_t n = 0; n < variant_->nodes.size(); ++n) own_ms += variant_->nodes[n].states[size_t(chosen_.states[n])].ms;
  for (const Use& use : conversions_of(variant_->graph, variant_->nodes, *plan_.home_, chosen_))
    own_ms += variant_->costs->ms(use.given, *use.source, use.wanted, *use.target);
  chosen_.ms = own_ms;
  if (!(found.ms < (1 - kPromise) * own_ms)) return false;
  return challenge(name, std::move(found));
}

// The layouts of the plan's program, and in each of equal layers another way that was measured nearly as fast and did
// not run within a program yet, the fastest first.
Assignment Plan::LiveQueued::siblings_of_own() {
  apply_costs();
  Assignment sibling = chosen_;
  for (size_t n = 0; n < variant_->nodes.size(); ++n) {
    const NodeStates& node = variant_->nodes[n];
    if (node.kind != NodeStates::Kind::op) continue;
    const State& chosen = node.states[size_t(chosen_.states[n])];
    if (!chosen.way || !chosen.way->measured) continue;
    int best = -1;
    for (size_t s = 0; s < node.states.size(); ++s) {
      const State& state = node.states[s];
      if (!state.way || !state.way->usable || !state.way->measured || int(s) == chosen_.states[n] ||
          state.way->ms > kNear * chosen.way->ms || lessons_.knows(state.way) || tried_siblings_.count(state.way))
        continue;
      if (!same_layouts(variant_->graph, variant_->graph.node(n), chosen, state)) continue;
      if (best < 0 || state.way->ms < node.states[size_t(best)].way->ms) best = int(s);
    }
    if (best < 0) continue;
    sibling.states[n] = best;
    tried_siblings_.insert(node.states[size_t(best)].way);
  }
  return sibling;
}

// Holds a way's result against others, if that was not done in this process.
bool Plan::LiveQueued::compared(const EntryRef& entry, Way& way) {
  Catalog& catalog = plan_.context_->catalog();
  Way* other = nullptr;  // whose result comes first, where there is none yet
  bool agrees = false;
  {
    const std::lock_guard<std::mutex> guard(entry->lock);
    agrees = way.agrees;
    if (entry->agreed.weight == 0)
      for (Way& each : entry->ways)
        if (&each != &way && each.usable && each.kernel && (!other || each.ms < other->ms)) other = &each;
  }
  if (agrees) return true;
  const double usual = usual_ms();
  for (Way* each : {other, &way}) {
    if (!each) continue;
    if (each->ms > kMostOfARun * usual) {
      if (each == &way) return false;
      continue;
    }
    afford(BesideRuns::cost_of(*each));
    if (!catalog.compare(*entry, *each) && each == &way) return false;
  }
  return true;
}

// Kernels of an assignment that the plan does not have yet: compiled on other threads, and held against others.
bool Plan::LiveQueued::prepare(const Assignment& assignment) {
  Catalog& catalog = plan_.context_->catalog();
  std::vector<std::pair<EntryRef, Way*>> ways;
  std::set<const Way*> known;
  const auto note = [&](const EntryRef& entry, Way* way) {
    if (way && known.insert(way).second) ways.emplace_back(entry, way);
  };
  for (size_t n = 0; n < variant_->nodes.size(); ++n)
    if (const State& own = variant_->nodes[n].states[size_t(chosen_.states[n])]; own.way) known.insert(own.way);
  for (size_t n = 0; n < variant_->nodes.size(); ++n) {
    const State& state = variant_->nodes[n].states[size_t(assignment.states[n])];
    note(state.entry, state.way);
  }
  for (const Use& use : conversions_of(variant_->graph, variant_->nodes, *plan_.home_, assignment)) {
    const Conversion path = plan_.conversions_->plan(use.given, *use.source, use.wanted, *use.target,
                                                     ReorderCosts::known, variant_->threads);
    for (const ConversionStep& step : path.steps) {
      if (step.kind != ConversionStep::Kind::reorder) continue;
      Way* best = nullptr;
      for (Way& way : step.entry->ways)
        if (way.usable && (!best || way.ms < best->ms)) best = &way;
      note(step.entry, best);
    }
  }
  const auto place = [](const EntryRef& entry, const Way* way) { return size_t(way - entry->ways.data()); };
  for (const auto& [entry, way] : ways) beside_->add(entry, {place(entry, way)});
  for (const auto& [entry, way] : ways) {
    beside_->compile(entry, {place(entry, way)});
    check();
    if (!catalog.kernel(*entry, *way) || !compared(entry, *way)) return false;
  }
  return true;
}

Plan::BodyRef Plan::LiveQueued::body_for(const Assignment& assignment) {
  variant_->assignment = assignment;
  std::map<Maker, Layout> layouts;
  std::vector<std::unique_ptr<Variant>> parts;
  parts.push_back(plan_.part_of(*variant_, 0, variant_->nodes.size(), layouts));
  return plan_.body_of(std::move(parts));
}

// True if it took part, whatever came of it.
bool Plan::LiveQueued::challenge(const std::string& name, Assignment assignment, bool first) {
  const auto& states = assignment.states;
  if (std::find(states.begin(), states.end(), -1) != states.end() || states == chosen_.states) return false;
  if (!tried_states_.insert(states).second) return false;
  if (!plan_.has_room_for(*variant_, assignment) || !prepare(assignment)) return false;
  auto challenger = std::make_unique<Challenger>();
  challenger->name = name;
  challenger->first = first;
  challenger->its = std::make_shared<Contestant>();
  challenger->own = std::make_shared<Contestant>();
  wait_until([&] { return !plan_.context_->profile().active(); });
  challenger->its->body = body_for(assignment);
  challenger->own->body = plan_.body();
  challenger->own->warm = true;
  challenger->assignment = std::move(assignment);
  {
    const std::lock_guard<std::mutex> guard(lock_);
    challenger_ = std::move(challenger);
  }
  wait_until([&] { return judge() != Verdict::open; });
  return conclude();
}

bool Plan::LiveQueued::conclude() {
  std::unique_ptr<Challenger> it;
  bool won = false;
  {
    const std::lock_guard<std::mutex> guard(lock_);
    won = judge() == Verdict::won;
    it = std::move(challenger_);
    // As they are now: what a run that goes on adds later, nobody reads.
    it->its = std::make_shared<Contestant>(*it->its);
    it->own = std::make_shared<Contestant>(*it->own);
    pending_.clear();
    if (!it->own->failed) usual_ms_ = won ? it->its->ms() : it->own->ms();
    if (won) plan_.adopt(it->its->body);
  }
  ++tried_;
  const auto program_of = [](const Contestant& contestant) -> const Program& {
    return *contestant.body->parts[0]->program;
  };
  if (!it->its->failed) lessons_.add(program_of(*it->its), it->assignment, it->its->times);
  if (!it->own->failed) lessons_.add(program_of(*it->own), chosen_, it->own->times);
  {
    const std::lock_guard<std::mutex> guard(plan_.changing_);
    if (plan_.timed_.empty()) plan_.timed_.push_back({"untuned", it->own->ms()});
    if (it->its->fewest() > 0) plan_.timed_.push_back({it->name, it->its->ms()});
  }
  if (won) {
    won_ = true;
    chosen_ = it->assignment;
    plan_.remember_live(false);
  }
  it = nullptr;
  plan_.constants_->release_unused();
  return true;
}

}  // namespace pl
