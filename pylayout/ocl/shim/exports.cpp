// The C functions by which Python uses the shim.
#include "exports.h"

#include <torch/library.h>

#include <cstring>

#include "attention.h"
#include "early.h"
#include "later.h"
#include "lists.h"
#include "programs.h"
#include "shim.h"

namespace ocl {

namespace {

thread_local std::string error;

template <class Body>
int guarded(Body&& body) noexcept {
  try {
    body();
    return 0;
  } catch (const c10::Error& thrown) {
    error = thrown.what_without_backtrace();
  } catch (const std::exception& thrown) {
    error = thrown.what();
  } catch (...) {
    error = "ocl: an unknown error";
  }
  return 1;
}

char* copied(const std::string& text) {
  char* made = static_cast<char*>(std::malloc(text.size() + 1));
  if (made) std::memcpy(made, text.c_str(), text.size() + 1);
  return made;
}

}  // namespace

extern "C" {
#define OCL_API __attribute__((visibility("default")))

OCL_API const char* ocl_error() { return error.c_str(); }
OCL_API void ocl_free(char* text) { std::free(text); }

OCL_API void ocl_set_starter(ocl_starter starter) { set_starter(starter); }
OCL_API int ocl_start(void* context, const char* const* names, int count) {
  return guarded([&] { start_with(static_cast<pl_context>(context), {names, names + count}); });
}
OCL_API int ocl_device_count() { return device_count(); }
OCL_API int ocl_is_started() { return is_started(); }
OCL_API int ocl_is_forked() { return is_forked(); }
OCL_API int ocl_current_device() { return current_device(); }
OCL_API int ocl_set_device(int index) {
  return guarded([&] { set_current_device(c10::DeviceIndex(index)); });
}
OCL_API void ocl_gain_by_attention(int index, int gains) { gain_by_attention(c10::DeviceIndex(index), gains != 0); }
OCL_API int ocl_take_counters(int index, int64_t counters, int64_t* seed) {  // the key, and the first counter
  return guarded([&] {
    const RandomSeed taken = take_counters(std::nullopt, c10::DeviceIndex(index), uint64_t(counters));
    std::memcpy(seed, &taken, sizeof taken);
  });
}
OCL_API int ocl_flush() {
  return guarded([&] { Later::flush(); });
}
OCL_API int ocl_synchronize(int index) {
  return guarded([&] {
    Later::flush();
    check(pl_synchronize(context(), device_name(c10::DeviceIndex(index))));
  });
}
OCL_API int ocl_current_stream(int index, int64_t* id) {
  return guarded([&] { *id = current_stream_of(c10::DeviceIndex(index)); });
}
OCL_API int ocl_set_stream(int index, int64_t id) {
  return guarded([&] { set_current_stream(c10::DeviceIndex(index), id); });
}

// ---- memory ----

OCL_API size_t ocl_spare_bytes(int index) { return spare_bytes(c10::DeviceIndex(index)); }
OCL_API void ocl_release_spare() {
  release_spare();
  release_pinned();
}

// ---- programs ----

OCL_API void ocl_set_maker(Maker maker) { set_maker(maker); }
OCL_API void ocl_forget_programs() { forget_programs(); }
OCL_API int ocl_register(const char* name) {
  return guarded([&] { register_op(name); });
}
OCL_API int ocl_register_list(const char* name) {
  return guarded([&] { register_list_op(name); });
}
OCL_API void ocl_program_refuse(Program* program, const char* reason) { program->refusal = reason; }
OCL_API void ocl_program_numbers(Program* program, int count) { program->numbers = size_t(count); }
OCL_API int ocl_program_constant(Program* program, void* tensor) {
  return guarded([&] {
    pl_tensor same = nullptr;
    check(pl_tensor_retain(static_cast<pl_tensor>(tensor), &same));
    program->constants.emplace_back(same);
  });
}
OCL_API int ocl_program_step(Program* program, const char* op, const char* attributes, const int* inputs, int count,
                             int first, int results) {
  return guarded([&] {
    pl_attributes made = nullptr;
    check(pl_attributes_create(attributes, &made));
    program->steps.push_back({op, made, {inputs, inputs + count}, first, results});
    program->slots = std::max(program->slots, size_t(first + results));
  });
}
OCL_API void ocl_program_slots(Program* program, int count) {
  program->slots = std::max(program->slots, size_t(count));
}
OCL_API void ocl_program_output(Program* program, int slot, int argument, int returned, int free, int dtype, int rank,
                                const int64_t* sizes, const int64_t* strides) {
  program->outputs.push_back({slot,
                              argument,
                              returned != 0,
                              free != 0,
                              at::ScalarType(dtype),
                              {sizes, sizes + rank},
                              {strides, strides + rank}});
}

// ---- fallbacks ----

OCL_API void ocl_set_fallback(int mode) { set_fallback_mode(FallbackMode(mode)); }
OCL_API char* ocl_fallbacks() { return copied(fallbacks()); }
OCL_API void ocl_clear_fallbacks() { clear_fallbacks(); }
}

// ---- functions that take tensors ----

namespace {

at::Tensor random_state(int64_t device) {
  return at::Tensor::wrap_tensor_impl(
      default_generator(c10::DeviceIndex(device)).unsafeGetGeneratorImpl()->get_state());
}

void set_random_state(int64_t device, const at::Tensor& state) {
  at::Generator generator = default_generator(c10::DeviceIndex(device));
  std::lock_guard<std::mutex> guard(generator.mutex());
  generator.unsafeGetGeneratorImpl()->set_state(*state.unsafeGetTensorImpl());
}

void seed(int64_t device, int64_t value) {
  at::Generator generator = default_generator(c10::DeviceIndex(device));
  std::lock_guard<std::mutex> guard(generator.mutex());
  generator.set_current_seed(uint64_t(value));
}

void seed_all(int64_t value) { seed_generators(uint64_t(value)); }

// A plan of the library, and what tensors its runs give.
struct PlanCall {
  struct Result {
    std::vector<int64_t> sizes, strides;
    at::ScalarType type;
    int64_t written;  // into which of the tensors that the caller gives for it; or one of these:
  };
  static constexpr int64_t kNew = -1;   // a new tensor
  static constexpr int64_t kPart = -2;  // what the last result carries, a tensor of bytes
  struct Input {                        // one that may come with other strides than the plan takes
    size_t place;
    std::vector<int64_t> strides;
  };
  pl_plan plan;
  c10::DeviceIndex device;
  std::vector<Result> results;
  std::vector<Input> checked;
  std::shared_ptr<const PartForms> made_parts;  // null: none
  int64_t made_bytes = 0;
  // Of a plan that reads what another one made so: all that the last tensor it is given carries, and the plan's inputs,
  // each by its place among the tensors that are given or, as -1 - k, the one that is carried in place k.
  PartForms given_parts;
  std::vector<int64_t> sources;
  size_t number = SIZE_MAX;  // among the tensors that a run gives, that of one number; none, or the first of several
  std::shared_ptr<std::atomic<bool>> number_is_wanted = std::make_shared<std::atomic<bool>>(false);
};

PartForm part_form(const at::Tensor& like) {
  const std::optional<pl_dtype> dtype = dtype_of(like.scalar_type());
  TORCH_CHECK(dtype, "ocl: dtype ", like.scalar_type(), " cannot be carried");
  return {*dtype, like.sizes().vec(), like.strides().vec(), like.numel() * int64_t(like.element_size()), 0};
}

// A tensor of bytes that carries others.
at::Tensor carrier(c10::DeviceIndex device, int64_t bytes, std::vector<Handle> parts,
                   std::shared_ptr<const PartForms> forms) {
  at::Tensor made = empty_free({bytes}, {1}, at::kByte, device);
  place_of(made).block->adopt(std::move(parts), std::move(forms));
  return made;
}

// What a tensor of bytes carries, also where that was moved to other memory meanwhile.
std::vector<Handle> carried(const at::Tensor& bytes, const PartForms& forms) {
  const Place place = place_of(bytes);
  std::vector<Handle> parts = place.block->parts(forms);
  if (!parts.empty()) return parts;
  const Place first{place.block, place.bytes + bytes.storage_offset()};
  for (const PartForm& form : forms)
    parts.push_back(Place{first.block, first.bytes + form.offset}.view(form.dtype, form.sizes, form.strides, 0));
  return parts;
}

// `like`: tensors of the meta device, as each result is; `inputs`: likewise those in the places `checked`; `carried`:
// likewise what the last tensor carries. The number of a call, for run_plan; the plan must outlive it.
int64_t new_plan_call(int64_t plan, int64_t device, const std::vector<at::Tensor>& like, at::ArrayRef<int64_t> written,
                      const std::vector<at::Tensor>& inputs, at::ArrayRef<int64_t> checked,
                      const std::vector<at::Tensor>& carried, at::ArrayRef<int64_t> sources) {
  TORCH_CHECK(checked.size() == inputs.size(), "ocl: new_plan_call: ", checked.size(), " places of inputs, expected ",
              inputs.size());
  TORCH_CHECK(written.size() == like.size(), "ocl: new_plan_call: ", written.size(), " places of results, expected ",
              like.size());
  auto call = std::make_unique<PlanCall>();
  call->plan = reinterpret_cast<pl_plan>(plan);
  call->device = c10::DeviceIndex(device);
  for (size_t i = 0; i < like.size(); ++i)
    call->results.push_back({like[i].sizes().vec(), like[i].strides().vec(), like[i].scalar_type(), written[i]});
  size_t made = 0;
  for (size_t i = 0; i < like.size(); ++i) {
    if (written[i] == PlanCall::kNew && like[i].numel() == 1) call->number = std::min(call->number, made);
    if (written[i] == PlanCall::kNew) ++made;
  }
  for (size_t i = 0; i < inputs.size(); ++i) call->checked.push_back({size_t(checked[i]), inputs[i].strides().vec()});
  auto parts = std::make_shared<PartForms>();
  for (size_t i = 0; i < like.size(); ++i)
    if (written[i] == PlanCall::kPart) parts->push_back(part_form(like[i]));
  call->made_bytes = place_parts(*parts);
  if (!parts->empty()) call->made_parts = std::move(parts);
  for (const at::Tensor& each : carried) call->given_parts.push_back(part_form(each));
  place_parts(call->given_parts);
  call->sources = sources.vec();
  return reinterpret_cast<int64_t>(call.release());
}

void release_plan_call(int64_t call) { delete reinterpret_cast<PlanCall*>(call); }

// Runs the plan on tensors of the device, without copies of those that lie as the plan wants them. Gives the results
// that are new; the others are written into the tensors of `written`, which may be inputs too. False: an input, or one to
// be written, does not lie as the plan takes it, and nothing was done.
std::tuple<bool, std::vector<at::Tensor>> run_plan(int64_t number, const std::vector<at::Tensor>& inputs,
                                                   const std::vector<at::Tensor>& written) {
  const PlanCall& call = *reinterpret_cast<const PlanCall*>(number);
  for (const PlanCall::Input& each : call.checked) {
    const at::Tensor& input = inputs.at(each.place);
    if (input.strides() != c10::IntArrayRef(each.strides) || input.is_neg()) return {false, {}};
  }
  for (const PlanCall::Result& result : call.results) {
    if (result.written < 0) continue;
    const at::Tensor& target = written.at(size_t(result.written));
    if (target.strides() != c10::IntArrayRef(result.strides) || target.is_neg()) return {false, {}};
  }
  start_early_reads();
  std::vector<at::Tensor> made;
  std::vector<Handle> held, parts;
  std::vector<pl_tensor> given, results;
  held.reserve(inputs.size() + call.results.size());
  given.reserve(std::max(inputs.size(), call.sources.size()));
  results.reserve(call.results.size());
  if (call.sources.empty()) {
    for (const at::Tensor& tensor : inputs) given.push_back(held.emplace_back(view_of(tensor)).get());
  } else {
    parts = carried(inputs.back(), call.given_parts);
    for (const int64_t source : call.sources)
      given.push_back(source < 0 ? parts.at(size_t(-1 - source)).get()
                                 : held.emplace_back(view_of(inputs.at(size_t(source)))).get());
  }
  for (const PlanCall::Result& result : call.results) {
    if (result.written == PlanCall::kPart) {
      results.push_back(nullptr);  // the library makes it
      continue;
    }
    const bool is_new = result.written == PlanCall::kNew;
    if (is_new) made.push_back(empty_strided(result.sizes, result.strides, result.type, call.device));
    const at::Tensor& target = is_new ? made.back() : written.at(size_t(result.written));
    results.push_back(held.emplace_back(view_of(target)).get());
  }
  check(pl_plan_run(call.plan, given.data(), given.size(), results.data(), results.size()));
  if (call.number < made.size()) note_number(made[call.number], call.number_is_wanted);
  if (call.made_parts) {
    parts.clear();
    parts.reserve(call.made_parts->size());
    for (size_t i = 0; i < results.size(); ++i)
      if (call.results[i].written == PlanCall::kPart) parts.emplace_back(results[i]);
    made.push_back(carrier(call.device, call.made_bytes, std::move(parts), call.made_parts));
  }
  return {true, std::move(made)};
}

// A tensor of bytes that carries these, without a copy.
at::Tensor bundle(const std::vector<at::Tensor>& tensors) {
  auto forms = std::make_shared<PartForms>();
  std::vector<Handle> parts;
  for (const at::Tensor& each : tensors) {
    forms->push_back(part_form(each));
    parts.push_back(placed_view_of(each));
  }
  const int64_t bytes = place_parts(*forms);
  return carrier(c10::DeviceIndex(tensors.at(0).get_device()), bytes, std::move(parts), std::move(forms));
}

// What a tensor of bytes carries, as tensors of PyTorch's; `like`: tensors of the meta device as they are.
std::vector<at::Tensor> unbundle(const at::Tensor& bytes, const std::vector<at::Tensor>& like) {
  PartForms forms;
  for (const at::Tensor& each : like) forms.push_back(part_form(each));
  place_parts(forms);
  const std::vector<Handle> parts = carried(bytes, forms);
  std::vector<at::Tensor> made;
  for (size_t i = 0; i < like.size(); ++i) {
    made.push_back(
        empty_free(like[i].sizes(), like[i].strides(), like[i].scalar_type(), c10::DeviceIndex(bytes.get_device())));
    adopt(made.back(), parts[i]);
  }
  return made;
}

// The library's tensor over a tensor of the device, as the number of a handle that is the caller's.
int64_t handle_of(const at::Tensor& tensor) {
  pl_tensor same = nullptr;
  check(pl_tensor_retain(placed_view_of(tensor).get(), &same));
  return reinterpret_cast<int64_t>(same);
}

TORCH_LIBRARY(pylayout_ocl, m) {
  m.def("random_state(int device) -> Tensor", random_state);
  m.def("set_random_state(int device, Tensor state) -> ()", set_random_state);
  m.def("seed(int device, int value) -> ()", seed);
  m.def("seed_all(int value) -> ()", seed_all);
  m.def("initial_seed(int device) -> int",
        [](int64_t device) { return int64_t(default_generator(c10::DeviceIndex(device)).current_seed()); });
  m.def("handle(Tensor tensor) -> int");
  m.def(
      "new_plan_call(int plan, int device, Tensor[] like, int[] written, Tensor[] inputs, int[] checked, "
      "Tensor[] carried, int[] sources) -> int",
      new_plan_call);
  m.def("release_plan_call(int call) -> ()", release_plan_call);
  m.def("bundle(Tensor[] tensors) -> Tensor");
  // For any tensors: also where a plan takes none, and beside tensors of the meta device.
  m.def("unbundle(Tensor bytes, Tensor[] like) -> Tensor[]", unbundle);
  m.def("run_plan(int call, Tensor[] inputs, Tensor(a!)[] written) -> (bool, Tensor[])", run_plan);
}

TORCH_LIBRARY_IMPL(pylayout_ocl, PrivateUse1, m) {
  m.impl("handle", handle_of);
  m.impl("bundle", bundle);
}

}  // namespace

}  // namespace ocl
