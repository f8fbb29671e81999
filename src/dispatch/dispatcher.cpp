#include "dispatch/dispatcher.h"

#include <algorithm>
#include <mutex>

#include "core/clock.h"
#include "core/json.h"
#include "core/threads.h"
#include "dispatch/conversion.h"
#include "dispatch/later_measuring.h"
#include "dispatch/runner.h"
#include "dispatch/tuner.h"
#include "profile/profile.h"
#include "providers/building.h"
#include "providers/together.h"

namespace pl {
namespace {

constexpr size_t kMaxDecisions = 65536;

const TensorDesc kAbsent;

const TensorDesc& desc_of(const TensorRef& tensor) { return tensor ? tensor->desc() : kAbsent; }

std::vector<TensorDesc> descs_of(const std::vector<TensorRef>& tensors) {
  std::vector<TensorDesc> descs;
  for (const TensorRef& tensor : tensors) descs.push_back(desc_of(tensor));
  return descs;
}

// Inputs, bit i for input i, in whose memory a destination lies.
uint64_t aliased_by(const std::vector<TensorRef>& inputs, const std::vector<TensorRef>& destinations) {
  uint64_t bits = 0;
  for (const TensorRef& given : destinations)
    for (size_t i = 0; given && i < std::min<size_t>(inputs.size(), 64); ++i)
      if (inputs[i] && share_memory(*inputs[i]->buffer(), *given->buffer())) bits |= uint64_t(1) << i;
  return bits;
}

Role role_of(const Schema& schema, size_t input) { return schema.role_of(int(input)); }

// The op as its providers are asked: a forced layout that is of no family is not tried unless an input has it.
Op as_asked(Op op, const Policy& policy) {
  for (size_t i = 0; i < op.inputs.size(); ++i)
    if (role_of(*op.schema, i) == Role::data)
      if (const auto forced = forced_layout(policy, op.inputs[i])) op.inputs[i] = op.inputs[i].with_layout(*forced);
  return op;
}

bool made_by_follower(const Tensor& tensor) {
  return tensor.origin() && static_cast<const Entry&>(*tensor.origin()).follows();
}

}  // namespace

Dispatcher::Dispatcher(Machine& machine, Catalog& catalog, LaterMeasuring& later, Conversions& conversions,
                       Runner& runner, Profile& profile)
    : machine_(machine),
      catalog_(catalog),
      later_(later),
      conversions_(conversions),
      runner_(runner),
      profile_(profile),
      contest_(catalog),
      ranking_(catalog, conversions, contest_),
      weight_copies_(profile, catalog, runner, joined_) {}

// ---- finding a decision made before ----

uint64_t Dispatcher::key_of(const Schema& schema, const CallAttributes& call, const std::vector<TensorRef>& inputs,
                            const std::vector<TensorRef>& destinations) const {
  uint64_t key = hash_mix(reinterpret_cast<uintptr_t>(&schema), call.hash);
  for (size_t i = 0; i < inputs.size(); ++i) {
    key = hash_mix(key, inputs[i] ? inputs[i]->hash() : 0);
    if (!inputs[i]) continue;
    if (role_of(schema, i) == Role::data)
      key = hash_mix(key, inputs[i]->copies_hash());
    else if (inputs[i]->changes())
      key = hash_mix(key, i);
  }
  for (const TensorRef& given : destinations) key = hash_mix(key, given ? given->hash() : 0);
  const uint64_t aliased = aliased_by(inputs, destinations);
  return aliased ? hash_mix(key, aliased) : key;
}

Dispatcher::DecisionRef Dispatcher::find(uint64_t key, const Schema& schema, const CallRef& call,
                                         const std::vector<TensorRef>& inputs,
                                         const std::vector<TensorRef>& destinations) {
  DecisionRef decision;
  {
    std::shared_lock<std::shared_mutex> guard(lock_);
    auto it = decisions_.find(key);
    if (it == decisions_.end()) return nullptr;
    decision = it->second;
  }
  if (decision->epoch != catalog_.epoch() || decision->schema != &schema || decision->inputs.size() != inputs.size() ||
      decision->destinations.size() != destinations.size() || decision->aliased != aliased_by(inputs, destinations))
    return nullptr;
  if (decision->call != call &&
      !(decision->call->policy == call->policy && decision->call->attributes == call->attributes))
    return nullptr;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!(decision->inputs[i] == desc_of(inputs[i]))) return nullptr;
    if (inputs[i] && decision->devices[i] != &inputs[i]->device()) return nullptr;
  }
  for (size_t i = 0; i < destinations.size(); ++i)
    if (!(decision->destinations[i] == desc_of(destinations[i]))) return nullptr;
  return decision;
}

// ---- choosing ----

Device& Dispatcher::home_of(const Schema& schema, const CallAttributes& call, const std::vector<TensorRef>& inputs) {
  if (!call.policy.device.empty()) return machine_.device(call.policy.device);
  const Tensor* first = nullptr;
  size_t first_place = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i]) continue;
    if (!first) {
      first = inputs[i].get();
      first_place = i;
    }
    require(&inputs[i]->device() == &first->device(), Code::device, schema.name, ": ",
            schema.input_parameter(int(i)).name, " is on ", inputs[i]->device().name(), ", expected ",
            first->device().name(), " as ", schema.input_parameter(int(first_place)).name,
            " (move it with to(), or give device=)");
  }
  return first ? first->device() : machine_.host();
}

EntryRef Dispatcher::entry_for(const Op& op, Device& home, std::string& why_elsewhere) {
  why_elsewhere.clear();
  EntryRef entry = catalog_.entry(op, home);
  // Where there is one way on the host nothing is to be found out, and an op whose sizes follow from data is new each
  // time.
  const bool one = &home == &machine_.host() && entry->ways.size() == 1;
  later_.want(entry, one ? Tuning::off : machine_.options().tuning);
  if (&home != &machine_.host() && !catalog_.best_ms(*entry)) {
    EntryRef fallback = catalog_.entry(op, machine_.host());
    later_.want(fallback, machine_.options().tuning);
    if (catalog_.best_ms(*fallback)) {
      why_elsewhere = catalog_.refusals_in_a_line(*entry);
      return fallback;
    }
  }
  if (!catalog_.best_ms(*entry)) fail(Code::unsupported, catalog_.why_nothing_runs(*entry));
  return entry;
}

bool Dispatcher::settled() const {
  return machine_.options().tuning == Tuning::off || (contest_.all_settled() && later_.settled());
}

bool Dispatcher::contested(const CallAttributes& call) const {
  return call.policy.mode == Policy::Mode::automatic && !profile_.active() && machine_.options().tuning != Tuning::off;
}

Policy Dispatcher::policy_of(const CallAttributes& call, const Entry& entry, uint32_t turn) const {
  Policy policy = call.policy;
  if (policy.mode != Policy::Mode::automatic || entry.device->traits().queued) return policy;
  if (const auto layout = contest_.layout_of(entry, turn)) {
    policy.mode = Policy::Mode::forced;
    policy.layout = *layout;
  }
  return policy;
}

// An op without constants follows where what it is given does, or was given to the program: the maps of a network of
// fixed sizes may have many sizes of one class (DenseNet's grow by 32 channels).
bool Dispatcher::follow(Decision& decision, const Op& op, const SizeChoices::Call& like,
                        const std::vector<TensorRef>& inputs) {
  bool made_here = false, follows = false, has_constants = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i]) continue;
    if (role_of(*op.schema, i) == Role::constant) {
      has_constants = true;
    } else {
      made_here = made_here || inputs[i]->origin();
      follows = follows || made_by_follower(*inputs[i]);
    }
  }
  if (!has_constants && made_here && !follows) return false;
  const std::string key = size_choices_.find(like);
  if (key.empty()) return false;
  decision.entry = catalog_.following(op, *decision.home, key);
  if (decision.entry->ways.empty()) return false;
  decision.way = &decision.entry->ways.front();
  decision.kernel = decision.way->usable ? catalog_.kernel(*decision.entry, *decision.way) : nullptr;
  return decision.kernel != nullptr;
}

Dispatcher::DecisionRef Dispatcher::decide(const Schema& schema, const CallRef& call,
                                           const std::vector<TensorRef>& inputs,
                                           const std::vector<TensorRef>& destinations, uint32_t turn) {
  const LaterMeasuring::Choosing choosing(later_);
  auto decision = std::make_shared<Decision>();
  decision->schema = &schema;
  decision->call = call;
  decision->inputs = descs_of(inputs);
  decision->destinations = descs_of(destinations);
  decision->aliased = aliased_by(inputs, destinations);
  for (const TensorRef& input : inputs) decision->devices.push_back(input ? &input->device() : nullptr);
  decision->home = &home_of(schema, *call, inputs);

  const Op op = make_op(schema, call->attributes, decision->inputs);
  if (schema.view) {
    decision->view = true;
    const TensorDesc& given = op.in(0);
    Op viewed = op;
    auto views = schema.view(viewed);
    if (!views || decision->devices[0] != decision->home) {
      // Moved to its device, or to plain layout, before it can be seen that way.
      viewed.inputs[0] = views && given.is_dense() ? given : TensorDesc::dense(given.dtype, given.shape);
      decision->view_source = viewed.inputs[0];
      views = schema.view(viewed);
    }
    require(views.has_value(), Code::internal, schema.name, ": no view of ", viewed.in(0));
    decision->outputs = *views;
    find_copy_of_view(*decision, destinations);
    decision->epoch = catalog_.epoch();
    return decision;
  }
  const bool nothing =
      std::all_of(op.outputs.begin(), op.outputs.end(), [](const TensorDesc& desc) { return desc.elements() == 0; });
  if (nothing) {
    decision->outputs = op.outputs;
    decision->epoch = catalog_.epoch();
    return decision;
  }

  const bool alike = call->policy.mode == Policy::Mode::automatic && machine_.options().tuning == Tuning::automatic;
  SizeChoices::Call like;
  if (alike) {
    like = SizeChoices::of(op, *decision->home, machine_.options().threads, decision->destinations);
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i] && role_of(schema, i) == Role::constant && inputs[i]->changes())
        like.alike += concat(" changing ", i);
    if (decision->aliased) like.alike += concat(" aliased ", decision->aliased);
  }
  const bool follows = alike && follow(*decision, op, like, inputs);
  decision->epoch = catalog_.epoch();
  bool lasting = false;  // not what one contestant would take
  while (!follows) {
    const uint64_t generation = contest_.generation();
    decision->entry = entry_for(as_asked(op, call->policy), *decision->home, decision->why_elsewhere);
    const Policy policy = policy_of(*call, *decision->entry, turn);
    lasting = !turn || policy.mode == Policy::Mode::automatic;
    const std::vector<RankedWay> ranked =
        ranking_.ranked(op, *decision->entry, policy, inputs, *decision->home, destinations);
    require(!ranked.empty(), Code::unsupported, schema.name, ": every implementation failed for ", op.str());
    decision->way = ranked.front().way;
    decision->kernel = catalog_.kernel(*decision->entry, *decision->way);
    decision->epoch = catalog_.epoch();  // read after measuring, which moves it
    // Without a kernel the way is now marked unusable, and a contest may have ended meanwhile: choose again.
    if (decision->kernel && generation == contest_.generation()) break;
  }
  decision->way->taken = true;
  if (alike && !follows && lasting && decision->entry->device == decision->home)
    size_choices_.add(like, decision->way->candidate.dense_key());
  decision->together = dynamic_cast<const Together*>(decision->kernel.get());
  decision->outputs = decision->way->candidate.outputs;
  return decision;
}

void Dispatcher::find_copy_of_view(Decision& decision, const std::vector<TensorRef>& destinations) {
  if (decision.outputs.size() != 1 || destinations.size() != 1 || !destinations[0] || decision.view_source.present)
    return;
  const TensorDesc &from = decision.outputs[0], &to = destinations[0]->desc();
  Device& device = *decision.home;
  if (&destinations[0]->device() != &device || device.traits().host_addressable || !device.traits().queued) return;
  if (from.shape != to.shape || from.dtype != to.dtype || to.elements() == 0) return;
  for (int d = 0; d < to.rank(); ++d)
    if (to.strides[d] == 0 && to.shape[d] > to.layout.block_of(d)) return;
  decision.copy_entry = same_memory(from, to) ? catalog_.copy(to, device) : catalog_.reorder(from, to, device);
  decision.copy_way = &runner_.way_beside_others(*decision.copy_entry);
  decision.copy = catalog_.kernel(*decision.copy_entry, *decision.copy_way);
}

TensorRef Dispatcher::for_reader(const TensorRef& tensor) {
  ranking_.note_read(*tensor);
  const uint32_t turn = tensor->origin() ? contest_.turn() : 0;
  const double start = turn ? now_ms() : 0;
  const TensorDesc plain = TensorDesc::dense(tensor->desc().dtype, tensor->desc().shape);
  const bool measure = !made_by_follower(*tensor);
  // Reordered where the tensor lies: the device is the faster of the two, and its layout may be padded.
  TensorRef copy = runner_.convert(tensor, tensor->device(), plain, "output", "read", false, false, measure);
  if (turn) contest_.charge(static_cast<Entry&>(*tensor->origin()), turn, tensor->hash(), now_ms() - start);
  return copy;
}

// Once a contest has been decided, the forms in which its losers wanted the weights.
void Dispatcher::drop_losers(const Entry& entry, const Candidate& candidate, const std::vector<TensorRef>& inputs) {
  const uint64_t generation = contest_.generation();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i] || inputs[i]->dropped_in(generation) || role_of(*entry.op.schema, i) != Role::constant) continue;
    const Packing* packing = candidate.packing_of(int(i));
    inputs[i]->drop_others(*entry.device, candidate.inputs[i],
                           packing ? Runner::form_name(candidate, *packing) : std::string(), generation);
  }
}

std::vector<TensorRef> Dispatcher::execute(const Decision& decision, const Turn& turn,
                                           const std::vector<TensorRef>& inputs,
                                           const std::vector<TensorRef>& destinations) {
  std::vector<TensorRef> results;
  if (decision.view) {
    results = make_views(decision, turn, inputs);
  } else if (decision.way) {
    results = run_choice(decision, turn, inputs, destinations);
  } else {
    for (const TensorDesc& desc : decision.outputs) results.push_back(Tensor::allocate(*decision.home, desc));
  }
  for (size_t i = 0; i < results.size() && i < destinations.size(); ++i) {
    if (!destinations[i] || destinations[i] == results[i]) continue;
    runner_.convert_into(results[i], destinations[i], decision.schema->name + ": output");
    results[i] = destinations[i];
  }
  return results;
}

std::vector<TensorRef> Dispatcher::make_views(const Decision& decision, const Turn& turn,
                                              const std::vector<TensorRef>& inputs) {
  const Schema& schema = *decision.schema;
  const double start = turn.number ? now_ms() : 0;
  TensorRef base = inputs[0];
  if (decision.view_source.present)
    base = runner_.convert(base, *decision.home, decision.view_source, "activation",
                           schema.name + ": " + schema.input_parameter(0).name, true, false, !made_by_follower(*base));
  if (turn.number && inputs[0]->origin())
    contest_.charge(static_cast<Entry&>(*inputs[0]->origin()), turn.number, turn.key, now_ms() - start);
  std::vector<TensorRef> views;
  for (const TensorDesc& desc : decision.outputs) views.push_back(std::make_shared<Tensor>(desc, base->buffer()));
  return views;
}

std::vector<TensorRef> Dispatcher::run_choice(const Decision& decision, const Turn& turn,
                                              const std::vector<TensorRef>& inputs,
                                              const std::vector<TensorRef>& destinations) {
  Entry& entry = *decision.entry;
  if (entry.device != decision.home)
    machine_.tell_fallback(decision.schema->name, *decision.home, decision.why_elsewhere);
  const Policy::Mode mode = decision.call->policy.mode;
  const uint64_t preempted = turn.number ? preemptions() : 0;
  const double start = turn.number ? now_ms() : 0;
  const ReadyInputs ready = bring_inputs(decision, inputs);
  std::vector<TensorRef> results = place_results(decision, inputs, destinations);
  std::vector<Buffer*> out;
  for (const TensorRef& result : results) out.push_back(result->buffer().get());
  catalog_.touch(entry);
  runner_.run_kernel(entry, *decision.way, *decision.kernel, ready.buffers, out, "op", "", decision.schema->name);
  if (!turn.number && Contest::settled(entry) && mode == Policy::Mode::automatic)
    drop_losers(entry, decision.way->candidate, inputs);
  const double ms = turn.number ? now_ms() - start : 0;
  const bool disturbed = turn.number && preemptions() != preempted;
  ranking_.learn(entry, inputs);
  if (!entry.follows() && !entry.device->traits().queued && (turn.number || !Contest::settled(entry)) &&
      !decision.home->traits().queued && contested(*decision.call))
    contest_.ran(entry, turn.number, turn.key, ms, disturbed, decision.way);
  hand_over(decision, results, destinations);
  return results;
}

// The buffers that the kernel reads; converted or packed where a tensor does not lie so.
Dispatcher::ReadyInputs Dispatcher::bring_inputs(const Decision& decision, const std::vector<TensorRef>& inputs) {
  const Schema& schema = *decision.schema;
  Entry& entry = *decision.entry;
  const Candidate& candidate = decision.way->candidate;
  const bool keep = decision.call->policy.mode != Policy::Mode::per_op;  // copies, for the next call
  ReadyInputs ready;
  ready.buffers.resize(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i]) continue;
    const TensorDesc& wanted = candidate.inputs[i];
    if (!wanted.present) continue;
    const Packing* packing = candidate.packings.empty() ? nullptr : candidate.packing_of(int(i));
    if (!packing && is_direct_input(decision, i, inputs)) {
      ready.buffers[i] = inputs[i]->buffer().get();
      continue;
    }
    const std::string why = profile_.active() ? schema.name + ": " + schema.input_parameter(int(i)).name : schema.name;
    if (packing) {
      ready.packed.push_back(runner_.packed(inputs[i], *entry.device, candidate, *packing, why, keep));
      ready.buffers[i] = ready.packed.back().get();
      continue;
    }
    const bool constant = role_of(schema, i) == Role::constant;
    if (constant && keep && &inputs[i]->device() == entry.device && entry.device->traits().queued) {
      ready.converted.push_back(weight_copies_.of(inputs[i], wanted, why));
      ready.buffers[i] = ready.converted.back()->buffer().get();
      continue;
    }
    ready.converted.push_back(runner_.convert(inputs[i], *entry.device, wanted, constant ? "weights" : "activation",
                                              why, keep, false, constant || !entry.follows()));
    ready.buffers[i] = ready.converted.back()->buffer().get();
  }
  return ready;
}

bool Dispatcher::is_direct_input(const Decision& decision, size_t i, const std::vector<TensorRef>& inputs) {
  const Tensor& given = *inputs[i];
  return &given.device() == decision.entry->device && is_aligned(given) &&
         same_memory(given.desc(), decision.way->candidate.inputs[i]);
}

// A destination that lies as the kernel writes.  It may alias an input: where the kernel may not write there then, the
// result goes through fresh memory.
bool Dispatcher::is_direct(const Decision& decision, size_t i, const std::vector<TensorRef>& inputs,
                           const std::vector<TensorRef>& destinations) {
  if (i >= destinations.size() || !destinations[i]) return false;
  const Tensor& given = *destinations[i];
  return &given.device() == decision.entry->device && same_memory(given.desc(), decision.outputs[i]) &&
         may_write_there(decision.way->candidate, i, inputs, destinations);
}

// Destinations to which the kernel writes, else new tensors.
std::vector<TensorRef> Dispatcher::place_results(const Decision& decision, const std::vector<TensorRef>& inputs,
                                                 const std::vector<TensorRef>& destinations) {
  Device& device = *decision.entry->device;
  std::vector<TensorRef> results;
  for (size_t i = 0; i < decision.outputs.size(); ++i)
    results.push_back(is_direct(decision, i, inputs, destinations) ? destinations[i]
                                                                   : Tensor::allocate(device, decision.outputs[i]));
  return results;
}

// Results as the caller gets them: with what made them, on the call's device, in plain layout where each op is to give
// it.
void Dispatcher::hand_over(const Decision& decision, std::vector<TensorRef>& results,
                           const std::vector<TensorRef>& destinations) {
  const bool per_op = decision.call->policy.mode == Policy::Mode::per_op;
  for (size_t i = 0; i < results.size(); ++i) {
    if (i < destinations.size() && destinations[i]) {
      if (results[i] == destinations[i]) results[i]->buffer()->touch();
      continue;
    }
    results[i]->set_origin(decision.entry, int(i));
    if (decision.entry->device == decision.home && !per_op) continue;
    TensorDesc wanted = results[i]->desc();
    if (per_op) wanted = TensorDesc::dense(wanted.dtype, wanted.shape);
    results[i] =
        runner_.convert(results[i], *decision.home, wanted, "activation", decision.schema->name + ": output", false);
  }
}

Dispatcher::Turn Dispatcher::turn_of(const Schema& schema, const CallRef& call, const std::vector<TensorRef>& inputs,
                                     const std::vector<TensorRef>& destinations) {
  const uint32_t number = contested(*call) ? contest_.turn() : 0;
  const uint64_t key = key_of(schema, *call, inputs, destinations);
  return {number, number ? hash_mix(key, number) : key};
}

Dispatcher::DecisionRef Dispatcher::decision_for(const Turn& turn, const Schema& schema, const CallRef& call,
                                                 const std::vector<TensorRef>& inputs,
                                                 const std::vector<TensorRef>& destinations) {
  DecisionRef decision = find(turn.key, schema, call, inputs, destinations);
  if (!decision) {
    decision = decide(schema, call, inputs, destinations, turn.number);
    std::unique_lock<std::shared_mutex> guard(lock_);
    if (decisions_.size() >= kMaxDecisions) decisions_.clear();
    decisions_[turn.key] = decision;
    guard.unlock();
    trim();
  }
  for (size_t i = 0; i < destinations.size() && i < decision->outputs.size(); ++i) {
    if (!destinations[i]) continue;
    const TensorDesc& want = destinations[i]->desc();
    const TensorDesc& have = decision->outputs[i];
    if (have.shape != want.shape || have.dtype != want.dtype)  // not require(): its message would be made every time
      fail(Code::shape, schema.name, ": output ", i, " is ", want.str(), ", expected ", name_of(have.dtype), " ",
           have.shape);
  }
  return decision;
}

std::vector<TensorRef> Dispatcher::run(const Schema& schema, const CallRef& call, const std::vector<TensorRef>& inputs,
                                       const std::vector<TensorRef>& destinations) {
  const Building wish(Building::behind);
  const Turn turn = turn_of(schema, call, inputs, destinations);
  const DecisionRef decision = decision_for(turn, schema, call, inputs, destinations);
  return execute(*decision, turn, inputs, destinations);
}

void Dispatcher::trim() {
  if (!catalog_.over_limit()) return;
  const uint64_t cutoff = catalog_.cutoff();
  {
    std::unique_lock<std::shared_mutex> guard(lock_);
    for (auto it = decisions_.begin(); it != decisions_.end();) {
      const EntryRef& entry = it->second->entry;
      it = entry && entry->used < cutoff ? decisions_.erase(it) : std::next(it);
    }
  }
  call_lists_.forget();
  ranking_.forget();
  catalog_.trim([this](Entry& entry) { return contest_.leave(entry); });
}

void Dispatcher::forget_decisions() {
  conversions_.forget();
  catalog_.bump_epoch();
  joined_.forget();
  call_lists_.forget();
  weight_copies_.forget();
  size_choices_.forget();
  std::unique_lock<std::shared_mutex> guard(lock_);
  decisions_.clear();
}

// ---- answering questions ----

void Dispatcher::tune(const Schema& schema, const CallRef& call, const std::vector<TensorRef>& inputs, double seconds) {
  const Op op = make_op(schema, call->attributes, descs_of(inputs));
  if (schema.view) return;
  Device& home = home_of(schema, *call, inputs);
  const EntryRef entry = catalog_.entry(as_asked(op, call->policy), home);
  MeasureLimits limits;
  limits.op_seconds = seconds;
  entry->left_alone = false;
  catalog_.measure(*entry, Tuning::full, limits);
  require(!entry->left_alone, Code::out_of_memory, "tune: ", home.name(), " has no memory for sample values of ", op);
  pl::tune(catalog_, catalog_.costs(), {entry}, {seconds, nullptr, machine_.interrupt()});
  forget_decisions();
  catalog_.forget_renewed([this](Entry& each) { return contest_.leave(each); });
}

std::string Dispatcher::query_json(const Schema& schema, const CallRef& call, const std::vector<TensorRef>& inputs) {
  const Op op = make_op(schema, call->attributes, descs_of(inputs));
  Device& home = home_of(schema, *call, inputs);
  Json json;
  json.object().field("op", schema.name).field("description", op.str()).field("device", home.name());
  std::vector<Refusal> refusals;
  LinkedReport linked;
  json.key("candidates").list();
  if (!schema.view) {
    const Op asked = as_asked(op, call->policy);
    EntryRef entry = catalog_.entry(asked, home);
    catalog_.measure(*entry, Tuning::off);
    refusals = catalog_.refusals(*entry);
    if (!catalog_.best_ms(*entry) && &home != &machine_.host()) {
      entry = catalog_.entry(asked, machine_.host());
      catalog_.measure(*entry, Tuning::off);
      for (Refusal& refusal : catalog_.refusals(*entry)) refusals.push_back(std::move(refusal));
    }
    linked = contest_.report(*entry);
    for (const RankedWay& ranked : ranking_.ranked(op, *entry, policy_of(*call, *entry, 0), inputs, home, {})) {
      const Candidate& candidate = ranked.way->candidate;
      std::vector<std::string> inputs_as, outputs_as;
      for (size_t i = 0; i < candidate.inputs.size(); ++i) {
        const TensorDesc& desc = candidate.inputs[i];
        inputs_as.push_back(desc.present ? desc.layout.str(schema.is_weights(int(i))) : "-");
      }
      for (const TensorDesc& desc : candidate.outputs) outputs_as.push_back(desc.layout.str());
      for (const Packing& packing : candidate.packings) inputs_as[size_t(packing.input)] = packing.form;
      json.object()
          .field("provider", candidate.provider)
          .field("implementation", candidate.implementation)
          .field("device", entry->device->name())
          .field("inputs", inputs_as)
          .field("outputs", outputs_as)
          .field("op_ms", ranked.op_ms)
          .field("reorder_ms", ranked.reorder_ms)
          .field("consumer_ms", ranked.consumer_ms)
          .field("margin_ms", ranked.margin_ms)
          .field("total_ms", ranked.total())
          .field("measured", bool(ranked.way->measured))
          .field("workspace_bytes", candidate.workspace_bytes)
          .end();
    }
  }
  json.end();
  json.field("view", bool(schema.view));
  json.key("linked").object().field("ops", linked.ops).field("settled", linked.settled).field("layout", linked.layout);
  json.key("ms").object();
  for (const auto& [name, ms] : linked.ms) json.field(name, ms);
  json.end().end();
  json.key("refusals").list();
  for (const Refusal& refusal : refusals)
    json.object().field("provider", refusal.provider).field("reason", refusal.reason).end();
  json.end().end();
  return json.str();
}

}  // namespace pl
