#include "batch.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace ocl {
namespace {

struct Waiting {
  struct Call {
    const char* op;
    pl_attributes attributes;
    std::vector<Handle> inputs, outputs;
    std::shared_ptr<const void> owner;
  };
  std::vector<Call> calls;
  bool open = false;
};

Waiting& waiting() {
  thread_local Waiting self;
  return self;
}

// PyTorch's own kernel, which is a loop; the table of no other device of others has another one.
void by_loop(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Batch batch;
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::PrivateUse2), stack);
  batch.finish();
}

}  // namespace

Batch::Batch() : outermost_(!waiting().open) { waiting().open = true; }

Batch::~Batch() {
  if (!outermost_ || !waiting().open) return;
  try {
    finish();
  } catch (...) {
    waiting().open = false;
  }
}

void Batch::finish() {
  if (!outermost_) return;
  waiting().open = false;
  flush();
}

bool Batch::open() { return waiting().open; }

void Batch::add(const char* op, pl_attributes attributes, std::vector<Handle> inputs, std::vector<Handle> outputs,
                std::shared_ptr<const void> owner) {
  waiting().calls.push_back({op, attributes, std::move(inputs), std::move(outputs), std::move(owner)});
}

void Batch::flush() {
  if (waiting().calls.empty()) return;
  const std::vector<Waiting::Call> calls = std::exchange(waiting().calls, {});
  std::vector<pl_tensor> tensors;
  for (const Waiting::Call& call : calls)
    for (const auto* list : {&call.inputs, &call.outputs})
      for (const Handle& each : *list) tensors.push_back(each.get());
  std::vector<pl_op_call> given;
  given.reserve(calls.size());
  const pl_tensor* at = tensors.data();
  for (const Waiting::Call& call : calls) {
    const size_t inputs = call.inputs.size(), outputs = call.outputs.size();
    given.push_back({call.op, call.attributes, at, inputs, at + inputs, outputs});
    at += inputs + outputs;
  }
  check(pl_op_run_all(context(), given.data(), given.size()));
}

void register_list_op(const char* name) {
  static auto* library = new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, 0);
  library->impl(name, torch::CppFunction::makeFromBoxedFunction<&by_loop>());
}

}  // namespace ocl
