#include "later.h"

#include "fallback.h"

namespace ocl {
namespace {

constexpr size_t kMost = 1024;  // calls that wait: what they hold is not kept for ever

thread_local bool batch_is_open = false;

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
    size_t inputs, outputs;
    std::shared_ptr<const void> owner;
  };
  std::mutex lock;  // held until what waited is started: who finds nothing here may rely on that
  std::vector<Call> calls;
  std::vector<Operand> operands;   // of the calls, one after another
  std::vector<pl_tensor> tensors;  // these two: of starting, kept for their memory
  std::vector<pl_op_call> given;
  c10::DeviceIndex device = 0;
  int64_t stream = 0;
};

Later::Waiting& Later::waiting() {
  static auto* self = new Waiting;  // never destroyed: tensors may outlive static objects
  return *self;
}

void Later::add(c10::DeviceIndex device, const char* op, pl_attributes attributes, Operand* operands, size_t inputs,
                size_t outputs, std::shared_ptr<const void> owner) {
  Waiting& self = waiting();
  const int64_t stream = current_stream_of(device);
  std::lock_guard<std::mutex> guard(self.lock);
  if (!self.calls.empty() && (self.device != device || self.stream != stream || self.calls.size() >= kMost))
    start(self);
  self.device = device;
  self.stream = stream;
  const uint64_t round = round_.load(std::memory_order_relaxed);
  for (size_t i = 0; i < inputs + outputs; ++i) {
    if (const Block* block = operands[i].block)
      (i < inputs ? block->read_later_ : block->written_later_).store(round, std::memory_order_relaxed);
    self.operands.push_back(std::move(operands[i]));
  }
  self.calls.push_back({op, attributes, inputs, outputs, std::move(owner)});
}

void Later::flush() {
  Waiting& self = waiting();
  std::lock_guard<std::mutex> guard(self.lock);
  start(self);
}

void Later::start(Waiting& self) {
  if (self.calls.empty()) return;
  struct Forget {  // whatever happens, with the memory kept for the next calls
    Waiting& self;
    ~Forget() {
      self.calls.clear();
      self.operands.clear();
    }
  } const forget{self};
  self.tensors.clear();
  self.given.clear();
  for (const Operand& each : self.operands) self.tensors.push_back(each.tensor.get());
  const pl_tensor* at = self.tensors.data();
  for (const Waiting::Call& call : self.calls) {
    self.given.push_back({call.op, call.attributes, at, call.inputs, at + call.inputs, call.outputs});
    at += call.inputs + call.outputs;
  }
  const OnStream stream(self.device, self.stream);
  Watch watch;  // whose calls they were is forgotten: programs that need the host do not wait
  const pl_status status = pl_op_run_all(context(), self.given.data(), self.given.size());
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

}  // namespace ocl
