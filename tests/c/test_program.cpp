// Packed constants, which the programs of a plan's variants share.
#include "graph/program.h"

#include "graph_testing.h"

using namespace pl;
using namespace pltest;

namespace {

// Two graphs number the same tensors differently, as a plan's variants do: each value must get its own.
TEST("constants_of_two_graphs") {
  const TensorRef first = random_tensor({4, 4}, 1), second = random_tensor({4, 4}, 2);
  Graph one, other;
  const ValueId a = one.constant("first", first), b = one.constant("second", second);
  const ValueId c = other.constant("second", second), d = other.constant("first", first);
  CHECK(a == c);
  CHECK(b == d);
  PackedConstants constants(context());
  Device& cpu = context().device("cpu");
  const TensorDesc wanted = TensorDesc::dense(DType::f32, {4, 4}, Layout::parse("ba"));
  const auto of = [&](const Graph& graph, ValueId value) {
    const TensorRef packed = constants.tensor(graph, value, wanted, cpu, "test");
    CHECK(packed->desc() == wanted);
    std::vector<float> values(16);
    context().read(packed, values.data(), 64);
    return values;
  };
  const auto plain = [&](const TensorRef& tensor) {
    std::vector<float> values(16);
    context().read(tensor, values.data(), 64);
    return values;
  };
  CHECK(of(one, a) == plain(first));
  CHECK(of(other, c) == plain(second));
  CHECK(of(one, b) == plain(second));
  CHECK(of(other, d) == plain(first));
  // Packed once for both graphs.
  CHECK(constants.tensor(one, a, wanted, cpu, "test") == constants.tensor(other, d, wanted, cpu, "test"));
}

}  // namespace
