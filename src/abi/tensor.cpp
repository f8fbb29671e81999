// The C ABI of tensors.
#include "core/tensor.h"

#include <limits>

#include "abi/describe.h"
#include "abi/guard.h"
#include "abi/handles.h"
#include "abi/lease.h"

using namespace pl;
using namespace pl::abi;

namespace {

constexpr int64_t kMaxOffset = int64_t(1) << 59;  // in elements: with an extent of as many, bytes fit 64 bits

Layout parse_layout(const char* text, int rank) { return text ? Layout::parse(text) : Layout::plain(rank); }

void check_bytes(const TensorDesc& desc, size_t bytes, const char* function) {
  const size_t needed = size_t(desc.elements()) * size_of(desc.dtype);
  require(bytes == needed, Code::shape, function, ": bytes is ", bytes, ", expected ", needed, " (",
          name_of(desc.dtype), ' ', desc.shape, ")");
}

pl_status read_elements(pl_tensor tensor, void* data, size_t bytes, const char* function, bool later) {
  return guarded([&] {
    const TensorEntry entry = tensor_of(tensor, function);
    check_bytes(entry.tensor->desc(), bytes, function);
    if (bytes == 0) return;
    require_pointer(data, function, "data");
    entry.context->read(entry.tensor, data, bytes, later);
  });
}

pl_status write_elements(pl_tensor tensor, const void* data, size_t bytes, const char* function, bool later) {
  return guarded([&] {
    const TensorEntry entry = tensor_of(tensor, function);
    check_bytes(entry.tensor->desc(), bytes, function);
    if (bytes == 0) return;
    require_pointer(data, function, "data");
    entry.context->write(entry.tensor, data, bytes, later);
  });
}

}  // namespace

extern "C" {

pl_status pl_tensor_create(pl_context context, const char* device, pl_dtype dtype, int32_t rank, const int64_t* shape,
                           const char* layout, pl_tensor* tensor) {
  return guarded([&] {
    const char* function = "pl_tensor_create";
    ContextRef self = context_of(context, function);
    require_pointer(tensor, function, "tensor");
    Device& where = self->device(device ? device : "cpu");
    const DType type = checked_dtype(dtype, function);
    const Dims sizes = checked_shape(rank, shape, function);
    const TensorDesc desc = TensorDesc::dense(type, sizes, parse_layout(layout, rank));
    TensorRef made = Tensor::allocate(where, desc);
    if (desc.size_bytes()) where.fill_zero(*made->buffer(), 0, desc.size_bytes());
    *tensor = new_handle({std::move(made), std::move(self)});
  });
}

pl_status pl_tensor_borrow(pl_context context, pl_dtype dtype, int32_t rank, const int64_t* shape, const char* layout,
                           const int64_t* strides, void* data, void (*release)(void* user), void* user,
                           pl_tensor* tensor) {
  return guarded([&] {
    const char* function = "pl_tensor_borrow";
    ContextRef self = context_of(context, function);
    require_pointer(tensor, function, "tensor");
    require(!layout || !strides, Code::invalid_argument, function,
            ": layout and strides are both given, expected at most one");
    const DType type = checked_dtype(dtype, function);
    const Dims sizes = checked_shape(rank, shape, function);
    const TensorDesc desc = strides ? TensorDesc::strided(type, sizes, Dims(strides, size_t(rank)))
                                    : TensorDesc::dense(type, sizes, parse_layout(layout, rank));
    require(data != nullptr || desc.size_bytes() == 0, Code::invalid_argument, function, ": data is NULL, expected ",
            desc.size_bytes(), " bytes");
    require(reinterpret_cast<uintptr_t>(data) % size_of(type) == 0, Code::invalid_argument, function,
            ": data is not aligned to its dtype, expected a multiple of ", size_of(type), " bytes");
    auto lease = release ? std::make_shared<Lease>([release, user] { release(user); }) : nullptr;
    TensorRef made = borrow_host(self->device("cpu"), desc, data, desc.size_bytes(), lease);
    *tensor = new_handle({std::move(made), std::move(self)});
    if (lease) lease->begin();
  });
}

pl_status pl_tensor_borrow_cl(pl_context context, const char* device, pl_dtype dtype, int32_t rank,
                              const int64_t* shape, const char* layout, void* cl_mem, size_t offset_bytes,
                              pl_tensor* tensor) {
  return guarded([&] {
    const char* function = "pl_tensor_borrow_cl";
    ContextRef self = context_of(context, function);
    require_pointer(device, function, "device");
    require_pointer(cl_mem, function, "cl_mem");
    require_pointer(tensor, function, "tensor");
    const DType type = checked_dtype(dtype, function);
    const Dims sizes = checked_shape(rank, shape, function);
    TensorDesc desc = TensorDesc::dense(type, sizes, parse_layout(layout, rank));
    desc.offset = offset_of_bytes(offset_bytes, type, function, "offset_bytes");
    auto made = std::make_shared<Tensor>(desc, self->device(device).borrow_handle(cl_mem));
    *tensor = new_handle({std::move(made), std::move(self)});
  });
}

pl_status pl_tensor_allocate(pl_context context, const char* device, size_t bytes, pl_tensor* tensor) {
  return guarded([&] {
    const char* function = "pl_tensor_allocate";
    ContextRef self = context_of(context, function);
    require_pointer(tensor, function, "tensor");
    require(bytes <= size_t(std::numeric_limits<int64_t>::max() / 2), Code::shape, function, ": bytes is ", bytes,
            ", too many");
    TensorRef made =
        Tensor::allocate(self->device(device ? device : "cpu"), TensorDesc::dense(DType::u8, Dims{int64_t(bytes)}));
    *tensor = new_handle({std::move(made), std::move(self)});
  });
}

pl_status pl_tensor_allocate_pinned(pl_context context, const char* device, size_t bytes, pl_tensor* tensor) {
  return guarded([&] {
    const char* function = "pl_tensor_allocate_pinned";
    ContextRef self = context_of(context, function);
    require_pointer(device, function, "device");
    require_pointer(tensor, function, "tensor");
    require(bytes <= size_t(std::numeric_limits<int64_t>::max() / 2), Code::shape, function, ": bytes is ", bytes,
            ", too many");
    BufferRef buffer = self->device(device).allocate_pinned(self->host(), bytes);
    auto made = std::make_shared<Tensor>(TensorDesc::dense(DType::u8, Dims{int64_t(bytes)}), std::move(buffer));
    *tensor = new_handle({std::move(made), std::move(self)});
  });
}

pl_status pl_tensor_view(pl_tensor tensor, pl_dtype dtype, int32_t rank, const int64_t* shape, const int64_t* strides,
                         int64_t offset, pl_tensor* view) {
  return guarded([&] {
    const char* function = "pl_tensor_view";
    TensorEntry entry = tensor_of(tensor, function);
    require_pointer(view, function, "view");
    const DType type = checked_dtype(dtype, function);
    const Dims sizes = checked_shape(rank, shape, function);
    if (rank) require_pointer(strides, function, "strides");
    require(offset >= 0 && offset <= kMaxOffset, Code::invalid_argument, function, ": offset is ", offset,
            ", expected 0 or more, within the storage");
    TensorDesc desc = TensorDesc::strided(type, sizes, Dims(strides, size_t(rank)));
    desc.offset = offset;
    auto made = std::make_shared<Tensor>(desc, entry.tensor->buffer());  // refuses what reaches beyond the storage
    *view = new_handle({std::move(made), std::move(entry.context)});
  });
}

pl_status pl_tensor_release(pl_tensor tensor) {
  return guarded([&] { tensors().remove(value_of(tensor), "pl_tensor_release", "tensor"); });
}

pl_status pl_tensor_retain(pl_tensor tensor, pl_tensor* same) {
  return guarded([&] {
    TensorEntry entry = tensor_of(tensor, "pl_tensor_retain");
    require_pointer(same, "pl_tensor_retain", "same");
    *same = new_handle(std::move(entry));
  });
}

pl_status pl_tensor_describe(pl_tensor tensor, pl_tensor_info* info) {
  return guarded([&] {
    const TensorEntry entry = tensor_of(tensor, "pl_tensor_describe");
    require_pointer(info, "pl_tensor_describe", "info");
    describe(entry.tensor->desc(), *info);
    copy_text(info->device, sizeof info->device, entry.tensor->device().name());
    info->is_borrowed = entry.tensor->buffer()->borrowed();
  });
}

pl_status pl_tensor_read(pl_tensor tensor, void* data, size_t bytes) {
  return read_elements(tensor, data, bytes, "pl_tensor_read", false);
}

pl_status pl_tensor_read_later(pl_tensor tensor, void* data, size_t bytes) {
  return read_elements(tensor, data, bytes, "pl_tensor_read_later", true);
}

pl_status pl_tensor_copy(pl_tensor source, pl_tensor destination) {
  return guarded([&] {
    const TensorEntry from = tensor_of(source, "pl_tensor_copy"), to = tensor_of(destination, "pl_tensor_copy");
    require(from.context == to.context, Code::invalid_argument,
            "pl_tensor_copy: source and destination are of different contexts");
    from.context->copy(from.tensor, to.tensor);
  });
}

pl_status pl_tensor_write(pl_tensor tensor, const void* data, size_t bytes) {
  return write_elements(tensor, data, bytes, "pl_tensor_write", false);
}

pl_status pl_tensor_write_later(pl_tensor tensor, const void* data, size_t bytes) {
  return write_elements(tensor, data, bytes, "pl_tensor_write_later", true);
}

pl_status pl_tensor_data(pl_tensor tensor, void** data) {
  return guarded([&] {
    const TensorEntry entry = tensor_of(tensor, "pl_tensor_data");
    require_pointer(data, "pl_tensor_data", "data");
    Device& device = entry.tensor->device();
    void* host = entry.tensor->buffer()->host();
    require(host != nullptr || entry.tensor->desc().elements() == 0, Code::device, "pl_tensor_data: tensor is on ",
            device.name(), ", whose memory the host cannot address; expected cpu");
    device.synchronize();
    *data = host;
  });
}

pl_status pl_tensor_cl_mem(pl_tensor tensor, void** cl_mem) {
  return guarded([&] {
    const TensorEntry entry = tensor_of(tensor, "pl_tensor_cl_mem");
    require_pointer(cl_mem, "pl_tensor_cl_mem", "cl_mem");
    void* handle = entry.tensor->buffer()->handle();
    require(handle != nullptr, Code::device, "pl_tensor_cl_mem: tensor is on ", entry.tensor->device().name(),
            " and has no cl_mem; expected an OpenCL device");
    *cl_mem = handle;
  });
}

pl_status pl_tensor_touch(pl_tensor tensor) {
  return guarded([&] { tensor_of(tensor, "pl_tensor_touch").tensor->buffer()->touch(); });
}

pl_status pl_tensor_convert(pl_tensor tensor, const char* device, const char* layout, const char* dtype,
                            pl_tensor* converted) {
  return guarded([&] {
    TensorEntry entry = tensor_of(tensor, "pl_tensor_convert");
    require_pointer(converted, "pl_tensor_convert", "converted");
    const TensorDesc& desc = entry.tensor->desc();
    Device& where = device ? entry.context->device(device) : entry.tensor->device();
    const DType type = dtype ? parse_dtype(dtype) : desc.dtype;
    const Layout order = layout ? Layout::parse(layout) : desc.layout;
    require(order.rank() == desc.rank(), Code::layout, "pl_tensor_convert: layout ", order.str(), " has rank ",
            order.rank(), ", expected ", desc.rank(), " for the shape ", desc.shape);
    const bool same = !layout && !dtype && &where == &entry.tensor->device();
    TensorRef result = same ? entry.tensor : entry.context->convert(entry.tensor, where, order, type);
    *converted = new_handle({std::move(result), std::move(entry.context)});
  });
}

}  // extern "C"
