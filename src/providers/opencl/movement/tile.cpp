// tile (kernels/tile/).
#include "providers/opencl/addressing/places.h"
#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {
namespace {

std::unique_ptr<Kernel> prepare_tile(OpenclDevice& device, const Candidate& candidate) {
  Addressing src(candidate.inputs[0]);
  const Addressing dst(candidate.outputs[0]);
  src.insert(0, dst.rank - src.rank);
  KernelSource source("tile/tile_direct.cl");
  source.tensor("SRC", src).tensor("DST", dst);
  source.define("SRC_TAKEN", offset_text("SRC", src.rank, [&](int d) {
                  // Most dimensions are not repeated.
                  if (src.dims[size_t(d)] == dst.dims[size_t(d)]) return own_index(d);
                  return concat(own_index(d), " % SRC_DIM(", d, ")");
                }));
  auto kernel = std::make_unique<KernelList>(device);
  Launch& launch = kernel->add(source, "tile_direct").input(0, "SRC").output(0, "DST");
  over_places(launch, dst);
  return kernel;
}

void list_tile(const Op& op, OpenclDevice& device, CandidateList& out) {
  add_per_layout(op, "tile_direct", out, [&](Candidate& candidate) {
    candidate.efficiency = 0.4;
    candidate.prepare = [&device, candidate] { return prepare_tile(device, candidate); };
    return true;
  });
}

PL_OPENCL_OP("tile", list_tile);

}  // namespace
}  // namespace pl::opencl
