// linear: a fully connected layer, as a product with a transposed matrix (kernels/matmul/).
#include "providers/opencl/matmul_common.h"

namespace pl::opencl {
namespace {

MatmulTensors tensors_of(const Op& op, const Candidate& candidate) {
  MatmulTensors t;
  t.a = as_matrices(as_rows(candidate.inputs[0]));
  t.b = as_matrices(candidate.inputs[1], true);
  t.dst = as_matrices(as_rows(candidate.outputs[0]));
  if (op.has(2)) {
    t.epilogue.bias = 2;
    t.epilogue.bias_desc = candidate.inputs[2];
  }
  if (op.has(3)) {
    t.epilogue.residual = 3;
    t.epilogue.residual_at = as_matrices(as_rows(candidate.inputs[3]));
  }
  return t;
}

void list_linear(const Op& op, OpenclDevice& device, CandidateList& out) {
  const auto complete = [&](Candidate& candidate, const Layout& weights) {
    candidate.inputs[1] = op.in(1).with_layout(weights);
    if (op.has(2)) candidate.inputs[2] = op.in(2).with_layout(Layout::plain(1));
    if (op.has(3)) candidate.inputs[3] = candidate.outputs[0];
  };
  add_per_layout(op, "matmul_tiled", out, [&](Candidate& candidate) {
    complete(candidate, Layout::parse("Ab16a"));
    return complete_matmul_tiled(op, device, tensors_of(op, candidate), true, candidate);
  });
  add_per_layout(op, "matmul_direct", out, [&](Candidate& candidate) {
    complete(candidate, Layout::plain(2));
    candidate.efficiency = 0.02;
    candidate.prepare = [&device, op, t = tensors_of(op, candidate)] { return prepare_matmul_direct(device, op, t); };
    return true;
  });
}

PL_OPENCL_OP("linear", list_linear);

}  // namespace
}  // namespace pl::opencl
