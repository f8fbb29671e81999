// Making, copying, resizing and renaming tensors of the device.
#include <ATen/EmptyTensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/all.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/TensorOptions.h>
#include <torch/library.h>

#include <algorithm>
#include <numeric>

#include "early.h"
#include "fallback.h"
#include "later.h"
#include "shim.h"

namespace ocl {
namespace {

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

c10::DeviceIndex index_of(std::optional<c10::Device> device) {
  return device && device->index() >= 0 ? device->index() : current_device();
}

void require_strided(std::optional<c10::Layout> layout) {
  TORCH_CHECK_NOT_IMPLEMENTED(!layout || *layout == c10::kStrided, "ocl: layout is ", *layout, ", expected strided");
}

at::Tensor empty(c10::IntArrayRef sizes, std::optional<at::ScalarType> type, std::optional<c10::Layout> layout,
                 std::optional<c10::Device> device, std::optional<bool>, std::optional<c10::MemoryFormat> format) {
  require_strided(layout);
  const c10::DeviceGuard guard({kDevice, index_of(device)});
  return at::detail::empty_generic(sizes, allocator(), kKeys, c10::dtype_or_default(type), format);
}

at::Tensor empty_with_strides(c10::IntArrayRef sizes, c10::IntArrayRef strides, std::optional<at::ScalarType> type,
                              std::optional<c10::Layout> layout, std::optional<c10::Device> device,
                              std::optional<bool>) {
  require_strided(layout);
  return empty_strided(sizes, strides, c10::dtype_or_default(type), index_of(device));
}

const at::Tensor& resize(const at::Tensor& self, c10::IntArrayRef sizes, std::optional<c10::MemoryFormat> format) {
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  if (self.sizes() != sizes) {
    const size_t item = self.dtype().itemsize();
    const size_t needed = at::detail::computeStorageNbytesContiguous(sizes, item, size_t(self.storage_offset()));
    if (needed > self.storage().nbytes()) resize_storage(self.storage(), needed);
    impl->set_sizes_contiguous(sizes);
  }
  if (format && *format != c10::MemoryFormat::Preserve) impl->empty_tensor_restride(*format);
  return self;
}

at::Tensor& set_within(at::Tensor& self, at::Storage storage, int64_t offset, c10::IntArrayRef sizes,
                       c10::IntArrayRef strides) {
  TORCH_CHECK(storage.device() == self.device(), "ocl: set_: the storage is on ", storage.device(), ", expected ",
              self.device());
  TORCH_CHECK(offset >= 0, "ocl: set_: storage_offset is ", offset, ", expected 0 or more");
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  std::vector<int64_t> steps = strides.vec();
  if (strides.data() == nullptr || strides.size() != sizes.size()) {
    steps.assign(sizes.size(), 1);
    for (size_t i = sizes.size(); i-- > 1;) steps[i - 1] = steps[i] * std::max<int64_t>(sizes[i], 1);
  }
  const size_t needed = at::detail::computeStorageNbytes(sizes, steps, self.dtype().itemsize(), size_t(offset));
  if (needed > storage.nbytes()) resize_storage(storage, needed);
  impl->set_storage_keep_dtype(std::move(storage));
  impl->set_storage_offset(offset);
  impl->set_sizes_and_strides(sizes, steps);
  return self;
}

at::Tensor& set_storage(at::Tensor& self, at::Storage storage) {
  const int64_t count = int64_t(storage.nbytes() / self.dtype().itemsize());
  return set_within(self, std::move(storage), 0, count, {});
}

at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) {
  return set_within(self, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

at::Tensor& set_empty(at::Tensor& self) {
  at::Storage storage(c10::Storage::use_byte_size_t(), 0, allocator()->allocate(0), allocator(), true);
  return set_within(self, std::move(storage), 0, {0}, {});
}

// ---- copies ----

// A dtype of the same size as which elements are moved unchanged.
std::optional<pl_dtype> moved_as(at::ScalarType type) {
  if (const auto dtype = dtype_of(type)) return dtype;
  switch (c10::elementSize(type)) {
    case 1: return PL_U8;
    case 4: return PL_S32;
    case 8: return PL_S64;
    default: return std::nullopt;
  }
}

bool is_plain(const at::Tensor& tensor) { return !tensor.is_neg() && !tensor.is_conj() && tensor.dim() <= PL_MAX_RANK; }

Operand operand_as(const at::Tensor& tensor, pl_dtype dtype) {
  const Place place = place_of(tensor);
  return {place.view_of_memory(dtype, tensor.sizes(), tensor.strides(), tensor.storage_offset()), place.block};
}

Handle moved(const at::Tensor& tensor, pl_dtype dtype) {
  const Operand made = operand_as(tensor, dtype);
  Later::before_write(made.block);
  return made.tensor;
}

// The part of a storage in which a tensor lies, on the host, and that tensor over it. Rightly whatever it is.
at::Tensor fetched(const at::Tensor& tensor) {
  const size_t item = tensor.dtype().itemsize();
  const int64_t first = tensor.storage_offset() * int64_t(item);
  const int64_t bytes = int64_t(at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), item));
  at::Tensor whole = at::empty({bytes / int64_t(item)}, at::TensorOptions(tensor.scalar_type()));
  const Handle part = place_of(tensor).view(PL_U8, {bytes}, {1}, first);
  check(pl_tensor_read(part.get(), whole.data_ptr(), size_t(bytes)));
  return whole.as_strided(tensor.sizes(), tensor.strides(), 0);
}

void put_back(const at::Tensor& fetched, const at::Tensor& tensor) {
  const int64_t bytes = int64_t(fetched.storage().nbytes());
  const int64_t first = tensor.storage_offset() * int64_t(tensor.dtype().itemsize());
  const Handle part = place_of(tensor).view(PL_U8, {bytes}, {1}, first);
  check(pl_tensor_write(part.get(), fetched.storage().data(), size_t(bytes)));
}

at::Tensor on_host(const at::Tensor& source) {
  const auto dtype = moved_as(source.scalar_type());
  if (!dtype || !is_plain(source)) {
    at::Tensor made = fetched(source);
    if (source.is_conj()) made = made.conj();
    if (source.is_neg()) made = made._neg_view();
    return made;
  }
  at::Tensor made = at::empty(source.sizes(), at::TensorOptions(source.scalar_type()));
  check(pl_tensor_read(moved(source, *dtype).get(), made.data_ptr(), made.nbytes()));
  return made;
}

void to_device(const at::Tensor& source, const at::Tensor& target) {
  const auto dtype = moved_as(target.scalar_type());
  if (dtype && is_plain(target)) {
    const at::Tensor dense =
        source.to(target.scalar_type()).expand(target.sizes()).resolve_neg().resolve_conj().contiguous();
    check(pl_tensor_write(moved(target, *dtype).get(), dense.data_ptr(), dense.nbytes()));
    return;
  }
  at::Tensor there = fetched(target);
  at::Tensor seen = target.is_conj() ? there.conj() : there;
  if (target.is_neg()) seen = seen._neg_view();
  seen.copy_(source);
  put_back(there, target);
}

// The elements of one tensor to another of the device, whose memory does not overlap. Queued, as ops are.
void copy_elements(c10::DeviceIndex device, const Operand& source, const Operand& target, pl_dtype from, pl_dtype to) {
  static const char* const names[] = {"f32", "f16", "bf16", "s8", "u8", "s32", "s64", "bool"};
  static const auto* const casts = [] {
    auto* made = new std::vector<pl_attributes>;
    for (const char* name : names)
      check(pl_attributes_create((std::string("dtype=") + name).c_str(), &made->emplace_back()));
    return made;
  }();
  const char* const op = from == to ? "identity" : "cast";
  const pl_attributes attributes = from == to ? nullptr : (*casts)[to];
  if (Batch::open()) {
    Operand operands[] = {source, target};
    return Later::add(device, op, attributes, operands, 1, 1, nullptr);
  }
  Later::before_read(source.block);
  Later::before_write(target.block);
  pl_tensor given = source.tensor.get(), result = target.tensor.get();
  run_op(op, attributes, given, &result, 1);
}

void within_device(const at::Tensor& source, const at::Tensor& target) {
  const bool same = source.scalar_type() == target.scalar_type();
  const auto from = same ? moved_as(source.scalar_type()) : dtype_of(source.scalar_type());
  const auto to = same ? from : dtype_of(target.scalar_type());
  if (from && to && is_plain(source) && is_plain(target) && source.device() == target.device())
    return copy_elements(source.device().index(), operand_as(source, *from), operand_as(target, *to), *from, *to);
  if (source.device() == target.device())  // between two the host is the way
    count_fallback("aten::_copy_from", from && to ? "a view that is a conjugate or negative, or has many dimensions"
                                                  : std::string("from ") + c10::toString(source.scalar_type()) +
                                                        " to " + c10::toString(target.scalar_type()));
  to_device(on_host(source), target);
}

// ---- copies that do not wait ----

constexpr size_t kMostStaged = size_t(64) << 20;  // bytes of one copy

// The axes of a tensor of the host that lies without gaps, from the longest stride on: in that order it is row-major.
std::optional<std::vector<int64_t>> row_major_order(const at::Tensor& tensor) {
  if (!tensor.is_non_overlapping_and_dense()) return std::nullopt;
  std::vector<int64_t> axes(size_t(tensor.dim()));
  std::iota(axes.begin(), axes.end(), int64_t(0));
  std::stable_sort(axes.begin(), axes.end(), [&](int64_t a, int64_t b) { return tensor.stride(a) > tensor.stride(b); });
  if (!tensor.permute(axes).is_contiguous()) return std::nullopt;
  return axes;
}

// Queued, from pinned memory; what lies elsewhere or otherwise is copied into such first. False: nothing was done.
bool to_device_later(const at::Tensor& source, const at::Tensor& target) {
  const auto dtype = moved_as(target.scalar_type());
  if (!dtype || !is_plain(target)) return false;
  const bool is_there =
      is_pinned(source.data_ptr()) && source.scalar_type() == target.scalar_type() && is_plain(source);
  auto axes = is_there ? row_major_order(source) : std::nullopt;
  at::Tensor staged = source;
  if (!axes) {
    if (target.nbytes() > kMostStaged) return false;
    staged = at::detail::empty_generic(target.sizes(), pinned_allocator(), c10::DispatchKeySet(c10::DispatchKey::CPU),
                                       target.scalar_type(), std::nullopt);
    staged.copy_(source);
    axes = row_major_order(staged);
  }
  const Handle there = moved(target.permute(*axes), *dtype);
  check(pl_tensor_write_later(there.get(), staged.data_ptr(), staged.nbytes()));
  note_use_of_pinned(staged.data_ptr(), target.get_device());
  return true;
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& target, bool non_blocking) {
  if (target.numel() == 0 || self.is_same(target)) return target;
  const at::Tensor source = self.sizes() == target.sizes() ? self : self.expand(target.sizes());
  if (target.device().type() == kDevice) {
    const c10::DeviceGuard guard(target.device());
    if (source.device().type() == kDevice)
      within_device(source, target);
    else if (!non_blocking || !source.is_cpu() || !to_device_later(source, target))
      to_device(source.cpu(), target);
    return target;
  }
  const c10::DeviceGuard guard(source.device());
  if (non_blocking && target.is_cpu() && to_host_later(source, target)) return target;
  at::Tensor host = on_host(source);
  const_cast<at::Tensor&>(target).copy_(host);
  return target;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& target) {
  if (target.sizes() != self.sizes()) at::native::resize_output(target, self.sizes());
  return copy_from(self, target, false);
}

at::Scalar number_of(const at::Tensor& self) {
  if (std::optional<at::Scalar> early = early_number(self)) return *early;
  return on_host(self).item();
}

bool equal(const at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK(self.device() == other.device(), "ocl: equal: tensors are on ", self.device(), " and ", other.device(),
              ", expected one device");
  return self.sizes() == other.sizes() && (self.numel() == 0 || number_of(self.eq(other).all()).toBool());
}

// Work that shares memory of the device is ordered, on whatever streams it is.
void record_stream(at::Tensor& self, c10::Stream stream) {
  TORCH_CHECK(stream.device() == self.device(), "ocl: record_stream: the stream is of ", stream.device(), ", expected ",
              self.device());
}

void assert_true(const at::Tensor& self, c10::string_view message) { TORCH_CHECK(number_of(self).toBool(), message); }

}  // namespace

bool to_host_later(const at::Tensor& source, const at::Tensor& target) {
  const auto dtype = moved_as(target.scalar_type());
  if (!dtype || !is_pinned(target.data_ptr()) || !is_plain(source) || !is_plain(target)) return false;
  const auto axes = row_major_order(target);
  if (!axes) return false;
  at::Tensor there = source;
  if (source.scalar_type() != target.scalar_type()) {
    if (!dtype_of(source.scalar_type()) || !dtype_of(target.scalar_type())) return false;
    there = source.to(target.scalar_type());
  }
  const Handle given = moved(there.permute(*axes), *dtype);
  check(pl_tensor_read_later(given.get(), target.data_ptr(), target.nbytes()));
  note_use_of_pinned(target.data_ptr(), source.get_device());
  return true;
}

at::Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides, at::ScalarType type,
                         c10::DeviceIndex device) {
  const c10::DeviceGuard guard({kDevice, device});
  return at::detail::empty_strided_generic(sizes, strides, allocator(), kKeys, type);
}

at::Tensor empty_free(c10::IntArrayRef sizes, c10::IntArrayRef strides, at::ScalarType type, c10::DeviceIndex device) {
  const size_t bytes = at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(type));
  at::Tensor made =
      at::detail::make_tensor<c10::TensorImpl>(free_storage(device, bytes), kKeys, c10::scalarTypeToTypeMeta(type));
  made.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return made;
}

void adopt(const at::Tensor& target, const Handle& given) {
  place_of(target).block->adopt(given, *dtype_of(target.scalar_type()), target.sizes(), target.strides());
}

void resize_storage(const c10::Storage& storage, size_t bytes) {
  const c10::DeviceGuard guard(storage.device());
  c10::DataPtr fresh = allocator()->allocate(bytes);
  const size_t kept = std::min(bytes, storage.nbytes());
  if (kept) {
    auto* from = static_cast<Block*>(storage.data_ptr().get_context());
    auto* to = static_cast<Block*>(fresh.get_context());
    const auto bytes_of = [&](Block* block) { return Operand{block->view(PL_U8, {int64_t(kept)}, {1}, 0), block}; };
    copy_elements(storage.device().index(), bytes_of(from), bytes_of(to), PL_U8, PL_U8);
  }
  c10::StorageImpl* impl = storage.unsafeGetStorageImpl();
  impl->set_data_ptr_noswap(std::move(fresh));
  impl->set_nbytes(bytes);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_with_strides);
  m.impl("resize_", resize);
  m.impl("set_.source_Storage", set_storage);
  m.impl("set_.source_Storage_storage_offset", set_within);
  m.impl("set_.source_Tensor", set_tensor);
  m.impl("set_", set_empty);
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("view", static_cast<at::Tensor (*)(const at::Tensor&, at::IntArrayRef)>(at::native::view));
  // Shares the memory, as a view does.
  m.impl("_unsafe_view", static_cast<at::Tensor (*)(const at::Tensor&, at::IntArrayRef)>(at::native::view));
  m.impl("_reshape_alias", at::native::_reshape_alias);
  m.impl("unfold", at::native::unfold);
  m.impl("view_as_real", at::native::view_as_real);
  m.impl("view_as_complex", at::native::view_as_complex);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("_local_scalar_dense", number_of);
  m.impl("_assert_async.msg", assert_true);
  m.impl("equal", equal);
  m.impl("record_stream", record_stream);
}

// Copies read such tensors as they are: PyTorch would copy them before.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
  m.impl("_copy_from_and_resize", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, Negative, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
  m.impl("_copy_from_and_resize", torch::CppFunction::makeFallthrough());
}

}  // namespace ocl
