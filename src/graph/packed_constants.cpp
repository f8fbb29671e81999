#include "graph/packed_constants.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "core/files.h"
#include "dispatch/runner.h"
#include "graph/constant_blocks.h"
#include "graph/joined_constants.h"
#include "graph/records.h"

namespace pl {
namespace {

// Adds the time of its life to a sum, if there is one.
class Stopwatch {
 public:
  explicit Stopwatch(double* sum) : sum_(sum) {}
  ~Stopwatch() {
    if (sum_) *sum_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
  }

 private:
  double* sum_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

// 128 bits, so that equal ones may be taken for equal contents.
std::string hash_of(const char* data, size_t bytes) {
  uint64_t a = bytes, b = ~uint64_t(bytes);
  const auto mix = [&](uint64_t word) {
    a = (a ^ word) * 0x9e3779b97f4a7c15u;
    a ^= a >> 32;
    b = ((b << 23 | b >> 41) + word) * 0xc2b2ae3d27d4eb4fu;
  };
  size_t i = 0;
  for (; i + 8 <= bytes; i += 8) {
    uint64_t word;
    std::memcpy(&word, data + i, 8);
    mix(word);
  }
  uint64_t last = 0;
  if (i < bytes) std::memcpy(&last, data + i, bytes - i);
  mix(last);
  return hex(a) + hex(b);
}

std::string tensor_form(const TensorDesc& wanted) { return wanted.str() + wanted.layout.generic_str(); }

// How a tensor lies in its memory.
std::string lying(const TensorDesc& desc) {
  return tensor_form(desc) + joined(desc.strides.vector()) + "+" + std::to_string(desc.offset);
}

}  // namespace

void PackedConstants::share(const Graph& source) {
  std::lock_guard<std::mutex> guard(lock_);
  shared_ = true;
  for (const Value& value : source.values())
    if (value.constant) sources_.emplace(ConstantBlocks::place_of(*value.constant->buffer()), value.constant->buffer());
}

bool PackedConstants::are_shared() const {
  std::lock_guard<std::mutex> guard(lock_);
  return shared_;
}

bool PackedConstants::is_source(const Tensor& tensor) const {
  return sources_.count(ConstantBlocks::place_of(*tensor.buffer())) != 0;
}

TensorRef PackedConstants::in_a_row(const std::vector<TensorRef>& parts) {
  std::lock_guard<std::mutex> guard(lock_);
  std::string key;
  for (const TensorRef& part : parts) {
    if (!is_source(*part)) return nullptr;
    key += concat(ConstantBlocks::place_of(*part->buffer()), '\t', lying(part->desc()), '\n');
  }
  TensorRef& known = rows_[key];
  if (!known) {
    known = constants_in_a_row(context_, parts);
    sources_.emplace(ConstantBlocks::place_of(*known->buffer()), known->buffer());
  }
  return known;
}

// Never by the value's number: that differs between the graphs of a plan's variants.  With the lock.
std::string PackedConstants::key_of(const TensorRef& constant, const std::string& form, const Device& device) const {
  const std::string rest = "\t" + form + "\t" + device.name();
  if (!shared_) return concat(static_cast<const void*>(constant.get())) + rest;
  const TensorDesc& desc = constant->desc();
  const BufferRef& buffer = constant->buffer();
  const std::string description = lying(desc);
  const void* place = ConstantBlocks::place_of(*buffer);
  if (sources_.count(place)) return concat(place, '\t') + description + rest;
  const size_t bytes = std::min(desc.size_bytes(), buffer->bytes());
  const uint64_t version = buffer->version();
  Contents& known = contents_[buffer.get()];
  if (known.buffer.lock() != buffer || known.version != version || known.bytes != bytes) {
    known = {buffer, version, bytes, {}};
    std::vector<char> copy(buffer->device().traits().host_addressable ? 0 : bytes);
    if (!copy.empty()) buffer->device().read(*buffer, 0, copy.data(), bytes);
    known.text = hash_of(copy.empty() ? static_cast<const char*>(buffer->host()) : copy.data(), bytes);
  }
  return known.text + '\t' + description + rest;
}

double PackedConstants::seconds() const {
  std::lock_guard<std::mutex> guard(lock_);
  return seconds_;
}

TensorRef PackedConstants::tensor(const Graph& graph, ValueId value, const TensorDesc& wanted, Device& device,
                                  const std::string& why) {
  std::lock_guard<std::mutex> guard(lock_);
  const TensorRef& constant = graph.value(value).constant;
  TensorRef& known = tensors_[key_of(constant, tensor_form(wanted), device)];
  const Stopwatch watch(known ? nullptr : &seconds_);
  if (!known)
    known = context_.runner().convert(in_memory(context_, constant), device, wanted, "weights", why, false, true);
  return known;
}

BufferRef PackedConstants::packed(const Graph& graph, ValueId value, const Candidate& candidate, const Packing& packing,
                                  Device& device, const std::string& why) {
  std::lock_guard<std::mutex> guard(lock_);
  const TensorRef& constant = graph.value(value).constant;
  BufferRef& known = packed_[key_of(constant, candidate.provider + "/" + packing.form, device)];
  const Stopwatch watch(known ? nullptr : &seconds_);
  if (!known)
    known = context_.runner().packed(in_memory(context_, constant), device, candidate, packing, why, false, true);
  return known;
}

bool PackedConstants::has_tensor(const Graph& graph, ValueId value, const TensorDesc& wanted, Device& device) const {
  const TensorRef& constant = graph.value(value).constant;
  if (&constant->device() == &device && same_memory(constant->desc(), wanted) && is_aligned(*constant)) return true;
  std::lock_guard<std::mutex> guard(lock_);
  return tensors_.count(key_of(constant, tensor_form(wanted), device));
}

bool PackedConstants::has_packed(const Graph& graph, ValueId value, const Candidate& candidate, const Packing& packing,
                                 Device& device) const {
  std::lock_guard<std::mutex> guard(lock_);
  return packed_.count(key_of(graph.value(value).constant, candidate.provider + "/" + packing.form, device));
}

// A program holds buffers, and a tensor for some of its constants.
void PackedConstants::release_unused() {
  std::lock_guard<std::mutex> guard(lock_);
  for (auto it = tensors_.begin(); it != tensors_.end();) {
    const bool unused = !it->second || (it->second.use_count() == 1 &&
                                        (it->second->buffer().use_count() == 1 || is_source(*it->second)));
    it = unused ? tensors_.erase(it) : std::next(it);
  }
  for (auto it = packed_.begin(); it != packed_.end();)
    it = !it->second || it->second.use_count() == 1 ? packed_.erase(it) : std::next(it);
  for (auto it = contents_.begin(); it != contents_.end();)
    it = it->second.buffer.expired() ? contents_.erase(it) : std::next(it);
}

}  // namespace pl
