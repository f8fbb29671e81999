// A device with memory of its own that the host cannot address, and a provider that serves it with one op: what a new
// device needs, and what dispatch and graph do for it by its traits alone.
#include <chrono>

#include "check.h"
#include "device_places.h"
#include "dispatch/context.h"
#include "graph/graph.h"
#include "graph/plan.h"
#include "heap_device.h"

using namespace pl;

namespace {

class HostTiming : public Timing {
 public:
  void stop() override { end_ = std::chrono::steady_clock::now(); }
  double milliseconds() override { return std::chrono::duration<double, std::milli>(end_ - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now(), end_ = start_;
};

// Reads and writes are counted.
class FarDevice : public HeapDevice {
 public:
  using HeapDevice::HeapDevice;
  void read(Buffer& source, size_t offset, void* destination, size_t bytes) override {
    ++reads;
    HeapDevice::read(source, offset, destination, bytes);
  }
  void write(Buffer& destination, size_t offset, const void* source, size_t bytes) override {
    ++writes;
    HeapDevice::write(destination, offset, source, bytes);
  }
  std::unique_ptr<Timing> start_timing() override { return std::make_unique<HostTiming>(); }

  int reads = 0, writes = 0;
};

class Sum : public Kernel {
 public:
  explicit Sum(int64_t count) : count_(count) {}
  void run(const KernelArguments& arguments) override {
    const auto* x = reinterpret_cast<const float*>(FarDevice::at(*arguments.inputs[0]));
    const auto* y = reinterpret_cast<const float*>(FarDevice::at(*arguments.inputs[1]));
    auto* out = reinterpret_cast<float*>(FarDevice::at(*arguments.outputs[0]));
    for (int64_t i = 0; i < count_; ++i) out[i] = x[i] + y[i];
  }

 private:
  int64_t count_;
};

// add of tensors of one shape, in the plain layout.
class FarProvider : public Provider {
 public:
  std::string name() const override { return "far"; }
  std::string version() const override { return "1"; }
  bool serves(const Device& device) const override { return device.fingerprint() == "far"; }
  void list(const Op& op, Device&, CandidateList& out) override {
    if (op.schema->name != "add" || op.in(0).shape != op.in(1).shape || op.in(0).dtype != DType::f32)
      return out.refuse("far", "only add of f32 tensors of one shape");
    Candidate candidate;
    candidate.provider = "far";
    candidate.implementation = "plain";
    for (const TensorDesc& desc : op.inputs) candidate.inputs.push_back(TensorDesc::dense(desc.dtype, desc.shape));
    candidate.outputs = {TensorDesc::dense(op.out().dtype, op.out().shape)};
    const int64_t count = op.out().elements();
    candidate.prepare = [count] { return std::make_unique<Sum>(count); };
    out.add(std::move(candidate));
  }
};

const ProviderRegistration registered("far", [] { return std::make_unique<FarProvider>(); });

struct Fixture {
  Fixture() {
    ContextOptions options;
    options.without = {"opencl"};
    options.threads = 1;
    options.tuning = Tuning::off;
    context = Context::create(options);
    context->add_device(far = std::make_shared<FarDevice>("far:0"));
    context->add_device(other = std::make_shared<FarDevice>("far:1"));
  }
  TensorRef on(Device& device, const std::vector<float>& values) {
    TensorRef tensor = Tensor::allocate(device, TensorDesc::dense(DType::f32, Dims{int64_t(values.size())}));
    context->write(tensor, values.data(), values.size() * sizeof(float));
    return tensor;
  }
  std::vector<float> values(const TensorRef& tensor) {
    std::vector<float> found(size_t(tensor->desc().elements()));
    context->read(tensor, found.data(), found.size() * sizeof(float));
    return found;
  }
  CallRef call() { return CallAttributes::parse({}); }

  std::shared_ptr<Context> context;
  std::shared_ptr<FarDevice> far, other;
};

}  // namespace

TEST("ops run where their inputs lie or on the host") {
  Fixture f;
  const TensorRef x = f.on(*f.far, {1, 2, 3}), y = f.on(*f.far, {10, 20, 30});
  const TensorRef sum = f.context->run(*find_schema("add"), f.call(), {x, y})[0];
  CHECK(&sum->device() == f.far.get());
  CHECK(f.values(sum) == std::vector<float>({11, 22, 33}));
  // What the device has no kernel for runs on the host, and its result comes back.
  const TensorRef negated = f.context->run(*find_schema("neg"), f.call(), {sum})[0];
  CHECK(&negated->device() == f.far.get());
  CHECK(f.values(negated) == std::vector<float>({-11, -22, -33}));
}

TEST("transfers between any two devices") {
  Fixture f;
  const TensorRef x = f.on(*f.far, {1, 2, 3, 4, 5, 6, 7, 8});
  const TensorRef there = Tensor::allocate(*f.other, x->desc());
  transfer(*x->buffer(), 0, *there->buffer(), 0, x->desc().size_bytes());
  CHECK(f.values(there) == f.values(x));
  const TensorRef here = Tensor::allocate(f.context->host(), x->desc());
  transfer(*there->buffer(), 8, *here->buffer(), 4, 12);
  CHECK(static_cast<const float*>(here->buffer()->host())[1] == 3);
  CHECK(static_cast<const float*>(here->buffer()->host())[3] == 5);
  // Within one device nothing passes the host, even where the places overlap.
  f.far->reads = f.far->writes = 0;
  transfer(*x->buffer(), 0, *x->buffer(), 4, 12);
  CHECK(f.far->reads == 0 && f.far->writes == 0);
  CHECK(f.values(x) == std::vector<float>({1, 1, 2, 3, 5, 6, 7, 8}));
}

TEST("single places of a buffer") {
  Fixture f;
  pltest::check_places(*f.far);
  pltest::check_places(f.context->host());
}

TEST("copies and aliased results do not pass the host") {
  Fixture f;
  const TensorRef x = f.on(*f.far, {1, 2, 3}), y = f.on(*f.far, {10, 20, 30});
  const TensorRef copy = Tensor::allocate(*f.far, x->desc());
  f.far->reads = f.far->writes = 0;
  f.context->copy(x, copy);
  f.context->run(*find_schema("add"), f.call(), {x, y}, {x});  // the kernel does not say that it may
  CHECK(f.far->reads == 0 && f.far->writes == 0);
  CHECK(f.values(copy) == std::vector<float>({1, 2, 3}));
  CHECK(f.values(x) == std::vector<float>({11, 22, 33}));
}

TEST("plans run there") {
  Fixture f;
  Graph graph;
  const TensorDesc desc = TensorDesc::dense(DType::f32, Dims{3});
  const ValueId a = graph.input("a", desc), b = graph.input("b", desc);
  const ValueId sum = graph.add(*find_schema("add"), {}, {a, b}, "sum")[0];
  const ValueId root = graph.add(*find_schema("sqrt"), {}, {sum}, "root")[0];
  graph.output(graph.add(*find_schema("add"), {}, {root, b}, "again")[0], "y", std::nullopt);
  PlanOptions options;
  options.device = "far:0";
  options.tuning = Tuning::off;
  const auto plan = Plan::compile(f.context, graph, options);
  const TensorRef x = f.on(*f.far, {1, 2, 3}), y = f.on(*f.far, {8, 7, 6});
  CHECK(f.values(plan->run({x, y}, {})[0]) == std::vector<float>({11, 10, 9}));
}
