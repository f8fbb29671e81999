#include "providers/onednn/primitive_cache.h"

#include <deque>
#include <mutex>

#include "providers/onednn/engine.h"

namespace pl::onednn {
namespace {

// The growth of a process for each new shape, without descriptions of candidates (oneDNN 3.2, two cores).
constexpr size_t kProduct = size_t(60) << 10, kOther = size_t(16) << 10;

struct Bound {
  std::mutex lock;
  std::deque<size_t> latest;  // bytes of the latest primitives, which take kCacheBytes at most
  size_t bytes = 0;
  int capacity = -1;  // -1: not set yet
};

Bound& bound() {
  static auto* const one = new Bound;  // primitives may be made while the process ends
  return *one;
}

void set_capacity(int capacity) {
  expect_success(dnnl_set_primitive_cache_capacity(capacity), "dnnl_set_primitive_cache_capacity");
}

}  // namespace

size_t bytes_of(dnnl_primitive_kind_t kind) {
  switch (kind) {
    case dnnl_convolution:
    case dnnl_deconvolution:
    case dnnl_inner_product:
    case dnnl_matmul:
    case dnnl_rnn: return kProduct;
    default: return kOther;
  }
}

void note_primitive(const_dnnl_primitive_desc_t description) {
  dnnl_primitive_kind_t kind = dnnl_undefined_primitive;
  dnnl_primitive_desc_query(description, dnnl_query_primitive_kind, 0, &kind);
  const size_t bytes = bytes_of(kind);
  Bound& all = bound();
  std::lock_guard<std::mutex> guard(all.lock);
  all.latest.push_back(bytes);
  all.bytes += bytes;
  while (all.bytes > kCacheBytes) {
    all.bytes -= all.latest.front();
    all.latest.pop_front();
  }
  // While less was made, as many as may still come of the smallest.
  const int capacity = int(all.latest.size() + (kCacheBytes - all.bytes) / kOther);
  if (capacity == all.capacity) return;
  set_capacity(capacity);
  all.capacity = capacity;
}

void without_primitive_cache(const std::function<void()>& work) {
  Bound& all = bound();
  std::lock_guard<std::mutex> guard(all.lock);
  int capacity = 0;
  expect_success(dnnl_get_primitive_cache_capacity(&capacity), "dnnl_get_primitive_cache_capacity");
  set_capacity(0);
  try {
    work();
  } catch (...) {
    dnnl_set_primitive_cache_capacity(capacity);
    throw;
  }
  set_capacity(capacity);
}

}  // namespace pl::onednn
