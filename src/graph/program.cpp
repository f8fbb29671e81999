#include "graph/program.h"

#include <algorithm>
#include <thread>

#include "core/clock.h"
#include "core/threads.h"
#include "dispatch/cost_model.h"
#include "dispatch/runner.h"
#include "graph/arena.h"
#include "graph/lowering.h"
#include "graph/records.h"
#include "profile/profile.h"

namespace pl {

// ---- shared memory ----

BufferRef SharedArenas::take(Device& device, size_t bytes) {
  {
    std::lock_guard<std::mutex> guard(lock_);
    auto best = free_.end();
    for (auto it = free_.begin(); it != free_.end(); ++it)
      if (&(*it)->device() == &device && (best == free_.end() || (*it)->bytes() > (*best)->bytes())) best = it;
    if (best != free_.end()) {
      const BufferRef block = std::move(*best);
      free_.erase(best);
      if (block->bytes() >= bytes) return block;  // else it goes, and a larger one comes
    }
  }
  device.release_cache();
  return device.allocate(std::max<size_t>(bytes, 1));
}

void SharedArenas::give(BufferRef block) {
  std::lock_guard<std::mutex> guard(lock_);
  free_.push_back(std::move(block));
}

size_t SharedArenas::bytes() const {
  std::lock_guard<std::mutex> guard(lock_);
  size_t sum = 0;
  for (const BufferRef& block : free_) sum += block->bytes();
  return sum;
}

// ---- making ----

// What one run works on: the arenas, a buffer for every place in them, and the arguments of every step.
struct Program::Instance {
  size_t queue = 0;                // Device::queue_number of the stream it runs on
  std::vector<BufferRef> buffers;  // kept alive, with the arenas that they are parts of
  std::vector<Buffer*> slots;      // inputs, outputs, workspace of every step, one after the other
  std::vector<size_t> first_slot;  // by step
  struct View {                    // a place in somebody else's memory
    Buffer* buffer;                // our own description of it, moved to where it lies in this run; null: the slots
    std::vector<size_t> slots;     // get the other's buffer itself, on devices whose memory has no addresses
    bool output;
    int index;
    size_t offset;
  };
  std::vector<View> views;
  struct Part {  // of a shared block
    Buffer* buffer;
    size_t block, offset;
  };
  std::vector<Part> parts;
  std::vector<const void*> bases;  // by block: where it was in the last run
};

namespace {

// Makes a buffer of our own describe other memory.
void move_to(Buffer& buffer, void* host) {
  Block& block = buffer.block();
  if (block.host == host) return;
  block.host = host;
  std::lock_guard<std::mutex> guard(block.companions_lock);
  block.companions.clear();  // they describe where it was before
}

BufferRef nowhere(Device& device, size_t bytes) {
  auto block = std::make_unique<Block>();
  block->bytes = bytes;
  return std::make_shared<Buffer>(device.shared_from_this(), std::move(block), nullptr);
}

}  // namespace

Program::Program(Context& context, Device& home, int threads, std::shared_ptr<SharedArenas> arenas)
    : context_(context), home_(home), threads_(threads), arenas_(std::move(arenas)) {}

Program::Program(Context& context, const Graph& graph, const std::vector<NodeStates>& nodes,
                 const Assignment& assignment, Device& home, int threads, Conversions& conversions,
                 PackedConstants& constants, bool in_place, std::shared_ptr<SharedArenas> arenas)
    : Program(context, home, threads, std::move(arenas)) {
  Lowering(*this, context, graph, nodes, assignment, conversions, &constants).lower(in_place);
  plan_memory();
  free_.push_back(make_instance());
}

ProgramMemory Program::memory_for(Context& context, const Graph& graph, const std::vector<NodeStates>& nodes,
                                  const Assignment& assignment, Device& home, int threads, Conversions& conversions,
                                  bool in_place) {
  Program program(context, home, threads, nullptr);
  Lowering(program, context, graph, nodes, assignment, conversions, nullptr).lower(in_place);
  program.plan_memory();
  return program.memory_;
}

Program::~Program() = default;

// Places every storage of the arenas so that what lives at the same time does not overlap.
void Program::plan_memory() {
  std::map<Device*, std::vector<Storage*>> by_device;
  for (Storage& storage : storages_)
    if (storage.kind == Storage::Kind::arena && storage.first >= 0) by_device[storage.device].push_back(&storage);
  ConstantBlocks constants;
  add_constants(constants);
  memory_.constant_bytes = constants.bytes();
  for (auto& [device, list] : by_device) {
    constexpr size_t kAlignment = 128;
    std::vector<ArenaBuffer> buffers;
    for (const Storage* storage : list) buffers.push_back({storage->bytes, storage->first, storage->last, kAlignment});
    const size_t first = blocks_.size();
    if (device->traits().host_addressable) {
      const ArenaPlan plan = plan_arena(buffers);
      for (size_t i = 0; i < list.size(); ++i) {
        list[i]->block = first;
        list[i]->offset = plan.offsets[i];
      }
      blocks_.emplace_back(device, plan.bytes);
      memory_.arena_bytes += plan.bytes;
      memory_.lower_bound += plan.lower_bound;
    } else {
      const SlotPlan plan = plan_slots(buffers);
      if (plan.slot_bytes.empty()) blocks_.emplace_back(device, 0);  // all of them empty
      for (size_t bytes : plan.slot_bytes) blocks_.emplace_back(device, bytes);
      for (size_t i = 0; i < list.size(); ++i) list[i]->block = first + size_t(std::max(0, plan.slots[i]));
      memory_.arena_bytes += plan.bytes;
      memory_.lower_bound += plan.lower_bound;
    }
  }
}

void Program::replace_entries(const std::function<EntryRef(const EntryRef& entry, const Way& way)>& replacement) {
  for (Step& step : steps_) {
    if (!step.entry || !step.way) continue;
    step.entry = replacement(step.entry, *step.way);
    step.way = &step.entry->ways[0];
  }
}

void Program::add_constants(ConstantBlocks& blocks) const {
  for (const Storage& storage : storages_)
    if (storage.constant) blocks.add(*storage.constant, storage.bytes);
}

std::unique_ptr<Program::Instance> Program::make_instance() {
  auto instance = std::make_unique<Instance>();
  std::vector<BufferRef> blocks;
  for (const auto& [device, bytes] : blocks_)
    blocks.push_back(shares(*device) ? nullptr : device->allocate(std::max<size_t>(bytes, 1)));
  instance->bases.assign(blocks.size(), nullptr);
  std::map<std::pair<int, size_t>, Buffer*> known;  // by storage and offset
  std::map<std::pair<int, size_t>, size_t> views;   // the same, of externals: index into views
  const auto slot = [&](const Place& place) {
    Buffer* buffer = nullptr;
    if (place.storage >= 0) {
      const Storage& storage = storages_[size_t(place.storage)];
      const std::pair<int, size_t> key{place.storage, place.offset};
      auto it = known.find(key);
      if (it == known.end()) {
        BufferRef made;
        if (storage.kind == Storage::Kind::constant) {
          made = place.offset ? storage.device->part(storage.constant, place.offset, storage.bytes - place.offset)
                              : storage.constant;
        } else if (storage.kind == Storage::Kind::arena) {
          made = blocks[storage.block];
          const size_t offset = storage.offset + place.offset,
                       bytes = std::max<size_t>(1, storage.bytes - place.offset);
          if (shares(*storage.device)) {
            made = nowhere(*storage.device, bytes);
            instance->parts.push_back({made.get(), storage.block, offset});
          } else if (storage.device->traits().host_addressable) {
            made = storage.device->part(made, offset, bytes);
          }
        } else {
          if (storage.device->traits().host_addressable) made = nowhere(*storage.device, storage.bytes - place.offset);
          views[key] = instance->views.size();
          instance->views.push_back(
              {made.get(), {}, storage.kind == Storage::Kind::output, storage.index, place.offset});
        }
        if (made) instance->buffers.push_back(made);
        it = known.emplace(key, made.get()).first;
      }
      buffer = it->second;
      if (!buffer) instance->views[views[key]].slots.push_back(instance->slots.size());
    }
    instance->slots.push_back(buffer);
  };
  for (const Step& step : steps_) {
    instance->first_slot.push_back(instance->slots.size());
    for (const Place& place : step.inputs) slot(place);
    for (const Place& place : step.outputs) slot(place);
    slot(step.workspace);
  }
  return instance;
}

std::vector<BufferRef> Program::take_blocks(Instance& instance) {
  std::vector<BufferRef> blocks(blocks_.size());
  std::vector<bool> moved(blocks_.size(), false);
  for (size_t i = 0; i < blocks_.size(); ++i) {
    if (!shares(*blocks_[i].first)) continue;
    blocks[i] = arenas_->take(*blocks_[i].first, blocks_[i].second);
    moved[i] = instance.bases[i] != blocks[i]->host();
    instance.bases[i] = blocks[i]->host();
  }
  if (std::find(moved.begin(), moved.end(), true) != moved.end())
    for (const Instance::Part& part : instance.parts)
      if (moved[part.block]) move_to(*part.buffer, static_cast<char*>(blocks[part.block]->host()) + part.offset);
  return blocks;
}

// ---- running ----

void Program::run_step(const Step& step, Buffer* const* slots) {
  Buffer* const* outputs = slots + step.inputs.size();
  switch (step.kind) {
    case Step::Kind::op:
    case Step::Kind::reorder:
    case Step::Kind::pack:
      if (step.kernel)
        step.kernel->run({slots, outputs, outputs[step.outputs.size()], submits_later_});
      else if (!step.runs_elsewhere)
        step.packing.pack(*slots[0], *outputs[0]);
      break;
    case Step::Kind::copy: step.device->copy(*slots[0], 0, *outputs[0], 0, step.outputs[0].bytes); break;
    case Step::Kind::transfer: transfer(*slots[0], 0, *outputs[0], 0, step.outputs[0].bytes); break;
  }
}

void Program::record(const Step& step, Buffer* const* slots) {
  if (step.runs_elsewhere) return;
  Profile& profile = context_.profile();
  ProfileEvent event;
  event.kind = step.kind == Step::Kind::op ? "op" : step.kind == Step::Kind::transfer ? "transfer" : "reorder";
  event.op = step.kind == Step::Kind::op ? step.entry->op.schema->name : event.kind;
  if (step.kind == Step::Kind::pack) {
    event.provider = step.provider;
    event.implementation = step.packing.form;
  } else if (step.way) {
    event.provider = step.way->candidate.provider;
    event.implementation = step.way->candidate.implementation;
  } else {
    event.implementation = step.kind == Step::Kind::copy ? "copy" : "transfer";
  }
  const auto count = [&](const Step& one) {
    if (one.entry) event.flops += flops_of(one.entry->op);
    event.bytes += one.entry                      ? bytes_of(one.entry->op)
                   : one.kind == Step::Kind::pack ? double(one.input_descs[0].size_bytes() + one.packing.bytes)
                                                  : double(one.outputs[0].bytes);
  };
  count(step);
  for (int other : step.runs_too) count(steps_[size_t(other)]);
  event.device = step.device->name();
  for (size_t i = 0; i < step.input_descs.size(); ++i) {
    const TensorDesc& desc = step.input_descs[i];
    const bool weights = step.kind == Step::Kind::op && step.entry->op.schema->is_weights(int(i));
    if (desc.present) event.inputs.push_back(desc.str(weights));
  }
  for (const TensorDesc& desc : step.output_descs) event.outputs.push_back(desc.str());
  if (step.kind == Step::Kind::pack) event.outputs = {step.packing.form};
  event.role = step.kind == Step::Kind::op     ? ""
               : step.kind == Step::Kind::pack ? "weights"
               : step.node < 0                 ? "output"
                                               : "activation";
  event.cause = step.kind == Step::Kind::op ? names_[size_t(step.node)] : step.cause;
  event.thread = std::hash<std::thread::id>()(std::this_thread::get_id());
  event.start_ms = profile.now_ms();
  event.timing = step.device->start_timing();
  run_step(step, slots);
  event.timing->stop();
  profile.add(std::move(event));
}

bool Program::run(const External* inputs, const External* outputs, const RunTimes& times) {
  std::unique_ptr<Instance> instance;
  const size_t queue = home_.queue_number();
  {
    std::lock_guard<std::mutex> guard(lock_);
    // One of another stream would have to wait for that.
    const auto free = std::find_if(free_.rbegin(), free_.rend(), [&](const auto& one) { return one->queue == queue; });
    if (free != free_.rend()) {
      instance = std::move(*free);
      free_.erase(std::next(free).base());
    }
  }
  if (!instance) {
    instance = make_instance();
    instance->queue = queue;
  }
  // Given back whatever happens, so that a failed run costs no memory.
  struct Return {
    Program& program;
    std::unique_ptr<Instance>& instance;
    std::vector<BufferRef> blocks;
    ~Return() {
      for (BufferRef& block : blocks)
        if (block) program.arenas_->give(std::move(block));
      std::lock_guard<std::mutex> guard(program.lock_);
      program.free_.push_back(std::move(instance));
    }
  } give_back{*this, instance, {}};
  if (arenas_) give_back.blocks = take_blocks(*instance);

  for (Instance::View& view : instance->views) {
    const External& external = (view.output ? outputs : inputs)[view.index];
    if (!view.buffer) {
      for (size_t slot : view.slots) instance->slots[slot] = external.buffer;
      continue;
    }
    move_to(*view.buffer, static_cast<char*>(external.buffer->host()) + external.offset + view.offset);
  }
  refuse_after_fork();
  if (uses_threads_) use_threads(threads_);
  Buffer* const* slots = instance->slots.data();
  if (context_.profile().active()) {
    for (size_t i = 0; i < steps_.size(); ++i) record(steps_[i], slots + instance->first_slot[i]);
  } else if (times.timings) {
    StepTimings& timed = *times.timings;
    timed.timings.clear();
    timed.timings.resize(steps_.size());
    for (size_t i = 0; i < steps_.size(); ++i) {
      const bool wanted = i < timed.wanted.size() && timed.wanted[i];
      if (i == first_in_place_ && times.overwrote) *times.overwrote = true;
      if (wanted) timed.timings[i] = steps_[i].device->start_timing();
      run_step(steps_[i], slots + instance->first_slot[i]);
      if (wanted) timed.timings[i]->stop();
    }
  } else if (std::vector<double>* step_ms = times.step_ms) {
    const GoOn* go_on = times.go_on;
    step_ms->resize(steps_.size());
    double sum = 0;
    for (size_t i = 0; i < steps_.size(); ++i) {
      const double start = now_ms();
      if (i == first_in_place_ && times.overwrote) *times.overwrote = true;
      run_step(steps_[i], slots + instance->first_slot[i]);
      (*step_ms)[i] = now_ms() - start;
      sum += (*step_ms)[i];
      if (!go_on || i >= first_in_place_ || i + 1 == steps_.size() || (*go_on)(i + 1, sum)) continue;
      step_ms->resize(i + 1);
      return false;
    }
  } else {
    for (size_t i = 0; i < steps_.size(); ++i) run_step(steps_[i], slots + instance->first_slot[i]);
  }
  return true;
}

}  // namespace pl
