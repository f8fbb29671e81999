// gather_backward and gather_elements_backward (kernels/gather/): each result gathers what reaches it, in the order of
// the index, so that sums repeat.
#include <algorithm>

#include "providers/opencl/addressing/places.h"
#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {
namespace {

constexpr int64_t kMostGroups = 65535;  // that NVIDIA's devices take along the second and third dimension

// The result as (outer, size, inner), `size` along the dimension that was looked up.
struct Lookup {
  int64_t outer = 1, size = 1, inner = 1;
  explicit Lookup(const Op& op) {
    const int dim = int(op.attributes[attr::dim]);
    for (int i = 0; i < op.out().rank(); ++i) (i < dim ? outer : i > dim ? inner : size) *= op.out().shape[i];
  }
};

Candidate plain_candidate(const Op& op, const char* implementation) {
  Candidate candidate = make_candidate(op, implementation);
  for (TensorDesc& input : candidate.inputs) input = input.with_layout(Layout::plain(input.rank()));
  candidate.outputs[0] = op.out().with_layout(Layout::plain(op.out().rank()));
  return candidate;
}

KernelSource gather_backward_source(const char* file, const Op& op) {
  KernelSource source(file);
  source.define("GRAD_DTYPE", name_of(op.in(0).dtype)).define("INDEX_DTYPE", name_of(op.in(1).dtype));
  source.define("DST_DTYPE", name_of(op.out().dtype));
  return source;
}

void list_slices(const Op& op, OpenclDevice& device, CandidateList& out) {
  const Lookup to(op);
  if (to.size > kMostGroups || to.outer > kMostGroups)
    return out.refuse("opencl", concat(op.schema->name, ": a table of ", to.outer, " times ", to.size,
                                       " slices, at most ", kMostGroups, " are possible"));
  Candidate candidate = plain_candidate(op, "gather_backward_slices");
  if (!narrow(Addressing(candidate.inputs[0])) || !narrow(Addressing(candidate.outputs[0])))
    return out.refuse("opencl", op.schema->name + ": needs indices of more than 31 bits");
  candidate.efficiency = 0.2;
  candidate.prepare = [&device, op, to] {
    int64_t lanes = 32;
    while (lanes < 256 && lanes < to.inner && lanes * 2 <= int64_t(device.capabilities().max_work_group)) lanes *= 2;
    KernelSource source = gather_backward_source("gather/gather_backward_slices.cl", op);
    source.define("LANES", lanes);
    auto kernel = std::make_unique<KernelList>(device);
    kernel->add(source, "gather_backward_slices")
        .input(0)
        .input(1)
        .output(0)
        .index(op.in(1).elements())
        .index(to.size)
        .index(to.inner)
        .global({size_t((to.inner + lanes - 1) / lanes * lanes), size_t(to.size), size_t(to.outer)})
        .local({size_t(lanes), 1, 1});
    return kernel;
  };
  out.add(std::move(candidate));
}

void list_elements(const Op& op, OpenclDevice& device, CandidateList& out) {
  const Lookup to(op);
  Candidate candidate = plain_candidate(op, "gather_backward_elements");
  const Addressing dst(candidate.outputs[0]);
  if (!narrow(Addressing(candidate.inputs[0])) || !narrow(dst))
    return out.refuse("opencl", op.schema->name + ": needs indices of more than 31 bits");
  candidate.efficiency = 0.05;
  candidate.prepare = [&device, op, to, dst] {
    auto kernel = std::make_unique<KernelList>(device);
    Launch& launch =
        kernel->add(gather_backward_source("gather/gather_backward_elements.cl", op), "gather_backward_elements");
    launch.input(0).input(1).output(0).index(op.in(0).shape[int(op.attributes[attr::dim])]);
    over_places(launch.index(to.size).index(to.inner), dst);
    return kernel;
  };
  out.add(std::move(candidate));
}

PL_OPENCL_OP("gather_backward", list_slices);
PL_OPENCL_OP("gather_elements_backward", list_elements);

}  // namespace
}  // namespace pl::opencl
