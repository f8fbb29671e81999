// Ops that the device has not: run on the CPU, counted, and warned about once each.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/CPUFallback.h>
#include <c10/util/Exception.h>

#include <map>

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
  FallbackMode mode = FallbackMode::warn;
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

}  // namespace

void on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack, const std::string& reason) {
  const std::string name = c10::toString(op.operator_name());
  Records& self = records();
  std::unique_lock<std::mutex> guard(self.lock);
  const FallbackMode mode = self.mode;
  if (mode == FallbackMode::error) {
    guard.unlock();
    TORCH_CHECK_NOT_IMPLEMENTED(false, "ocl: ", name, " is not there (", reason,
                                "), and torch.ocl.set_fallback(\"error\") forbids the CPU's");
  }
  Record& record = self.by_op[name];
  const bool first = record.count++ == 0;
  if (first) record.reason = reason;
  guard.unlock();
  if (first && mode == FallbackMode::warn)
    TORCH_WARN("ocl: ", name, " runs on the CPU (", reason, "); torch.ocl.fallbacks() counts such calls");
  use_host_generator(op, stack);
  at::native::cpu_fallback(op, stack);
}

void set_fallback_mode(FallbackMode mode) {
  std::lock_guard<std::mutex> guard(records().lock);
  records().mode = mode;
}

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

}  // namespace ocl
