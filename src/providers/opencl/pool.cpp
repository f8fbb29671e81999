// pool and adaptive_pool (kernels/pool/, kernels/adaptive_pool/).
#include "providers/opencl/opencl_provider.h"
#include "providers/opencl/window.h"

namespace pl::opencl {
namespace {

KernelSource pool_source(const char* file, const Op& op, const Addressing& src, const Addressing& dst) {
  KernelSource source(file);
  source.tensor("SRC", src).tensor("DST", dst).define("POOL_MAX", op.attributes.text("mode") == "max" ? 1 : 0);
  return source;
}

std::unique_ptr<Kernel> prepare_pool(OpenclDevice& device, const Op& op, const Addressing& src, const Addressing& dst) {
  KernelSource source = pool_source("pool/pool_direct.cl", op, src, dst);
  source.define("COUNT_PAD", op.attributes.flag("count_include_pad") ? 1 : 0);
  const int spatial = spatial_rank(op);
  cl_int end[3] = {0, 0, 0};
  for (int axis = 0; axis < spatial; ++axis) end[3 - spatial + axis] = cl_int(window_of(op, axis).end);
  auto kernel = std::make_unique<KernelList>(device);
  kernel->add(source, "pool_direct")
      .input(0, "SRC")
      .output(0, "DST")
      .scalar(window_argument(op))
      .scalar(end[0])
      .scalar(end[1])
      .scalar(end[2])
      .index(dst.places())
      .global({size_t(dst.places())})
      .local({64});
  return kernel;
}

std::unique_ptr<Kernel> prepare_adaptive(OpenclDevice& device, const Op& op, const Addressing& src,
                                         const Addressing& dst) {
  auto kernel = std::make_unique<KernelList>(device);
  kernel->add(pool_source("adaptive_pool/adaptive_pool_direct.cl", op, src, dst), "adaptive_pool_direct")
      .input(0, "SRC")
      .output(0, "DST")
      .index(dst.places())
      .global({size_t(dst.places())})
      .local({64});
  return kernel;
}

void list_pool(const Op& op, OpenclDevice& device, CandidateList& out) {
  if (const auto reason = window_refusal(op)) return out.refuse("opencl", *reason);
  add_per_layout(op, "pool_direct", out, [&](Candidate& candidate) {
    candidate.efficiency = 0.2;
    candidate.prepare = [&device, op, src = with_three_spatial(candidate.inputs[0]),
                         dst = with_three_spatial(candidate.outputs[0])] { return prepare_pool(device, op, src, dst); };
    return true;
  });
}

void list_adaptive_pool(const Op& op, OpenclDevice& device, CandidateList& out) {
  add_per_layout(op, "adaptive_pool_direct", out, [&](Candidate& candidate) {
    candidate.efficiency = 0.1;
    candidate.prepare = [&device, op, src = with_three_spatial(candidate.inputs[0]),
                         dst = with_three_spatial(candidate.outputs[0])] {
      return prepare_adaptive(device, op, src, dst);
    };
    return true;
  });
}

PL_OPENCL_OP("pool", list_pool);
PL_OPENCL_OP("adaptive_pool", list_adaptive_pool);

}  // namespace
}  // namespace pl::opencl
