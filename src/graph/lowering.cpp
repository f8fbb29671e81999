#include "graph/lowering.h"

#include <algorithm>
#include <limits>

#include "dispatch/cost_model.h"
#include "graph/phases.h"
#include "providers/building.h"
#include "providers/together.h"

namespace pl {
namespace {

// All but the ends of a kernel that is EndsLater, with the workspace in the place of the first output that these write.
class Beginning final : public Kernel {
 public:
  Beginning(std::shared_ptr<Kernel> whole, size_t workspace)
      : whole_(std::move(whole)), begins_(dynamic_cast<EndsLater&>(*whole_)), workspace_(workspace) {}
  void run(const KernelArguments& arguments) override {
    begins_.begin(arguments.with(arguments.inputs, arguments.outputs, arguments.outputs[workspace_]));
  }

 private:
  std::shared_ptr<Kernel> whole_;
  EndsLater& begins_;
  size_t workspace_;
};

}  // namespace

Lowering::Lowering(Program& program, Context& context, const Graph& graph, const std::vector<NodeStates>& nodes,
                   const Assignment& assignment, Conversions& conversions, PackedConstants* constants)
    : program_(program),
      context_(context),
      graph_(graph),
      nodes_(nodes),
      assignment_(assignment),
      conversions_(conversions),
      constants_(constants),
      forms_(graph.values().size()),
      slices_(graph.values().size()),
      output_of_(graph.values().size(), -1),
      made_in_place_(graph.outputs().size(), false),
      reserved_(graph.values().size()) {}

void Lowering::lower(bool in_place) {
  for (size_t i = 0; i < graph_.inputs().size(); ++i) {
    const ValueId id = graph_.inputs()[i].value;
    const TensorDesc& desc = graph_.value(id).desc;
    program_.inputs_.push_back(desc);
    forms_[size_t(id)].push_back(
        {desc, &program_.home_, new_storage(Storage::Kind::input, int(i), program_.home_, desc.size_bytes())});
  }
  place_parts();
  place_outputs();
  for (size_t i = 0; i < nodes_.size(); ++i) {
    program_.names_.push_back(graph_.node(i).name);
    lower_node(i);
  }
  lower_outputs();
  program_.in_place_of_.assign(graph_.outputs().size(), -1);
  program_.may_lie_over_.resize(graph_.outputs().size());
  if (constants_) {
    prepare_first();
    postpone_readers_of_sums();
    absorb_steps();
    join_steps(in_place);
  }
  if (!in_place) return;
  share_storages();
  find_overwritable();
  update_in_place();
}

bool Lowering::concat_in_place(size_t node) const {
  return nodes_[node].kind == NodeStates::Kind::op && state_of(node).way == nullptr;
}

// The outermost concat decides first, so that nested ones lie within it.
void Lowering::place_parts() {
  for (size_t i = nodes_.size(); i-- > 0;) {
    if (!concat_in_place(i)) continue;
    const State& state = state_of(i);
    const Node& node = graph_.node(i);
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const ValueId part = node.inputs[k];
      const int32_t maker = graph_.value(part).node;
      if (maker < 0 || slices_[size_t(part)].whole != kNoValue) continue;
      const NodeStates& source = nodes_[size_t(maker)];
      const TensorDesc& given = state_of(size_t(maker)).outputs[size_t(graph_.value(part).output)];
      if (source.kind != NodeStates::Kind::op || source.device != nodes_[i].device) continue;
      if (!same_memory(given, state.inputs[k])) continue;
      slices_[size_t(part)] = {node.outputs[0], state.shifts[k]};
    }
  }
}

void Lowering::place_outputs() {
  for (size_t k = 0; k < graph_.outputs().size(); ++k) {
    const GraphOutput& output = graph_.outputs()[k];
    const Value& value = graph_.value(output.value);
    const bool made = value.node >= 0 && nodes_[size_t(value.node)].kind == NodeStates::Kind::op;
    TensorDesc desc = TensorDesc::dense(value.desc.dtype, value.desc.shape,
                                        output.layout ? *output.layout : Layout::plain(value.desc.rank()));
    if (made) {
      const TensorDesc& given = state_of(size_t(value.node)).outputs[size_t(value.output)];
      if (!output.layout) desc = given.is_dense() ? given : given.with_layout(given.layout);
      if (same_memory(given, desc)) make_in_output(output.value, int(k));
    }
    program_.outputs_.push_back(desc);
  }
  // A view of all of a result: what it is of is made there, unless it is an output itself.
  for (size_t k = 0; k < graph_.outputs().size(); ++k) {
    const ValueId value = graph_.outputs()[k].value;
    const ValueId seen = seen_whole(value, program_.outputs_[k]);
    if (seen != kNoValue && seen != value) make_in_output(seen, int(k));
  }
}

void Lowering::make_in_output(ValueId value, int output) {
  if (made_in_place_[size_t(output)] || output_of_[size_t(value)] >= 0 || slices_[size_t(value)].whole != kNoValue ||
      nodes_[size_t(graph_.value(value).node)].device != &program_.home_)
    return;
  output_of_[size_t(value)] = output;
  made_in_place_[size_t(output)] = true;
}

ValueId Lowering::seen_whole(ValueId value, TensorDesc wanted) const {
  const size_t bytes = wanted.size_bytes();
  while (true) {
    const Value& seen = graph_.value(value);
    if (seen.node < 0) return kNoValue;
    const NodeStates& maker = nodes_[size_t(seen.node)];
    const State& state = state_of(size_t(seen.node));
    const TensorDesc& given = state.outputs[size_t(seen.output)];
    if (!same_memory(given, wanted) || given.size_bytes() != bytes) return kNoValue;
    if (maker.kind == NodeStates::Kind::op) return value;
    if (maker.kind != NodeStates::Kind::view || state.shifts[size_t(seen.output)] != 0) return kNoValue;
    wanted = state.inputs[0];
    value = graph_.node(size_t(seen.node)).inputs[0];
  }
}

Program::Place Lowering::new_storage(Storage::Kind kind, int index, Device& device, size_t bytes) {
  Storage storage;
  storage.kind = kind;
  storage.index = index;
  storage.device = &device;
  storage.bytes = bytes;
  program_.storages_.push_back(std::move(storage));
  return {int(program_.storages_.size()) - 1, 0, bytes};
}

Program::Place Lowering::place_of_result(ValueId value, const TensorDesc& desc, Device& device) {
  Place& place = reserved_[size_t(value)];
  if (place.storage < 0) {
    const Slice& slice = slices_[size_t(value)];
    if (slice.whole != kNoValue) {
      const Value& whole = graph_.value(slice.whole);
      const TensorDesc& of_whole = state_of(size_t(whole.node)).outputs[size_t(whole.output)];
      place = place_of_result(slice.whole, of_whole, device);
      place.offset += slice.shift;
      place.bytes = desc.size_bytes();
    } else {
      const int output = output_of_[size_t(value)];
      place =
          new_storage(output >= 0 ? Storage::Kind::output : Storage::Kind::arena, output, device, desc.size_bytes());
    }
  }
  return place;
}

std::string Lowering::name_of_argument(size_t node, size_t input) const {
  return graph_.node(node).name + ": " + graph_.node(node).schema->input_parameter(int(input)).name;
}

void Lowering::note_uses(const Step& step, int number) {
  const auto use = [&](const Place& place) {
    if (place.storage < 0) return;
    Storage& storage = program_.storages_[size_t(place.storage)];
    if (storage.first < 0) storage.first = number;
    storage.last = number;
  };
  for (const Place& place : step.inputs) use(place);
  for (const Place& place : step.outputs) use(place);
  use(step.workspace);
}

void Lowering::emit(Step step) {
  note_uses(step, int(program_.steps_.size()));
  program_.uses_threads_ = program_.uses_threads_ || step.device->traits().threads;
  program_.steps_.push_back(std::move(step));
}

// On a device that queues work, of a small tensor: a reorder that may run with others is taken if it takes less longer
// than a launch (join_steps).
void Lowering::set_reorder(Step& step, const EntryRef& entry, bool alone) {
  step.kind = Step::Kind::reorder;
  step.entry = entry;
  step.way = nullptr;
  step.kernel = nullptr;
  if (!constants_) {
    for (Way& way : entry->ways)
      if (way.usable && (!step.way || way.ms < step.way->ms)) step.way = &way;
  } else if (!alone && entry->device->traits().queued && Building::wish() == Building::freely &&
             bytes_of(entry->op) <= double(kMostJoinedBytes)) {
    constexpr double kLaunchMs = 0.01;  // an H200's host takes 5 to 9 us
    Way *fastest = nullptr, *joinable = nullptr;
    for (Way& way : entry->ways) {
      if (!way.usable) continue;
      if (!fastest || way.ms < fastest->ms) fastest = &way;
      if (way.candidate.together && (!joinable || way.ms < joinable->ms)) joinable = &way;
    }
    if (joinable && joinable->ms < fastest->ms + kLaunchMs) {
      step.way = joinable;
      step.kernel = context_.catalog().kernel(*entry, *joinable);
    }
  }
  if (constants_ && Building::wish() == Building::sparingly && entry->device->traits().compiles) {
    const Building wish(Building::never);
    for (Way& way : entry->ways)
      if (way.usable && (!step.way || way.ms < step.way->ms))
        if (std::shared_ptr<Kernel> kernel = context_.catalog().kernel(*entry, way)) {
          step.way = &way;
          step.kernel = std::move(kernel);
        }
  }
  while (constants_ && !step.kernel) {
    step.way = nullptr;
    for (Way& way : entry->ways)
      if (way.usable && (!step.way || way.ms < step.way->ms)) step.way = &way;
    require(step.way != nullptr, Code::unsupported, "reorder: every implementation failed for ", entry->text);
    step.kernel = context_.catalog().kernel(*entry, *step.way);
  }
  if (step.way && step.way->candidate.workspace_bytes)
    step.workspace = new_storage(Storage::Kind::arena, 0, *step.device, step.way->candidate.workspace_bytes);
}

void Lowering::emit_copy(const Form& from, const Place& target, int node, const std::string& cause) {
  Step step;
  step.kind = Step::Kind::copy;
  step.node = node;
  step.device = from.device;
  step.inputs = {from.place};
  step.outputs = {target};
  step.input_descs = step.output_descs = {from.desc};
  step.cause = cause;
  // Between the elements of a strided view lie others' bytes.
  if (!from.desc.is_dense()) set_reorder(step, context_.catalog().copy(from.desc, *from.device, program_.threads_));
  emit(std::move(step));
}

void Lowering::emit_conversion(const Form& from, const TensorDesc& wanted, Device& device, int node,
                               const std::string& cause, const Place& target) {
  const Conversion path =
      conversions_.plan(from.desc, *from.device, wanted, device, ReorderCosts::known, program_.threads_);
  Form current = from;
  for (size_t i = 0; i < path.steps.size(); ++i) {
    const ConversionStep& part = path.steps[i];
    Step step;
    step.kind = Step::Kind::transfer;
    step.node = node;
    step.device = part.device;
    step.cause = cause;
    step.expected_ms = part.ms;
    step.inputs = {current.place};
    step.input_descs = {current.desc};
    step.output_descs = {part.result};
    if (part.kind == ConversionStep::Kind::reorder) set_reorder(step, part.entry);
    current.place = i + 1 == path.steps.size()
                        ? target
                        : new_storage(Storage::Kind::arena, 0, *part.device, part.result.size_bytes());
    current.desc = part.result;
    current.device = part.device;
    step.outputs = {current.place};
    emit(std::move(step));
  }
}

void Lowering::load_constant(ValueId value, const TensorDesc& wanted, Device& device, const std::string& cause) {
  for (const Form& form : forms_[size_t(value)])
    if (form.device == &device && same_memory(form.desc, wanted)) return;
  Place place = new_storage(Storage::Kind::constant, 0, device, wanted.size_bytes());
  if (constants_) {
    const TensorRef tensor = constants_->tensor(graph_, value, wanted, device, cause);
    program_.constants_.emplace(value, tensor);
    place.offset = size_t(tensor->desc().offset) * size_of(wanted.dtype);
    program_.storages_.back().constant = tensor->buffer();
    program_.storages_.back().bytes = std::min(tensor->buffer()->bytes(), place.offset + wanted.size_bytes());
  }
  forms_[size_t(value)].push_back({wanted, &device, place});
}

Program::Place Lowering::obtain(ValueId value, const TensorDesc& wanted, Device& device, int node,
                                const std::string& cause, const Place* target) {
  if (graph_.is_constant(value)) load_constant(value, wanted, device, cause);
  std::vector<Form>& forms = forms_[size_t(value)];
  for (const Form& form : forms)
    if (form.device == &device && same_memory(form.desc, wanted)) {
      if (!target) return form.place;
      emit_copy(form, *target, node, cause);
      return *target;
    }
  // From the nearest of the forms that exist.
  const Form* nearest = nullptr;
  double least = std::numeric_limits<double>::infinity();
  for (const Form& form : forms) {
    const double ms =
        conversions_.cost_ms(form.desc, *form.device, wanted, device, ReorderCosts::known, program_.threads_);
    if (ms < least) {
      least = ms;
      nearest = &form;
    }
  }
  require(nearest != nullptr, Code::internal, "lowering: value ", graph_.value(value).name, " has no form");
  const Form from = *nearest;
  const Place place = target ? *target : new_storage(Storage::Kind::arena, 0, device, wanted.size_bytes());
  emit_conversion(from, wanted, device, node, cause, place);
  if (!target) forms_[size_t(value)].push_back({wanted, &device, place});
  return place;
}

Program::Place Lowering::packed(size_t node, const Packing& packing, const std::string& cause) {
  const State& state = state_of(node);
  const Candidate& candidate = state.way->candidate;
  Device& device = *nodes_[node].device;
  const ValueId value = graph_.node(node).inputs[size_t(packing.input)];
  const auto [it, added] = packed_.try_emplace({value, candidate.provider + "/" + packing.form, &device});
  if (!added) return it->second;
  const TensorDesc& wanted = state.inputs[size_t(packing.input)];
  Step step;
  step.kind = Step::Kind::pack;
  step.node = int(node);
  step.device = &device;
  step.packing = packing;
  if (constants_ && device.traits().queued && packing.prepare) step.kernel = packing.prepare();
  step.provider = candidate.provider;
  step.inputs = {obtain(value, wanted, device, int(node), cause, nullptr)};
  step.input_descs = {wanted};
  step.cause = cause;
  step.expected_ms = estimate_ms(candidate, packing, context_.catalog().rates(device), step.kernel == nullptr);
  it->second = new_storage(Storage::Kind::arena, 0, device, packing.bytes);
  step.outputs = {it->second};
  emit(std::move(step));
  return it->second;
}

Program::Place Lowering::argument(size_t node, size_t input) {
  const ValueId value = graph_.node(node).inputs[input];
  const State& state = state_of(node);
  if (value == kNoValue || !state.inputs[input].present) return {};
  const std::string cause = name_of_argument(node, input);
  if (const Packing* packing = state.way ? state.way->candidate.packing_of(int(input)) : nullptr) {
    if (!graph_.is_constant(value)) return packed(node, *packing, cause);
    Device& device = *nodes_[node].device;
    const Place place = new_storage(Storage::Kind::constant, 0, device, packing->bytes);
    if (constants_)
      program_.storages_.back().constant =
          constants_->packed(graph_, value, state.way->candidate, *packing, device, cause);
    return place;
  }
  return obtain(value, state.inputs[input], *nodes_[node].device, int(node), cause, nullptr);
}

void Lowering::lower_node(size_t index) {
  const Node& node = graph_.node(index);
  const NodeStates& states = nodes_[index];
  const State& state = state_of(index);
  if (states.kind == NodeStates::Kind::view) {
    const Place source = argument(index, 0);
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      Place place = source;
      place.offset += state.shifts[k];
      place.bytes = state.outputs[k].size_bytes();
      forms_[size_t(node.outputs[k])].push_back({state.outputs[k], states.device, place});
    }
    return;
  }
  if (concat_in_place(index)) {
    const Place whole = place_of_result(node.outputs[0], state.outputs[0], *states.device);
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      Place place = whole;
      place.offset += state.shifts[k];
      place.bytes = state.inputs[k].size_bytes();
      const Slice& slice = slices_[size_t(node.inputs[k])];
      // The same value twice in one concat is made in one of its places and copied to the other.
      const Place& reserved = reserved_[size_t(node.inputs[k])];
      if (slice.whole == node.outputs[0] && slice.shift == state.shifts[k] && reserved.storage == place.storage &&
          reserved.offset == place.offset)
        continue;
      obtain(node.inputs[k], state.inputs[k], *states.device, int(index), name_of_argument(index, k), &place);
    }
    forms_[size_t(node.outputs[0])].push_back({state.outputs[0], states.device, whole});
    return;
  }
  Step step;
  step.node = int(index);
  step.device = states.device;
  if (states.kind == NodeStates::Kind::op) {
    step.entry = state.entry;
    step.way = state.way;
    if (constants_) step.kernel = context_.catalog().kernel(*state.entry, *state.way);
    require(!constants_ || step.kernel, Code::unsupported, node.schema->name, ": ", state.way->candidate.implementation,
            " could not be prepared (node \"", node.name, "\")");
    step.expected_ms = state.ms - state.packing_ms;
    step.input_descs = state.inputs;
    step.output_descs = state.outputs;
    for (size_t k = 0; k < state.inputs.size(); ++k)
      step.inputs.push_back(k < node.inputs.size() ? argument(index, k) : Place());
  }
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    const Place place = place_of_result(node.outputs[k], state.outputs[k], *states.device);
    forms_[size_t(node.outputs[k])].push_back({state.outputs[k], states.device, place});
    step.outputs.push_back(place);
  }
  if (states.kind == NodeStates::Kind::nothing) return;
  if (state.way->candidate.workspace_bytes)
    step.workspace = new_storage(Storage::Kind::arena, 0, *states.device, state.way->candidate.workspace_bytes);
  if (!emit_in_parts(step)) emit(std::move(step));
}

bool Lowering::emit_in_parts(Step& step) {
  if (step.workspace.storage < 0 || Building::wish() != Building::freely || step.workspace.bytes > kMostSummedBytes)
    return false;
  const auto* whole = dynamic_cast<const EndsLater*>(step.kernel.get());
  if (!whole) return false;
  std::vector<std::unique_ptr<Kernel>> list = whole->ends();
  if (list.empty()) return false;
  const size_t first = step.outputs.size() - list.size();
  std::vector<Step> ends;
  for (size_t k = 0; k < list.size(); ++k) {
    const Place& output = step.outputs[first + k];
    Step end;
    end.kind = Step::Kind::pack;
    end.node = step.node;
    end.device = step.device;
    end.provider = step.way->candidate.provider;
    end.sums = true;
    end.packing.form = "sum of parts";
    end.inputs = {step.workspace};
    end.packing.bytes = step.workspace.bytes;
    end.outputs = {output};
    end.input_descs = {step.output_descs[first + k]};
    end.cause = concat(program_.names_[size_t(step.node)], ": sum");
    end.kernel = std::move(list[k]);
    if (step.workspace.bytes + output.bytes > kMostSummedBytes || !dynamic_cast<const Together*>(end.kernel.get()))
      return false;
    ends.push_back(std::move(end));
  }
  step.kernel = std::make_shared<Beginning>(std::move(step.kernel), first);
  step.outputs.resize(first);
  step.outputs.push_back(step.workspace);
  step.workspace = Place();
  emit(std::move(step));
  for (Step& end : ends) emit(std::move(end));
  return true;
}

void Lowering::lower_outputs() {
  for (size_t k = 0; k < graph_.outputs().size(); ++k) {
    const GraphOutput& output = graph_.outputs()[k];
    if (made_in_place_[k]) continue;
    const TensorDesc& wanted = program_.outputs_[k];
    if (wanted.size_bytes() == 0) continue;
    const Place target = new_storage(Storage::Kind::output, int(k), program_.home_, wanted.size_bytes());
    obtain(output.value, wanted, program_.home_, -1, "output " + output.name, &target);
  }
}

void Lowering::find_overwritable() {
  std::vector<std::vector<int>> inputs(program_.steps_.size()), outputs(program_.steps_.size());  // by step: storages
  for (size_t s = 0; s < program_.storages_.size(); ++s) {
    const Storage& storage = program_.storages_[s];
    if (storage.kind == Storage::Kind::input && storage.last >= 0) inputs[size_t(storage.last)].push_back(int(s));
    if (storage.kind == Storage::Kind::output && storage.first >= 0) outputs[size_t(storage.first)].push_back(int(s));
  }
  for (size_t n = 0; n < program_.steps_.size(); ++n)
    for (const int made : outputs[n])
      for (const int old : inputs[n])
        if (may_lie_over(program_.steps_[n], made, old))
          program_.may_lie_over_[size_t(program_.storages_[size_t(made)].index)].push_back(
              program_.storages_[size_t(old)].index);
}

// Whether the step may write one storage in the memory of another one, which no later step reads.
bool Lowering::may_lie_over(const Step& step, int made, int old) const {
  if (step.kind != Step::Kind::op || step.absorbs ||
      program_.storages_[size_t(old)].bytes != program_.storages_[size_t(made)].bytes)
    return false;
  const auto place_in = [](const std::vector<Place>& places, int storage) {
    int found = -1, count = 0;
    for (size_t i = 0; i < places.size(); ++i)
      if (places[i].storage == storage) found = int(i), ++count;
    return count == 1 && places[size_t(found)].offset == 0 ? found : -1;
  };
  const int input = place_in(step.inputs, old), output = place_in(step.outputs, made);
  if (input < 0 || output < 0) return false;
  // Of steps that run as one each has as many arguments.
  const size_t together = step.runs_too.size() + 1;
  const size_t inputs = step.inputs.size() / together, outputs = step.outputs.size() / together;
  if (size_t(input) / inputs != size_t(output) / outputs) return false;
  const size_t i = size_t(input) % inputs, o = size_t(output) % outputs;
  return i < 32 && (step.way->candidate.in_place >> i & 1) && same_memory(step.input_descs[i], step.output_descs[o]);
}

// Only in the steps that end a run, but for what is appended: until then it may be left, or fail, and nothing has
// changed.
void Lowering::update_in_place() {
  const std::vector<Phase> phases = phases_of(graph_);
  const auto updates = [&](const Step& step) {
    return step.node < 0 || (!phases.empty() && phases[size_t(step.node)] == Phase::update);
  };
  size_t first = program_.steps_.size();
  while (first > 0 && updates(program_.steps_[first - 1])) --first;
  for (const Storage& made : program_.storages_) {
    if (made.kind != Storage::Kind::output) continue;
    const int32_t kept = graph_.outputs()[size_t(made.index)].kept;
    if (kept < 0 || (made.first < int(first) && !graph_.kept()[size_t(kept)].appended)) continue;
    for (const int old : program_.may_lie_over_[size_t(made.index)]) {
      if (graph_.inputs()[size_t(old)].kept != kept) continue;
      program_.in_place_of_[size_t(made.index)] = old;
      program_.first_in_place_ = std::min(program_.first_in_place_, size_t(made.first));
    }
  }
}

void Lowering::share_storages() {
  std::vector<int> shared(program_.storages_.size());  // the storage that stands for this one
  for (size_t i = 0; i < shared.size(); ++i) shared[i] = int(i);
  const auto follow = [&](std::vector<Place>& places) {
    for (Place& place : places)
      if (place.storage >= 0) place.storage = shared[size_t(place.storage)];
  };
  const auto is_whole = [&](const Place& place, const Device* device) {
    if (place.storage < 0) return false;
    const Storage& storage = program_.storages_[size_t(place.storage)];
    return storage.kind == Storage::Kind::arena && storage.device == device && place.offset == 0 &&
           place.bytes == storage.bytes;
  };
  for (size_t n = 0; n < program_.steps_.size(); ++n) {
    Step& step = program_.steps_[n];
    follow(step.inputs);
    follow(step.outputs);
    if (step.outputs.size() != 1 || !is_whole(step.outputs[0], step.device)) continue;
    Storage& own = program_.storages_[size_t(step.outputs[0].storage)];
    if (own.first != int(n)) continue;
    for (const Place& input : step.inputs) {
      if (!is_whole(input, step.device)) continue;
      Storage& other = program_.storages_[size_t(input.storage)];
      if (other.last != int(n) || !may_lie_over(step, step.outputs[0].storage, input.storage)) continue;
      other.last = own.last;  // it lives on as the result's
      own.first = own.last = -1;
      shared[size_t(step.outputs[0].storage)] = input.storage;
      follow(step.outputs);
      break;
    }
  }
}

}  // namespace pl
