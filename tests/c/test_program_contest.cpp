// The contest of programs: what running programs corrects in costs that were measured badly, and that measuring ends in
// time.
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "core/samples.h"
#include "dispatch/catalog.h"
#include "dispatch/context.h"
#include "dispatch/cost_database.h"
#include "graph/plan.h"
#include "graph/step_times.h"
#include "graph_testing.h"

using namespace pl;
using namespace pltest;

namespace {

// Makes each op another one; no op of the library has it.
constexpr Key<int64_t> kNumber{"number"};

// y = x after some work: by "swift" as good as none, by "tardy" of a quarter of a millisecond.
Schema make_work() {
  Schema schema("test_work", "test_work", "y = x");
  schema.tensor("x", "any").attribute(kNumber, int64_t(0), "makes each op another one");
  schema.infer = [](Op& op) { op.outputs = {TensorDesc::dense(op.in(0).dtype, op.in(0).shape)}; };
  return schema;
}
PL_REGISTER_OP(make_work);

// The same in any of two layouts, which take it a tenth of a millisecond each.
Schema make_either() {
  Schema schema = make_work();
  schema.name = schema.kind = "test_either";
  return schema;
}
PL_REGISTER_OP(make_either);

// The same by "even", which promises more, of four milliseconds, and by "moody": of one where the same op ran before, of
// ten where another one did.
Schema make_moody() {
  Schema schema = make_work();
  schema.name = schema.kind = "test_moody";
  return schema;
}
PL_REGISTER_OP(make_moody);

class WorkKernel : public Kernel {
 public:
  explicit WorkKernel(std::chrono::microseconds time) : time_(time) {}
  void run(const KernelArguments& arguments) override {
    const auto begin = std::chrono::steady_clock::now();
    std::memcpy(arguments.outputs[0]->host(), arguments.inputs[0]->host(), 64);
    while (std::chrono::steady_clock::now() - begin < time_) {
    }
  }

 private:
  std::chrono::microseconds time_;
};

int64_t ran_last = -1;  // the number of the op

class MoodyKernel : public Kernel {
 public:
  MoodyKernel(int64_t number, bool even) : number_(number), even_(even) {}
  void run(const KernelArguments& arguments) override {
    const int ms = even_ ? 4 : ran_last == number_ ? 1 : 10;
    ran_last = number_;
    WorkKernel(std::chrono::milliseconds(ms)).run(arguments);
  }

 private:
  int64_t number_;
  bool even_;
};

Candidate work(const Op& op, const char* provider, const char* implementation, int microseconds) {
  Candidate candidate;
  candidate.provider = provider;
  candidate.implementation = implementation;
  candidate.inputs = {op.in(0).with_layout(Layout::plain(op.in(0).rank()))};
  candidate.outputs = {op.out(0)};
  candidate.prepare = [microseconds] { return std::make_unique<WorkKernel>(std::chrono::microseconds(microseconds)); };
  return candidate;
}

class WorkProvider : public Provider {
 public:
  std::string name() const override { return "work"; }
  std::string version() const override { return "1"; }
  bool serves(const Device& device) const override { return device.traits().threads; }
  void list(const Op& op, Device&, CandidateList& out) override {
    if (op.schema->kind == "test_either")
      for (const Layout& layout : {Layout::plain(4), Layout::channels_last(4)}) {
        Candidate candidate = work(op, "work", "either", 100);
        candidate.inputs = {op.in(0).with_layout(layout)};
        candidate.outputs = {op.out(0).with_layout(layout)};
        out.add(candidate);
      }
    if (op.schema->kind == "test_moody")
      for (const bool even : {false, true}) {
        Candidate candidate = work(op, "work", even ? "even" : "moody", 1);
        candidate.efficiency = even ? 1 : 0.1;
        candidate.prepare = [number = op.attributes[kNumber], even] {
          return std::make_unique<MoodyKernel>(number, even);
        };
        out.add(candidate);
      }
    if (op.schema->kind != "test_work") return;
    if (op.attributes[kNumber] == 100) {
      for (const size_t bytes : {size_t(1) << 20, size_t(1) << 16, size_t(0)}) {
        Candidate candidate = work(op, "work", bytes == 0 ? "frugal" : bytes > 1 << 16 ? "lavish" : "modest", 1);
        candidate.workspace_bytes = bytes;
        out.add(candidate);
      }
      return;
    }
    out.add(work(op, "work", "tardy", 250));
    out.add(work(op, "work", "swift", 1));
  }
};
const ProviderRegistration work_registered("work", [] { return std::make_unique<WorkProvider>(); });

int compiled = 0;
class CompilingProvider : public Provider {
 public:
  std::string name() const override { return "compiling"; }
  std::string version() const override { return "1"; }
  bool serves(const Device& device) const override { return device.traits().threads; }
  bool compiles() const override { return true; }
  void list(const Op& op, Device&, CandidateList& out) override {
    if (op.schema->kind != "test_work") return;
    Candidate candidate = work(op, "compiling", "compiled", 20);
    candidate.efficiency = 1;  // promises more than the others
    candidate.prepare = [] {
      ++compiled;
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      return std::make_unique<WorkKernel>(std::chrono::microseconds(20));
    };
    out.add(candidate);
  }
};
const ProviderRegistration compiling_registered("compiling", [] { return std::make_unique<CompilingProvider>(); });

std::shared_ptr<Context> context_without_disk() {
  ContextOptions options;
  options.cache_dir = "/proc/none";
  options.without = {"opencl"};
  return Context::create(options);
}

Graph chain_of(int ops, const char* kind = "test_work") {
  Graph graph;
  ValueId x = graph.input("x", TensorDesc::dense(DType::f32, {4, 16}));
  for (int i = 0; i < ops; ++i) {
    Attributes attributes;
    attributes.set(kNumber, int64_t(i));
    x = graph.add(*find_schema(kind), attributes, {x}, "work" + std::to_string(i))[0];
  }
  graph.output(x, "y", std::nullopt);
  return graph;
}

int count(const Plan& plan, const std::string& text) {
  const std::string whole = plan.explain();
  int times = 0;
  for (size_t at = whole.find(text); at != std::string::npos; at = whole.find(text, at + 1)) ++times;
  return times;
}

// Costs as a busy machine may have measured them: the swift one was disturbed.
TEST("a_disturbed_measurement_does_not_decide") {
  const auto context = context_without_disk();
  Catalog& catalog = context->catalog();
  Device& cpu = context->device("cpu");
  const Graph graph = chain_of(4);
  for (size_t i = 0; i < 3; ++i) {  // the last one is not known, so there is something to measure
    const EntryRef entry = catalog.entry(graph.op(graph.node(i)), cpu, 1);
    for (const Way& way : entry->ways) {
      const double ms = way.candidate.implementation == "swift" ? 0.4 : way.candidate.provider == "work" ? 0.25 : 9;
      context->costs().record(way.environment, entry->text, way.key, ms);
    }
  }
  catalog.forget_costs();
  PlanOptions options;
  options.device = "cpu";
  options.threads = 1;
  options.seconds = 10;
  const auto off = [&] {
    PlanOptions known = options;
    known.tuning = Tuning::off;
    return Plan::compile(context, graph, known);
  };
  CHECK(count(*off(), "work/tardy") >= 3);
  const auto plan = Plan::compile(context, graph, options);
  CHECK(count(*plan, "): work/swift") == 4);
  CHECK(plan->summary_json().find("other implementations") != std::string::npos);
  // All is known now: nothing is put to the test that was not chosen.
  CHECK(Plan::compile(context, graph, options)->summary_json().find("other implementations") == std::string::npos);
}

// Costs of ops alone prefer a program that is slower than what estimates make, and there is time for a few rounds only.
TEST("no_program_by_costs_alone_is_slower_than_the_untuned_one") {
  const int ops = 40;  // a round takes 0.6 s
  PlanOptions options;
  options.device = "cpu";
  options.threads = 1;
  options.tuning = Tuning::off;
  CHECK(count(*Plan::compile(context_without_disk(), chain_of(ops, "test_moody"), options), "): work/even") == ops);
  options.tuning = Tuning::automatic;
  options.seconds = 4;
  const auto plan = Plan::compile(context_without_disk(), chain_of(ops, "test_moody"), options);
  CHECK(count(*plan, "): work/even") == ops);
}

// Costs that differ by less than they are known buy no reorders, however cheap those are.
TEST("noise_buys_no_reorders") {
  Graph graph;
  ValueId x = graph.input("x", TensorDesc::dense(DType::f32, {1, 16, 4, 4}));
  for (int i = 0; i < 8; ++i) {
    Attributes attributes;
    attributes.set(kNumber, int64_t(i));
    x = graph.add(*find_schema("test_either"), attributes, {x}, "work" + std::to_string(i))[0];
  }
  graph.output(x, "y", std::nullopt);
  PlanOptions options;
  options.device = "cpu";
  options.threads = 1;
  options.seconds = 10;
  const auto reorders = [&](double faster, Tuning tuning) {
    const auto context = context_without_disk();
    Catalog& catalog = context->catalog();
    for (size_t i = 0; i < graph.nodes().size(); ++i) {
      const EntryRef entry = catalog.entry(graph.op(graph.node(i)), context->device("cpu"), 1);
      REQUIRE(entry->ways.size() == 2);
      for (const Way& way : entry->ways)
        context->costs().record(way.environment, entry->text, way.key,
                                way.candidate.outputs[0].layout.is_plain() == (i % 2 == 0) ? faster : 0.1);
    }
    catalog.forget_costs();
    options.tuning = tuning;
    return count(*Plan::compile(context, graph, options), "reorder of ");
  };
  CHECK(reorders(0.05, Tuning::off) == 7);  // if the costs were true, it would pay
  CHECK(reorders(0.095, Tuning::off) == 0);
  CHECK(reorders(0.095, Tuning::automatic) == 0);
}

// Less workspace where there are no images to cut.
TEST("a_memory_limit_takes_lighter_ways") {
  const auto context = context_without_disk();
  Graph graph;
  Attributes attributes;
  attributes.set(kNumber, int64_t(100));
  ValueId x = graph.input("x", TensorDesc::dense(DType::f32, {1, 256}));
  for (int i = 0; i < 3; ++i) x = graph.add(*find_schema("test_work"), attributes, {x}, "work" + std::to_string(i))[0];
  graph.output(x, "y", std::nullopt);
  const EntryRef entry = context->catalog().entry(graph.op(graph.node(0)), context->device("cpu"), 1);
  for (const Way& way : entry->ways)
    context->costs().record(way.environment, entry->text, way.key,
                            way.candidate.workspace_bytes > 1 << 16    ? 0.1
                            : way.candidate.workspace_bytes            ? 0.2
                            : way.candidate.implementation == "frugal" ? 0.3
                                                                       : 9.0);
  context->catalog().forget_costs();
  PlanOptions options;
  options.device = "cpu";
  options.threads = 1;
  for (const Tuning tuning : {Tuning::off, Tuning::automatic}) {
    options.tuning = tuning;
    const auto expect = [&](size_t limit, const char* way) {
      options.memory_limit = limit;
      const auto plan = Plan::compile(context, graph, options);
      if (tuning == Tuning::off) CHECK(count(*plan, way) == 3);
      if (limit) CHECK(count(*plan, "): work/lavish") == 0);
    };
    if (tuning == Tuning::off) expect(0, "): work/lavish");
    expect(1 << 19, "): work/modest");
    expect(1 << 15, "): work/frugal");
    try {
      expect(100, "");
      REQUIRE(false);
    } catch (const Error& error) {
      CHECK(error.code() == Code::out_of_memory);
      CHECK(std::string(error.what()).find("memory_limit is 100 bytes, the least that this graph") !=
            std::string::npos);
    }
  }
}

TEST("time_runs_out_for_what_must_be_compiled_first") {
  const auto context = context_without_disk();
  const int ops = 20;  // six seconds of compiling
  PlanOptions options;
  options.device = "cpu";
  options.threads = 1;
  options.seconds = 2;
  compiled = 0;
  const auto plan = Plan::compile(context, chain_of(ops), options);
  CHECK(compiled < ops);
  CHECK(count(*plan, "): work/swift") == ops);
}

TEST("programs_seem_faster_by_as_many_runs_of_each") {
  StepTimes one, other;
  CHECK(!seems_faster(one, other));
  one.add(5, {2, 3});
  CHECK(!seems_faster(one, other));
  CHECK(!seems_faster(other, one));
  other.add(6, {1, 5});
  CHECK(seems_faster(one, other));
  CHECK(!seems_faster(other, one));
  other.add(5, {4, 1});
  CHECK(seems_faster(one, other));  // by one run of each
  one.add(18, {9, 9});
  CHECK(!seems_faster(one, other));
  CHECK(seems_faster(other, one));
  StepTimes whole, faster;  // steps are not timed
  whole.add(3, {});
  faster.add(2, {});
  CHECK(seems_faster(faster, whole));
  CHECK(!seems_faster(whole, faster));
}

TEST("samples") {
  CHECK(std::isinf(typical({})));
  CHECK(std::isinf(least_of({})));
  CHECK(typical({3, 2}) == 2);
  CHECK(typical({5, 1, 4, 2, 3}) == 2);  // one lucky run does not count
  CHECK(least_of({5, 1, 4, 2, 3}) == 1);
  std::vector<double> many;
  for (int i = 40; i > 0; --i) many.push_back(i);
  CHECK(typical(many) == 6);
  CHECK(is_steady({1, 1.05, 9}));
  CHECK(!is_steady({1, 1.2, 9}));
}

}  // namespace
