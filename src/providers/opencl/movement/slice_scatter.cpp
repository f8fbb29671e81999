// slice_scatter: src copied to its part of x where the result lies there, else of a copy of it (kernels/concat/).
#include "providers/opencl/addressing/places.h"
#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {
namespace {

class SliceScatter final : public Kernel {
 public:
  SliceScatter(OpenclDevice& device, const Op& op, const Candidate& candidate) : whole_(device), part_(device) {
    const Addressing x(candidate.inputs[0]), src(candidate.inputs[1]), dst(candidate.outputs[0]);
    copy(whole_, x, 0, dst, own_index);
    if (src.places() == 0) return;
    const Ints &starts = op.attributes[attr::starts], &steps = op.attributes[attr::steps];
    copy(part_, src, 1, dst,
         [&](int d) { return concat("(", own_index(d), " * ", steps[size_t(d)], " + ", starts[size_t(d)], ")"); });
  }

  void run(const KernelArguments& arguments) override {
    const Buffer &x = *arguments.inputs[0], &y = *arguments.outputs[0];
    const bool same = &x == &y || (x.host() && x.host() == y.host());
    if (!same) whole_.run(arguments);
    part_.run(arguments);
  }

 private:
  static void copy(KernelList& kernels, const Addressing& from, int input, const Addressing& to,
                   const std::function<std::string(int)>& index) {
    KernelSource source("concat/concat_copy.cl");
    source.tensor("SRC", from).tensor("DST", to).define("DST_SHIFTED", offset_text("DST", to.rank, index));
    over_places(kernels.add(source, "concat_copy").input(input, "SRC").output(0, "DST").index(0), from);
  }

  KernelList whole_, part_;
};

void list_slice_scatter(const Op& op, OpenclDevice& device, CandidateList& out) {
  add_per_layout(op, "slice_scatter_direct", out, [&](Candidate& candidate) {
    const Layout& layout = candidate.outputs[0].layout;
    if (layout.is_blocked()) return false;  // parts of blocks
    candidate.inputs[1] = op.in(1).with_layout(layout);
    candidate.in_place = 1;
    candidate.efficiency = 0.3;
    candidate.prepare = [&device, op, candidate]() -> std::unique_ptr<Kernel> {
      return std::make_unique<SliceScatter>(device, op, candidate);
    };
    return true;
  });
}

PL_OPENCL_OP("slice_scatter", list_slice_scatter);

}  // namespace
}  // namespace pl::opencl
