// Random numbers: drawn by the host, from a generator of PyTorch's for the CPU, and copied to the device. So a seed
// gives the numbers on the device that it gives on the CPU.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>

#include "shim.h"

namespace ocl {
namespace {

class Generator final : public c10::GeneratorImpl {
 public:
  Generator(c10::DeviceIndex index, at::Generator host)
      : c10::GeneratorImpl({kDevice, index}, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
        host_(std::move(host)) {}
  static c10::DeviceType device_type() { return kDevice; }

  const at::Generator& host() const { return host_; }
  void set_current_seed(uint64_t seed) override { host_.set_current_seed(seed); }
  uint64_t current_seed() const override { return host_.current_seed(); }
  uint64_t seed() override { return host_.seed(); }
  void set_offset(uint64_t) override { TORCH_CHECK_NOT_IMPLEMENTED(false, "ocl: generators have no offset"); }
  uint64_t get_offset() const override { TORCH_CHECK_NOT_IMPLEMENTED(false, "ocl: generators have no offset"); }
  void set_state(const c10::TensorImpl& state) override { host_.unsafeGetGeneratorImpl()->set_state(state); }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override { return host_.unsafeGetGeneratorImpl()->get_state(); }

 private:
  c10::GeneratorImpl* clone_impl() const override { return new Generator(device_.index(), host_.clone()); }
  at::Generator host_;
};

}  // namespace

at::Generator new_generator(c10::DeviceIndex index) {
  return at::make_generator<Generator>(index, at::detail::createCPUGenerator());
}

at::Generator host_generator(const at::Generator& generator) {
  if (generator.device().type() != kDevice) return generator;
  return static_cast<Generator*>(generator.unsafeGetGeneratorImpl())->host();
}

}  // namespace ocl
