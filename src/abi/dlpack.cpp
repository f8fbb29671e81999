#include "abi/dlpack.h"

#include <charconv>
#include <cstring>

#include "abi/describe.h"
#include "abi/guard.h"
#include "abi/handles.h"
#include "abi/lease.h"

using namespace pl;
using namespace pl::abi;

namespace {

constexpr char kOpenCLPrefix[] = "opencl:";

dlpack::DataType to_dlpack(DType dtype) {
  const auto bits = uint8_t(size_of(dtype) * 8);
  switch (dtype) {
    case DType::f32:
    case DType::f16: return {dlpack::kFloat, bits, 1};
    case DType::bf16: return {dlpack::kBfloat, bits, 1};
    case DType::u8: return {dlpack::kUInt, bits, 1};
    case DType::boolean: return {dlpack::kBool, bits, 1};
    case DType::s8:
    case DType::s32:
    case DType::s64: break;
  }
  return {dlpack::kInt, bits, 1};
}

DType from_dlpack(dlpack::DataType type) {
  if (type.lanes == 1)
    for (int i = 0; i < kDTypeCount; ++i) {
      const auto dtype = static_cast<DType>(i);
      const dlpack::DataType known = to_dlpack(dtype);
      if (known.code == type.code && known.bits == type.bits) return dtype;
    }
  fail(Code::unsupported, "pl_tensor_from_dlpack: dtype has code ", int(type.code), ", ", int(type.bits), " bits, ",
       type.lanes, " lanes; expected f32, f16, bf16, s8, u8, s32, s64 or bool");
}

dlpack::Device device_of(const Device& device) {
  if (device.traits().host_addressable) return {dlpack::kCPU, 0};
  const std::string& name = device.name();
  int32_t index = 0;
  const size_t prefix = sizeof kOpenCLPrefix - 1;
  const bool opencl = name.compare(0, prefix, kOpenCLPrefix) == 0 &&
                      std::from_chars(name.data() + prefix, name.data() + name.size(), index).ec == std::errc();
  require(opencl, Code::unsupported, "pl_tensor_to_dlpack: DLPack has no name for the device ", name);
  return {dlpack::kOpenCL, index};
}

// What an exported tensor keeps: the tensor, and the arrays that the managed struct points to.
struct Export {
  dlpack::ManagedTensor managed{};
  TensorEntry entry;
  Dims shape, strides;
};

void free_export(dlpack::ManagedTensor* managed) { delete static_cast<Export*>(managed->manager_context); }

TensorRef import_tensor(Context& context, dlpack::ManagedTensor* managed, const std::shared_ptr<Lease>& lease) {
  const char* function = "pl_tensor_from_dlpack";
  const dlpack::Tensor& source = managed->tensor;
  const DType dtype = from_dlpack(source.dtype);
  const size_t item = size_of(dtype);
  require(source.ndim >= 0 && source.ndim <= kMaxRank, Code::shape, function, ": rank is ", source.ndim,
          ", expected 0 to ", kMaxRank);
  require(source.ndim == 0 || source.shape != nullptr, Code::invalid_argument, function, ": shape is NULL");
  const Dims shape(source.shape, size_t(source.ndim));
  TensorDesc desc = source.strides && source.ndim
                        ? TensorDesc::strided(dtype, shape, Dims(source.strides, size_t(source.ndim)))
                        : TensorDesc::dense(dtype, shape);
  require(source.data != nullptr || desc.elements() == 0, Code::invalid_argument, function, ": data is NULL");
  if (source.device.device_type == dlpack::kCPU) {
    char* data = static_cast<char*>(source.data) + source.byte_offset;
    require(reinterpret_cast<uintptr_t>(data) % item == 0, Code::invalid_argument, function,
            ": data is not aligned to its dtype, expected a multiple of ", item, " bytes");
    return borrow_host(context.device("cpu"), desc, data, desc.size_bytes(), lease);
  }
  require(source.device.device_type == dlpack::kOpenCL, Code::device, function, ": device type is ",
          source.device.device_type, ", expected 1 (CPU) or 4 (OpenCL)");
  desc.offset = offset_of_bytes(source.byte_offset, dtype, function, "byte_offset");
  Device& device = context.device(kOpenCLPrefix + std::to_string(source.device.device_id));
  // The cl_mem is retained by the buffer, and the exporter's own record by the wrapped release.
  const BufferRef inner = device.borrow_handle(source.data);
  auto block = std::make_unique<Block>();
  block->host = inner->host();
  block->handle = inner->handle();
  block->bytes = inner->bytes();
  block->last_uses = inner->block().last_uses;  // blocks over one cl_mem wait for each other
  return std::make_shared<Tensor>(
      desc, std::make_shared<Buffer>(device.shared_from_this(), std::move(block), [inner, lease] {}));
}

}  // namespace

extern "C" {

pl_status pl_tensor_to_dlpack(pl_tensor tensor, void** managed) {
  return guarded([&] {
    const char* function = "pl_tensor_to_dlpack";
    TensorEntry entry = tensor_of(tensor, function);
    require_pointer(managed, function, "managed");
    const TensorDesc& desc = entry.tensor->desc();
    require(!desc.layout.is_blocked(), Code::layout, function, ": tensor has layout ", desc.layout.str(),
            ", expected one without inner blocks, such as NCHW or NHWC");
    Device& device = entry.tensor->device();
    auto made = std::make_unique<Export>();
    dlpack::Tensor& out = made->managed.tensor;
    out.device = device_of(device);
    Buffer& buffer = *entry.tensor->buffer();
    const size_t offset = size_t(desc.offset) * size_of(desc.dtype);
    if (out.device.device_type == dlpack::kCPU) {
      // Consumers differ in whether they read byte_offset, so the pointer holds it.
      out.data = desc.elements() ? static_cast<char*>(buffer.host()) + offset : nullptr;
    } else {
      out.data = buffer.handle();
      out.byte_offset = offset;
      device.synchronize();  // DLPack has no queue to hand over for OpenCL
    }
    made->shape = desc.shape;
    made->strides = desc.strides;
    out.ndim = desc.rank();
    out.dtype = to_dlpack(desc.dtype);
    out.shape = const_cast<int64_t*>(made->shape.data());
    out.strides = const_cast<int64_t*>(made->strides.data());
    made->managed.manager_context = made.get();
    made->managed.deleter = free_export;
    made->entry = std::move(entry);
    *managed = &made.release()->managed;
  });
}

pl_status pl_tensor_from_dlpack(pl_context context, void* managed, pl_tensor* tensor) {
  return guarded([&] {
    const char* function = "pl_tensor_from_dlpack";
    ContextRef self = context_of(context, function);
    require_pointer(managed, function, "managed");
    require_pointer(tensor, function, "tensor");
    auto* source = static_cast<dlpack::ManagedTensor*>(managed);
    auto lease = std::make_shared<Lease>([source] {
      if (source->deleter) source->deleter(source);
    });
    TensorRef made = import_tensor(*self, source, lease);
    *tensor = new_handle({std::move(made), std::move(self)});
    lease->begin();
  });
}

}  // extern "C"
