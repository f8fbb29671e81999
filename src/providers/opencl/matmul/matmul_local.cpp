// matmul and linear on GPUs: tiles in local memory (kernels/matmul/matmul_local.cl).
#include "providers/opencl/addressing/register_tile.h"
#include "providers/opencl/matmul/matmul_common.h"

namespace pl::opencl {
namespace {

const Family& matmul_local_family() {
  static const Family family("matmul_local", RegisterTile::tunables());
  return family;
}
PL_TUNING_FAMILY(matmul_local_family);

std::unique_ptr<Kernel> prepare_matmul_local(OpenclDevice& device, const Op& op, const MatmulTensors& t,
                                             const RegisterTile& tile) {
  KernelSource source("matmul/matmul_local.cl");
  source.tensor("A", t.a).tensor("B", t.b).tensor("DST", t.dst);
  t.epilogue.define(source, op);
  tile.define(source);
  auto kernel = std::make_unique<KernelList>(device);
  Launch& launch = kernel->add(source, "matmul_local").input(0, "A").input(1, "B").output(0, "DST");
  t.epilogue.pass(launch);
  const auto items = [](int64_t size, int64_t tile, int local) {
    return size_t((size + tile - 1) / tile) * size_t(local);
  };
  launch.global({items(t.columns(), tile.columns(), tile.local_x), items(t.rows(), tile.rows(), tile.local_y),
                 size_t(t.stack())});
  launch.local({size_t(tile.local_x), size_t(tile.local_y), 1});
  return kernel;
}

}  // namespace

void add_matmul_local(const Op& op, OpenclDevice& device, const Candidate& base, const MatmulTensors& t,
                      CandidateList& out) {
  const RegisterTile start = register_tile(device, t.rows(), t.columns(), t.stack());
  if (!t.dst.inner.empty() || !start.fits(device)) return;
  const ShapeClass shapes = shape_class(t);
  const auto choices = matmul_local_family().choices(
      device, shapes, start.point(),
      [&](const Point& point) { return RegisterTile(point).suits(device, t.rows(), t.columns(), t.depth()); },
      out.whole_space);
  matmul_local_family().add(base, shapes, choices, out, [&](Candidate& candidate, const Point& point) {
    const RegisterTile tile(point);
    candidate.efficiency = 0.7 * tile.used(device, t.rows(), t.columns(), t.stack());
    candidate.prepare = [&device, op, t, tile] { return prepare_matmul_local(device, op, t, tile); };
    return true;
  });
}

}  // namespace pl::opencl
