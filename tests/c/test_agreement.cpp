// Dispatch that checks itself: one logical tensor in every layout, results held against each other, and candidates
// with injected faults, none of which may ever be chosen.
#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "candidates.h"
#include "check.h"
#include "dispatch/agreement.h"
#include "dispatch/catalog.h"
#include "dispatch/context.h"
#include "dispatch/cost_database.h"
#include "dispatch/sample_data.h"
#include "graph/plan.h"
#include "temporary_folder.h"

using namespace pl;

namespace {

Schema make_negated() {
  Schema schema("test_negated", "test_negated", "y = -x");
  schema.tensor("x", "any");
  schema.infer = [](Op& op) { op.outputs = {TensorDesc::dense(op.in(0).dtype, op.in(0).shape)}; };
  return schema;
}
PL_REGISTER_OP(make_negated);

// What is wrong with a candidate of the op.
enum class Fault { none, everywhere, last_channel, unwritten, not_a_number };

class NegatedKernel : public Kernel {
 public:
  NegatedKernel(TensorDesc desc, Fault fault, int work) : desc_(std::move(desc)), fault_(fault), work_(work) {}
  void run(const KernelArguments& arguments) override {
    const float* x = static_cast<const float*>(arguments.inputs[0]->host());
    float* y = static_cast<float*>(arguments.outputs[0]->host());
    for (int pass = 0; pass < work_; ++pass) {
      if (fault_ == Fault::unwritten) continue;
      for (int64_t i = 0; i < desc_.extent(); ++i) y[i] = fault_ == Fault::everywhere ? -1.01f * x[i] : -x[i];
    }
    if (fault_ != Fault::last_channel && fault_ != Fault::not_a_number) return;
    pltest::for_each(desc_.shape, [&](const Dims& index, size_t) {
      if (index[1] + 1 == desc_.shape[1])
        y[desc_.offset_of(index)] = fault_ == Fault::not_a_number ? NAN : 2 * y[desc_.offset_of(index)];
    });
  }

 private:
  TensorDesc desc_;
  Fault fault_;
  int work_;
};

struct Offer {
  const char* layout;
  Fault fault;
  int work = 8;  // passes: the more, the slower
  bool reference = false;
};
std::vector<Offer> offers;

class NegatingProvider : public Provider {
 public:
  std::string name() const override { return "negating"; }
  std::string version() const override { return "1"; }
  bool serves(const Device& device) const override { return device.traits().threads; }
  void list(const Op& op, Device&, CandidateList& out) override {
    if (op.schema->kind != "test_negated") return;
    for (size_t i = 0; i < offers.size(); ++i) {
      const Offer& offer = offers[i];
      Candidate candidate;
      candidate.provider = name();
      candidate.implementation = "way" + std::to_string(i);
      candidate.reference = offer.reference;
      candidate.inputs = {op.in(0).with_layout(Layout::parse(offer.layout))};
      candidate.outputs = {op.out(0).with_layout(Layout::parse(offer.layout))};
      candidate.prepare = [desc = candidate.inputs[0], offer] {
        return std::make_unique<NegatedKernel>(desc, offer.fault, offer.work);
      };
      out.add(candidate);
    }
  }
};
const ProviderRegistration registered("negating", [] { return std::make_unique<NegatingProvider>(); });

// "/proc/none": nothing on disk.
std::shared_ptr<Context> context_in(const std::string& directory) {
  ContextOptions options;
  options.cache_dir = directory;
  options.tuning = Tuning::full;
  options.without = {"opencl"};
  return Context::create(options);
}

EntryRef entry_of(Context& context) {
  const Op op = make_op(*find_schema("test_negated"), {}, {TensorDesc::dense(DType::f32, {2, 35, 24, 24})});
  return context.catalog().entry(op, context.device("cpu"));
}

size_t refused(Context& context, Entry& entry) {
  size_t count = 0;
  for (const Refusal& refusal : context.catalog().refusals(entry))
    count += refusal.reason.find("wrong") != std::string::npos;
  return count;
}

TEST("one_tensor_in_every_layout") {
  const Dims shape{3, 35, 9, 5};
  for (DType dtype : {DType::f32, DType::f16, DType::bf16, DType::s8, DType::u8, DType::s32, DType::s64}) {
    SampleRange range;
    range.least = 2, range.largest = 90;
    std::vector<double> plain;
    for (const char* name : {"NCHW", "NHWC", "nChw16c", "nChw8c", "cdba", "ABcd4b2a8b"}) {
      const TensorDesc desc = TensorDesc::dense(dtype, shape, Layout::parse(name));
      std::vector<char> bytes(desc.size_bytes() + 8, char(0x5a));
      write_sample(desc, range, 3, bytes.data());
      std::vector<double> values;
      double padding = 0, total = 0;
      pltest::for_each(shape, [&](const Dims& index, size_t) {
        values.push_back(pltest::load(dtype, bytes.data() + size_t(desc.offset_of(index)) * size_of(dtype)));
      });
      for (int64_t i = 0; i < desc.extent(); ++i)
        total += pltest::load(dtype, bytes.data() + size_t(i) * size_of(dtype));
      for (double value : values) padding -= value;
      if (plain.empty()) plain = values;
      CHECK(values == plain);
      CHECK(std::fabs(padding + total) < 1e-3);  // padding is zero
      for (size_t i = desc.size_bytes(); i < bytes.size(); ++i) CHECK(bytes[i] == 0x5a);
      for (double value : values)
        CHECK(is_floating(dtype) ? value >= 0.49 && value <= 1.51 : value >= 2 && value <= 90);
    }
    const double first = plain[0];
    size_t different = 0;
    for (double value : plain) different += value != first;
    CHECK(different > plain.size() / 2);
  }
}

TEST("a_strided_tensor_keeps_what_lies_between") {
  const TensorDesc dense = TensorDesc::dense(DType::f32, {4, 6});
  TensorDesc strided = TensorDesc::strided(DType::f32, {4, 6}, {20, 2});
  strided.offset = 3;
  std::vector<float> a(24), b(size_t(strided.extent()), -7);
  write_sample(dense, {}, 1, reinterpret_cast<char*>(a.data()));
  write_sample(strided, {}, 1, reinterpret_cast<char*>(b.data()));
  size_t untouched = 0;
  for (float value : b) untouched += value == -7;
  CHECK(untouched == b.size() - 24);
  for (int64_t i = 0; i < 4; ++i)
    for (int64_t j = 0; j < 6; ++j) CHECK(a[size_t(i * 6 + j)] == b[size_t(strided.offset_of({i, j}))]);
}

TEST("groups") {
  const std::vector<double> right{1, 2, 3}, near{1.000001, 2, 3}, wrong{1, 2, 4}, broken{1, NAN, 3};
  Agreement a = agree({right, wrong, near, {}}, {1, 1, 1, 1}, 1e-4);
  CHECK(a.representative == 0);
  CHECK(a.outlier == std::vector<bool>({false, true, false, false}));
  CHECK(a.error[1] > 0.1);
  CHECK(agree({right, wrong}, {1, 1}, 1e-4).representative == -1);
  CHECK(agree({wrong, right}, {1, 2}, 1e-4).representative == 1);
  a = agree({right, broken, near}, {1, 1, 1}, 1e-4);
  CHECK(a.outlier[1]);
  CHECK(std::isinf(a.error[1]));
  CHECK(difference(broken, broken) == 0);
}

// Whichever candidate is wrong, in whatever way and however fast it is, it is refused with its figures.
TEST("a_wrong_candidate_is_never_chosen") {
  for (Fault fault : {Fault::everywhere, Fault::last_channel, Fault::unwritten, Fault::not_a_number})
    for (size_t bad = 0; bad < 4; ++bad) {
      offers = {{"NCHW", Fault::none}, {"NHWC", Fault::none}, {"nChw16c", Fault::none}, {"NCHW", Fault::none}};
      offers[bad].fault = fault;
      offers[bad].work = 1;
      const auto context = context_in("/proc/none");
      const EntryRef entry = entry_of(*context);
      context->catalog().measure(*entry, Tuning::full);
      for (size_t i = 0; i < entry->ways.size(); ++i) CHECK(bool(entry->ways[i].usable) == (i != bad));
      CHECK(refused(*context, *entry) == 1);
    }
}

// Two that differ: plain loops decide, or candidates that were not to be measured.
TEST("two_that_differ") {
  for (size_t bad : {0, 1}) {
    offers = {{"NCHW", Fault::none}, {"NHWC", Fault::none}, {"NCHW", Fault::none, 50, true}};
    offers[bad].fault = Fault::last_channel;
    const auto context = context_in("/proc/none");
    const EntryRef entry = entry_of(*context);
    context->catalog().measure(*entry, Tuning::full);
    REQUIRE(entry->ways.size() == 2);
    CHECK(!entry->ways[bad].usable);
    CHECK(entry->ways[1 - bad].usable);
  }
}

// The first is measured alone, and what comes later shows that it is wrong.
TEST("what_was_measured_alone_is_judged_later") {
  offers = {{"NCHW", Fault::everywhere}, {"NHWC", Fault::none}, {"nChw16c", Fault::none}};
  const auto context = context_in("/proc/none");
  const EntryRef entry = entry_of(*context);
  context->catalog().measure(*entry, std::vector<size_t>{0}, MeasureOptions());
  CHECK(entry->ways[0].usable);
  context->catalog().measure(*entry, std::vector<size_t>{1, 2}, MeasureOptions());
  CHECK(!entry->ways[0].usable);
  CHECK(entry->ways[1].usable);
  CHECK(entry->ways[2].usable);
}

// Other processes know it from the database, until that is cleared.
TEST("the_database_keeps_it") {
  const testing::TemporaryFolder folder;
  offers = {{"NCHW", Fault::none}, {"NHWC", Fault::last_channel}, {"nChw16c", Fault::none}};
  {
    const auto context = context_in(folder.path);
    context->catalog().measure(*entry_of(*context), Tuning::full);
  }
  const auto context = context_in(folder.path);
  const EntryRef entry = entry_of(*context);
  CHECK(entry->ways[0].usable);
  CHECK(!entry->ways[1].usable);
  CHECK(entry->ways[2].usable);
  CHECK(refused(*context, *entry) == 1);
  const auto found = context->catalog().found_wrong(context->device("cpu"), "negating");
  REQUIRE(found.size() == 1);
  CHECK(found[0].candidate.find("negating/way1") == 0);
  CHECK(found[0].ms > 0.01);
  CHECK(context->devices_json().find("negating/way1") != std::string::npos);
  context->costs().clear();
  context->catalog().forget_costs();
  CHECK(entry->ways[1].usable);
  CHECK(refused(*context, *entry) == 0);
}

// A plan does not take the wrong one, measured alone or not, and says so with its figures, for people and as JSON.
TEST("a_plan_explains_it") {
  offers = {{"NCHW", Fault::none, 200}, {"NHWC", Fault::last_channel, 1}, {"nChw16c", Fault::none, 200}};
  const auto context = context_in("/proc/none");
  Graph graph;
  const ValueId x = graph.input("x", TensorDesc::dense(DType::f32, {2, 35, 24, 24}));
  graph.output(graph.add(*find_schema("test_negated"), {}, {x})[0], "y", std::nullopt);
  PlanOptions options;
  options.device = "cpu";
  options.tuning = Tuning::full;
  const auto plan = Plan::compile(context, graph, options);
  const std::string text = plan->explain(), json = plan->summary_json();
  CHECK(text.find("negating/way1, ") == std::string::npos);
  CHECK(text.find("  not used: negating/way1 NHWC: wrong: its result stands against the other candidates' (relative "
                  "difference ") != std::string::npos);
  CHECK(json.find("\"disagreements\": [{\"provider\": \"negating\", \"reason\": \"way1 NHWC: wrong") !=
        std::string::npos);
}

// A fast one that is wrong would win among the runs of a plan, and its results would be the caller's.
TEST("no_live_run_shows_it") {
  offers = {{"NCHW", Fault::none, 60}, {"NHWC", Fault::last_channel, 1}, {"nChw16c", Fault::none, 60}};
  const auto context = context_in("/proc/none");
  Graph graph;
  const TensorDesc desc = TensorDesc::dense(DType::f32, {2, 35, 24, 24});
  const ValueId x = graph.input("x", desc);
  graph.output(graph.add(*find_schema("test_negated"), {}, {x})[0], "y", std::nullopt);
  PlanOptions options;
  options.device = "cpu";
  const auto plan = Plan::compile(context, graph, options);
  const TensorRef input = Tensor::allocate(context->device("cpu"), desc);
  std::vector<float> values(size_t(desc.elements()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = 1.0f + float(i % 7);
  context->write(input, values.data(), desc.size_bytes());
  for (int i = 0; i < 5000 && !plan->settled(); ++i) {
    const TensorRef output = plan->run({input})[0];
    std::vector<float> found(values.size());
    context->read(output, found.data(), desc.size_bytes());
    for (size_t k = 0; k < values.size(); ++k) REQUIRE(found[k] == -values[k]);
  }
  CHECK(plan->settled());
  CHECK(plan->explain().find("not used: negating/way1 NHWC: wrong") != std::string::npos);
}

// Threads that measure one op, ask what was refused, and run a plan in whose runs others compete.
TEST("threads") {
  offers = {{"NCHW", Fault::none}, {"NHWC", Fault::last_channel}, {"nChw16c", Fault::none}, {"NCHW", Fault::none}};
  const auto context = context_in("/proc/none");
  const EntryRef entry = entry_of(*context);
  Graph graph;
  const ValueId x = graph.input("x", TensorDesc::dense(DType::f32, {2, 35, 24, 24}));
  graph.output(graph.add(*find_schema("test_negated"), {}, {x})[0], "y", std::nullopt);
  PlanOptions options;
  options.device = "cpu";
  const auto plan = Plan::compile(context, graph, options);
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) threads.emplace_back([&] { context->catalog().measure(*entry, Tuning::full); });
  threads.emplace_back([&] {
    for (int i = 0; i < 20; ++i) context->catalog().refusals(*entry), context->devices_json();
  });
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      const TensorRef input = Tensor::allocate(context->device("cpu"), TensorDesc::dense(DType::f32, {2, 35, 24, 24}));
      context->device("cpu").fill_zero(*input->buffer(), 0, input->desc().size_bytes());
      for (int i = 0; i < 40; ++i) plan->run({input});
      plan->explain();
    });
  for (std::thread& thread : threads) thread.join();
  plan->freeze();
  CHECK(plan->settled());
  CHECK(!entry->ways[1].usable);
  CHECK(refused(*context, *entry) == 1);
}

}  // namespace
