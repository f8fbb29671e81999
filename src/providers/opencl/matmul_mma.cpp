// matmul and linear on matrix units: rows are positions, columns output channels (kernels/conv/conv_fwd_mma.cl).
#include "providers/opencl/conv_common.h"
#include "providers/opencl/matmul_common.h"

namespace pl::opencl {
namespace {

// A matrix as an activation or as weights: rows (n or oc), columns (c), and positions of size 1.
Addressing as_positions(const TensorDesc& desc, bool transposed = false) {
  Addressing a(desc);
  if (transposed) swap_dims(a, 0, 1);
  return a.insert(2, 3);
}

// The matrix with its terms side by side: its rows are rows of memory, or its columns if it is used transposed.
TensorDesc terms_innermost(const TensorDesc& desc, bool terms_are_rows) {
  return desc.with_layout(terms_are_rows ? Layout::parse("ba") : Layout::plain(2));
}

}  // namespace

void list_matmul_mma(const Op& op, OpenclDevice& device, CandidateList& out) {
  const bool transpose_a = op.attributes.flag("transpose_a"), transpose_b = op.attributes.flag("transpose_b");
  const bool stack = op.in(0).rank() > 2;  // of matrices times one matrix: one product of all their rows
  if (op.in(1).rank() != 2 || op.in(0).rank() < 2 || (stack && transpose_a)) return;
  Candidate base = make_candidate(op, "");
  base.inputs[0] =
      stack ? op.in(0).with_layout(Layout::plain(op.in(0).rank())) : terms_innermost(op.in(0), transpose_a);
  base.inputs[1] = terms_innermost(op.in(1), !transpose_b);
  base.outputs[0] = op.out().with_layout(Layout::plain(op.out().rank()));
  if (op.has(2)) base.inputs[2] = op.in(2).with_layout(Layout::plain(1));
  ConvTensors t;
  t.src = as_positions(as_rows(base.inputs[0]), transpose_a);
  t.wei = as_positions(base.inputs[1], !transpose_b);
  t.dst = as_positions(as_rows(base.outputs[0]));
  if (op.has(2)) {
    t.epilogue.bias = 2;
    t.epilogue.bias_desc = base.inputs[2];
  }
  add_conv_mma(op, device, base, t, out);
}

void list_linear_mma(const Op& op, OpenclDevice& device, CandidateList& out) {
  if (op.in(0).rank() < 2) return;
  Candidate base = make_candidate(op, "");
  base.inputs[0] = op.in(0).with_layout(Layout::plain(op.in(0).rank()));
  base.inputs[1] = op.in(1).with_layout(Layout::plain(2));
  base.outputs[0] = op.out().with_layout(Layout::plain(op.out().rank()));
  if (op.has(2)) base.inputs[2] = op.in(2).with_layout(Layout::plain(1));
  if (op.has(3)) base.inputs[3] = base.outputs[0];
  ConvTensors t;
  t.src = as_positions(as_rows(base.inputs[0]));
  t.wei = as_positions(base.inputs[1]);
  t.dst = as_positions(as_rows(base.outputs[0]));
  if (op.has(2)) {
    t.epilogue.bias = 2;
    t.epilogue.bias_desc = base.inputs[2];
  }
  if (op.has(3)) {
    t.epilogue.residual = 3;
    t.epilogue.residual_at = as_positions(as_rows(base.inputs[3]));
  }
  add_conv_mma(op, device, base, t, out);
}

}  // namespace pl::opencl
