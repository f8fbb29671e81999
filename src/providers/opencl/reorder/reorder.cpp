// reorder: any layout and dtype to any other (kernels/reorder/).
//
//   reorder_axes   both sides as strides over common axes, by the pointwise generator: one axis where nothing moves
//   reorder_tiled  through local memory, where the sides run along different axes (NCHW <-> NHWC, nChw16c...); on CPUs,
//                  whose caches do the same, it seldom pays
//   reorder_quads  the same by four elements an access, in tiles as narrow as a block of channels
//   reorder_transposed, reorder_runs   on CPUs, by vectors: tiles in registers, and copies (reorder_vectors.h)
//   reorder_pieces few channels to one block of them, for first layers
//   reorder_any    element by element, for layouts without common axes (nChw16c -> nChw8c, doubly blocked ones)
#include "providers/opencl/pointwise/pointwise_kernel.h"
#include "providers/opencl/pointwise/pointwise_together.h"
#include "providers/opencl/reorder/reorder_pieces.h"
#include "providers/opencl/reorder/reorder_tiled.h"
#include "providers/opencl/reorder/reorder_vectors.h"
#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {
namespace {

std::unique_ptr<Kernel> prepare_any(OpenclDevice& device, const TensorDesc& src, const TensorDesc& dst) {
  KernelSource source("reorder/reorder_any.cl");
  source.tensor("SRC", src).tensor("DST", dst);
  const int64_t places = source.addressing("DST").places();
  auto kernel = std::make_unique<KernelList>(device);
  kernel->add(source, "reorder_any").input(0, "SRC").output(0, "DST").index(places).global({size_t(places)});
  return kernel;
}

void list_reorder(const Op& op, OpenclDevice& device, CandidateList& out) {
  const TensorDesc &src = op.in(0), &dst = op.out();
  add_reorder_pieces(op, device, src, dst, out);
  Computation computation;
  computation.name = "reorder_axes";
  const bool real = is_floating(src.dtype) || is_floating(dst.dtype);
  computation.program =
      pointwise::parse("reorder", "y0 = x0", "", 1, 0, real ? pointwise::Arithmetic::f32 : pointwise::Arithmetic::s64);
  computation.saturate = true;
  computation.space = src.shape;
  computation.reduced.assign(size_t(src.rank()), false);
  computation.inputs = {{src.dtype, Addressing(src)}};
  computation.outputs = {{dst.dtype, Addressing(dst)}};
  auto plan = std::make_shared<ComputationPlan>();
  std::string reason;
  if (!plan_computation(device, std::move(computation), *plan, reason)) {
    Candidate any = make_candidate(op, "reorder_any");
    any.efficiency = 0.1;
    any.prepare = [&device, src, dst] { return prepare_any(device, src, dst); };
    return out.add(std::move(any));
  }
  const Iteration& it = plan->iteration;
  add_reorder_vectors(op, device, it, out);
  const int a = unit_axis(it, 1), b = unit_axis(it, 0);
  const bool transposes = a >= 0 && b >= 0 && a != b;
  Candidate axes = make_candidate(op, "reorder_axes");
  // On an H200, of 4.2 TB/s for a copy: 4.1 where nothing moves, 1.1 transposed.
  axes.efficiency = transposes ? 0.25 : 0.9;
  axes.together = is_joinable(*plan);
  axes.prepare = [&device, plan] { return prepare_computation(device, *plan); };
  out.add(std::move(axes));
  add_reorder_tiled(op, device, std::shared_ptr<const Iteration>(plan, &plan->iteration), out);
}

PL_OPENCL_OP("reorder", list_reorder);

}  // namespace
}  // namespace pl::opencl
