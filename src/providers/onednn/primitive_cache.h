// oneDNN's own cache of primitives: those of a description that was met before are there at once.
//
// Prepared kernels hold their primitives; what the cache keeps beside them is what was let go.  It lets the least
// recently used go, but is bounded by their number alone.  That number is set here after each that is made, so that as
// many fit as were made last within kCacheBytes.
#pragma once

#include <cstddef>
#include <functional>

#include "oneapi/dnnl/dnnl.h"

namespace pl::onednn {

constexpr size_t kCacheBytes = size_t(16) << 20;

// What a primitive of that kind takes, code and descriptions, roughly.
size_t bytes_of(dnnl_primitive_kind_t kind);

// After each primitive that was made.
void note_primitive(const_dnnl_primitive_desc_t description);

// Does something, which notes no primitives, while the cache keeps and gives nothing.
void without_primitive_cache(const std::function<void()>& work);

}  // namespace pl::onednn
