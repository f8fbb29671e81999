// expand: broadcasting to a larger shape, as a view.
#include "ops/gradient.h"
#include "ops/view.h"

namespace pl {
namespace {

void infer_expand(Op& op) {
  const Dims& x = op.in(0).shape;
  const std::vector<int64_t>& wanted = op.attributes[attr::shape];
  check(op, wanted.size() >= size_t(x.size()) && wanted.size() <= size_t(kMaxRank), Code::invalid_argument,
        "shape has ", wanted.size(), " values, expected ", x.size(), " (the rank of x) to ", kMaxRank);
  const int added = int(wanted.size()) - x.size();
  Dims output;
  for (int i = 0; i < int(wanted.size()); ++i) {
    const int64_t size = wanted[size_t(i)], own = i < added ? 1 : x[i - added];
    check(op, size >= 0 || (size == -1 && i >= added), Code::invalid_argument, "shape[", i, "] is ", size,
          ", expected at least 0", i < added ? "" : ", or -1 to keep the size");
    check(op, size == -1 || own == size || own == 1, Code::shape, "shape[", i, "] is ", size, ", expected ", own,
          " (x has shape ", x, ")");
    output.push_back(size == -1 ? own : size);
  }
  op.attributes.set(attr::shape, output.vector());
  add_output(op, output);
}

// Dimensions that grow get a stride of 0.
std::optional<std::vector<TensorDesc>> view_expand(const Op& op) {
  const TensorDesc& x = op.in(0);
  const Dims& output = op.out().shape;
  if (output == x.shape) return std::vector<TensorDesc>{x};
  if (output.product() == 0) return std::vector<TensorDesc>{TensorDesc::dense(x.dtype, output)};
  if (x.layout.is_blocked()) return std::nullopt;
  const int added = output.size() - x.rank();
  Dims strides = Dims::filled(output.size(), 0);
  for (int i = 0; i < x.rank(); ++i)
    if (x.shape[i] == output[i + added]) strides[i + added] = x.strides[i];
  TensorDesc result = TensorDesc::strided(x.dtype, output, strides);
  result.offset = x.offset;
  return std::vector<TensorDesc>{result};
}

Schema expand() {
  Schema schema("expand", "expand",
                "Dimensions of size 1 repeated to a larger shape, as a view.\n\n"
                "y[i..., j...] = x[j...], with index 0 along the dimensions of x that have size 1\n\n"
                "Returns the shape asked for, whose last sizes are those of x or replace a 1; no element is copied.\n\n"
                "Source: semantics of torch.Tensor.expand and torch.broadcast_to.");
  schema.tensor("x", "any shape, any dtype")
      .batched(Batch::broadcast)
      .required(attr::shape, "the new shape, of at least the rank of x; -1 keeps a size of x")
      .axis(attr::shape, AxisRule::Meaning::sizes)
      .result(Result("y").like("x"));
  schema.renaming = Renaming::repeat;
  schema.same_if_alike = true;
  schema.keeps_finite = true;
  schema.zeros = Zeros::where_all;
  schema.infer = infer_expand;
  schema.view = view_expand;
  schema.gradient = [](Derivation& d) { d.give(0, d.summed_to(d.gradient(), d.op().in(0).shape)); };
  schema.flops = [](const Op&) { return 0.0; };
  return schema;
}

PL_REGISTER_OP(expand);

}  // namespace
}  // namespace pl
