// pad: borders of a constant, mirrored or repeated elements (kernels/pad/).
#include "providers/opencl/opencl_provider.h"
#include "providers/opencl/places.h"

namespace pl::opencl {
namespace {

struct PadArgument {  // pad_arg of the kernel
  cl_long begin[kMaxRank] = {};
};

std::unique_ptr<Kernel> prepare(OpenclDevice& device, const Op& op, const Candidate& candidate) {
  const Addressing src(candidate.inputs[0]), dst(candidate.outputs[0]);
  const std::string& mode = op.attributes.text("mode");
  KernelSource source("pad/pad_direct.cl");
  source.tensor("SRC", src).tensor("DST", dst);
  source.define("PAD_MODE", mode == "constant" ? 0 : mode == "reflect" ? 1 : 2);
  std::string inside = "1";
  PadArgument pad;
  for (int d = 0; d < src.rank; ++d) {
    inside += concat(" && PAD_EXISTS(", own_index(d), ", ", d, ")");
    pad.begin[d] = op.attributes.integers("begins")[size_t(d)];
  }
  source.define("PADDED_INSIDE", "(" + inside + ")");
  source.define("PADDED_AT",
                offset_text("SRC", src.rank, [](int d) { return concat("PAD_SOURCE(", own_index(d), ", ", d, ")"); }));
  auto kernel = std::make_unique<KernelList>(device);
  Launch& launch = kernel->add(source, "pad_direct").input(0, "SRC").output(0, "DST").scalar(pad);
  const double value = op.attributes.number("value");
  if (is_floating(src.dtype))
    launch.scalar(cl_float(value));
  else if (src.dtype == DType::s64)
    launch.scalar(mode == "constant" ? cl_long(value) : cl_long(0));
  else
    launch.scalar(mode == "constant" ? cl_int(value) : cl_int(0));
  over_places(launch, dst);
  return kernel;
}

void list_pad(const Op& op, OpenclDevice& device, CandidateList& out) {
  add_per_layout(op, "pad_direct", out, [&](Candidate& candidate) {
    candidate.efficiency = 0.4;
    candidate.prepare = [&device, op, candidate] { return prepare(device, op, candidate); };
    return true;
  });
}

PL_OPENCL_OP("pad", list_pad);

}  // namespace
}  // namespace pl::opencl
