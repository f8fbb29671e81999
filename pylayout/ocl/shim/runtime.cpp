// The library's context, devices, the guard and the hooks by which PyTorch sees the device.
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>

#include "exports.h"
#include "fallback.h"
#include "later.h"
#include "shim.h"

namespace ocl {
namespace {

struct Runtime {
  std::mutex lock;
  std::atomic<pl_context> context{nullptr};
  std::vector<std::string> names;
  std::atomic<bool> used{false};
  ocl_starter starter = nullptr;
};

Runtime& runtime() {
  static auto* self = new Runtime;  // never destroyed: tensors may outlive static objects
  return *self;
}

std::atomic<bool> forked{false};
thread_local c10::DeviceIndex current = 0;

// True when there is a context.
bool start() noexcept {
  Runtime& self = runtime();
  if (forked.load()) return false;
  if (self.context.load()) return true;
  // Without the lock: the starter takes Python's, and a thread that has that may be waiting here.
  if (self.starter) self.starter(0);
  return self.context.load() != nullptr;
}

c10::DeviceIndex checked(c10::DeviceIndex index) {
  const int count = device_count();
  if (is_forked()) context();  // throws
  TORCH_CHECK(count > 0, "ocl: there is no OpenCL device here; `pylayout doctor` says what was looked for");
  TORCH_CHECK(index >= 0 && index < count, "ocl: device index is ", int(index), ", expected 0 to ", count - 1, " (",
              count, count == 1 ? " device" : " devices", ")");
  return index;
}

// How many devices there may be as long as nobody has used one. PyTorch's autograd engine asks at the first backward of
// a process, of whatever device, and makes so many threads; to count them, OpenCL would have to be started, with
// threads of its own, in programs that never use it.
constexpr c10::DeviceIndex kMostUnseen = 8;

// The library's streams by PyTorch's numbers of them: 0 is the device's own.
class Streams {
 public:
  pl_stream at(c10::DeviceIndex device, c10::StreamId id) {
    std::lock_guard<std::mutex> guard(lock_);
    std::vector<pl_stream>& made = of(device);
    TORCH_CHECK(id >= 0 && size_t(id) < made.size(), "ocl: there is no stream ", id, " of device ", int(device));
    return made[size_t(id)];
  }
  c10::StreamId next(c10::DeviceIndex device) {
    std::lock_guard<std::mutex> guard(lock_);
    std::vector<pl_stream>& made = of(device);
    if (made.size() <= kMost) {
      pl_stream stream = nullptr;
      check(pl_stream_create(context(), device_name(device), &stream));
      made.push_back(stream);
      return c10::StreamId(made.size() - 1);
    }
    return c10::StreamId(1 + turn_++ % kMost);
  }

 private:
  // PyTorch never gives a stream back: after so many they are given out again, in turn.
  static constexpr size_t kMost = 8;

  std::vector<pl_stream>& of(c10::DeviceIndex device) {
    if (made_.size() <= size_t(device)) made_.resize(size_t(device) + 1);
    std::vector<pl_stream>& made = made_[size_t(device)];
    if (made.empty()) {
      pl_stream own = nullptr;
      check(pl_stream_own(context(), device_name(device), &own));
      made.push_back(own);
    }
    return made;
  }

  std::mutex lock_;
  std::vector<std::vector<pl_stream>> made_;  // by device
  size_t turn_ = 0;
};

Streams& streams() {
  static auto* self = new Streams;
  return *self;
}

thread_local std::vector<c10::StreamId> current_streams;  // by device; beyond its end: 0

c10::StreamId current_stream(c10::DeviceIndex device) {
  return size_t(device) < current_streams.size() ? current_streams[size_t(device)] : 0;
}

void set_stream(c10::DeviceIndex device, c10::StreamId id) {
  if (current_stream(device) == id) return;
  check(pl_stream_make_current(streams().at(device, id)));
  if (current_streams.size() <= size_t(device)) current_streams.resize(size_t(device) + 1, 0);
  current_streams[size_t(device)] = id;
}

// The default generators of devices, made when they are asked for. Seeding all of them asks for no device: PyTorch does it
// with its own generator, also in programs and in workers of loaders that never use a device.
class Generators {
 public:
  const at::Generator& of(c10::DeviceIndex device) {
    std::lock_guard<std::mutex> guard(lock_);
    while (made_.size() <= size_t(device)) {
      made_.push_back(std::make_unique<at::Generator>(new_generator(c10::DeviceIndex(made_.size()))));
      made_.back()->set_current_seed(seed_);
    }
    return *made_[size_t(device)];
  }
  void seed(uint64_t seed) {
    std::lock_guard<std::mutex> guard(lock_);
    seed_ = seed;
    for (const auto& each : made_) {
      std::lock_guard<std::mutex> of_it(each->mutex());
      each->set_current_seed(seed);
    }
  }

 private:
  std::mutex lock_;
  std::vector<std::unique_ptr<at::Generator>> made_;
  uint64_t seed_ = c10::default_rng_seed_val;  // of those that are made next
};

Generators& generators() {
  static auto* self = new Generators;
  return *self;
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kDevice; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::DeviceIndex before = current;
    if (device.index() >= 0 && device.index() != before) set_current_device(device.index());
    return {kDevice, before};
  }
  c10::Device getDevice() const override { return {kDevice, current}; }
  void setDevice(c10::Device device) const override {
    if (device.index() < 0) return;
    if (runtime().context.load())
      set_current_device(device.index());
    else
      current = device.index();  // a thread of the engine; what uses the device checks it
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.index() >= 0) current = device.index();
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return runtime().context.load() || is_forked() ? c10::DeviceIndex(device_count()) : kMostUnseen;
  }
  c10::DeviceCapability getDeviceCapability(c10::Device) const override { return {}; }

  static c10::DeviceIndex index_of(c10::Device device) { return device.index() < 0 ? current : device.index(); }
  static c10::Stream stream_of(c10::Device device, c10::StreamId id) {
    return c10::Stream(c10::Stream::UNSAFE, {kDevice, index_of(device)}, id);
  }
  static pl_stream handle_of(const c10::Stream& stream) { return streams().at(index_of(stream.device()), stream.id()); }
  c10::Stream getStream(c10::Device device) const override {
    return stream_of(device, current_stream(index_of(device)));
  }
  c10::Stream getDefaultStream(c10::Device device) const override { return stream_of(device, 0); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override { return getNewStream(device, 0); }
  c10::Stream getNewStream(c10::Device device, int) const override {
    return stream_of(device, streams().next(checked(index_of(device))));
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::DeviceIndex index = index_of(stream.device());
    const c10::Stream before = stream_of(stream.device(), current_stream(index));
    set_stream(index, stream.id());
    return before;
  }
  bool queryStream(const c10::Stream& stream) const override {
    int32_t done = 0;
    Later::flush();
    check(pl_stream_done(handle_of(stream), &done));
    return done != 0;
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    Later::flush();
    check(pl_stream_synchronize(handle_of(stream)));
  }
  void synchronizeDevice(c10::DeviceIndex index) const override {
    Later::flush();
    check(pl_synchronize(context(), device_name(index < 0 ? current : index)));
  }

  void record(void** event, const c10::Stream& stream, c10::DeviceIndex, c10::EventFlag) const override {
    pl_event made = nullptr;
    Later::flush();
    check(pl_event_record(handle_of(stream), &made));
    if (*event) pl_event_release(static_cast<pl_event>(*event));
    *event = made;
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event) check(pl_stream_wait(handle_of(stream), static_cast<pl_event>(event)));
  }
  bool queryEvent(void* event) const override {
    int32_t done = 1;
    if (event) check(pl_event_done(static_cast<pl_event>(event), &done));
    return done != 0;
  }
  void synchronizeEvent(void* event) const override {
    if (event) check(pl_event_synchronize(static_cast<pl_event>(event)));
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    if (event && !is_forked()) pl_event_release(static_cast<pl_event>(event));
  }
  double elapsedTime(void* first, void* second, c10::DeviceIndex) const override {
    TORCH_CHECK(first && second, "ocl: elapsed_time: an event was not recorded");
    double milliseconds = 0;
    check(pl_event_elapsed(static_cast<pl_event>(first), static_cast<pl_event>(second), &milliseconds));
    return milliseconds;
  }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return device_count() > 0; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return runtime().context.load() != nullptr; }
  void init() const override { context(); }
  c10::DeviceIndex deviceCount() const override { return c10::DeviceIndex(device_count()); }
  c10::DeviceIndex getCurrentDevice() const override { return current; }
  void setCurrentDevice(c10::DeviceIndex index) const override { set_current_device(index); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    const c10::DeviceIndex before = current;
    set_current_device(index);
    return before;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
    return index < 0 ? current : exchangeDevice(index);
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override {
    return generators().of(index < 0 ? current : checked(index));
  }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override {
    return new_generator(index < 0 ? current : index);
  }
  at::Device getDeviceFromPtr(void* data) const override {
    const Place place = place_at(data);
    TORCH_CHECK(place.block, "ocl: there is no memory of the device at this address");
    return {kDevice, place.block->device()};
  }
  c10::Allocator* getPinnedMemoryAllocator() const override { return pinned_allocator(); }
  bool isPinnedPtr(const void* data) const override { return is_pinned(data); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    resize_storage(storage, bytes);
  }
};

const bool registered = [] {
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  c10::SetAllocator(kDevice, allocator());
  pthread_atfork(nullptr, nullptr, [] {
    if (runtime().context.load()) forked = true;
  });
  return true;
}();

}  // namespace

void start_with(pl_context context, const std::vector<std::string>& names) {
  Runtime& self = runtime();
  std::lock_guard<std::mutex> guard(self.lock);
  if (self.context.load()) return;
  self.names = names;
  check(pl_context_on_fallback(context, &Watch::tell, nullptr));
  self.context = context;
}

void set_starter(ocl_starter starter) { runtime().starter = starter; }

bool is_started() noexcept { return !is_forked() && runtime().context.load() != nullptr; }

bool is_forked() noexcept { return forked.load(); }

pl_context context() {
  TORCH_CHECK(!is_forked(),
              "ocl: the device was used before this process was forked, and is the parent's; expected a "
              "process of its own: multiprocessing.set_start_method(\"spawn\")");
  TORCH_CHECK(start(), "ocl: the library did not start; torch.ocl.device_count() says why");
  Runtime& self = runtime();
  if (!self.used.load(std::memory_order_relaxed) && !self.used.exchange(true) && self.starter) self.starter(1);
  return self.context.load();
}

int device_count() noexcept { return start() ? int(runtime().names.size()) : 0; }

const char* device_name(c10::DeviceIndex index) { return runtime().names[size_t(checked(index))].c_str(); }

c10::DeviceIndex current_device() { return current; }

void set_current_device(c10::DeviceIndex index) { current = checked(index); }

int64_t current_stream_of(c10::DeviceIndex index) { return current_stream(checked(index)); }

void set_current_stream(c10::DeviceIndex index, int64_t id) { set_stream(checked(index), id); }

pl_event record_event(c10::DeviceIndex index) {
  pl_event made = nullptr;
  check(pl_event_record(streams().at(index, current_stream(index)), &made));
  return made;
}

at::Generator default_generator(c10::DeviceIndex index) {
  return at::detail::getPrivateUse1Hooks().getDefaultGenerator(index);
}

void seed_generators(uint64_t seed) { generators().seed(seed); }

void check(pl_status status) {
  if (status == PL_OK) return;
  const char* message = pl_last_error();
  switch (status) {
    case PL_ERROR_OUT_OF_MEMORY: TORCH_CHECK_WITH(OutOfMemoryError, false, message);
    case PL_ERROR_UNSUPPORTED: TORCH_CHECK_NOT_IMPLEMENTED(false, message);
    default: TORCH_CHECK(false, message);
  }
}

}  // namespace ocl
