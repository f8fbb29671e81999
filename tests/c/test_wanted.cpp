// Listings asked for one candidate: it is the one that the whole listing has, and graphs of other sizes get it.
#include "dispatch/catalog.h"
#include "graph/states.h"
#include "graph_testing.h"

using namespace pl;
using namespace pltest;

namespace {

// How many ways there are; each is asked for alone.
int check(const char* name, const std::string& attributes, const std::vector<Dims>& shapes) {
  Device& cpu = context().device("cpu");
  std::vector<TensorDesc> inputs;
  for (const Dims& shape : shapes) inputs.push_back(shape.size() ? TensorDesc::dense(DType::f32, shape) : TensorDesc());
  const Op op = make_op(*find_schema(name), Attributes::parse(attributes), inputs);
  const EntryRef all = context().catalog().entry(op, cpu, 1);
  CHECK(!all->follows());
  for (const Way& way : all->ways) {
    const Candidate& candidate = way.candidate;
    CHECK(candidate.dense_key() == candidate.key());
    const Wanted wanted(candidate.dense_key());
    CHECK(wanted.provider() == candidate.provider && wanted.implementation() == candidate.implementation);
    for (size_t i = 0; i < candidate.inputs.size(); ++i) CHECK(wanted.takes(i, candidate.inputs[i]));
    for (size_t i = 0; i < candidate.outputs.size(); ++i) CHECK(wanted.gives(i, candidate.outputs[i]));
    CHECK(!wanted.takes(candidate.inputs.size(), candidate.inputs[0]) && !wanted.gives(9, candidate.outputs[0]));
    const EntryRef one = context().catalog().following(op, cpu, wanted.key(), 1);
    CHECK(one->follows() && one != all);
    CHECK(one->ways.size() == 1);
    if (one->ways.empty()) continue;
    const Candidate& same = one->ways[0].candidate;
    CHECK(same.key() == candidate.key() && same.inputs == candidate.inputs && same.outputs == candidate.outputs);
    CHECK(same.workspace_bytes == candidate.workspace_bytes && same.in_place == candidate.in_place);
    CHECK(same.packings.size() == candidate.packings.size() && bool(same.prepare) == bool(candidate.prepare));
  }
  CHECK(context().catalog().following(op, cpu, "host/none of these/ab>ab", 1)->ways.empty());
  return int(all->ways.size());
}

TEST("one candidate of many") {
  CHECK(check("conv2d", "padding=[1,1]", {{1, 32, 9, 7}, {48, 32, 3, 3}, {48}}) > 5);
  CHECK(check("conv2d", "activation=\"relu\"", {{2, 17, 5, 6}, {13, 17, 1, 1}, {13}, {2, 13, 5, 6}}) > 1);
  CHECK(check("conv2d", "groups=32 padding=[1,1]", {{1, 32, 8, 8}, {32, 1, 3, 3}}) > 1);
  CHECK(check("conv2d", "stride=[2,2]", {{1, 3, 16, 16}, {16, 3, 4, 4}, {16}}) > 1);
  CHECK(check("conv_transpose2d", "stride=[2,2]", {{1, 32, 4, 5}, {32, 16, 2, 2}, {16}}) > 1);
  CHECK(check("conv_transpose2d", "groups=32 activation=\"relu\"", {{1, 32, 4, 5}, {32, 1, 3, 3}, {32}}) > 1);
  CHECK(check("linear", "", {{5, 64}, {128, 64}, {128}}) > 3);
  CHECK(check("linear", "activation=\"gelu\"", {{2, 3, 48}, {64, 48}, {64}, {2, 3, 64}}) > 1);
  CHECK(check("matmul", "transpose_b=true", {{2, 7, 16}, {2, 9, 16}}) > 0);
  CHECK(check("max_pool2d", "kernel_size=[3,3]", {{2, 32, 7, 9}}) > 1);
  CHECK(check("layer_norm", "normalized_shape=[48]", {{2, 5, 48}, {48}, {48}}) > 0);
  CHECK(check("softmax", "dim=1", {{3, 17, 5}}) > 1);
  CHECK(check("add", "", {{2, 32, 5, 3}, {2, 32, 5, 3}}) > 1);
  CHECK(check("relu", "", {{1, 1, 1, 1}}) > 0);
  CHECK(check("concat", "dim=1", {{1, 16, 3, 3}, {1, 32, 3, 3}}) > 1);
}

// A branch that is joined with what it began from: its ends may be written where they lie in the result.
Graph joined(int64_t side) {
  return graph_of([&](GraphMaker& b) {
    const ValueId x = b.input({1, 32, side, side});
    const ValueId first = b.add("conv2d", {x, b.constant({32, 32, 1, 1})});
    const ValueId second = b.add("conv2d", {first, b.constant({32, 32, 1, 1})});
    return b.add("concat", {first, second}, "dim=1");
  });
}

TEST("graphs of other sizes") {
  StateOptions options;
  options.device = &context().device("cpu");
  const Graph first = joined(8), other = joined(11);
  const auto nodes = list_states(first, context(), options);
  const auto whole = list_states(other, context(), options);
  int views = 0;
  for (size_t pick = 0; pick < 40; ++pick) {
    StateOptions like = options;
    for (const NodeStates& node : nodes) like.like.push_back(&node.states[pick % node.states.size()]);
    const auto listed = list_states(other, context(), like);
    REQUIRE(listed.size() == nodes.size());
    for (size_t n = 0; n < listed.size(); ++n) {
      const State& wanted = *like.like[n];
      if (!wanted.way) {  // a concat in place
        CHECK(listed[n].states.size() > 1);
        continue;
      }
      const auto has = std::count_if(whole[n].states.begin(), whole[n].states.end(),
                                     [&](const State& state) { return is_same_choice(state, wanted); });
      for (const State& state : listed[n].states)
        CHECK(is_same_choice(state, wanted) || listed[n].states.size() > size_t(has));
      // A strided view to read is there only where the node before writes one.
      const bool reads_whole = std::all_of(wanted.inputs.begin(), wanted.inputs.end(),
                                           [](const TensorDesc& desc) { return !desc.present || desc.is_dense(); });
      if (has && reads_whole) CHECK(listed[n].states.size() == size_t(has));
      views += has && !wanted.outputs[0].is_dense();
    }
  }
  CHECK(views > 0);
}

}  // namespace
