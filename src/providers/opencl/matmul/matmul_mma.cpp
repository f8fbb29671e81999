// matmul and linear on matrix units: rows are positions, columns output channels (kernels/conv/conv_fwd_mma.cl).
#include <algorithm>
#include <optional>

#include "providers/opencl/conv/conv_common.h"
#include "providers/opencl/matmul/matmul_common.h"

namespace pl::opencl {
namespace {

// A matrix as an activation or as weights: rows (n or oc), columns (c), and positions of size 1.
Addressing as_positions(const TensorDesc& desc, bool transposed = false) {
  Addressing a(desc);
  if (transposed) swap_dims(a, 0, 1);
  return a.insert(2, 3);
}

// A dense tensor's layout with its last two dimensions in order, or the last one but one innermost; `block`: the
// innermost one in blocks of so many, which pads it.
Layout matrices_layout(int rank, bool swapped, int64_t block = 1) {
  std::string text;
  for (int i = 0; i < rank; ++i) text += char('a' + i);
  if (swapped) std::swap(text[size_t(rank) - 2], text[size_t(rank) - 1]);
  if (block > 1) {
    const char terms = text.back();
    text.back() = char(terms - 'a' + 'A');
    text += concat(block, terms);
  }
  return Layout::parse(text);
}

// Matrices whose terms, the last dimension or the last one but one, lie side by side and fill pieces of `piece`
// elements, with zeros behind the last of them: as the candidate wants them, and as the kernel sees them, where zeros
// count as terms.
struct Factors {
  TensorDesc wanted, seen;
  Factors(const TensorDesc& desc, bool swapped, int64_t piece) {
    const int rank = desc.rank();
    Dims shape = desc.shape;
    int64_t& terms = shape[rank - (swapped ? 2 : 1)];
    const bool whole = terms % piece == 0;
    terms = (terms + piece - 1) / piece * piece;
    wanted = desc.with_layout(matrices_layout(rank, swapped, whole ? 1 : piece));
    seen = TensorDesc::dense(desc.dtype, shape, matrices_layout(rank, swapped));
  }
};

// How many matrices: all that the result has, or one for all of them; nothing where only some dimensions are repeated.
std::optional<int64_t> count_of_matrices(const Dims& shape, const Dims& result) {
  int64_t count = 1;
  bool whole = shape.size() == result.size();
  for (int i = 0; i + 2 < shape.size(); ++i) {
    count *= shape[i];
    whole = whole && shape[i] == result[i];
  }
  if (whole || count == 1) return count;
  return std::nullopt;
}

// One of `count` dense matrices of `desc` as an activation or as weights, `stack` of them along dimension 2.
Addressing as_stack(const TensorDesc& desc, bool swapped, bool transposed, int64_t count, int64_t stack) {
  const int rank = desc.rank();
  const int64_t rows = desc.shape[rank - 2], columns = desc.shape[rank - 1];
  Addressing a =
      as_positions(TensorDesc::dense(desc.dtype, Dims{rows, columns}, matrices_layout(2, swapped)), transposed);
  a.offset = desc.offset;
  a.dims[2] = stack;
  a.strides[2] = count > 1 ? rows * columns : 0;
  return a;
}

// Whether left factors of `terms` are taken as they are too: copied by fewer than 16 bytes, which saves their padding.
bool in_small_pieces(DType dtype, int64_t terms) {
  const auto bytes = int64_t(size_of(dtype)) * terms;
  return bytes % 16 != 0 && bytes % 4 == 0;
}

// A candidate for a product, with its rows as positions and its columns as output channels, and its tensors.
struct ProductAsConv {
  Candidate base;
  ConvTensors tensors;
};

// Of matmul: terms in pieces of `piece` elements, of the left factor of `a_piece`.  Nothing where only some dimensions
// of a stack of matrices are repeated.
std::optional<ProductAsConv> matmul_as_conv(const Op& op, int64_t piece, int64_t a_piece) {
  const bool transpose_a = op.attributes[attr::transpose_a], transpose_b = op.attributes[attr::transpose_b];
  const int rank_a = op.in(0).rank(), rank_b = op.in(1).rank();
  // A stack of matrices times one matrix is one product of all their rows.
  const bool one_product = rank_b == 2 && (rank_a == 2 || !transpose_a);
  const auto count_a = count_of_matrices(op.in(0).shape, op.out().shape),
             count_b = count_of_matrices(op.in(1).shape, op.out().shape);
  if (!one_product && (!count_a || !count_b)) return std::nullopt;
  Candidate base = make_candidate(op, "");
  const Factors a(op.in(0), transpose_a, a_piece), b(op.in(1), !transpose_b, piece);
  base.inputs[0] = a.wanted;
  base.inputs[1] = b.wanted;
  base.outputs[0] = op.out().with_layout(Layout::plain(op.out().rank()));
  if (op.has(2)) base.inputs[2] = op.in(2).with_layout(Layout::plain(1));
  place_operands(op, base);
  ConvTensors t;
  if (one_product) {
    t.src = as_positions(as_rows(a.seen), transpose_a);
    t.wei = as_positions(b.seen, !transpose_b);
    t.dst = as_positions(as_rows(base.outputs[0]));
  } else {
    t.stack = std::max(*count_a, *count_b);
    t.src = as_stack(a.seen, transpose_a, transpose_a, *count_a, t.stack);
    t.wei = as_stack(b.seen, !transpose_b, !transpose_b, *count_b, t.stack);
    t.dst = as_stack(base.outputs[0], false, false, t.stack, t.stack);
  }
  if (op.has(2)) {
    t.epilogue.bias = 2;
    t.epilogue.bias_desc = base.inputs[2];
  }
  t.epilogue.read_operands(op, [&](int) { return t.dst; });
  return ProductAsConv{std::move(base), std::move(t)};
}

// Both matrices with their terms outermost, as they lie: the gradient of a linear layer by its weights, which is that of
// a convolution over as many positions, of one of them each.
void add_turned_matmul(const Op& op, OpenclDevice& device, CandidateList& out) {
  const TensorDesc &a = op.in(0), &b = op.in(1);
  if (a.rank() != 2 || b.rank() != 2 || !op.attributes[attr::transpose_a] || op.attributes[attr::transpose_b] ||
      op.has(2) || !post_ops_of(op).empty() || op.out().elements() == 0 || a.shape[0] == 0)
    return;
  const auto as_image = [](const TensorDesc& rows) {
    return TensorDesc::dense(rows.dtype, {1, rows.shape[1], rows.shape[0]});
  };
  Op gradient = make_op(*find_schema("conv1d_backward_weights"),
                        Attributes{{attr::kernel_size, std::vector<int64_t>{1}}}, {as_image(b), as_image(a)});
  gradient.math = op.math;
  const std::string name = "conv_backward_weights_mma";
  CandidateList list;
  list.whole_space = out.whole_space;
  add_conv_backward_weights_turned(gradient, device, 1, 0, list);
  for (Candidate& candidate : list.candidates) {
    candidate.implementation = "matmul_turned_mma" + candidate.implementation.substr(name.size());
    candidate.inputs = {a.with_layout(Layout::plain(2)), b.with_layout(Layout::plain(2))};
    candidate.inputs.resize(op.inputs.size());
    candidate.outputs = {op.out().with_layout(Layout::plain(2))};
    out.add(std::move(candidate));
  }
}

}  // namespace

void list_matmul_mma(const Op& op, OpenclDevice& device, CandidateList& out) {
  const int rank = op.in(0).rank();
  if (rank < 2 || op.in(1).rank() < 2) return;
  const int64_t piece = 16 / int64_t(size_of(op.in(0).dtype));
  const auto add = [&](int64_t a_piece) {
    if (const auto product = matmul_as_conv(op, piece, a_piece))
      add_conv_mma(op, device, product->base, product->tensors, out);
  };
  add(piece);
  add_turned_matmul(op, device, out);
  const int64_t terms = op.in(0).shape[rank - (op.attributes[attr::transpose_a] ? 2 : 1)];
  if (in_small_pieces(op.in(0).dtype, terms)) add(1);
}

void list_matmul_skinny(const Op& op, OpenclDevice& device, CandidateList& out) {
  if (op.in(0).rank() < 2 || op.in(1).rank() < 2) return;
  const auto product = matmul_as_conv(op, 4, 4);  // elements of a load
  if (product && product->tensors.stack <= 1) add_skinny(op, device, product->base, product->tensors, out);
}

namespace {

// Of linear: terms in pieces of `piece` elements, of the activation of `x_piece`.
ProductAsConv linear_as_conv(const Op& op, int64_t piece, int64_t x_piece) {
  Candidate base = make_candidate(op, "");
  const Factors x(op.in(0), false, x_piece), weight(op.in(1), false, piece);
  base.inputs[0] = x.wanted;
  base.inputs[1] = weight.wanted;
  base.outputs[0] = op.out().with_layout(Layout::plain(op.out().rank()));
  if (op.has(2)) base.inputs[2] = op.in(2).with_layout(Layout::plain(1));
  place_operands(op, base);
  ConvTensors t;
  t.src = as_positions(as_rows(x.seen));
  t.wei = as_positions(weight.seen);
  t.dst = as_positions(as_rows(base.outputs[0]));
  if (op.has(2)) {
    t.epilogue.bias = 2;
    t.epilogue.bias_desc = base.inputs[2];
  }
  t.epilogue.read_operands(op, [&](int i) { return as_positions(as_rows(base.inputs[size_t(i)])); });
  return {std::move(base), std::move(t)};
}

}  // namespace

void list_linear_mma(const Op& op, OpenclDevice& device, CandidateList& out) {
  if (op.in(0).rank() < 2) return;
  const int64_t piece = 16 / int64_t(size_of(op.in(0).dtype));
  const ProductAsConv conv = linear_as_conv(op, piece, piece);
  add_conv_mma(op, device, conv.base, conv.tensors, out);
  if (!in_small_pieces(op.in(0).dtype, op.in(0).shape[op.in(0).rank() - 1])) return;
  const ProductAsConv as_it_is = linear_as_conv(op, piece, 1);
  add_conv_mma(op, device, as_it_is.base, as_it_is.tensors, out);
}

void list_grouped_mma(const Op& op, OpenclDevice& device, CandidateList& out) {
  const bool swapped = !op.attributes[attr::transpose_weight];
  const int64_t piece = 16 / int64_t(size_of(op.in(0).dtype)), groups = op.in(1).shape[0];
  const auto add = [&](int64_t x_piece) {
    Candidate base = make_candidate(op, "");
    const Factors x(op.in(0), false, x_piece), weight(op.in(1), swapped, piece);
    base.inputs[0] = x.wanted;
    base.inputs[1] = weight.wanted;
    base.inputs[2] = op.in(2).with_layout(Layout::plain(1));
    base.outputs[0] = op.out().with_layout(Layout::plain(2));
    ConvTensors t;
    t.row_groups = groups;
    t.src = as_positions(x.seen);
    t.wei = as_stack(weight.seen, swapped, swapped, 2, groups);
    t.dst = as_positions(base.outputs[0]);
    add_conv_mma(op, device, base, t, out);
  };
  add(piece);
  if (in_small_pieces(op.in(0).dtype, op.in(0).shape[1])) add(1);
}

void list_linear_skinny(const Op& op, OpenclDevice& device, CandidateList& out) {
  if (op.in(0).rank() < 2) return;
  const ProductAsConv conv = linear_as_conv(op, 4, 4);  // elements of a load
  add_skinny(op, device, conv.base, conv.tensors, out);
}

}  // namespace pl::opencl
