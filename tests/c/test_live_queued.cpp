// Others compete with a plan in its runs on a device that queues work and compiles kernels.
#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "clock_device.h"
#include "dispatch/context.h"
#include "graph/graph.h"
#include "graph/plan.h"
#include "temporary_folder.h"

using namespace pl;

namespace {

PL_REGISTER_OP(make_turned);
const ProviderRegistration registered("clock", [] { return std::make_unique<ClockProvider>(); });

const TensorDesc kDesc = TensorDesc::dense(DType::f32, {2, 3, 4, 5});

struct Fixture {
  std::shared_ptr<Context> context;
  std::shared_ptr<Plan> plan;
  TensorRef input;
  std::vector<float> values;

  // `table`: of costs, to be there before; `cache`: a directory; without one nothing is kept, and layers are equal.
  explicit Fixture(std::vector<Offer> offered, bool deterministic = false,
                   std::chrono::milliseconds each = std::chrono::milliseconds(0),
                   const std::string& cache = "/proc/none", const std::string& table = "") {
    offers = std::move(offered);
    compiling = std::chrono::milliseconds(0);
    prepared.clear();
    ContextOptions options;
    options.cache_dir = cache;
    options.without = {"opencl"};
    options.threads = 1;
    context = Context::create(options);
    const auto device = std::make_shared<ClockDevice>();
    context->add_device(device);
    if (!table.empty()) context->costs_import(table);
    Graph graph;
    ValueId x = graph.input("x", kDesc);
    const bool equal = cache == "/proc/none";
    for (int64_t i = 0; i < 3; ++i) x = graph.add(*find_schema("test_turned"), {{kLayer, equal ? 0 : i}}, {x})[0];
    graph.output(x, "y", std::nullopt);
    PlanOptions of_plan;
    of_plan.device = "clock:0";
    of_plan.live = true;
    of_plan.deterministic = deterministic;
    plan = Plan::compile(context, graph, of_plan);
    compiling = each;
    input = Tensor::allocate(*device, kDesc);
    for (int64_t i = 0; i < kDesc.elements(); ++i) values.push_back(1 + float(i % 11));
    context->write(input, values.data(), kDesc.size_bytes());
  }
  // Whether the result is right.
  bool run() const {
    const TensorRef output = plan->run({input})[0];
    std::vector<float> found(values.size());
    context->read(output, found.data(), kDesc.size_bytes());
    for (size_t i = 0; i < values.size(); ++i)
      if (found[i] != -values[i]) return false;
    return true;
  }
  void run_until_settled() const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!plan->settled() && std::chrono::steady_clock::now() < end) REQUIRE(run());
    REQUIRE(plan->settled());
  }
  // How many steps of the plan are this way's.
  int steps_of(size_t way) const {
    const std::string json = plan->summary_json(), name = "\"implementation\": \"way" + std::to_string(way) + "\"";
    const size_t begin = json.find("\"steps\""), end = json.find("\"phases\"");
    int count = 0;
    for (size_t at = json.find(name, begin); at < end; at = json.find(name, at + 1)) ++count;
    return count;
  }
};

bool says(const Fixture& f, const std::string& text) { return f.plan->summary_json().find(text) != std::string::npos; }

// Estimates chose way 0.  Way 3 would be faster still, and is wrong.
const std::vector<Offer> kOffers = {{0.10, 1.0}, {0.12, 2.0}, {0.15, 0.4}, {0.13, 0.1, true}, {0.16, 0.9}};

TEST("the_fastest_by_the_devices_clock_wins") {
  Fixture f(kOffers);
  CHECK(f.steps_of(0) == 3);
  CHECK(says(f, "\"state\": \"live\", \"tried\": 0"));
  f.run_until_settled();
  CHECK(f.steps_of(2) == 3);
  CHECK(says(f, "\"state\": \"settled\""));
  CHECK(f.plan->explain().find("not used: clock/way3") != std::string::npos);
  for (int i = 0; i < 10; ++i) CHECK(f.run());
}

// The first that competed with the plan.
std::string first_challenger(const Fixture& f) {
  const std::string json = f.plan->summary_json(), key = "\"name\": \"";
  const size_t own = json.find(key + "untuned\""), next = json.find(key, own + 1) + key.size();
  return json.substr(next, json.find('"', next) - next);
}

// Of what a device like this one measured the fastest ways compete first; a table that is wrong changes nothing.
TEST("a_table_is_asked_in_the_runs") {
  const testing::TemporaryFolder there, here, elsewhere;
  const Fixture measured(kOffers, false, {}, there.path);
  measured.run_until_settled();
  const std::string table = measured.context->costs_export(measured.context->device("clock:0"), 0);
  const Fixture f(kOffers, false, {}, here.path, table);
  f.run_until_settled();
  CHECK(f.steps_of(2) == 3);
  CHECK(first_challenger(f) == "table");
  std::vector<Offer> others = kOffers;
  std::swap(others[1].real_ms, others[2].real_ms);
  const Fixture g(others, false, {}, elsewhere.path, table);
  g.run_until_settled();
  CHECK(g.steps_of(1) == 3);
  CHECK(first_challenger(g) == "auto");
}

TEST("no_run_waits_for_a_kernel") {
  Fixture f(kOffers, false, std::chrono::milliseconds(30));
  const size_t before = prepared.size();
  for (const auto& [way, thread] : prepared) CHECK(way == 0);
  CHECK(f.run());
  CHECK(prepared.size() == before);  // nothing is compiled beside the first result
  f.run_until_settled();
  const std::lock_guard<std::mutex> guard(noting);
  CHECK(prepared.size() > before);
  for (size_t i = before; i < prepared.size(); ++i) CHECK(prepared[i].second != std::this_thread::get_id());
}

// Each way takes 100 ms and more: what may be spent at once does not suffice for all of them, and runs earn the rest.
TEST("what_is_spent_is_bounded") {
  Fixture f({{100, 100}, {101, 110}, {102, 60}, {103, 120}, {104, 90}});
  constexpr double kRunMs = 3 * 100, kSamplesMs = 6 * 120;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  double most = 0;  // of what was spent beyond what was earned
  for (int runs = 1; !f.plan->settled() && std::chrono::steady_clock::now() < end; ++runs) {
    REQUIRE(f.run());
    const std::string json = f.plan->summary_json(), key = "\"spent_ms\": ";
    const double spent = std::atof(json.c_str() + json.find(key) + key.size());
    most = std::max(most, spent - 0.05 * std::max(10e3, runs * kRunMs));
  }
  CHECK(f.plan->settled());
  CHECK(f.steps_of(2) == 3);
  CHECK(most < kSamplesMs);
}

TEST("what_is_slower_does_not_stay") {
  Fixture f({{0.10, 0.5}, {0.11, 0.6}, {0.12, 0.7}});
  f.run_until_settled();
  CHECK(f.steps_of(0) == 3);
}

// An error ends it in this process; the next one goes on.
TEST("an_error_is_no_outcome") {
  const testing::TemporaryFolder there;
  {
    only_thread_with_memory = std::this_thread::get_id();  // none for what is measured behind the runs
    const Fixture f(kOffers, false, {}, there.path);
    f.run_until_settled();
    only_thread_with_memory = std::thread::id();
    CHECK(f.steps_of(0) == 3);
  }
  const Fixture f(kOffers, false, {}, there.path);
  CHECK(says(f, "\"state\": \"live\""));
  f.run_until_settled();
  CHECK(f.steps_of(2) == 3);
}

TEST("freeze_ends_it") {
  Fixture f(kOffers, false, std::chrono::milliseconds(50));
  for (int i = 0; i < 12; ++i) CHECK(f.run());
  f.plan->freeze();
  CHECK(f.plan->settled());
  CHECK(says(f, "\"state\": \"pinned\""));
  const std::vector<int> ways = {f.steps_of(0), f.steps_of(2)};
  const size_t before = prepared.size();
  std::this_thread::sleep_for(std::chrono::milliseconds(120));
  for (int i = 0; i < 50; ++i) CHECK(f.run());
  CHECK(prepared.size() == before);
  CHECK(ways == std::vector<int>({f.steps_of(0), f.steps_of(2)}));
  f.plan->freeze();
}

TEST("what_is_deterministic_has_no_thread") {
  Fixture f(kOffers, true);
  CHECK(f.plan->settled());
  for (int i = 0; i < 50; ++i) CHECK(f.run());
  CHECK(f.steps_of(0) == 3);
  for (const auto& [way, thread] : prepared) CHECK(way == 0);
}

// Results wait to be read, and kernels are compiled, when the plan goes.
TEST("a_plan_ends_in_the_midst") {
  for (int runs : {0, 1, 2, 3, 8, 30}) {
    Fixture f(kOffers, false, std::chrono::milliseconds(20));
    for (int i = 0; i < runs; ++i) CHECK(f.run());
    std::this_thread::sleep_for(std::chrono::milliseconds(runs));
    f.plan = nullptr;
    const size_t before = prepared.size();
    std::this_thread::sleep_for(std::chrono::milliseconds(40));
    CHECK(prepared.size() == before);
  }
}

TEST("threads_share_it") {
  Fixture f(kOffers, false, std::chrono::milliseconds(5));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      while (!f.plan->settled() && std::chrono::steady_clock::now() < end) {
        wrong += !f.run();
        if (t == 0) f.plan->explain(), f.plan->summary_json();
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(f.plan->settled());
  CHECK(f.steps_of(2) == 3);
}

TEST("threads_freeze_and_run") {
  Fixture f(kOffers, false, std::chrono::milliseconds(5));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 60; ++i) {
        wrong += !f.run();
        if (t > 0 && i == 30) f.plan->freeze();
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(f.plan->settled());
}

// Without being asked, on a GPU; a step of training is measured before it runs.
TEST("a_gpu_answers_first") {
  const Fixture f(kOffers);  // for its context
  const auto compiled = [&](bool trained, bool updated) {
    Graph graph;
    const ValueId x = graph.input("x", kDesc), w = graph.keep("w", f.input, trained);
    const ValueId y = graph.add(*find_schema("test_turned"), {}, {x})[0];
    const ValueId next = graph.add(*find_schema("test_turned"), {}, {w})[0];
    if (updated) graph.update(w, next);
    graph.output(updated ? y : next, "y", std::nullopt);
    PlanOptions options;
    options.device = "clock:0";
    prepared.clear();
    const std::shared_ptr<Plan> plan = Plan::compile(f.context, graph, options);
    std::set<size_t> ways;
    const std::lock_guard<std::mutex> guard(noting);
    for (const auto& [way, thread] : prepared) ways.insert(way);
    return std::make_pair(!plan->settled(), ways.size());
  };
  for (const auto& [trained, updated] : {std::make_pair(false, false), {false, true}, {true, false}}) {
    const auto [live, ways] = compiled(trained, updated);
    CHECK(live);
    CHECK(ways <= 1);  // none where its kernel was there
  }
  const auto [live, ways] = compiled(true, true);
  CHECK(!live);
  CHECK(ways > 1);
}

TEST("options_exclude_each_other") {
  Attributes attributes;
  attributes.set(Key<std::string>("tune"), "live");
  CHECK(PlanOptions::parse(attributes).live);
  CHECK(PlanOptions::parse(attributes).tuning == Tuning::automatic);
  attributes.set(Key<double>("seconds"), 2.0);
  std::string said;
  try {
    PlanOptions::parse(attributes);
  } catch (const Error& error) {
    said = error.what();
  }
  CHECK(said.find("tune is \"live\"") != std::string::npos);
  CHECK(said.find("seconds is 2") != std::string::npos);
}

}  // namespace
