#include "providers/opencl/program/kernel_source.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "core/status.h"
#include "providers/opencl/addressing/places.h"
#include "providers/opencl/program/sources.h"

namespace pl::opencl {
namespace {

bool is_power_of_two(int64_t value) { return value > 0 && (value & (value - 1)) == 0; }

int log2_of(int64_t value) {
  int shift = 0;
  while ((int64_t(1) << shift) < value) ++shift;
  return shift;
}

// Indices are never negative, so shifts and masks divide.
std::string divided(const std::string& index, int64_t by) {
  if (by == 1) return index;
  if (is_power_of_two(by)) return concat("(", index, " >> ", log2_of(by), ")");
  return concat("(", index, " / ", by, ")");
}

std::string remainder_of(const std::string& index, int64_t by) {
  if (is_power_of_two(by)) return concat("(", index, " & ", by - 1, ")");
  return concat("(", index, " % ", by, ")");
}

std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = char(c - 'A' + 'a');
  return text;
}

void append_define(std::string& out, const std::string& name, const std::string& value) {
  out += "#define " + name + " " + value + "\n";
}

// The macros that go from a place in memory to indices.  `divides`: by what tensor_arg holds for each dimension.
void append_walk(std::string& out, const std::string& name, const Addressing& a, bool divides) {
  std::string indices, inside = "1";
  for (int i = 0; i < a.rank; ++i) {
    const std::string n = std::to_string(i);
    indices += (i ? ", i##" : "i##") + n;
    if (a.block(i) > 1) inside += concat(" && (i##", n, ") < ", name, "_DIM_", n);
  }
  append_define(out, name + "_AT(i)", name + "_OFFSET(" + indices + ")");
  append_define(out, name + "_INSIDE(i)", "(" + inside + ")");

  std::string walk = "uidx_t i##_rest = (uidx_t)(place);";
  std::vector<std::string> index(size_t(a.rank), "0");
  for (size_t k = a.inner.size(); k-- > 0;) {
    const Addressing::Inner& block = a.inner[k];
    walk += concat(" const idx_t i##_in", k, " = (idx_t)", remainder_of("i##_rest", block.size), ";");
    walk += concat(" i##_rest = ", divided("i##_rest", block.size), ";");
    index[size_t(block.dim)] += concat(" + i##_in", k, " * ", block.below);
  }
  for (size_t k = a.order.size(); k-- > 0;) {
    const int dim = a.order[k];
    const std::string count = a.block(dim) == 1 ? concat("(uidx_t)", name, "_DIM_", dim)
                                                : concat("(uidx_t)(", name, "_PADDED_", dim, " / ", a.block(dim), ")");
    const std::string outer = concat("i##_out", dim);
    if (k == 0) {  // the outermost needs no remainder
      walk += " const idx_t " + outer + " = (idx_t)i##_rest;";
    } else if (divides) {
      const std::string above = concat("i##_above", dim), arg = lower(name) + "_arg";
      walk += concat(" const uidx_t ", above, " = PL_DIVIDED(i##_rest, ", arg, ".factor[", dim, "], ", arg, ".shift[",
                     dim, "]); const idx_t ", outer, " = (idx_t)(i##_rest - ", above, " * ", count,
                     "); i##_rest = ", above, ";");
    } else {
      walk += " const idx_t " + outer + " = (idx_t)(i##_rest % " + count + "); i##_rest /= " + count + ";";
    }
    index[size_t(dim)] += concat(" + ", outer, " * ", a.block(dim));
  }
  for (int i = 0; i < a.rank; ++i) walk += concat(" const idx_t i##", i, " = ", index[size_t(i)], ";");
  if (a.rank == 0) walk += " (void)i##_rest;";
  append_define(out, name + "_INDICES(place, i)", walk);
}

void append_tensor(std::string& out, const std::string& name, const Addressing& a, bool specialised, bool wide) {
  const std::string arg = lower(name) + "_arg";
  const std::string suffix = wide ? "L" : "";
  const auto value = [&](int64_t constant, const std::string& field) {
    return specialised ? concat(constant, suffix) : arg + "." + field;
  };
  append_define(out, name + "_DTYPE", name_of(a.dtype));
  append_define(out, name + "_RANK", std::to_string(a.rank));
  append_define(out, name + "_BASE", value(a.offset, "offset"));
  for (int i = 0; i < a.rank; ++i) {
    const std::string n = std::to_string(i);
    append_define(out, name + "_DIM_" + n, value(a.dims[size_t(i)], "dim[" + n + "]"));
    append_define(out, name + "_STRIDE_" + n, value(a.strides[size_t(i)], "stride[" + n + "]"));
    append_define(out, name + "_BLOCK_" + n, std::to_string(a.block(i)));
    const int64_t block = a.block(i);
    append_define(out, name + "_PADDED_" + n,
                  block == 1 ? name + "_DIM_" + n
                             : concat("((", name, "_DIM_", n, " + ", block - 1, ") / ", block, " * ", block, ")"));
  }
  for (const char* what : {"DIM", "STRIDE", "BLOCK", "PADDED"})
    append_define(out, name + "_" + what + "(i)", name + "_" + what + "_##i");
  append_define(out, name + "_UNIT_DIM", std::to_string(a.unit().first));
  append_define(out, name + "_UNIT_RUN", std::to_string(a.unit().second));
  append_define(out, name + "_SPECIALISED", specialised ? "1" : "0");

  std::string parameters, sum = name + "_BASE";
  for (int i = 0; i < a.rank; ++i) {
    const std::string index = "i" + std::to_string(i);
    parameters += (i ? ", " : "") + index;
    sum += concat(" + (idx_t)", divided("(" + index + ")", a.block(i)), " * ", name, "_STRIDE_", i);
  }
  for (const Addressing::Inner& inner : a.inner) {
    std::string index = remainder_of(divided("(i" + std::to_string(inner.dim) + ")", inner.below), inner.size);
    sum += " + " + (inner.stride == 1 ? index : concat(index, " * ", inner.stride));
  }
  append_define(out, name + "_OFFSET(" + parameters + ")", "(" + sum + ")");
  append_walk(out, name, a, !specialised && !wide);
}

}  // namespace

Addressing::Addressing() = default;
Addressing::~Addressing() = default;
Addressing::Addressing(const Addressing& other) = default;
Addressing::Addressing(Addressing&& other) noexcept = default;
Addressing& Addressing::operator=(const Addressing& other) = default;
Addressing& Addressing::operator=(Addressing&& other) noexcept = default;

KernelSource::~KernelSource() = default;
KernelSource::KernelSource(const KernelSource& other) = default;
KernelSource::KernelSource(KernelSource&& other) noexcept = default;
KernelSource& KernelSource::operator=(const KernelSource& other) = default;
KernelSource& KernelSource::operator=(KernelSource&& other) noexcept = default;

KernelSource& KernelSource::tensor(const std::string& name, const TensorDesc& desc) {
  return tensor(name, Addressing(desc));
}
KernelSource& KernelSource::define(const std::string& name, int value) { return define(name, int64_t(value)); }
KernelSource& KernelSource::define(const std::string& name, const char* value) {
  return define(name, std::string(value));
}

Addressing::Addressing(const TensorDesc& desc) : dtype(desc.dtype), rank(desc.rank()), offset(desc.offset) {
  for (int i = 0; i < rank; ++i) {
    dims[size_t(i)] = desc.shape[i];
    strides[size_t(i)] = desc.strides[i];
  }
  for (int i = 0; i < rank; ++i) order.push_back(desc.layout.order(i));
  int64_t stride = 1;
  for (int i = desc.layout.block_count() - 1; i >= 0; --i) {
    const Layout::Block& block = desc.layout.block(i);
    int64_t below = 1;
    for (const Inner& deeper : inner)
      if (deeper.dim == block.dim) below *= deeper.size;
    inner.insert(inner.begin(), Inner{block.dim, block.size, stride, below});
    stride *= block.size;
  }
}

Addressing& Addressing::insert(int position, int count) {
  require(position >= 0 && position <= rank && count >= 0 && rank + count <= kMaxRank, Code::internal, "adding ", count,
          " dimensions before dimension ", position, " of ", rank);
  for (int i = rank - 1; i >= position; --i) {
    dims[size_t(i + count)] = dims[size_t(i)];
    strides[size_t(i + count)] = strides[size_t(i)];
  }
  for (int i = position; i < position + count; ++i) {
    dims[size_t(i)] = 1;
    strides[size_t(i)] = 0;
  }
  for (Inner& block : inner)
    if (block.dim >= position) block.dim += count;
  for (int& dim : order)
    if (dim >= position) dim += count;
  for (int i = 0; i < count; ++i) order.insert(order.begin(), position + i);
  rank += count;
  return *this;
}

int64_t Addressing::block(int dim) const {
  int64_t product = 1;
  for (const Inner& block : inner)
    if (block.dim == dim) product *= block.size;
  return product;
}

std::pair<int, int64_t> Addressing::unit() const {
  if (!inner.empty()) return {inner.back().dim, inner.back().size};
  // Among dimensions of stride 1 the largest: those of size 1 are often given any stride.
  int best = -1;
  for (int i = 0; i < rank; ++i)
    if (strides[size_t(i)] == 1 && (best < 0 || dims[size_t(i)] > dims[size_t(best)])) best = i;
  return {best, 0};
}

int64_t Addressing::places() const {
  int64_t product = 1;
  for (int i = 0; i < rank; ++i) product *= padded(i);
  return product;
}

int64_t Addressing::extent() const {
  int64_t last = offset;
  int64_t volume = 1;
  for (const Inner& block : inner) volume *= block.size;
  for (int i = 0; i < rank; ++i) {
    if (dims[size_t(i)] == 0) return offset;
    last += (padded(i) / block(i) - 1) * strides[size_t(i)];
  }
  return last + volume;
}

KernelSource::KernelSource(std::string file) : file_(std::move(file)) {}

KernelSource KernelSource::generated(std::string name, std::string text) {
  KernelSource source(std::move(name));
  source.generated_ = std::move(text);
  return source;
}

KernelSource& KernelSource::tensor(const std::string& name, Addressing addressing) {
  tensors_.emplace_back(name, std::move(addressing));
  return *this;
}

KernelSource& KernelSource::define(const std::string& name, int64_t value) {
  const bool is_int = value >= INT32_MIN && value <= INT32_MAX;
  return define(name, std::to_string(value) + (is_int ? "" : "L"));
}

std::string float_literal(double value) {
  if (std::isnan(value)) return "NAN";
  if (std::isinf(value)) return value > 0 ? "INFINITY" : "(-INFINITY)";
  char text[64];
  std::snprintf(text, sizeof text, "(%.9g", value);
  std::string literal = text;
  if (literal.find_first_of(".e") == std::string::npos) literal += ".0";
  return literal + "f)";
}

KernelSource& KernelSource::define(const std::string& name, double value) { return define(name, float_literal(value)); }

KernelSource& KernelSource::define(const std::string& name, const std::string& value) {
  defines_.emplace_back(name, value);
  return *this;
}

KernelSource& KernelSource::specialise() {
  specialised_ = true;
  return *this;
}

KernelSource& KernelSource::standard(const std::string& version) {
  standard_ = version;
  return *this;
}

KernelSource& KernelSource::option(const std::string& text) {
  extra_options_ += " " + text;
  return *this;
}

bool KernelSource::wide() const {
  return wide_ || std::any_of(tensors_.begin(), tensors_.end(),
                              [](const auto& entry) { return entry.second.extent() >= kNarrowLimit; });
}

KernelSource& KernelSource::wide_indices(bool wide) {
  wide_ = wide;
  return *this;
}

int KernelSource::most_dimensions() const {
  int most = 1;
  for (const auto& entry : tensors_) most = std::max(most, entry.second.rank);
  return most;
}

std::string KernelSource::text() const {
  std::string out;
  const bool is_wide = wide();
  if (is_wide) append_define(out, "PL_INDEX64", "1");
  if (!tensors_.empty()) append_define(out, "PL_RANK", std::to_string(most_dimensions()));
  for (const auto& entry : tensors_) append_tensor(out, entry.first, entry.second, specialised_, is_wide);
  for (const auto& entry : defines_) append_define(out, entry.first, entry.second);
  return out + (generated_.empty() ? expand_source(file_) : expand_includes(file_, generated_));
}

std::string KernelSource::options() const {  // -w: PoCL prints a line to stderr for each program with warnings.
  return "-w -cl-std=" + standard_ + extra_options_;
}

const Addressing& KernelSource::addressing(const std::string& name) const {
  for (const auto& entry : tensors_)
    if (entry.first == name) return entry.second;
  fail(Code::internal, "kernel ", file_, " has no tensor ", name);
}

std::vector<unsigned char> KernelSource::tensor_argument(const std::string& name) const {
  const Addressing& a = addressing(name);
  const int dimensions = most_dimensions();
  std::vector<int64_t> values{a.offset};
  values.insert(values.end(), a.dims.begin(), a.dims.begin() + dimensions);
  values.insert(values.end(), a.strides.begin(), a.strides.begin() + dimensions);
  const bool is_wide = wide();
  if (!is_wide) {
    std::vector<Divisor> divisors;
    for (int i = 0; i < dimensions; ++i) {
      const int64_t count = i < a.rank ? a.padded(i) / a.block(i) : 1;
      divisors.emplace_back(count > 0 && count <= INT32_MAX ? count : 1);  // by others nothing is divided
    }
    for (const Divisor& each : divisors) values.push_back(each.factor);
    for (const Divisor& each : divisors) values.push_back(each.shift);
  }
  std::vector<unsigned char> bytes(values.size() * (is_wide ? 8 : 4));
  for (size_t i = 0; i < values.size(); ++i) {
    if (is_wide) {
      std::memcpy(&bytes[i * 8], &values[i], 8);
    } else {
      const auto narrow = int32_t(values[i]);
      std::memcpy(&bytes[i * 4], &narrow, 4);
    }
  }
  return bytes;
}

}  // namespace pl::opencl
