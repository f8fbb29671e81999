#include "providers/onednn/kernel.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "core/status.h"
#include "core/threads.h"
#include "oneapi/dnnl/dnnl_debug.h"
#include "providers/onednn/primitive_cache.h"

namespace pl::onednn {
namespace {

Owned<dnnl_primitive_t> create(const_dnnl_primitive_desc_t description, const std::string& label) {
  dnnl_primitive_t primitive = nullptr;
  const dnnl_status_t status = dnnl_primitive_create(&primitive, description);
  require(status == dnnl_success, status == dnnl_out_of_memory ? Code::out_of_memory : Code::device, label,
          ": oneDNN could not create the primitive: ", dnnl_status2str(status));
  return {primitive, Destroy()};
}

// Whether no signal handler may run meanwhile.  oneDNN's f32 products of matrices ("gemm", not "brgemm"; recurrent ops
// call them too) point the stack pointer at a buffer on the heap (jit_avx_gemm_f32.cpp and jit_avx512_common_gemm_f32.cpp
// of 3.2, `mov(rsp, ARG_WS)`), and a handler's frame would overwrite what lies before that: a Ctrl-C corrupted the heap.
bool holds_signals(const_dnnl_primitive_desc_t description) {
  dnnl_primitive_kind_t kind = dnnl_undefined_primitive;
  dnnl_primitive_desc_query(description, dnnl_query_primitive_kind, 0, &kind);
  const std::string_view name = implementation_of(description);
  return kind == dnnl_rnn ||
         (name.find("gemm") != std::string_view::npos && name.find("brgemm") == std::string_view::npos);
}

// True if the primitive is the implementation that was asked for, with its layouts.
bool is_of(dnnl_primitive_t primitive, const_dnnl_primitive_desc_t description,
           const std::vector<Argument>& arguments) {
  const_dnnl_primitive_desc_t actual = nullptr;
  expect_success(dnnl_primitive_get_primitive_desc(primitive, &actual), "dnnl_primitive_get_primitive_desc");
  if (std::string_view(implementation_of(description)) != implementation_of(actual)) return false;
  for (const Argument& argument : arguments) {
    if (argument.source == Argument::Source::workspace) continue;
    const auto md_of = [&](const_dnnl_primitive_desc_t pd) {
      return dnnl_primitive_desc_query_md(pd, dnnl_query_exec_arg_md, argument.id);
    };
    const const_dnnl_memory_desc_t a = md_of(description), b = md_of(actual);
    if (!a || !b) continue;
    const auto first = read_desc(a), second = read_desc(b);
    if (!first || !second) {
      if (!dnnl_memory_desc_equal(a, b)) return false;
      continue;
    }
    // Strides of dimensions of size one may differ: they are never used.
    const auto x = first->tensor(DType::f32), y = second->tensor(DType::f32);
    if (x && y ? !same_memory(*x, *y) : !dnnl_memory_desc_equal(a, b)) return false;
  }
  return true;
}

// Against the fault kPrimitiveCache (faults.h): a primitive that is not the one asked for is made again without the
// cache.
Owned<dnnl_primitive_t> create_primitive(const_dnnl_primitive_desc_t description,
                                         const std::vector<Argument>& arguments, const std::string& label) {
  Owned<dnnl_primitive_t> primitive = create(description, label);
  note_primitive(description);
  if (is_of(primitive.get(), description, arguments)) return primitive;
  without_primitive_cache([&] { primitive = create(description, label); });
  require(is_of(primitive.get(), description, arguments), Code::device, label,
          ": oneDNN made another implementation than the one that was asked for");
  return primitive;
}

}  // namespace

struct PrimitiveKernel::Execution {
  Owned<dnnl_stream_t> stream;  // of its own: streams are not promised to be thread-safe
  std::vector<Owned<dnnl_memory_t>> memories;
  std::vector<void*> pointers;  // what the memories point at now
  std::vector<dnnl_exec_arg_t> arguments;
  Owned<dnnl_memory_t> scratchpad;  // only with own_scratchpad_
};

PrimitiveKernel::PrimitiveKernel(PrimitiveDesc description, std::vector<Argument> arguments, std::string label)
    : description_(std::move(description)), arguments_(std::move(arguments)), label_(std::move(label)) {
  for (auto argument = arguments_.begin(); argument != arguments_.end(); ++argument) {
    if (argument->id != kCopiedToOutput) continue;
    copied_input_ = argument->index;
    copied_bytes_ = argument->offset;
    arguments_.erase(argument);
    break;
  }
  primitive_ = create_primitive(description_.get(), arguments_, label_);
  // oneDNN's primitive cache takes descriptions as equal that differ in the strides of dimensions of size one, and
  // so can return a primitive that was made for another description and needs another scratchpad.
  const_dnnl_primitive_desc_t actual = nullptr;
  expect_success(dnnl_primitive_get_primitive_desc(primitive_.get(), &actual), "dnnl_primitive_get_primitive_desc");
  holds_signals_ = holds_signals(actual);
  const auto scratchpad_of = [](const_dnnl_primitive_desc_t pd) {
    return dnnl_primitive_desc_query_md(pd, dnnl_query_exec_arg_md, DNNL_ARG_SCRATCHPAD);
  };
  const auto size_of_md = [](const_dnnl_memory_desc_t md) { return md ? dnnl_memory_desc_get_size(md) : 0; };
  if (size_of_md(scratchpad_of(actual)) > size_of_md(scratchpad_of(description_.get()))) {
    own_scratchpad_ = {clone(scratchpad_of(actual)).release(), Destroy()};
    arguments_.erase(std::remove_if(arguments_.begin(), arguments_.end(),
                                    [](const Argument& a) { return a.id == DNNL_ARG_SCRATCHPAD; }),
                     arguments_.end());
  }
  give(take());  // makes the first one now, so that the first run does not
}

PrimitiveKernel::~PrimitiveKernel() = default;

PrimitiveKernel::Execution* PrimitiveKernel::take() {
  if (Execution* execution = ready_.exchange(nullptr, std::memory_order_acquire)) return execution;
  {
    std::lock_guard<std::mutex> guard(lock_);
    if (!free_.empty()) {
      Execution* execution = free_.back();
      free_.pop_back();
      return execution;
    }
  }
  auto made = std::make_unique<Execution>();
  made->stream = make_stream();
  for (const Argument& argument : arguments_) {
    dnnl_memory_t memory = nullptr;
    expect_success(dnnl_memory_create(&memory, argument.md.get(), cpu_engine(), DNNL_MEMORY_NONE),
                   "dnnl_memory_create");
    made->memories.emplace_back(memory);
    made->pointers.push_back(nullptr);
    made->arguments.push_back({argument.id, memory});
  }
  if (own_scratchpad_) {
    dnnl_memory_t memory = nullptr;
    expect_success(dnnl_memory_create(&memory, own_scratchpad_.get(), cpu_engine(), DNNL_MEMORY_ALLOCATE),
                   "dnnl_memory_create");
    made->scratchpad.reset(memory);
    made->arguments.push_back({DNNL_ARG_SCRATCHPAD, memory});
  }
  std::lock_guard<std::mutex> guard(lock_);
  all_.push_back(std::move(made));
  free_.reserve(all_.size());  // so that give() never allocates
  return all_.back().get();
}

void PrimitiveKernel::give(Execution* execution) {
  Execution* none = nullptr;
  if (ready_.compare_exchange_strong(none, execution, std::memory_order_release, std::memory_order_relaxed)) return;
  std::lock_guard<std::mutex> guard(lock_);
  free_.push_back(execution);
}

void PrimitiveKernel::run(const KernelArguments& given) {
  if (copied_input_ >= 0 && given.outputs[0]->host() != given.inputs[copied_input_]->host())
    copy_bytes(given.outputs[0]->host(), given.inputs[copied_input_]->host(), copied_bytes_);
  Execution* execution = take();
  const size_t count = arguments_.size();
  for (size_t i = 0; i < count; ++i) {
    const Argument& argument = arguments_[i];
    Buffer* buffer = argument.source == Argument::Source::input    ? given.inputs[argument.index]
                     : argument.source == Argument::Source::output ? given.outputs[argument.index]
                                                                   : given.workspace;
    void* pointer = static_cast<char*>(buffer->host()) + argument.offset;
    if (pointer == execution->pointers[i]) continue;
    dnnl_memory_set_data_handle(execution->memories[i].get(), pointer);
    execution->pointers[i] = pointer;
  }
  std::optional<SignalsHeld> held;
  if (holds_signals_) held.emplace();
  const dnnl_status_t status = dnnl_primitive_execute(primitive_.get(), execution->stream.get(),
                                                      int(execution->arguments.size()), execution->arguments.data());
  held.reset();
  give(execution);
  require(status == dnnl_success, status == dnnl_out_of_memory ? Code::out_of_memory : Code::device, label_,
          ": oneDNN failed: ", dnnl_status2str(status));
}

}  // namespace pl::onednn
