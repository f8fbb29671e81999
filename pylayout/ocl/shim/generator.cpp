// Generators of the device: a seed, and how many counters of it were used. A number is a function of the two (the
// library's ops random_*), so that it is the same on every device and needs no state in memory.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/Generator.h>

#include <array>
#include <cstring>

#include "shim.h"

namespace ocl {
namespace {

using State = std::array<uint64_t, 2>;  // the seed, and the first counter that was not used

class Generator final : public c10::GeneratorImpl {
 public:
  explicit Generator(c10::DeviceIndex index, uint64_t seed = c10::detail::getNonDeterministicRandom())
      : c10::GeneratorImpl({kDevice, index}, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)), state_{seed, 0} {}
  static c10::DeviceType device_type() { return kDevice; }

  RandomSeed take(uint64_t counters) {
    const RandomSeed taken{state_[0], state_[1]};
    state_[1] += counters;
    return taken;
  }
  void set_current_seed(uint64_t seed) override { state_ = {seed, 0}; }
  uint64_t current_seed() const override { return state_[0]; }
  uint64_t seed() override {
    set_current_seed(c10::detail::getNonDeterministicRandom());
    return state_[0];
  }
  void set_offset(uint64_t offset) override { state_[1] = offset; }
  uint64_t get_offset() const override { return state_[1]; }
  void set_state(const c10::TensorImpl& given) override {
    at::detail::check_rng_state(given);
    TORCH_CHECK(given.numel() == sizeof state_, "ocl: the state of a generator has ", given.numel(),
                " bytes, expected ", sizeof state_, ", as get_state() gives them");
    std::memcpy(state_.data(), given.data(), sizeof state_);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    const at::TensorBase made =
        at::detail::empty_cpu({sizeof state_}, at::kByte, std::nullopt, std::nullopt, std::nullopt, std::nullopt);
    std::memcpy(made.mutable_data_ptr(), state_.data(), sizeof state_);
    return made.getIntrusivePtr();
  }

 private:
  c10::GeneratorImpl* clone_impl() const override {
    auto* made = new Generator(device_.index());
    made->state_ = state_;
    return made;
  }
  State state_;
};

Generator& own(const at::Generator& generator) {
  TORCH_CHECK(generator.device().type() == kDevice, "ocl: the generator is of ", generator.device(),
              ", expected one of ocl");
  return *static_cast<Generator*>(generator.unsafeGetGeneratorImpl());
}

}  // namespace

at::Generator new_generator(c10::DeviceIndex index) {
  return at::make_generator<Generator>(index, c10::default_rng_seed_val);
}

RandomSeed take_counters(const std::optional<at::Generator>& given, c10::DeviceIndex index, uint64_t counters) {
  at::Generator generator = given && given->defined() ? *given : default_generator(index);
  Generator& found = own(generator);
  std::lock_guard<std::mutex> guard(generator.mutex());
  return found.take(counters);
}

at::Generator host_generator(const at::Generator& given) {
  if (given.device().type() != kDevice) return given;
  const RandomSeed seed = take_counters(given, given.device().index(), 1);
  // SplitMix64: neighbouring counters give seeds that have nothing in common.
  uint64_t mixed = seed.seed + (seed.first + 1) * 0x9E3779B97F4A7C15u;
  mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9u;
  mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EBu;
  return at::detail::createCPUGenerator(mixed ^ mixed >> 31);
}

}  // namespace ocl
