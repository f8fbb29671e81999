// Kind concat: each input is copied into its part of the result.  Inputs may be strided views.
#include "providers/host/common/host.h"
#include "providers/host/reorder/copy.h"

namespace pl::host {
namespace {

struct ConcatBody {
  std::vector<CopyNests> copies;
  PaddingZeroer zeroer;

  void operator()(const KernelArguments& arguments) const {
    for (size_t i = 0; i < copies.size(); ++i) copies[i].run(input(arguments, int(i)), output(arguments));
    zeroer.run(output(arguments));
  }
};

void list_concat(const Op& op, CandidateList& out) {
  const int dim = int(op.attributes[attr::dim]);
  for (const Layout& layout : layouts_to_try(op, op.out())) {
    std::vector<TensorDesc> inputs;
    for (const TensorDesc& tensor : op.inputs) inputs.push_back(any_strided_view_as(tensor, layout));
    const TensorDesc y = op.out().with_layout(layout);
    add_candidate(out, "concat", Quality::fast, inputs, {y}, [=] {
      ConcatBody body{{}, PaddingZeroer(y)};
      Dims begin = Dims::filled(y.rank(), 0);
      for (const TensorDesc& x : inputs) {
        body.copies.emplace_back(x.shape, Operand{y, begin}, Operand{x, {}});
        begin[dim] += x.shape[dim];
      }
      return body;
    });
  }
}
PL_HOST_KIND("concat", list_concat);

}  // namespace
}  // namespace pl::host
