#include "programs.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/IndexingUtils.h>
#include <ATen/native/Resize.h>
#include <torch/library.h>

#include <map>
#include <unordered_map>

#include "arguments.h"
#include "fallback.h"
#include "later.h"
#include "lists.h"
#include "numbers.h"

namespace ocl {
namespace {

constexpr size_t kMaxPrograms = 16384;
constexpr size_t kMostNumbers = 4;  // programs for an op that differ in real numbers, before one for all of them

// Programs by op and arguments.
class Programs {
 public:
  ProgramRef find(const c10::OperatorHandle& op, const Arguments& arguments, uint64_t hash) {
    std::lock_guard<std::mutex> guard(lock_);
    const Entry* entry = entry_of(op, arguments, hash);
    return entry ? entry->program : nullptr;
  }
  void put(const c10::OperatorHandle& op, const Arguments& arguments, uint64_t hash, ProgramRef program) {
    std::lock_guard<std::mutex> guard(lock_);
    if (Entry* entry = entry_of(op, arguments, hash)) {
      entry->program = std::move(program);
      return;
    }
    make_room();
    by_hash_[hash].push_back(
        {op.operator_name(), {arguments.words.begin(), arguments.words.end()}, std::move(program), 0});
    ++count_;
  }
  // Whether a call whose numbers were not there before is to be served by a program for any: where others were made for
  // their numbers, as of a step size that changes. The key is without numbers.
  bool opens(const c10::OperatorHandle& op, const Arguments& arguments, uint64_t hash) {
    std::lock_guard<std::mutex> guard(lock_);
    if (Entry* entry = entry_of(op, arguments, hash)) return entry->program || ++entry->misses > kMostNumbers;
    make_room();
    by_hash_[hash].push_back({op.operator_name(), {arguments.words.begin(), arguments.words.end()}, nullptr, 1});
    ++count_;
    return false;
  }
  void forget() {
    std::lock_guard<std::mutex> guard(lock_);
    by_hash_.clear();
    count_ = 0;
  }

 private:
  struct Entry {
    c10::OperatorName op;
    std::vector<int64_t> words;
    ProgramRef program;  // of a key without numbers null until it is made
    size_t misses;       // of a key without numbers: programs that were made for numbers
  };

  Entry* entry_of(const c10::OperatorHandle& op, const Arguments& arguments, uint64_t hash) {
    const auto found = by_hash_.find(hash);
    if (found == by_hash_.end()) return nullptr;
    for (Entry& entry : found->second)
      if (std::equal(entry.words.begin(), entry.words.end(), arguments.words.begin(), arguments.words.end()) &&
          entry.op == op.operator_name())
        return &entry;
    return nullptr;
  }
  void make_room() {
    if (count_ < kMaxPrograms) return;
    by_hash_.clear();
    count_ = 0;
  }

  std::mutex lock_;
  std::unordered_map<uint64_t, std::vector<Entry>> by_hash_;
  size_t count_ = 0;
};

Programs& programs() {
  static auto* self = new Programs;
  return *self;
}

std::atomic<Maker> maker{nullptr};

ProgramRef make_program(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> values, c10::DeviceIndex device,
                        bool open_numbers) {
  auto made = std::make_shared<Program>();
  const bool random = op.hasTag(at::Tag::nondeterministic_seeded);
  const std::string name = c10::toString(op.operator_name());
  const Maker make = maker.load();
  if (random)
    made->refusal = "random numbers of another distribution";
  else if ((!make || make(name.c_str(), json_of(values, open_numbers).c_str(), device, made.get()) != 0) &&
           made->refusal.empty())
    made->refusal = "no program could be made";
  made->find_last();
  return made;
}

// Whether the op writes a tensor that is not on the device. A number on the CPU, which may be read beside tensors of any
// device, is one.
bool writes_elsewhere(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> values) {
  const auto& arguments = op.schema().arguments();
  for (size_t i = 0; i < values.size(); ++i) {
    const c10::AliasInfo* alias = arguments[i].alias_info();
    if (alias && alias->isWrite() && values[i].isTensor() && values[i].toTensor().defined() &&
        values[i].toTensor().device().type() != kDevice)
      return true;
  }
  return false;
}

void expect_one_device(const c10::OperatorHandle& op, bool holds) {
  TORCH_CHECK(holds, "ocl: ", op.operator_name().name,
              ": expected all tensors on one device, but one is on ocl and another is not");
}

ProgramRef program_for(const c10::OperatorHandle& op, const Arguments& arguments, uint64_t hash,
                       c10::ArrayRef<c10::IValue> values, c10::DeviceIndex device) {
  if (ProgramRef found = programs().find(op, arguments, hash)) return found;
  expect_one_device(op, !writes_elsewhere(op, values));
  if (!arguments.numbers.empty()) {
    Arguments any = arguments;
    any.forget_numbers();
    const uint64_t key = any.hash();
    if (programs().opens(op, any, key)) {
      ProgramRef found = programs().find(op, any, key);
      if (!found) programs().put(op, any, key, found = make_program(op, values, device, true));
      if (found->refusal.empty()) return found;
    }
  }
  ProgramRef made = make_program(op, values, device, false);
  programs().put(op, arguments, hash, made);
  return made;
}

// ---- running ----

using Results = c10::SmallVector<at::Tensor, 4>;

// The tensors that a program gives or writes.
Results results_of(const Program& program, c10::ArrayRef<const at::Tensor*> tensors, c10::DeviceIndex device) {
  Results results;
  for (const Output& output : program.outputs) {
    if (output.slot == -2) {
      results.emplace_back();
    } else if (output.argument < 0) {
      const auto made = output.free ? empty_free : empty_strided;
      results.push_back(made(output.sizes, output.strides, output.type, device));
    } else {
      const at::Tensor& target = *tensors[size_t(output.argument)];
      if (target.sizes() != c10::IntArrayRef(output.sizes)) at::native::resize_output(target, output.sizes);
      results.push_back(target);
    }
  }
  return results;
}

using Slots = c10::SmallVector<Operand, 12>;

// Whether a call with the tensor waits outside of a batch: not with those that a free block holds, images, which the
// next op reads.
bool is_small(const at::Tensor& tensor) {
  constexpr size_t kMost = size_t(64) << 10;
  if (tensor.numel() == 0 || tensor.nbytes() > kMost) return false;
  const Block* block = place_of(tensor).block;
  return !block->is_free() && !block->is_shared();
}

// The first of the steps that wait.
size_t first_to_wait(const Program& program, c10::ArrayRef<const at::Tensor*> tensors, const Results& results) {
  const size_t count = program.steps.size();
  if (!program.proven.load(std::memory_order_relaxed) || program.needs_host.load(std::memory_order_relaxed))
    return count;
  if (Batch::open()) return program.all_exist ? 0 : count;
  for (size_t n = program.last; n < count; ++n) {
    const Step& step = program.steps[n];
    for (const int slot : step.inputs)
      if (slot >= 0 && size_t(slot) < tensors.size() && !is_small(*tensors[size_t(slot)])) return count;
    for (size_t i = 0; i < program.outputs.size(); ++i) {
      const int slot = program.outputs[i].slot;
      if (slot >= step.first && slot < step.first + step.count && !is_small(results[i])) return count;
    }
  }
  return program.last;
}

// "" where the program ran; else why it did not, and nothing was changed.
std::string run(const c10::OperatorHandle* op, const ProgramRef& owner, c10::ArrayRef<const at::Tensor*> tensors,
                c10::ArrayRef<double> numbers, const Results& results, c10::DeviceIndex device) {
  const Program& program = *owner;
  const size_t count = program.steps.size(), waiting = first_to_wait(program, tensors, results);
  const int first_waiting = waiting < count ? program.steps[waiting].first : int(program.slots);
  Slots slots(program.slots);
  c10::SmallVector<at::Tensor, 2> there;  // until they are read: their memory is that of later numbers
  for (size_t i = 0; i < program.numbers; ++i)
    slots[tensors.size() + i] = operand_of(there.emplace_back(number_on(device, numbers[i])));
  for (size_t i = 0; i < program.constants.size(); ++i)
    slots[tensors.size() + program.numbers + i].tensor = program.constants[i];
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    const Output& output = program.outputs[i];
    if (output.slot < 0 || output.free) continue;
    slots[size_t(output.slot)] = output.slot < first_waiting ? operand_of(results[i]) : placed_operand_of(results[i]);
  }
  bool changed = false;
  Watch watch(op);
  c10::SmallVector<pl_tensor, 12> given, made;
  for (size_t n = 0; n < waiting; ++n) {
    const Step& step = program.steps[n];
    const size_t read = step.inputs.size(), several = size_t(step.count);
    given.assign(read, nullptr);
    made.assign(several, nullptr);
    for (size_t i = 0; i < read; ++i) {
      const int slot = step.inputs[i];
      if (slot >= 0 && !slots[size_t(slot)].tensor.get()) slots[size_t(slot)] = operand_of(*tensors[size_t(slot)]);
      given[i] = slot < 0 ? nullptr : slots[size_t(slot)].tensor.get();
      if (slot >= 0) Later::before_read(slots[size_t(slot)].block);
    }
    for (size_t i = 0; i < several; ++i) {
      const Operand& slot = slots[size_t(step.first) + i];
      made[i] = slot.tensor.get();
      Later::before_write(slot.block);
    }
    const pl_status status =
        pl_op_run(context(), step.op.c_str(), step.attributes, given.data(), read, made.data(), several, nullptr);
    if (status != PL_OK) {
      watch.check();
      const bool unable = status == PL_ERROR_UNSUPPORTED || status == PL_ERROR_SHAPE ||
                          status == PL_ERROR_INVALID_ARGUMENT || status == PL_ERROR_LAYOUT;
      if (!unable || changed) check(status);
      return pl_last_error();
    }
    for (size_t i = 0; i < several; ++i) {
      Operand& slot = slots[size_t(step.first) + i];
      if (slot.tensor.get()) continue;
      slot.tensor = Handle(made[i]);
      // What is made of one tensor may be a view of it: whoever writes there has to know that it is read.
      if (read == 1 && step.inputs[0] >= 0) slot.block = slots[size_t(step.inputs[0])].block;
    }
    for (const Output& output : program.outputs)
      changed |= output.argument >= 0 && output.slot >= step.first && output.slot < step.first + step.count;
  }
  for (size_t n = waiting; n < count; ++n) {
    const Step& step = program.steps[n];
    Slots operands;
    for (const int slot : step.inputs) {
      if (slot < 0)
        operands.emplace_back();
      else
        operands.push_back(size_t(slot) < tensors.size() ? placed_operand_of(*tensors[size_t(slot)])
                                                         : slots[size_t(slot)]);
    }
    const auto first = slots.begin() + step.first;
    operands.append(first, first + step.count);
    Later::add(device, step.op.c_str(), step.attributes, operands.data(), step.inputs.size(), size_t(step.count),
               owner);
  }
  for (size_t i = 0; i < program.outputs.size(); ++i)
    if (program.outputs[i].free) adopt(results[i], slots[size_t(program.outputs[i].slot)].tensor);
  if (watch.has_seen()) program.needs_host.store(true, std::memory_order_relaxed);
  program.proven.store(true, std::memory_order_relaxed);
  watch.finish();
  return "";
}

thread_local Calls* listening = nullptr;

// The device of the tensors among an op's arguments; the current one where there is none.
c10::DeviceIndex device_of(const c10::OperatorHandle& op, const Arguments& arguments) {
  if (arguments.tensors.empty()) return current_device();
  const c10::DeviceIndex device = arguments.tensors.front()->device().index();
  for (const at::Tensor* tensor : arguments.tensors)
    TORCH_CHECK(tensor->device().index() == device, "ocl: ", op.operator_name(), ": tensors are on ocl:", int(device),
                " and ", tensor->device(), ", expected one device");
  return device;
}

void by_program(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const size_t count = op.schema().arguments().size();
  const c10::ArrayRef<c10::IValue> values(stack->data() + (stack->size() - count), count);
  context();  // throws where the device is not to be used
  Arguments arguments(values);
  if (arguments.obstacle) {
    const std::string& name = op.operator_name().name;
    const bool takes_host = name.rfind("aten::index", 0) == 0 || name.rfind("aten::_index", 0) == 0;
    expect_one_device(op, (!arguments.host_tensor || takes_host) && !writes_elsewhere(op, values));
    return on_cpu(op, stack, arguments.obstacle);
  }
  const c10::DeviceIndex device = device_of(op, arguments);
  arguments.add_surroundings(device);
  c10::OptionalDeviceGuard guard;
  if (device != current_device()) guard.reset_device({kDevice, device});
  const uint64_t hash = arguments.hash();
  const ProgramRef program = program_for(op, arguments, hash, values, device);
  if (!program->refusal.empty()) return on_cpu(op, stack, program->refusal);
  if (listening) listening->add(program, arguments);
  Results results = results_of(*program, arguments.tensors, device);
  const std::string obstacle = run(&op, program, arguments.tensors, arguments.numbers, results, device);
  if (!obstacle.empty()) {
    auto refused = std::make_shared<Program>();
    refused->refusal = obstacle;
    programs().put(op, arguments, hash, refused);
    return on_cpu(op, stack, obstacle);
  }
  torch::jit::drop(*stack, count);
  for (size_t i = 0; i < results.size(); ++i)
    if (program->outputs[i].returned) stack->emplace_back(std::move(results[i]));
}

// Indices of the host, which PyTorch lets stand beside tensors of a device, go to it.
void bring_indices(const at::Tensor& self, c10::IValue& indices) {
  const auto is_host = [](const c10::IValue& index) {
    return index.isTensor() && index.toTensor().defined() && index.toTensor().is_cpu();
  };
  const auto given = indices.toListRef();
  if (self.device().type() != kDevice || std::none_of(given.begin(), given.end(), is_host)) return;
  c10::List<std::optional<at::Tensor>> brought;
  for (const c10::IValue& index : given) {
    const bool stays = index.isNone() || !index.toTensor().defined();
    brought.push_back(stays ? std::nullopt : std::optional<at::Tensor>(index.toTensor().to(self.device())));
  }
  indices = std::move(brought);
}

// Masks among indices stand for the places where they hold, which the device counts first; a program puts one value
// to all places of one mask, whatever their number.
void by_places(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const size_t count = op.schema().arguments().size(), first = stack->size() - count;
  c10::IValue& indices = (*stack)[first + 1];
  bring_indices((*stack)[first].toTensor(), indices);
  const auto is_mask = [](const c10::IValue& index) {
    if (!index.isTensor() || !index.toTensor().defined()) return false;
    const at::ScalarType type = index.toTensor().scalar_type();
    return (type == at::kBool || type == at::kByte) && index.toTensor().device().type() == kDevice;
  };
  const auto given = indices.toListRef();
  const bool puts = count > 2;
  if (puts && given.size() == 1 && (*stack)[first + 2].toTensor().numel() == 1) return by_program(op, stack);
  if (std::any_of(given.begin(), given.end(), is_mask)) {
    const auto masks = indices.toOptionalTensorList();
    c10::List<std::optional<at::Tensor>> places;
    for (at::Tensor& each : at::native::expandTensors((*stack)[first].toTensor(), at::IOptTensorListRef(masks)))
      places.push_back(each.defined() ? std::optional<at::Tensor>(std::move(each)) : std::nullopt);
    indices = std::move(places);
  }
  by_program(op, stack);
}

}  // namespace

Calls::Calls() : outer_(std::exchange(listening, this)) {}
Calls::~Calls() { listening = outer_; }

void call_waiting(const ProgramRef& program, c10::ArrayRef<const at::Tensor*> tensors, c10::ArrayRef<double> numbers,
                  c10::DeviceIndex device) {
  const std::string obstacle = run(nullptr, program, tensors, numbers, results_of(*program, tensors, device), device);
  TORCH_CHECK(obstacle.empty(), obstacle);
}

Program::~Program() {
  if (is_forked()) return;
  for (const Step& step : steps) pl_attributes_release(step.attributes);
}

void Program::find_last() {
  const auto exists = [&](const Step& step) {
    for (int slot = step.first; slot < step.first + step.count; ++slot)
      if (std::none_of(outputs.begin(), outputs.end(),
                       [&](const Output& each) { return each.slot == slot && !each.free; }))
        return false;
    return true;
  };
  const auto changes = [&](const Step& step) {
    return std::any_of(outputs.begin(), outputs.end(), [&](const Output& each) {
      return each.argument >= 0 && each.slot >= step.first && each.slot < step.first + step.count;
    });
  };
  all_exist = !steps.empty() && std::all_of(steps.begin(), steps.end(), exists);
  last = steps.size();
  while (last > 0 && exists(steps[last - 1]) && changes(steps[last - 1])) --last;
}

void set_maker(Maker given) { maker = given; }

void forget_programs() {
  programs().forget();
  forget_lists();
}

void register_op(const char* name) {
  static auto* libraries =
      new std::map<std::string, torch::Library>;  // as long as the process: what they register stays
  const std::string full = name, space = full.substr(0, full.find("::"));
  const auto library =
      libraries->try_emplace(space, torch::Library::IMPL, space, c10::DispatchKey::PrivateUse1, __FILE__, 0).first;
  library->second.impl(name, torch::CppFunction::makeFromBoxedFunction<&by_program>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  for (const char* name : {"index.Tensor", "index_put", "index_put_", "_index_put_impl_"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&by_places>());
}
TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&by_program>()); }

}  // namespace ocl
