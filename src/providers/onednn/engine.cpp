#include "providers/onednn/engine.h"

#include <algorithm>
#include <map>

#include "core/status.h"
#include "oneapi/dnnl/dnnl_debug.h"

namespace pl::onednn {
namespace {

// oneDNN's blocked formats by their generic names ("aBcd16b"), which are ours too.
const std::map<std::string, dnnl_format_tag_t, std::less<>>& format_tags() {
  static const auto* table = [] {
    auto* tags = new std::map<std::string, dnnl_format_tag_t, std::less<>>();
    for (int tag = dnnl_format_tag_any + 1; tag < dnnl_format_tag_last; ++tag)
      tags->emplace(dnnl_fmt_tag2str(dnnl_format_tag_t(tag)), dnnl_format_tag_t(tag));
    return tags;
  }();
  return *table;
}

template <class T>
T query(const_dnnl_memory_desc_t md, dnnl_query_t what) {
  T value{};
  expect_success(dnnl_memory_desc_query(md, what, &value), "dnnl_memory_desc_query");
  return value;
}

}  // namespace

dnnl_engine_t cpu_engine() {
  static dnnl_engine_t engine = [] {
    dnnl_engine_t made = nullptr;
    expect_success(dnnl_engine_create(&made, dnnl_cpu, 0), "dnnl_engine_create");
    return made;
  }();
  return engine;
}

Owned<dnnl_stream_t> make_stream() {
  dnnl_stream_t stream = nullptr;
  expect_success(dnnl_stream_create(&stream, cpu_engine(), dnnl_stream_default_flags), "dnnl_stream_create");
  return Owned<dnnl_stream_t>(stream);
}

void expect_success(dnnl_status_t status, const char* what) {
  require(status == dnnl_success, status == dnnl_out_of_memory ? Code::out_of_memory : Code::device, "onednn: ", what,
          " failed: ", dnnl_status2str(status));
}

std::string library_version() {
  const dnnl_version_t* version = dnnl_version();
  return concat(version->major, '.', version->minor, '.', version->patch);
}

std::string instruction_set() {
  const std::string text = dnnl_cpu_isa2str(dnnl_get_effective_cpu_isa()), head = "cpu_isa_";
  return text.compare(0, head.size(), head) == 0 ? text.substr(head.size()) : text;
}

bool has_avx512() {
  static const bool has = instruction_set().rfind("avx512", 0) == 0;
  return has;
}

// An instruction set is a set of bits that holds those of the sets it contains.
bool has_products_of(DType dtype) {
  if (dtype != DType::f16 && dtype != DType::bf16) return dtype == DType::f32;
  const int needed = dtype == DType::f16 ? dnnl_cpu_isa_avx512_core_fp16 : dnnl_cpu_isa_avx512_core_bf16;
  return (int(dnnl_get_effective_cpu_isa()) & needed) == needed;
}

dnnl_data_type_t to_dnnl(DType dtype) {
  switch (dtype) {
    case DType::f32: return dnnl_f32;
    case DType::f16: return dnnl_f16;
    case DType::bf16: return dnnl_bf16;
    case DType::s8: return dnnl_s8;
    case DType::u8: return dnnl_u8;
    case DType::s32: return dnnl_s32;
    case DType::boolean: return dnnl_u8;
    case DType::s64: break;
  }
  return dnnl_data_type_undef;
}

int64_t BlockedDesc::block_of(int dim) const {
  int64_t product = 1;
  for (const auto& block : blocks)
    if (block.dim == dim) product *= block.size;
  return product;
}

bool BlockedDesc::merge(int dim) {
  const size_t a = size_t(dim), b = a + 1;
  const int64_t inner_block = block_of(dim + 1);
  int64_t stride;
  if (sizes[a] == 1 && block_of(dim) == 1) {
    stride = strides[b];
  } else if (sizes[b] == 1 && inner_block == 1) {
    stride = strides[a];
  } else if (block_of(dim) == 1 && sizes[b] % inner_block == 0 && strides[a] == strides[b] * (sizes[b] / inner_block)) {
    stride = strides[b];
  } else {
    return false;
  }
  sizes[a] *= sizes[b];
  strides[a] = stride;
  sizes.erase(sizes.begin() + ptrdiff_t(b));
  strides.erase(strides.begin() + ptrdiff_t(b));
  for (auto& block : blocks)
    if (block.dim > dim) --block.dim;
  return true;
}

bool BlockedDesc::drop(int dim) {
  if (sizes[size_t(dim)] != 1 || block_of(dim) != 1) return false;
  sizes.erase(sizes.begin() + dim);
  strides.erase(strides.begin() + dim);
  for (auto& block : blocks)
    if (block.dim > dim) --block.dim;
  return true;
}

void BlockedDesc::permute(const std::vector<int>& permutation) {
  const BlockedDesc old = *this;
  for (size_t i = 0; i < permutation.size(); ++i) {
    const size_t from = size_t(permutation[i]);
    sizes[i] = old.sizes[from];
    strides[i] = old.strides[from];
    for (size_t k = 0; k < blocks.size(); ++k)
      if (size_t(old.blocks[k].dim) == from) blocks[k].dim = int8_t(i);
  }
}

std::optional<TensorDesc> BlockedDesc::tensor(DType dtype) const {
  const int rank = int(sizes.size());
  if (rank > kMaxRank || blocks.size() > size_t(kMaxBlocks)) return std::nullopt;
  int8_t order[kMaxRank];
  for (int i = 0; i < rank; ++i) order[i] = int8_t(i);
  // Dimensions that fit in one block have no stride of their own; they keep their place before equal strides.
  std::stable_sort(order, order + rank, [&](int8_t a, int8_t b) { return strides[size_t(a)] > strides[size_t(b)]; });
  const Layout layout = Layout::make(order, rank, blocks.data(), int(blocks.size()));
  const TensorDesc desc = TensorDesc::dense(dtype, Dims(sizes), layout);
  for (int i = 0; i < rank; ++i)
    if (sizes[size_t(i)] > layout.block_of(i) && desc.strides[i] != strides[size_t(i)]) return std::nullopt;
  return desc;
}

std::optional<BlockedDesc> read_desc(const_dnnl_memory_desc_t md) {
  if (query<dnnl_format_kind_t>(md, dnnl_query_format_kind) != dnnl_blocked) return std::nullopt;
  if (query<int64_t>(md, dnnl_query_submemory_offset_s64) != 0) return std::nullopt;
  const int rank = query<int>(md, dnnl_query_ndims_s32);
  const auto* sizes = query<dnnl_dims_t*>(md, dnnl_query_dims);
  const auto* strides = query<dnnl_dims_t*>(md, dnnl_query_strides);
  const auto* offsets = query<dnnl_dims_t*>(md, dnnl_query_padded_offsets);
  BlockedDesc desc;
  for (int i = 0; i < rank; ++i) {
    if ((*offsets)[i] != 0) return std::nullopt;
    desc.sizes.push_back((*sizes)[i]);
    desc.strides.push_back((*strides)[i]);
  }
  const int count = query<int>(md, dnnl_query_inner_nblks_s32);
  const auto* block_sizes = query<dnnl_dims_t*>(md, dnnl_query_inner_blks);
  const auto* block_dims = query<dnnl_dims_t*>(md, dnnl_query_inner_idxs);
  for (int i = 0; i < count; ++i) desc.blocks.push_back({int8_t((*block_dims)[i]), int16_t((*block_sizes)[i])});
  return desc;
}

MemoryDesc strided_md(dnnl_data_type_t type, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
  dnnl_memory_desc_t md = nullptr;
  if (dnnl_memory_desc_create_with_strides(&md, int(sizes.size()), sizes.data(), type, strides.data()) != dnnl_success)
    return nullptr;
  return MemoryDesc(md);
}

void reorder_once(const_dnnl_memory_desc_t from, const void* data, const_dnnl_memory_desc_t to, void* result) {
  dnnl_primitive_desc_t made = nullptr;
  expect_success(dnnl_reorder_primitive_desc_create(&made, from, cpu_engine(), to, cpu_engine(), nullptr),
                 "dnnl_reorder_primitive_desc_create");
  const Owned<dnnl_primitive_desc_t> description(made);
  dnnl_primitive_t primitive = nullptr;
  expect_success(dnnl_primitive_create(&primitive, made), "dnnl_primitive_create");
  const Owned<dnnl_primitive_t> owned(primitive);
  dnnl_memory_t memories[2] = {};
  expect_success(dnnl_memory_create(&memories[0], from, cpu_engine(), const_cast<void*>(data)), "dnnl_memory_create");
  const Owned<dnnl_memory_t> first(memories[0]);
  expect_success(dnnl_memory_create(&memories[1], to, cpu_engine(), result), "dnnl_memory_create");
  const Owned<dnnl_memory_t> second(memories[1]);
  const Owned<dnnl_stream_t> stream = make_stream();
  const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, memories[0]}, {DNNL_ARG_TO, memories[1]}};
  expect_success(dnnl_primitive_execute(primitive, stream.get(), 2, arguments), "dnnl_primitive_execute");
}

std::vector<int64_t> row_major(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0; stride *= std::max<int64_t>(sizes[i], 1)) strides[i] = stride;
  return strides;
}

MemoryDesc plain_md(dnnl_data_type_t type, const std::vector<int64_t>& sizes) {
  return strided_md(type, sizes, row_major(sizes));
}

MemoryDesc any_md(dnnl_data_type_t type, const std::vector<int64_t>& sizes) {
  dnnl_memory_desc_t md = nullptr;
  if (dnnl_memory_desc_create_with_tag(&md, int(sizes.size()), sizes.data(), type, dnnl_format_tag_any) != dnnl_success)
    return nullptr;
  return MemoryDesc(md);
}

MemoryDesc clone(const_dnnl_memory_desc_t md) {
  dnnl_memory_desc_t copy = nullptr;
  expect_success(dnnl_memory_desc_clone(&copy, md), "dnnl_memory_desc_clone");
  return MemoryDesc(copy);
}

SharedDesc share(const_dnnl_memory_desc_t md) { return {clone(md).release(), Destroy()}; }

const char* implementation_of(const_dnnl_primitive_desc_t description) {
  const char* name = "";
  dnnl_primitive_desc_query(description, dnnl_query_impl_info_str, 0, &name);
  return name;
}

MemoryDesc to_md(const TensorDesc& desc) {
  const dnnl_data_type_t type = to_dnnl(desc.dtype);
  if (type == dnnl_data_type_undef) return nullptr;
  if (desc.rank() == 0) return plain_md(type, {1});
  if (!desc.layout.is_blocked()) return strided_md(type, desc.shape.vector(), desc.strides.vector());
  TensorDesc dense = desc.with_dtype(desc.dtype);
  dense.offset = desc.offset;
  if (!same_memory(desc, dense)) return nullptr;
  const auto& tags = format_tags();
  const auto tag = tags.find(desc.layout.generic_str());
  if (tag == tags.end()) return nullptr;
  dnnl_memory_desc_t md = nullptr;
  if (dnnl_memory_desc_create_with_tag(&md, desc.rank(), desc.shape.data(), type, tag->second) != dnnl_success)
    return nullptr;
  return MemoryDesc(md);
}

}  // namespace pl::onednn
