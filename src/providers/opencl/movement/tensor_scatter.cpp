// tensor_scatter (kernels/tensor_scatter/): written over x where the result lies there, else over a copy of it.  Two of
// equal sizes may be one launch, as a decoder's keys and values grow.
#include <memory>
#include <string>
#include <vector>

#include "providers/opencl/addressing/places.h"
#include "providers/opencl/runtime/opencl_provider.h"
#include "providers/together.h"

namespace pl::opencl {
namespace {

constexpr size_t kInputs = 3;  // x, update, at

// How an update lies but for where it begins: parts of a joined product are alike.
std::string places_of(const TensorDesc& desc) {
  std::string text = concat("\n", name_of(desc.dtype), " ", desc.shape);
  for (int d = 0; d < desc.rank(); ++d) text += concat(" ", desc.shape[d] > 1 ? desc.strides[d] : 0);
  return text;
}

class TensorScatter final : public Kernel, public Together {
 public:
  // One for each place where an update begins, 1 or 2, whose arguments follow one another.
  TensorScatter(OpenclDevice& device, const Op& op, const Candidate& candidate, const std::vector<int64_t>& begins)
      : device_(device), op_(op), candidate_(candidate), copy_(device), write_(device), count_(begins.size()) {
    const int dim = int(op.attributes[attr::dim]);
    const Addressing x(candidate.inputs[0]), src(candidate.inputs[1]), at(candidate.inputs[2]),
        dst(candidate.outputs[0]);
    alike_ = op.attributes.str();
    alike_ += concat("\n", candidate.inputs[0], "\n", candidate.inputs[2]) + places_of(candidate.inputs[1]);
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
    if (count_ > 1) source.define("PAIR", 1);
    Launch& launch = write_.add(source, "tensor_scatter_direct").input(1, "SRC").input(2, "AT").output(0, "DST");
    over_places(launch, src);
    if (count_ == 1) return;
    launch.input(kInputs + 1).input(kInputs + 2).output(1).scalar(cl_long(begins[1] - begins[0]));
    launch.global({size_t(src.places()), count_}).local({64, 1});
  }

  void run(const KernelArguments& arguments) override {
    for (size_t k = 0; k < count_; ++k) {
      KernelArguments one = arguments;
      one.inputs += k * kInputs;
      one.outputs += k;
      const Buffer &x = *one.inputs[0], &y = *one.outputs[0];
      const bool same = &x == &y || (x.host() && x.host() == y.host());
      if (!same) copy_.run(one);
    }
    write_.run(arguments);
  }

  const std::string& alike() const override { return alike_; }
  size_t most() const override { return 2; }
  std::unique_ptr<Kernel> together(const std::vector<const Together*>& kernels, const Sharing&) const override {
    std::vector<int64_t> begins;
    for (const Together* kernel : kernels)
      begins.push_back(static_cast<const TensorScatter*>(kernel)->candidate_.inputs[1].offset);
    return std::make_unique<TensorScatter>(device_, op_, candidate_, begins);
  }

 private:
  OpenclDevice& device_;
  Op op_;
  Candidate candidate_;
  KernelList copy_, write_;
  size_t count_;
  std::string alike_;
};

void list_tensor_scatter(const Op& op, OpenclDevice& device, CandidateList& out) {
  Candidate candidate = make_candidate(op, "tensor_scatter_direct");
  for (auto* list : {&candidate.inputs, &candidate.outputs})
    for (TensorDesc& desc : *list) desc = desc.with_layout(Layout::plain(desc.rank()));
  if (!op.in(1).is_dense()) candidate.inputs[1] = op.in(1);  // read by its strides: a part of a joined product
  candidate.in_place = 1;
  candidate.efficiency = 0.3;
  candidate.prepare = [&device, op, candidate]() -> std::unique_ptr<Kernel> {
    return std::make_unique<TensorScatter>(device, op, candidate, std::vector<int64_t>{candidate.inputs[1].offset});
  };
  out.add(std::move(candidate));
}

PL_OPENCL_OP("tensor_scatter", list_tensor_scatter);

}  // namespace
}  // namespace pl::opencl
