// Ops by programs: what Python made of an op for given sizes, dtypes and numbers, kept and run again.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/Resize.h>
#include <torch/library.h>

#include <cmath>
#include <iomanip>
#include <map>
#include <sstream>
#include <unordered_map>

#include "fallback.h"
#include "shim.h"

namespace ocl {
namespace {

constexpr size_t kMaxPrograms = 16384;

// ---- arguments as a key, and as JSON for Python ----

// A number that PyTorch made a tensor of the CPU: `x * 2`.
bool is_number(const at::Tensor& tensor) { return tensor.device().is_cpu() && tensor.dim() == 0; }

class Arguments {
 public:
  // False where an argument is nothing that programs are made for.
  bool read(const c10::IValue* values, size_t count) {
    for (size_t i = 0; i < count; ++i)
      if (!read(values[i])) return false;
    return true;
  }
  std::string key;
  std::vector<at::Tensor> tensors;  // of the device, in order
  const char* obstacle = "an argument of another kind";
  bool host_tensor = false;

 private:
  template <class T>
  void put(char tag, const T& value) {
    key.push_back(tag);
    key.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void put(c10::IntArrayRef values) {
    key.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int64_t));
  }

  bool read(const at::Tensor& tensor) {
    if (!tensor.defined()) {
      key.push_back('n');
      return true;
    }
    if (is_number(tensor)) {
      const at::ScalarType type = tensor.scalar_type();
      const bool wrapped = tensor.unsafeGetTensorImpl()->is_wrapped_number();
      put('c', int32_t(type) * 2 + wrapped);
      if (c10::isFloatingType(type))
        put('d', tensor.item<double>());
      else if (c10::isIntegralType(type, true))
        put('i', tensor.item<int64_t>());
      else
        return false;
      return true;
    }
    if (tensor.device().type() != kDevice) {
      obstacle = "a tensor that is not on the device";
      host_tensor = true;
      return false;
    }
    if (tensor.dim() > PL_MAX_RANK || !dtype_of(tensor.scalar_type()) || tensor.is_sparse() || tensor.is_neg() ||
        tensor.is_conj()) {
      obstacle = tensor.dim() > PL_MAX_RANK ? "more than 8 dimensions" : "a dtype that the library has not";
      return false;
    }
    put('t', int32_t(tensor.scalar_type()) << 8 | int32_t(tensor.dim()));
    put(tensor.sizes());
    put(tensor.strides());
    tensors.push_back(tensor);
    return true;
  }

  bool read(const c10::IValue& value) {
    if (value.isTensor()) return read(value.toTensor());
    if (value.isNone()) {
      key.push_back('n');
    } else if (value.isInt()) {
      put('i', value.toInt());
    } else if (value.isDouble()) {
      put('d', value.toDouble());
    } else if (value.isBool()) {
      put('b', value.toBool());
    } else if (value.isString()) {
      put('s', uint32_t(value.toStringRef().size()));
      key += value.toStringRef();
    } else if (value.isList()) {
      const c10::ArrayRef<c10::IValue> list = value.toListRef();
      put('l', uint32_t(list.size()));
      for (const c10::IValue& each : list)
        if (!read(each)) return false;
    } else if (value.isIntList()) {
      const auto list = value.toIntVector();
      put('v', uint32_t(list.size()));
      put(list);
    } else if (value.isTensorList() || value.isOptionalTensorList() || value.isDoubleList() || value.isBoolList()) {
      const auto list = value.toListRef();
      put('l', uint32_t(list.size()));
      for (const c10::IValue& each : list)
        if (!read(each)) return false;
    } else {
      return false;
    }
    return true;
  }
};

// The same as JSON: {"t": [slot, dtype, sizes, strides]} is a tensor, {"c": [dtype, value]} one of the CPU.
class Text {
 public:
  std::string of(const c10::IValue* values, size_t count) {
    out_.precision(17);
    out_ << '[';
    for (size_t i = 0; i < count; ++i) {
      if (i) out_ << ',';
      write(values[i]);
    }
    out_ << ']';
    return out_.str();
  }

 private:
  void write(double value) {
    if (std::isnan(value))
      out_ << "NaN";
    else if (std::isinf(value))
      out_ << (value < 0 ? "-Infinity" : "Infinity");
    else if (value == std::floor(value) && std::abs(value) < 1e15)
      out_ << std::fixed << std::setprecision(1) << value << std::defaultfloat << std::setprecision(17);
    else
      out_ << value;
  }
  void write(c10::IntArrayRef values) {
    out_ << '[';
    for (size_t i = 0; i < values.size(); ++i) out_ << (i ? "," : "") << values[i];
    out_ << ']';
  }
  void write(const at::Tensor& tensor) {
    if (!tensor.defined()) {
      out_ << "null";
    } else if (is_number(tensor)) {
      const bool wrapped = tensor.unsafeGetTensorImpl()->is_wrapped_number();
      if (!wrapped) out_ << "{\"c\":[" << int(tensor.scalar_type()) << ',';
      if (tensor.scalar_type() == at::kBool)
        out_ << (tensor.item<bool>() ? "true" : "false");
      else if (c10::isFloatingType(tensor.scalar_type()))
        write(tensor.item<double>());
      else
        out_ << tensor.item<int64_t>();
      if (!wrapped) out_ << "]}";
    } else {
      out_ << "{\"t\":[" << slot_++ << ',' << int(tensor.scalar_type()) << ',';
      write(tensor.sizes());
      out_ << ',';
      write(tensor.strides());
      out_ << "]}";
    }
  }
  void write(const c10::IValue& value) {
    if (value.isTensor()) {
      write(value.toTensor());
    } else if (value.isNone()) {
      out_ << "null";
    } else if (value.isInt()) {
      out_ << value.toInt();
    } else if (value.isDouble()) {
      write(value.toDouble());
    } else if (value.isBool()) {
      out_ << (value.toBool() ? "true" : "false");
    } else if (value.isString()) {
      out_ << '"';
      for (const char c : value.toStringRef())
        if (c >= ' ' && c != '"' && c != '\\') out_ << c;  // names of modes
      out_ << '"';
    } else if (value.isIntList()) {
      write(c10::IntArrayRef(value.toIntVector()));
    } else {
      out_ << '[';
      bool first = true;
      for (const c10::IValue& each : value.toListRef()) {
        if (!first) out_ << ',';
        first = false;
        write(each);
      }
      out_ << ']';
    }
  }
  std::ostringstream out_;
  int slot_ = 0;
};

// ---- programs that were made ----

struct Programs {
  std::mutex lock;
  std::unordered_map<std::string, std::shared_ptr<Program>> by_key;
  Maker maker = nullptr;
};

Programs& programs() {
  static auto* self = new Programs;
  return *self;
}

std::shared_ptr<Program> program_for(const c10::OperatorHandle& op, const std::string& key, const c10::IValue* values,
                                     size_t count, c10::DeviceIndex device) {
  Programs& self = programs();
  {
    std::lock_guard<std::mutex> guard(self.lock);
    const auto found = self.by_key.find(key);
    if (found != self.by_key.end()) return found->second;
  }
  auto made = std::make_shared<Program>();
  std::ostringstream name;
  name << op.operator_name();
  if (!self.maker || self.maker(name.str().c_str(), Text().of(values, count).c_str(), device, made.get()) != 0)
    if (made->refusal.empty()) made->refusal = "no program could be made";
  std::lock_guard<std::mutex> guard(self.lock);
  if (self.by_key.size() >= kMaxPrograms) self.by_key.clear();
  self.by_key[key] = made;
  return made;
}

// ---- running ----

// "" where the program ran; else why it did not, and nothing was changed.
std::string run(const Program& program, const std::vector<at::Tensor>& tensors, std::vector<at::Tensor>& results,
                c10::DeviceIndex device) {
  for (const Output& output : program.outputs) {
    if (output.slot == -2) {
      results.emplace_back();
      continue;
    }
    if (output.argument < 0) {
      results.push_back(empty_strided(output.sizes, output.strides, output.type, device));
      continue;
    }
    const at::Tensor& target = tensors[size_t(output.argument)];
    if (target.sizes() != c10::IntArrayRef(output.sizes)) at::native::resize_output(target, output.sizes);
    results.push_back(target);
  }
  std::vector<Handle> slots(program.slots);
  std::vector<bool> is_input(program.slots);
  const auto at_slot = [&](int slot) -> pl_tensor {
    if (slot < 0) return nullptr;
    if (!slots[size_t(slot)].get()) slots[size_t(slot)] = view_of(tensors[size_t(slot)]);
    return slots[size_t(slot)].get();
  };
  for (size_t i = 0; i < program.constants.size(); ++i) {
    pl_tensor same = nullptr;
    check(pl_tensor_retain(program.constants[i], &same));
    slots[tensors.size() + i] = Handle(same);
  }
  for (size_t i = 0; i < program.outputs.size(); ++i)
    if (program.outputs[i].slot >= 0) slots[size_t(program.outputs[i].slot)] = view_of(results[i]);
  bool changed = false;
  pl_tensor given[64], made[64];
  for (const Step& step : program.steps) {
    const size_t count = step.inputs.size(), several = size_t(step.count);
    TORCH_CHECK(count <= 64 && several <= 64, "ocl: ", step.op, ": too many tensors");
    for (size_t i = 0; i < count; ++i) given[i] = at_slot(step.inputs[i]);
    for (size_t i = 0; i < several; ++i) made[i] = slots[size_t(step.first) + i].get();
    const pl_status status =
        pl_op_run(context(), step.op.c_str(), step.attributes, given, count, made, several, nullptr);
    if (status != PL_OK) {
      const bool unable = status == PL_ERROR_UNSUPPORTED || status == PL_ERROR_SHAPE ||
                          status == PL_ERROR_INVALID_ARGUMENT || status == PL_ERROR_LAYOUT;
      if (!unable || changed) check(status);
      return pl_last_error();
    }
    for (size_t i = 0; i < several; ++i) {
      Handle& slot = slots[size_t(step.first) + i];
      if (!slot.get()) slot = Handle(made[i]);
    }
    for (const Output& output : program.outputs)
      changed |= output.argument >= 0 && output.slot >= step.first && output.slot < step.first + step.count;
  }
  return "";
}

void by_program(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const size_t count = op.schema().arguments().size();
  const c10::IValue* values = stack->data() + (stack->size() - count);
  context();  // throws where the device is not to be used
  Arguments arguments;
  const c10::OperatorName& name = op.operator_name();
  arguments.key = name.name;
  arguments.key += '.';
  arguments.key += name.overload_name;
  arguments.key.push_back('\0');
  if (op.hasTag(at::Tag::nondeterministic_seeded)) return on_cpu(op, stack, "random numbers are drawn by the host");
  if (!arguments.read(values, count)) {
    if (arguments.host_tensor)
      TORCH_CHECK(name.name.rfind("aten::index", 0) == 0 || name.name.rfind("aten::_index", 0) == 0, "ocl: ", name.name,
                  ": expected all tensors on one device, but one is on ocl and another is not");
    return on_cpu(op, stack, arguments.obstacle);
  }
  // A list that holds no tensor of the device: what to run on is told by the current device.
  const c10::DeviceIndex device =
      arguments.tensors.empty() ? current_device() : arguments.tensors.front().device().index();
  for (const at::Tensor& tensor : arguments.tensors)
    TORCH_CHECK(tensor.device().index() == device, "ocl: ", name.name, ": tensors are on ocl:", int(device), " and ",
                tensor.device(), ", expected one device");
  const c10::DeviceGuard guard({kDevice, device});
  const std::shared_ptr<Program> program = program_for(op, arguments.key, values, count, device);
  if (!program->refusal.empty()) return on_cpu(op, stack, program->refusal);
  std::vector<at::Tensor> results;
  const std::string obstacle = run(*program, arguments.tensors, results, device);
  if (!obstacle.empty()) {
    auto refused = std::make_shared<Program>();
    refused->refusal = obstacle;
    {
      std::lock_guard<std::mutex> lock(programs().lock);
      programs().by_key[arguments.key] = refused;
    }
    return on_cpu(op, stack, obstacle);
  }
  torch::jit::drop(*stack, count);
  for (at::Tensor& result : results) stack->emplace_back(std::move(result));
}

}  // namespace

Program::~Program() {
  if (is_forked()) return;
  for (pl_tensor each : constants) pl_tensor_release(each);
  for (const Step& step : steps) pl_attributes_release(step.attributes);
}

void set_maker(Maker maker) { programs().maker = maker; }

void forget_programs() {
  std::lock_guard<std::mutex> guard(programs().lock);
  programs().by_key.clear();
}

void register_op(const char* name) {
  static auto* libraries =
      new std::map<std::string, torch::Library>;  // as long as the process: what they register stays
  const std::string full = name, space = full.substr(0, full.find("::"));
  const auto library =
      libraries->try_emplace(space, torch::Library::IMPL, space, c10::DispatchKey::PrivateUse1, __FILE__, 0).first;
  library->second.impl(name, torch::CppFunction::makeFromBoxedFunction<&by_program>());
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&by_program>()); }

}  // namespace ocl
