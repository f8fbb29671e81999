// A plan's memory limit covers weights: packed forms count, those that save most time for their bytes stay.
#include <cstring>
#include <string>

#include "dispatch/catalog.h"
#include "dispatch/context.h"
#include "dispatch/cost_database.h"
#include "graph/plan.h"
#include "graph_testing.h"

using namespace pl;
using namespace pltest;

namespace {

constexpr size_t kWeight = 64 << 10, kWide = 4 * kWeight;  // bytes of a weight as it is given, and packed

// Makes each op another one; no op of the library has it.
constexpr Key<int64_t> kNumber{"number"};

// y = x, with a weight that two implementations read: "plain" as it lies, "wide" in a form of four times the bytes.
Schema make_weighty() {
  Schema schema("test_weighty", "test_weighty", "y = x");
  schema.tensor("x", "any").tensor("w", "any").attribute(kNumber, int64_t(0), "of the op");
  schema.infer = [](Op& op) { op.outputs = {TensorDesc::dense(op.in(0).dtype, op.in(0).shape)}; };
  return schema;
}
PL_REGISTER_OP(make_weighty);

class CopyKernel : public Kernel {
 public:
  void run(const KernelArguments& arguments) override {
    std::memcpy(arguments.outputs[0]->host(), arguments.inputs[0]->host(), 64);
  }
};

class WeightyProvider : public Provider {
 public:
  std::string name() const override { return "weighty"; }
  std::string version() const override { return "1"; }
  bool serves(const Device& device) const override { return device.traits().threads; }
  void list(const Op& op, Device&, CandidateList& out) override {
    if (op.schema->kind != "test_weighty") return;
    for (const bool wide : {false, true}) {
      Candidate candidate;
      candidate.provider = "weighty";
      candidate.implementation = wide ? "wide" : "plain";
      candidate.inputs = {op.in(0), op.in(1)};
      candidate.outputs = {op.out(0)};
      if (wide)
        candidate.packings.push_back({1, "wide", kWide, [](Buffer& source, Buffer& packed) {
                                        std::memcpy(packed.host(), source.host(), kWeight);
                                      }});
      candidate.prepare = [] { return std::make_unique<CopyKernel>(); };
      out.add(candidate);
    }
  }
};
const ProviderRegistration registered("weighty", [] { return std::make_unique<WeightyProvider>(); });

std::shared_ptr<Context> context_without_disk() {
  ContextOptions options;
  options.cache_dir = "/proc/none";
  options.without = {"opencl"};
  return Context::create(options);
}

// Four ops in a row; the wide form saves op k (k + 1) * 0.05 ms.
Graph weighty_graph(Context& context, bool same_weight) {
  Graph graph;
  ValueId x = graph.input("x", TensorDesc::dense(DType::f32, {1, 16}));
  ValueId w = kNoValue;
  for (int k = 0; k < 4; ++k) {
    if (!same_weight || w == kNoValue) {
      const TensorRef weight =
          Tensor::allocate(context.host(), TensorDesc::dense(DType::f32, {16, int64_t(kWeight / 64)}));
      std::memset(weight->buffer()->host(), k + 1, kWeight);
      w = graph.constant("w" + std::to_string(k), weight);
    }
    Attributes attributes;
    attributes.set(kNumber, int64_t(k));
    x = graph.add(*find_schema("test_weighty"), attributes, {x, w}, "op" + std::to_string(k))[0];
    const EntryRef entry = context.catalog().entry(graph.op(graph.node(size_t(k))), context.device("cpu"), 1);
    for (const Way& way : entry->ways)
      context.costs().record(way.environment, entry->text, way.key,
                             way.candidate.implementation == "wide" ? 0.01 : 0.01 + 0.05 * (k + 1));
  }
  context.catalog().forget_costs();
  graph.output(x, "y", std::nullopt);
  return graph;
}

PlanOptions options_with(size_t limit, Tuning tuning = Tuning::off) {
  PlanOptions options;
  options.device = "cpu";
  options.threads = 1;
  options.tuning = tuning;
  options.memory_limit = limit;
  return options;
}

size_t number_in(const std::string& text, const std::string& before) {
  const size_t at = text.find(before);
  REQUIRE(at != std::string::npos);
  return std::stoul(text.substr(at + before.size()));
}

size_t bytes_of(const Plan& plan, const std::string& key) {
  const std::string text = plan.summary_json();
  return number_in(text.substr(text.find("\"memory\"")), "\"" + key + "\":");
}

bool is_wide(const Plan& plan, int op) {
  return plan.explain().find("op" + std::to_string(op) + " (test_weighty): weighty/wide") != std::string::npos;
}

TEST("packed_weights_count_and_those_that_save_most_stay") {
  const auto context = context_without_disk();
  const Graph graph = weighty_graph(*context, false);
  const auto unlimited = Plan::compile(context, graph, options_with(0));
  for (int k = 0; k < 4; ++k) CHECK(is_wide(*unlimited, k));
  // What the wide forms are made of stays.
  CHECK(bytes_of(*unlimited, "constant_bytes") == 4 * (kWide + kWeight));
  const size_t beside = bytes_of(*unlimited, "bytes") - bytes_of(*unlimited, "constant_bytes");
  for (int wide = 0; wide <= 4; ++wide) {
    const size_t needed = beside + 4 * kWeight + size_t(wide) * kWide;
    const auto plan = Plan::compile(context, graph, options_with(needed));
    for (int k = 0; k < 4; ++k) CHECK(is_wide(*plan, k) == (k >= 4 - wide));
    CHECK(bytes_of(*plan, "bytes") == needed);
    if (wide == 0) continue;
    const auto below = Plan::compile(context, graph, options_with(needed - 1));
    CHECK(bytes_of(*below, "bytes") == needed - kWide);
  }
}

TEST("where_nothing_fits_the_error_says_what_is_needed") {
  const auto context = context_without_disk();
  const Graph graph = weighty_graph(*context, false);
  const size_t least = bytes_of(*Plan::compile(context, graph, options_with(1 << 30)), "bytes") - 4 * kWide;
  for (const size_t limit : {size_t(1000), least - 1}) {
    for (const Tuning tuning : {Tuning::off, Tuning::automatic}) {
      try {
        Plan::compile(context, graph, options_with(limit, tuning));
        REQUIRE(false);
      } catch (const Error& error) {
        const std::string text = error.what();
        CHECK(error.code() == Code::out_of_memory);
        CHECK(number_in(text, "memory_limit is ") == limit);
        CHECK(number_in(text, "can be run in here is ") == least);
        CHECK(number_in(text, "(weights ") == 4 * kWeight);
      }
    }
  }
  CHECK(bytes_of(*Plan::compile(context, graph, options_with(least)), "bytes") == least);
}

TEST("a_form_that_ops_share_counts_once") {
  const auto context = context_without_disk();
  const auto plan = Plan::compile(context, weighty_graph(*context, true), options_with(0));
  for (int k = 0; k < 4; ++k) CHECK(is_wide(*plan, k));
  CHECK(bytes_of(*plan, "constant_bytes") == kWide + kWeight);
}

}  // namespace
