// matmul: products of matrices and of stacks of matrices (kernels/matmul/).
#include "providers/opencl/matmul/matmul_common.h"
#include "providers/opencl/matrix_units/mma.h"

namespace pl::opencl {
namespace {

// A stack of matrices times one matrix is one product of all their rows, where these lie in order.
bool is_one_product(const Op& op, const Candidate& candidate) {
  return op.in(0).rank() > 2 && op.in(1).rank() == 2 && !op.attributes[attr::transpose_a] &&
         candidate.inputs[0].layout.is_plain() && candidate.outputs[0].layout.is_plain();
}

MatmulTensors matmul_tensors(const Op& op, const Candidate& candidate) {
  MatmulTensors t;
  t.a = as_matrices(candidate.inputs[0], op.attributes[attr::transpose_a]);
  t.b = as_matrices(candidate.inputs[1], op.attributes[attr::transpose_b], true);
  // Without the dimension that a vector loses, the output is still one row or one column.
  const bool column = op.in(1).rank() == 1;
  const bool one_product = is_one_product(op, candidate);
  const auto as_output = [&](const TensorDesc& desc) {
    if (one_product) return as_matrices(as_rows(desc));
    Addressing a(desc);
    if (column) a.insert(a.rank, 1);
    if (op.in(0).rank() == 1) a.insert(a.rank - 1, 1);
    return a.insert(0, kStackDims + 2 - a.rank);
  };
  t.dst = as_output(candidate.outputs[0]);
  if (one_product) t.a = as_matrices(as_rows(candidate.inputs[0]));
  if (op.has(2)) {
    t.epilogue.bias = 2;
    t.epilogue.bias_desc = candidate.inputs[2];
  }
  t.epilogue.read_operands(op, [&](int i) { return as_output(candidate.inputs[size_t(i)]); });
  return t;
}

void complete_matmul(const Op& op, Candidate& candidate) {
  candidate.inputs[1] = op.in(1).with_layout(op.in(1).layout);
  if (op.has(2)) candidate.inputs[2] = op.in(2).with_layout(Layout::plain(1));
  place_operands(op, candidate);
}

// One for each layout of the first matrix.
std::vector<Candidate> matmul_bases(const Op& op) {
  CandidateList list;
  add_per_layout(op, "", list, [&](Candidate& candidate) {
    complete_matmul(op, candidate);
    return true;
  });
  return list.candidates;
}

void list_matmul(const Op& op, OpenclDevice& device, CandidateList& out) {
  const size_t first = out.candidates.size();
  if (!device.capabilities().cpu && mma_suits(op, device, out)) list_matmul_mma(op, device, out);
  const size_t others = out.candidates.size();
  if (device.capabilities().cpu)
    for (const Candidate& base : matmul_bases(op))
      add_matmul_tiled(op, device, base, matmul_tensors(op, base), false, out);
  else
    list_matmul_local(op, device, out);
  add_per_layout(op, "matmul_direct", out, [&](Candidate& candidate) {
    complete_matmul(op, candidate);
    candidate.efficiency = device.capabilities().cpu ? 0.03 : 0.05;
    candidate.prepare = [&device, op, t = matmul_tensors(op, candidate)] {
      return prepare_matmul_direct(device, op, t);
    };
    return true;
  });
  if (others > first) beside_matrix_unit(out, others);
  list_matmul_skinny(op, device, out);
}

PL_OPENCL_OP("matmul", list_matmul);

}  // namespace

void list_matmul_local(const Op& op, OpenclDevice& device, CandidateList& out) {
  for (const Candidate& base : matmul_bases(op)) add_matmul_local(op, device, base, matmul_tensors(op, base), out);
}

}  // namespace pl::opencl
