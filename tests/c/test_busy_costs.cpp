// Costs that were measured while other programs had the processors: marked, and measured again once all is quiet.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "core/files.h"
#include "core/load.h"
#include "core/threads.h"
#include "dispatch/catalog.h"
#include "dispatch/context.h"
#include "dispatch/cost_database.h"
#include "graph/plan.h"
#include "graph/records.h"
#include "ops/op.h"
#include "temporary_folder.h"

using namespace pl;

namespace {

// Says what the test wants it to.
class StatedLoad : public Load {
 public:
  explicit StatedLoad(std::optional<double> others) : others_(others) {}
  std::optional<double> of_others(Clock::time_point) override {
    ++asked;
    return others_;
  }
  std::optional<double> of_others_lately() override { return others_; }

  int asked = 0;  // how often for a stretch of time, which reads the system's counters

 private:
  std::optional<double> others_;
};

// A process of its own in place of each context.
struct Process {
  std::shared_ptr<Context> context;
  EntryRef entry;
  StatedLoad* load = nullptr;  // the context's

  Process(const std::string& cache, std::optional<double> others, int threads = available_processors()) {
    ContextOptions options;
    options.cache_dir = cache;
    options.without = {"opencl"};
    options.threads = threads;
    options.cost_tables = false;
    context = Context::create(options);
    auto stated = std::make_unique<StatedLoad>(others);
    load = stated.get();
    context->set_load(std::move(stated));
    const TensorDesc x = TensorDesc::dense(DType::f32, {1, 16, 12, 12});
    entry = context->catalog().entry(make_op(*find_schema("relu"), {}, {x}), context->device("cpu"));
  }
  // How many costs that writes.
  uint64_t measure(Tuning tuning = Tuning::full) {
    const uint64_t before = context->costs().generation();
    context->catalog().measure(*entry, tuning, {0.01});
    return context->costs().generation() - before;
  }
  size_t known(const std::string& mark) const {
    size_t count = 0;
    for (const Way& way : entry->ways)
      count += context->costs().find(way.environment, entry->text, mark + way.key).has_value();
    return count;
  }
  size_t busy() const {
    size_t count = 0;
    for (const Way& way : entry->ways) count += way.measured && way.busy;
    return count;
  }
};

// So many processes that do nothing but count.
class Hogs {
 public:
  explicit Hogs(int count) {
    for (int i = 0; i < count; ++i) {
      const pid_t child = fork();
      if (child == 0) {
        alarm(30);  // its end, should its parent have ended before
        for (volatile unsigned counter = 0;; counter = counter + 1) {
        }
      }
      REQUIRE(child > 0);
      children_.push_back(child);
    }
  }
  ~Hogs() {
    for (pid_t child : children_) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
  }

 private:
  std::vector<pid_t> children_;
};

TEST("of_the_last_moments_the_system_is_asked_now_and_then") {
  SystemLoad load;
  std::this_thread::sleep_for(std::chrono::milliseconds(120));
  const std::optional<double> first = load.of_others_lately();
  int same = 0;
  for (int i = 0; i < 50; ++i) same += load.of_others_lately() == first;
  CHECK(same >= 40);  // each reading has other counts and another time
  std::this_thread::sleep_for(std::chrono::milliseconds(120));
  if (first && *first > 0) CHECK(load.of_others_lately() != first);
}

TEST("what_a_busy_machine_says_is_marked_serves_and_is_measured_again_when_it_is_quiet") {
  const testing::TemporaryFolder cache;
  size_t ways = 0;
  {
    Process first(cache.path, 1.0);
    ways = first.entry->ways.size();
    REQUIRE(ways >= 2);
    CHECK(first.measure() >= ways);
    CHECK(first.known("busy ") == ways);
    CHECK(first.known("") == 0);
    CHECK(first.measure() == 0);  // in this process nothing better is known
  }
  {
    Process still_busy(cache.path, 1.0);
    CHECK(still_busy.busy() == ways);  // they serve, which saves measuring anew each time
    for (const Way& way : still_busy.entry->ways) CHECK(way.ms > 0);
    CHECK(still_busy.measure() == 0);
    const int before = still_busy.load->asked;
    for (int i = 0; i < 100; ++i) still_busy.measure(Tuning::automatic);  // as each call of an op does
    CHECK(still_busy.load->asked == before);
  }
  {
    Process unknown(cache.path, std::nullopt);
    CHECK(unknown.measure() == 0);
  }
  {
    Process untuned(cache.path, 0.0);
    CHECK(untuned.measure(Tuning::off) == 0);
  }
  {
    Process quiet(cache.path, 0.0);
    CHECK(quiet.busy() == ways);
    CHECK(quiet.measure() == ways);
    CHECK(quiet.known("") + quiet.known("busy ") >= ways);
    CHECK(quiet.busy() == 0);
  }
  {
    Process later(cache.path, 0.0);
    // Samples that this machine's other programs disturbed keep their mark.
    CHECK(later.busy() == ways - later.known(""));
  }
}

// A compilation that measures, in a process of its own: whether it took what an earlier one chose.  One layout, so that
// no programs are held against each other, which would depend on what this machine's other programs do.
struct Compiled {
  bool recalled;
  std::string explained;

  Compiled(const std::string& cache, std::optional<double> others) {
    Process process(cache, others);
    Graph graph;
    const ValueId x = graph.input("x", TensorDesc::dense(DType::f32, {1, 16, 12, 12}));
    graph.output(graph.add(*find_schema("relu"), {}, {x}, "relu")[0], "y", std::nullopt);
    PlanOptions options;
    options.layout = "NCHW";
    options.seconds = 0.3;
    const auto plan = Plan::compile(process.context, graph, options);
    recalled = plan->summary_json().find("\"recalled\": true") != std::string::npos;
    explained = plan->explain();
  }
  bool says_marked() const { return explained.find("(measured beside other programs)") != std::string::npos; }
};

// The file of the choices that a cache holds.
struct KeptChoices {
  std::string path, text;

  explicit KeptChoices(const std::string& cache) {
    for (const auto& file : std::filesystem::directory_iterator(cache + "/plans")) path = file.path().string();
    text = read_file(path).value();
  }
  bool marked() const { return text.find("\nmarked\t") != std::string::npos; }
  void set_marked(int compilations) {
    text.resize(text.rfind("\nend\t") + 1);
    const size_t at = text.find("\nmarked\t");
    if (at != std::string::npos) text.erase(at, text.find('\n', at + 1) - at);
    const size_t spent = text.find("\nspent\t"), behind = text.find('\n', spent + 1) + 1;
    if (compilations) text.insert(behind, concat("marked\t", compilations, "\n"));
    REQUIRE(write_file_atomically(path, sealed(text)));
  }
};

TEST("choices_that_rest_on_what_a_busy_machine_said_serve_and_are_made_again_when_it_is_quiet") {
  const testing::TemporaryFolder cache;
  const Compiled first(cache.path, 1.0);
  CHECK(!first.recalled && first.says_marked());
  CHECK(KeptChoices(cache.path).marked());
  const Compiled still_busy(cache.path, 1.0);
  CHECK(still_busy.recalled && still_busy.says_marked());
  const Compiled quiet(cache.path, 0.0);
  CHECK(!quiet.recalled);
  // Unless this machine's other programs disturbed the samples, which marks them whatever the load is said to be.
  KeptChoices now(cache.path);
  CHECK(now.marked() || !quiet.says_marked());
  now.set_marked(0);
  CHECK(Compiled(cache.path, 0.0).recalled);
  KeptChoices(cache.path).set_marked(3);  // not for ever
  CHECK(Compiled(cache.path, 0.0).recalled);
}

TEST("processors_that_ops_leave_free_may_be_taken") {
  const int all = available_processors();
  if (all < 2) SKIP("this process has one processor");
  const testing::TemporaryFolder cache;
  Process beside(cache.path, 1.0, all - 1);
  Catalog& catalog = beside.context->catalog();
  const auto since = Load::Clock::now();
  CHECK(!catalog.was_disturbed(beside.context->device("cpu"), all - 1, since));
  CHECK(catalog.was_disturbed(beside.context->device("cpu"), all, since));
  CHECK(catalog.was_disturbed(beside.context->device("cpu"), 0, since));
}

TEST("rates_of_a_busy_machine_are_taken_again_when_it_is_quiet") {
  const testing::TemporaryFolder cache;
  const auto kept = [](Process& process, const char* op) {
    const std::string environment = process.context->catalog().environment(process.context->device("cpu"), "rates");
    return process.context->costs().find(environment, op, "overhead_ms").has_value();
  };
  {
    Process busy(cache.path, 1.0);
    busy.context->catalog().rates(busy.context->device("cpu"));
    CHECK(kept(busy, "busy rates"));
    CHECK(!kept(busy, "rates"));
  }
  {
    Process busy(cache.path, 1.0);
    const uint64_t before = busy.context->costs().generation();
    busy.context->catalog().rates(busy.context->device("cpu"));
    CHECK(busy.context->costs().generation() == before);
  }
  Process quiet(cache.path, 0.0);
  quiet.context->catalog().rates(quiet.context->device("cpu"));
  CHECK(kept(quiet, "rates"));
}

TEST("the_system_tells_of_other_programs_and_not_of_this_one") {
  const std::clock_t began_with = std::clock();
  SystemLoad load;
  const auto busy_for = [](double seconds) {
    const auto began = Load::Clock::now();
    while (std::chrono::duration<double>(Load::Clock::now() - began).count() < seconds) {
    }
  };
  CHECK(!load.of_others(Load::Clock::now()));  // too short to tell
  busy_for(0.6);
  const std::optional<double> without = load.of_others(Load::Clock::now());
  REQUIRE(without.has_value());
  const int all = available_processors();
  const double own = double(std::clock() - began_with) / CLOCKS_PER_SEC / 0.6;
  CHECK(own > 0);
  CHECK(*without < all - own + 0.2);
  const Hogs hogs(all);
  const auto since = Load::Clock::now();
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  const std::optional<double> with = load.of_others(since);
  REQUIRE(with.has_value());
  CHECK(*with > 0.6 * all);
}

}  // namespace
