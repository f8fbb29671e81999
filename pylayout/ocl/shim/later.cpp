#include "later.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "fallback.h"

namespace ocl {
namespace {

constexpr size_t kMost = 1024;  // calls that wait: what they hold is not kept for ever

thread_local bool batch_is_open = false;

// PyTorch's own kernel, which is a loop; the table of no other device of others has another one.
void by_loop(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Batch batch;
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::PrivateUse2), stack);
  batch.finish();
}

// Makes a stream the calling thread's.
class OnStream {
 public:
  OnStream(c10::DeviceIndex device, int64_t stream) : device_(device), before_(current_stream_of(device)) {
    set_current_stream(device, stream);
  }
  ~OnStream() {
    try {
      set_current_stream(device_, before_);
    } catch (...) {  // a stream that was there is there
    }
  }

 private:
  c10::DeviceIndex device_;
  int64_t before_;
};

}  // namespace

std::atomic<uint64_t> Later::round_{1};

struct Later::Waiting {
  struct Call {
    const char* op;
    pl_attributes attributes;
    std::vector<Operand> inputs, outputs;
    std::shared_ptr<const void> owner;
  };
  std::mutex lock;  // held until what waited is started: who finds nothing here may rely on that
  std::vector<Call> calls;
  c10::DeviceIndex device = 0;
  int64_t stream = 0;
};

Later::Waiting& Later::waiting() {
  static auto* self = new Waiting;  // never destroyed: tensors may outlive static objects
  return *self;
}

void Later::add(c10::DeviceIndex device, const char* op, pl_attributes attributes, std::vector<Operand> inputs,
                std::vector<Operand> outputs, std::shared_ptr<const void> owner) {
  Waiting& self = waiting();
  const int64_t stream = current_stream_of(device);
  std::lock_guard<std::mutex> guard(self.lock);
  if (!self.calls.empty() && (self.device != device || self.stream != stream || self.calls.size() >= kMost))
    start(self);
  self.device = device;
  self.stream = stream;
  const uint64_t round = round_.load(std::memory_order_relaxed);
  for (const Operand& each : inputs)
    if (each.block) each.block->read_later_.store(round, std::memory_order_relaxed);
  for (const Operand& each : outputs)
    if (each.block) each.block->written_later_.store(round, std::memory_order_relaxed);
  self.calls.push_back({op, attributes, std::move(inputs), std::move(outputs), std::move(owner)});
}

void Later::flush() {
  Waiting& self = waiting();
  std::lock_guard<std::mutex> guard(self.lock);
  start(self);
}

void Later::start(Waiting& self) {
  if (self.calls.empty()) return;
  const std::vector<Waiting::Call> calls = std::exchange(self.calls, {});
  std::vector<pl_tensor> tensors;
  for (const Waiting::Call& call : calls)
    for (const auto* list : {&call.inputs, &call.outputs})
      for (const Operand& each : *list) tensors.push_back(each.tensor.get());
  std::vector<pl_op_call> given;
  given.reserve(calls.size());
  const pl_tensor* at = tensors.data();
  for (const Waiting::Call& call : calls) {
    const size_t inputs = call.inputs.size(), outputs = call.outputs.size();
    given.push_back({call.op, call.attributes, at, inputs, at + inputs, outputs});
    at += inputs + outputs;
  }
  const OnStream stream(self.device, self.stream);
  Watch watch;  // whose calls they were is forgotten: programs that need the host do not wait
  const pl_status status = pl_op_run_all(context(), given.data(), given.size());
  round_.fetch_add(1, std::memory_order_relaxed);  // the next round's blocks are others; also where something failed
  watch.check();
  check(status);
  watch.finish();
}

Batch::Batch() : outermost_(!batch_is_open) { batch_is_open = true; }

Batch::~Batch() {
  if (!outermost_ || !batch_is_open) return;
  try {
    finish();
  } catch (...) {
    batch_is_open = false;
  }
}

void Batch::finish() {
  if (!outermost_) return;
  batch_is_open = false;
  Later::flush();
}

bool Batch::open() { return batch_is_open; }

void register_list_op(const char* name) {
  static auto* library = new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, 0);
  library->impl(name, torch::CppFunction::makeFromBoxedFunction<&by_loop>());
}

}  // namespace ocl
