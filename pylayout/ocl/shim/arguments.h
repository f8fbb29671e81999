// The arguments of an op: as a key by which its program is found, and as JSON for Python, which makes programs.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/util/SmallVector.h>

#include <string>

namespace ocl {

// What an op's program depends on: kinds, sizes, strides and dtypes of tensors, and all numbers.
class Arguments {
 public:
  explicit Arguments(c10::ArrayRef<c10::IValue> values);

  // Why no program can be made for such arguments; null where one can.
  const char* obstacle = nullptr;
  bool host_tensor = false;                        // the obstacle is a tensor that is not on the device
  c10::SmallVector<const at::Tensor*, 8> tensors;  // of the device, in order; they live as long as `values`
  c10::SmallVector<double, 4> numbers;             // real ones, in order
  c10::SmallVector<int64_t, 64> words;             // the key
  // Adds what else the program depends on: the device, where constants lie, and PyTorch's default dtype, that of real
  // numbers made of integers.
  void add_surroundings(c10::DeviceIndex device);
  uint64_t hash() const;
  // The key becomes that of all calls that differ in their real numbers only.
  void forget_numbers();

 private:
  bool read(const c10::IValue& value);
  bool read(const at::Tensor& tensor);
  bool refuse(const char* reason);
  void add(int64_t word) { words.push_back(word); }
  void add_number(double value);
  c10::SmallVector<size_t, 4> number_words_;  // where they are in the key
};

// The same as JSON: {"t": [slot, dtype, sizes, strides]} is a tensor, {"c": [dtype, value]} one of the CPU; with
// `open_numbers` a real number is {"n": [value, dtype]}, dtype null but of a tensor of the CPU.
std::string json_of(c10::ArrayRef<c10::IValue> values, bool open_numbers);

}  // namespace ocl
