// Matrix products: the inner product and matmul primitives for `linear`, matmul for `matmul`.
#include <algorithm>
#include <limits>

#include "providers/onednn/candidates.h"

namespace pl::onednn {
namespace {

TensorDesc plain(const TensorDesc& tensor) { return TensorDesc::dense(tensor.dtype, tensor.shape); }

// More rows than oneDNN counts: what it divides by them overflows.
bool has_too_many_rows(const Op& op, int64_t rows, CandidateList& out) {
  if (rows <= std::numeric_limits<int32_t>::max()) return false;
  refuse(op, out, concat(rows, " rows, expected at most 2^31 - 1"));
  return true;
}

// x (rows, in) times weight (out, in): all leading dimensions of x are rows.
void list_linear(const Op& op, CandidateList& out) {
  if (!accept_dtypes(op, out, {DType::f32, DType::bf16, DType::f16})) return;
  const dnnl_data_type_t type = to_dnnl(op.in(0).dtype);
  const int64_t in = op.in(1).shape[1], columns = op.in(1).shape[0], rows = op.out().elements() / columns;
  if (has_too_many_rows(op, rows, out)) return;
  const MemoryDesc x = plain_md(type, {rows, in}), y = plain_md(type, {rows, columns});
  PrimitiveAttributes post_ops;
  std::vector<Binding> bindings{input(DNNL_ARG_SRC, 0, plain(op.in(0))), output(DNNL_ARG_DST, plain(op.out()))};
  if (op.has(2)) bindings.push_back(input(DNNL_ARG_BIAS, 2, plain(op.in(2))));
  const auto operands = post_ops.post_ops_of(op, {y.get(), plain(op.out())});
  if (!operands) return refuse(op, out, missing_post_op(op));
  bindings.insert(bindings.end(), operands->begin(), operands->end());
  Lister lister(op, out);
  const dnnl_primitive_attr_t attributes = post_ops.attributes();

  const Operand operand{y.get(), plain(op.out())};
  const auto ask_inner_product = [&](const MemoryDesc& weight, Binding binding) {
    const MemoryDesc bias = op.has(2) ? plain_md(type, {columns}) : nullptr;
    const auto create = [&](const_dnnl_memory_desc_t weights, dnnl_primitive_attr_t applied,
                            dnnl_primitive_desc_t* pd) {
      return dnnl_inner_product_forward_primitive_desc_create(pd, cpu_engine(), dnnl_forward_inference, x.get(),
                                                              weights, bias.get(), y.get(), applied);
    };
    const Accumulating sum(op, &lister, operand, create);
    auto all = bindings;
    all.push_back(std::move(binding));
    return lister.walk([&](dnnl_primitive_desc_t* pd) { return create(weight.get(), attributes, pd); }, all, "", true,
                       weight.get());
  };
  ask_inner_product(any_md(type, {columns, in}), input(DNNL_ARG_WEIGHTS, 1));
  // The form that oneDNN likes best depends on the number of rows; weights that are packed for another number serve
  // too.
  for (const char* form : {"AB16b64a", "AB16b32a"}) {
    if (op.in(0).dtype != DType::f32 || columns % 64 || in % 16) break;
    if (const Described weight = describe(op.in(1), Layout::parse(form)))
      ask_inner_product(weight.md, input(DNNL_ARG_WEIGHTS, 1, weight.desc));
  }
  const MemoryDesc bias = op.has(2) ? plain_md(type, {1, columns}) : nullptr;
  const auto ask_matmul = [&](const MemoryDesc& weight, Binding binding) {
    const auto create = [&](const_dnnl_memory_desc_t weights, dnnl_primitive_attr_t applied,
                            dnnl_primitive_desc_t* pd) {
      return dnnl_matmul_primitive_desc_create(pd, cpu_engine(), x.get(), weights, bias.get(), y.get(), applied);
    };
    const Accumulating sum(op, &lister, operand, create);
    auto all = bindings;
    all.push_back(std::move(binding));
    return lister.walk([&](dnnl_primitive_desc_t* pd) { return create(weight.get(), attributes, pd); }, all,
                       "matmul:", true, weight.get());
  };
  // There the weight is (in, out).
  Binding free_weight = input(DNNL_ARG_WEIGHTS, 1);
  free_weight.view = [](BlockedDesc& desc) {
    desc.permute({1, 0});
    return true;
  };
  ask_matmul(any_md(type, {in, columns}), free_weight);
  ask_matmul(strided_md(type, {in, columns}, {1, in}), input(DNNL_ARG_WEIGHTS, 1, plain(op.in(1))));
  lister.finish();
}

// A matrix or a batch of them, as sizes and strides.
struct Matrices {
  std::vector<int64_t> sizes, strides;

  Matrices(const Dims& shape, bool transpose) : sizes(shape.vector()) {
    strides = row_major(sizes);
    if (!transpose || sizes.size() < 2) return;
    const size_t last = sizes.size() - 1;
    std::swap(sizes[last], sizes[last - 1]);
    std::swap(strides[last], strides[last - 1]);
  }
  void insert(size_t position, int64_t stride) {
    sizes.insert(sizes.begin() + ptrdiff_t(position), 1);
    strides.insert(strides.begin() + ptrdiff_t(position), stride);
  }
  void pad_rank(size_t rank) {
    while (sizes.size() < rank) insert(0, sizes[0] * strides[0]);
  }
};

void list_matmul(const Op& op, CandidateList& out) {
  if (!accept_dtypes(op, out, {DType::f32, DType::bf16, DType::f16})) return;
  const dnnl_data_type_t type = to_dnnl(op.in(0).dtype);
  const Dims &a_shape = op.in(0).shape, &b_shape = op.in(1).shape;
  Matrices a(a_shape, op.attributes[attr::transpose_a]), b(b_shape, op.attributes[attr::transpose_b]);
  // A vector is a row on the left, a column on the right.
  if (a_shape.size() == 1) a.insert(0, a.sizes[0]);
  if (b_shape.size() == 1) b.insert(1, 1);
  const int64_t columns = b.sizes.back();
  if (b.sizes.size() == 2 && a.sizes.size() > 2 && !op.attributes[attr::transpose_a]) {
    // One matrix for the whole batch: all rows at once.
    const int64_t in = a.sizes.back();
    a.sizes = {op.in(0).elements() / in, in};
    a.strides = row_major(a.sizes);
  }
  if (has_too_many_rows(op, op.out().elements() / std::max<int64_t>(1, columns), out)) return;
  const size_t rank = std::max(a.sizes.size(), b.sizes.size());
  a.pad_rank(rank);
  b.pad_rank(rank);
  std::vector<int64_t> y_sizes(rank);
  for (size_t i = 0; i + 2 < rank; ++i) y_sizes[i] = std::max(a.sizes[i], b.sizes[i]);
  y_sizes[rank - 2] = a.sizes[rank - 2];
  y_sizes[rank - 1] = columns;

  const MemoryDesc a_md = strided_md(type, a.sizes, a.strides), b_md = strided_md(type, b.sizes, b.strides),
                   y_md = plain_md(type, y_sizes);
  std::vector<Binding> bindings{input(DNNL_ARG_SRC, 0, plain(op.in(0))), input(DNNL_ARG_WEIGHTS, 1, plain(op.in(1))),
                                output(DNNL_ARG_DST, plain(op.out()))};
  MemoryDesc bias;
  if (op.has(2)) {
    std::vector<int64_t> sizes(rank, 1);
    sizes.back() = columns;
    bias = plain_md(type, sizes);
    bindings.push_back(input(DNNL_ARG_BIAS, 2, plain(op.in(2))));
  }
  PrimitiveAttributes post_ops;
  const auto operands = post_ops.post_ops_of(op, {y_md.get(), plain(op.out())});
  if (!operands) return refuse(op, out, missing_post_op(op));
  bindings.insert(bindings.end(), operands->begin(), operands->end());
  const dnnl_primitive_attr_t attributes = post_ops.attributes();
  Lister lister(op, out);
  const auto create = [&](const_dnnl_memory_desc_t weights, dnnl_primitive_attr_t applied, dnnl_primitive_desc_t* pd) {
    return dnnl_matmul_primitive_desc_create(pd, cpu_engine(), a_md.get(), weights, bias.get(), y_md.get(), applied);
  };
  const Accumulating sum(op, &lister, {y_md.get(), plain(op.out())}, create);
  lister.walk([&](dnnl_primitive_desc_t* pd) { return create(b_md.get(), attributes, pd); }, bindings, "", true,
              b_md.get());
  lister.finish();
}

PL_ONEDNN_KIND("linear", list_linear);
PL_ONEDNN_KIND("matmul", list_matmul);

}  // namespace
}  // namespace pl::onednn
