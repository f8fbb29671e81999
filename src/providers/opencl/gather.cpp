// gather (index_select, embedding) and gather_elements: one kernel with other places (kernels/gather/).
#include "providers/opencl/opencl_provider.h"
#include "providers/opencl/places.h"

namespace pl::opencl {
namespace {

bool elements_of(const Op& op) { return op.schema->kind == "gather_elements"; }
int table_of(const Op& op) { return !elements_of(op) && op.attributes.flag("swapped") ? 1 : 0; }

std::unique_ptr<Kernel> prepare(OpenclDevice& device, const Op& op, const Candidate& candidate) {
  const int table = table_of(op), dim = int(op.attributes.integer("dim"));
  const Addressing src(candidate.inputs[size_t(table)]), index(candidate.inputs[size_t(1 - table)]),
      dst(candidate.outputs[0]);
  const bool elements = elements_of(op);
  KernelSource source("gather/gather_direct.cl");
  source.tensor("SRC", src).tensor("INDEX", index).tensor("DST", dst);
  source.define("SRC_SIZE", concat("SRC_DIM(", dim, ")"));
  // dst's dimensions are src's, with those of index in place of `dim` (gather_elements: all of them index's).
  source.define("SRC_TAKEN", offset_text("SRC", src.rank, [&](int d) -> std::string {
                  if (d == dim) return "picked";
                  return own_index(d < dim || elements ? d : d - 1 + index.rank);
                }));
  source.define("INDEX_TAKEN",
                offset_text("INDEX", index.rank, [&](int d) { return own_index(elements ? d : dim + d); }));
  auto kernel = std::make_unique<KernelList>(device);
  Launch& launch = kernel->add(source, "gather_direct").input(table, "SRC").input(1 - table, "INDEX").output(0, "DST");
  over_places(launch, dst);
  return kernel;
}

void list_gather(const Op& op, OpenclDevice& device, CandidateList& out) {
  const int table = table_of(op);
  const auto finish = [&](Candidate& candidate) {
    TensorDesc& index = candidate.inputs[size_t(1 - table)];
    index = index.with_layout(elements_of(op) ? candidate.inputs[0].layout : Layout::plain(index.rank()));
    candidate.efficiency = 0.3;
    candidate.prepare = [&device, op, candidate] { return prepare(device, op, candidate); };
    return true;
  };
  if (table == 0) return add_per_layout(op, "gather_direct", out, finish);
  // An embedding's first input is the index: layouts of activations mean nothing for it.
  Candidate candidate = make_candidate(op, "gather_direct");
  candidate.inputs[1] = op.in(1).with_layout(Layout::plain(2));
  finish(candidate);
  out.add(std::move(candidate));
}

PL_OPENCL_OP("gather", list_gather);
PL_OPENCL_OP("gather_elements", list_gather);

}  // namespace
}  // namespace pl::opencl
