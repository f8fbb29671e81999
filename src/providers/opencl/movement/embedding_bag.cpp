// embedding_bag and embedding_bag_rows: one kernel (kernels/embedding_bag/).
#include "providers/opencl/addressing/places.h"
#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {
namespace {

int join_of(const Op& op) {
  if (op.schema->name == "embedding_bag_rows") return 3;
  const std::string& mode = op.attributes[attr::mode];
  return mode == "max" ? 2 : mode == "mean" ? 1 : 0;
}

std::unique_ptr<Kernel> prepare(OpenclDevice& device, const Op& op) {
  const int join = join_of(op);
  const bool scaled = join == 0 && op.has(3);
  KernelSource source("embedding_bag/embedding_bag_columns.cl");
  source.define("INDEX_DTYPE", name_of(op.in(0).dtype)).define("WEIGHT_DTYPE", name_of(op.in(1).dtype));
  source.define("ENDS_DTYPE", name_of(op.in(2).dtype)).define("DST_DTYPE", name_of(op.out().dtype));
  source.define("JOIN", int64_t(join));
  if (scaled) source.define("SCALES_DTYPE", name_of(op.in(3).dtype));
  auto kernel = std::make_unique<KernelList>(device);
  Launch& launch = kernel->add(source, "embedding_bag_columns").input(0).input(1).input(2);
  if (scaled) launch.input(3);
  const int64_t elements = op.out().elements();
  launch.output(0)
      .scalar(cl_long(op.in(0).elements()))
      .scalar(cl_long(op.in(1).shape[0]))
      .scalar(cl_uint(op.in(1).shape[1]))
      .scalar(cl_long(op.attributes[attr::padding_idx]))
      .scalar(cl_uint(elements))
      .global({size_t((elements + 63) / 64 * 64)})
      .local({64});
  return kernel;
}

void list_embedding_bag(const Op& op, OpenclDevice& device, CandidateList& out) {
  Candidate candidate = make_candidate(op, "embedding_bag_columns");
  for (TensorDesc& input : candidate.inputs)
    if (input.present) input = input.with_layout(Layout::plain(input.rank()));
  candidate.outputs[0] = op.out().with_layout(Layout::plain(2));
  if (!narrow(Addressing(candidate.outputs[0])))
    return out.refuse("opencl", op.schema->name + ": needs indices of more than 31 bits");
  candidate.efficiency = 0.3;
  candidate.prepare = [&device, op] { return prepare(device, op); };
  out.add(std::move(candidate));
}
PL_OPENCL_OP("embedding_bag", list_embedding_bag);

}  // namespace
}  // namespace pl::opencl
