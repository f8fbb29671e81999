// On a GPU no eager call waits for measuring: what was not found out yet is compiled and measured behind the calls.
#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "clock_device.h"
#include "dispatch/catalog.h"
#include "dispatch/context.h"
#include "dispatch/later_measuring.h"
#include "profile/profile.h"
#include "temporary_folder.h"

using namespace pl;

namespace {

PL_REGISTER_OP(make_turned);
const ProviderRegistration registered("clock", [] { return std::make_unique<ClockProvider>(); });

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Estimates choose way 0.  Way 3 would be faster still, and is wrong.
const std::vector<Offer> kOffers = {{0.10, 1.0}, {0.12, 2.0}, {0.15, 0.4}, {0.13, 0.1, true}, {0.16, 0.9}};
constexpr milliseconds kQuiet(200);
const TensorDesc kDesc = TensorDesc::dense(DType::f32, {2, 3, 4, 5});

struct Fixture {
  std::shared_ptr<Context> context;
  std::shared_ptr<ClockDevice> device = std::make_shared<ClockDevice>();
  std::vector<float> values;
  TensorRef input;

  explicit Fixture(std::vector<Offer> offered, milliseconds each = milliseconds(0), Tuning tuning = Tuning::automatic,
                   const std::string& cache = "/proc/none") {
    offers = std::move(offered);
    compiling = each;
    prepared.clear();
    ContextOptions options;
    options.cache_dir = cache;
    options.without = {"opencl"};
    options.threads = 1;
    options.tuning = tuning;
    context = Context::create(options);
    context->later_measuring().quiet = kQuiet;
    context->add_device(device);
    input = Tensor::allocate(*device, kDesc);
    for (int64_t i = 0; i < kDesc.elements(); ++i) values.push_back(1 + float(i % 11));
    context->write(input, values.data(), kDesc.size_bytes());
  }
  // Whether the result is right.
  bool run(int64_t layer = 0) const {
    Attributes attributes;
    attributes.set(kLayer, layer);
    const TensorRef output = context->run(*find_schema("test_turned"), CallAttributes::parse(attributes), {input})[0];
    std::vector<float> found(values.size());
    context->read(output, found.data(), kDesc.size_bytes());
    for (size_t i = 0; i < values.size(); ++i)
      if (found[i] != -values[i]) return false;
    return true;
  }
  void run_until_settled(int64_t layers = 1) const {
    const auto end = steady_clock::now() + std::chrono::seconds(60);
    while (!context->settled() && steady_clock::now() < end)
      for (int64_t i = 0; i < layers; ++i) REQUIRE(run(i));
    REQUIRE(context->settled());
  }
  EntryRef entry() const {
    for (const EntryRef& each : context->catalog().met(*device))
      if (each->op.schema->kind == "test_turned") return each;
    return nullptr;
  }
  // What one more call takes on the device.
  double ms(int64_t layer = 0) const {
    CHECK(run(layer));
    return last_ms;
  }
};

// What was prepared, by this thread and by others.
std::pair<size_t, size_t> counts() {
  const std::lock_guard<std::mutex> guard(noting);
  size_t here = 0;
  for (const auto& [way, thread] : prepared) here += thread == std::this_thread::get_id();
  return {here, prepared.size() - here};
}

TEST("the_first_call_compiles_one_kernel_and_later_ones_none") {
  const Fixture f(kOffers, milliseconds(20));
  CHECK(f.ms() == 1.0);
  CHECK(counts() == std::make_pair(size_t(1), size_t(0)));
  CHECK(!f.context->settled());
  f.run_until_settled();
  CHECK(f.ms() == 0.4);
  CHECK(counts() == std::make_pair(size_t(1), size_t(4)));
}

// A way whose estimate is less than a time that was found is not taken before its own is known.
TEST("calls_in_between_take_what_ran_or_was_measured") {
  std::vector<Offer> many = {{0.10, 1.0}};
  for (int i = 0; i < 12; ++i) many.push_back({0.11 + 0.001 * i, i == 7 ? 0.3 : 1.5});
  const Fixture f(many, milliseconds(30));
  const auto end = steady_clock::now() + std::chrono::seconds(60);
  do {
    CHECK(f.ms() <= 1.0);
  } while (!f.context->settled() && steady_clock::now() < end);
  CHECK(f.ms() == 0.3);
  CHECK(counts().first == 1);
}

// What is measured is known to the next process, which measures nothing.
TEST("what_was_found_is_kept") {
  const testing::TemporaryFolder folder;
  {
    const Fixture f(kOffers, milliseconds(0), Tuning::automatic, folder.path);
    CHECK(f.run());
    f.run_until_settled();
  }
  const Fixture f(kOffers, milliseconds(0), Tuning::automatic, folder.path);
  CHECK(f.ms() == 0.4);
  CHECK(f.context->settled());
  CHECK(counts() == std::make_pair(size_t(1), size_t(0)));
}

// What the device can do, too: its kernels would have to be compiled.
TEST("rates_are_found_behind_the_calls") {
  const Fixture f(kOffers);
  const Rates nominal;
  CHECK(f.run());
  CHECK(f.context->catalog().rates(*f.device).transfer_overhead_ms == nominal.transfer_overhead_ms);
  f.run_until_settled();
  CHECK(f.context->catalog().rates(*f.device).transfer_overhead_ms != nominal.transfer_overhead_ms);
  CHECK(!f.context->catalog().find_rates(*f.device));
}

TEST("with_other_tuning_nothing_comes_later") {
  const Fixture off(kOffers, milliseconds(0), Tuning::off);
  CHECK(off.ms() == 1.0);
  CHECK(off.context->settled());
  const Fixture full(kOffers, milliseconds(0), Tuning::full);
  CHECK(full.ms() == 0.4);
  CHECK(counts().second == 0);
}

TEST("tuning_that_is_turned_off_ends_it") {
  const Fixture f(kOffers, milliseconds(50));
  CHECK(f.run());
  std::this_thread::sleep_for(kQuiet + milliseconds(20));
  ContextOptions options = f.context->options();
  options.tuning = Tuning::off;
  f.context->set_options(options);
  const auto end = steady_clock::now() + std::chrono::seconds(60);
  const EntryRef entry = f.entry();
  while (entry->open && steady_clock::now() < end) CHECK(f.run());
  CHECK(!entry->open);
  CHECK(f.run());
}

// Of six samples of each way, 20 ms and more, what may be spent at once suffices for three ways.
TEST("what_is_spent_is_bounded") {
  const Fixture f({{20, 20}, {21, 22}, {22, 14}, {23, 26}, {24, 18}});
  const auto began = steady_clock::now();
  CHECK(f.run());
  const auto end = began + std::chrono::seconds(60);
  while (!f.context->settled() && steady_clock::now() < end) std::this_thread::sleep_for(milliseconds(20));
  CHECK(f.context->settled());
  const double took = std::chrono::duration<double, std::milli>(steady_clock::now() - began).count();
  CHECK(took > (6 * (20 + 21 + 22 + 23 + 24) - LaterMeasuring::kMostCreditMs) / LaterMeasuring::kShare);
  CHECK(f.ms() == 14);
}

// Not again and again: what is estimated stays.
TEST("without_memory_for_samples_an_op_is_left_alone") {
  const Fixture f(kOffers);
  CHECK(f.run());
  f.device->release_cache();
  f.device->set_memory_limit(1);
  const auto end = steady_clock::now() + std::chrono::seconds(60);
  while (!f.context->settled() && steady_clock::now() < end) std::this_thread::sleep_for(milliseconds(20));
  f.device->set_memory_limit(0);
  for (int i = 0; i < 3; ++i) CHECK(f.ms() == 1.0);
  CHECK(f.context->settled());
  CHECK(f.entry()->left_alone);
}

TEST("a_profile_shows_no_measuring") {
  const Fixture f(kOffers);
  CHECK(f.run());
  f.context->profile_start();
  std::this_thread::sleep_for(kQuiet + milliseconds(200));
  CHECK(!f.context->settled());
  CHECK(f.run());
  const std::string json = f.context->profile_stop_json();
  CHECK(json.find("way2") == std::string::npos);
  f.run_until_settled();
  CHECK(f.ms() == 0.4);
}

TEST("a_context_ends_in_the_midst") {
  for (int wait : {0, 100, 220, 300}) {
    {
      const Fixture f(kOffers, milliseconds(20));
      CHECK(f.run());
      std::this_thread::sleep_for(milliseconds(wait));
    }
    const auto before = counts();
    std::this_thread::sleep_for(milliseconds(60));
    CHECK(counts() == before);
  }
}

TEST("threads_share_it_and_new_ops_join") {
  const Fixture f(kOffers, milliseconds(5));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  const auto end = steady_clock::now() + std::chrono::seconds(60);
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      int64_t layers = 1;
      while ((!f.context->settled() || layers < 6) && steady_clock::now() < end) {
        for (int64_t i = 0; i < layers; ++i) wrong += !f.run(i);
        if (t == 0 && f.context->settled()) ++layers;
        if (t > 0) layers = 6;
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  f.run_until_settled(6);
  for (int64_t i = 0; i < 6; ++i) CHECK(f.ms(i) == 0.4);
}

}  // namespace
