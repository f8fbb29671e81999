// Dispatch against a provider of known costs: which way is chosen, what is reordered, what is learned.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "check.h"
#include "dispatch/builders.h"
#include "dispatch/call_lists.h"
#include "dispatch/catalog.h"
#include "dispatch/context.h"
#include "dispatch/cost_database.h"
#include "dispatch/size_choices.h"
#include "profile/profile.h"
#include "providers/together.h"

using namespace pl;

namespace {

// Two ops, y = x, whose costs by layout are stated here; the test provider copies bytes.
Schema make_first() {
  Schema schema("test_first", "test_first", "y = x");
  schema.tensor("x", "any");
  schema.infer = [](Op& op) { op.outputs = {TensorDesc::dense(op.in(0).dtype, op.in(0).shape)}; };
  return schema;
}
PL_REGISTER_OP(make_first);
Schema make_second() {
  Schema schema("test_second", "test_second", "y = x, with weights");
  schema.tensor("x", "any").tensor("weight", "any", Role::constant);
  schema.infer = [](Op& op) { op.outputs = {TensorDesc::dense(op.in(0).dtype, op.in(0).shape)}; };
  return schema;
}
PL_REGISTER_OP(make_second);
Schema make_packed() {
  Schema schema("test_packed", "test_packed", "y = -weight, whatever x is");
  schema.tensor("x", "any").tensor("weight", "any", Role::constant);
  schema.infer = [](Op& op) { op.outputs = {TensorDesc::dense(op.in(0).dtype, op.in(0).shape)}; };
  return schema;
}
PL_REGISTER_OP(make_packed);
Schema make_nowhere() {
  Schema schema("test_nowhere", "test_nowhere", "an op that nobody implements");
  schema.tensor("x", "any");
  schema.infer = [](Op& op) { op.outputs = {op.in(0)}; };
  return schema;
}
PL_REGISTER_OP(make_nowhere);

std::atomic<int> prepared{0};  // on threads of their own too
int packed = 0;

int joined_runs = 0;

class JoinedCopies : public Kernel {
 public:
  explicit JoinedCopies(std::vector<size_t> bytes) : bytes_(std::move(bytes)) {}
  void run(const KernelArguments& arguments) override {
    ++joined_runs;
    for (size_t i = 0; i < bytes_.size(); ++i)
      std::memcpy(arguments.outputs[i]->host(), arguments.inputs[i]->host(), bytes_[i]);
  }

 private:
  std::vector<size_t> bytes_;
};

class CopyKernel : public Kernel, public Together {
 public:
  explicit CopyKernel(size_t bytes) : bytes_(bytes) { ++prepared; }
  void run(const KernelArguments& arguments) override {
    std::memcpy(arguments.outputs[0]->host(), arguments.inputs[0]->host(), bytes_);
  }
  const std::string& alike() const override {
    static const std::string text = "copy";
    return text;
  }
  size_t most() const override { return 8; }
  std::unique_ptr<Kernel> together(const std::vector<const Together*>& kernels, const Sharing&) const override {
    std::vector<size_t> bytes;
    for (const Together* each : kernels) bytes.push_back(dynamic_cast<const CopyKernel&>(*each).bytes_);
    return std::make_unique<JoinedCopies>(std::move(bytes));
  }

 private:
  size_t bytes_;
};

class PackedKernel : public Kernel {
 public:
  explicit PackedKernel(size_t bytes) : bytes_(bytes) {}
  void run(const KernelArguments& arguments) override {
    std::memcpy(arguments.outputs[0]->host(), arguments.inputs[1]->host(), bytes_);
  }

 private:
  size_t bytes_;
};

class FakeProvider : public Provider {
 public:
  std::string name() const override { return "fake"; }
  std::string version() const override { return "1"; }
  bool serves(const Device& device) const override { return device.traits().threads; }
  void list(const Op& op, Device&, CandidateList& out) override {
    if (op.schema->kind == "test_packed") return list_packed(op, out);
    if (op.schema->kind != "test_first" && op.schema->kind != "test_second") {
      if (op.schema->kind == "test_nowhere") out.refuse(name(), "never learned to");
      return;
    }
    for (const Layout& layout : {Layout::plain(4), Layout::channels_last(4), Layout::channels_blocked(4, 16)}) {
      Candidate candidate;
      candidate.provider = name();
      candidate.implementation = "copy";
      candidate.inputs = {op.in(0).with_layout(layout)};
      if (op.schema->kind == "test_second") candidate.inputs.push_back(op.in(1).with_layout(layout));
      candidate.outputs = {op.out(0).with_layout(layout)};
      const size_t bytes = candidate.inputs[0].size_bytes();
      candidate.prepare = [bytes] { return std::make_unique<CopyKernel>(bytes); };
      out.add(candidate);
    }
  }

  // x and y in either layout; the weights are plain and become their negation.
  void list_packed(const Op& op, CandidateList& out) {
    for (const Layout& layout : {Layout::plain(4), Layout::channels_last(4)}) {
      Candidate candidate;
      candidate.provider = name();
      candidate.implementation = "copy";
      candidate.inputs = {op.in(0).with_layout(layout), op.in(1).with_layout(Layout::plain(4))};
      candidate.outputs = {op.out(0).with_layout(Layout::plain(4))};
      const size_t bytes = candidate.outputs[0].size_bytes();
      candidate.packings.push_back({1, "negated", bytes, [bytes](Buffer& source, Buffer& target) {
                                      ++packed;
                                      const float* from = static_cast<const float*>(source.host());
                                      float* to = static_cast<float*>(target.host());
                                      for (size_t i = 0; i < bytes / 4; ++i) to[i] = -from[i];
                                    }});
      candidate.prepare = [bytes] { return std::make_unique<PackedKernel>(bytes); };
      out.add(candidate);
    }
  }
};
const ProviderRegistration registered("fake", [] { return std::make_unique<FakeProvider>(); });

struct Fixture {
  std::shared_ptr<Context> context;
  CallRef automatic = CallAttributes::parse({});
  TensorDesc x = TensorDesc::dense(DType::f32, {1, 32, 64, 64});

  explicit Fixture(Tuning tuning = Tuning::off) {
    ContextOptions options;
    options.cache_dir = "/proc/none";  // nothing on disk
    options.tuning = tuning;
    options.without = {"opencl"};
    context = Context::create(options);
  }
  // States what an op costs in plain, channels-last and blocked layout.
  void cost(const char* op, double plain, double last, double blocked) {
    const auto price = [&](const char* layout, double ms) {
      const std::string name(op);
      std::string tensor = " f32:";
      for (int i = 0; i < x.rank(); ++i) tensor += (i ? "x" : "") + std::to_string(x.shape[i]);
      const bool two = name != "test_first";
      const bool negated = name == "test_packed";
      const std::string second = negated ? ",abcd" : two ? std::string(",") + layout : "";
      const std::string way = std::string("fake/copy/") + layout + second + ">" + (negated ? "abcd" : layout);
      const auto& catalog = context->catalog();
      context->costs().record(catalog.environment(context->device("cpu"), "fake"), name + tensor + (two ? tensor : ""),
                              way, ms);
    };
    price("abcd", plain);
    price("acdb", last);
    price("aBcd16b", blocked);
  }
  TensorRef make(const Layout& layout) {
    TensorRef tensor = Tensor::allocate(context->device("cpu"), x.with_layout(layout));
    float* values = static_cast<float*>(tensor->buffer()->host());
    for (int64_t i = 0; i < x.elements(); ++i) values[i] = float(i);
    return tensor;
  }
  TensorRef run(const char* op, std::vector<TensorRef> inputs, CallRef call = nullptr) {
    return context->run(*find_schema(op), call ? call : automatic, inputs)[0];
  }
};

TEST("the_fastest_layout_wins_where_a_reorder_pays") {
  Fixture f;
  f.cost("test_first", 100, 1, 200);
  CHECK(f.run("test_first", {f.make(Layout::plain(4))})->desc().layout.is_channels_last());
  Fixture g;
  g.cost("test_first", 0.0011, 0.001, 0.0012);  // a reorder costs more than the difference
  CHECK(g.run("test_first", {g.make(Layout::plain(4))})->desc().layout.is_plain());
}

TEST("a_forced_policy_is_obeyed") {
  Fixture f;
  f.cost("test_first", 1, 100, 100);
  for (const char* layout : {"NCHW", "NHWC", "nChw16c"}) {
    Attributes attributes;
    attributes.set(call_option::layout, std::string(layout));
    const TensorRef y = f.run("test_first", {f.make(Layout::plain(4))}, CallAttributes::parse(attributes));
    CHECK(y->desc().layout == Layout::parse(layout));
  }
}

TEST("per_op_returns_to_plain_and_reorders_every_time") {
  Fixture f;
  f.cost("test_second", 100, 1, 200);
  Attributes attributes;
  attributes.set(call_option::layout, std::string("per-op"));
  const CallRef per_op = CallAttributes::parse(attributes);
  const TensorRef x = f.make(Layout::plain(4)), w = f.make(Layout::plain(4));
  for (int pass = 0; pass < 2; ++pass) {
    f.context->profile_start();
    CHECK(f.run("test_second", {x, w}, per_op)->desc().layout.is_plain());
    int reorders = 0;
    for (const ProfileEvent& event : f.context->profile().stop()) reorders += event.kind == "reorder";
    CHECK(reorders == 3);  // x in, weights in, y out
  }
}

TEST("weights_are_prepacked_once_per_version") {
  Fixture f;
  f.cost("test_second", 100, 1, 200);
  const TensorRef x = f.make(Layout::channels_last(4)), w = f.make(Layout::plain(4));
  const auto reorders = [&] {
    f.context->profile_start();
    f.run("test_second", {x, w});
    int count = 0;
    for (const ProfileEvent& event : f.context->profile().stop()) {
      if (event.kind != "reorder") continue;
      CHECK(event.role == "weights");
      CHECK(event.cause == "test_second: weight");
      ++count;
    }
    return count;
  };
  CHECK(reorders() == 1);
  CHECK(reorders() == 0);
  w->buffer()->touch();  // the caller wrote to the weights
  CHECK(reorders() == 1);
  CHECK(reorders() == 0);
}

// A weight that is written before each call, as in training, is reordered in each, so the reorder counts.
TEST("reorders_of_weights_that_change_count") {
  Fixture f;
  f.cost("test_second", 0.0101, 0.01, 100);  // as fast but for less than the reorder of a weight
  const TensorRef x = f.make(Layout::channels_last(4));
  x->add_copy(f.make(Layout::plain(4)), x->buffer()->version());  // so that x costs nothing in either
  const TensorRef w = f.make(Layout::plain(4)), steady = f.make(Layout::plain(4));
  const auto reorders = [&](const TensorRef& weight) {
    f.context->profile_start();
    f.run("test_second", {x, weight});
    int count = 0;
    for (const ProfileEvent& event : f.context->profile().stop())
      count += event.kind == "reorder" && event.role == "weights";
    return count;
  };
  CHECK(reorders(steady) == 1);
  for (int call = 0; call < 3; ++call) {
    CHECK(!w->changes());
    CHECK(reorders(w) == 1);
    w->buffer()->touch();
  }
  CHECK(w->changes());
  for (int call = 0; call < 3; ++call) {
    CHECK(reorders(w) == 0);  // the way that takes it as it lies
    w->buffer()->touch();
  }
  for (int call = 0; call < 100; ++call) f.run("test_second", {x, w});  // training is over
  CHECK(!w->changes());
  CHECK(reorders(w) + reorders(w) <= 1);
  w->buffer()->touch();
  CHECK(w->changes());
  CHECK(reorders(steady) == 0);  // the copy that it has
  CHECK(!steady->changes());
}

// Weights that the kernel wants in a form of its own: packed once for each storage version, by the layout the candidate
// states, and shared by the candidates that name the same form.
TEST("constants_are_packed_once_per_version") {
  Fixture f;
  f.cost("test_packed", 1, 1, 100);
  const TensorRef x = f.make(Layout::plain(4)), last = f.make(Layout::channels_last(4)), w = f.make(Layout::plain(4));
  const auto packings = [&](const TensorRef& x, const TensorRef& w, CallRef call = nullptr) {
    const int before = packed;
    f.context->profile_start();
    const TensorRef y = f.run("test_packed", {x, w}, call);
    int events = 0;
    for (const ProfileEvent& event : f.context->profile().stop()) {
      if (event.kind != "reorder" || event.cause != "test_packed: weight" || event.provider != "fake") continue;
      CHECK(event.role == "weights");
      CHECK(event.implementation == "negated");
      ++events;
    }
    CHECK(events == packed - before);
    std::vector<float> result(size_t(f.x.elements())), weight(result.size());
    f.context->read(y, result.data(), result.size() * 4);
    f.context->read(w, weight.data(), weight.size() * 4);
    for (size_t i = 0; i < result.size(); ++i) CHECK(result[i] == -weight[i]);
    return events;
  };
  CHECK(packings(x, w) == 1);
  CHECK(packings(x, w) == 0);
  CHECK(packings(last, w) == 0);  // another candidate, the same form
  w->buffer()->touch();
  CHECK(packings(x, w) == 1);
  CHECK(packings(x, w) == 0);
  CHECK(packings(x, f.make(Layout::channels_last(4))) == 1);  // by way of the layout that the candidate packs from
  Attributes attributes;
  attributes.set(call_option::layout, std::string("per-op"));
  const CallRef per_op = CallAttributes::parse(attributes);
  CHECK(packings(x, w, per_op) == 1);  // keeps nothing
  CHECK(packings(x, w, per_op) == 1);
  f.context->profile_start();
  f.run("test_packed", {x, f.make(Layout::plain(4))});
  CHECK(f.context->profile_stop_json().find("negated") != std::string::npos);
}

// Packing is free in the choice, as other preparations of constants are, but not under per-op.
TEST("packing_in_query") {
  Fixture f;
  f.cost("test_packed", 1, 1, 100);
  const TensorRef x = f.make(Layout::plain(4)), w = f.make(Layout::plain(4));
  const Schema& schema = *find_schema("test_packed");
  const std::string json = f.context->query_json(schema, f.automatic, {x, w});
  CHECK(json.find("\"reorder_ms\": 0,") != std::string::npos || json.find("\"reorder_ms\":0,") != std::string::npos);
  CHECK(json.find("\"negated\"") != std::string::npos);  // where others name a layout
  Attributes attributes;
  attributes.set(call_option::layout, std::string("per-op"));
  const std::string costly = f.context->query_json(schema, CallAttributes::parse(attributes), {x, w});
  CHECK(costly.find("\"reorder_ms\": 0,") == std::string::npos);
  CHECK(costly.find("\"reorder_ms\":0,") == std::string::npos);
}

TEST("packed_constants_are_measured") {
  Fixture f;
  const int before = packed;
  const std::vector<TensorRef> inputs{f.make(Layout::plain(4)), f.make(Layout::plain(4))};
  const std::string json = f.context->tune_json(*find_schema("test_packed"), f.automatic, inputs, 0.05);
  // For each of the candidates; on a busy machine they are measured again.
  CHECK(packed >= before + 2);
  CHECK((packed - before) % 2 == 0);
  CHECK(json.find("true") != std::string::npos);
  CHECK(json.find("\"measured\": false") == std::string::npos);
  CHECK(json.find("\"measured\":false") == std::string::npos);
}

TEST("a_reordered_copy_is_made_once") {
  Fixture f;
  f.cost("test_first", 100, 1, 200);
  const TensorRef x = f.make(Layout::plain(4));
  f.run("test_first", {x});
  f.context->profile_start();
  f.run("test_first", {x});
  for (const ProfileEvent& event : f.context->profile().stop()) CHECK(event.kind != "reorder");
}

// By itself the first op is slightly faster in NHWC; its consumer is far faster in NCHW.  Once the consumer is
// known the producer gives NCHW, and no reorder remains between them.
TEST("producers_learn_what_consumers_want") {
  Fixture f;
  f.cost("test_first", 0.95, 0.9, 50);
  f.cost("test_second", 1.0, 9.0, 9.0);
  const TensorRef x = f.make(Layout::channels_last(4)), w = f.make(Layout::plain(4));
  f.context->convert(x, f.context->device("cpu"), Layout::plain(4), DType::f32);  // x is at hand in both layouts
  CHECK(f.run("test_first", {x})->desc().layout.is_channels_last());
  TensorRef y;
  for (int pass = 0; pass < 3; ++pass) y = f.run("test_second", {f.run("test_first", {x}), w});
  const TensorRef between = f.run("test_first", {x});
  CHECK(y->desc().layout.is_plain());
  f.context->profile_start();
  f.run("test_second", {between, w});
  for (const ProfileEvent& event : f.context->profile().stop()) CHECK(event.kind != "reorder");
}

TEST("values_survive_every_conversion") {
  Fixture f;
  const TensorRef x = f.make(Layout::plain(4));
  std::vector<float> expected(size_t(x->desc().elements())), got(expected.size());
  for (size_t i = 0; i < expected.size(); ++i) expected[i] = float(i);
  TensorRef current = x;
  for (const char* layout : {"NHWC", "nChw16c", "nChw8c", "acbd", "NCHW"}) {
    current = f.context->convert(current, f.context->device("cpu"), Layout::parse(layout), DType::f32);
    CHECK(current->desc().layout == Layout::parse(layout));
    f.context->read(current, got.data(), got.size() * 4);
    CHECK(got == expected);
  }
}

TEST("results_go_where_they_are_asked_for") {
  Fixture f;
  f.cost("test_first", 1, 100, 100);
  const TensorRef x = f.make(Layout::plain(4));
  for (const char* layout : {"NCHW", "nChw16c"}) {
    const TensorRef destination = Tensor::allocate(f.context->device("cpu"), f.x.with_layout(Layout::parse(layout)));
    const uint64_t version = destination->buffer()->version();
    const auto results = f.context->run(*find_schema("test_first"), f.automatic, {x}, {destination});
    CHECK(results[0] == destination);
    CHECK(destination->buffer()->version() > version);
    std::vector<float> a(size_t(f.x.elements())), b(a.size());
    f.context->read(x, a.data(), a.size() * 4);
    f.context->read(destination, b.data(), b.size() * 4);
    CHECK(a == b);
  }
  bool refused = false;
  try {
    const TensorRef wrong = Tensor::allocate(f.context->device("cpu"), TensorDesc::dense(DType::f32, {1, 2, 3, 4}));
    f.context->run(*find_schema("test_first"), f.automatic, {x}, {wrong});
  } catch (const Error& error) {
    refused = error.code() == Code::shape && std::string(error.what()).find("test_first: output 0") == 0;
  }
  CHECK(refused);
}

TEST("what_nobody_can_do_is_said_with_reasons") {
  Fixture f;
  std::string message;
  try {
    f.run("test_nowhere", {f.make(Layout::plain(4))});
  } catch (const Error& error) {
    CHECK(error.code() == Code::unsupported);
    message = error.what();
  }
  CHECK(message.find("test_nowhere") == 0);
  CHECK(message.find("fake: never learned to") != std::string::npos);
}

TEST("a_cached_call_prepares_nothing") {
  Fixture f;
  f.cost("test_first", 1, 1, 1);
  const TensorRef x = f.make(Layout::plain(4));
  f.run("test_first", {x});
  const int before = prepared;
  for (int i = 0; i < 10; ++i) f.run("test_first", {x});
  CHECK(prepared == before);
}

// One channel: NHWC is another spelling of NCHW.
TEST("calls_in_a_layout_spelled_otherwise_start_as_one") {
  Fixture f;
  f.x = TensorDesc::dense(DType::f32, {32, 1, 3, 3});
  f.cost("test_first", 100, 1, 200);
  std::vector<OpCall> calls;
  for (int i = 0; i < 3; ++i)
    calls.push_back({*find_schema("test_first"),
                     f.automatic,
                     {f.make(Layout::plain(4))},
                     {Tensor::allocate(f.context->device("cpu"), f.x)}});
  for (int time = 1; time <= 4; ++time) {  // chosen, noted, and started again as noted
    joined_runs = 0;
    for (const OpCall& call : calls) std::memset(call.destinations[0]->buffer()->host(), 0x5a, f.x.size_bytes());
    f.context->run_all(calls);
    CHECK(joined_runs == 1);
    for (const OpCall& call : calls)
      CHECK(!std::memcmp(call.destinations[0]->buffer()->host(), call.inputs[0]->buffer()->host(), f.x.size_bytes()));
  }
}

TEST("kernels_are_built_ahead") {
  Fixture f;
  Catalog& catalog = f.context->catalog();
  Op op = make_op(*find_schema("test_first"), {}, {f.x});
  const EntryRef entry = catalog.entry(op, f.context->device("cpu"));
  const std::vector<size_t> ways = catalog.to_measure(*entry, Tuning::full);
  REQUIRE(ways.size() == 3);
  CHECK(catalog.to_measure(*entry, Tuning::off).empty());
  const int before = prepared;
  Interrupt nobody;
  Builders builders(catalog, nobody, 2);
  const auto soon = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
  CHECK(!builders.wait(entry, ways, soon));  // nobody asked for them yet
  for (size_t way : ways) builders.add(entry, way);
  CHECK(builders.wait(entry, ways, std::chrono::steady_clock::now() + std::chrono::seconds(60)));
  CHECK(prepared == before + 3);
  for (size_t way : ways) CHECK(catalog.kernel(*entry, entry->ways[way]) != nullptr);
  CHECK(prepared == before + 3);
  // What is measured is none of that any more.
  catalog.measure(*entry, Tuning::full);
  CHECK(catalog.to_measure(*entry, Tuning::full).empty());
}

// What was measured of an op corrects the estimates of its unmeasured shapes, upwards alone.
TEST("estimates_are_corrected_by_measurements") {
  for (const double ms : {1000.0, 1e-9}) {
    Fixture f;
    f.cost("test_first", ms, ms, ms);
    Catalog& catalog = f.context->catalog();
    Device& cpu = f.context->device("cpu");
    const auto entry_of = [&](const char* op, const TensorDesc& x) {
      const EntryRef entry = catalog.entry(make_op(*find_schema(op), {}, {x}), cpu);
      catalog.to_measure(*entry, Tuning::off);  // estimates it
      return entry;
    };
    const EntryRef known = entry_of("test_first", f.x);
    const EntryRef unknown = entry_of("test_first", TensorDesc::dense(DType::f32, {2, 32, 64, 64}));
    const EntryRef other = entry_of("relu", f.x);
    const double model = unknown->ways[0].ms, model_of_other = other->ways[0].ms;
    for (int repeated = 0; repeated < 2; ++repeated) {
      catalog.correct_estimates({known, unknown, other});
      CHECK(double(known->ways[0].ms) == ms);
      const double ratio = ms / estimate_ms(known->op, known->ways[0].candidate, catalog.rates(cpu));
      for (const Way& way : unknown->ways) {
        CHECK(!way.measured);
        const double expected = std::max(1.0, ratio) * estimate_ms(unknown->op, way.candidate, catalog.rates(cpu));
        CHECK(std::abs(way.ms - expected) <= 1e-9 * expected);
      }
      CHECK(ms > 1 ? unknown->ways[0].ms > 2 * model : unknown->ways[0].ms == model);
      CHECK(other->ways[0].ms == model_of_other);
    }
  }
}

// With a limit, what promises most is measured and the rest is left.
TEST("as_many_ways_are_measured_as_asked_for") {
  Fixture f;
  Catalog& catalog = f.context->catalog();
  const EntryRef entry = catalog.entry(make_op(*find_schema("test_first"), {}, {f.x}), f.context->device("cpu"));
  MeasureLimits limits;
  limits.ways = 2;
  const auto measured = [&] {
    return std::count_if(entry->ways.begin(), entry->ways.end(), [](const Way& way) { return bool(way.measured); });
  };
  catalog.measure(*entry, Tuning::full, limits);
  CHECK(measured() == 2);
  catalog.measure(*entry, Tuning::full, limits);
  CHECK(measured() == 3);
}

// Calls that differ in sizes of one class alone: the first are chosen by what they cost, further ones take what the
// nearest took, and nothing is measured, prepared in vain or learned.
TEST("further_sizes_of_a_class_follow") {
  Fixture f(Tuning::automatic);
  Catalog& catalog = f.context->catalog();
  const auto at = [&](int64_t rows) {
    f.x = TensorDesc::dense(DType::f32, {1, 32, rows, 64});
    return f.make(Layout::plain(4));
  };
  const auto first = [&](int64_t rows) { return f.run("test_first", {at(rows)}); };
  for (int64_t rows = 40; rows < 40 + int64_t(SizeChoices::kMeasured); ++rows) {
    f.x = TensorDesc::dense(DType::f32, {1, 32, rows, 64});
    f.cost("test_first", 100, 1, 200);
    CHECK(first(rows)->desc().layout.is_channels_last());
  }
  for (const int64_t rows : {20, 50, 64}) {
    const int before = prepared;
    const uint64_t epoch = catalog.epoch();
    TensorRef y;
    for (int pass = 0; pass < 3; ++pass) y = first(rows);
    CHECK(y->desc().layout.is_channels_last());
    CHECK(prepared == before + 1);  // three ways would have been prepared for measuring
    CHECK(catalog.epoch() == epoch);
    std::vector<float> values(size_t(y->desc().elements()));
    f.context->read(y, values.data(), values.size() * 4);
    for (size_t i = 0; i < values.size(); ++i) CHECK(values[i] == float(i));
  }
  for (const int64_t rows : {16, 65}) {  // of other classes
    const int before = prepared;
    first(rows);
    CHECK(prepared >= before + 2);
  }
  const std::vector<EntryRef> met = catalog.met(f.context->device("cpu"));
  CHECK(std::count_if(met.begin(), met.end(), [](const EntryRef& entry) {
          return entry->op.schema->name == "test_first";
        }) == int64_t(SizeChoices::kMeasured) + 2);
}

// The maps of a network of fixed sizes may have many sizes of one class: what they are given was chosen by itself.
TEST("ops_of_a_network_of_fixed_sizes_follow_none") {
  Fixture f(Tuning::automatic);
  const auto network = [&](int64_t channels) {
    f.x = TensorDesc::dense(DType::f32, {1, channels, 8, 8});
    const TensorRef x = f.make(Layout::plain(4));
    return f.run("test_first", {f.run("test_second", {x, x})});  // weights of another shape at each size
  };
  for (int64_t channels = 20; channels < 26; ++channels) {
    const int before = prepared;
    network(channels);
    CHECK(prepared >= before + 4);
  }
}

// What is given a result that follows does, too, once its own class is known.
TEST("what_is_made_of_a_size_that_follows_follows") {
  Fixture f(Tuning::automatic);
  const TensorRef weight = f.make(Layout::plain(4));
  const auto program = [&](int64_t batch) {
    f.x = TensorDesc::dense(DType::f32, {batch, 4, 8, 8});
    const TensorRef x = f.make(Layout::plain(4));
    f.run("test_first", {f.run("test_second", {x, weight})});
  };
  const auto took = [&](int64_t batch) {
    const int before = prepared;
    program(batch);
    return prepared - before;
  };
  for (int64_t batch = 17; batch < 17 + int64_t(SizeChoices::kMeasured); ++batch) CHECK(took(batch) >= 4);
  for (const int64_t batch : {30, 50, 64}) {
    CHECK(took(batch) == 2);
    CHECK(took(batch) == 0);
  }
}

}  // namespace
