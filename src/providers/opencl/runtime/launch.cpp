#include "providers/opencl/runtime/launch.h"

#include <algorithm>
#include <chrono>

#include "core/threads.h"

namespace pl::opencl {
namespace {

// Kernel objects of one launch, for as many steps of a plan that share it.
constexpr size_t kMostBound = 16;
constexpr size_t kUsualGroup = 128;  // work-items of a group, where the launch does not say

}  // namespace

Launch::Launch(OpenclDevice& device, const KernelSource& source, const std::string& entry)
    : device_(device), source_(source), entry_(entry) {
  if (Building::wish() != Building::behind || !device.submits_later()) {
    program_ = device.build(source);
  } else {
    coming_ = device.build_behind(source);
    if (coming_.wait_for(std::chrono::seconds(0)) == std::future_status::timeout) {
      failed_ = Building::failed();
      return;
    }
  }
  get_ready();
}

void Launch::get_ready() {
  if (!bound_.empty()) return;
  try {
    if (coming_.valid()) program_ = ComingPrograms::wait(coming_, source_);
    KernelHandle made = make_kernel();
    for (const Value& value : values_) set_value(made.get(), value);
    bound_.push_back({std::move(made), {}});
    check_group();
  } catch (const Error& error) {
    bound_.clear();
    if (coming_.valid() && failed_ && error.code() != Code::out_of_memory) failed_(error.what());
    throw;
  }
  coming_ = {};
}

void Launch::check_group() const {
  // NVIDIA's driver starts larger groups than it says (conv_fwd_stream's).
  if (bound_.empty() || local_.empty() || device_.capabilities().nvidia) return;
  size_t items = 1, most = 0;
  for (const size_t size : local_) items *= size;
  const cl_int code = device_.cl().clGetKernelWorkGroupInfo(bound_[0].kernel.get(), device_.id(),
                                                            CL_KERNEL_WORK_GROUP_SIZE, sizeof most, &most, nullptr);
  require(code != CL_SUCCESS || items <= most, Code::device, entry_, ": ", device_.name(), " runs groups of at most ",
          most, " work-items of this kernel, not ", items);
}

KernelHandle Launch::make_kernel() const {
  cl_int code = CL_SUCCESS;
  KernelHandle kernel(&device_.cl(), device_.cl().clCreateKernel(program_->get(), entry_.c_str(), &code));
  check_cl(code, "creating the kernel " + entry_ + " of " + source_.name());
  return kernel;
}

Launch& Launch::slot(Slot kind, int index, BufferRef buffer, const char* tensor) {
  slots_.push_back({kind, index, next_argument_++, std::move(buffer)});
  if (tensor) {
    const std::vector<unsigned char> argument = source_.tensor_argument(tensor);
    bytes(argument.data(), argument.size());
  }
  return *this;
}

Launch& Launch::input(int index, const char* tensor) { return slot(Slot::input, index, {}, tensor); }
Launch& Launch::output(int index, const char* tensor) { return slot(Slot::output, index, {}, tensor); }
Launch& Launch::workspace(const char* tensor) { return slot(Slot::workspace, 0, {}, tensor); }
Launch& Launch::buffer(BufferRef buffer, const char* tensor) {
  return slot(Slot::buffer, 0, std::move(buffer), tensor);
}

Launch& Launch::bytes(const void* data, size_t size) {
  const char* first = static_cast<const char*>(data);
  values_.push_back({next_argument_++, size, first ? std::vector<char>(first, first + size) : std::vector<char>()});
  if (!bound_.empty()) set_value(bound_[0].kernel.get(), values_.back());
  return *this;
}

void Launch::set_value(cl_kernel kernel, const Value& value) const {
  check_cl(
      device_.cl().clSetKernelArg(kernel, value.position, value.size, value.data.empty() ? nullptr : value.data.data()),
      concat(source_.name(), ": argument ", value.position, " of ", entry_, " (", value.size, " bytes)"));
}

Launch& Launch::local_memory(size_t size) { return bytes(nullptr, size); }

Launch& Launch::index(int64_t value) {
  if (source_.wide()) return scalar(cl_long(value));
  require(value >= INT32_MIN && value <= INT32_MAX, Code::internal, entry_, ": ", value, " needs an index of 64 bits");
  return scalar(cl_int(value));
}

Launch& Launch::global(const std::vector<size_t>& sizes) {
  require(!sizes.empty() && sizes.size() <= 3, Code::internal, entry_, ": a global size of ", sizes.size(),
          " dimensions");
  global_ = sizes;
  // OpenCL 1.2 has runtimes choose a divisor: of a prime it is 1, which took an H200 80 times as long.
  if (local_.empty() && sizes.size() == 1 && !device_.capabilities().cpu)
    local_ = {std::min(kUsualGroup, device_.capabilities().max_work_group)};
  rounded_ = global_;
  if (local_.size() == global_.size())
    for (size_t i = 0; i < global_.size(); ++i) rounded_[i] = (global_[i] + local_[i] - 1) / local_[i] * local_[i];
  return *this;
}

Launch& Launch::local(const std::vector<size_t>& sizes) {
  for (size_t size : sizes) require(size > 0, Code::internal, entry_, ": a work-group size of 0");
  local_ = sizes;
  check_group();
  return global_.empty() ? *this : global(global_);
}

Buffer& Launch::buffer_of(const BufferSlot& slot, const KernelArguments& arguments) const {
  Buffer* buffer = slot.kind == Slot::input       ? arguments.inputs[slot.index]
                   : slot.kind == Slot::output    ? arguments.outputs[slot.index]
                   : slot.kind == Slot::workspace ? arguments.workspace
                                                  : slot.buffer.get();
  require(buffer != nullptr, Code::internal, entry_, ": argument ", slot.position, " has no buffer");
  return *buffer;
}

// A kernel object with memories_ set: one that has them, else a new one, else the one that ran longest ago.  `known`:
// memories_ has all of them.  set(kernel) sets them.
template <class Set>
Launch::Bound& Launch::bound_to(bool known, Set&& set) {
  const uint64_t releases = device_.releases();
  Bound* oldest = &bound_[0];
  for (Bound& bound : bound_) {
    if (known && bound.releases == releases && bound.memories == memories_) return bound;
    if (bound.last_run < oldest->last_run) oldest = &bound;
  }
  // Where memory is given back again and again, other objects would not be found either.
  const bool more = known && oldest->last_run > 0 && oldest->releases == releases && bound_.size() < kMostBound &&
                    !device_.capabilities().cpu;
  if (more) {
    Bound bound{make_kernel(), {}};
    for (const Value& value : values_) set_value(bound.kernel.get(), value);
    bound_.push_back(std::move(bound));
    oldest = &bound_.back();
  }
  oldest->memories.clear();  // not known until all are set
  set(oldest->kernel.get());
  if (known) oldest->memories = memories_;
  oldest->releases = releases;
  return *oldest;
}

Launch::~Launch() {
  if (submitted_ && !device_.submission().passed(submitted_)) device_.submission().start_all();
}

void Launch::run(const KernelArguments& arguments) {
  require(!global_.empty() && (local_.empty() || local_.size() == global_.size()), Code::internal, entry_,
          ": its sizes are not set");
  if (std::find(global_.begin(), global_.end(), size_t(0)) != global_.end()) return;
  if (arguments.later && device_.submits_later() && run_later(arguments)) return;
  device_.submission().settle();  // before lock_, which who starts those launches takes
  std::lock_guard<std::mutex> guard(lock_);
  get_ready();
  memories_.clear();
  uses_.clear();
  for (const BufferSlot& slot : slots_) {
    Buffer& buffer = buffer_of(slot, arguments);
    if (!buffer.handle() || &buffer.device() != &device_) continue;
    memories_.push_back(static_cast<cl_mem>(buffer.handle()));
    uses_.push_back({&buffer.block(), slot.kind == Slot::output || slot.kind == Slot::workspace});
  }
  // Host memory has its cl_mem elsewhere.
  Bound& bound = bound_to(memories_.size() == slots_.size(), [&](cl_kernel kernel) {
    for (const BufferSlot& slot : slots_)
      device_.set_buffer_argument(kernel, slot.position, buffer_of(slot, arguments));
  });
  bound.last_run = ++runs_;
  device_.enqueue(bound.kernel.get(), cl_uint(global_.size()), rounded_.data(),
                  local_.empty() ? nullptr : local_.data(), uses_.data(), uses_.size());
}

// False: host memory is among its arguments, or the thread takes nothing more.
bool Launch::run_later(const KernelArguments& arguments) {
  thread_local std::vector<cl_mem> memories;
  memories.clear();
  for (const BufferSlot& slot : slots_) {
    Buffer& buffer = buffer_of(slot, arguments);
    if (!buffer.handle() || &buffer.device() != &device_) return false;
    memories.push_back(static_cast<cl_mem>(buffer.handle()));
  }
  const uint64_t number = device_.submission().add(*this, memories.data(), memories.size());
  if (number) submitted_ = number;
  return number != 0;
}

void Launch::start(const cl_mem* memories) {
  std::lock_guard<std::mutex> guard(lock_);
  get_ready();
  memories_.assign(memories, memories + slots_.size());
  Bound& bound = bound_to(true, [&](cl_kernel kernel) {
    for (size_t i = 0; i < slots_.size(); ++i)
      check_cl(device_.cl().clSetKernelArg(kernel, slots_[i].position, sizeof memories[i], &memories[i]),
               "setting a kernel's buffer argument");
  });
  bound.last_run = ++runs_;
  device_.start(bound.kernel.get(), cl_uint(global_.size()), rounded_.data(), local_.empty() ? nullptr : local_.data());
}

KernelList::KernelList(OpenclDevice& device)
    : device_(std::static_pointer_cast<OpenclDevice>(device.shared_from_this())) {}
KernelList::~KernelList() = default;

Launch& KernelList::add(const KernelSource& source, const std::string& entry) {
  launches_.push_back(std::make_unique<Launch>(*device_, source, entry));
  return *launches_.back();
}

void KernelList::run(const KernelArguments& arguments) {
  const auto launch_all = [&] {
    for (const auto& launch : launches_) launch->run(arguments);
  };
  const Buffer* any = arguments.outputs ? arguments.outputs[0] : nullptr;
  if (!any || &any->device() == device_.get()) return launch_all();
  const auto finish = [&] {
    launch_all();
    device_->finish();
  };
  device_->capabilities().waiting_works ? with_pool_aside(finish) : finish();
}

}  // namespace pl::opencl
