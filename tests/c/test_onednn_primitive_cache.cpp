// oneDNN's cache of primitives is bounded by bytes, by way of their number.
#include <stdexcept>

#include "check.h"
#include "providers/onednn/engine.h"
#include "providers/onednn/primitive_cache.h"

using namespace pl::onednn;

namespace {

int capacity() {
  int found = -1;
  expect_success(dnnl_get_primitive_cache_capacity(&found), "dnnl_get_primitive_cache_capacity");
  return found;
}

MemoryDesc square(int64_t side) {
  const dnnl_dims_t sizes = {side, side}, strides = {side, 1};
  dnnl_memory_desc_t made = nullptr;
  expect_success(dnnl_memory_desc_create_with_strides(&made, 2, sizes, dnnl_f32, strides), "dnnl_memory_desc_create");
  return MemoryDesc(made);
}

struct Descriptions {
  MemoryDesc tensor = square(8);
  Owned<dnnl_primitive_desc_t> product, function;

  Descriptions() {
    dnnl_primitive_desc_t made = nullptr;
    expect_success(dnnl_matmul_primitive_desc_create(&made, cpu_engine(), tensor.get(), tensor.get(), nullptr,
                                                     tensor.get(), nullptr),
                   "dnnl_matmul_primitive_desc_create");
    product.reset(made);
    expect_success(
        dnnl_eltwise_forward_primitive_desc_create(&made, cpu_engine(), dnnl_forward_inference, dnnl_eltwise_relu,
                                                   tensor.get(), tensor.get(), 0, 0, nullptr),
        "dnnl_eltwise_forward_primitive_desc_create");
    function.reset(made);
  }
};

TEST("it_holds_as_many_as_were_made_last_within_its_bytes") {
  const Descriptions of;
  const int products = int(kCacheBytes / bytes_of(dnnl_matmul)), functions = int(kCacheBytes / bytes_of(dnnl_eltwise));
  REQUIRE(products < functions);
  for (int i = 0; i < products; ++i) note_primitive(of.product.get());
  CHECK(capacity() == products);
  note_primitive(of.product.get());
  CHECK(capacity() == products);
  for (int i = 0; i < functions; ++i) {
    note_primitive(of.function.get());
    REQUIRE(capacity() > 0);
    REQUIRE(capacity() <= functions);
  }
  CHECK(capacity() == functions);
  note_primitive(of.product.get());
  CHECK(capacity() < functions);
  CHECK(capacity() >= functions - int(bytes_of(dnnl_matmul) / bytes_of(dnnl_eltwise)) - 1);
}

TEST("it_is_aside_for_as_long_as_something_wants_that") {
  const Descriptions of;
  note_primitive(of.product.get());
  const int before = capacity();
  CHECK(before > 0);
  without_primitive_cache([] { CHECK(capacity() == 0); });
  CHECK(capacity() == before);
  bool thrown = false;
  try {
    without_primitive_cache([] { throw std::runtime_error("as a primitive that cannot be made"); });
  } catch (const std::runtime_error&) {
    thrown = true;
  }
  CHECK(thrown);
  CHECK(capacity() == before);
}

}  // namespace
