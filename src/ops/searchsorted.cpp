// searchsorted: where values belong in rows that are in order.
#include <cmath>

#include "ops/op.h"

namespace pl {
namespace {

void infer_searchsorted(Op& op) {
  check_rank(op, 0, 1, kMaxRank);
  const Dims &sequence = op.in(0).shape, &values = op.in(1).shape;
  if (sequence.size() > 1) {
    check_rank(op, 1, sequence.size(), sequence.size());
    for (int d = 0; d < sequence.size() - 1; ++d)
      check(op, values[d] == sequence[d], Code::shape, "values.shape is ", values, ", expected ", sequence,
            " (sequence.shape) but for the last dimension");
  }
  add_output(op, values);
}

Schema searchsorted() {
  Schema schema("searchsorted", "searchsorted",
                "Places of values in rows that are in ascending order.\n\n"
                "y[j] = how many elements of sequence are less than values[j]; with right: at most values[j]\n\n"
                "The rows are searched by halves. In a row that is not in order what is found is some place of it. A "
                "NaN comes behind all elements.\n\n"
                "Returns s64 numbers from 0 to n in the shape of values.\n\nSource: semantics of torch.searchsorted.");
  schema.tensor("sequence", "(n), or (..., n): rows, each for its own values")
      .of(dtypes::numbers)
      .tensor("values", "any shape; of several rows sequence.shape[:-1] + (m,)")
      .like("sequence")
      .attribute(attr::right, false, "the place behind equal elements, else that before them")
      .result(Result("y").of(DType::s64).shaped("values"));
  schema.infer = infer_searchsorted;
  schema.flops = [](const Op& op) {
    const Dims& sequence = op.in(0).shape;
    return double(op.in(1).elements()) * std::log2(1.0 + double(sequence[sequence.size() - 1]));
  };
  return schema;
}

PL_REGISTER_OP(searchsorted);

}  // namespace
}  // namespace pl
