// local_response_norm: normalisation by neighbouring channels.
#include "ops/op.h"

namespace pl {
namespace {

void infer(Op& op) {
  check_rank(op, 0, 3, kMaxRank);
  check_float(op, 0);
  check_range(op, "size", {op.attributes.integer("size")}, 1, (int64_t(1) << 31) - 1);
  for (const char* name : {"alpha", "beta", "k"}) check_finite(op, name);
  add_output(op, op.in(0).dtype, op.in(0).shape);
}

Schema local_response_norm() {
  Schema schema("local_response_norm", "lrn",
                "Normalisation of each element by its neighbours in other channels.\n\n"
                "y[n, c, ...] = x[n, c, ...] / (k + alpha / size * sum over j of x[n, j, ...]^2)^beta\n"
                "over the channels c - size / 2 <= j <= c + (size - 1) / 2 that exist, halves rounded down.\n\n"
                "Returns the shape and dtype of x.\n\n"
                "Source: A. Krizhevsky et al., ImageNet classification with deep convolutional neural networks, 2012; "
                "semantics of torch.nn.functional.local_response_norm.");
  schema.tensor("x", "(n, c, ...), rank at least 3; f32, f16 or bf16")
      .required("size", AttributeType::integer, "channels in the window, at least 1")
      .attribute("alpha", AttributeType::number, 1e-4, "factor of the mean of squares")
      .attribute("beta", AttributeType::number, 0.75, "exponent")
      .attribute("k", AttributeType::number, 1.0, "added to the mean of squares");
  schema.infer = infer;
  schema.flops = [](const Op& op) {
    return double(2 * op.attributes.integer("size") + 4) * double(op.out().elements());
  };
  return schema;
}

PL_REGISTER_OP(local_response_norm);

}  // namespace
}  // namespace pl
