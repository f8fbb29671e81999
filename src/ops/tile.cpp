// tile: a tensor repeated along its dimensions.
#include <algorithm>

#include "ops/gradient.h"

namespace pl {
namespace {

void infer_tile(Op& op) {
  const Dims& x = op.in(0).shape;
  std::vector<int64_t> dims = op.attributes[attr::dims];
  check(op, dims.size() <= size_t(kMaxRank), Code::invalid_argument, "dims has ", dims.size(),
        " values, expected at most ", kMaxRank);
  if (dims.size() < size_t(x.size())) dims.insert(dims.begin(), size_t(x.size()) - dims.size(), 1);
  const int added = int(dims.size()) - x.size();
  Dims output;
  for (int i = 0; i < int(dims.size()); ++i) {
    check(op, dims[size_t(i)] >= 0, Code::invalid_argument, "dims[", i, "] is ", dims[size_t(i)],
          ", expected at least 0");
    output.push_back(safe_product(op, "the output's size", {dims[size_t(i)], i < added ? 1 : x[i - added]}));
  }
  op.attributes.set(attr::dims, dims);
  add_output(op, output);
}

Schema tile() {
  Schema schema("tile", "tile",
                "A tensor repeated along its dimensions.\n\n"
                "y[i, j, ...] = x[i mod x.shape[0], j mod x.shape[1], ...]\n\n"
                "Returns the shape x.shape[i] * dims[i]; where one of the two is shorter, ones are put before it.\n\n"
                "Source: semantics of torch.tile and numpy.tile.");
  schema.tensor("x", "any shape, any dtype")
      .required(attr::dims, "how many times along each dimension, at least 0")
      .result(Result("y").like("x"));
  schema.same_if_alike = true;
  schema.repeats = true;
  schema.infer = infer_tile;
  schema.gradient = [](Derivation& d) {
    const Dims& x = d.op().in(0).shape;
    const std::vector<int64_t>& times = d.op().attributes[attr::dims];
    const Dims& y = d.op().out().shape;
    const int added = y.size() - x.size();
    // Before and after each sum: what is summed already, a factor and what follows it, and the same again.  Three
    // factors at a time, as tensors have at most eight dimensions.
    constexpr size_t kTogether = 3;
    Derivation::Value g = d.gradient();
    Dims apart{1};
    std::vector<int64_t> dims;
    const auto sum = [&](int next) {  // `next`: the first dimension whose factor is still in g
      Dims whole = apart;
      for (int i = next; i < y.size(); ++i) whole[whole.size() - 1] *= y[i];
      g = d.summed(d.reshaped(g, whole), dims, false);
      int64_t done = 1;
      for (int i = 0; i < apart.size(); ++i)
        if (std::find(dims.begin(), dims.end(), i) == dims.end()) done *= apart[i];
      apart = Dims{done};
      dims.clear();
    };
    for (int i = 0; i < y.size(); ++i) {
      const int64_t own = i < added ? 1 : x[i - added];
      if (times[size_t(i)] == 1) {
        apart[apart.size() - 1] *= own;
        continue;
      }
      if (dims.size() == kTogether) sum(i);
      dims.push_back(apart.size());
      apart.push_back(times[size_t(i)]);
      apart.push_back(own);
    }
    if (!dims.empty()) sum(y.size());
    d.give(0, d.reshaped(g, x));
  };
  schema.flops = [](const Op&) { return 0.0; };
  return schema;
}

PL_REGISTER_OP(tile);

}  // namespace
}  // namespace pl
