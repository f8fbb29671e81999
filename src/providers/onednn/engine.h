// oneDNN's engine, ownership of its C handles, and descriptions translated both ways.
//
// The C API is used throughout: nothing but libdnnl's C symbols is needed, so that any libdnnl 3.x from 3.2 on can
// take the place of the one found at build time.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "core/desc.h"
#include "oneapi/dnnl/dnnl.h"

namespace pl::onednn {

// Destroys a oneDNN handle; the statuses of destructors tell nothing that could be acted upon.
struct Destroy {
  void operator()(dnnl_engine_t handle) const { dnnl_engine_destroy(handle); }
  void operator()(dnnl_stream_t handle) const { dnnl_stream_destroy(handle); }
  void operator()(dnnl_memory_desc_t handle) const { dnnl_memory_desc_destroy(handle); }
  void operator()(dnnl_memory_t handle) const { dnnl_memory_destroy(handle); }
  void operator()(dnnl_primitive_desc_t handle) const { dnnl_primitive_desc_destroy(handle); }
  void operator()(dnnl_primitive_t handle) const { dnnl_primitive_destroy(handle); }
  void operator()(dnnl_primitive_attr_t handle) const { dnnl_primitive_attr_destroy(handle); }
  void operator()(dnnl_post_ops_t handle) const { dnnl_post_ops_destroy(handle); }
};
template <class Handle>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy>;
using MemoryDesc = Owned<dnnl_memory_desc_t>;
// Shared, because a candidate and all kernels prepared from it refer to the same description.
using SharedDesc = std::shared_ptr<std::remove_pointer_t<dnnl_memory_desc_t>>;
using PrimitiveDesc = std::shared_ptr<std::remove_pointer_t<dnnl_primitive_desc_t>>;

// The process's CPU engine: immutable, used by all threads, never destroyed before exit.
dnnl_engine_t cpu_engine();
Owned<dnnl_stream_t> make_stream();

// Throws Error(device) that names `what` unless the status is success: for calls that do not fail on valid input.
void expect_success(dnnl_status_t status, const char* what);

// "3.2.0": of the library that is loaded, which need not be the one compiled against.
std::string library_version();
// "avx512_core_bf16": the newest one that oneDNN uses here; ONEDNN_MAX_CPU_ISA lowers it.
std::string instruction_set();
bool has_avx512();  // in that instruction set
// Whether it has products of the dtype: of f16 by AVX512-FP16 or AMX-FP16, of bf16 by AVX512-BF16 or AMX-BF16.
bool has_products_of(DType dtype);

// dnnl_data_type_undef for s64, which oneDNN has not.  bool is stored as u8 with the values 0 and 1; ops that
// compute with numbers must not accept it.
dnnl_data_type_t to_dnnl(DType dtype);

// A memory description in numbers, with any rank and role of dimensions that oneDNN gives them, before it becomes
// a TensorDesc: grouped weights have a dimension more there, transposed ones another order.
struct BlockedDesc {
  std::vector<int64_t> sizes, strides;  // strides between outer blocks, in elements, as in TensorDesc
  std::vector<Layout::Block> blocks;    // outermost first

  int64_t block_of(int dim) const;
  // Dimensions `dim` and `dim + 1` as one, index = i * size + j.  False if memory does not permit that view.
  bool merge(int dim);
  // Removes a dimension of size 1 without blocks.
  bool drop(int dim);
  // Dimension i of the result is dimension permutation[i] of this one.
  void permute(const std::vector<int>& permutation);
  // Dense descriptions only; nothing otherwise (gaps, too many blocks, too high a rank).
  std::optional<TensorDesc> tensor(DType dtype) const;
};

// Nothing for formats that have no such description (opaque, packed, with offsets).
std::optional<BlockedDesc> read_desc(const_dnnl_memory_desc_t md);

// The oneDNN description of a tensor; null if it has none: s64, a blocked order that oneDNN has no name for, gaps
// in a blocked tensor.  A scalar becomes a tensor of one dimension.  The offset is not part of it.
MemoryDesc to_md(const TensorDesc& desc);
// Plain descriptions from numbers; strides in elements.
MemoryDesc strided_md(dnnl_data_type_t type, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides);
MemoryDesc plain_md(dnnl_data_type_t type, const std::vector<int64_t>& sizes);
// The layout is left to the implementation.
MemoryDesc any_md(dnnl_data_type_t type, const std::vector<int64_t>& sizes);
MemoryDesc clone(const_dnnl_memory_desc_t md);
SharedDesc share(const_dnnl_memory_desc_t md);  // a copy for all that outlive who asked
// What oneDNN calls the implementation: "brgconv:avx512_core".  Lives as long as the description.
const char* implementation_of(const_dnnl_primitive_desc_t description);

// Brings data into another form, once: what is run often is a kernel (kernel.h).
void reorder_once(const_dnnl_memory_desc_t from, const void* data, const_dnnl_memory_desc_t to, void* result);

// Row-major strides of a shape.
std::vector<int64_t> row_major(const std::vector<int64_t>& sizes);

}  // namespace pl::onednn
