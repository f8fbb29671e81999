// linear: a fully connected layer, as a product with a transposed matrix (kernels/matmul/).
#include "providers/opencl/matmul/matmul_common.h"
#include "providers/opencl/matrix_units/mma.h"

namespace pl::opencl {
namespace {

MatmulTensors linear_tensors(const Op& op, const Candidate& candidate) {
  MatmulTensors t;
  t.a = as_matrices(as_rows(candidate.inputs[0]));
  t.b = as_matrices(candidate.inputs[1], true);
  t.dst = as_matrices(as_rows(candidate.outputs[0]));
  if (op.has(2)) {
    t.epilogue.bias = 2;
    t.epilogue.bias_desc = candidate.inputs[2];
  }
  t.epilogue.read_operands(op, [&](int i) { return as_matrices(as_rows(candidate.inputs[size_t(i)])); });
  return t;
}

void complete_linear(const Op& op, Candidate& candidate, const Layout& weights) {
  candidate.inputs[1] = op.in(1).with_layout(weights);
  if (op.has(2)) candidate.inputs[2] = op.in(2).with_layout(Layout::plain(1));
  place_operands(op, candidate);
}

// One for each layout of the activation.
std::vector<Candidate> linear_bases(const Op& op, const Layout& weights) {
  CandidateList list;
  add_per_layout(op, "", list, [&](Candidate& candidate) {
    complete_linear(op, candidate, weights);
    return true;
  });
  return list.candidates;
}

void list_linear(const Op& op, OpenclDevice& device, CandidateList& out) {
  const size_t first = out.candidates.size();
  if (!device.capabilities().cpu && mma_suits(op, device, out)) list_linear_mma(op, device, out);
  const size_t others = out.candidates.size();
  if (device.capabilities().cpu)
    for (const Candidate& base : linear_bases(op, Layout::parse("Ab16a")))
      add_matmul_tiled(op, device, base, linear_tensors(op, base), true, out);
  else
    list_linear_local(op, device, out);
  add_per_layout(op, "matmul_direct", out, [&](Candidate& candidate) {
    complete_linear(op, candidate, Layout::plain(2));
    candidate.efficiency = device.capabilities().cpu ? 0.03 : 0.05;
    candidate.prepare = [&device, op, t = linear_tensors(op, candidate)] {
      return prepare_matmul_direct(device, op, t);
    };
    return true;
  });
  if (others > first) beside_matrix_unit(out, others);
  list_linear_skinny(op, device, out);
}

PL_OPENCL_OP("linear", list_linear);

}  // namespace

void list_linear_local(const Op& op, OpenclDevice& device, CandidateList& out) {
  for (const Candidate& base : linear_bases(op, Layout::plain(2)))
    add_matmul_local(op, device, base, linear_tensors(op, base), out);
}

}  // namespace pl::opencl
