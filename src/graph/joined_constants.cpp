#include "graph/joined_constants.h"

#include <algorithm>
#include <cstring>

#include "core/status.h"
#include "dispatch/context.h"
#include "graph/passes/constants.h"

namespace pl {
namespace {

// Where such tensors live: it can be read, and nothing else.
class RowDevice final : public Device {
 public:
  RowDevice(Context& context, std::vector<TensorRef> parts)
      : Device("constants in a row", DeviceTraits(), no_memory()), context_(context), parts_(std::move(parts)) {}

  std::string fingerprint() const override { return name(); }
  std::map<std::string, std::string> properties() const override { return {}; }
  void read(Buffer&, size_t offset, void* destination, size_t bytes) override {
    char* to = static_cast<char*>(destination);
    size_t first = 0;  // of a part
    for (const TensorRef& given : parts_) {
      const size_t size = given->desc().size_bytes(), end = first + size;
      if (offset < end && bytes > 0 && size > 0) {
        const TensorRef part = passes::plain_on_cpu(context_, given);
        const size_t count = std::min(bytes, end - offset);
        std::memcpy(to, static_cast<const char*>(part->buffer()->host()) + (offset - first), count);
        to += count;
        offset += count;
        bytes -= count;
      }
      first = end;
    }
    require(bytes == 0, Code::internal, name(), ": ", bytes, " bytes behind the end are read");
  }
  void write(Buffer&, size_t, const void*, size_t) override { refuse(); }
  void fill_zero(Buffer&, size_t, size_t) override { refuse(); }
  void copy(Buffer&, size_t, Buffer&, size_t, size_t) override { refuse(); }
  void synchronize() override {}
  std::unique_ptr<Timing> start_timing() override { refuse(); }

 private:
  [[noreturn]] void refuse() const { fail(Code::internal, name(), ": can only be read"); }
  static RawMemory no_memory() {
    return {[](size_t) { return nullptr; }, [](std::unique_ptr<Block>) {}, nullptr};
  }

  Context& context_;
  std::vector<TensorRef> parts_;
};

}  // namespace

TensorRef constants_in_a_row(Context& context, std::vector<TensorRef> parts) {
  Dims shape = parts[0]->desc().shape;
  const DType dtype = parts[0]->desc().dtype;
  for (size_t i = 1; i < parts.size(); ++i) {
    const TensorDesc& part = parts[i]->desc();
    Dims expected = shape;
    expected[0] = part.rank() ? part.shape[0] : 0;
    require(part.dtype == dtype && part.shape == expected, Code::internal, "constants in a row: part ", i, " is ", part,
            ", expected shape ", expected, " of ", name_of(dtype));
    shape[0] += part.shape[0];
  }
  const TensorDesc whole = TensorDesc::dense(dtype, shape);
  auto block = std::make_unique<Block>();
  block->bytes = whole.size_bytes();
  const auto device = std::make_shared<RowDevice>(context, std::move(parts));
  return std::make_shared<Tensor>(whole, std::make_shared<Buffer>(device, std::move(block), nullptr));
}

TensorRef in_memory(Context& context, const TensorRef& tensor) {
  if (!dynamic_cast<const RowDevice*>(&tensor->device())) return tensor;
  const TensorRef made = Tensor::allocate(context.host(), tensor->desc());
  tensor->device().read(*tensor->buffer(), 0, made->buffer()->host(), tensor->desc().size_bytes());
  return made;
}

}  // namespace pl
