// Kind reorder: the same elements in another layout or dtype.  The source may be strided.
#include "providers/host/common/host.h"
#include "providers/host/reorder/copy.h"

namespace pl::host {
namespace {

struct ReorderBody {
  CopyNests copy;
  PaddingZeroer zeroer;

  void operator()(const KernelArguments& arguments) const {
    copy.run(input(arguments, 0), output(arguments));
    zeroer.run(output(arguments));
  }
};

void list(const Op& op, CandidateList& out) {
  const TensorDesc x = op.in(0), y = op.out();
  add_candidate(out, "reorder", Quality::fast, {x}, {y}, [x, y] {
    return ReorderBody{CopyNests(x.shape, {y, {}}, {x, {}}), PaddingZeroer(y)};
  });
}
PL_HOST_KIND("reorder", list);

}  // namespace
}  // namespace pl::host
