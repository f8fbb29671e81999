// reorder: any layout and dtype to any other (kernels/reorder/).
#include "providers/opencl/opencl_provider.h"

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
  Candidate any = make_candidate(op, "reorder_any");
  any.efficiency = 0.3;
  any.prepare = [&device, src = op.in(0), dst = op.out()] { return prepare_any(device, src, dst); };
  out.add(std::move(any));
}

PL_OPENCL_OP("reorder", list_reorder);

}  // namespace
}  // namespace pl::opencl
