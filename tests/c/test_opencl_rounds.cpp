// In which order a plan's ops are prepared and measured on a GPU, where each kernel has to be compiled: first of all
// ops the way that promises most, then others.  On a device that says it were one, with kernels that only count.
#include <mutex>
#include <set>

#include "dispatch/catalog.h"
#include "dispatch/context.h"
#include "dispatch/cost_database.h"
#include "graph/plan.h"
#include "graph_testing.h"
#include "opencl_candidates.h"

using namespace pl;
using namespace pl::testing;

namespace {

// Makes each op another one; no op of the library has it.
constexpr Key<int64_t> kNumber{"number"};

Schema make_counted() {
  Schema schema("test_counted", "test_counted", "y = x");
  schema.tensor("x", "any").attribute(kNumber, int64_t(0), "makes each op another one");
  schema.infer = [](Op& op) { op.outputs = {TensorDesc::dense(op.in(0).dtype, op.in(0).shape)}; };
  return schema;
}
PL_REGISTER_OP(make_counted);

constexpr int kOps = 6, kWays = 3;

std::mutex lock;
std::vector<std::pair<int, int>> prepared;  // op and way, in the order in which they ended

class NoKernel : public Kernel {
 public:
  void run(const KernelArguments&) override {}
};

class CountedProvider : public Provider {
 public:
  std::string name() const override { return "counted"; }
  std::string version() const override { return "1"; }
  bool serves(const Device& device) const override { return !device.traits().threads; }
  bool compiles() const override { return true; }
  void list(const Op& op, Device&, CandidateList& out) override {
    if (op.schema->kind != "test_counted") return;
    const int number = int(op.attributes[kNumber]);
    for (int way = 0; way < kWays; ++way) {
      Candidate candidate;
      candidate.provider = "counted";
      candidate.implementation = concat("way", way);
      candidate.inputs = {op.in(0).with_layout(Layout::plain(op.in(0).rank()))};
      candidate.outputs = {op.out(0)};
      candidate.busy_ms = 1e3 * (1 + 0.1 * way);
      candidate.prepare = [number, way] {
        std::lock_guard<std::mutex> guard(lock);
        prepared.emplace_back(number, way);
        return std::make_unique<NoKernel>();
      };
      out.add(candidate);
    }
  }
};
const ProviderRegistration registered("counted", [] { return std::make_unique<CountedProvider>(); });

TEST("all") {
  Candidates candidates;
  if (candidates.no_devices()) SKIP("no OpenCL device here");
  ContextOptions options;
  options.cache_dir = "/proc/none";
  const auto context = Context::create(options);
  opencl::OpenclDevice* device = nullptr;
  for (const auto& each : context->devices())
    if (!device) device = opencl::as_opencl(*each);
  REQUIRE(device != nullptr);
  opencl::Capabilities can = device->capabilities();
  can.cpu = false;
  can.gpu = true;
  device->pretend(can);
  CHECK(device->traits().gpu);
  // What it would find out by products that are large for a processor.
  const std::string rates = context->catalog().environment(*device, "rates");
  for (const char* rate : {"bytes_per_ms", "large_flops_per_ms", "transfer_bytes_per_ms"})
    context->costs().record(rates, "rates", rate, 1e9);
  for (const char* rate : {"overhead_ms", "transfer_overhead_ms"}) context->costs().record(rates, "rates", rate, 0.01);

  Graph graph;
  ValueId x = graph.input("x", TensorDesc::dense(DType::f32, {4, 16}));
  for (int i = 0; i < kOps; ++i) {
    Attributes attributes;
    attributes.set(kNumber, int64_t(i));
    x = graph.add(*find_schema("test_counted"), attributes, {x}, concat("op", i))[0];
  }
  graph.output(x, "y", std::nullopt);
  PlanOptions how;
  how.device = device->name();
  how.seconds = 20;
  Plan::compile(context, graph, how);

  REQUIRE(prepared.size() >= size_t(kOps));
  std::set<int> first;
  for (int i = 0; i < kOps; ++i) {
    CHECK(prepared[size_t(i)].second == 0);
    first.insert(prepared[size_t(i)].first);
  }
  REQUIRE(first.size() == size_t(kOps));
}

}  // namespace
