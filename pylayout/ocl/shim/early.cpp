#include "early.h"

#include <ATen/EmptyTensor.h>

namespace ocl {
namespace {

std::atomic<uint64_t> runs{0};  // of plans

// Numbers whose copies nobody has queued yet.
struct Waiting {
  struct Number {
    at::Tensor tensor;
    int64_t stream;
  };
  std::mutex lock;
  std::vector<Number> numbers;
};

Waiting& waiting() {
  static auto* self = new Waiting;  // never destroyed: tensors may outlive static objects
  return *self;
}

void start(const Waiting::Number& number) {
  const at::Tensor& tensor = number.tensor;
  if (tensor.use_count() == 1 && tensor.storage().use_count() == 1) return;  // everybody else has let go of it
  const c10::DeviceIndex device = c10::DeviceIndex(tensor.get_device());
  if (current_stream_of(device) != number.stream) return;
  Block* block = place_of(tensor).block;
  std::shared_ptr<EarlyNumber> kept = block->number();
  if (!kept || block->is_shared()) return;
  const c10::DeviceGuard guard(tensor.device());
  at::Tensor host = at::detail::empty_generic({}, pinned_allocator(), c10::DispatchKeySet(c10::DispatchKey::CPU),
                                              tensor.scalar_type(), std::nullopt);
  if (!to_host_later(tensor, host)) return;
  kept->event = record_event(device);
  kept->host = std::move(host);
  block->keep(std::move(kept));  // as the copy saw the memory
}

}  // namespace

EarlyNumber::~EarlyNumber() {
  if (event && !is_forked()) pl_event_release(event);
}

void note_number(const at::Tensor& made, const std::shared_ptr<std::atomic<bool>>& wanted) {
  place_of(made).block->keep(std::make_shared<EarlyNumber>(wanted, runs.load(std::memory_order_relaxed)));
  if (!wanted->load(std::memory_order_relaxed)) return;
  const int64_t stream = current_stream_of(c10::DeviceIndex(made.get_device()));
  std::lock_guard<std::mutex> guard(waiting().lock);
  waiting().numbers.push_back({made, stream});
}

void start_early_reads() {
  runs.fetch_add(1, std::memory_order_relaxed);
  std::vector<Waiting::Number> numbers;
  {
    std::lock_guard<std::mutex> guard(waiting().lock);
    if (waiting().numbers.empty()) return;
    std::swap(numbers, waiting().numbers);
  }
  for (const Waiting::Number& number : numbers) start(number);
}

std::optional<at::Scalar> early_number(const at::Tensor& tensor) {
  if (tensor.storage_offset() != 0 || tensor.is_neg() || tensor.is_conj()) return std::nullopt;
  const std::shared_ptr<EarlyNumber> kept = place_of(tensor).block->number();
  if (!kept) return std::nullopt;
  kept->wanted->store(kept->made_in != runs.load(std::memory_order_relaxed), std::memory_order_relaxed);
  if (!kept->event || kept->host.scalar_type() != tensor.scalar_type()) return std::nullopt;
  check(pl_event_synchronize(kept->event));
  return kept->host.item();
}

}  // namespace ocl
