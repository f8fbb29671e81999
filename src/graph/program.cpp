#include "graph/program.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "core/clock.h"
#include "core/files.h"
#include "core/threads.h"
#include "dispatch/cost_model.h"
#include "dispatch/runner.h"
#include "graph/arena.h"
#include "graph/joined_constants.h"
#include "graph/lowering.h"
#include "graph/records.h"
#include "profile/profile.h"

namespace pl {
namespace {

// Adds the time of its life to a sum, if there is one.
class Stopwatch {
 public:
  explicit Stopwatch(double* sum) : sum_(sum) {}
  ~Stopwatch() {
    if (sum_) *sum_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
  }

 private:
  double* sum_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

// 128 bits, so that equal ones may be taken for equal contents.
std::string hash_of(const char* data, size_t bytes) {
  uint64_t a = bytes, b = ~uint64_t(bytes);
  const auto mix = [&](uint64_t word) {
    a = (a ^ word) * 0x9e3779b97f4a7c15u;
    a ^= a >> 32;
    b = ((b << 23 | b >> 41) + word) * 0xc2b2ae3d27d4eb4fu;
  };
  size_t i = 0;
  for (; i + 8 <= bytes; i += 8) {
    uint64_t word;
    std::memcpy(&word, data + i, 8);
    mix(word);
  }
  uint64_t last = 0;
  if (i < bytes) std::memcpy(&last, data + i, bytes - i);
  mix(last);
  return hex(a) + hex(b);
}

std::string tensor_form(const TensorDesc& wanted) { return wanted.str() + wanted.layout.generic_str(); }

// How a tensor lies in its memory.
std::string lying(const TensorDesc& desc) {
  return tensor_form(desc) + joined(desc.strides.vector()) + "+" + std::to_string(desc.offset);
}

}  // namespace

// ---- constants ----

void PackedConstants::share(const Graph& source) {
  std::lock_guard<std::mutex> guard(lock_);
  shared_ = true;
  for (const Value& value : source.values())
    if (value.constant) sources_.emplace(ConstantBlocks::place_of(*value.constant->buffer()), value.constant->buffer());
}

bool PackedConstants::are_shared() const {
  std::lock_guard<std::mutex> guard(lock_);
  return shared_;
}

bool PackedConstants::is_source(const Tensor& tensor) const {
  return sources_.count(ConstantBlocks::place_of(*tensor.buffer())) != 0;
}

TensorRef PackedConstants::in_a_row(const std::vector<TensorRef>& parts) {
  std::lock_guard<std::mutex> guard(lock_);
  std::string key;
  for (const TensorRef& part : parts) {
    if (!is_source(*part)) return nullptr;
    key += concat(ConstantBlocks::place_of(*part->buffer()), '\t', lying(part->desc()), '\n');
  }
  TensorRef& known = rows_[key];
  if (!known) {
    known = constants_in_a_row(context_, parts);
    sources_.emplace(ConstantBlocks::place_of(*known->buffer()), known->buffer());
  }
  return known;
}

// Never by the value's number: that differs between the graphs of a plan's variants.  With the lock.
std::string PackedConstants::key_of(const TensorRef& constant, const std::string& form, const Device& device) const {
  const std::string rest = "\t" + form + "\t" + device.name();
  if (!shared_) return concat(static_cast<const void*>(constant.get())) + rest;
  const TensorDesc& desc = constant->desc();
  const BufferRef& buffer = constant->buffer();
  const std::string description = lying(desc);
  const void* place = ConstantBlocks::place_of(*buffer);
  if (sources_.count(place)) return concat(place, '\t') + description + rest;
  const size_t bytes = std::min(desc.size_bytes(), buffer->bytes());
  const uint64_t version = buffer->version();
  Contents& known = contents_[buffer.get()];
  if (known.buffer.lock() != buffer || known.version != version || known.bytes != bytes) {
    known = {buffer, version, bytes, {}};
    std::vector<char> copy(buffer->device().traits().host_addressable ? 0 : bytes);
    if (!copy.empty()) buffer->device().read(*buffer, 0, copy.data(), bytes);
    known.text = hash_of(copy.empty() ? static_cast<const char*>(buffer->host()) : copy.data(), bytes);
  }
  return known.text + '\t' + description + rest;
}

double PackedConstants::seconds() const {
  std::lock_guard<std::mutex> guard(lock_);
  return seconds_;
}

TensorRef PackedConstants::tensor(const Graph& graph, ValueId value, const TensorDesc& wanted, Device& device,
                                  const std::string& why) {
  std::lock_guard<std::mutex> guard(lock_);
  const TensorRef& constant = graph.value(value).constant;
  TensorRef& known = tensors_[key_of(constant, tensor_form(wanted), device)];
  const Stopwatch watch(known ? nullptr : &seconds_);
  if (!known)
    known = context_.runner().convert(in_memory(context_, constant), device, wanted, "weights", why, false, true);
  return known;
}

BufferRef PackedConstants::packed(const Graph& graph, ValueId value, const Candidate& candidate, const Packing& packing,
                                  Device& device, const std::string& why) {
  std::lock_guard<std::mutex> guard(lock_);
  const TensorRef& constant = graph.value(value).constant;
  BufferRef& known = packed_[key_of(constant, candidate.provider + "/" + packing.form, device)];
  const Stopwatch watch(known ? nullptr : &seconds_);
  if (!known)
    known = context_.runner().packed(in_memory(context_, constant), device, candidate, packing, why, false, true);
  return known;
}

bool PackedConstants::has_tensor(const Graph& graph, ValueId value, const TensorDesc& wanted, Device& device) const {
  const TensorRef& constant = graph.value(value).constant;
  if (&constant->device() == &device && same_memory(constant->desc(), wanted) && is_aligned(*constant)) return true;
  std::lock_guard<std::mutex> guard(lock_);
  return tensors_.count(key_of(constant, tensor_form(wanted), device));
}

bool PackedConstants::has_packed(const Graph& graph, ValueId value, const Candidate& candidate, const Packing& packing,
                                 Device& device) const {
  std::lock_guard<std::mutex> guard(lock_);
  return packed_.count(key_of(graph.value(value).constant, candidate.provider + "/" + packing.form, device));
}

// A program holds buffers, and a tensor for some of its constants.
void PackedConstants::release_unused() {
  std::lock_guard<std::mutex> guard(lock_);
  for (auto it = tensors_.begin(); it != tensors_.end();) {
    const bool unused = !it->second || (it->second.use_count() == 1 &&
                                        (it->second->buffer().use_count() == 1 || is_source(*it->second)));
    it = unused ? tensors_.erase(it) : std::next(it);
  }
  for (auto it = packed_.begin(); it != packed_.end();)
    it = !it->second || it->second.use_count() == 1 ? packed_.erase(it) : std::next(it);
  for (auto it = contents_.begin(); it != contents_.end();)
    it = it->second.buffer.expired() ? contents_.erase(it) : std::next(it);
}

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
