// tensor_scatter (kernels/tensor_scatter/): written over x where the result lies there, else over a copy of it.
#include "providers/opencl/addressing/places.h"
#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {
namespace {

class TensorScatter final : public Kernel {
 public:
  TensorScatter(OpenclDevice& device, const Op& op, const Candidate& candidate) : copy_(device), write_(device) {
    const int dim = int(op.attributes[attr::dim]);
    const Addressing x(candidate.inputs[0]), src(candidate.inputs[1]), at(candidate.inputs[2]),
        dst(candidate.outputs[0]);
    KernelSource whole("concat/concat_copy.cl");
    whole.tensor("SRC", x).tensor("DST", dst).define("DST_SHIFTED", offset_text("DST", dst.rank, own_index));
    over_places(copy_.add(whole, "concat_copy").input(0, "SRC").output(0, "DST").index(0), x);
    if (src.places() == 0) return;
    KernelSource source("tensor_scatter/tensor_scatter_direct.cl");
    source.tensor("SRC", src).tensor("AT", at).tensor("DST", dst);
    source.define("AT_TAKEN", at.rank ? "AT_OFFSET(i0)" : "(at_arg.offset)").define("ALONG", own_index(dim));
    source.define("DST_TAKEN", offset_text("DST", dst.rank, [&](int d) { return d == dim ? "place" : own_index(d); }));
    source.define("DST_SIZE", concat("DST_DIM(", dim, ")"));
    source.define("CIRCULAR", int64_t(op.attributes[attr::circular]));
    Launch& launch = write_.add(source, "tensor_scatter_direct").input(1, "SRC").input(2, "AT").output(0, "DST");
    over_places(launch, src);
  }

  void run(const KernelArguments& arguments) override {
    const Buffer &x = *arguments.inputs[0], &y = *arguments.outputs[0];
    const bool same = &x == &y || (x.host() && x.host() == y.host());
    if (!same) copy_.run(arguments);
    write_.run(arguments);
  }

 private:
  KernelList copy_, write_;
};

void list_tensor_scatter(const Op& op, OpenclDevice& device, CandidateList& out) {
  Candidate candidate = make_candidate(op, "tensor_scatter_direct");
  for (auto* list : {&candidate.inputs, &candidate.outputs})
    for (TensorDesc& desc : *list) desc = desc.with_layout(Layout::plain(desc.rank()));
  candidate.in_place = 1;
  candidate.efficiency = 0.3;
  candidate.prepare = [&device, op, candidate]() -> std::unique_ptr<Kernel> {
    return std::make_unique<TensorScatter>(device, op, candidate);
  };
  out.add(std::move(candidate));
}

PL_OPENCL_OP("tensor_scatter", list_tensor_scatter);

}  // namespace
}  // namespace pl::opencl
