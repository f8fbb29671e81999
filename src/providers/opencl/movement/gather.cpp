// gather (index_select, embedding) and gather_elements: one kernel with other places (kernels/gather/).
#include <utility>

#include "providers/opencl/addressing/places.h"
#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {
namespace {

bool elements_of(const Op& op) { return op.schema->kind == "gather_elements"; }
int table_of(const Op& op) { return !elements_of(op) && op.attributes[attr::swapped] ? 1 : 0; }

std::unique_ptr<Kernel> prepare_gather(OpenclDevice& device, const Op& op, const Candidate& candidate) {
  const int table = table_of(op), dim = int(op.attributes[attr::dim]);
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

constexpr int64_t kSteps = 2;  // pieces a work-item of gather_pieces takes

// dst's dimensions are src's, with those of index in place of `dim`.
std::string taken(const Addressing& src, const Addressing& index, int dim) {
  return offset_text("SRC", src.rank, [&](int d) -> std::string {
    if (d == dim) return "picked";
    return concat("i##", d < dim ? d : d - 1 + index.rank);
  });
}

// What lies side by side in dst does so in src: a piece of a slice an access, on GPUs.
void add_pieces(const Op& op, OpenclDevice& device, const Candidate& direct, CandidateList& out) {
  const int table = table_of(op), dim = int(op.attributes[attr::dim]);
  Candidate candidate = direct;
  candidate.implementation = "gather_pieces";
  const Addressing src(candidate.inputs[size_t(table)]), index(candidate.inputs[size_t(1 - table)]),
      dst(candidate.outputs[0]);
  if (device.capabilities().cpu || elements_of(op) || src.places() == 0 || dst.places() == 0) return;
  const auto [unit, block] = dst.unit();
  if (unit < 0 || !narrow(src) || !narrow(dst) || (unit >= dim && unit < dim + index.rank)) return;
  const int source_unit = unit < dim ? unit : unit + 1 - index.rank;
  const bool in_blocks = block != 0;
  // Blocks, of channels alone, are the same on both sides, and so is their padding.
  if (in_blocks ? src.inner.size() != 1 || dst.inner.size() != 1 || src.unit() != std::pair(source_unit, block)
                : !src.inner.empty() || !dst.inner.empty() || src.strides[size_t(source_unit)] != 1)
    return;
  const auto element_bytes = int64_t(size_of(src.dtype));
  const int64_t run = in_blocks ? block : dst.dims[size_t(unit)];
  const int piece = piece_of(run, element_bytes);
  if (piece * element_bytes < 4) return;
  if (!in_blocks)  // pieces begin at multiples of their size in src too
    for (int d = 0; d < src.rank; ++d)
      if (d != source_unit && src.dims[size_t(d)] > 1 && src.strides[size_t(d)] % piece) return;
  candidate.efficiency = 0.7;
  candidate.prepare = [&device, src, index, dst, dim, table, piece, element_bytes] {
    KernelSource source("gather/gather_pieces.cl");
    source.tensor("SRC", src).tensor("INDEX", index).tensor("DST", dst).define("PIECE", piece);
    source.define("BYTES", element_bytes).define("STEPS", kSteps).define("SRC_SIZE", concat("SRC_DIM(", dim, ")"));
    source.define("SRC_TAKEN(i)", taken(src, index, dim));
    source.define("INDEX_TAKEN(i)", offset_text("INDEX", index.rank, [&](int d) { return concat("i##", dim + d); }));
    auto kernel = std::make_unique<KernelList>(device);
    Launch& launch = kernel->add(source, "gather_pieces");
    launch.input(table, "SRC").input(1 - table, "INDEX").output(0, "DST").index(dst.places());
    const int64_t per_item = piece * kSteps;
    launch.global({size_t((dst.places() + per_item - 1) / per_item)}).local({128});
    return kernel;
  };
  out.add(std::move(candidate));
}

void list_gather(const Op& op, OpenclDevice& device, CandidateList& out) {
  const int table = table_of(op);
  const auto finish = [&](Candidate& candidate) {
    TensorDesc& index = candidate.inputs[size_t(1 - table)];
    index = index.with_layout(elements_of(op) ? candidate.inputs[0].layout : Layout::plain(index.rank()));
    candidate.efficiency = 0.3;
    candidate.prepare = [&device, op, candidate] { return prepare_gather(device, op, candidate); };
    add_pieces(op, device, candidate, out);
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
