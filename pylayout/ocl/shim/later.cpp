#include "later.h"

#include <algorithm>

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
  std::mutex lock;  // held until what waited is started: who finds nothing here may rely on that
  std::vector<WaitingCall> calls;
  std::vector<Operand> operands;   // of the calls, one after another
  std::vector<pl_tensor> tensors;  // these two: of starting, kept for their memory
  std::vector<pl_op_call> given;
  Chain chain;  // behind the calls
  c10::DeviceIndex device = 0;
  int64_t stream = 0;

  bool empty() const { return calls.empty() && chain.empty(); }
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
  if (!self.empty() && (self.device != device || self.stream != stream || self.calls.size() >= kMost)) start(self);
  self.device = device;
  self.stream = stream;
  const auto of_the_chain = [&](const Operand& each) { return each.block && self.chain.uses(each.block); };
  if (!self.chain.empty() && std::any_of(operands, operands + inputs + outputs, of_the_chain))
    self.chain.finish(self.calls, self.operands);
  const uint64_t round = round_.load(std::memory_order_relaxed);
  for (size_t i = 0; i < inputs + outputs; ++i) {
    if (const Block* block = operands[i].block)
      (i < inputs ? block->read_later_ : block->written_later_).store(round, std::memory_order_relaxed);
    self.operands.push_back(std::move(operands[i]));
  }
  self.calls.push_back({op, attributes, inputs, outputs, std::move(owner)});
}

bool Later::add(c10::DeviceIndex device, const ListFormula& formula, TensorPointers tensors, size_t count,
                const Chain::Number& number, TensorPointers result) {
  Waiting& self = waiting();
  const int64_t stream = current_stream_of(device);
  std::vector<TensorPointers> given;
  for (size_t n = 0; n < formula.lists; ++n) given.push_back(tensors.slice(n * count, count));
  if (!result.empty()) given.push_back(result);
  std::vector<std::vector<Operand>> operands(given.size());  // of lists that the chain has not
  std::vector<int> places(given.size());                     // of the lists in the chain
  for (;;) {
    std::vector<size_t> missing;
    {
      std::lock_guard<std::mutex> guard(self.lock);
      if (!self.empty() && (self.device != device || self.stream != stream)) start(self);
      const auto find = [&](TensorPointers list) { return self.chain.find(list); };
      std::transform(given.begin(), given.end(), places.begin(), find);
      const size_t more = formula.number + size_t(std::count(places.begin(), places.end(), -1));
      if (!self.chain.has_room_for(more) || !self.chain.is_like(given[0])) {
        self.chain.finish(self.calls, self.operands);
        places.assign(given.size(), -1);
      }
      for (size_t n = 0; n < given.size(); ++n)
        if (places[n] < 0 && operands[n].empty()) missing.push_back(n);
      if (missing.empty()) {
        self.device = device;
        self.stream = stream;
        bool taken = true;
        for (size_t n = 0; taken && n < given.size(); ++n) {
          if (places[n] >= 0) continue;
          places[n] = find(given[n]);  // the same list may come twice
          if (places[n] < 0)
            places[n] = self.chain.take(given[n], operands[n], !result.empty() && n + 1 == given.size());
          taken = places[n] >= 0;
        }
        if (taken) {
          const size_t changed = result.empty() ? 0 : given.size() - 1;
          const uint64_t round = round_.load(std::memory_order_relaxed);
          for (size_t n = 0; n < given.size(); ++n)
            for (const Operand& each : self.chain.list(places[n]).operands)
              (n == changed ? each.block->written_later_ : each.block->read_later_)
                  .store(round, std::memory_order_relaxed);
          for (const Operand& each : number.operands) each.block->read_later_.store(round, std::memory_order_relaxed);
          self.chain.add(formula, places, number, places[changed]);
          return true;
        }
        const bool by_itself = self.chain.empty();
        self.chain.finish(self.calls, self.operands);
        if (by_itself) return false;
        continue;
      }
    }
    for (const size_t n : missing)  // without the lock: a block may have to be placed
      for (const at::Tensor* each : given[n]) operands[n].push_back(placed_operand_of(*each));
  }
}

void Later::flush() {
  Waiting& self = waiting();
  std::lock_guard<std::mutex> guard(self.lock);
  start(self);
}

void Later::start(Waiting& self) {
  self.chain.finish(self.calls, self.operands);
  if (self.calls.empty()) return;
  struct Forget {  // whatever happens, with the memory kept for the next calls
    Waiting& self;
    ~Forget() {
      round_.fetch_add(1, std::memory_order_relaxed);
      self.calls.clear();
      self.operands.clear();
    }
  } const forget{self};
  self.tensors.clear();
  self.given.clear();
  for (const Operand& each : self.operands) self.tensors.push_back(each.tensor.get());
  const pl_tensor* at = self.tensors.data();
  for (const WaitingCall& call : self.calls) {
    self.given.push_back({call.op, call.attributes, at, call.inputs, at + call.inputs, call.outputs});
    at += call.inputs + call.outputs;
  }
  const OnStream stream(self.device, self.stream);
  Watch watch;  // whose calls they were is forgotten: programs that need the host do not wait
  const pl_status status = pl_op_run_all(context(), self.given.data(), self.given.size());
  round_.fetch_add(1, std::memory_order_relaxed);  // the next round's blocks are others
  watch.check();
  check(status);
  watch.finish();
}

Batch::Batch(bool starts) : outermost_(!batch_is_open), starts_(starts) { batch_is_open = true; }

Batch::~Batch() {
  if (!outermost_ || !batch_is_open) return;
  if (!starts_) {
    batch_is_open = false;
    return;
  }
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
