#include "arguments.h"

#include <c10/core/DefaultDtype.h>

#include <cmath>
#include <cstdio>
#include <cstring>

#include "shim.h"

namespace ocl {
namespace {

// A number that PyTorch made a tensor of the CPU: `x * 2`.
bool is_number(const at::Tensor& tensor) { return tensor.device().is_cpu() && tensor.dim() == 0; }

// What a word of the key begins with: a kind, and below it what else fits.
enum Kind : int64_t { none, number_tensor, tensor_of_device, integer, real, boolean, text, list, open };

int64_t word(Kind kind, int64_t rest = 0) { return int64_t(kind) << 56 | rest; }

int64_t bits_of(double value) {
  int64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// Built without streams: where a compiler links a C++ library of its own into the shim, their locales may not agree.
class Json {
 public:
  explicit Json(bool open_numbers) : open_numbers_(open_numbers) {}

  std::string of(c10::ArrayRef<c10::IValue> values) {
    write_list(values);
    return std::move(out_);
  }

 private:
  template <class List>
  void write_list(const List& values) {
    out_ += '[';
    for (size_t i = 0; i < values.size(); ++i) {
      if (i) out_ += ',';
      write(values[i]);
    }
    out_ += ']';
  }
  void write_number(double value, const std::string& dtype) {
    if (open_numbers_) out_ += "{\"n\":[";
    write(value);
    if (open_numbers_) out_ += "," + dtype + "]}";
  }
  void write(int64_t value) { out_ += std::to_string(value); }
  void write(bool value) { out_ += value ? "true" : "false"; }
  void write(double value) {
    if (std::isnan(value)) {
      out_ += "NaN";
    } else if (std::isinf(value)) {
      out_ += value < 0 ? "-Infinity" : "Infinity";
    } else {
      char text[40];
      const bool whole = value == std::floor(value) && std::abs(value) < 1e15;
      std::snprintf(text, sizeof text, whole ? "%.1f" : "%.17g", value);
      out_ += text;
    }
  }
  void write(const at::Tensor& tensor) {
    if (!tensor.defined()) {
      out_ += "null";
    } else if (is_number(tensor)) {
      const bool wrapped = tensor.unsafeGetTensorImpl()->is_wrapped_number();
      const std::string dtype = std::to_string(int(tensor.scalar_type()));
      if (c10::isFloatingType(tensor.scalar_type()) && (wrapped || open_numbers_))
        return write_number(tensor.item<double>(), wrapped ? "null" : dtype);
      if (!wrapped) out_ += "{\"c\":[" + dtype + ",";
      if (tensor.scalar_type() == at::kBool)
        write(tensor.item<bool>());
      else if (c10::isFloatingType(tensor.scalar_type()))
        write(tensor.item<double>());
      else
        write(tensor.item<int64_t>());
      if (!wrapped) out_ += "]}";
    } else {
      out_ += "{\"t\":[" + std::to_string(slot_++) + "," + std::to_string(int(tensor.scalar_type())) + ",";
      write_list(tensor.sizes());
      out_ += ',';
      write_list(tensor.strides());
      out_ += "]}";
    }
  }
  void write(const c10::IValue& value) {
    if (value.isTensor()) {
      write(value.toTensor());
    } else if (value.isNone()) {
      out_ += "null";
    } else if (value.isInt()) {
      write(value.toInt());
    } else if (value.isDouble()) {
      write_number(value.toDouble(), "null");
    } else if (value.isBool()) {
      write(value.toBool());
    } else if (value.isString()) {
      out_ += '"';
      for (const char c : value.toStringRef())
        if (c >= ' ' && c != '"' && c != '\\') out_ += c;  // names of modes
      out_ += '"';
    } else {
      write_list(value.toListRef());
    }
  }
  const bool open_numbers_;
  std::string out_;
  int slot_ = 0;
};

}  // namespace

Arguments::Arguments(c10::ArrayRef<c10::IValue> values) {
  for (const c10::IValue& value : values)
    if (!read(value)) return;
}

bool Arguments::refuse(const char* reason) {
  obstacle = reason;
  return false;
}

bool Arguments::read(const at::Tensor& tensor) {
  if (!tensor.defined()) {
    add(word(none));
    return true;
  }
  const at::ScalarType type = tensor.scalar_type();
  if (is_number(tensor)) {
    add(word(number_tensor, int64_t(type) << 1 | tensor.unsafeGetTensorImpl()->is_wrapped_number()));
    if (c10::isFloatingType(type))
      add_number(tensor.item<double>());
    else if (c10::isIntegralType(type, true))
      add(tensor.item<int64_t>());
    else
      return refuse("a number that is no real one");
    return true;
  }
  if (tensor.device().type() != kDevice) {
    host_tensor = true;
    return refuse("a tensor that is not on the device");
  }
  if (tensor.dim() > PL_MAX_RANK) return refuse("more than 8 dimensions");
  if (!dtype_of(type) || tensor.layout() != c10::kStrided || tensor.is_neg() || tensor.is_conj())
    return refuse("a dtype that the library has not");
  add(word(tensor_of_device, int64_t(type) << 8 | tensor.dim()));
  words.append(tensor.sizes().begin(), tensor.sizes().end());
  words.append(tensor.strides().begin(), tensor.strides().end());
  tensors.push_back(&tensor);
  return true;
}

bool Arguments::read(const c10::IValue& value) {
  if (value.isTensor()) return read(value.toTensor());
  if (value.isNone()) {
    add(word(none));
  } else if (value.isInt()) {
    add(word(integer));
    add(value.toInt());
  } else if (value.isDouble()) {
    add(word(real));
    add_number(value.toDouble());
  } else if (value.isBool()) {
    add(word(boolean, value.toBool()));
  } else if (value.isString()) {
    const std::string& letters = value.toStringRef();
    add(word(text, int64_t(letters.size())));
    for (size_t at = 0; at < letters.size(); at += sizeof(int64_t)) {
      int64_t part = 0;
      std::memcpy(&part, letters.data() + at, std::min(sizeof part, letters.size() - at));
      add(part);
    }
  } else if (value.isList()) {
    const c10::ArrayRef<c10::IValue> elements = value.toListRef();
    add(word(list, int64_t(elements.size())));
    for (const c10::IValue& each : elements)
      if (!read(each)) return false;
  } else {
    return refuse("an argument of another kind");
  }
  return true;
}

void Arguments::add_surroundings(c10::DeviceIndex device) {
  add(device | int64_t(c10::get_default_dtype_as_scalartype()) << 8);
}

void Arguments::add_number(double value) {
  number_words_.push_back(words.size());
  numbers.push_back(value);
  add(bits_of(value));
}

void Arguments::forget_numbers() {
  for (const size_t place : number_words_) words[place] = 0;
  add(word(open));
}

uint64_t Arguments::hash() const {
  uint64_t made = 0x9E3779B97F4A7C15u;
  for (const int64_t each : words) {
    made = (made ^ uint64_t(each)) * 0xD6E8FEB86659FD93u;
    made ^= made >> 32;
  }
  return made;
}

std::string json_of(c10::ArrayRef<c10::IValue> values, bool open_numbers) { return Json(open_numbers).of(values); }

}  // namespace ocl
