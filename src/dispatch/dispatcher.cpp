#include "dispatch/dispatcher.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <thread>

#include "core/json.h"
#include "core/threads.h"
#include "profile/profile.h"

namespace pl {
namespace {

constexpr int kLookAhead = 4;  // consumers of consumers considered; each level halves what is still undecided
// A way that wants another layout than it is given must promise this share of its time on top of the conversion.  Times
// taken op by op are that far from those within a program: mixes of layouts chosen by differences of a few percent ran
// ResNet-50 4% slower than NHWC throughout on a 2-core Zen 5, and 10% slower on a 16-core Xeon (bench/networks.py).
constexpr double kSwitchMargin = 0.1;
constexpr uint32_t kLearningRuns = 64;  // runs of an entry during which its inputs' producers are taught
constexpr size_t kMaxDecisions = 65536;

const TensorDesc kAbsent;

const TensorDesc& desc_of(const TensorRef& tensor) { return tensor ? tensor->desc() : kAbsent; }

std::vector<TensorDesc> descs_of(const std::vector<TensorRef>& tensors) {
  std::vector<TensorDesc> descs;
  for (const TensorRef& tensor : tensors) descs.push_back(desc_of(tensor));
  return descs;
}

Role role_of(const Schema& schema, size_t input) { return schema.role_of(int(input)); }

// The layout a forced policy wants for this tensor.
std::optional<Layout> forced_layout(const Policy& policy, const TensorDesc& desc) {
  if (policy.mode != Policy::Mode::forced) return std::nullopt;
  return family_layout(policy.layout, desc);
}

// The op as its providers are asked: a forced layout that is of no family is not tried unless an input has it.
Op as_asked(Op op, const Policy& policy) {
  for (size_t i = 0; i < op.inputs.size(); ++i)
    if (role_of(*op.schema, i) == Role::data)
      if (const auto forced = forced_layout(policy, op.inputs[i])) op.inputs[i] = op.inputs[i].with_layout(*forced);
  return op;
}

bool obeys(const Policy& policy, const TensorDesc& desc) {
  const auto forced = forced_layout(policy, desc);
  return forced && same_memory(desc, desc.with_layout(*forced));
}

}  // namespace

Dispatcher::Dispatcher(Context& context, Catalog& catalog, Profile& profile)
    : context_(context), catalog_(catalog), profile_(profile), conversions_(context, catalog) {}

// ---- finding a decision made before ----

uint64_t Dispatcher::key_of(const Schema& schema, const CallAttributes& call,
                            const std::vector<TensorRef>& inputs) const {
  uint64_t key = hash_mix(reinterpret_cast<uintptr_t>(&schema), call.hash);
  for (size_t i = 0; i < inputs.size(); ++i) {
    key = hash_mix(key, inputs[i] ? inputs[i]->hash() : 0);
    if (inputs[i] && role_of(schema, i) == Role::data) key = hash_mix(key, inputs[i]->copies_hash());
  }
  return key;
}

Dispatcher::DecisionRef Dispatcher::find(uint64_t key, const Schema& schema, const CallRef& call,
                                         const std::vector<TensorRef>& inputs) {
  DecisionRef decision;
  {
    std::shared_lock<std::shared_mutex> guard(lock_);
    auto it = decisions_.find(key);
    if (it == decisions_.end()) return nullptr;
    decision = it->second;
  }
  if (decision->epoch != catalog_.epoch() || decision->schema != &schema || decision->inputs.size() != inputs.size())
    return nullptr;
  if (decision->call != call &&
      !(decision->call->policy == call->policy && decision->call->attributes == call->attributes))
    return nullptr;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!(decision->inputs[i] == desc_of(inputs[i]))) return nullptr;
    if (inputs[i] && decision->devices[i] != &inputs[i]->device()) return nullptr;
  }
  return decision;
}

// ---- choosing ----

Device& Dispatcher::home_of(const Schema& schema, const CallAttributes& call, const std::vector<TensorRef>& inputs) {
  if (!call.policy.device.empty()) return context_.device(call.policy.device);
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
  return first ? first->device() : context_.device("cpu");
}

EntryRef Dispatcher::entry_for(const Op& op, Device& home) {
  EntryRef entry = catalog_.entry(op, home);
  catalog_.measure(*entry, context_.options().tuning);
  if (!home.is_cpu() && !catalog_.best_ms(*entry)) {
    EntryRef fallback = catalog_.entry(op, context_.device("cpu"));
    catalog_.measure(*fallback, context_.options().tuning);
    if (catalog_.best_ms(*fallback)) return fallback;
  }
  if (!catalog_.best_ms(*entry)) {
    std::string reasons;
    for (const Refusal& refusal : catalog_.refusals(*entry))
      reasons += "\n  " + refusal.provider + ": " + refusal.reason;
    fail(Code::unsupported, op.schema->name, ": nothing on ", home.name(), " can run ", op.str(),
         reasons.empty() ? std::string() : "; the providers say:" + reasons);
  }
  return entry;
}

double Dispatcher::input_ms(const TensorRef& tensor, const TensorDesc& wanted, Device& device) {
  double best = conversions_.cost_ms(tensor->desc(), tensor->device(), wanted, device);
  if (best > 0 && tensor->copies_hash())
    for (const TensorRef& copy : tensor->copies())
      best = std::min(best, conversions_.cost_ms(copy->desc(), copy->device(), wanted, device));
  return best;
}

// What consumers of this producer's results are expected to pay for the layouts that `way` gives.
double Dispatcher::consumers_ms(Entry& producer, const Way& way, int depth) {
  std::vector<Consumer> consumers;
  {
    std::lock_guard<std::mutex> guard(producer.lock);
    consumers = producer.consumers;
  }
  if (consumers.empty()) return 0;
  uint64_t key = hash_mix(reinterpret_cast<uintptr_t>(&producer), uint64_t(depth));
  for (const TensorDesc& output : way.candidate.outputs) key = hash_mix(key, output.hash());
  {
    std::lock_guard<std::mutex> guard(expected_lock_);
    if (expected_epoch_ != catalog_.epoch()) {
      expected_.clear();
      expected_epoch_ = catalog_.epoch();
    }
    auto it = expected_.find(key);
    if (it != expected_.end()) return it->second;
  }
  const double runs = std::max<double>(1, std::min(producer.runs.load(), kLearningRuns));
  double total = 0;
  for (const Consumer& consumer : consumers) {
    const TensorDesc& given = way.candidate.outputs[size_t(consumer.output)];
    const double share = std::min(1.0, double(consumer.count) / runs);
    if (!consumer.entry) {
      const TensorDesc plain = TensorDesc::dense(given.dtype, given.shape);
      total += share * conversions_.cost_ms(given, *producer.device, plain, *producer.device);
    } else {
      total += share * penalty(*consumer.entry, consumer.input, given, depth - 1);
    }
  }
  std::lock_guard<std::mutex> guard(expected_lock_);
  expected_[key] = total;
  return total;
}

double Dispatcher::switch_ms(const Way& way, double conversion_ms) {
  return conversion_ms > 0 ? conversion_ms + kSwitchMargin * way.ms : 0;
}

// How much more `entry` costs when its input comes as `given` than when it comes as the entry likes best.
double Dispatcher::penalty(Entry& entry, int input, const TensorDesc& given, int depth) {
  double free = std::numeric_limits<double>::infinity(), paid = free;
  for (Way& way : entry.ways) {
    if (!way.usable || std::isinf(way.ms)) continue;
    const TensorDesc& wanted = way.candidate.inputs[size_t(input)];
    if (!wanted.present) continue;
    double ms = way.ms;
    if (ms >= paid) continue;  // cannot improve on either
    if (depth > 0) ms += consumers_ms(entry, way, depth);
    free = std::min(free, ms);
    if (ms < paid)
      paid = std::min(paid, ms + switch_ms(way, conversions_.cost_ms(given, *entry.device, wanted, *entry.device)));
  }
  return std::isinf(paid) ? 0 : paid - free;
}

std::vector<Dispatcher::Option> Dispatcher::options(const Op& op, Entry& entry, const Policy& policy,
                                                    const std::vector<TensorRef>& inputs, Device& home) {
  std::vector<Option> list;
  for (Way& way : entry.ways) {
    if (!way.usable) continue;
    Option option;
    option.way = &way;
    option.op_ms = way.ms;
    const Candidate& candidate = way.candidate;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i] || !candidate.inputs[i].present) continue;
      if (policy.mode == Policy::Mode::per_op) {
        // As a framework without layout tracking: from plain and back around every op, weights too.
        const TensorDesc plain = TensorDesc::dense(op.in(int(i)).dtype, op.in(int(i)).shape);
        option.reorder_ms += conversions_.cost_ms(plain, home, candidate.inputs[i], *entry.device);
        if (const Packing* packing = candidate.packing_of(int(i)))
          option.reorder_ms += estimate_ms(candidate, *packing, catalog_.rates(*entry.device));
      } else if (role_of(*op.schema, i) == Role::data) {
        const double ms = input_ms(inputs[i], candidate.inputs[i], *entry.device);
        option.reorder_ms += ms;
        if (policy.mode == Policy::Mode::automatic) option.margin_ms += switch_ms(way, ms) - ms;
      }
      if (role_of(*op.schema, i) == Role::data && obeys(policy, candidate.inputs[i])) option.matches += 1;
    }
    for (const TensorDesc& output : candidate.outputs) {
      if (policy.mode == Policy::Mode::per_op)
        option.reorder_ms +=
            conversions_.cost_ms(output, *entry.device, TensorDesc::dense(output.dtype, output.shape), home);
      if (obeys(policy, output)) option.matches += 2 * int(inputs.size() + 1);
    }
    if (policy.mode == Policy::Mode::automatic) option.consumer_ms = consumers_ms(entry, way, kLookAhead);
    list.push_back(option);
  }
  std::stable_sort(list.begin(), list.end(), [&](const Option& a, const Option& b) {
    if (a.matches != b.matches) return a.matches > b.matches;
    // Such a framework picks the implementation by its own speed and pays for the reorders afterwards.
    if (policy.mode == Policy::Mode::per_op) return a.op_ms < b.op_ms;
    return a.total() < b.total();
  });
  return list;
}

Dispatcher::DecisionRef Dispatcher::decide(const Schema& schema, const CallRef& call,
                                           const std::vector<TensorRef>& inputs) {
  auto decision = std::make_shared<Decision>();
  decision->schema = &schema;
  decision->call = call;
  decision->inputs = descs_of(inputs);
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

  for (;;) {
    decision->entry = entry_for(as_asked(op, call->policy), *decision->home);
    const std::vector<Option> ranked = options(op, *decision->entry, call->policy, inputs, *decision->home);
    require(!ranked.empty(), Code::unsupported, schema.name, ": every implementation failed for ", op.str());
    decision->way = ranked.front().way;
    decision->kernel = catalog_.kernel(*decision->entry, *decision->way);
    if (decision->kernel) break;  // otherwise the way is now marked unusable: choose again
  }
  decision->outputs = decision->way->candidate.outputs;
  decision->epoch = catalog_.epoch();  // read after measuring, which moves it
  return decision;
}

// ---- learning ----

void Dispatcher::learn(const Decision& decision, const std::vector<TensorRef>& inputs) {
  Entry& consumer = *decision.entry;
  if (consumer.runs.load(std::memory_order_relaxed) >= kLearningRuns) return;
  consumer.runs.fetch_add(1, std::memory_order_relaxed);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i] || !inputs[i]->origin()) continue;
    Entry& producer = *static_cast<Entry*>(inputs[i]->origin().get());
    if (producer.device != consumer.device) continue;
    const int output = inputs[i]->origin_output();
    std::lock_guard<std::mutex> guard(producer.lock);
    auto known = std::find_if(producer.consumers.begin(), producer.consumers.end(), [&](const Consumer& c) {
      return c.entry == &consumer && c.output == output && c.input == int(i);
    });
    if (known != producer.consumers.end()) {
      known->count++;
    } else {
      producer.consumers.push_back({&consumer, output, int(i), 1});
      catalog_.bump_epoch();
    }
  }
}

void Dispatcher::note_read(const Tensor& tensor) {
  if (!tensor.origin()) return;
  Entry& producer = *static_cast<Entry*>(tensor.origin().get());
  if (producer.runs.load(std::memory_order_relaxed) >= kLearningRuns) return;
  std::lock_guard<std::mutex> guard(producer.lock);
  for (Consumer& consumer : producer.consumers)
    if (!consumer.entry && consumer.output == tensor.origin_output()) {
      consumer.count++;
      return;
    }
  producer.consumers.push_back({nullptr, tensor.origin_output(), 0, 1});
  catalog_.bump_epoch();
}

// ---- running ----

void Dispatcher::run_kernel(const Entry& entry, const Way& way, Kernel& kernel, const std::vector<Buffer*>& inputs,
                            const std::vector<Buffer*>& outputs, const char* kind, const char* role,
                            const std::string& cause) {
  BufferRef workspace;
  if (way.candidate.workspace_bytes) workspace = entry.device->allocate(way.candidate.workspace_bytes);
  refuse_after_fork();
  if (entry.device->is_cpu()) use_threads(entry.threads);
  const KernelArguments arguments{inputs.data(), outputs.data(), workspace.get()};
  if (!profile_.active()) {
    kernel.run(arguments);
    return;
  }
  ProfileEvent event;
  event.kind = kind;
  event.op = entry.op.schema->name;
  event.provider = way.candidate.provider;
  event.implementation = way.candidate.implementation;
  event.device = entry.device->name();
  for (const TensorDesc& desc : way.candidate.inputs)
    if (desc.present) event.inputs.push_back(desc.str());
  for (const TensorDesc& desc : way.candidate.outputs) event.outputs.push_back(desc.str());
  event.bytes = bytes_of(entry.op);
  event.flops = flops_of(entry.op);
  event.role = role;
  event.cause = cause;
  event.thread = std::hash<std::thread::id>()(std::this_thread::get_id());
  event.start_ms = profile_.now_ms();
  event.timing = entry.device->start_timing();
  kernel.run(arguments);
  event.timing->stop();
  profile_.add(std::move(event));
}

TensorRef Dispatcher::convert(const TensorRef& tensor, Device& device, const TensorDesc& wanted, const char* role,
                              const std::string& why, bool keep) {
  if (&tensor->device() == &device && same_memory(tensor->desc(), wanted)) {
    if (tensor->desc() == wanted) return tensor;
    return std::make_shared<Tensor>(wanted, tensor->buffer());  // the same bytes under another name
  }
  if (keep)
    if (TensorRef copy = tensor->find_copy(wanted, device)) return copy;
  const uint64_t version = tensor->buffer()->version();
  // From the tensor itself or from one of its copies, whichever is nearest.
  TensorRef source = tensor;
  if (keep && tensor->copies_hash()) {
    double best = conversions_.cost_ms(tensor->desc(), tensor->device(), wanted, device);
    for (const TensorRef& copy : tensor->copies()) {
      if (copy->desc().dtype != tensor->desc().dtype) continue;  // may have lost precision
      const double ms = conversions_.cost_ms(copy->desc(), copy->device(), wanted, device);
      if (ms < best) {
        best = ms;
        source = copy;
      }
    }
  }
  TensorRef current = source;
  for (const ConversionStep& step : conversions_.plan(source->desc(), source->device(), wanted, device).steps) {
    TensorRef next = Tensor::allocate(*step.device, step.result);
    if (step.kind == ConversionStep::Kind::reorder) {
      Way* way = nullptr;
      std::shared_ptr<Kernel> kernel;
      while (!kernel) {
        way = nullptr;
        for (Way& candidate : step.entry->ways)
          if (candidate.usable && (!way || candidate.ms < way->ms)) way = &candidate;
        require(way != nullptr, Code::unsupported, "reorder: every implementation failed for ", step.entry->text);
        kernel = catalog_.kernel(*step.entry, *way);
      }
      run_kernel(*step.entry, *way, *kernel, {current->buffer().get()}, {next->buffer().get()}, "reorder", role, why);
    } else {
      std::vector<char> staging;
      Device& from = current->device();
      const size_t bytes = step.result.size_bytes();
      const double start = profile_.active() ? profile_.now_ms() : 0;
      if (from.host_memory()) {
        from.synchronize();
        next->device().write(*next->buffer(), 0, current->buffer()->host(), bytes);
      } else if (next->device().host_memory()) {
        from.read(*current->buffer(), 0, next->buffer()->host(), bytes);
      } else {
        staging.resize(bytes);
        from.read(*current->buffer(), 0, staging.data(), bytes);
        next->device().write(*next->buffer(), 0, staging.data(), bytes);
      }
      if (profile_.active()) {
        ProfileEvent event;
        event.kind = "transfer";
        event.op = "transfer";
        event.device = next->device().name();
        event.implementation = from.name() + " to " + next->device().name();
        event.inputs = {current->desc().str()};
        event.outputs = {step.result.str()};
        event.bytes = double(bytes);
        event.role = role;
        event.cause = why;
        event.start_ms = start;
        event.ms = profile_.now_ms() - start;
        profile_.add(std::move(event));
      }
    }
    current = next;
  }
  if (keep) tensor->add_copy(current, version);
  return current;
}

void Dispatcher::convert_into(const TensorRef& tensor, const TensorRef& destination, const std::string& why) {
  const TensorDesc& wanted = destination->desc();
  require(wanted.is_dense(), Code::unsupported, why, ": the destination has gaps between its elements (", wanted.str(),
          "), expected a dense tensor");
  const TensorRef copy = convert(tensor, destination->device(), wanted, "output", why, false);
  const size_t bytes = wanted.size_bytes();
  Device& device = destination->device();
  if (device.host_memory()) {
    device.write(*destination->buffer(), 0, copy->buffer()->host(), bytes);
  } else {
    std::vector<char> staging(bytes);
    device.read(*copy->buffer(), 0, staging.data(), bytes);
    device.write(*destination->buffer(), 0, staging.data(), bytes);
  }
  destination->buffer()->touch();
}

std::vector<TensorRef> Dispatcher::execute(const Decision& decision, const std::vector<TensorRef>& inputs,
                                           const std::vector<TensorRef>& destinations) {
  const Schema& schema = *decision.schema;
  std::vector<TensorRef> results;
  if (decision.view) {
    TensorRef base = inputs[0];
    if (decision.view_source.present)
      base = convert(base, *decision.home, decision.view_source, "activation",
                     schema.name + ": " + schema.input_parameter(0).name, true);
    for (const TensorDesc& desc : decision.outputs) results.push_back(std::make_shared<Tensor>(desc, base->buffer()));
  } else if (!decision.way) {
    for (const TensorDesc& desc : decision.outputs) results.push_back(Tensor::allocate(*decision.home, desc));
  } else {
    Entry& entry = *decision.entry;
    const Candidate& candidate = decision.way->candidate;
    const bool per_op = decision.call->policy.mode == Policy::Mode::per_op;
    std::vector<TensorRef> ready(inputs.size());
    std::vector<BufferRef> packed_inputs;
    std::vector<Buffer*> in(inputs.size()), out;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i]) continue;
      const TensorDesc& wanted = candidate.inputs[i];
      if (!wanted.present) continue;
      const Packing* packing = candidate.packings.empty() ? nullptr : candidate.packing_of(int(i));
      if (!packing && &inputs[i]->device() == entry.device && inputs[i]->desc() == wanted) {
        in[i] = inputs[i]->buffer().get();
        continue;
      }
      const std::string why =
          profile_.active() ? schema.name + ": " + schema.input_parameter(int(i)).name : schema.name;
      if (packing) {
        packed_inputs.push_back(packed(inputs[i], *entry.device, candidate, *packing, why, !per_op));
        in[i] = packed_inputs.back().get();
        continue;
      }
      const bool constant = role_of(schema, i) == Role::constant;
      ready[i] = convert(inputs[i], *entry.device, wanted, constant ? "weights" : "activation", why, !per_op);
      in[i] = ready[i]->buffer().get();
    }
    for (size_t i = 0; i < decision.outputs.size(); ++i) {
      const bool direct = i < destinations.size() && destinations[i] && &destinations[i]->device() == entry.device &&
                          destinations[i]->desc() == decision.outputs[i];
      results.push_back(direct ? destinations[i] : Tensor::allocate(*entry.device, decision.outputs[i]));
      out.push_back(results[i]->buffer().get());
      // A destination may alias an input; kernels read and write in no order, so go through fresh memory then.
      for (const TensorRef& input : inputs)
        if (direct && input && input->buffer() == results[i]->buffer()) {
          results[i] = Tensor::allocate(*entry.device, decision.outputs[i]);
          out[i] = results[i]->buffer().get();
        }
    }
    run_kernel(entry, *decision.way, *decision.kernel, in, out, "op", "", schema.name);
    learn(decision, inputs);
    for (size_t i = 0; i < results.size(); ++i) {
      const bool given = i < destinations.size() && destinations[i];
      if (given && results[i] == destinations[i]) {
        results[i]->buffer()->touch();
      } else if (!given) {
        results[i]->set_origin(decision.entry, int(i));
        TensorDesc final = results[i]->desc();
        if (per_op) final = TensorDesc::dense(final.dtype, final.shape);
        if (entry.device != decision.home || per_op)
          results[i] = convert(results[i], *decision.home, final, "activation", schema.name + ": output", false);
      }
    }
  }
  for (size_t i = 0; i < results.size() && i < destinations.size(); ++i) {
    if (!destinations[i] || destinations[i] == results[i]) continue;
    const TensorDesc& have = results[i]->desc();
    const TensorDesc& want = destinations[i]->desc();
    require(have.shape == want.shape && have.dtype == want.dtype, Code::shape, schema.name, ": output ", i, " is ",
            want.str(), ", expected ", name_of(have.dtype), " ", have.shape);
    convert_into(results[i], destinations[i], schema.name + ": output");
    results[i] = destinations[i];
  }
  return results;
}

std::vector<TensorRef> Dispatcher::run(const Schema& schema, const CallRef& call, const std::vector<TensorRef>& inputs,
                                       const std::vector<TensorRef>& destinations) {
  const uint64_t key = key_of(schema, *call, inputs);
  DecisionRef decision = find(key, schema, call, inputs);
  if (!decision) {
    decision = decide(schema, call, inputs);
    std::unique_lock<std::shared_mutex> guard(lock_);
    if (decisions_.size() >= kMaxDecisions) decisions_.clear();
    decisions_[key] = decision;
  }
  for (size_t i = 0; i < destinations.size() && i < decision->outputs.size(); ++i) {
    if (!destinations[i]) continue;
    const TensorDesc& want = destinations[i]->desc();
    const TensorDesc& have = decision->outputs[i];
    require(have.shape == want.shape && have.dtype == want.dtype, Code::shape, schema.name, ": output ", i, " is ",
            want.str(), ", expected ", name_of(have.dtype), " ", have.shape);
  }
  return execute(*decision, inputs, destinations);
}

void Dispatcher::forget_decisions() {
  conversions_.forget();
  catalog_.bump_epoch();
  std::unique_lock<std::shared_mutex> guard(lock_);
  decisions_.clear();
}

// ---- answering questions ----

void Dispatcher::tune(const Schema& schema, const CallRef& call, const std::vector<TensorRef>& inputs, double seconds) {
  const Op op = make_op(schema, call->attributes, descs_of(inputs));
  if (schema.view) return;
  Device& home = home_of(schema, *call, inputs);
  catalog_.measure(*catalog_.entry(as_asked(op, call->policy), home), Tuning::full, seconds);
  forget_decisions();
}

std::string Dispatcher::query_json(const Schema& schema, const CallRef& call, const std::vector<TensorRef>& inputs) {
  const Op op = make_op(schema, call->attributes, descs_of(inputs));
  Device& home = home_of(schema, *call, inputs);
  Json json;
  json.object().field("op", schema.name).field("description", op.str()).field("device", home.name());
  std::vector<Refusal> refusals;
  json.key("candidates").list();
  if (!schema.view) {
    const Op asked = as_asked(op, call->policy);
    EntryRef entry = catalog_.entry(asked, home);
    catalog_.measure(*entry, Tuning::off);
    refusals = catalog_.refusals(*entry);
    if (!catalog_.best_ms(*entry) && !home.is_cpu()) {
      entry = catalog_.entry(asked, context_.device("cpu"));
      catalog_.measure(*entry, Tuning::off);
      for (Refusal& refusal : catalog_.refusals(*entry)) refusals.push_back(std::move(refusal));
    }
    for (const Option& option : options(op, *entry, call->policy, inputs, home)) {
      const Candidate& candidate = option.way->candidate;
      const auto layouts = [](const std::vector<TensorDesc>& descs) {
        std::vector<std::string> names;
        for (const TensorDesc& desc : descs) names.push_back(desc.present ? desc.layout.str() : "-");
        return names;
      };
      std::vector<std::string> inputs_as = layouts(candidate.inputs);
      for (const Packing& packing : candidate.packings) inputs_as[size_t(packing.input)] = packing.form;
      json.object()
          .field("provider", candidate.provider)
          .field("implementation", candidate.implementation)
          .field("device", entry->device->name())
          .field("inputs", inputs_as)
          .field("outputs", layouts(candidate.outputs))
          .field("op_ms", option.op_ms)
          .field("reorder_ms", option.reorder_ms)
          .field("consumer_ms", option.consumer_ms)
          .field("margin_ms", option.margin_ms)
          .field("total_ms", option.total())
          .field("measured", bool(option.way->measured))
          .field("workspace_bytes", candidate.workspace_bytes)
          .end();
    }
  }
  json.end();
  json.field("view", bool(schema.view));
  json.key("refusals").list();
  for (const Refusal& refusal : refusals)
    json.object().field("provider", refusal.provider).field("reason", refusal.reason).end();
  json.end().end();
  return json.str();
}

}  // namespace pl
