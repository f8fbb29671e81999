// Ops that the device has not: run on the CPU, by PyTorch or by the library, counted, and warned about once each.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/CPUFallback.h>
#include <c10/util/Exception.h>

#include <map>
#include <mutex>
#include <optional>

#include "fallback.h"
#include "shim.h"

namespace ocl {
namespace {

struct Record {
  uint64_t count = 0;
  std::string reason;
};

struct Records {
  std::mutex lock;
  std::map<std::string, Record> by_op;
  std::atomic<FallbackMode> mode{FallbackMode::warn};
};

Records& records() {
  static auto* self = new Records;
  return *self;
}

// Generators of the device in an op's arguments become those of the host; one that is left out is the device's default.
void use_host_generator(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& arguments = op.schema().arguments();
  const size_t first = stack->size() - arguments.size();
  for (size_t i = 0; i < arguments.size(); ++i) {
    c10::IValue& value = (*stack)[first + i];
    if (value.isGenerator())
      value = host_generator(value.toGenerator());
    else if (value.isNone() && arguments[i].name() == "generator")
      value = host_generator(default_generator(current_device()));
  }
}

// PyTorch's fallback gives results to the device of the first tensor.  Where that is a number on the CPU, which may stand
// beside tensors of any device, they belong to the device of these.
std::optional<c10::Device> device_behind_a_number(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  bool numbers = false;
  for (size_t i = stack.size() - op.schema().arguments().size(); i < stack.size(); ++i) {
    if (!stack[i].isTensor() || !stack[i].toTensor().defined()) continue;
    const at::Tensor& tensor = stack[i].toTensor();
    if (tensor.is_privateuseone() && numbers) return tensor.device();
    if (tensor.dim() != 0 || !tensor.is_cpu()) return std::nullopt;
    numbers = true;
  }
  return std::nullopt;
}

[[noreturn]] void forbid(const std::string& name, const std::string& reason) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "ocl: ", name, " is not there (", reason,
                              "), and torch.ocl.set_fallback(\"error\") forbids the CPU's");
}

void add_record(const std::string& name, const std::string& reason) {
  Records& self = records();
  std::unique_lock<std::mutex> guard(self.lock);
  Record& record = self.by_op[name];
  const bool first = record.count++ == 0;
  if (first) record.reason = reason;
  guard.unlock();
  if (first && self.mode == FallbackMode::warn)
    TORCH_WARN("ocl: ", name, " runs on the CPU (", reason, "); torch.ocl.fallbacks() counts such calls");
}

thread_local Watch* watching = nullptr;

}  // namespace

Watch::Watch(const c10::OperatorHandle* op) : op_(op), outer_(std::exchange(watching, this)) {}

Watch::~Watch() { watching = outer_; }

int Watch::tell(void*, const char* op, const char* device, const char* reason) {
  if (!watching) return 0;  // not the shim's: other code uses the library in this process
  std::string why = std::string("no kernel of ") + op + " on " + device + ": " + reason;
  watching->seen_.emplace_back(std::string("pylayout::") + op, std::move(why));
  watching->refused_ = records().mode == FallbackMode::error;
  return watching->refused_;
}

std::string Watch::name_of(const std::string& op) const { return op_ ? c10::toString(op_->operator_name()) : op; }

void Watch::check() const {
  if (refused_) forbid(name_of(seen_.back().first), seen_.back().second);
}

void Watch::finish() {
  const auto seen = std::exchange(seen_, {});
  for (const auto& [op, reason] : seen) {
    add_record(name_of(op), reason);
    if (op_) break;  // one call of it
  }
}

void run_op(const char* op, pl_attributes attributes, c10::ArrayRef<pl_tensor> inputs, pl_tensor* outputs,
            size_t count) {
  Watch watch;
  const pl_status status = pl_op_run(context(), op, attributes, inputs.data(), inputs.size(), outputs, count, nullptr);
  watch.check();
  check(status);
  watch.finish();
}

void count_fallback(const std::string& name, const std::string& reason) {
  if (records().mode == FallbackMode::error) forbid(name, reason);
  add_record(name, reason);
}

void on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack, const std::string& reason) {
  count_fallback(c10::toString(op.operator_name()), reason);
  use_host_generator(op, stack);
  const auto device = device_behind_a_number(op, *stack);
  at::native::cpu_fallback(op, stack);
  if (!device) return;
  for (size_t i = stack->size() - op.schema().returns().size(); i < stack->size(); ++i)
    if ((*stack)[i].isTensor()) (*stack)[i] = (*stack)[i].toTensor().to(*device);
}

void set_fallback_mode(FallbackMode mode) { records().mode = mode; }

std::string fallbacks() {
  std::lock_guard<std::mutex> guard(records().lock);
  std::string text;
  for (const auto& [op, record] : records().by_op)
    if (record.count) text += std::to_string(record.count) + " " + op + ": " + record.reason + "\n";
  return text;
}

void clear_fallbacks() {
  std::lock_guard<std::mutex> guard(records().lock);
  records().by_op.clear();
}

namespace {

void refuse_sparse(const c10::OperatorHandle& op, torch::jit::Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "ocl: ", c10::toString(op.operator_name()),
                              ": the device has no sparse tensors; keep them on the CPU, or give nn.Embedding and "
                              "nn.EmbeddingBag sparse=False");
}

// Else PyTorch names the keys for which it has a kernel.
TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_sparse>()); }
TORCH_LIBRARY_IMPL(_, SparseCsrPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_sparse>());
}

}  // namespace

}  // namespace ocl
